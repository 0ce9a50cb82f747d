//! uCache, as far as it is known (its abstract, and what TICA section 5 says of it): DRAM filters what is worth a place on the
//! SSD, and the SSD holds that and the writes, under LRU.
//!
//! It must not know device mirrors: TICA's comparison puts the SSD on two devices, which is a matter of counting them.

use lode_types::{Access, AccessOp, BlockNo, Level};

use crate::effect::{CopySource, Effect, Sink, Slot};
use crate::quota::Quota;
use crate::scheme::{Hint, Scheme};
use crate::schemes::queues::Queues;
use crate::schemes::ssd_level::Id;
use crate::settings::{SettingInfo, SettingKind, Settings};

pub(crate) static SETTINGS: &[SettingInfo] = &[SettingInfo {
    key: "worth_hits",
    default: "1",
    kind: SettingKind::Integer { min: 0, max: u8::MAX as u64 },
    about: "hits of a block while it was in DRAM that make it worth a place on the SSD when it leaves",
    source: "ours; uCache's rule is not known to us",
}];

pub(crate) static TABLES: &[&[SettingInfo]] = &[SETTINGS];

/// The only queue of each level, by recency. In DRAM a block's mark is the number of its hits.
const LRU: usize = 0;

/// One VM's DRAM filter over an SSD.
#[derive(Debug)]
pub struct UcacheLike {
    dram: Queues<1>,
    ssd: Queues<1>,
    quota: Quota,
    worth_hits: u8,
}

impl UcacheLike {
    /// A cache with this share.
    pub fn new(settings: &Settings, quota: Quota) -> UcacheLike {
        UcacheLike {
            dram: Queues::of(Level::Dram),
            ssd: Queues::of(Level::Ssd),
            quota,
            worth_hits: settings.integer("worth_hits") as u8,
        }
    }

    #[inline]
    fn in_dram(&self, hint: Hint, block: BlockNo) -> Option<(Id, Slot)> {
        let id = self.dram.find(hint, block)?;
        self.dram.slot(id).map(|slot| (id, slot))
    }

    #[inline]
    fn in_ssd(&self, hash: u32, block: BlockNo) -> Option<(Id, Slot)> {
        let id = self.ssd.find(Hint { hash, place: Hint::NO_PLACE }, block)?;
        self.ssd.slot(id).map(|slot| (id, slot))
    }

    fn read<S: Sink>(&mut self, block: BlockNo, hint: Hint, sink: &mut S) {
        if let Some((id, slot)) = self.in_dram(hint, block) {
            self.dram.set_mark(id, self.dram.mark(id).saturating_add(1));
            self.dram.move_to_front(LRU, id);
            sink.effect(Effect::ReadLevel { level: Level::Dram, slot });
            return;
        }
        if let Some((id, slot)) = self.in_ssd(hint.hash, block) {
            self.ssd.move_to_front(LRU, id);
            sink.effect(Effect::ReadLevel { level: Level::Ssd, slot });
            return;
        }
        sink.effect(Effect::ReadBacking);
        if self.quota.dram_blocks > 0 {
            if self.dram.cached() >= self.quota.dram_blocks {
                self.filter(sink);
            }
            let id = self.dram.insert(LRU, hint.hash, block);
            let slot = self.dram.give_slot(id);
            sink.effect(Effect::Fill { level: Level::Dram, slot });
        }
    }

    /// The least recently used block leaves DRAM, for the SSD if it is worth that.
    fn filter<S: Sink>(&mut self, sink: &mut S) {
        let Some(oldest) = self.dram.oldest(LRU) else { return };
        if self.dram.mark(oldest) >= self.worth_hits
            && self.quota.ssd_blocks > 0
            && let Some(from) = self.dram.slot(oldest)
        {
            let block = self.dram.block(oldest);
            let slot = self.put_in_ssd(Hint::new(block).hash, block, sink).1;
            let from = CopySource::Level { level: Level::Dram, slot: from };
            sink.effect(Effect::Copy { to: Level::Ssd, slot, block, from });
        }
        self.dram.evict(oldest, sink);
        self.dram.fetch_behind(LRU);
    }

    /// Gives a block that the SSD does not hold a place there, in the place of the least recently used one.
    fn put_in_ssd<S: Sink>(&mut self, hash: u32, block: BlockNo, sink: &mut S) -> (Id, Slot) {
        if self.ssd.cached() >= self.quota.ssd_blocks {
            self.evict_from_ssd(sink);
        }
        let id = self.ssd.insert(LRU, hash, block);
        (id, self.ssd.give_slot(id))
    }

    fn evict_from_ssd<S: Sink>(&mut self, sink: &mut S) {
        if let Some(oldest) = self.ssd.oldest(LRU) {
            self.ssd.evict(oldest, sink);
            self.ssd.fetch_behind(LRU);
        }
    }

