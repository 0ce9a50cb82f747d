//! The size of a working set: how many distinct blocks an interval touches. It must not know what an interval is.

use crate::error::ReuseError;
use crate::profiler::Method;
use crate::sample::{FILTERED, Sample};
use crate::tracker::{Seen, Tracker};
use lode_types::{BlockNo, Direction};

/// Counts the distinct blocks of one interval after the other.
#[derive(Clone, Debug)]
pub struct WorkingSet {
    sample: Sample,
    tracker: Tracker,
}

impl WorkingSet {
    /// A first interval that has not begun. `salt` chooses which blocks a sample follows.
    ///
    /// # Errors
    /// [`ReuseError::InvalidMethod`] when the method's parameter is out of range or it takes no sample.
    pub fn new(method: Method, salt: u64) -> Result<WorkingSet, ReuseError> {
        let sample = Sample::new(method, salt)?;
        Ok(WorkingSet { sample, tracker: Tracker::default() })
    }

    /// Adds the next accesses of the interval.
    ///
    /// # Errors
    /// [`ReuseError::TooManyBlocks`]: take a sample.
    pub fn access_all(&mut self, batch: &[(Direction, BlockNo)]) -> Result<(), ReuseError> {
        for first in (0..batch.len()).step_by(FILTERED) {
            let mut filtered = self.sample.filter(batch, first);
            filtered.try_for_each(|at| self.follow(batch[at].1))?;
        }
        Ok(())
    }

    fn follow(&mut self, block: BlockNo) -> Result<(), ReuseError> {
        let seen = Seen::of(block);
        // The rate may have sunk since the access was filtered.
        if self.sample.follows(block) && self.tracker.find(seen).is_none() {
            self.tracker.add(seen, 0)?;
            while self.sample.lower_to_limit(self.tracker.len()) {
                let sample = self.sample;
                self.tracker.retain(|block| sample.follows(block), |_| {});
            }
        }
        Ok(())
    }

    /// Distinct blocks of the interval so far; an estimate where sampled.
    pub fn distinct_blocks(&self) -> u64 {
        (self.tracker.len() as f64 / self.sample.rate()).round() as u64
    }

    /// Starts the next interval, with nothing seen; a rate that sank stays.
    pub fn end_interval(&mut self) {
        self.tracker.clear();
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.tracker.memory_bytes()
    }
}

/// How often an interval comes back to each of its blocks, a second: `S_total / (t_w * S_unique)` (vCacheShare: Meng et
/// al., USENIX ATC 2014; the formula as its public simulator has it). 0 when nothing was touched; `None` when the interval
/// has no length.
pub fn reuse_intensity(accesses: u64, distinct_blocks: u64, interval_s: f64) -> Option<f64> {
    let has_length = interval_s > 0.0 && interval_s.is_finite();
    let intensity =
        if distinct_blocks == 0 { 0.0 } else { accesses as f64 / (interval_s * distinct_blocks as f64) };
    has_length.then_some(intensity)
}
