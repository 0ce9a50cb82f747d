//! What the backing disk has and owes: which writes a flush has yet to cover, which blocks are on their way to it, and the
//! trim or zeroing under way. It must not know commands, guests or the scheme.

mod destage;
mod marks;
mod range;

use std::ops::Range;

use lode_types::BlockNo;

pub(crate) use destage::{Destage, JobBlockId, MAX_BLOCKS_PER_JOB, MAX_JOBS};
pub(crate) use marks::Marks;
pub(crate) use range::{RangeKind, RangeNext, RangeOp};

/// State of the backing disk.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) marks: Marks,
    pub(crate) destage: Destage,
    pub(crate) range: Option<RangeOp>,
}

impl Disk {
    /// Whether the trim or zeroing under way has to do with this block.
    pub(crate) fn range_holds(&self, block: BlockNo) -> bool {
        self.range.as_ref().is_some_and(|range| range.blocks.contains(&block))
    }

    /// A trim or zeroing of these blocks begins.
    pub(crate) fn begin_range(
        &mut self,
        request: usize,
        blocks: Range<BlockNo>,
        kind: RangeKind,
        held: Vec<BlockNo>,
    ) {
        assert!(self.range.is_none(), "one after the other");
        self.range = Some(RangeOp::new(request, blocks, kind, held));
    }

    /// The version that the trim or zeroing waits for; 0 if it does not.
    pub(crate) fn version_waited_for(&self) -> u64 {
        self.range.as_ref().map_or(0, RangeOp::version_waited_for)
    }

    /// A block was written back. Its copy stays on the SSD until the disk was flushed up to this mark.
    pub(crate) fn written_back(&mut self, block: BlockNo) {
        let mark = self.marks.wrote_back();
        self.destage.written(block, mark);
    }

    /// Whether a flush is to begin now: a guest waits for this mark, or something here does.
    pub(crate) fn begin_flush(&mut self, waited_for: u64) -> bool {
        let range = self.range.as_ref().map_or(0, RangeOp::mark_waited_for);
        self.marks.begin_flush(waited_for.max(range))
    }
}
