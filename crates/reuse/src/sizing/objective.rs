//! What a division should maximise. It must not know how the best sizes are found.

use super::{VmDemand, WriteBuffer};
use crate::curve;
use crate::error::ReuseError;

/// What a division maximises. H is a VM's hits for each of its accesses, c its size, w its weight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Objective {
    /// The sum of w * H: every VM counts the same, however busy.
    #[default]
    SumHitRatio,
    /// The sum of w * hits: every access counts the same.
    Hits,
    /// Minus the sum of w * mean latency (ECI-Cache's objective, to which what write buffers save is added).
    Latency {
        /// Time of a hit.
        cache_us: f64,
        /// Time of a miss.
        backing_us: f64,
    },
    /// Performance per cost of all VMs together: the sum of w * H over the sum of c, while each VM keeps at least
    /// the share `floor` of the hits that its demand would give.
    PpcTotal {
        /// From 0 to 1.
        floor: f64,
    },
    /// The sum of w * H / c, as ETICA's Eq. 3 is printed. It is largest for the smallest sizes, hence the minimum.
    PpcLiteral {
        /// Smallest size of every VM whose `max_blocks` allows it; at least 1.
        min_blocks: u64,
    },
    /// The smallest H / w of all VMs; then, one VM after the other, the next smallest.
    MaxMin,
}

impl Objective {
    /// The name used in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Objective::SumHitRatio => "sum_hit_ratio",
            Objective::Hits => "hits",
            Objective::Latency { .. } => "latency",
            Objective::PpcTotal { .. } => "ppc_total",
            Objective::PpcLiteral { .. } => "ppc_literal",
            Objective::MaxMin => "maxmin",
        }
    }

    /// The value of given sizes, one a demand; larger is better. A ratio with nothing below the line is 0.
    pub fn value(&self, demands: &[VmDemand], sizes: &[u64]) -> f64 {
        let values = demands.iter().zip(sizes).map(|(demand, &size)| self.value_of_one(demand, size));
        match self {
            Objective::PpcTotal { .. } => {
                let blocks: u128 = sizes.iter().map(|&size| u128::from(size)).sum();
                per_block(values.sum(), blocks as f64)
            }
            Objective::MaxMin => values.reduce(f64::min).unwrap_or(0.0),
            _ => values.sum(),
        }
    }

    /// What one VM adds; for [`Objective::PpcTotal`] above the line only, for [`Objective::MaxMin`] what is compared.
    pub(super) fn value_of_one(&self, demand: &VmDemand, size_blocks: u64) -> f64 {
        self.value_of_hits(demand, size_blocks, demand.hits_at(size_blocks))
            + self.value_of_buffer(demand, size_blocks)
    }

    /// What a size of so many `hits` adds by them.
    pub(super) fn value_of_hits(&self, demand: &VmDemand, size_blocks: u64, hits: u64) -> f64 {
        let ratio = curve::ratio(hits, demand.accesses);
        let value = match *self {
            Objective::SumHitRatio | Objective::PpcTotal { .. } => ratio,
            Objective::Hits => hits as f64,
            Objective::Latency { cache_us, backing_us } => -(ratio * cache_us + (1.0 - ratio) * backing_us),
            Objective::PpcLiteral { .. } => per_block(ratio, size_blocks as f64),
            Objective::MaxMin => return ratio / demand.weight,
        };
        demand.weight * value
    }

    /// What a size is worth beside its hits.
    pub(super) fn value_of_buffer(&self, demand: &VmDemand, size_blocks: u64) -> f64 {
        let buffer = self.buffer(demand).filter(|buffer| buffer.blocks <= size_blocks);
        buffer.map_or(0.0, |buffer| demand.weight * buffer.saved_us)
    }

    /// The VM's write buffer, where it counts and is within its limits.
    pub(super) fn buffer(&self, demand: &VmDemand) -> Option<WriteBuffer> {
        let counts = matches!(self, Objective::Latency { .. });
        demand
            .write_buffer
            .filter(|buffer| counts && buffer.saved_us > 0.0 && buffer.blocks <= demand.max_blocks)
    }

    /// The smallest size that a VM gets under this objective, its own minimum among the reasons.
    pub fn least_blocks(&self, demand: &VmDemand) -> u64 {
        self.range(demand).0
    }

    /// The smallest and the largest size that a VM may get.
    pub(super) fn range(&self, demand: &VmDemand) -> (u64, u64) {
        let buffer_blocks = self.buffer(demand).map_or(0, |buffer| buffer.blocks);
        let wanted = demand.demand_blocks.max(buffer_blocks).clamp(demand.min_blocks, demand.max_blocks);
        let lower = match *self {
            Objective::PpcTotal { floor } => {
                let needed = (floor * demand.hits_at(wanted) as f64).ceil() as u64;
                let at = demand.curve.partition_point(|point| point.hits < needed);
                let size = demand.curve.get(at).map_or(wanted, |point| point.size_blocks);
                if needed == 0 { 0 } else { size.min(wanted) }
            }
            Objective::PpcLiteral { min_blocks } => min_blocks.min(demand.max_blocks),
            _ => 0,
        };
        let lower = lower.max(demand.min_blocks);
        (lower, wanted.max(lower))
    }

    pub(super) fn check(&self) -> Result<(), ReuseError> {
        let is_time = |us: f64| us.is_finite() && us >= 0.0;
        let reason = match *self {
            Objective::Latency { cache_us, backing_us } if !(is_time(cache_us) && is_time(backing_us)) => {
                "A latency is not a non-negative number"
            }
            Objective::PpcTotal { floor } if !(0.0..=1.0).contains(&floor) => "The floor is not from 0 to 1",
            Objective::PpcLiteral { min_blocks: 0 } => "The smallest size is 0",
            _ => return Ok(()),
        };
        Err(ReuseError::InvalidObjective { reason })
    }
}

/// `value / blocks`, and 0 of no blocks.
pub(super) fn per_block(value: f64, blocks: f64) -> f64 {
    if blocks > 0.0 { value / blocks } else { 0.0 }
}
