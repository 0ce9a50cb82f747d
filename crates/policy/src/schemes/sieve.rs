//! SIEVE: one queue in order of arrival; a hand passes from the oldest to the newest, spares what was visited since it
//! last came by, and takes the first that was not (Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024, Algorithm 1).
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
    "sieve",
    "one SSD level, one FIFO queue, and a hand that spares what was visited",
    "Zhang et al., NSDI 2024",
    TABLES,
    |settings, _, quota| AnyScheme::Sieve(Sieve::new(settings, quota)),
)
.taking(Footprint::new(LEAN, 64));

/// One VM's SSD level under SIEVE.
pub type Sieve = SsdLevel<QueueLevel<Hand, 1>>;

const QUEUE: usize = 0;
/// The mark of a block that was hit since the hand came by.
const VISITED: u8 = 1;

/// The hand over the queue.
#[derive(Debug)]
pub struct Hand {
    capacity: u32,
    /// Where it goes on; `None`: at the oldest.
    at: Option<Id>,
}

impl QueuePolicy<1> for Hand {
    const HIT_MOVES: bool = false;

    fn new(_: &Settings, blocks: u32) -> Hand {
        Hand { capacity: blocks, at: None }
    }

    #[inline(always)]
    fn touch(&mut self, queue: &mut Queues<1>, id: Id) {
        queue.set_mark(id, VISITED);
    }

    fn admit<S: Sink>(
        &mut self,
        queue: &mut Queues<1>,
        hash: u32,
        block: BlockNo,
        _: Option<Id>,
        sink: &mut S,
    ) -> Option<Id> {
        if queue.cached() >= self.capacity {
            self.evict(queue, sink);
        }
        Some(queue.insert(QUEUE, hash, block))
    }

    fn restore(&mut self, queue: &mut Queues<1>, hash: u32, block: BlockNo) -> Id {
        queue.insert(QUEUE, hash, block)
    }

    fn forget(&mut self, queue: &mut Queues<1>, id: Id) {
        if self.at == Some(id) {
            self.at = queue.newer(id);
        }
    }

    fn set_blocks(&mut self, _: &mut Queues<1>, blocks: u32) {
        self.capacity = blocks;
    }

    fn evict<S: Sink>(&mut self, queue: &mut Queues<1>, sink: &mut S) {
        let mut at = self.at.or_else(|| queue.oldest(QUEUE));
        while let Some(id) = at {
            queue.fetch_from(id);
            if queue.mark(id) != VISITED {
                self.at = queue.newer(id);
                queue.evict(id, sink);
                break;
            }
            queue.set_mark(id, 0);
            at = queue.newer(id).or_else(|| queue.oldest(QUEUE));
        }
        if let Some(next) = self.at {
            queue.fetch_from(next);
        }
    }
}
