//! Belady's scheme over recordings, against a loop that looks through all that is to come.

use lode_policy::{Quota, SchemeInfo, Settings, all_schemes};
use lode_replay::{Future, Host, Options, Recording, ReplayError, RequestStream, replay, replay_with_future};
use lode_testdata::Trace;
use lode_trace::{ReadOptions, TraceError, open_trace};
use lode_types::{BlockSize, Level, RequestOp, TraceRequest};
use proptest::prelude::*;

use crate::requests::{any_requests, request};

const BLOCK_BYTES: u64 = 4096;
const VMS: usize = 2;
const ENOUGH_BYTES: u64 = 1 << 24;

/// Requests from memory.
struct Given {
    requests: Vec<(u32, TraceRequest)>,
}

impl RequestStream for Given {
    fn next_batch(&mut self, out: &mut Vec<(u32, TraceRequest)>) -> Result<usize, TraceError> {
        *out = std::mem::take(&mut self.requests);
        Ok(out.len())
    }

    fn vm_names(&self) -> Vec<String> {
        (0..VMS).map(|vm| format!("vm{vm}")).collect()
    }

    fn vm_inputs(&self) -> Vec<usize> {
        vec![0; VMS]
    }

    fn inputs(&self) -> Vec<lode_replay::InputReport> {
        Vec::new()
    }
}

fn record(requests: &[(u32, TraceRequest)]) -> Recording {
    let given = Given { requests: requests.to_vec() };
    Recording::of(given, ENOUGH_BYTES, &mut |_, _| {}).expect("no errors").expect("enough memory")
}

fn belady() -> Settings {
    SchemeInfo::find("belady").expect("a scheme").settings()
}

fn options(ssd_blocks: u32) -> Options {
    options_of(belady(), Quota::new(0, ssd_blocks))
}

fn options_of(settings: Settings, physical: Quota) -> Options {
    Options {
        settings,
        physical,
        block_size: BlockSize::KIB_4,
        host: Host::find("default").expect("a host"),
        shares: None,
        daily_ssd_bytes: None,
    }
}

/// A block access, or a discard.
type Touch = (u64, bool);

/// What the blocks of one VM go through.
fn touches(requests: &[(u32, TraceRequest)], of_vm: u32) -> Vec<Touch> {
    let mut all = Vec::new();
    for (_, request) in requests.iter().filter(|(vm, _)| *vm == of_vm) {
        let (start, end) = (request.offset_bytes, request.offset_bytes + u64::from(request.length_bytes));
        match request.op {
            RequestOp::Read | RequestOp::Write => {
                all.extend((start / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)).map(|block| (block, true)));
            }
            RequestOp::Trim => {
                all.extend((start.div_ceil(BLOCK_BYTES)..end / BLOCK_BYTES).map(|block| (block, false)))
            }
            RequestOp::Flush => {}
        }
    }
    all
}

/// Hits when the block whose next use is farthest leaves.
fn naive_hits(touches: &[Touch], room: usize) -> u64 {
    let mut cached: Vec<u64> = Vec::new();
    let mut hits = 0;
    for (at, &(block, is_access)) in touches.iter().enumerate() {
        if !is_access {
            cached.retain(|other| *other != block);
        } else if cached.contains(&block) {
            hits += 1;
        } else {
            let next_use = |of: &u64| {
                let next = touches[at..].iter().position(|touch| touch.0 == *of);
                next.filter(|next| touches[at + next].1).unwrap_or(usize::MAX)
            };
            if cached.len() >= room {
                let farthest = (0..room).max_by_key(|&i| (next_use(&cached[i]), cached[i])).expect("room");
                cached.remove(farthest);
            }
            cached.push(block);
        }
    }
    hits
}

proptest! {
    #[test]
    fn a_recording_is_replayed_with_its_future(requests in any_requests(VMS, 200), room in 1u32..20) {
        // Each VM has its part of the level.
        let (recording, options) = (record(&requests), options(room * VMS as u32));
        let future = Future::of(&recording, &options, ENOUGH_BYTES).expect("no errors").expect("enough memory");
        let report =
            replay_with_future(recording.play(), &options, Some(VMS), Some(&future), &mut |_, _| {}).expect("a report");
        for (number, vm) in report.vms.iter().enumerate() {
            let counters = &vm.counts.counters;
            let found = counters.read_hits.ssd + counters.write_hits.ssd;
            prop_assert_eq!(found, naive_hits(&touches(&requests, number as u32), room as usize));
        }
    }
}

