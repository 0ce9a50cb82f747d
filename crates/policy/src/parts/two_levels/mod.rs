//! DRAM over one queue of blocks on the SSD: what L2ARC and uCache have in common.
//!
//! It must not know which blocks leave DRAM, which come to the SSD, nor where writes go. What is not such a decision it does as
//! [`Scheme`](crate::Scheme) asks for it.

mod ssd_queue;

use lode_types::{BlockNo, Level};

use crate::effect::{CopyReason, CopySource, Effect, Sink, Slot};
use crate::parts::ssd_level::{Id, Newcomer, Replacement};
use crate::prefetch::{Prefetch, PrefetchHint};
use crate::quota::Quota;
use ssd_queue::SsdQueue;

/// DRAM with replacement `D`, and the SSD below it.
#[derive(Debug)]
pub struct TwoLevels<D> {
    pub(crate) dram: D,
    pub(crate) ssd: SsdQueue,
    /// Whether the SSD may hold what is newer than the disk. Then a block in DRAM alone does not come back to the SSD.
    keeps_dirty: bool,
}

impl<D: Replacement> TwoLevels<D> {
    pub(crate) fn new(dram: D, ssd_blocks: u32, keeps_dirty: bool) -> TwoLevels<D> {
        TwoLevels { dram, ssd: SsdQueue::new(ssd_blocks), keeps_dirty }
    }

    /// Brings the accessed block into DRAM, if there is room at all, and says where it is.
    #[inline]
    pub(crate) fn fill_dram<S: Sink>(&mut self, new: Newcomer, sink: &mut S) -> Option<Id> {
        let (id, slot) = self.dram.admit(new, sink)?;
        sink.effect(Effect::Fill { level: Level::Dram, slot });
        Some(id)
    }

    /// Copies a block, which is in this slot of DRAM and not on the SSD, to the place of the oldest there, as the newest or as of its last
    /// use. There is room for at least one.
    pub(crate) fn copy_to_ssd<S: Sink>(
        &mut self,
        (hash, block): (u32, BlockNo),
        from: Slot,
        as_of: Option<u32>,
        sink: &mut S,
    ) {
        let (_, slot) = match as_of {
            None => self.ssd.put(hash, block, sink),
            Some(at) => self.ssd.put_as_of(at, hash, block, sink),
        };
        let from = CopySource::Level { level: Level::Dram, slot: from };
        let reason = CopyReason::Move;
        sink.effect(Effect::Copy { to: Level::Ssd, slot, block, from, reason });
    }

    /// The accessed block's copy in DRAM is unwanted, if there is one.
    #[inline]
    pub(crate) fn invalidate_in_dram<S: Sink>(&mut self, hint: PrefetchHint, block: BlockNo, sink: &mut S) {
        if let (_, Some((id, slot))) = self.dram.lookup(hint, block) {
            self.dram.remove(block, id);
            sink.effect(Effect::Invalidate { level: Level::Dram, slot });
        }
    }

    /// The accessed block's copies are unwanted.
    pub(crate) fn invalidate<S: Sink>(&mut self, hint: PrefetchHint, block: BlockNo, sink: &mut S) {
        self.invalidate_in_dram(hint, block, sink);
        self.ssd.invalidate(hint.hash, block, sink);
    }

    pub(crate) fn discard<S: Sink>(&mut self, block: BlockNo, sink: &mut S) {
        let hint = PrefetchHint::new(block);
        self.invalidate(hint, block, sink);
        if let Some(ghost) = self.dram.find(hint, block) {
            self.dram.remove(block, ghost);
        }
    }

    pub(crate) fn forget(&mut self, level: Level, block: BlockNo) {
        let hint = PrefetchHint::new(block);
        match (level, self.dram.lookup(hint, block).1) {
            (Level::Dram, Some((id, _))) => self.dram.remove(block, id),
            (Level::Ssd, _) => _ = self.ssd.forget(hint.hash, block),
            _ => {}
        }
    }

    pub(crate) fn cleaned(&mut self, block: BlockNo) {
        if let Some((id, _)) = self.ssd.find(PrefetchHint::new(block).hash, block) {
            self.ssd.set_dirty(id, false);
        }
    }

    pub(crate) fn restore(&mut self, block: BlockNo, dirty: bool) -> Option<Slot> {
        let hint = PrefetchHint::new(block);
        let is_in_dram = self.dram.lookup(hint, block).1.is_some();
        let is_unwelcome = if self.keeps_dirty { is_in_dram } else { dirty };
        if is_unwelcome { None } else { self.ssd.restore(hint.hash, block, dirty) }
    }

    pub(crate) fn expect(&mut self, blocks: u32) {
        self.ssd.expect(blocks);
    }

    pub(crate) fn resize<S: Sink>(&mut self, quota: Quota, sink: &mut S) {
        self.dram.resize(quota.dram_blocks, sink);
        self.ssd.resize(quota.ssd_blocks, sink);
    }

    pub(crate) fn quota(&self) -> Quota {
        Quota::new(self.dram.capacity(), self.ssd.capacity())
    }

    pub(crate) fn resident_blocks(&self, level: Level) -> u32 {
        match level {
            Level::Dram => self.dram.cached(),
            Level::Ssd => self.ssd.cached(),
            Level::ReadSsd => 0,
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.dram.memory_bytes() + self.ssd.memory_bytes()
    }
}

impl<D: Replacement> Prefetch for TwoLevels<D> {
    #[inline]
    fn prefetch_index(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        self.dram.prefetch_index(blocks.inspect(|(_, hint)| self.ssd.prefetch_index(hint.hash)));
    }

    #[inline]
    fn prefetch_entries<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut PrefetchHint)>) {
        self.dram.prefetch_entries(blocks.inspect(|(_, hint)| self.ssd.prefetch_entry(hint.hash)));
    }

    #[inline]
    fn prefetch_neighbours(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        self.dram.prefetch_neighbours(blocks);
    }
}
