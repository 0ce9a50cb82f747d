//! What a second shard brings: engines of one volume each, on a thread of its own, whose clients are in the process. Beside it, what
//! the memory that all shards take their buffers from, and nothing else that they have in common, costs them.

mod common;

use std::sync::Barrier;
use std::time::Instant;

use common::{BLOCK, BLOCKS, Bench, read};
use lode_engine::{Buf, GuestOp};
use lode_policy::Quota;

/// Of each shard.
const REQUESTS: u64 = 400_000;
const ROUNDS: usize = 5;

/// What is asked for.
struct Load {
    name: &'static str,
    scheme: &'static str,
    pairs: &'static [&'static str],
    quota: Quota,
    op: fn(u64) -> GuestOp,
}

fn write(i: u64) -> GuestOp {
    let buf = Buf::for_overwrite(BLOCK as usize);
    GuestOp::write((i * 1031 % BLOCKS) * BLOCK, buf, false)
}

/// Requests a second of so many shards together.
fn rate(load: &Load, shards: usize) -> f64 {
    let barrier = Barrier::new(shards + 1);
    std::thread::scope(|scope| {
        for _ in 0..shards {
            scope.spawn(|| {
                let mut bench = Bench::new(load.scheme, load.pairs, load.quota);
                bench.time(4 * BLOCKS, load.op);
                barrier.wait();
                bench.time(REQUESTS, load.op);
                barrier.wait();
            });
        }
        barrier.wait();
        let start = Instant::now();
        barrier.wait();
        shards as f64 * REQUESTS as f64 / start.elapsed().as_secs_f64()
    })
}

fn main() {
    let blocks = BLOCKS as u32;
    let loads = [
        Load {
            name: "hit in DRAM",
            scheme: "etica",
            pairs: &["sizing=off", "assoc=8192"],
            quota: Quota::new(blocks, blocks),
            op: read,
        },
        Load {
            name: "hit on the SSD",
            scheme: "lru",
            pairs: &["write_policy=wb", "assoc=8192"],
            quota: Quota::new(0, blocks),
            op: read,
        },
        Load {
            name: "write to SSD",
            scheme: "lru",
            pairs: &["write_policy=wb", "assoc=8192"],
            quota: Quota::new(0, blocks),
            op: write,
        },
    ];
    for load in loads {
        let mut ratios: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let one = rate(&load, 1);
                rate(&load, 2) / one
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        println!(
            "{:<15} two shards {:.2} times one ({:.2} to {:.2})",
            load.name,
            ratios[ROUNDS / 2],
            ratios[0],
            ratios[ROUNDS - 1]
        );
    }
}
