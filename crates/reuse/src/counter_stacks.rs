//! Hit curves from counts of distinct blocks (Wires et al., "Characterizing storage workloads with Counter Stacks",
//! OSDI 2014).
//!
//! Every step of `d` accesses starts a counter of the distinct blocks since then. In one step, an older counter rises by
//! less than the next younger one, because it knows more blocks: the difference is the number of accesses to blocks
//! whose latest access lies between the two starts, and so at a distance of about the older one's count. What the
//! youngest one did not rise by was accessed twice within the step. What the oldest rises by is new. A counter within
//! the share delta of the next older one says little more than that, and is given up; so the number of
//! counters grows with the logarithm of the blocks.
//!
//! **Steps.** Distances below a step are not told apart, and one step for all traces is too long for short ones. So steps begin
//! short and double while the trace grows (our own addition; the paper has one step for a trace): a step stays between a
//! 256th and a 128th of the trace, until it is as long as was asked for. Counters that were started more densely than
//! that are not touched: as they age they come within delta of their neighbours, and are given up as all others are.
//!
//! An access costs one look-up in the counter of its step; that one is united with the others when the step ends. It
//! must not know which policy the curve is for: only one in which every access brings its block to the top.

use crate::curve::{Certainty, Curve, CurvePoint};
use crate::error::ReuseError;
use crate::hyper_log_log::{HyperLogLog, PRECISION_BITS};
use crate::log_bins::LogBins;
use crate::ordered::mix;
use lode_types::{BlockNo, Direction};
use std::ops::RangeInclusive;

/// Bins of sizes: an error of at most one in 512.
type Sizes = LogBins<8>;

/// Accesses of the first steps, where longer ones are allowed.
const FIRST_STEP: u32 = 16;

/// Steps of its length that a trace has when its step doubles.
const STEPS_BEFORE_DOUBLING: u32 = 256;

/// Shares within which a younger counter may be given up. Smaller ones would need thousands of counters.
const PRUNE_SHARES: RangeInclusive<f64> = 0.001..=0.5;

/// Parameters of Counter Stacks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterStacksConfig {
    /// Accesses between two counters' starts (the paper's d) of long traces, and the most: distances below it are not told
    /// apart. Steps of short traces are shorter.
    pub step_accesses: u32,
    /// A younger counter within this share of the next older one is given up (the paper's delta), 0.001 to 0.5.
    pub prune_share: f64,
    /// Registers of each HyperLogLog counter as a power of two, 4 to 16. The counts' standard error is 1.04 over the
    /// square root of the registers.
    pub precision_bits: u8,
}

impl Default for CounterStacksConfig {
    /// For traces of some hours. Weeks may take larger steps.
    fn default() -> CounterStacksConfig {
        CounterStacksConfig { step_accesses: 4096, prune_share: 0.02, precision_bits: 12 }
    }
}

impl CounterStacksConfig {
    pub(crate) fn check(&self) -> Result<(), ReuseError> {
        let reason = if self.step_accesses == 0 {
            "A step of Counter Stacks is at least one access"
        } else if !PRUNE_SHARES.contains(&self.prune_share) {
            "The share within which Counter Stacks gives up counters is 0.001 to 0.5"
        } else if !PRECISION_BITS.contains(&self.precision_bits) {
            "The precision of Counter Stacks is 4 to 16 bits"
        } else {
            return Ok(());
        };
        Err(ReuseError::InvalidMethod { reason })
    }
}

/// Counts distinct blocks.
pub(crate) trait Counter: Clone {
    fn add(&mut self, block: BlockNo);
    /// Says whether that changed anything.
    fn unite(&mut self, other: &Self) -> bool;
    fn count(&self) -> f64;
    fn clear(&mut self);
    fn memory_bytes(&self) -> usize;
}

impl Counter for HyperLogLog {
    #[inline]
    fn add(&mut self, block: BlockNo) {
        HyperLogLog::add(self, mix(block));
    }

    fn unite(&mut self, other: &HyperLogLog) -> bool {
        HyperLogLog::unite(self, other)
    }

    fn count(&self) -> f64 {
        HyperLogLog::count(self)
    }

    fn clear(&mut self) {
        HyperLogLog::clear(self);
    }

    fn memory_bytes(&self) -> usize {
        HyperLogLog::memory_bytes(self)
    }
}

/// How long steps are.
#[derive(Clone, Copy, Debug)]
struct Steps {
    /// Accesses of the present one.
    accesses: u32,
    /// Accesses of the longest one.
    most_accesses: u32,
    before_doubling: u32,
}

impl Steps {
    /// Doubles the step when the trace has become long for it.
    fn grow(&mut self, trace_accesses: u64) {
        if trace_accesses >= u64::from(self.accesses) * u64::from(self.before_doubling) {
            self.accesses = self.accesses.saturating_mul(2).min(self.most_accesses);
        }
    }
}

