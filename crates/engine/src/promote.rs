//! Promotions: copies into the SSD in the background, a few at a time, so that a burst of decisions does
//! not stand in the way of guests. One that a guest comes to wait behind goes at once.

use std::collections::VecDeque;

use lode_types::BlockNo;

use crate::Buf;
use crate::blocks::{Op, Stage};
use crate::command::MediaError;
use crate::engine::Engine;
use crate::op_read::padded;

/// Promotions under way at once.
const MAX_UNDER_WAY: u32 = 8;
/// Part of the reserve of places that promotions leave to guests.
const LEFT_TO_GUESTS: u32 = 2;

/// Promotions in order of decision.
#[derive(Debug, Default)]
pub(crate) struct Promotions {
    /// Waiting for their turn.
    turn: VecDeque<BlockNo>,
    /// The bytes are there and wait for a place.
    place: VecDeque<BlockNo>,
    under_way: u32,
}

impl Promotions {
    pub(crate) fn waiting(&self) -> u32 {
        (self.turn.len() + self.place.len()) as u32
    }

    pub(crate) fn wants_places(&self) -> bool {
        !self.place.is_empty()
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
    /// The head of the block's queue is a promotion.
    pub(crate) fn queue_promotion(&mut self, block: BlockNo) {
        self.set_stage(block, Stage::Turn);
        self.promotions.turn.push_back(block);
        if self.is_waited_for(block) {
            self.promotions.hurry(block);
        }
    }

    fn is_waited_for(&self, block: BlockNo) -> bool {
        self.blocks.get(block).is_some_and(|flight| flight.queue.len() > 1)
    }

    /// Starts promotions while there is a turn for them, and finishes those that wait for places.
    pub(crate) fn drive_promotions(&mut self) {
        if self.does_without_room() && self.ssd.as_ref().is_some_and(|ssd| ssd.slots.available() == 0) {
            for block in std::mem::take(&mut self.promotions.place) {
                self.promotion_done(block);
            }
        }
        while let Some(block) = self.next_to_place() {
            let flight = self.blocks.get_mut(block).expect("a promoted block is in flight");
            let Stage::Place(data) = std::mem::replace(&mut flight.stage, Stage::Start) else { continue };
            self.place_promotion(block, data);
        }
        while let Some(&block) = self.promotions.turn.front() {
            if self.promotions.under_way >= MAX_UNDER_WAY && !self.is_waited_for(block) {
                break;
            }
            self.promotions.turn.pop_front();
            self.promotions.under_way += 1;
            self.start_promotion(block);
        }
    }

    /// The next promotion that may have a place: in order while there are enough, else only one that a
    /// guest waits behind.
    fn next_to_place(&mut self) -> Option<BlockNo> {
        let places = self.ssd.as_ref()?.slots.available();
        let left = self.config.reserve.ssd_blocks / LEFT_TO_GUESTS;
        let at = if places > left {
            0
        } else {
            self.promotions.place.iter().position(|&block| places > 0 && self.is_waited_for(block))?
        };
        self.promotions.place.remove(at)
    }

    fn start_promotion(&mut self, block: BlockNo) {
        let flight = self.blocks.get(block).expect("a promoted block is in flight");
        let from_dram = matches!(flight.queue.front(), Some(Op::Promote { from_dram: true }));
        match flight.frame.filter(|_| from_dram) {
            _ if flight.copy.place().is_some() => self.promotion_done(block),
            Some(frame) => {
                let data = Buf::copy_of(self.dram.bytes(frame));
                self.wait_for_place(block, data);
            }
            None => self.read_backing(block, Stage::ReadBacking),
        }
    }

    fn wait_for_place(&mut self, block: BlockNo, data: Buf) {
        self.set_stage(block, Stage::Place(data));
        self.promotions.place.push_back(block);
    }

    fn place_promotion(&mut self, block: BlockNo, data: Buf) {
        let slots = &mut self.ssd.as_mut().expect("promotions go to an SSD").slots;
        slots.reserve();
        let place = slots.take_reserved();
        self.write_ssd(block, place, data);
    }

    pub(crate) fn promotion_io_done(
        &mut self,
        block: BlockNo,
        stage: Stage,
        result: Result<(), MediaError>,
        data: &[u8],
    ) {
        match (stage, result) {
            (Stage::ReadBacking, Ok(())) => {
                let data = padded(data, self.config.block.bytes() as usize);
                self.wait_for_place(block, data);
            }
            (Stage::WriteSsd { place, crc }, Ok(())) => {
                self.put_on_ssd(block, place, crc, false);
                self.promotion_done(block);
            }
            (Stage::WriteSsd { place, .. }, Err(_)) => {
                self.place_failed(place);
                self.promotion_done(block);
            }
            // The block simply is not there; the scheme is told when its flight is over.
            _ => self.promotion_done(block),
        }
    }

    fn promotion_done(&mut self, block: BlockNo) {
        self.promotions.under_way -= 1;
        self.op_done(block);
    }
}
