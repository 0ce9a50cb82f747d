//! Copies into an SSD in the background, a few at a time, so that a burst of decisions does not stand in the way of
//! guests. One that a guest comes to wait behind goes at once.

use std::collections::VecDeque;

use lode_types::{BlockNo, Buf, Bytes, Level};

use crate::blocks::{Flight, Op, Place, Source, Stage};
use crate::command::{DeviceId, MediaError};
use crate::engine::Engine;
use crate::io::{Owner, Want};

/// Copies under way at once.
const MAX_UNDER_WAY: u32 = 8;
/// Ticks for which copies wait while no place comes free, and while no device is at anything either.
const TICKS_TO_WAIT: u32 = 30;
const IDLE_TICKS_TO_WAIT: u32 = 1;
/// Part of the reserve of the SSD's places that copies leave to guests.
const LEFT_TO_GUESTS: u32 = 2;

/// Copies in order of decision.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// Waiting for their turn.
    turn: VecDeque<BlockNo>,
    /// The bytes are there and wait for a place, by level.
    place: [VecDeque<BlockNo>; Level::COUNT],
    under_way: u32,
    /// Ticks since a place was found for one, while some wait for one.
    ticks_without_place: u32,
}

impl Copies {
    pub(crate) fn waiting(&self) -> u32 {
        (self.turn.len() + self.place.iter().map(VecDeque::len).sum::<usize>()) as u32
    }

    pub(crate) fn wants_places(&self) -> bool {
        self.place.iter().any(|waiting| !waiting.is_empty())
    }

    /// A guest waits behind this one.
    pub(crate) fn hurry(&mut self, block: BlockNo) {
        if let Some(at) = self.turn.iter().position(|&waiting| waiting == block) {
            self.turn.remove(at);
            self.turn.push_front(block);
        }
    }
}

impl Engine {
    /// The head of the block's queue is a copy.
    pub(crate) fn queue_copy(&mut self, block: BlockNo) {
        self.set_stage(block, Stage::Turn);
        self.copies.turn.push_back(block);
        if self.is_waited_for(block) {
            self.copies.hurry(block);
        }
    }

    fn is_waited_for(&self, block: BlockNo) -> bool {
        self.blocks.get(block).is_some_and(Flight::is_waited_for)
    }

    /// Starts copies while there is a turn for them, and gives places to those that wait for one: those that DRAM is the
    /// source of do so at once. Giving one up makes a turn.
    pub(crate) fn drive_copies(&mut self) {
        loop {
            self.start_copies();
            let under_way = self.copies.under_way;
            self.place_copies();
            if self.copies.under_way == under_way {
                break;
            }
        }
    }

    fn start_copies(&mut self) {
        while let Some(&block) = self.copies.turn.front() {
            if self.copies.under_way >= MAX_UNDER_WAY && !self.is_waited_for(block) {
                break;
            }
            self.copies.turn.pop_front();
            self.copies.under_way += 1;
            self.start_copy(block);
        }
    }

    fn place_copies(&mut self) {
        for level in [Level::Ssd, Level::ReadSsd] {
            if self.is_hopeless(level) {
                self.give_up_copies(level);
            }
            while let Some(block) = self.next_to_place(level) {
                let flight = self.blocks.get_mut(block).expect("a copied block is in flight");
                let Stage::Place(data) = std::mem::replace(&mut flight.stage, Stage::Start) else { continue };
                self.place_copy(block, level, data);
            }
        }
    }

    fn give_up_copies(&mut self, to: Level) {
        for block in std::mem::take(&mut self.copies.place[to.index()]) {
            self.copy_done(block);
        }
    }

    /// Looks once a tick whether places come free for the copies that wait for one, which is in vain where too many places
    /// of the SSD failed. When none did for so long, or no device is at anything that could free one, they are given up.
    pub(crate) fn note_starving_copies(&mut self) {
        let copies = &mut self.copies;
        copies.ticks_without_place = if copies.wants_places() { copies.ticks_without_place + 1 } else { 0 };
        let most_ticks = if self.io.is_idle() { IDLE_TICKS_TO_WAIT } else { TICKS_TO_WAIT };
        if copies.ticks_without_place > most_ticks {
            [Level::Ssd, Level::ReadSsd].into_iter().for_each(|level| self.give_up_copies(level));
        }
    }

    /// Places of a level that copies may take.
    fn places_for_copies(&self, level: Level) -> u32 {
        match level {
            Level::Dram => 0,
            Level::Ssd if !self.health.is_well() => 0,
            Level::Ssd => self.ssd.as_ref().map_or(0, |ssd| ssd.store.places().available()),
            Level::ReadSsd => self.read_ssd.available(),
        }
    }

