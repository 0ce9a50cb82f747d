//! Scores over a long time, and at the ends of what may be set.

use std::collections::BTreeMap;

use lode_policy::{Quota, Scheme};
use lode_types::{BlockNo, Level};
use proptest::prelude::*;

use crate::driver::{Driver, Observed, Step, settings};
use crate::oracle::pod::{Log, Seen};

/// What one re-access at distance `pod` adds to its block's popularity in a cache of `cache_blocks` (ETICA, Eq. 1).
fn contribution(pod: u64, cache_blocks: u64) -> f64 {
    if cache_blocks == 0 { 0.0 } else { (-(pod as f64) / cache_blocks as f64).exp() }
}

#[test]
fn popularity_follows_equation_1() {
    let vector = lode_testdata::vector("etica_eq1_popularity");
    let examples = vector.as_array().expect("examples");
    assert_eq!(examples.len(), 4);
    for example in examples {
        let pods =
            example["pods"].as_array().expect("distances").iter().map(|p| p.as_u64().expect("distance"));
        let cache_blocks = example["cache"].as_u64().expect("size");
        let found: f64 = pods.map(|pod| contribution(pod, cache_blocks)).sum();
        let expected = example["expected"].as_f64().expect("score");
        assert!((found - expected).abs() < 1e-12, "{example}: {found}");
    }
    assert_eq!(contribution(0, 0), 0.0);
}

/// Relative error of single precision over some hundred intervals, with room to spare.
const TIE: f64 = 1e-3;

/// Shrinks the SSD to nothing a block at a time: from the least to the most wanted.
fn drain(driver: &mut Driver) -> Vec<BlockNo> {
    let mut order = Vec::new();
    while driver.scheme.resident_blocks(Level::Ssd) > 0 {
        let next = driver.scheme.quota().ssd_blocks - 1;
        order.extend(driver.step(Step::Resize(Quota::new(0, next))).iter().filter_map(|observed| {
            match observed {
                Observed::Evict { block, .. } => Some(*block),
                _ => None,
            }
        }));
    }
    order
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Single-precision scores in inflated units, scaled down every 527 intervals, keep the order of
    /// double-precision scores that are simply multiplied by the ageing factor at every interval.
    #[test]
    fn hundreds_of_intervals_keep_the_order(
        ageing in prop::sample::select(vec![0.9f64, 0.95]),
        intervals in 1100usize..1400,
        seed in prop::collection::vec((0u64..20, any::<bool>()), 40..90),
    ) {
        let settings = settings("etica", &[
            ("mode", "full-hybrid"), ("sizing", "off"), ("assoc", "0"), ("score_floor", "0"),
            ("promotion_interval", "3"), ("ageing", &ageing.to_string()),
        ]);
        let quota = Quota::new(0, 20);
        let mut driver = Driver::new(&settings, quota, quota);
        let mut log = Log::default();
        let mut scores = BTreeMap::<BlockNo, f64>::new();
        let mut steps = seed.iter().cycle();
        for interval in 0..intervals {
            for &(block, read) in steps.by_ref().take(3) {
                if let Some(pod) = read.then(|| log.wbwo(block, false)).flatten() {
                    *scores.entry(block).or_default() += contribution(u64::from(pod), 20);
                }
                driver.step(if read { Step::Read(block) } else { Step::Write(block, false) });
                driver.step(Step::EndRequest);
                log.note(Seen { is_read: read, block, dram_hit: false });
            }
            if interval % 64 == 0 {
                log.keep_last(200);
            }
            scores.values_mut().for_each(|score| *score *= ageing);
        }
        let order = drain(&mut driver);
        for pair in order.windows(2) {
            let score = |block| scores.get(&block).copied().unwrap_or(0.0);
            let (first, second) = (score(pair[0]), score(pair[1]));
            prop_assert!(first <= second * (1.0 + TIE) + 1e-30, "{pair:?}: {first} before {second}");
        }
    }
}

/// Blocks that are written once and then read cold, far apart, so that their worth is nothing; and one
/// that is read all the time.
fn far_and_near(ageing: &str) -> Vec<BlockNo> {
    let settings = settings(
        "etica",
        &[
            ("mode", "full-hybrid"),
            ("sizing", "off"),
            ("promotion_interval", "1"),
            ("ageing", ageing),
            ("assoc", "0"),
        ],
    );
    let quota = Quota::new(0, 2);
    let mut driver = Driver::new(&settings, quota, quota);
    (0..300).for_each(|block| {
        driver.step(Step::Write(block, false));
    });
    for block in (1..300).chain(1..300) {
        for block in [block, 0, 0] {
            driver.step(Step::Read(block));
        }
        driver.step(Step::EndRequest);
    }
    driver.residents(Level::Ssd).keys().copied().collect()
}

#[test]
fn every_ageing_factor_leaves_a_popular_block_inside() {
    for ageing in ["0", "1e-44", "1e-30", "1e-13", "1e-12", "1e-6", "0.5", "1"] {
        assert!(far_and_near(ageing).contains(&0), "ageing={ageing}");
    }
}

#[test]
fn a_discarded_block_is_not_promoted() {
    let settings =
        settings("etica", &[("mode", "full-hybrid"), ("sizing", "off"), ("promotion_interval", "1")]);
    let quota = Quota::new(0, 4);
    let mut driver = Driver::new(&settings, quota, quota);
    for step in [Step::Write(1, false), Step::Read(1), Step::Read(1), Step::Discard(1)] {
        driver.step(step);
    }
    assert_eq!(driver.step(Step::EndRequest), []);
    driver.step(Step::Read(1));
    assert_eq!(driver.step(Step::EndRequest), [], "what was before the discard does not count");
}

/// The driver's clock moves by a second a request; the first request starts it.
#[test]
fn promotion_intervals_follow_time_when_told_to() {
    let settings = settings(
        "etica",
        &[
            ("mode", "full-hybrid"),
            ("trigger", "time"),
            ("promotion_interval_s", "5"),
            ("promotion_interval", "1"),
            ("evict", "literal"),
        ],
    );
    let quota = Quota::new(0, 4);
    let mut driver = Driver::new(&settings, quota, quota);
    let mut ends_interval = |request: &u64| {
        driver.step(Step::Write(request % 4, false));
        !driver.step(Step::EndRequest).is_empty()
    };
    let ends: Vec<u64> = (1..20).filter(|request| ends_interval(request)).collect();
    assert_eq!(ends, [6, 11, 16]);
}
