//! The places of one level, whatever they are on: which of them each logical slot of the scheme has while the slot's block is not
//! in flight, and how many are set aside for accesses that were decided. A block that comes into flight claims its place and
//! carries it; when its flight is over, the slot is settled again. It must not know operations or guests, nor what places are:
//! that their [`PlaceSource`] knows, which is host memory ([`crate::dram`]), the store of the cache SSD ([`crate::ssd`]) or the read
//! SSD ([`crate::read_ssd`]).

use lode_types::BlockNo;

use crate::grow::make_room;

/// In place of a place: none.
const NONE: u32 = u32::MAX;

/// Where the places of a level come from, and what they hold.
pub(crate) trait PlaceSource {
    /// Places that can be taken.
    fn free(&self) -> u32;

    /// Takes one of these.
    fn take(&mut self) -> u32;

    /// A clean copy at a place is not needed any more.
    fn release(&mut self, place: u32);

    /// The block that a place in use is for.
    fn block_at(&self, place: u32) -> BlockNo;
}

/// The places of one level, by slot.
#[derive(Debug)]
pub(crate) struct Shelf<S> {
    source: S,
    /// Of the free places so many are set aside.
    reserved: u32,
    slots: Vec<u32>,
}

impl<S: PlaceSource> Shelf<S> {
    pub(crate) fn new(source: S) -> Shelf<S> {
        Shelf { source, reserved: 0, slots: Vec::new() }
    }

    /// Where its places come from.
    pub(crate) fn source(&self) -> &S {
        &self.source
    }

    /// The same, to be told what became of them.
    pub(crate) fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Places that nobody has, and that are not set aside.
    pub(crate) fn available(&self) -> u32 {
        self.source.free().saturating_sub(self.reserved)
    }

    /// Places that are set aside.
    pub(crate) fn reserved(&self) -> u32 {
        self.reserved
    }

    /// Sets one of the available places aside for [`Shelf::take_reserved`].
    pub(crate) fn reserve(&mut self) {
        assert!(self.available() > 0, "a free place was seen");
        self.reserved += 1;
    }

    /// A place that was set aside is not needed.
    pub(crate) fn unreserve(&mut self) {
        self.reserved = self.reserved.checked_sub(1).expect("it was set aside");
    }

    /// A place that was set aside.
    pub(crate) fn take_reserved(&mut self) -> u32 {
        self.unreserve();
        self.source.take()
    }

    /// One of the available places, at once.
    pub(crate) fn take(&mut self) -> u32 {
        assert!(self.available() > 0, "a free place was seen");
        self.source.take()
    }

    /// Takes the place of a slot whose block comes into flight.
    pub(crate) fn claim(&mut self, slot: u32) -> Option<u32> {
        let at = self.slots.get_mut(slot as usize)?;
        let place = std::mem::replace(at, NONE);
        (place != NONE).then_some(place)
    }

    /// Gives a slot the place of its block that is no longer in flight.
    pub(crate) fn settle(&mut self, slot: u32, place: u32) {
        let at = slot as usize;
        while self.slots.len() <= at {
            make_room(&mut self.slots);
            self.slots.push(NONE);
        }
        assert_eq!(self.slots[at], NONE, "a slot has one block");
        self.slots[at] = place;
    }

    /// Empties the slot of a clean copy whose block is not in flight.
    pub(crate) fn empty(&mut self, slot: u32) {
        if let Some(place) = self.claim(slot) {
            self.source.release(place);
        }
    }

    /// Empties all slots, whose copies are clean.
    pub(crate) fn empty_all(&mut self) {
        self.take_all().into_iter().for_each(|place| self.source.release(place));
    }

    /// No slot has a place any more. Gives the places that they had, in order of slots.
    pub(crate) fn take_all(&mut self) -> Vec<u32> {
        let mut places = std::mem::take(&mut self.slots);
        places.retain(|&place| place != NONE);
        places
    }

    /// The place of a slot whose block is not in flight.
    pub(crate) fn get(&self, slot: u32) -> Option<u32> {
        self.slots.get(slot as usize).copied().filter(|&place| place != NONE)
    }

    /// The block that a slot holds, when it is not in flight.
    pub(crate) fn block_in(&self, slot: u32) -> Option<BlockNo> {
        self.get(slot).map(|place| self.source.block_at(place))
    }

    /// Bound of the slots that ever had a place.
    pub(crate) fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Slots whose blocks are not in flight, with their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + Clone {
        let slots = (0..).zip(&self.slots).map(|(slot, &place)| (slot, place));
        slots.filter(|&(_, place)| place != NONE)
    }

    /// Bytes of memory of what is known of slots.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use lode_types::Rng;

    use super::*;

    /// Places of which each holds the block of its own number.
    struct Plain(Vec<u32>);

    impl PlaceSource for Plain {
        fn free(&self) -> u32 {
            self.0.len() as u32
        }

        fn take(&mut self) -> u32 {
            self.0.pop().expect("there is one")
        }

        fn release(&mut self, place: u32) {
            assert!(!self.0.contains(&place));
            self.0.push(place);
        }

        fn block_at(&self, place: u32) -> BlockNo {
            place.into()
        }
    }

    #[test]
    fn every_place_is_free_in_flight_or_in_one_slot_and_what_is_set_aside_is_there() {
        const PLACES: u32 = 20;
        let mut rng = Rng::new(1);
        let mut shelf = Shelf::new(Plain((0..PLACES).collect()));
        let (mut in_flight, mut reserved, mut slots) = (Vec::new(), 0, [None; 30]);
        for _ in 0..20_000 {
            let slot = rng.below(slots.len() as u64) as usize;
            match rng.below(7) {
                0 if shelf.available() > 0 => {
                    shelf.reserve();
                    reserved += 1;
                }
                1 if reserved > 0 => {
                    shelf.unreserve();
                    reserved -= 1;
                }
                2 if reserved > 0 => {
                    in_flight.push(shelf.take_reserved());
                    reserved -= 1;
                }
                3 if shelf.available() > 0 => in_flight.push(shelf.take()),
                4 if slots[slot].is_none() && !in_flight.is_empty() => {
                    slots[slot] = in_flight.pop();
                    shelf.settle(slot as u32, slots[slot].unwrap());
                }
                5 => {
                    let claimed = shelf.claim(slot as u32);
                    assert_eq!(claimed, slots[slot].take());
                    in_flight.extend(claimed);
                }
                6 => {
                    shelf.empty(slot as u32);
                    slots[slot] = None;
                }
                _ => {}
            }
            let settled = slots.iter().flatten().count();
            let free = PLACES - (in_flight.len() + settled) as u32;
            assert_eq!(
                (shelf.source().free(), shelf.reserved(), shelf.available()),
                (free, reserved, free - reserved)
            );
            assert_eq!((shelf.get(slot as u32), shelf.iter().count()), (slots[slot], settled));
            assert_eq!(shelf.block_in(slot as u32), slots[slot].map(BlockNo::from));
        }
        shelf.empty_all();
        assert_eq!((shelf.iter().count(), shelf.source().free()), (0, PLACES - in_flight.len() as u32));
    }
}
