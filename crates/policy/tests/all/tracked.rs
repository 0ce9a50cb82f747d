//! What is said of a scheme's memory before it is built, and what its tables then take.

use lode_policy::{
    Foresight, Nothing, Points, Quota, Scheme, Settings, all_schemes, build_foreseeing, most_memory_bytes,
};
use lode_types::{Access, Level};

/// That the tables never take more than was said for the different blocks so far.
fn check(settings: &Settings, quota: Quota, blocks: u64) {
    let name = settings.scheme();
    let mut scheme = build_foreseeing(settings, quota, quota, &Foresight::default());
    let mut look_at = 1;
    for block in 0..blocks {
        // Blocks come twice, some once more, and are written and read, so that levels, ghosts and queues fill.
        for (number, writes) in
            [(block, true), (block, false), (block.saturating_sub(blocks / 9), block % 3 > 0)]
        {
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

#[test]
fn no_scheme_takes_more_memory_than_was_said() {
    for info in all_schemes() {
        for (dram, ssd, blocks) in [(2000, 6000, 30_000), (100_000, 400_000, 25_000)] {
            let quota = [(Level::Dram, dram), (Level::Ssd, ssd), (Level::ReadSsd, ssd)]
                .into_iter()
                .filter(|(level, _)| info.levels.contains(level))
                .fold(Quota::default(), |quota, (level, blocks)| quota.with(level, blocks));
            let mut settings = info.settings();
            check(&settings, quota, blocks);
            if settings.set("assoc", "1").is_ok() {
                check(&settings, quota, blocks);
            }
        }
    }
}
