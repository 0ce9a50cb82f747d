//! Schemes against one of them, at the same size: how many of its misses and how much of its time they save. It must not know
//! how either came about.

use serde::Serialize;

use super::{CellReport, CompareReport};
use crate::error::PlanError;

/// What a cell saves of the baseline's with the same size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Against {
    /// Part of the baseline's misses, of all block accesses, that are hits here; below 0 where there are more of them, none
    /// where the baseline has none.
    pub miss_ratio_reduction: Option<f64>,
    /// Part of the baseline's mean time of a request that is saved; none without requests.
    pub latency_reduction: Option<f64>,
    /// The reduction of misses over the VMs, each counting the same; none where no VM misses with the baseline.
    pub over_vms: Option<Spread>,
}

/// How values are spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// How many there are.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// A tenth of them are at most this.
    pub p10: f64,
    /// Half of them are at most this.
    pub p50: f64,
    /// Nine tenths of them are at most this.
    pub p90: f64,
}

impl Spread {
    /// Of these values; none of none.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let at = |percent: usize| values.get((count * percent).div_ceil(100).saturating_sub(1)).copied();
        let mean = values.iter().sum::<f64>() / count as f64;
        Some(Spread { count, mean, p10: at(10)?, p50: at(50)?, p90: at(90)? })
    }
}

impl CompareReport {
    /// Adds to every cell what it saves of that of the scheme called `label` with the same size.
    ///
    /// # Errors
    /// [`PlanError::Request`] where no scheme of the comparison is called so.
    pub fn set_baseline(&mut self, label: &str) -> Result<(), PlanError> {
        let Some(scheme) = self.schemes.iter().position(|scheme| scheme.label == label) else {
            let labels: Vec<&str> = self.schemes.iter().map(|scheme| scheme.label.as_str()).collect();
            let labels = labels.join(", ");
            return Err(PlanError::Request(format!(
                "--baseline {label} is none of the schemes that are compared; name one of {labels}, or add it to --schemes"
            )));
        };
        let base: Vec<CellReport> = self.cells.iter().filter(|cell| cell.scheme == scheme).cloned().collect();
        for cell in &mut self.cells {
            let of_size = base.iter().find(|base| base.size == cell.size);
            cell.against = of_size.map(|base| against(cell, base));
        }
        self.baseline = Some(label.to_owned());
        Ok(())
    }
}

fn against(cell: &CellReport, base: &CellReport) -> Against {
    let misses = |ratio: Option<f64>| ratio.map(|ratio| 1.0 - ratio);
    let of_vms = cell.vms.iter().zip(&base.vms);
    let of_vms = of_vms.filter_map(|(vm, base)| reduction(misses(vm.hit_ratio), misses(base.hit_ratio)));
    Against {
        miss_ratio_reduction: reduction(misses(cell.hit_ratio), misses(base.hit_ratio)),
        latency_reduction: reduction(cell.mean_latency_us, base.mean_latency_us),
        over_vms: Spread::of(of_vms.collect()),
    }
}

/// The part of `base` that is saved.
fn reduction(value: Option<f64>, base: Option<f64>) -> Option<f64> {
    let (value, base) = (value?, base.filter(|base| *base > 0.0)?);
    Some((base - value) / base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_there_are() {
        let spread = Spread::of((1..=10).rev().map(f64::from).collect()).expect("values");
        assert_eq!((spread.count, spread.mean), (10, 5.5));
        assert_eq!((spread.p10, spread.p50, spread.p90), (1.0, 5.0, 9.0));
        let one = Spread::of(vec![-0.5]).expect("a value");
        assert_eq!((one.p10, one.p50, one.p90), (-0.5, -0.5, -0.5));
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn what_is_saved_is_a_part_of_the_baseline() {
        assert_eq!(reduction(Some(0.3), Some(0.4)).map(|part| (part * 100.0).round()), Some(25.0));
        assert_eq!(reduction(Some(0.6), Some(0.4)).map(|part| (part * 100.0).round()), Some(-50.0));
        assert_eq!((reduction(Some(0.1), Some(0.0)), reduction(None, Some(1.0))), (None, None));
    }
}
