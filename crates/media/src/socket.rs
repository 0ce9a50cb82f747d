//! Stream sockets and the order of what happens on them: one send and one receive at a time each, the
//! rest queued behind. It must not know how a driver moves the bytes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;

use lode_types::Buf;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use crate::op::{Message, Payload};
use crate::outbox::Outbox;

pub(crate) struct RecvJob {
    pub token: u64,
    pub buf: Buf,
    /// Where in the buffer the bytes go.
    pub range: Range<usize>,
    /// Whether less than the range will not do.
    pub all: bool,
    /// Bytes that came in so far.
    pub received_bytes: usize,
}

impl RecvJob {
    /// What is still to be filled.
    pub fn rest(&mut self) -> &mut [u8] {
        &mut self.buf.as_mut_slice()[self.range.start + self.received_bytes..self.range.end]
    }

    /// Notes what came in. True: the receive is over.
    pub fn note(&mut self, received_bytes: usize) -> bool {
        self.received_bytes += received_bytes;
        received_bytes == 0 || !self.all || self.received_bytes == self.range.len()
    }
}

pub(crate) struct SendJob {
    pub token: u64,
    pub message: Message,
    /// Bytes that the kernel has taken so far.
    pub sent_bytes: usize,
    pub total_bytes: usize,
}

impl SendJob {
    pub fn new(token: u64, message: Message) -> SendJob {
        let total_bytes = message.len();
        SendJob { token, message, sent_bytes: 0, total_bytes }
    }

    /// The slices not sent yet, in order.
    pub fn rest(&self) -> impl Iterator<Item = &[u8]> {
        let mut skip = self.sent_bytes;
        self.message.slices().filter_map(move |bytes| {
            let skipped = bytes.len().min(skip);
            skip -= skipped;
            (skipped < bytes.len()).then(|| &bytes[skipped..])
        })
    }
}

/// Jobs of one direction: one under way, the others waiting.
struct Lane<J> {
    busy: bool,
    waiting: VecDeque<J>,
}

impl<J> Lane<J> {
    fn new() -> RefCell<Lane<J>> {
        RefCell::new(Lane { busy: false, waiting: VecDeque::new() })
    }

    /// The job back if it may begin; else it is queued.
    fn admit(&mut self, job: J) -> Option<J> {
        if self.busy {
            self.waiting.push_back(job);
            return None;
        }
        self.busy = true;
        Some(job)
    }

    /// The job under way has ended; the next one to begin.
    fn release(&mut self) -> Option<J> {
        let next = self.waiting.pop_front();
        self.busy = next.is_some();
        next
    }
}

/// A socket of a driver. Closed when the last job on it has ended.
pub(crate) struct Socket {
    pub fd: OwnedFd,
    removed: Cell<bool>,
    /// A send failed half-way: the peer cannot make sense of anything that follows.
    broken: Cell<bool>,
    receiving: RefCell<Lane<RecvJob>>,
    sending: RefCell<Lane<SendJob>>,
}

impl Socket {
    pub fn new(fd: OwnedFd) -> Socket {
        let (removed, broken) = (Cell::new(false), Cell::new(false));
        Socket { fd, removed, broken, receiving: Lane::new(), sending: Lane::new() }
    }

    /// Makes jobs under way end soon, and those that follow fail.
    pub fn hang_up(&self) {
        self.removed.set(true);
        // Fails when the peer has gone already, which ends the jobs just as well.
        let _ = shutdown(&self.fd, Shutdown::Both);
    }

    pub fn admit_recv(&self, job: RecvJob) -> Option<RecvJob> {
        self.receiving.borrow_mut().admit(job)
    }

    pub fn admit_send(&self, job: SendJob) -> Option<SendJob> {
        self.sending.borrow_mut().admit(job)
    }

    /// Reports the end of the receive under way and returns the next one to begin.
    pub fn end_recv(&self, job: RecvJob, result: Result<(), Errno>, outbox: &mut Outbox) -> Option<RecvJob> {
        let result = match result.map(|()| job.received_bytes) {
            Ok(0) if self.removed.get() => Err(Errno::CANCELED),
            result => result,
        };
        outbox.finish(job.token, None, result, Payload::Buf(job.buf));
        self.receiving.borrow_mut().release()
    }

    /// Reports the end of the send under way and returns the next one to begin. After a failed send those
    /// waiting fail too.
    pub fn end_send(&self, job: SendJob, result: Result<(), Errno>, outbox: &mut Outbox) -> Option<SendJob> {
        let result = match result {
            Err(_) if self.removed.get() => Err(Errno::CANCELED),
            result => result,
        };
        self.broken.set(self.broken.get() || result.is_err());
        outbox.finish(job.token, None, result.map(|()| job.total_bytes), Payload::Message(job.message));
        let mut sending = self.sending.borrow_mut();
        let next = sending.release();
        if !self.broken.get() {
            return next;
        }
        for job in next.into_iter().chain(sending.waiting.drain(..)) {
            outbox.finish(job.token, None, Err(Errno::PIPE), Payload::Message(job.message));
        }
        sending.busy = false;
        None
    }

    /// Whether an earlier send failed.
    pub fn is_broken(&self) -> bool {
        self.broken.get()
    }
}
