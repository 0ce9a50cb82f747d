//! Numbers by place, of which the first one below a bound is found, and whole ranges are changed at once.
//!
//! A tree of groups of 16: each entry of a level is the least of its group of the level before it, plus what was added to
//! all of that group since. Nothing is pushed down: what was added to a group is the difference of the two. It must not know what the
//! numbers mean.

use crate::lanes::{below, least};
use lode_types::prefetch::prefetch_slice;

/// Entries of a group: one cache line.
const FAN: usize = 16;

/// Growth at each enlargement, as a fraction.
const GROWTH: (usize, usize) = (5, 4);

/// The number of a place that has none; it is greater than all others, and adding to it changes nothing.
pub(crate) const NONE: i32 = i32::MAX;

/// From place `FAN - end` on: masks that leave only the entries before entry `end`.
const EARLIER: [i32; 2 * FAN] = {
    let mut masks = [0; 2 * FAN];
    let mut at = 0;
    while at < FAN {
        masks[at] = -1;
        at += 1;
    }
    masks
};

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Group([i32; FAN]);

impl Group {
    const EMPTY: Group = Group([NONE; FAN]);

    #[inline(always)]
    fn min(&self) -> i32 {
        least(&self.0)
    }

    /// The least entry before entry `end`.
    #[inline(always)]
    fn min_before(&self, end: usize) -> i32 {
        let earlier = &EARLIER[FAN - end..][..FAN];
        least(&std::array::from_fn(|at| self.0[at] & earlier[at] | NONE & !earlier[at]))
    }

    /// Adds to the entries before entry `end`.
    #[inline(always)]
    fn add_before(&mut self, end: usize, change: i32) {
        let earlier = &EARLIER[FAN - end..][..FAN];
        for (entry, mask) in self.0.iter_mut().zip(earlier) {
            // A mask instead of a condition: otherwise the compiler makes a branch of each.
            let is_some = -i32::from(*entry != NONE);
            *entry += change & mask & is_some;
        }
    }

    /// The first entry from `from` on that is below `bound`.
    #[inline(always)]
    fn first_below(&self, from: usize, bound: i32) -> Option<usize> {
        let mask = below(&self.0, bound) >> from << from;
        (mask != 0).then(|| mask.trailing_zeros() as usize)
    }
}

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(crate) struct MinTree {
    /// The places' own level first, one group last.
    levels: Vec<Vec<Group>>,
}

impl MinTree {
    /// Makes place `at` exist, and those before it, without numbers.
    #[inline(always)]
    pub(crate) fn provide(&mut self, at: usize) {
        if self.levels.first().is_none_or(|places| at >= places.len() * FAN) {
            self.grow(at / FAN + 1);
        }
    }

    /// Whether a place has a number.
    #[inline(always)]
    pub(crate) fn is_some(&self, at: usize) -> bool {
        self.levels[0][at / FAN].0[at % FAN] != NONE
    }

    /// The number of a place, in a tree to whose numbers nothing was ever added.
    #[inline(always)]
    pub(crate) fn get(&self, at: usize) -> i32 {
        self.levels[0][at / FAN].0[at % FAN]
    }

