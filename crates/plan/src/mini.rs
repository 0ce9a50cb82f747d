//! Miniature simulation: any scheme of the registry at many sizes, on a sample of the blocks, with caches that are
//! smaller by the same factor (Waldspurger et al., "Cache modeling and optimization using miniature simulations",
//! USENIX ATC 2017). It serves where curves by stack do not: schemes without the stack property.
//!
//! Every VM has each size for itself, and every block access counts as a request. What a scheme counts in requests, accesses or
//! blocks shrinks with the sample; a scheme that decides by what lies side by side is refused one, and so is a clock.
//!
//! The size of a cache is fixed when it is built, and so is the rate. A VM's accesses wait until the sample holds more blocks
//! than [`LEAST_BLOCKS`] at the rate that was asked for, or until there are too many: a VM of few blocks is simulated at a
//! higher rate, as its curve would be measured. It must not know how a scheme decides.

use std::collections::HashSet;
use std::sync::Arc;

use lode_policy::{
    AccessSink, AnyScheme, Counters, Effect, Lookahead, PrefetchHint, PrefetchedAccess, Quota, RequestSource,
    Scheme, SchemeInfo, Settings, Sink, build,
};
use lode_replay::{MAX_LEVEL_BLOCKS, ReplayError};
use lode_reuse::{LEAST_BLOCKS, ReuseError, Sample};
use lode_trace::Merge;
use lode_types::{Access, BlockNo, Direction, Level, Origin, OriginFields};

use crate::error::PlanError;
use crate::levels::title;
use crate::pool::{BlockAccess, Consumer};
use crate::streams::{Follower, StreamFacts, StreamOptions, follow};

/// Sizes that a simulation has when none are named: powers of two, in bytes.
pub const SIMULATED_POWERS: std::ops::RangeInclusive<u32> = 20..=40;

/// Most sizes of one simulation.
pub const MAX_MINI_SIZES: usize = 256;

/// Most accesses of a VM that wait for its rate, 64 MiB of them.
const MAX_WAITING: usize = 1 << 22;

/// What is left of a rate that follows more blocks than are needed.
const RATE_STEP: f64 = 7.0 / 8.0;

/// What to simulate.
#[derive(Clone, Debug)]
pub struct MiniOptions {
    /// How traces are followed.
    pub stream: StreamOptions,
    /// The scheme and its settings. Its sizing is turned off, and it has no sets unless they were asked for: curves that are
    /// measured have none, and of a set's neighbours a sample has hardly any.
    pub settings: Settings,
    /// Sizes of all levels together, in blocks, ascending.
    pub sizes_blocks: Vec<u64>,
    /// Share of a size that is host memory, with schemes that use it and an SSD. SSDs divide the rest equally.
    pub dram_share: f64,
    /// Share of all blocks that is followed at least: above 0, at most 1. More where that leaves a VM fewer than
    /// [`LEAST_BLOCKS`].
    pub rate: f64,
}

