//! Wakes a waiting driver from another thread, with at most one system call however many wake it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

use crate::error::MediaFault;

struct Shared {
    event: OwnedFd,
    /// Set from the first signal until the waiting thread has seen it.
    pending: AtomicBool,
    /// Whether somebody outside asked, rather than the driver's own threads.
    asked: AtomicBool,
}

/// Makes the driver's next (or current) `wait` return. Harmless once the driver is gone.
#[derive(Clone)]
pub struct Waker(Arc<Shared>);

impl Waker {
    /// `nonblocking` suits a driver that polls the event; a driver that reads it asynchronously wants the
    /// read to wait.
    pub(crate) fn new(nonblocking: bool) -> Result<Waker, MediaFault> {
        let mut flags = EventfdFlags::CLOEXEC;
        flags.set(EventfdFlags::NONBLOCK, nonblocking);
        let event = eventfd(0, flags).map_err(|errno| {
            MediaFault::system("Cannot create an event descriptor; raise the open files limit", errno)
        })?;
        Ok(Waker(Arc::new(Shared { event, pending: AtomicBool::new(false), asked: AtomicBool::new(false) })))
    }

    /// Wakes the driver. Whatever the caller published before is visible to the thread that `wait`s.
    pub fn wake(&self) {
        self.0.asked.store(true, Ordering::Release);
        self.signal();
    }

    /// Makes the driver look at what its threads have finished; its `wait` need not return.
    pub(crate) fn signal(&self) {
        if !self.0.pending.swap(true, Ordering::AcqRel) {
            // Any number but zero will do, so its byte order does not matter. The write fails only when the
            // counter would overflow, and then a wake-up is under way.
            let _ = rustix::io::write(&self.0.event, &1u64.to_le_bytes());
        }
    }

    /// To be called after the event was read and before looking at what others published. Returns whether
    /// somebody asked for `wait` to return.
    pub(crate) fn seen(&self) -> bool {
        self.0.pending.swap(false, Ordering::AcqRel);
        self.0.asked.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}
