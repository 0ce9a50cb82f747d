//! Another scheme from now on, while guests are served. What the levels hold stays where it is: the new scheme takes over the
//! blocks on the SSD as it would at a start, and gets slots of its own for them. What it has no room for, or does not keep dirty,
//! leaves as what it evicts does, a dirty block by way of the backing disk.
//!
//! Blocks in flight go on. The operations in their queues were decided by the scheme before, and need no slots; only where
//! their copies go in the end is settled anew. DRAM and the read SSD begin empty, as at a start: both hold copies only. Where
//! one of them stands in for what the SSD has lost it stays with its block.

use lode_policy::{Quota, Settings, Slot};
use lode_store::FoundOrder;
use lode_types::{BlockNo, Level};
use smallvec::SmallVec;

use super::Engine;
use crate::flight::{BlockOp, Place, SsdCopy};
use crate::front::PREFETCHED;
use crate::reissue::Reissues;
use crate::switch::{Holder, Switch};
use crate::taking_over::TakingOver;

impl Engine {
    /// Another scheme, or the same with other settings, decides from now on, with the share that the volume has of the levels
    /// that it uses. Where a host divides its levels, shares may grow to `largest_share` under it. Guests are served meanwhile,
    /// and of what the volume holds nothing is lost. It takes a look at every block of the SSD at once.
    ///
    /// The scheme before decides on, see [`Engine::is_switching`], while writes are on their way that may be issued again
    /// ([`crate::Gauges::reissued_writes`]), and until there is the least that the new one needs of each level, which where a
    /// host divides its levels may be still to come.
    ///
    /// False: a device has failed, and what it held is being saved. Nothing changes then.
    ///
    /// # Panics
    /// As [`Engine::new`].
    pub fn switch_scheme(&mut self, settings: &Settings, largest_share: Option<Quota>) -> bool {
        if !self.health.is_well() {
            return false;
        }
        // One that has not begun gives way to this one.
        let switch = Switch::new(settings.clone(), self.switch.take(), self.config.largest_share);
        self.config.largest_share = switch.largest_to_come(largest_share);
        self.switch = Some(switch);
        self.run();
        true
    }

    /// The share that the volume is to have of the levels that its scheme uses.
    pub fn share(&self) -> Quota {
        self.front.used(self.config.share)
    }

    /// What it gets of a share that the host wants for it: of levels that its scheme uses, or the one to come.
    pub(super) fn share_to_have(&self, share: Quota) -> Quota {
        self.front.share_to_have(share, self.switch.as_ref().map_or(&[], Switch::levels))
    }

    /// Whether a scheme that is to decide does not do so yet.
    pub fn is_switching(&self) -> bool {
        self.switch.is_some()
    }

    /// Lets the new scheme begin, if there is one and it can.
    pub(super) fn drive_switch(&mut self) {
        if self.switch.is_none() {
            return;
        }
        if !self.health.is_well() {
            // What is in DRAM may be all that is left.
            return self.give_switch_up();
        }
        // The hooks of writes that were issued again are those of the scheme before.
        if self.reissues.as_ref().is_some_and(|reissues| !reissues.is_empty()) {
            return;
        }
        let Some(switch) = self.switch.take_if(|switch| switch.has_least(&self.config, &self.levels)) else {
            return;
        };
        let mut front = switch.build_front(&self.config, &self.levels);
        front.take_guests_of(&mut self.front);
        self.front = front;
        if self.config.largest_share.is_some() {
            // What it does not use is the host's again.
            self.config.share = self.share_to_have(self.config.share);
        }
        self.renew_reissues();
        self.empty_fast_levels();
        let settled = self.levels.take_places();
        let in_flight = self.take_blocks_in_flight();
        self.hand_over(&settled, &in_flight);
        self.forget_slots();
        self.gauges.scheme_switches += 1;
    }

    /// The scheme before goes on, with what it may have.
    fn give_switch_up(&mut self) {
        let Some(switch) = self.switch.take() else { return };
        self.config.largest_share = switch.largest_before();
        if self.config.largest_share.is_some() {
            self.config.share = self.share_to_have(switch.within_reach(self.config.share));
        }
    }

    /// As much of a share as the scheme that decides can be given.
    pub(super) fn within_reach(&self, share: Quota) -> Quota {
        self.switch.as_ref().map_or(share, |switch| switch.within_reach(share))
    }

    fn renew_reissues(&mut self) {
        if let Some(before) = self.reissues.take() {
            assert!(before.is_empty(), "what was issued again is over");
            self.gauges.add_reissues(&before.counts());
        }
        self.reissues = self.front.reissuing().is_some().then(Reissues::default);
    }

    /// DRAM and the read SSD hold no more than what is with blocks in flight, or stands in for a copy.
    fn empty_fast_levels(&mut self) {
        self.levels.empty_fast_slots();
        for flight in self.flights.all_mut() {
            flight.set_slot(Level::Dram, None);
            flight.set_slot(Level::ReadSsd, None);
        }
    }