/// A counter that was started, and what it counted when the latest step ended.
#[derive(Clone, Debug)]
struct Started<C> {
    counter: C,
    count: f64,
}

/// The counters of one stream.
#[derive(Clone, Debug)]
pub(crate) struct CounterStacks<C> {
    steps: Steps,
    /// Accesses in all steps that have ended.
    ended_accesses: u64,
    prune_share: f64,
    /// Oldest first.
    started: Vec<Started<C>>,
    /// The present step's blocks.
    step: C,
    in_step: u32,
    /// How many accesses need which size. Approximate counts may give a little less than none.
    hits: Vec<f64>,
    accesses: u64,
    reads: u64,
}

impl<C: Counter> CounterStacks<C> {
    /// A stream that has not begun; `empty` counts nothing yet. No step is longer than `most_step` accesses.
    pub(crate) fn new(most_step: u32, prune_share: f64, empty: C) -> CounterStacks<C> {
        let accesses = most_step.min(FIRST_STEP);
        let before_doubling = STEPS_BEFORE_DOUBLING;
        let steps = Steps { accesses, most_accesses: most_step, before_doubling };
        CounterStacks::with_steps(steps, prune_share, empty)
    }

    fn with_steps(steps: Steps, prune_share: f64, empty: C) -> CounterStacks<C> {
        CounterStacks {
            steps,
            ended_accesses: 0,
            prune_share,
            started: Vec::new(),
            step: empty,
            in_step: 0,
            hits: Vec::new(),
            accesses: 0,
            reads: 0,
        }
    }

    /// Adds the next accesses of the stream.
    pub(crate) fn access_all(&mut self, mut batch: &[(Direction, BlockNo)]) {
        while !batch.is_empty() {
            let remaining = (self.steps.accesses - self.in_step) as usize;
            let (now, later) = batch.split_at(remaining.min(batch.len()));
            for &(op, block) in now {
                self.step.add(block);
                self.reads += u64::from(op == Direction::Read);
            }
            self.in_step += now.len() as u32;
            self.accesses += now.len() as u64;
            if self.in_step == self.steps.accesses {
                self.end_step();
            }
            batch = later;
        }
    }

    fn end_step(&mut self) {
        let mut empty = self.step.clone();
        empty.clear();
        self.started.push(Started { counter: empty, count: 0.0 });
        let mut rises = Vec::with_capacity(self.started.len());
        for started in &mut self.started {
            let before = started.count;
            if started.counter.unite(&self.step) {
                started.count = started.counter.count();
            }
            rises.push(started.count - before);
        }
        // The youngest counter compares with every access of the step.
        rises.push(f64::from(self.in_step));
        for (rise, started) in rises.windows(2).zip(&self.started) {
            let bin = Sizes::bin((started.count.round() as u64).max(1));
            if bin >= self.hits.len() {
                self.hits.resize(bin + 1, 0.0);
            }
            self.hits[bin] += rise[1] - rise[0];
        }
        let mut older = f64::INFINITY;
        let share = 1.0 - self.prune_share;
        self.started.retain(|started| {
            let is_kept = started.count < share * older;
            if is_kept {
                older = started.count;
            }
            is_kept
        });
        self.step.clear();
        self.ended_accesses += u64::from(self.in_step);
        self.in_step = 0;
        self.steps.grow(self.ended_accesses);
    }

    /// The curve of everything since the last interval's end.
    pub(crate) fn curve(&self) -> Curve {
        if self.in_step > 0 {
            let mut ended = self.clone();
            ended.end_step();
            return ended.curve();
        }
        let mut points: Vec<CurvePoint> = Vec::new();
        let mut sum = 0.0;
        for (bin, &hits) in self.hits.iter().enumerate().filter(|&(_, &hits)| hits != 0.0) {
            sum += hits;
            let hits = (sum.round() as u64).min(self.accesses);
            if hits > points.last().map_or(0, |point| point.hits) {
                points.push(CurvePoint { size_blocks: Sizes::middle(bin), hits });
            }
        }
        let curve = Curve::exact(points, self.accesses, self.reads);
        curve.estimated(1.0, self.accesses, Certainty::Modelled)
    }

    /// Starts the counts again and keeps the history.
    pub(crate) fn end_interval(&mut self) {
        if self.in_step > 0 {
            self.end_step();
        }
        self.hits.clear();
        (self.accesses, self.reads) = (0, 0);
    }

