//! The SSD level: the lists of its sets and, in the `full` modes, what finds each set's least wanted block: a heap or, where
//! sets are small, a look at all of them.

use lode_types::BlockNo;

use super::heap::{Entry, Heap};
use super::records::{Record, Records, Standing};
use crate::effect::Slot;
use crate::geometry::Geometry;
use crate::parts::lists::SetLists;

/// Up to so many blocks a set has no heap: it would take more memory than its blocks' records, and a look at all of them,
/// fewer than twice as many, is soon done.
const LARGEST_ASSOC_WITHOUT_HEAP: u32 = 8;

/// The block that a set would give up first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Victim {
    pub(super) slot: Slot,
    pub(super) standing: Standing,
}

/// The sets of the SSD level. A slot's value is the record's id.
#[derive(Debug)]
pub(super) struct SsdSets {
    pub(super) lists: SetLists<u32>,
    /// One heap a set in the `full` modes. Empty where sets are small, and under NPE, where the list's order decides.
    heaps: Vec<Heap>,
    by_popularity: bool,
}

impl SsdSets {
    pub(super) fn new(geometry: Geometry, by_popularity: bool) -> SsdSets {
        let lists = SetLists::new(geometry);
        let mut sets = SsdSets { lists, heaps: Vec::new(), by_popularity };
        sets.provide_heaps();
        sets
    }

    /// An empty heap for each set, where they have heaps.
    fn provide_heaps(&mut self) {
        let geometry = self.lists.geometry();
        let have_heaps = self.by_popularity && !(1..=LARGEST_ASSOC_WITHOUT_HEAP).contains(&geometry.assoc());
        let heaps = if have_heaps { geometry.sets() as usize } else { 0 };
        self.heaps.clear();
        self.heaps.shrink_to(heaps);
        self.heaps.resize(heaps, Heap::default());
    }

    /// A hit. Only the order of a list that decides is kept.
    #[inline]
    pub(super) fn touch(&mut self, block: BlockNo, slot: Slot) {
        if !self.by_popularity {
            self.lists.touch(self.lists.geometry().set_of(block), slot);
        }
    }

    pub(super) fn insert(&mut self, record: &Record, id: u32) -> Slot {
        let set = self.lists.geometry().set_of(record.block);
        let slot = self.lists.insert(set, id);
        self.push(set, record, id);
        slot
    }

    fn push(&mut self, set: u32, record: &Record, id: u32) {
        if let Some(heap) = self.heaps.get_mut(set as usize) {
            heap.push(Entry { score: record.score, seen: record.seen(), id });
        }
    }

    pub(super) fn remove(&mut self, block: BlockNo, slot: Slot) {
        let set = self.lists.geometry().set_of(block);
        let id = self.lists.value(slot);
        self.lists.remove(set, slot);
        if let Some(heap) = self.heaps.get_mut(set as usize) {
            heap.remove(id);
        }
    }

    /// A standing that no block of `set` is below, if there is a heap without looking at the records; none when the set is
    /// empty.
    pub(super) fn lower_bound(&self, set: u32, records: &Records) -> Option<Standing> {
        match self.heaps.get(set as usize) {
            Some(heap) => heap.top().map(Entry::standing),
            None => self.least_of_all(set, records).map(|victim| victim.standing),
        }
    }

    /// The block with the lowest standing; none when the set is empty.
    fn least_of_all(&self, set: u32, records: &Records) -> Option<Victim> {
        let standing = |slot: Slot| records[self.lists.value(slot) as usize].standing();
        let blocks = self.lists.oldest_first(set).map(|slot| Victim { slot, standing: standing(slot) });
        blocks.min_by_key(|victim| victim.standing)
    }

    /// Every block, with its standing.
    pub(super) fn standings(&self, records: &Records) -> impl Iterator<Item = (Standing, u32)> {
        self.lists.values().map(|id| (records[id as usize].standing(), id))
    }

