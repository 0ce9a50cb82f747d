//! What is said of the SSD's life, and what follows from it.

use lode_plan::{LevelBytes, Load, SizeOptions, WearReport, measure, size};
use lode_replay::Host;
use lode_reuse::Method;
use lode_types::AccessOp;

use crate::common::{BLOCK_BYTES, Request, merge_paced, stream_options};

/// Every other access writes, to blocks that are read after.
pub fn written_and_read(requests: usize, blocks: u64) -> Vec<Request> {
    let op = |at: usize| if at.is_multiple_of(2) { AccessOp::Write } else { AccessOp::Read };
    (0..requests).map(|at| Request { vm: 0, op: op(at), block: at as u64 / 2 % blocks, blocks: 1 }).collect()
}

pub fn load_of(traces: &[(u64, Vec<Request>)]) -> Load {
    measure(&mut merge_paced(traces), &stream_options(1), Method::Exact, &mut |_| {}).expect("a load")
}

fn wear_of(traces: &[(u64, Vec<Request>)]) -> WearReport {
    let options = SizeOptions {
        objective: Default::default(),
        solver: Default::default(),
        rules: Vec::new(),
        times: Default::default(),
        granule_bytes: 1,
    };
    let levels = LevelBytes { dram_bytes: 0, ssd_bytes: 1 << 20 };
    let load = load_of(traces);
    let total = size(&load, levels, &options).expect("a plan").total;
    let host = Host::find("default").expect("a host");
    WearReport::new(&load, &host, levels.ssd_bytes, total.ssd_writes, total.ssd_writes_per_s)
}

#[test]
fn a_long_trace_beside_it_does_not_make_an_ssd_last() {
    let busy = (1_000, written_and_read(1001, 16));
    let calm = (100_000, written_and_read(1001, 16));
    let [alone, other] = [&busy, &calm].map(|trace| wear_of(std::slice::from_ref(trace)));
    let both = wear_of(&[busy, calm]);
    // 501 blocks in a second.
    let a_day = 501.0 * BLOCK_BYTES as f64 * 86_400.0;
    assert!((alone.bytes_per_day.expect("a span") / a_day - 1.0).abs() < 1e-9);
    let sum = [alone, other].map(|wear| wear.bytes_per_day.expect("a span")).iter().sum::<f64>();
    assert!((both.bytes_per_day.expect("a span") / sum - 1.0).abs() < 1e-9);
    assert!(both.life_years < alone.life_years && alone.life_years.is_some());
    assert_eq!((both.written_bytes, both.span_s), (1002 * BLOCK_BYTES, Some(100.0)));
}
