//! 4 KiB direct random reads of a temporary file at queue depths 1 and 32, io_uring beside threads.
//! `LODE_BENCH_QUICK=1` makes each run short.

use std::time::{Duration, Instant};

use lode_media::{Direct, Driver, DriverChoice, Lock, MediaFile, OpenOptions, Payload, open_driver};
use lode_types::{Buf, Bufs, CommandKind};

const BLOCK_BYTES: u64 = 4096;
const FILE_BYTES: u64 = 256 << 20;

/// A xorshift step: cheap, and the same numbers in every run.
fn next_random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Reads per second and mean latency in microseconds.
fn measure(choice: DriverChoice, file: &MediaFile, depth: u64, length: Duration) -> (f64, f64) {
    let (mut driver, _) = open_driver(choice, lode_media::SPIN_LIMIT).expect("a driver");
    let id = driver.add_file(file.clone());
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut submit = |driver: &mut lode_media::AnyDriver, bufs: Bufs| {
        let offset_bytes = next_random(&mut state) % (FILE_BYTES / BLOCK_BYTES) * BLOCK_BYTES;
        driver.submit(0, id, CommandKind::Read { offset_bytes, bufs });
    };
    for _ in 0..depth {
        submit(&mut driver, std::iter::once(Buf::for_overwrite(BLOCK_BYTES as usize)).collect());
    }
    let start = Instant::now();
    let (mut count, mut done) = (0u64, Vec::new());
    while start.elapsed() < length {
        driver.wait(None, &mut done).expect("a working driver");
        for done in done.drain(..) {
            assert_eq!(done.result, Ok(BLOCK_BYTES as usize));
            count += 1;
            if let Payload::Bufs(bufs) = done.payload {
                submit(&mut driver, bufs);
            }
        }
    }
    let per_second = count as f64 / start.elapsed().as_secs_f64();
    (per_second, depth as f64 * 1e6 / per_second)
}

fn main() {
    let quick = std::env::var_os("LODE_BENCH_QUICK").is_some_and(|value| value != "0");
    let length = if quick { Duration::from_millis(300) } else { Duration::from_secs(4) };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let path = folder.path().join("bench");
    let options = OpenOptions {
        write: true,
        direct: Direct::Prefer,
        create_size: Some(FILE_BYTES),
        lock: Lock::Exclusive,
    };
    let file = MediaFile::open(&path, &options).expect("a temporary file");
    // Real extents, so that reads reach the device.
    for offset_bytes in (0..FILE_BYTES).step_by(1 << 20) {
        let buf = Buf::copy_of(&vec![(offset_bytes >> 20) as u8 | 1; 1 << 20]);
        assert_eq!(file.run_now(&mut CommandKind::write(offset_bytes, buf)), Ok(1 << 20));
    }
    file.run_now(&mut CommandKind::Flush).expect("a flush");
    println!("4 KiB random reads, direct: {}, {FILE_BYTES} bytes", file.is_direct());
    for choice in [DriverChoice::Uring, DriverChoice::Threads] {
        match open_driver(choice, lode_media::SPIN_LIMIT) {
            Ok((_, which)) => println!("{which}"),
            Err(fault) => {
                println!("skipped: {fault}");
                continue;
            }
        }
        for depth in [1, 32] {
            let (per_second, latency_us) = measure(choice, &file, depth, length);
            println!("  queue depth {depth:2}: {per_second:9.0} reads/s, mean {latency_us:7.1} us");
        }
    }
}