    /// The least wanted block of a set that is not empty: the lowest standing; under NPE the least recently used.
    pub(super) fn least_wanted(&mut self, set: u32, records: &Records) -> Victim {
        if !self.by_popularity {
            let slot = self.lists.oldest(set).expect("the set is not empty");
            return Victim { slot, standing: Standing::default() };
        }
        self.least_below(set, records, |_| true).expect("the set is not empty")
    }

    /// The block of `set` with the lowest standing in the `full` modes, if such a standing `may_leave`; with it, all lower ones
    /// may. Nothing is looked at for longer than it takes to know.
    pub(super) fn least_below(
        &mut self,
        set: u32,
        records: &Records,
        may_leave: impl Fn(Standing) -> bool,
    ) -> Option<Victim> {
        let Some(heap) = self.heaps.get_mut(set as usize) else {
            return self.least_of_all(set, records).filter(|victim| may_leave(victim.standing));
        };
        loop {
            let top = heap.top().filter(|top| may_leave(top.standing()))?;
            let record = &records[top.id as usize];
            let standing = record.standing();
            if standing == top.standing() {
                return record.ssd_slot().map(|slot| Victim { slot, standing });
            }
            heap.below_top().iter().for_each(|next| records.prefetch(next.id));
            heap.raise_top(record.score, record.seen());
        }
    }

    /// Changes the share; blocks stay, even where a set now holds more than it may.
    pub(super) fn resize(&mut self, blocks: u32, records: &Records) {
        let geometry = self.lists.geometry().resized(blocks);
        let same_sets = geometry.sets() == self.lists.geometry().sets();
        self.lists.regroup(geometry, |id| geometry.set_of(records[id as usize].block));
        if !same_sets {
            self.fill_heaps(records);
        }
    }

    /// Multiplies every score, as the records' own were.
    pub(super) fn scale(&mut self, factor: f32) {
        self.heaps.iter_mut().for_each(|heap| heap.scale(factor));
    }

    /// The first of four steps of prefetching for a set whose least wanted block may have to leave: its heap, or the end of its list.
    pub(super) fn prefetch_bound(&self, set: u32) {
        match self.heaps.get(set as usize) {
            Some(heap) => heap.prefetch(),
            None => self.lists.prefetch(self.lists.next_to_leave(set)),
        }
    }

    /// The second step: the records that [`SsdSets::least_wanted`] looks at first.
    pub(super) fn prefetch_least_wanted(&self, set: u32, records: &Records) {
        match self.heaps.get(set as usize) {
            Some(heap) => {
                heap.top().into_iter().chain(heap.below_top()).for_each(|next| records.prefetch(next.id));
            }
            None => self.lists.oldest_first(set).for_each(|slot| records.prefetch(self.lists.value(slot))),
        }
    }

    /// The third step: the slot of the block that is likely to leave.
    pub(super) fn prefetch_slot(&self, set: u32, records: &Records) {
        if let Some(slot) = self.likely_to_leave(set, records) {
            self.lists.prefetch(slot);
        }
    }

    /// The last step: the slots beside that one.
    pub(super) fn prefetch_neighbours(&self, set: u32, records: &Records) {
        if let Some(slot) = self.likely_to_leave(set, records) {
            self.lists.prefetch_neighbours(slot);
        }
    }

    fn likely_to_leave(&self, set: u32, records: &Records) -> Option<Slot> {
        self.heaps.get(set as usize)?.top().and_then(|top| records[top.id as usize].ssd_slot())
    }

    /// Fills every heap anew from the lists, after the sets or the numbers of accesses changed.
    pub(super) fn fill_heaps(&mut self, records: &Records) {
        self.provide_heaps();
        for set in 0..self.heaps.len() as u32 {
            let ids: Vec<u32> = self.lists.oldest_first(set).map(|slot| self.lists.value(slot)).collect();
            for id in ids {
                self.push(set, &records[id as usize], id);
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let entries: usize = self.heaps.iter().map(Heap::memory_bytes).sum();
        self.lists.memory_bytes() + entries + self.heaps.capacity() * size_of::<Heap>()
    }
}
