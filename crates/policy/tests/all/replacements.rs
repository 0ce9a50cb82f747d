//! ARC, S3-FIFO, SIEVE and their like against plain vectors, effect by effect, and what the papers promise of them.

use lode_policy::{Effect, Quota, Scheme, build};
use lode_types::Access;
use proptest::prelude::*;

use crate::driver::{Driver, Step, any_blocks, any_step, settings};
use crate::one_level::compare_with;
use crate::oracle::arc::PlainArc;
use crate::oracle::lirs::PlainLirs;
use crate::oracle::one_level::PlainOneLevel;
use crate::oracle::s3_fifo::{PlainS3, S3Settings};
use crate::oracle::sieve::PlainSieve;
use crate::oracle::w_tinylfu::{PlainTiny, TinySettings};
use crate::write_policies::any_policy_of;

/// Any of the write policies that nearly all schemes offer.
pub fn any_policy() -> impl Strategy<Value = &'static str> {
    any_policy_of("lru")
}

pub fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let step = any_step(48, any_blocks().prop_map(|blocks| Quota::new(0, blocks)).boxed());
    // Without restarts and new shares a cache grows old enough to have all kinds of ghosts.
    let access = any_step(48, Just(Quota::new(0, 24)).boxed())
        .prop_filter("an access", |step| matches!(step, Step::Read(_) | Step::Write(..) | Step::EndRequest));
    prop_oneof![prop::collection::vec(step, 0..250), prop::collection::vec(access, 0..400)]
}

fn any_s3() -> impl Strategy<Value = S3Settings> {
    (1usize..100, 0usize..200, 1u32..4, any::<bool>()).prop_map(
        |(small_percent, ghost_percent, move_threshold, warm_up_in_main)| S3Settings {
            small_percent,
            ghost_percent,
            move_threshold,
            warm_up_in_main,
        },
    )
}

