//! flashcache and Open CAS against their oracles, and what is told of them.

use lode_policy::{Quota, Settings};
use lode_types::Level;
use proptest::prelude::*;

use crate::driver::{Driver, Observed, Step, any_blocks, any_step, settings};
use crate::oracle::cut_off::{PlainCleaner, PlainCutOff, PlainFlash, PlainStreams};
use crate::oracle::level::PlainLevel;
use crate::oracle::one_level::PlainOneLevel;
use crate::oracle::opencas::{OpencasSettings, PlainOpencas};
use crate::replacements::any_steps;
use crate::write_policies::any_policy_of;

/// Most blocks of a level.
const PHYSICAL: u32 = 256;

fn compare<R: PlainCleaner>(settings: &Settings, blocks: u32, mut oracle: PlainCutOff<R>, steps: &[Step]) {
    let mut driver = Driver::new(settings, Quota::new(0, PHYSICAL), Quota::new(0, blocks));
    for (at, &step) in steps.iter().enumerate() {
        assert_eq!(driver.step(step), oracle.step(step), "step {at}: {step:?}");
        assert_eq!(driver.residents(Level::Ssd), oracle.residents(), "after step {at}: {step:?}");
    }
    assert_eq!(driver.counters, oracle.level.counters);
    driver.check_counters();
}

fn any_opencas() -> impl Strategy<Value = OpencasSettings> {
    let nhit = prop_oneof![Just(None), (2u32..5).prop_map(Some)];
    let cleaning = (any::<bool>(), 1u32..6, 0u32..8, 1usize..4);
    let ratio = prop_oneof![Just(100usize), 0usize..100];
    (nhit, 0usize..101, cleaning, ratio).prop_map(|(nhit, trigger_percent, cleaning, dirty_ratio_percent)| {
        let (cleans, wake_up, staleness, most_at_once) = cleaning;
        OpencasSettings {
            nhit,
            trigger_percent,
            cleans,
            wake_up,
            staleness,
            most_at_once,
            dirty_ratio_percent,
        }
    })
}

/// Any steps, and runs of neighbours between them.
fn any_runs() -> impl Strategy<Value = Vec<Step>> {
    let run = (0u64..48, 1u64..12, any::<bool>()).prop_map(|(first, blocks, read)| {
        let step = |block| if read { Step::Read(block) } else { Step::Write(block, block % 3 == 0) };
        (first..first + blocks).map(step).chain([Step::EndRequest]).collect::<Vec<_>>()
    });
    prop_oneof![any_steps(), prop::collection::vec(run, 0..40).prop_map(|runs| runs.concat())]
}

/// Blocks of sets too long to be walked, and of some that are not.
fn many_blocks() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 65u32..PHYSICAL, 1 => 0u32..65]
}

