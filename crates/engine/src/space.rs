//! A volume whose share changes while it is served, where the host divides its levels between volumes: frames and extents are
//! asked of the host, and given back to it ([`crate::SpaceBroker`]). It must not know other volumes.
//!
//! A share that falls is the scheme's at once; frames and places are given back as its blocks leave, the dirty ones by way of
//! the backing disk. A share that rises is the scheme's as frames and places come. On the SSD whole extents change hands
//! ([`lode_store::VolumeStore`]): the last ones retire as soon as what they hold fits into the others, and is moved there.
//! Guests are served meanwhile, with the space there is.

use std::collections::VecDeque;

use lode_policy::Scheme;
use lode_store::DirectoryChange;
use lode_types::{BlockNo, Level};

use crate::command::DeviceId;
use crate::engine::Engine;
use crate::flight::{BlockOp, Place};

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
    /// The turn ends with this change of the directory. Until [`SpaceAnswer::Changed`] nothing new is durable.
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
pub(crate) struct Space {
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
    /// Moves that are queued.
    moves: u32,
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

impl Space {
    /// Blocks that are to be moved out of extents, or are written there.
    pub(crate) fn move_ended(&mut self) {
        self.moves -= 1;
    }

    /// Frames and extents that were asked for and did not come.
    pub(crate) fn wanted(&self) -> (u32, u32) {
        (self.wanted_frames, self.wanted_extents)
    }

    /// About a second has gone by: what could not be moved is looked for again.
    pub(crate) fn tick(&mut self) {
        self.sweep = Sweep { slots_left: SLOTS_PER_TICK, ticked: true, ..std::mem::take(&mut self.sweep) };
        if self.sweep.is_over {
            (self.sweep.is_over, self.sweep.next_slot) = (false, 0);
        }
    }

    /// Slots mean other blocks now.
    pub(crate) fn forget_slots(&mut self) {
        (self.sweep.is_over, self.sweep.next_slot) = (false, 0);
    }

    fn ask(&mut self, request: SpaceRequest) {
        self.requests.push_back(request);
    }
}

impl Engine {
    /// What is asked of the host next, or given back to it. Only where [`crate::EngineConfig::largest_share`] says that the
    /// host divides its levels.
    pub fn next_space_request(&mut self) -> Option<SpaceRequest> {
        self.space.requests.pop_front()
    }

    /// What the host says.
    pub fn space_answered(&mut self, answer: SpaceAnswer) {
        match answer {
            SpaceAnswer::Frames(frames) => {
                self.space.wanted_frames = self.space.wanted_frames.saturating_sub(frames);
                self.levels.dram.add(frames);
            }
            SpaceAnswer::Extents(extents) => {
                self.space.wanted_extents = self.space.wanted_extents.saturating_sub(extents.len() as u32);
                self.space.lent.extend(extents);
            }
            SpaceAnswer::GiveUpSpares => self.space.gives_up_spares = true,
            SpaceAnswer::Turn => self.turn_came(),
            SpaceAnswer::Changed => {
                self.space.turn = Turn::NotWanted;
                if let Some(ssd) = &mut self.levels.ssd {
                    ssd.store.changed();
                }
            }
        }
        self.run();
    }

    fn turn_came(&mut self) {
        let may_change = !self.has_failed(DeviceId::Ssd);
        match self.levels.ssd.as_mut().filter(|ssd| may_change && ssd.store.waits_for_turn()) {
            Some(ssd) => {
                ssd.store.begin_change();
                self.space.turn = Turn::Given;
            }
            None => {
                self.space.turn = Turn::NotWanted;
                self.space.ask(SpaceRequest::ReturnTurn);
            }
        }
    }

    /// The share that the host wants for the volume.
    pub(crate) fn set_share(&mut self, share: lode_policy::Quota, largest: lode_policy::Quota) {
        let before = self.config.share;
        let read_ssd_blocks = share.read_ssd_blocks.min(before.read_ssd_blocks);
        let share = share.map(|level, blocks| blocks.min(largest.of(level)));
        self.config.share = self.share_to_have(share.with(Level::ReadSsd, read_ssd_blocks));
        self.space.gives_up_spares |= share.ssd_blocks < before.ssd_blocks;
    }

    /// Takes every change of space on as far as it can go by itself.
    pub(crate) fn drive_space(&mut self) {
        if self.config.largest_share.is_none() || self.has_failed(DeviceId::Ssd) {
            return;
        }
        if self.health.is_well() {
            self.drive_extents();
            self.follow_space();
            self.drive_frames();
            self.drive_moves();
        }
        self.drive_change();
    }

