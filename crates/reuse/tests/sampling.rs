//! Sampled curves against exact ones: how far off they are, and whether they know it.

use lode_reuse::{Curve, CurveKind, Method, Profiler, ReuseError};
use lode_types::AccessOp::{Read, Write};
use proptest::prelude::*;

#[path = "common/traces.rs"]
mod traces;

use traces::Trace;

/// Traces with more than 100,000 requests.
const LARGE: [&str; 5] = ["cloudphysics-2h", "cloudphysics-w106", "arc-oltp", "arc-p3", "arc-p6"];

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
            prop_assert_eq!(&curve(kind, Method::Rate(1.0), seed, &trace), &exact);
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
            for method in [Method::Exact, Method::Rate(0.2), Method::Size(64)] {
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
        assert!(sized.memory_bytes() < 120_000, "{kind:?}: {} bytes", sized.memory_bytes());
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
        for method in [Method::Rate(0.02), Method::Size(600)] {
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

/// Mean absolute errors over a few salts.
fn errors(exact: &Curve, method: Method, trace: &Trace) -> Vec<f64> {
    (0..3).map(|salt| mean_absolute_error(exact, &curve(CurveKind::Trd, method, salt, trace))).collect()
}

#[test]
fn real_traces_are_met_within_one_percent() {
    for name in LARGE {
        let Some(trace) = traces::trace(name) else { return };
        let exact = profiler(CurveKind::Trd, Method::Exact, 0, &trace);
        let distinct = exact.distinct_blocks();
        let exact = exact.curve();
        let method = Method::recommended(distinct);
        assert!(matches!(method, Method::Rate(rate) if rate < 0.2), "{name}: {method:?}");
        for method in [method, Method::default()] {
            let errors = errors(&exact, method, &trace);
            assert!(errors.iter().all(|&error| error < 0.01), "{name}, {method:?}: {errors:?}");
        }
        // 100 to 300 blocks are too few for one percent on every trace; this is what they give.
        let errors = errors(&exact, Method::Rate(0.001), &trace);
        assert!(errors.iter().sum::<f64>() / 3.0 < 0.06, "{name}: {errors:?}");
    }
}

#[test]
fn the_recommended_sample_has_enough_blocks() {
    assert_eq!(Method::recommended(0), Method::Exact);
    assert_eq!(Method::recommended(40_000), Method::Exact);
    assert_eq!(Method::recommended(1 << 20), Method::Rate(1.0 / 64.0));
    assert_eq!(Method::recommended(1 << 30), Method::Rate(0.001));
}

#[test]
fn parameters_out_of_range_are_refused() {
    for method in
        [Method::Rate(0.0), Method::Rate(-1.0), Method::Rate(f64::NAN), Method::Rate(1.5), Method::Size(63)]
    {
        let refused = Profiler::new(CurveKind::Trd, method, 0).map(|_| ());
        assert!(matches!(refused, Err(ReuseError::InvalidMethod { .. })), "{method:?}");
    }
}
