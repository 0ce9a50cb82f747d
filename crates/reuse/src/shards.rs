//! A stack over all blocks, or over a sample of them whose rate may sink (SHARDS: Waldspurger et al., FAST 2015).
//!
//! It must not know which stack it is.

use crate::analyser::Analyser;
use crate::curve::Curve;
use crate::error::ReuseError;
use crate::estimate::{Estimate, GROUPS};
use crate::sample::{FILTERED, Sample};
use lode_types::{BlockNo, Direction};

/// Most accesses between two looks at whether the sample has become too large.
pub(crate) const STEP: usize = 4096;

/// A stack and which blocks it follows.
pub(crate) struct Shards {
    analyser: Box<dyn Analyser + Send>,
    sample: Sample,
    /// Counts since the sample has sunk; before that they are the analyser's.
    estimate: Option<Estimate>,
    counts_writes: bool,
    /// Of the latest accesses, those that are followed, and their depths.
    followed: Vec<(Direction, BlockNo)>,
    depths: Vec<Option<u32>>,
}

impl Shards {
    /// A stack that has seen nothing; `counts_writes` says whether writes can hit.
    pub(crate) fn new(analyser: Box<dyn Analyser + Send>, counts_writes: bool, sample: Sample) -> Shards {
        Shards { analyser, sample, estimate: None, counts_writes, followed: Vec::new(), depths: Vec::new() }
    }

    /// Adds the next accesses of the stream.
    pub(crate) fn access_all(&mut self, batch: &[(Direction, BlockNo)]) -> Result<(), ReuseError> {
        let mut rest = batch;
        while self.estimate.is_none() && !rest.is_empty() {
            // As many as cannot exceed the limit, but never too few to be worth a batch.
            let remaining = self.sample.remaining(self.analyser.distinct_blocks()).max(FILTERED);
            let (exact, later) = rest.split_at(remaining.min(rest.len()));
            self.analyser.access_all(exact)?;
            rest = later;
            self.keep_to_limit();
        }
        let mut followed = std::mem::take(&mut self.followed);
        let done = rest.chunks(STEP).try_for_each(|step| self.access_sampled(step, &mut followed));
        self.followed = followed;
        done
    }

    /// Adds the next accesses of the stream, and follows those of the sample as it is before them.
    fn access_sampled(
        &mut self,
        step: &[(Direction, BlockNo)],
        followed: &mut Vec<(Direction, BlockNo)>,
    ) -> Result<(), ReuseError> {
        let Some(estimate) = &mut self.estimate else { return Ok(()) };
        followed.clear();
        for first in (0..step.len()).step_by(FILTERED) {
            let filtered = self.sample.filter(step, first);
            estimate.add_stream(filtered.len, filtered.reads);
            followed.extend(filtered.map(|at| step[at]));
        }
        let rate = self.sample.rate();
        let done = self.analyser.depths_of_all(followed, &mut self.depths);
        for (&(op, block), &depth) in followed.iter().zip(&self.depths) {
            estimate.add_followed(op, Sample::group(block, GROUPS), depth, rate);
        }
        self.keep_to_limit();
        done
    }

    #[inline(always)]
    fn keep_to_limit(&mut self) {
        while self.sample.lower_to_limit(self.analyser.distinct_blocks()) {
            self.shrink();
        }
    }

    /// Forgets the blocks that the sample has given up.
    fn shrink(&mut self) {
        let tally = self.analyser.take_tally();
        let counts_writes = self.counts_writes;
        self.estimate.get_or_insert_with(|| {
            let mut estimate = Estimate::new(counts_writes);
            estimate.add_exact(&tally);
            estimate
        });
        let sample = self.sample;
        self.analyser.retain(&|block| sample.follows(block));
    }

    /// Halves the followed blocks, unless they are few.
    pub(crate) fn lower_rate(&mut self) -> bool {
        let is_lower = self.sample.halve(self.analyser.distinct_blocks());
        if is_lower {
            self.shrink();
        }
        is_lower
    }

    /// The curve of what was counted.
    pub(crate) fn curve(&self) -> Curve {
        match &self.estimate {
            Some(estimate) => estimate.curve(self.sample.rate()),
            None => self.analyser.tally().curve(),
        }
    }

    /// Starts the counts again and keeps the history.
    pub(crate) fn end_interval(&mut self) {
        self.analyser.clear_tally();
        if let Some(estimate) = &mut self.estimate {
            estimate.clear();
        }
    }

    /// The share of all blocks that is followed.
    pub(crate) fn rate(&self) -> f64 {
        self.sample.rate()
    }

    /// Distinct blocks that an exact stack would follow.
    pub(crate) fn distinct_blocks(&self) -> u64 {
        (self.analyser.distinct_blocks() as f64 / self.sample.rate()).round() as u64
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.analyser.memory_bytes() + self.estimate.as_ref().map_or(0, Estimate::memory_bytes)
    }
}
