//! The SSD level: the lists of its sets and, in the `full` modes, each set's heap of least wanted blocks.

use super::heap::{Entry, Heap};
use super::records::Records;
use crate::effect::Slot;
use crate::geometry::Geometry;
use crate::lists::SetLists;
use lode_types::BlockNo;

/// The block that a set would give up first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Victim {
    pub(super) slot: Slot,
    pub(super) score: f32,
}

/// The sets of the SSD level. A slot's value is the record's id.
#[derive(Debug)]
pub(super) struct SsdSets {
    pub(super) lists: SetLists<u32>,
    /// One heap a set in the `full` modes; empty under NPE, where the list's order decides.
    heaps: Vec<Heap>,
    by_popularity: bool,
    arrivals: u32,
}

impl SsdSets {
    pub(super) fn new(geometry: Geometry, by_popularity: bool) -> SsdSets {
        let heaps = if by_popularity { vec![Heap::default(); geometry.sets() as usize] } else { Vec::new() };
        SsdSets { lists: SetLists::new(geometry), heaps, by_popularity, arrivals: 0 }
    }

    /// A hit. Only the order of a list that decides is kept.
    #[inline]
    pub(super) fn touch(&mut self, block: BlockNo, slot: Slot) {
        if !self.by_popularity {
            self.lists.touch(self.lists.geometry().set_of(block), slot);
        }
    }

    pub(super) fn insert(&mut self, block: BlockNo, id: u32, score: f32) -> Slot {
        let set = self.lists.geometry().set_of(block);
        let slot = self.lists.insert(set, id);
        if self.by_popularity {
            self.push(set, score, id);
        }
        slot
    }

    fn push(&mut self, set: u32, score: f32, id: u32) {
        self.heaps[set as usize].push(Entry { score, arrival: self.arrivals, id });
        self.arrivals = self.arrivals.wrapping_add(1);
    }

    pub(super) fn remove(&mut self, block: BlockNo, slot: Slot) {
        let set = self.lists.geometry().set_of(block);
        let id = self.lists.value(slot);
        self.lists.remove(set, slot);
        if self.by_popularity {
            self.heaps[set as usize].remove(id);
        }
    }

    /// A score that no block of `set` is below, without looking at the records; none when it is empty.
    pub(super) fn lower_bound(&self, set: u32) -> Option<f32> {
        self.heaps[set as usize].top().map(|entry| entry.score)
    }

    /// The least wanted block of a set that is not empty: the lowest score, then the longest resident;
    /// under NPE the least recently used.
    pub(super) fn least_wanted(&mut self, set: u32, records: &Records) -> Victim {
        if !self.by_popularity {
            let slot = self.lists.oldest(set).expect("the set is not empty");
            return Victim { slot, score: 0.0 };
        }
        let heap = &mut self.heaps[set as usize];
        loop {
            let top = heap.top().expect("the set is not empty");
            let record = &records[top.id as usize];
            if record.score == top.score {
                let slot = record.ssd_slot().expect("the set's blocks are in the SSD");
                return Victim { slot, score: record.score };
            }
            heap.below_top().iter().for_each(|next| records.prefetch(next.id));
            heap.raise_top(record.score);
        }
    }

    /// Changes the share; blocks stay, even where a set now holds more than it may.
    pub(super) fn resize(&mut self, blocks: u32, records: &Records) {
        let geometry = self.lists.geometry().resized(blocks);
        let same_sets = geometry.sets() == self.lists.geometry().sets();
        self.lists.regroup(geometry, |&id| geometry.set_of(records[id as usize].block));
        if !same_sets {
            self.fill_heaps(records);
        }
    }

    /// Multiplies every score, as the records' own were.
    pub(super) fn scale(&mut self, factor: f32) {
        self.heaps.iter_mut().for_each(|heap| heap.scale(factor));
    }

    /// The first of four looks ahead at a set whose least wanted block may have to leave: its heap.
    pub(super) fn prefetch_bound(&self, set: u32) {
        self.heaps[set as usize].prefetch();
    }

    /// The second look: the records that [`SsdSets::least_wanted`] looks at first.
    pub(super) fn prefetch_least_wanted(&self, set: u32, records: &Records) {
        let heap = &self.heaps[set as usize];
        heap.top().into_iter().chain(heap.below_top()).for_each(|next| records.prefetch(next.id));
    }

    /// The third look: the slot of the block that is likely to leave.
    pub(super) fn prefetch_slot(&self, set: u32, records: &Records) {
        if let Some(slot) = self.likely_to_leave(set, records) {
            self.lists.prefetch(slot);
        }
    }

    /// The last look: the slots beside that one.
    pub(super) fn prefetch_neighbours(&self, set: u32, records: &Records) {
        if let Some(slot) = self.likely_to_leave(set, records) {
            self.lists.prefetch_neighbours(slot);
        }
    }

    fn likely_to_leave(&self, set: u32, records: &Records) -> Option<Slot> {
        self.heaps[set as usize].top().and_then(|top| records[top.id as usize].ssd_slot())
    }

    /// Fills every heap anew from the lists, after the sets changed.
    fn fill_heaps(&mut self, records: &Records) {
        if !self.by_popularity {
            return;
        }
        let sets = self.lists.geometry().sets();
        self.heaps.clear();
        self.heaps.resize(sets as usize, Heap::default());
        for set in 0..sets {
            let ids: Vec<u32> = self.lists.from_oldest(set).map(|slot| self.lists.value(slot)).collect();
            for id in ids {
                self.push(set, records[id as usize].score, id);
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let entries: usize = self.heaps.iter().map(Heap::memory_bytes).sum();
        self.lists.memory_bytes() + entries + self.heaps.capacity() * size_of::<Heap>()
    }
}
