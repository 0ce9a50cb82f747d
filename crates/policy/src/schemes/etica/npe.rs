//! ETICA without promotion, as [`Etica`](super::Etica) decides it, where no block needs a history: two levels by recency, and
//! beside them the distances of a sample of the blocks, or none.
//!
//! It must not know what a block outside both levels is worth.

use lode_types::{Access, BlockNo, Direction, Level};

use super::config::Config;
use super::sampled_pods::SampledPods;
use crate::effect::{Effect, Sink, Slot};
use crate::parts::sets::Sets;
use crate::parts::ssd_level::{Newcomer, Replacement};
use crate::prefetch::{Lookahead, Prefetch, PrefetchHint};
use crate::quota::Quota;
use crate::scheme::{LevelDemand, Points, Scheme, Sizing};
use crate::settings::Settings;

/// One VM's cache under NPE.
#[derive(Debug)]
pub struct Npe {
    dram: Sets<true>,
    ssd: Sets<true>,
    /// `None`: nobody asks for demands.
    pods: Option<SampledPods>,
    accesses_in_window: u64,
    writes_in_window: u64,
}

impl Npe {
    /// A cache with this share on a host that has `physical`.
    pub(super) fn new(settings: &Settings, config: &Config, physical: Quota, quota: Quota) -> Npe {
        Npe {
            dram: Sets::of_level(Level::Dram, settings, quota.dram_blocks),
            ssd: Sets::of_level(Level::Ssd, settings, quota.ssd_blocks),
            pods: config.measures_demand.then(|| SampledPods::new(settings, config, physical)),
            accesses_in_window: 0,
            writes_in_window: 0,
        }
    }

    #[inline]
    fn note(&mut self, block: BlockNo, op: Direction, dram_hit: bool) {
        self.accesses_in_window += 1;
        self.writes_in_window += u64::from(op == Direction::Write);
        if let Some(pods) = &mut self.pods {
            pods.note(block, op, dram_hit);
        }
    }

    /// Where the SSD has a block. The hint is about DRAM.
    #[inline]
    fn ssd_slot(&self, hint: PrefetchHint, block: BlockNo) -> Option<Slot> {
        self.ssd.find(PrefetchHint { entry: PrefetchHint::NO_ENTRY, ..hint }, block)
    }

    #[inline]
    fn read<S: Sink>(&mut self, block: BlockNo, hint: PrefetchHint, sink: &mut S) {
        let in_dram = self.dram.find(hint, block);
        self.note(block, Direction::Read, in_dram.is_some());
        if let Some(slot) = in_dram {
            self.dram.touch(block, slot);
            sink.effect(Effect::ReadLevel { level: Level::Dram, slot });
            return;
        }
        match self.ssd_slot(hint, block) {
            Some(slot) => {
                self.ssd.touch(block, slot);
                sink.effect(Effect::ReadLevel { level: Level::Ssd, slot });
            }
            None => sink.effect(Effect::ReadBacking),
        }
        if let Some((_, slot)) = self.dram.admit(Newcomer { hash: hint.hash, block, ghost: None }, sink) {
            sink.effect(Effect::Fill { level: Level::Dram, slot });
        }
    }

    #[inline]
    fn write<S: Sink>(&mut self, block: BlockNo, partial: bool, hint: PrefetchHint, sink: &mut S) {
        let (in_dram, in_ssd) = (self.dram.find(hint, block), self.ssd_slot(hint, block));
        self.note(block, Direction::Write, in_dram.is_some());
        let new = Newcomer { hash: hint.hash, block, ghost: None };
        let slot = in_ssd.or_else(|| self.ssd.admit(new, sink).map(|(_, slot)| slot));
        if let Some(slot) = slot {
            if partial {
                sink.effect(match (in_dram, in_ssd) {
                    (Some(slot), _) => Effect::MergeLevel { level: Level::Dram, slot },
                    (None, Some(slot)) => Effect::MergeLevel { level: Level::Ssd, slot },
                    (None, None) => Effect::MergeBacking,
                });
            }
            self.ssd.touch(block, slot);
            self.ssd.set_dirty(slot, true);
        }
        if let Some(slot) = in_dram {
            self.dram.remove(block, slot);
            sink.effect(Effect::Invalidate { level: Level::Dram, slot });
        }
        sink.effect(match slot {
            Some(slot) => Effect::WriteLevel { level: Level::Ssd, slot, hit: in_ssd.is_some(), dirty: true },
            None => Effect::WriteBacking,
        });
    }
}

