//! Results in the shape that `docs/reports.md` describes, whose names are stable. It must not compute anything that
//! is not there yet.

use lode_hardware::time::SECOND_NS;
use lode_replay::{InputReport, RequestStream};
use lode_reuse::working_set::reuse_intensity;
use lode_reuse::{Curve, CurveKind, Method};
use lode_trace::Merge;
use serde::Serialize;

use crate::curves::{CurveOptions, Curves, IntervalCurve, VmCurve};
use crate::mini::{MiniOptions, MiniVm};
use crate::streams::StreamFacts;

/// Parts of the needed size of which tables tell the hits.
pub const PART_SHARES: [f64; 4] = [0.05, 0.1, 0.25, 0.5];

/// What `lode curve` finds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CurveReport {
    /// `trd`, `urd`, `pod` or `scheme`.
    pub metric: &'static str,
    /// `ro`, `wbwo` or `wb` for `pod`, the scheme's name for `scheme`; none for the others.
    pub policy: Option<String>,
    /// How the curves were obtained.
    pub method: String,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Each VM, in order of appearance.
    pub vms: Vec<VmCurveReport>,
    /// How often blocks were left out to keep within the memory.
    pub shrinks: u64,
    /// The traces that were read.
    pub inputs: Vec<InputReport>,
    /// What the user should hear of the way the traces fit together.
    pub warnings: Vec<String>,
}

/// One VM.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VmCurveReport {
    /// Its name.
    pub name: String,
    /// Largest useful distance; none when no access is useful.
    pub max_distance: Option<u64>,
    /// Smallest cache that has all hits there are to have; none where only some sizes were simulated.
    pub blocks: Option<u64>,
    /// Hits for each access by cache size in blocks, where they change; thinned out where there are too many points.
    pub curve: Vec<(u64, f64)>,
    /// SSD writes for each access at each point of `curve`; only of simulations.
    pub ssd_writes_per_access: Option<Vec<f64>>,
    /// Standard error of each hit ratio of `curve`; none where it is not known.
    pub standard_error: Option<Vec<f64>>,
    /// Caches of [`PART_SHARES`] of `blocks`, from the whole curve; none of simulations.
    pub parts: Vec<PartReport>,
    /// Reads and writes.
    pub requests: u64,
    /// Block accesses.
    pub accesses: u64,
    /// Of these, reads.
    pub reads: u64,
    /// Distinct blocks that count for this curve; none of simulations.
    pub distinct_blocks: Option<u64>,
    /// Accesses of each distinct block a second of the VM's span (vCacheShare's reuse intensity); none without a span
    /// or times.
    pub reuse_intensity_per_s: Option<f64>,
    /// Share of the blocks that were followed.
    pub rate: f64,
    /// Distinct blocks that were followed; only of simulations, which know no standard error.
    pub followed_blocks: Option<u64>,
    /// Number of the interval that the first of `intervals` stands for.
    pub first_interval: u32,
    /// What each interval showed.
    pub intervals: Vec<IntervalReport>,
    /// Intervals after those in `intervals`.
    pub intervals_cut: u64,
}

/// A cache of a part of what a VM needs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PartReport {
    /// Which part.
    pub share: f64,
    /// Hits for each access.
    pub hit_ratio: f64,
    /// Its standard error; none where it is not known.
    pub standard_error: Option<f64>,
}

/// One VM in one interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct IntervalReport {
    /// Block accesses.
    pub accesses: u64,
    /// Distinct blocks accessed.
    pub working_set_blocks: u64,
    /// Largest useful distance; none when no access is useful.
    pub max_distance: Option<u64>,
    /// Smallest cache that has all hits there are to have.
    pub blocks: u64,
    /// Hits for each access of a cache of that size.
    pub hit_ratio: f64,
    /// Accesses of each distinct block a second; none in no time.
    pub reuse_intensity_per_s: Option<f64>,
}

