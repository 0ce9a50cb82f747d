//! FAST-Cache-like against its oracle, and what is told of it.

use lode_policy::Quota;
use proptest::prelude::*;

use crate::driver::{Driver, Observed, Step, any_blocks, settings};
use crate::one_level::compare_with;
use crate::oracle::fast_cache::PlainFastCache;
use crate::oracle::one_level::PlainOneLevel;
use crate::replacements::{any_policy, any_steps, hits_beside_a_scan};
use lode_types::Level;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn equals_the_oracle(
        policy in any_policy(), blocks in any_blocks(), steps in any_steps(),
        promote_after in 1u32..6,
        window_percent in prop_oneof![Just(100usize), 1usize..400],
    ) {
        let mut settings = settings("fast-cache-like", &[("write_policy", policy)]);
        settings.set("promote_after", &promote_after.to_string()).unwrap();
        settings.set("window_percent", &window_percent.to_string()).unwrap();
        let oracle = PlainOneLevel::new(PlainFastCache::new(blocks, promote_after, window_percent), policy);
        compare_with(&settings, blocks, oracle, &steps);
    }
}

#[test]
fn the_third_access_promotes() {
    let quota = Quota::new(0, 4);
    let mut driver = Driver::new(&settings("fast-cache-like", &[]), quota, quota);
    for step in [Step::Read(9), Step::Write(9, false)] {
        assert!(
            driver
                .step(step)
                .iter()
                .all(|observed| matches!(observed, Observed::ReadBacking | Observed::WriteBacking))
        );
    }
    assert_eq!(driver.step(Step::Read(9)), [Observed::ReadBacking, Observed::Fill(Level::Ssd)]);
    assert_eq!(driver.step(Step::Read(9)), [Observed::ReadLevel(Level::Ssd)]);
}

#[test]
fn a_scan_does_not_wash_the_working_set_away() {
    let hits = hits_beside_a_scan("fast-cache-like", &[]);
    assert!(hits > 39_000 * 9 / 10, "{hits} of 39,000");
    assert_eq!(hits_beside_a_scan("fast-cache-like", &[("promote_after", "1")]), 0);
}
