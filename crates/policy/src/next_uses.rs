//! What is to come, for schemes that need to know it: for each block access of one VM, when the same block is accessed
//! next. Whoever has a recorded stream tells it; no scheme can find it out. It must not know schemes or traces.

use std::sync::Arc;

use lode_reuse::BlockIndex;
use lode_types::BlockNo;

use crate::parts::growth;
use crate::settings::SettingError;

/// The future of one VM's stream. Copies share their memory.
#[derive(Clone, Debug, Default)]
pub struct NextUses {
    next_uses: Arc<Vec<u32>>,
}

impl NextUses {
    /// The next use of a block that is not accessed again, or not before it is discarded.
    pub const NEVER: u32 = u32::MAX;

    /// Block accesses of the stream.
    pub fn accesses(&self) -> usize {
        self.next_uses.len()
    }

    /// Bytes of memory held, by all copies together.
    pub fn memory_bytes(&self) -> usize {
        self.next_uses.capacity() * size_of::<u32>()
    }

    /// The number of the next access to the block of access `at`, both from 0; [`NextUses::NEVER`] also beyond the end
    /// of the stream.
    #[inline]
    pub fn next_use(&self, at: usize) -> u32 {
        self.next_uses.get(at).copied().unwrap_or(NextUses::NEVER)
    }
}

/// Records a stream from its start.
#[derive(Debug, Default)]
pub struct NextUsesBuilder {
    next_uses: Vec<u32>,
    /// Blocks that were accessed, each with the number of its last access.
    last_uses: Vec<(BlockNo, u32)>,
    index: BlockIndex,
}

impl NextUsesBuilder {
    /// An empty stream.
    pub fn new() -> NextUsesBuilder {
        NextUsesBuilder::default()
    }

    /// The next access, a read or a write, is to `block`.
    ///
    /// # Errors
    /// [`SettingError::FutureTooLong`] when there are 2^32 - 1 already.
    pub fn access(&mut self, block: BlockNo) -> Result<(), SettingError> {
        let at = self.next_uses.len() as u64;
        if at >= u64::from(NextUses::NEVER) {
            return Err(SettingError::FutureTooLong);
        }
        let at = at as u32;
        let hash = BlockIndex::hash(block);
        match self.index.find(hash, |id| self.last_uses[id as usize].0 == block) {
            Some(id) => {
                let last = std::mem::replace(&mut self.last_uses[id as usize].1, at);
                if let Some(next_use) = self.next_uses.get_mut(last as usize) {
                    *next_use = at;
                }
            }
            None => {
                let hash_of = |id: u32| BlockIndex::hash(self.last_uses[id as usize].0);
                self.index.insert(hash, self.last_uses.len() as u32, hash_of);
                growth::push(&mut self.last_uses, (block, at));
            }
        }
        growth::push(&mut self.next_uses, NextUses::NEVER);
        Ok(())
    }

    /// `block` is discarded here: a copy of it is worth nothing from its last access on.
    pub fn discard(&mut self, block: BlockNo) {
        let found = self.index.find(BlockIndex::hash(block), |id| self.last_uses[id as usize].0 == block);
        if let Some(id) = found {
            self.last_uses[id as usize].1 = NextUses::NEVER;
        }
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.next_uses.capacity() * size_of::<u32>()
            + self.last_uses.capacity() * size_of::<(BlockNo, u32)>()
            + self.index.memory_bytes()
    }

    /// The stream is over.
    pub fn finish(self) -> NextUses {
        NextUses { next_uses: Arc::new(self.next_uses) }
    }
}
