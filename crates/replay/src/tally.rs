//! What one VM's requests led to: counts, and the time they would have taken on modelled devices.
//!
//! Each request is timed alone, without waiting for others. A request takes as long as the slowest of its blocks. A
//! read takes as long as the copy that serves it; a write as long as the slowest place it must reach before it is
//! acknowledged, after the read that a partial write needs. Fills, evictions, write-backs and copies are background
//! work: they are counted, but neither delay a request nor move the disk's head. All of it is work for the
//! devices, see [`Tally::operations`].

use lode_hardware::{Disk, Operations, ServiceTimes};
use lode_policy::{AccessSink, CopySource, Counters, Effect, Sink};
use lode_types::{Access, BlockNo, Direction, Level};

/// Takes one VM's effects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Counts of decisions, without what stands in the next two.
    decided: Counters,
    /// Block accesses, reads first. By direction, because which of the two comes next is anyone's guess.
    accesses: [u64; 2],
    /// Requests, reads first.
    requests: [u64; 2],
    /// Of the reads, the ones with a block from the backing disk.
    read_request_misses: u64,
    /// Trims, which are not among the requests.
    pub trims: u64,
    /// Flushes, which are not among the requests.
    pub flushes: u64,
    /// Time of all requests together, in nanoseconds.
    pub latency_ns: u64,
    /// Blocks read from each level for the rest of a partial write, indexed by [`Level::index`].
    level_merges: [u64; Level::COUNT],
    /// Blocks read from each level to be copied elsewhere, indexed by [`Level::index`].
    level_copies: [u64; Level::COUNT],
    /// Blocks read from the backing disk to be copied into a level.
    backing_copies: u64,
    /// The block that left the SSD last since the access before began, if it was dirty.
    written_back: Option<BlockNo>,
    /// Of the write-backs, those read from DRAM and from the read SSD.
    dram_write_backs: u64,
    mirror_write_backs: u64,
    times: ServiceTimes,
    disk: Disk,
    /// The block that effects belong to.
    block: BlockNo,
    /// How long it takes until the rest of a partial write is there.
    merge_ns: u64,
    /// The slowest block of the request so far.
    request_ns: u64,
    /// A block of the request came from the backing disk.
    request_missed: bool,
}

impl Tally {
    /// Nothing counted yet, on devices with these service times.
    pub fn new(times: ServiceTimes) -> Tally {
        Tally { times, ..Tally::default() }
    }

    /// What the devices were asked to do, background work included. A dirty block is read to be written back: from its copy
    /// in DRAM or on the read SSD if that leaves together with it, as the engine reads it, else from the SSD. Background work
    /// of the backing disk is away from its head.
    pub fn operations(&self) -> Operations {
        let counters = &self.decided;
        let reads = |level: Level| {
            let at = level.index();
            counters.read_hits[at] + self.level_merges[at] + self.level_copies[at]
        };
        Operations {
            dram_reads: reads(Level::Dram) + self.dram_write_backs,
            dram_writes: counters.dram_writes,
            ssd_reads: reads(Level::Ssd) + counters.write_backs
                - self.dram_write_backs
                - self.mirror_write_backs,
            ssd_writes: counters.ssd_writes.total(),
            read_ssd_reads: reads(Level::ReadSsd) + self.mirror_write_backs,
            read_ssd_writes: counters.read_ssd_writes,
            backing_reads: counters.backing_reads,
            backing_writes: counters.backing_writes,
            backing_work_ns: Some(self.backing_work_ns()),
        }
    }

    /// Time that the backing disks worked, added up over them, background work included.
    pub(crate) fn backing_work_ns(&self) -> u64 {
        let copies = self.backing_copies;
        let background_ns = self.times.backing.random_work_ns(copies, self.decided.write_backs);
        self.disk.work_ns().saturating_add(background_ns)
    }

    /// Counts of decisions.
    pub fn counters(&self) -> Counters {
        let [block_reads, block_writes] = self.accesses;
        Counters { requests: self.requests.iter().sum(), block_reads, block_writes, ..self.decided }
    }

