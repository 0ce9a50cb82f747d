//! What the generators share: programs that go round and round, a file system's journal, and the kernel's writer of dirty
//! pages.

use std::collections::VecDeque;

use lode_policy::criticality::{EventId, LockId};
use lode_types::{BlockNo, Rng};

use crate::pages::{PageCache, Shared};
use crate::script::{DataKind, IoTarget, Mode, Primitive, Program, Step, WriteOp};

/// A program that fills its list of operations anew whenever it is empty.
pub(crate) struct Rounds<F> {
    ops: VecDeque<Step>,
    rng: Rng,
    round: u64,
    fill: F,
}

impl<F: FnMut(u64, &mut Rng, &mut VecDeque<Step>) + 'static> Rounds<F> {
    /// `fill` gets the number of the round, and gives at least one operation.
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

/// The mean, or less or more by up to so many per cent of it, at most 100.
pub(crate) fn about_ns(mean_us: u64, spread_percent: u64, rng: &mut Rng) -> u64 {
    mean_us * 10 * (100 - spread_percent) + rng.below(mean_us * 20 * spread_percent + 1)
}

/// Time on a processor, in microseconds.
pub(crate) fn cpu_us(us: u64) -> Step {
    Step::Cpu { ns: us * 1000 }
}

/// Time without one.
pub(crate) fn sleep_us(us: u64) -> Step {
    Step::Sleep { ns: us * 1000 }
}

/// One block of a file's data.
pub(crate) fn page_write(tag: Option<u32>, page: BlockNo, sync: bool) -> Step {
    Step::Write(WriteOp { tag, first_block: page, blocks: 1, sync, waits: false, data: DataKind::Db })
}

/// A file system's journal, like ext4's with jbd2 in ordered mode. It has buffers of metadata, numbered from 0: those of
/// files' inodes, and that of the map of free blocks.
#[derive(Clone, Copy)]
pub(crate) struct Journal {
    /// Held shared while something is changed in the transaction, alone while it is closed.
    pub transaction: LockId,
    /// Asks for a commit.
    pub commit: EventId,
    /// Buffers of metadata.
    pub buffers: u32,
    /// Writes of a buffer to the journal have the tags from here on, then follow those of its writes to its place.
    pub first_tag: u32,
    /// Where the journal lies, and how long it is. Then come the places of the buffers.
    pub first_block: BlockNo,
    /// Blocks of it.
    pub blocks: u64,
    /// Data that must be on the disk before the commit, if any.
    pub ordered_tag: Option<u32>,
    /// Processor time in which a buffer is changed.
    pub change_cpu_us: u64,
    /// Processor time in which a transaction is closed.
    pub close_cpu_us: u64,
}

impl Journal {
    /// Blocks of the journal that a commit takes: a descriptor, the buffers and the commit record.
    pub fn commit_blocks(buffers: u64) -> u64 {
        buffers + 2
    }

    /// Tags from the first on that it uses.
    pub fn tags(buffers: u32) -> u32 {
        2 * buffers
    }

