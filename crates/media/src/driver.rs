//! The completion interface of a shard thread, and the choice between its implementations.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use lode_types::{Buf, CommandKind};
use rustix::fd::OwnedFd;

use crate::error::MediaFault;
use crate::file::MediaFile;
use crate::op::{Done, FileId, Message, SocketId};
use crate::port::Port;
use crate::spin::Spin;
use crate::threads::Threads;
use crate::uring::Uring;
use crate::waker::Waker;

/// Moves bytes for one thread. Every operation submitted comes back exactly once from `wait`, unless the
/// driver is dropped first.
///
/// Dropping a driver hangs up its sockets and ends or waits for what is in flight; its completions are lost.
pub trait Driver {
    /// Adds a file.
    fn add_file(&mut self, file: MediaFile) -> FileId;

    /// Removes a file. Operations in flight finish and are reported; later ones fail with
    /// [`Gone`](lode_types::MediaError::Gone). The file is closed when the last has finished.
    fn remove_file(&mut self, file: FileId);

    /// Adds a connected stream socket. Its blocking mode is the driver's business from here on.
    fn add_socket(&mut self, socket: OwnedFd) -> SocketId;

    /// Hangs up and removes a socket. Operations in flight end soon, usually with
    /// [`Gone`](lode_types::MediaError::Gone), as do later ones.
    fn remove_socket(&mut self, socket: SocketId);

    /// Queues a command on a file. Commands run in any order; what must be ordered waits for a completion. Reading or
    /// writing beyond the file's size fails; a trim is advisory, and trims only whole logical blocks. No system call is
    /// made before `wait`, but a pool thread may begin at once.
    fn submit(&mut self, token: u64, file: FileId, command: CommandKind);

    /// Asks which of these bytes of a file are allocated. What is told may end before they do, and is at least one extent. Of
    /// what cannot tell, such as a block device, all is taken to be.
    fn map(&mut self, token: u64, file: FileId, bytes: Range<u64>);

    /// Queues a receive into `range` of `buf`: of at least one byte, or with `all` of the whole range. Fewer, or zero
    /// bytes: the peer closed. Receives on a socket run in the order in which they were queued.
    fn receive(&mut self, token: u64, socket: SocketId, buf: Buf, range: Range<usize>, all: bool);

    /// Queues a send of the whole message; it is over when the kernel has taken the last byte. Sends on a socket run in
    /// the order in which they were queued.
    fn send(&mut self, token: u64, socket: SocketId, message: Message);

    /// Submits what is queued and waits for at least one completion, the timeout, or a wake-up. Completions
    /// are appended to `done`, which stays as it was on a timeout or wake-up.
    ///
    /// Fails only when the driver itself is broken; then nothing more can be expected of it.
    fn wait(&mut self, timeout: Option<Duration>, done: &mut Vec<Done>) -> Result<(), MediaFault>;

    /// Something that makes `wait` return, for other threads.
    fn waker(&self) -> Waker;
}

/// Which driver to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverChoice {
    /// io_uring (one system call submits and waits), or threads where the host refuses it.
    #[default]
    Auto,
    /// io_uring or nothing.
    Uring,
    /// A few threads for files, `poll` for sockets.
    Threads,
}

/// Which driver was opened. Its text is one line for the log.
#[derive(Debug)]
pub enum Which {
    /// io_uring, with these set-up flags accepted by the kernel.
    Uring {
        /// Names of the flags.
        flags: &'static str,
    },
    /// Threads.
    Threads {
        /// Why io_uring was not used, if it was tried.
        refused: Option<MediaFault>,
    },
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Which::Uring { flags } => write!(f, "io_uring ({flags})"),
            Which::Threads { refused: None } => f.write_str("threads"),
            Which::Threads { refused: Some(fault) } => write!(f, "threads, slower than io_uring. {fault}"),
        }
    }
}

/// A driver of either kind, without dynamic dispatch.
pub struct AnyDriver(Kind);

enum Kind {
    Uring(Box<Port<Uring>>),
    Threads(Box<Port<Threads>>),
}

