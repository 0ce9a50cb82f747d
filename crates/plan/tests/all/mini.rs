//! Miniature simulation against the whole one.

use lode_plan::{CurveOptions, MiniOptions, StreamOptions, curves, miniature};
use lode_policy::SchemeInfo;
use lode_reuse::{CurveKind, Method};
use lode_types::Direction;

use crate::common::{Request, merge, requests, stream_options};
use proptest::prelude::*;

fn options(rate: f64, sizes_blocks: Vec<u64>) -> MiniOptions {
    let mut settings = SchemeInfo::find("lru").expect("a scheme").settings();
    settings.set("map", "modulo").expect("a setting");
    settings.set("assoc", "65536").expect("a setting");
    MiniOptions { stream: stream_options(2), settings, sizes_blocks, dram_share: 0.1, rate }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn all_blocks_of_an_lru_cache_give_its_curve(requests in requests(150, 30)) {
        let sizes: Vec<u64> = (1..24).collect();
        let found = miniature(&mut merge(&requests), &options(1.0, sizes), &mut |_| {}).expect("points");
        let exact = CurveOptions {
            stream: StreamOptions { ..stream_options(1) },
            kind: CurveKind::Trd,
            method: Method::Exact,
            cut: Default::default(),
        };
        let exact = curves(&mut merge(&requests), &exact, &mut |_| {}).expect("curves");
        for (vm, exact) in found.iter().zip(&exact.vms) {
            for point in &vm.points {
                let expected = exact.curve.hit_ratio_at(point.size_blocks);
                prop_assert!((point.hit_ratio - expected).abs() < 1e-9, "{point:?} {expected}");
            }
        }
    }
}

/// Blocks by a skewed choice: the square of an even one.
fn skewed(requests: u64) -> Vec<Request> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    (0..requests)
        .map(|_| Request { vm: 0, op: Direction::Read, block: (next().powi(3) * 40_000.0) as u64, blocks: 1 })
        .collect()
}

#[test]
fn a_tenth_of_the_blocks_is_close() {
    let requests = skewed(150_000);
    let sizes = vec![500, 1000, 2000, 4000, 8000, 16_000];
    let run = |rate| {
        miniature(&mut merge(&requests), &options(rate, sizes.clone()), &mut |_| {})
            .expect("points")
            .remove(0)
    };
    let (whole, part) = (run(1.0), run(0.1));
    // A tenth would be 4,000 blocks, which are too few.
    assert!((0.1..0.25).contains(&part.rate), "{}", part.rate);
    for (whole, part) in whole.points.iter().zip(&part.points) {
        assert!((whole.hit_ratio - part.hit_ratio).abs() < 0.04, "{whole:?} {part:?}");
    }
}

/// Few blocks, of which one has nearly all accesses: what a sample gets wrong.
#[test]
fn few_blocks_are_all_followed_whatever_the_rate() {
    let request = |at: u64| {
        let op = if at.is_multiple_of(4) { Direction::Read } else { Direction::Write };
        Request { vm: 0, op, block: if at.is_multiple_of(3) { at % 3000 } else { 7 }, blocks: 1 }
    };
    let requests: Vec<Request> = (0..20_000).map(request).collect();
    let run = |rate| {
        miniature(&mut merge(&requests), &options(rate, vec![100, 400, 2000]), &mut |_| {})
            .expect("points")
            .remove(0)
    };
    let (whole, part) = (run(1.0), run(1e-9));
    assert_eq!((part.rate, part.followed_blocks, &part.points), (1.0, 1001, &whole.points));
}

/// Every block is written, one of them in half of the requests.
#[test]
fn a_hot_block_in_the_sample_or_not_writes_no_more_than_it_did() {
    let blocks = 60_000;
    let request = |at: u64| Request {
        vm: 0,
        op: Direction::Write,
        block: if at.is_multiple_of(2) { 7 } else { at / 2 * 7919 % blocks },
        blocks: 1,
    };
    let requests: Vec<Request> = (0..240_000).map(request).collect();
    let run = |rate| {
        miniature(&mut merge(&requests), &options(rate, vec![4000, 30_000, 120_000]), &mut |_| {})
            .expect("points")
            .remove(0)
    };
    let (whole, part) = (run(1.0), run(0.01));
    let least = u64::from(lode_reuse::LEAST_BLOCKS);
    assert!((least * 3 / 4..=least).contains(&part.followed_blocks), "{}", part.followed_blocks);
    for (whole, part) in whole.points.iter().zip(&part.points) {
        assert!((whole.hit_ratio - part.hit_ratio).abs() < 0.02, "{whole:?} {part:?}");
        assert!(
            (whole.ssd_writes_per_access - part.ssd_writes_per_access).abs() < 0.02,
            "{whole:?} {part:?}"
        );
    }
}

