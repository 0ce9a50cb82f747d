//! Which places are handed out: the free ones of the extents that stay. Extents that are to be given up retire one after the
//! other, the last one first: their free places are not handed out any more, and those in use are not free again. It must not
//! know what places hold, or how blocks leave those that retire.

use std::ops::Range;

use lode_types::Counter;

use crate::free::FreePlaces;
use crate::place::Place;

/// Places by whether they are handed out.
#[derive(Debug)]
pub(crate) struct Circulation {
    free: FreePlaces,
    /// Free places that are not handed out.
    parked: FreePlaces,
    /// How many of those are of extents that do not retire.
    held_back: u32,
    /// No more are handed out, until all are.
    most: u64,
    places_per_extent: u32,
    /// For each extent the places that are handed out or hold something.
    used: Vec<u32>,
    /// Extents whose places are handed out; the others retire.
    extents: u32,
}

impl Circulation {
    /// Of so many places those are handed out that are not among those in use (`in_use`), and no more than `most` with these.
    pub(crate) fn new(
        places: Place,
        in_use: impl Iterator<Item = Place>,
        places_per_extent: u32,
        most: u64,
    ) -> Circulation {
        let places_per_extent = places_per_extent.max(1);
        let mut free = FreePlaces::all_but(places, places_per_extent, in_use);
        let mut parked = FreePlaces::none_of(places as usize, places_per_extent);
        let of_extent = |first: Place| first..places.min(first + places_per_extent);
        let extents = (0..places).step_by(places_per_extent as usize).map(of_extent);
        let used: Vec<u32> = extents.map(|places| places.len() as u32 - free.count(places)).collect();
        let held: u32 = used.iter().sum();
        let usable = most.saturating_sub(held.into());
        if usable < free.len().into() {
            let first_left = first_beyond(&free, places, usable as u32);
            free.move_to(&mut parked, first_left..places);
        }
        let (extents, held_back) = (used.len() as u32, parked.len());
        Circulation { free, parked, held_back, most, places_per_extent, used, extents }
    }

    /// Places that can be taken.
    pub(crate) fn free(&self) -> u32 {
        self.free.len()
    }

    /// The next places to be taken are, where possible, so many that lie together on the device.
    pub(crate) fn prefer_run(&mut self, places: u32) {
        self.free.prefer_run(places);
    }

    /// Takes one of them.
    pub(crate) fn take(&mut self) -> Place {
        let place = self.free.take().expect("a free place was seen");
        self.used[(place / self.places_per_extent) as usize] += 1;
        place
    }

    /// A place is used no more, and `again` later or never.
    pub(crate) fn release(&mut self, place: Place, again: bool) {
        self.used[(place / self.places_per_extent) as usize].count_down();
        match again {
            false => {}
            true if place < self.end() => self.free.insert(place),
            true => self.parked.insert(place),
        }
    }

    /// Extents, those that retire included.
    pub(crate) fn all_extents(&self) -> u32 {
        self.used.len() as u32
    }

    /// Extents whose places are handed out.
    pub(crate) fn extents(&self) -> u32 {
        self.extents
    }

    /// The first place that is not handed out because its extent retires, or the end of all places.
    pub(crate) fn end(&self) -> Place {
        self.extents * self.places_per_extent
    }

    /// Places of the extents that stay, as far as they are handed out.
    pub(crate) fn capacity(&self) -> u32 {
        self.end() - self.held_back
    }

    /// What that will be with so many extents more.
    pub(crate) fn capacity_with(&self, others: u32) -> u32 {
        let all = u64::from(self.capacity()) + u64::from(others) * u64::from(self.places_per_extent);
        u32::try_from(all.min(self.most)).unwrap_or(u32::MAX).max(self.capacity())
    }

    fn places_of(&self, extents: Range<u32>) -> Range<Place> {
        extents.start * self.places_per_extent..extents.end * self.places_per_extent
    }

    /// Hands out all places of so many extents from now on.
    pub(crate) fn reinstate(&mut self, extents: u32) {
        let extents = self.extents.max(extents.min(self.all_extents()));
        self.most = u64::MAX;
        if extents == self.extents && self.held_back == 0 {
            return;
        }
        self.extents = extents;
        let places = 0..self.end();
        self.parked.move_to(&mut self.free, places);
        self.held_back = 0;
    }

    /// Retires extents until so many are left, as far as the free places of those take what these hold, beside so many (`reserved`)
    /// that others rely on.
    pub(crate) fn retire(&mut self, extents: u32, reserved: u32) {
        while self.extents > extents.max(1) {
            self.reinstate(self.extents);
            let last = self.places_of(self.extents - 1..self.extents);
            let to_move: u32 = self.used[(self.extents - 1) as usize..].iter().sum();
            if self.free.len() - self.free.count(last.clone()) < to_move + reserved {
                return;
            }
            self.extents -= 1;
            self.free.move_to(&mut self.parked, last);
        }
    }

