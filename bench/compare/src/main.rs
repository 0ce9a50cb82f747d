//! Lodestore's side of the comparison with peers: one measurement a call, one line of JSON as the answer.
//!
//! Traces here are plain files of 32-bit little-endian words, one a request of one block: the block number, with the
//! top bit set for a write. It must not know the peers; `peers.py` runs both sides.

mod clock;
mod trace;
mod zipf;

use std::error::Error;
use std::hint::black_box;
use std::path::Path;

use lode_hardware::ServiceTimes;
use lode_policy::{AnyScheme, NextUses, NextUsesBuilder, Quota, Scheme, SchemeInfo, build_with_future};
use lode_replay::Driver;
use lode_reuse::{Analyser, Distances, Metric};
use lode_trace::{ReadOptions, create_compact, open_trace};
use lode_types::{BlockSize, Direction, TraceRequest};

use clock::Clock;
use trace::{BATCH, Ops, Words, request};

const USAGE: &str = "Usage:
  lode-compare zipf OUT REQUESTS BLOCKS
  lode-compare replay TRACE reads|mixed SCHEME DRAM_BLOCKS SSD_BLOCKS [KEY=VALUE...]
  lode-compare curve TRACE
  lode-compare pack TRACE OUT.lode
  lode-compare read FILE.lode";

type Outcome = Result<String, Box<dyn Error>>;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["zipf", out, requests, blocks] => make_zipf(out, requests, blocks),
        ["replay", trace, ops, scheme, dram, ssd, ref pairs @ ..] => {
            replay(trace, ops, scheme, (dram, ssd), pairs)
        }
        ["curve", trace] => curve(trace),
        ["pack", trace, out] => pack(trace, out),
        ["read", file] => read(file),
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(line) => println!("{line}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    }
}

/// A synthetic trace.
fn make_zipf(out: &str, requests: &str, blocks: &str) -> Outcome {
    let words = zipf::words(requests.parse()?, blocks.parse()?)?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    std::fs::write(out, bytes)?;
    Ok(format!("{{\"requests\": {}}}", words.len()))
}

/// Replays the trace as `lode replay` does, the reading of the file included in the time.
fn replay(path: &str, ops: &str, scheme: &str, (dram, ssd): (&str, &str), pairs: &[&str]) -> Outcome {
    let ops = Ops::from_name(ops).ok_or(USAGE)?;
    let info = SchemeInfo::find(scheme)?;
    let mut settings = info.settings();
    for pair in pairs {
        settings.set_pair(pair)?;
    }
    let physical = Quota::new(dram.parse()?, ssd.parse()?);
    info.check_levels(physical)?;
    let for_build = settings.clone();
    // Known before the clock starts, as the peer's files tell it, too.
    let future = if info.needs_future() { future_of(path)? } else { NextUses::default() };
    let make = move |share| build_with_future(&for_build, physical, share, &future);
    let mut driver: Driver<AnyScheme> =
        Driver::new(&settings, physical, BlockSize::KIB_4, ServiceTimes::default(), 1, make);
    let mut words = Words::open(path)?;
    let clock = Clock::start();
    let mut time_ns = 0;
    while let Some(batch) = words.next()? {
        for word in batch {
            driver.push(0, &request(time_ns, word, ops))?;
            time_ns += 1;
        }
    }
    driver.finish();
    let seconds = clock.seconds();
    let counters = driver.outcomes().next().ok_or("No VM")?.tally.counters();
    let accesses = counters.block_accesses();
    let hits = counters.read_hits.iter().sum::<u64>() + counters.write_hits_ssd;
    let bytes: usize = driver.schemes().map(Scheme::memory_bytes).sum();
    let misses = accesses - hits;
    Ok(format!(
        "{{\"accesses\": {accesses}, \"misses\": {misses}, \"seconds\": {seconds}, \"memory_bytes\": {bytes}}}"
    ))
}

/// What comes next, for each request.
fn future_of(path: &str) -> Result<NextUses, Box<dyn Error>> {
    let mut words = Words::open(path)?;
    let mut builder = NextUsesBuilder::new();
    while let Some(batch) = words.next()? {
        for word in batch {
            builder.access(trace::block(word))?;
        }
    }
    Ok(builder.finish())
}

/// The exact curve of all sizes at once.
fn curve(path: &str) -> Outcome {
    let mut words = Words::open(path)?;
    let clock = Clock::start();
    let mut distances = Distances::new(Metric::Trd);
    let mut accesses = Vec::with_capacity(BATCH);
    let mut total = 0;
    while let Some(batch) = words.next()? {
        accesses.clear();
        accesses.extend(batch.map(|word| (Direction::Read, trace::block(word))));
        distances.access_all(&accesses)?;
        total += accesses.len();
    }
    let curve = distances.tally().curve();
    black_box(&curve);
    let seconds = clock.seconds();
    Ok(format!("{{\"accesses\": {total}, \"seconds\": {seconds}}}"))
}

/// Writes the trace in the compact format, one request a microsecond.
fn pack(path: &str, out: &str) -> Outcome {
    let mut words = Words::open(path)?;
    let mut writer = create_compact(Path::new(out))?;
    let volumes = ["compare".to_owned()];
    let mut requests: Vec<TraceRequest> = Vec::with_capacity(BATCH);
    let mut time_ns = 0;
    while let Some(batch) = words.next()? {
        requests.clear();
        for word in batch {
            requests.push(request(time_ns, word, Ops::Mixed));
            time_ns += 1000;
        }
        writer.write(&volumes, &requests)?;
    }
    let requests = writer.requests();
    writer.close()?;
    let bytes = std::fs::metadata(out)?.len();
    Ok(format!("{{\"requests\": {requests}, \"bytes\": {bytes}}}"))
}

/// Reads a compact file.
fn read(path: &str) -> Outcome {
    let clock = Clock::start();
    let mut reader = open_trace(path, &ReadOptions::default())?;
    let mut batch = Vec::new();
    let mut requests = 0;
    while reader.next_batch(&mut batch)? > 0 {
        requests += black_box(&batch).len();
    }
    let seconds = clock.seconds();
    Ok(format!("{{\"requests\": {requests}, \"seconds\": {seconds}}}"))
}
