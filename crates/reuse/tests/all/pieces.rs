//! Streams in pieces and in intervals against the whole; thinned curves against full ones.

use lode_reuse::parallel::{ChunkScan, join};
use lode_reuse::working_set::{WorkingSet, reuse_intensity};
use lode_reuse::{Analyser, Curve, CurveKind, Distances, Method, Metric, Profiler};
use lode_types::Direction::{self, Read, Write};
use proptest::prelude::*;
use std::collections::BTreeSet;

type Trace = Vec<(Direction, u64)>;

fn trace(blocks: u64, len: usize) -> impl Strategy<Value = Trace> {
    let access = (any::<bool>(), 0..blocks).prop_map(|(is_read, b)| (if is_read { Read } else { Write }, b));
    prop::collection::vec(access, 0..len)
}

fn long_trace(seed: u64, blocks: u64, len: usize) -> Trace {
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

fn scan(kind: CurveKind, piece: &[(Direction, u64)]) -> ChunkScan {
    let mut scan = ChunkScan::new(kind).expect("a kind that can be cut");
    piece.chunks(50).for_each(|batch| scan.access_all(batch).expect("few blocks"));
    scan
}

fn whole(kind: CurveKind, trace: &[(Direction, u64)]) -> Curve {
    let mut profiler = Profiler::new(kind, Method::Exact, 0).expect("exact");
    profiler.access_all(trace).expect("few blocks");
    profiler.curve()
}

fn joined(left: ChunkScan, right: ChunkScan) -> ChunkScan {
    join(left, right).expect("few blocks")
}

const CUT: [CurveKind; 3] = [CurveKind::Trd, CurveKind::Urd, CurveKind::Wb];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_cut_gives_the_whole(trace in trace(15, 60)) {
        for kind in CUT {
            let expected = whole(kind, &trace);
            for cut in 0..=trace.len() {
                let (left, right) = trace.split_at(cut);
                let both = joined(scan(kind, left), scan(kind, right));
                prop_assert_eq!(&both.curve(), &expected, "{:?} cut at {}", kind, cut);
            }
        }
    }

    #[test]
    fn joining_is_associative(trace in trace(25, 200), mut cuts in prop::collection::vec(0usize..200, 3)) {
        cuts.iter_mut().for_each(|cut| *cut = (*cut).min(trace.len()));
        cuts.sort_unstable();
        for kind in CUT {
            let pieces = || {
                let bounds = [0, cuts[0], cuts[1], cuts[2], trace.len()];
                let scans: Vec<_> = bounds.windows(2).map(|b| scan(kind, &trace[b[0]..b[1]])).collect();
                <[ChunkScan; 4]>::try_from(scans).expect("four pieces")
            };
            let [a, b, c, d] = pieces();
            let from_left = joined(joined(joined(a, b), c), d);
            let [a, b, c, d] = pieces();
            let as_tree = joined(joined(a, b), joined(c, d));
            let [a, b, c, d] = pieces();
            let from_right = joined(a, joined(b, joined(c, d)));
            let expected = whole(kind, &trace);
            for found in [&from_left, &as_tree, &from_right] {
                prop_assert_eq!(&found.curve(), &expected);
            }
            let distinct: BTreeSet<_> = trace.iter().map(|access| access.1).collect();
            prop_assert_eq!(from_left.distinct_blocks(), distinct.len() as u64);
        }
    }

    #[test]
    fn working_sets_are_counted(trace in trace(30, 200)) {
        let mut set = WorkingSet::new(Method::Exact, 0).expect("exact");
        for window in trace.chunks(23) {
            set.access_all(window).expect("few blocks");
            let distinct: BTreeSet<_> = window.iter().map(|access| access.1).collect();
            prop_assert_eq!(set.distinct_blocks(), distinct.len() as u64);
            set.end_interval();
        }
    }

    #[test]
    fn thinning_errs_as_little_as_so_many_points_can(trace in trace(25, 150), most in 1usize..12) {
        let full = whole(CurveKind::Trd, &trace);
        let thin = full.thin(most);
        prop_assert!(thin.points().len() <= most);
        prop_assert_eq!(thin.blocks_needed(), full.blocks_needed());
        prop_assert_eq!(thin.hits_at(u64::MAX), full.hits_at(u64::MAX));
        let error = |kept: &[u64]| {
            let hits = |size: u64| kept.iter().rev().find(|&&k| k <= size).map_or(0, |&k| full.hits_at(k));
            full.points().iter().map(|p| p.hits - hits(p.size_blocks)).max().unwrap_or(0)
        };
        let kept: Vec<u64> = thin.points().iter().map(|point| point.size_blocks).collect();
        prop_assert!(kept.iter().all(|&size| full.hits_at(size) == thin.hits_at(size)));
        // Every choice of two points and the last one, where three are allowed.
        if most == 3 && full.points().len() > 3 {
            let sizes: Vec<u64> = full.points().iter().map(|point| point.size_blocks).collect();
            let last = sizes[sizes.len() - 1];
            let choices = sizes.iter().flat_map(|&a| sizes.iter().map(move |&b| [a.min(b), a.max(b), last]));
            let best = choices.map(|choice| error(&choice)).min();
            prop_assert_eq!(Some(error(&kept)), best);
        }
    }
}

