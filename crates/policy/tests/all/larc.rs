//! LARC and S-RAC-like against their oracle, the worked example, and what the paper promises.

use lode_policy::Quota;
use lode_types::Level;
use proptest::prelude::*;

use crate::driver::{Driver, Step, any_blocks, settings};
use crate::one_level::compare_with;
use crate::oracle::larc::PlainLarc;
use crate::oracle::one_level::PlainOneLevel;
use crate::replacements::{any_policy, any_steps, hits_beside_a_scan};
use lode_testdata::vector;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn larc_equals_the_oracle(policy in any_policy(), blocks in any_blocks(), steps in any_steps()) {
        let settings = settings("larc", &[("write_policy", policy)]);
        compare_with(&settings, blocks, PlainOneLevel::new(PlainLarc::new(blocks, false), policy), &steps);
    }

    #[test]
    fn s_rac_like_equals_the_oracle(policy in any_policy(), blocks in any_blocks(), steps in any_steps()) {
        let settings = settings("s-rac-like", &[("write_policy", policy)]);
        compare_with(&settings, blocks, PlainOneLevel::new(PlainLarc::new(blocks, true), policy), &steps);
    }
}

/// What a miss or a hit led to.
fn outcome(driver: &mut Driver, block: u64) -> &'static str {
    let (hits, fills) = (driver.counters.read_hits[1], driver.counters.ssd_writes.fill);
    driver.step(Step::Read(block));
    match (driver.counters.read_hits[1] > hits, driver.counters.ssd_writes.fill > fills) {
        (true, _) => "hit",
        (false, true) => "insert",
        (false, false) => "ghost",
    }
}

#[test]
fn the_worked_example() {
    let vector = vector("larc_small");
    let quota = Quota::new(0, vector["C"].as_u64().unwrap() as u32);
    let mut driver = Driver::new(&settings("larc", &[]), quota, quota);
    let blocks = vector["blocks"].as_array().unwrap().iter().map(|block| block.as_u64().unwrap());
    let outcomes: Vec<_> = blocks.map(|block| outcome(&mut driver, block)).collect();
    assert_eq!(serde_json::Value::from(outcomes), vector["outcome"]);
    assert_eq!(driver.counters.ssd_writes.total(), vector["ssd_writes"]);
    assert_eq!(driver.counters.read_hits[1], vector["hits"]);
    check_ghosts_left(&mut driver, &vector);
    // One block less at a time shows the order of Q.
    let mut left = Vec::new();
    for blocks in (0..3).rev() {
        let before = driver.residents(Level::Ssd);
        driver.step(Step::Resize(Quota::new(0, blocks)));
        let after = driver.residents(Level::Ssd);
        left.extend(before.into_keys().filter(|block| !after.contains_key(block)));
    }
    assert_eq!(serde_json::Value::from(left), vector["Q_lru_first"]);
}

/// Cr at the end of the example: the oracle's is that number, and the scheme keeps as many ghosts when it is asked to look
/// again, which a new share does even if it is as large as the old one.
fn check_ghosts_left(driver: &mut Driver, vector: &serde_json::Value) {
    let blocks = vector["C"].as_u64().unwrap() as u32;
    let mut oracle = PlainOneLevel::new(PlainLarc::new(blocks, false), "wb");
    for block in vector["blocks"].as_array().unwrap() {
        oracle.step(Step::Read(block.as_u64().unwrap()));
    }
    assert_eq!(Some(oracle.replacement.ghosts_allowed()), vector["cr"].as_f64());
    // Blocks 3 and 5 are ghosts, 3 the older one.
    driver.step(Step::Resize(Quota::new(0, blocks)));
    assert_eq!([3, 5].map(|block| outcome(driver, block)), ["ghost", "insert"]);
    driver.step(Step::Discard(5));
}

/// The smallest cache has a ghost, and so holds what is read again at once.
#[test]
fn a_cache_of_one_block_is_of_use() {
    for scheme in ["larc", "s-rac-like"] {
        let quota = Quota::new(0, 1);
        let mut driver = Driver::new(&settings(scheme, &[]), quota, quota);
        let outcomes = [7, 7, 7, 8, 8, 8].map(|block| outcome(&mut driver, block));
        assert_eq!(outcomes, ["ghost", "insert", "hit", "ghost", "insert", "hit"], "{scheme}");
    }
}

/// What was hit is spared once, and then leaves in its turn.
#[test]
fn a_second_chance_is_one() {
    let quota = Quota::new(0, 2);
    for (scheme, leaves) in [("larc", [1, 2]), ("s-rac-like", [2, 1])] {
        let mut driver = Driver::new(&settings(scheme, &[]), quota, quota);
        for block in [1, 1, 1, 2, 2] {
            driver.step(Step::Read(block));
        }
        for (newcomer, leaver) in [3, 4].into_iter().zip(leaves) {
            assert!(driver.residents(Level::Ssd).contains_key(&leaver), "{scheme}");
            driver.step(Step::Read(newcomer));
            driver.step(Step::Read(newcomer));
            assert!(
                !driver.residents(Level::Ssd).contains_key(&leaver),
                "{scheme}: {leaver} after {newcomer}"
            );
        }
    }
}

#[test]
fn a_scan_does_not_wash_the_working_set_away() {
    for scheme in ["larc", "s-rac-like"] {
        let hits = hits_beside_a_scan(scheme, &[]);
        assert!(hits > 39_000 * 9 / 10, "{scheme}: {hits} of 39,000");
    }
}
