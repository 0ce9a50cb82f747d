//! request-oriented as a scheme: against its oracle, and what it refuses.

use lode_policy::criticality::Verdict;
use lode_policy::{AnyScheme, Effect, Quota, RequestSource, Scheme, SchemeInfo, SettingError, build};
use lode_types::{Access, Direction, Level, Origin, OriginFields};
use proptest::prelude::*;

use crate::driver::{Driver, Observed, Step, any_blocks, settings};
use crate::oracle::cut_off::PlainFlash;
use crate::oracle::level::PlainLevel;
use crate::oracle::one_level::PlainOneLevel;
use crate::oracle::write_cache::PlainWriteCache;
use crate::replacements::any_steps;

const SCHEME: &str = "request-oriented";

fn any_origin() -> impl Strategy<Value = Origin> {
    let flag = || prop::sample::select(vec![None, Some(false), Some(true)]);
    (flag(), flag()).prop_map(|(sync, critical)| {
        let origin = sync.map_or(Origin::UNKNOWN, |sync| Origin::UNKNOWN.with_sync(sync));
        critical.map_or(origin, |critical| origin.with_critical(critical))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn equals_the_oracle(
        admission in prop::sample::select(vec!["all", "sync", "wal", "cp"]), log in (0u64..48, 0u64..48),
        blocks in any_blocks(), steps in any_steps(), origins in prop::collection::vec(any_origin(), 1..300),
        lru in any::<bool>(), assoc in prop::sample::select(vec![0u32, 1, 2, 4, 8]),
        threshold in (0usize..101, 1usize..4), fallow in (0u32..8, 1usize..3),
    ) {
        let mut settings = settings(SCHEME, &[("admission", admission)]);
        let numbers = [
            ("assoc", u64::from(assoc)),
            ("dirty_thresh_pct", threshold.0 as u64),
            ("max_clean_ios_set", threshold.1 as u64),
            ("fallow_delay_requests", u64::from(fallow.0)),
            ("fallow_clean_speed", fallow.1 as u64),
            ("log_first_block", log.0),
            ("log_blocks", log.1),
        ];
        for (key, value) in numbers {
            settings.set(key, &value.to_string()).unwrap();
        }
        settings.set("reclaim_policy", if lru { "lru" } else { "fifo" }).unwrap();
        let sets = PlainFlash::new(PlainLevel::new(assoc, false, blocks), lru, threshold, fallow);
        let level = PlainOneLevel::new(sets, "wbwo");
        let mut oracle = PlainWriteCache { level, admission, log: (log.0, log.0 + log.1) };
        let mut driver = Driver::new(&settings, Quota::new(0, 64), Quota::new(0, blocks));
        for (at, (&step, &origin)) in steps.iter().zip(origins.iter().cycle()).enumerate() {
            driver.origin = origin;
            prop_assert_eq!(driver.step(step), oracle.step(step, origin), "step {}: {:?}", at, step);
            prop_assert_eq!(driver.residents(Level::Ssd), oracle.level.residents(), "after step {}", at);
        }
        prop_assert_eq!(driver.counters, oracle.level.counters);
        driver.check_counters();
    }
}

#[test]
fn a_write_that_is_kept_out_leaves_the_newest_bytes_where_they_are() {
    let quota = Quota::new(0, 8);
    let mut driver = Driver::new(&settings(SCHEME, &[("admission", "sync")]), quota, quota);
    let sync = Origin::UNKNOWN.with_sync(true);
    // Nobody waits, or nobody knows: to the disk.
    assert_eq!(driver.step(Step::Write(1, false)), [Observed::WriteBacking]);
    driver.origin = sync;
    assert_eq!(driver.step(Step::Write(1, false)), [Observed::WriteLevel { hit: false, dirty: true }]);
    driver.origin = Origin::UNKNOWN.with_sync(false);
    assert_eq!(driver.step(Step::Write(1, false)), [Observed::WriteLevel { hit: true, dirty: true }]);
    driver.step(Step::Cleaned(1));
    assert_eq!(driver.step(Step::Read(1)), [Observed::ReadLevel(Level::Ssd)]);
    assert_eq!(
        driver.step(Step::Write(1, false)),
        [Observed::Invalidate(Level::Ssd), Observed::WriteBacking]
    );
    // What is read is never brought in.
    assert_eq!(driver.step(Step::Read(1)), [Observed::ReadBacking]);
}

#[test]
fn without_a_clean_block_an_admitted_write_goes_to_the_disk() {
    let quota = Quota::new(0, 2);
    let pairs = [("dirty_thresh_pct", "100"), ("fallow_delay_requests", "0")];
    let mut driver = Driver::new(&settings(SCHEME, &pairs), quota, quota);
    driver.step(Step::Write(1, false));
    driver.step(Step::Write(2, false));
    assert_eq!(driver.step(Step::Write(3, false)), [Observed::WriteBacking], "the stall");
    // A request's end makes room for the next one.
    assert_eq!(driver.step(Step::EndRequest), [Observed::Clean(1)]);
    let evicted = Observed::Evict { level: Level::Ssd, block: 1, dirty: false };
    assert_eq!(
        driver.step(Step::Write(3, false)),
        [evicted, Observed::WriteLevel { hit: false, dirty: true }]
    );
}

#[test]
fn a_write_that_is_issued_again_is_taken_in_dirty() {
    let quota = Quota::new(0, 2);
    let pairs = [("admission", "sync"), ("reissue", "on"), ("dirty_thresh_pct", "100")];
    let mut scheme = build(&settings(SCHEME, &pairs), quota, quota);
    let mut effects: Vec<Effect> = Vec::new();
    let mut take_in = |scheme: &mut AnyScheme, block| {
        effects.clear();
        scheme.reissuing().unwrap().take_in(block, &mut effects);
        effects.clone()
    };
    let access = |op, origin| Access { block: 1, op, partial: false, origin };
    let plain = access(Direction::Write, Origin::UNKNOWN.with_sync(false));
    assert_eq!(scheme.reissuing().unwrap().on_submit(&plain), Verdict::Disk);
    let synchronous = access(Direction::Write, Origin::UNKNOWN.with_sync(true));
    assert_eq!(scheme.reissuing().unwrap().on_submit(&synchronous), Verdict::Cache);
    let [Effect::WriteLevel { level: Level::Ssd, slot, hit: false, dirty: true }] =
        take_in(&mut scheme, 1)[..]
    else {
        panic!("there is room")
    };
    assert_eq!(take_in(&mut scheme, 1), [], "it is there");
    // From now on it is as if it had been admitted.
    let mut after: Vec<Effect> = Vec::new();
    scheme.access(access(Direction::Read, Origin::UNKNOWN), &mut after);
    scheme.access(plain, &mut after);
    let read = Effect::ReadLevel { level: Level::Ssd, slot };
    assert_eq!(after, [read, Effect::WriteLevel { level: Level::Ssd, slot, hit: true, dirty: true }]);
    assert_eq!(take_in(&mut scheme, 2).len(), 1);
    assert_eq!(take_in(&mut scheme, 3), [], "only clean blocks give way");
    scheme.cleaned(2);
    let evicted = take_in(&mut scheme, 3);
    assert!(matches!(evicted[..], [Effect::Evict { block: 2, dirty: false, .. }, Effect::WriteLevel { .. }]));
    assert!(build(&settings(SCHEME, &[]), quota, quota).reissuing().is_none(), "only when it is asked for");
}

#[test]
fn an_admission_that_cannot_know_enough_is_refused() {
    let info = SchemeInfo::find(SCHEME).unwrap();
    let sync = OriginFields { sync: true, ..OriginFields::NONE };
    let refusal = |pairs: &[(&str, &str)], told| {
        info.check_origins(&settings(SCHEME, pairs), told, RequestSource::Trace)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    assert_eq!(refusal(&[], OriginFields::NONE), "");
    assert_eq!(refusal(&[("admission", "sync")], sync), "");
    assert_eq!(refusal(&[("admission", "cp")], OriginFields::ALL), "");
    assert_eq!(refusal(&[("admission", "wal"), ("log_blocks", "1")], OriginFields::NONE), "");
    for (pairs, told, words) in [
        (&[("admission", "sync")][..], OriginFields::NONE, "tell 'sync', and these tell nothing"),
        (&[("admission", "cp")], sync, "tell 'sync' and 'critical', and these tell only 'sync'"),
        (&[("admission", "wal")], OriginFields::ALL, "log_blocks"),
        (&[("admission", "cp-pi")], OriginFields::ALL, "who waits for whom"),
        (&[("admission", "cp-pi-ioi")], OriginFields::ALL, "lode requests"),
    ] {
        let refusal = refusal(pairs, told);
        assert!(refusal.contains(words), "{pairs:?}: {refusal}");
    }
    // A daemon has no other requests to take.
    let scheme = settings(SCHEME, &[("admission", "sync")]);
    let error = info.check_origins(&scheme, OriginFields::NONE, RequestSource::Guest).unwrap_err();
    assert!(matches!(error, SettingError::Origins { key: "admission", .. }));
    assert!(
        error.to_string().ends_with("guests tell nothing of who asks; set admission to all or wal"),
        "{error}"
    );
    let wal = settings(SCHEME, &[("admission", "wal"), ("log_first_block", "100"), ("log_blocks", "8")]);
    assert_eq!(info.check_disk(&wal, 101), Ok(()));
    let error = info.check_disk(&wal, 100).unwrap_err().to_string();
    assert!(error.starts_with("Setting log_first_block=100 lies beyond the disk, which has 100"), "{error}");
    assert_eq!(info.check_disk(&settings(SCHEME, &[]), 0), Ok(()));
    let lru = SchemeInfo::find("lru").unwrap();
    assert_eq!(lru.check_origins(&lru.settings(), OriginFields::NONE, RequestSource::Trace), Ok(()));
}
