//! Places whose bytes went with the only device that had them, which was dropped from its pair: a bit for each, and none where nothing went. It
//! must not know what places hold.

use crate::place::Place;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct DroppedPlaces {
    words: Vec<u64>,
}

impl DroppedPlaces {
    /// The bytes of these places, of so many, are gone.
    pub(crate) fn extend(&mut self, places: Place, gone: impl Iterator<Item = Place>) {
        for place in gone {
            if self.words.len() <= place as usize / 64 {
                self.words.resize((places as usize).div_ceil(64), 0);
            }
            self.words[place as usize / 64] |= 1 << (place % 64);
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// A place was written.
    #[inline]
    pub(crate) fn remove(&mut self, place: Place) {
        if let Some(word) = self.words.get_mut(place as usize / 64) {
            *word &= !(1 << (place % 64));
        }
    }

    /// Whether the bytes of a place are gone.
    #[inline]
    pub(crate) fn has(&self, place: Place) -> bool {
        self.words.get(place as usize / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// Bytes of memory that this takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}
