//! One large VM: what several threads find of it is what one finds.

use lode_plan::{CurveOptions, Cut, Interval, StreamOptions, curves, measure};
use lode_reuse::{CurveKind, Method};
use lode_types::Direction;

use crate::common::{Request, merge, stream_options};

/// Enough accesses for a second thread to be worth it, low blocks more often than high ones.
fn requests() -> Vec<Request> {
    let mut state = 3_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut request = || {
        let op = if random(10) < 4 { Direction::Write } else { Direction::Read };
        Request { vm: 0, op, block: random(5000) * random(5000) / 1000, blocks: 8 }
    };
    (0..40_000).map(|_| request()).collect()
}

#[test]
fn both_levels_at_once() {
    let requests = requests();
    // Exactly; with a sample that sinks on the way; and with one that sinks because the memory is small.
    for (method, memory_bytes) in
        [(Method::Exact, 1 << 30), (Method::Size(3000), 1 << 30), (Method::Exact, 1 << 19)]
    {
        let measured = |threads: usize| {
            let options = StreamOptions { memory_bytes, ..stream_options(threads) };
            let load = measure(&mut merge(&requests), &options, method, &mut |_| {}).expect("a load");
            (load.vms[0].profile.clone(), load.shrinks)
        };
        let one = measured(1);
        assert_eq!(
            (one.0.rate() < 1.0, one.1 > 0),
            (method != Method::Exact || memory_bytes < 1 << 30, memory_bytes < 1 << 30)
        );
        for threads in [2, 3, 8] {
            assert_eq!(measured(threads), one, "{method:?} with {threads} threads");
        }
    }
}

#[test]
fn whole_and_intervals_at_once() {
    let requests = requests();
    let found = |threads: usize| {
        let stream = StreamOptions { interval: Some(Interval::Requests(7777)), ..stream_options(threads) };
        let options = CurveOptions { stream, kind: CurveKind::Wbwo, method: Method::Exact, cut: Cut::Vms };
        let vm = curves(&mut merge(&requests), &options, &mut |_| {}).expect("curves").vms.remove(0);
        (vm.curve, vm.intervals)
    };
    let one = found(1);
    assert_eq!(one.1.len(), 6);
    for threads in [2, 5] {
        assert_eq!(found(threads), one, "{threads} threads");
    }
}
