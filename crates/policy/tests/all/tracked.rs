//! What is said of a scheme's memory before it is built, and what its tables then take.

use lode_policy::{
    Foresight, Nothing, Points, Quota, Scheme, SchemeInfo, SettingKind, Settings, all_schemes,
    build_foreseeing, most_memory_bytes,
};
use lode_types::{Access, Level};

/// How often each block comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    /// Once. Most of them end as ghosts.
    Scan,
    /// Twice, some once more, written and read, so that levels and queues fill, too.
    Reused,
}

/// That the tables never take more than was said for the different blocks so far.
fn check(settings: &Settings, quota: Quota, blocks: u64, stream: Stream) {
    let name = settings.scheme();
    let mut scheme = build_foreseeing(settings, quota, quota, &Foresight::default());
    let mut look_at = 1;
    for block in 0..blocks {
        let accesses = [(block, true), (block, false), (block.saturating_sub(blocks / 9), block % 3 > 0)];
        for &(number, writes) in &accesses[..if stream == Stream::Scan { 1 } else { 3 }] {
            let access = if writes { Access::write(number) } else { Access::read(number) };
            scheme.access(access, &mut Nothing);
            scheme.end_request(0, &mut Nothing);
        }
        if block == look_at {
            scheme.demand(Points::LastWithin(quota));
            let (bytes, most) =
                (scheme.memory_bytes() as u64, most_memory_bytes(settings, quota, quota, block + 1));
            assert!(bytes <= most, "{name}, {quota:?}, {block} blocks: {bytes} bytes, and {most} were said");
            look_at += look_at / 5 + 1;
        }
    }
}

fn quota_of(info: &SchemeInfo, dram: u32, ssd: u32) -> Quota {
    info.part_of(Quota::new(dram, ssd).with(Level::ReadSsd, ssd))
}

/// Each setting that is a number at its largest, so that one that says how many blocks are remembered cannot be missed, whatever
/// its name.
#[test]
fn no_setting_makes_a_scheme_take_more_than_was_said() {
    for info in all_schemes() {
        for setting in info.setting_infos() {
            let SettingKind::Integer { max, .. } = setting.kind else { continue };
            let mut settings = info.settings();
            settings.set(setting.key, &max.to_string()).unwrap();
            for stream in [Stream::Scan, Stream::Reused] {
                check(&settings, quota_of(info, 1000, 3000), 20_000, stream);
            }
        }
    }
}

#[test]
fn no_scheme_takes_more_memory_than_was_said() {
    for info in all_schemes() {
        for (dram, ssd, blocks) in [(2000, 6000, 30_000), (100_000, 400_000, 25_000)] {
            let quota = quota_of(info, dram, ssd);
            let mut settings = info.settings();
            check(&settings, quota, blocks, Stream::Reused);
            if settings.set("assoc", "1").is_ok() {
                check(&settings, quota, blocks, Stream::Reused);
            }
        }
    }
}
