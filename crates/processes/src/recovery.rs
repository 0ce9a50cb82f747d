//! What a power cut leaves, and whether that is what was promised: every acknowledged write is found, and the newest wins.
//! It must not know how writes were routed.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use lode_policy::criticality::Device;
use lode_types::{BlockNo, Rng};

use crate::cache::Version;
use crate::report::WriteCounts;
use crate::script::Script;
use crate::world::World;
use crate::{RequestsError, RunConfig};

/// What the disk holds, and what was promised.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    disk: HashMap<BlockNo, Version>,
    sent: BTreeMap<BlockNo, Version>,
    acknowledged: BTreeMap<BlockNo, Version>,
}

impl Contents {
    /// A write is on its way.
    pub fn sent(&mut self, blocks: &[BlockNo], version: Version) {
        self.sent.extend(blocks.iter().map(|&block| (block, version)));
    }

    /// The disk has it, whatever it had before.
    pub fn on_disk(&mut self, blocks: &[BlockNo], version: Version) {
        self.disk.extend(blocks.iter().map(|&block| (block, version)));
    }

    /// It is promised to be durable.
    pub fn acknowledged(&mut self, blocks: Range<BlockNo>, version: Version) {
        for block in blocks {
            let newest = self.acknowledged.entry(block).or_default();
            *newest = version.max(*newest);
        }
    }
}

/// What was found after a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerCut {
    /// Blocks with an acknowledged write, all of which were found.
    pub blocks: u64,
    /// Blocks that were being written when the power failed.
    pub torn: u64,
    /// What had become of the writes.
    pub writes: WriteCounts,
}

/// Runs a script until so many things have happened, cuts the power, and looks for every acknowledged write. What devices
/// were writing is there or not, as `seed` has it.
///
/// # Errors
/// When the script cannot run. Inside: what was lost, if something was.
pub fn cut_power(
    script: Script,
    config: &RunConfig,
    happenings: u64,
    seed: u64,
) -> Result<Result<PowerCut, String>, RequestsError> {
    let mut world = World::new(script, config, true)?;
    world.run(happenings)?;
    let mut rng = Rng::new(seed);
    let under_way = world.io.at_devices();
    let mut cached: HashMap<BlockNo, Version> = HashMap::new();
    let mut contents = world.io.contents.take().unwrap_or_default();
    for &(block, version, device) in &under_way {
        match device {
            _ if rng.chance(50) => {}
            Device::Cache => {
                let newest = cached.entry(block).or_default();
                *newest = version.max(*newest);
            }
            Device::Disk => contents.on_disk(&[block], version),
        }
    }
    let mut found =
        PowerCut { torn: under_way.len() as u64, writes: world.tally.writes, ..PowerCut::default() };
    for (block, &newest_sent) in &contents.sent {
        let promised = contents.acknowledged.get(block).copied().unwrap_or(0);
        let in_cache = world.io.cache.dirty_version(*block).max(cached.get(block).copied());
        let on_disk = contents.disk.get(block).copied().unwrap_or(0);
        // A dirty copy in the cache counts, whatever the disk holds.
        let recovered = in_cache.unwrap_or(on_disk);
        if !(promised..=newest_sent).contains(&recovered) {
            return Ok(Err(format!(
                "block {block} has version {recovered} after the power cut, {promised} was acknowledged and \
                 {newest_sent} sent; cache {in_cache:?}, disk {on_disk}; repeat with {happenings} happenings"
            )));
        }
        found.blocks += u64::from(promised > 0);
    }
    Ok(Ok(found))
}
