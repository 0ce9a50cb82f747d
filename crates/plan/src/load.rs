//! What the VMs of a set of traces could use of two levels: measured once, asked many times.
//!
//! It must not know how levels are divided.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use lode_hardware::time::SECOND_NS;
use lode_reuse::{
    Behind, Both, Curve, CurveKind, InTurn, JointProfile, JointProfiler, Method, Profiler, ReuseError,
};
use lode_trace::Merge;
use lode_types::Level;
use serde::Serialize;

use crate::error::PlanError;
use crate::jobs::Spare;
use crate::pool::{BlockAccess, Consumer};
use crate::streams::{Follower, StreamFacts, StreamOptions, follow, most_blocks};

/// Most points of a curve that levels are divided by. Between them hits are too low by less than one in so many.
pub const MAX_CURVE_POINTS: usize = 4096;

/// What the SSD of a plan keeps, which is what its curves count. DRAM keeps what is read, until it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SsdKeeps {
    /// What is written, and no block that is only read: `etica`.
    #[default]
    Written,
    /// Whatever is accessed and DRAM does not hold: `auto`.
    Accessed,
}

impl SsdKeeps {
    /// For people, after "an SSD that keeps".
    pub fn in_words(self) -> &'static str {
        match self {
            SsdKeeps::Written => "what is written",
            SsdKeeps::Accessed => "what DRAM does not hold",
        }
    }
}

/// One VM's stream, as far as sizing needs it.
#[derive(Clone, Debug)]
pub struct VmLoad {
    /// What is known of it besides.
    pub facts: StreamFacts,
    /// What a read-only DRAM level over a write-only SSD level would do, at every pair of sizes.
    pub profile: Arc<JointProfile>,
    /// How long its trace goes, in nanoseconds; where that is no time, how long all go; 0 where times are not known.
    pub span_ns: u64,
    /// What a write-back cache would do.
    accessed: Arc<Curve>,
    /// Different blocks that it accesses; an estimate where sampled.
    accessed_blocks: u64,
    /// The curves that levels are divided by: those of the read-only level, of the write-only one and of the write-back cache, with
    /// at most [`MAX_CURVE_POINTS`] points, so that a division does not take longer for a VM of many blocks.
    thin: Arc<[Curve; 3]>,
    /// What its SSD keeps.
    ssd_keeps: SsdKeeps,
}

impl VmLoad {
    fn new(facts: StreamFacts, profile: JointProfile, accessed: &Profiler) -> VmLoad {
        let (accessed_blocks, accessed) = (accessed.distinct_blocks(), accessed.curve());
        let curves = [profile.ro_curve(), profile.wbwo_curve(), &accessed];
        let thin = curves.map(|curve| curve.thin(MAX_CURVE_POINTS));
        VmLoad {
            facts,
            profile: Arc::new(profile),
            span_ns: 0,
            accessed: Arc::new(accessed),
            accessed_blocks,
            thin: Arc::new(thin),
            ssd_keeps: SsdKeeps::default(),
        }
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

    /// Different blocks that it accesses; an estimate where sampled.
    pub(crate) fn accessed_blocks(&self) -> u64 {
        self.accessed_blocks.min(self.profile.reads() + self.profile.writes())
    }

    /// What its SSD keeps.
    pub(crate) fn ssd_keeps(&self) -> SsdKeeps {
        self.ssd_keeps
    }

    /// The curve that a level is divided by; of an SSD that keeps what DRAM does not hold, behind so many blocks of that.
    pub fn curve(&self, level: Level, dram_blocks: u64) -> Cow<'_, Curve> {
        let [ro, wbwo, wb] = &*self.thin;
        match (level, self.ssd_keeps) {
            (Level::Dram, _) => Cow::Borrowed(ro),
            (_, SsdKeeps::Written) => Cow::Borrowed(wbwo),
            // Behind nothing it is alone.
            (_, SsdKeeps::Accessed) if dram_blocks == 0 => Cow::Borrowed(wb),
            (_, SsdKeeps::Accessed) => {
                Cow::Owned(Behind { ro, wb }.curve(dram_blocks).thin(MAX_CURVE_POINTS))
            }
        }
    }

    /// The curve that one SSD level is divided by, which keeps whatever is accessed.
    pub(crate) fn one_level_curve(&self) -> &Curve {
        &self.thin[2]
    }

