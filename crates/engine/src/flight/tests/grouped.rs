//! A block of a disk that is written in groups alone: its bytes are captured in their turn, and come to the disk later.

use super::*;

/// A group as far as the block is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct OneGroup {
    /// Writes that were submitted before the cut.
    pub(super) submitted: Value,
    pub(super) value: Option<Value>,
    pub(super) is_captured: bool,
}

/// What there is where the disk is written in groups.
const ORDERED_ASKS: [Ask; 11] = [
    Ask::Read { fill_ssd: false, fill_frame: false },
    Ask::Read { fill_ssd: true, fill_frame: false },
    Ask::Read { fill_ssd: false, fill_frame: true },
    Ask::WriteBack { partial: false, frame: false },
    Ask::WriteBack { partial: true, frame: true },
    Ask::EvictSsd,
    Ask::EvictDram,
    Ask::Mirror,
    Ask::Move,
    Ask::Scrub,
    Ask::Capture,
];

impl Model {
    /// A cut is made after so many writes.
    pub(super) fn begin_group(&mut self, submitted: Value) -> BlockOp {
        self.group = Some(OneGroup { submitted, value: None, is_captured: false });
        BlockOp::Capture
    }

    /// When the journal knows its copies, or none is believed any more. A copy that was written since the cut stays dirty.
    pub(super) fn group_comes_to_disk(&mut self) -> bool {
        let Some(OneGroup { submitted, value, is_captured: true }) = self.group else { return false };
        let is_settling = self.flight.queue.contains(&BlockOp::Settle);
        let may_begin = if self.well { self.durable + 1 == self.records.len() } else { self.fenced };
        let Some(value) = value.filter(|_| !is_settling && may_begin) else {
            let is_over = value.is_none();
            self.group = self.group.filter(|_| !is_over);
            return is_over;
        };
        self.disk = vec![value];
        if submitted as usize == self.writes.len() {
            if self.flight.push(BlockOp::Settle) {
                self.happen(Input::Proceed);
            }
        } else {
            self.group = None;
        }
        true
    }
}

#[test]
fn g11_every_sequence_of_events_of_one_block_of_a_group() {
    let states = explore(9, 4, 1, &ORDERED_ASKS);
    println!("{states} states");
    assert!(states > 50_000, "{states}");
}
