//! The blocks that a stream accessed last, and how far back each of them is.
//!
//! It must not know reads from writes, nor which distances are worth anything.

use lode_reuse::index::BlockIndex;
use lode_reuse::timeline::{NEVER, Timeline};
use lode_types::BlockNo;

use super::PrefetchStep;
use crate::geometry::{Geometry, MapKind};
use crate::lists::SetLists;

#[derive(Clone, Copy, Debug)]
struct Seen {
    block: BlockNo,
    /// On the timeline.
    position: u32,
    /// The window of the last access.
    window: u32,
}

/// What is known of an access when it comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    /// Distinct blocks accessed since the last access to the same block; `None`: there was none, or too long ago.
    pub(crate) distance: Option<u32>,
    /// The block was not accessed before in this window.
    pub(crate) is_first_in_window: bool,
}

/// One stream's latest blocks, by recency: at most so many, older ones are as never seen.
#[derive(Debug)]
pub(crate) struct History {
    index: BlockIndex,
    blocks: SetLists<Seen>,
    line: Timeline,
    window: u32,
}

/// All blocks are one set.
const SET: u32 = 0;

impl History {
    pub(crate) fn new(most_blocks: u32) -> History {
        let blocks = SetLists::new(Geometry::new(0, MapKind::Modulo, most_blocks));
        History { index: BlockIndex::new(), blocks, line: Timeline::new(), window: 0 }
    }

    #[inline]
    pub(crate) fn access(&mut self, hash: u32, block: BlockNo) -> Visit {
        if self.line.is_full() {
            self.make_room();
        }
        let window = self.window;
        let Some(slot) = self.index.find(hash, |slot| self.blocks.value(slot).block == block) else {
            self.add(hash, Seen { block, position: NEVER, window });
            return Visit { distance: None, is_first_in_window: true };
        };
        let before = self.blocks.value(slot);
        let (distance, position) = if self.line.is_live(before.position) {
            let (distance, position) = self.line.revisit(before.position);
            (Some(distance), position)
        } else {
            (None, self.line.touch(NEVER))
        };
        *self.blocks.value_mut(slot) = Seen { block, position, window };
        self.blocks.touch(SET, slot);
        Visit { distance, is_first_in_window: before.window != window }
    }

    fn add(&mut self, hash: u32, seen: Seen) {
        let seen = Seen { position: self.line.touch(NEVER), ..seen };
        let slot = if self.blocks.is_full(SET) {
            let Some((slot, old, _)) = self.blocks.replace_oldest(SET, seen) else { return };
            self.line.remove(old.position);
            self.index.remove(BlockIndex::hash(old.block), slot);
            slot
        } else {
            self.blocks.insert(SET, seen)
        };
        self.index.insert(hash, slot);
    }

    #[cold]
    fn make_room(&mut self) {
        let blocks = &mut self.blocks;
        self.line.compact(|remap| {
            blocks.values_mut().for_each(|seen| seen.position = remap.new_position(seen.position));
        });
    }

    /// A block is as one never seen.
    pub(crate) fn forget(&mut self, block: BlockNo) {
        let hash = BlockIndex::hash(block);
        if let Some(slot) = self.index.find(hash, |slot| self.blocks.value(slot).block == block) {
            self.line.remove(self.blocks.value(slot).position);
            self.index.remove(hash, slot);
            self.blocks.remove(SET, slot);
        }
    }

    /// The next window begins, with all that is known or with nothing.
    pub(crate) fn begin_window(&mut self, with_history: bool) {
        self.window = self.window.wrapping_add(1);
        if !with_history {
            self.line.reset();
        }
    }

    /// Takes one step of [`Prefetch`](crate::Prefetch) for a block with this hash.
    #[inline]
    pub(crate) fn prefetch(&self, step: PrefetchStep, hash: u32) {
        match step {
            PrefetchStep::Index => self.index.prefetch(hash),
            PrefetchStep::Entries => self.blocks.prefetch(self.index.candidate(hash)),
            PrefetchStep::Neighbours => {
                if let Some(seen) = self.blocks.prefetch_neighbours(self.index.candidate(hash)) {
                    self.line.prefetch(seen.position);
                }
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.blocks.memory_bytes() + self.line.memory_bytes()
    }
}
