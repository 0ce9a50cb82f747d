//! Which mode of the scheme that serves a plan suits what the plan was made for. It must not know how modes work.

use lode_replay::{Report, VmReport};
use lode_reuse::sizing::Objective;

use crate::division::{SizeOptions, weight_of};
use crate::load::{Load, VmLoad};
use crate::report::ReplayedReport;

/// How much worse a replay may be and still count as equally good: a smaller difference is not worth an SSD's life.
const EQUALLY_GOOD: f64 = 0.01;

/// A mode, and why it was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) mode: &'static str,
    pub(crate) reason: String,
}

/// The mode with which the plan was best by its objective when it was replayed; of those that are about as good, the one
/// with which the SSD lasts longest, of equals the first. `shown` are the reports of `replayed`, in the same order.
pub(crate) fn choose(
    load: &Load,
    options: &SizeOptions,
    replayed: &[(&'static str, Report)],
    shown: &[ReplayedReport],
) -> Option<Choice> {
    let values: Vec<f64> = replayed.iter().map(|(_, report)| value(load, options, report)).collect();
    let best = values.iter().copied().reduce(f64::max)?;
    let good = || {
        let all = values.iter().zip(shown);
        all.filter(|(value, _)| **value >= best - EQUALLY_GOOD * best.abs()).map(|(_, one)| one)
    };
    let chosen = good().min_by(|a, b| worn(a).total_cmp(&worn(b)))?;
    let what = measured(options.objective);
    let reason = if good().count() > 1 {
        let part = 100.0 * EQUALLY_GOOD;
        format!("with it the SSD lasts longest of those that are within {part:.0} % of the best in {what}")
    } else {
        format!("it is best in {what}, which is the objective")
    };
    Some(Choice { mode: chosen.mode, reason })
}

/// What wears the SSD: bytes a day, or in all where no times are known.
fn worn(replayed: &ReplayedReport) -> f64 {
    replayed.wear.bytes_per_day.unwrap_or(replayed.wear.written_bytes as f64)
}

/// What an objective looks at, for people.
fn measured(objective: Objective) -> &'static str {
    match objective {
        Objective::Latency { .. } => "mean latency",
        Objective::Hits => "read hits",
        Objective::SumHitRatio | Objective::PpcTotal { .. } | Objective::PpcLiteral { .. } => {
            "the sum of the VMs' hit ratios"
        }
        Objective::MaxMin => "the hit ratio of the VM that is worst off",
    }
}

/// How good a replay was by the objective; larger is better. Sizes are the same in all replays, so that performance per
/// cost is performance.
fn value(load: &Load, options: &SizeOptions, report: &Report) -> f64 {
    let vms = || load.vms.iter().zip(&report.vms);
    let hits = |(vm, replayed): &(&VmLoad, &VmReport)| {
        let counters = &replayed.counts.counters;
        let hits = counters.read_hits.total() as f64;
        (hits, hits / counters.block_accesses.max(1) as f64, weight_of(vm, options))
    };
    match options.objective {
        Objective::Latency { .. } => -report.total.mean_latency_us.unwrap_or(0.0),
        Objective::Hits => vms().map(|vm| hits(&vm)).map(|(hits, _, weight)| weight * hits).sum(),
        Objective::SumHitRatio | Objective::PpcTotal { .. } | Objective::PpcLiteral { .. } => {
            vms().map(|vm| hits(&vm)).map(|(_, ratio, weight)| weight * ratio).sum()
        }
        // A VM that cannot hit is worst off with every mode and says nothing of them.
        Objective::MaxMin => {
            let can_hit = vms().filter(|(_, replayed)| replayed.counts.counters.block_reads > 0);
            let ratios = can_hit.map(|vm| hits(&vm)).map(|(_, ratio, weight)| ratio / weight);
            ratios.reduce(f64::min).unwrap_or(0.0)
        }
    }
}
