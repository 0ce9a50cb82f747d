//! RPAC against its oracle, the worked example, and what the paper promises.

use lode_policy::schemes::rpac::regions::{Parameters, Regions};
use lode_policy::{NullSink, Quota, Scheme, build};
use lode_types::{Access, Level};
use proptest::prelude::*;
use serde_json::Value;

use crate::driver::{Driver, Observed, Step, any_blocks, any_step, settings};
use crate::one_level::compare_with;
use crate::oracle::level::PlainLevel;
use crate::oracle::one_level::PlainOneLevel;
use crate::oracle::rpac::{PlainRpac, RpacSettings};
use crate::replacements::{any_policy, any_steps};
use lode_testdata::vector;

fn any_rpac(region_blocks: impl Strategy<Value = u64>) -> impl Strategy<Value = RpacSettings> {
    let decay_interval = prop_oneof![2 => 1u64..40, 1 => 40u64..600, 1 => Just(u64::MAX)];
    let alpha = prop_oneof![Just(0.5), 0.0..0.99];
    let factor = prop_oneof![Just(1.4), Just(1.0), 1.0..3.0];
    let most_regions = prop_oneof![2 => Just(1000usize), 1 => 1usize..8];
    (region_blocks, 0u32..=4, decay_interval, alpha, factor, most_regions).prop_map(
        |(region_blocks, tree_depth, decay_interval, alpha, factor, most_regions)| RpacSettings {
            region_blocks,
            tree_depth,
            decay_interval,
            alpha,
            factor,
            most_regions,
        },
    )
}

/// Drives a scheme with all of these settings and the oracle through the same steps.
fn compare(
    scheme: &str,
    policy: &str,
    rpac: RpacSettings,
    level: PlainLevel,
    sets: (u32, &str),
    steps: &[Step],
) {
    let mut settings = settings(scheme, &[("write_policy", policy), ("map", sets.1)]);
    let numbers = [
        ("assoc", sets.0.to_string()),
        ("region_blocks", rpac.region_blocks.to_string()),
        ("tree_depth", rpac.tree_depth.to_string()),
        ("decay_interval", rpac.decay_interval.to_string()),
        ("alpha", rpac.alpha.to_string()),
        ("factor", rpac.factor.to_string()),
        ("most_regions", rpac.most_regions.to_string()),
    ];
    for (key, value) in numbers {
        settings.set(key, &value).unwrap();
    }
    let blocks = level.blocks;
    compare_with(&settings, blocks, PlainOneLevel::new(PlainRpac::new(rpac, level), policy), steps);
}

/// Blocks of sets too long to be walked, and of some that are not.
fn many_blocks() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 65u32..300, 1 => 0u32..65]
}

