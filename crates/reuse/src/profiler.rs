//! One VM's stream in, its hit curve out, by whichever method.
//!
//! It must not know what the curve is for.

use crate::analyser::Analyser;
use crate::curve::Curve;
use crate::distance::{Distances, Metric};
use crate::error::ReuseError;
use crate::ro_stack::RoStack;
use crate::shards::{MIN_FOLLOWED_BLOCKS, Shards};
use crate::wbwo_stack::WbwoStack;
use lode_types::{AccessOp, BlockNo};

/// Which curve: hits of LRU caches of every size under a write policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CurveKind {
    /// Hits of reads and writes of a cache that keeps whatever is accessed.
    Trd,
    /// Hits of reads of that cache.
    Urd,
    /// Hits of reads of a read-only cache, in which a write invalidates the block.
    Ro,
    /// Hits of reads of a write-back, write-only cache, in which a read that misses is not inserted.
    Wbwo,
    /// Hits of reads of a write-back cache: equals [`CurveKind::Urd`].
    Wb,
}

impl CurveKind {
    /// Every kind.
    pub const ALL: [CurveKind; 5] =
        [CurveKind::Trd, CurveKind::Urd, CurveKind::Ro, CurveKind::Wbwo, CurveKind::Wb];

    fn analyser(self) -> Box<dyn Analyser + Send> {
        match self {
            CurveKind::Trd => Box::new(Distances::new(Metric::Trd)),
            CurveKind::Urd | CurveKind::Wb => Box::new(Distances::new(Metric::Urd)),
            CurveKind::Ro => Box::new(RoStack::new()),
            CurveKind::Wbwo => Box::new(WbwoStack::new()),
        }
    }
}

/// Parameters of Counter Stacks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterStacksConfig {
    /// Accesses between two counters' starts.
    pub step_accesses: u32,
    /// A younger counter within this share of the next older one is given up, 0 to below 1.
    pub prune_share: f64,
    /// Registers of each HyperLogLog counter, as a power of two.
    pub precision_bits: u8,
}

/// How a curve is obtained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// Every block is followed.
    Exact,
    /// SHARDS at a fixed rate: this share of all blocks is followed, above 0 and up to 1.
    Rate(f64),
    /// SHARDS of a fixed size: at most this many blocks are followed, at a rate that sinks as they become more.
    Size(u32),
    /// Average eviction time.
    Aet,
    /// Counter Stacks.
    CounterStacks(CounterStacksConfig),
}

/// Blocks of a sample that kept every real trace at hand within one percent of the exact curve (mean absolute error
/// over evenly spaced sizes), twice over.
pub const RECOMMENDED_SAMPLE_BLOCKS: u32 = 16_384;

/// The rate below which a recommended sample does not go.
pub const MIN_RECOMMENDED_RATE: f64 = 0.001;

/// A sample that would follow more than this share of all blocks is not worth its error.
const MAX_RECOMMENDED_RATE: f64 = 0.25;

impl Default for Method {
    /// A sample of [`RECOMMENDED_SAMPLE_BLOCKS`], for a stream of which nothing is known.
    fn default() -> Method {
        Method::Size(RECOMMENDED_SAMPLE_BLOCKS)
    }
}

impl Method {
    /// The cheapest method that is trusted with one percent of mean absolute error on a stream with so many distinct
    /// blocks: exact for small ones, then the rate that follows [`RECOMMENDED_SAMPLE_BLOCKS`], but at least
    /// [`MIN_RECOMMENDED_RATE`]. The error hangs on the number of blocks in the sample much more than on the rate.
    pub fn recommended(distinct_blocks: u64) -> Method {
        let rate = f64::from(RECOMMENDED_SAMPLE_BLOCKS) / distinct_blocks as f64;
        if rate > MAX_RECOMMENDED_RATE { Method::Exact } else { Method::Rate(rate.max(MIN_RECOMMENDED_RATE)) }
    }
}

/// One VM's stream.
pub struct Profiler {
    stack: Shards,
}

impl Profiler {
    /// A profiler that has seen nothing. `salt` chooses which blocks a sample follows.
    ///
    /// # Errors
    /// [`ReuseError::InvalidMethod`] when the method's parameter is out of range.
    pub fn new(kind: CurveKind, method: Method, salt: u64) -> Result<Profiler, ReuseError> {
        let (counts_writes, analyser) = (kind == CurveKind::Trd, kind.analyser());
        let stack = match method {
            Method::Exact => Shards::exact(analyser, counts_writes, salt),
            Method::Rate(rate) if !(rate > 0.0 && rate <= 1.0) => {
                return Err(ReuseError::InvalidMethod { reason: "A sampling rate is above 0 and at most 1" });
            }
            Method::Rate(rate) => Shards::at_rate(analyser, counts_writes, salt, rate),
            Method::Size(blocks) if blocks < MIN_FOLLOWED_BLOCKS => {
                return Err(ReuseError::InvalidMethod { reason: "A sample follows at least 64 blocks" });
            }
            Method::Size(blocks) => Shards::of_size(analyser, counts_writes, salt, blocks as usize),
            _ => return Err(ReuseError::InvalidMethod { reason: "Only exact curves are built so far" }),
        };
        Ok(Profiler { stack })
    }

    /// Adds the next accesses of the stream.
    ///
    /// # Errors
    /// [`ReuseError::TooManyBlocks`]: lower the rate, or sample from the beginning.
    pub fn access_all(&mut self, batch: &[(AccessOp, BlockNo)]) -> Result<(), ReuseError> {
        self.stack.access_all(batch)
    }

    /// The curve of everything since the last [`Profiler::end_interval`].
    pub fn curve(&self) -> Curve {
        self.stack.curve()
    }

    /// Starts the counts again and keeps the history.
    pub fn end_interval(&mut self) {
        self.stack.end_interval();
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.stack.memory_bytes()
    }

    /// The share of all blocks that is followed now; 1 is exact.
    pub fn rate(&self) -> f64 {
        self.stack.rate()
    }

    /// Halves the followed blocks to save memory; false when that is not possible.
    pub fn lower_rate(&mut self) -> bool {
        self.stack.lower_rate()
    }

    /// Distinct blocks of the kind's reference stream; an estimate where sampled.
    pub fn distinct_blocks(&self) -> u64 {
        self.stack.distinct_blocks()
    }
}
