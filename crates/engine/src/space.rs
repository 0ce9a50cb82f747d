//! A volume whose share changes while it is served, where the host divides its levels between volumes: what was asked of the
//! host and given back to it ([`crate::SpaceBroker`]), and how far the look at all slots has come for blocks in extents that
//! are to be given up. It must not know other volumes, nor what holds the frames and extents or moves the blocks.
//!
//! A share that falls is the scheme's at once; frames and places are given back as its blocks leave, the dirty ones by way of
//! the backing disk. A share that rises is the scheme's as frames and places come. On the SSD whole extents change hands
//! ([`lode_store::VolumeStore`]): the last ones retire as soon as what they hold fits into the others, and is moved there.
//! Guests are served meanwhile, with the space there is.

use std::collections::VecDeque;

use lode_store::{DirectoryChange, Place};
use lode_types::Counter;

/// Moves that are queued at once.
const MOST_MOVES: u32 = 32;
/// Slots that are looked at for blocks to move in one turn of the engine, and at a tick.
const SLOTS_PER_TURN: u32 = 1 << 14;
const SLOTS_PER_TICK: u32 = 1 << 20;

/// What a volume asks of the host, or gives back to it. None of it waits for the answer: guests are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpaceRequest {
    /// So many more frames of host memory, in place of what was asked for before and did not come.
    WantFrames(u32),
    /// So many frames are given back.
    ReturnFrames(u32),
    /// So many more extents of the SSD, in place of what was asked for before and did not come.
    WantExtents(u32),
    /// These extents came and are not needed.
    ReturnExtents(Vec<u32>),
    /// To be the one volume whose extents change.
    WantTurn,
    /// It is not needed.
    ReturnTurn,
    /// The turn ends with this change of the directory. Where it names another ring, nothing new is durable until
    /// [`SpaceAnswer::Changed`].
    Change(DirectoryChange),
}

/// What the host says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpaceAnswer {
    /// So many more frames may be used.
    Frames(u32),
    /// These extents are nobody else's, and may be written to.
    Extents(Vec<u32>),
    /// It is the volume's turn.
    Turn,
    /// The directory says durably what it was to say.
    Changed,
    /// Others want extents and there are none: those that the volume has beyond its share and reserve are to be given up.
    GiveUpSpares,
}

/// Whether it is the volume's turn to change its extents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turn {
    #[default]
    NotWanted,
    Wanted,
    Given,
}

/// What was asked of the host, and how far a volume has come that gives space up.
#[derive(Debug, Default)]
pub(crate) struct SpaceClient {
    requests: VecDeque<SpaceRequest>,
    /// What was asked for and did not come.
    wanted_frames: u32,
    wanted_extents: u32,
    /// Extents that came and are not the volume's yet.
    lent: Vec<u32>,
    turn: Turn,
    /// Extents beyond share and reserve, which the start had left over, are given up.
    gives_up_spares: bool,
    sweep: Sweep,
    /// Moves that are queued, and blocks that were moved or are to be.
    moves: u32,
    moved_blocks: u64,
}

/// A look at all slots for blocks in extents that are to be given up.
#[derive(Debug, Default)]
struct Sweep {
    /// Of which place and those behind it.
    from: Option<Place>,
    next_slot: u32,
    is_over: bool,
    slots_left: u32,
    /// A tick has passed since extents were given up.
    ticked: bool,
}

/// Where blocks are looked for next that are to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Nowhere now.
    Wait,
    /// In this slot.
    Slot(u32),
    /// Among the blocks that are in no slot, once all slots were looked at.
    OutsideSlots,
}

impl SpaceClient {
    fn ask(&mut self, request: SpaceRequest) {
        self.requests.push_back(request);
    }

    /// What is asked of the host next, or given back to it.
    pub(crate) fn next_request(&mut self) -> Option<SpaceRequest> {
        self.requests.pop_front()
    }

    /// Frames and extents that were asked for and did not come.
    pub(crate) fn wanted(&self) -> (u32, u32) {
        (self.wanted_frames, self.wanted_extents)
    }

    /// The volume may use so many more frames.
    pub(crate) fn frames_came(&mut self, frames: u32) {
        self.wanted_frames = self.wanted_frames.saturating_sub(frames);
    }

    /// So many frames were given up, and so many are missing.
    pub(crate) fn follow_frames(&mut self, given: u32, missing: u32) {
        assert!(given == 0 || missing == 0, "what is given up is not needed");
        if given > 0 {
            self.ask(SpaceRequest::ReturnFrames(given));
        }
        if missing != self.wanted_frames {
            self.wanted_frames = missing;
            self.ask(SpaceRequest::WantFrames(missing));
        }
    }

