//! One VM's stream in, its hit curve out, by whichever method.
//!
//! It must not know what the curve is for.

use crate::aet::Aet;
use crate::analyser::Analyser;
use crate::counter_stacks::{CounterStacks, CounterStacksConfig};
use crate::curve::Curve;
use crate::distance::{Distances, Metric};
use crate::error::ReuseError;
use crate::hyper_log_log::HyperLogLog;
use crate::ro_stack::RoStack;
use crate::sample::Sample;
use crate::shards::Shards;
use crate::wbwo_stack::WbwoStack;
use lode_types::{BlockNo, Direction};

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

/// How a curve is obtained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// Every block is followed.
    Exact,
    /// SHARDS at a fixed rate: at least this share of all blocks is followed, above 0 and up to 1; more where that would leave
    /// fewer than [`crate::LEAST_BLOCKS`]. [`Curve::rate`] tells the real one. Who needs a rate that is known beforehand takes
    /// a [`crate::Sample`] at it.
    LeastRate(f64),
    /// SHARDS of a fixed size: at most this many blocks are followed, at a rate that sinks as they become more.
    Size(u32),
    /// The model of average eviction time; for [`CurveKind::Trd`], [`CurveKind::Urd`] and [`CurveKind::Wb`].
    Aet,
    /// Counter Stacks; for [`CurveKind::Trd`], because they do not see single accesses.
    CounterStacks(CounterStacksConfig),
}

/// Blocks of a sample that kept every real trace at hand within one percent of the exact curve (mean absolute error
/// over evenly spaced sizes), twice over.
pub const RECOMMENDED_SAMPLE_BLOCKS: u32 = 16_384;

impl Default for Method {
    /// A sample of [`RECOMMENDED_SAMPLE_BLOCKS`], for a stream of which nothing is known.
    fn default() -> Method {
        Method::Size(RECOMMENDED_SAMPLE_BLOCKS)
    }
}

/// What follows the stream.
enum State {
    Stack(Box<Shards>),
    Aet(Aet),
    CounterStacks(CounterStacks<HyperLogLog>),
}

/// One VM's stream.
pub struct Profiler {
    state: State,
}

impl Profiler {
    /// A profiler that has seen nothing. `salt` chooses which blocks a sample follows.
    ///
    /// # Errors
    /// [`ReuseError::InvalidMethod`] when the method's parameter is out of range or it cannot give this kind of curve.
    pub fn new(kind: CurveKind, method: Method, salt: u64) -> Result<Profiler, ReuseError> {
        let counts_writes = kind == CurveKind::Trd;
        let state = match method {
            Method::Aet if matches!(kind, CurveKind::Ro | CurveKind::Wbwo) => {
                let reason = "AET takes every access for one that the cache keeps, which a read-only or write-only \
                              cache does not";
                return Err(ReuseError::InvalidMethod { reason });
            }
            Method::Aet => State::Aet(Aet::new(counts_writes, Sample::new(Method::Exact, salt)?)),
            Method::CounterStacks(_) if !counts_writes => {
                let reason = "Counter Stacks do not see which of a step's accesses are reads";
                return Err(ReuseError::InvalidMethod { reason });
            }
            Method::CounterStacks(config) => {
                config.check()?;
                let empty = HyperLogLog::new(config.precision_bits);
                State::CounterStacks(CounterStacks::new(config.step_accesses, config.prune_share, empty))
            }
            Method::Exact | Method::LeastRate(_) | Method::Size(_) => State::Stack(Box::new(Shards::new(
                kind.analyser(),
                counts_writes,
                Sample::new(method, salt)?,
            ))),
        };
        Ok(Profiler { state })
    }

    /// Adds the next accesses of the stream.
    ///
    /// # Errors
    /// [`ReuseError::TooManyBlocks`]: lower the rate in time, or sample from the beginning.
    pub fn access_all(&mut self, batch: &[(Direction, BlockNo)]) -> Result<(), ReuseError> {
        match &mut self.state {
            State::Stack(stack) => stack.access_all(batch),
            State::Aet(aet) => aet.access_all(batch),
            State::CounterStacks(stacks) => {
                stacks.access_all(batch);
                Ok(())
            }
        }
    }

    /// The curve of everything since the last [`Profiler::end_interval`].
    pub fn curve(&self) -> Curve {
        match &self.state {
            State::Stack(stack) => stack.curve(),
            State::Aet(aet) => aet.curve(),
            State::CounterStacks(stacks) => stacks.curve(),
        }
    }

    /// Starts the counts again and keeps the history.
    pub fn end_interval(&mut self) {
        match &mut self.state {
            State::Stack(stack) => stack.end_interval(),
            State::Aet(aet) => aet.end_interval(),
            State::CounterStacks(stacks) => stacks.end_interval(),
        }
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        match &self.state {
            State::Stack(stack) => stack.memory_bytes(),
            State::Aet(aet) => aet.memory_bytes(),
            State::CounterStacks(stacks) => stacks.memory_bytes(),
        }
    }

    /// The share of all blocks that is followed now; 1 is all.
    pub fn rate(&self) -> f64 {
        match &self.state {
            State::Stack(stack) => stack.rate(),
            State::Aet(aet) => aet.rate(),
            State::CounterStacks(_) => 1.0,
        }
    }

    /// Halves the followed blocks to save memory; an exact curve becomes a sampled one. False when they are too few
    /// for that, or single blocks are not followed at all (Counter Stacks).
    pub fn lower_rate(&mut self) -> bool {
        match &mut self.state {
            State::Stack(stack) => stack.lower_rate(),
            State::Aet(aet) => aet.lower_rate(),
            State::CounterStacks(_) => false,
        }
    }

    /// Distinct blocks since the profiler began: all for [`CurveKind::Trd`], [`CurveKind::Urd`] and
    /// [`CurveKind::Wb`], those read for [`CurveKind::Ro`], those written for [`CurveKind::Wbwo`]. An estimate where
    /// sampled or modelled.
    pub fn distinct_blocks(&self) -> u64 {
        match &self.state {
            State::Stack(stack) => stack.distinct_blocks(),
            State::Aet(aet) => aet.distinct_blocks(),
            State::CounterStacks(stacks) => stacks.distinct_blocks(),
        }
    }
}
