//! Curves of merged traces against one analyser fed by hand.

use std::collections::HashSet;

use lode_plan::{CurveOptions, CurveReport, Cut, Interval, Made, curve_page, curves};
use lode_reuse::{CurveKind, Method, Profiler};
use lode_types::Direction;
use proptest::prelude::*;

use crate::common::{Request, merge, merge_at, requests, stream_options, streams};

fn options(kind: CurveKind, threads: usize) -> CurveOptions {
    CurveOptions { stream: stream_options(threads), kind, method: Method::Exact, cut: Default::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn each_vm_has_the_curve_of_its_own_stream(requests in requests(120, 24), threads in 1usize..4) {
        for kind in CurveKind::ALL {
            let found = curves(&mut merge(&requests), &options(kind, threads), &mut |_| {}).expect("curves");
            let streams = streams(&requests);
            prop_assert_eq!(found.vms.len(), streams.len());
            for (vm, (number, stream)) in found.vms.iter().zip(&streams) {
                let mut profiler = Profiler::new(kind, Method::Exact, 0).expect("in range");
                profiler.access_all(stream).expect("few blocks");
                prop_assert_eq!(&vm.facts.name, &format!("host_{number}"));
                let expected = profiler.curve();
                prop_assert_eq!(vm.curve.points(), expected.points());
                prop_assert_eq!(vm.curve.accesses(), stream.len() as u64);
            }
        }
    }

    #[test]
    fn cut_by_time_or_by_vm_is_the_same(requests in requests(120, 24), threads in 1usize..4) {
        for kind in [CurveKind::Trd, CurveKind::Urd, CurveKind::Wb] {
            let by_vm = curves(&mut merge(&requests), &options(kind, threads), &mut |_| {}).expect("curves");
            let by_time = CurveOptions { cut: Cut::Time, ..options(kind, threads) };
            let by_time = curves(&mut merge(&requests), &by_time, &mut |_| {}).expect("curves");
            prop_assert_eq!(by_time.vms.len(), by_vm.vms.len());
            for (by_time, by_vm) in by_time.vms.iter().zip(&by_vm.vms) {
                prop_assert_eq!(&by_time.facts, &by_vm.facts);
                prop_assert_eq!(&by_time.curve, &by_vm.curve);
                prop_assert_eq!(by_time.distinct_blocks, by_vm.distinct_blocks);
            }
        }
    }

    #[test]
    fn intervals_are_cut_by_the_requests_of_all_vms(requests in requests(60, 12), length in 1usize..20) {
        let mut options = options(CurveKind::Trd, 2);
        options.stream.interval = Some(Interval::Requests(length as u64));
        let found = curves(&mut merge(&requests), &options, &mut |_| {}).expect("curves");
        let starts = (0..requests.len()).step_by(length);
        let bounds: Vec<u64> = starts.chain(requests.len().checked_sub(1)).map(|at| at as u64 * 100).collect();
        prop_assert_eq!(&found.bounds_ns, &bounds);
        for (vm, (number, _)) in found.vms.iter().zip(streams(&requests)) {
            let pieces: Vec<_> = requests.chunks(length).collect();
            let first = pieces.iter().position(|piece| piece.iter().any(|request| request.vm == number));
            prop_assert_eq!(Some(vm.facts.first_interval as usize), first);
            let pieces = &pieces[vm.facts.first_interval as usize..];
            prop_assert_eq!(vm.intervals.len(), pieces.len());
            let mut profiler = Profiler::new(CurveKind::Trd, Method::Exact, 0).expect("in range");
            for (interval, piece) in vm.intervals.iter().zip(pieces) {
                let accesses: Vec<_> =
                    streams(piece).into_iter().filter(|(vm, _)| *vm == number).flat_map(|(_, stream)| stream).collect();
                profiler.access_all(&accesses).expect("few blocks");
                let curve = profiler.curve();
                profiler.end_interval();
                let distinct: HashSet<_> = accesses.iter().map(|access| access.1).collect();
                prop_assert_eq!(interval.accesses, accesses.len() as u64);
                prop_assert_eq!(interval.working_set_blocks, distinct.len() as u64);
                prop_assert_eq!(interval.max_distance, curve.max_distance());
                prop_assert_eq!(interval.needed_blocks, curve.blocks_needed());
            }
        }
    }
}

#[test]
fn traces_without_and_with_one_request() {
    for kind in CurveKind::ALL {
        let none = curves(&mut merge(&[]), &options(kind, 2), &mut |_| {}).expect("curves");
        assert!(none.vms.is_empty());
    }
    let request = crate::common::Request { vm: 0, op: lode_types::Direction::Read, block: 3, blocks: 1 };
    let one = curves(&mut merge(&[request]), &options(CurveKind::Trd, 2), &mut |_| {}).expect("curves");
    assert_eq!((one.vms[0].curve.accesses(), one.vms[0].curve.max_distance()), (1, None));
    assert_eq!(one.vms[0].facts.span.usual_ns(), Some((0, 0)));
}

/// One request a second for 20 minutes; at some of them the clock is astray.
#[test]
fn stray_times_leave_all_other_intervals() {
    let second = 1_000_000_000;
    let intervals = |stray: &[(u64, u64)]| {
        let time_s = |at| stray.iter().find(|stray| stray.0 == at).map_or(at, |stray| stray.1);
        let mut options = options(CurveKind::Trd, 2);
        options.stream.interval = Some(Interval::TimeNs(60 * second));
        let mut merge = merge_at((0..1200).map(|at| time_s(at) * second));
        let found = curves(&mut merge, &options, &mut |_| {}).expect("curves");
        assert!(found.bounds_ns.windows(2).all(|pair| pair[0] <= pair[1]), "{:?}", found.bounds_ns);
        assert_eq!(found.bounds_ns.last(), Some(&(1199 * second)));
        found.vms[0].intervals.len()
    };
    assert_eq!(intervals(&[]), 20);
    assert_eq!(intervals(&[(300, 1_000_000)]), 20);
    // Far back, they end none.
    assert_eq!(intervals(&[(650, 1)]), 20);
    // One cut short after 330 s, one after 750 s: 6, 7 and 8 intervals.
    assert_eq!(intervals(&[(330, 1_000_000), (331, 900_000), (750, 1_000_000), (1000, 7)]), 21);
}

/// Whoever opens a page need not know the short names of metrics.
#[test]
fn a_page_says_what_its_metric_stands_for() {
    let access = |at: u64| Request { vm: 0, op: Direction::Read, block: at % 7, blocks: 1 };
    let requests: Vec<Request> = (0..50).map(access).collect();
    for (kind, words) in [
        (CurveKind::Trd, "trd: total reuse distances"),
        (CurveKind::Urd, "urd: useful reuse distances"),
        (CurveKind::Ro, "pod of ro: policy-optimised reuse distances"),
        (CurveKind::Wbwo, "pod of wbwo: policy-optimised"),
        (CurveKind::Wb, "pod of wb: policy-optimised"),
    ] {
        let (mut merge, options) = (merge(&requests), options(kind, 1));
        let found = curves(&mut merge, &options, &mut |_| {}).expect("curves");
        let report = CurveReport::new(&found, &options, &merge, 100);
        let page = curve_page(&report, &Made::default()).expect("a page");
        assert!(page.contains(words), "{words}");
    }
}
