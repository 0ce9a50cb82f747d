//! The blocks that are known: in DRAM, on the SSD, in both, or remembered only (ghosts, in the order in which they left).
//!
//! It must not know what blocks are worth.

use lode_reuse::index::BlockIndex;
use lode_types::prefetch::prefetch_slice;
use lode_types::{BlockNo, Level};

use super::ages::Kind;
use super::frames::{Aged, Frames};
use crate::effect::Slot;
use crate::parts::growth;
use crate::parts::ssd_level::Id;
use crate::prefetch::PrefetchHint;
use crate::quota::Quota;

/// In [`Record::at`]: the block is not in that level. No id and no number in a level is that large.
const NOWHERE: u32 = u32::MAX;
/// In [`Record::at`] of a ghost: its neighbours.
const NEWER: usize = 0;
const OLDER: usize = 1;
/// Of up to so many records nothing is fetched ahead beside themselves: they are in the processor's near memory.
const NEAR_RECORDS: usize = 1 << 17;
/// The record that closes the ring of ghosts.
const RING: Id = 0;

/// Whether a record is of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Of none.
    Free,
    /// Of one that is in a level, or about to be.
    Known,
    /// Of one that is remembered only, among the ghosts.
    Ghost,
}

/// What is known of a block.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Record {
    pub(super) block: BlockNo,
    /// Mean of the accesses between one access and the next, the last ones counting most.
    pub(super) interval: u32,
    /// Accesses so far, up to 255.
    pub(super) accesses: u8,
    pub(super) kind: Kind,
    pub(super) dirty: bool,
    state: State,
    /// Its number in each level, see [`Frames`]; of a ghost, its neighbours.
    at: [u32; 2],
    /// Each level where the block is has the same.
    aged: Aged,
}

impl Record {
    /// A block that was not known.
    pub(super) fn new(block: BlockNo, last: u32) -> Record {
        Record {
            block,
            interval: 0,
            accesses: 0,
            kind: Kind::Read,
            dirty: false,
            state: State::Known,
            at: [NOWHERE; 2],
            aged: Aged::new(last),
        }
    }

    #[inline(always)]
    pub(super) fn aged(&self) -> Aged {
        self.aged
    }

    #[inline(always)]
    pub(super) fn is_in(&self, level: Level) -> bool {
        self.state != State::Ghost && self.at[level.index()] != NOWHERE
    }

    /// It is remembered only, and one of the ghosts.
    #[inline(always)]
    pub(super) fn is_ghost(&self) -> bool {
        self.state == State::Ghost
    }

    #[inline(always)]
    fn is_known(&self) -> bool {
        self.state != State::Free
    }

    /// It is in no level.
    pub(super) fn is_nowhere(&self) -> bool {
        self.is_ghost() || self.at == [NOWHERE; 2]
    }
}

/// What the index has for a record.
#[inline(always)]
fn hash_of(records: &[Record]) -> impl Fn(Id) -> u32 {
    |id| BlockIndex::hash(records[id as usize].block)
}

/// All of them.
#[derive(Debug)]
pub(super) struct Blocks {
    records: Vec<Record>,
    free: Vec<Id>,
    index: BlockIndex,
    levels: [Frames; 2],
    ghosts: u32,
}

impl Blocks {
    pub(super) fn new(quota: Quota) -> Blocks {
        let mut blocks = Blocks {
            records: vec![Record { at: [RING; 2], state: State::Free, ..Record::new(0, 0) }],
            free: Vec::new(),
            index: BlockIndex::new(),
            levels: Default::default(),
            ghosts: 0,
        };
        blocks.set_quota(quota);
        blocks
    }

    /// So many blocks are about to come.
    pub(super) fn expect(&mut self, blocks: u32) {
        // Beside those the ring has a number.
        self.index.reserve(blocks as usize + 1);
    }

    pub(super) fn set_quota(&mut self, quota: Quota) {
        Level::SIZED.into_iter().for_each(|level| self.levels[level.index()].capacity = quota.of(level));
    }

