//! Which places are free. It must not know what makes a place free.

use crate::places::Place;

/// A set of free places, a bit each. Places are taken in ascending order, going round, so that neighbours that became free
/// at different times are taken together and large writes stay contiguous.
#[derive(Debug)]
pub(crate) struct FreePlaces {
    words: Vec<u64>,
    len: u32,
    /// The word that is looked at first.
    next: usize,
}

impl FreePlaces {
    /// None of so many places.
    pub fn none_of(places: usize) -> FreePlaces {
        FreePlaces { words: vec![0; places.div_ceil(64)], len: 0, next: 0 }
    }

    pub fn len(&self) -> u32 {
        self.len
    }

    /// Adds a place that is not free.
    pub fn insert(&mut self, place: Place) {
        let (word, bit) = (place as usize / 64, 1 << (place % 64));
        debug_assert!(self.words[word] & bit == 0, "a place becomes free once");
        self.words[word] |= bit;
        self.len += 1;
    }

    /// Takes the next free place.
    pub fn take(&mut self) -> Option<Place> {
        if self.len == 0 {
            return None;
        }
        while self.words[self.next] == 0 {
            self.next = (self.next + 1) % self.words.len();
        }
        let word = &mut self.words[self.next];
        let place = self.next as u32 * 64 + word.trailing_zeros();
        *word &= *word - 1;
        self.len -= 1;
        Some(place)
    }

    pub fn memory_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
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

    proptest! {
        #[test]
        fn it_is_a_set(steps in proptest::collection::vec(proptest::option::of(0..500_u32), 1..400)) {
            let (mut free, mut model) = (FreePlaces::none_of(500), BTreeSet::new());
            for step in steps {
                match step {
                    Some(place) => {
                        if model.insert(place) {
                            free.insert(place);
                        }
                    }
                    None => {
                        let taken = free.take();
                        prop_assert_eq!(taken.is_some(), !model.is_empty());
                        prop_assert!(taken.is_none_or(|place| model.remove(&place)));
                    }
                }
                prop_assert_eq!(free.len() as usize, model.len());
            }
        }
    }
}
