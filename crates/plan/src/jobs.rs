//! A list of jobs that do not depend on each other, by several threads. It must not know what they are.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Runs every job, so many at a time, and gives their results in the jobs' order; after a failure no other job begins.
pub(crate) fn in_parallel<J: Sync, R: Send, E: Send>(
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