/// Half of the accesses write one block that the sample lacks, and no write ever hits.
#[test]
fn writes_that_never_hit_are_not_taken_for_hits() {
    let request = |at: u64| match at.is_multiple_of(2) {
        true => Request { vm: 0, op: Direction::Write, block: 7, blocks: 1 },
        false => Request { vm: 0, op: Direction::Read, block: at / 2 * 7919 % 60_000, blocks: 1 },
    };
    let requests: Vec<Request> = (0..240_000).map(request).collect();
    let settings = SchemeInfo::find("l2arc-like").expect("a scheme").settings();
    let run = |rate| {
        let options = MiniOptions { settings: settings.clone(), ..options(rate, vec![4000]) };
        miniature(&mut merge(&requests), &options, &mut |_| {}).expect("points").remove(0)
    };
    let (whole, part) = (run(1.0), run(0.01));
    assert!(part.rate < 0.3, "{}", part.rate);
    let [whole, part] = [whole, part].map(|vm| vm.points[0].hit_ratio);
    assert!((whole - part).abs() < 0.02, "{whole} {part}");
}

/// Each scheme counts something in requests, accesses or blocks, by which it decides much.
#[test]
fn what_schemes_count_shrinks_with_the_sample() {
    let blocks = 60_000;
    let mut requests = skewed(200_000);
    for (at, request) in requests.iter_mut().enumerate() {
        // Hashes scatter them, and what is popular moves on.
        request.block = (request.block + at as u64 / 50) % 40_000 * 7919 % blocks;
        request.op = if at % 3 == 0 { Direction::Write } else { Direction::Read };
    }
    for (scheme, pairs) in [
        ("l2arc-like", &[("feed_interval", "2000"), ("feed_blocks", "100")][..]),
        (
            "opencas-like",
            &[
                ("write_policy", "wb"),
                ("seq_policy", "never"),
                ("wake_up_requests", "500"),
                ("flush_max_blocks", "50"),
            ],
        ),
        ("rpac", &[("region_blocks", "1"), ("decay_interval", "20000")]),
        ("rpac", &[("region_blocks", "1"), ("most_regions", "4000")]),
    ] {
        let mut settings = SchemeInfo::find(scheme).expect("a scheme").settings();
        pairs.iter().for_each(|(key, value)| settings.set(key, value).expect("a setting"));
        let run = |rate| {
            let options = MiniOptions { settings: settings.clone(), ..options(rate, vec![6000, 18_000]) };
            miniature(&mut merge(&requests), &options, &mut |_| {}).expect("points").remove(0)
        };
        let (whole, part) = (run(1.0), run(0.01));
        assert!(part.rate < 0.3, "{}", part.rate);
        for (whole, part) in whole.points.iter().zip(&part.points) {
            assert!((whole.hit_ratio - part.hit_ratio).abs() < 0.02, "{scheme}: {whole:?} {part:?}");
            let writes = (whole.ssd_writes_per_access - part.ssd_writes_per_access).abs();
            assert!(writes < 0.03, "{scheme}: {whole:?} {part:?}");
        }
    }
}

#[test]
fn what_a_sample_or_a_curve_cannot_tell_is_refused() {
    for (scheme, pair, rate, dram_share, words) in [
        ("rpac", ("alpha", "0.5"), 0.5, 0.1, "regions of several blocks"),
        ("rpac", ("alpha", "0.5"), 1.0, 0.1, ""),
        ("opencas-like", ("seq_policy", "full"), 0.5, 0.1, "sequential streams"),
        ("flashcache", ("skip_seq_blocks", "8"), 0.5, 0.1, "set skip_seq_blocks=0"),
        ("etica", ("trigger", "time"), 1.0, 0.1, "trigger=time"),
        ("etica", ("promotion_clock", "host"), 1.0, 0.1, "set promotion_clock=vm"),
        ("l2arc-like", ("headroom", "2"), 1.0, 0.0, "l2arc-like needs DRAM"),
        ("tica-ef", ("write_percent", "25"), 1.0, 1.0, "tica-ef needs SSD"),
        ("ucache-like", ("worth_hits", "1"), 1.0, 0.0, ""),
    ] {
        let mut settings = SchemeInfo::find(scheme).expect("a scheme").settings();
        settings.set(pair.0, pair.1).expect("a setting");
        let options = MiniOptions { settings, dram_share, ..options(rate, vec![100]) };
        let said = miniature(&mut merge(&[]), &options, &mut |_| {}).err().map(|error| error.to_string());
        assert!(said.as_deref().unwrap_or_default().contains(words), "{scheme}: {said:?}");
        assert_eq!(said.is_none(), words.is_empty(), "{scheme}: {said:?}");
    }
}

#[test]
fn what_is_out_of_range_is_refused() {
    for (rate, sizes) in [(0.0, vec![1]), (1.1, vec![1]), (1.0, vec![]), (1.0, vec![2, 2]), (1.0, vec![0])] {
        assert!(miniature(&mut merge(&[]), &options(rate, sizes), &mut |_| {}).is_err());
    }
}
