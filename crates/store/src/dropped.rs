//! Places whose bytes went with the only device that had them, which was dropped from its pair: a bit for each, and none where nothing went; and
//! what that means for the places of a volume. It must not know pairs, or who is home to what.

use lode_format::EntryState;

use crate::place::Place;
use crate::places::Places;

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

impl Places {
    /// The bytes of these places went before the volume was attached, see [`Places::drop_copies`].
    pub(crate) fn note_dropped(&mut self, dropped: DroppedPlaces) {
        self.dropped = dropped;
    }

    /// The bytes of the clean places of which this is true went with the only SSD that had them. Until something is put there again,
    /// what is there was never written there, which a checksum does not tell often enough.
    pub fn drop_copies(&mut self, is_home: impl Fn(Place) -> bool) {
        let clean = self.contents.occupied().filter(|(_, content)| content.held.state == EntryState::Clean);
        let gone = clean.map(|(place, _)| place).filter(|&place| is_home(place));
        self.dropped.extend(self.contents.places(), gone);
    }

    /// Whether the bytes that a place was given went with an SSD.
    pub fn is_dropped(&self, place: Place) -> bool {
        self.dropped.has(place)
    }
}
