//! Write-back of dirty blocks: neighbours together, in ascending order like a lift, a few at a time; and
//! the two flushes between a write-back and the reuse of its place.

use std::collections::BTreeSet;

use lode_types::{BlockNo, Buf, Bytes};
use slab::Slab;

use crate::blocks::{Flight, Op, Source, SsdCopy};
use crate::command::{DeviceId, MediaError};
use crate::engine::Engine;
use crate::io::{Owner, Want};

/// Jobs under way at once.
pub(crate) const MAX_JOBS: usize = 8;
/// Neighbours written back together.
pub(crate) const MAX_BLOCKS_PER_JOB: usize = 64;
/// Write-backs that are made final without anybody waiting for them.
const MANY_WRITTEN: usize = 256;

/// A block of a job, the copy that is being read, and its bytes until they are written.
#[derive(Debug)]
struct Part {
    block: BlockNo,
    source: Source,
    data: Option<Bytes>,
}

#[derive(Debug)]
struct Job {
    parts: Vec<Part>,
    reads_left: usize,
    writes_left: usize,
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
        self.waiting.insert(block);
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
}

impl Engine {
    /// Starts write-backs while there are any and not too many are under way.
    pub(crate) fn drive_destage(&mut self) {
        while self.destage.jobs.len() < MAX_JOBS && !self.destage.waiting.is_empty() {
            let run = self.destage.next_run();
            let part = |&block: &BlockNo| Part { block, source: Source::Ssd, data: None };
            let parts: Vec<_> = run.iter().map(part).collect();
            let reads_left = parts.len();
            let job = self.destage.jobs.insert(Job { parts, reads_left, writes_left: 0 });
            (0..reads_left as u32).for_each(|place| self.read_part(job, place));
            self.write_job(job);
        }
    }

    /// Reads a block of a job from the fastest of its copies. Without one the block is lost and has nothing to write.
    fn read_part(&mut self, job: usize, place: u32) {
        let part = &self.destage.jobs[job].parts[place as usize];
        let block = part.block;
        let flight = self.blocks.get(block).expect("a block is written back in flight");
        let (source, frame) = (flight.source(Source::Dram), flight.frame);
        match (source, frame) {
            (Some(Source::Dram), Some(frame)) => {
                let data = self.dram.bytes(frame).slice(..self.block_len(block));
                self.part_is_read(job, place, Some(data));
            }
            (Some(source @ (Source::ReadSsd | Source::Ssd)), _) => {
                self.destage.jobs[job].parts[place as usize].source = source;
                let (device, offset_bytes, len) = self.location(block, source);
                let owner = Owner::Destage { job, place };
                self.io.want(Want { device, offset_bytes, len, data: None, owner });
            }
            _ => {
                self.part_is_read(job, place, None);
                self.op_done(block);
            }
        }
    }

    fn part_is_read(&mut self, job: usize, place: u32, data: Option<Bytes>) {
        let entry = &mut self.destage.jobs[job];
        entry.reads_left -= 1;
        entry.parts[place as usize].data = data;
    }

    pub(crate) fn destage_io_done(
        &mut self,
        job: usize,
        place: u32,
        result: Result<(), MediaError>,
        data: Buf,
    ) {
        let Some(entry) = self.destage.jobs.get(job) else { return };
        let Part { block, source, .. } = entry.parts[place as usize];
        if entry.reads_left > 0 {
            if self.is_good(block, source, result, data.as_slice()) {
                let data = data.freeze().slice(..self.block_len(block));
                self.part_is_read(job, place, Some(data));
            } else {
                self.read_part(job, place);
            }
            self.write_job(job);
            return;
        }
        self.destage.jobs[job].writes_left -= 1;
        if self.destage.jobs[job].writes_left == 0 {
            self.destage.jobs.remove(job);
        }
        match result {
            Ok(()) if self.writes_back() => {
                let mark = self.backing.wrote_back();
                self.destage.written(block, mark);
            }
            // The copy is kept, and can be read; the next tick tries again. What queues behind a cleaning tries for
            // itself.
            _ => {
                let flight = self.blocks.get_mut(block).expect("a block is written back in flight");
                flight.backing_failed = !matches!(flight.queue.front(), Some(Op::Clean { .. }));
                self.op_done(block);
            }
        }
    }

    /// Once all blocks of a job are read, writes them; `io` merges the neighbours.
    fn write_job(&mut self, job: usize) {
        let entry = &mut self.destage.jobs[job];
        if entry.reads_left > 0 {
            return;
        }
        for (place, Part { block, data, .. }) in entry.parts.iter_mut().enumerate() {
            let Some(data) = data.take() else { continue };
            entry.writes_left += 1;
            self.io.want(Want {
                device: DeviceId::Backing,
                offset_bytes: self.config.block.start_of(*block),
                len: data.len(),
                data: Some(data),
                owner: Owner::Destage { job, place: place as u32 },
            });
        }
        if entry.writes_left == 0 {
            self.destage.jobs.remove(job);
        }
    }

    /// Whether written-back blocks should be made final now: many are, space is short, or one of them is
    /// waited for.
    pub(crate) fn destage_wants_flush(&self) -> bool {
        let written = &self.destage.written;
        let waited_for = |&(block, _): &(BlockNo, u64)| {
            let flight = self.blocks.get(block);
            let is_access = |flight: &Flight| matches!(flight.queue.front(), Some(Op::Access(_)));
            flight.is_some_and(|flight| flight.is_waited_for() || is_access(flight))
        };
        !written.is_empty()
            && (written.len() >= MANY_WRITTEN
                || self.admission_is_blocked()
                || self.copies.wants_places()
                || written.iter().any(waited_for)
                || self.drain_wants_flush())
    }

    /// Whether a batch of cleanings that is not the last one has come as far as it can without a flush.
    fn drain_wants_flush(&self) -> bool {
        if !self.drain.goes_on() {
            return false;
        }
        let is_cleaned =
            |block| self.blocks.get(block).is_some_and(|f| matches!(f.queue.front(), Some(Op::Clean { .. })));
        let cleaned = self.destage.written.iter().filter(|&&(block, _)| is_cleaned(block)).count();
        let nothing_else = self.destage.jobs.is_empty() && self.destage.waiting.is_empty();
        cleaned > 0 && (cleaned == self.drain.under_way() || nothing_else)
    }

    /// The backing disk was flushed: what it now holds for good leaves the SSD, or is clean there, as soon as the
    /// journal says so.
    pub(crate) fn finish_write_backs(&mut self) {
        let mut at = 0;
        while let Some(&(block, mark)) = self.destage.written.get(at) {
            if !self.backing.is_flushed(mark) {
                at += 1;
                continue;
            }
            self.destage.written.swap_remove(at);
            self.is_written_back(block);
        }
    }

    /// The backing disk durably holds the block at the head of whose queue a write-back is.
    fn is_written_back(&mut self, block: BlockNo) {
        let flight = self.blocks.get_mut(block).expect("a block is written back in flight");
        let place = flight.copy.place().expect("a block is written back from its place");
        let places = self.ssd.as_mut().expect("a place is on an SSD").store.places_mut();
        let stays = matches!(flight.queue.front(), Some(Op::Clean { .. })) && !flight.copy.is_lost();
        self.drain.cleaned += u64::from(stays);
        if !stays {
            flight.copy = SsdCopy::None;
        }
        if !self.health.is_well() {
            // The journal takes nothing any more.
            places.clean_unrecorded(place);
            self.op_done(block);
            return;
        }
        let version = if stays { places.clean(place) } else { places.give_up_dirty(place) };
        self.gate(version, block);
    }
}
