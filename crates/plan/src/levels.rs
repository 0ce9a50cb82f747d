//! How much there is of each level, in the units that questions and answers use. It must not know what levels are for.

use lode_types::{Level, show_size};
use serde::{Deserialize, Serialize};

/// Bytes of each level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelBytes {
    /// Host memory.
    pub dram_bytes: u64,
    /// SSD.
    pub ssd_bytes: u64,
    /// Read SSD, for schemes that have one.
    #[serde(default, skip_serializing_if = "is_none")]
    pub read_ssd_bytes: u64,
}

/// Only comparisons have a read SSD, and of those only some.
fn is_none(bytes: &u64) -> bool {
    *bytes == 0
}

impl LevelBytes {
    /// Bytes of one level.
    pub fn of(&self, level: Level) -> u64 {
        match level {
            Level::Dram => self.dram_bytes,
            Level::Ssd => self.ssd_bytes,
            Level::ReadSsd => self.read_ssd_bytes,
        }
    }

    /// The same with one level changed.
    pub(crate) fn with(mut self, level: Level, bytes: u64) -> LevelBytes {
        match level {
            Level::Dram => self.dram_bytes = bytes,
            Level::Ssd => self.ssd_bytes = bytes,
            Level::ReadSsd => self.read_ssd_bytes = bytes,
        }
        self
    }

    /// The levels that there are, for people: "64 MiB of DRAM and 1 GiB of SSD".
    pub(crate) fn in_words(&self) -> String {
        let there = Level::ALL.into_iter().filter(|&level| self.of(level) > 0);
        let words: Vec<_> =
            there.map(|level| format!("{} of {}", show_size(self.of(level)), title(level))).collect();
        words.join(" and ")
    }
}

/// A number of blocks of each level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelBlockCounts {
    /// Host memory.
    pub dram_blocks: u64,
    /// SSD.
    pub ssd_blocks: u64,
}

impl LevelBlockCounts {
    /// Blocks of one level; there are none of a level that is not sized.
    pub fn of(&self, level: Level) -> u64 {
        match level {
            Level::Dram => self.dram_blocks,
            Level::Ssd => self.ssd_blocks,
            Level::ReadSsd => 0,
        }
    }
}

impl From<[u64; 2]> for LevelBlockCounts {
    /// Of blocks by [`Level::index`].
    fn from(blocks: [u64; 2]) -> LevelBlockCounts {
        LevelBlockCounts { dram_blocks: blocks[Level::Dram.index()], ssd_blocks: blocks[Level::Ssd.index()] }
    }
}

/// A level's name in what people read.
pub(crate) fn title(level: Level) -> &'static str {
    match level {
        Level::Dram => "DRAM",
        Level::Ssd => "SSD",
        Level::ReadSsd => "read SSD",
    }
}
