//! What the backing disk has and owes: which writes a flush has yet to cover, which blocks are on their way to it, and the
//! trim or zeroing under way. It must not know commands, guests or the scheme.

mod destage;
mod marks;
mod range;

use std::ops::Range;

use lode_types::{BlockNo, planted};

use crate::flight::Place;

use marks::Marks;

pub(crate) use destage::{Destage, JobBlockId, MAX_BLOCKS_PER_JOB, MAX_JOBS};
pub(crate) use range::{RangeKind, RangeNext, RangeOp};

/// State of the backing disk.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    marks: Marks,
    destage: Destage,
    range: Option<RangeOp>,
}

/// What a flush of the backing disk has made durable.
#[derive(Debug)]
pub(crate) struct Flushed {
    /// Clean copies, with their versions, that the journal may know of from now on.
    pub(crate) copies: Vec<(Place, u64)>,
    /// Blocks that were written back.
    pub(crate) blocks: Vec<BlockNo>,
}

/// Writes and flushes.
impl Disk {
    /// The mark that covers everything completed so far.
    pub(crate) fn mark(&self) -> u64 {
        self.marks.mark()
    }

    /// Up to where everything is durable.
    pub(crate) fn flushed(&self) -> u64 {
        self.marks.flushed()
    }

    /// Whether a power cut could still undo the latest direct write of `block`.
    pub(crate) fn is_unstable(&self, block: BlockNo) -> bool {
        self.marks.is_unstable(block)
    }

    /// A direct write of `block` is complete.
    pub(crate) fn wrote(&mut self, block: BlockNo) {
        self.marks.wrote(block);
    }

    /// All blocks of a group are written. Gives the mark up to which a flush makes that durable.
    pub(crate) fn wrote_group(&mut self) -> u64 {
        self.marks.wrote_back()
    }

    /// A copy of unstable bytes was put at `place` outside the journal.
    pub(crate) fn remember_volatile(&mut self, place: Place, version: u64) {
        self.marks.remember_volatile(place, version);
    }

    /// A flush is to begin as soon as none is under way.
    pub(crate) fn want_flush(&mut self) {
        self.marks.want_flush();
    }

    /// Whether a flush is to begin now: a guest waits for this mark, or something here does.
    pub(crate) fn begin_flush(&mut self, waited_for: u64) -> bool {
        let range = self.range.as_ref().map_or(0, RangeOp::mark_waited_for);
        self.marks.begin_flush(waited_for.max(range))
    }

    /// The flush in flight is done.
    pub(crate) fn flush_done(&mut self) -> Flushed {
        let copies = self.marks.flush_done();
        Flushed { copies, blocks: self.destage.take_flushed(self.marks.flushed()) }
    }

    /// Nothing is known of what was written before, as if all of it had been flushed by nobody: what a disk may lose whose failed
    /// flush is told to one who asks, and believed by the next.
    pub(crate) fn forget_marks(&mut self) {
        self.marks = Marks::default();
    }
}

/// Write-backs.
impl Disk {
    /// Blocks on their way to the disk.
    pub(crate) fn destage(&self) -> &Destage {
        &self.destage
    }

    /// The same, to take them on.
    pub(crate) fn destage_mut(&mut self) -> &mut Destage {
        &mut self.destage
    }

    /// A block was written back. Its copy stays on the SSD until the disk was flushed up to this mark.
    pub(crate) fn written_back(&mut self, block: BlockNo) {
        let mark = self.marks.wrote_back();
        self.destage.written(block, mark);
    }

    /// The disk has the block's newest bytes from a guest's write, and is to have them durably.
    pub(crate) fn await_flush(&mut self, block: BlockNo) {
        self.destage.written(block, self.marks.mark());
    }
}

/// The trim or zeroing under way.
impl Disk {
    /// Whether there is one.
    pub(crate) fn has_range(&self) -> bool {
        self.range.is_some()
    }

