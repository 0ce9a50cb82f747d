//! How fast traces are read: MSR CSV beside a bare line count of the same memory and of the same file, and the compact
//! format.
//!
//! Run with `cargo bench -p lode-trace`; `LODE_BENCH_QUICK=1` makes the inputs small.

use std::fs::File;
use std::hint::black_box;
use std::io::{Cursor, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use lode_trace::{CompactWriter, ReadOptions, Reader, open_trace, read_trace};
use lode_types::{Origin, RequestOp, TraceRequest};
use memchr::{memchr, memchr_iter};

const ROUNDS: usize = 15;

/// Bytes that several readers share without copying.
#[derive(Clone)]
struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Bytes that the line count of a file reads at once, as many as the reader does.
const PIECE_BYTES: usize = 256 * 1024;

fn main() {
    let quick = std::env::var_os("LODE_BENCH_QUICK").is_some_and(|value| value == "1");
    let count = if quick { 200_000 } else { 2_000_000 };
    let requests = generate(count);

    let csv = Shared(Arc::new(msr(&requests)));
    let mib = csv.0.len() as f64 / f64::from(1 << 20);
    assert_eq!(read_all(&csv, "msr"), count);
    let rounds =
        times([&|| walk_lines(&csv.0), &|| memchr_iter(b'\n', &csv.0).count(), &|| read_all(&csv, "msr")]);
    let [walk, tally, parse] = best(&rounds);
    println!("msr csv: {count} lines, {mib:.0} MiB, {ROUNDS} alternating rounds");
    println!("  memchr line by line   {:8.1} MiB/s", mib / walk);
    println!("  memchr count only     {:8.1} MiB/s", mib / tally);
    println!(
        "  reader                {:8.1} MiB/s, {:.1} M requests/s",
        mib / parse,
        count as f64 / parse / 1e6
    );
    print_ratio("line by line", &rounds, 0);
    print_ratio("count only", &rounds, 1);
    msr_file(&csv.0, count);

    let compact = Shared(Arc::new(lode(&requests)));
    assert_eq!(read_all(&compact, "lode"), count);
    let [read] = best(&times([&|| read_all(&compact, "lode")]));
    let bytes = compact.0.len() as f64 / count as f64;
    println!("compact: {bytes:.2} bytes a request");
    println!("  reader                {:8.1} M requests/s", count as f64 / read / 1e6);

    let packed = Shared(Arc::new(zstd::encode_all(&compact.0[..], 3).expect("memory")));
    let [unpack] = best(&times([&|| read_all(&packed, "lode")]));
    println!("compact in zstd: {:.2} bytes a request", packed.0.len() as f64 / count as f64);
    println!("  reader                {:8.1} M requests/s", count as f64 / unpack / 1e6);
}

/// The same bytes in a file (in the page cache): both sides read it by pieces, as files may shrink while they are read and
/// so are not mapped into memory.
fn msr_file(csv: &[u8], count: usize) {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(csv).and_then(|()| file.flush()).expect("space for a temporary file");
    let path = file.path();
    assert_eq!([count_file(path), read_file(path)], [count; 2]);
    let rounds = times([&|| count_file(path), &|| read_file(path)]);
    let [walk, parse] = best(&rounds);
    let mib = csv.len() as f64 / f64::from(1 << 20);
    println!("msr csv from a file");
    println!("  memchr line by line   {:8.1} MiB/s", mib / walk);
    println!(
        "  reader                {:8.1} MiB/s, {:.1} M requests/s",
        mib / parse,
        count as f64 / parse / 1e6
    );
    print_ratio("line by line", &rounds, 0);
}

/// Counts the lines of a file, one at a time.
fn count_file(path: &Path) -> usize {
    let mut file = File::open(path).expect("the file");
    let mut piece = vec![0; PIECE_BYTES];
    let mut lines = 0;
    loop {
        match file.read(&mut piece).expect("the file") {
            0 => return lines,
            len => lines += walk_lines(&piece[..len]),
        }
    }
}

/// Seconds of each work in each round. The works take turns, so that a busy machine is busy for all of them.
fn times<const N: usize>(works: [&dyn Fn() -> usize; N]) -> Vec<[f64; N]> {
    let one = |work: &dyn Fn() -> usize| {
        let start = Instant::now();
        black_box(work());
        start.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(|_| works.map(one)).collect()
}

/// Seconds of each work's fastest round.
fn best<const N: usize>(rounds: &[[f64; N]]) -> [f64; N] {
    std::array::from_fn(|work| rounds.iter().map(|round| round[work]).fold(f64::INFINITY, f64::min))
}

/// The reader's rate by that of a yardstick: of the fastest rounds, and round by round the median and its range.
/// The reader is the last of the works.
fn print_ratio<const N: usize>(name: &str, rounds: &[[f64; N]], yardstick: usize) {
    let fastest = best(rounds);
    let mut ratios: Vec<_> = rounds.iter().map(|round| round[yardstick] / round[N - 1]).collect();
    ratios.sort_by(f64::total_cmp);
    let (least, median, most) = (ratios[0], ratios[ROUNDS / 2], ratios[ROUNDS - 1]);
    let best = fastest[yardstick] / fastest[N - 1];
    println!("  reader / {name:12} {best:8.2} (fastest), {median:.2} (median, {least:.2} to {most:.2})");
}

fn walk_lines(mut text: &[u8]) -> usize {
    let mut lines = 0;
    while let Some(at) = memchr(b'\n', text) {
        text = &text[at + 1..];
        lines += 1;
    }
    lines
}

fn read_all(bytes: &Shared, format: &str) -> usize {
    let options = ReadOptions { format: Some(format.to_owned()), ..ReadOptions::default() };
    drain(read_trace(Cursor::new(bytes.clone()), "memory", &options).expect("a trace"))
}

fn read_file(path: &Path) -> usize {
    let options = ReadOptions { format: Some("msr".to_owned()), ..ReadOptions::default() };
    drain(open_trace(path, &options).expect("a trace"))
}

fn drain(mut reader: Reader) -> usize {
    let (mut batch, mut total) = (Vec::new(), 0);
    loop {
        match reader.next_batch(&mut batch).expect("good requests") {
            0 => return total,
            count => total += black_box(&batch).len().min(count),
        }
    }
}

/// A week of requests shaped like a server volume's: 4 KiB and more, a fifth sequential.
fn generate(count: usize) -> Vec<TraceRequest> {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut time_ns = 12_816_637_200_000_000_000;
    let mut next = 0;
    let requests = (0..count).map(|_| {
        time_ns += random() % 300_000_000 / 100 * 100;
        let offset_bytes = if random() % 5 == 0 { next } else { random() % (28 << 20) * 512 };
        let length_bytes = [512, 4096, 4096, 4096, 8192, 16_384, 65_536, 24_576][(random() % 8) as usize];
        next = offset_bytes + u64::from(length_bytes);
        let op = if random() % 3 == 0 { RequestOp::Read } else { RequestOp::Write };
        TraceRequest { time_ns, offset_bytes, length_bytes, volume: 0, op, origin: Origin::UNKNOWN }
    });
    requests.collect()
}

fn msr(requests: &[TraceRequest]) -> Vec<u8> {
    let mut text = Vec::new();
    for (r, i) in requests.iter().zip(0u64..) {
        let kind = if r.op == RequestOp::Read { "Read" } else { "Write" };
        let response = 500 + i * 7919 % 90_000;
        writeln!(text, "{},hm,0,{kind},{},{},{response}", r.time_ns / 100, r.offset_bytes, r.length_bytes)
            .expect("memory");
    }
    text
}

fn lode(requests: &[TraceRequest]) -> Vec<u8> {
    let mut writer = CompactWriter::new(Vec::new(), "memory").expect("memory");
    writer.write(&["hm_0".to_owned()], requests).expect("good requests");
    writer.finish().expect("memory")
}
