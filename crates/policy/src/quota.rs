//! How many blocks of each level one VM may hold.

use lode_types::Level;

/// Blocks of each level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Blocks of host memory.
    pub dram_blocks: u32,
    /// Blocks of the cache SSD.
    pub ssd_blocks: u32,
    /// Blocks of the read SSD.
    pub read_ssd_blocks: u32,
}

impl Quota {
    /// Host memory and cache SSD; nothing of the read SSD.
    pub const fn new(dram_blocks: u32, ssd_blocks: u32) -> Quota {
        Quota { dram_blocks, ssd_blocks, read_ssd_blocks: 0 }
    }

    /// Blocks of one level.
    pub const fn of(&self, level: Level) -> u32 {
        match level {
            Level::Dram => self.dram_blocks,
            Level::Ssd => self.ssd_blocks,
            Level::ReadSsd => self.read_ssd_blocks,
        }
    }

    /// The same with one level changed.
    pub const fn with(mut self, level: Level, blocks: u32) -> Quota {
        match level {
            Level::Dram => self.dram_blocks = blocks,
            Level::Ssd => self.ssd_blocks = blocks,
            Level::ReadSsd => self.read_ssd_blocks = blocks,
        }
        self
    }

    /// What `change` makes of each level's blocks.
    pub fn map(self, mut change: impl FnMut(Level, u32) -> u32) -> Quota {
        Level::ALL.into_iter().fold(self, |quota, level| quota.with(level, change(level, self.of(level))))
    }
}
