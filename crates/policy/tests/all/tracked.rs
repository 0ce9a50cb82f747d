//! What is said of a scheme's memory before it is built, and what its tables then take.

use lode_policy::{
    NextUses, NullSink, Points, Quota, Scheme, SchemeInfo, SettingKind, Settings, Sizer, all_schemes,
    build_with_future, most_memory_bytes, most_memory_bytes_of_all,
};
use lode_types::{Access, Level};

use crate::driver::used_levels;
use crate::memory::{modes, most_bytes_per_block};

/// How often each block comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    /// Once. Most of them end as ghosts.
    Scan,
    /// Twice, some once more, written and read, so that levels and queues fill, too.
    Reused,
}

/// The first time that the tables take more than was said for the different blocks so far.
fn excess(settings: &Settings, quota: Quota, blocks: u64, stream: Stream) -> Option<String> {
    let name = settings.scheme();
    let mut scheme = build_with_future(settings, quota, quota, &NextUses::default());
    let mut look_at = 1;
    for block in 0..blocks {
        let accesses = [(block, true), (block, false), (block.saturating_sub(blocks / 9), block % 3 > 0)];
        for &(number, writes) in &accesses[..if stream == Stream::Scan { 1 } else { 3 }] {
            let access = if writes { Access::write(number) } else { Access::read(number) };
            scheme.access(access, &mut NullSink);
            scheme.end_request(0, &mut NullSink);
        }
        if block == look_at {
            scheme.sizing().map(|sizing| sizing.demand(Points::LastWithin(quota)));
            let (bytes, most) =
                (scheme.memory_bytes() as u64, most_memory_bytes(settings, quota, quota, block + 1));
            if bytes > most {
                return Some(format!(
                    "{name}, {quota:?}, {block} blocks: {bytes} bytes, and {most} were said"
                ));
            }
            look_at += look_at / 5 + 1;
        }
    }
    None
}

fn quota_of(info: &SchemeInfo, dram: u32, ssd: u32) -> Quota {
    used_levels(info, Quota::new(dram, ssd).with(Level::ReadSsd, ssd))
}

/// Each setting that is a number at its largest, so that one that says how many blocks are remembered cannot be missed, whatever
/// its name.
#[test]
fn no_setting_makes_a_scheme_take_more_than_was_said() {
    let mut excesses = Vec::new();
    for info in all_schemes() {
        for setting in info.setting_infos() {
            let (SettingKind::Integer { max, .. } | SettingKind::Scaled { max, .. }) = setting.kind else {
                continue;
            };
            for mut settings in modes(info) {
                settings.set(setting.key, &max.to_string()).unwrap();
                for stream in [Stream::Scan, Stream::Reused] {
                    excesses.extend(excess(&settings, quota_of(info, 1000, 3000), 20_000, stream));
                }
            }
        }
    }
    assert!(excesses.is_empty(), "{}", excesses.join("\n"));
}

#[test]
fn no_scheme_takes_more_memory_than_was_said() {
    let mut excesses = Vec::new();
    for info in all_schemes() {
        for (dram, ssd, blocks) in [(2000, 6000, 30_000), (100_000, 400_000, 25_000)] {
            let quota = quota_of(info, dram, ssd);
            for mut settings in modes(info) {
                excesses.extend(excess(&settings, quota, blocks, Stream::Reused));
                for assoc in ["1", "9"] {
                    if settings.set("assoc", assoc).is_ok() {
                        excesses.extend(excess(&settings, quota, blocks, Stream::Reused));
                    }
                }
            }
        }
    }
    assert!(excesses.is_empty(), "{}", excesses.join("\n"));
}

/// Windows so long that every distance comes in one, many times. All of it together is within what a block may take.
#[test]
fn no_window_makes_a_scheme_take_more_than_was_said() {
    for info in all_schemes() {
        for settings in modes(info) {
            no_window_is_too_long(info, &settings);
        }
    }
}

fn no_window_is_too_long(info: &SchemeInfo, settings: &Settings) {
    const BLOCKS: u64 = 8_000;
    let quota = quota_of(info, BLOCKS as u32 / 4, BLOCKS as u32);
    let mut scheme = build_with_future(settings, quota, quota, &NextUses::default());
    let most = most_memory_bytes(settings, quota, quota, BLOCKS);
    let mut state = 1_u64;
    for at in 0..BLOCKS * 8 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let block = (state >> 33) % BLOCKS;
        let access = if state >> 62 == 0 { Access::write(block) } else { Access::read(block) };
        scheme.access(access, &mut NullSink);
        scheme.end_request(0, &mut NullSink);
        if at % 512 == 0 {
            let bytes = scheme.memory_bytes() as u64;
            assert!(bytes <= most, "{}: {bytes} bytes, and {most} were said", info.name);
        }
    }
    let bytes = scheme.memory_bytes() as u64;
    assert!(
        bytes <= most_bytes_per_block(settings) * BLOCKS,
        "{}: {bytes} bytes for {BLOCKS} blocks",
        info.name
    );
}

/// How many times as much as their tables take may be said of many small VMs: replays would be left out that fit the memory.
const MOST_TOO_HIGH: u64 = 4;

#[test]
fn many_small_vms_are_not_taken_for_large_ones() {
    for info in all_schemes() {
        let (settings, physical) = (info.settings(), quota_of(info, 25_600, 102_400));
        // Of the VMs some have hardly a block, and some as many as their share.
        let distinct_blocks: Vec<u64> = (0..64).map(|vm| [1, 10, 100, 1_600][vm % 4]).collect();
        let share = Sizer::new(&settings, physical).first_share(distinct_blocks.len());
        let taken: u64 = distinct_blocks
            .iter()
            .map(|&blocks| {
                let mut scheme = build_with_future(&settings, physical, share, &NextUses::default());
                for block in (0..2 * blocks).map(|at| at % blocks) {
                    for access in [Access::write(block), Access::read(block)] {
                        scheme.access(access, &mut NullSink);
                        scheme.end_request(0, &mut NullSink);
                    }
                }
                scheme.sizing().map(|sizing| sizing.demand(Points::All));
                scheme.memory_bytes() as u64
            })
            .sum();
        let estimate = most_memory_bytes_of_all(&settings, physical, &distinct_blocks);
        let name = info.name;
        assert!(
            (taken..=MOST_TOO_HIGH * taken).contains(&estimate),
            "{name}: {estimate} bytes estimated, and {taken} taken; see its `footprint`"
        );
    }
}
