//! L2ARC and uCache against their oracles, and what is told of them.

use lode_policy::{Quota, SchemeInfo, Settings};
use lode_types::Level;
use proptest::prelude::*;

use crate::driver::{Driver, Observed, Step, any_blocks, any_step, settings};
use crate::oracle::two_level::{PlainL2arc, PlainRule, PlainTwoLevel, PlainUcache};

pub fn any_quota() -> impl Strategy<Value = Quota> {
    (any_blocks(), any_blocks()).prop_map(|(dram, ssd)| Quota::new(dram, ssd))
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let access = any_step(60, Just(Quota::new(12, 24)).boxed())
        .prop_filter("an access", |step| matches!(step, Step::Read(_) | Step::Write(..) | Step::EndRequest));
    let step = any_step(60, any_quota().boxed());
    prop_oneof![prop::collection::vec(step, 0..250), prop::collection::vec(access, 0..400)]
}

pub fn compare(settings: &Settings, quota: Quota, mut oracle: impl PlainTwoLevel, steps: &[Step]) {
    let mut driver = Driver::new(settings, Quota::new(64, 64), quota);
    for (at, &step) in steps.iter().enumerate() {
        assert_eq!(driver.step(step), oracle.step(step), "step {at}: {step:?}");
        let [dram, ssd] = oracle.residents();
        assert_eq!(driver.residents(Level::Dram), dram, "after step {at}: {step:?}");
        assert_eq!(driver.residents(Level::Ssd), ssd, "after step {at}: {step:?}");
    }
    driver.check_counters();
}

#[test]
fn without_dram_an_l2arc_has_nothing_to_feed_from() {
    let info = SchemeInfo::find("l2arc-like").unwrap();
    let error = info.check_needs(Quota::new(0, 24)).unwrap_err().to_string();
    assert_eq!(error, "Scheme 'l2arc-like' needs the dram level; give it --dram SIZE");
    assert_eq!(info.check_needs(Quota::new(1, 0)), Ok(()));
    assert_eq!(SchemeInfo::find("ucache-like").unwrap().check_needs(Quota::new(0, 24)), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn l2arc_equals_the_oracle(
        quota in any_quota(), steps in any_steps(), interval in 1u32..8, blocks in 1usize..6, headroom in 1usize..4,
    ) {
        let pairs = [
            ("feed_interval", &*interval.to_string()),
            ("feed_blocks", &*blocks.to_string()),
            ("headroom", &*headroom.to_string()),
        ];
        let oracle = PlainL2arc::new(quota, interval, blocks, headroom);
        compare(&settings("l2arc-like", &pairs), quota, oracle, &steps);
    }

    #[test]
    fn ucache_equals_the_oracle(
        quota in any_quota(), steps in any_steps(), worth_hits in 0u32..4, by_use in any::<bool>(),
        copies_hits in any::<bool>(),
    ) {
        let pairs = [
            ("worth_hits", &*worth_hits.to_string()),
            ("ssd_order", if by_use { "use" } else { "arrival" }),
            ("ssd_hits", if copies_hits { "copy" } else { "stay" }),
        ];
        let rule = PlainRule { worth_hits, by_use, copies_hits };
        compare(&settings("ucache-like", &pairs), quota, PlainUcache::new(quota, rule), &steps);
    }
}

#[test]
fn what_will_leave_the_arc_is_on_the_ssd_before() {
    let quota = Quota::new(4, 8);
    let pairs = [("feed_interval", "2"), ("feed_blocks", "1")];
    let mut driver = Driver::new(&settings("l2arc-like", &pairs), quota, quota);
    for block in 0..4 {
        driver.step(Step::Read(block));
    }
    driver.step(Step::EndRequest);
    assert_eq!(driver.step(Step::EndRequest), [Observed::Move(0)]);
    driver.step(Step::Read(9));
    // It left host memory, and the disk is spared.
    assert_eq!(driver.step(Step::Read(0))[0], Observed::ReadLevel(Level::Ssd));
    assert_eq!(
        driver.step(Step::Write(0, true)),
        [Observed::Invalidate(Level::Dram), Observed::Invalidate(Level::Ssd), Observed::WriteBacking]
    );
}

#[test]
fn what_is_read_once_never_reaches_the_ssd() {
    let quota = Quota::new(4, 8);
    let mut driver = Driver::new(&settings("ucache-like", &[]), quota, quota);
    for block in [1, 2, 1, 3, 4, 5, 6, 7, 8] {
        driver.step(Step::Read(block));
    }
    assert_eq!(driver.residents(Level::Ssd).keys().copied().collect::<Vec<_>>(), [1]);
}

/// Reads alone, and all that leaves DRAM goes to the SSD: both levels together are one LRU of their size.
#[test]
fn by_use_both_levels_are_one_lru() {
    let quota = Quota::new(5, 12);
    let pairs = [("worth_hits", "0"), ("ssd_order", "use")];
    let mut two = Driver::new(&settings("ucache-like", &pairs), quota, quota);
    let one_quota = Quota::new(0, 17);
    let mut one = Driver::new(&settings("lru", &[("assoc", "0")]), one_quota, one_quota);
    let mut rng = lode_types::Rng::new(5);
    for _ in 0..5000 {
        let step = Step::Read(rng.below(6) * rng.below(6));
        let hits = |driver: &mut Driver| matches!(driver.step(step)[0], Observed::ReadLevel(_));
        assert_eq!(hits(&mut two), hits(&mut one), "{step:?}");
    }
}
