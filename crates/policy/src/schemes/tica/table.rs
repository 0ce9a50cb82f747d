//! What is known of blocks: one record each, with a slot in every level and a place in every order of use.
//!
//! A record stands in up to three chains at once: one of the four lists, and the orders of both SSDs. It must not know
//! what the lists are for, nor when anything moves.

use std::ops::{Index, IndexMut};

use lode_reuse::index::BlockIndex;
use lode_types::prefetch::prefetch_slice;
use lode_types::{BlockNo, Level};

use crate::effect::Slot;
use crate::parts::growth;
use crate::parts::kept::{self, Low, Rests};
use crate::prefetch::{Prefetch, PrefetchHint};

/// The number of a record.
pub(super) type Id = u32;

/// Where a block stands beside its places on the SSDs; in one list at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum List {
    /// In the read partition of DRAM, by recency.
    Read = 0,
    /// In the write partition of DRAM, by arrival: its copy on the read SSD is still to be made.
    Pending = 1,
    /// The evicted queue: it left the read partition and is remembered.
    Evicted = 2,
    /// Dirty and on the SSD alone, in order of arrival.
    Missing = 3,
    /// In none of them.
    None = 4,
    /// The record is nobody's.
    Free = 5,
}

const LISTS: usize = 4;

/// The chain of the lists; those of the SSDs are numbered as their levels.
const LIST_CHAIN: usize = Level::Dram as usize;

/// In `slots` where the block has none.
const NO_SLOT: Slot = Slot::MAX;

#[derive(Clone, Copy, Debug)]
#[repr(C, packed)]
struct Links {
    newer: Id,
    older: Id,
}

#[derive(Clone, Copy, Debug)]
#[repr(C, packed)]
struct Record {
    block: Low,
    /// By [`Level::index`].
    slots: [Slot; Level::COUNT],
    /// By chain. The first records stand for the lists, the very first also for the SSDs' orders, and close their rings,
    /// so that links change without asking where the ends are.
    links: [Links; Level::COUNT],
    list: List,
    dirty: bool,
}

/// The slots of one level.
#[derive(Debug, Default)]
struct Slots {
    /// Those that were used and are not; all from `next` on were never used.
    free: Vec<Slot>,
    next: Slot,
    used: u32,
}

/// The records, and what they leave out of block numbers.
#[derive(Debug)]
struct Records {
    records: Vec<Record>,
    rests: Rests,
}

impl Records {
    #[inline(always)]
    fn block(&self, id: Id) -> BlockNo {
        kept::join(self[id].block, self.rests.get(id))
    }

    /// What the index has for a record.
    #[inline(always)]
    fn hash_of(&self) -> impl Fn(Id) -> u32 {
        |id| BlockIndex::hash(self.block(id))
    }
}

impl Index<Id> for Records {
    type Output = Record;

    #[inline(always)]
    fn index(&self, id: Id) -> &Record {
        &self.records[id as usize]
    }
}

impl IndexMut<Id> for Records {
    #[inline(always)]
    fn index_mut(&mut self, id: Id) -> &mut Record {
        &mut self.records[id as usize]
    }
}

/// Every known block.
#[derive(Debug)]
pub(super) struct Table {
    records: Records,
    index: BlockIndex,
    free: Vec<Id>,
    lens: [u32; LISTS],
    slots: [Slots; Level::COUNT],
}

impl Table {
    pub(super) fn new() -> Table {
        let ring = |list: usize| Record {
            links: [Links { newer: list as Id, older: list as Id }; Level::COUNT],
            ..Record::new(Low::default(), List::Free)
        };
        Table {
            records: Records { records: (0..LISTS).map(ring).collect(), rests: Rests::default() },
            index: BlockIndex::new(),
            free: Vec::new(),
            lens: [0; LISTS],
            slots: Default::default(),
        }
    }

    /// So many blocks are about to come.
    pub(super) fn expect(&mut self, blocks: u32) {
        // Beside those the rings have numbers.
        self.index.reserve(blocks as usize + LISTS);
    }

    #[inline(always)]
    pub(super) fn find(&self, hint: PrefetchHint, block: BlockNo) -> Option<Id> {
        let is_known =
            self.records.records.get(hint.entry as usize).is_some_and(|record| record.list != List::Free);
        if is_known && self.records.block(hint.entry) == block {
            return Some(hint.entry);
        }
        self.index.find(hint.hash, |id| self.records.block(id) == block)
    }

    /// A record for a block that is not known; it has no slot and is in no list.
    #[inline]
    pub(super) fn insert(&mut self, hash: u32, block: BlockNo) -> Id {
        let (low, rest) = kept::split(block);
        let id = growth::occupy(&mut self.records.records, &mut self.free, Record::new(low, List::None));
        self.records.rests.set(id, rest);
        self.index.insert(hash, id, self.records.hash_of());
        id
    }

    /// Forgets a block that has no slot and is in no list.
    #[inline]
    pub(super) fn release_unknown(&mut self, id: Id) {
        if self.list(id) == List::None && !self.is_cached(id) {
            self.records[id].list = List::Free;
            let hash = BlockIndex::hash(self.records.block(id));
            self.index.remove(hash, id, self.records.hash_of());
            self.free.push(id);
        }
    }

    #[inline(always)]
    pub(super) fn block(&self, id: Id) -> BlockNo {
        self.records.block(id)
    }

    #[inline(always)]
    pub(super) fn list(&self, id: Id) -> List {
        self.records[id].list
    }

    #[inline(always)]
    pub(super) fn is_dirty(&self, id: Id) -> bool {
        self.records[id].dirty
    }

