//! One cache level on the SSD with a textbook replacement and write policy: the baseline of the papers
//! (ETICA section 3, Figs. 3 and 5a) and of every comparison.

use std::hint::select_unpredictable;

use lode_reuse::index::BlockIndex;
use lode_types::{Access, AccessOp, BlockNo, Level};

use crate::effect::{Effect, Sink, Slot};
use crate::lists::SetLists;
use crate::quota::Quota;
use crate::scheme::{Hint, Scheme};
use crate::schemes::mapping;
use crate::settings::{SettingInfo, SettingKind, Settings};

/// Settings beside `assoc` and `map`.
pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo {
        key: "write_policy",
        default: "wb",
        kind: SettingKind::Choice(&["wb", "wt", "ro", "wbwo", "wa"]),
        about: "wb: write-back; wt: write-through; ro: writes go to the disk and invalidate; \
                wbwo: write-back, reads never allocate; wa: write-around, a cached copy is updated",
        source: "ETICA section 3 (wb, ro, wbwo); common practice (wt, wa)",
    },
    SettingInfo {
        key: "replacement",
        default: "lru",
        kind: SettingKind::Choice(&["lru", "fifo"]),
        about: "which block of a full set leaves",
        source: "textbook",
    },
];

pub(crate) static TABLES: &[&[SettingInfo]] = &[mapping::SETTINGS, SETTINGS];

/// What happens to reads that miss and to writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePolicy {
    /// Both allocate; writes are acknowledged from the cache.
    WriteBack,
    /// Both allocate; writes are acknowledged from the disk.
    WriteThrough,
    /// Reads allocate; writes go to the disk and invalidate.
    ReadOnly,
    /// Writes allocate and are acknowledged from the cache; reads never allocate.
    WriteBackWriteOnly,
    /// Reads allocate; writes go to the disk and update a cached copy, but do not allocate.
    WriteAround,
}

/// What the write policy says, question by question: an answer looked up here is not worked out at every access.
#[derive(Clone, Copy, Debug)]
struct Rules {
    read_allocates: bool,
    write_allocates: bool,
    write_invalidates: bool,
    keeps_dirty: bool,
}

impl WritePolicy {
    fn from_name(name: &str) -> WritePolicy {
        match name {
            "wt" => WritePolicy::WriteThrough,
            "ro" => WritePolicy::ReadOnly,
            "wbwo" => WritePolicy::WriteBackWriteOnly,
            "wa" => WritePolicy::WriteAround,
            _ => WritePolicy::WriteBack,
        }
    }

    fn rules(self) -> Rules {
        let keeps_dirty = matches!(self, WritePolicy::WriteBack | WritePolicy::WriteBackWriteOnly);
        Rules {
            read_allocates: self != WritePolicy::WriteBackWriteOnly,
            write_allocates: keeps_dirty || self == WritePolicy::WriteThrough,
            write_invalidates: self == WritePolicy::ReadOnly,
            keeps_dirty,
        }
    }
}

/// In a hint's place: the block is not cached, and the slot is the one that it would take from the oldest of its set.
const VICTIM: u32 = 0x8000_0000;

/// One VM's single-level cache.
#[derive(Debug)]
pub struct OneLevel {
    index: BlockIndex,
    lists: SetLists<BlockNo>,
    rules: Rules,
    touch_on_hit: bool,
}

impl OneLevel {
    /// A cache of `quota.ssd_blocks`; the scheme uses no DRAM.
    pub fn new(settings: &Settings, quota: Quota) -> OneLevel {
        OneLevel {
            index: BlockIndex::new(),
            lists: SetLists::new(mapping::geometry(settings, quota.ssd_blocks)),
            rules: WritePolicy::from_name(settings.text("write_policy")).rules(),
            touch_on_hit: settings.text("replacement") == "lru",
        }
    }

    #[inline]
    fn find(&self, hint: Hint, block: BlockNo) -> Option<Slot> {
        if self.lists.value_if_occupied(hint.place) == Some(block) {
            return Some(hint.place);
        }
        // Mostly it is not there now, and this is the fast way to see it.
        if self.index.candidate(hint.hash) == BlockIndex::NO_ID {
            return None;
        }
        self.index.find(hint.hash, |slot| self.lists.value(slot) == block)
    }

    #[inline(always)]
    fn touch(&mut self, block: BlockNo, slot: Slot) {
        if self.touch_on_hit {
            self.lists.touch(self.lists.geometry().set_of(block), slot);
        }
    }

    /// Makes room in the block's set and puts the block there; `None` when the set has no ways.
    fn allocate<S: Sink>(&mut self, hash: u32, block: BlockNo, sink: &mut S) -> Option<Slot> {
        let set = self.lists.geometry().set_of(block);
        let slot = if self.lists.is_full(set) {
            let (slot, old, dirty) = self.lists.replace_oldest(set, block)?;
            self.index.remove(BlockIndex::hash(old), slot);
            sink.effect(Effect::Evict { level: Level::Ssd, slot, block: old, dirty });
            slot
        } else {
            self.lists.insert(set, block)
        };
        self.index.insert(hash, slot);
        Some(slot)
    }

    fn evict_oldest<S: Sink>(&mut self, set: u32, sink: &mut S) {
        if let Some(slot) = self.lists.oldest(set) {
            let (block, dirty) = (self.lists.value(slot), self.lists.flag(slot));
            self.drop_slot(block, slot);
            sink.effect(Effect::Evict { level: Level::Ssd, slot, block, dirty });
        }
    }

