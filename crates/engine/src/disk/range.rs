//! Trims and write-zeroes: one at a time, holding every block of the range that is cached or in flight.
//!
//! Clean copies are durably given up before the backing disk is touched and dirty ones after it durably
//! has the zeroes, so that a power cut finds either the old content or the new one. Where the disk is written in groups it is *noted*
//! beside it while it may not be durable, so that starts can make it so although a flush has failed. It must not know blocks in
//! flight or devices: whoever does asks it what is next.

use std::ops::Range;

use lode_types::{BlockNo, CommandKind, Counter, planted};

use crate::guest::GuestOp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Operations that came before are still under way on some of the blocks.
    Gather,
    /// The loss of the clean copies is to become durable.
    Forget(u64),
    /// It is being noted.
    Note,
    /// The backing disk is at it.
    Device,
    /// The backing disk's part is to become durable.
    Flush(u64),
    /// The loss of the dirty copies is to become durable.
    Free(u64),
    /// It is durable, and noted no more.
    Unnote,
}

/// What becomes of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeKind {
    /// The bytes are no longer needed.
    Trim,
    /// They read back as zeroes, and with `unmap` the disk may give their space back.
    Zero { unmap: bool },
}

impl RangeKind {
    /// Whether what was there must not be seen again.
    pub(crate) fn is_zero(self) -> bool {
        self != RangeKind::Trim
    }

    /// What the backing disk is asked to do.
    fn command(self, offset_bytes: u64, length_bytes: u64) -> CommandKind {
        match self {
            RangeKind::Trim => CommandKind::Trim { offset_bytes, length_bytes },
            RangeKind::Zero { unmap } => CommandKind::WriteZeroes { offset_bytes, length_bytes, unmap },
        }
    }
}

impl From<&GuestOp> for RangeKind {
    /// Of what is no zeroing, a trim.
    fn from(op: &GuestOp) -> RangeKind {
        match *op {
            GuestOp::WriteZeroes { unmap, .. } => RangeKind::Zero { unmap },
            _ => RangeKind::Trim,
        }
    }
}

/// The range operation under way.
#[derive(Debug)]
pub(crate) struct RangeOp {
    request: usize,
    blocks: Range<BlockNo>,
    kind: RangeKind,
    /// The blocks of the range that were known when it began.
    held: Vec<BlockNo>,
    holds_left: usize,
    /// It cannot be carried out, and ends when it has hold of its blocks.
    is_refused: bool,
    is_to_be_noted: bool,
    step: Step,
}

/// What is to be done for the range operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeNext {
    /// Nothing now.
    Wait,
    /// What is to be noted is written ([`Disk::ranges_to_note`](super::Disk::ranges_to_note)).
    Note,
    /// The backing disk does its part.
    Device,
    /// It is over.
    Done,
    /// It is over, and failed.
    Failed,
}

impl RangeOp {
    pub(crate) fn new(
        request: usize,
        blocks: Range<BlockNo>,
        kind: RangeKind,
        held: Vec<BlockNo>,
        is_to_be_noted: bool,
    ) -> RangeOp {
        let (holds_left, is_refused, step) = (held.len(), false, Step::Gather);
        RangeOp { request, blocks, kind, held, holds_left, is_refused, is_to_be_noted, step }
    }

    /// The guest's request that it is a part of.
    pub(crate) fn request(&self) -> usize {
        self.request
    }

    pub(crate) fn blocks(&self) -> &Range<BlockNo> {
        &self.blocks
    }

    /// The blocks of the range that were known when it began.
    pub(crate) fn held(&self) -> &[BlockNo] {
        &self.held
    }

    /// What the backing disk is asked to do with the bytes of the blocks.
    pub(crate) fn command(&self, bytes: Range<u64>) -> CommandKind {
        self.kind.command(bytes.start, bytes.end - bytes.start)
    }

    /// The backing mark that it waits for; 0 if it does not.
    pub(crate) fn mark_waited_for(&self) -> u64 {
        if let Step::Flush(mark) = self.step { mark } else { 0 }
    }

    /// The version that it waits for; 0 if it does not.
    pub(crate) fn version_waited_for(&self) -> u64 {
        if let Step::Forget(version) | Step::Free(version) = self.step { version } else { 0 }
    }

    /// Whether the backing disk was asked for it, so that it may hold a part of it.
    pub(crate) fn has_reached_disk(&self) -> bool {
        !matches!(self.step, Step::Gather | Step::Forget(_) | Step::Note)
    }

