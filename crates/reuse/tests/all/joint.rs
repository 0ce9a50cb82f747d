//! Two levels at once against two caches, block by block.

use lode_reuse::{Analyser, Both, JointProfile, JointProfiler, Method, ReuseError, RoStack, WbwoStack};
use lode_types::{BlockNo, Direction};
use proptest::prelude::*;

/// Hits of LRU caches of both kinds on one stream: of the first, and of the second beyond those.
fn caches(stream: &[(Direction, BlockNo)], ro_blocks: u64, wbwo_blocks: u64) -> (u64, u64) {
    let (mut ro, mut wbwo): (Vec<BlockNo>, Vec<BlockNo>) = (Vec::new(), Vec::new());
    let (mut ro_hits, mut wbwo_hits) = (0, 0);
    let touch = |cache: &mut Vec<BlockNo>, block| {
        let at = cache.iter().position(|&held| held == block);
        at.map(|at| cache.remove(at)).inspect(|&block| cache.push(block)).is_some()
    };
    let put = |cache: &mut Vec<BlockNo>, block, size| {
        if cache.len() as u64 >= size && !cache.is_empty() {
            cache.remove(0);
        }
        if size > 0 {
            cache.push(block);
        }
    };
    for &(op, block) in stream {
        if op == Direction::Read {
            let (in_ro, in_wbwo) = (touch(&mut ro, block), touch(&mut wbwo, block));
            ro_hits += u64::from(in_ro);
            wbwo_hits += u64::from(in_wbwo && !in_ro);
            if !in_ro {
                put(&mut ro, block, ro_blocks);
            }
        } else {
            ro.retain(|&held| held != block);
            if !touch(&mut wbwo, block) {
                put(&mut wbwo, block, wbwo_blocks);
            }
        }
    }
    (ro_hits, wbwo_hits)
}

fn profile(method: Method, stream: &[(Direction, BlockNo)]) -> JointProfile {
    let mut profiler = JointProfiler::new(method, 7).expect("in range");
    stream.chunks(1000).for_each(|chunk| profiler.access_all(chunk).expect("few blocks"));
    profiler.finish()
}

/// A skewed stream with a third of writes.
fn skewed(accesses: u64, blocks: f64) -> Vec<(Direction, BlockNo)> {
    let mut state = 9_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let mut access = || {
        let op = if next() < 0.33 { Direction::Write } else { Direction::Read };
        (op, (next().powi(3) * blocks) as u64)
    };
    (0..accesses).map(|_| access()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_pair_of_small_sizes_is_exact(
        stream in prop::collection::vec(
            (prop_oneof![Just(Direction::Read), Just(Direction::Write)], 0u64..14), 0..120),
    ) {
        let profile = profile(Method::Exact, &stream);
        for ro_blocks in 0..16 {
            for wbwo_blocks in 0..16 {
                let expected = caches(&stream, ro_blocks, wbwo_blocks);
                prop_assert_eq!(profile.hits(ro_blocks, wbwo_blocks), expected, "{} {}", ro_blocks, wbwo_blocks);
            }
        }
        let reads = stream.iter().filter(|access| access.0 == Direction::Read).count() as u64;
        prop_assert_eq!((profile.reads(), profile.writes()), (reads, stream.len() as u64 - reads));
        let written = stream.iter().filter(|access| access.0 == Direction::Write).map(|access| access.1);
        let written = written.collect::<std::collections::BTreeSet<_>>().len() as u64;
        prop_assert_eq!(profile.written_blocks(), written);
    }
}

#[test]
fn large_sizes_are_close_and_each_level_alone_is_exact() {
    let stream = skewed(30_000, 3000.0);
    let profile = profile(Method::Exact, &stream);
    let (mut ro, mut wbwo) = (RoStack::new(), WbwoStack::new());
    ro.access_all(&stream).expect("few blocks");
    wbwo.access_all(&stream).expect("few blocks");
    assert_eq!(profile.ro_curve().points(), ro.tally().curve().points());
    assert_eq!(profile.wbwo_curve().points(), wbwo.tally().curve().points());
    for (ro_blocks, wbwo_blocks) in [(100, 100), (333, 777), (1500, 200), (47, 2222)] {
        let (found, expected) =
            (profile.hits(ro_blocks, wbwo_blocks), caches(&stream, ro_blocks, wbwo_blocks));
        assert_eq!(found.0, expected.0);
        let error = found.1.abs_diff(expected.1) as f64 / stream.len() as f64;
        assert!(error < 0.002, "{ro_blocks} {wbwo_blocks}: {found:?} instead of {expected:?}");
    }
}

#[test]
fn samples_are_close() {
    let stream = skewed(200_000, 40_000.0);
    let exact = profile(Method::Exact, &stream);
    for method in [Method::LeastRate(0.1), Method::Size(4000)] {
        let sampled = profile(method, &stream);
        assert!(sampled.rate() < 0.3, "{}", sampled.rate());
        assert_eq!((sampled.reads(), sampled.writes()), (exact.reads(), exact.writes()));
        let written = sampled.written_blocks() as f64 / exact.written_blocks() as f64;
        assert!((written - 1.0).abs() < 0.05, "{written} of the written blocks");
        for (ro_blocks, wbwo_blocks) in [(1000, 1000), (4000, 2000), (2000, 16_000)] {
            let share = |hits: (u64, u64)| [hits.0, hits.1].map(|hits| hits as f64 / stream.len() as f64);
            let (found, expected) =
                (share(sampled.hits(ro_blocks, wbwo_blocks)), share(exact.hits(ro_blocks, wbwo_blocks)));
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 0.03, "{method:?}: {found} instead of {expected}");
            }
        }
    }
}

