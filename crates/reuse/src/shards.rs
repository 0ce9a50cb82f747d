//! A stack over all blocks, or over a sample of them whose rate may sink (SHARDS: Waldspurger et al., FAST 2015).
//!
//! A sample of fixed size begins with every block. When more blocks than allowed are followed, the threshold sinks by
//! an eighth (the paper lowers it to the largest hash that is followed, one block at a time): the rate is a little
//! lower than it could be, and the walk over all followed blocks that this needs comes up seldom. It must not know
//! which stack it is.

use crate::analyser::Analyser;
use crate::curve::Curve;
use crate::error::ReuseError;
use crate::estimate::{Estimate, GROUPS};
use crate::sample::{FILTERED, Sample};
use lode_types::{AccessOp, BlockNo};

/// Fewest blocks that a sample may be limited to, and fewest that a rate is lowered for.
pub(crate) const MIN_FOLLOWED_BLOCKS: u32 = 64;

/// What is left of the rate when a sample of fixed size has become too large.
const RATE_STEP: f64 = 7.0 / 8.0;

/// Below this rate no block is given up any more: who chooses blocks by their hashes gets what he chose.
const MIN_RATE: f64 = 1e-15;

/// A stack and which blocks it follows; see the module's description.
pub(crate) struct Shards {
    analyser: Box<dyn Analyser + Send>,
    sample: Sample,
    /// Most blocks to follow.
    most: usize,
    /// Counts of a sample; those of an exact stack are its analyser's.
    estimate: Option<Estimate>,
    counts_writes: bool,
}

impl Shards {
    /// Follows every block.
    pub(crate) fn exact(analyser: Box<dyn Analyser + Send>, counts_writes: bool, salt: u64) -> Shards {
        Shards { analyser, sample: Sample::all(salt), most: usize::MAX, estimate: None, counts_writes }
    }

    /// Follows a share of all blocks, above 0 and at most 1.
    pub(crate) fn at_rate(
        analyser: Box<dyn Analyser + Send>,
        counts_writes: bool,
        salt: u64,
        rate: f64,
    ) -> Shards {
        let mut shards = Shards::exact(analyser, counts_writes, salt);
        if rate < 1.0 {
            shards.set_rate(rate);
        }
        shards
    }

    /// Follows at most so many blocks.
    pub(crate) fn of_size(
        analyser: Box<dyn Analyser + Send>,
        counts_writes: bool,
        salt: u64,
        most: usize,
    ) -> Shards {
        Shards { most, ..Shards::exact(analyser, counts_writes, salt) }
    }

    /// Adds the next accesses of the stream.
    pub(crate) fn access_all(&mut self, batch: &[(AccessOp, BlockNo)]) -> Result<(), ReuseError> {
        let mut rest = batch;
        while self.estimate.is_none() && !rest.is_empty() {
            // As many as cannot exceed the limit, but never too few to be worth a batch.
            let room = self.most.saturating_sub(self.analyser.distinct_blocks()).max(FILTERED);
            let (exact, later) = rest.split_at(room.min(rest.len()));
            self.analyser.access_all(exact)?;
            rest = later;
            self.keep_to_limit();
        }
        rest.chunks(FILTERED).try_for_each(|accesses| self.access_sampled(accesses))
    }

    #[inline(always)]
    fn access_sampled(&mut self, accesses: &[(AccessOp, BlockNo)]) -> Result<(), ReuseError> {
        let (mut followed, reads) = self.sample.filter(accesses);
        if let Some(estimate) = &mut self.estimate {
            estimate.add_stream(accesses.len() as u64, reads);
        }
        while followed != 0 {
            let (op, block) = accesses[followed.trailing_zeros() as usize];
            followed &= followed - 1;
            self.follow(op, block)?;
        }
        Ok(())
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
        while self.analyser.distinct_blocks() > self.most && self.sample.rate() > MIN_RATE {
            self.set_rate(self.sample.rate() * RATE_STEP);
        }
    }

    /// Lowers the rate.
    fn set_rate(&mut self, rate: f64) {
        let tally = self.analyser.take_tally();
        let counts_writes = self.counts_writes;
        self.estimate.get_or_insert_with(|| {
            let mut estimate = Estimate::new(counts_writes);
            estimate.add_exact(&tally);
            estimate
        });
        self.sample.set_rate(rate);
        let sample = self.sample;
        self.analyser.retain(&|block| sample.follows(block));
    }

    /// Halves the followed blocks, unless they are few.
    pub(crate) fn lower_rate(&mut self) -> bool {
        let followed = self.analyser.distinct_blocks();
        if followed < 2 * MIN_FOLLOWED_BLOCKS as usize {
            return false;
        }
        if self.most < usize::MAX {
            self.most = (self.most / 2).max(MIN_FOLLOWED_BLOCKS as usize);
        }
        self.set_rate(self.sample.rate() / 2.0);
        true
    }

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
