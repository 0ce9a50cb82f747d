//! What analysers say after they forgot blocks: against analysers that never saw these, where that is exact, and
//! against plain lists with the same rules where it is not.

use lode_reuse::{Curve, Distances, Metric, RoStack, WbwoStack};
use lode_types::AccessOp::{self, Read, Write};
use proptest::prelude::*;

/// Scattered numbers, from a seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn access(&mut self, blocks: u64, writes_percent: u64) -> (AccessOp, u64) {
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

/// What analysers and lists have in common.
trait Stack {
    fn access(&mut self, op: AccessOp, block: u64) -> Option<u32>;

    fn retain(&mut self, keep: impl Fn(u64) -> bool);
}

impl Stack for Distances {
    fn access(&mut self, op: AccessOp, block: u64) -> Option<u32> {
        self.access(op, block).expect("few blocks").map(|reuse| reuse.distance)
    }

    fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        self.retain(keep);
    }
}

impl Stack for RoStack {
    fn access(&mut self, op: AccessOp, block: u64) -> Option<u32> {
        self.access(op, block).expect("few blocks")
    }

    fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        self.retain(keep);
    }
}

impl Stack for WbwoStack {
    fn access(&mut self, op: AccessOp, block: u64) -> Option<u32> {
        self.access(op, block).expect("few blocks")
    }

    fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        self.retain(keep);
    }
}

/// The stack of read-only caches as a list, top first; holes are `None`.
#[derive(Default)]
struct RoList {
    stack: Vec<Option<u64>>,
    /// Every block ever read.
    read: Vec<u64>,
}

impl Stack for RoList {
    fn access(&mut self, op: AccessOp, block: u64) -> Option<u32> {
        let depth = self.stack.iter().position(|&entry| entry == Some(block));
        if op == Write {
            if let Some(depth) = depth {
                self.stack[depth] = None;
            }
            return None;
        }
        if !self.read.contains(&block) {
            self.read.push(block);
        }
        let above = &self.stack[..depth.unwrap_or(self.stack.len())];
        let hole = above.iter().position(|entry| entry.is_none());
        if let Some(depth) = depth {
            self.stack[depth] = None;
        }
        if let Some(vacated) = hole.or(depth) {
            self.stack.remove(vacated);
        }
        self.stack.insert(0, Some(block));
        depth.map(|depth| depth as u32)
    }

    /// Of the holes, counted from below, as many stay as blocks do, evenly.
    fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        let before = self.read.len();
        self.read.retain(|&block| keep(block));
        let kept = self.read.len();
        let mut number = 0;
        self.stack.reverse();
        self.stack.retain(|entry| {
            let Some(block) = entry else {
                number += 1;
                return number * kept / before > (number - 1) * kept / before;
            };
            keep(*block)
        });
        self.stack.reverse();
    }
}

/// The stack of write-only caches as a list, top first: blocks with the time of their latest access.
#[derive(Default)]
struct WbwoList {
    stack: Vec<(u64, usize)>,
    now: usize,
}

impl Stack for WbwoList {
    fn access(&mut self, op: AccessOp, block: u64) -> Option<u32> {
        self.now += 1;
        let depth = self.stack.iter().position(|entry| entry.0 == block);
        if op == Read {
            let depth = depth?;
            self.stack[depth].1 = self.now;
            return Some(depth as u32);
        }
        // The top always goes, then whichever of two is older.
        let mut carried = (block, usize::MAX);
        let end = depth.unwrap_or(self.stack.len());
        for entry in &mut self.stack[..end] {
            if entry.1 < carried.1 {
                std::mem::swap(entry, &mut carried);
            }
        }
        match depth {
            Some(depth) => self.stack[depth] = carried,
            None => self.stack.push(carried),
        }
        self.stack[0].1 = self.now;
        None
    }

    fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        self.stack.retain(|entry| keep(entry.0));
    }
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
        aware.retain(|block| is_in_sample(block, level));
        for _ in 0..1500 {
            let is_last = level == LEVELS - 1;
            let (op, block) = numbers.access(blocks, if is_last { 40 } else { writes_percent });
            if is_in_sample(block, level) {
                let found = aware.access(op, block);
                for own in (level..LEVELS).filter(|&own| is_in_sample(block, own)) {
                    let expected = unaware[own as usize].access(op, block);
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
        analyser.retain(keep);
        list.retain(keep);
        for number in 0..400 {
            let (op, block) = numbers.access(blocks, 30);
            assert_eq!(
                analyser.access(op, block),
                list.access(op, block),
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
            ro.retain(|block| is_in_sample(block, 2));
            wbwo.retain(|block| is_in_sample(block, 2));
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
    analyser.retain(|block| is_in_sample(block, 6));
    assert!(analyser.memory_bytes() < before / 4, "{} of {before} bytes", analyser.memory_bytes());
    assert!((1000..2200).contains(&analyser.distinct_blocks()), "{} blocks", analyser.distinct_blocks());
}