fn one_read(length_bytes: u32) -> Vec<(u32, TraceRequest)> {
    vec![(0, request(RequestOp::Read, 0, length_bytes))]
}

#[test]
fn without_the_future_nothing_is_replayed() {
    let recording = record(&one_read(4096));
    let error = replay(recording.play(), &options(8), None, &mut |_, _| {}).expect_err("no future");
    assert!(matches!(error, ReplayError::Setting(_)), "{error}");
    assert!(error.to_string().contains("only a recorded trace can tell"), "{error}");
}

/// A few requests of many blocks have a future that is much larger than they are.
#[test]
fn a_future_beyond_the_memory_is_not_told() {
    let recording = record(&one_read(1 << 30));
    let of = |most_bytes| Future::of(&recording, &options(8), most_bytes).expect("no errors");
    assert!(of(1 << 20).is_none());
    let future = of(1 << 24).expect("enough memory");
    assert!((1 << 20..2 << 20).contains(&future.memory_bytes()), "{}", future.memory_bytes());
}

/// The first requests of a trace without writes.
fn first_reads(trace: &Trace, count: usize) -> Vec<(u32, TraceRequest)> {
    let options = ReadOptions { unit_bytes: trace.unit_bytes, ..ReadOptions::default() };
    let mut reader = open_trace(&trace.path, &options).expect("the trace");
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while all.len() < count && reader.next_batch(&mut batch).expect("good requests") > 0 {
        all.extend(batch.drain(..).map(|request| (0, request)));
    }
    all.truncate(count);
    assert!(all.iter().all(|(_, request)| request.op == RequestOp::Read));
    all
}

fn read_hits(recording: &Recording, settings: Settings, quota: Quota) -> u64 {
    let options = options_of(settings, quota);
    let info = SchemeInfo::find(options.settings.scheme()).expect("a scheme");
    let future = info
        .needs_future()
        .then(|| Future::of(recording, &options, ENOUGH_BYTES).expect("no errors").expect("enough memory"));
    let report = replay_with_future(recording.play(), &options, Some(VMS), future.as_ref(), &mut |_, _| {})
        .unwrap_or_else(|error| panic!("{}: {error}", options.settings.scheme()));
    report.total.counters.read_hits.total()
}

/// Every scheme of the registry with its defaults, its levels together as large as the one level of the bound.
#[test]
fn no_scheme_finds_more_reads() {
    for trace in lode_testdata::traces("arc-oltp") {
        let requests = first_reads(&trace, 40_000);
        assert_none_finds_more(&record(&requests));
    }
}

fn assert_none_finds_more(recording: &Recording) {
    const BLOCKS: u32 = 2_000;
    let mut bound = belady();
    bound.set("bypass", "on").expect("a setting");
    let bound = read_hits(recording, bound, Quota::new(0, BLOCKS));
    for info in all_schemes() {
        let mut settings = info.settings();
        // The second VM asks for nothing, and what is loaded without being asked for is beyond the bound.
        for (key, value) in [("sizing", "off"), ("promotion_interval", "1000000000")] {
            if settings.values().any(|(known, _)| known == key) {
                settings.set(key, value).expect("a setting");
            }
        }
        let quota = match info.levels {
            [Level::Ssd] => Quota::new(0, BLOCKS),
            [Level::Dram, Level::Ssd] => Quota::new(BLOCKS / 4, BLOCKS * 3 / 4),
            _ => Quota::new(BLOCKS / 4, BLOCKS / 2).with(Level::ReadSsd, BLOCKS / 4),
        };
        let hits = read_hits(recording, settings, quota);
        println!("{}: {hits} of at most {bound}", info.name);
        assert!(hits <= bound, "{}: {hits} of at most {bound}", info.name);
        // A write cache alone has nothing to offer here.
        assert!(hits > bound / 10 || info.name == "request-oriented", "{}: {hits} of {bound}", info.name);
    }
}
