//! ARC: two recency lists, of blocks seen once and of blocks seen more often, that divide the cache as their ghosts tell
//! (Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003, Fig. 4).
//!
//! It must not know what reads and writes ask for; see [`SsdLevel`].

use lode_types::BlockNo;

use crate::effect::Sink;
use crate::parts::queue_level::{self, QueueLevel, QueuePolicy};
use crate::parts::queues::Queues;
use crate::parts::ssd_level::{Id, Newcomer, SsdLevel};
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::settings::Settings;
use crate::tracked::Footprint;

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "arc",
    about: "one SSD level that divides itself between blocks seen once and blocks seen more often",
    source: "Megiddo and Modha, FAST 2003",
    build: |settings, _, quota| AnyScheme::Arc(Arc::new(settings, quota)),
    footprint: Footprint::new(LEAN, 48).remembering(|_, share_blocks, _| share_blocks),
    ..queue_level::INFO
};

/// One VM's SSD level under ARC.
pub type Arc = SsdLevel<QueueLevel<Division, 4>>;

/// Cached blocks that were seen once, and more than once.
pub(super) const T1: usize = 0;
pub(super) const T2: usize = 1;
/// Ghosts of those that left T1, and T2.
const B1: usize = 2;
const B2: usize = 3;

type Lists = Queues<4>;

/// Blocks in the recency list L1 = T1 and B1.
fn once(lists: &Lists) -> u64 {
    u64::from(lists.len(T1)) + u64::from(lists.len(B1))
}

/// Blocks known.
fn known(lists: &Lists) -> u64 {
    once(lists) + u64::from(lists.len(T2)) + u64::from(lists.len(B2))
}

/// How the four lists divide the cache.
#[derive(Debug)]
pub struct Division {
    /// The paper's p: what T1 should hold, a real number from 0 to c, the capacity of the cache.
    target: f64,
}

impl Division {
    /// The paper's REPLACE: the oldest of T1 or of T2 becomes a ghost.
    #[inline]
    fn replace<S: Sink>(&self, lists: &mut Lists, for_b2: bool, sink: &mut S) {
        let once = f64::from(lists.len(T1));
        let from_t1 = once >= 1.0 && (once > self.target || (for_b2 && once == self.target));
        let (list, ghosts) = if from_t1 || lists.len(T2) == 0 { (T1, B1) } else { (T2, B2) };
        lists.evict_oldest_to(list, ghosts, sink);
    }

    /// Makes room for one block in the cache.
    #[inline]
    fn make_room<S: Sink>(&self, lists: &mut Lists, for_b2: bool, sink: &mut S) {
        if lists.is_full() {
            self.replace(lists, for_b2, sink);
        }
    }

    /// Cases II and III: the block was seen before, and its ghost says which list is too small.
    fn make_room_for_ghost<S: Sink>(&mut self, lists: &mut Lists, ghost: Id, sink: &mut S) {
        let (b1, b2) = (f64::from(lists.len(B1)), f64::from(lists.len(B2)));
        let in_b2 = lists.queue(ghost) == B2;
        self.target = if in_b2 {
            (self.target - (b1 / b2).max(1.0)).max(0.0)
        } else {
            (self.target + (b2 / b1).max(1.0)).min(f64::from(lists.capacity()))
        };
        self.make_room(lists, in_b2, sink);
    }

    /// Case IV: nothing is known of the block.
    fn make_room_for_new<S: Sink>(&self, lists: &mut Lists, sink: &mut S) {
        if once(lists) >= u64::from(lists.capacity()) && lists.len(B1) == 0 {
            // T1 is the whole cache: its oldest leaves without a ghost.
            lists.evict_oldest(T1, sink);
        } else {
            bound_known(lists, 1);
            self.make_room(lists, false, sink);
        }
    }
}

/// Forgets the oldest ghosts as far as `newcomers` to T1 need it: L1 has at most c blocks, all lists 2 c.
#[inline]
fn bound_known(lists: &mut Lists, newcomers: u64) {
    let capacity = u64::from(lists.capacity());
    while once(lists) + newcomers > capacity && lists.len(B1) > 0 {
        lists.remove_oldest(B1);
    }
    while known(lists) + newcomers > 2 * capacity && lists.len(B2) > 0 {
        lists.remove_oldest(B2);
    }
}

impl QueuePolicy<4> for Division {
    fn new(_: &Settings, _: u32) -> Division {
        Division { target: 0.0 }
    }

    /// Case I.
    #[inline(always)]
    fn touch(&mut self, lists: &mut Lists, id: Id) {
        lists.move_to_front(T2, id);
    }

    #[inline]
    fn admit<S: Sink>(&mut self, lists: &mut Lists, new: Newcomer, sink: &mut S) -> Option<Id> {
        match new.ghost {
            Some(ghost) => self.make_room_for_ghost(lists, ghost, sink),
            None => self.make_room_for_new(lists, sink),
        }
        Some(lists.enter(if new.ghost.is_some() { T2 } else { T1 }, new))
    }

    fn restore(&mut self, lists: &mut Lists, hash: u32, block: BlockNo) -> Id {
        bound_known(lists, 1);
        lists.insert(T1, hash, block)
    }

    fn resized(&mut self, lists: &mut Lists) {
        self.target = self.target.min(f64::from(lists.capacity()));
    }

    fn evict<S: Sink>(&mut self, lists: &mut Lists, sink: &mut S) {
        self.replace(lists, false, sink);
    }

    fn bound_ghosts(&mut self, lists: &mut Lists) {
        bound_known(lists, 0);
    }
}
