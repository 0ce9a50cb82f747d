//! 2Q, the full version: newcomers pass through a FIFO queue and leave ghosts; a block that is missed while it is a ghost
//! enters the main queue, which is kept by recency (Johnson and Shasha, "2Q: A Low Overhead High Performance Buffer
//! Management Replacement Algorithm", VLDB 1994).
//!
//! It must not know what reads and writes ask for; see [`ssd_level`].

use crate::effect::Sink;
use crate::parts::queue_level::{QueueLevel, QueuePolicy};
use crate::parts::queues::Queues;
use crate::parts::ssd_level::{self, Id, Newcomer, SsdLevel};
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::settings::{SettingInfo, Settings};
use crate::tracked::{Footprint, percent_of};

/// Settings beside `write_policy`.
pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo::integer("in_percent", "25", 1, 99)
        .about("share of the cache that the queue of newcomers (A1in) keeps")
        .source("Johnson and Shasha: Kin 25 %"),
    SettingInfo::integer("out_percent", "50", 0, 200)
        .about("ghosts (A1out) for each hundred blocks of the cache")
        .source("Johnson and Shasha: Kout 50 %"),
];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "2q",
    about: "one SSD level of a FIFO queue for newcomers, ghosts, and a recency queue for what came back",
    source: "Johnson and Shasha, VLDB 1994",
    tables: &[ssd_level::SETTINGS, SETTINGS],
    build: |settings, _, quota| AnyScheme::TwoQ(TwoQ::new(settings, quota)),
    footprint: Footprint::new(LEAN, 48)
        .remembering(|settings, share_blocks, _| percent_of(share_blocks, settings, "out_percent")),
    ..SchemeInfo::PLAIN
};

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
    in_percent: u64,
    out_percent: u64,
}

impl QueuePolicy<4> for TwoQRules {
    fn new(settings: &Settings, _: u32) -> TwoQRules {
        TwoQRules { in_percent: settings.integer("in_percent"), out_percent: settings.integer("out_percent") }
    }

    #[inline(always)]
    fn touch(&mut self, queues: &mut Queues<4>, id: Id) {
        if queues.queue(id) == MAIN {
            queues.move_to_front(MAIN, id);
        }
    }

    fn admit<S: Sink>(&mut self, queues: &mut Queues<4>, new: Newcomer, sink: &mut S) -> Option<Id> {
        // It leaves the ghosts first, so that none of them has to for the block that is evicted.
        if let Some(ghost) = new.ghost {
            queues.move_to_front(RETURNING, ghost);
        }
        if queues.is_full() {
            self.evict(queues, sink);
        }
        Some(queues.enter(if new.ghost.is_some() { MAIN } else { IN }, new))
    }

    /// The paper's reclaimfor, for a cache that is full.
    fn evict<S: Sink>(&mut self, queues: &mut Queues<4>, sink: &mut S) {
        let is_in_over = u64::from(queues.len(IN)) > queues.percent(self.in_percent);
        if is_in_over || queues.len(MAIN) == 0 {
            queues.evict_oldest_to(IN, OUT, sink);
            self.bound_ghosts(queues);
        } else {
            queues.evict_oldest(MAIN, sink);
        }
    }

    fn bound_ghosts(&mut self, queues: &mut Queues<4>) {
        queues.truncate(OUT, queues.percent(self.out_percent));
    }
}
