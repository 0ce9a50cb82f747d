//! Miniature simulation: any scheme of the registry at many sizes, on a sample of the blocks, with caches that are
//! smaller by the same factor (Waldspurger et al., "Cache modeling and optimization using miniature simulations",
//! USENIX ATC 2017). It serves where curves by stack do not: schemes without the stack property.
//!
//! Every VM has each size for itself, and every block access counts as a request. The intervals of a scheme are in
//! requests and shrink with the sample. It must not know how a scheme decides.

use lode_policy::{
    AnyScheme, Arrival, Counters, Effect, Hint, Quota, Scheme, SchemeInfo, Settings, Sink, Watcher, build,
};
use lode_replay::{MAX_LEVEL_BLOCKS, ReplayError};
use lode_reuse::{ReuseError, Sample};
use lode_trace::Merge;
use lode_types::{Access, AccessOp, Level, Origin, OriginFields};

use crate::error::PlanError;
use crate::pool::{BlockAccess, Consumer};
use crate::streams::{Follower, StreamFacts, StreamOptions, follow};

/// Most sizes of one simulation.
pub const MAX_MINI_SIZES: usize = 256;

/// What to simulate.
#[derive(Clone, Debug)]
pub struct MiniOptions {
    /// How traces are followed.
    pub stream: StreamOptions,
    /// The scheme and its settings; its sizing is turned off.
    pub settings: Settings,
    /// Sizes of all levels together, in blocks, ascending.
    pub sizes_blocks: Vec<u64>,
    /// Share of a size that is host memory, with schemes that use it and an SSD. SSDs divide the rest equally.
    pub dram_share: f64,
    /// Share of all blocks that is followed: above 0, at most 1.
    pub rate: f64,
}

/// One VM's outcome.
#[derive(Clone, Debug)]
pub struct MiniVm {
    /// What is known of its stream besides.
    pub facts: StreamFacts,
    /// Share of the blocks that was followed at the end.
    pub rate: f64,
    /// Block accesses of the whole stream.
    pub accesses: u64,
    /// Of these, reads.
    pub reads: u64,
    /// Block accesses that were simulated.
    pub followed_accesses: u64,
    /// What each size led to.
    pub points: Vec<MiniPoint>,
}

/// One VM with one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MiniPoint {
    /// The size, both levels together, in blocks.
    pub size_blocks: u64,
    /// Estimated hits of reads and writes for each block access of the whole stream.
    pub hit_ratio: f64,
    /// Estimated SSD writes for each block access of the whole stream.
    pub ssd_writes_per_access: f64,
}

/// Simulates. `progress` hears of every batch.
///
/// # Errors
/// [`PlanError::Request`] for a rate, share or list of sizes out of range; [`PlanError::Trace`], [`PlanError::Vm`].
pub fn miniature(
    merge: &mut Merge,
    options: &MiniOptions,
    progress: &mut dyn FnMut(&Merge),
) -> Result<Vec<MiniVm>, PlanError> {
    check(options)?;
    let settings = options.settings.for_sample(options.rate).without_sizing();
    let info = SchemeInfo::find(settings.scheme()).map_err(ReplayError::from)?;
    info.check_without_future().map_err(ReplayError::from)?;
    // Streams of blocks have lost who asks.
    info.check_origins(&settings, OriginFields::NONE).map_err(ReplayError::from)?;
    let make = |vm: usize| {
        let sample = Sample::at_rate(options.rate, vm as u64)?;
        let sims = options.sizes_blocks.iter().map(|&size| {
            let quota = scaled_quota(info, size, options);
            (build(&settings, quota, quota), Counted::default())
        });
        Ok(MiniFollower { sample, sims: sims.collect(), accesses: 0, reads: 0, followed: 0 })
    };
    let followed = follow(merge, &options.stream, make, progress)?;
    Ok(followed
        .vms
        .into_iter()
        .map(|(facts, follower)| follower.finish(facts, &options.sizes_blocks))
        .collect())
}

fn check(options: &MiniOptions) -> Result<(), PlanError> {
    let sizes = &options.sizes_blocks;
    let ascending = sizes.windows(2).all(|pair| pair[0] < pair[1]);
    let reason = if !(options.rate > 0.0 && options.rate <= 1.0) {
        "A rate is above 0 and at most 1".to_owned()
    } else if !(0.0..=1.0).contains(&options.dram_share) {
        "The share of DRAM is from 0 to 1".to_owned()
    } else if sizes.is_empty() || sizes.len() > MAX_MINI_SIZES || !ascending {
        format!("Give 1 to {MAX_MINI_SIZES} sizes, each larger than the one before")
    } else if sizes.iter().any(|&size| size == 0 || size > MAX_LEVEL_BLOCKS) {
        format!("A size is from 1 to {MAX_LEVEL_BLOCKS} blocks")
    } else {
        return Ok(());
    };
    Err(PlanError::Request(reason))
}

