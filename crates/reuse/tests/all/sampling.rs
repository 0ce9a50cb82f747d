//! Sampled curves against exact ones: how far off they are, and whether they know it.

use lode_reuse::{Curve, CurveKind, Distances, LEAST_BLOCKS, Method, Metric, Profiler, ReuseError, Sample};
use lode_types::Direction::{Read, Write};
use proptest::prelude::*;

use crate::traces::{self, Trace};

/// Sizes, evenly spaced, at which curves are compared.
const SIZES: u64 = 200;

fn profiler(kind: CurveKind, method: Method, salt: u64, trace: &Trace) -> Profiler {
    let mut profiler = Profiler::new(kind, method, salt).expect("the method's parameter is in range");
    for batch in trace.chunks(4096) {
        profiler.access_all(batch).expect("few blocks");
    }
    profiler
}

fn curve(kind: CurveKind, method: Method, salt: u64, trace: &Trace) -> Curve {
    profiler(kind, method, salt, trace).curve()
}

fn sizes(exact: &Curve) -> impl Iterator<Item = u64> {
    let needed = exact.blocks_needed();
    (1..=SIZES).map(move |number| needed * number / SIZES)
}

fn mean_absolute_error(exact: &Curve, estimated: &Curve) -> f64 {
    let error = |size| (exact.hit_ratio_at(size) - estimated.hit_ratio_at(size)).abs();
    sizes(exact).map(error).sum::<f64>() / SIZES as f64
}

/// Reads and writes of a few sequential runs and many single blocks, by a seed.
fn mixed_trace(seed: u64, blocks: u64, len: usize) -> Trace {
    let mut state = seed | 1;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    let mut trace = Trace::new();
    while trace.len() < len {
        let op = if next() % 10 < 3 { Write } else { Read };
        let (first, run) = match next() % 8 {
            0 => (next() % blocks, next() % 64),
            1..=3 => (next() % blocks, 1),
            _ => (next() % (blocks / 16 + 1), 1),
        };
        trace.extend((first..first + run).map(|block| (op, block % blocks)));
    }
    trace.truncate(len);
    trace
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_sample_of_everything_is_exact(seed in any::<u64>(), blocks in 1u64..3000) {
        let trace = mixed_trace(seed, blocks, 6000);
        for kind in CurveKind::ALL {
            let exact = curve(kind, Method::Exact, 0, &trace);
            prop_assert_eq!(&curve(kind, Method::LeastRate(1.0), seed, &trace), &exact);
            prop_assert_eq!(&curve(kind, Method::Size(3000), seed, &trace), &exact);
            prop_assert_eq!(exact.standard_error_at(100), Some(0.0));
            prop_assert_eq!(exact.rate(), 1.0);
        }
    }

    #[test]
    fn what_is_counted_is_counted_whatever_the_method(seed in any::<u64>(), blocks in 100u64..3000) {
        let trace = mixed_trace(seed, blocks, 6000);
        let reads = trace.iter().filter(|access| access.0 == Read).count() as u64;
        for kind in CurveKind::ALL {
            for method in [Method::Exact, Method::LeastRate(0.2), Method::Size(64)] {
                let mut profiler = profiler(kind, method, seed, &trace);
                let curve = profiler.curve();
                let able = if kind == CurveKind::Trd { trace.len() as u64 } else { reads };
                prop_assert_eq!((curve.accesses(), curve.reads()), (trace.len() as u64, reads));
                prop_assert!(curve.hits_at(u64::MAX) <= able && curve.followed_accesses() <= curve.accesses());
                let rises = |w: &[lode_reuse::CurvePoint]| w[0].size_blocks < w[1].size_blocks && w[0].hits < w[1].hits;
                prop_assert!(curve.points().windows(2).all(rises));
                profiler.end_interval();
                let after = profiler.curve();
                prop_assert_eq!((after.accesses(), after.points().len(), after.followed_accesses()), (0, 0, 0));
            }
        }
    }

    #[test]
    fn history_outlives_an_interval(seed in any::<u64>()) {
        let trace = mixed_trace(seed, 2000, 8000);
        for kind in CurveKind::ALL {
            let whole = curve(kind, Method::Exact, 0, &trace).hits_at(u64::MAX);
            let mut profiler = Profiler::new(kind, Method::Exact, 0).expect("exact");
            let mut sum = 0;
            for window in trace.chunks(1500) {
                profiler.access_all(window).expect("few blocks");
                sum += profiler.curve().hits_at(u64::MAX);
                profiler.end_interval();
            }
            prop_assert_eq!(sum, whole);
        }
    }
}

