//! 2Q against its oracle, and what the paper promises.

use proptest::prelude::*;

use crate::driver::{any_blocks, settings};
use crate::one_level::compare_with;
use crate::oracle::one_level::PlainOneLevel;
use crate::oracle::two_q::PlainTwoQ;
use crate::replacements::{any_policy, any_steps, hits_beside_a_scan};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn equals_the_oracle(
        policy in any_policy(), blocks in any_blocks(), steps in any_steps(),
        in_percent in prop_oneof![Just(25usize), 1usize..100],
        out_percent in prop_oneof![Just(50usize), 0usize..200],
    ) {
        let mut settings = settings("2q", &[("write_policy", policy)]);
        settings.set("in_percent", &in_percent.to_string()).unwrap();
        settings.set("out_percent", &out_percent.to_string()).unwrap();
        let oracle = PlainOneLevel::new(PlainTwoQ::new(blocks, in_percent, out_percent), policy);
        compare_with(&settings, blocks, oracle, &steps);
    }
}

/// A scan keeps to the queue of newcomers, once the ghosts reach back far enough to recognise the working set.
#[test]
fn a_scan_does_not_wash_the_working_set_away() {
    let hits = hits_beside_a_scan("2q", &[("out_percent", "200")]);
    assert!(hits > 39_000 * 9 / 10, "{hits} of 39,000");
}
