//! benefit-density against its oracle, and what is told of it.

use lode_policy::{Quota, Settings};
use lode_types::Level;
use proptest::prelude::*;

use crate::driver::{Driver, Observed, Step, any_step, settings};
use crate::oracle::benefit_density::{Given, PlainBenefitDensity};
use crate::two_level::{any_quota, compare};

fn any_given() -> impl Strategy<Value = Given> {
    let price = prop_oneof![Just(0.0), Just(10.0), Just(300.0)];
    let budget = prop_oneof![Just(0.0), Just(10.0), Just(40.0)];
    let is_by_recency = prop_oneof![2 => Just(false), 1 => Just(true)];
    (0..300usize, 1..8u64, price, budget, any::<bool>(), is_by_recency).prop_map(
        |(ghost_percent, samples, write_price_us, write_budget, runs, by_recency)| Given {
            ghost_percent,
            samples,
            write_price_us,
            write_budget,
            runs,
            by_recency,
        },
    )
}

fn settings_of(given: &Given) -> Settings {
    let numbers = [
        ("ghost_percent", given.ghost_percent.to_string()),
        ("samples", given.samples.to_string()),
        ("write_price_us", given.write_price_us.to_string()),
        ("write_budget", given.write_budget.to_string()),
        ("runs", if given.runs { "on" } else { "off" }.to_owned()),
        ("order", if given.by_recency { "recency" } else { "benefit" }.to_owned()),
    ];
    settings("benefit-density", &numbers.each_ref().map(|(key, value)| (*key, &**value)))
}