    /// Every number, in the order of places, of a tree to whose numbers nothing was ever added.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = i32> {
        let places = self.levels.first().into_iter().flatten().flat_map(|group| group.0);
        places.filter(|&number| number != NONE)
    }

    /// Gives a place a number, or [`NONE`].
    #[inline]
    pub(crate) fn set(&mut self, at: usize, number: i32) {
        self.replace(at, if number == NONE { NONE } else { number - self.added(at) });
    }

    /// As [`MinTree::set`], for a tree to whose numbers nothing was ever added.
    #[inline(always)]
    pub(crate) fn replace(&mut self, mut at: usize, mut number: i32) {
        for level in 0..self.levels.len() {
            let group = &mut self.levels[level][at / FAN];
            let before = group.min();
            group.0[at % FAN] = number;
            let after = group.min();
            at /= FAN;
            match self.levels.get(level + 1) {
                Some(parents) if after != before => {
                    number = carried(parents[at / FAN].0[at % FAN], before, after);
                }
                _ => return,
            }
        }
    }

    /// Adds to the numbers of all places before `end`, which must exist.
    #[inline]
    pub(crate) fn add_before(&mut self, mut end: usize, change: i32) {
        let (mut before, mut after) = (NONE, NONE);
        for number in 0..self.levels.len() {
            let parents = self.levels.get(number + 1);
            let is_empty = parents.is_some_and(|parents| parents[end / FAN / FAN].0[end / FAN % FAN] == NONE);
            if !is_empty {
                let group = &mut self.levels[number][end / FAN];
                let was = group.min();
                if before != after {
                    group.0[end % FAN] = carried(group.0[end % FAN], before, after);
                }
                group.add_before(end % FAN, change);
                (before, after) = (was, group.min());
            }
            end /= FAN;
        }
    }

    /// The first place whose number is below `bound`, in a tree to whose numbers nothing was ever added.
    #[inline]
    pub(crate) fn first_below(&self, bound: i32) -> Option<usize> {
        let down = |at: usize, level: &Vec<Group>| Some(at * FAN + level[at].first_below(0, bound)?);
        let found = self.levels.iter().rev().try_fold(0, down)?;
        (!self.levels.is_empty()).then_some(found)
    }

    /// As [`MinTree::first_below`], for any tree.
    #[inline]
    pub(crate) fn first_below_after_adding(&self, mut bound: i32) -> Option<usize> {
        let (top, levels) = self.levels.split_last()?;
        let mut at = top[0].first_below(0, bound)?;
        let mut parent = top[0].0[at];
        for level in levels.iter().rev() {
            let group = &level[at];
            let added = parent - group.min();
            bound -= added;
            let found = group.first_below(0, bound)?;
            parent = group.0[found];
            at = at * FAN + found;
        }
        Some(at)
    }

    /// The first place from `from` on whose number is below `bound`, in a tree to whose numbers nothing was ever added.
    #[inline]
    pub(crate) fn next_below(&self, mut from: usize, bound: i32) -> Option<usize> {
        for (number, level) in self.levels.iter().enumerate() {
            let group = from / FAN;
            if let Some(found) = level.get(group)?.first_below(from % FAN, bound) {
                let down = |at: usize, level: &Vec<Group>| Some(at * FAN + level[at].first_below(0, bound)?);
                return self.levels[..number].iter().rev().try_fold(group * FAN + found, down);
            }
            from = group + 1;
        }
        None
    }

    /// The least number of the places before `end`, which must exist, in a tree to whose numbers nothing was ever added.
    #[inline]
    pub(crate) fn min_before(&self, mut end: usize) -> i32 {
        let mut min = NONE;
        for level in &self.levels {
            min = min.min(level[end / FAN].min_before(end % FAN));
            end /= FAN;
        }
        min
    }

    /// Replaces every number, in the order of places, in a tree to whose numbers nothing was ever added.
    pub(crate) fn replace_all(&mut self, mut new: impl FnMut(i32) -> i32) {
        let entries = self.levels.first_mut().into_iter().flatten().flat_map(|group| &mut group.0);
        entries.filter(|entry| **entry != NONE).for_each(|entry| *entry = new(*entry));
        for level in 1..self.levels.len() {
            let (done, rest) = self.levels.split_at_mut(level);
            let entries = rest[0].iter_mut().flat_map(|group| &mut group.0);
            done[level - 1].iter().zip(entries).for_each(|(group, entry)| *entry = group.min());
        }
    }

    /// Takes away every number and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.levels.iter_mut().for_each(|level| level.fill(Group::EMPTY));
    }

    /// Asks the processor to load what a place begins with.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: usize) {
        if let Some(places) = self.levels.first() {
            prefetch_slice(places, at / FAN);
        }
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * size_of::<Group>()).sum()
    }

    /// What was added to the groups that a place is in.
    #[inline]
    fn added(&self, at: usize) -> i32 {
        let mut added = 0;
        let mut group = at / FAN;
        for (level, parents) in self.levels.iter().zip(self.levels.iter().skip(1)) {
            let parent = parents[group / FAN].0[group % FAN];
            // To a group without numbers nothing is added.
            added += if parent == NONE { 0 } else { parent - level[group].min() };
            group /= FAN;
        }
        added
    }

    #[cold]
    fn grow(&mut self, groups: usize) {
        let old = self.levels.len();
        let places = self.levels.first().map_or(0, Vec::len);
        let mut groups = groups.max(places * GROWTH.0 / GROWTH.1);
        for number in 0.. {
            if number == self.levels.len() {
                self.levels.push(Vec::new());
            }
            let level = &mut self.levels[number];
            level.reserve_exact(groups.saturating_sub(level.len()));
            level.resize(groups.max(level.len()), Group::EMPTY);
            groups = level.len().div_ceil(FAN);
            if level.len() == 1 {
                break;
            }
        }
        for level in old.max(1)..self.levels.len() {
            self.levels[level][0].0[0] = self.levels[level - 1][0].min();
        }
    }
}

