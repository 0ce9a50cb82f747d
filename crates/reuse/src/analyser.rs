//! What the exact analysers have in common: accesses in, counts of depths out.
//!
//! It must not know how any of them finds a depth.

use crate::error::ReuseError;
use crate::tally::DistanceTally;
use crate::tracker::{Follow, Seen, distances_of_all, follow_all};
use lode_types::{BlockNo, Direction};

/// An exact analyser of one stream of block accesses.
///
/// A useful access at depth d hits exactly the caches of more than d blocks.
pub trait Analyser {
    /// Adds the next access of the stream; its depth when it is useful.
    ///
    /// # Errors
    /// [`ReuseError::TooManyBlocks`]; the access is then not counted.
    fn access(&mut self, op: Direction, block: BlockNo) -> Result<Option<u32>, ReuseError>;

    /// Adds many accesses, faster than one at a time.
    ///
    /// # Errors
    /// [`ReuseError::TooManyBlocks`]; the accesses before the offending one have then been counted.
    fn access_all(&mut self, batch: &[(Direction, BlockNo)]) -> Result<(), ReuseError>;

    /// The same, and replaces `depths` by what [`Analyser::access`] would give for each of them.
    ///
    /// # Errors
    /// [`ReuseError::TooManyBlocks`]; the accesses before the offending one have then been counted and have depths.
    fn depths_of_all(
        &mut self,
        batch: &[(Direction, BlockNo)],
        depths: &mut Vec<Option<u32>>,
    ) -> Result<(), ReuseError>;

    /// Counts so far.
    fn tally(&self) -> &DistanceTally;

    /// Starts the counts again and keeps the history (a sizing window that carries over).
    fn clear_tally(&mut self);

    /// Starts the counts again, keeps the history, and hands over the counts so far with their memory.
    fn take_tally(&mut self) -> DistanceTally;

    /// Forgets the blocks that `keep` refuses; the counts stay as they are. Costs a walk over all blocks, or their sort.
    ///
    /// As long as no block was displaced otherwise than by accesses to others (by an invalidation, or by reads that left
    /// blocks where they were), depths are then those of an analyser that never saw these blocks; beyond that they are so
    /// by expectation only.
    fn retain(&mut self, keep: &dyn Fn(BlockNo) -> bool);

    /// Distinct blocks that the analyser follows, those of its reference stream: ever read for a read-only cache, whether or
    /// not a write has invalidated them since, ever written for a write-only one.
    fn distinct_blocks(&self) -> usize;

    /// Bytes of memory held.
    fn memory_bytes(&self) -> usize;
}

/// What an analyser has of its own, behind the accesses that it follows.
pub(crate) trait Stack: Follow {
    fn tally(&self) -> &DistanceTally;

    /// Forgets the blocks that `keep` refuses.
    fn retain_blocks(&mut self, keep: &dyn Fn(BlockNo) -> bool);

    /// Bytes of memory held beside tracker and counts.
    fn stack_bytes(&self) -> usize;
}

impl<S: Stack> Analyser for S {
    #[inline]
    fn access(&mut self, op: Direction, block: BlockNo) -> Result<Option<u32>, ReuseError> {
        let depth = self.follow(op, Seen::of(block))?;
        if let Some(depth) = depth {
            self.tally_mut().histogram.record(depth);
        }
        Ok(depth)
    }

    fn access_all(&mut self, batch: &[(Direction, BlockNo)]) -> Result<(), ReuseError> {
        follow_all(self, batch)
    }

    fn depths_of_all(
        &mut self,
        batch: &[(Direction, BlockNo)],
        depths: &mut Vec<Option<u32>>,
    ) -> Result<(), ReuseError> {
        distances_of_all(self, batch, depths)
    }

    fn tally(&self) -> &DistanceTally {
        Stack::tally(self)
    }

    fn clear_tally(&mut self) {
        self.tally_mut().clear();
    }

    fn take_tally(&mut self) -> DistanceTally {
        std::mem::take(self.tally_mut())
    }

    fn retain(&mut self, keep: &dyn Fn(BlockNo) -> bool) {
        self.retain_blocks(keep);
    }

    fn distinct_blocks(&self) -> usize {
        self.tracker().len()
    }

    fn memory_bytes(&self) -> usize {
        self.tracker().memory_bytes() + self.stack_bytes() + Stack::tally(self).histogram.memory_bytes()
    }
}
