//! The blocks ETICA knows: one 32-byte record a block, found by one hash look-up.
//!
//! A record says where the block is, how popular it is and when it was last seen by each reuse-distance
//! measurement, so that an access costs one look-up and not one a question.

use lode_reuse::index::BlockIndex;
use lode_reuse::prefetch_slice;
use lode_reuse::timeline::NEVER;
use lode_types::BlockNo;

use crate::effect::Slot;
use crate::growth;
use crate::scheme::Hint;

/// Records that the clock hand passes before it settles for a block of the current interval.
const HAND_REACH: u32 = 64;

/// Records between the one that the hand stands at and the one whose index entry is fetched.
const HAND_AHEAD: u32 = 16;

const NOWHERE: u32 = u32::MAX;
/// In `Record::dram` of a record that is not in use.
const FREE: u32 = NOWHERE - 1;
const CANDIDATE: u32 = 0x8000_0000;

/// What is known of one block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) block: BlockNo,
    dram: u32,
    /// An SSD slot, or `CANDIDATE` plus a place among the promotion candidates, or `NOWHERE`: a block
    /// that the SSD holds is never a candidate.
    ssd: u32,
    /// Popularity in the inflated units of [`super::popularity`].
    pub(super) score: f32,
    /// Promotion interval of the last access.
    pub(super) interval: u32,
    /// Position in the POD(RO) timeline; the top bit says that a write came since.
    pub(super) ro: u32,
    /// Position in the POD(WBWO) timeline.
    pub(super) wbwo: u32,
}

impl Record {
    fn new(block: BlockNo) -> Record {
        Record { block, dram: NOWHERE, ssd: NOWHERE, score: 0.0, interval: 0, ro: NEVER, wbwo: NEVER }
    }

    #[inline]
    pub(super) fn dram_slot(&self) -> Option<Slot> {
        (self.dram < FREE).then_some(self.dram)
    }

    #[inline]
    pub(super) fn set_dram_slot(&mut self, slot: Option<Slot>) {
        self.dram = slot.unwrap_or(NOWHERE);
    }

    #[inline]
    pub(super) fn ssd_slot(&self) -> Option<Slot> {
        (self.ssd & CANDIDATE == 0).then_some(self.ssd)
    }

    #[inline]
    pub(super) fn candidate(&self) -> Option<u32> {
        (self.ssd & CANDIDATE != 0 && self.ssd != NOWHERE).then_some(self.ssd & !CANDIDATE)
    }

    #[inline]
    pub(super) fn set_ssd_slot(&mut self, slot: Slot) {
        self.ssd = slot;
    }

    #[inline]
    pub(super) fn set_candidate(&mut self, place: u32) {
        self.ssd = CANDIDATE | place;
    }

    #[inline]
    pub(super) fn clear_ssd(&mut self) {
        self.ssd = NOWHERE;
    }
}

/// Index and records.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) index: BlockIndex,
    pub(super) records: Vec<Record>,
    free: Vec<u32>,
    hand: u32,
    limit: u32,
}

impl Table {
    pub(super) fn new(limit: u32) -> Table {
        Table { index: BlockIndex::new(), records: Vec::new(), free: Vec::new(), hand: 0, limit }
    }

    #[inline]
    pub(super) fn find(&self, hint: Hint, block: BlockNo) -> Option<u32> {
        let is_it = |record: &Record| record.block == block && record.dram != FREE;
        if self.records.get(hint.place as usize).is_some_and(is_it) {
            return Some(hint.place);
        }
        self.index.find(hint.hash, |id| self.records[id as usize].block == block)
    }

    /// Brings a record nearer to the processor, both cache lines if it lies in two: aligned records would not, but
    /// cannot grow in place.
    #[inline]
    pub(super) fn prefetch(&self, id: u32) {
        prefetch_slice(&self.records, id as usize);
        prefetch_slice(&self.records, id.saturating_add(1) as usize);
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
                growth::push(&mut self.records, Record::new(block));
                self.records.len() as u32 - 1
            }
        };
        self.index.insert(hash, id);
        id
    }

    /// Forgets a block that no level holds.
    pub(super) fn remove(&mut self, id: u32) {
        let record = &mut self.records[id as usize];
        record.dram = FREE;
        self.index.remove(BlockIndex::hash(record.block), id);
        self.free.push(id);
    }

    /// A block that no level holds and that was not accessed in the interval `now`, in the order of a
    /// clock hand; failing that within the hand's reach, the first block it met that no level holds.
    pub(super) fn oldest_outside(&mut self, now: u32) -> Option<u32> {
        let count = self.records.len() as u32;
        let mut any = None;
        for passed in 0..count {
            if passed >= HAND_REACH && any.is_some() {
                break;
            }
            self.hand = if self.hand + 1 < count { self.hand + 1 } else { 0 };
            if let Some(later) = self.records.get((self.hand + HAND_AHEAD) as usize) {
                self.index.prefetch(BlockIndex::hash(later.block));
            }
            let record = &self.records[self.hand as usize];
            if record.dram_slot().is_none() && record.ssd_slot().is_none() {
                if record.interval != now {
                    return Some(self.hand);
                }
                any = any.or(Some(self.hand));
            }
        }
        any
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.index.memory_bytes()
            + self.records.capacity() * size_of::<Record>()
            + self.free.capacity() * size_of::<u32>()
    }
}
