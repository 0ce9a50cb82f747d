//! Dividing a cache between VMs by their hit curves (ETICA, section 4.3.2).
//!
//! When all demands fit, each VM gets its demand. Otherwise sizes are chosen that maximise an [`Objective`], each
//! the smallest that gives its VM the same hits. Guaranteed minimum sizes are honoured before anything else.
//! It must not know what a block costs or who the VMs are.

mod choices;
mod exact;
mod greedy;
mod maxmin;
mod objective;
mod talus;

use crate::curve::{self, Curve, CurvePoint};
use crate::error::ReuseError;
use choices::Choices;
pub use objective::Objective;
pub use talus::{Hull, Split};

/// Most steps (choices of all VMs times blocks to divide) that the exact solver takes: a few milliseconds.
pub const EXACT_WORK_LIMIT: u128 = 1 << 22;

/// What one VM asks of one cache level.
#[derive(Clone, Debug, PartialEq)]
pub struct VmDemand {
    /// Hits by size: ascending in size and in hits.
    pub curve: Vec<CurvePoint>,
    /// Accesses that the curve was measured over.
    pub accesses: u64,
    /// The size beyond which the VM gains nothing: largest distance plus one, or 0.
    pub demand_blocks: u64,
    /// How much the VM counts; 1 unless set otherwise.
    pub weight: f64,
    /// Guaranteed size.
    pub min_blocks: u64,
    /// Size never exceeded.
    pub max_blocks: u64,
    /// What a share is worth beside its hits, if anything; of the objectives, only [`Objective::Latency`] counts it.
    pub write_buffer: Option<WriteBuffer>,
}

/// What a cache does for writes, however large it is beyond some size: they need not wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteBuffer {
    /// The smallest size that does so.
    pub blocks: u64,
    /// What that takes from the VM's mean latency; not negative.
    pub saved_us: f64,
}

impl VmDemand {
    /// The demand of a VM with this curve, of weight 1, without guarantee or limit.
    pub fn new(curve: &Curve) -> VmDemand {
        VmDemand {
            curve: curve.points().to_vec(),
            accesses: curve.accesses(),
            demand_blocks: curve.points().last().map_or(0, |point| point.size_blocks),
            weight: 1.0,
            min_blocks: 0,
            max_blocks: u64::MAX,
            write_buffer: None,
        }
    }

    /// Hits of a cache of `size_blocks`.
    pub fn hits_at(&self, size_blocks: u64) -> u64 {
        curve::hits_at(&self.curve, size_blocks)
    }

    fn fault(&self) -> Option<&'static str> {
        let rises = |w: &[CurvePoint]| w[0].size_blocks < w[1].size_blocks && w[0].hits <= w[1].hits;
        if !self.curve.windows(2).all(rises) {
            Some("the curve is not ascending")
        } else if self.curve.last().is_some_and(|point| point.hits > self.accesses) {
            Some("the curve has more hits than accesses")
        } else if !(self.weight.is_finite() && self.weight > 0.0) {
            Some("the weight is not a positive number")
        } else if self.min_blocks > self.max_blocks {
            Some("the guaranteed size is above the largest size")
        } else if self
            .write_buffer
            .is_some_and(|buffer| !(buffer.saved_us.is_finite() && buffer.saved_us >= 0.0))
        {
            Some("what buffering writes saves is not a non-negative number")
        } else {
            None
        }
    }
}

/// Which solver to use when demands do not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Solver {
    /// The exact one up to [`EXACT_WORK_LIMIT`], else the greedy one.
    #[default]
    Auto,
    /// Dynamic programming over every number of blocks.
    Exact,
    /// Best gain a block first, looking ahead along each curve's hull.
    Greedy,
    /// Anywhere on each curve's hull, with caches that are cut in two; see [`Split`]. Only for objectives that are
    /// sums of hits.
    Talus,
}

