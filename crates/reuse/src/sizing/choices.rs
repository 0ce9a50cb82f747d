//! The sizes worth considering for one VM. It must not know the other VMs.

use super::{Objective, VmDemand};
use std::cmp::Ordering;

/// Sizes worth considering for one VM: from its smallest size on, each with more value than all smaller ones.
/// Every one but the first is a point of the curve or the size of its write buffer, so that none could be smaller for
/// the same value.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    /// The size of the first choice.
    pub(super) lower_blocks: u64,
    /// Ascending in blocks and in value; the first has no extra blocks.
    pub(super) list: Vec<Choice>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// Blocks on top of `lower_blocks`.
    pub(super) extra_blocks: u64,
    pub(super) value: f64,
}

impl Choices {
    /// Choices of sizes in `range`, of at most `budget` blocks above its lower end.
    pub(super) fn new(demand: &VmDemand, range: (u64, u64), budget: u64, objective: &Objective) -> Choices {
        let (lower, upper) = (range.0, range.1.min(range.0.saturating_add(budget)));
        let mut list = vec![Choice { extra_blocks: 0, value: objective.value_of_one(demand, lower) }];
        let mut best = list[0].value;
        let mut consider = |size_blocks: u64, hits: u64| {
            let value = objective.value_of_hits(demand, size_blocks, hits)
                + objective.value_of_buffer(demand, size_blocks);
            if value > best && (lower + 1..=upper).contains(&size_blocks) {
                best = value;
                list.push(Choice { extra_blocks: size_blocks - lower, value });
            }
        };
        let above = demand.curve.partition_point(|point| point.size_blocks <= lower);
        let mut buffer = objective.buffer(demand).map(|buffer| buffer.blocks);
        for point in demand.curve[above..].iter().take_while(|point| point.size_blocks <= upper) {
            if let Some(blocks) = buffer.take_if(|blocks| *blocks < point.size_blocks) {
                consider(blocks, demand.hits_at(blocks));
            }
            consider(point.size_blocks, point.hits);
        }
        if let Some(blocks) = buffer {
            consider(blocks, demand.hits_at(blocks));
        }
        Choices { lower_blocks: lower, list }
    }

    /// The size of choice number `at`.
    pub(super) fn size(&self, at: usize) -> u64 {
        self.lower_blocks + self.list[at].extra_blocks
    }
}

/// A value in its total order, for heaps.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrderedValue(pub(super) f64);

impl Ord for OrderedValue {
    fn cmp(&self, other: &OrderedValue) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for OrderedValue {
    fn partial_cmp(&self, other: &OrderedValue) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedValue {
    fn eq(&self, other: &OrderedValue) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for OrderedValue {}