    pub(super) fn quota(&self) -> Quota {
        Quota::new(self.capacity(Level::Dram), self.capacity(Level::Ssd))
    }

    /// Blocks that a level may hold.
    #[inline]
    pub(super) fn capacity(&self, level: Level) -> u32 {
        self.levels[level.index()].capacity
    }

    /// Blocks that a level holds.
    #[inline]
    pub(super) fn cached(&self, level: Level) -> u32 {
        self.levels[level.index()].len()
    }

    pub(super) fn ghosts(&self) -> u32 {
        self.ghosts
    }

    #[inline(always)]
    pub(super) fn get(&self, id: Id) -> &Record {
        &self.records[id as usize]
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, id: Id) -> &mut Record {
        &mut self.records[id as usize]
    }

    /// The record of `block`.
    #[inline]
    pub(super) fn find(&self, hint: PrefetchHint, block: BlockNo) -> Option<Id> {
        let is_it = |record: &Record| record.block == block && record.is_known();
        if self.records.get(hint.entry as usize).is_some_and(is_it) {
            return Some(hint.entry);
        }
        self.index.find(hint.hash, |id| self.records[id as usize].block == block)
    }

    /// As [`Blocks::find`], without a hint.
    pub(super) fn find_block(&self, block: BlockNo) -> Option<Id> {
        self.find(PrefetchHint::new(block), block)
    }

    /// Whether this is the record of the block, and of an access to it.
    pub(super) fn is_of(&self, id: Id, block: BlockNo) -> bool {
        let record = self.get(id);
        record.is_known() && record.block == block && record.accesses > 0
    }

    /// Every `step`-th record, if its block is known.
    pub(super) fn each(&self, step: usize) -> impl Iterator<Item = &Record> {
        self.records.iter().step_by(step).filter(|record| record.is_known())
    }

    pub(super) fn records(&self) -> usize {
        self.records.len()
    }

    /// Notes a block that is not known. It is in no level and not among the ghosts: the caller puts it into one of them.
    pub(super) fn insert(&mut self, hash: u32, record: Record) -> Id {
        let id = growth::occupy(&mut self.records, &mut self.free, record);
        self.index.insert(hash, id, hash_of(&self.records));
        id
    }

    /// Where a block is in a level.
    #[inline]
    pub(super) fn slot(&self, id: Id, level: Level) -> Option<Slot> {
        let record = self.get(id);
        record.is_in(level).then(|| self.levels[level.index()].used()[record.at[level.index()] as usize].slot)
    }

    /// Every slot of the level that holds a block, in any order.
    pub(super) fn slots(&self, level: Level) -> impl Iterator<Item = Slot> {
        self.levels[level.index()].used().iter().map(|frame| frame.slot)
    }

    /// The blocks of a level by their numbers.
    #[inline(always)]
    pub(super) fn frames(&self, level: Level) -> &Frames {
        &self.levels[level.index()]
    }

    /// From now on a block is worth what follows from this, which says of the levels what it said before.
    #[inline(always)]
    pub(super) fn set_aged(&mut self, id: Id, aged: Aged) {
        self.update(id, |_| aged);
    }

    /// Changes a record, and what the block is worth.
    #[inline(always)]
    pub(super) fn update(&mut self, id: Id, change: impl FnOnce(&mut Record) -> Aged) {
        let record = &mut self.records[id as usize];
        let aged = change(record);
        record.aged = aged;
        if !record.is_ghost() {
            self.levels.iter_mut().zip(record.at).for_each(|(level, at)| level.set_aged(at, aged));
        }
    }

    /// Puts a block that is not there into a level that has room.
    pub(super) fn put(&mut self, id: Id, level: Level) -> Slot {
        let record = &mut self.records[id as usize];
        let (at, slot) = self.levels[level.index()].put(id, record.aged);
        record.at[level.index()] = at;
        self.note_levels(id);
        slot
    }

    /// Takes a block out of a level where it is.
    pub(super) fn take(&mut self, id: Id, level: Level) -> Slot {
        let at = std::mem::replace(&mut self.records[id as usize].at[level.index()], NOWHERE);
        let (slot, moved) = self.levels[level.index()].take(at);
        if let Some(moved) = moved {
            self.records[moved as usize].at[level.index()] = at;
        }
        self.note_levels(id);
        slot
    }

