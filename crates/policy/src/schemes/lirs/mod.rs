//! LIRS: most of the cache is for the blocks with the shortest time between their last two accesses (LIR); a small rest
//! is for all others (HIR), which leave in order of arrival (Jiang and Zhang, "LIRS: An Efficient Low Inter-reference
//! Recency Set Replacement Policy to Improve Buffer Cache Performance", SIGMETRICS 2002, section 3).
//!
//! It must not know what reads and writes ask for; see [`ssd_level`].

mod rings;

use lode_types::BlockNo;

use self::rings::Rings;
use crate::effect::Sink;
use crate::parts::queue_level::{QueueLevel, QueuePolicy};
use crate::parts::queues::Queues;
use crate::parts::ssd_level::{self, Id, Newcomer, SsdLevel};
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::settings::{SettingInfo, Settings};
use crate::tracked::{Footprint, percent_of};

/// Settings beside `write_policy`.
pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo::integer("hir_percent", "1", 1, 100)
        .about("share of the cache for HIR blocks, at least one block")
        .source("Jiang and Zhang: 1 %"),
    SettingInfo::integer("stack_percent", "200", 100, 1000)
        .about(
            "blocks in the stack, cached or not, for each hundred blocks of the cache; beyond that the \
             ghost that left first is forgotten",
        )
        .source("libcachesim: twice the cache; Jiang and Zhang set no bound"),
];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "lirs",
    about: "one SSD level for the blocks with the shortest time between their last two accesses, and a \
            small queue for all others",
    source: "Jiang and Zhang, SIGMETRICS 2002",
    tables: &[ssd_level::SETTINGS, SETTINGS],
    build: |settings, _, quota| AnyScheme::Lirs(Lirs::new(settings, quota)),
    footprint: Footprint::new(LEAN, 64)
        .remembering(|settings, share_blocks, _| percent_of(share_blocks, settings, "stack_percent")),
    ..SchemeInfo::PLAIN
};

/// One VM's SSD level under LIRS.
pub type Lirs = SsdLevel<QueueLevel<Recencies, QUEUES>>;

const QUEUES: usize = 2;
/// The paper's stack S, by recency: LIR blocks, and HIR blocks younger than the oldest LIR block, cached or not.
const STACK: usize = 0;
/// Cached HIR blocks that the stack no longer knows.
const OUTSIDE: usize = 1;

/// The paper's queue Q: the cached HIR blocks, wherever they are.
const RESIDENT: usize = 0;
/// HIR blocks that are not cached, in the order in which they left.
const GHOSTS: usize = 1;

/// The mark of a LIR block.
const LIR: u8 = 1;
const HIR: u8 = 0;

type Lists = Queues<QUEUES>;

/// Which blocks are LIR, and which HIR block leaves.
#[derive(Debug)]
pub struct Recencies {
    hir_percent: u64,
    stack_percent: u64,
    lirs: u32,
    /// Every HIR block is in one of these, no LIR block is.
    hirs: Rings<QUEUES>,
}

impl Recencies {
    /// LIR blocks that there may be.
    fn lir_blocks(&self, lists: &Lists) -> u32 {
        let hirs = lists.percent(self.hir_percent);
        lists.capacity().saturating_sub((hirs as u32).max(1))
    }

    /// Where a HIR block goes that was accessed: without LIR blocks nothing is in the stack.
    fn queue_of_hirs(&self) -> usize {
        if self.lirs > 0 { STACK } else { OUTSIDE }
    }

    /// A block that is in no ring becomes LIR; the oldest LIR block too many becomes HIR.
    fn make_lir(&mut self, lists: &mut Lists, id: Id) {
        lists.set_mark(id, LIR);
        lists.move_to_front(STACK, id);
        self.lirs += 1;
        self.bound_lirs(lists);
    }

    fn bound_lirs(&mut self, lists: &mut Lists) {
        while self.lirs > self.lir_blocks(lists) {
            let Some(oldest) = lists.oldest(STACK) else { return };
            lists.set_mark(oldest, HIR);
            lists.move_to_front(OUTSIDE, oldest);
            self.hirs.push(RESIDENT, oldest);
            self.lirs -= 1;
            self.prune(lists);
        }
    }