    /// What it is about.
    pub(crate) fn range(&self) -> Option<&RangeOp> {
        self.range.as_ref()
    }

    /// Whether it has to do with this block.
    pub(crate) fn range_holds(&self, block: BlockNo) -> bool {
        self.range.as_ref().is_some_and(|range| range.blocks().contains(&block))
    }

    /// A trim or zeroing of these blocks begins.
    pub(crate) fn begin_range(
        &mut self,
        request: usize,
        blocks: Range<BlockNo>,
        kind: RangeKind,
        held: Vec<BlockNo>,
        is_to_be_noted: bool,
    ) {
        assert!(self.range.is_none(), "one after the other");
        self.range = Some(RangeOp::new(request, blocks, kind, held, is_to_be_noted));
    }

    /// What trims and zeroings change on the disk and no flush covers, with what is about to be changed.
    pub(crate) fn ranges_to_note(&self) -> Vec<Range<BlockNo>> {
        let comes = self.range.as_ref().filter(|range| range.is_being_noted());
        let before = self.marks.unstable_ranges().filter(|_| !planted("zeroing-noted-alone"));
        before.chain(comes.map(RangeOp::blocks)).cloned().collect()
    }

    /// They are noted, or could not be.
    pub(crate) fn range_noted(&mut self, ok: bool) -> RangeNext {
        self.range.as_mut().map_or(RangeNext::Wait, |range| range.noted(ok))
    }

    /// One of its blocks has no operation before it any more.
    pub(crate) fn range_holds_one_more(&mut self) {
        self.range.as_mut().expect("a range operation holds").holds_one_more();
    }

    /// It cannot be carried out, unless it has begun.
    pub(crate) fn refuse_range(&mut self) {
        if let Some(range) = &mut self.range {
            range.refuse();
        }
    }

    /// What is next for it when nothing before it is on its way: it may have hold of all of its blocks, whose clean copies are
    /// given up, which the journal knows from `version` on.
    pub(crate) fn range_gathered(&mut self, version: u64, durable: u64, is_well: bool) -> RangeNext {
        self.range.as_mut().map_or(RangeNext::Wait, |range| range.gathered(version, durable, is_well))
    }

    /// The disk has done its part, or could not. What is next is waited for where the SSD holds dirty copies.
    pub(crate) fn range_written(&mut self, ok: bool, holds_dirty: bool, is_well: bool) -> RangeNext {
        let range = self.range.as_mut().expect("the disk was asked for it");
        self.marks.wrote_range(range.blocks().clone());
        range.device_done(ok, self.marks.mark(), holds_dirty, is_well)
    }

    /// The blocks that it holds, if the disk durably has its part by now.
    pub(crate) fn range_flushed(&self) -> Option<Vec<BlockNo>> {
        let range = self.range.as_ref().filter(|range| range.is_flushed(self.marks.flushed()))?;
        Some(range.held().to_vec())
    }

    /// Its dirty copies are given up, which the journal knows from `version` on, and is durable up to `durable`.
    pub(crate) fn range_freed(&mut self, version: u64, durable: u64) -> RangeNext {
        if let Some(range) = &mut self.range {
            range.freed(version);
        }
        self.range_durable(durable)
    }

    /// The journal is durable up to this version.
    pub(crate) fn range_durable(&mut self, version: u64) -> RangeNext {
        self.range.as_mut().map_or(RangeNext::Wait, |range| range.journal_durable(version))
    }

    /// Nothing will become durable any more.
    pub(crate) fn range_never_durable(&self) -> RangeNext {
        self.range.as_ref().map_or(RangeNext::Wait, RangeOp::never_durable)
    }

    /// The version that it waits for; 0 if it does not.
    pub(crate) fn version_waited_for(&self) -> u64 {
        self.range.as_ref().map_or(0, RangeOp::version_waited_for)
    }

    /// It is over.
    pub(crate) fn end_range(&mut self) -> Option<RangeOp> {
        self.range.take()
    }
}
