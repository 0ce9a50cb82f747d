//! The best division, by dynamic programming over every number of blocks. It must not know where values come from.

use super::Objective;
use super::choices::Choices;
use super::objective::per_block;

/// Steps that [`solve`] takes.
pub(super) fn work(problem: &[Choices], budget: u64) -> u128 {
    let choices: u128 = problem.iter().map(|choices| choices.list.len() as u128).sum();
    choices * (u128::from(budget) + 1)
}

/// The size of largest value of a VM that has everything for itself; of several, the smallest.
pub(super) fn solve_one(choices: &Choices, objective: &Objective) -> u64 {
    let worth = |at: usize| match objective {
        Objective::PpcTotal { .. } => per_block(choices.list[at].value, choices.size(at) as f64),
        _ => choices.list[at].value,
    };
    choices
        .size((1..choices.list.len()).fold(0, |found, at| if worth(at) > worth(found) { at } else { found }))
}

/// Sizes of largest value with at most `budget` blocks above the lower ends; of several, one of fewest blocks.
pub(super) fn solve(problem: &[Choices], budget: u64, objective: &Objective) -> Vec<u64> {
    let places = budget as usize + 1;
    // best[b]: largest value of the VMs so far with at most b blocks; picks: what the last of them then gets.
    let mut best = vec![0.0; places];
    let mut picks: Vec<Vec<u32>> = Vec::with_capacity(problem.len());
    for choices in problem {
        let mut next = vec![f64::NEG_INFINITY; places];
        let mut pick = vec![0u32; places];
        for (number, choice) in choices.list.iter().enumerate() {
            let extra = choice.extra_blocks as usize;
            for ((value, pick), before) in next[extra..].iter_mut().zip(&mut pick[extra..]).zip(&best) {
                if before + choice.value > *value {
                    *value = before + choice.value;
                    *pick = number as u32;
                }
            }
        }
        best = next;
        picks.push(pick);
    }
    let mut left = blocks_to_use(problem, &best, objective);
    let mut sizes = Vec::with_capacity(problem.len());
    for (choices, pick) in problem.iter().zip(&picks).rev() {
        let number = pick[left] as usize;
        sizes.push(choices.size(number));
        left -= choices.list[number].extra_blocks as usize;
    }
    sizes.reverse();
    sizes
}

/// The fewest blocks that give the largest value, or the largest value per block.
fn blocks_to_use(problem: &[Choices], best: &[f64], objective: &Objective) -> usize {
    let lower: f64 = problem.iter().map(|choices| choices.lower_blocks as f64).sum();
    let worth = |blocks: usize| match objective {
        Objective::PpcTotal { .. } => per_block(best[blocks], lower + blocks as f64),
        _ => best[blocks],
    };
    (1..best.len()).fold(0, |found, blocks| if worth(blocks) > worth(found) { blocks } else { found })
}