    /// Reads that DRAM serves, and those that the SSD serves beyond them, of shares of so many blocks, by [`Level::index`].
    pub(crate) fn hits(&self, [dram_blocks, ssd_blocks]: [u64; 2]) -> (u64, u64) {
        match self.ssd_keeps {
            SsdKeeps::Written => self.profile.hits(dram_blocks, ssd_blocks),
            SsdKeeps::Accessed => {
                Behind { ro: self.profile.ro_curve(), wb: &self.accessed }.hits(dram_blocks, ssd_blocks)
            }
        }
    }

    /// Most that the standard error of the hits of both levels may be for each access: those of the curves at these shares, together;
    /// none where it is not known.
    pub(crate) fn standard_error(&self, [dram_blocks, ssd_blocks]: [u64; 2]) -> Option<f64> {
        let of_ssd = match self.ssd_keeps {
            SsdKeeps::Written => self.profile.wbwo_curve().standard_error_at(ssd_blocks),
            SsdKeeps::Accessed => self.accessed.standard_error_at(dram_blocks.saturating_add(ssd_blocks)),
        };
        Some(self.profile.ro_curve().standard_error_at(dram_blocks)? + of_ssd?)
    }

    /// Share of its blocks that was followed, for the curve of which it is least; 1 is all.
    pub fn rate(&self) -> f64 {
        self.profile.rate().min(self.accessed.rate())
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
}

/// Measures all VMs of `merge`, for an SSD that keeps what is written: [`Load::with_ssd_that_keeps`] has it keep more. `progress`
/// hears of every batch.
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
        Ok(LoadFollower {
            levels: JointProfiler::new(method, vm as u64)?,
            accessed: Profiler::new(CurveKind::Wb, method, vm as u64)?,
            spare: spare.clone(),
            most_blocks: most_blocks(method),
        })
    };
    let followed = follow(merge, stream, make, progress)?;
    let vms = followed
        .vms
        .into_iter()
        .map(|(facts, follower)| VmLoad::new(facts, follower.levels.finish(), &follower.accessed));
    let mut load = Load {
        vms: vms.collect(),
        shrinks: followed.shrinks,
        block_bytes: stream.block_size.bytes(),
        has_times: merge.has_times(),
    };
    let inputs: Vec<usize> = merge.vms().iter().map(|vm| vm.input).collect();
    load.set_spans(&inputs);
    Ok(load)
}

impl Load {
    /// The same VMs where the SSD keeps this.
    pub fn with_ssd_that_keeps(&self, ssd_keeps: SsdKeeps) -> Load {
        let mut load = self.clone();
        load.vms.iter_mut().for_each(|vm| vm.ssd_keeps = ssd_keeps);
        load
    }

    /// What the SSD keeps.
    pub(crate) fn ssd_keeps(&self) -> SsdKeeps {
        self.vms.first().map_or_else(SsdKeeps::default, VmLoad::ssd_keeps)
    }

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

struct LoadFollower {
    /// Both levels, the SSD of which keeps what is written.
    levels: JointProfiler,
    /// A cache that keeps whatever is accessed.
    accessed: Profiler,
    spare: Arc<Spare>,
    most_blocks: u64,
}

impl Consumer for LoadFollower {
    type Error = ReuseError;

    fn take(&mut self, batches: &[Vec<BlockAccess>]) -> Result<(), ReuseError> {
        let slices: Vec<&[BlockAccess]> = batches.iter().map(Vec::as_slice).collect();
        let LoadFollower { levels, accessed, spare, .. } = self;
        let done = spare.lend(batches).both(
            || levels.access_batches(&slices, &InTurn),
            || slices.iter().try_for_each(|batch| accessed.access_all(batch)),
        );
        done.0.and(done.1)
    }

    fn end_interval(&mut self) {}
}

impl Follower for LoadFollower {
    fn memory_bytes(&self) -> u64 {
        (self.levels.memory_bytes() + self.accessed.memory_bytes()) as u64
    }

    fn shrink(&mut self) -> bool {
        let levels = self.levels.lower_rate();
        self.accessed.lower_rate() || levels
    }

    fn rate(&self) -> f64 {
        self.levels.rate().min(self.accessed.rate())
    }

    fn most_blocks(&self) -> u64 {
        self.most_blocks
    }
}