/// Enough accesses to fill sets of that many blocks, with few other events and mostly writes.
fn many_steps() -> impl Strategy<Value = Vec<Step>> {
    let share = || many_blocks().prop_map(|blocks| Quota::new(0, blocks)).boxed();
    let write = (0u64..400, any::<bool>()).prop_map(|(block, partial)| Step::Write(block, partial));
    let rare = prop::collection::vec(any_step(400, share()), 0..8);
    let step = prop_oneof![4 => any_step(400, Just(Quota::new(0, 200)).boxed()).prop_filter("no new share", |step| {
        matches!(step, Step::Read(_) | Step::Write(..) | Step::EndRequest | Step::Discard(_) | Step::Cleaned(_))
    }), 4 => write];
    let stretch = prop::collection::vec(step, 0..400);
    prop::collection::vec((stretch, rare), 1..4)
        .prop_map(|parts| parts.into_iter().flat_map(|(stretch, rare)| [stretch, rare].concat()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// Where the oldest clean block is not found by a walk.
    #[test]
    fn flashcache_with_long_sets_equals_the_oracle(
        policy in any_policy_of("flashcache"), blocks in many_blocks(), steps in many_steps(),
        lru in any::<bool>(), assoc in prop::sample::select(vec![0u32, 64, 128]),
        threshold in (50usize..101, 1usize..4), skip in 0u64..3,
    ) {
        let pairs = [("write_policy", policy), ("reclaim_policy", if lru { "lru" } else { "fifo" })];
        let mut settings = settings("flashcache", &pairs);
        let numbers = [
            ("assoc", u64::from(assoc)),
            ("dirty_thresh_pct", threshold.0 as u64),
            ("max_clean_ios_set", threshold.1 as u64),
            ("skip_seq_blocks", skip),
        ];
        for (key, value) in numbers {
            settings.set(key, &value.to_string()).unwrap();
        }
        let sets = PlainFlash::new(PlainLevel::new(assoc, false, blocks), lru, threshold, (450_000, 2));
        let streams = PlainStreams::new(32, false, skip + 1, if skip == 0 { "never" } else { "always" });
        compare(&settings, blocks, PlainCutOff { level: PlainOneLevel::new(sets, policy), streams }, &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn flashcache_equals_the_oracle(
        policy in any_policy_of("flashcache"), blocks in any_blocks(), steps in any_runs(), lru in any::<bool>(),
        assoc in prop::sample::select(vec![0u32, 1, 2, 4, 8]),
        threshold in (0usize..101, 1usize..4), fallow in (0u32..8, 1usize..3), skip in 0u64..6,
    ) {
        let mut settings = settings("flashcache", &[("write_policy", policy)]);
        let numbers = [
            ("assoc", u64::from(assoc)),
            ("dirty_thresh_pct", threshold.0 as u64),
            ("max_clean_ios_set", threshold.1 as u64),
            ("fallow_delay_requests", u64::from(fallow.0)),
            ("fallow_clean_speed", fallow.1 as u64),
            ("skip_seq_blocks", skip),
        ];
        for (key, value) in numbers {
            settings.set(key, &value.to_string()).unwrap();
        }
        settings.set("reclaim_policy", if lru { "lru" } else { "fifo" }).unwrap();
        let sets = PlainFlash::new(PlainLevel::new(assoc, false, blocks), lru, threshold, fallow);
        let streams = PlainStreams::new(32, false, skip + 1, if skip == 0 { "never" } else { "always" });
        compare(&settings, blocks, PlainCutOff { level: PlainOneLevel::new(sets, policy), streams }, &steps);
    }

    #[test]
    fn opencas_equals_the_oracle(
        policy in any_policy_of("opencas-like"), blocks in any_blocks(), steps in any_runs(), choices in any_opencas(),
        when in prop::sample::select(vec!["full", "always", "never"]), from_block in 1u64..6, most in 1usize..5,
    ) {
        let mut settings = settings("opencas-like", &[("write_policy", policy), ("seq_policy", when)]);
        let numbers = [
            ("nhit_threshold", u64::from(choices.nhit.unwrap_or(2))),
            ("nhit_trigger_percent", choices.trigger_percent as u64),
            ("wake_up_requests", u64::from(choices.wake_up)),
            ("staleness_requests", u64::from(choices.staleness)),
            ("flush_max_blocks", choices.most_at_once as u64),
            ("dirty_ratio_percent", choices.dirty_ratio_percent as u64),
            ("seq_threshold_blocks", from_block),
            ("seq_streams", most as u64),
        ];
        for (key, value) in numbers {
            settings.set(key, &value.to_string()).unwrap();
        }
        settings.set("promotion", if choices.nhit.is_some() { "nhit" } else { "always" }).unwrap();
        settings.set("cleaning", if choices.cleans { "alru" } else { "nop" }).unwrap();
        let level = PlainOneLevel::new(PlainOpencas::new(choices, blocks), policy);
        let streams = PlainStreams::new(most, true, from_block, when);
        compare(&settings, blocks, PlainCutOff { level, streams }, &steps);
    }
}

/// One request of one block.
fn request(driver: &mut Driver, step: Step) -> Vec<Observed> {
    let mut observed = driver.step(step);
    observed.extend(driver.step(Step::EndRequest));
    observed
}

fn dirty_blocks(driver: &Driver) -> usize {
    driver.residents(Level::Ssd).values().filter(|&&dirty| dirty).count()
}

#[test]
fn a_set_keeps_its_dirty_blocks_below_the_threshold() {
    let quota = Quota::new(0, 10);
    let mut driver = Driver::new(&settings("flashcache", &[]), quota, quota);
    for block in 0..10 {
        let observed = request(&mut driver, Step::Write(block, false));
        assert_eq!(dirty_blocks(&driver), (block as usize + 1).min(2));
        assert_eq!(observed.contains(&Observed::Clean(block.wrapping_sub(2))), block >= 2, "{observed:?}");
    }
    // What was cleaned gives way, what is dirty stays, although it is not the newest.
    request(&mut driver, Step::Write(9, false));
    for block in 20..28 {
        request(&mut driver, Step::Read(block));
    }
    let residents = driver.residents(Level::Ssd);
    assert!(residents.contains_key(&8) && residents.contains_key(&9) && !residents.contains_key(&7));
}

#[test]
fn what_is_idle_is_cleaned_by_requests_or_by_time() {
    let quota = Quota::new(0, 10);
    for (pairs, requests) in [
        ([("trigger", "requests"), ("fallow_delay_requests", "5")], 5),
        // The driver's clock goes on by a second a request, from the end of the first one.
        ([("trigger", "time"), ("fallow_delay", "7")], 8),
    ] {
        let mut driver = Driver::new(&settings("flashcache", &pairs), quota, quota);
        driver.step(Step::Write(1, false));
        let cleaned = (1..20).find(|_| driver.step(Step::EndRequest) == [Observed::Clean(1)]);
        assert_eq!(cleaned, Some(requests), "{pairs:?}");
    }
    let pairs = [("write_policy", "wb"), ("trigger", "time"), ("staleness_s", "6"), ("wake_up_s", "3")];
    let mut driver = Driver::new(&settings("opencas-like", &pairs), quota, quota);
    driver.step(Step::Write(1, false));
    let cleaned = (1..20).find(|_| driver.step(Step::EndRequest) == [Observed::Clean(1)]);
    assert_eq!(cleaned, Some(7));
}

#[test]
fn a_long_stream_passes_by() {
    let quota = Quota::new(0, 100);
    let mut flash = Driver::new(&settings("flashcache", &[("skip_seq_blocks", "4")]), quota, quota);
    for block in 0..20 {
        flash.step(Step::Read(block));
    }
    assert_eq!(flash.residents(Level::Ssd).len(), 4);
    // Open CAS caches streams as long as there is room.
    let pairs = [("write_policy", "wb"), ("seq_threshold_blocks", "4")];
    let mut cas = Driver::new(&settings("opencas-like", &pairs), quota, quota);
    for block in 0..300 {
        cas.step(Step::Read(block));
    }
    let residents = cas.residents(Level::Ssd);
    assert_eq!((residents.len(), residents.last_key_value().unwrap().0), (100, &99));
}

#[test]
fn a_dirty_block_that_is_written_past_the_cache_reaches_the_disk_first() {
    let quota = Quota::new(0, 100);
    let pairs = [("write_policy", "wb"), ("seq_policy", "always"), ("seq_threshold_blocks", "4")];
    let mut cas = Driver::new(&settings("opencas-like", &pairs), quota, quota);
    cas.step(Step::Write(13, false));
    let observed: Vec<_> = (10..14).map(|block| cas.step(Step::Write(block, true))).collect();
    // A part of it: the rest is nowhere else.
    assert_eq!(
        observed[3],
        [Observed::Evict { level: Level::Ssd, block: 13, dirty: true }, Observed::WriteBacking]
    );
    // Neither is there a copy left that would be stale now.
    assert!(!cas.residents(Level::Ssd).contains_key(&13));
}

#[test]
fn with_nhit_the_third_access_is_admitted() {
    let quota = Quota::new(0, 10);
    let pairs = [("promotion", "nhit"), ("nhit_trigger_percent", "50"), ("seq_policy", "never")];
    let mut driver = Driver::new(&settings("opencas-like", &pairs), quota, quota);
    for block in 0..5 {
        assert_eq!(driver.step(Step::Read(block)), [Observed::ReadBacking, Observed::Fill(Level::Ssd)]);
    }
    for _ in 0..2 {
        assert_eq!(driver.step(Step::Read(9)), [Observed::ReadBacking]);
    }
    assert_eq!(driver.step(Step::Read(9)), [Observed::ReadBacking, Observed::Fill(Level::Ssd)]);
}
