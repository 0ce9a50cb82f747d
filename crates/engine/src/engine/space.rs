//! A share that changes while the volume is served, carried out: what the host is asked for and gives, extents that come and go,
//! and the moves of blocks out of those that go. What is asked and when is said in [`crate::space`].

use lode_policy::Quota;
use lode_types::{BlockNo, Level};

use super::Engine;
use crate::command::DeviceId;
use crate::flight::{BlockOp, Place};
use crate::space::{Look, SpaceAnswer, SpaceRequest};

impl Engine {
    /// What is asked of the host next, or given back to it. Frames and extents only where [`crate::EngineConfig::largest_share`]
    /// says that the host divides its levels, and the turn also where a volume has unwritten extents.
    pub fn next_space_request(&mut self) -> Option<SpaceRequest> {
        self.space.next_request()
    }

    /// What the host says.
    pub fn space_answered(&mut self, answer: SpaceAnswer) {
        match answer {
            SpaceAnswer::Frames(frames) => {
                self.space.frames_came(frames);
                self.levels.add_frames(frames);
            }
            SpaceAnswer::Extents(extents) => self.space.extents_came(extents),
            SpaceAnswer::GiveUpSpares => self.space.give_up_spares(),
            SpaceAnswer::Turn => self.turn_came(),
            SpaceAnswer::Changed => {
                self.space.changed();
                if let Some(store) = self.levels.store_mut() {
                    store.changed();
                }
            }
        }
        self.run();
    }

    fn turn_came(&mut self) {
        let may_change = !self.has_failed(DeviceId::Ssd);
        match self.levels.store_mut().filter(|store| may_change && store.waits_for_turn()) {
            Some(store) => {
                store.begin_change();
                self.space.begin_turn();
            }
            None => self.space.return_turn(),
        }
    }

    /// The share that the host wants for the volume.
    pub(super) fn set_share(&mut self, share: Quota, largest: Quota) {
        let before = self.config.share;
        let read_ssd_blocks = share.read_ssd_blocks.min(before.read_ssd_blocks);
        let share = share.map(|level, blocks| blocks.min(largest.of(level)));
        self.config.share = self.share_to_have(share.with(Level::ReadSsd, read_ssd_blocks));
        if share.ssd_blocks < before.ssd_blocks {
            self.space.give_up_spares();
        }
    }

    /// Takes every change of space on as far as it can go by itself.
    pub(super) fn drive_space(&mut self) {
        if self.has_failed(DeviceId::Ssd) {
            return;
        }
        if self.health.is_well() && self.config.largest_share.is_some() {
            self.drive_extents();
            self.follow_space();
            self.drive_frames();
            self.drive_moves();
        }
        // Whatever else failed, whoever waits for a place gets one.
        if let Some(store) = self.levels.store_mut() {
            store.initialize();
        }
        self.drive_change();
    }

    /// Whether there will be more places of the SSD, whoever holds these up.
    pub(super) fn places_come(&self) -> bool {
        let initializes = !self.has_failed(DeviceId::Ssd);
        initializes && self.levels.store().is_some_and(|store| store.has_places_to_come())
    }

    /// Asks for frames, or gives them back.
    fn drive_frames(&mut self) {
        let needed = self.config.places(Level::Dram) as u32;
        let given = self.levels.give_frames_back(needed);
        self.space.follow_frames(given, needed.saturating_sub(self.levels.frames()));
    }

    /// Asks for extents, or gets rid of them.
    fn drive_extents(&mut self) {
        let Some(store) = self.levels.store() else { return };
        let (needed, has) = (store.extents_for(self.config.ssd_places()).max(1), store.extents());
        let kept = self.space.extents_kept(needed, has);
        self.levels.circulate(kept);
        let Some(store) = self.levels.store_mut() else { return };
        if !store.is_changing()
            && let Some(lent) = self.space.take_lent(needed, has)
        {
            store.gain(lent);
        }
        self.space.follow_extents(needed, has + store.coming());
        if self.space.gives_up(has, kept, store.retiring_extents()) && store.give_up_empty() {
            self.space.gave_up();
        }
    }

    /// Waits for the volume's turn, and says what the directory is to say.
    fn drive_change(&mut self) {
        let Some(store) = self.levels.store_mut() else { return };
        if store.waits_for_turn() {
            self.space.want_turn();
        }
        if let Some(change) = store.next_change() {
            self.space.change(change);
        }
    }

    /// Gives the scheme the share that there is space for.
    fn follow_space(&mut self) {
        let share = self.within_reach(self.front.used(self.levels.share_in_force(&self.config)));
        if self.front.quota() != share {
            let effects = self.front.resize(share);
            self.take_background(effects);
        }
    }

    /// Moves blocks out of extents that are to be given up.
    fn drive_moves(&mut self) {
        let from = self.levels.store().and_then(|store| store.retiring_from());
        let looks = self.space.begin_looks(from);
        let Some(from) = from else { return };
        for _ in 0..looks {
            match self.space.next_look(self.levels.ssd_slots()) {
                Look::Wait => break,
                Look::OutsideSlots => self.move_others(from),
                Look::Slot(slot) => {
                    let place = self.levels.place_in(slot).filter(|&place| place >= from);
                    if let Some(place) = place.filter(|&place| self.may_move(place)) {
                        let block = self.levels.places().held(place).block;
                        self.claim(block, Level::Ssd, slot);
                        self.begin_move(block);
                    }
                }
            }
        }
    }

    /// Moves blocks that are in no slot: those that could not be written back, and those in flight, when what they are at is
    /// over. One that is in flight whenever slots are looked at, as by a scrub that begins with it at each tick, would stay.
    fn move_others(&mut self, from: Place) {
        let others = self.flights.to_move().into_iter().filter(|&(_, place)| place >= from);
        let others: Vec<BlockNo> =
            others.filter(|&(_, place)| self.may_move(place)).map(|(block, _)| block).collect();
        others.into_iter().for_each(|block| self.begin_move(block));
    }

    /// A drain cleans dirty blocks by their versions, which a move would change.
    fn may_move(&self, place: Place) -> bool {
        self.drain.left().is_none() || !self.levels.is_dirty_at(place)
    }

    fn begin_move(&mut self, block: BlockNo) {
        self.space.move_began();
        self.push_op(block, BlockOp::Move);
    }
}
