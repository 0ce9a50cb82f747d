//! S3-FIFO: newcomers prove themselves in a small FIFO queue; what was hit there moves to the main one, what was not
//! leaves a ghost, which opens the main queue to it next time (Yang et al., "FIFO queues are all you need for cache
//! eviction", SOSP 2023, Algorithm 1).
//!
//! It must not know what reads and writes ask for; see [`ssd_level`].

use lode_types::BlockNo;

use crate::effect::Sink;
use crate::parts::queue_level::{QueueLevel, QueuePolicy};
use crate::parts::queues::Queues;
use crate::parts::ssd_level::{self, Id, Newcomer, SsdLevel};
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::settings::{SettingInfo, Settings};
use crate::tracked::{Footprint, percent_of};

/// Settings beside `write_policy`.
pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo::integer("small_percent", "10", 1, 99)
        .about("share of the cache that the small queue keeps, at least one block")
        .source("Yang et al.; libcachesim: small_size_ratio 0.1"),
    SettingInfo::integer("ghost_percent", "90", 0, 200)
        .about("ghosts for each hundred blocks of the cache")
        .source("Yang et al.: as many as the main queue has blocks; libcachesim: ghost_size_ratio 0.9"),
    SettingInfo::integer("move_threshold", "2", 1, 3)
        .about("hits in the small queue after which a block moves to the main one")
        .source("Yang et al.: more than one; libcachesim: move_to_main_threshold 2"),
    SettingInfo::choice("warm_up", "main", &["main", "small"])
        .about(
            "where newcomers go until the cache has been full once; main: into the small queue until it has \
             its share, then into the main one; small: always into the small queue",
        )
        .source("libcachesim, as observed (main); Yang et al. (small)"),
];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "s3-fifo",
    about: "one SSD level of FIFO queues: a small one that newcomers must pass, a main one, and ghosts",
    source: "Yang et al., SOSP 2023",
    tables: &[ssd_level::SETTINGS, SETTINGS],
    build: |settings, _, quota| AnyScheme::S3Fifo(S3Fifo::new(settings, quota)),
    footprint: Footprint::new(LEAN, 48)
        .remembering(|settings, share_blocks, _| percent_of(share_blocks, settings, "ghost_percent")),
    variants: &["warm_up"],
    ..SchemeInfo::PLAIN
};

/// One VM's SSD level under S3-FIFO.
pub type S3Fifo = SsdLevel<QueueLevel<S3Rules, 4>>;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;
/// A ghost that comes back, while room is made for it.
const RETURNING: usize = 3;
/// Hits are counted up to here: two bits.
const MOST_HITS: u8 = 3;

/// How blocks pass from queue to queue. A block's mark is the number of its hits.
#[derive(Debug)]
pub struct S3Rules {
    small_percent: u64,
    ghost_percent: u64,
    move_threshold: u8,
    /// Newcomers may go straight to the main queue, because nothing was ever evicted.
    warming_up: bool,
}

impl S3Rules {
    fn small_blocks(&self, queues: &Queues<4>) -> u32 {
        queues.percent(self.small_percent).max(1) as u32
    }

    /// The oldest of the small queue that was not hit enough becomes a ghost, and those before it move on; says whether
    /// there was one.
    fn evict_from_small<S: Sink>(&mut self, queues: &mut Queues<4>, sink: &mut S) -> bool {
        while let Some(oldest) = queues.oldest(SMALL) {
            let moves_on = queues.take_mark(oldest) >= self.move_threshold;
            if moves_on {
                queues.move_to_front(MAIN, oldest);
            } else {
                queues.evict_to(GHOST, oldest, sink);
                self.bound_ghosts(queues);
            }
            queues.fetch_next(SMALL);
            if !moves_on {
                return true;
            }
        }
        false
    }

    fn queue_of_newcomers(&self, queues: &Queues<4>) -> usize {
        if self.warming_up && queues.len(SMALL) >= self.small_blocks(queues) { MAIN } else { SMALL }
    }
}

/// The oldest of the main queue leaves, or has another turn for each of its hits.
fn evict_from_main<S: Sink>(queues: &mut Queues<4>, sink: &mut S) {
    while let Some(oldest) = queues.oldest(MAIN) {
        let hits = queues.mark(oldest);
        if hits > 0 {
            queues.set_mark(oldest, hits - 1);
            queues.move_to_front(MAIN, oldest);
        } else {
            queues.evict(oldest, sink);
        }
        queues.fetch_behind(MAIN);
        if hits == 0 {
            return;
        }
    }
}

impl QueuePolicy<4> for S3Rules {
    const HIT_MOVES: bool = false;

    fn new(settings: &Settings, _: u32) -> S3Rules {
        S3Rules {
            small_percent: settings.integer("small_percent"),
            ghost_percent: settings.integer("ghost_percent"),
            move_threshold: settings.integer("move_threshold") as u8,
            warming_up: settings.text("warm_up") == "main",
        }
    }

    #[inline(always)]
    fn touch(&mut self, queues: &mut Queues<4>, id: Id) {
        let hits = queues.mark(id);
        queues.set_mark(id, MOST_HITS.min(hits + 1));
    }

    fn admit<S: Sink>(&mut self, queues: &mut Queues<4>, new: Newcomer, sink: &mut S) -> Option<Id> {
        // It leaves the ghosts first, so that none of them has to for the block that is evicted.
        if let Some(ghost) = new.ghost {
            queues.move_to_front(RETURNING, ghost);
        }
        if queues.is_full() {
            self.evict(queues, sink);
        }
        let queue = if new.ghost.is_some() { MAIN } else { self.queue_of_newcomers(queues) };
        Some(queues.enter(queue, new))
    }

    fn restore(&mut self, queues: &mut Queues<4>, hash: u32, block: BlockNo) -> Id {
        queues.insert(self.queue_of_newcomers(queues), hash, block)
    }

    /// Evicts one block, if there is one. Which queue it comes from is asked once: a small queue that is looked through
    /// may fill the main one beyond its share.
    fn evict<S: Sink>(&mut self, queues: &mut Queues<4>, sink: &mut S) {
        self.warming_up = false;
        let main_blocks = queues.capacity().saturating_sub(self.small_blocks(queues));
        let is_main_over = queues.len(MAIN) > main_blocks;
        if is_main_over || !self.evict_from_small(queues, sink) {
            evict_from_main(queues, sink);
        }
    }

    fn bound_ghosts(&mut self, queues: &mut Queues<4>) {
        queues.truncate(GHOST, queues.percent(self.ghost_percent));
    }
}
