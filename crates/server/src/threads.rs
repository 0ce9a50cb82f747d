//! The shard threads as the control thread sees them: starting, talking to, joining.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use lode_media::{DriverChoice, MediaFault, Waker, open_driver};

use crate::config::Config;
use crate::error::{ServerError, ServerErrorKind};
use crate::events::Events;
use crate::messages::ToShard;
use crate::shard::{Ended, Shard, ShardContext};
use crate::space::SpaceOfShard;
use crate::start::Prepared;

/// VMs of a shard, with the number of connections to each.
pub(crate) type ShardVms = Vec<(Prepared, Arc<AtomicU32>)>;

/// What sends messages to a shard thread.
#[derive(Clone)]
pub(crate) struct Messenger {
    sender: Sender<ToShard>,
    waker: Waker,
}

impl Messenger {
    /// Sends a message and makes sure that it is seen soon.
    pub(crate) fn tell(&self, message: ToShard) {
        // Fails only when the thread has ended, which is noticed elsewhere.
        if self.sender.send(message).is_ok() {
            self.waker.wake();
        }
    }
}

/// A running shard thread.
pub(crate) struct ShardThread {
    number: usize,
    messenger: Messenger,
    thread: JoinHandle<Result<Ended, MediaFault>>,
    /// Blocks that the stop still has to write back.
    draining_blocks: Arc<AtomicU64>,
    /// Hangs up when the thread ends, for whatever reason.
    alive: UnixStream,
}

impl ShardThread {
    /// Starts a thread, and waits until its driver is open.
    pub(crate) fn start(
        number: usize,
        config: &Config,
        vms: ShardVms,
        events: Events,
        space: Option<SpaceOfShard>,
    ) -> Result<ShardThread, ServerError> {
        let failed = |error| {
            let what = format!("Cannot start shard {number}; raise the limits of open files and threads");
            ServerError::because(ServerErrorKind::Thread, what, error)
        };
        let (alive, theirs) = UnixStream::pair().map_err(failed)?;
        let (sender, inbox) = channel();
        let (ready, opened) = channel();
        let draining_blocks = Arc::new(AtomicU64::new(0));
        let context =
            ShardContext { number, events, inbox, space, draining_blocks: Arc::clone(&draining_blocks) };
        let (io, spin_limit) = (config.io, config.spin_limit);
        let body = move || {
            let _alive = theirs;
            run(context, (io, spin_limit), vms, &ready)
        };
        let thread =
            std::thread::Builder::new().name(format!("shard-{number}")).spawn(body).map_err(failed)?;
        match opened.recv() {
            Ok(waker) => {
                let messenger = Messenger { sender, waker };
                Ok(ShardThread { number, messenger, thread, alive, draining_blocks })
            }
            Err(_) => Err(match thread.join() {
                Ok(Err(fault)) => fault.into(),
                _ => ended(number),
            }),
        }
    }

    /// Sends a message and makes sure that it is seen soon.
    pub(crate) fn tell(&self, message: ToShard) {
        self.messenger.tell(message);
    }

    pub(crate) fn messenger(&self) -> Messenger {
        self.messenger.clone()
    }

    /// Blocks that the stop still has to write back.
    pub(crate) fn draining_blocks(&self) -> u64 {
        self.draining_blocks.load(Ordering::Relaxed)
    }

    /// Waits for the end of the thread.
    pub(crate) fn join(self) -> Result<Ended, ServerError> {
        match self.thread.join() {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(ended(self.number)),
        }
    }
}

impl AsFd for ShardThread {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.alive.as_fd()
    }
}

fn run(
    context: ShardContext,
    (io, spin_limit): (DriverChoice, Duration),
    vms: ShardVms,
    ready: &Sender<Waker>,
) -> Result<Ended, MediaFault> {
    let (driver, which) = open_driver(io, spin_limit)?;
    let names: Vec<_> = vms.iter().map(|(vm, _)| vm.export.name()).collect();
    tracing::info!("Shard {} serves {}; {which}", context.number, names.join(", "));
    // The other side waits for it, unless the whole start has failed.
    let _ = ready.send(lode_media::Driver::waker(&driver));
    Shard::new(context, driver, vms).run()
}

fn ended(number: usize) -> ServerError {
    let text = format!("Shard {number} ended unexpectedly; report what the log says above, and start again");
    ServerError::new(ServerErrorKind::Thread, text)
}
