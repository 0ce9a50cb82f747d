//! The blocks that a stream accessed last, and how far back each of them is.
//!
//! It must not know reads from writes, nor which distances are worth anything.

use lode_reuse::index::BlockIndex;
use lode_reuse::timeline::{NEVER, Timeline};
use lode_types::BlockNo;

use super::PrefetchStep;
use crate::geometry::{Geometry, MapKind};
use crate::parts::lists::{SetLists, Value};

#[derive(Clone, Copy, Debug)]
struct Seen {
    block: BlockNo,
    /// On the timeline.
    position: u32,
    /// The window of the last access.
    window: u32,
}

impl Value for Seen {
    /// The block as it is kept by itself.
    type Kept = (<BlockNo as Value>::Kept, [u8; 4], [u8; 4]);

    const IS_WIDE: bool = true;

    #[inline(always)]
    fn kept(self) -> (Self::Kept, u32) {
        let (block, rest) = self.block.kept();
        ((block, self.position.to_le_bytes(), self.window.to_le_bytes()), rest)
    }

    #[inline(always)]
    fn restored((block, position, window): Self::Kept, rest: u32) -> Seen {
        let [position, window] = [position, window].map(u32::from_le_bytes);
        Seen { block: BlockNo::restored(block, rest), position, window }
    }
}

/// What the index has for a slot.
#[inline(always)]
fn hash_of(blocks: &SetLists<Seen>) -> impl Fn(u32) -> u32 {
    |slot| BlockIndex::hash(blocks.value(slot).block)
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
        let mut index = BlockIndex::new();
        index.expect(most_blocks as usize);
        History { index, blocks, line: Timeline::new(), window: 0 }
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
        self.blocks.set_value(slot, Seen { block, position, window });
        self.blocks.touch(SET, slot);
        Visit { distance, is_first_in_window: before.window != window }
    }

    fn add(&mut self, hash: u32, seen: Seen) {
        let seen = Seen { position: self.line.touch(NEVER), ..seen };
        let slot = if self.blocks.is_full(SET) {
            let Some((slot, old, _)) = self.blocks.replace_oldest(SET, seen) else { return };
            self.line.remove(old.position);
            self.index.remove(BlockIndex::hash(old.block), slot, hash_of(&self.blocks));
            slot
        } else {
            self.blocks.insert(SET, seen)
        };
        self.index.insert(hash, slot, hash_of(&self.blocks));
    }

    #[cold]
    fn make_room(&mut self) {
        let blocks = &mut self.blocks;
        self.line.compact(|remap| {
            blocks.update_all(|seen| Seen { position: remap.new_position(seen.position), ..seen });
        });
    }

    /// A block is as one never seen.
    pub(crate) fn forget(&mut self, block: BlockNo) {
        let hash = BlockIndex::hash(block);
        if let Some(slot) = self.index.find(hash, |slot| self.blocks.value(slot).block == block) {
            self.line.remove(self.blocks.value(slot).position);
            self.index.remove(hash, slot, hash_of(&self.blocks));
            self.blocks.remove(SET, slot);
        }
    }

    /// Blocks that are known.
    pub(crate) fn len(&self) -> u32 {
        self.blocks.len()
    }

    /// Blocks that `keep` refuses are as ones never seen.
    pub(crate) fn retain(&mut self, keep: impl Fn(BlockNo) -> bool) {
        let refused: Vec<BlockNo> =
            self.blocks.values().map(|seen| seen.block).filter(|&block| !keep(block)).collect();
        refused.into_iter().for_each(|block| self.forget(block));
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
