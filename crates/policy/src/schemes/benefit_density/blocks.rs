//! The blocks that are known: in DRAM, on the SSD, in both, or remembered only (ghosts, in the order in which they left).
//!
//! It must not know what blocks are worth.

use lode_reuse::index::BlockIndex;
use lode_types::prefetch::{prefetch_ref, prefetch_slice};
use lode_types::{BlockNo, Level};

use crate::effect::Slot;
use crate::parts::growth;
use crate::parts::ssd_level::Id;
use crate::prefetch::PrefetchHint;
use crate::quota::Quota;
use crate::schemes::benefit_density::ages::Kind;

/// In [`Record::at`]: the block is not in that level. No id and no number in a level is that large.
const NOWHERE: u32 = u32::MAX;
/// In [`Record::at`] of a ghost: its neighbours.
const NEWER: usize = 0;
const OLDER: usize = 1;
/// The record that closes the ring of ghosts.
const RING: Id = 0;

/// What is known of a block. What it is worth follows from the second half, which lies in one cache line wherever the record is.
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
    is_known: bool,
    /// When it was accessed last: the low bits of the clock.
    pub(super) last: u32,
    /// Where its frame is in the list of each level's, see [`Frames`]; of a ghost, its neighbours.
    at: [u32; 2],
    pub(super) class: u8,
    /// Class of the run in which it came last.
    pub(super) run: u8,
    is_ghost: bool,
}

impl Record {
    /// A block that was not known.
    pub(super) fn new(block: BlockNo, last: u32) -> Record {
        Record {
            block,
            last,
            interval: 0,
            at: [NOWHERE; 2],
            accesses: 0,
            class: 0,
            run: 0,
            kind: Kind::Read,
            dirty: false,
            is_ghost: false,
            is_known: true,
        }
    }

    #[inline(always)]
    pub(super) fn is_in(&self, level: Level) -> bool {
        !self.is_ghost && self.at[level.index()] != NOWHERE
    }

    /// It is remembered only, and one of the ghosts.
    #[inline(always)]
    pub(super) fn is_ghost(&self) -> bool {
        self.is_ghost
    }

    /// It is in no level.
    pub(super) fn is_nowhere(&self) -> bool {
        self.is_ghost || self.at == [NOWHERE; 2]
    }
}

/// The blocks of a level with their slots, in any order, so that chance can choose among them.
#[derive(Debug, Default)]
struct Frames {
    used: Vec<(Id, Slot)>,
    free: Vec<Slot>,
    next: Slot,
    capacity: u32,
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
            records: vec![Record { at: [RING; 2], is_ghost: true, is_known: false, ..Record::new(0, 0) }],
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
        self.levels[level.index()].used.len() as u32
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
        let is_it = |record: &Record| record.block == block && record.is_known;
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
        record.is_known && record.block == block && record.accesses > 0
    }

    /// Every `step`-th record, if its block is known.
    pub(super) fn each(&self, step: usize) -> impl Iterator<Item = &Record> {
        self.records.iter().step_by(step).filter(|record| record.is_known)
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
        let at = record.at[level.index()] as usize;
        record.is_in(level).then(|| self.levels[level.index()].used[at].1)
    }

    /// Every slot of the level that holds a block, in any order.
    pub(super) fn slots(&self, level: Level) -> impl Iterator<Item = Slot> {
        self.levels[level.index()].used.iter().map(|&(_, slot)| slot)
    }

    /// A block of the level by its number in any order.
    #[inline]
    pub(super) fn nth(&self, level: Level, at: u32) -> Id {
        self.levels[level.index()].used[at as usize].0
    }

    #[inline]
    pub(super) fn prefetch_nth(&self, level: Level, at: u32) {
        prefetch_slice(&self.levels[level.index()].used, at as usize);
    }

    /// Fetches what a block is worth.
    #[inline]
    pub(super) fn prefetch_worth(&self, id: Id) {
        prefetch_ref(&self.get(id).last);
    }

    /// Puts a block that is not there into a level that has room.
    pub(super) fn put(&mut self, id: Id, level: Level) -> Slot {
        let frames = &mut self.levels[level.index()];
        let slot = frames.free.pop().unwrap_or_else(|| {
            frames.next += 1;
            frames.next - 1
        });
        self.records[id as usize].at[level.index()] = frames.used.len() as u32;
        growth::push(&mut frames.used, (id, slot));
        slot
    }

    /// Takes a block out of a level where it is.
    pub(super) fn take(&mut self, id: Id, level: Level) -> Slot {
        let frames = &mut self.levels[level.index()];
        let at = std::mem::replace(&mut self.records[id as usize].at[level.index()], NOWHERE);
        let (_, slot) = frames.used.swap_remove(at as usize);
        growth::push(&mut frames.free, slot);
        if let Some(&(moved, _)) = frames.used.get(at as usize) {
            self.records[moved as usize].at[level.index()] = at;
        }
        slot
    }

    /// Makes a block that is in no level the newest ghost.
    pub(super) fn become_ghost(&mut self, id: Id) {
        let front = std::mem::replace(&mut self.records[RING as usize].at[OLDER], id);
        self.records[front as usize].at[NEWER] = id;
        let record = self.get_mut(id);
        (record.at[NEWER], record.at[OLDER]) = (RING, front);
        record.is_ghost = true;
        self.ghosts += 1;
    }

    /// Takes a ghost from among the others.
    pub(super) fn leave_ghosts(&mut self, id: Id) {
        let record = self.get_mut(id);
        record.is_ghost = false;
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

    /// Forgets a block that is in no level and not among the ghosts.
    pub(super) fn forget(&mut self, id: Id) {
        let record = self.get_mut(id);
        record.is_known = false;
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

    pub(super) fn memory_bytes(&self) -> usize {
        let frames = |frames: &Frames| {
            frames.used.capacity() * size_of::<(Id, Slot)>() + frames.free.capacity() * size_of::<Slot>()
        };
        self.index.memory_bytes()
            + self.records.capacity() * size_of::<Record>()
            + self.free.capacity() * size_of::<Id>()
            + self.levels.iter().map(frames).sum::<usize>()
    }
}
