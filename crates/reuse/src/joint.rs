//! Two levels at once: for every size of a DRAM cache and of an SSD cache, how many reads each of them serves.
//!
//! The DRAM level is a read-only LRU cache, the SSD level a write-back, write-only one (ETICA, section 4.1), and each
//! sees the whole stream. A read is then served by DRAM if its depth in the one stack is below the DRAM level's size,
//! else by the SSD if its depth in the other one is below the SSD level's; so the pairs of depths say it all. They are
//! counted in bins of a sixteenth of an octave. A sample's counts are adjusted as single curves are: misses are
//! estimated, hits are what is left of the reads. It must not know what the levels cost.

use crate::error::ReuseError;
use crate::estimate::size_of_depth;
use crate::log_bins::LogBins;
use crate::profiler::Method;
use crate::ro_stack::RoStack;
use crate::sample::{FILTERED, Sample};
use crate::wbwo_stack::WbwoStack;
use lode_types::{AccessOp, BlockNo};

/// Bins of sizes: exact up to 32 blocks, then sixteen an octave.
type Sizes = LogBins<4>;

/// What the two levels serve of a VM's reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JointHits {
    /// Reads that the DRAM level serves.
    pub dram: u64,
    /// Reads that the DRAM level does not serve and the SSD level does.
    pub ssd_beyond_dram: u64,
}

/// Hits of both levels by both sizes; see the module's description.
#[derive(Clone, Debug, PartialEq)]
pub struct JointCurve {
    /// Weights of the reads that neither level has, by number of DRAM bins, then of SSD bins, that are large enough.
    misses: Vec<Vec<f64>>,
    /// Weights of the reads that the DRAM level has not, by number of DRAM bins.
    dram_misses: Vec<f64>,
    accesses: u64,
    reads: u64,
    written_blocks: u64,
    rate: f64,
}

impl JointCurve {
    /// What levels of these sizes serve. Sizes above 32 blocks count as the next smaller end of a bin.
    pub fn hits(&self, dram_blocks: u64, ssd_blocks: u64) -> JointHits {
        let dram = bins_within(dram_blocks).min(self.dram_misses.len() - 1);
        let row = &self.misses[dram];
        let ssd = bins_within(ssd_blocks).min(row.len() - 1);
        let hits = |misses: f64| self.reads - (misses.round() as u64).min(self.reads);
        let served = hits(self.dram_misses[dram]);
        JointHits { dram: served, ssd_beyond_dram: hits(row[ssd]).saturating_sub(served) }
    }

    /// Sizes of the DRAM level at which its hits may rise, ascending.
    pub fn dram_sizes(&self) -> impl Iterator<Item = u64> {
        (1..self.dram_misses.len()).map(Self::last_of_bin)
    }

    /// Sizes of the SSD level at which its hits may rise, ascending.
    pub fn ssd_sizes(&self) -> impl Iterator<Item = u64> {
        (1..self.misses[0].len()).map(Self::last_of_bin)
    }

    fn last_of_bin(bin: usize) -> u64 {
        Sizes::first(bin + 1) - 1
    }

    /// Accesses of the whole stream.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Reads of the whole stream.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Writes of the whole stream.
    pub fn writes(&self) -> u64 {
        self.accesses - self.reads
    }

    /// Distinct blocks written since the profiler began; an estimate where sampled.
    pub fn written_blocks(&self) -> u64 {
        self.written_blocks
    }

    /// The share of all blocks that was followed at the end; 1 when all were.
    pub fn rate(&self) -> f64 {
        self.rate
    }
}

/// Bins, beginning with that of size 1, that lie wholly within a size.
fn bins_within(size_blocks: u64) -> usize {
    Sizes::bin(size_blocks.saturating_add(1)) - 1
}

/// One VM's stream, profiled for two levels.
pub struct JointProfiler {
    ro: RoStack,
    wbwo: WbwoStack,
    sample: Sample,
    /// Weights of reads by bins of the size they need of the DRAM level, then of the SSD level; bin 0 is for reads that
    /// no size serves.
    reads_by_bins: Vec<Vec<f64>>,
    accesses: u64,
    reads: u64,
}

impl JointProfiler {
    /// A profiler that has seen nothing. `salt` chooses which blocks a sample follows.
    ///
    /// # Errors
    /// [`ReuseError::InvalidMethod`] when the method's parameter is out of range, or it keeps no stacks.
    pub fn new(method: Method, salt: u64) -> Result<JointProfiler, ReuseError> {
        Ok(JointProfiler {
            ro: RoStack::new(),
            wbwo: WbwoStack::new(),
            sample: Sample::new(method, salt)?,
            reads_by_bins: Vec::new(),
            accesses: 0,
            reads: 0,
        })
    }

