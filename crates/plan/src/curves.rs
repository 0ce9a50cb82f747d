//! Hit curves of every VM of a set of traces, whole and by interval. It must not know how a curve is obtained.

use std::sync::Arc;

use lode_reuse::parallel::ChunkScan;
use lode_reuse::working_set::WorkingSet;
use lode_reuse::{Both, Curve, CurveKind, Method, Profiler, ReuseError};
use lode_trace::Merge;

use crate::error::PlanError;
use crate::jobs::Spare;
use crate::pieces::scan_pieces;
use crate::pool::{BlockAccess, Consumer};
use crate::streams::{Follower, MAX_INTERVALS, StreamFacts, StreamOptions, follow, most_blocks};

/// Distinct blocks of one interval that are counted one by one; of more, the number is estimated from a sample of so many.
pub const MAX_WORKING_SET_BLOCKS: u32 = 1 << 16;

/// Which curves.
#[derive(Clone, Copy, Debug)]
pub struct CurveOptions {
    /// How traces are followed.
    pub stream: StreamOptions,
    /// Which curve.
    pub kind: CurveKind,
    /// How it is obtained.
    pub method: Method,
    /// How the work is dealt to threads.
    pub cut: Cut,
}

/// How the work on curves is dealt to threads. The curves are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cut {
    /// By VM.
    #[default]
    Vms,
    /// By time, so that several threads work on one VM: exact curves of kinds whose streams can be cut, without
    /// intervals.
    Time,
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
    /// Distinct blocks accessed: the working set. An estimate beyond [`MAX_WORKING_SET_BLOCKS`].
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
    /// Where intervals begin, and where the last one ends, on the traces' clock; none without requests or intervals.
    pub bounds_ns: Vec<u64>,
}

/// Measures the curve of every VM of `merge`. `progress` hears of every batch.
///
/// # Errors
/// [`PlanError::Trace`], [`PlanError::Vm`]; [`PlanError::Reuse`] for a method out of range; [`PlanError::Memory`] when
/// exact curves that are cut by time exceed the memory, because only a cut by VMs can sample instead.
pub fn curves(
    merge: &mut Merge,
    options: &CurveOptions,
    progress: &mut dyn FnMut(&Merge),
) -> Result<Curves, PlanError> {
    if options.cut == Cut::Time {
        return curves_by_time(merge, options, progress);
    }
    // Whether the method is in range does not depend on the VM.
    Profiler::new(options.kind, options.method, 0)?;
    let spare = Spare::of(options.stream.threads);
    let make = |vm: usize| {
        spare.add_vm();
        let profiler = || Profiler::new(options.kind, options.method, vm as u64);
        let windows = if options.stream.interval.is_some() {
            Some(Windows::new(profiler()?, WorkingSet::new(Method::Size(MAX_WORKING_SET_BLOCKS), vm as u64)?))
        } else {
            None
        };
        let most_blocks = most_blocks(options.method);
        Ok(CurveFollower { whole: profiler()?, windows, spare: spare.clone(), most_blocks })
    };
    let followed = follow(merge, &options.stream, make, progress)?;
    let vms = followed.vms.into_iter().map(|(facts, follower)| follower.finish(facts)).collect();
    Ok(Curves { vms, shrinks: followed.shrinks, bounds_ns: followed.bounds_ns })
}

impl CurveOptions {
    /// Whether the work on these curves can be cut by time.
    pub fn can_be_cut_by_time(&self) -> bool {
        self.method == Method::Exact && self.stream.interval.is_none() && ChunkScan::new(self.kind).is_ok()
    }
}

fn curves_by_time(
    merge: &mut Merge,
    options: &CurveOptions,
    progress: &mut dyn FnMut(&Merge),
) -> Result<Curves, PlanError> {
    if !options.can_be_cut_by_time() {
        return Err(PlanError::Request(
            "Only exact curves of trd, urd and pod with policy wb, without intervals, can be cut by time; \
             leave the VMs to the threads"
                .to_owned(),
        ));
    }
    let scanned = scan_pieces(merge, &options.stream, options.kind, progress)?;
    let vms = scanned.into_iter().map(|(facts, scan)| VmCurve {
        facts,
        curve: scan.curve(),
        distinct_blocks: scan.distinct_blocks(),
        rate: 1.0,
        intervals: Vec::new(),
        intervals_cut: 0,
    });
    Ok(Curves { vms: vms.collect(), shrinks: 0, bounds_ns: Vec::new() })
}

struct CurveFollower {
    whole: Profiler,
    windows: Option<Windows>,
    spare: Arc<Spare>,
    most_blocks: u64,
}

/// What is measured of each interval on its own.
struct Windows {
    profiler: Profiler,
    /// Blocks accessed in the present one.
    touched: WorkingSet,
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

    fn take(&mut self, batches: &[Vec<BlockAccess>]) -> Result<(), ReuseError> {
        let mut whole = || batches.iter().try_for_each(|accesses| self.whole.access_all(accesses));
        let Some(windows) = &mut self.windows else { return whole() };
        // They know nothing of each other.
        let (windows, whole) = self.spare.lend(batches).both(|| windows.take(batches), whole);
        windows.and(whole)
    }

    fn end_interval(&mut self) {
        if let Some(windows) = &mut self.windows {
            windows.end();
        }
    }
}

impl Follower for CurveFollower {
    fn memory_bytes(&self) -> u64 {
        let windows = self
            .windows
            .as_ref()
            .map_or(0, |windows| windows.profiler.memory_bytes() + windows.touched.memory_bytes());
        (self.whole.memory_bytes() + windows) as u64
    }

    fn shrink(&mut self) -> bool {
        let whole = self.whole.lower_rate();
        self.windows.as_mut().is_some_and(|windows| windows.profiler.lower_rate()) || whole
    }

    fn rate(&self) -> f64 {
        self.whole.rate()
    }

    fn most_blocks(&self) -> u64 {
        self.most_blocks
    }
}

impl Windows {
    fn new(profiler: Profiler, touched: WorkingSet) -> Windows {
        Windows { profiler, touched, done: Vec::new(), cut: 0 }
    }

    fn take(&mut self, batches: &[Vec<BlockAccess>]) -> Result<(), ReuseError> {
        batches.iter().try_for_each(|accesses| {
            self.profiler.access_all(accesses)?;
            self.touched.access_all(accesses)
        })
    }

    fn end(&mut self) {
        let curve = self.profiler.curve();
        self.profiler.end_interval();
        let working_set_blocks = self.touched.distinct_blocks();
        self.touched.end_interval();
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
