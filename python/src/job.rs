//! Long work beside Python: on a thread of its own, without Python's lock, while the caller's thread looks for Ctrl-C and tells
//! how far it is. It must not know what the work is.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use lode_trace::{Merge, ReadProgress};
use pyo3::prelude::*;

use crate::error::Failure;

/// How often signals are looked at, and progress is told.
const LOOK: Duration = Duration::from_millis(100);

/// What the work and whoever waits for it have in common.
#[derive(Default)]
pub struct Control {
    /// True once the work shall end.
    pub stop: Arc<AtomicBool>,
    done: AtomicU64,
    /// 0: not known.
    total: AtomicU64,
}

impl Control {
    /// Says how far the work is; `total` is 0 where that is not known.
    pub fn tell(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Says how far the traces of a merge are read, in bytes.
    pub fn tell_read(&self, merge: &Merge) {
        self.tell_progress(merge.readers().map(|reader| reader.progress()));
    }

    /// The same of any traces.
    pub fn tell_progress(&self, inputs: impl Iterator<Item = ReadProgress>) {
        let (mut done, mut total) = (0, Some(0));
        for input in inputs {
            done += input.read_bytes;
            total = total.zip(input.total_bytes).map(|(sum, bytes)| sum + bytes);
        }
        self.tell(done, total.unwrap_or(0));
    }

    /// Ends the work with [`Failure::Stopped`] if it shall end.
    ///
    /// # Errors
    /// That.
    pub fn check(&self) -> Result<(), Failure> {
        if self.stop.load(Ordering::Relaxed) { Err(Failure::Stopped) } else { Ok(()) }
    }
}

/// Runs `work` on a thread of its own. `progress`, if there is one, is called with what is done and what there is to do (or
/// `None`) about ten times a second; an exception out of it, or Ctrl-C, stops the work.
///
/// # Errors
/// Those of the work; the exception that stopped it.
pub fn run<T: Send>(
    py: Python<'_>,
    progress: Option<Bound<'_, PyAny>>,
    work: impl FnOnce(&Control) -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let control = Control::default();
    let (slot, arrived) = (Mutex::new(None), Condvar::new());
    std::thread::scope(|scope| {
        let (control, slot, arrived) = (&control, &slot, &arrived);
        scope.spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| work(control)));
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            arrived.notify_all();
        });
        let mut stopped_by = None;
        let result = loop {
            let result = py.detach(|| {
                let slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = arrived.wait_timeout_while(slot, LOOK, |slot| slot.is_none());
                waited.unwrap_or_else(PoisonError::into_inner).0.take()
            });
            if let Some(result) = result {
                break result;
            }
            if stopped_by.is_none()
                && let Err(error) = py.check_signals().and_then(|()| tell(py, control, progress.as_ref()))
            {
                control.stop.store(true, Ordering::Relaxed);
                stopped_by = Some(error);
            }
        };
        match (stopped_by, result) {
            (Some(error), _) => Err(error),
            (None, Ok(result)) => Ok(result?),
            (None, Err(panic)) => resume_unwind(panic),
        }
    })
}

fn tell(py: Python<'_>, control: &Control, progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let Some(progress) = progress else { return Ok(()) };
    let (done, total) = (control.done.load(Ordering::Relaxed), control.total.load(Ordering::Relaxed));
    let total = (total > 0).then_some(total).into_pyobject(py)?;
    progress.call1((done, total)).map(drop)
}
