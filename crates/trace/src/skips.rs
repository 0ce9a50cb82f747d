//! The account of everything in a trace that did not become a request. It must not decide anything.

use crate::error::{ErrorKind, Fault, Position};
use crate::limits::MAX_SKIP_POSITIONS;

/// Bad records of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedKind {
    /// Why they were skipped.
    pub kind: ErrorKind,
    /// How many: lines, records, or blocks when a whole block of the compact format is lost.
    pub count: u64,
    /// The first [`MAX_SKIP_POSITIONS`] of them: where, and what was expected there.
    pub first: Vec<(Position, &'static str)>,
}

/// What was skipped while reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skips {
    /// Well-formed commands that are neither read, write, trim nor flush (SCSI inquiries and such).
    pub other_commands: u64,
    /// Bad records by kind, in order of first appearance; stays empty unless errors are skipped.
    pub faults: Vec<SkippedKind>,
}

impl Skips {
    pub(crate) fn record(&mut self, fault: Fault, position: Position) {
        let index = match self.faults.iter().position(|known| known.kind == fault.kind) {
            Some(index) => index,
            None => {
                self.faults.push(SkippedKind { kind: fault.kind, count: 0, first: Vec::new() });
                self.faults.len() - 1
            }
        };
        let known = &mut self.faults[index];
        known.count += 1;
        if known.first.len() < MAX_SKIP_POSITIONS {
            known.first.push((position, fault.expected));
        }
    }
}
