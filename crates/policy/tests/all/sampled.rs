//! Distances of a sample beside those of all blocks: demands, decisions and memory.

use lode_policy::{Effect, LevelDemand, NullSink, Points, Quota, Scheme, Settings, build};
use lode_types::Access;

use crate::driver::settings;

const SCHEMES: [&str; 4] = ["etica", "eci-cache-like", "centaur-like", "vcacheshare-like"];
const PHYSICAL: Quota = Quota::new(20_000, 60_000);
const BLOCKS: u64 = 200_000;

/// Skewed accesses to scattered blocks; `write_percent` of them write.
fn accesses(count: usize, write_percent: u64) -> impl Iterator<Item = Access> {
    let mut state = 7u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 32
    };
    (0..count).map(move |_| {
        let uniform = random() as f64 / 2f64.powi(32);
        let block = (uniform.powi(3) * BLOCKS as f64) as u64 * 7919;
        if random() % 100 < write_percent { Access::write(block) } else { Access::read(block) }
    })
}

/// The demands of two windows, and the bytes that all tables take in the end.
fn measured(settings: &Settings) -> (Vec<[LevelDemand; 2]>, usize) {
    const WINDOW: usize = 400_000;
    let mut scheme = build(settings, PHYSICAL, PHYSICAL);
    let mut demands = Vec::new();
    for (number, access) in (1..).zip(accesses(2 * WINDOW, 30)) {
        scheme.access(access, &mut NullSink);
        scheme.end_request(0, &mut NullSink);
        if number % WINDOW == 0 {
            demands.extend(scheme.sizing().map(|sizing| sizing.demand(Points::All)));
        }
    }
    (demands, scheme.memory_bytes())
}

fn hit_ratio(demand: &LevelDemand, size_blocks: u64) -> f64 {
    let point = demand.curve.iter().rfind(|point| point.size_blocks <= size_blocks);
    point.map_or(0.0, |point| point.hits as f64 / demand.accesses as f64)
}

#[test]
fn demands_of_a_sample_are_near_those_of_all_blocks() {
    for name in SCHEMES {
        let (exact, exact_bytes) = measured(&settings(name, &[]));
        let (sampled, bytes) = measured(&settings(name, &[("distances", "sampled")]));
        assert_eq!(sampled, measured(&settings(name, &[("distances", "sampled")])).0, "{name}");
        assert_ne!(exact, sampled, "{name}: nothing was sampled");
        for (exact, sampled) in exact.iter().flatten().zip(sampled.iter().flatten()) {
            assert_eq!(exact.accesses, sampled.accesses, "{name}");
            assert!(
                (exact.weight / sampled.weight - 1.0).abs() < 0.05,
                "{name}: {} {}",
                exact.weight,
                sampled.weight
            );
            for size_blocks in (2_000..=60_000).step_by(2_000) {
                let ratios = [exact, sampled].map(|demand| hit_ratio(demand, size_blocks));
                assert!((ratios[0] - ratios[1]).abs() < 0.02, "{name}, {size_blocks} blocks: {ratios:?}");
            }
        }
        // 8,193 to 16,384 blocks of a history, of up to 56 bytes each, and two sums of 64 KiB.
        let levels = u64::from(PHYSICAL.dram_blocks + PHYSICAL.ssd_blocks);
        assert!(bytes as u64 <= 20 * levels + (1 << 20) + (128 << 10), "{name}: {bytes} bytes");
        assert!(2 * bytes < exact_bytes, "{name}: {bytes} bytes, {exact_bytes} for all blocks");
    }
}

/// Which write policy is chosen hangs on a part of the accesses, which a sample tells.
#[test]
fn overwrites_of_a_sample_are_near_those_of_all_blocks() {
    for (write_percent, is_read_only) in [(20, false), (80, true)] {
        for distances in ["exact", "sampled"] {
            let settings =
                settings("eci-cache-like", &[("distances", distances), ("write_threshold", "0.4")]);
            let mut scheme = build(&settings, PHYSICAL, PHYSICAL);
            for access in accesses(400_000, write_percent) {
                scheme.access(access, &mut NullSink);
                scheme.end_request(0, &mut NullSink);
            }
            let mut effects = Vec::new();
            scheme.access(Access::write(BLOCKS * 9000), &mut effects);
            let writes_back =
                effects.iter().any(|effect| matches!(effect, Effect::WriteLevel { dirty: true, .. }));
            assert_eq!(writes_back, !is_read_only, "{distances}, {write_percent} % writes: {effects:?}");
        }
    }
}
