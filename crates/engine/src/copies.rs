//! Copies into an SSD in the background, a few at a time, so that a burst of decisions does not stand in the way of
//! guests. One that a guest comes to wait behind goes at once. It must not know bytes, places or devices.

use std::collections::VecDeque;

use lode_types::{BlockNo, Counter, Level};

/// Part of the reserve of the SSD's places that copies leave to guests.
const LEFT_TO_GUESTS: u32 = 2;
/// Copies under way at once.
const MAX_UNDER_WAY: u32 = 8;
/// Ticks for which copies wait while no place comes free, and while no device is at anything either.
const TICKS_TO_WAIT: u32 = 30;
const IDLE_TICKS_TO_WAIT: u32 = 1;

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

    pub(crate) fn under_way(&self) -> u32 {
        self.under_way
    }

    pub(crate) fn wants_places(&self) -> bool {
        self.place.iter().any(|waiting| !waiting.is_empty())
    }

    /// A copy waits for its turn.
    pub(crate) fn push(&mut self, block: BlockNo) {
        self.turn.push_back(block);
    }

    /// A guest waits behind this one.
    pub(crate) fn put_first(&mut self, block: BlockNo) {
        if let Some(at) = self.turn.iter().position(|&waiting| waiting == block) {
            self.turn.remove(at);
            self.turn.push_front(block);
        }
    }

    /// The next copy whose turn has come: there are not too many, or a guest waits behind it.
    pub(crate) fn next_turn(&mut self, is_waited_for: impl Fn(BlockNo) -> bool) -> Option<BlockNo> {
        let &block = self.turn.front()?;
        if self.under_way >= MAX_UNDER_WAY && !is_waited_for(block) {
            return None;
        }
        self.under_way += 1;
        self.turn.pop_front()
    }

    /// The bytes of a copy are there.
    pub(crate) fn wait_for_place(&mut self, block: BlockNo, level: Level) {
        self.place[level.index()].push_back(block);
    }

    /// The next copy that may have one of so many free places: in order while there are more than the part of the level's
    /// `reserve_blocks` that is left to guests, else only one that a guest waits behind.
    pub(crate) fn next_to_place(
        &mut self,
        level: Level,
        places: u32,
        reserve_blocks: u32,
        is_waited_for: impl Fn(BlockNo) -> bool,
    ) -> Option<BlockNo> {
        let waiting = &mut self.place[level.index()];
        // Guests take no places of the read SSD.
        let left = if level == Level::Ssd { reserve_blocks / LEFT_TO_GUESTS } else { 0 };
        let at = if places > left {
            0
        } else {
            waiting.iter().position(|&block| places > 0 && is_waited_for(block))?
        };
        let block = waiting.remove(at)?;
        self.ticks_without_place = 0;
        Some(block)
    }

    /// Those that wait for a place in this level, which they will not get.
    pub(crate) fn give_up(&mut self, level: Level) -> VecDeque<BlockNo> {
        std::mem::take(&mut self.place[level.index()])
    }

    /// Looks once a tick whether places come free for those that wait for one, which is in vain where too many places of the
    /// SSD failed. True: none did for so long, or no device is at anything that could free one, that they are to be given up.
    pub(crate) fn tick(&mut self, is_idle: bool) -> bool {
        self.ticks_without_place = if self.wants_places() { self.ticks_without_place + 1 } else { 0 };
        self.ticks_without_place > if is_idle { IDLE_TICKS_TO_WAIT } else { TICKS_TO_WAIT }
    }

    /// A copy is over.
    pub(crate) fn ended(&mut self) {
        self.under_way.count_down();
    }
}