/// The entry of a group whose least entry changes from `before` to `after`.
#[inline(always)]
fn carried(entry: i32, before: i32, after: i32) -> i32 {
    match (before, after) {
        (_, NONE) => NONE,
        (NONE, _) => after,
        _ => entry + (after - before),
    }
}

#[cfg(test)]
mod tests {
    use super::{MinTree, NONE};
    use proptest::prelude::*;

    /// Steps on `tree` and on a list: place, number, kind.
    fn agrees_with_list(steps: &[(usize, i32, u32)], adds: bool) {
        let mut tree = MinTree::default();
        let mut list: Vec<i32> = Vec::new();
        for &(at, number, kind) in steps {
            // The places grow in number with time, and with them the levels.
            if at > list.len() {
                list.resize(at + 1, NONE);
            }
            tree.provide(list.len());
            let Some(place) = at.checked_rem(list.len()) else { continue };
            match kind {
                0 if adds => {
                    tree.add_before(place, number / 8);
                    list[..place].iter_mut().filter(|n| **n != NONE).for_each(|n| *n += number / 8);
                }
                1 => {
                    tree.set(place, NONE);
                    list[place] = NONE;
                }
                2 if !adds => {
                    tree.replace_all(|old| old / 2 + 3);
                    list.iter_mut().filter(|n| **n != NONE).for_each(|n| *n = *n / 2 + 3);
                }
                3 if at.is_multiple_of(16) => {
                    tree.clear();
                    list.fill(NONE);
                }
                _ => {
                    tree.set(place, number);
                    list[place] = number;
                }
            }
            assert_eq!(tree.is_some(place), list[place] != NONE);
            let first = list.iter().position(|&n| n < number);
            assert_eq!(tree.first_below_after_adding(number), first);
            if !adds {
                assert_eq!(tree.get(place), list[place]);
                assert_eq!(tree.first_below(number), first);
                let next = list[place..].iter().position(|&n| n < number).map(|after| place + after);
                assert_eq!(tree.next_below(place, number), next);
                assert_eq!(tree.min_before(place), list[..place].iter().copied().min().unwrap_or(NONE));
            }
        }
        assert!(adds || tree.numbers().eq(list.into_iter().filter(|&n| n != NONE)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn finds_what_a_list_finds(
            steps in prop::collection::vec((0usize..5000, -1000i32..1000, 0u32..9), 0..200), few in 1usize..5000,
        ) {
            let steps: Vec<_> = steps.into_iter().map(|(at, number, kind)| (at % few, number, kind)).collect();
            agrees_with_list(&steps, false);
            agrees_with_list(&steps, true);
        }
    }
}
