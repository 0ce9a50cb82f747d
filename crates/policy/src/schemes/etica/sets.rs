//! The SSD level: the lists of its sets and, in the `full` modes, each set's heap of least wanted blocks.

use super::table::Record;
use crate::effect::Slot;
use crate::geometry::Geometry;
use crate::lists::SetLists;
use lode_types::BlockNo;

/// One block in a set's heap. `score` is a lower bound: scores only grow while a block is resident, so
/// an entry is brought up to date when it reaches the top, and not at every access.
#[derive(Clone, Copy, Debug)]
struct Entry {
    score: f32,
    /// Order of arrival; among equals the older leaves first.
    arrival: u32,
    slot: Slot,
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
            self.push(set, score, slot);
        }
        slot
    }

    fn push(&mut self, set: u32, score: f32, slot: Slot) {
        let heap = &mut self.heaps[set as usize];
        heap.push(Entry { score, arrival: self.arrivals, slot });
        self.arrivals = self.arrivals.wrapping_add(1);
        let last = heap.len() - 1;
        sift_up(heap, last);
    }

    pub(super) fn remove(&mut self, block: BlockNo, slot: Slot) {
        let set = self.lists.geometry().set_of(block);
        self.lists.remove(set, slot);
        if self.by_popularity {
            let heap = &mut self.heaps[set as usize];
            if let Some(at) = heap.iter().position(|entry| entry.slot == slot) {
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
            let score = records[self.lists.value(top.slot) as usize].score;
            if score == top.score {
                return Victim { slot: top.slot, score };
            }
            heap[0].score = score;
            sift_down(heap, 0);
        }
    }

    /// Changes the share; blocks stay, even where a set now holds more than it may.
    pub(super) fn resize(&mut self, blocks: u32, records: &[Record]) {
        let geometry = self.lists.geometry().resized(blocks);
        let same_sets = geometry.sets() == self.lists.geometry().sets();
        self.lists.regroup(geometry, |&id| geometry.set_of(records[id as usize].block));
        if !same_sets {
            self.rebuild_heaps(records);
        }
    }

    /// Fills every heap anew from the lists, after scores or sets changed as a whole.
    pub(super) fn rebuild_heaps(&mut self, records: &[Record]) {
        if !self.by_popularity {
            return;
        }
        let sets = self.lists.geometry().sets();
        self.heaps.clear();
        self.heaps.resize(sets as usize, Vec::new());
        for set in 0..sets {
            let slots: Vec<Slot> = self.lists.from_oldest(set).collect();
            for slot in slots {
                self.push(set, records[self.lists.value(slot) as usize].score, slot);
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
