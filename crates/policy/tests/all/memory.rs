//! Memory for each block that a scheme knows, cached or not: every scheme of the registry, at several sizes, with its defaults
//! and with the settings that know most or divide most.

use lode_policy::{
    ForesightBuilder, Nothing, Quota, Scheme, SchemeInfo, Settings, all_schemes, build_foreseeing,
};
use lode_types::{Access, Level};

const MOST_BYTES_PER_BLOCK: u64 = 96;
/// What is there from the beginning, and tables that grow by steps of 64 entries.
const SMALL_TABLES_BYTES: u64 = 131_072;
/// How many times its blocks a level sees others.
const TURNOVERS: u64 = 5;

/// Schemes with so much beside each set that sets of less than eight blocks take more than they may: up to 107 bytes a
/// known block of `etica` and 101 of `centaur-like` with sets of one, as their levels have just been filled.
const LARGE_BESIDE_SETS: &[&str] = &["etica", "centaur-like"];

/// Settings beside the defaults.
fn variants(info: &SchemeInfo) -> Vec<Settings> {
    let keys = ["assoc", "ghost_percent", "out_percent", "stack_percent", "evicted_percent"];
    let values: [&[&str]; 5] =
        [&["1", "8", "48", "0"], &["0", "200", "1000"], &["200"], &["1000"], &["1000"]];
    let mut all = vec![info.settings()];
    for (key, values) in keys.iter().zip(values) {
        for value in values {
            let mut settings = info.settings();
            let is_too_small = *key == "assoc" && *value == "1" && LARGE_BESIDE_SETS.contains(&info.name);
            if !is_too_small && settings.set(key, value).is_ok() {
                all.push(settings);
            }
        }
    }
    all
}

/// Blocks that a scheme may know beside those of its levels.
fn ghosts(info: &SchemeInfo, settings: &Settings, quota: Quota) -> u64 {
    let [dram, ssd] = [quota.dram_blocks, quota.ssd_blocks].map(u64::from);
    let percent = |key: &str| settings.integer(key);
    // Sizings that are never asked for end no window.
    let history = ssd + 16_384;
    match info.name {
        "lru" | "fifo" | "sieve" | "w-tinylfu" | "flashcache" | "opencas-like" | "request-oriented"
        | "belady" | "fast-cache-like" | "s-cave-like" | "ucache-like" | "tica-ef" | "tica-wed" => 0,
        // What has left the cache is forgotten soon, and regions are few beside their blocks.
        "rpac-prototype" => 0,
        // The history's default.
        "etica" => 4 * (dram + ssd) + 65_536,
        "arc" => ssd,
        "l2arc-like" => dram,
        "larc" | "s-rac-like" => ssd * 9 / 10,
        "s3-fifo" | "mq" => ssd * percent("ghost_percent") / 100,
        "2q" => ssd * percent("out_percent") / 100,
        "lirs" => ssd * percent("stack_percent") / 100 - ssd,
        "tica-adaptive" => ssd * percent("evicted_percent") / 100,
        // Every block that was accessed is in a region with popularity: the default interval is longer than the stream.
        "rpac" => u64::MAX,
        "eci-cache-like" | "centaur-like" | "vcacheshare-like" => history,
        other => panic!("say how many ghosts {other} has"),
    }
}

/// The first time that a scheme takes more than it may, once its levels had time to fill.
fn excess(info: &SchemeInfo, settings: &Settings, blocks: u32) -> Option<String> {
    let of = |level, blocks| if info.levels.contains(&level) { blocks } else { 0 };
    let quota =
        Quota::new(of(Level::Dram, blocks / 4), blocks).with(Level::ReadSsd, of(Level::ReadSsd, blocks));
    let size = u64::from(blocks);
    // Every block twice at once and once more later fills all lists and their ghosts.
    let stream: Vec<u64> =
        (0..size * TURNOVERS).flat_map(|n| [n, n, n.saturating_sub(size * 3 / 2)]).collect();
    let mut builder = ForesightBuilder::new();
    stream.iter().for_each(|&block| builder.access(block).unwrap());
    let future = builder.finish();
    let mut scheme = build_foreseeing(settings, quota, quota, &future);
    let levels = u64::from(quota.dram_blocks) + size;
    let most_known = levels.saturating_add(ghosts(info, settings, quota));
    for (&block, accesses) in stream.iter().zip(1u64..) {
        let access = if block % 2 == 0 { Access::write(block) } else { Access::read(block) };
        scheme.access(access, &mut Nothing);
        scheme.end_request(0, &mut Nothing);
        let seen = accesses / 3;
        if accesses % 64 == 0 && seen >= levels {
            let bytes = scheme.memory_bytes() as u64;
            let known = seen.min(most_known);
            if bytes > (known * MOST_BYTES_PER_BLOCK).max(SMALL_TABLES_BYTES) {
                let values: Vec<_> = settings.values().collect();
                return Some(format!("{}: {bytes} bytes for {known} blocks: {values:?}", info.name));
            }
        }
    }
    None
}

#[test]
fn of_every_scheme_is_bounded() {
    let mut excesses = Vec::new();
    for info in all_schemes() {
        for settings in variants(info) {
            excesses.extend([2_000, 6_000].into_iter().filter_map(|blocks| excess(info, &settings, blocks)));
        }
    }
    assert!(excesses.is_empty(), "{}", excesses.join("\n"));
}
