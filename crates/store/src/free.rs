//! Which places are free. It must not know what makes a place free.

use std::ops::Range;

use lode_types::Counter;

use crate::place::Place;

/// Words with free places that a search for a run looks at, so that it takes a microsecond at most.
const WORDS_PER_SEARCH: usize = 256;

/// A set of free places, a bit each. Places are taken in ascending order, going round, so that neighbours that became free
/// at different times are taken together; who wants many can have it begin where so many lie together. Large writes stay
/// contiguous.
#[derive(Debug)]
pub(crate) struct FreePlaces {
    words: Vec<u64>,
    /// A bit for each word that is not zero, so that few free places among many are found soon.
    summary: Vec<u64>,
    len: u32,
    /// Places that lie one behind the other on the device; the next ones are elsewhere.
    extent_places: u32,
    /// The next place is the first free one from here on, going round.
    at: Place,
}

impl FreePlaces {
    /// None of so many places, of which so many at a time lie together.
    pub fn none_of(places: usize, extent_places: u32) -> FreePlaces {
        let words = vec![0; places.div_ceil(64)];
        let summary = vec![0; words.len().div_ceil(64)];
        FreePlaces { summary, words, len: 0, extent_places, at: 0 }
    }

    /// All of so many places but these.
    pub fn all_but(places: Place, extent_places: u32, gone: impl Iterator<Item = Place>) -> FreePlaces {
        let mut free = FreePlaces::none_of(places as usize, extent_places);
        free.insert_all(0..places);
        gone.for_each(|place| free.words[place as usize / 64] &= !(1 << (place % 64)));
        free.len = free.words.iter().map(|word| word.count_ones()).sum();
        for (summary, words) in free.summary.iter_mut().zip(free.words.chunks(64)) {
            *summary = words.iter().rev().fold(0, |bits, word| bits << 1 | u64::from(*word != 0));
        }
        free
    }

    pub fn len(&self) -> u32 {
        self.len
    }

    /// Adds a place that is not free.
    pub fn insert(&mut self, place: Place) {
        let (word, bit) = (place as usize / 64, 1 << (place % 64));
        assert!(self.words[word] & bit == 0, "a place becomes free once");
        self.words[word] |= bit;
        self.summary[word / 64] |= 1 << (word % 64);
        self.len += 1;
    }

    /// Adds places none of which is free.
    pub fn insert_all(&mut self, places: Range<Place>) {
        for (word, mask) in self.masks(places) {
            if mask != 0 {
                assert!(self.words[word] & mask == 0, "a place becomes free once");
                self.words[word] |= mask;
                self.summary[word / 64] |= 1 << (word % 64);
                self.len += mask.count_ones();
            }
        }
    }

    /// Takes the next free place.
    pub fn take(&mut self) -> Option<Place> {
        if self.len == 0 {
            return None;
        }
        let at = self.at as usize / 64;
        let rest = self.words[at] & (u64::MAX << (self.at % 64));
        let (word, bits) = match rest {
            0 => {
                let next = self.word_after(at);
                (next, self.words[next])
            }
            rest => (at, rest),
        };
        let bit = bits.trailing_zeros();
        self.words[word] &= !(1 << bit);
        if self.words[word] == 0 {
            self.summary[word / 64] &= !(1 << (word % 64));
        }
        self.len.count_down();
        let place = word as u32 * 64 + bit;
        self.at = if place as usize + 1 < self.words.len() * 64 { place + 1 } else { 0 };
        Some(place)
    }

    /// How many of these places are free.
    pub fn count(&self, places: Range<Place>) -> u32 {
        self.masks(places).map(|(word, mask)| (self.words[word] & mask).count_ones()).sum()
    }

    /// Takes all that are free of these places out of the set, and puts them into another one.
    pub fn move_to(&mut self, to: &mut FreePlaces, places: Range<Place>) {
        let masks: Vec<(usize, u64)> = self.masks(places).collect();
        for (word, mask) in masks {
            let mut moved = self.words[word] & mask;
            self.words[word] &= !mask;
            self.len.count_down_by(moved.count_ones());
            if self.words[word] == 0 {
                self.summary[word / 64] &= !(1 << (word % 64));
            }
            while moved != 0 {
                to.insert(word as u32 * 64 + moved.trailing_zeros());
                moved &= moved - 1;
            }
        }
    }

