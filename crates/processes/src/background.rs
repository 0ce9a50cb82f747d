//! What the generators share: programs that go round and round, and the kernel's journal and its timer.

use std::collections::VecDeque;

use lode_policy::request_oriented::{EventId, LockId};
use lode_types::{BlockNo, Rng};

use crate::script::{DataKind, IoTarget, Mode, Primitive, Program, Step, WriteOp};

/// A program that fills its list of operations anew whenever it is empty.
pub(crate) struct Rounds<F> {
    ops: VecDeque<Step>,
    rng: Rng,
    round: u64,
    fill: F,
}

impl<F: FnMut(u64, &mut Rng, &mut VecDeque<Step>) + 'static> Rounds<F> {
    /// `fill` gets the number of the round.
    pub fn boxed(rng: Rng, fill: F) -> Box<dyn Program> {
        Box::new(Rounds { ops: VecDeque::new(), rng, round: 0, fill })
    }
}

impl<F: FnMut(u64, &mut Rng, &mut VecDeque<Step>)> Program for Rounds<F> {
    fn next(&mut self) -> Option<Step> {
        if self.ops.is_empty() {
            (self.fill)(self.round, &mut self.rng, &mut self.ops);
            self.round += 1;
        }
        self.ops.pop_front()
    }
}

/// Between half of the mean and one and a half.
pub(crate) fn about_ns(mean_us: u64, rng: &mut Rng) -> u64 {
    mean_us * 500 + rng.below(mean_us * 1000 + 1)
}

/// Nanoseconds of microseconds, as processor time.
pub(crate) fn cpu_us(us: u64) -> Step {
    Step::Cpu { ns: us * 1000 }
}

/// A file system's journal, like ext4's with jbd2 in ordered mode.
#[derive(Clone, Copy)]
pub(crate) struct Journal {
    /// Held shared while something is changed in the transaction, alone while it is closed.
    pub transaction: LockId,
    /// Asks for a commit.
    pub commit: EventId,
    /// Files have inode buffers with the tags from 0 to below this.
    pub files: u32,
    /// Where the journal lies, and how long it is.
    pub first_block: BlockNo,
    /// Blocks of it.
    pub blocks: u64,
    /// Data that must be on the disk before the commit, if any.
    pub ordered_tag: Option<u32>,
}

impl Journal {
    /// The journal's own process: it closes the transaction, waits for the data that it orders, writes the changed buffers
    /// to the journal, which nobody may change meanwhile, and the commit record; then who asked goes on.
    pub fn program(self, rng: Rng) -> Box<dyn Program> {
        // A buffer of each file, a descriptor and the commit record.
        let length = u64::from(self.files) + 2;
        Rounds::boxed(rng, move |round, _, ops| {
            let first = self.first_block + round * length % (self.blocks / length * length);
            let write = |tag, at: u64, waits| {
                Step::Write(WriteOp {
                    tag,
                    first_block: first + at,
                    blocks: 1,
                    sync: true,
                    waits,
                    data: DataKind::Journal,
                })
            };
            ops.push_back(Step::Collect { event: self.commit });
            ops.push_back(Step::Lock { lock: self.transaction, mode: Mode::Write });
            ops.push_back(cpu_us(20));
            ops.push_back(Step::Unlock { lock: self.transaction });
            if let Some(tag) = self.ordered_tag {
                ops.push_back(Step::WaitIo { target: IoTarget::Tag(tag), primitive: Primitive::LockPage });
            }
            ops.push_back(write(None, 0, false));
            ops.extend((0..self.files).map(|file| write(Some(file), 1 + u64::from(file), false)));
            ops.push_back(Step::Fsync);
            ops.push_back(write(None, length - 1, true));
            ops.push_back(Step::Deliver { event: self.commit });
        })
    }

    /// Asks for a commit every so often.
    pub fn timer(self, interval_us: u64, rng: Rng) -> Box<dyn Program> {
        Rounds::boxed(rng, move |_, _, ops| {
            ops.extend([cpu_us(interval_us), Step::Call { event: self.commit }]);
        })
    }

    /// Changes a file's inode buffer, as a write to the file does.
    pub fn change(self, file: u32, ops: &mut VecDeque<Step>) {
        ops.extend([
            Step::Lock { lock: self.transaction, mode: Mode::Read },
            Step::WaitIo { target: IoTarget::Tag(file), primitive: Primitive::ShadowBuffer },
            cpu_us(5),
            Step::Unlock { lock: self.transaction },
        ]);
    }
}