    /// Places of retiring extents that are still in use.
    #[cfg(test)]
    fn left_in_retiring(&self) -> u32 {
        self.used[self.extents as usize..].iter().sum()
    }

    /// How many of the retiring extents are not in use any more, counted from the last one.
    pub(crate) fn empty_extents(&self) -> u32 {
        let retiring = &self.used[self.extents as usize..];
        retiring.iter().rev().take_while(|&&used| used == 0).count() as u32
    }

    /// The last extents, which are empty, are gone.
    pub(crate) fn remove_extents(&mut self, count: u32) {
        assert!(count <= self.empty_extents(), "an extent that is given up holds nothing");
        let left = self.all_extents() - count;
        let gone = self.places_of(left..self.all_extents());
        let mut none = FreePlaces::none_of(gone.end as usize, self.places_per_extent);
        self.parked.move_to(&mut none, gone);
        self.set_extents(left);
    }

    /// There are so many more extents, whose places are handed out as far as all others are. None retires meanwhile.
    pub(crate) fn add_extents(&mut self, count: u32) {
        assert_eq!(self.extents, self.all_extents(), "extents come when none goes");
        let before = self.all_extents();
        self.set_extents(before + count);
        self.extents += count;
        let places = self.places_of(before..before + count);
        let missing = self.most.saturating_sub((places.start - self.held_back).into());
        let end = places.start + u32::try_from(missing).unwrap_or(u32::MAX).min(places.len() as u32);
        self.held_back += places.end - end;
        self.free.insert_all(places.start..end);
        self.parked.insert_all(end..places.end);
    }

    fn set_extents(&mut self, extents: u32) {
        let places = (extents * self.places_per_extent) as usize;
        self.used.resize(extents as usize, 0);
        self.used.shrink_to_fit();
        self.free.set_places(places);
        self.parked.set_places(places);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.free.memory_bytes() + self.parked.memory_bytes() + self.used.capacity() * size_of::<u32>()
    }
}

/// The first place behind so many free ones.
fn first_beyond(free: &FreePlaces, places: Place, count: u32) -> Place {
    let (mut low, mut high) = (0, places);
    while low < high {
        let middle = low.midpoint(high);
        if free.count(0..middle) < count { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circulation(is_free: Vec<bool>, places_per_extent: u32, most: u64) -> Circulation {
        let in_use = (0..).zip(&is_free).filter(|(_, is_free)| !**is_free).map(|(place, _)| place);
        Circulation::new(is_free.len() as Place, in_use, places_per_extent, most)
    }

    #[test]
    fn no_more_are_handed_out_than_asked_for() {
        let mut is_free = vec![true; 12];
        (is_free[1], is_free[9]) = (false, false);
        let mut places = circulation(is_free, 4, 5);
        assert_eq!((places.free(), places.capacity()), (3, 5));
        assert_eq!(places.take(), 0);
        places.reinstate(3);
        assert_eq!((places.free(), places.capacity()), (9, 12));
        // Of those that come no more are than of those that were there.
        let mut places = circulation(vec![true; 4], 4, 9);
        places.add_extents(1);
        assert_eq!((places.free(), places.capacity()), (8, 8));
        places.add_extents(2);
        assert_eq!((places.free(), places.capacity()), (9, 9));
        assert_eq!((0..9).map(|_| places.take()).last(), Some(8));
        places.reinstate(4);
        assert_eq!((places.free(), places.capacity()), (7, 16));
    }

    #[test]
    fn g4_a_retired_place_is_not_handed_out() {
        let mut is_free = vec![true; 12];
        (is_free[8], is_free[4]) = (false, false);
        let mut places = circulation(is_free, 4, 12);
        places.retire(1, 0);
        // What the last two hold, which is two blocks, fits into the first.
        assert_eq!((places.extents(), places.end(), places.free()), (1, 4, 4));
        assert_eq!((places.left_in_retiring(), places.empty_extents()), (2, 0));
        let taken: Vec<Place> = (0..4).map(|_| places.take()).collect();
        assert_eq!(taken, [0, 1, 2, 3]);
        places.release(8, true);
        assert_eq!((places.free(), places.empty_extents()), (0, 1));
        places.remove_extents(1);
        assert_eq!((places.all_extents(), places.empty_extents()), (2, 0));
        places.reinstate(2);
        assert_eq!(places.free(), 3);
        places.add_extents(1);
        assert_eq!((places.free(), places.capacity()), (7, 12));
    }

    #[test]
    fn an_extent_stays_while_the_others_cannot_take_what_it_holds() {
        let mut places = circulation([vec![true; 2], vec![false; 6]].concat(), 4, 8);
        places.retire(1, 0);
        assert_eq!(places.extents(), 2);
        (4..6).for_each(|place| places.release(place, true));
        places.retire(1, 1);
        assert_eq!(places.extents(), 2);
        places.retire(1, 0);
        assert_eq!((places.extents(), places.left_in_retiring()), (1, 2));
    }
}
