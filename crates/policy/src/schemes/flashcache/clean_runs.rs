//! Where clean blocks stand in the order of a set, so that the oldest of them is found without a walk past the dirty ones.
//!
//! The order, a circle whose oldest and newest meet, is cut into short runs with consecutive numbers, and a tree of bits says
//! which runs have a clean block. Runs are lazy: what leaves makes its run shorter, what comes joins the newest one or
//! opens the next, and a set whose runs have become too uneven is cut anew. It must not know why a block gives way.

use crate::effect::Slot;
use crate::parts::growth;
use crate::parts::lists::{SetLists, Value};

/// Blocks of a run, before others come and go.
const RUN: usize = 8;
/// Blocks of a run from which on a newcomer has the set cut anew.
const LONGEST: u16 = 64;
/// In `first` of a run without blocks.
const NONE: Slot = Slot::MAX;

/// Blocks that follow each other.
#[derive(Clone, Copy, Debug)]
struct CleanRun {
    first: Slot,
    len: u16,
    clean: u16,
}

const EMPTY: CleanRun = CleanRun { first: NONE, len: 0, clean: 0 };

/// The runs of one set. From the run of the set's oldest block on, round and round, they are in the order of the set.
#[derive(Clone, Debug, Default)]
struct Ring {
    runs: Vec<CleanRun>,
    /// Of the runs, those with a clean block.
    clean: Bits,
}

/// The runs of all sets. What is said of a slot goes for the list that it is in.
#[derive(Debug)]
pub(super) struct CleanRuns {
    rings: Vec<Ring>,
    /// By slot.
    run_of: Vec<u32>,
}

impl CleanRuns {
    /// For sets of these lists.
    pub(super) fn new<T: Value>(lists: &SetLists<T>) -> CleanRuns {
        let sets = lists.geometry().sets();
        let mut runs = CleanRuns { rings: vec![Ring::default(); sets as usize], run_of: Vec::new() };
        (0..sets).for_each(|set| runs.cut(set, lists));
        runs
    }

    /// A slot that was in no list has become the newest of one.
    pub(super) fn push<T: Value>(&mut self, set: u32, slot: Slot, lists: &SetLists<T>) {
        growth::extend_to(&mut self.run_of, slot, 0);
        let ring = &mut self.rings[set as usize];
        let oldest = lists.oldest(set).unwrap_or(slot);
        let before = lists.older(slot);
        let run = match before {
            None => 0,
            Some(before) => {
                let run = self.run_of[before as usize];
                let is_torn = run == self.run_of[oldest as usize] && ring.runs[run as usize].first != oldest;
                let next = (run + 1) % ring.runs.len() as u32;
                let may_open = !is_torn && ring.runs[next as usize].len == 0;
                if usize::from(ring.runs[run as usize].len) >= RUN && may_open { next } else { run }
            }
        };
        match ring.runs.get_mut(run as usize) {
            Some(joined) if joined.len < LONGEST => {
                if joined.len == 0 {
                    joined.first = slot;
                }
                joined.len += 1;
                self.run_of[slot as usize] = run;
                if !lists.flag(slot) {
                    self.count(set, slot, true);
                }
            }
            _ => self.cut(set, lists),
        }
    }

    /// A slot is about to leave its list, or its place in it.
    pub(super) fn remove<T: Value>(&mut self, set: u32, slot: Slot, lists: &SetLists<T>) {
        if !lists.flag(slot) {
            self.count(set, slot, false);
        }
        let run = &mut self.rings[set as usize].runs[self.run_of[slot as usize] as usize];
        run.len -= 1;
        if run.len == 0 {
            run.first = NONE;
        } else if run.first == slot {
            run.first = next(set, slot, lists);
        }
    }

    /// A slot becomes clean, or dirty.
    #[inline]
    pub(super) fn count(&mut self, set: u32, slot: Slot, is_clean: bool) {
        let ring = &mut self.rings[set as usize];
        let at = self.run_of[slot as usize] as usize;
        let clean = &mut ring.runs[at].clean;
        if is_clean {
            *clean += 1;
        } else {
            *clean -= 1;
        }
        if *clean == u16::from(is_clean) {
            ring.clean.set(at, is_clean);
        }
    }

