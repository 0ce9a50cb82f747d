//! Rate of exact distances and curves beside a yardstick, one hash-map look-up or insertion a request, and beside the
//! distances of all accesses (TRD).
//!
//! `cargo bench -p lode-reuse` (about a minute); `LODE_BENCH_QUICK=1` takes a twentieth of the requests.

use common::{WRITES_PERCENT, ZIPF_EXPONENT, zipf_trace};
use lode_reuse::{Analyser, Distances, Metric, RoStack, WbwoStack};
use lode_types::Direction;
use std::hint::black_box;
use std::time::Instant;

mod common;

const REQUESTS: usize = 20_000_000;
const BLOCKS: usize = 2_000_000;
const ROUNDS: usize = 3;

/// Requests handed to an analyser at once.
const BATCH: usize = 4096;

/// Seconds of one run.
fn seconds(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

fn yardstick(trace: &[(Direction, u64)]) -> f64 {
    seconds(|| {
        let mut ids: hashbrown::HashMap<u64, u32> = hashbrown::HashMap::new();
        let mut sum = 0u64;
        for &(_, block) in trace {
            let next = ids.len() as u32;
            sum += u64::from(*ids.entry(block).or_insert(next));
        }
        black_box(sum);
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let is_quick = std::env::var_os("LODE_BENCH_QUICK").is_some();
    let share = if is_quick { 20 } else { 1 };
    let (requests, blocks) = (REQUESTS / share, BLOCKS / share);
    let trace = zipf_trace(requests, blocks);
    println!("{requests} requests, zipf({ZIPF_EXPONENT}) on {blocks} blocks, {WRITES_PERCENT} % writes");

    let mut times: [Vec<f64>; 5] = Default::default();
    let (mut bytes, mut wbwo_bytes, mut distinct, mut written) = (0, 0, 0, 0);
    for _ in 0..ROUNDS {
        times[0].push(yardstick(&trace));
        for (at, metric) in [(1, Metric::Trd), (2, Metric::PodWbwo)] {
            let mut analyser = Distances::new(metric);
            times[at].push(seconds(|| {
                for batch in trace.chunks(BATCH) {
                    analyser.access_all(batch).expect("fewer blocks than the limit");
                }
                black_box(analyser.tally().curve());
            }));
            if metric == Metric::Trd {
                (bytes, distinct) = (analyser.memory_bytes(), analyser.distinct_blocks());
            } else {
                written = analyser.distinct_blocks();
            }
        }
        let mut stack = RoStack::new();
        times[3].push(seconds(|| {
            for batch in trace.chunks(BATCH) {
                stack.access_all(batch).expect("fewer blocks than the limit");
            }
            black_box(stack.tally().curve());
        }));
        let mut stack = WbwoStack::new();
        times[4].push(seconds(|| {
            for batch in trace.chunks(BATCH) {
                stack.access_all(batch).expect("fewer blocks than the limit");
            }
            black_box(stack.tally().curve());
        }));
        wbwo_bytes = stack.memory_bytes();
    }
    let names = [
        "hashbrown look-up or insert",
        "exact TRD curve",
        "exact POD(WBWO) distances",
        "exact RO curve with holes",
        "exact WBWO curve",
    ];
    for (name, own) in names.iter().zip(&times) {
        let rate = requests as f64 / median(own.clone()) / 1e6;
        let ratio_to =
            |other: &[f64]| median(other.iter().zip(own).map(|(other, own)| other / own).collect());
        let (map, trd) = (ratio_to(&times[0]), 1.0 / ratio_to(&times[1]));
        println!(
            "{name:<28}{rate:>7.1} million requests/s, {map:.2} of the yardstick, {trd:.2} times TRD's time"
        );
    }
    println!("exact TRD: {:.1} bytes per distinct block ({distinct} blocks)", bytes as f64 / distinct as f64);
    println!(
        "exact WBWO: {:.1} bytes per written block ({written} blocks)",
        wbwo_bytes as f64 / written as f64
    );
}
