//! 2Q, the full version: newcomers pass through a FIFO queue and leave ghosts; a block that is missed while it is a ghost
//! enters the main queue, which is kept by recency (Johnson and Shasha, "2Q: A Low Overhead High Performance Buffer
//! Management Replacement Algorithm", VLDB 1994).
//!
//! It must not know what reads and writes ask for; see [`ssd_level`].

use lode_types::BlockNo;

use crate::effect::Sink;
use crate::parts::queue_level::{QueueLevel, QueuePolicy, percent_of};
use crate::parts::queues::Queues;
use crate::parts::ssd_level::{self, Id, SsdLevel};
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::settings::{SettingInfo, SettingKind, Settings};
use crate::tracked::Footprint;

/// Settings beside `write_policy`.
pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo {
        key: "in_percent",
        default: "25",
        kind: SettingKind::Integer { min: 1, max: 99 },
        about: "share of the cache that the queue of newcomers (A1in) keeps",
        source: "Johnson and Shasha: Kin 25 %",
    },
    SettingInfo {
        key: "out_percent",
        default: "50",
        kind: SettingKind::Integer { min: 0, max: 200 },
        about: "ghosts (A1out) for each hundred blocks of the cache",
        source: "Johnson and Shasha: Kout 50 %",
    },
];

static TABLES: &[&[SettingInfo]] = &[ssd_level::SETTINGS, SETTINGS];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo::new(
    "2q",
    "one SSD level of a FIFO queue for newcomers, ghosts, and a recency queue for what came back",
    "Johnson and Shasha, VLDB 1994",
    TABLES,
    |settings, _, quota| AnyScheme::TwoQ(TwoQ::new(settings, quota)),
)
.taking(Footprint::new(LEAN, 64));

/// One VM's SSD level under 2Q.
pub type TwoQ = SsdLevel<QueueLevel<TwoQRules, 4>>;

/// The paper's A1in, Am and A1out.
const IN: usize = 0;
const MAIN: usize = 1;
const OUT: usize = 2;
/// A ghost that comes back, while room is made for it.
const RETURNING: usize = 3;

/// How blocks pass from queue to queue.
#[derive(Debug)]
pub struct TwoQRules {
    capacity: u32,
    in_percent: u64,
    out_percent: u64,
}

impl QueuePolicy<4> for TwoQRules {
    const HIT_MOVES: bool = true;

    fn new(settings: &Settings, blocks: u32) -> TwoQRules {
        TwoQRules {
            capacity: blocks,
            in_percent: settings.integer("in_percent"),
            out_percent: settings.integer("out_percent"),
        }
    }

    #[inline(always)]
    fn touch(&mut self, queues: &mut Queues<4>, id: Id) {
        if queues.queue(id) == MAIN {
            queues.move_to_front(MAIN, id);
        }
    }

    fn admit<S: Sink>(
        &mut self,
        queues: &mut Queues<4>,
        hash: u32,
        block: BlockNo,
        ghost: Option<Id>,
        sink: &mut S,
    ) -> Option<Id> {
        // It leaves the ghosts first, so that none of them has to for the block that is evicted.
        if let Some(ghost) = ghost {
            queues.move_to_front(RETURNING, ghost);
        }
        if queues.cached() >= self.capacity {
            self.evict(queues, sink);
        }
        Some(match ghost {
            Some(ghost) => {
                queues.move_to_front(MAIN, ghost);
                ghost
            }
            None => queues.insert(IN, hash, block),
        })
    }

    fn restore(&mut self, queues: &mut Queues<4>, hash: u32, block: BlockNo) -> Id {
        queues.insert(IN, hash, block)
    }

    fn set_blocks(&mut self, _: &mut Queues<4>, blocks: u32) {
        self.capacity = blocks;
    }

    /// The paper's reclaimfor, for a cache that is full.
    fn evict<S: Sink>(&mut self, queues: &mut Queues<4>, sink: &mut S) {
        let is_in_over = u64::from(queues.len(IN)) > percent_of(self.capacity, self.in_percent);
        let from = if is_in_over || queues.len(MAIN) == 0 { IN } else { MAIN };
        let Some(oldest) = queues.oldest(from) else { return };
        if from == IN {
            queues.evict_to(OUT, oldest, sink);
            self.bound_ghosts(queues);
        } else {
            queues.evict(oldest, sink);
        }
        queues.fetch_behind(from);
    }

    fn bound_ghosts(&mut self, queues: &mut Queues<4>) {
        while u64::from(queues.len(OUT)) > percent_of(self.capacity, self.out_percent) {
            queues.remove_oldest(OUT);
        }
    }
}
