//! The blocks on the SSD below a level of DRAM, where the oldest gives way: what L2ARC and uCache have in common. A block that comes
//! from DRAM counts as of when it comes, or as of its last use there.
//!
//! It must not know what DRAM holds, nor what makes a block worth a place here.

use lode_types::{BlockNo, Level};

use crate::effect::{Effect, Sink, Slot};
use crate::parts::growth;
use crate::parts::queues::Queues;
use crate::parts::ssd_level::Id;
use crate::prefetch::PrefetchHint;

/// Blocks that came, or were used, here.
const HERE: usize = 0;
/// Blocks as of their last use in DRAM, which leave it in that order.
const FROM_DRAM: usize = 1;

/// The SSD's blocks, in order of arrival or, where the scheme calls [`SsdQueue::touch`], of use.
#[derive(Debug)]
pub struct SsdQueue {
    queue: Queues<2>,
    /// When the block of a record came or was used, by a clock of accesses that starts anew after the last number. A block that nobody
    /// uses for a whole round may pass for a later one.
    used_at: Vec<u32>,
    now: u32,
}

impl SsdQueue {
    /// An empty queue that may hold `blocks`.
    pub(crate) fn new(blocks: u32) -> SsdQueue {
        SsdQueue { queue: Queues::new(Level::Ssd, blocks), used_at: Vec::new(), now: 0 }
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

    /// An access more. Where nobody counts them, blocks are in order of arrival.
    #[inline]
    pub(crate) fn count_access(&mut self) {
        self.now = self.now.wrapping_add(1);
    }

    /// By the clock of accesses.
    #[inline]
    pub(crate) fn now(&self) -> u32 {
        self.now
    }

    /// A block is the newest from now on.
    #[inline]
    pub(crate) fn touch(&mut self, id: Id) {
        self.queue.move_to_front(HERE, id);
        self.used_at[id as usize] = self.now;
    }

    /// A block is here as of its last use in DRAM; as in [`SsdQueue::put_as_of`].
    pub(crate) fn touch_as_of(&mut self, at: u32, id: Id) {
        self.queue.move_to_front(FROM_DRAM, id);
        self.used_at[id as usize] = at;
    }

    #[inline]
    pub(crate) fn set_dirty(&mut self, id: Id, dirty: bool) {
        self.queue.set_dirty(id, dirty);
    }

    /// Takes a block that is not here, clean, in the place of the oldest one. There is room for at least one.
    pub(crate) fn put<S: Sink>(&mut self, hash: u32, block: BlockNo, sink: &mut S) -> (Id, Slot) {
        self.make_room(sink);
        self.insert(HERE, self.now, hash, block)
    }

    /// As [`SsdQueue::put`], as of its last use in DRAM. None that comes so was used before the last one that did.
    pub(crate) fn put_as_of<S: Sink>(
        &mut self,
        at: u32,
        hash: u32,
        block: BlockNo,
        sink: &mut S,
    ) -> (Id, Slot) {
        self.make_room(sink);
        self.insert(FROM_DRAM, at, hash, block)
    }

    /// Whether a block that was last used then would be the next to leave.
    pub(crate) fn is_oldest(&self, at: u32) -> bool {
        let oldest = [HERE, FROM_DRAM].into_iter().filter_map(|queue| self.age_of_oldest(queue)).max();
        self.queue.is_full() && oldest.is_some_and(|oldest| self.now.wrapping_sub(at) > oldest)
    }

    /// Accesses since the block at the back of a queue came or was used.
    fn age_of_oldest(&self, queue: usize) -> Option<u32> {
        self.queue.oldest(queue).map(|id| self.now.wrapping_sub(self.used_at[id as usize]))
    }

    fn make_room<S: Sink>(&mut self, sink: &mut S) {
        if self.queue.is_full() {
            self.evict_oldest(sink);
        }
    }

    fn evict_oldest<S: Sink>(&mut self, sink: &mut S) {
        let is_from_dram = self.age_of_oldest(FROM_DRAM) > self.age_of_oldest(HERE);
        self.queue.evict_oldest(if is_from_dram { FROM_DRAM } else { HERE }, sink);
    }

    fn insert(&mut self, queue: usize, at: u32, hash: u32, block: BlockNo) -> (Id, Slot) {
        let id = self.queue.insert(queue, hash, block);
        growth::extend_to(&mut self.used_at, id, at);
        self.used_at[id as usize] = at;
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
        let (id, slot) = self.insert(HERE, self.now, hash, block);
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
            self.evict_oldest(sink);
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
        self.queue.memory_bytes() + self.used_at.capacity() * size_of::<u32>()
    }
}