    fn write<S: Sink>(&mut self, block: BlockNo, partial: bool, hint: Hint, sink: &mut S) {
        let in_dram = self.in_dram(hint, block);
        let in_ssd = self.in_ssd(hint.hash, block);
        let target = match in_ssd {
            None if self.quota.ssd_blocks > 0 => Some(self.put_in_ssd(hint.hash, block, sink)),
            known => known,
        };
        if let Some((id, _)) = target {
            if partial {
                sink.effect(match (in_dram, in_ssd) {
                    (Some((_, slot)), _) => Effect::MergeLevel { level: Level::Dram, slot },
                    (None, Some((_, slot))) => Effect::MergeLevel { level: Level::Ssd, slot },
                    (None, None) => Effect::MergeBacking,
                });
            }
            self.ssd.move_to_front(LRU, id);
            self.ssd.set_dirty(id, true);
        }
        if let Some((id, slot)) = in_dram {
            self.dram.remove(id);
            sink.effect(Effect::Invalidate { level: Level::Dram, slot });
        }
        sink.effect(match target {
            Some((_, slot)) => {
                Effect::WriteLevel { level: Level::Ssd, slot, hit: in_ssd.is_some(), dirty: true }
            }
            None => Effect::WriteBacking,
        });
    }
}

impl Scheme for UcacheLike {
    #[inline]
    fn access_foreseen<S: Sink>(&mut self, access: Access, hint: Hint, sink: &mut S) {
        match access.op {
            AccessOp::Read => self.read(access.block, hint, sink),
            AccessOp::Write => self.write(access.block, access.partial, hint, sink),
        }
    }

    #[inline]
    fn end_request<S: Sink>(&mut self, _now_ns: u64, _sink: &mut S) {}

    fn discard<S: Sink>(&mut self, block: BlockNo, sink: &mut S) {
        let hint = Hint::new(block);
        if let Some((id, slot)) = self.in_dram(hint, block) {
            self.dram.remove(id);
            sink.effect(Effect::Invalidate { level: Level::Dram, slot });
        }
        if let Some((id, slot)) = self.in_ssd(hint.hash, block) {
            self.ssd.remove(id);
            sink.effect(Effect::Invalidate { level: Level::Ssd, slot });
        }
    }

    fn forget(&mut self, level: Level, block: BlockNo) {
        let hint = Hint::new(block);
        if level == Level::Dram {
            if let Some((id, _)) = self.in_dram(hint, block) {
                self.dram.remove(id);
            }
        } else if level == Level::Ssd
            && let Some((id, _)) = self.in_ssd(hint.hash, block)
        {
            self.ssd.remove(id);
        }
    }

    fn cleaned(&mut self, block: BlockNo) {
        if let Some((id, _)) = self.in_ssd(Hint::new(block).hash, block) {
            self.ssd.set_dirty(id, false);
        }
    }

    fn restore(&mut self, block: BlockNo, dirty: bool) -> Option<Slot> {
        let hint = Hint::new(block);
        let is_known = self.in_ssd(hint.hash, block).is_some() || self.in_dram(hint, block).is_some();
        if is_known || self.ssd.cached() >= self.quota.ssd_blocks {
            return None;
        }
        let id = self.ssd.insert(LRU, hint.hash, block);
        let slot = self.ssd.give_slot(id);
        self.ssd.set_dirty(id, dirty);
        Some(slot)
    }

    fn resize<S: Sink>(&mut self, quota: Quota, sink: &mut S) {
        self.quota = quota;
        while self.dram.cached() > quota.dram_blocks
            && let Some(oldest) = self.dram.oldest(LRU)
        {
            self.dram.evict(oldest, sink);
        }
        while self.ssd.cached() > quota.ssd_blocks {
            self.evict_from_ssd(sink);
        }
    }

    fn quota(&self) -> Quota {
        self.quota
    }

    fn resident_blocks(&self, level: Level) -> u32 {
        match level {
            Level::Dram => self.dram.cached(),
            Level::Ssd => self.ssd.cached(),
            Level::ReadSsd => 0,
        }
    }

    #[inline]
    fn announce(&self, block: BlockNo) -> Hint {
        self.ssd.announce(block);
        self.dram.announce(block)
    }

    #[inline]
    fn locate<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut Hint)>) {
        self.dram.locate(blocks.inspect(|(block, hint)| {
            let mut in_ssd = **hint;
            self.ssd.locate(std::iter::once((*block, &mut in_ssd)));
        }));
    }

    #[inline]
    fn follow(&self, blocks: impl Iterator<Item = (BlockNo, Hint)>) {
        self.dram.follow(blocks);
    }

    fn memory_bytes(&self) -> usize {
        self.dram.memory_bytes() + self.ssd.memory_bytes()
    }
}