/// The usual `spin_limit` of [`open_driver`]: longer than a wake-up, shorter than what a host would miss.
pub const SPIN_LIMIT: Duration = Duration::from_micros(50);

/// Opens a driver. Before it sleeps, io_uring looks for completions for up to `spin_limit` as long as they come that
/// fast; zero: it always sleeps. To be called on the thread that will use it: io_uring serves the thread that set it up,
/// and the driver cannot be sent to another.
pub fn open_driver(choice: DriverChoice, spin_limit: Duration) -> Result<(AnyDriver, Which), MediaFault> {
    open_with(choice, || Uring::open(Spin::new(spin_limit)))
}

fn open_with(
    choice: DriverChoice,
    open_uring: impl FnOnce() -> Result<(Uring, &'static str), MediaFault>,
) -> Result<(AnyDriver, Which), MediaFault> {
    let refused = match choice {
        DriverChoice::Threads => None,
        DriverChoice::Auto | DriverChoice::Uring => match open_uring() {
            Ok((uring, flags)) => {
                let driver = AnyDriver(Kind::Uring(Box::new(Port::new(uring))));
                return Ok((driver, Which::Uring { flags }));
            }
            Err(fault) if choice == DriverChoice::Uring => return Err(fault),
            Err(fault) => Some(fault),
        },
    };
    let driver = AnyDriver(Kind::Threads(Box::new(Port::new(Threads::open()?))));
    Ok((driver, Which::Threads { refused }))
}

/// Calls a method of whichever driver it is.
macro_rules! either {
    ($any:expr, $driver:ident => $call:expr) => {
        match $any {
            Kind::Uring($driver) => $call,
            Kind::Threads($driver) => $call,
        }
    };
}

impl Driver for AnyDriver {
    fn add_file(&mut self, file: MediaFile) -> FileId {
        either!(&mut self.0, driver => driver.add_file(file))
    }

    fn remove_file(&mut self, file: FileId) {
        either!(&mut self.0, driver => driver.remove_file(file));
    }

    fn add_socket(&mut self, socket: OwnedFd) -> SocketId {
        either!(&mut self.0, driver => driver.add_socket(socket))
    }

    fn remove_socket(&mut self, socket: SocketId) {
        either!(&mut self.0, driver => driver.remove_socket(socket));
    }

    fn submit(&mut self, token: u64, file: FileId, command: CommandKind) {
        either!(&mut self.0, driver => driver.submit(token, file, command));
    }

    fn map(&mut self, token: u64, file: FileId, bytes: Range<u64>) {
        either!(&mut self.0, driver => driver.map(token, file, bytes));
    }

    fn receive(&mut self, token: u64, socket: SocketId, buf: Buf, range: Range<usize>, all: bool) {
        either!(&mut self.0, driver => driver.receive(token, socket, buf, range, all));
    }

    fn send(&mut self, token: u64, socket: SocketId, message: Message) {
        either!(&mut self.0, driver => driver.send(token, socket, message));
    }

    fn wait(&mut self, timeout: Option<Duration>, done: &mut Vec<Done>) -> Result<(), MediaFault> {
        either!(&mut self.0, driver => driver.wait(timeout, done))
    }

    fn waker(&self) -> Waker {
        either!(&self.0, driver => driver.waker())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FaultKind;

    fn refuse() -> Result<(Uring, &'static str), MediaFault> {
        Err(MediaFault::new(FaultKind::Denied, "Not on this host"))
    }

    #[test]
    fn falls_back_only_when_it_may_and_says_why() {
        let (mut driver, which) = open_with(DriverChoice::Auto, refuse).unwrap();
        assert!(matches!(which, Which::Threads { refused: Some(_) }));
        assert!(which.to_string().contains("Not on this host"));
        driver.wait(Some(Duration::ZERO), &mut Vec::new()).unwrap();
        assert!(open_with(DriverChoice::Uring, refuse).is_err());
        let (_, which) = open_with(DriverChoice::Threads, refuse).unwrap();
        assert!(matches!(which, Which::Threads { refused: None }));
    }
}
