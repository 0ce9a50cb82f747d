//! Two levels at once: what a read-only level over a write-only one would serve, at every pair of sizes.
//!
//! Both stacks follow the same stream, as ETICA divides its levels (section 4.3). A read that both levels would serve
//! counts once, for the level above; how many those are is kept by pairs of sizes, in bins. It must not know what the
//! levels are made of.

use crate::analyser::Analyser;
use crate::curve::Curve;
use crate::error::ReuseError;
use crate::estimate::{Estimate, GROUPS, size_of_depth};
use crate::log_bins::LogBins;
use crate::profiler::Method;
use crate::ro_stack::RoStack;
use crate::sample::Sample;
use crate::shards::STEP;
use crate::wbwo_stack::WbwoStack;
use lode_types::{BlockNo, Direction};

/// Sizes of pairs are kept with an error of at most one in 16; those below 32 exactly.
type PairSizes = LogBins<4>;

/// Does two pieces of work that know nothing of each other: one after the other in any order, or at the same time.
pub trait Both {
    /// What both came to.
    fn both<A: Send, B: Send>(
        &self,
        one: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B);
}

/// One after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct InTurn;

impl Both for InTurn {
    fn both<A: Send, B: Send>(
        &self,
        one: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        (one(), other())
    }
}

/// Accesses of one step.
type Step<'a> = &'a [(Direction, BlockNo)];

/// What a stack found of each step.
type Depths = Vec<Vec<Option<u32>>>;

/// Follows one VM's stream through both stacks.
#[derive(Debug)]
pub struct JointProfiler {
    ro: RoStack,
    wbwo: WbwoStack,
    sample: Sample,
    /// Counts since the sample has sunk, for each stack; before that they are the stacks' own.
    estimates: Option<[Estimate; 2]>,
    pairs: Pairs,
    reads: u64,
    writes: u64,
    /// Of the latest steps, the accesses that are followed, and their depths. Not counted as memory held: they are as long as
    /// what is added at once.
    followed: Vec<Vec<(Direction, BlockNo)>>,
    depths: [Depths; 2],
}

/// Reads that both levels would serve, by the sizes that they need for that.
#[derive(Clone, Debug, Default)]
struct Pairs {
    /// By bin of the read-only size, then of the write-only one; rows are as long as was needed.
    weights: Vec<Vec<f64>>,
}

impl Pairs {
    #[inline]
    fn add(&mut self, ro_blocks: u64, wbwo_blocks: u64, weight: f64) {
        let (row, column) = (PairSizes::bin(ro_blocks), PairSizes::bin(wbwo_blocks));
        if row >= self.weights.len() {
            self.weights.resize(row + 1, Vec::new());
        }
        let row = &mut self.weights[row];
        if column >= row.len() {
            row.resize(column + 1, 0.0);
        }
        row[column] += weight;
    }

    /// Sums over all smaller bins: entry `[r][c]` has those of the first r rows and c columns.
    fn sums(&self) -> Vec<Vec<f64>> {
        let columns = self.weights.iter().map(Vec::len).max().unwrap_or(0) + 1;
        let mut sums = vec![vec![0.0; columns]];
        for row in &self.weights {
            let above = &sums[sums.len() - 1];
            let mut sum = 0.0;
            let mut next = vec![0.0; columns];
            for (column, next) in next.iter_mut().enumerate().skip(1) {
                sum += row.get(column - 1).copied().unwrap_or(0.0);
                *next = above[column] + sum;
            }
            sums.push(next);
        }
        sums
    }

    fn memory_bytes(&self) -> usize {
        let rows: usize = self.weights.iter().map(|row| row.capacity() * size_of::<f64>()).sum();
        rows + self.weights.capacity() * size_of::<Vec<f64>>()
    }
}

impl JointProfiler {
    /// A profiler that has seen nothing. `salt` chooses which blocks a sample follows.
    ///
    /// # Errors
    /// [`ReuseError::InvalidMethod`] when the method's parameter is out of range, or the method does not follow blocks
    /// through stacks.
    pub fn new(method: Method, salt: u64) -> Result<JointProfiler, ReuseError> {
        let sample = Sample::new(method, salt)?;
        Ok(JointProfiler {
            ro: RoStack::new(),
            wbwo: WbwoStack::new(),
            sample,
            estimates: None,
            pairs: Pairs::default(),
            reads: 0,
            writes: 0,
            followed: Vec::new(),
            depths: Default::default(),
        })
    }

    /// Adds the next accesses of the stream.
    ///
    /// # Errors
    /// [`ReuseError::TooManyBlocks`]: lower the rate, or sample from the beginning.
    pub fn access_all(&mut self, batch: &[(Direction, BlockNo)]) -> Result<(), ReuseError> {
        self.access_batches(&[batch], &InTurn)
    }

