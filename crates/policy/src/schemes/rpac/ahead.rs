//! What RPAC's accesses and evictions will need, asked for before they come. It changes no decision.

use lode_reuse::index::BlockIndex;
use lode_types::BlockNo;

use super::part_lists::PartLists;
use super::{RegionSets, Resident, list_hash};
use crate::effect::Slot;
use crate::prefetch::{Prefetch, PrefetchHint};

/// Of up to so many blocks nothing is looked at ahead beside their own records.
const NEAR_BLOCKS: u32 = 1 << 16;
/// Misses that are looked at together, step by step.
const TOGETHER: usize = 64;

/// A miss that comes, as far as it is known.
#[derive(Clone, Copy, Default)]
struct Miss {
    set: u32,
    /// Of the list of its part.
    list_hash: u32,
    /// The first slot of that list, or any.
    first: Slot,
    /// The oldest block of the set.
    oldest: Option<(Slot, Resident)>,
}

impl RegionSets {
    /// Whether all that is kept of the blocks is in the processor's near memory anyway.
    fn is_near(&self) -> bool {
        self.lists.len() <= NEAR_BLOCKS
    }

    /// Asks at once for what taking a block out takes step by step.
    #[inline]
    pub(super) fn prepare_eviction(&self, slot: Slot) {
        if self.is_near() {
            return;
        }
        self.lists.prefetch_neighbours(slot);
        let place = self.lists.value(slot).place;
        let block = self.regions.block(place);
        self.index.prefetch(BlockIndex::hash(block));
        if let Some(parts) = &self.parts {
            parts.prefetch_link(slot);
            parts.prefetch(list_hash(self.lists.geometry().set_of(block), place.part()));
        }
    }

    /// The oldest block of the set, which will give way mostly.
    #[inline]
    fn prefetch_oldest(&self, set: u32) -> Option<(Slot, Resident)> {
        let slot = self.lists.next_to_leave(set);
        let oldest = self.lists.prefetch_neighbours(slot)?;
        self.regions.prefetch(oldest.place.region);
        Some((slot, oldest))
    }

    /// That, and where the lists of its part and of the one of the block that comes are found.
    #[inline]
    fn prefetch_miss(&self, parts: &PartLists, block: BlockNo) -> Miss {
        let set = self.lists.geometry().set_of(block);
        let oldest = self.prefetch_oldest(set);
        if let Some((slot, resident)) = oldest {
            parts.prefetch_link(slot);
            if let Some(arrivals) = self.arrivals.get(set as usize) {
                arrivals.prefetch(resident.position);
            }
        }
        let list_hash = list_hash(set, self.regions.candidate(block).part());
        parts.prefetch(list_hash);
        Miss { set, list_hash, first: BlockIndex::NO_ID, oldest }
    }

    /// Where the oldest block will be taken from, and the list that the block which comes will be appended to.
    #[inline]
    fn prefetch_lists(&self, parts: &PartLists, miss: &mut Miss) {
        if let Some((slot, Resident { place, .. })) = miss.oldest {
            self.index.prefetch(BlockIndex::hash(self.regions.block(place)));
            parts.prefetch(list_hash(miss.set, place.part()));
            parts.prefetch_neighbours(slot);
        }
        miss.first = parts.candidate(miss.list_hash);
        self.lists.prefetch(miss.first);
        parts.prefetch_link(miss.first);
    }

    /// The end of that list.
    #[inline]
    fn prefetch_last(&self, parts: &PartLists, miss: &Miss) {
        parts.prefetch_neighbours(miss.first);
        if let Some(Resident { place, .. }) = self.lists.value_if_occupied(miss.first) {
            self.regions.prefetch(place.region);
        }
    }
}

impl Prefetch for RegionSets {
    #[inline]
    fn prefetch_index(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        for (block, hint) in blocks {
            self.regions.prefetch_index(block);
            self.index.prefetch(hint.hash);
        }
    }

    #[inline]
    fn prefetch_entries<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut PrefetchHint)>) {
        for (block, hint) in blocks {
            hint.entry = self.index.candidate(hint.hash);
            self.lists.prefetch(hint.entry);
            self.regions.prefetch_region(block);
            if hint.entry == BlockIndex::NO_ID && !self.is_near() {
                self.lists.prefetch(self.lists.next_to_leave(self.lists.geometry().set_of(block)));
            }
        }
    }

    /// A hit moves nothing.
    #[inline]
    fn prefetch_neighbours(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        if self.is_near() {
            return;
        }
        let mut blocks = blocks.filter(|(_, hint)| hint.entry == BlockIndex::NO_ID).map(|(block, _)| block);
        let Some(parts) = &self.parts else {
            blocks.for_each(|block| _ = self.prefetch_oldest(self.lists.geometry().set_of(block)));
            return;
        };
        while let Some(first) = blocks.next() {
            let mut misses = [Miss::default(); TOGETHER];
            let mut count = 0;
            for (miss, block) in misses.iter_mut().zip(std::iter::once(first).chain(blocks.by_ref())) {
                *miss = self.prefetch_miss(parts, block);
                count += 1;
            }
            misses[..count].iter_mut().for_each(|miss| self.prefetch_lists(parts, miss));
            misses[..count].iter().for_each(|miss| self.prefetch_last(parts, miss));
        }
    }
}
