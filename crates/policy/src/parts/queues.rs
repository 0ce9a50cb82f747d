//! Blocks in a few queues (FIFO or by recency) over one pool of records: what replacement algorithms with several
//! lists and with ghosts are made of.
//!
//! A ghost is a block that is remembered and not cached: its record has no slot. A block that becomes a ghost, or
//! comes back, keeps its record, so that the index is not touched. It must not know which queue means what.

use lode_reuse::index::BlockIndex;
use lode_types::prefetch::prefetch_slice;
use lode_types::{BlockNo, Level};

use crate::effect::{Effect, Sink, Slot};
use crate::parts::growth;
use crate::parts::ssd_level::{Id, Newcomer};
use crate::prefetch::{Prefetch, PrefetchHint};

/// Of a record that is in no queue.
const NOWHERE: u8 = u8::MAX;
/// In `slot` of a ghost.
const NO_SLOT: Slot = Slot::MAX;

#[derive(Clone, Copy, Debug)]
struct Record {
    block: BlockNo,
    /// Towards the front (newer) and the back (older). The first records stand for the queues themselves and close
    /// their rings, so that links change without asking where the ends are.
    newer: Id,
    older: Id,
    slot: Slot,
    queue: u8,
    mark: u8,
    dirty: bool,
}

/// What the index has for a record.
#[inline(always)]
fn hash_of(records: &[Record]) -> impl Fn(Id) -> u32 {
    |id| BlockIndex::hash(records[id as usize].block)
}

/// `N` queues of blocks, with an index of them and with the slots of those that are cached.
#[derive(Debug)]
pub struct Queues<const N: usize> {
    level: Level,
    records: Vec<Record>,
    index: BlockIndex,
    lens: [u32; N],
    free: Vec<Id>,
    /// Slots that were used and are not; all from `next_slot` on were never used.
    free_slots: Vec<Slot>,
    next_slot: Slot,
    cached: u32,
    capacity: u32,
}

impl<const N: usize> Queues<N> {
    /// Empty queues of blocks of this level, of which it may hold `capacity`.
    pub(crate) fn new(level: Level, capacity: u32) -> Queues<N> {
        let ring = |queue: usize| Record {
            block: 0,
            newer: queue as Id,
            older: queue as Id,
            slot: NO_SLOT,
            queue: NOWHERE,
            mark: 0,
            dirty: false,
        };
        Queues {
            level,
            records: (0..N).map(ring).collect(),
            index: BlockIndex::new(),
            lens: [0; N],
            free: Vec::new(),
            free_slots: Vec::new(),
            next_slot: 0,
            cached: 0,
            capacity,
        }
    }

    /// So many blocks are about to come.
    pub(crate) fn expect(&mut self, blocks: u32) {
        // Beside those the rings have numbers.
        self.index.reserve(blocks as usize + N);
    }

    /// Blocks that have a slot.
    #[inline]
    pub(crate) fn cached(&self) -> u32 {
        self.cached
    }

    /// Blocks that may have a slot.
    #[inline]
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(crate) fn set_capacity(&mut self, blocks: u32) {
        self.capacity = blocks;
    }