    /// The oldest clean slot of a set.
    pub(super) fn oldest_clean<T: Value>(&self, set: u32, lists: &SetLists<T>) -> Option<Slot> {
        let Ring { runs, clean } = &self.rings[set as usize];
        let oldest = lists.oldest(set)?;
        let first = self.run_of[oldest as usize] as usize;
        let mut from = first;
        if runs[first].first != oldest {
            // It is torn: what comes before is the newest.
            let mut rest =
                lists.oldest_first(set).take_while(|&slot| self.run_of[slot as usize] as usize == first);
            let found = rest.find(|&slot| !lists.flag(slot));
            if found.is_some() {
                return found;
            }
            from += 1;
        }
        let run = clean.next(from).or_else(|| clean.next(0))?;
        let mut slot = runs[run].first;
        while lists.flag(slot) {
            slot = next(set, slot, lists);
        }
        Some(slot)
    }

    /// Bytes that everything takes.
    pub(super) fn memory_bytes(&self) -> usize {
        let of_ring = |ring: &Ring| ring.runs.capacity() * size_of::<CleanRun>() + ring.clean.memory_bytes();
        self.run_of.capacity() * size_of::<u32>()
            + self.rings.capacity() * size_of::<Ring>()
            + self.rings.iter().map(of_ring).sum::<usize>()
    }

    /// Cuts the order of a set into even runs, with as many empty ones behind them.
    fn cut<T: Value>(&mut self, set: u32, lists: &SetLists<T>) {
        let runs = 2 * (lists.len_of(set) as usize / RUN + 1);
        let ring = &mut self.rings[set as usize];
        *ring = Ring { runs: Vec::with_capacity(runs), clean: Bits::new(runs) };
        ring.runs.resize(runs, EMPTY);
        for (at, slot) in lists.oldest_first(set).enumerate() {
            let run = &mut ring.runs[at / RUN];
            if run.len == 0 {
                run.first = slot;
            }
            run.len += 1;
            growth::extend_to(&mut self.run_of, slot, 0);
            self.run_of[slot as usize] = (at / RUN) as u32;
            if !lists.flag(slot) {
                run.clean += 1;
                ring.clean.set(at / RUN, true);
            }
        }
    }
}

/// The slot after another one in the circle.
fn next<T: Value>(set: u32, slot: Slot, lists: &SetLists<T>) -> Slot {
    lists.newer(slot).or(lists.oldest(set)).unwrap_or(slot)
}

/// Numbers, with a bit for each, and above them a bit for each word with one.
#[derive(Clone, Debug, Default)]
struct Bits {
    levels: Vec<Vec<u64>>,
}

impl Bits {
    /// For numbers below `len`; none is in.
    fn new(mut len: usize) -> Bits {
        let mut levels = Vec::new();
        loop {
            len = len.div_ceil(64);
            levels.push(vec![0; len]);
            if len <= 1 {
                return Bits { levels };
            }
        }
    }

    fn set(&mut self, mut number: usize, is_in: bool) {
        for level in &mut self.levels {
            let word = &mut level[number / 64];
            let before = *word;
            *word = (before & !(1 << (number % 64))) | (u64::from(is_in) << (number % 64));
            if (before == 0) == (*word == 0) {
                return;
            }
            number /= 64;
        }
    }

    /// The least number from `number` on.
    fn next(&self, number: usize) -> Option<usize> {
        let mut at = number;
        for (up, level) in self.levels.iter().enumerate() {
            let word = level.get(at / 64).map_or(0, |word| word & (u64::MAX << (at % 64)));
            if word != 0 {
                at = at / 64 * 64 + word.trailing_zeros() as usize;
                return Some(
                    self.levels[..up]
                        .iter()
                        .rev()
                        .fold(at, |at, below| at * 64 + below[at].trailing_zeros() as usize),
                );
            }
            at = at / 64 + 1;
        }
        None
    }