    /// About how many distinct blocks there were.
    pub(crate) fn distinct_blocks(&self) -> u64 {
        let mut all = self.step.clone();
        self.started.iter().take(1).for_each(|oldest| {
            all.unite(&oldest.counter);
        });
        all.count().round() as u64
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let counters: usize = self.started.iter().map(|started| started.counter.memory_bytes()).sum();
        counters + self.step.memory_bytes() + self.hits.capacity() * size_of::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Analyser;
    use lode_types::Direction::Read;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    impl Counter for BTreeSet<BlockNo> {
        fn add(&mut self, block: BlockNo) {
            self.insert(block);
        }

        fn unite(&mut self, other: &Self) -> bool {
            let before = self.len();
            self.extend(other);
            self.len() > before
        }

        fn count(&self) -> f64 {
            self.len() as f64
        }

        fn clear(&mut self) {
            BTreeSet::clear(self);
        }

        fn memory_bytes(&self) -> usize {
            0
        }
    }

    /// The method with every count taken anew from the trace: how many accesses need which size.
    fn naive(trace: &[u64], steps: Steps, share: f64) -> BTreeMap<u64, f64> {
        let distinct =
            |from: usize, to: usize| trace[from.min(to)..to].iter().collect::<BTreeSet<_>>().len() as f64;
        let (mut starts, mut hits) = (Vec::new(), BTreeMap::new());
        let (mut first, mut step) = (0, steps.accesses as usize);
        while first < trace.len() {
            let end = (first + step).min(trace.len());
            starts.push(first);
            for (at, &start) in starts.iter().enumerate() {
                let rise = distinct(start, end) - distinct(start, first);
                let younger = starts.get(at + 1);
                let above = younger.map_or((end - first) as f64, |&s| distinct(s, end) - distinct(s, first));
                *hits.entry(distinct(start, end) as u64).or_default() += above - rise;
            }
            let mut at = 1;
            while at < starts.len() {
                if distinct(starts[at], end) >= (1.0 - share) * distinct(starts[at - 1], end) {
                    starts.remove(at);
                } else {
                    at += 1;
                }
            }
            if end >= step * steps.before_doubling as usize {
                step = (2 * step).min(steps.most_accesses as usize);
            }
            first = end;
        }
        hits
    }

    fn reads(trace: &[u64]) -> Vec<(Direction, u64)> {
        trace.iter().map(|&block| (Read, block)).collect()
    }

    proptest! {
        #[test]
        fn exact_counters_follow_the_method(
            trace in prop::collection::vec(0u64..20, 1..150), accesses in 1u32..20, most_accesses in 20u32..50,
            before_doubling in 1u32..8, share in 0.0f64..0.4,
        ) {
            let steps = Steps { accesses, most_accesses, before_doubling };
            let mut stacks = CounterStacks::with_steps(steps, share, BTreeSet::new());
            reads(&trace).chunks(7).for_each(|batch| stacks.access_all(batch));
            let curve = stacks.curve();
            let expected = naive(&trace, steps, share);
            for size in 0..25 {
                let hits: f64 = expected.range(..=size).map(|(_, hits)| hits).sum();
                prop_assert_eq!(curve.hits_at(size), hits as u64, "{} blocks", size);
            }
            prop_assert_eq!(stacks.distinct_blocks(), trace.iter().collect::<BTreeSet<_>>().len() as u64);
        }

        #[test]
        fn steps_of_one_access_are_exact(trace in prop::collection::vec(0u64..20, 1..150)) {
            let mut stacks = CounterStacks::new(1, 0.0, BTreeSet::new());
            stacks.access_all(&reads(&trace));
            let mut exact = crate::Distances::new(crate::Metric::Trd);
            exact.access_all(&reads(&trace)).expect("few blocks");
            let (found, exact) = (stacks.curve(), exact.tally().curve());
            prop_assert_eq!(found.points(), exact.points());
        }
    }

    #[test]
    fn steps_grow_with_the_trace_and_no_further_than_asked() {
        let mut stacks = CounterStacks::new(4096, 0.02, HyperLogLog::new(4));
        for accesses in [5000, 40_000, 200_000, 2_000_000u64] {
            let more = accesses - stacks.accesses;
            stacks.access_all(&vec![(Read, 1); more as usize]);
            let step = u64::from(stacks.steps.accesses);
            assert!(
                step == 4096 || (accesses / 256..=accesses / 128).contains(&step),
                "{step} of {accesses}"
            );
        }
        assert_eq!(stacks.steps.accesses, 4096);
        assert_eq!(CounterStacks::new(7, 0.02, HyperLogLog::new(4)).steps.accesses, 7);
    }

    #[test]
    fn few_counters_live() {
        let mut stacks = CounterStacks::new(100, 0.05, HyperLogLog::new(8));
        let trace: Vec<_> = (0..200_000u64).map(|at| (Read, at * at % 30_011)).collect();
        stacks.access_all(&trace);
        assert!((30..150).contains(&stacks.started.len()), "{} counters", stacks.started.len());
        assert!(stacks.memory_bytes() < 100_000);
    }
}