    /// These extents may be written to.
    pub(crate) fn extents_came(&mut self, extents: Vec<u32>) {
        self.wanted_extents = self.wanted_extents.saturating_sub(extents.len() as u32);
        self.lent.extend(extents);
    }

    /// Extents beyond share and reserve are to be given up from now on.
    pub(crate) fn give_up_spares(&mut self) {
        self.gives_up_spares = true;
    }

    /// How many of the extents that the volume has are to stay, when so many are needed.
    pub(crate) fn extents_kept(&self, needed: u32, has: u32) -> u32 {
        if self.gives_up_spares { needed.min(has) } else { has }
    }

    /// Takes the extents that came, as far as they are needed beside those that the volume has; the others are given back.
    /// `None`: there are none.
    pub(crate) fn take_lent(&mut self, needed: u32, has: u32) -> Option<Vec<u32>> {
        let mut lent = std::mem::take(&mut self.lent);
        let superfluous = lent.split_off(lent.len().min(needed.saturating_sub(has) as usize));
        if !superfluous.is_empty() {
            self.ask(SpaceRequest::ReturnExtents(superfluous));
        }
        (!lent.is_empty()).then_some(lent)
    }

    /// So many extents are needed, and the volume has so many or will have them, without those that came.
    pub(crate) fn follow_extents(&mut self, needed: u32, will_have: u32) {
        let missing = needed.saturating_sub(will_have + self.lent.len() as u32);
        if missing != self.wanted_extents {
            self.wanted_extents = missing;
            self.ask(SpaceRequest::WantExtents(missing));
        }
    }

    /// Whether retiring extents that hold nothing any more are to be given up now, of a volume that has so many and keeps so many:
    /// all together, or when a tick has passed since some were.
    pub(crate) fn gives_up(&self, has: u32, kept: u32, (retiring, empty): (u32, u32)) -> bool {
        let are_all_empty = empty == retiring && has - retiring == kept;
        empty > 0 && (are_all_empty || self.sweep.ticked)
    }

    /// Extents are given up: the next ones wait for a tick, or go all together.
    pub(crate) fn gave_up(&mut self) {
        self.sweep.ticked = false;
    }

    /// The volume is to change its extents, which it does in its turn.
    pub(crate) fn want_turn(&mut self) {
        if self.turn == Turn::NotWanted {
            self.turn = Turn::Wanted;
            self.ask(SpaceRequest::WantTurn);
        }
    }

    /// It is the volume's turn, and it changes its extents.
    pub(crate) fn begin_turn(&mut self) {
        assert!(self.turn == Turn::Wanted, "a turn comes to who wants it");
        self.turn = Turn::Given;
    }

    /// It is the volume's turn, which does not need it any more.
    pub(crate) fn return_turn(&mut self) {
        self.turn = Turn::NotWanted;
        self.ask(SpaceRequest::ReturnTurn);
    }

    /// The turn ends with this change of the directory.
    pub(crate) fn change(&mut self, change: DirectoryChange) {
        assert!(self.turn == Turn::Given, "a volume changes its extents in its turn");
        self.ask(SpaceRequest::Change(change));
    }

    /// The directory says what it was to say.
    pub(crate) fn changed(&mut self) {
        assert!(self.turn == Turn::Given, "what was changed was asked for");
        self.turn = Turn::NotWanted;
    }

    /// About a second has gone by: what could not be moved is looked for again.
    pub(crate) fn tick(&mut self) {
        self.sweep = Sweep { slots_left: SLOTS_PER_TICK, ticked: true, ..std::mem::take(&mut self.sweep) };
        if self.sweep.is_over {
            self.forget_slots();
        }
    }

    /// Slots mean other blocks now.
    pub(crate) fn forget_slots(&mut self) {
        (self.sweep.is_over, self.sweep.next_slot) = (false, 0);
    }

    /// Blocks at this place and behind it are to be moved; none: nothing is. Gives how many looks there are in this turn of the
    /// engine.
    pub(crate) fn begin_looks(&mut self, from: Option<Place>) -> u32 {
        if from != self.sweep.from {
            let slots_left = self.sweep.slots_left.max(SLOTS_PER_TURN);
            self.sweep = Sweep { from, slots_left, ticked: self.sweep.ticked, ..Sweep::default() };
        }
        match from {
            Some(_) => std::mem::replace(&mut self.sweep.slots_left, SLOTS_PER_TURN),
            None => 0,
        }
    }