    /// Gives the scheme what is on the SSD: what is settled there, least recent first, then what is in flight. What it has no room for is
    /// given up, a dirty block by way of the backing disk.
    pub(super) fn hand_over(&mut self, settled: &[Place], in_flight: &[(BlockNo, Holder)]) {
        let excess = self.expect(settled.len() + in_flight.len());
        let (settled_out, settled) = settled.split_at(excess.min(settled.len()));
        let (in_flight_out, in_flight) = in_flight.split_at(excess - settled_out.len());
        self.give_up_settled(settled_out);
        in_flight_out.iter().for_each(|&(block, holder)| self.hand_over_one(block, holder, None));
        self.restore_settled(settled);
        in_flight.chunks(PREFETCHED).for_each(|some| self.restore(some));
    }

    /// The scheme is about to be told of so many blocks. How many of them it has no room for.
    fn expect(&mut self, blocks: usize) -> usize {
        let excess = blocks.saturating_sub(self.front.quota().ssd_blocks as usize);
        self.front.expect(blocks - excess);
        excess
    }

    /// What was found at a start is to be handed over in the same way, when there is time for it.
    pub(super) fn begin_taking_over(&mut self, found: Option<FoundOrder>) -> Option<TakingOver> {
        let excess = self.expect(found.as_ref().map_or(0, FoundOrder::len));
        TakingOver::of(found?, excess)
    }

    /// What these places hold leaves the SSD.
    pub(super) fn give_up_settled(&mut self, places: &[Place]) {
        for some in places.chunks(PREFETCHED) {
            let given_up = self.holders(some);
            given_up.into_iter().for_each(|(block, holder)| self.hand_over_one(block, holder, None));
        }
    }

    /// The scheme takes over what these places hold.
    pub(super) fn restore_settled(&mut self, places: &[Place]) {
        for some in places.chunks(PREFETCHED) {
            let taken_over = self.holders(some);
            self.restore(&taken_over);
        }
    }

    /// What these places hold, and them as its holders. Few at a time: a list of all would take more memory than all that is known of the
    /// places.
    fn holders(&self, places: &[Place]) -> SmallVec<[(BlockNo, Holder); PREFETCHED]> {
        let held = self.levels.store().expect("who has places has a store").places();
        held.prefetch(places);
        places.iter().map(|&place| Holder::settled(place, &held.held(place))).collect()
    }

    /// The scheme takes over these blocks.
    fn restore(&mut self, blocks: &[(BlockNo, Holder)]) {
        self.front.prefetch(blocks.iter().map(|&(block, _)| block));
        for &(block, holder) in blocks {
            let slot = self.front.restore(block, holder.is_dirty());
            self.hand_over_one(block, holder, slot);
        }
    }

    fn hand_over_one(&mut self, block: BlockNo, holder: Holder, slot: Option<Slot>) {
        let is_dirty = holder.is_dirty();
        if let Holder::Settled { .. } = holder {
            self.note_dirty_slot(block, slot.filter(|_| is_dirty));
        }
        match (holder, slot) {
            (Holder::Settled { place, .. }, Some(slot)) => self.levels.settle_place(slot, place),
            (Holder::Settled { place, .. }, None) => self.take_off_ssd(block, place, is_dirty),
            (Holder::InFlight { .. }, Some(slot)) => self.assign(block, Level::Ssd, slot),
            (Holder::InFlight { .. }, None) => self.push_op(block, BlockOp::Evict(Level::Ssd)),
        }
    }

    /// A block that the scheme does not take over leaves the SSD.
    fn take_off_ssd(&mut self, block: BlockNo, place: Place, dirty: bool) {
        if !dirty && !self.flights.contains(block) {
            return self.levels.places().give_up_clean(place);
        }
        let flight = self.enter(block);
        assert!(flight.copy() == SsdCopy::None, "a block has one copy on the SSD");
        flight.take_copy(Level::Ssd, Some(place));
        self.push_op(block, BlockOp::Evict(Level::Ssd));
    }

    /// Blocks in flight that have a slot on the SSD, which they lose, in an order that is the same in every run.
    fn take_blocks_in_flight(&mut self) -> Vec<(BlockNo, Holder)> {
        let Some(store) = self.levels.store() else { return Vec::new() };
        let places = store.places();
        let mut blocks = Vec::new();
        for (block, flight) in self.flights.all_with_blocks_mut() {
            if flight.take_slot(Level::Ssd).is_some() {
                let is_dirty = flight.copy().place().is_some_and(|place| places.is_dirty(place));
                blocks.push((block, Holder::InFlight { dirty: flight.will_be_dirty(is_dirty) }));
            }
        }
        blocks
    }

    /// Slots mean other blocks now: whoever remembered some looks again. What the scheme before asked to be cleaned is dirty
    /// to the new one.
    fn forget_slots(&mut self) {
        if let Some(version) = self.drain.forget_slots() {
            let todo = self.take_stock(version);
            self.drain.go_on_with(todo);
        }
        self.background.forget_slots();
        self.scrub.forget_slots();
        self.space.forget_slots();
    }
}