    /// Takes HIR blocks from the bottom of the stack until a LIR block is there. Those that are not cached are forgotten.
    #[inline]
    fn prune(&mut self, lists: &mut Lists) {
        while let Some(oldest) = lists.oldest(STACK) {
            lists.fetch_from(oldest);
            if lists.mark(oldest) == LIR {
                return;
            }
            if lists.slot(oldest).is_some() {
                lists.move_to_front(OUTSIDE, oldest);
            } else {
                self.hirs.remove(oldest);
                lists.remove(oldest);
            }
        }
    }

    /// Fetches what taking the oldest of a ring out will touch, and the one after it, of which this is asked next.
    #[inline]
    fn fetch_oldest(&self, lists: &Lists, ring: usize) {
        let Some(oldest) = self.hirs.oldest(ring) else { return };
        lists.fetch_from(oldest);
        if let Some(next) = self.hirs.newer(oldest) {
            lists.fetch_record(next);
            self.hirs.prefetch(next);
        }
    }

    /// A block that is not known enters: as a LIR block as long as there may be more of them.
    fn enter(&mut self, lists: &mut Lists, hash: u32, block: BlockNo) -> Id {
        if self.lirs < self.lir_blocks(lists) {
            let id = lists.insert(STACK, hash, block);
            lists.set_mark(id, LIR);
            self.lirs += 1;
            self.bound_ghosts(lists);
            return id;
        }
        let id = lists.insert(self.queue_of_hirs(), hash, block);
        self.hirs.push(RESIDENT, id);
        self.bound_ghosts(lists);
        id
    }
}

impl QueuePolicy<QUEUES> for Recencies {
    fn new(settings: &Settings, _: u32) -> Recencies {
        Recencies {
            hir_percent: settings.integer("hir_percent"),
            stack_percent: settings.integer("stack_percent"),
            lirs: 0,
            hirs: Rings::new(),
        }
    }

    #[inline]
    fn prefetch(&self, id: Id) {
        self.hirs.prefetch(id);
    }

    #[inline(always)]
    fn touch(&mut self, lists: &mut Lists, id: Id) {
        if lists.mark(id) == LIR {
            let was_oldest = lists.oldest(STACK) == Some(id);
            lists.move_to_front(STACK, id);
            if was_oldest {
                self.prune(lists);
            }
            return;
        }
        self.hirs.remove(id);
        if lists.queue(id) == STACK || self.lirs < self.lir_blocks(lists) {
            self.make_lir(lists, id);
        } else {
            lists.move_to_front(self.queue_of_hirs(), id);
            self.hirs.push(RESIDENT, id);
        }
        self.bound_ghosts(lists);
    }

    fn admit<S: Sink>(&mut self, lists: &mut Lists, new: Newcomer, sink: &mut S) -> Option<Id> {
        if let Some(ghost) = new.ghost {
            self.hirs.remove(ghost);
        }
        if lists.is_full() {
            self.evict(lists, sink);
        }
        let Some(ghost) = new.ghost else { return Some(self.enter(lists, new.hash, new.block)) };
        self.make_lir(lists, ghost);
        Some(ghost)
    }

    fn restore(&mut self, lists: &mut Lists, hash: u32, block: BlockNo) -> Id {
        self.enter(lists, hash, block)
    }

    fn forget(&mut self, lists: &mut Lists, id: Id) {
        if lists.mark(id) == LIR {
            self.lirs -= 1;
            lists.move_to_front(OUTSIDE, id);
            self.prune(lists);
        } else {
            self.hirs.remove(id);
        }
    }

    fn resized(&mut self, lists: &mut Lists) {
        self.bound_lirs(lists);
    }

    /// The first of the cached HIR blocks leaves. It is remembered while it is in the stack, where it stays.
    fn evict<S: Sink>(&mut self, lists: &mut Lists, sink: &mut S) {
        let Some(first) = self.hirs.oldest(RESIDENT) else { return };
        self.hirs.remove(first);
        if lists.queue(first) == STACK {
            lists.evict_in_place(first, sink);
            self.hirs.push(GHOSTS, first);
        } else {
            lists.evict(first, sink);
        }
        self.fetch_oldest(lists, RESIDENT);
    }

    /// Called when the stack may have grown, and when the share shrinks. What is cached is never more than the stack may have.
    fn bound_ghosts(&mut self, lists: &mut Lists) {
        while u64::from(lists.len(STACK)) > lists.percent(self.stack_percent) {
            let Some(first) = self.hirs.oldest(GHOSTS) else { return };
            self.hirs.remove(first);
            lists.remove(first);
            self.fetch_oldest(lists, GHOSTS);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.hirs.memory_bytes()
    }
}