#[test]
fn the_rate_sinks_with_the_blocks_and_the_memory_with_the_rate() {
    let trace = mixed_trace(5, 40_000, 300_000);
    for kind in CurveKind::ALL {
        let sized = profiler(kind, Method::Size(1000), 3, &trace);
        let exact = profiler(kind, Method::Exact, 3, &trace);
        let followed = sized.distinct_blocks() as f64 * sized.rate();
        assert!((700.0..=1000.5).contains(&followed), "{kind:?}: {followed} blocks");
        let distinct = sized.distinct_blocks() as f64 / exact.distinct_blocks() as f64;
        assert!((distinct - 1.0).abs() < 0.1, "{kind:?}: {distinct} of the distinct blocks");
        assert!(sized.memory_bytes() < 128_000, "{kind:?}: {} bytes", sized.memory_bytes());
        let mut lowered = exact;
        let before = lowered.memory_bytes();
        let whole = lowered.curve();
        assert!(lowered.lower_rate() && lowered.lower_rate() && lowered.lower_rate());
        assert_eq!(lowered.rate(), 0.125);
        assert!(
            lowered.memory_bytes() < before / 2,
            "{kind:?}: {} of {before} bytes",
            lowered.memory_bytes()
        );
        // What was counted exactly stays exact, to within the width of a bin.
        assert!(mean_absolute_error(&whole, &lowered.curve()) < 0.002);
        while lowered.lower_rate() {}
        assert!(lowered.distinct_blocks() as f64 * lowered.rate() < 128.0);
    }
}

#[test]
fn lowering_the_rate_on_the_way_keeps_the_curve() {
    let trace = mixed_trace(9, 60_000, 300_000);
    for kind in CurveKind::ALL {
        let exact = curve(kind, Method::Exact, 0, &trace);
        let mut errors = Vec::new();
        for salt in 0..3 {
            let mut profiler = Profiler::new(kind, Method::Exact, salt).expect("exact");
            for part in trace.chunks(60_000) {
                profiler.access_all(part).expect("few blocks");
                assert!(profiler.lower_rate());
            }
            assert_eq!(profiler.rate(), 1.0 / 32.0);
            errors.push(mean_absolute_error(&exact, &profiler.curve()));
        }
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        assert!(mean < 0.01, "{kind:?}: {errors:?}");
    }
}

#[test]
fn the_standard_error_covers_the_truth() {
    let trace = mixed_trace(11, 30_000, 120_000);
    for kind in CurveKind::ALL {
        let exact = curve(kind, Method::Exact, 0, &trace);
        for method in [Method::Size(2000), Method::Size(600)] {
            let (mut within, mut all, mut error, mut said) = (0, 0, 0.0, 0.0);
            for salt in 0..8 {
                let estimated = curve(kind, method, salt, &trace);
                for size in sizes(&exact) {
                    let sigma = estimated.standard_error_at(size).expect("sampled");
                    let off = (estimated.hit_ratio_at(size) - exact.hit_ratio_at(size)).abs();
                    within += u32::from(off <= 3.0 * sigma);
                    all += 1;
                    error += off * off;
                    said += sigma * sigma;
                }
            }
            let share = f64::from(within) / f64::from(all);
            assert!(share >= 0.97, "{kind:?} {method:?}: {share} within three standard errors");
            // And it does not cry wolf: not many times the error that there is.
            let ratio = (said / error).sqrt();
            assert!((0.6..4.0).contains(&ratio), "{kind:?} {method:?}: says {ratio} times the error");
        }
    }
}

#[test]
fn large_traces_are_met_within_one_percent() {
    for (name, trace) in traces::large() {
        let kinds = if name == "cloudphysics-2h" { &CurveKind::ALL[..4] } else { &CurveKind::ALL[..1] };
        for &kind in kinds {
            let exact = curve(kind, Method::Exact, 0, &trace);
            let rate = Method::LeastRate(0.001);
            for (method, salt) in [(rate, 0), (rate, 1), (rate, 2), (Method::default(), 0)] {
                let sampled = profiler(kind, method, salt, &trace);
                assert!(sampled.rate() < 0.2 && sampled.curve().rate() == sampled.rate(), "{name}");
                let error = mean_absolute_error(&exact, &sampled.curve());
                assert!(error < 0.01, "{name}, {kind:?}, {method:?}, salt {salt}: {error}");
            }
        }
    }
}

