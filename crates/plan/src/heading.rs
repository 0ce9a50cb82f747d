//! What stands at the head of every report: how it came about, and one sentence for whoever reads no further. It must not
//! know the time, nor how the program was called.

use lode_types::show_size;

use crate::report::{CellReport, CompareReport, CurveReport, PART_SHARES};

/// How a report came about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// The day, in UTC.
    pub date: String,
    /// The command that makes it again.
    pub command: String,
}

/// The program and its version.
pub const PROGRAM: &str = concat!("Lodestore ", env!("CARGO_PKG_VERSION"));

impl Made {
    /// Date, program and command in one line; nothing where that is not known.
    pub fn line(&self) -> String {
        match self.command.is_empty() {
            true => String::new(),
            false => format!("{}, {PROGRAM}: {}", self.date, self.command),
        }
    }
}

/// Latencies that differ by less than this part count as alike.
const ALIKE: f64 = 0.01;

/// The part of what is needed that a sentence about curves names.
const PART: usize = 1;

impl CurveReport {
    /// All VMs' curves in one sentence; none without accesses.
    pub fn in_short(&self) -> Option<String> {
        let accesses = self.vms.iter().map(|vm| vm.accesses as f64).sum::<f64>();
        let all = |ratio: &dyn Fn(usize) -> f64| {
            let hits: f64 = (0..self.vms.len()).map(|vm| ratio(vm) * self.vms[vm].accesses as f64).sum();
            format!("{:.0} %", 100.0 * hits / accesses)
        };
        let most = all(&|vm| self.vms[vm].curve.last().map_or(0.0, |point| point.1));
        if accesses <= 0.0 {
            return None;
        }
        let needed: Option<u64> = self.vms.iter().map(|vm| vm.blocks).sum();
        let has_parts = self.vms.iter().all(|vm| vm.parts.len() == PART_SHARES.len());
        Some(match needed.filter(|_| has_parts) {
            Some(blocks) => format!(
                "{} of cache are enough for {most} of all block accesses to hit, which is all there is to have; {:.0} % of \
                 that size are for {}.",
                show_size(blocks.saturating_mul(self.block_bytes)),
                100.0 * PART_SHARES[PART],
                all(&|vm| self.vms[vm].parts[PART].hit_ratio)
            ),
            None => format!("With the largest of these caches {most} of all block accesses hit."),
        })
    }
}

impl CompareReport {
    /// The comparison in one sentence; none without requests.
    pub fn in_short(&self) -> Option<String> {
        let timed = || self.cells.iter().filter_map(|cell| Some((cell, cell.mean_latency_us?)));
        let least_us = timed().map(|(_, us)| us).reduce(f64::min)?;
        let (worst, worst_us) = timed().max_by(|one, other| one.1.total_cmp(&other.1))?;
        let close = || timed().filter(|(_, us)| *us <= least_us * (1.0 + ALIKE));
        let by_cost = |one: &(&CellReport, f64), other: &(&CellReport, f64)| {
            one.0.cost_usd.total_cmp(&other.0.cost_usd).then(one.1.total_cmp(&other.1))
        };
        let (best, best_us) = close().min_by(by_cost)?;
        let what = match close().count() {
            _ if best_us <= least_us => "is fastest",
            count if count == timed().count() => "is the cheapest of these, which are alike within 1 %",
            _ => "is as fast as any within 1 %, and the cheapest of those",
        };
        let mut text = format!("{} {what}: a request takes {best_us:.0} us on average", self.name_of(best));
        if let Some(ratio) = best.read_hit_ratio {
            text += &format!(", and {:.0} % of the blocks read come from the cache", 100.0 * ratio);
        }
        if worst_us > least_us * (1.0 + ALIKE) {
            text += &format!("; {} is slowest, with {worst_us:.0} us", self.name_of(worst));
        }
        Some(text + ".")
    }

    fn name_of(&self, cell: &CellReport) -> String {
        let levels = [
            (cell.levels.dram_bytes, "DRAM"),
            (cell.levels.ssd_bytes, "SSD"),
            (cell.levels.read_ssd_bytes, "read SSD"),
        ];
        let levels: Vec<String> = levels
            .into_iter()
            .filter(|(bytes, _)| *bytes > 0)
            .map(|(bytes, name)| format!("{} of {name}", show_size(bytes)))
            .collect();
        format!("{} with {}", self.schemes[cell.scheme].label, levels.join(" and "))
    }
}
