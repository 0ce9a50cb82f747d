//! How many blocks of each level one VM may hold.

use lode_types::Level;

/// Blocks of each level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Blocks of host memory.
    pub dram_blocks: u32,
    /// Blocks of the cache SSD.
    pub ssd_blocks: u32,
}

impl Quota {
    /// Both levels at once.
    pub fn new(dram_blocks: u32, ssd_blocks: u32) -> Quota {
        Quota { dram_blocks, ssd_blocks }
    }

    /// Blocks of one level.
    pub fn of(&self, level: Level) -> u32 {
        match level {
            Level::Dram => self.dram_blocks,
            Level::Ssd => self.ssd_blocks,
        }
    }

    /// The same with one level changed.
    pub fn with(mut self, level: Level, blocks: u32) -> Quota {
        match level {
            Level::Dram => self.dram_blocks = blocks,
            Level::Ssd => self.ssd_blocks = blocks,
        }
        self
    }
}
