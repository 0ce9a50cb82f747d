//! What is known of EMC's FAST Cache: a block enters the cache with its third access within a while, and the least recently
//! used leaves. The product's description is recalled, not read.
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
        key: "promote_after",
        default: "3",
        kind: SettingKind::Integer { min: 1, max: u8::MAX as u64 },
        about: "accesses with which a block enters the cache, the last one included",
        source: "EMC FAST Cache: 3 (recalled)",
    },
    SettingInfo {
        key: "window_percent",
        default: "100",
        kind: SettingKind::Integer { min: 1, max: 1000 },
        about: "blocks outside the cache whose accesses are counted, for each hundred blocks of the cache, at least one",
        source: "ours; EMC does not say",
    },
];

static TABLES: &[&[SettingInfo]] = &[ssd_level::SETTINGS, SETTINGS];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo::new(
    "fast-cache-like",
    "one SSD level that a block enters with its third access",
    "EMC FAST Cache, recalled",
    TABLES,
    |settings, _, quota| AnyScheme::FastCacheLike(FastCacheLike::new(settings, quota)),
)
.taking(Footprint::new(LEAN, 64));

/// One VM's SSD level that promotes blocks after several accesses.
pub type FastCacheLike = SsdLevel<QueueLevel<Promotion, 2>>;

const CACHED: usize = 0;
/// Blocks outside the cache whose accesses are counted, by recency. A block's mark is their number.
const WINDOW: usize = 1;

/// Which blocks are promoted.
#[derive(Debug)]
pub struct Promotion {
    capacity: u32,
    promote_after: u8,
    window_percent: u64,
}

impl QueuePolicy<2> for Promotion {
    const HIT_MOVES: bool = true;

    fn new(settings: &Settings, blocks: u32) -> Promotion {
        Promotion {
            capacity: blocks,
            promote_after: settings.integer("promote_after") as u8,
            window_percent: settings.integer("window_percent"),
        }
    }

    #[inline(always)]
    fn touch(&mut self, queues: &mut Queues<2>, id: Id) {
        queues.move_to_front(CACHED, id);
    }

    fn admit<S: Sink>(
        &mut self,
        queues: &mut Queues<2>,
        hash: u32,
        block: BlockNo,
        ghost: Option<Id>,
        sink: &mut S,
    ) -> Option<Id> {
        let id = ghost.unwrap_or_else(|| queues.insert(WINDOW, hash, block));
        let accesses = queues.mark(id) + 1;
        if accesses < self.promote_after {
            queues.set_mark(id, accesses);
            queues.move_to_front(WINDOW, id);
            self.bound_ghosts(queues);
            return None;
        }
        if queues.cached() >= self.capacity {
            self.evict(queues, sink);
        }
        queues.move_to_front(CACHED, id);
        Some(id)
    }

    fn restore(&mut self, queues: &mut Queues<2>, hash: u32, block: BlockNo) -> Id {
        queues.insert(CACHED, hash, block)
    }

    fn set_blocks(&mut self, _: &mut Queues<2>, blocks: u32) {
        self.capacity = blocks;
    }

    fn evict<S: Sink>(&mut self, queues: &mut Queues<2>, sink: &mut S) {
        if let Some(oldest) = queues.oldest(CACHED) {
            queues.evict(oldest, sink);
            queues.fetch_behind(CACHED);
        }
    }

    fn bound_ghosts(&mut self, queues: &mut Queues<2>) {
        let most = percent_of(self.capacity, self.window_percent).max(u64::from(self.capacity.min(1)));
        while u64::from(queues.len(WINDOW)) > most {
            queues.remove_oldest(WINDOW);
        }
    }
}