#[test]
fn a_lowered_rate_keeps_what_was_counted() {
    let stream = skewed(60_000, 10_000.0);
    let mut profiler = JointProfiler::new(Method::Exact, 1).expect("in range");
    profiler.access_all(&stream[..30_000]).expect("few blocks");
    let before = profiler.memory_bytes();
    assert!(profiler.lower_rate() && profiler.lower_rate());
    profiler.access_all(&stream[30_000..]).expect("few blocks");
    assert!(profiler.memory_bytes() < 2 * before);
    let (found, exact) = (profiler.finish(), profile(Method::Exact, &stream));
    assert_eq!(found.rate(), 0.25);
    for blocks in [500, 2000, 8000] {
        let (found, exact) = (found.hits(blocks, blocks), exact.hits(blocks, blocks));
        assert!(found.0.abs_diff(exact.0) < 2000 && found.1.abs_diff(exact.1) < 2000, "{found:?} {exact:?}");
    }
}

/// On two threads, or the other way round.
enum Otherwise {
    AtOnce,
    Backwards,
}

impl Both for Otherwise {
    fn both<A: Send, B: Send>(
        &self,
        one: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        match self {
            Otherwise::AtOnce => std::thread::scope(|scope| {
                let one = scope.spawn(one);
                let other = other();
                (one.join().expect("no panic"), other)
            }),
            Otherwise::Backwards => {
                let other = other();
                (one(), other)
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    /// Batches are given one by one, or many at once to two threads: exact, while the sample sinks, and after that.
    #[test]
    fn it_does_not_matter_how_many_batches_come_at_once(
        blocks in 100f64..12_000.0, batch in 1usize..5000, cuts in prop::collection::vec(1usize..20, 1..30),
    ) {
        let stream = skewed(20_000, blocks);
        let batches: Vec<_> = stream.chunks(batch).collect();
        for method in [Method::Exact, Method::Size(64), Method::Size(1500)] {
            let mut one_by_one = JointProfiler::new(method, 7).expect("in range");
            batches.iter().for_each(|batch| one_by_one.access_all(batch).expect("few blocks"));
            let expected = one_by_one.finish();
            for both in [Otherwise::AtOnce, Otherwise::Backwards] {
                let mut profiler = JointProfiler::new(method, 7).expect("in range");
                let mut rest = &batches[..];
                for &cut in cuts.iter().cycle() {
                    let (now, later) = rest.split_at(cut.min(rest.len()));
                    profiler.access_batches(now, &both).expect("few blocks");
                    rest = later;
                    if rest.is_empty() {
                        break;
                    }
                }
                prop_assert_eq!(&profiler.finish(), &expected, "{:?}", method);
            }
        }
    }
}

#[test]
fn methods_without_stacks_are_refused() {
    for method in [Method::LeastRate(0.0), Method::LeastRate(f64::NAN), Method::Size(3), Method::Aet] {
        assert!(matches!(JointProfiler::new(method, 0), Err(ReuseError::InvalidMethod { .. })), "{method:?}");
    }
}
