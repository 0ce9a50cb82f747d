//! What an engine is made for.

use lode_policy::{Quota, WriteBudget};
use lode_types::{BlockSize, Level};

use crate::background::WriteBackLimits;
use crate::ordered::OrderedConfig;

/// What an engine is made for.
#[derive(Clone, Copy, Debug)]
pub struct EngineConfig {
    /// Size of a cache block.
    pub block: BlockSize,
    /// Bytes of the volume.
    pub volume_bytes: u64,
    /// The VM's share of each level: the first, and later what it was given last.
    pub share: Quota,
    /// Where the host divides its levels between VMs while they run: what it has of each level, so that no share is larger.
    /// Then frames and extents are asked of the host and given back to it ([`crate::Engine::next_space_request`]). Without it
    /// the engine keeps all of its first share, and shares change within that.
    pub largest_share: Option<Quota>,
    /// Least frames and places beside a share, so that a newcomer need not wait for its victim to leave; see
    /// [`EngineConfig::reserve_of`].
    pub reserve: Quota,
    /// When dirty blocks are written back without being evicted; none: when the scheme cleans them.
    pub write_back: Option<WriteBackLimits>,
    /// Within how many ticks every block on the SSD is compared with its checksum; none: only those that are read are.
    pub scrub_ticks: Option<u32>,
    /// The SSD is a pair: reads of it say what they are to find, so that what is damaged on one of the two is read from the other.
    pub ssd_is_pair: bool,
    /// The backing disk is written in the order of the guest's flushes, by way of a redo log beside it; none: as it comes.
    pub ordered: Option<OrderedConfig>,
    /// What the host allows to be written to the SSD, beside what the scheme's own settings do; see
    /// [`crate::Engine::set_host_budget`].
    pub host_budget: WriteBudget,
    /// First byte of the volume's places on the read SSD, for a share of which it is looked at.
    pub read_ssd_start_bytes: u64,
}

impl EngineConfig {
    /// Bytes that a volume is taken to have where its disk is not there to be asked.
    pub const ASSUMED_VOLUME_BYTES: u64 = 1 << 40;
    /// Least reserve: one piece of a request of every size fits with room to spare.
    const LEAST_RESERVE_BLOCKS: u32 = 512;
    const RESERVE_SHARE: u32 = 64;
    /// Bytes that may be written to the SSD between two commits of the journal, where it has the space.
    const SPARE_BYTES: u64 = 32 << 20;

    /// The usual reserves: a sixty-fourth of the share and never less than 512 blocks.
    pub fn new(block: BlockSize, volume_bytes: u64, share: Quota) -> EngineConfig {
        let reserve = Quota::default().map(|_, _| Self::LEAST_RESERVE_BLOCKS);
        EngineConfig {
            block,
            volume_bytes,
            share,
            largest_share: None,
            reserve,
            write_back: None,
            scrub_ticks: None,
            ssd_is_pair: false,
            ordered: None,
            host_budget: WriteBudget::Any,
            read_ssd_start_bytes: 0,
        }
    }

    /// Frames or places beside the share of a level: a sixty-fourth of it, and no less than the least.
    pub fn reserve_of(&self, level: Level) -> u32 {
        self.reserve_beside(level, self.share.of(level))
    }

    fn reserve_beside(&self, level: Level, share: u32) -> u32 {
        match share {
            0 => 0,
            blocks => self.reserve.of(level).max(blocks / Self::RESERVE_SHARE),
        }
    }

    /// The largest share of a level that with its reserve is within so many frames or places.
    pub(crate) fn largest_share_within(&self, level: Level, places: u32) -> u32 {
        let with_least = places.saturating_sub(self.reserve.of(level));
        let parts = u64::from(Self::RESERVE_SHARE);
        let with_part = (u64::from(places) * parts + parts - 1) / (parts + 1);
        with_least.min(with_part as u32)
    }

    /// The same with as much of its share of host memory as so many frames are enough for. It needs no more of them than
    /// [`EngineConfig::places`] says.
    pub fn within_frames(&self, frames: u32) -> EngineConfig {
        let dram_blocks = self.share.dram_blocks.min(self.largest_share_within(Level::Dram, frames));
        EngineConfig { share: self.share.with(Level::Dram, dram_blocks), ..*self }
    }

    /// Frames or places of a level that the volume needs, its reserve included.
    pub fn places(&self, level: Level) -> u64 {
        u64::from(self.share.of(level)) + u64::from(self.reserve_of(level))
    }

    /// Places on the SSD that the volume needs.
    pub fn ssd_places(&self) -> u64 {
        self.places(Level::Ssd)
    }

    /// Places on the SSD that are of use beyond those needed. What a write replaces becomes free when the journal says so
    /// durably: with a small reserve large writes would wait for one flush after the other.
    pub fn spare_ssd_places(&self) -> u64 {
        match self.share.ssd_blocks {
            0 => 0,
            _ => (Self::SPARE_BYTES / self.block.bytes()).saturating_sub(self.reserve_of(Level::Ssd).into()),
        }
    }

    /// Bytes on the read SSD that the volume needs.
    pub fn read_ssd_bytes(&self) -> u64 {
        self.places(Level::ReadSsd) * self.block.bytes()
    }
}
