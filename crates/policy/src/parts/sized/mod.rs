//! One SSD level of sets under LRU whose share follows a measure of the VM's stream: the sizing schemes before ETICA.
//!
//! A [`Measure`] looks at one VM and says what it could use; it must not know the others. Who gets what is the
//! [`Sizer`](crate::Sizer)'s to say.

mod history;
pub(crate) mod reuse;

use lode_types::{Access, BlockNo, Level};

use crate::effect::{Effect, Sink, Slot};
use crate::parts::sampling;
use crate::parts::sets::Sets;
use crate::parts::ssd_level::SsdLevel;
use crate::prefetch::{Lookahead, Prefetch, PrefetchHint};
use crate::quota::Quota;
use crate::scheme::{LevelDemand, Points, Scheme, Sizing};
use crate::settings::{SettingInfo, Settings};
use crate::tracked::Footprint;

const WINDOW: SettingInfo = SettingInfo::choice("window", "carry", &["carry", "reset"])
    .about(
        "what reuse distances see at the start of a sizing interval: carry: the history before it; \
         reset: nothing",
    )
    .source("the papers look at each interval by itself (reset); carry is better in production");

const TRACK_BLOCKS: SettingInfo = SettingInfo::scaled("track_blocks", "0", 0, 1 << 30)
    .about(
        "blocks a VM's history may hold, at least as many as the host has; 0: twice what the host has, \
         plus 16384",
    )
    .source("ours: no distance beyond the level's size can change a share");

/// The settings of those that measure reuse distances.
pub(crate) static HISTORY: &[SettingInfo] =
    &[WINDOW, TRACK_BLOCKS, sampling::DISTANCES, sampling::SAMPLE_BLOCKS];

/// The same of those that are quick rather than exact, unless it is said.
pub(crate) static SAMPLED_HISTORY: &[SettingInfo] = &[
    WINDOW,
    TRACK_BLOCKS,
    SettingInfo { default: sampling::SAMPLED, ..sampling::DISTANCES },
    sampling::SAMPLE_BLOCKS,
];

/// What the tables of those take.
pub(crate) const FOOTPRINT: Footprint =
    Footprint::new(16 << 10, 24).with_history(44).with_sets(16).remembering(|settings, _, physical| {
        sampling::tracked_blocks(settings, track_limit(settings, physical)).into()
    });

/// Blocks whose history is kept, of a host with these levels.
pub(crate) fn track_limit(settings: &Settings, physical: Quota) -> u32 {
    const SMALLEST: u64 = 16_384;
    const TIMES_PHYSICAL: u64 = 2;
    const LARGEST: u64 = 1 << 30;
    let physical = u64::from(physical.dram_blocks) + u64::from(physical.ssd_blocks);
    let blocks = match settings.integer("track_blocks") {
        0 => SMALLEST + TIMES_PHYSICAL * physical,
        blocks => blocks.max(physical),
    };
    blocks.min(LARGEST) as u32
}

/// The level of every sizing scheme.
type Lru = SsdLevel<Sets<true>>;

/// The steps of [`Prefetch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefetchStep {
    /// What the index says of blocks.
    Index,
    /// Their entries.
    Entries,
    /// What the entries lead to.
    Neighbours,
}

/// What one VM could use, from its stream and from what its level does.
pub trait Measure {
    /// Nothing seen yet; `physical` bounds what the VM may ever get.
    fn new(settings: &Settings, physical: Quota) -> Self;

    /// An access comes, to a block with this hash.
    fn access(&mut self, _access: Access, _hash: u32) {}

    /// The level does this.
    fn effect(&mut self, _effect: &Effect) {}

    /// The guest no longer needs the block.
    fn discard(&mut self, _block: BlockNo) {}

    /// The level lost what was in this slot.
    fn lost(&mut self, _slot: Slot) {}

    /// Ends the window and says what the VM, which has a share of so many blocks, could have used of the SSD.
    fn demand(&mut self, points: Points, share_blocks: u32) -> LevelDemand;

    /// Takes one step of [`Prefetch`] for a block with this hash.
    fn prefetch(&self, _step: PrefetchStep, _hash: u32) {}

