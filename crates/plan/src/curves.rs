//! Hit curves of every VM of a set of traces, whole and by interval. It must not know how a curve is obtained.

use hashbrown::HashSet;
use lode_reuse::{Curve, CurveKind, Method, Profiler, ReuseError};
use lode_trace::Merge;
use lode_types::BlockNo;

use crate::error::PlanError;
use crate::pool::{BlockAccess, Consumer};
use crate::streams::{Follower, StreamFacts, StreamOptions, follow};

/// Most intervals of one VM that are kept; those after them are counted only.
pub const MAX_INTERVALS: usize = 1 << 16;

/// Which curves.
#[derive(Clone, Copy, Debug)]
pub struct CurveOptions {
    /// How traces are followed.
    pub stream: StreamOptions,
    /// Which curve.
    pub kind: CurveKind,
    /// How it is obtained.
    pub method: Method,
}

/// One VM's curve.
#[derive(Clone, Debug)]
pub struct VmCurve {
    /// What is known of its stream besides.
    pub facts: StreamFacts,
    /// The curve of the whole trace.
    pub curve: Curve,
    /// Distinct blocks that count for this curve; an estimate where sampled.
    pub distinct_blocks: u64,
    /// Share of the blocks that were followed at the end; 1 is all of them.
    pub rate: f64,
    /// What each interval showed, the first being number [`StreamFacts::first_interval`].
    pub intervals: Vec<IntervalCurve>,
    /// Intervals after those in `intervals`.
    pub intervals_cut: u64,
}

/// One VM in one interval, with the history of those before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IntervalCurve {
    /// Block accesses.
    pub accesses: u64,
    /// Distinct blocks accessed: the working set.
    pub working_set_blocks: u64,
    /// Largest useful distance.
    pub max_distance: Option<u64>,
    /// Smallest cache that has all hits there are to have.
    pub needed_blocks: u64,
    /// Hit ratio of a cache of that size.
    pub best_hit_ratio: f64,
}

/// What curves were found.
#[derive(Clone, Debug)]
pub struct Curves {
    /// Each VM, in order of appearance.
    pub vms: Vec<VmCurve>,
    /// How often blocks were left out to keep within the memory.
    pub shrinks: u64,
}

/// Measures the curve of every VM of `merge`. `progress` hears of every batch.
///
/// # Errors
/// [`PlanError::Trace`], [`PlanError::Vm`]; [`PlanError::Reuse`] for a method out of range.
pub fn curves(
    merge: &mut Merge,
    options: &CurveOptions,
    progress: &mut dyn FnMut(&Merge),
) -> Result<Curves, PlanError> {
    // Whether the method is in range does not depend on the VM.
    Profiler::new(options.kind, options.method, 0)?;
    let make = |vm: usize| {
        let profiler = || Profiler::new(options.kind, options.method, vm as u64);
        let windows = if options.stream.interval.is_some() { Some(Windows::new(profiler()?)) } else { None };
        Ok(CurveFollower { whole: profiler()?, windows })
    };
    let followed = follow(merge, &options.stream, make, progress)?;
    let vms = followed.vms.into_iter().map(|(facts, follower)| follower.finish(facts)).collect();
    Ok(Curves { vms, shrinks: followed.shrinks })
}

struct CurveFollower {
    whole: Profiler,
    windows: Option<Windows>,
}

/// What is measured of each interval on its own.
struct Windows {
    profiler: Profiler,
    /// Blocks accessed in the present one.
    touched: HashSet<BlockNo>,
    done: Vec<IntervalCurve>,
    cut: u64,
}

impl CurveFollower {
    fn finish(mut self, facts: StreamFacts) -> VmCurve {
        self.end_interval();
        let (intervals, intervals_cut) =
            self.windows.map_or((Vec::new(), 0), |windows| (windows.done, windows.cut));
        VmCurve {
            facts,
            curve: self.whole.curve(),
            distinct_blocks: self.whole.distinct_blocks(),
            rate: self.whole.rate(),
            intervals,
            intervals_cut,
        }
    }
}

impl Consumer for CurveFollower {
    type Error = ReuseError;

    fn take(&mut self, accesses: &[BlockAccess]) -> Result<(), ReuseError> {
        if let Some(windows) = &mut self.windows {
            windows.profiler.access_all(accesses)?;
            windows.touched.extend(accesses.iter().map(|&(_, block)| block));
        }
        self.whole.access_all(accesses)
    }

    fn end_interval(&mut self) {
        if let Some(windows) = &mut self.windows {
            windows.end();
        }
    }
}

impl Follower for CurveFollower {
    fn memory_bytes(&self) -> u64 {
        let windows = self.windows.as_ref().map_or(0, |windows| {
            windows.profiler.memory_bytes() + windows.touched.capacity() * size_of::<(BlockNo, u8)>()
        });
        (self.whole.memory_bytes() + windows) as u64
    }

    fn shrink(&mut self) -> bool {
        let whole = self.whole.lower_rate();
        self.windows.as_mut().is_some_and(|windows| windows.profiler.lower_rate()) || whole
    }
}

impl Windows {
    fn new(profiler: Profiler) -> Windows {
        Windows { profiler, touched: HashSet::new(), done: Vec::new(), cut: 0 }
    }

    fn end(&mut self) {
        let curve = self.profiler.curve();
        self.profiler.end_interval();
        let working_set_blocks = self.touched.len() as u64;
        self.touched.clear();
        if self.done.len() == MAX_INTERVALS {
            self.cut += 1;
            return;
        }
        self.done.push(IntervalCurve {
            accesses: curve.accesses(),
            working_set_blocks,
            max_distance: curve.max_distance(),
            needed_blocks: curve.blocks_needed(),
            best_hit_ratio: curve.hit_ratio_at(curve.blocks_needed()),
        });
    }
}