impl CurveReport {
    /// The report of `curves`, measured over `merge`, with at most `most_points` points a curve, that of no cache among them.
    pub fn new(curves: &Curves, options: &CurveOptions, merge: &Merge, most_points: usize) -> CurveReport {
        let (metric, policy) = metric_and_policy(options.kind);
        let block_bytes = options.stream.block_size.bytes();
        let bounds_ns = merge.has_times().then_some(&curves.bounds_ns[..]);
        CurveReport {
            metric,
            policy: policy.map(str::to_owned),
            method: method_used(options.method, curves.shrinks, curves.vms.iter().map(|vm| vm.rate)),
            block_bytes,
            vms: curves.vms.iter().map(|vm| VmCurveReport::new(vm, most_points, bounds_ns)).collect(),
            shrinks: curves.shrinks,
            inputs: merge.inputs(),
            warnings: RequestStream::warnings(merge),
        }
    }
}

impl CurveReport {
    /// The report of a miniature simulation.
    pub fn of_simulation(vms: &[MiniVm], options: &MiniOptions, merge: &Merge) -> CurveReport {
        CurveReport {
            metric: "scheme",
            policy: Some(options.settings.scheme().to_owned()),
            method: method_used(Method::LeastRate(options.rate), 0, vms.iter().map(|vm| vm.rate)),
            block_bytes: options.stream.block_size.bytes(),
            vms: vms.iter().map(VmCurveReport::of_simulation).collect(),
            shrinks: 0,
            inputs: merge.inputs(),
            warnings: RequestStream::warnings(merge),
        }
    }
}

impl VmCurveReport {
    fn of_simulation(vm: &MiniVm) -> VmCurveReport {
        // Sizes beyond the one from which nothing changes say nothing.
        let last = vm.points.last().map_or(0.0, |point| point.hit_ratio);
        let shown = vm.points.iter().position(|point| point.hit_ratio == last).map_or(0, |at| at + 1);
        let points = || vm.points[..shown].iter();
        VmCurveReport {
            name: vm.facts.name.clone(),
            max_distance: None,
            blocks: None,
            curve: std::iter::once((0, 0.0))
                .chain(points().map(|point| (point.size_blocks, point.hit_ratio)))
                .collect(),
            ssd_writes_per_access: Some(
                std::iter::once(0.0).chain(points().map(|point| point.ssd_writes_per_access)).collect(),
            ),
            standard_error: None,
            parts: Vec::new(),
            requests: vm.facts.requests,
            accesses: vm.accesses,
            reads: vm.reads,
            distinct_blocks: None,
            reuse_intensity_per_s: None,
            rate: vm.rate,
            followed_blocks: Some(vm.followed_blocks),
            first_interval: 0,
            intervals: Vec::new(),
            intervals_cut: 0,
        }
    }

    /// `bounds_ns` are where intervals begin and end; none where a trace has no times.
    fn new(vm: &VmCurve, most_points: usize, bounds_ns: Option<&[u64]>) -> VmCurveReport {
        let curve = thinned(&vm.curve, most_points);
        VmCurveReport {
            name: vm.facts.name.clone(),
            max_distance: vm.curve.max_distance(),
            blocks: Some(vm.curve.blocks_needed()),
            curve: points(&curve),
            ssd_writes_per_access: None,
            standard_error: errors(&curve),
            parts: PART_SHARES.map(|share| PartReport::new(&vm.curve, share)).to_vec(),
            requests: vm.facts.requests,
            accesses: vm.curve.accesses(),
            reads: vm.curve.reads(),
            distinct_blocks: Some(vm.distinct_blocks),
            reuse_intensity_per_s: reuse_intensity(
                vm.curve.accesses(),
                vm.distinct_blocks,
                bounds_ns.map_or(0.0, |_| seconds(&vm.facts)),
            ),
            rate: vm.rate,
            followed_blocks: None,
            first_interval: vm.facts.first_interval,
            intervals: vm
                .intervals
                .iter()
                .zip(vm.facts.first_interval as usize..)
                .map(|(interval, number)| {
                    IntervalReport::new(interval, number, bounds_ns.unwrap_or_default())
                })
                .collect(),
            intervals_cut: vm.intervals_cut,
        }
    }
}

