//! How much of a host's memory caches with planned shares take when they are served: their DRAM level, and the tables of all
//! levels. It must not know why anybody has such a share.

use lode_engine::{EngineConfig, Memory};
use lode_format::{DeviceLayout, ExtentLayout};
use lode_policy::{Quota, Settings};
use lode_types::{BlockSize, Level};
use serde::Serialize;

/// The most memory that caches take, as `lode serve --check` counts it of a host whose disks are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HostMemory {
    /// Frames of the DRAM level, with those that engines have beside their shares.
    pub frames_bytes: u64,
    /// Everything else: what schemes know of blocks, and where these lie.
    pub tables_bytes: u64,
}

impl HostMemory {
    /// That of caches with these settings, each with its share in blocks of both levels, by [`Level::index`]. None where a share
    /// has more blocks than a cache can have.
    pub(crate) fn of(
        settings: &Settings,
        block_bytes: u64,
        shares_blocks: &[[u64; 2]],
    ) -> Option<HostMemory> {
        let block = BlockSize::new(block_bytes).ok()?;
        let ssd_blocks: u64 = shares_blocks.iter().map(|share| share[Level::Ssd.index()]).sum();
        let extent_bytes = DeviceLayout::suitable_extent_bytes(ssd_blocks.saturating_mul(block_bytes));
        let extent_places = ExtentLayout::new(extent_bytes, block).ok()?.places;
        let of_vm = |share: &[u64; 2]| {
            let [dram, ssd] = share.map(|blocks| u32::try_from(blocks).ok());
            let config =
                EngineConfig::new(block, EngineConfig::ASSUMED_VOLUME_BYTES, Quota::new(dram?, ssd?));
            Some(config.most_memory(settings, extent_places))
        };
        let all: Memory = shares_blocks.iter().map(of_vm).sum::<Option<Memory>>()?;
        Some(HostMemory { frames_bytes: all.frames_bytes, tables_bytes: all.tables_bytes() })
    }
}