    /// Requests that were reads; the others were writes.
    pub fn read_requests(&self) -> u64 {
        self.requests[Direction::Read as usize]
    }

    /// Read requests of which no block came from the backing disk.
    pub fn read_request_hits(&self) -> u64 {
        self.read_requests() - self.read_request_misses
    }

    /// Adds another VM's counts and times, but not the work of its devices.
    pub fn add(&mut self, other: &Tally) {
        self.decided.add(&other.decided);
        for op in [Direction::Read, Direction::Write] {
            self.accesses[op as usize] += other.accesses[op as usize];
            self.requests[op as usize] += other.requests[op as usize];
        }
        self.read_request_misses += other.read_request_misses;
        self.trims += other.trims;
        self.flushes += other.flushes;
        self.latency_ns = self.latency_ns.saturating_add(other.latency_ns);
    }

    /// Mean time of a request; `None` without requests.
    pub fn mean_latency_us(&self) -> Option<f64> {
        let requests = self.counters().requests;
        (requests > 0).then(|| self.latency_ns as f64 / requests as f64 / 1000.0)
    }
}

impl AccessSink for Tally {
    #[inline]
    fn begin_access(&mut self, access: &Access) {
        self.accesses[access.op as usize] += 1;
        self.block = access.block;
        self.merge_ns = 0;
        self.written_back = None;
    }

    #[inline]
    fn end_request(&mut self, op: Direction) {
        self.requests[op as usize] += 1;
        self.latency_ns = self.latency_ns.saturating_add(std::mem::take(&mut self.request_ns));
        self.read_request_misses += u64::from(std::mem::take(&mut self.request_missed));
    }
}

impl Tally {
    /// A place that the block must reach takes so long, once the rest of a partial write is there.
    #[inline(always)]
    fn written_after(&mut self, ns: u64) {
        self.request_ns = self.request_ns.max(self.merge_ns.saturating_add(ns));
    }
}

impl Sink for Tally {
    // Where the effect is known, which is everywhere in the schemes, all but one arm disappear; out of line, the
    // choice between them is a jump that the processor guesses wrong more often than not.
    #[inline(always)]
    fn effect(&mut self, effect: Effect) {
        self.decided.effect(&effect);
        match effect {
            Effect::ReadLevel { level, .. } => {
                self.request_ns = self.request_ns.max(self.times.level_read_ns(level))
            }
            Effect::ReadBacking => {
                let ns = self.disk.read_ns(self.block, &self.times.backing);
                self.request_ns = self.request_ns.max(ns);
                self.request_missed = true;
            }
            Effect::WriteLevel { level, .. } => self.written_after(self.times.level_write_ns(level)),
            Effect::WriteBacking => {
                let ns = self.disk.write_ns(self.block, &self.times.backing);
                self.written_after(ns);
            }
            Effect::MergeLevel { level, .. } => {
                self.merge_ns = self.times.level_read_ns(level);
                self.level_merges[level.index()] += 1;
            }
            Effect::MergeBacking => {
                self.merge_ns = self.disk.read_ns(self.block, &self.times.backing);
            }
            Effect::Copy { from: CopySource::Level { level, .. }, .. } => {
                self.level_copies[level.index()] += 1
            }
            Effect::Copy { from: CopySource::Backing, .. } => self.backing_copies += 1,
            Effect::Evict { level: Level::Ssd, block, dirty, .. } => {
                self.written_back = dirty.then_some(block)
            }
            Effect::Evict { level: Level::ReadSsd, block, .. } => {
                self.mirror_write_backs += u64::from(self.written_back.take() == Some(block));
            }
            Effect::Evict { level: Level::Dram, block, .. } => {
                self.dram_write_backs += u64::from(self.written_back.take() == Some(block));
            }
            Effect::Fill { .. } | Effect::Invalidate { .. } | Effect::Clean { .. } => {}
        }
    }
}
