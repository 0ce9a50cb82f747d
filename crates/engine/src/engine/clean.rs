//! What is done with blocks in the background: cleaning of what is newer than the backing disk, the copies staying in the SSD
//! (drains, what schemes ask for, and what is due), and scrubbing.

use lode_types::Level;

use super::Engine;
use crate::background::{BackgroundFacts, BackgroundNext};
use crate::drain::{DrainNext, Target};
use crate::flight::BlockOp;
use crate::scrub;

/// Drains.
impl Engine {
    /// Begins to write back all that is newer than the backing disk now, the copies staying in the SSD. Guests go on
    /// meanwhile; what they make dirty from here on is left out. Begins anew when a drain is under way. Takes a look
    /// at every block of the SSD at once.
    pub fn drain(&mut self) {
        self.take_over_the_rest();
        if self.drain_groups() {
            return;
        }
        let version = self.durability().version;
        if let Some(store) = self.levels.store_mut() {
            store.places_mut().mark();
        }
        self.drain_up_to(version);
    }

    /// As [`Engine::drain`], of the copies up to this version.
    pub(super) fn drain_up_to(&mut self, version: u64) {
        if self.drain_groups() {
            return;
        }
        let todo = self.take_stock(version);
        self.drain.begin(version, todo);
        self.run();
    }

    /// Blocks that the drain still has to write back; `None`: there is no drain, or it is over. A damaged block has
    /// nothing to write back and does not count: see [`crate::Gauges::lost_blocks`].
    pub fn drain_left(&self) -> Option<u32> {
        match &self.ordered {
            Some(ordered) => ordered.drain_left(),
            None => self.drain.left(),
        }
    }

    /// Gives the drain up. What it has under way comes to its end.
    pub fn stop_drain(&mut self) {
        self.drain.stop();
        if let Some(ordered) = &mut self.ordered {
            ordered.stop_drain();
        }
    }

    /// Where the disk is written in groups, a drain is the groups of what was written until now.
    fn drain_groups(&mut self) -> bool {
        let Some(ordered) = &mut self.ordered else { return false };
        ordered.drain();
        self.run();
        true
    }

    /// Dirty copies up to this version, in ascending order of their blocks.
    pub(super) fn take_stock(&self, version: u64) -> Vec<Target> {
        self.levels.take_stock(version, self.flights.readable_copies())
    }

    /// Begins the next batch of cleanings when the last one is over. What schemes asked for and has left since, or was
    /// written back by a drain, ends at once.
    pub(super) fn drive_drain(&mut self) {
        while self.health.writes_back() {
            match self.drain.next() {
                DrainNext::Wait => break,
                DrainNext::Clean { targets, asked } => {
                    targets.into_iter().for_each(|target| self.begin_cleaning(target, asked));
                }
                DrainNext::TakeStock { version } => {
                    let todo = self.take_stock(version);
                    self.drain.begin_round(version, todo);
                }
            }
        }
    }

    fn begin_cleaning(&mut self, Target { block, slot }: Target, asked: bool) {
        match slot.filter(|&slot| self.levels.block_in(Level::Ssd, slot) == Some(block)) {
            Some(slot) => self.claim(block, Level::Ssd, slot),
            None if self.flights.is_known(block) => {}
            // The slot has another block by now; this one was written back then.
            None => return,
        }
        self.drain.began();
        self.push_op(block, BlockOp::Clean { asked });
    }
}

/// Background write-back.
impl Engine {
    /// Begins the next batch that is written back in the background, when nothing else is cleaned.
    pub(super) fn drive_background(&mut self) {
        if self.ordered.is_some() {
            return;
        }
        let mut looks = 0;
        while self.health.writes_back() && !self.drain.goes_on() && self.drain.under_way() == 0 {
            match self.background.next(&self.background_facts()) {
                BackgroundNext::Wait => break,
                BackgroundNext::Look { slots, version } => {
                    let found = self.levels.dirty_in(slots, version);
                    self.background.found(found);
                    looks += 1;
                    if looks == self.background.looks_per_turn() {
                        break;
                    }
                }
                BackgroundNext::Clean(targets) => {
                    targets.into_iter().for_each(|target| self.begin_cleaning(target, false));
                }
            }
        }
    }

    /// Dirty blocks that could be written back: without copies that were superseded and wait for the journal, and without
    /// lost blocks.
    pub(super) fn blocks_to_clean(&self) -> u32 {
        let waiting = self.levels.store().map_or(0, |store| store.places().waiting());
        self.levels.dirty_blocks().saturating_sub((waiting + self.flights.lost()) as u32)
    }

    pub(super) fn background_facts(&self) -> BackgroundFacts {
        BackgroundFacts {
            dirty_blocks: self.blocks_to_clean(),
            slots: self.levels.ssd_slots(),
            version: self.levels.version(),
        }
    }
}

/// Scrubbing.
impl Engine {
    /// Looks at the slots that are due. Blocks in flight are passed over: what they do reads or replaces their copies.
    pub(super) fn drive_scrub(&mut self) {
        if !self.health.is_well() {
            return;
        }
        for _ in 0..scrub::LOOKS_PER_TURN {
            let Some(slot) = self.scrub.next(self.levels.ssd_slots()) else { return };
            let Some(block) = self.levels.block_in(Level::Ssd, slot) else { continue };
            self.claim(block, Level::Ssd, slot);
            self.scrub.begun();
            self.push_op(block, BlockOp::Scrub);
        }
    }
}