    /// Asks for frames, or gives them back.
    fn drive_frames(&mut self) {
        let needed = self.config.places(Level::Dram) as u32;
        let dram = &mut self.levels.dram;
        let given = dram.give_back(needed);
        let wanted = needed.saturating_sub(dram.limit());
        if given > 0 {
            self.space.ask(SpaceRequest::ReturnFrames(given));
        }
        if wanted != self.space.wanted_frames {
            self.space.wanted_frames = wanted;
            self.space.ask(SpaceRequest::WantFrames(wanted));
        }
    }

    /// Asks for extents, or gets rid of them.
    fn drive_extents(&mut self) {
        let Some(ssd) = &mut self.levels.ssd else { return };
        let (space, store) = (&mut self.space, &mut ssd.store);
        let (needed, has) = (store.extents_for(self.config.ssd_places()).max(1), store.extents());
        let kept = if space.gives_up_spares { needed.min(has) } else { has };
        store.circulate(kept);
        if !store.is_changing() && !space.lent.is_empty() {
            let mut lent = std::mem::take(&mut space.lent);
            let superfluous = lent.split_off(lent.len().min(needed.saturating_sub(has) as usize));
            if !superfluous.is_empty() {
                space.ask(SpaceRequest::ReturnExtents(superfluous));
            }
            if !lent.is_empty() {
                store.gain(lent);
            }
        }
        let wanted = needed.saturating_sub(has + store.coming() + space.lent.len() as u32);
        if wanted != space.wanted_extents {
            space.wanted_extents = wanted;
            space.ask(SpaceRequest::WantExtents(wanted));
        }
        let (retiring, empty) = store.retiring_extents();
        let are_all_empty = empty == retiring && has - retiring == kept;
        if empty > 0 && (are_all_empty || space.sweep.ticked) && store.give_up_empty() {
            space.sweep.ticked = false;
        }
    }

    /// Waits for the volume's turn, and says what the directory is to say.
    fn drive_change(&mut self) {
        let Some(ssd) = &mut self.levels.ssd else { return };
        if ssd.store.waits_for_turn() && self.space.turn == Turn::NotWanted {
            self.space.turn = Turn::Wanted;
            self.space.ask(SpaceRequest::WantTurn);
        }
        if let Some(change) = ssd.store.next_change() {
            self.space.ask(SpaceRequest::Change(change));
        }
    }

    /// Gives the scheme the share that there is space for.
    fn follow_space(&mut self) {
        let share = self.within_reach(self.front.used(self.levels.share_in_force(&self.config)));
        if self.front.scheme.quota() != share {
            let effects = self.front.resize(share);
            self.take_background(effects);
        }
    }

    /// Moves blocks out of extents that are to be given up.
    fn drive_moves(&mut self) {
        let from = self.levels.ssd.as_ref().and_then(|ssd| ssd.store.retiring_from());
        if from != self.space.sweep.from {
            let slots_left = self.space.sweep.slots_left.max(SLOTS_PER_TURN);
            self.space.sweep =
                Sweep { from, slots_left, ticked: self.space.sweep.ticked, ..Sweep::default() };
        }
        let Some(from) = from else { return };
        let budget = std::mem::replace(&mut self.space.sweep.slots_left, SLOTS_PER_TURN);
        for _ in 0..budget {
            if self.space.sweep.is_over || self.space.moves >= MOST_MOVES {
                break;
            }
            let slot = self.space.sweep.next_slot;
            let Some(ssd) = &self.levels.ssd else { return };
            if slot >= ssd.shelf.slots() {
                self.move_others(from);
                self.space.sweep.is_over = true;
                break;
            }
            self.space.sweep.next_slot += 1;
            let place = ssd.shelf.get(slot).filter(|&place| place >= from);
            if let Some(place) = place.filter(|&place| self.may_move(place)) {
                let block = self.levels.places().held(place).block;
                self.claim(block, Level::Ssd, slot);
                self.begin_move(block);
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
        let ssd = self.levels.ssd.as_ref();
        self.drain.left().is_none() || ssd.is_some_and(|ssd| !ssd.store.places().is_dirty(place))
    }

    fn begin_move(&mut self, block: BlockNo) {
        self.space.moves += 1;
        self.gauges.moved_blocks += 1;
        self.push_op(block, BlockOp::Move);
    }
}
