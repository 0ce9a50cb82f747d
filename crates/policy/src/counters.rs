//! Counts of decisions. Replay, simulation and daemon count with this one type, so that they can be
//! held equal.

use lode_types::{Access, Direction, Level, planted};
use serde::{Deserialize, Serialize};

use crate::effect::{CopyReason, Effect};

/// Data blocks written into the SSD, by cause. Metadata is not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SsdWrites {
    /// Copies of blocks that a read miss fetched.
    pub fill: u64,
    /// Guest writes, hits and allocations alike.
    pub write: u64,
    /// Copies of popular blocks made in the background.
    pub promotion: u64,
    /// Copies made in the background of what another level gives up.
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
    pub read_hits: [u64; Level::COUNT],
    /// Reads served by the backing disk.
    pub read_misses: u64,
    /// Writes to a block that the SSD held and kept.
    pub write_hits_ssd: u64,
    /// SSD writes by cause.
    pub ssd_writes: SsdWrites,
    /// Data blocks written into the read SSD, all of them copies of what another level holds.
    pub read_ssd_writes: u64,
    /// Blocks put into DRAM.
    pub dram_writes: u64,
    /// Blocks read from the backing disk for reads, merges and copies.
    pub backing_reads: u64,
    /// Blocks written to the backing disk by writes and write-backs.
    pub backing_writes: u64,
    /// Of `backing_writes`, those that evictions and cleanings caused.
    pub write_backs: u64,
    /// Blocks evicted from each level.
    pub evictions: [u64; Level::COUNT],
}

impl Counters {
    /// Block accesses, reads and writes.
    pub fn block_accesses(&self) -> u64 {
        self.block_reads + self.block_writes
    }

    /// Notes the access itself; its effects are counted one by one.
    #[inline]
    pub fn access(&mut self, access: &Access) {
        // Without a branch, for which of the two comes next is anyone's guess.
        self.block_reads += u64::from(access.op == Direction::Read);
        self.block_writes += u64::from(access.op == Direction::Write);
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
            Effect::Fill { level: Level::Ssd, .. } => {
                self.ssd_writes.fill += 1 + u64::from(planted("fill-counted-twice"));
            }
            Effect::Fill { level: Level::ReadSsd, .. } | Effect::WriteLevel { level: Level::ReadSsd, .. } => {
                self.read_ssd_writes += 1;
            }
            Effect::WriteLevel { level: Level::Ssd, hit, .. } => {
                self.ssd_writes.write += 1;
                self.write_hits_ssd += u64::from(hit);
            }
            Effect::WriteLevel { level: Level::Dram, .. } => self.dram_writes += 1,
            Effect::WriteBacking => self.backing_writes += u64::from(!planted("bypass-not-counted")),
            Effect::MergeLevel { .. } | Effect::Invalidate { .. } => {}
            Effect::MergeBacking => self.backing_reads += 1,
            Effect::Evict { level, dirty, .. } => {
                self.evictions[level.index()] += 1;
                self.write_backs += u64::from(dirty);
                self.backing_writes += u64::from(dirty);
            }
            Effect::Clean { .. } => {
                self.write_backs += 1;
                self.backing_writes += 1;
            }
            Effect::Copy { to, from, reason, .. } => {
                match (to, reason) {
                    (Level::Dram, _) => self.dram_writes += 1,
                    (Level::Ssd, CopyReason::Promotion) => self.ssd_writes.promotion += 1,
                    (Level::Ssd, CopyReason::Move) => self.ssd_writes.moved += 1,
                    (Level::ReadSsd, _) => self.read_ssd_writes += 1,
                }
                self.backing_reads += u64::from(from.level().is_none());
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
        self.read_ssd_writes += other.read_ssd_writes;
        self.dram_writes += other.dram_writes;
        self.backing_reads += other.backing_reads;
        self.backing_writes += other.backing_writes;
        self.write_backs += other.write_backs;
    }

    /// Writes of both SSDs per block that the guests wrote (TICA Eq. 1); `None` without guest writes.
    pub fn cwf(&self) -> Option<f64> {
        let writes = self.ssd_writes.total() + self.read_ssd_writes;
        (self.block_writes > 0).then(|| writes as f64 / self.block_writes as f64)
    }
}

/// [`Counters`] in the shape of every report: `docs/reports.md` describes the names, which are stable.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CounterReport {
    /// Reads and writes of the guest.
    pub requests: u64,
    /// Blocks read and written by requests.
    pub block_accesses: u64,
    /// Blocks read.
    pub block_reads: u64,
    /// Blocks written.
    pub block_writes: u64,
    /// Block reads by the level that served them.
    pub read_hits: LevelCounts,
    /// Block reads that the backing disk served.
    pub read_misses: u64,
    /// Block writes to a block that the level held and kept.
    pub write_hits: SsdOnly,
    /// Blocks put into DRAM.
    pub dram_writes: u64,
    /// Data blocks written to the SSD, by cause.
    pub ssd_writes: SsdWriteCounts,
    /// Data blocks written to the read SSD.
    pub read_ssd_writes: u64,
    /// Blocks read from the backing disk, for whatever reason.
    pub backing_reads: u64,
    /// Blocks written to the backing disk, for whatever reason.
    pub backing_writes: u64,
    /// Of these, write-backs of evicted dirty blocks.
    pub write_backs: u64,
    /// Blocks that left a level for another block or a smaller share.
    pub evictions: LevelCounts,
    /// Writes of both SSDs for each block written by the guest; none without such blocks.
    pub cwf: Option<f64>,
}

