//! Counts of decisions. Replay, simulation and daemon count with this one type, so that they can be
//! held equal.

use lode_types::{Access, AccessOp, Level};

use crate::effect::Effect;

/// Data blocks written into the SSD, by cause. Metadata is not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SsdWrites {
    /// Copies of blocks that a read miss fetched.
    pub fill: u64,
    /// Guest writes, hits and allocations alike.
    pub write: u64,
    /// Copies of popular blocks made in the background.
    pub promotion: u64,
    /// Blocks moved from another level.
    pub moved: u64,
}

impl SsdWrites {
    /// All causes together.
    pub fn total(&self) -> u64 {
        self.fill + self.write + self.promotion + self.moved
    }
}

/// What one VM's requests led to. All in blocks, except `requests`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Guest requests (reads and writes).
    pub requests: u64,
    /// Block accesses that were reads.
    pub block_reads: u64,
    /// Block accesses that were writes.
    pub block_writes: u64,
    /// Reads served by each level, indexed by [`Level::index`].
    pub read_hits: [u64; 2],
    /// Reads served by the backing disk.
    pub read_misses: u64,
    /// Writes to a block that the SSD held and kept.
    pub write_hits_ssd: u64,
    /// SSD writes by cause.
    pub ssd_writes: SsdWrites,
    /// Blocks put into DRAM.
    pub dram_writes: u64,
    /// Blocks read from the backing disk for reads, merges and promotions.
    pub backing_reads: u64,
    /// Blocks written to the backing disk by writes and write-backs.
    pub backing_writes: u64,
    /// Of `backing_writes`, those that evictions caused.
    pub write_backs: u64,
    /// Blocks evicted from each level.
    pub evictions: [u64; 2],
}

impl Counters {
    /// Block accesses, reads and writes.
    pub fn block_accesses(&self) -> u64 {
        self.block_reads + self.block_writes
    }

    /// Notes the access itself; its effects are counted one by one.
    #[inline]
    pub fn access(&mut self, access: &Access) {
        match access.op {
            AccessOp::Read => self.block_reads += 1,
            AccessOp::Write => self.block_writes += 1,
        }
    }

    /// Counts one effect.
    #[inline(always)]
    pub fn effect(&mut self, effect: &Effect) {
        match *effect {
            Effect::ReadLevel { level, .. } => self.read_hits[level.index()] += 1,
            Effect::ReadBacking => {
                self.read_misses += 1;
                self.backing_reads += 1;
            }
            Effect::Fill { level: Level::Dram, .. } => self.dram_writes += 1,
            Effect::Fill { level: Level::Ssd, .. } => self.ssd_writes.fill += 1,
            Effect::WriteLevel { level: Level::Ssd, hit, .. } => {
                self.ssd_writes.write += 1;
                self.write_hits_ssd += u64::from(hit);
            }
            Effect::WriteLevel { level: Level::Dram, .. } => self.dram_writes += 1,
            Effect::WriteBacking => self.backing_writes += 1,
            Effect::MergeLevel { .. } | Effect::Invalidate { .. } => {}
            Effect::MergeBacking => self.backing_reads += 1,
            Effect::Evict { level, dirty, .. } => {
                self.evictions[level.index()] += 1;
                self.write_backs += u64::from(dirty);
                self.backing_writes += u64::from(dirty);
            }
            Effect::Promote { from_dram, .. } => {
                self.ssd_writes.promotion += 1;
                self.backing_reads += u64::from(from_dram.is_none());
            }
        }
    }

    /// Adds another VM's counts.
    pub fn add(&mut self, other: &Counters) {
        self.requests += other.requests;
        self.block_reads += other.block_reads;
        self.block_writes += other.block_writes;
        for level in Level::ALL {
            self.read_hits[level.index()] += other.read_hits[level.index()];
            self.evictions[level.index()] += other.evictions[level.index()];
        }
        self.read_misses += other.read_misses;
        self.write_hits_ssd += other.write_hits_ssd;
        self.ssd_writes.fill += other.ssd_writes.fill;
        self.ssd_writes.write += other.ssd_writes.write;
        self.ssd_writes.promotion += other.ssd_writes.promotion;
        self.ssd_writes.moved += other.ssd_writes.moved;
        self.dram_writes += other.dram_writes;
        self.backing_reads += other.backing_reads;
        self.backing_writes += other.backing_writes;
        self.write_backs += other.write_backs;
    }

    /// SSD writes per block that the guests wrote (TICA Eq. 1); `None` without guest writes.
    pub fn cwf(&self) -> Option<f64> {
        (self.block_writes > 0).then(|| self.ssd_writes.total() as f64 / self.block_writes as f64)
    }
}