    /// Where blocks are looked for now, of so many slots.
    pub(crate) fn next_look(&mut self, slots: u32) -> Look {
        if self.sweep.is_over || self.moves >= MOST_MOVES {
            return Look::Wait;
        }
        let slot = self.sweep.next_slot;
        if slot >= slots {
            self.sweep.is_over = true;
            return Look::OutsideSlots;
        }
        self.sweep.next_slot += 1;
        Look::Slot(slot)
    }

    /// A block is to be moved.
    pub(crate) fn move_began(&mut self) {
        self.moves += 1;
        self.moved_blocks += 1;
    }

    /// It was moved, or cannot be.
    pub(crate) fn move_ended(&mut self) {
        self.moves.count_down();
    }

    /// Blocks that were moved, or are to be.
    pub(crate) fn moved_blocks(&self) -> u64 {
        self.moved_blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(space: &mut SpaceClient) -> Vec<SpaceRequest> {
        std::iter::from_fn(|| space.next_request()).collect()
    }

    #[test]
    fn what_is_missing_is_asked_for_once_and_what_came_too_late_is_given_back() {
        let mut space = SpaceClient::default();
        (0..2).for_each(|_| space.follow_frames(0, 5));
        (0..2).for_each(|_| space.follow_extents(3, 1));
        assert_eq!(asked(&mut space), [SpaceRequest::WantFrames(5), SpaceRequest::WantExtents(2)]);
        space.frames_came(3);
        space.follow_frames(0, 2);
        assert_eq!((asked(&mut space), space.wanted()), (Vec::new(), (2, 2)));
        space.extents_came(vec![7, 9]);
        space.follow_extents(3, 1);
        assert_eq!((asked(&mut space), space.wanted()), (Vec::new(), (2, 0)));
        // The share has fallen meanwhile.
        assert_eq!(space.take_lent(2, 1), Some(vec![7]));
        space.follow_frames(4, 0);
        let given = [SpaceRequest::ReturnExtents(vec![9]), SpaceRequest::ReturnFrames(4)];
        assert_eq!(asked(&mut space), [given.as_slice(), &[SpaceRequest::WantFrames(0)]].concat());
        assert_eq!(space.take_lent(2, 1), None);
    }

    #[test]
    fn empty_extents_go_all_together_or_after_a_tick() {
        let mut space = SpaceClient::default();
        let now =
            |space: &SpaceClient| [(0, 0), (2, 0), (2, 1), (1, 1), (2, 2)].map(|of| space.gives_up(5, 3, of));
        assert_eq!(now(&space), [false, false, false, false, true]);
        space.tick();
        assert_eq!(now(&space), [false, false, true, true, true]);
        space.gave_up();
        assert_eq!(now(&space), [false, false, false, false, true]);
        assert_eq!((space.extents_kept(2, 5), space.extents_kept(5, 2)), (5, 2));
        space.give_up_spares();
        assert_eq!((space.extents_kept(2, 5), space.extents_kept(5, 2)), (2, 2));
    }

    #[test]
    fn a_sweep_looks_at_every_slot_then_outside_and_begins_anew_after_a_tick() {
        let mut space = SpaceClient::default();
        let looks = |space: &mut SpaceClient, slots| {
            let count = space.begin_looks(Some(40));
            let mut looks: Vec<Look> = (0..count).map(|_| space.next_look(slots)).collect();
            looks.retain(|&look| look != Look::Wait);
            looks
        };
        assert_eq!(space.begin_looks(None), 0);
        assert_eq!(looks(&mut space, 2), [Look::Slot(0), Look::Slot(1), Look::OutsideSlots]);
        assert_eq!(looks(&mut space, 2), []);
        space.tick();
        assert_eq!(looks(&mut space, 1), [Look::Slot(0), Look::OutsideSlots]);
        space.tick();
        (0..MOST_MOVES).for_each(|_| space.move_began());
        assert_eq!(looks(&mut space, 2), []);
        space.move_ended();
        assert_eq!(looks(&mut space, 0), [Look::OutsideSlots]);
        assert_eq!(space.moved_blocks(), MOST_MOVES.into());
        // Another extent retires.
        assert!(space.begin_looks(Some(20)) > 0);
        assert_eq!(space.next_look(1), Look::Slot(0));
    }
}