    fn memory_bytes(&self) -> usize {
        self.levels.capacity() * size_of::<Vec<u64>>()
            + self.levels.iter().map(|level| level.capacity() * size_of::<u64>()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::geometry::{Geometry, MapKind};

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Push(bool),
        Remove(usize),
        Touch(usize),
        Flag(usize, bool),
        /// The oldest clean one leaves; what stands before it becomes the newest.
        PassOver,
        Resize(u32),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => any::<bool>().prop_map(Step::Push),
            4 => any::<usize>().prop_map(Step::Remove),
            3 => any::<usize>().prop_map(Step::Touch),
            6 => (any::<usize>(), prop::bool::weighted(0.8)).prop_map(|(which, on)| Step::Flag(which, on)),
            6 => Just(Step::PassOver),
            1 => Just(Step::Resize(64)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// Beside a walk, in sets that are much longer than a run.
        #[test]
        fn equals_a_walk(
            first in 0usize..400, dirty in prop::bool::weighted(0.7), steps in prop::collection::vec(any_step(), 0..500),
        ) {
            let geometry = Geometry::new(256, MapKind::Modulo, 512);
            let mut lists = SetLists::new(geometry);
            let mut runs = CleanRuns::new(&lists);
            let fill = (0..first).map(|_| Step::Push(dirty));
            for (block, step) in (0u64..).map(|at| at * 7).zip(fill.chain(steps)) {
                let set = lists.geometry().set_of(block);
                let which = |at: usize| {
                    let slots: Vec<Slot> = lists.oldest_first(set).collect();
                    at.checked_rem(slots.len()).map(|at| slots[at])
                };
                match step {
                    Step::Push(dirty) => {
                        let slot = lists.insert(set, block);
                        runs.push(set, slot, &lists);
                        if dirty {
                            lists.set_flag(slot, true);
                            runs.count(set, slot, false);
                        }
                    }
                    Step::Remove(at) => {
                        if let Some(slot) = which(at) {
                            runs.remove(set, slot, &lists);
                            lists.remove(set, slot);
                        }
                    }
                    Step::Touch(at) => {
                        if let Some(slot) = which(at) {
                            runs.remove(set, slot, &lists);
                            lists.touch(set, slot);
                            runs.push(set, slot, &lists);
                        }
                    }
                    Step::Flag(at, on) => {
                        if let Some(slot) = which(at).filter(|&slot| lists.flag(slot) != on) {
                            lists.set_flag(slot, on);
                            runs.count(set, slot, !on);
                        }
                    }
                    Step::PassOver => {
                        if let Some(slot) = runs.oldest_clean(set, &lists) {
                            lists.rotate(set, slot);
                            runs.remove(set, slot, &lists);
                            lists.remove(set, slot);
                            let slot = lists.insert(set, block);
                            runs.push(set, slot, &lists);
                        }
                    }
                    Step::Resize(blocks) => {
                        let geometry = lists.geometry().resized(blocks);
                        lists.regroup(geometry, |block| geometry.set_of(block));
                        runs = CleanRuns::new(&lists);
                    }
                }
                // The others are as they were, or cut anew; a smaller level has fewer.
                for set in [lists.geometry().set_of(block), 0] {
                    let walked = lists.oldest_first(set).find(|&slot| !lists.flag(slot));
                    prop_assert_eq!(runs.oldest_clean(set, &lists), walked);
                }
            }
        }

        #[test]
        fn bits_equal_a_set(
            len in 1usize..10_000, steps in prop::collection::vec((any::<usize>(), any::<bool>(), any::<usize>()), 0..200),
        ) {
            let (mut bits, mut plain) = (Bits::new(len), BTreeSet::new());
            for (number, is_in, from) in steps {
                let number = number % len;
                bits.set(number, is_in);
                if is_in { plain.insert(number); } else { plain.remove(&number); }
                let from = from % (len + 1);
                prop_assert_eq!(bits.next(from), plain.range(from..).next().copied());
            }
        }
    }
}