/// Enough accesses to fill sets of that many blocks, each for a while to one area, so that some regions and parts become more
/// popular than others; with few other events. Block numbers are multiples of a stride.
fn many_steps(stride: u64) -> impl Strategy<Value = Vec<Step>> {
    const BLOCKS: u64 = 500;
    let share = many_blocks().prop_map(|blocks| Quota::new(0, blocks)).boxed();
    let accesses = prop::collection::vec((0u64..1000, any::<bool>()), 0..250);
    let stretch = (0..BLOCKS, 1..BLOCKS / 2, accesses).prop_map(|(first, span, accesses)| {
        let step = |(at, read): (u64, bool)| {
            let block = (first + at % span) % BLOCKS;
            if read { Step::Read(block) } else { Step::Write(block, block.is_multiple_of(3)) }
        };
        accesses.into_iter().map(step).collect::<Vec<_>>()
    });
    let rare = prop::collection::vec(any_step(BLOCKS, share), 0..6);
    let apart = move |step| match step {
        Step::Read(block) => Step::Read(block * stride),
        Step::Write(block, partial) => Step::Write(block * stride, partial),
        Step::Discard(block) => Step::Discard(block * stride),
        Step::Forget(level, block) => Step::Forget(level, block * stride),
        Step::Cleaned(block) => Step::Cleaned(block * stride),
        Step::Restore(block, dirty) => Step::Restore(block * stride, dirty),
        Step::EndRequest | Step::Resize(_) => step,
    };
    prop::collection::vec((stretch, rare), 1..8).prop_map(move |parts| {
        let steps = parts.into_iter().flat_map(|(stretch, rare)| [stretch, rare].concat());
        steps.map(apart).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn equals_the_oracle(
        policy in any_policy(), blocks in any_blocks(), steps in any_steps(),
        rpac in any_rpac(prop_oneof![Just(4u64), 1u64..24, Just(1 << 20)]),
        assoc in prop::sample::select(vec![0u32, 1, 2, 4, 8, 16]),
        map in prop::sample::select(vec!["modulo", "jhash"]),
    ) {
        let level = PlainLevel::new(assoc, map == "jhash", blocks);
        compare("rpac", policy, rpac, level, (assoc, map), &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Where victims are not found by a walk: with regions whose blocks are looked up one by one, and with larger ones.
    #[test]
    fn with_long_sets_equals_the_oracle(
        policy in any_policy(), blocks in many_blocks(), steps in many_steps(1),
        rpac in any_rpac(prop_oneof![1 => 1u64..17, 2 => 17u64..150]),
        assoc in prop::sample::select(vec![0u32, 48, 64, 100]),
        map in prop::sample::select(vec!["modulo", "jhash"]),
    ) {
        let level = PlainLevel::new(assoc, map == "jhash", blocks);
        compare("rpac", policy, rpac, level, (assoc, map), &steps);
    }

    /// The prototype's own parameters, over some forty of its regions.
    #[test]
    fn the_prototype_equals_the_oracle(
        policy in any_policy(), blocks in many_blocks(), steps in many_steps(3331),
        decay_interval in prop_oneof![Just(600u64), Just(200)],
        assoc in prop::sample::select(vec![0u32, 64, 512]),
    ) {
        let rpac = RpacSettings {
            region_blocks: 40_960, tree_depth: 2, decay_interval, alpha: 0.5, factor: 1.5, most_regions: 1 << 20,
        };
        let level = PlainLevel::new(assoc, false, blocks);
        compare("rpac-prototype", policy, rpac, level, (assoc, "modulo"), &steps);
    }
}

/// What nobody sets is as in the paper's prototype with Webproxy.
#[test]
fn the_prototypes_defaults() {
    let settings = settings("rpac-prototype", &[]);
    let pairs: Vec<_> = settings.values().collect();
    for expected in [
        ("region_blocks", "40960"),
        ("tree_depth", "2"),
        ("decay_interval", "600"),
        ("alpha", "0.5"),
        ("factor", "1.5"),
        ("assoc", "512"),
        ("write_policy", "wb"),
    ] {
        assert!(pairs.contains(&expected), "{expected:?} not in {pairs:?}");
    }
}

#[test]
fn the_worked_example() {
    let vector = vector("rpac_trace");
    let config = &vector["config"];
    assert_eq!(config["sets"], 1);
    let settings = settings(
        "rpac",
        &[
            ("region_blocks", &config["region_blocks"].to_string()),
            ("tree_depth", &config["depth"].to_string()),
            ("decay_interval", &config["T"].to_string()),
            ("alpha", &config["alpha"].to_string()),
            ("factor", &config["c"].to_string()),
        ],
    );
    let quota = Quota::new(0, config["assoc"].as_u64().unwrap() as u32);
    let mut driver = Driver::new(&settings, quota, quota);
    let mut outcomes = Vec::new();
    let mut arrivals = Vec::new();
    for block in vector["blocks"].as_array().unwrap().iter().map(|block| block.as_u64().unwrap()) {
        let observed = driver.step(Step::Read(block));
        outcomes.push(match observed[..] {
            [Observed::ReadLevel(_)] => "hit".to_owned(),
            [Observed::ReadBacking, Observed::Fill(_)] => "insert".to_owned(),
            [Observed::ReadBacking, Observed::Evict { block, .. }, Observed::Fill(_)] => {
                format!("replace:{block}")
            }
            [Observed::ReadBacking] => "bypass".to_owned(),
            _ => panic!("{observed:?}"),
        });
        if observed.contains(&Observed::Fill(Level::Ssd)) {
            arrivals.push(block);
        }
    }
    let number_of = |what: &str| outcomes.iter().filter(|outcome| outcome.starts_with(what)).count();
    assert_eq!(Value::from(number_of("hit")), vector["hits"]);
    assert_eq!(Value::from(number_of("replace")), vector["replacements"]);
    assert_eq!(Value::from(number_of("insert")), vector["inserts"]);
    assert_eq!(Value::from(number_of("bypass")), vector["bypasses"]);
    assert_eq!(Value::from(outcomes), vector["outcome"]);
    let residents = driver.residents(Level::Ssd);
    arrivals.retain(|block| residents.contains_key(block));
    arrivals.drain(..arrivals.len() - residents.len());
    assert_eq!(Value::from(arrivals), vector["fifo_front_first"]);
}

/// A scan finds regions that are popular, and stays outside.
#[test]
fn a_scan_replaces_nothing() {
    let quota = Quota::new(0, 1024);
    let mut driver = Driver::new(&settings("rpac", &[]), quota, quota);
    for round in 0..3 {
        for block in 0..1024 {
            let hit = driver.step(Step::Read(block)) == [Observed::ReadLevel(Level::Ssd)];
            assert_eq!(hit, round > 0);
        }
    }
    for block in 1024..20_000 {
        assert_eq!(driver.step(Step::Read(block)), [Observed::ReadBacking]);
    }
}

/// Memory for each block that is known: cached, or of a region that has a popularity. Regions of one block are the worst.
#[test]
fn memory_for_each_known_block_is_bounded() {
    for blocks in [2_000, 20_000] {
        for assoc in [1, 2, 8, 48, 64, 100, 512, 0] {
            for (region_blocks, tree_depth, stride) in
                [(1, 2, 1), (2, 4, 2), (4, 2, 1), (4, 2, 5), (16, 4, 16), (17, 4, 1), (40_960, 2, 1)]
            {
                let pairs = [
                    ("assoc", assoc),
                    ("region_blocks", region_blocks),
                    ("tree_depth", tree_depth),
                    ("decay_interval", 2 * blocks),
                ];
                memory_is_bounded(blocks, stride, &pairs);
            }
        }
    }
}

/// Accesses blocks so far apart, each once: as long as they fit all of them are cached, later the last ones.
fn memory_is_bounded(blocks: u64, stride: u64, pairs: &[(&str, u64)]) {
    const MOST_BYTES_PER_BLOCK: u64 = 96;
    const TURNOVERS: u64 = 5;
    let mut settings = settings("rpac", &[]);
    pairs.iter().for_each(|(key, value)| settings.set(key, &value.to_string()).unwrap());
    let of_each = stride.min(settings.integer("region_blocks"));
    let quota = Quota::new(0, blocks as u32);
    let mut scheme = build(&settings, quota, quota);
    for at in 1..=blocks * TURNOVERS {
        scheme.access(Access::write(at * stride), &mut NullSink);
        if at == blocks || at > blocks && at % 64 == 0 {
            // Those of an interval's regions, and of regions of which a block is cached.
            let known = at.min(2 * blocks + blocks) * of_each;
            let bytes = scheme.memory_bytes() as u64;
            assert!(bytes <= known * MOST_BYTES_PER_BLOCK, "{bytes} bytes for {known} blocks: {pairs:?}");
        }
    }
}

const SIMULATOR: Parameters =
    Parameters { region_blocks: 4, depth: 2, alpha: 0.5, interval: 1000, factor: 1.4, most: 1000 };

fn integers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

#[test]
fn the_worked_inequalities() {
    let cases = vector("rpac_inequality");
    for case in cases.as_array().unwrap() {
        let parameters = Parameters { factor: case["c"].as_f64().unwrap(), ..SIMULATOR };
        let number = |key: &str| case[key].as_u64().unwrap() as u32;
        assert_eq!(parameters.outranks(number("prB"), number("prA")), case["replace"], "{case}");
    }
}

#[test]
fn the_worked_decay() {
    let vector = vector("rpac_decay");
    assert_eq!(vector["integer_floor"], true);
    let alpha = vector["alpha"].as_f64().unwrap();
    let sequence = integers(&vector["sequence"]);
    let mut regions = Regions::new(Parameters { alpha, ..SIMULATOR });
    let place = (0..sequence[0]).map(|_| regions.count(0)).last().unwrap();
    // Its record stays, whatever its popularity.
    regions.cache(place);
    let mut accesses = sequence[0];
    for (epoch, &expected) in (0..).zip(&sequence) {
        while accesses / SIMULATOR.interval < epoch {
            regions.count(400);
            accesses += 1;
        }
        assert_eq!(u64::from(regions.popularity(place.region)), expected, "after {epoch}");
    }
    for cycles in vector["cycles"].as_array().unwrap() {
        let (visits, ends) = (integers(&cycles["f"]), integers(&cycles["pr_at_end"]));
        // Each cycle ends with the access to another region that brings the decay.
        let interval = visits[0] + 1;
        let mut regions = Regions::new(Parameters { alpha, interval, ..SIMULATOR });
        for (count, expected) in visits.into_iter().zip(ends) {
            let place = (0..count).map(|_| regions.count(0)).last().unwrap();
            assert_eq!(u64::from(regions.popularity(place.region)), expected);
            regions.count(400);
        }
    }
}

#[test]
fn the_worked_trace_counts_regions() {
    let vector = vector("rpac_trace");
    let mut regions = Regions::new(SIMULATOR);
    for block in integers(&vector["blocks"]) {
        regions.count(block);
    }
    for (region, popularity) in vector["region_popularity"].as_object().unwrap() {
        let place = regions.place(region.parse::<u64>().unwrap() * 4);
        assert_eq!(Value::from(regions.popularity(place.region)), *popularity, "region {region}");
    }
}