#[test]
fn long_pieces_give_the_whole() {
    let trace = long_trace(8, 5000, 60_000);
    for kind in CUT {
        let pieces = trace.chunks(7000).map(|piece| scan(kind, piece));
        let all = pieces.reduce(joined).expect("pieces");
        assert_eq!(all.curve(), whole(kind, &trace));
        assert!(all.memory_bytes() > 0);
    }
    for kind in [CurveKind::Ro, CurveKind::Wbwo] {
        assert!(ChunkScan::new(kind).is_err_and(|error| error.to_string().contains("pieces")));
    }
}

#[test]
fn distances_per_interval_are_those_of_the_interval() {
    let trace = long_trace(9, 300, 6000);
    let mut analyser = Distances::new(Metric::Urd);
    let mut profiler = Profiler::new(CurveKind::Urd, Method::Exact, 0).expect("exact");
    for window in trace.chunks(1000) {
        analyser.access_all(window).expect("few blocks");
        profiler.access_all(window).expect("few blocks");
        assert_eq!(profiler.curve().max_distance(), analyser.tally().max().map(u64::from));
        assert_eq!(profiler.curve().blocks_needed(), analyser.tally().blocks_needed());
        analyser.clear_tally();
        profiler.end_interval();
    }
    assert_eq!(profiler.curve().max_distance(), None);
}

#[test]
fn sampled_working_sets_come_near() {
    let trace = long_trace(10, 100_000, 200_000);
    let distinct = trace.iter().map(|access| access.1).collect::<BTreeSet<_>>().len() as f64;
    for method in [Method::LeastRate(0.1), Method::Size(4000)] {
        let mut set = WorkingSet::new(method, 3).expect("in range");
        set.access_all(&trace).expect("few blocks");
        assert!((set.distinct_blocks() as f64 / distinct - 1.0).abs() < 0.04, "{method:?}");
        assert!(set.memory_bytes() < 400_000);
    }
}

#[test]
fn intensity_is_accesses_a_second_and_block() {
    assert_eq!(reuse_intensity(600, 30, 10.0), Some(2.0));
    assert_eq!(reuse_intensity(0, 0, 10.0), Some(0.0));
    for interval_s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(reuse_intensity(600, 30, interval_s), None);
    }
}

/// RPAC, Table 2: how many of a workload's blocks are both read and written.
#[test]
fn working_sets_of_reads_and_writes_overlap_as_in_table_2() {
    let vector = lode_testdata::vector("rpac_table2_overlap");
    let workloads = vector.as_object().expect("workloads");
    let mut compared = 0;
    for workload in workloads.values().filter(|workload| workload.is_object()) {
        // A block stands for the unit of the table.
        let blocks = |key: &str| workload[key].as_u64().expect("a number");
        let (reads, overlap) = (blocks("read"), blocks("overlap"));
        let read = (0..reads).map(|block| (Read, block));
        let written = (reads - overlap..).take(blocks("write") as usize).map(|block| (Write, block));
        let distinct = |accesses: Vec<(Direction, u64)>| {
            let mut set = WorkingSet::new(Method::Exact, 0).expect("exact");
            set.access_all(&accesses).expect("few blocks");
            set.distinct_blocks()
        };
        let both = distinct(read.clone().chain(written.clone()).collect());
        assert_eq!(both, blocks("total"));
        assert_eq!(distinct(read.collect()) + distinct(written.collect()) - both, overlap);
        compared += 1;
    }
    assert_eq!(compared, 2);
}
