//! Which places are free. It must not know what makes a place free.

use crate::places::Place;

/// A set of free places, a bit each. Places are taken in ascending order, going round, so that neighbours that became free
/// at different times are taken together and large writes stay contiguous.
#[derive(Debug)]
pub(crate) struct FreePlaces {
    words: Vec<u64>,
    /// A bit for each word that is not zero, so that few free places among many are found soon.
    summary: Vec<u64>,
    len: u32,
    /// The word of the place that was taken last.
    at: usize,
}

impl FreePlaces {
    /// None of so many places.
    pub fn none_of(places: usize) -> FreePlaces {
        let words = vec![0; places.div_ceil(64)];
        FreePlaces { summary: vec![0; words.len().div_ceil(64)], words, len: 0, at: 0 }
    }

    pub fn len(&self) -> u32 {
        self.len
    }

    /// Adds a place that is not free.
    pub fn insert(&mut self, place: Place) {
        let (word, bit) = (place as usize / 64, 1 << (place % 64));
        debug_assert!(self.words[word] & bit == 0, "a place becomes free once");
        self.words[word] |= bit;
        self.summary[word / 64] |= 1 << (word % 64);
        self.len += 1;
    }

    /// Takes the next free place.
    pub fn take(&mut self) -> Option<Place> {
        if self.len == 0 {
            return None;
        }
        if self.words[self.at] == 0 {
            self.at = self.next_word();
        }
        let word = &mut self.words[self.at];
        let place = self.at as u32 * 64 + word.trailing_zeros();
        *word &= *word - 1;
        if *word == 0 {
            self.summary[self.at / 64] &= !(1 << (self.at % 64));
        }
        self.len -= 1;
        Some(place)
    }

    /// The next word with a free place after the current one, which has none, going round. There is one.
    fn next_word(&self) -> usize {
        let first = self.at / 64;
        // In the first of them what comes before the current word has its turn last.
        let mut bits = self.summary[first] & (u64::MAX << (self.at % 64));
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_are_taken_together() {
        let mut free = FreePlaces::none_of(200);
        [130, 3, 131, 2].into_iter().for_each(|place| free.insert(place));
        let taken: Vec<_> = std::iter::from_fn(|| free.take()).collect();
        assert_eq!(taken, [2, 3, 130, 131]);
        // What lies behind is taken when the rest is gone.
        [1, 150].into_iter().for_each(|place| free.insert(place));
        assert_eq!((free.take(), free.take(), free.take()), (Some(150), Some(1), None));
    }

    const PLACES: u32 = 20_000;

    proptest! {
        #[test]
        fn it_is_a_set_that_is_taken_in_order(
            steps in proptest::collection::vec(proptest::option::of(0..PLACES), 1..400)
        ) {
            let (mut free, mut model) = (FreePlaces::none_of(PLACES as usize), BTreeSet::new());
            let mut last = 0;
            for step in steps {
                match step {
                    Some(place) => {
                        if model.insert(place) {
                            free.insert(place);
                        }
                    }
                    None => {
                        // From the word of the last one on; what became free before it in that word comes along.
                        let after = model.range(last / 64 * 64..).next().or(model.first()).copied();
                        let taken = free.take();
                        prop_assert_eq!(taken, after);
                        last = taken.unwrap_or(last);
                        taken.map(|place| model.remove(&place));
                    }
                }
                prop_assert_eq!(free.len() as usize, model.len());
            }
        }
    }
}