    /// Bytes of memory.
    fn memory_bytes(&self) -> usize;
}

/// One VM's SSD level and its measure.
#[derive(Debug)]
pub struct Measured<M> {
    pub(crate) level: Lru,
    pub(crate) measure: M,
    /// Whether anybody will ask for demands.
    sizing: bool,
}

/// Shows effects to a measure on their way.
struct Watched<'a, M, S> {
    measure: &'a mut M,
    sink: &'a mut S,
}

impl<M: Measure, S: Sink> Sink for Watched<'_, M, S> {
    #[inline(always)]
    fn effect(&mut self, effect: Effect) {
        self.measure.effect(&effect);
        self.sink.effect(effect);
    }
}

impl<M: Measure> Measured<M> {
    /// A cache of `quota.ssd_blocks` on a host that has `physical`; the scheme uses no DRAM.
    pub fn new(settings: &Settings, physical: Quota, quota: Quota) -> Measured<M> {
        Measured::over(Lru::new(settings, quota), settings, physical)
    }

    /// Over this level.
    pub(crate) fn over(level: Lru, settings: &Settings, physical: Quota) -> Measured<M> {
        Measured { level, measure: M::new(settings, physical), sizing: settings.measures_demand() }
    }
}

impl<M: Measure> Prefetch for Measured<M> {
    #[inline]
    fn prefetch_index(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        let measure = |hash| self.measure.prefetch(PrefetchStep::Index, hash);
        self.level.prefetch_index(blocks.inspect(|(_, hint)| measure(hint.hash)));
    }

    #[inline]
    fn prefetch_entries<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut PrefetchHint)>) {
        let measure = |hash| self.measure.prefetch(PrefetchStep::Entries, hash);
        self.level.prefetch_entries(blocks.inspect(|(_, hint)| measure(hint.hash)));
    }

    #[inline]
    fn prefetch_neighbours(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        let measure = |hash| self.measure.prefetch(PrefetchStep::Neighbours, hash);
        self.level.prefetch_neighbours(blocks.inspect(|(_, hint)| measure(hint.hash)));
    }
}

impl<M: Measure> Sizing for Measured<M> {
    fn demand(&mut self, points: Points) -> [LevelDemand; 2] {
        let mut demands = <[LevelDemand; 2]>::default();
        let mut demand = self.measure.demand(points, self.level.quota().ssd_blocks);
        if !self.level.keeps_dirty() {
            demand.buffered_writes = 0;
        }
        demands[Level::Ssd.index()] = demand;
        demands
    }
}

impl<M: Measure> Lookahead for Measured<M> {
    #[inline]
    fn access_prefetched<S: Sink>(&mut self, access: Access, hint: PrefetchHint, sink: &mut S) {
        self.measure.access(access, hint.hash);
        let mut sink = Watched { measure: &mut self.measure, sink };
        self.level.access_prefetched(access, hint, &mut sink);
    }
}

impl<M: Measure> Scheme for Measured<M> {
    #[inline]
    fn access<S: Sink>(&mut self, access: Access, sink: &mut S) {
        self.access_prefetched(access, PrefetchHint::new(access.block), sink);
    }

    fn discard<S: Sink>(&mut self, block: BlockNo, sink: &mut S) {
        self.measure.discard(block);
        self.level.discard(block, &mut Watched { measure: &mut self.measure, sink });
    }

    fn forget(&mut self, level: Level, block: BlockNo) {
        if level == Level::Ssd
            && let Some(slot) = self.level.slot_of(block)
        {
            self.measure.lost(slot);
            self.level.forget(level, block);
        }
    }

    fn resize<S: Sink>(&mut self, quota: Quota, sink: &mut S) {
        self.level.resize(quota, &mut Watched { measure: &mut self.measure, sink });
    }

    forward_to_level!(state);

    fn sizing(&mut self) -> Option<&mut dyn Sizing> {
        if self.sizing { Some(self) } else { None }
    }

    fn memory_bytes(&self) -> usize {
        self.level.memory_bytes() + self.measure.memory_bytes()
    }
}