    /// Whether it is being noted.
    pub(crate) fn is_being_noted(&self) -> bool {
        self.step == Step::Note
    }

    /// It cannot be carried out, unless it has begun.
    pub(crate) fn refuse(&mut self) {
        self.is_refused = true;
    }

    /// Whether it cannot be.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// One of its blocks has no operation before it any more.
    pub(crate) fn holds_one_more(&mut self) {
        self.holds_left.count_down();
    }

    /// When it has hold of all of its blocks, their clean copies are given up, which the journal knows from `version` on. After a failure it
    /// is not carried out: what the disk makes stale could not be given up for good, what had been dirty and was written back since above all.
    pub(crate) fn gathered(&mut self, version: u64, durable: u64, is_well: bool) -> RangeNext {
        if self.step != Step::Gather || self.holds_left > 0 {
            return RangeNext::Wait;
        }
        if self.is_refused || (!is_well && !planted("zeroes-after-failure")) {
            return RangeNext::Failed;
        }
        self.step = Step::Forget(if planted("zeroes-before-give-up") { 0 } else { version });
        self.journal_durable(durable)
    }

    /// The journal is durable up to `version`.
    pub(crate) fn journal_durable(&mut self, version: u64) -> RangeNext {
        match self.step {
            Step::Forget(at) if at <= version && self.is_to_be_noted && !planted("zeroing-not-noted") => {
                self.step = Step::Note;
                RangeNext::Note
            }
            Step::Forget(at) if at <= version => {
                self.step = Step::Device;
                RangeNext::Device
            }
            Step::Free(at) if at <= version && self.is_to_be_noted => {
                self.step = Step::Unnote;
                RangeNext::Note
            }
            Step::Free(at) if at <= version => RangeNext::Done,
            _ => RangeNext::Wait,
        }
    }

    /// What was to be noted is, or could not be: then the disk is not asked. That it stays noted longer than it has to be harms nobody.
    pub(crate) fn noted(&mut self, ok: bool) -> RangeNext {
        match (self.step, ok) {
            (Step::Note, true) => {
                self.step = Step::Device;
                RangeNext::Device
            }
            (Step::Note, false) => RangeNext::Failed,
            _ => RangeNext::Done,
        }
    }

    /// The backing disk has done its part, which is durable when it is flushed up to `mark`; that is waited for where the SSD
    /// holds dirty copies.
    pub(crate) fn device_done(&mut self, ok: bool, mark: u64, holds_dirty: bool, is_well: bool) -> RangeNext {
        assert_eq!(self.step, Step::Device, "the backing disk was asked");
        self.step = Step::Flush(mark);
        match (ok, holds_dirty) {
            (false, _) => RangeNext::Failed,
            (true, true) if !is_well => RangeNext::Failed,
            (true, true) if !planted("zeroes-leave-dirty-copies") => RangeNext::Wait,
            (true, _) => RangeNext::Done,
        }
    }

    /// Whether the backing disk, flushed up to this mark, durably has its part.
    pub(crate) fn is_flushed(&self, mark: u64) -> bool {
        matches!(self.step, Step::Flush(at) if at <= mark)
    }

    /// The dirty copies are given up, which the journal knows from `version` on.
    pub(crate) fn freed(&mut self, version: u64) {
        assert!(matches!(self.step, Step::Flush(_)), "the disk has the zeroes first");
        self.step = Step::Free(version);
    }

    /// Nothing will become durable any more.
    pub(crate) fn never_durable(&self) -> RangeNext {
        match self.step {
            Step::Forget(_) | Step::Flush(_) | Step::Free(_) => RangeNext::Failed,
            Step::Gather | Step::Note | Step::Device | Step::Unnote => RangeNext::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a failure the journal takes nothing any more: a dirty copy that was written back since would come back with the next start.
    #[test]
    fn g10_nothing_is_zeroed_after_a_failure() {
        let zeroing = || RangeOp::new(0, 3..5, RangeKind::Zero { unmap: true }, Vec::new(), false);
        assert_eq!(zeroing().gathered(7, 7, true), RangeNext::Device);
        assert_eq!(zeroing().gathered(7, 6, true), RangeNext::Wait, "what is given up is not durable");
        assert_eq!(zeroing().gathered(7, 7, false), RangeNext::Failed);
    }
}
