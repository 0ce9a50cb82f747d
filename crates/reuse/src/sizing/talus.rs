//! Sizes between the corners of a curve's hull, where the curve itself may have a cliff (Talus: Beckmann and Sanchez,
//! "Talus: a simple way to remove cliffs in cache performance", HPCA 2015; recalled, its algebra checked).
//!
//! A cache between two corners is cut in two partitions: a share of the stream, chosen by hash, goes to one that behaves
//! like the smaller corner, the rest to one that behaves like the larger. Hits are then those of the straight line. It
//! must not know who the VMs are.

use super::choices::OrderedValue;
use super::{Objective, VmDemand};
use crate::curve::CurvePoint;
use crate::error::ReuseError;

/// A cache as two partitions, each with its part of the stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// The corner below: the size that the first partition behaves like.
    pub smaller_blocks: u64,
    /// The corner above: the size that the second partition behaves like.
    pub larger_blocks: u64,
    /// Share of the stream that goes to the first partition; 1 when the size is a corner itself.
    pub smaller_share: f64,
}

impl Split {
    /// The split of `size_blocks` between two corners.
    pub fn between(smaller_blocks: u64, larger_blocks: u64, size_blocks: u64) -> Split {
        let smaller_share = if larger_blocks > smaller_blocks {
            larger_blocks.saturating_sub(size_blocks) as f64 / (larger_blocks - smaller_blocks) as f64
        } else {
            1.0
        };
        Split { smaller_blocks, larger_blocks, smaller_share }
    }

    /// What both partitions together have of something of which a cache of so many blocks has `at`.
    pub fn mix(&self, at: impl Fn(u64) -> f64) -> f64 {
        let larger_share = 1.0 - self.smaller_share;
        self.smaller_share * at(self.smaller_blocks) + larger_share * at(self.larger_blocks)
    }
}

/// The upper convex hull of a hit curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Hull {
    /// From no cache to the last rise, each piece less steep than the one before.
    corners: Vec<CurvePoint>,
}

impl Hull {
    /// The hull of a curve given by ascending points.
    pub fn new(curve: &[CurvePoint]) -> Hull {
        let mut corners = vec![CurvePoint { size_blocks: 0, hits: 0 }];
        for &next in curve.iter().filter(|point| point.size_blocks > 0) {
            while let [.., before, last] = corners[..]
                && rise(before, last) * run(last, next) <= rise(last, next) * run(before, last)
            {
                corners.pop();
            }
            corners.push(next);
        }
        Hull { corners }
    }

    /// The corners, from no cache on.
    pub fn corners(&self) -> &[CurvePoint] {
        &self.corners
    }

    /// How a cache of `size_blocks` reaches the hull.
    pub fn split(&self, size_blocks: u64) -> Split {
        let above = self.corners.partition_point(|corner| corner.size_blocks <= size_blocks);
        let smaller = self.corners[above - 1].size_blocks;
        let larger = self.corners.get(above).map_or(smaller, |corner| corner.size_blocks);
        Split::between(smaller, larger, size_blocks)
    }

    /// Hits of a cache of `size_blocks` that is split.
    pub fn hits_at(&self, size_blocks: u64) -> f64 {
        self.split(size_blocks).mix(|size| crate::curve::hits_at(&self.corners, size) as f64)
    }
}

fn rise(from: CurvePoint, to: CurvePoint) -> u128 {
    u128::from(to.hits - from.hits)
}

fn run(from: CurvePoint, to: CurvePoint) -> u128 {
    u128::from(to.size_blocks - from.size_blocks)
}

/// Whether a sum over VMs of values that are straight lines in hits, which is what the hull is good for.
pub(super) fn check(objective: &Objective) -> Result<(), ReuseError> {
    match objective {
        Objective::SumHitRatio | Objective::Hits | Objective::Latency { .. } => Ok(()),
        Objective::PpcTotal { .. } | Objective::PpcLiteral { .. } | Objective::MaxMin => {
            Err(ReuseError::InvalidObjective {
                reason: "The Talus solver knows sum_hit_ratio, hits and latency only",
            })
        }
    }
}

/// The value of sizes that are split; larger is better.
pub(super) fn value(demands: &[VmDemand], sizes: &[u64], objective: &Objective) -> f64 {
    let of_one = |(demand, &size): (&VmDemand, &u64)| {
        let split = Hull::new(&demand.curve).split(size);
        let value_at = |corner| objective.value_of_hits(demand, corner, demand.hits_at(corner));
        split.mix(value_at) + objective.value_of_buffer(demand, size)
    };
    demands.iter().zip(sizes).map(of_one).sum()
}

/// Best sizes in `ranges` with at most `budget` blocks above the lower ends: steepest pieces first, the last in part.
/// A write buffer is a piece with the hits up to its size; where only a part of it is left, that part serves hits.
pub(super) fn solve(
    demands: &[VmDemand],
    ranges: &[(u64, u64)],
    mut budget: u64,
    objective: &Objective,
) -> Vec<u64> {
    let mut pieces = Vec::new();
    for (vm, (demand, &(lower, upper))) in demands.iter().zip(ranges).enumerate() {
        let hull = Hull::new(&demand.curve);
        let value_at = |blocks: u64| {
            let value = |corner| objective.value_of_hits(demand, corner, demand.hits_at(corner));
            hull.split(blocks).mix(value) + objective.value_of_buffer(demand, blocks)
        };
        let mut from = lower;
        let buffer = objective.buffer(demand).map(|buffer| buffer.blocks);
        let mut ends: Vec<u64> = hull.corners().iter().map(|corner| corner.size_blocks).collect();
        // Within the buffer nothing ends: it is worth most as a whole.
        let first = buffer.filter(|&blocks| blocks > lower).unwrap_or(lower);
        ends.retain(|&end| end > first && end < upper);
        ends.insert(0, first.min(upper));
        ends.push(upper);
        for to in ends {
            if to > from {
                let slope = (value_at(to) - value_at(from)) / (to - from) as f64;
                pieces.push((OrderedValue(slope), vm, to - from));
                from = to;
            }
        }
    }
    // A stable order keeps each VM's pieces, and of equals the first VM first.
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.0));
    let mut sizes: Vec<u64> = ranges.iter().map(|range| range.0).collect();
    for (OrderedValue(slope), vm, blocks) in pieces {
        let taken = blocks.min(budget);
        if slope > 0.0 {
            sizes[vm] += taken;
            budget -= taken;
        }
    }
    sizes
}
