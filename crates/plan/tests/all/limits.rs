//! Memory that is too small: a sample is followed, the same one whatever the number of threads.

use lode_plan::{CurveOptions, StreamOptions, curves, method_used};
use lode_reuse::{CurveKind, Method};
use lode_types::Direction;

use crate::common::{Request, merge, stream_options};

/// Two VMs that go round and round over many blocks.
fn large() -> Vec<Request> {
    let pass = |vm| (0..60_000).map(move |at| Request { vm, op: Direction::Read, block: at * 2, blocks: 1 });
    (0..2).flat_map(|_| pass(0).chain(pass(1))).collect()
}

#[test]
fn a_sample_fits_the_memory_and_does_not_depend_on_threads() {
    let requests = large();
    let run = |threads, memory_bytes| {
        let stream = StreamOptions { memory_bytes, ..stream_options(threads) };
        let options =
            CurveOptions { stream, kind: CurveKind::Trd, method: Method::Exact, cut: Default::default() };
        curves(&mut merge(&requests), &options, &mut |_| {}).expect("curves")
    };
    let exact = run(1, 1 << 30);
    assert_eq!((exact.shrinks, exact.vms[0].rate), (0, 1.0));
    let sampled = run(1, 1 << 20);
    assert!(sampled.shrinks > 0 && sampled.vms.iter().all(|vm| vm.rate < 1.0), "{}", sampled.shrinks);
    for threads in 2..4 {
        let again = run(threads, 1 << 20);
        for (vm, other) in sampled.vms.iter().zip(&again.vms) {
            assert_eq!((vm.rate, vm.curve.points()), (other.rate, other.curve.points()), "{threads} threads");
        }
    }
    for (vm, exact) in sampled.vms.iter().zip(&exact.vms) {
        // Every block is read twice, and only a cache of nearly all of them helps.
        assert!((vm.curve.hit_ratio_at(u64::MAX) - exact.curve.hit_ratio_at(u64::MAX)).abs() < 0.02);
        let error = vm.curve.blocks_needed().abs_diff(exact.curve.blocks_needed());
        assert!(error < 6_000, "{} instead of {}", vm.curve.blocks_needed(), exact.curve.blocks_needed());
    }
}

/// A batch of more blocks than any table holds, and a sample that is bounded by itself.
#[test]
fn a_sample_of_fixed_size_keeps_its_size_whatever_a_batch_covers() {
    let blocks = 1 << 17;
    let request = |at| Request { vm: 0, op: Direction::Write, block: at * blocks, blocks };
    let requests: Vec<Request> = (0..48).map(request).collect();
    let stream = StreamOptions { memory_bytes: 32 << 20, ..stream_options(1) };
    let run = |size| {
        let method = Method::Size(size);
        let options = CurveOptions { stream, kind: CurveKind::Wbwo, method, cut: Default::default() };
        curves(&mut merge(&requests), &options, &mut |_| {}).expect("curves")
    };
    let found = run(8192);
    let followed = found.vms[0].rate * (48 * blocks) as f64;
    assert_eq!(found.shrinks, 0);
    assert!((6_500.0..8_300.0).contains(&followed), "{followed}");
    // What does not fit is no longer called what was asked for.
    let found = run(1 << 24);
    let rates = || found.vms.iter().map(|vm| vm.rate);
    assert!(found.shrinks > 0 && rates().all(|rate| rate < 1.0));
    assert!(method_used(Method::Size(1 << 24), found.shrinks, rates()).starts_with("rate="));
    assert_eq!(method_used(Method::Size(1 << 24), 0, rates()), "size=16777216");
}