impl PartReport {
    fn new(curve: &Curve, share: f64) -> PartReport {
        let blocks = (curve.blocks_needed() as f64 * share) as u64;
        PartReport {
            share,
            hit_ratio: curve.hit_ratio_at(blocks),
            standard_error: curve.standard_error_at(blocks),
        }
    }
}

impl IntervalReport {
    /// The report of the interval of this number.
    fn new(interval: &IntervalCurve, number: usize, bounds_ns: &[u64]) -> IntervalReport {
        let seconds = match bounds_ns.get(number..number + 2) {
            Some(bounds) => bounds[1].saturating_sub(bounds[0]) as f64 / SECOND_NS,
            None => 0.0,
        };
        IntervalReport {
            accesses: interval.accesses,
            working_set_blocks: interval.working_set_blocks,
            max_distance: interval.max_distance,
            blocks: interval.needed_blocks,
            hit_ratio: interval.best_hit_ratio,
            reuse_intensity_per_s: reuse_intensity(interval.accesses, interval.working_set_blocks, seconds),
        }
    }
}

/// A curve of which at most so many points are shown, that of no cache among them; never fewer than two.
pub(crate) fn thinned(curve: &Curve, most_points: usize) -> Curve {
    curve.thin(most_points.saturating_sub(1).max(1))
}

/// Hit ratio by size, from no cache on.
pub(crate) fn points(curve: &Curve) -> Vec<(u64, f64)> {
    let sizes = std::iter::once(0).chain(curve.points().iter().map(|point| point.size_blocks));
    sizes.map(|size| (size, curve.hit_ratio_at(size))).collect()
}

fn errors(curve: &Curve) -> Option<Vec<f64>> {
    let sizes = std::iter::once(0).chain(curve.points().iter().map(|point| point.size_blocks));
    sizes.map(|size| curve.standard_error_at(size)).collect()
}

/// Seconds from a VM's first request to its last.
fn seconds(facts: &StreamFacts) -> f64 {
    facts.span.usual_ns().map_or(0.0, |(first_ns, last_ns)| (last_ns - first_ns) as f64 / SECOND_NS)
}

fn metric_and_policy(kind: CurveKind) -> (&'static str, Option<&'static str>) {
    match kind {
        CurveKind::Trd => ("trd", None),
        CurveKind::Urd => ("urd", None),
        CurveKind::Ro => ("pod", Some("ro")),
        CurveKind::Wbwo => ("pod", Some("wbwo")),
        CurveKind::Wb => ("pod", Some("wb")),
    }
}

/// How curves were obtained, written as it is asked for, from what was asked for and the shares of the blocks that were
/// followed in the end: exactly if these are all blocks, and with the smallest of them where exact tables did not fit the
/// memory; so it is with samples of a fixed size that were made smaller `shrinks` times.
pub fn method_used(asked: Method, shrinks: u64, rates: impl Iterator<Item = f64>) -> String {
    let least = rates.fold(1.0, f64::min);
    match asked {
        Method::Exact if least < 1.0 => rate_method(least),
        Method::Size(_) if shrinks > 0 && least < 1.0 => rate_method(least),
        Method::LeastRate(_) | Method::Size(_) if least >= 1.0 => method_text(Method::Exact),
        _ => method_text(asked),
    }
}

/// A share of the blocks, in as few characters as tell it.
pub fn rate_text(rate: f64) -> String {
    if rate < LEAST_PLAIN_RATE { format!("{rate:e}") } else { rate.to_string() }
}

/// Below it, rates are written with a power of ten.
const LEAST_PLAIN_RATE: f64 = 1e-4;

/// A sample of this share of the blocks, as it is asked for.
fn rate_method(rate: f64) -> String {
    format!("rate={}", rate_text(rate))
}

/// The method as it is asked for.
fn method_text(method: Method) -> String {
    match method {
        Method::Exact => "exact".to_owned(),
        Method::LeastRate(rate) => rate_method(rate),
        Method::Size(blocks) => format!("size={blocks}"),
        Method::Aet => "aet".to_owned(),
        Method::CounterStacks(_) => "counter-stacks".to_owned(),
    }
}
