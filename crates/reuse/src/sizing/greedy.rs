//! A good division of a large cache: best gain a block first.
//!
//! Plain marginal gains stop before a cliff in a curve; here each step goes to the next corner of the curve's upper
//! convex hull, the farthest size of best gain a block (the lookahead of Qureshi and Patt, "Utility-based cache
//! partitioning", MICRO 2006). Steps that do not fit are replaced by the best ones that do. All of this is at most
//! one step short of the fractional optimum, so the better of it and of the largest single step taken first has at
//! least half of the best possible gain (the argument for the greedy solution of the knapsack problem). It must
//! not know where values come from.

use super::Objective;
use super::choices::{Choices, OrderedValue};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Sizes of large value with at most `budget` blocks above the lower ends.
pub(super) fn solve(problem: &[Choices], budget: u64, objective: &Objective) -> Vec<u64> {
    let is_ratio = matches!(objective, Objective::PpcTotal { .. });
    let mut plain = Filling::new(problem, budget, is_ratio);
    plain.fill();
    let gain = |choices: &Choices| {
        let values = choices.list.first().zip(choices.list.last());
        values.map_or(0.0, |(first, last)| last.value - first.value)
    };
    let largest = (0..problem.len()).max_by(|&a, &b| gain(&problem[a]).total_cmp(&gain(&problem[b])));
    if let Some(vm) = largest
        && !is_ratio
    {
        let mut single = Filling::new(problem, budget, is_ratio);
        single.take(vm, problem[vm].list.len() - 1);
        single.fill();
        if single.value > plain.value {
            return single.sizes();
        }
    }
    plain.sizes()
}

/// A step of one VM, the one of largest gain a block first: gain a block, VM (the first of equals), choice reached.
type Step = (OrderedValue, Reverse<usize>, usize);

/// A division in the making.
struct Filling<'a> {
    problem: &'a [Choices],
    /// The choice of each VM so far.
    at: Vec<usize>,
    /// Corners of each VM's hull still ahead, the next one last.
    corners: Vec<Vec<usize>>,
    left_blocks: u64,
    value: f64,
    used_blocks: f64,
    /// Stop when a step no longer raises value per block.
    is_ratio: bool,
}

impl<'a> Filling<'a> {
    fn new(problem: &'a [Choices], budget: u64, is_ratio: bool) -> Filling<'a> {
        Filling {
            problem,
            at: vec![0; problem.len()],
            corners: problem.iter().map(|choices| corners_ahead(choices, 0, budget)).collect(),
            left_blocks: budget,
            value: problem.iter().map(|choices| choices.list[0].value).sum(),
            used_blocks: problem.iter().map(|choices| choices.lower_blocks as f64).sum(),
            is_ratio,
        }
    }

    fn sizes(&self) -> Vec<u64> {
        self.problem.iter().zip(&self.at).map(|(choices, &at)| choices.size(at)).collect()
    }

    fn blocks_to(&self, vm: usize, to: usize) -> u64 {
        let list = &self.problem[vm].list;
        list[to].extra_blocks - list[self.at[vm]].extra_blocks
    }

    fn gain_to(&self, vm: usize, to: usize) -> f64 {
        let list = &self.problem[vm].list;
        list[to].value - list[self.at[vm]].value
    }

    fn next_step(&self, vm: usize) -> Option<Step> {
        let to = self.corners[vm].iter().rev().copied().find(|&corner| corner > self.at[vm])?;
        let slope = self.gain_to(vm, to) / self.blocks_to(vm, to) as f64;
        Some((OrderedValue(slope), Reverse(vm), to))
    }

    fn take(&mut self, vm: usize, to: usize) {
        self.left_blocks -= self.blocks_to(vm, to);
        self.used_blocks += self.blocks_to(vm, to) as f64;
        self.value += self.gain_to(vm, to);
        self.at[vm] = to;
    }

    /// Takes steps, best first, until none fits (or none raises the ratio).
    fn fill(&mut self) {
        let mut steps: BinaryHeap<Step> =
            (0..self.problem.len()).filter_map(|vm| self.next_step(vm)).collect();
        while let Some((OrderedValue(slope), Reverse(vm), to)) = steps.pop() {
            if self.is_ratio && self.used_blocks > 0.0 && slope * self.used_blocks <= self.value {
                break;
            }
            if self.blocks_to(vm, to) <= self.left_blocks {
                self.take(vm, to);
                while self.corners[vm].last().is_some_and(|&corner| corner <= to) {
                    self.corners[vm].pop();
                }
            } else {
                self.corners[vm] = corners_ahead(&self.problem[vm], self.at[vm], self.left_blocks);
            }
            steps.extend(self.next_step(vm));
        }
    }
}

/// The corners of the upper convex hull of a VM's choices after choice `at`, of at most `limit` more blocks; the
/// nearest last.
fn corners_ahead(choices: &Choices, at: usize, limit: u64) -> Vec<usize> {
    let list = &choices.list;
    let slope = |from: usize, to: usize| {
        (list[to].value - list[from].value) / (list[to].extra_blocks - list[from].extra_blocks) as f64
    };
    let mut hull = vec![at];
    let end =
        list.partition_point(|choice| choice.extra_blocks <= list[at].extra_blocks.saturating_add(limit));
    for next in at + 1..end {
        while let [.., before, last] = hull[..]
            && slope(before, last) <= slope(last, next)
        {
            hull.pop();
        }
        hull.push(next);
    }
    hull.remove(0);
    hull.reverse();
    hull
}
