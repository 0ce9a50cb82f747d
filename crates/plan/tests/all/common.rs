//! Small traces in memory.

use std::fmt::Write;
use std::io::Cursor;

use lode_plan::StreamOptions;
use lode_trace::{Merge, MergeOptions, ReadOptions, read_trace};
use lode_types::{BlockNo, BlockSize, Direction};
use proptest::prelude::*;

pub const BLOCK_BYTES: u64 = 4096;

/// One request of a small trace.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub vm: usize,
    pub op: Direction,
    pub block: BlockNo,
    pub blocks: u64,
}

/// Requests of up to three VMs.
pub fn requests(most: usize, blocks: u64) -> impl Strategy<Value = Vec<Request>> {
    let op = prop_oneof![Just(Direction::Read), Just(Direction::Write)];
    let request = (0usize..3, op, 0..blocks, 1u64..4).prop_map(|(vm, op, block, blocks)| Request {
        vm,
        op,
        block,
        blocks,
    });
    proptest::collection::vec(request, 0..most)
}

/// The requests as a trace, a tick of 100 ns apart, each volume a VM.
pub fn merge(requests: &[Request]) -> Merge {
    let mut text = String::new();
    for (time, request) in requests.iter().enumerate() {
        let op = if request.op == Direction::Read { "Read" } else { "Write" };
        let (offset, size) = (request.block * BLOCK_BYTES, request.blocks * BLOCK_BYTES);
        writeln!(text, "{time},host,{},{op},{offset},{size},1", request.vm).expect("memory");
    }
    let options = ReadOptions { format: Some("msr".to_owned()), ..ReadOptions::default() };
    let reader = read_trace(Cursor::new(text.into_bytes()), "small.csv", &options).expect("a trace");
    Merge::new(vec![reader], MergeOptions::default()).expect("a merge")
}

/// Reads of block after block at these times, in nanoseconds.
pub fn merge_at(times_ns: impl Iterator<Item = u64>) -> Merge {
    let mut text = String::new();
    for (block, time_ns) in times_ns.enumerate() {
        writeln!(text, "{},host,0,Read,{},4096,1", time_ns / 100, block as u64 * BLOCK_BYTES)
            .expect("memory");
    }
    let options = ReadOptions { format: Some("msr".to_owned()), ..ReadOptions::default() };
    let reader = read_trace(Cursor::new(text.into_bytes()), "timed.csv", &options).expect("a trace");
    Merge::new(vec![reader], MergeOptions::default()).expect("a merge")
}

/// A trace for each list of requests, each request so many microseconds after the last one.
pub fn merge_paced(traces: &[(u64, Vec<Request>)]) -> Merge {
    let reader = |(at, (pace_us, requests)): (usize, &(u64, Vec<Request>))| {
        let mut text = String::new();
        for (time, request) in requests.iter().enumerate() {
            let op = if request.op == Direction::Read { "Read" } else { "Write" };
            let (offset, size) = (request.block * BLOCK_BYTES, request.blocks * BLOCK_BYTES);
            let ticks = time as u64 * pace_us * 10;
            writeln!(text, "{ticks},host{at},{},{op},{offset},{size},1", request.vm).expect("memory");
        }
        let options = ReadOptions { format: Some("msr".to_owned()), ..ReadOptions::default() };
        read_trace(Cursor::new(text.into_bytes()), format!("{at}.csv"), &options).expect("a trace")
    };
    Merge::new(traces.iter().enumerate().map(reader).collect(), MergeOptions::default()).expect("a merge")
}

/// The VMs in order of appearance, each with its accesses.
pub fn streams(requests: &[Request]) -> Vec<(usize, Vec<(Direction, BlockNo)>)> {
    let mut streams: Vec<(usize, Vec<(Direction, BlockNo)>)> = Vec::new();
    for request in requests {
        let at = match streams.iter().position(|(vm, _)| *vm == request.vm) {
            Some(at) => at,
            None => {
                streams.push((request.vm, Vec::new()));
                streams.len() - 1
            }
        };
        streams[at].1.extend((0..request.blocks).map(|block| (request.op, request.block + block)));
    }
    streams
}

pub fn stream_options(threads: usize) -> StreamOptions {
    StreamOptions {
        block_size: BlockSize::KIB_4,
        threads,
        memory_bytes: 1 << 30,
        interval: None,
        on_sampling: |_| {},
    }
}
