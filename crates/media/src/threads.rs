//! The backend for hosts that refuse io_uring: files on a pool of threads, sockets by `poll` on the
//! driver's own thread.

use std::io::IoSlice;
use std::rc::Rc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, ioctl_fionbio, read};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};

use crate::error::MediaFault;
use crate::op::MAX_VECTORS;
use crate::outbox::Outbox;
use crate::pool::{FileJob, MapJob, Pool};
use crate::port::Backend;
use crate::socket::{RecvJob, SendJob, Socket};
use crate::waker::Waker;

pub(crate) struct Threads {
    pool: Pool,
    waker: Waker,
    receiving: Vec<(Rc<Socket>, RecvJob)>,
    sending: Vec<(Rc<Socket>, SendJob)>,
}

impl Threads {
    pub fn open() -> Result<Threads, MediaFault> {
        let waker = Waker::new(true)?;
        let pool = Pool::new(waker.clone());
        Ok(Threads { pool, waker, receiving: Vec::new(), sending: Vec::new() })
    }

    /// Which of the waker, the receives and the sends (in this order) can go on.
    fn poll(&self, pause: Option<Duration>) -> Result<Vec<bool>, MediaFault> {
        let event = self.waker.event();
        let mut polled = Vec::with_capacity(1 + self.receiving.len() + self.sending.len());
        polled.push(PollFd::from_borrowed_fd(event, PollFlags::IN));
        polled.extend(self.receiving.iter().map(|(socket, _)| PollFd::new(&socket.fd, PollFlags::IN)));
        polled.extend(self.sending.iter().map(|(socket, _)| PollFd::new(&socket.fd, PollFlags::OUT)));
        let timeout = pause.map(|pause| Timespec {
            // Pauses are bounded by the caller, far inside the field's range.
            tv_sec: pause.as_secs() as i64,
            tv_nsec: pause.subsec_nanos().into(),
        });
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) => Ok(polled.iter().map(|entry| !entry.revents().is_empty()).collect()),
            Err(Errno::INTR) => Ok(vec![false; polled.len()]),
            Err(errno) => Err(MediaFault::system("Cannot wait for sockets; restart the service", errno)),
        }
    }
}

impl Backend for Threads {
    fn prepare(&self, socket: &OwnedFd) -> Result<(), Errno> {
        ioctl_fionbio(socket, true)
    }

    fn start_file(&mut self, job: FileJob) {
        self.pool.start(job);
    }

    fn start_map(&mut self, job: MapJob) {
        self.pool.start(job);
    }

    fn start_recv(&mut self, socket: Rc<Socket>, job: RecvJob) {
        self.receiving.push((socket, job));
    }

    fn start_send(&mut self, socket: Rc<Socket>, job: SendJob) {
        self.sending.push((socket, job));
    }

    fn turn(&mut self, pause: Option<Duration>, outbox: &mut Outbox) -> Result<bool, MediaFault> {
        let ready = self.poll(pause)?;
        let (signalled, sockets) = (ready[0], &ready[1..]);
        let mut asked = false;
        if signalled {
            // Cannot fail: the event was readable, and only this thread reads it.
            let _ = read(self.waker.event(), &mut [0u8; 8]);
            asked = self.waker.seen();
            self.pool.collect(outbox);
        }
        let (can_receive, can_send) = sockets.split_at(self.receiving.len());
        let receiving = std::mem::take(&mut self.receiving);
        for ((socket, job), ready) in receiving.into_iter().zip(can_receive) {
            let next = if *ready { go_on_receiving(&socket, job, outbox) } else { Some(job) };
            self.receiving.extend(next.map(|job| (socket, job)));
        }
        let sending = std::mem::take(&mut self.sending);
        for ((socket, job), ready) in sending.into_iter().zip(can_send) {
            let next = if *ready { go_on_sending(&socket, job, outbox) } else { Some(job) };
            self.sending.extend(next.map(|job| (socket, job)));
        }
        Ok(asked)
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let receiving = self.receiving.iter().map(|(socket, _)| socket);
        for socket in receiving.chain(self.sending.iter().map(|(socket, _)| socket)) {
            socket.hang_up();
        }
    }
}

/// Receives what is there. Returns the job that waits for the socket next.
fn go_on_receiving(socket: &Socket, mut job: RecvJob, outbox: &mut Outbox) -> Option<RecvJob> {
    loop {
        match recv(&socket.fd, job.rest(), RecvFlags::empty()) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Some(job),
            Err(errno) => return socket.end_recv(job, Err(errno), outbox),
            Ok((received_bytes, _)) if job.note(received_bytes) => {
                return socket.end_recv(job, Ok(()), outbox);
            }
            Ok(_) => {}
        }
    }
}

/// Sends what the kernel takes. Returns the job that waits for the socket next.
fn go_on_sending(socket: &Socket, mut job: SendJob, outbox: &mut Outbox) -> Option<SendJob> {
    while job.sent_bytes < job.total_bytes {
        let slices: Vec<IoSlice<'_>> = job.rest().take(MAX_VECTORS).map(IoSlice::new).collect();
        let mut control = SendAncillaryBuffer::default();
        match sendmsg(&socket.fd, &slices, &mut control, SendFlags::NOSIGNAL) {
            Ok(sent) => job.sent_bytes += sent,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Some(job),
            Err(errno) => return socket.end_send(job, Err(errno), outbox),
        }
    }
    socket.end_send(job, Ok(()), outbox)
}
