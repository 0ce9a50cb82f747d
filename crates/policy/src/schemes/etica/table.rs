//! The blocks ETICA knows: one record a block, found by one hash look-up.
//!
//! At its limit it forgets, record by record, what has not been accessed for some time.

use lode_reuse::index::BlockIndex;
use lode_types::BlockNo;

use super::records::{Record, Records};
use crate::prefetch::PrefetchHint;

/// Records that the clock hand passes before it settles for a block of the current interval.
const HAND_REACH: u32 = 64;

/// Records between the one that the hand stands at and the one whose index entry is fetched.
const HAND_AHEAD: u32 = 16;

/// What the index has for a record.
#[inline(always)]
fn hash_of(records: &Records) -> impl Fn(u32) -> u32 {
    |id| BlockIndex::hash(records[id as usize].block)
}

/// Index and records.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) index: BlockIndex,
    pub(super) records: Records,
    free: Vec<u32>,
    hand: u32,
    limit: u32,
}

impl Table {
    pub(super) fn new(limit: u32) -> Table {
        Table { index: BlockIndex::new(), records: Records::default(), free: Vec::new(), hand: 0, limit }
    }

    /// So many blocks are about to come.
    pub(super) fn expect(&mut self, blocks: u32) {
        self.index.reserve(blocks as usize);
    }

    #[inline]
    pub(super) fn find(&self, hint: PrefetchHint, block: BlockNo) -> Option<u32> {
        let is_it = |record: &Record| record.block == block && !record.is_free();
        if self.records.get(hint.entry).is_some_and(is_it) {
            return Some(hint.entry);
        }
        self.index.find(hint.hash, |id| self.records[id as usize].block == block)
    }

    /// Known blocks.
    pub(super) fn len(&self) -> u32 {
        (self.records.len() - self.free.len()) as u32
    }

    /// The records of known blocks.
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> {
        (0..self.records.len() as u32).filter(|&id| !self.records[id as usize].is_free())
    }

    pub(super) fn is_at_limit(&self) -> bool {
        self.free.is_empty() && self.records.len() >= self.limit as usize
    }

    pub(super) fn insert(&mut self, hash: u32, block: BlockNo) -> u32 {
        let id = match self.free.pop() {
            Some(id) => {
                self.records[id as usize] = Record::new(block);
                id
            }
            None => {
                self.records.push(Record::new(block));
                self.records.len() as u32 - 1
            }
        };
        self.index.insert(hash, id, hash_of(&self.records));
        id
    }

    /// Forgets a block that no level holds.
    pub(super) fn remove(&mut self, id: u32) {
        let record = &mut self.records[id as usize];
        record.set_free();
        let hash = BlockIndex::hash(record.block);
        self.index.remove(hash, id, hash_of(&self.records));
        self.free.push(id);
    }

    /// A block that no level holds and that was last accessed before the access numbered `since`, in the order of a clock
    /// hand; failing that within the hand's reach, the first block it met that no level holds.
    pub(super) fn oldest_outside(&mut self, since: u32) -> Option<u32> {
        let count = self.records.len() as u32;
        let mut any = None;
        for passed in 0..count {
            if passed >= HAND_REACH && any.is_some() {
                break;
            }
            self.hand = if self.hand + 1 < count { self.hand + 1 } else { 0 };
            if let Some(later) = self.records.get(self.hand + HAND_AHEAD) {
                self.index.prefetch(BlockIndex::hash(later.block));
            }
            let record = &self.records[self.hand as usize];
            if record.dram_slot().is_none() && record.ssd_slot().is_none() {
                if record.seen() < since {
                    return Some(self.hand);
                }
                any = any.or(Some(self.hand));
            }
        }
        any
    }

    /// Numbers all last accesses anew, from 1 and in the same order. Says which is the highest number now, and which would
    /// be the next after those of accesses before the one that was numbered `since`.
    pub(super) fn renumber(&mut self, since: u32) -> (u32, u32) {
        let records = self.records.slices_mut().flatten();
        let mut by_access: Vec<&mut Record> = records.filter(|record| !record.is_free()).collect();
        by_access.sort_unstable_by_key(|record| record.seen());
        let before = by_access.partition_point(|record| record.seen() < since) as u32;
        for (number, record) in (1..).zip(&mut by_access) {
            record.set_seen(number);
        }
        (by_access.len() as u32, before + 1)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.records.memory_bytes() + self.free.capacity() * size_of::<u32>()
    }
}