/// How a division was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// All demands fit.
    Granted,
    /// Optimal, by dynamic programming.
    Exact,
    /// By the greedy solver: within half of the best possible gain for sums of independent values.
    Greedy,
    /// Optimal for the worst-off VM, by filling from below.
    MaxMin,
    /// Optimal for caches that are cut in two.
    Talus,
}

impl Method {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Method::Granted => "granted",
            Method::Exact => "exact",
            Method::Greedy => "greedy",
            Method::MaxMin => "maxmin",
            Method::Talus => "talus",
        }
    }
}

/// Sizes for all VMs.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// Blocks of each VM, in the order of the demands.
    pub sizes: Vec<u64>,
    /// How they were found.
    pub method: Method,
    /// The objective's value at these sizes.
    pub value: f64,
}

/// Divides `capacity_blocks` between the VMs. The sizes never sum to more than the capacity; each is at least the
/// VM's guarantee and at most the larger of guarantee and demand, which a write buffer that counts is a part of.
///
/// # Errors
/// A demand or the objective is malformed, or the guarantees do not fit.
pub fn divide(
    demands: &[VmDemand],
    capacity_blocks: u64,
    objective: Objective,
) -> Result<Division, ReuseError> {
    divide_by(Solver::Auto, demands, capacity_blocks, objective)
}

/// As [`divide`], by a given solver.
///
/// # Errors
/// Those of [`divide`], and [`ReuseError::TooLargeForExact`]. [`Objective::MaxMin`] has one solver, whatever is
/// asked for.
pub fn divide_by(
    solver: Solver,
    demands: &[VmDemand],
    capacity_blocks: u64,
    objective: Objective,
) -> Result<Division, ReuseError> {
    objective.check()?;
    if solver == Solver::Talus {
        talus::check(&objective)?;
    }
    for (vm, demand) in demands.iter().enumerate() {
        if let Some(reason) = demand.fault() {
            return Err(ReuseError::InvalidDemand { vm, reason });
        }
    }
    let ranges: Vec<(u64, u64)> = demands.iter().map(|demand| objective.range(demand)).collect();
    let needed_blocks: u128 = ranges.iter().map(|range| u128::from(range.0)).sum();
    let wanted_blocks: u128 = ranges.iter().map(|range| u128::from(range.1)).sum();
    let finish = |sizes: Vec<u64>, method| {
        let value = objective.value(demands, &sizes);
        Ok(Division { sizes, method, value })
    };
    if needed_blocks > u128::from(capacity_blocks) {
        return Err(ReuseError::GuaranteesDoNotFit { needed_blocks, capacity_blocks });
    }
    if wanted_blocks <= u128::from(capacity_blocks) {
        return finish(ranges.iter().map(|range| range.1).collect(), Method::Granted);
    }
    let budget = capacity_blocks - needed_blocks as u64;
    if solver == Solver::Talus {
        let sizes = talus::solve(demands, &ranges, budget, &objective);
        let value = talus::value(demands, &sizes, &objective);
        return Ok(Division { sizes, method: Method::Talus, value });
    }
    let problem: Vec<Choices> = demands
        .iter()
        .zip(&ranges)
        .map(|(demand, &range)| Choices::new(demand, range, budget, &objective))
        .collect();
    if objective == Objective::MaxMin {
        return finish(maxmin::solve(&problem, budget), Method::MaxMin);
    }
    if let [only] = &problem[..] {
        return finish(vec![exact::solve_one(only, &objective)], Method::Exact);
    }
    let work = exact::work(&problem, budget);
    match solver {
        Solver::Exact if work > EXACT_WORK_LIMIT => {
            Err(ReuseError::TooLargeForExact { work, limit: EXACT_WORK_LIMIT })
        }
        Solver::Auto if work > EXACT_WORK_LIMIT => {
            finish(greedy::solve(&problem, budget, &objective), Method::Greedy)
        }
        Solver::Auto | Solver::Exact => finish(exact::solve(&problem, budget, &objective), Method::Exact),
        Solver::Greedy | Solver::Talus => finish(greedy::solve(&problem, budget, &objective), Method::Greedy),
    }
}
