//! One cache level divided between curves that are already there. It must not know where they are from.

use lode_plan::{VmRule, check_rule, parse_rule};
use lode_reuse::CurvePoint;
use lode_reuse::sizing::{Objective, VmDemand, divide};
use lode_types::Level;
use pyo3::prelude::*;

use crate::error::Failure;
use crate::job::run;

/// One curve, a dictionary in Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Demand {
    name: String,
    points: Vec<(u64, u64)>,
    accesses: u64,
}

impl Demand {
    /// What the curve asks of the level, as far as the rules let it.
    fn within(self, rules: &[VmRule], block_bytes: u64) -> VmDemand {
        let points = self.points.iter().map(|&(size_blocks, hits)| CurvePoint { size_blocks, hits });
        let mut demand = VmDemand {
            demand_blocks: self.points.last().map_or(0, |point| point.0),
            curve: points.collect(),
            accesses: self.accesses,
            weight: 1.0,
            min_blocks: 0,
            max_blocks: u64::MAX,
            write_buffer: None,
        };
        let meant = rules.iter().filter(|rule| rule.is_for(&self.name));
        meant.for_each(|rule| rule.limit(&mut demand, Level::Ssd, block_bytes));
        demand
    }
}

/// The rules in words, each of which is for a curve.
fn rules_of(texts: &[String], demands: &[Demand], block_bytes: u64) -> Result<Vec<VmRule>, Failure> {
    let rules = texts.iter().map(|text| parse_rule(text)).collect::<Result<Vec<VmRule>, _>>()?;
    for rule in &rules {
        check_rule(rule, block_bytes).map_err(|message| format!("vms: {message}"))?;
        if !demands.iter().any(|demand| rule.is_for(&demand.name)) {
            let names: Vec<&str> = demands.iter().take(8).map(|demand| demand.name.as_str()).collect();
            return Err(
                format!("vms: no curve is called {}; there are {}", rule.name, names.join(", ")).into()
            );
        }
    }
    Ok(rules)
}

/// Blocks for each, how they were found, and the objective's value.
#[pyfunction]
#[pyo3(signature = (demands, rules, block_bytes, capacity_blocks, objective))]
pub fn divide_curves(
    py: Python<'_>,
    demands: Vec<Demand>,
    rules: Vec<String>,
    block_bytes: u64,
    capacity_blocks: u64,
    objective: &str,
) -> PyResult<(Vec<u64>, &'static str, f64)> {
    let objective = match objective {
        "hits" => Objective::Hits,
        "sum-hit-ratio" => Objective::SumHitRatio,
        "maxmin" => Objective::MaxMin,
        other => {
            let message =
                format!("objective is '{other}'; of curves alone it is hits, sum-hit-ratio or maxmin");
            return Err(Failure::Usage(message).into());
        }
    };
    let rules = rules_of(&rules, &demands, block_bytes)?;
    let demands: Vec<VmDemand> =
        demands.into_iter().map(|demand| demand.within(&rules, block_bytes)).collect();
    run(py, None, |_| {
        let division = divide(&demands, capacity_blocks, objective)?;
        Ok((division.sizes, division.method.name(), division.value))
    })
}
