//! A stack over all blocks, or over a sample of them whose rate may sink (SHARDS: Waldspurger et al., FAST 2015).
//!
//! It must not know which stack it is.

use crate::analyser::Analyser;
use crate::curve::Curve;
use crate::error::ReuseError;
use crate::estimate::{Estimate, GROUPS};
use crate::sample::{FILTERED, Sample};
use lode_types::{AccessOp, BlockNo};

/// A stack and which blocks it follows.
pub(crate) struct Shards {
    analyser: Box<dyn Analyser + Send>,
    sample: Sample,
    /// Counts since the sample has sunk; before that they are the analyser's.
    estimate: Option<Estimate>,
    counts_writes: bool,
}

impl Shards {
    /// A stack that has seen nothing; `counts_writes` says whether writes can hit.
    pub(crate) fn new(analyser: Box<dyn Analyser + Send>, counts_writes: bool, sample: Sample) -> Shards {
        Shards { analyser, sample, estimate: None, counts_writes }
    }

    /// Adds the next accesses of the stream.
    pub(crate) fn access_all(&mut self, batch: &[(AccessOp, BlockNo)]) -> Result<(), ReuseError> {
        let mut rest = batch;
        while self.estimate.is_none() && !rest.is_empty() {
            // As many as cannot exceed the limit, but never too few to be worth a batch.
            let room = self.sample.room(self.analyser.distinct_blocks()).max(FILTERED);
            let (exact, later) = rest.split_at(room.min(rest.len()));
            self.analyser.access_all(exact)?;
            rest = later;
            self.keep_to_limit();
        }
        (0..rest.len()).step_by(FILTERED).try_for_each(|first| self.access_sampled(rest, first))
    }

    /// Adds the next accesses of a batch, from this one on, as many as are filtered together.
    #[inline(always)]
    fn access_sampled(&mut self, batch: &[(AccessOp, BlockNo)], first: usize) -> Result<(), ReuseError> {
        let mut filtered = self.sample.filter(batch, first);
        if let Some(estimate) = &mut self.estimate {
            estimate.add_stream(filtered.len, filtered.reads);
        }
        filtered.try_for_each(|at| self.follow(batch[at].0, batch[at].1))
    }

    #[inline(never)]
    fn follow(&mut self, op: AccessOp, block: BlockNo) -> Result<(), ReuseError> {
        // The rate may have sunk since the access was filtered.
        if let Some(estimate) = self.estimate.as_mut().filter(|_| self.sample.follows(block)) {
            let depth = self.analyser.access(op, block)?;
            estimate.add_followed(op, Sample::group(block, GROUPS), depth, self.sample.rate());
            self.keep_to_limit();
        }
        Ok(())
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
