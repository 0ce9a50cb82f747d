//! What is known of EMC's FAST Cache: a block enters the cache with its third access within a while, and the least recently
//! used leaves. The product's description is recalled, not read.
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
    SettingInfo::integer("promote_after", "3", 1, u8::MAX as u64)
        .about("accesses with which a block enters the cache, the last one included")
        .source("EMC FAST Cache: 3 (recalled)"),
    SettingInfo::integer("window_percent", "100", 1, 1000)
        .about(
            "blocks outside the cache whose accesses are counted, for each hundred blocks of the cache, at \
             least one",
        )
        .source("ours; EMC does not say"),
];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "fast-cache-like",
    about: "one SSD level that a block enters with its third access",
    source: "EMC FAST Cache, recalled",
    tables: &[ssd_level::SETTINGS, SETTINGS],
    build: |settings, _, quota| AnyScheme::FastCacheLike(FastCacheLike::new(settings, quota)),
    footprint: Footprint::new(LEAN, 48)
        .remembering(|settings, share_blocks, _| percent_of(share_blocks, settings, "window_percent")),
    ..SchemeInfo::PLAIN
};

/// One VM's SSD level that promotes blocks after several accesses.
pub type FastCacheLike = SsdLevel<QueueLevel<Promotion, 2>>;

const CACHED: usize = 0;
/// Blocks outside the cache whose accesses are counted, by recency. A block's mark is their number.
const WINDOW: usize = 1;

/// Which blocks are promoted.
#[derive(Debug)]
pub struct Promotion {
    promote_after: u8,
    window_percent: u64,
}

impl QueuePolicy<2> for Promotion {
    fn new(settings: &Settings, _: u32) -> Promotion {
        Promotion {
            promote_after: settings.integer("promote_after") as u8,
            window_percent: settings.integer("window_percent"),
        }
    }

    #[inline(always)]
    fn touch(&mut self, queues: &mut Queues<2>, id: Id) {
        queues.move_to_front(CACHED, id);
    }

    fn admit<S: Sink>(&mut self, queues: &mut Queues<2>, new: Newcomer, sink: &mut S) -> Option<Id> {
        let id = queues.enter(WINDOW, new);
        let accesses = queues.mark(id) + 1;
        if accesses < self.promote_after {
            queues.set_mark(id, accesses);
            self.bound_ghosts(queues);
            return None;
        }
        if queues.is_full() {
            self.evict(queues, sink);
        }
        queues.move_to_front(CACHED, id);
        Some(id)
    }

    fn bound_ghosts(&mut self, queues: &mut Queues<2>) {
        queues.truncate(WINDOW, queues.percent(self.window_percent).max(queues.capacity().min(1).into()));
    }
}
