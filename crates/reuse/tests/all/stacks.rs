//! Stacks against plain lists with the same rules: under orders of access that are hard on them, and when they forget
//! blocks. Where that is exact, also against analysers that never saw the forgotten blocks.

use crate::lists::{RoList, Stack, WbwoList};
use lode_reuse::{Analyser, Curve, Distances, Metric, RoStack, WbwoStack};
use lode_types::Direction::{self, Read, Write};
use proptest::prelude::*;

/// Scattered numbers, from a seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn access(&mut self, blocks: u64, writes_percent: u64) -> (Direction, u64) {
        let op = if self.next() % 100 < writes_percent { Write } else { Read };
        let range = if self.next().is_multiple_of(3) { blocks } else { blocks / 8 + 1 };
        (op, (self.next() % range).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// A sample by hash that halves with every `level`.
fn is_in_sample(block: u64, level: u32) -> bool {
    let hash = (block ^ block >> 29).wrapping_mul(0xd134_2543_de82_ef95) ^ block;
    (hash >> 20) & ((1 << level) - 1) == 0
}

/// Halvings of the sample.
const LEVELS: u32 = 4;

/// Feeds a stream to an analyser that forgets half of its blocks again and again, and to others that only ever see the
/// blocks of their own level: the same must come out. `writes_percent` before the last halving, 40 after it.
fn compare_with_the_unaware<A: Stack>(seed: u64, blocks: u64, writes_percent: u64, make: impl Fn() -> A) {
    let mut numbers = Numbers(seed);
    let mut aware = make();
    let mut unaware: Vec<A> = (0..LEVELS).map(|_| make()).collect();
    for level in 0..LEVELS {
        aware.keep_only(|block| is_in_sample(block, level));
        for _ in 0..1500 {
            let is_last = level == LEVELS - 1;
            let (op, block) = numbers.access(blocks, if is_last { 40 } else { writes_percent });
            if is_in_sample(block, level) {
                let found = aware.depth_of(op, block);
                for own in (level..LEVELS).filter(|&own| is_in_sample(block, own)) {
                    let expected = unaware[own as usize].depth_of(op, block);
                    assert!(
                        own != level || found == expected,
                        "{found:?} is not {expected:?} at level {level}"
                    );
                }
            }
        }
    }
}

/// Feeds a stream to an analyser and to a list, which forget half of their blocks again and again.
fn compare_with_list(seed: u64, blocks: u64, mut analyser: impl Stack, mut list: impl Stack) {
    let mut numbers = Numbers(seed);
    for level in [0, 1, 1, 2, 3, 0, 9, 0] {
        let keep = |block| is_in_sample(block, level);
        analyser.keep_only(keep);
        list.keep_only(keep);
        for number in 0..400 {
            let (op, block) = numbers.access(blocks, 30);
            assert_eq!(
                analyser.depth_of(op, block),
                list.depth_of(op, block),
                "access {number} after level {level}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn depths_are_as_if_forgotten_blocks_had_never_been(seed in any::<u64>(), blocks in 10u64..800) {
        for metric in Metric::ALL {
            compare_with_the_unaware(seed, blocks, 30, || Distances::new(metric));
        }
        compare_with_the_unaware(seed, blocks, 0, RoStack::new);
        compare_with_the_unaware(seed, blocks, 100, WbwoStack::new);
    }

    #[test]
    fn stacks_forget_as_lists_do(seed in any::<u64>(), blocks in 1u64..300) {
        compare_with_list(seed, blocks, RoStack::new(), RoList::default());
        compare_with_list(seed, blocks, WbwoStack::new(), WbwoList::default());
    }
}

/// Largest difference of two hit ratios, at the same size.
fn largest_difference(one: &Curve, other: &Curve) -> f64 {
    let sizes = one.points().iter().chain(other.points()).map(|point| point.size_blocks);
    sizes.map(|size| (one.hit_ratio_at(size) - other.hit_ratio_at(size)).abs()).fold(0.0, f64::max)
}

#[test]
fn curves_of_what_is_left_are_close_to_those_of_the_unaware() {
    let mut numbers = Numbers(7);
    let (mut ro, mut ro_unaware) = (RoStack::new(), RoStack::new());
    let (mut wbwo, mut wbwo_unaware) = (WbwoStack::new(), WbwoStack::new());
    for round in 0..8 {
        for _ in 0..20_000 {
            let (op, block) = numbers.access(8000, 30);
            if round < 4 || is_in_sample(block, 2) {
                ro.access(op, block).expect("few blocks");
                wbwo.access(op, block).expect("few blocks");
            }
            if is_in_sample(block, 2) {
                ro_unaware.access(op, block).expect("few blocks");
                wbwo_unaware.access(op, block).expect("few blocks");
            }
        }
        if round == 3 {
            let counts = (ro.tally().curve(), wbwo.tally().curve());
            ro.retain(&|block| is_in_sample(block, 2));
            wbwo.retain(&|block| is_in_sample(block, 2));
            assert_eq!(counts, (ro.tally().curve(), wbwo.tally().curve()));
            ro.clear_tally();
            wbwo.clear_tally();
            ro_unaware.clear_tally();
            wbwo_unaware.clear_tally();
        }
    }
    let difference = largest_difference(&ro.tally().curve(), &ro_unaware.tally().curve());
    assert!(difference < 0.01, "read-only: {difference}");
    let difference = largest_difference(&wbwo.tally().curve(), &wbwo_unaware.tally().curve());
    assert!(difference < 0.01, "write-only: {difference}");
}

#[test]
fn forgetting_most_gives_memory_back() {
    let mut analyser = Distances::new(Metric::Trd);
    for block in 0..100_000 {
        analyser.access(Read, block).expect("few blocks");
    }
    let before = analyser.memory_bytes();
    analyser.retain(&|block| is_in_sample(block, 6));
    assert!(analyser.memory_bytes() < before / 4, "{} of {before} bytes", analyser.memory_bytes());
    assert!((1000..2200).contains(&analyser.distinct_blocks()), "{} blocks", analyser.distinct_blocks());
}

/// One pass over some blocks.
#[derive(Clone, Debug)]
struct Pass {
    op: Direction,
    first: u64,
    len: u64,
    step: u64,
    is_backwards: bool,
    /// Besides, one access in so many is a write, of the same block or of a hot one.
    writes: u64,
}

impl Pass {
    fn accesses(&self) -> impl Iterator<Item = (Direction, u64)> {
        (0..self.len).flat_map(|at| {
            let at = if self.is_backwards { self.len - 1 - at } else { at };
            let block = self.first + at * self.step;
            let also =
                at.is_multiple_of(self.writes).then_some((Write, if at % 2 == 0 { block } else { at % 3 }));
            [Some((self.op, block)), also].into_iter().flatten()
        })
    }
}

fn passes() -> impl Strategy<Value = Pass> {
    (0..3u8, 0u64..120, 1u64..250, 1u64..3, any::<bool>(), 1u64..60).prop_map(
        |(op, first, len, step, is_backwards, writes)| {
            let op = if op == 0 { Write } else { Read };
            Pass { op, first, len, step, is_backwards, writes }
        },
    )
}

fn compare_orders(
    passes: &[Pass],
    mut analyser: impl Stack,
    mut list: impl Stack,
) -> Result<(), TestCaseError> {
    for (op, block) in passes.iter().flat_map(Pass::accesses) {
        prop_assert_eq!(analyser.depth_of(op, block), list.depth_of(op, block), "{:?} of {}", op, block);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn loops_and_turns_agree_with_lists(passes in prop::collection::vec(passes(), 1..14)) {
        compare_orders(&passes, WbwoStack::new(), WbwoList::default())?;
        compare_orders(&passes, RoStack::new(), RoList::default())?;
    }
}
