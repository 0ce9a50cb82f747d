//! Memory that is too small: a sample is followed, the same one whatever the number of threads.

use lode_plan::{CurveOptions, StreamOptions, curves};
use lode_reuse::{CurveKind, Method};
use lode_types::AccessOp;

use crate::common::{Request, merge, stream_options};

/// Two VMs that go round and round over many blocks.
fn large() -> Vec<Request> {
    let pass = |vm| (0..60_000).map(move |at| Request { vm, op: AccessOp::Read, block: at * 2, blocks: 1 });
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