    /// The words that have these places, and which of their bits are these.
    fn masks(&self, places: Range<Place>) -> impl Iterator<Item = (usize, u64)> + use<> {
        let Range { start, end } = places;
        (start / 64..end.div_ceil(64)).map(move |word| {
            let first = word * 64;
            let from = u64::MAX << start.saturating_sub(first);
            let to = if end >= first + 64 { u64::MAX } else { (1 << (end - first)) - 1 };
            (word as usize, from & to)
        })
    }

    /// There are so many places from now on. Those that come are not free; none of those that go is.
    pub fn set_places(&mut self, places: usize) {
        assert!(
            self.words.len() * 64 <= places || self.count(places as u32..self.words.len() as u32 * 64) == 0
        );
        self.words.resize(places.div_ceil(64), 0);
        self.summary.resize(self.words.len().div_ceil(64), 0);
        self.words.shrink_to_fit();
        self.summary.shrink_to_fit();
        if self.at as usize >= self.words.len() * 64 {
            self.at = 0;
        }
    }

    /// The next places to be taken are, if there are any, `wanted` that lie together, else the longest run that is found soon.
    pub fn prefer_run(&mut self, wanted: u32) {
        if self.len == 0 {
            return;
        }
        let (mut best, mut run) = (0..0, 0..0);
        let first = self.at as usize / 64;
        let (mut word, mut bits) = (first, self.words[first] & (u64::MAX << (self.at % 64)));
        for _ in 0..WORDS_PER_SEARCH {
            while let Some(mut ones) = next_ones(word, &mut bits) {
                while !ones.is_empty() {
                    let end = ones.end.min((ones.start / self.extent_places + 1) * self.extent_places);
                    let goes_on = ones.start == run.end && !ones.start.is_multiple_of(self.extent_places);
                    run = if goes_on { run.start..end } else { ones.start..end };
                    if run.len() > best.len() {
                        best = run.clone();
                    }
                    ones.start = end;
                }
            }
            word = self.word_after(word);
            if best.len() >= wanted as usize || word == first {
                break;
            }
            bits = self.words[word];
        }
        if !best.is_empty() {
            self.at = best.start;
        }
    }

    /// The next word with a free place after this one, going round. There is one, perhaps this one.
    fn word_after(&self, word: usize) -> usize {
        let first = word / 64;
        // What comes up to this word has its turn last.
        let mut bits = self.summary[first] & (u64::MAX << (word % 64)) & !(1 << (word % 64));
        let mut at = first;
        while bits == 0 {
            at = (at + 1) % self.summary.len();
            bits = self.summary[at];
        }
        at * 64 + bits.trailing_zeros() as usize
    }

    pub fn memory_bytes(&self) -> usize {
        (self.words.capacity() + self.summary.capacity()) * size_of::<u64>()
    }
}

