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
use crate::schemes::ssd_queue::SsdQueue;
use crate::settings::{SettingInfo, SettingKind, Settings};

pub(crate) static SETTINGS: &[SettingInfo] = &[SettingInfo {
    key: "worth_hits",
    default: "1",
    kind: SettingKind::Integer { min: 0, max: u8::MAX as u64 },
    about: "hits of a block while it was in DRAM that make it worth a place on the SSD when it leaves",
    source: "ours; uCache's rule is not known to us",
}];

pub(crate) static TABLES: &[&[SettingInfo]] = &[SETTINGS];

/// DRAM's only queue, by recency. A block's mark is the number of its hits.
const LRU: usize = 0;

/// One VM's DRAM filter over an SSD.
#[derive(Debug)]
pub struct UcacheLike {
    dram: Queues<1>,
    dram_blocks: u32,
    /// By recency, too.
    ssd: SsdQueue,
    worth_hits: u8,
}

impl UcacheLike {
    /// A cache with this share.
    pub fn new(settings: &Settings, quota: Quota) -> UcacheLike {
        UcacheLike {
            dram: Queues::of(Level::Dram),
            dram_blocks: quota.dram_blocks,
            ssd: SsdQueue::new(quota.ssd_blocks),
            worth_hits: settings.integer("worth_hits") as u8,
        }
    }

    #[inline]
    fn in_dram(&self, hint: Hint, block: BlockNo) -> Option<(Id, Slot)> {
        let id = self.dram.find(hint, block)?;
        self.dram.slot(id).map(|slot| (id, slot))
    }

    fn read<S: Sink>(&mut self, block: BlockNo, hint: Hint, sink: &mut S) {
        if let Some((id, slot)) = self.in_dram(hint, block) {
            self.dram.set_mark(id, self.dram.mark(id).saturating_add(1));
            self.dram.move_to_front(LRU, id);
            sink.effect(Effect::ReadLevel { level: Level::Dram, slot });
            return;
        }
        if let Some((id, slot)) = self.ssd.find(hint.hash, block) {
            self.ssd.touch(id);
            sink.effect(Effect::ReadLevel { level: Level::Ssd, slot });
            return;
        }
        sink.effect(Effect::ReadBacking);
        if self.dram_blocks > 0 {
            if self.dram.cached() >= self.dram_blocks {
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
            && self.ssd.capacity() > 0
            && let Some(from) = self.dram.slot(oldest)
        {
            let block = self.dram.block(oldest);
            let (_, slot) = self.ssd.put(Hint::new(block).hash, block, sink);
            let from = CopySource::Level { level: Level::Dram, slot: from };
            sink.effect(Effect::Copy { to: Level::Ssd, slot, block, from });
        }
        self.dram.evict(oldest, sink);
        self.dram.fetch_behind(LRU);
    }

    fn invalidate_in_dram<S: Sink>(&mut self, copy: Option<(Id, Slot)>, sink: &mut S) {
        if let Some((id, slot)) = copy {
            self.dram.remove(id);
            sink.effect(Effect::Invalidate { level: Level::Dram, slot });
        }
    }

    fn write<S: Sink>(&mut self, block: BlockNo, partial: bool, hint: Hint, sink: &mut S) {
        let in_dram = self.in_dram(hint, block);
        let in_ssd = self.ssd.find(hint.hash, block);
        let target = match in_ssd {
            None if self.ssd.capacity() > 0 => Some(self.ssd.put(hint.hash, block, sink)),
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
            self.ssd.touch(id);
            self.ssd.set_dirty(id, true);
        }
        self.invalidate_in_dram(in_dram, sink);
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
        self.invalidate_in_dram(self.in_dram(hint, block), sink);
        self.ssd.invalidate(hint.hash, block, sink);
    }

    fn forget(&mut self, level: Level, block: BlockNo) {
        let hint = Hint::new(block);
        if level == Level::Dram {
            if let Some((id, _)) = self.in_dram(hint, block) {
                self.dram.remove(id);
            }
        } else if level == Level::Ssd {
            self.ssd.forget(hint.hash, block);
        }
    }

    fn cleaned(&mut self, block: BlockNo) {
        if let Some((id, _)) = self.ssd.find(Hint::new(block).hash, block) {
            self.ssd.set_dirty(id, false);
        }
    }

    fn restore(&mut self, block: BlockNo, dirty: bool) -> Option<Slot> {
        let hint = Hint::new(block);
        if self.in_dram(hint, block).is_some() {
            return None;
        }
        self.ssd.restore(hint.hash, block, dirty)
    }

    fn resize<S: Sink>(&mut self, quota: Quota, sink: &mut S) {
        self.dram_blocks = quota.dram_blocks;
        while self.dram.cached() > self.dram_blocks
            && let Some(oldest) = self.dram.oldest(LRU)
        {
            self.dram.evict(oldest, sink);
        }
        self.ssd.resize(quota.ssd_blocks, sink);
    }

    fn quota(&self) -> Quota {
        Quota::new(self.dram_blocks, self.ssd.capacity())
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
        self.dram.locate(self.ssd.locate_too(blocks));
    }

    #[inline]
    fn follow(&self, blocks: impl Iterator<Item = (BlockNo, Hint)>) {
        self.dram.follow(blocks);
    }

    fn memory_bytes(&self) -> usize {
        self.dram.memory_bytes() + self.ssd.memory_bytes()
    }
}
