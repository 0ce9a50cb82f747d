//! One cache level divided between curves that are already there. It must not know where they are from.

use lode_reuse::CurvePoint;
use lode_reuse::sizing::{Objective, VmDemand, divide};
use pyo3::prelude::*;

use crate::error::Failure;
use crate::job::run;

/// One curve, a dictionary in Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Demand {
    points: Vec<(u64, u64)>,
    accesses: u64,
    weight: f64,
    min_blocks: u64,
    max_blocks: Option<u64>,
}

impl From<Demand> for VmDemand {
    fn from(demand: Demand) -> VmDemand {
        let points = demand.points.iter().map(|&(size_blocks, hits)| CurvePoint { size_blocks, hits });
        VmDemand {
            demand_blocks: demand.points.last().map_or(0, |point| point.0),
            curve: points.collect(),
            accesses: demand.accesses,
            weight: demand.weight,
            min_blocks: demand.min_blocks,
            max_blocks: demand.max_blocks.unwrap_or(u64::MAX),
            write_buffer: None,
        }
    }
}

/// Blocks for each, how they were found, and the objective's value.
#[pyfunction]
#[pyo3(signature = (demands, capacity_blocks, objective))]
pub fn divide_curves(
    py: Python<'_>,
    demands: Vec<Demand>,
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
    let demands: Vec<VmDemand> = demands.into_iter().map(VmDemand::from).collect();
    run(py, None, |_| {
        let division = divide(&demands, capacity_blocks, objective)?;
        Ok((division.sizes, division.method.name(), division.value))
    })
}
