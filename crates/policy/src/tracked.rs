//! How much memory a scheme's tables may take, known before it is built: by the blocks that it may keep track of, cached or
//! not. It must not know what a scheme does with them; the registry says of each what its tables take.
//!
//! Tables grow with the blocks that they hold, and not with the size of the levels; but for the heads of sets, which are
//! there from the start.

use lode_types::Level;

use crate::quota::Quota;
use crate::registry::SchemeInfo;
use crate::settings::Settings;
use crate::sizer::Sizer;

/// What a scheme's tables take at most. Measured figures with a margin; a test holds them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footprint {
    /// Bytes of a scheme that has seen nothing, or hardly anything: what is there from the start, and the smallest tables.
    empty_bytes: u64,
    /// Bytes for each block that it keeps track of, with what tables have spare after they have grown.
    bytes_per_block: u64,
    /// Bytes for each set of each of its levels.
    bytes_per_set: u64,
    /// Whether it remembers, without any setting that says so, as many blocks as it holds besides those.
    has_ghosts: bool,
}

impl Footprint {
    /// No scheme takes more.
    pub(crate) const LARGEST: Footprint =
        Footprint { empty_bytes: 96 << 10, bytes_per_block: 96, bytes_per_set: 256, has_ghosts: true };

    /// A scheme that keeps track of the blocks that it holds, without sets.
    pub(crate) const fn new(empty_bytes: u64, bytes_per_block: u64) -> Footprint {
        Footprint { empty_bytes, bytes_per_block, bytes_per_set: 0, has_ghosts: false }
    }

    /// The same with so much for each set.
    pub(crate) const fn with_sets(self, bytes_per_set: u64) -> Footprint {
        Footprint { bytes_per_set, ..self }
    }

    /// The same with as many blocks again as there are in the levels.
    pub(crate) const fn with_ghosts(self) -> Footprint {
        Footprint { has_ghosts: true, ..self }
    }
}

/// Bytes of memory that one VM's scheme takes at most for a stream of so many different blocks. `physical` is what the host
/// has, `share` the most that the VM ever gets of it.
pub fn most_memory_bytes(settings: &Settings, physical: Quota, share: Quota, distinct_blocks: u64) -> u64 {
    let footprint = footprint_of(settings);
    let of_sets = sets_of(settings, share).saturating_mul(footprint.bytes_per_set);
    of_blocks(settings, footprint, physical, share, distinct_blocks).saturating_add(of_sets)
}

/// As [`most_memory_bytes`], of all VMs of a host, each with so many different blocks. Where shares follow demand any VM may
/// come to have everything, but together they are no more than the host has, and so are their sets; else each keeps its first.
pub fn most_memory_bytes_of_all(settings: &Settings, physical: Quota, distinct_blocks: &[u64]) -> u64 {
    let footprint = footprint_of(settings);
    let sizer = Sizer::new(settings, physical);
    let vms = distinct_blocks.len() as u64;
    let first = sizer.first_share(distinct_blocks.len());
    let of_first_shares = sets_of(settings, first).saturating_mul(vms);
    let (most, sets) = match sizer.is_on() {
        // A share that grows may do so before another one shrinks.
        true => (physical, of_first_shares.saturating_add(sets_of(settings, physical).saturating_mul(2))),
        false => (first, of_first_shares),
    };
    let of_vm = |&blocks: &u64| of_blocks(settings, footprint, physical, most, blocks);
    let of_vms = distinct_blocks.iter().map(of_vm).fold(0, u64::saturating_add);
    of_vms.saturating_add(sets.saturating_mul(footprint.bytes_per_set))
}

fn footprint_of(settings: &Settings) -> Footprint {
    SchemeInfo::find(settings.scheme()).map_or(Footprint::LARGEST, |info| info.footprint)
}

/// What is not for sets.
fn of_blocks(
    settings: &Settings,
    footprint: Footprint,
    physical: Quota,
    share: Quota,
    distinct_blocks: u64,
) -> u64 {
    let tracked = most_tracked_blocks(settings, footprint, physical, share).min(distinct_blocks);
    tracked.saturating_mul(footprint.bytes_per_block).saturating_add(footprint.empty_bytes)
}

/// Most sets that a share is divided into: one at least for each level, where the scheme knows any.
fn sets_of(settings: &Settings, share: Quota) -> u64 {
    let Some(assoc) = settings.assoc() else { return 0 };
    let sets = |level: Level| u64::from(share.of(level)).checked_div(assoc).unwrap_or(0).max(1);
    Level::ALL.into_iter().map(sets).sum()
}

/// Blocks that one VM's scheme keeps track of at most, however many different ones there are.
fn most_tracked_blocks(settings: &Settings, footprint: Footprint, physical: Quota, share: Quota) -> u64 {
    let (own, hosts) = (blocks_of(share), blocks_of(physical));
    let resident = if footprint.has_ghosts { 2 * own } else { own };
    let by_setting = |(key, value): (&str, &str)| {
        let number: u64 = value.parse().unwrap_or(0);
        match key {
            "ghost_percent" | "out_percent" | "stack_percent" | "window_percent" | "evicted_percent" => {
                own.saturating_mul(number).div_ceil(100)
            }
            // Records of blocks in no level; of both schemes that have them the larger bound.
            "track_blocks" if number == 0 => 4 * hosts + 65_536,
            "track_blocks" => number.max(2 * hosts),
            // Regions keep what came since they last decayed.
            "decay_interval" => number,
            _ => 0,
        }
    };
    settings.values().map(by_setting).fold(resident, u64::saturating_add)
}

fn blocks_of(quota: Quota) -> u64 {
    Level::ALL.into_iter().map(|level| u64::from(quota.of(level))).sum()
}