    fn drop_slot(&mut self, block: BlockNo, slot: Slot) {
        self.index.remove(BlockIndex::hash(block), slot);
        self.lists.remove(self.lists.geometry().set_of(block), slot);
    }

    #[inline(always)]
    fn read<S: Sink>(&mut self, block: BlockNo, hint: Hint, sink: &mut S) {
        if let Some(slot) = self.find(hint, block) {
            self.touch(block, slot);
            sink.effect(Effect::ReadLevel { level: Level::Ssd, slot });
            return;
        }
        sink.effect(Effect::ReadBacking);
        if self.rules.read_allocates
            && let Some(slot) = self.allocate(hint.hash, block, sink)
        {
            sink.effect(Effect::Fill { level: Level::Ssd, slot });
        }
    }

    #[inline(always)]
    fn write<S: Sink>(&mut self, block: BlockNo, partial: bool, hint: Hint, sink: &mut S) {
        let found = self.find(hint, block);
        let dirty = self.rules.keeps_dirty;
        let slot = match found {
            Some(slot) if self.rules.write_invalidates => {
                self.drop_slot(block, slot);
                sink.effect(Effect::Invalidate { level: Level::Ssd, slot });
                None
            }
            Some(slot) => {
                self.touch(block, slot);
                Some(slot)
            }
            None if self.rules.write_allocates => self.allocate(hint.hash, block, sink),
            None => None,
        };
        if let Some(slot) = slot {
            if partial {
                sink.effect(match found {
                    Some(slot) => Effect::MergeLevel { level: Level::Ssd, slot },
                    None => Effect::MergeBacking,
                });
            }
            if dirty {
                self.lists.set_flag(slot, true);
            }
            sink.effect(Effect::WriteLevel { level: Level::Ssd, slot, hit: found.is_some(), dirty });
        }
        if slot.is_none() || !dirty {
            sink.effect(Effect::WriteBacking);
        }
    }
}

impl Scheme for OneLevel {
    #[inline]
    fn access_foreseen<S: Sink>(&mut self, access: Access, hint: Hint, sink: &mut S) {
        match access.op {
            AccessOp::Read => self.read(access.block, hint, sink),
            AccessOp::Write => self.write(access.block, access.partial, hint, sink),
        }
    }

    fn end_request<S: Sink>(&mut self, _now_ns: u64, _sink: &mut S) {}

    fn discard<S: Sink>(&mut self, block: BlockNo, sink: &mut S) {
        if let Some(slot) = self.find(Hint::new(block), block) {
            self.drop_slot(block, slot);
            sink.effect(Effect::Invalidate { level: Level::Ssd, slot });
        }
    }

    fn forget(&mut self, level: Level, block: BlockNo) {
        if level == Level::Ssd
            && let Some(slot) = self.find(Hint::new(block), block)
        {
            self.drop_slot(block, slot);
        }
    }

    fn cleaned(&mut self, block: BlockNo) {
        if let Some(slot) = self.find(Hint::new(block), block) {
            self.lists.set_flag(slot, false);
        }
    }

    fn restore(&mut self, block: BlockNo, dirty: bool) -> Option<Slot> {
        let hint = Hint::new(block);
        let set = self.lists.geometry().set_of(block);
        // A policy that never makes blocks dirty does not expect them either: it would invalidate or
        // drop the only copy.
        let unwelcome = dirty && !self.rules.keeps_dirty;
        if unwelcome || self.lists.is_full(set) || self.find(hint, block).is_some() {
            return None;
        }
        let slot = self.lists.insert(set, block);
        self.lists.set_flag(slot, dirty);
        self.index.insert(hint.hash, slot);
        Some(slot)
    }

    fn resize<S: Sink>(&mut self, quota: Quota, sink: &mut S) {
        let geometry = self.lists.geometry().resized(quota.ssd_blocks);
        self.lists.regroup(geometry, |&block| geometry.set_of(block));
        for set in 0..geometry.sets() {
            while self.lists.len_of(set) > geometry.ways(set) {
                self.evict_oldest(set, sink);
            }
        }
    }

    fn quota(&self) -> Quota {
        Quota::new(0, self.lists.geometry().blocks())
    }

    fn resident_blocks(&self, level: Level) -> u32 {
        if level == Level::Ssd { self.lists.len() } else { 0 }
    }

    #[inline]
    fn announce(&self, block: BlockNo) -> Hint {
        let hint = Hint::new(block);
        self.index.prefetch(hint.hash);
        hint
    }

    #[inline]
    fn locate<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut Hint)>) {
        for (block, hint) in blocks {
            let slot = self.index.candidate(hint.hash);
            let oldest = self.lists.next_to_leave(self.lists.geometry().set_of(block));
            hint.place = select_unpredictable(slot == BlockIndex::NO_ID, oldest | VICTIM, slot);
            self.lists.prefetch(hint.place & !VICTIM);
        }
    }

    #[inline]
    fn follow(&self, blocks: impl Iterator<Item = (BlockNo, Hint)>) {
        for (_, hint) in blocks {
            if let Some(moved) = self.lists.prefetch_neighbours(hint.place & !VICTIM) {
                self.index.prefetch(BlockIndex::hash(moved));
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.lists.memory_bytes()
    }
}