    /// The journal's own process: it closes the transaction, waits for the data that it orders, writes the changed buffers
    /// to the journal, which nobody may change meanwhile, and the commit record; then who asked goes on.
    pub fn program(self, rng: Rng) -> Box<dyn Program> {
        let length = Journal::commit_blocks(u64::from(self.buffers));
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
            ops.push_back(cpu_us(self.close_cpu_us));
            ops.push_back(Step::Unlock { lock: self.transaction });
            if let Some(tag) = self.ordered_tag {
                ops.push_back(Step::WaitIo { target: IoTarget::Tag(tag), primitive: Primitive::LockPage });
            }
            ops.push_back(write(None, 0, false));
            ops.extend(
                (0..self.buffers)
                    .map(|buffer| write(Some(self.first_tag + buffer), 1 + u64::from(buffer), false)),
            );
            ops.push_back(Step::Fsync);
            ops.push_back(write(None, length - 1, true));
            ops.push_back(Step::Deliver { event: self.commit });
        })
    }

    /// Asks for a commit every so often.
    pub fn timer(self, interval_us: u64, rng: Rng) -> Box<dyn Program> {
        Rounds::boxed(rng, move |_, _, ops| {
            ops.extend([sleep_us(interval_us), Step::Call { event: self.commit }]);
        })
    }

    /// Changes a buffer in a transaction of its own, as a write to a file does with its inode.
    pub fn change(self, buffer: u32, ops: &mut VecDeque<Step>) {
        ops.push_back(Step::Lock { lock: self.transaction, mode: Mode::Read });
        self.change_within(buffer, ops);
        ops.push_back(Step::Unlock { lock: self.transaction });
    }

    /// Changes a buffer in the transaction that the process is part of: when nobody writes it to its place, nor to the
    /// journal.
    pub fn change_within(self, buffer: u32, ops: &mut VecDeque<Step>) {
        let (shadow, in_place) = (self.first_tag + buffer, self.first_tag + self.buffers + buffer);
        ops.extend([
            Step::WaitIo { target: IoTarget::Tag(in_place), primitive: Primitive::LockBuffer },
            Step::WaitIo { target: IoTarget::Tag(shadow), primitive: Primitive::ShadowBuffer },
            cpu_us(self.change_cpu_us),
        ]);
    }

    /// Writes all buffers to their places; nobody waits.
    fn write_in_place(self, ops: &mut VecDeque<Step>) {
        ops.extend((0..self.buffers).map(|buffer| {
            Step::Write(WriteOp {
                tag: Some(self.first_tag + self.buffers + buffer),
                first_block: self.first_block + self.blocks + u64::from(buffer),
                blocks: 1,
                sync: false,
                waits: false,
                data: DataKind::Metadata,
            })
        }));
    }
}

/// How the kernel's writer goes about it.
#[derive(Clone, Copy)]
pub(crate) struct Writeback {
    /// It looks every so often.
    pub interval_us: u64,
    /// It writes what has been dirty for so many rounds.
    pub old_rounds: u64,
    /// Requests that a queue of the kernel takes at most.
    pub depth: usize,
    /// Pages of a file that it writes in one transaction.
    pub transaction_pages: usize,
}

impl Writeback {
    /// The kernel's writer of files' pages, each of which has an inode buffer of its number, a semaphore of its blocks from
    /// `first_data_sem` on, and blocks that are given to it in the buffer `free_map`. While it hands pages to the disk's
    /// queue it is part of a transaction (ext4 in Linux 3.12), however long the queue is full.
    pub fn program(
        self,
        cache: Shared<PageCache>,
        journal: Journal,
        first_data_sem: LockId,
        free_map: u32,
        rng: Rng,
    ) -> Box<dyn Program> {
        Rounds::boxed(rng, move |round, _, ops| {
            // Every other round only sleeps, so that pages are looked for when it is over.
            if round.is_multiple_of(2) {
                ops.push_back(sleep_us(self.interval_us));
                return;
            }
            if (round / 2).is_multiple_of(self.old_rounds.max(1)) {
                journal.write_in_place(ops);
            }
            for (file, pages) in cache.borrow_mut().take_old(self.old_rounds).into_iter().enumerate() {
                for part in pages.chunks(self.transaction_pages) {
                    self.write_pages(part, file as u32, journal, first_data_sem, free_map, ops);
                }
            }
            ops.push_back(Step::Fsync);
        })
    }

    fn write_pages(
        self,
        pages: &[BlockNo],
        file: u32,
        journal: Journal,
        first_data_sem: LockId,
        free_map: u32,
        ops: &mut VecDeque<Step>,
    ) {
        ops.push_back(Step::Lock { lock: journal.transaction, mode: Mode::Read });
        journal.change_within(file, ops);
        ops.push_back(Step::Lock { lock: first_data_sem + file, mode: Mode::Write });
        journal.change_within(free_map, ops);
        ops.push_back(Step::Unlock { lock: first_data_sem + file });
        for queue in pages.chunks(self.depth) {
            ops.extend(queue.iter().map(|&page| page_write(journal.ordered_tag, page, false)));
            ops.push_back(Step::Fsync);
        }
        ops.push_back(Step::Unlock { lock: journal.transaction });
    }
}