/// The levels of one simulation. A level that should hold anything holds at least one block.
fn scaled_quota(info: &SchemeInfo, size_blocks: u64, options: &MiniOptions) -> Quota {
    let of_dram = match (info.levels.contains(&Level::Dram), info.levels.contains(&Level::Ssd)) {
        (true, true) => options.dram_share,
        (true, false) => 1.0,
        (false, _) => 0.0,
    };
    let scaled = |share: f64| match size_blocks as f64 * options.rate * share {
        nothing if nothing <= 0.0 => 0,
        blocks => (blocks.round() as u32).max(1),
    };
    let quota = Quota::new(scaled(of_dram), scaled(1.0 - of_dram));
    if !info.levels.contains(&Level::ReadSsd) {
        return quota;
    }
    let of_each_ssd = scaled((1.0 - of_dram) / 2.0);
    quota.with(Level::Ssd, of_each_ssd).with(Level::ReadSsd, of_each_ssd)
}

/// Counts effects.
#[derive(Default)]
struct Counted(Counters);

impl Sink for Counted {
    #[inline]
    fn effect(&mut self, effect: Effect) {
        self.0.effect(&effect);
    }
}

impl Watcher for Counted {
    #[inline]
    fn begin_access(&mut self, access: &Access) {
        self.0.access(access);
    }

    fn end_access(&mut self) {}

    fn end_request(&mut self, _: AccessOp) {}
}

struct MiniFollower {
    sample: Sample,
    sims: Vec<(AnyScheme, Counted)>,
    accesses: u64,
    reads: u64,
    followed: u64,
}

impl Consumer for MiniFollower {
    type Error = ReuseError;

    fn take(&mut self, batches: &[Vec<BlockAccess>]) -> Result<(), ReuseError> {
        batches.iter().for_each(|accesses| self.simulate(accesses));
        Ok(())
    }

    fn end_interval(&mut self) {}
}

impl MiniFollower {
    fn simulate(&mut self, accesses: &[BlockAccess]) {
        self.accesses += accesses.len() as u64;
        self.reads += accesses.iter().filter(|access| access.0 == AccessOp::Read).count() as u64;
        let kept: Vec<Arrival> = accesses
            .iter()
            .filter(|&&(_, block)| self.sample.follows(block))
            .map(|&(op, block)| {
                let access = Access { block, op, partial: false, origin: Origin::UNKNOWN };
                Arrival { access, hint: Hint::new(block), now_ns: 0, last: true }
            })
            .collect();
        self.followed += kept.len() as u64;
        for (scheme, counted) in &mut self.sims {
            scheme.decide_all(kept.iter(), counted);
        }
    }
}

impl Follower for MiniFollower {
    fn memory_bytes(&self) -> u64 {
        self.sims.iter().map(|(scheme, _)| scheme.memory_bytes() as u64).sum()
    }

    fn shrink(&mut self) -> bool {
        // A cache is no smaller for a smaller sample, so that its rate is chosen before.
        false
    }

    fn rate(&self) -> f64 {
        self.sample.rate()
    }
}

impl MiniFollower {
    fn finish(self, facts: StreamFacts, sizes_blocks: &[u64]) -> MiniVm {
        let rate = self.sample.rate();
        // The blocks that were sampled may have more or fewer accesses than their share. What is missing or too many
        // are taken for hits, as accesses to the few most popular blocks are what a sample gets wrong.
        let expected = rate * self.accesses as f64;
        let per_access = |count: f64| if expected > 0.0 { count / expected } else { 0.0 };
        let points = sizes_blocks.iter().zip(&self.sims).map(|(&size_blocks, (_, Counted(counters)))| {
            let hits = counters.read_hits.iter().sum::<u64>() + counters.write_hits_ssd;
            let misses = self.followed - hits.min(self.followed);
            MiniPoint {
                size_blocks,
                hit_ratio: (1.0 - per_access(misses as f64)).clamp(0.0, 1.0),
                ssd_writes_per_access: per_access(counters.ssd_writes.total() as f64),
            }
        });
        let points = if self.accesses == 0 { Vec::new() } else { points.collect() };
        MiniVm {
            facts,
            rate,
            accesses: self.accesses,
            reads: self.reads,
            followed_accesses: self.followed,
            points,
        }
    }
}