/// Runs of blocks that are read or written, so that there is something to learn; between them anything.
fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let run =
        (0..60u64, 1..12u64, any::<bool>(), any::<bool>()).prop_map(|(first, blocks, writes, partial)| {
            let block = |block| if writes { Step::Write(block, partial) } else { Step::Read(block) };
            (first..first + blocks).map(block).chain([Step::EndRequest]).collect::<Vec<_>>()
        });
    let other = any_step(60, any_quota().boxed()).prop_map(|step| vec![step]);
    let runs = prop::collection::vec(prop_oneof![9 => run.clone(), 1 => other], 0..300);
    prop_oneof![runs, prop::collection::vec(run, 0..300)].prop_map(|steps| steps.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn equals_the_oracle(quota in any_quota(), steps in any_steps(), given in any_given()) {
        compare(&settings_of(&given), quota, PlainBenefitDensity::new(quota, given), &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// With so many samples that chance leaves out none of so few blocks: what was read before hits if fewer others were read since
    /// than both levels hold, and what DRAM has is never older than what left the SSD.
    #[test]
    fn by_recency_both_levels_are_one_lru(
        dram in 1..12u32,
        ssd in 0..20u32,
        blocks in prop::collection::vec(0..48u64, 0..600),
    ) {
        let quota = Quota::new(dram, ssd);
        let settings = settings("benefit-density", &[("order", "recency"), ("samples", "1024")]);
        let mut driver = Driver::new(&settings, quota, quota);
        let mut recent: Vec<u64> = Vec::new();
        for block in blocks {
            let hits = !driver.step(Step::Read(block)).contains(&Observed::ReadBacking);
            let place = recent.iter().position(|&other| other == block);
            prop_assert_eq!(hits, place.is_some());
            place.map(|at| recent.remove(at));
            recent.insert(0, block);
            recent.truncate((dram + ssd) as usize);
        }
        driver.check_counters();
    }
}

/// A run that is read again and again, among blocks that never come again.
#[test]
fn what_comes_again_stays_and_the_rest_is_not_written_to_the_ssd() {
    let quota = Quota::new(20, 80);
    let mut driver = Driver::new(&settings("benefit-density", &[]), quota, quota);
    let mut hits = 0;
    for round in 0..400u64 {
        for block in 0..60 {
            let observed = driver.step(Step::Read(block * 2));
            hits += u32::from(round >= 200 && !observed.contains(&Observed::ReadBacking));
            driver.step(Step::EndRequest);
        }
        for block in 0..60 {
            driver.step(Step::Read(1000 + round * 1000 + block * 2));
            driver.step(Step::EndRequest);
        }
    }
    // By recency none of them would be there still.
    assert!(hits > 200 * 60 * 9 / 10, "{hits}");
    let moved = driver.counters.ssd_writes.total();
    assert!(moved < 400 * 60 / 20, "{moved}");
    driver.check_counters();
}

#[test]
fn a_budget_is_held_in_every_window() {
    let quota = Quota::new(100, 400);
    for budget in [5, 40] {
        let settings = settings("benefit-density", &[("write_budget", &budget.to_string())]);
        let mut driver = Driver::new(&settings, quota, quota);
        let mut before = 0;
        for window in 0..10 {
            for at in 0..10_000u64 {
                let block = (window * 10_000 + at) * 7919 % 3000;
                driver.step(if at % 3 == 0 { Step::Read(block) } else { Step::Write(block, false) });
                driver.step(Step::EndRequest);
            }
            let written = driver.counters.ssd_writes.total();
            // 2 %, and what 4 blocks and whole ones are beyond it where few are allowed.
            let most = budget * 102 + 4;
            assert!(written - before <= most, "{} of {most} in window {window}", written - before);
            // More are wanted all the time.
            assert!(written - before >= budget * 80, "{} in window {window}", written - before);
            before = written;
        }
    }
}

/// With the last block of a request on the disk the whole request waits for it.
#[test]
fn a_write_request_goes_to_one_place() {
    let quota = Quota::new(0, 64);
    let mut driver = Driver::new(&settings("benefit-density", &[("write_price_us", "1000")]), quota, quota);
    let mut requests = 0;
    for first in (0..100_000u64).step_by(100) {
        let ends: Vec<bool> = (first..first + 20)
            .map(|block| driver.step(Step::Write(block, false)).contains(&Observed::WriteBacking))
            .collect();
        driver.step(Step::EndRequest);
        assert!(ends.iter().all(|&to_disk| to_disk == ends[0]), "{first}: {ends:?}");
        requests += u32::from(ends[0]);
    }
    // A seek for 20 blocks is not worth 20 writes at that price, which takes some requests to learn.
    assert!((900..1000).contains(&requests), "{requests}");
    assert!(driver.residents(Level::Ssd).len() <= 64);
}

/// Requests that begin in the block in which the one before ended, on a busy cache: the disk takes what is between, one behind the
/// other, and the block that two requests share stays on the SSD, or the disk would have to come round for it.
#[test]
fn what_two_requests_share_does_not_wait_for_the_disk_twice() {
    let quota = Quota::new(20, 80);
    let mut driver = Driver::new(&settings("benefit-density", &[("write_price_us", "1000")]), quota, quota);
    let (mut waited, mut passed) = (0, 0);
    for request in 0..4000u64 {
        let first = request * 8;
        for block in first..=first + 8 {
            let is_end = block == first || block == first + 8;
            let observed = driver.step(Step::Write(block, is_end));
            let is_late = request >= 2000;
            let asks_disk =
                observed.iter().any(|one| matches!(one, Observed::MergeBacking | Observed::WriteBacking));
            waited += u32::from(is_late && block == first && asks_disk);
            passed += u32::from(is_late && !is_end && asks_disk);
        }
        driver.step(Step::EndRequest);
    }
    assert!(waited < 2000 / 50, "{waited}");
    assert!(passed > 2000 * 7 * 9 / 10, "{passed}");
    driver.check_counters();
}

#[test]
fn prices_decide_what_is_written() {
    let writes = |price: &str| {
        let quota = Quota::new(50, 200);
        let settings = settings("benefit-density", &[("write_price_us", price)]);
        let mut driver = Driver::new(&settings, quota, quota);
        for at in 0..40_000u64 {
            // Many come seldom, some often.
            let block = (at * 7919 % 1009) * (at * 104_729 % 31) / 30;
            driver.step(Step::Read(block * 2));
            driver.step(Step::EndRequest);
        }
        driver.counters.ssd_writes.total()
    };
    let written = ["0", "100", "1000", "10000"].map(writes);
    assert!(written.is_sorted_by(|a, b| a > b), "{written:?}");
    assert_eq!(written[3], 0);
}