impl Prefetch for Npe {
    #[inline]
    fn prefetch_index(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        self.dram.prefetch_index(blocks.inspect(|(_, hint)| self.ssd.prefetch_index_of(hint.hash)));
    }

    #[inline]
    fn prefetch_entries<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut PrefetchHint)>) {
        self.dram.prefetch_entries(blocks.inspect(|(_, hint)| self.ssd.prefetch_entry(hint.hash)));
    }

    #[inline]
    fn prefetch_neighbours(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        self.dram.prefetch_neighbours(blocks);
    }
}

impl Sizing for Npe {
    fn demand(&mut self, points: Points) -> [LevelDemand; 2] {
        let accesses = std::mem::take(&mut self.accesses_in_window);
        let writes = std::mem::take(&mut self.writes_in_window);
        let Some(pods) = &mut self.pods else { return Default::default() };
        let mut demands = pods.close_window(accesses, points);
        demands[Level::Ssd.index()].buffered_writes = writes;
        demands
    }
}

impl Lookahead for Npe {
    #[inline]
    fn access_prefetched<S: Sink>(&mut self, access: Access, hint: PrefetchHint, sink: &mut S) {
        match access.op {
            Direction::Read => self.read(access.block, hint, sink),
            Direction::Write => self.write(access.block, access.partial, hint, sink),
        }
    }
}

impl Scheme for Npe {
    #[inline]
    fn access<S: Sink>(&mut self, access: Access, sink: &mut S) {
        self.access_prefetched(access, PrefetchHint::new(access.block), sink);
    }

    fn discard<S: Sink>(&mut self, block: BlockNo, sink: &mut S) {
        let hint = PrefetchHint::new(block);
        for (sets, level) in [(&mut self.dram, Level::Dram), (&mut self.ssd, Level::Ssd)] {
            if let Some(slot) = sets.find(hint, block) {
                sets.remove(block, slot);
                sink.effect(Effect::Invalidate { level, slot });
            }
        }
        if let Some(pods) = &mut self.pods {
            pods.forget(block);
        }
    }

    fn forget(&mut self, level: Level, block: BlockNo) {
        let sets = match level {
            Level::Dram => &mut self.dram,
            Level::Ssd => &mut self.ssd,
            Level::ReadSsd => return,
        };
        if let Some(slot) = sets.find(PrefetchHint::new(block), block) {
            sets.remove(block, slot);
        }
    }

    fn cleaned(&mut self, block: BlockNo) {
        if let Some(slot) = self.ssd.find(PrefetchHint::new(block), block) {
            self.ssd.set_dirty(slot, false);
        }
    }

    fn restore(&mut self, block: BlockNo, dirty: bool) -> Option<Slot> {
        let hint = PrefetchHint::new(block);
        if self.ssd.find(hint, block).is_some() {
            return None;
        }
        let (_, slot) = self.ssd.restore(Newcomer { hash: hint.hash, block, ghost: None })?;
        self.ssd.set_dirty(slot, dirty);
        Some(slot)
    }

    fn expect(&mut self, blocks: u32) {
        self.ssd.expect(blocks.min(self.ssd.capacity()));
    }

    fn resize<S: Sink>(&mut self, quota: Quota, sink: &mut S) {
        self.dram.resize(quota.dram_blocks, sink);
        self.ssd.resize(quota.ssd_blocks, sink);
    }

    fn quota(&self) -> Quota {
        Quota::new(self.dram.capacity(), self.ssd.capacity())
    }

    fn resident_blocks(&self, level: Level) -> u32 {
        match level {
            Level::Dram => self.dram.cached(),
            Level::Ssd => self.ssd.cached(),
            Level::ReadSsd => 0,
        }
    }

    fn sizing(&mut self) -> Option<&mut dyn Sizing> {
        if self.pods.is_some() { Some(self) } else { None }
    }

    fn memory_bytes(&self) -> usize {
        let pods = self.pods.as_ref().map_or(0, SampledPods::memory_bytes);
        self.dram.memory_bytes() + self.ssd.memory_bytes() + pods
    }
}
