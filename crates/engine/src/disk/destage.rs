//! Write-back of dirty blocks: neighbours together, in ascending order (an elevator), a few at a time; and which of them a flush
//! of the backing disk has yet to cover. It must not know where bytes come from or go.

use std::collections::BTreeSet;

use lode_types::{BlockNo, Bytes, Counter, planted};
use slab::Slab;

use crate::flight::CopyAt;

/// Jobs under way at once.
pub(crate) const MAX_JOBS: usize = 8;
/// Neighbours written back together.
pub(crate) const MAX_BLOCKS_PER_JOB: usize = 64;
/// Write-backs that are made final without anybody waiting for them.
const MANY_WRITTEN: usize = 256;

/// A block of a job, the copy that is being read, and its bytes until they are written.
#[derive(Debug)]
struct JobBlock {
    block: BlockNo,
    copy: CopyAt,
    data: Option<Bytes>,
}

#[derive(Debug)]
struct Job {
    blocks: Vec<JobBlock>,
    reads_left: usize,
    writes_left: usize,
}

/// One block of a job, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobBlockId {
    job: usize,
    number: u32,
}

/// Blocks on their way to the backing disk.
#[derive(Debug, Default)]
pub(crate) struct Destage {
    waiting: BTreeSet<BlockNo>,
    cursor: BlockNo,
    jobs: Slab<Job>,
    /// Written back, and the mark that a flush must reach to make it last.
    written: Vec<(BlockNo, u64)>,
}

impl Destage {
    pub(crate) fn add(&mut self, block: BlockNo) {
        let is_new = self.waiting.insert(block);
        assert!(is_new, "block {block} waits to be written back already");
    }

    pub(crate) fn waiting(&self) -> u32 {
        (self.waiting.len() + self.written.len()) as u32
    }

    /// The backing disk holds this block; at this mark it does so durably.
    pub(crate) fn written(&mut self, block: BlockNo, mark: u64) {
        self.written.push((block, mark));
    }

    /// Blocks whose write-back does not start, or whose end is not waited for any more.
    pub(crate) fn give_up(&mut self) -> Vec<BlockNo> {
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        waiting.chain(self.written.drain(..).map(|(block, _)| block)).collect()
    }

    /// The next run of neighbours at or after the cursor.
    fn next_run(&mut self) -> Vec<BlockNo> {
        let mut run: Vec<BlockNo> = Vec::new();
        if self.waiting.range(self.cursor..).next().is_none() {
            self.cursor = 0;
        }
        for &block in self.waiting.range(self.cursor..) {
            let joins = run.last().is_none_or(|&last| last + 1 == block) && run.len() < MAX_BLOCKS_PER_JOB;
            if !joins {
                break;
            }
            run.push(block);
        }
        for block in &run {
            self.waiting.remove(block);
        }
        self.cursor = run.last().map_or(0, |last| last.wrapping_add(1));
        run
    }

    /// Begins a job, if there is anything to do and fewer than `most_jobs` are under way: its blocks are to be read.
    pub(crate) fn begin_job(&mut self, most_jobs: usize) -> Option<Vec<(JobBlockId, BlockNo)>> {
        if self.jobs.len() >= most_jobs || self.waiting.is_empty() {
            return None;
        }
        let run = self.next_run();
        let block = |&block: &BlockNo| JobBlock { block, copy: CopyAt::Ssd, data: None };
        let blocks: Vec<JobBlock> = run.iter().map(block).collect();
        let job = self.jobs.insert(Job { reads_left: blocks.len(), blocks, writes_left: 0 });
        Some((0..).zip(run).map(|(number, block)| (JobBlockId { job, number }, block)).collect())
    }

    fn block(&mut self, at: JobBlockId) -> &mut JobBlock {
        &mut self.jobs[at.job].blocks[at.number as usize]
    }

    /// The block is read from this copy.
    pub(crate) fn reads_from(&mut self, at: JobBlockId, copy: CopyAt) {
        self.block(at).copy = copy;
    }

    /// A command for a block of a job has ended: the block, and the copy that was read, if it was a read.
    pub(crate) fn command_ended(&self, at: JobBlockId) -> Option<(BlockNo, Option<CopyAt>)> {
        let job = self.jobs.get(at.job)?;
        let block = &job.blocks[at.number as usize];
        Some((block.block, (job.reads_left > 0).then_some(block.copy)))
    }

    /// The bytes of a block are there, or there are none that could be written. When all of the job are there: those to be
    /// written.
    pub(crate) fn was_read(
        &mut self,
        at: JobBlockId,
        data: Option<Bytes>,
    ) -> Vec<(JobBlockId, BlockNo, Bytes)> {
        self.block(at).data = data;
        let job = &mut self.jobs[at.job];
        job.reads_left.count_down();
        if job.reads_left > 0 {
            return Vec::new();
        }
        let blocks = (0..).zip(&mut job.blocks);
        let due: Vec<_> = blocks
            .filter_map(|(number, block)| {
                Some((JobBlockId { number, ..at }, block.block, block.data.take()?))
            })
            .collect();
        job.writes_left = due.len();
        if due.is_empty() {
            self.jobs.remove(at.job);
        }
        due
    }

    /// A block of a job was written, or could not be.
    pub(crate) fn was_written(&mut self, at: JobBlockId) {
        let job = &mut self.jobs[at.job];
        job.writes_left.count_down();
        if job.writes_left == 0 {
            self.jobs.remove(at.job);
        }
    }

    /// Whether no block is on its way to the disk or waits for its turn.
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.waiting.is_empty()
    }

    /// Blocks that the disk has, and does not have durably yet.
    pub(crate) fn unflushed(&self) -> impl ExactSizeIterator<Item = BlockNo> {
        self.written.iter().map(|&(block, _)| block)
    }

    /// Whether so many were written back that they are made final without anybody waiting for it.
    pub(crate) fn has_many_unflushed(&self) -> bool {
        self.written.len() >= MANY_WRITTEN
    }

    /// Takes the blocks that the disk has durably up to this mark.
    pub(crate) fn take_flushed(&mut self, mark: u64) -> Vec<BlockNo> {
        let (mut at, mut flushed) = (0, Vec::new());
        while let Some(&(block, written)) = self.written.get(at) {
            if written <= mark || planted("written-back-before-flush") {
                self.written.swap_remove(at);
                flushed.push(block);
            } else {
                at += 1;
            }
        }
        flushed
    }
}