/// Fixed-rate SHARDS word by word: hits of a cache of so many blocks, from depths in the stream of followed accesses.
fn plain_hits(depths: &[Option<u32>], rate: f64, accesses: usize, size: f64) -> u64 {
    let is_miss = |depth: &&Option<u32>| depth.is_none_or(|depth| (f64::from(depth) + 0.5) / rate > size);
    let misses = depths.iter().filter(is_miss).count() as f64 / rate;
    accesses as u64 - (misses.round() as u64).min(accesses as u64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_rate_that_is_reached_is_a_plain_sample_of_that_rate(seed in any::<u64>(), salt in any::<u64>(), rate in 0.1f64..0.4) {
        let blocks = (1.5 * f64::from(LEAST_BLOCKS) / rate) as u64;
        let first: Trace = (0..blocks).map(|block| (Read, block)).collect();
        let then = mixed_trace(seed, blocks, 60_000);
        let mut profiler = profiler(CurveKind::Trd, Method::LeastRate(rate), salt, &first);
        prop_assert!((profiler.rate() - rate).abs() < 1e-12);
        profiler.end_interval();
        then.chunks(777).for_each(|batch| profiler.access_all(batch).expect("few blocks"));

        let plain = Sample::at_rate(rate, salt).expect("in range");
        let mut stack = Distances::new(Metric::Trd);
        let mut depths = Vec::new();
        for (at, &(op, block)) in first.iter().chain(&then).enumerate().filter(|(_, access)| plain.follows(access.1)) {
            let reuse = stack.access(op, block).expect("few blocks");
            if at >= first.len() {
                depths.push(reuse.map(|reuse| reuse.distance));
            }
        }
        let curve = profiler.curve();
        prop_assert_eq!(curve.followed_accesses(), depths.len() as u64);
        prop_assert_eq!(curve.hits_at(u64::MAX), plain_hits(&depths, rate, then.len(), f64::INFINITY));
        for size in (blocks / 50..blocks).step_by(blocks as usize / 50) {
            // Sizes are kept in bins of one in 256.
            let [least, most] = [0.99, 1.01].map(|part| plain_hits(&depths, rate, then.len(), size as f64 * part));
            prop_assert!((least..=most).contains(&curve.hits_at(size)), "{} of {least} to {most} at {size}", curve.hits_at(size));
        }
    }
}

#[test]
fn few_blocks_are_followed_one_by_one_whatever_the_rate() {
    let trace = mixed_trace(3, u64::from(LEAST_BLOCKS), 30_000);
    for kind in CurveKind::ALL {
        let sampled = profiler(kind, Method::LeastRate(0.001), 5, &trace);
        assert_eq!((sampled.rate(), sampled.curve()), (1.0, curve(kind, Method::Exact, 0, &trace)));
        // Ten times as many: as few as may be, and the same ones in every run.
        let trace = mixed_trace(4, 10 * u64::from(LEAST_BLOCKS), 200_000);
        let sampled = profiler(kind, Method::LeastRate(0.001), 5, &trace);
        let followed = sampled.distinct_blocks() as f64 * sampled.rate() / f64::from(LEAST_BLOCKS);
        assert!((0.8..1.001).contains(&followed) && sampled.rate() > 0.05, "{kind:?}: {followed}");
        assert_eq!(sampled.curve(), curve(kind, Method::LeastRate(0.001), 5, &trace));
    }
}

#[test]
fn parameters_out_of_range_are_refused() {
    for method in [
        Method::LeastRate(0.0),
        Method::LeastRate(-1.0),
        Method::LeastRate(f64::NAN),
        Method::LeastRate(1.5),
        Method::Size(63),
    ] {
        let refused = Profiler::new(CurveKind::Trd, method, 0).map(|_| ());
        assert!(matches!(refused, Err(ReuseError::InvalidMethod { .. })), "{method:?}");
    }
}