/// One VM's outcome.
#[derive(Clone, Debug)]
pub struct MiniVm {
    /// What is known of its stream besides.
    pub facts: StreamFacts,
    /// Share of the blocks that was followed.
    pub rate: f64,
    /// Distinct blocks that were followed.
    pub followed_blocks: u64,
    /// Block accesses of the whole stream.
    pub accesses: u64,
    /// Of these, reads.
    pub reads: u64,
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
/// [`PlanError::Request`] for a rate, share or list of sizes out of range, and for a scheme that counts seconds;
/// [`PlanError::Replay`] for one that a sample or streams of blocks tell too little; [`PlanError::Trace`], [`PlanError::Vm`].
pub fn miniature(
    merge: &mut Merge,
    options: &MiniOptions,
    progress: &mut dyn FnMut(&Merge),
) -> Result<Vec<MiniVm>, PlanError> {
    check(options)?;
    let info = SchemeInfo::find(options.settings.scheme()).map_err(ReplayError::from)?;
    info.check_without_future().map_err(ReplayError::from)?;
    if options.rate < 1.0 {
        info.check_sample(&options.settings).map_err(ReplayError::from)?;
    }
    check_clock(info, &options.settings)?;
    // Every VM is followed by itself.
    info.check_alone(&options.settings).map_err(ReplayError::from)?;
    // Streams of blocks have lost who asks.
    info.check_origins(&options.settings, OriginFields::NONE, RequestSource::Trace)
        .map_err(ReplayError::from)?;
    check_levels(info, options)?;
    let asked = Arc::new(Asked { info, options: options.clone() });
    let make = |vm: usize| MiniFollower::new(vm as u64, Arc::clone(&asked));
    let followed = follow(merge, &options.stream, make, progress)?;
    Ok(followed.vms.into_iter().map(|(facts, follower)| follower.finish(facts)).collect())
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

/// That the scheme has something of each level without which it cannot work.
fn check_levels(info: &SchemeInfo, options: &MiniOptions) -> Result<(), PlanError> {
    let largest = options.sizes_blocks.last().copied().unwrap_or(0);
    let quota = scaled_quota(info, largest, options.dram_share, 1.0);
    match Level::ALL.into_iter().find(|&level| quota.of(level) == 0 && info.least_blocks(level) > 0) {
        Some(level) => Err(PlanError::Request(format!(
            "{} needs {}, of which --dram-share {} leaves nothing; write one between 0 and 1",
            info.name,
            title(level),
            options.dram_share
        ))),
        None => Ok(()),
    }
}

/// Streams of blocks have lost their times, too.
fn check_clock(info: &SchemeInfo, settings: &Settings) -> Result<(), PlanError> {
    info.check_without_times(settings).map_err(ReplayError::from)?;
    if settings.values().any(|pair| pair == ("trigger", "time")) {
        return Err(PlanError::Request(format!(
            "A simulation of {} at many sizes has no times, which trigger=time counts; leave that out, or replay with \
             `lode compare`",
            settings.scheme()
        )));
    }
    Ok(())
}

/// The levels of one simulation. A level that should hold anything holds at least one block.
fn scaled_quota(info: &SchemeInfo, size_blocks: u64, dram_share: f64, rate: f64) -> Quota {
    let of_dram = match (info.levels.contains(&Level::Dram), info.levels.contains(&Level::Ssd)) {
        (true, true) => dram_share,
        (true, false) => 1.0,
        (false, _) => 0.0,
    };
    let scaled = |share: f64| match size_blocks as f64 * rate * share {
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

impl AccessSink for Counted {
    #[inline]
    fn begin_access(&mut self, access: &Access) {
        self.0.access(access);
    }

    fn end_request(&mut self, _: Direction) {}
}

/// What is the same for all VMs.
struct Asked {
    info: &'static SchemeInfo,
    options: MiniOptions,
}

/// One cache, and what it did.
type Sim = (AnyScheme, Counted);

struct MiniFollower {
    asked: Arc<Asked>,
    salt: u64,
    sample: Sample,
    /// Those that are followed.
    blocks: HashSet<BlockNo>,
    /// Followed accesses that wait for the rate to be known.
    waiting: Vec<BlockAccess>,
    /// The caches; none yet while accesses wait.
    sims: Option<Vec<Sim>>,
    accesses: u64,
    reads: u64,
    followed: u64,
}

impl Consumer for MiniFollower {
    type Error = ReuseError;

    fn take(&mut self, batches: &[Vec<BlockAccess>]) -> Result<(), ReuseError> {
        batches.iter().try_for_each(|accesses| self.take_batch(accesses))
    }

    fn end_interval(&mut self) {}
}

impl MiniFollower {
    fn new(salt: u64, asked: Arc<Asked>) -> Result<MiniFollower, ReuseError> {
        let mut follower = MiniFollower {
            asked,
            salt,
            sample: Sample::at_rate(1.0, salt)?,
            blocks: HashSet::new(),
            waiting: Vec::new(),
            sims: None,
            accesses: 0,
            reads: 0,
            followed: 0,
        };
        if follower.asked.options.rate >= 1.0 {
            follower.start();
        }
        Ok(follower)
    }

    fn take_batch(&mut self, accesses: &[BlockAccess]) -> Result<(), ReuseError> {
        self.accesses += accesses.len() as u64;
        self.reads += accesses.iter().filter(|access| access.0 == Direction::Read).count() as u64;
        let followed = || accesses.iter().filter(|access| self.sample.follows(access.1)).copied();
        self.blocks.extend(followed().map(|access| access.1));
        if let Some(sims) = &mut self.sims {
            self.followed += simulate(sims, followed());
            return Ok(());
        }
        self.waiting.extend(followed());
        while self.sims.is_none() && self.blocks.len() > LEAST_BLOCKS as usize {
            self.lower_to(self.sample.rate() * RATE_STEP)?;
        }
        if self.sims.is_none() && self.waiting.len() > MAX_WAITING {
            self.start();
        }
        Ok(())
    }

    /// Follows a smaller share of the blocks while accesses wait, and begins at what was asked for.
    fn lower_to(&mut self, rate: f64) -> Result<(), ReuseError> {
        let asked = self.asked.options.rate;
        let sample = Sample::at_rate(rate.max(asked), self.salt)?;
        self.sample = sample;
        self.blocks.retain(|&block| sample.follows(block));
        self.waiting.retain(|access| sample.follows(access.1));
        if rate <= asked {
            self.start();
        }
        Ok(())
    }

    /// Builds the caches for the present rate, for good, and simulates what waited.
    fn start(&mut self) {
        let Asked { info, options } = &*self.asked;
        let rate = self.sample.rate();
        let settings = options.settings.for_sample(rate).without_sizing().without_sets();
        let sim = |&size: &u64| {
            let quota = scaled_quota(info, size, options.dram_share, rate);
            (build(&settings, quota, quota), Counted::default())
        };
        let mut sims: Vec<Sim> = options.sizes_blocks.iter().map(sim).collect();
        self.followed += simulate(&mut sims, std::mem::take(&mut self.waiting).into_iter());
        self.sims = Some(sims);
    }
}

/// Simulates accesses; gives their number.
fn simulate(sims: &mut [Sim], accesses: impl Iterator<Item = BlockAccess>) -> u64 {
    let prefetched = |(op, block)| {
        let access = Access { block, op, partial: false, origin: Origin::UNKNOWN };
        PrefetchedAccess { access, hint: PrefetchHint::new(block), now_ns: 0, last: true }
    };
    let accesses: Vec<PrefetchedAccess> = accesses.map(prefetched).collect();
    for (scheme, counted) in sims {
        scheme.access_batch(accesses.iter(), counted);
    }
    accesses.len() as u64
}

impl Follower for MiniFollower {
    fn memory_bytes(&self) -> u64 {
        let sims: usize = self.sims.iter().flatten().map(|(scheme, _)| scheme.memory_bytes()).sum();
        let waiting = self.waiting.capacity() * size_of::<BlockAccess>();
        (sims + waiting + self.blocks.capacity() * size_of::<BlockNo>()) as u64
    }

    fn shrink(&mut self) -> bool {
        // A cache is no smaller for a smaller sample. Before there is one, the rate can still be what was asked for.
        self.sims.is_none() && self.lower_to(self.asked.options.rate).is_ok()
    }

    fn rate(&self) -> f64 {
        self.sample.rate()
    }

    fn most_blocks(&self) -> u64 {
        u64::MAX
    }
}

impl MiniFollower {
    fn finish(mut self, facts: StreamFacts) -> MiniVm {
        if self.sims.is_none() {
            self.start();
        }
        let sizes = self.asked.options.sizes_blocks.iter();
        let points =
            sizes.zip(self.sims.iter().flatten()).map(|(&size, (_, counted))| self.point(size, counted));
        MiniVm {
            points: if self.accesses == 0 { Vec::new() } else { points.collect() },
            facts,
            rate: self.sample.rate(),
            followed_blocks: self.blocks.len() as u64,
            accesses: self.accesses,
            reads: self.reads,
        }
    }

    fn point(&self, size_blocks: u64, Counted(counters): &Counted) -> MiniPoint {
        // The blocks that were sampled may have more or fewer accesses than their share. What is missing or too many
        // are taken for hits, as accesses to the few most popular blocks are what a sample gets wrong. So the reads
        // among them write nothing, and the writes as many blocks each as those that were followed.
        let rate = self.sample.rate();
        let expected = rate * self.accesses as f64;
        let hits = counters.read_hits.iter().sum::<u64>() + counters.write_hits_ssd;
        let of_all = match counters.ssd_writes.write {
            // Where writes never go to the SSD they never hit, and only reads can be missing hits.
            0 => rate * self.reads as f64 - counters.read_misses as f64,
            _ => expected - (self.followed - hits.min(self.followed)) as f64,
        };
        let of_writes = match counters.block_writes {
            0 => 0.0,
            followed => {
                counters.ssd_writes.write as f64 / followed as f64
                    * rate
                    * (self.accesses - self.reads) as f64
            }
        };
        let ssd_writes = (counters.ssd_writes.total() - counters.ssd_writes.write) as f64 + of_writes;
        MiniPoint {
            size_blocks,
            hit_ratio: (of_all / expected).clamp(0.0, 1.0),
            ssd_writes_per_access: ssd_writes / expected,
        }
    }
}