    /// A block that is no ghost came to a level or left it.
    #[inline]
    fn note_levels(&mut self, id: Id) {
        let record = &self.records[id as usize];
        let is_double = record.at.iter().all(|&at| at != NOWHERE);
        if record.aged.is_double() != is_double {
            self.set_aged(id, record.aged.with_double(is_double));
        }
    }

    /// Makes a block that is in no level the newest ghost.
    pub(super) fn become_ghost(&mut self, id: Id) {
        let front = std::mem::replace(&mut self.records[RING as usize].at[OLDER], id);
        self.records[front as usize].at[NEWER] = id;
        let record = self.get_mut(id);
        (record.at[NEWER], record.at[OLDER]) = (RING, front);
        record.state = State::Ghost;
        self.ghosts += 1;
    }

    /// Takes a ghost from among the others.
    pub(super) fn leave_ghosts(&mut self, id: Id) {
        let record = self.get_mut(id);
        record.state = State::Known;
        let [newer, older] = std::mem::replace(&mut record.at, [NOWHERE; 2]);
        self.records[newer as usize].at[OLDER] = older;
        self.records[older as usize].at[NEWER] = newer;
        self.ghosts -= 1;
    }

    /// The ghost that was made first.
    pub(super) fn oldest_ghost(&self) -> Option<Id> {
        let oldest = self.records[RING as usize].at[NEWER];
        (oldest != RING).then_some(oldest)
    }

    /// Fetches what looking up the blocks before a block and behind it takes.
    #[inline]
    pub(super) fn prefetch_neighbours(&self, id: Id) {
        let block = self.get(id).block;
        self.prefetch_index(BlockIndex::hash(block.wrapping_sub(1)));
        self.prefetch_index(BlockIndex::hash(block.wrapping_add(1)));
    }

    #[inline(always)]
    pub(super) fn prefetch_record(&self, id: Id) {
        prefetch_slice(&self.records, id as usize);
    }

    /// Fetches what forgetting the oldest ghosts will take.
    #[inline]
    pub(super) fn prefetch_oldest_ghosts(&self) {
        let oldest = &self.records[self.records[RING as usize].at[NEWER] as usize];
        self.prefetch_index(BlockIndex::hash(oldest.block));
        prefetch_slice(&self.records, oldest.at[NEWER] as usize);
    }

    /// Forgets a block that is in no level and not among the ghosts.
    pub(super) fn forget(&mut self, id: Id) {
        let record = self.get_mut(id);
        record.state = State::Free;
        let block = record.block;
        self.index.remove(BlockIndex::hash(block), id, hash_of(&self.records));
        growth::push(&mut self.free, id);
    }

    #[inline]
    pub(super) fn prefetch_index(&self, hash: u32) {
        self.index.prefetch(hash);
    }

    #[inline]
    pub(super) fn prefetch_entry(&self, hash: u32) -> u32 {
        let entry = self.index.candidate(hash);
        prefetch_slice(&self.records, entry as usize);
        entry
    }

    /// Whether it pays to fetch what records lead to.
    #[inline]
    pub(super) fn are_places_far(&self) -> bool {
        self.records.len() > NEAR_RECORDS
    }

    /// Fetches what the record of an access that comes leads to.
    #[inline]
    pub(super) fn prefetch_places(&self, id: Id) {
        let Some(record) = self.records.get(id as usize) else { return };
        if record.is_ghost() {
            record.at.iter().for_each(|&at| prefetch_slice(&self.records, at as usize));
        } else {
            self.levels
                .iter()
                .zip(record.at)
                .filter(|&(_, at)| at != NOWHERE)
                .for_each(|(level, at)| level.prefetch_any(at));
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.index.memory_bytes()
            + self.records.capacity() * size_of::<Record>()
            + self.free.capacity() * size_of::<Id>()
            + self.levels.iter().map(Frames::memory_bytes).sum::<usize>()
    }
}
