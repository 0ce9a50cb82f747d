//! How much memory a volume takes, table by table: what it takes now ([`crate::Engine::memory`]), and what it takes at most
//! ([`EngineConfig::most_memory`]).

use std::iter::Sum;
use std::ops::Add;

use lode_policy::{Settings, most_memory_bytes};
use lode_store::Places;
use lode_types::Level;

use crate::config::EngineConfig;
use crate::drain;
use crate::dram::Dram;
use crate::grow::most_bytes;
use crate::read_ssd::ReadSsd;
use crate::written::Written;

/// Bytes of memory, by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Frames of the DRAM level.
    pub frames_bytes: u64,
    /// What frames take beside their bytes.
    pub frame_tables_bytes: u64,
    /// What the scheme knows of blocks, cached and not, and for a moment after a start what it is to be told of.
    pub scheme_bytes: u64,
    /// What each place on the SSD holds, and which are free.
    pub ssd_places_bytes: u64,
    /// The same of the read SSD.
    pub read_ssd_places_bytes: u64,
    /// Which frame or place each of the scheme's slots has.
    pub slots_bytes: u64,
    /// Where the backing disk may not know what is allocated.
    pub allocation_bytes: u64,
    /// Blocks that are to be written back, of a drain above all.
    pub cleaning_bytes: u64,
}

impl Memory {
    /// Everything but the frames, with the names that users read.
    pub fn tables(&self) -> [(&'static str, u64); 7] {
        [
            ("scheme", self.scheme_bytes),
            ("SSD places", self.ssd_places_bytes),
            ("read SSD places", self.read_ssd_places_bytes),
            ("slots", self.slots_bytes),
            ("frames' tables", self.frame_tables_bytes),
            ("allocation", self.allocation_bytes),
            ("write-back lists", self.cleaning_bytes),
        ]
    }

    /// Everything but the frames.
    pub fn tables_bytes(&self) -> u64 {
        self.tables().into_iter().map(|(_, bytes)| bytes).sum()
    }

    /// Everything.
    pub fn total_bytes(&self) -> u64 {
        self.frames_bytes + self.tables_bytes()
    }
}

impl Add for Memory {
    type Output = Memory;

    fn add(self, other: Memory) -> Memory {
        Memory {
            frames_bytes: self.frames_bytes + other.frames_bytes,
            frame_tables_bytes: self.frame_tables_bytes + other.frame_tables_bytes,
            scheme_bytes: self.scheme_bytes + other.scheme_bytes,
            ssd_places_bytes: self.ssd_places_bytes + other.ssd_places_bytes,
            read_ssd_places_bytes: self.read_ssd_places_bytes + other.read_ssd_places_bytes,
            slots_bytes: self.slots_bytes + other.slots_bytes,
            allocation_bytes: self.allocation_bytes + other.allocation_bytes,
            cleaning_bytes: self.cleaning_bytes + other.cleaning_bytes,
        }
    }
}

impl Sum for Memory {
    fn sum<I: Iterator<Item = Memory>>(all: I) -> Memory {
        all.fold(Memory::default(), Add::add)
    }
}

impl EngineConfig {
    /// Most memory that the engine takes under this scheme, with the largest share that it may get, on an SSD whose extents
    /// have so many places. Buffers of requests in flight come on top.
    pub fn most_memory(&self, settings: &Settings, extent_places: u32) -> Memory {
        let largest = EngineConfig { share: self.largest_share.unwrap_or(self.share), ..*self };
        let volume_blocks = self.volume_bytes.div_ceil(self.block.bytes());
        let [frames, ssd_places, mirrors] = Level::ALL.map(|level| largest.places(level));
        let ssd_places = ssd_places + largest.spare_ssd_places();
        let slots: u64 = [frames, ssd_places, mirrors].into_iter().map(most_bytes::<u32>).sum();
        Memory {
            frames_bytes: frames * self.block.bytes(),
            frame_tables_bytes: Dram::most_table_bytes(frames),
            scheme_bytes: most_memory_bytes(settings, largest.share, largest.share, volume_blocks),
            ssd_places_bytes: match ssd_places {
                0 => 0,
                places => Places::most_memory_bytes(places, extent_places, volume_blocks),
            },
            read_ssd_places_bytes: match mirrors {
                0 => 0,
                places => ReadSsd::most_memory_bytes(places, volume_blocks),
            },
            slots_bytes: slots,
            allocation_bytes: Written::most_memory_bytes(self.volume_bytes),
            cleaning_bytes: drain::most_memory_bytes(ssd_places)
                + self.ordered.map_or(0, |ordered| ordered.most_memory_bytes(self.block, ssd_places)),
        }
    }
}
