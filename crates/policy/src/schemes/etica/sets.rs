//! The SSD level: the lists of its sets and, in the `full` modes, each set's heap of least wanted blocks.

use super::table::Record;
use crate::effect::Slot;
use crate::geometry::Geometry;
use crate::lists::SetLists;
use lode_reuse::prefetch_slice;
use lode_types::BlockNo;

/// One block in a set's heap. `score` is a lower bound: scores only grow while a block is resident, so
/// an entry is brought up to date when it reaches the top, and not at every access.
#[derive(Clone, Copy, Debug)]
struct Entry {
    score: f32,
    /// Order of arrival; among equals the older leaves first.
    arrival: u32,
    /// Of the record.
    id: u32,
}

impl Entry {
    fn is_below(&self, other: &Entry) -> bool {
        (self.score, self.arrival) < (other.score, other.arrival)
    }
}

/// The block that a set would give up first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Victim {
    pub(super) slot: Slot,
    pub(super) score: f32,
}

/// The sets of the SSD level. The slot's flag means dirty; its value is the record's id.
#[derive(Debug)]
pub(super) struct SsdSets {
    pub(super) lists: SetLists<u32>,
    /// One heap a set in the `full` modes; empty under NPE, where the list's order decides.
    heaps: Vec<Vec<Entry>>,
    by_popularity: bool,
    arrivals: u32,
}

impl SsdSets {
    pub(super) fn new(geometry: Geometry, by_popularity: bool) -> SsdSets {
        let heaps = if by_popularity { vec![Vec::new(); geometry.sets() as usize] } else { Vec::new() };
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
        let heap = &mut self.heaps[set as usize];
        heap.push(Entry { score, arrival: self.arrivals, id });
        self.arrivals = self.arrivals.wrapping_add(1);
        let last = heap.len() - 1;
        sift_up(heap, last);
    }

    pub(super) fn remove(&mut self, block: BlockNo, slot: Slot) {
        let set = self.lists.geometry().set_of(block);
        let id = self.lists.value(slot);
        self.lists.remove(set, slot);
        if self.by_popularity {
            let heap = &mut self.heaps[set as usize];
            if let Some(at) = heap.iter().position(|entry| entry.id == id) {
                heap.swap_remove(at);
                if at < heap.len() {
                    sift_down(heap, at);
                    sift_up(heap, at);
                }
            }
        }
    }

    /// A score that no block of `set` is below, without looking at the records; none when it is empty.
    pub(super) fn lower_bound(&self, set: u32) -> Option<f32> {
        self.heaps[set as usize].first().map(|entry| entry.score)
    }

    /// The least wanted block of a set that is not empty: the lowest score, then the longest resident;
    /// under NPE the least recently used.
    pub(super) fn least_wanted(&mut self, set: u32, records: &[Record]) -> Victim {
        if !self.by_popularity {
            let slot = self.lists.oldest(set).expect("the set is not empty");
            return Victim { slot, score: 0.0 };
        }
        let heap = &mut self.heaps[set as usize];
        loop {
            let top = heap[0];
            let record = &records[top.id as usize];
            if record.score == top.score {
                let slot = record.ssd_slot().expect("the set's blocks are in the SSD");
                return Victim { slot, score: record.score };
            }
            heap[0].score = record.score;
            // One of the two comes next.
            heap[1..].iter().take(2).for_each(|next| prefetch_slice(records, next.id as usize));
            sift_down(heap, 0);
        }
    }

    /// Changes the share; blocks stay, even where a set now holds more than it may.
    pub(super) fn resize(&mut self, blocks: u32, records: &[Record]) {
        let geometry = self.lists.geometry().resized(blocks);
        let same_sets = geometry.sets() == self.lists.geometry().sets();
        self.lists.regroup(geometry, |&id| geometry.set_of(records[id as usize].block));
        if !same_sets {
            self.fill_heaps(records);
        }
    }

    /// Multiplies every score, as the records' own were.
    pub(super) fn scale(&mut self, factor: f32) {
        for heap in &mut self.heaps {
            let mut inexact = false;
            for entry in heap.iter_mut() {
                let score = entry.score * factor;
                inexact |= entry.score > 0.0 && score < f32::MIN_POSITIVE;
                entry.score = score;
            }
            // Scores that became too small to be told apart are in the order of arrival from now on.
            if inexact {
                (0..heap.len() / 2).rev().for_each(|at| sift_down(heap, at));
            }
        }
    }

    /// Brings the record nearer that [`SsdSets::least_wanted`] looks at first.
    pub(super) fn prefetch_least_wanted(&self, set: u32, records: &[Record]) {
        if let Some(top) = self.heaps[set as usize].first() {
            prefetch_slice(records, top.id as usize);
        }
    }

    /// Fills every heap anew from the lists, after the sets changed.
    fn fill_heaps(&mut self, records: &[Record]) {
        if !self.by_popularity {
            return;
        }
        let sets = self.lists.geometry().sets();
        self.heaps.clear();
        self.heaps.resize(sets as usize, Vec::new());
        for set in 0..sets {
            let ids: Vec<u32> = self.lists.from_oldest(set).map(|slot| self.lists.value(slot)).collect();
            for id in ids {
                self.push(set, records[id as usize].score, id);
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let entries: usize = self.heaps.iter().map(Vec::capacity).sum();
        self.lists.memory_bytes()
            + entries * size_of::<Entry>()
            + self.heaps.capacity() * size_of::<Vec<Entry>>()
    }
}

fn sift_up(heap: &mut [Entry], mut at: usize) {
    while at > 0 {
        let parent = (at - 1) / 2;
        if !heap[at].is_below(&heap[parent]) {
            break;
        }
        heap.swap(at, parent);
        at = parent;
    }
}

fn sift_down(heap: &mut [Entry], mut at: usize) {
    loop {
        let left = 2 * at + 1;
        let Some(mut least) = (left < heap.len()).then_some(left) else { break };
        if left + 1 < heap.len() && heap[left + 1].is_below(&heap[left]) {
            least = left + 1;
        }
        if !heap[least].is_below(&heap[at]) {
            break;
        }
        heap.swap(at, least);
        at = least;
    }
}