/// A count for each level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelCounts {
    /// In host memory.
    pub dram: u64,
    /// In the SSD.
    pub ssd: u64,
    /// In the read SSD.
    pub read_ssd: u64,
}

impl LevelCounts {
    /// Of all levels.
    pub fn total(&self) -> u64 {
        self.dram + self.ssd + self.read_ssd
    }
}

/// A count that only the SSD has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsdOnly {
    /// In the SSD.
    pub ssd: u64,
}

/// [`SsdWrites`] with their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsdWriteCounts {
    /// All causes.
    pub total: u64,
    /// Copies of what a read miss fetched.
    pub fill: u64,
    /// Guest writes.
    pub write: u64,
    /// Copies of popular blocks.
    pub promotion: u64,
    /// Copies of what another level gives up.
    #[serde(rename = "move")]
    pub moved: u64,
}

impl From<[u64; Level::COUNT]> for LevelCounts {
    fn from(counts: [u64; Level::COUNT]) -> LevelCounts {
        let [dram, ssd, read_ssd] = counts;
        LevelCounts { dram, ssd, read_ssd }
    }
}

impl From<&SsdWrites> for SsdWriteCounts {
    fn from(writes: &SsdWrites) -> SsdWriteCounts {
        SsdWriteCounts {
            total: writes.total(),
            fill: writes.fill,
            write: writes.write,
            promotion: writes.promotion,
            moved: writes.moved,
        }
    }
}

impl From<&Counters> for CounterReport {
    fn from(counters: &Counters) -> CounterReport {
        CounterReport {
            requests: counters.requests,
            block_accesses: counters.block_accesses(),
            block_reads: counters.block_reads,
            block_writes: counters.block_writes,
            read_hits: counters.read_hits.into(),
            read_misses: counters.read_misses,
            write_hits: SsdOnly { ssd: counters.write_hits_ssd },
            dram_writes: counters.dram_writes,
            ssd_writes: (&counters.ssd_writes).into(),
            read_ssd_writes: counters.read_ssd_writes,
            backing_reads: counters.backing_reads,
            backing_writes: counters.backing_writes,
            write_backs: counters.write_backs,
            evictions: counters.evictions.into(),
            cwf: counters.cwf(),
        }
    }
}

impl CounterReport {
    /// The first of the sums under "What adds up" in `docs/reports.md` that these counts break; `None` when all hold, as
    /// they do at any moment of any run.
    pub fn broken_sum(&self) -> Option<&'static str> {
        let writes = &self.ssd_writes;
        let causes = writes.fill + writes.write + writes.promotion + writes.moved;
        let by_guests = self.backing_writes.saturating_sub(self.write_backs);
        let most_reads = self.read_misses + self.block_writes + writes.promotion;
        let sums = [
            (self.block_accesses == self.block_reads + self.block_writes, "block_accesses"),
            (self.block_reads == self.read_hits.total() + self.read_misses, "block_reads"),
            (self.write_backs <= self.backing_writes, "write_backs"),
            (writes.write <= self.block_writes, "ssd_writes.write"),
            (by_guests <= self.block_writes, "backing_writes - write_backs"),
            (self.block_writes <= writes.write + by_guests, "block_writes"),
            (writes.total == causes, "ssd_writes.total"),
            (writes.fill <= self.read_misses, "ssd_writes.fill"),
            (self.write_hits.ssd <= writes.write, "write_hits.ssd"),
            ((self.read_misses..=most_reads).contains(&self.backing_reads), "backing_reads"),
        ];
        sums.into_iter().find(|(holds, _)| !holds).map(|(_, name)| name)
    }
}
