//! One queue of blocks on the SSD below a level of DRAM, where the oldest gives way: what L2ARC and uCache have in common.
//!
//! It must not know what DRAM holds, nor what makes a block worth a place here.

use lode_types::{BlockNo, Level};

use crate::effect::{Effect, Sink, Slot};
use crate::parts::queues::Queues;
use crate::parts::ssd_level::Id;
use crate::prefetch::PrefetchHint;

const QUEUE: usize = 0;

/// The SSD's blocks, in order of arrival or, where the scheme calls [`SsdQueue::touch`], of use.
#[derive(Debug)]
pub struct SsdQueue {
    queue: Queues<1>,
}

impl SsdQueue {
    /// An empty queue that may hold `blocks`.
    pub(crate) fn new(blocks: u32) -> SsdQueue {
        SsdQueue { queue: Queues::new(Level::Ssd, blocks) }
    }

    /// Where a block is. What prefetching found is of DRAM: here its hash alone counts.
    #[inline]
    pub(crate) fn find(&self, hash: u32, block: BlockNo) -> Option<(Id, Slot)> {
        let id = self.queue.find(PrefetchHint { hash, entry: PrefetchHint::NO_ENTRY }, block)?;
        self.queue.slot(id).map(|slot| (id, slot))
    }

    /// Where a block is, and whether it is newer than the disk.
    pub(crate) fn copy(&self, hash: u32, block: BlockNo) -> Option<(Slot, bool)> {
        self.find(hash, block).map(|(id, slot)| (slot, self.queue.is_dirty(id)))
    }

    /// Every slot that holds a block, in any order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.queue.slots()
    }

    /// A block is the newest from now on.
    #[inline]
    pub(crate) fn touch(&mut self, id: Id) {
        self.queue.move_to_front(QUEUE, id);
    }

    #[inline]
    pub(crate) fn set_dirty(&mut self, id: Id, dirty: bool) {
        self.queue.set_dirty(id, dirty);
    }

    /// Takes a block that is not here, clean, in the place of the oldest one. There is room for at least one.
    pub(crate) fn put<S: Sink>(&mut self, hash: u32, block: BlockNo, sink: &mut S) -> (Id, Slot) {
        if self.queue.is_full() {
            self.queue.evict_oldest(QUEUE, sink);
        }
        self.insert(hash, block)
    }

    fn insert(&mut self, hash: u32, block: BlockNo) -> (Id, Slot) {
        let id = self.queue.insert(QUEUE, hash, block);
        (id, self.queue.give_slot(id))
    }

    /// The accessed block's copy is unwanted.
    pub(crate) fn invalidate<S: Sink>(&mut self, hash: u32, block: BlockNo, sink: &mut S) {
        if let Some(slot) = self.forget(hash, block) {
            sink.effect(Effect::Invalidate { level: Level::Ssd, slot });
        }
    }

    /// Forgets a block, and says where it was.
    pub(crate) fn forget(&mut self, hash: u32, block: BlockNo) -> Option<Slot> {
        let (id, slot) = self.find(hash, block)?;
        self.queue.remove(id);
        Some(slot)
    }

    /// See [`Scheme::restore`](crate::Scheme::restore).
    pub(crate) fn restore(&mut self, hash: u32, block: BlockNo, dirty: bool) -> Option<Slot> {
        if self.queue.is_full() || self.find(hash, block).is_some() {
            return None;
        }
        let (id, slot) = self.insert(hash, block);
        self.queue.set_dirty(id, dirty);
        Some(slot)
    }

    /// See [`Scheme::expect`](crate::Scheme::expect).
    pub(crate) fn expect(&mut self, blocks: u32) {
        self.queue.expect(blocks.min(self.queue.capacity()));
    }

    /// Holds `blocks` from now on.
    pub(crate) fn resize<S: Sink>(&mut self, blocks: u32, sink: &mut S) {
        self.queue.set_capacity(blocks);
        while self.queue.cached() > blocks {
            self.queue.evict_oldest(QUEUE, sink);
        }
    }

    /// Blocks that there is room for.
    #[inline]
    pub(crate) fn capacity(&self) -> u32 {
        self.queue.capacity()
    }

    /// Blocks that are here.
    pub(crate) fn cached(&self) -> u32 {
        self.queue.cached()
    }

    /// Fetches what the index says of a block with this hash.
    #[inline]
    pub(crate) fn prefetch_index(&self, hash: u32) {
        self.queue.prefetch_index_of(hash);
    }

    /// Fetches the entry of a block with this hash.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u32) {
        self.queue.prefetch_entry(hash);
    }

    /// Bytes that everything takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.queue.memory_bytes()
    }
}