    /// Adds the next accesses of the stream.
    ///
    /// # Errors
    /// [`ReuseError::TooManyBlocks`]: lower the rate, or sample from the beginning.
    pub fn access_all(&mut self, batch: &[(AccessOp, BlockNo)]) -> Result<(), ReuseError> {
        for accesses in batch.chunks(FILTERED) {
            let (mut followed, reads) = self.sample.filter(accesses);
            self.accesses += accesses.len() as u64;
            self.reads += reads;
            while followed != 0 {
                let (op, block) = accesses[followed.trailing_zeros() as usize];
                followed &= followed - 1;
                self.follow(op, block)?;
            }
        }
        Ok(())
    }

    fn follow(&mut self, op: AccessOp, block: BlockNo) -> Result<(), ReuseError> {
        // The rate may have sunk since the access was filtered.
        if !self.sample.follows(block) {
            return Ok(());
        }
        let ro_depth = self.ro.access(op, block)?;
        let wbwo_depth = self.wbwo.access(op, block)?;
        if op == AccessOp::Read {
            let rate = self.sample.rate();
            let bin = |depth: Option<u32>| depth.map_or(0, |depth| Sizes::bin(size_of_depth(depth, rate)));
            let (dram, ssd) = (bin(ro_depth), bin(wbwo_depth));
            if dram >= self.reads_by_bins.len() {
                self.reads_by_bins.resize(dram + 1, Vec::new());
            }
            let row = &mut self.reads_by_bins[dram];
            if ssd >= row.len() {
                row.resize(ssd + 1, 0.0);
            }
            row[ssd] += 1.0 / rate;
        }
        while self.sample.lower_to_limit(self.followed_blocks()) {
            self.shrink();
        }
        Ok(())
    }

    fn followed_blocks(&self) -> usize {
        self.ro.distinct_blocks().max(self.wbwo.distinct_blocks())
    }

    fn shrink(&mut self) {
        let sample = self.sample;
        self.ro.retain(|block| sample.follows(block));
        self.wbwo.retain(|block| sample.follows(block));
    }

    /// The hits of everything since the last [`JointProfiler::end_interval`].
    pub fn curve(&self) -> JointCurve {
        let columns = self.reads_by_bins.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let at = |dram: usize, ssd: usize| {
            self.reads_by_bins.get(dram).and_then(|row| row.get(ssd)).copied().unwrap_or(0.0)
        };
        let rows = self.reads_by_bins.len().max(1);
        let mut misses = vec![vec![0.0; columns]; rows];
        let mut dram_misses = vec![0.0; rows];
        // With `dram` bins large enough, a read in any later one, or in bin 0, is a miss; so the last row has bin 0 only.
        let mut by_ssd: Vec<f64> = (0..columns).map(|ssd| at(0, ssd)).collect();
        for dram in (0..rows).rev() {
            let mut missed = by_ssd[0] + by_ssd[1..].iter().rev().sum::<f64>();
            dram_misses[dram] = missed;
            for ssd in 0..columns {
                missed -= if ssd == 0 { 0.0 } else { by_ssd[ssd] };
                misses[dram][ssd] = missed;
            }
            if dram > 0 {
                (0..columns).for_each(|ssd| by_ssd[ssd] += at(dram, ssd));
            }
        }
        let written = self.wbwo.distinct_blocks() as f64 / self.sample.rate();
        JointCurve {
            misses,
            dram_misses,
            accesses: self.accesses,
            reads: self.reads,
            written_blocks: written.round() as u64,
            rate: self.sample.rate(),
        }
    }

    /// Starts the counts again and keeps the history.
    pub fn end_interval(&mut self) {
        self.ro.clear_tally();
        self.wbwo.clear_tally();
        self.reads_by_bins.clear();
        (self.accesses, self.reads) = (0, 0);
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        let cells: usize = self.reads_by_bins.iter().map(|row| row.capacity() * size_of::<f64>()).sum();
        self.ro.memory_bytes() + self.wbwo.memory_bytes() + cells
    }

    /// The share of all blocks that is followed now; 1 is exact.
    pub fn rate(&self) -> f64 {
        self.sample.rate()
    }

    /// Halves the followed blocks to save memory; false when they are too few for that.
    pub fn lower_rate(&mut self) -> bool {
        let is_lower = self.sample.halve(self.followed_blocks());
        if is_lower {
            self.shrink();
        }
        is_lower
    }
}
