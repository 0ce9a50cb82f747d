//! SIEVE: one queue in order of arrival; a hand passes from the oldest to the newest, spares what was visited since it
//! last came by, and takes the first that was not (Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024, Algorithm 1).
//!
//! It must not know what reads and writes ask for; see [`SsdLevel`].

use crate::effect::Sink;
use crate::parts::queue_level::{self, QueueLevel, QueuePolicy};
use crate::parts::queues::Queues;
use crate::parts::ssd_level::{Id, SsdLevel};
use crate::registry::{AnyScheme, SchemeInfo};
use crate::settings::Settings;

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "sieve",
    about: "one SSD level, one FIFO queue, and a hand that spares what was visited",
    source: "Zhang et al., NSDI 2024",
    build: |settings, _, quota| AnyScheme::Sieve(Sieve::new(settings, quota)),
    ..queue_level::INFO
};

/// One VM's SSD level under SIEVE.
pub type Sieve = SsdLevel<QueueLevel<Hand, 1>>;

/// The mark of a block that was hit since the hand came by.
const VISITED: u8 = 1;

/// Where the hand goes on; `None`: at the oldest.
#[derive(Debug)]
pub struct Hand(Option<Id>);

impl QueuePolicy<1> for Hand {
    const HIT_MOVES: bool = false;

    fn new(_: &Settings, _: u32) -> Hand {
        Hand(None)
    }

    #[inline(always)]
    fn touch(&mut self, queue: &mut Queues<1>, id: Id) {
        queue.set_mark(id, VISITED);
    }

    fn forget(&mut self, queue: &mut Queues<1>, id: Id) {
        if self.0 == Some(id) {
            self.0 = queue.newer(id);
        }
    }

    fn evict<S: Sink>(&mut self, queue: &mut Queues<1>, sink: &mut S) {
        let Some(mut id) = self.0.or_else(|| queue.oldest(0)) else { return };
        while queue.take_mark(id) == VISITED {
            id = queue.fetch_newer_or_oldest(id);
        }
        self.0 = queue.fetch_newer(id);
        queue.evict(id, sink);
    }
}
