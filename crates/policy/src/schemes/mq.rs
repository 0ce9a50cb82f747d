//! MQ: a few recency queues by the logarithm of the number of accesses; who is not accessed for a lifetime goes one queue
//! down, and ghosts remember the numbers (Zhou, Philbin and Li, "The Multi-Queue Replacement Algorithm for Second Level
//! Buffer Caches", USENIX ATC 2001).
//!
//! It must not know what reads and writes ask for; see [`ssd_level`].

use lode_types::BlockNo;
use lode_types::prefetch::prefetch_slice;

use crate::effect::Sink;
use crate::parts::growth;
use crate::parts::queue_level::{QueueLevel, QueuePolicy};
use crate::parts::queues::Queues;
use crate::parts::ssd_level::{self, Id, Newcomer, SsdLevel};
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::settings::{SettingInfo, Settings};
use crate::tracked::{Footprint, percent_of};

/// Settings beside `write_policy`.
pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo::integer("queues", "8", 1, MOST_QUEUES as u64)
        .about("recency queues; a block of 2^k accesses or more is in queue k, or in the last one")
        .source("Zhou et al.: 8"),
    SettingInfo::integer("life_percent", "100", 1, 100_000)
        .about(
            "accesses without one of its own after which a block goes one queue down, for each hundred \
             blocks of the cache",
        )
        .source("ours; Zhou et al. measure the trace's peak temporal distance"),
    SettingInfo::integer("ghost_percent", "400", 0, 1000)
        .about("ghosts (Qout) for each hundred blocks of the cache")
        .source("Zhou et al.; libcachesim: qout_size_ratio 4"),
];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "mq",
    about: "one SSD level of recency queues by the number of accesses, which blocks climb and descend",
    source: "Zhou et al., USENIX ATC 2001",
    tables: &[ssd_level::SETTINGS, SETTINGS],
    build: |settings, _, quota| AnyScheme::Mq(Mq::new(settings, quota)),
    footprint: Footprint::new(LEAN, 80)
        .remembering(|settings, share_blocks, _| percent_of(share_blocks, settings, "ghost_percent")),
    ..SchemeInfo::PLAIN
};

/// One VM's SSD level under MQ.
pub type Mq = SsdLevel<QueueLevel<Ladder, QUEUES>>;

/// Most recency queues; they come first.
const MOST_QUEUES: usize = 8;
/// The paper's Qout.
const GHOST: usize = MOST_QUEUES;
/// A ghost that comes back, while room is made for it, or a newcomer before it has a queue.
const ARRIVING: usize = MOST_QUEUES + 1;
const QUEUES: usize = MOST_QUEUES + 2;

type Lists = Queues<QUEUES>;

/// What MQ knows of a block, ghosts included.
#[derive(Clone, Copy, Debug)]
struct Use {
    /// The access after which it came into its queue.
    since: u64,
    /// Accesses, while it was known.
    accesses: u32,
}

/// How blocks climb and descend.
#[derive(Debug)]
pub struct Ladder {
    /// The last recency queue.
    top: usize,
    life_percent: u64,
    ghost_percent: u64,
    /// By record.
    uses: Vec<Use>,
    /// The paper's currentTime: accesses until now.
    now: u64,
    /// No block of any queue goes down before this time.
    next_look: u64,
}

impl Ladder {
    fn queue_of(&self, accesses: u32) -> usize {
        self.top.min(accesses.max(1).ilog2() as usize)
    }

    /// Starts the book of a new record.
    fn open(&mut self, id: Id) {
        let unused = Use { since: 0, accesses: 0 };
        growth::extend_to(&mut self.uses, id, unused);
        self.uses[id as usize] = unused;
    }

    /// Counts an access to a block, puts it where it belongs, and lets others go down.
    #[inline(always)]
    fn access(&mut self, lists: &mut Lists, id: Id) {
        let known = &mut self.uses[id as usize];
        known.accesses = known.accesses.saturating_add(1);
        known.since = self.now;
        let accesses = known.accesses;
        lists.move_to_front(self.queue_of(accesses), id);
        self.now += 1;
        if self.now >= self.next_look {
            self.adjust(lists);
        }
    }

    /// The paper's Adjust: of each queue the oldest goes one down if its life there is over. The oldest of a queue is the one
    /// that came in first, so that those behind it need not be asked.
    fn adjust(&mut self, lists: &mut Lists) {
        let life = lists.percent(self.life_percent);
        let mut earliest = self.now;
        for queue in 1..=self.top {
            if let Some(oldest) = lists.oldest(queue)
                && self.uses[oldest as usize].since + life < self.now
            {
                self.uses[oldest as usize].since = self.now;
                lists.move_to_front(queue - 1, oldest);
                lists.fetch_behind(queue);
            }
            if let Some(oldest) = lists.oldest(queue) {
                if let Some(next) = lists.newer(oldest) {
                    prefetch_slice(&self.uses, next as usize);
                }
                earliest = earliest.min(self.uses[oldest as usize].since);
            }
        }
        self.next_look = earliest + life + 1;
    }
}

impl QueuePolicy<QUEUES> for Ladder {
    fn new(settings: &Settings, _: u32) -> Ladder {
        Ladder {
            top: settings.integer("queues") as usize - 1,
            life_percent: settings.integer("life_percent"),
            ghost_percent: settings.integer("ghost_percent"),
            uses: Vec::new(),
            now: 0,
            next_look: 0,
        }
    }

    #[inline(always)]
    fn touch(&mut self, lists: &mut Lists, id: Id) {
        self.access(lists, id);
    }

    fn admit<S: Sink>(&mut self, lists: &mut Lists, new: Newcomer, sink: &mut S) -> Option<Id> {
        // It leaves the ghosts first, so that none of them has to for the block that is evicted.
        if let Some(ghost) = new.ghost {
            lists.move_to_front(ARRIVING, ghost);
        }
        if lists.is_full() {
            self.evict(lists, sink);
        }
        let Some(ghost) = new.ghost else { return Some(self.restore(lists, new.hash, new.block)) };
        self.access(lists, ghost);
        Some(ghost)
    }

    fn restore(&mut self, lists: &mut Lists, hash: u32, block: BlockNo) -> Id {
        let id = lists.insert(ARRIVING, hash, block);
        self.open(id);
        self.access(lists, id);
        id
    }

    fn resized(&mut self, _: &mut Lists) {
        // Lives may be shorter now.
        self.next_look = 0;
    }

    /// The paper's EvictBlock: the oldest of the lowest queue that has one.
    fn evict<S: Sink>(&mut self, lists: &mut Lists, sink: &mut S) {
        if let Some(queue) = (0..=self.top).find(|&queue| lists.len(queue) > 0) {
            lists.evict_oldest_to(queue, GHOST, sink);
        }
        self.bound_ghosts(lists);
    }

    fn bound_ghosts(&mut self, lists: &mut Lists) {
        lists.truncate(GHOST, lists.percent(self.ghost_percent));
    }

    #[inline]
    fn prefetch(&self, id: Id) {
        prefetch_slice(&self.uses, id as usize);
    }

    fn memory_bytes(&self) -> usize {
        self.uses.capacity() * size_of::<Use>()
    }
}
