//! Work that is known beforehand, by several threads: two pieces of it, or a list of jobs that do not depend on each other.
//! Streams of work are for [`crate::pool`]. It must not know what the work is.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use lode_reuse::{Both, InTurn};

use crate::pool::BlockAccess;

/// Does two pieces of work at the same time, the second on this thread. A panic of either is a panic here.
pub(crate) fn at_once<A: Send, B>(one: impl FnOnce() -> A + Send, here: impl FnOnce() -> B) -> (A, B) {
    thread::scope(|scope| {
        let one = scope.spawn(one);
        let here = here();
        (one.join().unwrap_or_else(|panic| resume_unwind(panic)), here)
    })
}

/// Accesses whose work is worth a thread of its own.
const WORTH_A_THREAD: usize = 1 << 15;

/// Threads that are left when every VM has one: each VM may then do two parts of its work at once.
#[derive(Debug)]
pub(crate) struct Spare {
    threads: usize,
    vms: AtomicUsize,
}

impl Spare {
    /// What so many threads leave for no VM yet.
    pub(crate) fn of(threads: usize) -> Arc<Spare> {
        Arc::new(Spare { threads, vms: AtomicUsize::new(0) })
    }

    /// There is one more VM.
    pub(crate) fn add_vm(&self) {
        self.vms.fetch_add(1, Ordering::Relaxed);
    }

    /// How a VM does two parts of its work on these accesses.
    pub(crate) fn lend(&self, batches: &[Vec<BlockAccess>]) -> Lent {
        let accesses: usize = batches.iter().map(Vec::len).sum();
        Lent(accesses >= WORTH_A_THREAD && 2 * self.vms.load(Ordering::Relaxed) <= self.threads)
    }
}

/// Whether there is a thread for the first of two parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lent(bool);

impl Both for Lent {
    fn both<A: Send, B: Send>(
        &self,
        one: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        if self.0 { at_once(one, other) } else { InTurn.both(one, other) }
    }
}

/// Runs every job, so many at a time, and gives their results in the jobs' order; after a failure no other job begins.
///
/// # Errors
/// That of the first job, in their order, that failed.
pub fn in_parallel<J: Sync, R: Send, E: Send>(
    jobs: &[J],
    threads: usize,
    run: impl Fn(&J) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Result<R, E>>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(at) else { return };
            let result = run(job);
            if result.is_err() {
                next.store(jobs.len(), Ordering::Relaxed);
            }
            results.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(result);
        }
    };
    thread::scope(|scope| {
        (1..threads.min(jobs.len())).for_each(|_| {
            scope.spawn(work);
        });
        work();
    });
    // What did not begin lies behind what failed.
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}
