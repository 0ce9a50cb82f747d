//! ARC: two recency lists, of blocks seen once and of blocks seen more often, that divide the cache as their ghosts tell
//! (Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003, Fig. 4).
//!
//! It must not know what reads and writes ask for; see [`ssd_level`].

use lode_types::BlockNo;

use crate::effect::{Sink, Slot};
use crate::scheme::Hint;
use crate::schemes::queues::Queues;
use crate::schemes::ssd_level::{self, Id, Replacement, SsdLevel};
use crate::settings::{SettingInfo, Settings};

pub(crate) static TABLES: &[&[SettingInfo]] = &[ssd_level::SETTINGS];

/// One VM's SSD level under ARC.
pub type Arc = SsdLevel<ArcLists>;

/// Cached blocks that were seen once, and more than once.
const T1: usize = 0;
const T2: usize = 1;
/// Ghosts of those that left T1, and T2.
const B1: usize = 2;
const B2: usize = 3;

/// The four lists and the division between them.
#[derive(Debug)]
pub struct ArcLists {
    lists: Queues<4>,
    /// The paper's c: blocks of the cache.
    capacity: u32,
    /// The paper's p: what T1 should hold, a real number from 0 to c.
    target: f64,
}

impl ArcLists {
    /// Blocks in the recency list L1 = T1 and B1.
    fn once(&self) -> u64 {
        u64::from(self.lists.len(T1)) + u64::from(self.lists.len(B1))
    }

    /// Blocks known.
    fn known(&self) -> u64 {
        self.once() + u64::from(self.lists.len(T2)) + u64::from(self.lists.len(B2))
    }

    /// The paper's REPLACE: the oldest of T1 or of T2 becomes a ghost.
    #[inline]
    fn replace<S: Sink>(&mut self, for_b2: bool, sink: &mut S) {
        let once = f64::from(self.lists.len(T1));
        let from_t1 = once >= 1.0 && (once > self.target || (for_b2 && once == self.target));
        let (list, ghosts) = if from_t1 || self.lists.len(T2) == 0 { (T1, B1) } else { (T2, B2) };
        if let Some(oldest) = self.lists.oldest(list) {
            self.lists.evict_to(ghosts, oldest, sink);
            self.lists.fetch_behind(list);
        }
    }

    /// Makes room for one block in the cache.
    #[inline]
    fn make_room<S: Sink>(&mut self, for_b2: bool, sink: &mut S) {
        if self.cached() >= self.capacity {
            self.replace(for_b2, sink);
        }
    }

    /// Cases II and III: the block was seen before, and its ghost says which list is too small.
    fn admit_ghost<S: Sink>(&mut self, ghost: Id, sink: &mut S) {
        let (b1, b2) = (f64::from(self.lists.len(B1)), f64::from(self.lists.len(B2)));
        let in_b2 = self.lists.queue(ghost) == B2;
        self.target = if in_b2 {
            (self.target - (b1 / b2).max(1.0)).max(0.0)
        } else {
            (self.target + (b2 / b1).max(1.0)).min(f64::from(self.capacity))
        };
        self.make_room(in_b2, sink);
        self.lists.move_to_front(T2, ghost);
    }

    /// Case IV: nothing is known of the block.
    fn admit_new<S: Sink>(&mut self, hash: u32, block: BlockNo, sink: &mut S) -> Id {
        if self.once() >= u64::from(self.capacity) && self.lists.len(B1) == 0 {
            // T1 is the whole cache: its oldest leaves without a ghost.
            if let Some(oldest) = self.lists.oldest(T1) {
                self.lists.evict(oldest, sink);
                self.lists.fetch_behind(T1);
            }
        } else {
            self.bound_ghosts(1);
            self.make_room(false, sink);
        }
        self.lists.insert(T1, hash, block)
    }

    /// Forgets the oldest ghosts as far as `newcomers` to T1 need it: L1 has at most c blocks, all lists 2 c.
    #[inline]
    fn bound_ghosts(&mut self, newcomers: u64) {
        let capacity = u64::from(self.capacity);
        while self.once() + newcomers > capacity && self.lists.len(B1) > 0 {
            self.lists.remove_oldest(B1);
        }
        while self.known() + newcomers > 2 * capacity && self.lists.len(B2) > 0 {
            self.lists.remove_oldest(B2);
        }
    }
}

impl Replacement for ArcLists {
    fn new(_: &Settings, blocks: u32) -> ArcLists {
        ArcLists { lists: Queues::new(), capacity: blocks, target: 0.0 }
    }

    #[inline(always)]
    fn find(&self, hint: Hint, block: BlockNo) -> Option<Id> {
        self.lists.find(hint, block)
    }

    #[inline(always)]
    fn slot(&self, id: Id) -> Option<Slot> {
        self.lists.slot(id)
    }

    /// Case I.
    #[inline(always)]
    fn touch(&mut self, _: BlockNo, id: Id) {
        self.lists.move_to_front(T2, id);
    }

    #[inline(always)]
    fn set_dirty(&mut self, id: Id, dirty: bool) {
        self.lists.set_dirty(id, dirty);
    }

    #[inline]
    fn admit<S: Sink>(
        &mut self,
        hash: u32,
        block: BlockNo,
        ghost: Option<Id>,
        sink: &mut S,
    ) -> Option<(Id, Slot)> {
        if self.capacity == 0 {
            return None;
        }
        let id = match ghost {
            Some(ghost) => {
                self.admit_ghost(ghost, sink);
                ghost
            }
            None => self.admit_new(hash, block, sink),
        };
        Some((id, self.lists.give_slot(id)))
    }

    fn restore(&mut self, hash: u32, block: BlockNo, ghost: Option<Id>) -> Option<(Id, Slot)> {
        if self.cached() >= self.capacity {
            return None;
        }
        if let Some(ghost) = ghost {
            self.lists.remove(ghost);
        }
        self.bound_ghosts(1);
        let id = self.lists.insert(T1, hash, block);
        Some((id, self.lists.give_slot(id)))
    }

    fn remove(&mut self, _: BlockNo, id: Id) {
        self.lists.remove(id);
    }

    fn resize<S: Sink>(&mut self, blocks: u32, sink: &mut S) {
        self.capacity = blocks;
        self.target = self.target.min(f64::from(blocks));
        while self.cached() > blocks {
            self.replace(false, sink);
        }
        self.bound_ghosts(0);
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    #[inline]
    fn cached(&self) -> u32 {
        self.lists.len(T1) + self.lists.len(T2)
    }

    #[inline]
    fn announce(&self, block: BlockNo) -> Hint {
        self.lists.announce(block)
    }

    #[inline]
    fn locate<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut Hint)>) {
        self.lists.locate(blocks);
    }

    #[inline]
    fn follow(&self, blocks: impl Iterator<Item = (BlockNo, Hint)>) {
        self.lists.follow(blocks);
    }

    fn memory_bytes(&self) -> usize {
        self.lists.memory_bytes()
    }
}
