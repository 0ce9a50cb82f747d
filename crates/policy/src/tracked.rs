//! How much memory a scheme's tables may take, known before it is built: by the blocks that it may keep track of, cached or
//! not. It must not know what a scheme does with them.
//!
//! Tables grow with the blocks that they hold, and not with the size of the levels; but for the heads of sets, which are
//! there from the start.

use lode_types::Level;

use crate::quota::Quota;
use crate::settings::Settings;

/// Most bytes of memory for each set of a level.
const MOST_BYTES_PER_SET: u64 = 256;

/// Most bytes of memory of a scheme that has seen nothing, or hardly anything.
const EMPTY_BYTES: u64 = 96 << 10;

/// What is known of a scheme's tables.
struct Tables {
    /// Whether it remembers, without any setting that says so, as many blocks as it holds besides those.
    has_ghosts: bool,
    /// Most bytes for each block that it keeps track of, with what tables have spare after they have grown.
    bytes_per_block: u64,
}

/// Measured figures with a margin; a test holds them. Whatever is not named is taken for as large as any.
fn tables_of(scheme: &str) -> Tables {
    let (has_ghosts, bytes_per_block) = match scheme {
        "lru" | "fifo" => (false, 44),
        "sieve" | "s3-fifo" | "lirs" | "2q" | "fast-cache-like" | "flashcache" | "request-oriented"
        | "s-cave-like" => (false, 56),
        "arc" | "larc" | "s-rac-like" | "opencas-like" | "l2arc-like" | "ucache-like" => (true, 56),
        "belady" | "w-tinylfu" | "mq" => (false, 72),
        "tica-ef" | "tica-wed" | "tica-adaptive" | "etica" | "eci-cache-like" | "centaur-like"
        | "vcacheshare-like" => (false, 96),
        _ => (true, 96),
    };
    Tables { has_ghosts, bytes_per_block }
}

/// Bytes of memory that one VM's scheme takes at most for a stream of so many different blocks. `physical` is what the host
/// has, `share` the most that the VM ever gets of it.
pub fn most_memory_bytes(settings: &Settings, physical: Quota, share: Quota, distinct_blocks: u64) -> u64 {
    let tracked = most_tracked_blocks(settings, physical, share).min(distinct_blocks);
    let sets = match settings.values().find(|&(key, _)| key == "assoc").map(|(_, value)| value.parse()) {
        Some(Ok(ways @ 1..)) => blocks_of(share) / ways,
        _ => 0,
    };
    tracked
        .saturating_mul(tables_of(settings.scheme()).bytes_per_block)
        .saturating_add(sets * MOST_BYTES_PER_SET)
        .saturating_add(EMPTY_BYTES)
}

/// Blocks that one VM's scheme keeps track of at most, however many different ones there are.
fn most_tracked_blocks(settings: &Settings, physical: Quota, share: Quota) -> u64 {
    let (own, hosts) = (blocks_of(share), blocks_of(physical));
    let resident = if tables_of(settings.scheme()).has_ghosts { 2 * own } else { own };
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
