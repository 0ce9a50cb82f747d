//! The division that is best for the worst-off VM. It must not know where values come from.

use super::choices::{Choices, OrderedValue};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Sizes with at most `budget` blocks above the lower ends.
///
/// The worst-off VM always gets its next choice. Every VM then has the smallest size above the least value so far,
/// so when the worst-off one's next choice does not fit, no division has a larger least value. That VM stays as
/// it is, and the others go on in the same way.
pub(super) fn solve(problem: &[Choices], budget: u64) -> Vec<u64> {
    let mut left = budget;
    let mut at = vec![0; problem.len()];
    let turn = |value: f64, vm: usize| Reverse((OrderedValue(value), vm));
    let mut waiting: BinaryHeap<_> =
        problem.iter().enumerate().map(|(vm, choices)| turn(choices.list[0].value, vm)).collect();
    while let Some(Reverse((_, vm))) = waiting.pop() {
        let list = &problem[vm].list;
        let Some(next) = list.get(at[vm] + 1) else { continue };
        let blocks = next.extra_blocks - list[at[vm]].extra_blocks;
        if blocks <= left {
            left -= blocks;
            at[vm] += 1;
            waiting.push(turn(next.value, vm));
        }
    }
    problem.iter().zip(&at).map(|(choices, &at)| choices.size(at)).collect()
}
