//! MQ against its oracle, and what the paper promises.

use proptest::prelude::*;

use crate::driver::{any_blocks, settings};
use crate::one_level::compare_with;
use crate::oracle::mq::{MqSettings, PlainMq};
use crate::oracle::one_level::PlainOneLevel;
use crate::replacements::{any_policy, any_steps, hits_beside_a_scan};

fn any_mq() -> impl Strategy<Value = MqSettings> {
    let life_percent = prop_oneof![1u64..300, Just(100u64), Just(10_000)];
    (1usize..=8, life_percent, 0usize..500).prop_map(|(queues, life_percent, ghost_percent)| MqSettings {
        queues,
        life_percent,
        ghost_percent,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(700))]

    #[test]
    fn equals_the_oracle(
        policy in any_policy(), blocks in any_blocks(), steps in any_steps(), mq in any_mq())
    {
        let mut settings = settings("mq", &[("write_policy", policy)]);
        let numbers = [
            ("queues", mq.queues as u64),
            ("life_percent", mq.life_percent),
            ("ghost_percent", mq.ghost_percent as u64),
        ];
        for (key, value) in numbers {
            settings.set(key, &value.to_string()).unwrap();
        }
        compare_with(&settings, blocks, PlainOneLevel::new(PlainMq::new(mq, blocks), policy), &steps);
    }
}

/// With lives as long as the working set takes to come round it stays above the scan; with one queue MQ is LRU.
#[test]
fn a_scan_does_not_wash_the_working_set_away() {
    let hits = hits_beside_a_scan("mq", &[("life_percent", "200")]);
    assert!(hits > 39_000 * 9 / 10, "{hits} of 39,000");
    assert_eq!(hits_beside_a_scan("mq", &[("queues", "1")]), 0);
}
