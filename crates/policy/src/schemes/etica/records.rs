//! What is known of each block: one 32-byte record a block.
//!
//! A record says where the block is, how popular it is and when it was last seen by each reuse-distance
//! measurement, so that an access costs one look-up and not one a question. It must not know how a record is found.

use std::hint::select_unpredictable;
use std::ops::{Index, IndexMut};

use lode_reuse::timeline::NEVER;
use lode_types::BlockNo;
use lode_types::prefetch::prefetch_slice;

use crate::effect::Slot;

const NOWHERE: u32 = u32::MAX;
/// In `Record::dram` of a record that is not in use.
const FREE: u32 = NOWHERE - 1;
const CANDIDATE: u32 = 0x8000_0000;
/// In `Record::seen`: the SSD's copy is newer than the backing disk.
const DIRTY: u32 = 0x8000_0000;

/// The highest number that an access can have.
pub(super) const LAST_NUMBER: u32 = DIRTY - 1;

/// How wanted a block is beside others that the SSD holds: by its score, and of equal ones by its last access. The lowest
/// leaves first. No two blocks have the same; the default is below all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Standing(u64);

impl Standing {
    /// Above all.
    pub(super) const HIGHEST: Standing = Standing(u64::MAX);

    /// Of a score that is not negative: such numbers are in the order of their bits.
    #[inline(always)]
    pub(super) fn new(score: f32, seen: u32) -> Standing {
        Standing(u64::from(score.to_bits()) << 32 | u64::from(seen))
    }

    /// The standing next below, with nothing in between; of one that is not the lowest.
    pub(super) fn just_below(self) -> Standing {
        Standing(self.0 - 1)
    }

    /// The number of the last access.
    #[inline(always)]
    pub(super) fn seen(self) -> u32 {
        self.0 as u32
    }

    #[inline(always)]
    pub(super) fn score(self) -> f32 {
        f32::from_bits((self.0 >> 32) as u32)
    }
}

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
    /// Number of the last access, 31 bits, and `DIRTY`: it belongs to the SSD's copy and stands here because an access
    /// has this line at hand.
    seen: u32,
    /// Position in the POD(RO) timeline; the top bit says that a write came since.
    pub(super) ro: u32,
    /// Position in the POD(WBWO) timeline.
    pub(super) wbwo: u32,
}

impl Record {
    pub(super) const fn new(block: BlockNo) -> Record {
        Record { block, dram: NOWHERE, ssd: NOWHERE, score: 0.0, seen: 0, ro: NEVER, wbwo: NEVER }
    }

    /// Whether the record is given up and may stand for another block.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.dram == FREE
    }

    pub(super) fn set_free(&mut self) {
        self.dram = FREE;
    }

    #[inline]
    pub(super) fn dram_slot(&self) -> Option<Slot> {
        (self.dram < FREE).then_some(self.dram)
    }

    /// The DRAM slot, or `other` without one, found without a branch: which of the two is a coin toss.
    #[inline]
    pub(super) fn dram_slot_or(&self, other: Slot) -> Slot {
        select_unpredictable(self.dram < FREE, self.dram, other)
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

    /// The block enters the SSD, clean.
    #[inline]
    pub(super) fn set_ssd_slot(&mut self, slot: Slot) {
        self.ssd = slot;
        self.set_dirty(false);
    }

    #[inline]
    pub(super) fn is_dirty(&self) -> bool {
        self.seen & DIRTY != 0
    }

    #[inline]
    pub(super) fn set_dirty(&mut self, dirty: bool) {
        self.seen = (self.seen & !DIRTY) | (u32::from(dirty) * DIRTY);
    }

    /// Notes an access, by its number, at most [`LAST_NUMBER`].
    #[inline]
    pub(super) fn set_seen(&mut self, number: u32) {
        self.seen = (self.seen & DIRTY) | number;
    }

    /// The number of the last access.
    #[inline]
    pub(super) fn seen(&self) -> u32 {
        self.seen & !DIRTY
    }

    #[inline(always)]
    pub(super) fn standing(&self) -> Standing {
        Standing::new(self.score, self.seen())
    }

    /// The standing of a block in the SSD, and of others the highest.
    pub(super) fn standing_inside(&self) -> Standing {
        if self.ssd_slot().is_some() { self.standing() } else { Standing::HIGHEST }
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

const CHUNK: usize = 1024;

/// Aligned, so that no record lies in two cache lines.
#[derive(Debug)]
#[repr(align(64))]
struct Chunk([Record; CHUNK]);

/// Records by number, in chunks: what is aligned would have to be copied to grow.
#[derive(Debug, Default)]
pub(super) struct Records {
    chunks: Vec<Box<Chunk>>,
    len: usize,
}

impl Records {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&Record> {
        ((id as usize) < self.len).then(|| &self[id as usize])
    }

    pub(super) fn push(&mut self, record: Record) {
        if self.len == self.chunks.len() * CHUNK {
            self.chunks.push(Box::new(Chunk([Record::new(0); CHUNK])));
        }
        self.len += 1;
        let last = self.len - 1;
        self[last] = record;
    }

    /// All records in the order of their numbers, some at a time.
    pub(super) fn slices_mut(&mut self) -> impl Iterator<Item = &mut [Record]> {
        let mut left = self.len;
        self.chunks.iter_mut().map(move |chunk| {
            let len = left.min(CHUNK);
            left -= len;
            &mut chunk.0[..len]
        })
    }

    /// Brings a record nearer to the processor; it need not exist.
    #[inline]
    pub(super) fn prefetch(&self, id: u32) {
        // Without a branch: whether it exists is often a coin toss.
        let last = self.chunks.len().saturating_sub(1);
        if let Some(chunk) = self.chunks.get((id as usize / CHUNK).min(last)) {
            prefetch_slice(&chunk.0, id as usize % CHUNK);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.chunks.len() * size_of::<Chunk>() + self.chunks.capacity() * size_of::<Box<Chunk>>()
    }
}

impl Index<usize> for Records {
    type Output = Record;

    #[inline(always)]
    fn index(&self, id: usize) -> &Record {
        &self.chunks[id / CHUNK].0[id % CHUNK]
    }
}

impl IndexMut<usize> for Records {
    #[inline(always)]
    fn index_mut(&mut self, id: usize) -> &mut Record {
        &mut self.chunks[id / CHUNK].0[id % CHUNK]
    }
}
