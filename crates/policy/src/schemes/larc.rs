//! LARC: a block enters the cache when it is missed a second time while it is still a ghost; how many ghosts there are
//! follows hits and misses (Huang et al., "Improving flash-based disk cache with Lazy Adaptive Replacement", MSST 2013, as
//! quoted in the comments of a dm-cache policy).
//!
//! It must not know what reads and writes ask for; see [`SsdLevel`].

use crate::effect::Sink;
use crate::parts::queue_level::{self, QueueLevel, QueuePolicy};
use crate::parts::queues::Queues;
use crate::parts::ssd_level::{Id, Newcomer, SsdLevel};
use crate::registry::{AnyScheme, LEAN, SchemeInfo};
use crate::settings::Settings;
use crate::tracked::Footprint;

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "larc",
    about: "one SSD level that a block enters when it is missed again while it is remembered",
    source: "Huang et al., MSST 2013",
    build: |settings, _, quota| AnyScheme::Larc(Larc::new(settings, quota)),
    footprint: Footprint::new(LEAN, 48).remembering(|_, share_blocks, _| share_blocks),
    ..queue_level::INFO
};

/// One VM's SSD level under LARC.
pub type Larc = SsdLevel<QueueLevel<Lazy<false>, 2>>;

/// The paper's Q and Qr.
const CACHED: usize = 0;
const GHOST: usize = 1;
/// Fewest and most ghosts, as shares of the cache.
const LEAST_GHOSTS: f64 = 0.1;
const MOST_GHOSTS: f64 = 0.9;
/// The mark of a block that was hit since it came in or was last spared.
const HIT: u8 = 1;

/// Who comes in and who leaves; with `SECOND_CHANCE` a block that was hit is spared once.
#[derive(Debug)]
pub struct Lazy<const SECOND_CHANCE: bool> {
    /// The paper's Cr: how many ghosts there may be, a real number from 0.1 C to 0.9 C.
    ghosts: f64,
}

/// The paper's C: blocks of the cache.
fn blocks_of(queues: &Queues<2>) -> f64 {
    f64::from(queues.capacity())
}

impl<const SECOND_CHANCE: bool> QueuePolicy<2> for Lazy<SECOND_CHANCE> {
    fn new(_: &Settings, blocks: u32) -> Self {
        Lazy { ghosts: LEAST_GHOSTS * f64::from(blocks) }
    }

    #[inline(always)]
    fn touch(&mut self, queues: &mut Queues<2>, id: Id) {
        let blocks = blocks_of(queues);
        self.ghosts = (self.ghosts - blocks / (blocks - self.ghosts)).max(LEAST_GHOSTS * blocks);
        queues.move_to_front(CACHED, id);
        if SECOND_CHANCE {
            queues.set_mark(id, HIT);
        }
    }

    fn admit<S: Sink>(&mut self, queues: &mut Queues<2>, new: Newcomer, sink: &mut S) -> Option<Id> {
        let blocks = blocks_of(queues);
        self.ghosts = (self.ghosts + blocks / self.ghosts).min(MOST_GHOSTS * blocks);
        if new.ghost.is_none() {
            queues.enter(GHOST, new);
            self.bound_ghosts(queues);
            return None;
        }
        if queues.is_full() {
            self.evict(queues, sink);
        }
        Some(queues.enter(CACHED, new))
    }

    fn resized(&mut self, queues: &mut Queues<2>) {
        let blocks = blocks_of(queues);
        self.ghosts = self.ghosts.clamp(LEAST_GHOSTS * blocks, MOST_GHOSTS * blocks);
    }

    /// The least recently used leaves without a ghost.
    #[inline]
    fn evict<S: Sink>(&mut self, queues: &mut Queues<2>, sink: &mut S) {
        while let Some(oldest) = queues.oldest(CACHED) {
            let is_spared = SECOND_CHANCE && queues.take_mark(oldest) == HIT;
            if is_spared {
                queues.move_to_front(CACHED, oldest);
            } else {
                queues.evict(oldest, sink);
            }
            queues.fetch_behind(CACHED);
            if !is_spared {
                return;
            }
        }
    }

    /// A cache of one block would have no ghost at all, and never hold anything.
    fn bound_ghosts(&mut self, queues: &mut Queues<2>) {
        queues.truncate(GHOST, (self.ghosts as u64).max(queues.capacity().min(1).into()));
    }
}