    /// Whether copies wait in vain for a place: nothing can make one, or too many places failed.
    fn is_hopeless(&self, level: Level) -> bool {
        let is_worn = || self.read_ssd.quarantined() > self.config.reserve.of(level) / 2;
        let are_gone = level == Level::ReadSsd && (self.read_ssd.is_gone() || is_worn());
        self.places_for_copies(level) == 0 && (are_gone || self.does_without_room())
    }

    /// The next copy that may have a place: in order while there are enough, else only one that a
    /// guest waits behind.
    fn next_to_place(&mut self, level: Level) -> Option<BlockNo> {
        let places = self.places_for_copies(level);
        // Guests take no places of the read SSD.
        let left = if level == Level::Ssd { self.config.reserve.of(level) / LEFT_TO_GUESTS } else { 0 };
        let waiting = &self.copies.place[level.index()];
        let at = if places > left {
            0
        } else {
            waiting.iter().position(|&block| places > 0 && self.is_waited_for(block))?
        };
        self.copies.place[level.index()].remove(at)
    }

    fn start_copy(&mut self, block: BlockNo) {
        let flight = self.blocks.get(block).expect("a copied block is in flight");
        let Some(&Op::Copy { to, from }) = flight.queue.front() else { return };
        let is_there = match to {
            Level::Dram => true,
            Level::Ssd => flight.copy.place().is_some() || !self.health.is_well(),
            Level::ReadSsd => flight.mirror.is_some() || self.read_ssd.is_gone(),
        };
        match (flight.source(from), flight.frame) {
            _ if is_there => self.copy_done(block),
            (Some(Source::Dram), Some(frame)) => {
                let data = self.dram.bytes(frame).clone();
                self.wait_for_place(block, to, data);
            }
            (Some(source), _) => self.fetch(block, source, Stage::Read(source)),
            (None, _) => self.copy_done(block),
        }
    }

    fn wait_for_place(&mut self, block: BlockNo, level: Level, data: Bytes) {
        self.set_stage(block, Stage::Place(data));
        self.copies.place[level.index()].push_back(block);
    }

    fn place_copy(&mut self, block: BlockNo, level: Level, data: Bytes) {
        self.copies.ticks_without_place = 0;
        if level == Level::ReadSsd {
            let place = self.read_ssd.take().expect("a free place was seen");
            self.write_read_ssd(block, place, data);
        } else {
            let places = self.ssd.as_mut().expect("a free place was seen").store.places_mut();
            places.reserve();
            let place = places.take_reserved();
            self.write_ssd(block, place, data);
        }
    }

    fn write_read_ssd(&mut self, block: BlockNo, place: Place, data: Bytes) {
        let crc = self.read_ssd.checksum(block, &data);
        let want = Want {
            device: DeviceId::ReadSsd,
            offset_bytes: self.read_ssd.offset(place),
            len: data.len(),
            data: Some(data),
            owner: Owner::Block(block),
        };
        self.set_stage(block, Stage::WriteReadSsd { place, crc });
        self.io.want(want);
    }

    pub(crate) fn copy_io_done(
        &mut self,
        block: BlockNo,
        stage: Stage,
        result: Result<(), MediaError>,
        data: Buf,
    ) {
        let flight = self.blocks.get(block).expect("a copied block is in flight");
        let Some(&Op::Copy { to, .. }) = flight.queue.front() else { return };
        match (stage, result) {
            (Stage::Read(source), _) if self.is_good(block, source, result, data.as_slice()) => {
                let data = data.padded(self.config.block.bytes() as usize).freeze();
                self.wait_for_place(block, to, data);
                return;
            }
            (Stage::Read(Source::ReadSsd | Source::Ssd), _) => return self.start_copy(block),
            (Stage::WriteSsd { place, crc }, Ok(())) => {
                self.put_on_ssd(block, place, crc, false);
            }
            (Stage::WriteSsd { place, .. }, Err(_)) => self.place_failed(place),
            (Stage::WriteReadSsd { place, crc }, Ok(())) => {
                self.read_ssd.note(result);
                self.read_ssd.put(place, block, crc);
                self.flight(block).mirror = Some(place);
            }
            (Stage::WriteReadSsd { .. }, Err(_)) => {
                self.read_ssd.note(result);
                self.read_ssd.quarantine();
            }
            // The block simply is not there; the scheme is told when its flight is over.
            _ => {}
        }
        self.copy_done(block);
    }

    fn copy_done(&mut self, block: BlockNo) {
        self.copies.under_way -= 1;
        self.op_done(block);
    }
}