fn any_tiny() -> impl Strategy<Value = TinySettings> {
    let window = prop_oneof![2 => Just(1), 1 => 1usize..101];
    let protected = prop_oneof![2 => Just(80), 1 => 0usize..101];
    (window, protected, 1usize..12, any::<bool>()).prop_map(
        |(window_percent, protected_percent, sample_factor, doorkeeper)| TinySettings {
            window_percent,
            protected_percent,
            sample_factor,
            doorkeeper,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn lirs_equals_the_oracle(
        policy in any_policy(), blocks in any_blocks(), steps in any_steps(),
        hirs in prop_oneof![Just(1usize), 1usize..101],
        stack in prop_oneof![Just(200usize), Just(100), 100usize..400])
    {
        let pairs = [("hir_percent", &*hirs.to_string()), ("stack_percent", &*stack.to_string())];
        let mut settings = settings("lirs", &pairs);
        settings.set("write_policy", policy).unwrap();
        let oracle = PlainLirs::new(hirs, stack, blocks);
        compare_with(&settings, blocks, PlainOneLevel::new(oracle, policy), &steps);
    }

    #[test]
    fn w_tinylfu_equals_the_oracle(
        policy in any_policy(), blocks in any_blocks(), steps in any_steps(), tiny in any_tiny())
    {
        let mut settings = settings("w-tinylfu", &[("write_policy", policy)]);
        let numbers = [
            ("window_percent", tiny.window_percent),
            ("protected_percent", tiny.protected_percent),
            ("sample_factor", tiny.sample_factor),
        ];
        for (key, value) in numbers {
            settings.set(key, &value.to_string()).unwrap();
        }
        settings.set("doorkeeper", if tiny.doorkeeper { "on" } else { "off" }).unwrap();
        compare_with(&settings, blocks, PlainOneLevel::new(PlainTiny::new(tiny, blocks), policy), &steps);
    }

    #[test]
    fn arc_equals_the_oracle(policy in any_policy(), blocks in any_blocks(), steps in any_steps()) {
        let settings = settings("arc", &[("write_policy", policy)]);
        compare_with(&settings, blocks, PlainOneLevel::new(PlainArc::new(blocks), policy), &steps);
    }

    #[test]
    fn sieve_equals_the_oracle(policy in any_policy(), blocks in any_blocks(), steps in any_steps()) {
        let settings = settings("sieve", &[("write_policy", policy)]);
        compare_with(&settings, blocks, PlainOneLevel::new(PlainSieve::new(blocks), policy), &steps);
    }

    #[test]
    fn s3_fifo_equals_the_oracle(
        policy in any_policy(), blocks in any_blocks(), steps in any_steps(), s3 in any_s3())
    {
        let mut settings = settings("s3-fifo", &[("write_policy", policy)]);
        let numbers = [
            ("small_percent", s3.small_percent),
            ("ghost_percent", s3.ghost_percent),
            ("move_threshold", s3.move_threshold as usize),
        ];
        for (key, value) in numbers {
            settings.set(key, &value.to_string()).unwrap();
        }
        settings.set("warm_up", if s3.warm_up_in_main { "main" } else { "small" }).unwrap();
        compare_with(&settings, blocks, PlainOneLevel::new(PlainS3::new(s3, blocks), policy), &steps);
    }
}

/// A run of reads under W-TinyLFU, the scheme's and the oracle's with exact counts, on ten blocks of anywhere, some much
/// more often than others: whether they are alike to the last effect.
fn is_as_with_exact_counts(round: u64) -> bool {
    let mut state = round;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 32
    };
    let known: Vec<u64> = (0..10).map(|_| next() << 20 | next()).collect();
    let blocks = 2 + (round % 6) as u32;
    let doorkeeper = round.is_multiple_of(2);
    let tiny = TinySettings { window_percent: 1, protected_percent: 80, sample_factor: 10, doorkeeper };
    let settings = settings("w-tinylfu", &[("doorkeeper", if doorkeeper { "on" } else { "off" })]);
    let quota = Quota::new(0, blocks);
    let mut driver = Driver::new(&settings, quota, quota);
    let mut oracle = PlainOneLevel::new(PlainTiny::counting_exactly(tiny, blocks), "wb");
    (0..500).all(|_| {
        let step = Step::Read(known[(next() % 10).min(next() % 10) as usize]);
        driver.step(step) == oracle.step(step)
    })
}

/// The oracle above has the scheme's sketch, collisions and all. Here there are none to have, or hardly any: a block's count
/// is wrong only when others have all four of its counters, which happens to some of ten blocks in one of 26 rounds.
#[test]
fn w_tinylfu_admits_by_exact_counts_where_few_blocks_are_known() {
    let alike = (0..200).filter(|&round| is_as_with_exact_counts(round)).count();
    assert!(alike >= 185, "{alike} of 200");
}

/// Hits on a working set that fits, out of 39,000, while a scan passes that is read once and is much larger than the cache.
pub fn hits_beside_a_scan(scheme: &str, pairs: &[(&str, &str)]) -> u64 {
    let settings = settings(scheme, pairs);
    let quota = Quota::new(0, 1000);
    let mut scheme = build(&settings, quota, quota);
    let mut hits = 0;
    let mut effects = Vec::new();
    for round in 0..42_000u64 {
        let scan = 1_000_000 + round * 3;
        // The working set comes first and is known when the scan begins.
        let accesses = if round < 2000 { 1 } else { 4 };
        for block in [round % 500, scan, scan + 1, scan + 2].into_iter().take(accesses) {
            effects.clear();
            scheme.access(Access::read(block), &mut effects);
            let hit = matches!(effects[0], Effect::ReadLevel { .. });
            hits += u64::from(hit && round >= 3000);
        }
    }
    hits
}

/// What they are there for: LRU loses a working set to a scan, they keep it.
#[test]
fn a_scan_does_not_wash_the_working_set_away() {
    assert_eq!(hits_beside_a_scan("lru", &[("assoc", "0")]), 0);
    for scheme in ["arc", "s3-fifo", "sieve", "lirs", "w-tinylfu"] {
        let hits = hits_beside_a_scan(scheme, &[]);
        assert!(hits > 39_000 * 9 / 10, "{scheme}: {hits} of 39,000");
    }
}
