//! What a curve costs by each method, beside the exact one, and how far off it is on recorded traces and their like.
//!
//! `cargo bench -p lode-reuse --bench curves` (a few minutes); `LODE_BENCH_QUICK=1` takes a twentieth of the requests
//! and fewer samples.

use common::{WRITES_PERCENT, ZIPF_EXPONENT, zipf_trace};
use lode_reuse::parallel::{ChunkScan, join};
use lode_reuse::{CounterStacksConfig, Curve, CurveKind, JointProfiler, Method, Profiler};
use lode_types::Direction;
use std::hint::black_box;
use std::time::Instant;

mod common;
#[path = "../tests/all/traces.rs"]
mod traces;

const REQUESTS: usize = 20_000_000;
const BLOCKS: usize = 2_000_000;
const ROUNDS: usize = 5;

/// Requests handed over at once.
const BATCH: usize = 4096;

/// Sizes, evenly spaced, at which curves are compared.
const SIZES: u64 = 200;

type Trace = [(Direction, u64)];

fn curve(kind: CurveKind, method: Method, salt: u64, trace: &Trace) -> Curve {
    let mut profiler = Profiler::new(kind, method, salt).expect("the parameters are in range");
    trace.chunks(BATCH).for_each(|batch| profiler.access_all(batch).expect("few blocks"));
    profiler.curve()
}

fn joint(method: Method, trace: &Trace) {
    let mut profiler = JointProfiler::new(method, 1).expect("the parameters are in range");
    trace.chunks(BATCH).for_each(|batch| profiler.access_all(batch).expect("few blocks"));
    black_box(profiler.finish());
}

fn piece(trace: &Trace) -> ChunkScan {
    let mut scan = ChunkScan::new(CurveKind::Trd).expect("a kind that can be cut");
    trace.chunks(BATCH).for_each(|batch| scan.access_all(batch).expect("few blocks"));
    scan
}

/// Seconds of one run.
fn seconds(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn speed(share: usize) {
    let (requests, blocks) = (REQUESTS / share, BLOCKS / share);
    let trace = zipf_trace(requests, blocks);
    println!(
        "{requests} requests, zipf({ZIPF_EXPONENT}) on {blocks} blocks, {WRITES_PERCENT} % writes (synthetic)"
    );
    let one = |kind, method| {
        let trace = &trace;
        move || drop(black_box(curve(kind, method, 1, trace)))
    };
    let stacks = Method::CounterStacks(CounterStacksConfig::default());
    let runs: [(&str, &dyn Fn()); 9] = [
        ("exact TRD", &one(CurveKind::Trd, Method::Exact)),
        ("SHARDS TRD at rate 0.001", &one(CurveKind::Trd, Method::LeastRate(0.001))),
        ("SHARDS TRD, 16384 blocks", &one(CurveKind::Trd, Method::default())),
        ("SHARDS RO, 16384 blocks", &one(CurveKind::Ro, Method::default())),
        ("SHARDS WBWO, 16384 blocks", &one(CurveKind::Wbwo, Method::default())),
        ("both levels, 16384 blocks", &|| joint(Method::default(), &trace)),
        ("AET", &one(CurveKind::Trd, Method::Aet)),
        ("Counter Stacks", &one(CurveKind::Trd, stacks)),
        ("TRD in two pieces, joined", &|| {
            let (left, right) = trace.split_at(trace.len() / 2);
            black_box(join(piece(left), piece(right)).expect("few blocks").curve());
        }),
    ];
    let mut times = vec![Vec::new(); runs.len()];
    for _ in 0..ROUNDS {
        runs.iter().zip(&mut times).for_each(|((_, run), times)| times.push(seconds(run)));
    }
    for ((name, _), own) in runs.iter().zip(&times) {
        let rate = requests as f64 / median(own.clone()) / 1e6;
        let ratio = median(times[0].iter().zip(own).map(|(exact, own)| exact / own).collect());
        println!("{name:<28}{rate:>8.1} million requests/s, {ratio:.2} times the exact TRD");
    }
}

fn mean_absolute_error(exact: &Curve, found: &Curve) -> f64 {
    let sizes = (1..=SIZES).map(|number| exact.blocks_needed() * number / SIZES);
    sizes.map(|size| (exact.hit_ratio_at(size) - found.hit_ratio_at(size)).abs()).sum::<f64>() / SIZES as f64
}

fn accuracy(salts: u64) {
    let methods = [Method::LeastRate(0.001), Method::LeastRate(0.01), Method::Size(8192), Method::default()];
    println!("mean absolute error over {SIZES} evenly spaced sizes, mean and most of {salts} samples");
    println!("{:<24}{:?}", "", methods);
    for (name, trace) in traces::large() {
        let kinds: &[_] = if name == "cloudphysics-2h" { &CurveKind::ALL[..4] } else { &CurveKind::ALL[..1] };
        errors(name, &trace, kinds, &methods, salts);
    }
}

fn errors(name: &str, trace: &Trace, kinds: &[CurveKind], methods: &[Method], salts: u64) {
    for &kind in kinds {
        let exact = curve(kind, Method::Exact, 0, trace);
        print!("{:<24}", format!("{name} {kind:?}"));
        for &method in methods {
            let error = |salt| mean_absolute_error(&exact, &curve(kind, method, salt, trace));
            let errors: Vec<f64> = (0..salts).map(error).collect();
            let most = errors.iter().copied().fold(0.0, f64::max);
            print!("{:>10.4} {most:.4}", errors.iter().sum::<f64>() / salts as f64);
        }
        println!();
    }
}

fn main() {
    let is_quick = std::env::var_os("LODE_BENCH_QUICK").is_some();
    speed(if is_quick { 20 } else { 1 });
    accuracy(if is_quick { 3 } else { 20 });
}