    /// Adds the next batches of the stream, the work of the two stacks being done by `both`. What is found depends on the
    /// accesses and on where batches end, and on nothing else.
    ///
    /// # Errors
    /// As [`JointProfiler::access_all`].
    pub fn access_batches(&mut self, batches: &[Step<'_>], both: &impl Both) -> Result<(), ReuseError> {
        let steps: Vec<Step<'_>> = batches.iter().flat_map(|batch| batch.chunks(STEP)).collect();
        let mut rest = &steps[..];
        while !rest.is_empty() {
            // Among so many accesses the sample cannot become too large, and there is no need to look after every step.
            let remaining = self.sample.remaining(self.distinct_followed());
            let mut accesses: usize = 0;
            let fits = |step: &&Step<'_>| {
                accesses += step.len();
                accesses <= remaining
            };
            let fitting = rest.iter().take_while(fits).count();
            let (now, later) = rest.split_at(fitting.max(1));
            self.take_steps(now, both)?;
            while self.sample.lower_to_limit(self.distinct_followed()) {
                self.shrink();
            }
            rest = later;
        }
        Ok(())
    }

    fn take_steps(&mut self, steps: &[Step<'_>], both: &impl Both) -> Result<(), ReuseError> {
        for step in steps {
            let reads = step.iter().filter(|access| access.0 == Direction::Read).count() as u64;
            self.reads += reads;
            self.writes += step.len() as u64 - reads;
            let estimates = self.estimates.iter_mut().flatten();
            estimates.for_each(|estimate| estimate.add_stream(step.len() as u64, reads));
        }
        let mut followed = std::mem::take(&mut self.followed);
        let mut depths = std::mem::take(&mut self.depths);
        let done = if self.estimates.is_none() {
            self.follow_steps(steps, &mut depths, both)
        } else {
            followed.resize(steps.len().max(followed.len()), Vec::new());
            for (followed, step) in followed.iter_mut().zip(steps) {
                followed.clear();
                followed.extend(step.iter().filter(|&&(_, block)| self.sample.follows(block)));
            }
            let steps: Vec<Step<'_>> = followed[..steps.len()].iter().map(Vec::as_slice).collect();
            self.follow_steps(&steps, &mut depths, both)
        };
        (self.followed, self.depths) = (followed, depths);
        done
    }

    /// Takes steps of which every access is followed.
    fn follow_steps(
        &mut self,
        steps: &[Step<'_>],
        depths: &mut [Depths; 2],
        both: &impl Both,
    ) -> Result<(), ReuseError> {
        let [of_ro, of_wbwo] = depths;
        let (ro, wbwo) = (&mut self.ro, &mut self.wbwo);
        let done = both.both(|| depths_of_steps(ro, steps, of_ro), || depths_of_steps(wbwo, steps, of_wbwo));
        for (step, (ro, wbwo)) in steps.iter().zip(of_ro.iter().zip(&*of_wbwo)) {
            self.count(step, ro, wbwo);
        }
        done.0.and(done.1)
    }

    /// Counts what the stacks have just found.
    fn count(&mut self, step: Step<'_>, ro: &[Option<u32>], wbwo: &[Option<u32>]) {
        let rate = self.sample.rate();
        for (&(op, block), (&ro, &wbwo)) in step.iter().zip(ro.iter().zip(wbwo)) {
            if let (Some(ro), Some(wbwo)) = (ro, wbwo) {
                self.pairs.add(size_of_depth(ro, rate), size_of_depth(wbwo, rate), 1.0 / rate);
            }
            if let Some(estimates) = &mut self.estimates {
                let group = Sample::group(block, GROUPS);
                estimates[0].add_followed(op, group, ro, rate);
                estimates[1].add_followed(op, group, wbwo, rate);
            }
        }
    }

    /// Blocks followed by the stack that follows most.
    fn distinct_followed(&self) -> usize {
        self.ro.distinct_blocks().max(self.wbwo.distinct_blocks())
    }

    /// Halves the followed blocks to save memory; false when they are few already.
    pub fn lower_rate(&mut self) -> bool {
        let is_lower = self.sample.halve(self.distinct_followed());
        if is_lower {
            self.shrink();
        }
        is_lower
    }

    /// Forgets the blocks that the sample follows no more.
    fn shrink(&mut self) {
        let tallies = [self.ro.take_tally(), self.wbwo.take_tally()];
        self.estimates.get_or_insert_with(|| {
            tallies.each_ref().map(|tally| {
                let mut estimate = Estimate::new(false);
                estimate.add_exact(tally);
                estimate
            })
        });
        let sample = self.sample;
        self.ro.retain(&|block| sample.follows(block));
        self.wbwo.retain(&|block| sample.follows(block));
    }

    /// The share of all blocks that is followed now; 1 is all.
    pub fn rate(&self) -> f64 {
        self.sample.rate()
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        let estimates: usize = self.estimates.iter().flatten().map(Estimate::memory_bytes).sum();
        self.ro.memory_bytes() + self.wbwo.memory_bytes() + self.pairs.memory_bytes() + estimates
    }

    /// All blocks, of which so many are followed.
    fn blocks(&self, followed: usize) -> u64 {
        (followed as f64 / self.sample.rate()).round() as u64
    }

    /// Everything found.
    pub fn finish(&self) -> JointProfile {
        let [ro, wbwo] = match &self.estimates {
            None => [self.ro.tally().curve(), self.wbwo.tally().curve()],
            Some(estimates) => estimates.each_ref().map(|estimate| estimate.curve(self.sample.rate())),
        };
        JointProfile {
            ro,
            wbwo,
            sums: self.pairs.sums(),
            reads: self.reads,
            writes: self.writes,
            written_blocks: self.blocks(self.wbwo.distinct_blocks()),
            read_blocks: self.blocks(self.ro.distinct_blocks()),
            rate: self.sample.rate(),
        }
    }
}

/// The depths in a stack of all accesses of some steps.
fn depths_of_steps(
    stack: &mut impl Analyser,
    steps: &[Step<'_>],
    depths: &mut Depths,
) -> Result<(), ReuseError> {
    depths.resize(steps.len().max(depths.len()), Vec::new());
    steps.iter().zip(depths).try_for_each(|(step, depths)| stack.depths_of_all(step, depths))
}

/// What both levels would serve, at every pair of sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct JointProfile {
    ro: Curve,
    wbwo: Curve,
    sums: Vec<Vec<f64>>,
    reads: u64,
    writes: u64,
    written_blocks: u64,
    read_blocks: u64,
    rate: f64,
}

impl JointProfile {
    /// Hits of reads of the read-only level alone.
    pub fn ro_curve(&self) -> &Curve {
        &self.ro
    }

    /// Hits of reads of the write-only level alone.
    pub fn wbwo_curve(&self) -> &Curve {
        &self.wbwo
    }

    /// Reads of the whole stream.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Writes of the whole stream.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Distinct blocks that were written; an estimate where sampled.
    pub fn written_blocks(&self) -> u64 {
        self.written_blocks
    }

    /// Distinct blocks that were read; an estimate where sampled.
    pub fn read_blocks(&self) -> u64 {
        self.read_blocks
    }

    /// Share of all blocks that was followed at the end; 1 is all.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Reads that a read-only level of `ro_blocks` serves, and those that a write-only level of `wbwo_blocks` serves
    /// beyond them.
    pub fn hits(&self, ro_blocks: u64, wbwo_blocks: u64) -> (u64, u64) {
        let (ro, wbwo) = (self.ro.hits_at(ro_blocks), self.wbwo.hits_at(wbwo_blocks));
        let both = (self.both(ro_blocks, wbwo_blocks).round() as u64).min(ro).min(wbwo);
        // Estimates may sum to more than there is.
        (ro, (wbwo - both).min(self.reads.saturating_sub(ro)))
    }

    /// Reads that both serve; within a bin, as if they were spread evenly.
    fn both(&self, ro_blocks: u64, wbwo_blocks: u64) -> f64 {
        let columns = self.sums.first().map_or(0, Vec::len);
        let (row, row_part) = place(ro_blocks, self.sums.len());
        let (column, column_part) = place(wbwo_blocks, columns);
        let at = |row: usize, column: usize| {
            let row = &self.sums[row.min(self.sums.len() - 1)];
            row[column.min(columns - 1)]
        };
        let mix = |low: f64, high: f64, part: f64| low + (high - low) * part;
        let low = mix(at(row, column), at(row, column + 1), column_part);
        let high = mix(at(row + 1, column), at(row + 1, column + 1), column_part);
        mix(low, high, row_part)
    }
}

/// How many whole bins sizes up to `blocks` fill, and what part of the next one.
fn place(blocks: u64, sums: usize) -> (usize, f64) {
    let bin = PairSizes::bin(blocks);
    if bin + 1 >= sums {
        return (sums - 1, 0.0);
    }
    let (first, next) = (PairSizes::first(bin), PairSizes::first(bin + 1));
    (bin, (blocks - first + 1) as f64 / (next - first) as f64)
}