/// Takes the lowest run of neighbours out of the bits of a word.
fn next_ones(word: usize, bits: &mut u64) -> Option<Range<Place>> {
    let start = (*bits != 0).then(|| bits.trailing_zeros())?;
    let len = (*bits >> start).trailing_ones();
    *bits &= u64::MAX.checked_shl(start + len).unwrap_or(0);
    let first = word as Place * 64 + start;
    Some(first..first + len)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_are_taken_together() {
        let mut free = FreePlaces::none_of(200, 200);
        [130, 3, 131, 2].into_iter().for_each(|place| free.insert(place));
        let taken: Vec<_> = std::iter::from_fn(|| free.take()).collect();
        assert_eq!(taken, [2, 3, 130, 131]);
        // What lies behind is taken when the rest is gone.
        [1, 150].into_iter().for_each(|place| free.insert(place));
        assert_eq!((free.take(), free.take(), free.take()), (Some(150), Some(1), None));
    }

    #[test]
    fn runs_are_found_within_extents() {
        let mut free = FreePlaces::none_of(400, 100);
        (0..10).chain(60..70).chain(90..110).chain(250..275).for_each(|place| free.insert(place));
        free.prefer_run(10);
        assert_eq!(free.take(), Some(0));
        // 90 to 110 lie in two extents.
        free.prefer_run(12);
        assert_eq!(free.take(), Some(250));
        free.prefer_run(100);
        assert_eq!(free.take(), Some(251));
        free.prefer_run(10);
        assert_eq!(free.take(), Some(252));
    }

    #[test]
    fn places_move_between_sets_and_sets_change_their_size() {
        let (mut free, mut parked) = (FreePlaces::none_of(200, 200), FreePlaces::none_of(200, 200));
        (0..200).for_each(|place| free.insert(place));
        free.move_to(&mut parked, 70..200);
        assert_eq!((free.len(), parked.len(), free.count(60..90), parked.count(60..90)), (70, 130, 10, 20));
        parked.move_to(&mut free, 70..71);
        assert_eq!((free.len(), free.count(0..200), parked.count(0..71)), (71, 71, 0));
        // What is taken next lies within the smaller set.
        while free.take().is_some_and(|place| place != 69) {}
        free.set_places(71);
        assert_eq!((free.take(), free.take()), (Some(70), None));
        free.set_places(1000);
        free.insert(999);
        assert_eq!((free.take(), free.len()), (Some(999), 0));
    }

    const PLACES: u32 = 16_000;
    const EXTENT: u32 = 243;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(Range<Place>),
        InsertAll(Range<Place>),
        Take,
        PreferRun(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..PLACES, 1..80u32).prop_map(|(at, len)| Step::Insert(at..(at + len).min(PLACES))),
            (0..PLACES, 0..150u32).prop_map(|(at, len)| Step::InsertAll(at..(at + len).min(PLACES))),
            (0..1u32).prop_map(|_| Step::Take),
            (1..70u32).prop_map(Step::PreferRun),
        ]
    }

    /// Lengths of the runs that lie together, by their first places. What lies before `at` in its word is not looked at.
    fn runs(model: &BTreeSet<Place>, at: Place) -> BTreeMap<Place, usize> {
        let mut runs = BTreeMap::new();
        let mut last = None;
        for &place in model.range(at..).chain(model.range(..at / 64 * 64)) {
            let start = match last {
                Some((start, before)) if before + 1 == place && !place.is_multiple_of(EXTENT) => start,
                _ => place,
            };
            *runs.entry(start).or_insert(0) += 1;
            last = Some((start, place));
        }
        runs
    }

    proptest! {
        #[test]
        fn it_is_a_set_that_is_taken_in_order_or_from_where_a_run_begins(
            gone in proptest::collection::vec((0..PLACES, 1..PLACES), 0..6),
            steps in proptest::collection::vec(step(), 1..400)
        ) {
            let mut model: BTreeSet<Place> = (0..PLACES).collect();
            for (at, len) in gone {
                (at..(at + len).min(PLACES)).for_each(|place| _ = model.remove(&place));
            }
            let gone = (0..PLACES).filter(|place| !model.contains(place));
            let mut free = FreePlaces::all_but(PLACES, EXTENT, gone);
            prop_assert_eq!(free.len() as usize, model.len());
            for step in steps {
                match step {
                    Step::Insert(places) => {
                        places.filter(|&place| model.insert(place)).for_each(|place| free.insert(place));
                    }
                    Step::InsertAll(places) => {
                        if model.range(places.clone()).next().is_none() {
                            model.extend(places.clone());
                            free.insert_all(places);
                        }
                    }
                    Step::Take => {
                        let next = model.range(free.at..).next().or(model.first()).copied();
                        prop_assert_eq!(free.take(), next);
                        next.map(|place| model.remove(&place));
                    }
                    Step::PreferRun(wanted) => {
                        let runs = runs(&model, free.at);
                        free.prefer_run(wanted);
                        if let Some(&longest) = runs.values().max() {
                            prop_assert!(runs[&free.at] >= longest.min(wanted as usize));
                        }
                    }
                }
                prop_assert_eq!(free.len() as usize, model.len());
            }
        }
    }
}
