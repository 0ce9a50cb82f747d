//! A small pool of threads that run file commands by ordinary system calls: everything for the thread
//! driver, and for the io_uring driver the requests that block-device `ioctl`s or fallbacks need.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use lode_types::CommandKind;
use rustix::io::Errno;

use crate::blocking;
use crate::file::RealFile;
use crate::op::{Payload, payload_of};
use crate::outbox::Outbox;
use crate::waker::Waker;

/// The largest number of threads a driver starts. They start when there is work for them.
pub const POOL_THREADS: usize = 4;

/// A checked command on a file.
pub(crate) struct FileJob {
    pub token: u64,
    pub due: Option<Instant>,
    pub file: Arc<RealFile>,
    pub kind: CommandKind,
}

/// A question, checked, which of these bytes of a file are allocated.
pub(crate) struct MapJob {
    pub token: u64,
    pub file: Arc<RealFile>,
    pub bytes: Range<u64>,
}

/// What a thread of the pool may have to do.
pub(crate) enum Job {
    File(FileJob),
    Map(MapJob),
}

impl From<FileJob> for Job {
    fn from(job: FileJob) -> Job {
        Job::File(job)
    }
}

impl From<MapJob> for Job {
    fn from(job: MapJob) -> Job {
        Job::Map(job)
    }
}

struct Finished {
    token: u64,
    due: Option<Instant>,
    payload: Payload,
    result: Result<usize, Errno>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle_threads: usize,
    closing: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    finished: Mutex<Vec<Finished>>,
    waker: Waker,
}

pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// No lock here is held while anything can panic, so a poisoned one is still good.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// A pool without threads yet. The waker is signalled whenever a job has finished.
    pub fn new(waker: Waker) -> Pool {
        let (queue, finished) = (Mutex::default(), Mutex::default());
        Pool {
            shared: Arc::new(Shared { queue, changed: Condvar::new(), finished, waker }),
            threads: Vec::new(),
        }
    }

    pub fn start(&mut self, job: impl Into<Job>) {
        let mut queue = locked(&self.shared.queue);
        queue.jobs.push_back(job.into());
        let short = queue.jobs.len() > queue.idle_threads;
        drop(queue);
        if short && self.threads.len() < POOL_THREADS {
            self.spawn();
        }
        self.shared.changed.notify_one();
    }

    fn spawn(&mut self) {
        let shared = Arc::clone(&self.shared);
        let name = "lode-media".to_string();
        match std::thread::Builder::new().name(name).spawn(move || shared.work()) {
            Ok(thread) => self.threads.push(thread),
            // The threads there are will do the job; if there is none, the caller does it.
            Err(_) if !self.threads.is_empty() => {}
            Err(_) => {
                while let Some(job) = self.shared.take_now() {
                    self.shared.run(job);
                }
            }
        }
    }

    /// Reports what has finished.
    pub fn collect(&mut self, outbox: &mut Outbox) {
        let finished = std::mem::take(&mut *locked(&self.shared.finished));
        for Finished { token, due, payload, result } in finished {
            outbox.finish(token, due, result, payload);
        }
    }
}

impl Drop for Pool {
    /// Jobs that have not begun are dropped; those that have are waited for, since the kernel uses their
    /// buffers.
    fn drop(&mut self) {
        let mut queue = locked(&self.shared.queue);
        queue.closing = true;
        queue.jobs.clear();
        drop(queue);
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing left to wait for.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        while let Some(job) = self.take() {
            self.run(job);
        }
    }

    fn take_now(&self) -> Option<Job> {
        locked(&self.queue).jobs.pop_front()
    }

    /// The next job, or none when the pool closes.
    fn take(&self) -> Option<Job> {
        let mut queue = locked(&self.queue);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closing {
                return None;
            }
            queue.idle_threads += 1;
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle_threads -= 1;
        }
    }

    fn run(&self, job: Job) {
        // Files are dropped before the end is reported, so that one whose last job is reported is closed if it was removed.
        let finished = match job {
            Job::File(FileJob { token, due, file, mut kind }) => {
                let result = blocking::carry_out(&file, &mut kind);
                Finished { token, due, payload: payload_of(kind), result }
            }
            Job::Map(MapJob { token, file, bytes }) => {
                let (result, payload) = match blocking::map(&file, &bytes) {
                    Ok(extents) => (Ok(0), Payload::FileExtents(extents)),
                    Err(errno) => (Err(errno), Payload::None),
                };
                Finished { token, due: None, payload, result }
            }
        };
        locked(&self.finished).push(finished);
        self.waker.signal();
    }
}
