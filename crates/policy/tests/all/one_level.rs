//! One SSD level of sets (LRU, FIFO) against plain vectors, effect by effect.

use lode_policy::{Quota, Settings};
use lode_types::Level;
use proptest::prelude::*;

use crate::driver::{Driver, Step, any_blocks, any_step, settings};
use crate::oracle::level::PlainLevel;
use crate::oracle::one_level::{PlainOneLevel, PlainReplacement, PlainSets};
use crate::replacements::any_policy;

/// Drives a scheme and its oracle through the same steps.
pub fn compare_with<R: PlainReplacement>(
    settings: &Settings,
    blocks: u32,
    mut oracle: PlainOneLevel<R>,
    steps: &[Step],
) {
    let physical = Quota::new(0, 64);
    let mut driver = Driver::with_future(settings, physical, Quota::new(0, blocks), steps);
    for (at, &step) in steps.iter().enumerate() {
        assert_eq!(driver.step(step), oracle.step(step), "step {at}: {step:?}");
        assert_eq!(driver.residents(Level::Ssd), oracle.residents(), "after step {at}: {step:?}");
    }
    assert_eq!(driver.counters, oracle.counters);
    driver.check_counters();
}

fn compare(scheme: &str, policy: &str, assoc: u32, map: &str, blocks: u32, steps: &[Step]) {
    let assoc_text = assoc.to_string();
    let settings = settings(scheme, &[("write_policy", policy), ("assoc", &assoc_text), ("map", map)]);
    let level = PlainLevel::new(assoc, map == "jhash", blocks);
    let oracle = PlainOneLevel::new(PlainSets { level, lru: scheme == "lru" }, policy);
    compare_with(&settings, blocks, oracle, steps);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn equals_the_oracle_effect_by_effect(
        scheme in prop::sample::select(vec!["lru", "fifo"]),
        policy in any_policy(),
        assoc in prop::sample::select(vec![0u32, 1, 2, 3, 4, 8]),
        map in prop::sample::select(vec!["modulo", "jhash"]),
        blocks in any_blocks(),
        steps in prop::collection::vec(any_step(48, any_blocks().prop_map(|b| Quota::new(0, b)).boxed()), 0..250),
    ) {
        compare(scheme, policy, assoc, map, blocks, &steps);
    }
}

/// A partial write would invalidate (ro), or hide behind a clean copy (wt, wa), the part of the block that only the SSD has.
#[test]
fn a_partial_write_of_what_was_dirty_equals_the_oracle() {
    for policy in ["ro", "wt", "wa"] {
        compare("lru", policy, 4, "modulo", 8, &[Step::Restore(1, true), Step::Write(1, true)]);
    }
}
