//! SIEVE: one queue in order of arrival; a hand passes from the oldest to the newest, spares what was visited since it
//! last came by, and takes the first that was not (Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024, Algorithm 1).
//!
//! It must not know what reads and writes ask for; see [`ssd_level`].

use lode_types::BlockNo;

use crate::effect::{Sink, Slot};
use crate::scheme::Hint;
use crate::schemes::queues::Queues;
use crate::schemes::ssd_level::{self, Id, Replacement, SsdLevel};
use crate::settings::{SettingInfo, Settings};

pub(crate) static TABLES: &[&[SettingInfo]] = &[ssd_level::SETTINGS];

/// One VM's SSD level under SIEVE.
pub type Sieve = SsdLevel<SieveQueue>;

const QUEUE: usize = 0;
/// The mark of a block that was hit since the hand came by.
const VISITED: u8 = 1;

/// The queue and the hand.
#[derive(Debug)]
pub struct SieveQueue {
    queue: Queues<1>,
    capacity: u32,
    /// Where the hand goes on; `None`: at the oldest.
    hand: Option<Id>,
}

impl SieveQueue {
    fn evict<S: Sink>(&mut self, sink: &mut S) {
        let mut at = self.hand.or_else(|| self.queue.oldest(QUEUE));
        while let Some(id) = at {
            self.queue.fetch_from(id);
            if self.queue.mark(id) != VISITED {
                self.hand = self.queue.newer(id);
                self.queue.evict(id, sink);
                break;
            }
            self.queue.set_mark(id, 0);
            at = self.queue.newer(id).or_else(|| self.queue.oldest(QUEUE));
        }
        if let Some(next) = self.hand {
            self.queue.fetch_from(next);
        }
    }
}

impl Replacement for SieveQueue {
    fn new(_: &Settings, blocks: u32) -> SieveQueue {
        SieveQueue { queue: Queues::new(), capacity: blocks, hand: None }
    }

    #[inline(always)]
    fn find(&self, hint: Hint, block: BlockNo) -> Option<Id> {
        self.queue.find(hint, block)
    }

    #[inline(always)]
    fn slot(&self, id: Id) -> Option<Slot> {
        self.queue.slot(id)
    }

    #[inline(always)]
    fn touch(&mut self, _: BlockNo, id: Id) {
        self.queue.set_mark(id, VISITED);
    }

    #[inline(always)]
    fn set_dirty(&mut self, id: Id, dirty: bool) {
        self.queue.set_dirty(id, dirty);
    }

    fn admit<S: Sink>(
        &mut self,
        hash: u32,
        block: BlockNo,
        _: Option<Id>,
        sink: &mut S,
    ) -> Option<(Id, Slot)> {
        if self.capacity == 0 {
            return None;
        }
        if self.cached() >= self.capacity {
            self.evict(sink);
        }
        let id = self.queue.insert(QUEUE, hash, block);
        Some((id, self.queue.give_slot(id)))
    }

    fn restore(&mut self, hash: u32, block: BlockNo, _: Option<Id>) -> Option<(Id, Slot)> {
        if self.cached() >= self.capacity {
            return None;
        }
        let id = self.queue.insert(QUEUE, hash, block);
        Some((id, self.queue.give_slot(id)))
    }

    fn remove(&mut self, _: BlockNo, id: Id) {
        if self.hand == Some(id) {
            self.hand = self.queue.newer(id);
        }
        self.queue.remove(id);
    }

    fn resize<S: Sink>(&mut self, blocks: u32, sink: &mut S) {
        self.capacity = blocks;
        while self.cached() > blocks {
            self.evict(sink);
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    #[inline]
    fn cached(&self) -> u32 {
        self.queue.len(QUEUE)
    }

    #[inline]
    fn announce(&self, block: BlockNo) -> Hint {
        self.queue.announce(block)
    }

    #[inline]
    fn locate<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut Hint)>) {
        self.queue.locate(blocks);
    }

    /// A hit moves nothing.
    #[inline]
    fn follow(&self, _: impl Iterator<Item = (BlockNo, Hint)>) {}

    fn memory_bytes(&self) -> usize {
        self.queue.memory_bytes()
    }
}
