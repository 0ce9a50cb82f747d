//! Two levels at once against two caches run on the same stream.

use lode_reuse::{CurveKind, JointHits, JointProfiler, Method, Profiler};
use lode_types::AccessOp::{self, Read, Write};
use proptest::prelude::*;

/// An LRU cache of one level; says whether the access hit.
struct Level {
    keeps_reads: bool,
    size: usize,
    lru: Vec<u64>,
}

impl Level {
    fn access(&mut self, op: AccessOp, block: u64) -> bool {
        let place = self.lru.iter().position(|&b| b == block);
        place.map(|place| self.lru.remove(place));
        let keeps = match op {
            Read => self.keeps_reads || place.is_some(),
            Write => !self.keeps_reads,
        };
        if keeps && self.size > 0 {
            if self.lru.len() == self.size {
                self.lru.remove(0);
            }
            self.lru.push(block);
        }
        place.is_some()
    }
}

fn two_caches(trace: &[(AccessOp, u64)], dram: u64, ssd: u64) -> JointHits {
    let level = |keeps_reads, size: u64| Level { keeps_reads, size: size as usize, lru: Vec::new() };
    let (mut dram, mut ssd) = (level(true, dram), level(false, ssd));
    let mut hits = JointHits { dram: 0, ssd_beyond_dram: 0 };
    for &(op, block) in trace {
        let (in_dram, in_ssd) = (dram.access(op, block), ssd.access(op, block));
        hits.dram += u64::from(op == Read && in_dram);
        hits.ssd_beyond_dram += u64::from(op == Read && !in_dram && in_ssd);
    }
    hits
}

fn profiler(method: Method, salt: u64, trace: &[(AccessOp, u64)]) -> JointProfiler {
    let mut profiler = JointProfiler::new(method, salt).expect("in range");
    trace.chunks(100).for_each(|batch| profiler.access_all(batch).expect("few blocks"));
    profiler
}

fn long_trace(seed: u64, blocks: u64, len: usize) -> Vec<(AccessOp, u64)> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    let mut access = || {
        let op = if next() % 10 < 4 { Write } else { Read };
        let range = if next() % 3 == 0 { blocks } else { blocks / 8 + 1 };
        (op, next() % range)
    };
    (0..len).map(|_| access()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn all_pairs_of_sizes_are_those_of_two_caches(
        accesses in prop::collection::vec((any::<bool>(), 0u64..14), 0..160),
    ) {
        let trace: Vec<_> = accesses.iter().map(|&(is_read, b)| (if is_read { Read } else { Write }, b)).collect();
        let curve = profiler(Method::Exact, 0, &trace).curve();
        for dram in 0..17 {
            for ssd in 0..17 {
                prop_assert_eq!(curve.hits(dram, ssd), two_caches(&trace, dram, ssd), "{} and {}", dram, ssd);
            }
        }
        let written: std::collections::BTreeSet<_> = trace.iter().filter(|a| a.0 == Write).map(|a| a.1).collect();
        prop_assert_eq!(curve.written_blocks(), written.len() as u64);
        prop_assert_eq!(curve.reads() + curve.writes(), trace.len() as u64);
    }
}

#[test]
fn ends_of_bins_are_exact_and_sizes_between_count_as_the_smaller_end() {
    let trace = long_trace(3, 900, 20_000);
    let curve = profiler(Method::Exact, 0, &trace).curve();
    let dram: Vec<u64> = curve.dram_sizes().filter(|&size| size > 30).step_by(17).collect();
    let ssd: Vec<u64> = curve.ssd_sizes().filter(|&size| size > 30).step_by(23).collect();
    assert!(dram.len() > 3 && ssd.len() > 2);
    for &dram in &dram {
        for &ssd in &ssd {
            let expected = two_caches(&trace, dram, ssd);
            assert_eq!(curve.hits(dram, ssd), expected);
            assert_eq!(curve.hits(dram + 1, ssd + 1), expected);
        }
    }
    assert_eq!(curve.hits(u64::MAX, u64::MAX), two_caches(&trace, 1000, 1000));
}

#[test]
fn each_level_alone_is_its_curve() {
    let trace = long_trace(4, 5000, 60_000);
    let joint = profiler(Method::Exact, 0, &trace).curve();
    let single = |kind| {
        let mut profiler = Profiler::new(kind, Method::Exact, 0).expect("exact");
        profiler.access_all(&trace).expect("few blocks");
        profiler.curve()
    };
    let (ro, wbwo) = (single(CurveKind::Ro), single(CurveKind::Wbwo));
    for size in joint.dram_sizes() {
        assert_eq!(joint.hits(size, 0), JointHits { dram: ro.hits_at(size), ssd_beyond_dram: 0 });
    }
    for size in joint.ssd_sizes() {
        assert_eq!(joint.hits(0, size), JointHits { dram: 0, ssd_beyond_dram: wbwo.hits_at(size) });
    }
}

#[test]
fn samples_come_near() {
    let trace = long_trace(5, 30_000, 150_000);
    let exact = profiler(Method::Exact, 0, &trace).curve();
    let mut lowered = profiler(Method::Exact, 1, &trace[..75_000]);
    assert!(lowered.lower_rate() && lowered.lower_rate());
    lowered.access_all(&trace[75_000..]).expect("few blocks");
    for (name, sampled) in [
        ("rate", profiler(Method::Rate(0.1), 7, &trace)),
        ("size", profiler(Method::Size(3500), 7, &trace)),
        ("lowered", lowered),
    ] {
        assert!(sampled.rate() < 0.3, "{name}");
        let curve = sampled.curve();
        assert_eq!((curve.reads(), curve.accesses()), (exact.reads(), exact.accesses()));
        let written = curve.written_blocks() as f64 / exact.written_blocks() as f64;
        assert!((written - 1.0).abs() < 0.05, "{name}: {written} of the written blocks");
        for dram in [0, 1000, 5000, 15_000] {
            for ssd in [0, 1000, 5000, 15_000] {
                let (found, expected) = (curve.hits(dram, ssd), exact.hits(dram, ssd));
                let off =
                    |found: u64, expected: u64| (found as f64 - expected as f64).abs() / exact.reads() as f64;
                assert!(off(found.dram, expected.dram) < 0.03, "{name}: {found:?}, not {expected:?}");
                let off = off(found.ssd_beyond_dram, expected.ssd_beyond_dram);
                assert!(off < 0.03, "{name}: {found:?}, not {expected:?} at {dram} and {ssd}");
            }
        }
    }
}

#[test]
fn intervals_start_again_with_their_history() {
    let trace = long_trace(6, 500, 9000);
    let whole = profiler(Method::Exact, 0, &trace).curve();
    let mut parts = JointProfiler::new(Method::Exact, 0).expect("exact");
    let mut sum = 0;
    for part in trace.chunks(3000) {
        parts.access_all(part).expect("few blocks");
        sum += parts.curve().hits(31, 31).dram;
        parts.end_interval();
    }
    assert_eq!(sum, whole.hits(31, 31).dram);
    assert_eq!(parts.curve().reads(), 0);
    assert!(JointProfiler::new(Method::Aet, 0).is_err());
}
