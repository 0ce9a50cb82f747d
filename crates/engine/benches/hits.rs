//! What a request costs the engine itself: 4 KiB hits in DRAM and on an SSD that is memory, one at a time.

mod common;

use std::time::Instant;

use common::{BLOCK, BLOCKS, Bench, read};
use lode_engine::{Buf, GuestOp};
use lode_policy::Quota;

const REQUESTS: u64 = 1_000_000;

fn main() {
    let mut bench = dram("sizing=off");
    let before = bench.engine.counters().read_hits[0];
    let ns = bench.time(REQUESTS, read);
    assert_eq!(bench.engine.counters().read_hits[0] - before, REQUESTS, "all are hits in DRAM");
    println!("hit in DRAM:    {ns:7.0} ns a request");
    let mut measuring = dram("sizing=on");
    let more_ns = measuring.time(REQUESTS, read) - bench.time(REQUESTS, read);
    println!("its distance:   {more_ns:7.0} ns a block");

    let ssd = ["write_policy=wb", "assoc=8192"];
    let mut bench = Bench::new("lru", &ssd, Quota::new(0, BLOCKS as u32));
    bench.time(4 * BLOCKS, read);
    let before = bench.engine.counters().read_hits[1];
    let ns = bench.time(REQUESTS / 4, read);
    assert_eq!(bench.engine.counters().read_hits[1] - before, REQUESTS / 4, "all are hits on the SSD");
    println!("hit on the SSD: {ns:7.0} ns a request");

    let write = |i: u64| {
        let buf = Buf::for_overwrite(BLOCK as usize);
        GuestOp::write((i * 1031 % BLOCKS) * BLOCK, buf, false)
    };
    let ns = bench.time(REQUESTS / 4, write);
    println!("write to SSD:   {ns:7.0} ns a request");

    let start = Instant::now();
    const LOOKS: u32 = 10_000;
    (0..LOOKS).for_each(|_| {
        std::hint::black_box(bench.engine.gauges());
    });
    println!("gauges:         {:7.0} ns", f64::from(start.elapsed().as_nanos() as u32) / f64::from(LOOKS));
}

/// Everything in DRAM.
fn dram(sizing: &str) -> Bench {
    let mut bench = Bench::new("etica", &[sizing, "assoc=8192"], Quota::new(BLOCKS as u32, BLOCKS as u32));
    bench.time(4 * BLOCKS, read);
    bench
}
