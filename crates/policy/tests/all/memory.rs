//! Memory for each block that a scheme knows, cached or not: every scheme of the registry, at several sizes, with its defaults
//! and with the settings that know most or divide most.

use lode_policy::{
    AnyScheme, NextUsesBuilder, NullSink, Points, Quota, Scheme, SchemeInfo, Settings, all_schemes,
    build_with_future,
};
use lode_types::{Access, Level};

use crate::driver::used_levels;

const MOST_BYTES_PER_BLOCK: u64 = 96;
/// What is there from the beginning, and tables that grow by steps of 64 entries.
const SMALL_TABLES_BYTES: u64 = 131_072;
/// How many times its blocks a level sees others.
const TURNOVERS: u64 = 5;

/// The defaults, in each mode that keeps other tables, and with distances of a sample.
pub fn modes(info: &SchemeInfo) -> Vec<Settings> {
    let with = |pair| {
        let mut settings = info.settings();
        settings.set_pair(pair).is_ok().then_some(settings)
    };
    let others = ["mode=full-hybrid", "distances=sampled"].into_iter().filter_map(with);
    let sizes = with("size_shadows=on").map(|mut settings| {
        settings.set("sizing", "on").expect("shares may follow demand");
        settings
    });
    std::iter::once(info.settings()).chain(others).chain(sizes).collect()
}

/// Settings beside the defaults.
fn variants(info: &SchemeInfo) -> Vec<Settings> {
    let keys = ["assoc", "ghost_percent", "out_percent", "stack_percent", "evicted_percent"];
    let values: [&[&str]; 5] = [
        &["1", "2", "3", "4", "5", "6", "7", "8", "9", "48", "0"],
        &["0", "200", "1000"],
        &["200"],
        &["1000"],
        &["1000"],
    ];
    let mut all = modes(info);
    for (key, values) in keys.iter().zip(values) {
        for value in values {
            for mut settings in modes(info) {
                if settings.set(key, value).is_ok() {
                    all.push(settings);
                }
            }
        }
    }
    all
}

/// Levels of about so many blocks.
fn quota_of(info: &SchemeInfo, blocks: u32) -> Quota {
    used_levels(info, Quota::new(blocks / 4, blocks).with(Level::ReadSsd, blocks))
}

/// Every block twice at once and once more later, which fills all lists of levels with `ssd_blocks`, and their ghosts. Every
/// `write_each`-th block is written, the others are read.
fn accesses(blocks: u64, ssd_blocks: u64, write_each: u64) -> Vec<Access> {
    let numbers = (0..blocks).flat_map(|n| [n, n, n.saturating_sub(ssd_blocks * 3 / 2)]);
    numbers
        .map(|block| if block % write_each == 0 { Access::write(block) } else { Access::read(block) })
        .collect()
}

/// A scheme that is told of these accesses if it needs that.
fn built(settings: &Settings, quota: Quota, accesses: &[Access]) -> AnyScheme {
    let mut builder = NextUsesBuilder::new();
    accesses.iter().for_each(|access| builder.access(access.block).unwrap());
    build_with_future(settings, quota, quota, &builder.finish())
}

/// Whether so many bytes are too many for so many known blocks.
fn are_too_many(settings: &Settings, bytes: u64, known: u64) -> bool {
    bytes > (known * most_bytes_per_block(settings)).max(SMALL_TABLES_BYTES)
}

/// A scheme that chooses among others knows a block as often as there are schemes that know it: the one that decides, the one before
/// it, and five shadows, which of a small cache see everything; and two more of other shares, of which one is twice as large.
pub fn most_bytes_per_block(settings: &Settings) -> u64 {
    let measures_sizes = settings.values().any(|pair| pair == ("size_shadows", "on"));
    MOST_BYTES_PER_BLOCK
        * match settings.scheme() {
            "auto" if measures_sizes => 9,
            "auto" => 7,
            _ => 1,
        }
}

/// The first time that a scheme takes more than it may, once its levels had time to fill.
fn excess(info: &SchemeInfo, settings: &Settings, blocks: u32, write_each: u64) -> Option<String> {
    let (quota, size) = (quota_of(info, blocks), u64::from(blocks));
    let accesses = accesses(size * TURNOVERS, size, write_each);
    let mut scheme = built(settings, quota, &accesses);
    let levels = u64::from(quota.dram_blocks) + size;
    let most_known = levels.saturating_add(info.remembered_blocks(settings, quota, quota));
    for (&access, number) in accesses.iter().zip(1u64..) {
        scheme.access(access, &mut NullSink);
        scheme.end_request(0, &mut NullSink);
        let seen = number / 3;
        if number % 64 == 0 && seen >= levels {
            let (bytes, known) = (scheme.memory_bytes() as u64, seen.min(most_known));
            if are_too_many(settings, bytes, known) {
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
            // As many sets of one block as blocks, and fewer.
            let levels = [(2_048, 1), (6_000, 2)];
            let excess = |(blocks, write_each)| excess(info, &settings, blocks, write_each);
            excesses.extend(levels.into_iter().filter_map(excess));
        }
    }
    assert!(excesses.is_empty(), "{}", excesses.join("\n"));
}

/// Other blocks take the places of those that a scheme forgets, and no memory. Sizing windows end meanwhile.
#[test]
fn does_not_grow_when_all_blocks_change() {
    const BLOCKS: u32 = 20_000;
    // More would not fit the stream: regions of the disk that decay after millions of accesses.
    const MOST_REMEMBERED: u64 = 200_000;
    for info in all_schemes() {
        let quota = quota_of(info, BLOCKS);
        let ghosts = info.remembered_blocks(&info.settings(), quota, quota);
        if ghosts > MOST_REMEMBERED {
            continue;
        }
        let known = u64::from(quota.dram_blocks) + u64::from(BLOCKS) + ghosts;
        let accesses = accesses(TURNOVERS * known, BLOCKS.into(), 2);
        for settings in modes(info) {
            does_not_grow(&settings, quota, known, &accesses);
        }
    }
}

fn does_not_grow(settings: &Settings, quota: Quota, known: u64, accesses: &[Access]) {
    const WINDOW: usize = 30_000;
    let mut scheme = built(settings, quota, accesses);
    let mut bytes_of = |accesses: &[Access]| {
        for window in accesses.chunks(WINDOW) {
            for &access in window {
                scheme.access(access, &mut NullSink);
                scheme.end_request(0, &mut NullSink);
            }
            scheme.sizing().map(|sizing| sizing.demand(Points::LastWithin(quota)));
        }
        scheme.memory_bytes() as u64
    };
    // A level that takes only writes, every other block, needs two turns to fill.
    let (first, then) = accesses.split_at(accesses.len() / 5 * 3);
    let (at_first, bytes) = (bytes_of(first), bytes_of(then));
    let name = settings.scheme();
    assert!(!are_too_many(settings, bytes, known), "{name}: {bytes} bytes for {known} blocks");
    assert!(bytes <= at_first + at_first / 20, "{name}: {at_first}, later {bytes} bytes");
}
