//! What the VMs of a set of traces could use of two levels: measured once, asked many times.
//!
//! It must not know how levels are divided.

use std::collections::BTreeMap;
use std::sync::Arc;

use lode_hardware::time::SECOND_NS;
use lode_reuse::{Curve, JointProfile, JointProfiler, Method, ReuseError};
use lode_trace::Merge;
use lode_types::Level;

use crate::error::PlanError;
use crate::jobs::Spare;
use crate::pool::{BlockAccess, Consumer};
use crate::streams::{Follower, StreamFacts, StreamOptions, follow, most_blocks};

/// Most points of a curve that levels are divided by. Between them hits are too low by less than one in so many.
pub const MAX_CURVE_POINTS: usize = 4096;

/// One VM's stream, as far as sizing needs it.
#[derive(Clone, Debug)]
pub struct VmLoad {
    /// What is known of it besides.
    pub facts: StreamFacts,
    /// What a read-only DRAM level over a write-only SSD level would do, at every pair of sizes.
    pub profile: JointProfile,
    /// How long its trace goes, in nanoseconds; where that is no time, how long all go; 0 where times are not known.
    pub span_ns: u64,
    /// The curves that levels are divided by, by [`Level::index`]: those of the profile, with at most
    /// [`MAX_CURVE_POINTS`] points, so that a division does not take longer for a VM of many blocks.
    curves: [Curve; 2],
}

impl VmLoad {
    fn new(facts: StreamFacts, profile: JointProfile) -> VmLoad {
        let curves = [profile.ro_curve(), profile.wbwo_curve()].map(|curve| curve.thin(MAX_CURVE_POINTS));
        VmLoad { facts, profile, span_ns: 0, curves }
    }

    /// So many in a second of its trace; 0 where times are not known.
    pub(crate) fn per_s(&self, count: u64) -> f64 {
        if self.span_ns == 0 { 0.0 } else { count as f64 / (self.span_ns as f64 / SECOND_NS) }
    }

    /// Different blocks that it reads and writes, or more: those that are read as well as written may count twice.
    pub fn most_distinct_blocks(&self) -> u64 {
        let profile = &self.profile;
        let both = profile.read_blocks().saturating_add(profile.written_blocks());
        both.min(profile.reads().saturating_add(profile.writes()))
    }

    /// The curve that a level is divided by.
    pub fn curve(&self, level: Level) -> &Curve {
        &self.curves[level.index()]
    }
}

/// All VMs.
#[derive(Clone, Debug)]
pub struct Load {
    /// Each VM, in order of appearance.
    pub vms: Vec<VmLoad>,
    /// How often blocks were left out to keep within the memory.
    pub shrinks: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Whether the times of all traces were recorded.
    pub has_times: bool,
    /// How it was asked to be measured.
    pub(crate) method: Method,
}

/// Measures all VMs of `merge`. `progress` hears of every batch.
///
/// # Errors
/// [`PlanError::Trace`], [`PlanError::Vm`]; [`PlanError::Reuse`] for a method out of range.
pub fn measure(
    merge: &mut Merge,
    stream: &StreamOptions,
    method: Method,
    progress: &mut dyn FnMut(&Merge),
) -> Result<Load, PlanError> {
    JointProfiler::new(method, 0)?;
    let spare = Spare::of(stream.threads);
    let make = |vm: usize| {
        spare.add_vm();
        let profiler = JointProfiler::new(method, vm as u64)?;
        Ok(JointFollower { profiler, spare: spare.clone(), most_blocks: most_blocks(method) })
    };
    let followed = follow(merge, stream, make, progress)?;
    let vms =
        followed.vms.into_iter().map(|(facts, follower)| VmLoad::new(facts, follower.profiler.finish()));
    let mut load = Load {
        vms: vms.collect(),
        shrinks: followed.shrinks,
        block_bytes: stream.block_size.bytes(),
        has_times: merge.has_times(),
        method,
    };
    let inputs: Vec<usize> = merge.vms().iter().map(|vm| vm.input).collect();
    load.set_spans(&inputs);
    Ok(load)
}

impl Load {
    /// Time from the first to the last request of all VMs, in nanoseconds, without a few times far from all others;
    /// `None` without requests, and where a trace has no times.
    pub fn span_ns(&self) -> Option<u64> {
        if !self.has_times {
            return None;
        }
        span_of(self.vms.iter())
    }

    /// Whether there is a time to divide by.
    pub(crate) fn has_span(&self) -> bool {
        self.span_ns().is_some_and(|ns| ns > 0)
    }

    /// Sets the VMs' spans to those of the traces that they come from, which `inputs` numbers.
    fn set_spans(&mut self, inputs: &[usize]) {
        let all_ns = self.span_ns().unwrap_or(0);
        let mut vms_of_input: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (vm, &input) in inputs.iter().enumerate().take(self.vms.len()) {
            vms_of_input.entry(input).or_default().push(vm);
        }
        for vms in vms_of_input.values().filter(|_| all_ns > 0) {
            let own_ns = span_of(vms.iter().map(|&vm| &self.vms[vm])).filter(|&ns| ns > 0);
            vms.iter().for_each(|&vm| self.vms[vm].span_ns = own_ns.unwrap_or(all_ns));
        }
    }
}

/// Time from the first to the last request of these VMs, in nanoseconds.
fn span_of<'a>(vms: impl Iterator<Item = &'a VmLoad>) -> Option<u64> {
    let spans = vms.filter_map(|vm| vm.facts.span.usual_ns());
    let all = spans.reduce(|all, span| (all.0.min(span.0), all.1.max(span.1)));
    all.map(|(first, last)| last - first)
}

struct JointFollower {
    profiler: JointProfiler,
    spare: Arc<Spare>,
    most_blocks: u64,
}

impl Consumer for JointFollower {
    type Error = ReuseError;

    fn take(&mut self, batches: &[Vec<BlockAccess>]) -> Result<(), ReuseError> {
        let slices: Vec<&[BlockAccess]> = batches.iter().map(Vec::as_slice).collect();
        self.profiler.access_batches(&slices, &self.spare.lend(batches))
    }

    fn end_interval(&mut self) {}
}

impl Follower for JointFollower {
    fn memory_bytes(&self) -> u64 {
        self.profiler.memory_bytes() as u64
    }

    fn shrink(&mut self) -> bool {
        self.profiler.lower_rate()
    }

    fn rate(&self) -> f64 {
        self.profiler.rate()
    }

    fn most_blocks(&self) -> u64 {
        self.most_blocks
    }
}
