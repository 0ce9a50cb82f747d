//! What an engine is made for.

use lode_policy::Quota;
use lode_types::{BlockSize, Level};

use crate::background::WriteBackLimits;
use crate::written::Written;

/// What an engine is made for.
#[derive(Clone, Copy, Debug)]
pub struct EngineConfig {
    /// Size of a cache block.
    pub block: BlockSize,
    /// Bytes of the volume.
    pub volume_bytes: u64,
    /// The VM's largest share of each level.
    pub quota: Quota,
    /// Frames and places beside the share, so that a newcomer need not wait for its victim to leave.
    pub reserve: Quota,
    /// When dirty blocks are written back without being evicted; none: when the scheme cleans them.
    pub write_back: Option<WriteBackLimits>,
    /// First byte of the volume's places on the read SSD, for a share of which it is looked at.
    pub read_ssd_start_bytes: u64,
}

impl EngineConfig {
    /// Least reserve: one piece of a request of every size fits with room to spare.
    const LEAST_RESERVE_BLOCKS: u32 = 512;
    const RESERVE_SHARE: u32 = 64;
    /// Bytes that may be written to the SSD between two commits of the journal, where it has the space.
    const SPARE_BYTES: u64 = 32 << 20;
    /// Most bytes of tables and histories for each block of the levels and reserves.
    const MOST_TABLE_BYTES: u64 = 320;
    /// Bytes of tables whatever the levels are.
    const LEAST_TABLE_BYTES: u64 = 1 << 20;

    /// The usual reserves: a sixty-fourth of the share and never less than 512 blocks.
    pub fn new(block: BlockSize, volume_bytes: u64, quota: Quota) -> EngineConfig {
        let reserve = quota.map(|_, blocks| match blocks {
            0 => 0,
            blocks => Self::LEAST_RESERVE_BLOCKS.max(blocks / Self::RESERVE_SHARE),
        });
        EngineConfig { block, volume_bytes, quota, reserve, write_back: None, read_ssd_start_bytes: 0 }
    }

    /// Most memory that the engine takes: frames, and tables and histories when the levels are full. Buffers of
    /// requests in flight come on top.
    pub fn most_memory_bytes(&self) -> u64 {
        let levels: u64 = Level::ALL.into_iter().map(|level| self.places(level)).sum();
        let all = levels + self.spare_ssd_places();
        let frames_bytes = self.places(Level::Dram) * self.block.bytes();
        let written_bytes = Written::most_memory_bytes(self.volume_bytes);
        frames_bytes + all * Self::MOST_TABLE_BYTES + Self::LEAST_TABLE_BYTES + written_bytes
    }

    /// Frames or places of a level that the volume needs, its reserve included.
    pub fn places(&self, level: Level) -> u64 {
        u64::from(self.quota.of(level)) + u64::from(self.reserve.of(level))
    }

    /// Places on the SSD that the volume needs.
    pub fn ssd_places(&self) -> u64 {
        self.places(Level::Ssd)
    }

    /// Places on the SSD that are of use beyond those needed. What a write replaces becomes free when the journal says so
    /// durably: with a small reserve large writes would wait for one flush after the other.
    pub fn spare_ssd_places(&self) -> u64 {
        match self.quota.ssd_blocks {
            0 => 0,
            _ => (Self::SPARE_BYTES / self.block.bytes()).saturating_sub(self.reserve.ssd_blocks.into()),
        }
    }

    /// Bytes on the read SSD that the volume needs.
    pub fn read_ssd_bytes(&self) -> u64 {
        self.places(Level::ReadSsd) * self.block.bytes()
    }
}
