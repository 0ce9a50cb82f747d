//! Which place of a level each logical slot of the scheme has, while the slot's block is not in flight. A block that comes
//! into flight claims its place and carries it; when its flight is over, the slot is settled again. It must not know what
//! places are, or what they hold.

use crate::grow::make_room;

/// In place of a place: none.
const NONE: u32 = u32::MAX;

/// The places of one level, by slot.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    places: Vec<u32>,
}

impl Shelf {
    /// Takes the place of a slot whose block comes into flight.
    pub(crate) fn claim(&mut self, slot: u32) -> Option<u32> {
        let at = self.places.get_mut(slot as usize)?;
        let place = std::mem::replace(at, NONE);
        (place != NONE).then_some(place)
    }

    /// Gives a slot the place of its block that is no longer in flight.
    pub(crate) fn settle(&mut self, slot: u32, place: u32) {
        let at = slot as usize;
        while self.places.len() <= at {
            make_room(&mut self.places);
            self.places.push(NONE);
        }
        assert_eq!(self.places[at], NONE, "a slot has one block");
        self.places[at] = place;
    }

    /// The place of a slot whose block is not in flight.
    pub(crate) fn get(&self, slot: u32) -> Option<u32> {
        self.places.get(slot as usize).copied().filter(|&place| place != NONE)
    }

    /// Bound of the slots that ever had a place.
    pub(crate) fn slots(&self) -> u32 {
        self.places.len() as u32
    }

    /// Slots whose blocks are not in flight, with their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + Clone {
        let slots = (0..).zip(&self.places).map(|(slot, &place)| (slot, place));
        slots.filter(|&(_, place)| place != NONE)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.places.capacity() * size_of::<u32>()
    }
}