    #[inline(always)]
    pub(super) fn set_dirty(&mut self, id: Id, dirty: bool) {
        self.records[id].dirty = dirty;
    }

    #[inline(always)]
    pub(super) fn slot(&self, level: Level, id: Id) -> Option<Slot> {
        let slot = self.records[id].slots[level.index()];
        (slot != NO_SLOT).then_some(slot)
    }

    /// Whether any level holds the block.
    pub(super) fn is_cached(&self, id: Id) -> bool {
        let slots = self.records[id].slots;
        slots != [NO_SLOT; Level::COUNT]
    }

    /// Blocks in a level.
    #[inline(always)]
    pub(super) fn used(&self, level: Level) -> u32 {
        self.slots[level.index()].used
    }

    /// Gives a block a slot of a level where it has none; on an SSD it is the most recent one.
    #[inline]
    pub(super) fn give(&mut self, level: Level, id: Id) -> Slot {
        let slots = &mut self.slots[level.index()];
        slots.used += 1;
        let slot = slots.free.pop().unwrap_or_else(|| {
            slots.next += 1;
            slots.next - 1
        });
        self.records[id].slots[level.index()] = slot;
        if level != Level::Dram {
            self.link(level.index(), 0, id);
        }
        slot
    }

    /// Takes a block's slot of a level away, if it has one.
    #[inline]
    pub(super) fn take(&mut self, level: Level, id: Id) -> Option<Slot> {
        let slot = self.slot(level, id)?;
        self.records[id].slots[level.index()] = NO_SLOT;
        let slots = &mut self.slots[level.index()];
        slots.used -= 1;
        slots.free.push(slot);
        if level != Level::Dram {
            self.unlink(level.index(), id);
        }
        Some(slot)
    }

    /// Makes a block that an SSD holds the most recent one there.
    #[inline]
    pub(super) fn touch(&mut self, level: Level, id: Id) {
        self.unlink(level.index(), id);
        self.link(level.index(), 0, id);
    }

    /// The least recent block of an SSD.
    #[inline]
    pub(super) fn oldest_on(&self, level: Level) -> Option<Id> {
        self.real(self.records[0].links[level.index()].newer)
    }

    /// Blocks in a list.
    #[inline(always)]
    pub(super) fn len(&self, list: List) -> u32 {
        self.lens[list as usize]
    }

    /// The block that is in a list for longest, or was used there least recently.
    #[inline]
    pub(super) fn oldest_in(&self, list: List) -> Option<Id> {
        self.real(self.records[list as Id].links[LIST_CHAIN].newer)
    }

    /// Puts a block that is in no list at the front of one.
    #[inline]
    pub(super) fn enter(&mut self, list: List, id: Id) {
        self.records[id].list = list;
        self.lens[list as usize] += 1;
        self.link(LIST_CHAIN, list as Id, id);
    }

    /// Moves a block to the front of the list it is in.
    #[inline]
    pub(super) fn move_to_front(&mut self, id: Id) {
        let list = self.records[id].list;
        self.unlink(LIST_CHAIN, id);
        self.link(LIST_CHAIN, list as Id, id);
    }

    /// Takes a block out of the list it is in, if it is in one.
    #[inline]
    pub(super) fn leave(&mut self, id: Id) {
        let list = self.list(id);
        self.records[id].list = List::None;
        if list != List::None {
            self.lens[list as usize] -= 1;
            self.unlink(LIST_CHAIN, id);
        }
    }

    #[inline(always)]
    fn real(&self, id: Id) -> Option<Id> {
        (id as usize >= LISTS).then_some(id)
    }

    #[inline(always)]
    fn unlink(&mut self, chain: usize, id: Id) {
        let Links { newer, older } = self.records[id].links[chain];
        self.records[newer].links[chain].older = older;
        self.records[older].links[chain].newer = newer;
    }

    #[inline(always)]
    fn link(&mut self, chain: usize, ring: Id, id: Id) {
        // Newest first: the ring's own record is older than the newest and newer than the oldest.
        let front = self.records[ring].links[chain].older;
        self.records[ring].links[chain].older = id;
        self.records[front].links[chain].newer = id;
        self.records[id].links[chain] = Links { newer: ring, older: front };
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let slots: usize = self.slots.iter().map(|slots| slots.free.capacity()).sum();
        self.index.memory_bytes()
            + self.records.records.capacity() * size_of::<Record>()
            + self.records.rests.memory_bytes()
            + self.free.capacity() * size_of::<Id>()
            + slots * size_of::<Slot>()
    }
}

impl Prefetch for Table {
    #[inline]
    fn prefetch_index(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        blocks.for_each(|(_, hint)| self.index.prefetch(hint.hash));
    }

    #[inline]
    fn prefetch_entries<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut PrefetchHint)>) {
        for (_, hint) in blocks {
            hint.entry = self.index.candidate(hint.hash);
            prefetch_slice(&self.records.records, hint.entry as usize);
        }
    }

    /// Moving a block changes its neighbours.
    #[inline]
    fn prefetch_neighbours(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        for (_, hint) in blocks {
            let Some(record) = self.records.records.get(hint.entry as usize) else { continue };
            for Links { newer, older } in record.links {
                prefetch_slice(&self.records.records, newer as usize);
                prefetch_slice(&self.records.records, older as usize);
            }
        }
    }
}

impl Record {
    /// Without slots and links.
    fn new(block: Low, list: List) -> Record {
        let links = [Links { newer: 0, older: 0 }; Level::COUNT];
        Record { block, slots: [NO_SLOT; Level::COUNT], links, list, dirty: false }
    }
}
