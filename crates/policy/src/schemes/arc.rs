//! ARC: two recency lists, of blocks seen once and of blocks seen more often, that divide the cache as their ghosts tell
//! (Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003, Fig. 4).
//!
//! It must not know what reads and writes ask for; see [`ssd_level`].

use lode_types::BlockNo;

use crate::effect::Sink;
use crate::parts::queue_level::{QueueLevel, QueuePolicy};
use crate::parts::queues::Queues;
use crate::parts::ssd_level::{self, Id, SsdLevel};
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::settings::{SettingInfo, Settings};
use crate::tracked::Footprint;

static TABLES: &[&[SettingInfo]] = &[ssd_level::SETTINGS];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo::new(
    "arc",
    "one SSD level that divides itself between blocks seen once and blocks seen more often",
    "Megiddo and Modha, FAST 2003",
    TABLES,
    |settings, _, quota| AnyScheme::Arc(Arc::new(settings, quota)),
)
.taking(Footprint::new(LEAN, 64).with_ghosts());

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
    /// The paper's c: blocks of the cache.
    capacity: u32,
    /// The paper's p: what T1 should hold, a real number from 0 to c.
    target: f64,
}

impl Division {
    /// The paper's REPLACE: the oldest of T1 or of T2 becomes a ghost.
    #[inline]
    fn replace<S: Sink>(&self, lists: &mut Lists, for_b2: bool, sink: &mut S) {
        let once = f64::from(lists.len(T1));
        let from_t1 = once >= 1.0 && (once > self.target || (for_b2 && once == self.target));
        let (list, ghosts) = if from_t1 || lists.len(T2) == 0 { (T1, B1) } else { (T2, B2) };
        if let Some(oldest) = lists.oldest(list) {
            lists.evict_to(ghosts, oldest, sink);
            lists.fetch_behind(list);
        }
    }

    /// Makes room for one block in the cache.
    #[inline]
    fn make_room<S: Sink>(&self, lists: &mut Lists, for_b2: bool, sink: &mut S) {
        if lists.cached() >= self.capacity {
            self.replace(lists, for_b2, sink);
        }
    }

    /// Cases II and III: the block was seen before, and its ghost says which list is too small.
    fn admit_ghost<S: Sink>(&mut self, lists: &mut Lists, ghost: Id, sink: &mut S) -> Id {
        let (b1, b2) = (f64::from(lists.len(B1)), f64::from(lists.len(B2)));
        let in_b2 = lists.queue(ghost) == B2;
        self.target = if in_b2 {
            (self.target - (b1 / b2).max(1.0)).max(0.0)
        } else {
            (self.target + (b2 / b1).max(1.0)).min(f64::from(self.capacity))
        };
        self.make_room(lists, in_b2, sink);
        lists.move_to_front(T2, ghost);
        ghost
    }

    /// Case IV: nothing is known of the block.
    fn admit_new<S: Sink>(&self, lists: &mut Lists, hash: u32, block: BlockNo, sink: &mut S) -> Id {
        if once(lists) >= u64::from(self.capacity) && lists.len(B1) == 0 {
            // T1 is the whole cache: its oldest leaves without a ghost.
            if let Some(oldest) = lists.oldest(T1) {
                lists.evict(oldest, sink);
                lists.fetch_behind(T1);
            }
        } else {
            self.bound_known(lists, 1);
            self.make_room(lists, false, sink);
        }
        lists.insert(T1, hash, block)
    }

    /// Forgets the oldest ghosts as far as `newcomers` to T1 need it: L1 has at most c blocks, all lists 2 c.
    #[inline]
    fn bound_known(&self, lists: &mut Lists, newcomers: u64) {
        let capacity = u64::from(self.capacity);
        while once(lists) + newcomers > capacity && lists.len(B1) > 0 {
            lists.remove_oldest(B1);
        }
        while known(lists) + newcomers > 2 * capacity && lists.len(B2) > 0 {
            lists.remove_oldest(B2);
        }
    }
}

impl QueuePolicy<4> for Division {
    const HIT_MOVES: bool = true;

    fn new(_: &Settings, blocks: u32) -> Division {
        Division { capacity: blocks, target: 0.0 }
    }

    /// Case I.
    #[inline(always)]
    fn touch(&mut self, lists: &mut Lists, id: Id) {
        lists.move_to_front(T2, id);
    }

    #[inline]
    fn admit<S: Sink>(
        &mut self,
        lists: &mut Lists,
        hash: u32,
        block: BlockNo,
        ghost: Option<Id>,
        sink: &mut S,
    ) -> Option<Id> {
        Some(match ghost {
            Some(ghost) => self.admit_ghost(lists, ghost, sink),
            None => self.admit_new(lists, hash, block, sink),
        })
    }

    fn restore(&mut self, lists: &mut Lists, hash: u32, block: BlockNo) -> Id {
        self.bound_known(lists, 1);
        lists.insert(T1, hash, block)
    }

    fn set_blocks(&mut self, _: &mut Lists, blocks: u32) {
        self.capacity = blocks;
        self.target = self.target.min(f64::from(blocks));
    }

    fn evict<S: Sink>(&mut self, lists: &mut Lists, sink: &mut S) {
        self.replace(lists, false, sink);
    }

    fn bound_ghosts(&mut self, lists: &mut Lists) {
        self.bound_known(lists, 0);
    }
}
