//! Hit curves from reuse *times* alone: average eviction time (Hu et al., "Kinetic modeling of data eviction in cache",
//! USENIX ATC 2016).
//!
//! With P(t) the share of accesses whose reuse time is above t (infinite for a block's first one), a block moves down an
//! LRU cache at the speed P(t), t accesses after its latest one. A cache of c blocks therefore evicts it at the smallest
//! time T for which the sum of P(t) over t < T is at least c, and misses the share P(T). Only the time of each block's
//! latest access is kept; it must be a stream in which every access brings its block to the top, so that it says nothing
//! about read-only and write-only caches. The blocks may be sampled; their reuse times are those of the whole stream.
//! It must not know what the hits are for.

use crate::curve::{Certainty, Curve, CurvePoint};
use crate::error::ReuseError;
use crate::log_bins::LogBins;
use crate::sample::{FILTERED, Sample};
use crate::tracker::{Seen, Tracker};
use lode_types::{BlockNo, Direction};

/// Bins of reuse times: exact up to 512 accesses, then 256 an octave.
type Times = LogBins<8>;

/// Times kept are below it: a record's word has 32 bits, and one value of its own.
const TIME_LIMIT: u64 = u32::MAX as u64;

/// Reuse times of one stream.
pub(crate) struct Aet {
    counts_writes: bool,
    sample: Sample,
    /// Blocks with the time of their latest access, in units of `2^unit_bits` accesses.
    tracker: Tracker,
    unit_bits: u32,
    now: u64,
    /// Weights of accesses by reuse time, and of those that may hit.
    by_time: Vec<[f64; 2]>,
    /// Weights of all followed accesses, and of those that may hit.
    weights: [f64; 2],
    accesses: u64,
    reads: u64,
    followed_accesses: u64,
}

impl Aet {
    /// A stream that has not begun; `counts_writes` says whether writes can hit.
    pub(crate) fn new(counts_writes: bool, sample: Sample) -> Aet {
        Aet {
            counts_writes,
            sample,
            tracker: Tracker::default(),
            unit_bits: 0,
            now: 0,
            by_time: Vec::new(),
            weights: [0.0; 2],
            accesses: 0,
            reads: 0,
            followed_accesses: 0,
        }
    }

    /// Adds the next accesses of the stream.
    pub(crate) fn access_all(&mut self, batch: &[(Direction, BlockNo)]) -> Result<(), ReuseError> {
        for first in (0..batch.len()).step_by(FILTERED) {
            let mut filtered = self.sample.filter(batch, first);
            self.make_time();
            let began = self.now;
            filtered.try_for_each(|at| {
                let (op, block) = batch[at];
                self.follow(op, block, began + (at - first) as u64)
            })?;
            self.now += filtered.len;
            self.accesses += filtered.len;
            self.reads += filtered.reads;
        }
        Ok(())
    }

    fn follow(&mut self, op: Direction, block: BlockNo, now: u64) -> Result<(), ReuseError> {
        let seen = Seen::of(block);
        let weight = 1.0 / self.sample.rate();
        let may_hit = if self.counts_writes || op == Direction::Read { weight } else { 0.0 };
        let word = (now >> self.unit_bits) as u32;
        match self.tracker.find(seen) {
            Some((place, before)) => {
                let bin = Times::bin(now - (u64::from(before) << self.unit_bits));
                self.tracker.set_word(place, word);
                if bin >= self.by_time.len() {
                    self.by_time.resize(bin + 1, [0.0; 2]);
                }
                self.by_time[bin][0] += weight;
                self.by_time[bin][1] += may_hit;
            }
            None => {
                self.tracker.add(seen, word)?;
            }
        }
        self.weights[0] += weight;
        self.weights[1] += may_hit;
        self.followed_accesses += 1;
        Ok(())
    }

    /// Makes the unit of time coarser when the words become too small for it: short reuse times are then uncertain by
    /// one unit, after four thousand million accesses for the first time.
    fn make_time(&mut self) {
        while (self.now + FILTERED as u64) >> self.unit_bits >= TIME_LIMIT {
            self.unit_bits += 1;
            self.tracker.words_mut().for_each(|word| *word >>= 1);
        }
    }

    /// The curve of everything since the last interval's end.
    pub(crate) fn curve(&self) -> Curve {
        let able = if self.counts_writes { self.accesses } else { self.reads };
        let mut points: Vec<CurvePoint> = Vec::new();
        // P before the bin's times, sum of P over all times below `time`, and misses so far.
        let mut misses = self.weights;
        let (mut sum, mut time) = (0.0, 0);
        for (bin, weights) in self.by_time.iter().enumerate().filter(|(_, weights)| weights[0] > 0.0) {
            // All accesses of a bin count as if they had its smallest time. A sample may have more misses than there
            // are accesses.
            let share = (misses[0] / self.accesses as f64).min(1.0);
            let until = Times::first(bin);
            let before_last: f64 = sum + share * (until - 1).saturating_sub(time) as f64;
            sum += share * (until - time) as f64;
            time = until;
            misses[0] -= weights[0];
            misses[1] -= weights[1];
            // The smallest size whose eviction time is this time: above the sum one access earlier.
            let size = before_last.floor() as u64 + 1;
            let hits = able - (misses[1].round() as u64).min(able);
            match points.last_mut() {
                Some(last) if last.size_blocks == size => last.hits = last.hits.max(hits),
                Some(last) if last.hits >= hits => {}
                None if hits == 0 => {}
                _ => points.push(CurvePoint { size_blocks: size, hits }),
            }
        }
        let curve = Curve::exact(points, self.accesses, self.reads);
        curve.estimated(self.sample.rate(), self.followed_accesses, Certainty::Modelled)
    }

    /// Starts the counts again and keeps the history.
    pub(crate) fn end_interval(&mut self) {
        self.by_time.clear();
        self.weights = [0.0; 2];
        (self.accesses, self.reads, self.followed_accesses) = (0, 0, 0);
    }

    pub(crate) fn rate(&self) -> f64 {
        self.sample.rate()
    }

    /// Halves the followed blocks, unless they are few.
    pub(crate) fn lower_rate(&mut self) -> bool {
        let is_lower = self.sample.halve(self.tracker.len());
        if is_lower {
            let sample = self.sample;
            self.tracker.retain(|block| sample.follows(block), |_| {});
        }
        is_lower
    }

    pub(crate) fn distinct_blocks(&self) -> u64 {
        (self.tracker.len() as f64 / self.sample.rate()).round() as u64
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.tracker.memory_bytes() + self.by_time.capacity() * size_of::<[f64; 2]>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiler::Method;
    use lode_types::Direction::Read;

    #[test]
    fn outlives_its_clock() {
        let aet = || Aet::new(true, Sample::new(Method::Exact, 0).expect("exact"));
        let (mut young, mut old) = (aet(), aet());
        old.now = TIME_LIMIT * 4 - 3000;
        let trace: Vec<_> = (0..20_000u64).map(|at| (Read, at * at % 4099)).collect();
        young.access_all(&trace).expect("few blocks");
        old.access_all(&trace).expect("few blocks");
        assert_eq!(old.unit_bits, 3);
        for size in (0..4200).step_by(100) {
            let (young, old) = (young.curve().hit_ratio_at(size), old.curve().hit_ratio_at(size));
            assert!((young - old).abs() < 0.02, "{young} and {old} at {size}");
        }
    }
}
