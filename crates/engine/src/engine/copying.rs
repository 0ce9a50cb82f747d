//! Gives copies in the background their turn, and a place where there is one. Whose turn it is, their own part decides. It must not
//! know why anything is copied.

use lode_types::{Level, planted};

use super::Engine;
use super::carry::AtHand;
use crate::flight::{Flight, Input};

/// Levels whose places copies wait for.
const COPIED_TO: [Level; 2] = [Level::Ssd, Level::ReadSsd];

impl Engine {
    /// Starts copies while there is a turn for them, and gives places to those that wait for one: those that DRAM is the
    /// source of do so at once. Giving one up makes a turn.
    pub(super) fn drive_copies(&mut self) {
        loop {
            while let Some(block) = self.copies.next_turn(|block| is_waited_for(self.flights.get(block))) {
                self.advance(block, Input::Proceed, AtHand::Nothing);
            }
            let under_way = self.copies.under_way();
            for level in COPIED_TO {
                self.place_copies(level);
            }
            if self.copies.under_way() == under_way {
                break;
            }
        }
    }

    fn place_copies(&mut self, level: Level) {
        if self.never_gets_places(level) {
            self.give_up_copies(level);
        }
        // Places of unwritten extents are left to guests, too: what is free of the others need not be as much.
        let unwritten = self.levels.store().map_or(0, |store| store.unwritten_places());
        let reserve_blocks = self.config.reserve_of(level).saturating_sub(unwritten);
        loop {
            let places = self.places_for_copies(level);
            let is_waited_for = |block| is_waited_for(self.flights.get(block));
            let Some(block) = self.copies.next_to_place(level, places, reserve_blocks, is_waited_for) else {
                break;
            };
            self.advance(block, Input::Proceed, AtHand::Nothing);
        }
    }

    /// Whether guests wait for room, copies that wait for a place hold frames, and no device is at anything that could free either.
    pub(super) fn copies_hold_guests_up(&self) -> bool {
        self.io.is_idle()
            && self.copies.wants_places()
            && self.is_blocked()
            && !planted("copies-hold-guests-up")
    }

    /// Gives up all copies that wait for a place.
    pub(super) fn give_up_waiting_copies(&mut self) {
        COPIED_TO.into_iter().for_each(|level| self.give_up_copies(level));
    }

    fn give_up_copies(&mut self, to: Level) {
        for block in self.copies.give_up(to) {
            self.advance(block, Input::GivenUp, AtHand::Nothing);
        }
    }

    /// Places of a level that copies may take.
    fn places_for_copies(&self, level: Level) -> u32 {
        match level {
            Level::Dram => 0,
            Level::Ssd if !self.health.is_well() => 0,
            Level::Ssd => self.levels.available_places(),
            Level::ReadSsd => self.levels.available_mirrors(),
        }
    }

    /// Whether copies wait in vain for a place: nothing can make one, or too many places failed.
    fn never_gets_places(&self, level: Level) -> bool {
        let read_ssd = self.levels.read_ssd();
        let is_worn = || read_ssd.quarantined() > self.config.reserve_of(level) / 2;
        let are_gone = level == Level::ReadSsd && (read_ssd.is_gone() || is_worn());
        // Places come free when the group is over, those of copies beside dirty ones as well, and it may wait for this copy.
        let is_waited_for = self.groups_wait_for_blocks();
        // While extents are initialized nobody is to wait for the frame that such a copy holds: others can be copied later.
        let is_late = level == Level::Ssd && self.places_come();
        let is_full = self.front.is_starved() || !self.health.is_well() || is_waited_for || is_late;
        self.places_for_copies(level) == 0 && (are_gone || is_full)
    }
}

fn is_waited_for(flight: Option<&Flight>) -> bool {
    flight.is_some_and(Flight::is_waited_for)
}