    /// Whether a block has to leave before another one gets a slot.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.cached >= self.capacity
    }

    /// `percent` of the capacity, rounded down.
    #[inline]
    pub(crate) fn percent(&self, percent: u64) -> u64 {
        u64::from(self.capacity) * percent / 100
    }

    /// Blocks in a queue.
    #[inline]
    pub(crate) fn len(&self, queue: usize) -> u32 {
        self.lens[queue]
    }

    /// The record of `block`, in whichever queue.
    #[inline(always)]
    pub(crate) fn find(&self, hint: PrefetchHint, block: BlockNo) -> Option<Id> {
        let is_it = |record: &Record| record.block == block && record.queue != NOWHERE;
        if self.records.get(hint.entry as usize).is_some_and(is_it) {
            return Some(hint.entry);
        }
        if self.index.candidate(hint.hash) == BlockIndex::NO_ID {
            return None;
        }
        self.index.find(hint.hash, |id| self.records[id as usize].block == block)
    }

    /// The queue of a record.
    #[inline(always)]
    pub(crate) fn queue(&self, id: Id) -> usize {
        usize::from(self.records[id as usize].queue)
    }

    /// Where the block is cached; `None` for a ghost.
    #[inline(always)]
    pub(crate) fn slot(&self, id: Id) -> Option<Slot> {
        let slot = self.records[id as usize].slot;
        (slot != NO_SLOT).then_some(slot)
    }

    /// Every slot that holds a block, in any order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.records.iter().map(|record| record.slot).filter(|&slot| slot != NO_SLOT)
    }

    #[inline(always)]
    pub(crate) fn block(&self, id: Id) -> BlockNo {
        self.records[id as usize].block
    }

    /// A small number of the scheme's; 0 for a new record.
    #[inline(always)]
    pub(crate) fn mark(&self, id: Id) -> u8 {
        self.records[id as usize].mark
    }

    #[inline(always)]
    pub(crate) fn set_mark(&mut self, id: Id, mark: u8) {
        self.records[id as usize].mark = mark;
    }

    /// The mark, which is 0 from now on.
    #[inline(always)]
    pub(crate) fn take_mark(&mut self, id: Id) -> u8 {
        std::mem::take(&mut self.records[id as usize].mark)
    }

    #[inline(always)]
    pub(crate) fn set_dirty(&mut self, id: Id, dirty: bool) {
        self.records[id as usize].dirty = dirty;
    }

    #[inline(always)]
    pub(crate) fn is_dirty(&self, id: Id) -> bool {
        self.records[id as usize].dirty
    }

    /// The block at the back of a queue.
    #[inline]
    pub(crate) fn oldest(&self, queue: usize) -> Option<Id> {
        self.real(self.records[queue].newer)
    }

    /// The next block towards the front of the queue.
    #[inline]
    pub(crate) fn newer(&self, id: Id) -> Option<Id> {
        self.real(self.records[id as usize].newer)
    }

    /// The next block towards the front, which the next look is at: what that touches is prefetched.
    #[inline]
    pub(crate) fn fetch_newer(&self, id: Id) -> Option<Id> {
        let newer = self.newer(id);
        newer.inspect(|&newer| self.fetch_from(newer))
    }

    /// As [`Queues::fetch_newer`]; behind the newest comes the oldest again.
    #[inline]
    pub(crate) fn fetch_newer_or_oldest(&self, id: Id) -> Id {
        let newer = self.records[id as usize].newer;
        let next = self.real(newer).unwrap_or(self.records[newer as usize].newer);
        self.fetch_from(next);
        next
    }

    #[inline(always)]
    fn real(&self, id: Id) -> Option<Id> {
        (id as usize >= N).then_some(id)
    }

    /// Puts a block that is not known at the front of a queue, without a slot.
    ///
    /// # Panics
    /// When there are 2^32 records, which no table of a level's size comes to.
    #[inline]
    pub(crate) fn insert(&mut self, queue: usize, hash: u32, block: BlockNo) -> Id {
        let record =
            Record { block, newer: 0, older: 0, slot: NO_SLOT, queue: NOWHERE, mark: 0, dirty: false };
        let id = growth::occupy(&mut self.records, &mut self.free, record);
        self.index.insert(hash, id, hash_of(&self.records));
        self.link(queue, id);
        id
    }

    /// Puts a block that is not cached at the front of a queue, with the record that it may have.
    #[inline]
    pub(crate) fn enter(&mut self, queue: usize, new: Newcomer) -> Id {
        let Some(ghost) = new.ghost else { return self.insert(queue, new.hash, new.block) };
        self.move_to_front(queue, ghost);
        ghost
    }

    /// Moves a block to the front of a queue, its own or another.
    #[inline(always)]
    pub(crate) fn move_to_front(&mut self, queue: usize, id: Id) {
        self.unlink(id);
        self.link(queue, id);
    }

    /// Forgets a block and frees its slot.
    #[inline]
    pub(crate) fn remove(&mut self, id: Id) {
        self.take_slot(id);
        self.unlink(id);
        let record = &mut self.records[id as usize];
        record.queue = NOWHERE;
        let block = record.block;
        self.index.remove(BlockIndex::hash(block), id, hash_of(&self.records));
        self.free.push(id);
    }

    /// Forgets the block at the back of a queue, if there is one.
    #[inline]
    pub(crate) fn remove_oldest(&mut self, queue: usize) {
        if let Some(id) = self.oldest(queue) {
            self.remove(id);
            self.fetch_behind(queue);
        }
    }

    /// Forgets blocks at the back of a queue that has more than `most`.
    #[inline]
    pub(crate) fn truncate(&mut self, queue: usize, most: u64) {
        while u64::from(self.lens[queue]) > most {
            self.remove_oldest(queue);
        }
    }

    /// Gives a block that has no slot a free one, clean.
    #[inline]
    pub(crate) fn give_slot(&mut self, id: Id) -> Slot {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            let slot = self.next_slot;
            self.next_slot += 1;
            slot
        });
        let record = &mut self.records[id as usize];
        (record.slot, record.dirty) = (slot, false);
        self.cached += 1;
        slot
    }

    /// The block at the back of a queue of cached blocks leaves the cache and is forgotten, if there is one.
    #[inline]
    pub(crate) fn evict_oldest<S: Sink>(&mut self, queue: usize, sink: &mut S) {
        if let Some(oldest) = self.oldest(queue) {
            self.evict(oldest, sink);
            self.fetch_behind(queue);
        }
    }

    /// A cached block leaves the cache and stays known, at the front of queue `ghosts`.
    #[inline]
    pub(crate) fn evict_to<S: Sink>(&mut self, ghosts: usize, id: Id, sink: &mut S) {
        self.evict_in_place(id, sink);
        self.move_to_front(ghosts, id);
    }

    /// The block at the back of a queue of cached blocks leaves the cache, and stays known at the front of queue `ghosts`.
    #[inline]
    pub(crate) fn evict_oldest_to<S: Sink>(&mut self, queue: usize, ghosts: usize, sink: &mut S) {
        if let Some(oldest) = self.oldest(queue) {
            self.evict_to(ghosts, oldest, sink);
            self.fetch_next(queue);
        }
    }

    /// A cached block leaves the cache and is forgotten.
    #[inline]
    pub(crate) fn evict<S: Sink>(&mut self, id: Id, sink: &mut S) {
        self.evict_in_place(id, sink);
        self.remove(id);
    }

    /// A cached block leaves the cache and stays known, in its place in its queue.
    #[inline]
    pub(crate) fn evict_in_place<S: Sink>(&mut self, id: Id, sink: &mut S) {
        let block = self.records[id as usize].block;
        if let Some((slot, dirty)) = self.take_slot(id) {
            sink.effect(Effect::Evict { level: self.level, slot, block, dirty });
        }
    }

    /// Takes a block's slot away: says which, and whether the copy there is dirty.
    #[inline]
    fn take_slot(&mut self, id: Id) -> Option<(Slot, bool)> {
        let record = &mut self.records[id as usize];
        let slot = std::mem::replace(&mut record.slot, NO_SLOT);
        let dirty = std::mem::take(&mut record.dirty);
        if slot == NO_SLOT {
            return None;
        }
        self.free_slots.push(slot);
        self.cached -= 1;
        Some((slot, dirty))
    }

    #[inline(always)]
    fn unlink(&mut self, id: Id) {
        let Record { newer, older, queue, .. } = self.records[id as usize];
        self.records[newer as usize].older = older;
        self.records[older as usize].newer = newer;
        self.lens[usize::from(queue)] -= 1;
    }

    #[inline(always)]
    fn link(&mut self, queue: usize, id: Id) {
        // Newest first: the ring's own record is older than the newest and newer than the oldest.
        let front = std::mem::replace(&mut self.records[queue].older, id);
        self.records[front as usize].newer = id;
        let record = &mut self.records[id as usize];
        (record.newer, record.older, record.queue) = (queue as Id, front, queue as u8);
        self.lens[queue] += 1;
    }

    /// Asks for the records that will be at the back of a queue when the one there now has left, and for what leaving
    /// touches. Called whenever a block has left the back.
    #[inline]
    pub(crate) fn fetch_behind(&self, queue: usize) {
        self.fetch_from(self.records[queue].newer);
    }

    /// Asks for the record that comes after a queue's oldest, for where only the links change when that goes.
    #[inline]
    pub(crate) fn fetch_next(&self, queue: usize) {
        self.fetch_record(self.records[self.records[queue].newer as usize].newer);
    }

    /// Asks for a record.
    #[inline]
    pub(crate) fn fetch_record(&self, id: Id) {
        prefetch_slice(&self.records, id as usize);
    }

    /// Asks for the next record towards the front, and for the index entry of this one.
    #[inline]
    pub(crate) fn fetch_from(&self, id: Id) {
        let record = &self.records[id as usize];
        prefetch_slice(&self.records, record.newer as usize);
        self.index.prefetch(BlockIndex::hash(record.block));
    }

    /// Fetches what the index says of a block with this hash.
    #[inline]
    pub(crate) fn prefetch_index_of(&self, hash: u32) {
        self.index.prefetch(hash);
    }

    /// Fetches the record of a block with this hash, if there is one, and says which it is.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u32) -> u32 {
        let entry = self.index.candidate(hash);
        prefetch_slice(&self.records, entry as usize);
        entry
    }

    /// Bytes that everything takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.index.memory_bytes()
            + self.records.capacity() * size_of::<Record>()
            + self.free.capacity() * size_of::<Id>()
            + self.free_slots.capacity() * size_of::<Slot>()
    }
}

impl<const N: usize> Prefetch for Queues<N> {
    #[inline]
    fn prefetch_index(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        blocks.for_each(|(_, hint)| self.prefetch_index_of(hint.hash));
    }

    #[inline]
    fn prefetch_entries<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut PrefetchHint)>) {
        blocks.for_each(|(_, hint)| hint.entry = self.prefetch_entry(hint.hash));
    }

    /// Moving a block changes its neighbours.
    #[inline]
    fn prefetch_neighbours(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        for (_, hint) in blocks {
            if let Some(record) = self.records.get(hint.entry as usize) {
                prefetch_slice(&self.records, record.newer as usize);
                prefetch_slice(&self.records, record.older as usize);
            }
        }
    }
}
