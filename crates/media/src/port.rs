//! What all drivers have in common: the tables of files and sockets, the checks before a command reaches a
//! device, and the waiting. It must not know how bytes are moved.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lode_types::{Buf, CommandKind};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::driver::Driver;
use crate::error::MediaFault;
use crate::file::MediaFile;
use crate::op::{Done, FileId, Message, Payload, SocketId, payload_of};
use crate::outbox::Outbox;
use crate::pool::{FileJob, MapJob};
use crate::socket::{RecvJob, SendJob, Socket};
use crate::table::Table;
use crate::waker::Waker;

/// Longer waits are cut into pieces of this length, which every system call's timeout can hold.
const MAX_PAUSE: Duration = Duration::from_secs(3600);

/// How bytes are moved: the part that differs between drivers.
pub(crate) trait Backend {
    /// Puts a new socket into the mode (blocking or not) that this backend needs.
    fn prepare(&self, socket: &OwnedFd) -> Result<(), Errno>;
    /// Begins a checked command on a real file.
    fn start_file(&mut self, job: FileJob);
    /// Begins to look what of a real file is allocated.
    fn start_map(&mut self, job: MapJob);
    /// Begins a receive; no other is under way on the socket.
    fn start_recv(&mut self, socket: Rc<Socket>, job: RecvJob);
    /// Begins a send; no other is under way on the socket.
    fn start_send(&mut self, socket: Rc<Socket>, job: SendJob);
    /// Submits what has begun, waits at most `pause` for something to end or a wake-up, and reports what
    /// ended. May return early with nothing. Returns whether it was woken.
    fn turn(&mut self, pause: Option<Duration>, outbox: &mut Outbox) -> Result<bool, MediaFault>;
    /// Wakes a `turn` under way.
    fn waker(&self) -> Waker;
}

/// A driver over a backend.
pub(crate) struct Port<B> {
    backend: B,
    files: Table<MediaFile>,
    sockets: Table<Rc<Socket>>,
    outbox: Outbox,
}

impl<B: Backend> Port<B> {
    pub fn new(backend: B) -> Port<B> {
        Port { backend, files: Table::new(), sockets: Table::new(), outbox: Outbox::default() }
    }

    /// How long the backend may sleep: until the deadline, or the next completion held back is due.
    fn pause(&self, deadline: Option<Instant>) -> Option<Duration> {
        let until = match (deadline, self.outbox.next_due()) {
            (Some(deadline), Some(due)) => deadline.min(due),
            (deadline, due) => deadline.or(due)?,
        };
        Some(until.saturating_duration_since(Instant::now()).min(MAX_PAUSE))
    }
}

impl<B: Backend> Driver for Port<B> {
    fn add_file(&mut self, file: MediaFile) -> FileId {
        FileId(self.files.insert(file))
    }

    fn remove_file(&mut self, file: FileId) {
        self.files.remove(file.0);
    }

    fn add_socket(&mut self, socket: OwnedFd) -> SocketId {
        let prepared = self.backend.prepare(&socket);
        let socket = Socket::new(socket);
        if prepared.is_err() {
            // Whatever it is, it cannot be driven: let everything on it fail.
            socket.hang_up();
        }
        SocketId(self.sockets.insert(Rc::new(socket)))
    }

    fn remove_socket(&mut self, socket: SocketId) {
        if let Some(socket) = self.sockets.remove(socket.0) {
            socket.hang_up();
        }
    }

    fn submit(&mut self, token: u64, file: FileId, mut kind: CommandKind) {
        let Some(file) = self.files.get(file.0) else {
            return self.outbox.finish(token, None, Err(Errno::NODEV), payload_of(kind));
        };
        if let Some(outcome) = file.check(&kind) {
            return self.outbox.finish(token, None, outcome, payload_of(kind));
        }
        let due = file.due(&kind);
        file.real().align(&mut kind);
        self.backend.start_file(FileJob { token, due, file: Arc::clone(file.real()), kind });
    }

    fn map(&mut self, token: u64, file: FileId, bytes: Range<u64>) {
        let refused = |errno, outbox: &mut Outbox| outbox.finish(token, None, Err(errno), Payload::None);
        let Some(file) = self.files.get(file.0) else { return refused(Errno::NODEV, &mut self.outbox) };
        if bytes.is_empty() || bytes.end > file.size_bytes() {
            return refused(Errno::INVAL, &mut self.outbox);
        }
        self.backend.start_map(MapJob { token, file: Arc::clone(file.real()), bytes });
    }

    fn receive(&mut self, token: u64, socket: SocketId, buf: Buf, range: Range<usize>, all: bool) {
        let refused =
            |errno, outbox: &mut Outbox, buf| outbox.finish(token, None, Err(errno), Payload::Buf(buf));
        let Some(socket) = self.sockets.get(socket.0) else {
            return refused(Errno::CANCELED, &mut self.outbox, buf);
        };
        if range.is_empty() || range.end > buf.len() {
            // The completion of an empty one could not be told from the peer's closing.
            return refused(Errno::INVAL, &mut self.outbox, buf);
        }
        if let Some(job) = socket.admit_recv(RecvJob { token, buf, range, all, received_bytes: 0 }) {
            self.backend.start_recv(Rc::clone(socket), job);
        }
    }

    fn send(&mut self, token: u64, socket: SocketId, message: Message) {
        let job = SendJob::new(token, message);
        let refusal = match self.sockets.get(socket.0) {
            None => Err(Errno::CANCELED),
            Some(socket) if socket.is_broken() => Err(Errno::PIPE),
            Some(_) if job.total_bytes == 0 => Ok(0),
            Some(socket) => {
                if let Some(job) = socket.admit_send(job) {
                    self.backend.start_send(Rc::clone(socket), job);
                }
                return;
            }
        };
        self.outbox.finish(token, None, refusal, Payload::Message(job.message));
    }

    fn wait(&mut self, timeout: Option<Duration>, done: &mut Vec<Done>) -> Result<(), MediaFault> {
        // A timeout beyond the clock's range is no timeout.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let before = done.len();
        self.outbox.hand_out(done);
        let mut pause = if done.len() > before { Some(Duration::ZERO) } else { self.pause(deadline) };
        loop {
            let woken = self.backend.turn(pause, &mut self.outbox)?;
            self.outbox.hand_out(done);
            let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if woken || late || done.len() > before {
                return Ok(());
            }
            pause = self.pause(deadline);
        }
    }

    fn waker(&self) -> Waker {
        self.backend.waker()
    }
}
