//! How much faster two threads are than one on the traces of twelve VMs, and how fast whole questions are answered.
//!
//! Run with `cargo bench -p lode-plan`; `LODE_BENCH_QUICK=1` takes a tenth of the requests. Twelve traces of skewed block
//! accesses (synthetic: blocks by the cube of an even choice), 30 % writes, are written in the compact format and read
//! again by every run, as the command does. Times are wall-clock times, alternating, the medians of several runs.

use std::path::{Path, PathBuf};
use std::time::Instant;

use lode_plan::{CurveOptions, Cut, StreamOptions, curves, measure};
use lode_reuse::{CurveKind, Method};
use lode_trace::{CompactWriter, Merge, MergeOptions, ReadOptions, create_compact, open_trace};
use lode_types::{BlockSize, Origin, RequestOp, TraceRequest};

const VMS: u64 = 12;
const ROUNDS: usize = 3;
const BATCH: usize = 4096;

fn main() {
    let quick = std::env::var_os("LODE_BENCH_QUICK").is_some_and(|value| value == "1");
    let requests = if quick { 100_000 } else { 1_000_000 };
    let folder = std::env::temp_dir().join(format!("lode-bench-threads-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for traces");
    let files: Vec<PathBuf> = (0..VMS).map(|vm| write(&folder, vm, requests)).collect();
    println!("{VMS} VMs, {requests} requests of one block each, 30 % writes");
    println!("{:<28} {:>12} {:>12} {:>8}", "question", "1 thread s", "2 threads s", "ratio");
    for (name, kind) in [
        ("curves, trd", CurveKind::Trd),
        ("curves, pod ro", CurveKind::Ro),
        ("curves, pod wbwo", CurveKind::Wbwo),
    ] {
        compare(name, VMS, |threads| {
            let options = CurveOptions {
                stream: stream(threads),
                kind,
                method: Method::Exact,
                cut: Default::default(),
            };
            curves(&mut merge(&files), &options, &mut |_| {}).expect("curves").vms.len()
        });
    }
    compare("sizes, both levels", VMS, |threads| {
        measure(&mut merge(&files), &stream(threads), Method::Exact, &mut |_| {}).expect("a load").vms.len()
    });
    let large = [write(&folder, VMS, 8 * requests)];
    println!(
        "One VM, {} requests: trd is cut by time; of sizes, each level's stack has a thread",
        8 * requests
    );
    compare("one VM, trd, by time", 1, |threads| {
        let cut = if threads == 1 { Cut::Vms } else { Cut::Time };
        let options =
            CurveOptions { stream: stream(threads), kind: CurveKind::Trd, method: Method::Exact, cut };
        curves(&mut merge(&large), &options, &mut |_| {}).expect("curves").vms.len()
    });
    compare("one VM, sizes, both levels", 1, |threads| {
        measure(&mut merge(&large), &stream(threads), Method::Exact, &mut |_| {}).expect("a load").vms.len()
    });
    std::fs::remove_dir_all(&folder).expect("the folder of this run");
}

fn stream(threads: usize) -> StreamOptions {
    StreamOptions {
        block_size: BlockSize::KIB_4,
        threads,
        memory_bytes: 8 << 30,
        interval: None,
        on_sampling: |_| {},
    }
}

fn merge(files: &[PathBuf]) -> Merge {
    let open = |file: &PathBuf| open_trace(file, &ReadOptions::default()).expect("a trace");
    Merge::new(files.iter().map(open).collect(), MergeOptions::default()).expect("a merge")
}

fn compare(name: &str, vms: u64, run: impl Fn(usize) -> usize) {
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (threads, times) in [(1, &mut one), (2, &mut two)] {
            let start = Instant::now();
            assert_eq!(run(threads) as u64, vms);
            times.push(start.elapsed().as_secs_f64());
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (one, two) = (median(&mut one), median(&mut two));
    println!("{name:<28} {one:>12.2} {two:>12.2} {:>8.2}", one / two);
}

/// One VM's trace.
fn write(folder: &Path, vm: u64, requests: u64) -> PathBuf {
    let path = folder.join(format!("vm{vm}.lode"));
    let mut writer: CompactWriter<_> = create_compact(&path).expect("a file");
    let mut state = vm + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let mut batch = Vec::with_capacity(BATCH);
    for number in 0..requests {
        let op = if next() < 0.3 { RequestOp::Write } else { RequestOp::Read };
        let block = (next().powi(3) * 200_000.0) as u64;
        let request = TraceRequest {
            time_ns: number * 1000 + vm,
            offset_bytes: block * 4096,
            length_bytes: 4096,
            volume: 0,
            op,
            origin: Origin::UNKNOWN,
        };
        batch.push(request);
        if batch.len() == BATCH || number + 1 == requests {
            writer.write(&[format!("vm{vm}")], &batch).expect("room on the disk");
            batch.clear();
        }
    }
    writer.close().expect("room on the disk");
    path
}
