//! What the exact analysers have in common: accesses in, counts of depths out.
//!
//! It must not know how any of them finds a depth.

use crate::distance::Distances;
use crate::error::ReuseError;
use crate::ro_stack::RoStack;
use crate::tally::DistanceTally;
use crate::tracker::{Follow, distances_of_all};
use crate::wbwo_stack::WbwoStack;
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

    /// Starts the counts again and keeps the history.
    fn clear_tally(&mut self);

    /// Starts the counts again, keeps the history, and hands over the counts so far with their memory.
    fn take_tally(&mut self) -> DistanceTally;

    /// Starts everything again and keeps the memory.
    fn forget(&mut self);

    /// Forgets the blocks that `keep` refuses; the counts stay as they are. Costs a walk over all blocks.
    fn retain(&mut self, keep: &dyn Fn(BlockNo) -> bool);

    /// Distinct blocks that the analyser follows: those of its reference stream.
    fn distinct_blocks(&self) -> usize;

    /// Bytes of memory held.
    fn memory_bytes(&self) -> usize;
}

impl Analyser for Distances {
    fn access(&mut self, op: Direction, block: BlockNo) -> Result<Option<u32>, ReuseError> {
        let reuse = Distances::access(self, op, block)?;
        Ok(reuse.filter(|reuse| reuse.useful).map(|reuse| reuse.distance))
    }

    fn access_all(&mut self, batch: &[(Direction, BlockNo)]) -> Result<(), ReuseError> {
        Distances::access_all(self, batch)
    }

    fn depths_of_all(
        &mut self,
        batch: &[(Direction, BlockNo)],
        depths: &mut Vec<Option<u32>>,
    ) -> Result<(), ReuseError> {
        distances_of_all(self, batch, depths)
    }

    fn tally(&self) -> &DistanceTally {
        Distances::tally(self)
    }

    fn clear_tally(&mut self) {
        Distances::clear_tally(self);
    }

    fn take_tally(&mut self) -> DistanceTally {
        std::mem::take(self.tally_mut())
    }

    fn forget(&mut self) {
        Distances::forget(self);
    }

    fn retain(&mut self, keep: &dyn Fn(BlockNo) -> bool) {
        Distances::retain(self, keep);
    }

    fn distinct_blocks(&self) -> usize {
        Distances::distinct_blocks(self)
    }

    fn memory_bytes(&self) -> usize {
        Distances::memory_bytes(self)
    }
}

/// The two stacks have the same surface under the same names.
macro_rules! stack_is_analyser {
    ($stack:ty) => {
        impl Analyser for $stack {
            fn access(&mut self, op: Direction, block: BlockNo) -> Result<Option<u32>, ReuseError> {
                <$stack>::access(self, op, block)
            }

            fn access_all(&mut self, batch: &[(Direction, BlockNo)]) -> Result<(), ReuseError> {
                <$stack>::access_all(self, batch)
            }

            fn depths_of_all(
                &mut self,
                batch: &[(Direction, BlockNo)],
                depths: &mut Vec<Option<u32>>,
            ) -> Result<(), ReuseError> {
                distances_of_all(self, batch, depths)
            }

            fn tally(&self) -> &DistanceTally {
                <$stack>::tally(self)
            }

            fn clear_tally(&mut self) {
                <$stack>::clear_tally(self);
            }

            fn take_tally(&mut self) -> DistanceTally {
                std::mem::take(self.tally_mut())
            }

            fn forget(&mut self) {
                <$stack>::forget(self);
            }

            fn retain(&mut self, keep: &dyn Fn(BlockNo) -> bool) {
                <$stack>::retain(self, keep);
            }

            fn distinct_blocks(&self) -> usize {
                <$stack>::distinct_blocks(self)
            }

            fn memory_bytes(&self) -> usize {
                <$stack>::memory_bytes(self)
            }
        }
    };
}

stack_is_analyser!(RoStack);
stack_is_analyser!(WbwoStack);
