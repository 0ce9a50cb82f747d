//! The exact hit curve of a read-only LRU cache, in which a write invalidates the block.
//!
//! An invalidated block leaves a *hole* in the LRU stack: space that every cache deep enough to have held the
//! block has free. On an access to a block at depth k, when the topmost hole lies above it at depth h < k, the
//! entries above h move down by one, the block goes on top, and depth k becomes the hole; a block that is not in
//! the stack fills the topmost hole. The stack is kept as a [`Timeline`] in which a hole is a set position without
//! owner, so that an access costs O(log n). It must not know how hits are used.

use crate::analyser::Stack;
use crate::error::ReuseError;
use crate::tally::DistanceTally;
use crate::timeline::{NEVER, Timeline};
use crate::tracker::{Follow, Seen, Tracker};
use lode_types::{BlockNo, Direction};
use std::collections::BinaryHeap;

/// Depths of reads in the stack of read-only caches of every size at once.
///
/// A read at depth d hits exactly the caches of more than d blocks.
#[derive(Clone, Debug, Default)]
pub struct RoStack {
    tracker: Tracker,
    timeline: Timeline,
    /// Positions of the holes, the topmost (latest) first.
    holes: BinaryHeap<u32>,
    tally: DistanceTally,
}

impl RoStack {
    /// An analyser that has seen nothing.
    pub fn new() -> RoStack {
        RoStack::default()
    }

    /// The stack place that ceases to exist when a block at `position` goes on top: the topmost hole if it is above
    /// the block (whose own place then becomes a hole), else the block's own.
    fn vacated_by_move_to_top(&mut self, position: u32, is_cached: bool) -> u32 {
        match self.holes.peek() {
            Some(&top) if !is_cached || top > position => {
                self.holes.pop();
                if is_cached {
                    self.holes.push(position);
                }
                top
            }
            _ => position,
        }
    }

    #[cold]
    fn make_room(&mut self) {
        let mut holes = std::mem::take(&mut self.holes).into_vec();
        self.timeline.compact(|remap| {
            for position in self.tracker.words_mut().chain(&mut holes) {
                *position = remap.new_position(*position);
            }
        });
        self.holes = holes.into();
    }
}

impl Follow for RoStack {
    #[inline(always)]
    fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    #[inline(always)]
    fn tally_mut(&mut self) -> &mut DistanceTally {
        &mut self.tally
    }

    #[inline(always)]
    fn prefetch(&self, word: u32) {
        self.timeline.prefetch(word);
    }

    #[inline(always)]
    fn follow(&mut self, op: Direction, seen: Seen) -> Result<Option<u32>, ReuseError> {
        if self.timeline.is_full() {
            self.make_room();
        }
        let is_read = op == Direction::Read;
        let found = self.tracker.find(seen);
        let position = found.map_or(NEVER, |(_, position)| position);
        let is_cached = self.timeline.is_live(position);
        let mut depth = None;
        match found {
            _ if is_read => {
                let place = match found {
                    Some((place, _)) => place,
                    None => self.tracker.add(seen, NEVER)?,
                };
                depth = is_cached.then(|| self.timeline.distance(position));
                let vacated = self.vacated_by_move_to_top(position, is_cached);
                self.tracker.set_word(place, self.timeline.touch(vacated));
            }
            Some((place, _)) if is_cached => {
                self.holes.push(position);
                self.tracker.set_word(place, NEVER);
            }
            _ => {}
        }
        self.tally.accesses += 1;
        self.tally.reads += u64::from(is_read);
        Ok(depth)
    }
}

impl Stack for RoStack {
    fn tally(&self) -> &DistanceTally {
        &self.tally
    }

    /// Which holes forgotten blocks made or filled cannot be undone, so that holes are thinned evenly over the stack, by the
    /// share of blocks that is forgotten.
    fn retain_blocks(&mut self, keep: &dyn Fn(BlockNo) -> bool) {
        let before = self.tracker.len().max(1) as u64;
        self.tracker.retain(keep, |position| self.timeline.remove(position));
        let kept = self.tracker.len() as u64;
        let holes = std::mem::take(&mut self.holes).into_sorted_vec();
        let stays = |number: u64| (number + 1) * kept / before > number * kept / before;
        let (staying, filled): (Vec<_>, Vec<_>) = (0..).zip(holes).partition(|&(number, _)| stays(number));
        filled.into_iter().for_each(|(_, position)| self.timeline.remove(position));
        self.holes = staying.into_iter().map(|(_, position)| position).collect();
    }

    fn stack_bytes(&self) -> usize {
        self.timeline.memory_bytes() + self.holes.capacity() * size_of::<u32>()
    }
}
