//! One level of sets, or one set of everything, where the least recently used or the longest resident block leaves.
//!
//! It must not know what reads and writes ask for; see [`ssd_level`].

use std::hint::select_unpredictable;

use lode_reuse::index::BlockIndex;
use lode_types::{BlockNo, Level};

use crate::effect::{Effect, Sink, Slot};
use crate::parts::lists::{SetLists, Value};
use crate::parts::mapping;
use crate::parts::ssd_level::{self, Id, Newcomer, Replacement};
use crate::prefetch::{Prefetch, PrefetchHint};
use crate::settings::{SettingInfo, Settings};

pub(crate) static TABLES: &[&[SettingInfo]] = &[mapping::SETTINGS, ssd_level::SETTINGS];

/// Up to so many blocks the lists stay in the processor's near caches, and prefetching what will leave and along links
/// costs more than it saves.
const NEAR_BLOCKS: u32 = 1 << 16;

/// In a hint's place: the block is not cached, and the slot is the one that it would take from the oldest of its set.
const VICTIM: u32 = 0x8000_0000;

/// The slot whose value `is_it`, where a hint, which may be out of date, and the index say that it could be.
#[inline(always)]
pub(crate) fn find<V: Value>(
    index: &BlockIndex,
    lists: &SetLists<V>,
    hint: PrefetchHint,
    is_it: impl Fn(V) -> bool,
) -> Option<Slot> {
    if lists.value_if_occupied(hint.entry).is_some_and(&is_it) {
        return Some(hint.entry);
    }
    // Mostly it is not there now, and this is the fast way to see it.
    if index.candidate(hint.hash) == BlockIndex::NO_ID {
        return None;
    }
    index.find(hint.hash, |slot| is_it(lists.value(slot)))
}

/// What an index of the blocks in these lists has for a slot.
#[inline(always)]
pub(crate) fn hash_of(lists: &SetLists<BlockNo>) -> impl Fn(Slot) -> u32 {
    |slot| BlockIndex::hash(lists.value(slot))
}

/// Order within each set: of the last uses (`BY_USE`), or of arrival. A block's number here is its slot.
#[derive(Debug)]
pub struct Sets<const BY_USE: bool> {
    level: Level,
    index: BlockIndex,
    lists: SetLists<BlockNo>,
}

impl<const BY_USE: bool> Sets<BY_USE> {
    /// An empty level of `blocks`.
    pub(crate) fn of_level(level: Level, settings: &Settings, blocks: u32) -> Self {
        let lists = SetLists::new(mapping::geometry(settings, blocks));
        let mut index = BlockIndex::new();
        index.expect(blocks as usize);
        Sets { level, index, lists }
    }

    /// Fetches what the index says of a block with this hash.
    #[inline]
    pub(crate) fn prefetch_index_of(&self, hash: u32) {
        self.index.prefetch(hash);
    }

    /// Fetches the entry of a block with this hash, if there is one.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u32) {
        self.lists.prefetch(self.index.candidate(hash));
    }

    fn is_near(&self) -> bool {
        self.lists.len() <= NEAR_BLOCKS
    }

    /// Writes back all that is dirty, set by set, the oldest first; it stays as clean copies.
    pub(crate) fn clean_all<S: Sink>(&mut self, sink: &mut S) {
        for set in 0..self.lists.geometry().sets() {
            let dirty: Vec<Slot> =
                self.lists.oldest_first(set).filter(|&slot| self.lists.flag(slot)).collect();
            for slot in dirty {
                self.lists.set_flag(slot, false);
                sink.effect(Effect::Clean { slot, block: self.lists.value(slot) });
            }
        }
    }
}

impl<const BY_USE: bool> Prefetch for Sets<BY_USE> {
    #[inline]
    fn prefetch_index(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        blocks.for_each(|(_, hint)| self.index.prefetch(hint.hash));
    }

    #[inline]
    fn prefetch_entries<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut PrefetchHint)>) {
        if self.is_near() {
            for (_, hint) in blocks {
                hint.entry = self.index.candidate(hint.hash);
                self.lists.prefetch(hint.entry);
            }
            return;
        }
        for (block, hint) in blocks {
            let slot = self.index.candidate(hint.hash);
            let oldest = self.lists.next_to_leave(self.lists.geometry().set_of(block));
            hint.entry = select_unpredictable(slot == BlockIndex::NO_ID, oldest | VICTIM, slot);
            self.lists.prefetch(hint.entry & !VICTIM);
        }
    }

    #[inline]
    fn prefetch_neighbours(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        if self.is_near() {
            return;
        }
        for (_, hint) in blocks {
            if let Some(moved) = self.lists.prefetch_neighbours(hint.entry & !VICTIM) {
                self.index.prefetch(BlockIndex::hash(moved));
            }
        }
    }
}

impl<const BY_USE: bool> Replacement for Sets<BY_USE> {
    fn new(settings: &Settings, blocks: u32) -> Self {
        Sets::of_level(Level::Ssd, settings, blocks)
    }

    #[inline(always)]
    fn find(&self, hint: PrefetchHint, block: BlockNo) -> Option<Id> {
        find(&self.index, &self.lists, hint, |value| value == block)
    }

    #[inline(always)]
    fn touch(&mut self, block: BlockNo, slot: Id) {
        if BY_USE {
            self.lists.touch(self.lists.geometry().set_of(block), slot);
        }
    }

    #[inline(always)]
    fn set_dirty(&mut self, slot: Id, dirty: bool) {
        self.lists.set_flag(slot, dirty);
    }

    fn admit<S: Sink>(&mut self, Newcomer { hash, block, .. }: Newcomer, sink: &mut S) -> Option<(Id, Slot)> {
        let set = self.lists.geometry().set_of(block);
        let slot = if self.lists.is_full(set) {
            let (slot, old, dirty) = self.lists.replace_oldest(set, block)?;
            self.index.remove(BlockIndex::hash(old), slot, hash_of(&self.lists));
            sink.effect(Effect::Evict { level: self.level, slot, block: old, dirty });
            slot
        } else {
            self.lists.insert(set, block)
        };
        self.index.insert(hash, slot, hash_of(&self.lists));
        Some((slot, slot))
    }

    fn restore(&mut self, Newcomer { hash, block, .. }: Newcomer) -> Option<(Id, Slot)> {
        let set = self.lists.geometry().set_of(block);
        if self.lists.is_full(set) {
            return None;
        }
        let slot = self.lists.insert(set, block);
        self.index.insert(hash, slot, hash_of(&self.lists));
        Some((slot, slot))
    }

    fn expect(&mut self, blocks: u32) {
        self.index.reserve(blocks as usize);
    }

    fn remove(&mut self, block: BlockNo, slot: Id) {
        self.index.remove(BlockIndex::hash(block), slot, hash_of(&self.lists));
        self.lists.remove(self.lists.geometry().set_of(block), slot);
    }

    fn resize<S: Sink>(&mut self, blocks: u32, sink: &mut S) {
        let geometry = self.lists.geometry().resized(blocks);
        self.lists.regroup(geometry, |block| geometry.set_of(block));
        self.index.expect(blocks as usize);
        for set in 0..geometry.sets() {
            while let Some(slot) = self.lists.surplus(set) {
                let (block, dirty) = (self.lists.value(slot), self.lists.flag(slot));
                self.remove(block, slot);
                sink.effect(Effect::Evict { level: self.level, slot, block, dirty });
            }
        }
    }

    fn capacity(&self) -> u32 {
        self.lists.geometry().blocks()
    }

    fn cached(&self) -> u32 {
        self.lists.len()
    }

    fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.lists.memory_bytes()
    }
}
