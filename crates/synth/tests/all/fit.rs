//! Profiles fitted to traces: what is made of them has the traces' reuse, mix and lengths.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;

use lode_reuse::{Analyser, Distances, Metric};
use lode_synth::{Fitter, Generator, Profile, SynthErrorKind};
use lode_trace::{ReadOptions, open_trace, vm_block};
use lode_types::{BlockSize, Direction, Origin, RequestOp, TraceRequest, blocks_of};
use proptest::prelude::*;

/// The largest mean difference between the miss ratios of trace and profile.
const MOST_DIFFERENCE: f64 = 0.05;

/// What is made of a trace with several volumes has one, in which their streams are mixed: its requests are sequential
/// when they start where one of so many before ended.
const MIXED: usize = 32;

fn request(time_ns: u64, volume: u32, offset_bytes: u64, length_bytes: u32, reads: bool) -> TraceRequest {
    let op = if reads { RequestOp::Read } else { RequestOp::Write };
    TraceRequest { time_ns, offset_bytes, length_bytes, volume, op, origin: Origin::UNKNOWN }
}

fn requests_of(path: &Path) -> Vec<TraceRequest> {
    let mut reader = open_trace(path, &ReadOptions::default()).expect("a trace");
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch).expect("requests") > 0 {
        all.append(&mut batch);
    }
    all
}

/// What the tests compare.
#[derive(Debug)]
struct Facts {
    curve: lode_reuse::Curve,
    blocks: u64,
    read_share: f64,
    mean_bytes: f64,
    small_share: f64,
    sequential_share: f64,
    span_s: f64,
    /// Of the reads of blocks known, those whose block was written last.
    read_after_write: f64,
}

/// A request is sequential when it starts where one of the `recent` before it in its volume ended.
fn facts(requests: &[TraceRequest], recent: usize) -> Facts {
    let mut distances = Distances::new(Metric::Trd);
    let (mut ends, mut written, mut again, mut after_write) = (HashMap::new(), HashMap::new(), 0, 0);
    let (mut sequential, mut small, mut bytes, mut reads) = (0, 0, 0, 0);
    for request in requests {
        let reading = request.op == RequestOp::Read;
        let op = if reading { Direction::Read } else { Direction::Write };
        for part in blocks_of(BlockSize::KIB_4, request.offset_bytes, request.length_bytes.into()) {
            let block = vm_block(request.volume, part.block).expect("a block");
            distances.access(op, block).expect("room");
            if let Some(was_written) = written.insert(block, !reading)
                && reading
            {
                again += 1;
                after_write += u64::from(was_written);
            }
        }
        let end = request.end_bytes().expect("a request");
        let latest: &mut VecDeque<u64> = ends.entry(request.volume).or_default();
        sequential += u32::from(latest.contains(&request.offset_bytes));
        latest.push_back(end);
        if latest.len() > recent {
            latest.pop_front();
        }
        small += u32::from(request.length_bytes <= 4096);
        bytes += u64::from(request.length_bytes);
        reads += u64::from(reading);
    }
    let count = requests.len() as f64;
    let (first, last) = (requests[0].time_ns, requests[requests.len() - 1].time_ns);
    Facts {
        curve: distances.tally().curve(),
        blocks: distances.distinct_blocks() as u64,
        read_share: reads as f64 / count,
        mean_bytes: bytes as f64 / count,
        small_share: f64::from(small) / count,
        sequential_share: f64::from(sequential) / count,
        span_s: (last - first) as f64 / 1e9,
        read_after_write: after_write as f64 / f64::max(again as f64, 1.0),
    }
}

/// The mean difference of two miss ratio curves at sizes from one block to `blocks`, each a quarter above the last.
fn difference(a: &Facts, b: &Facts, blocks: u64) -> f64 {
    let (mut sum, mut sizes, mut size) = (0.0, 0, 1.0);
    while size < blocks as f64 * 1.25 {
        let at = (size as u64).min(blocks);
        sum += (a.curve.hit_ratio_at(at) - b.curve.hit_ratio_at(at)).abs();
        (sizes, size) = (sizes + 1, size * 1.25);
    }
    sum / f64::from(sizes)
}

/// The same at 200 sizes that are equally far apart, where most are large.
fn even_difference(a: &Facts, b: &Facts, blocks: u64) -> f64 {
    let at =
        |part: u64| a.curve.hit_ratio_at(part * blocks / 200) - b.curve.hit_ratio_at(part * blocks / 200);
    (1..=200).map(|part| at(part).abs()).sum::<f64>() / 200.0
}

fn fit(name: &str, requests: &[TraceRequest]) -> Profile {
    let mut fitter = Fitter::default();
    requests.chunks(1000).for_each(|batch| fitter.add(name, batch).expect("a trace that can be fitted"));
    fitter.finish(name).expect("a profile")
}

fn make(profile: &Profile, requests: usize) -> Vec<TraceRequest> {
    Generator::new(profile).expect("a generator").take(requests).collect()
}

fn refit(name: &str, requests: &[TraceRequest]) -> (Profile, Vec<TraceRequest>) {
    let profile = fit(name, requests);
    // What is written is what is meant.
    let text = profile.to_toml().expect("TOML");
    assert_eq!(Profile::parse(&text, name).expect("the profile again"), profile);
    let made = make(&profile, requests.len());
    (profile, made)
}

/// That whatever the seed, the curve of what is made is that of the trace, with some margin: where sizes are a quarter apart,
/// and where they are equally far apart.
fn compare_seeds(name: &str, requests: &[TraceRequest]) {
    let original = facts(requests, 1);
    let mut profile = fit(name, requests);
    for seed in 0..5 {
        profile.seed = seed;
        let made = facts(&make(&profile, requests.len()), 1);
        let found = [difference, even_difference].map(|of| of(&original, &made, original.blocks));
        println!("{name}, seed {seed}: {found:.4?}");
        assert!(found.iter().all(|&found| found <= 0.6 * MOST_DIFFERENCE), "{name}, seed {seed}: {found:?}");
    }
}

/// Compares the trace with what is made of its profile; `span` is how much longer or shorter that may take.
fn compare(name: &str, requests: &[TraceRequest]) {
    let (_, made) = refit(name, requests);
    let volumes = requests.iter().map(|request| request.volume).collect::<HashSet<_>>().len();
    let (original, made) = (facts(requests, 1), facts(&made, if volumes > 1 { MIXED } else { 1 }));
    let difference = difference(&original, &made, original.blocks);
    println!("{name}: {difference:.4}");
    assert!(difference <= MOST_DIFFERENCE, "{name}: {difference}");
    for (what, a, b, most) in [
        ("footprint", original.blocks as f64 / made.blocks as f64, 1.0, 0.05),
        ("read share", original.read_share, made.read_share, 0.0001),
        ("mean length", original.mean_bytes / made.mean_bytes, 1.0, 0.04),
        ("share of short requests", original.small_share, made.small_share, 0.02),
        ("sequential share", original.sequential_share, made.sequential_share, 0.1),
        ("span", original.span_s / made.span_s, 1.0, 0.1),
        ("reads after writes", original.read_after_write, made.read_after_write, 0.1),
    ] {
        assert!((a - b).abs() <= most, "{name}: {what}: {a} and {b}");
    }
}

/// Compares the committed trace of a name, and the public one that it is like where that is there.
fn compare_all(name: &str) {
    for trace in lode_testdata::traces(name) {
        let requests = requests_of(&trace.path);
        compare(name, &requests);
        compare_seeds(name, &requests);
    }
}

#[test]
fn a_fitted_profile_has_the_curve_of_cloudphysics() {
    compare_all("cloudphysics-2h");
}

#[test]
fn a_fitted_profile_has_the_curve_of_hplajw() {
    compare_all("hplajw-1week");
}

#[test]
fn a_fitted_profile_has_the_curve_of_financial1() {
    compare_all("umass-financial1-first10k");
}

fn any_request() -> impl Strategy<Value = TraceRequest> {
    let time_ns = prop_oneof![0u64..1_000_000, any::<u64>()];
    let offset = prop_oneof![(0u64..200).prop_map(|sector| sector * 512), 0u64..1 << 50];
    let length = prop_oneof![1u32..20_000, Just(4096), Just(1 << 20)];
    let op = prop::sample::select(vec![
        RequestOp::Read,
        RequestOp::Write,
        RequestOp::Write,
        RequestOp::Trim,
        RequestOp::Flush,
    ]);
    (time_ns, offset, length, 0u32..3, op).prop_map(|(time_ns, offset_bytes, length_bytes, volume, op)| {
        TraceRequest { time_ns, offset_bytes, length_bytes, volume, op, origin: Origin::UNKNOWN }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever the trace, its profile can be, has its counts, and makes requests.
    #[test]
    fn any_trace_has_a_profile(requests in proptest::collection::vec(any_request(), 0..60)) {
        let mut fitter = Fitter::default();
        fitter.add("any", &requests).expect("a trace that can be fitted");
        let counted: Vec<_> =
            requests.iter().filter(|request| matches!(request.op, RequestOp::Read | RequestOp::Write)).collect();
        match fitter.finish("any") {
            Err(error) => prop_assert!(error.kind() == SynthErrorKind::Profile && counted.is_empty(), "{}", error),
            Ok(profile) => {
                let made: Vec<_> = Generator::new(&profile)
                    .map_err(|error| TestCaseError::fail(error.to_string()))?
                    .take(counted.len())
                    .collect();
                let reads = |count: usize, all: &mut dyn Iterator<Item = RequestOp>| {
                    (count, all.filter(|op| *op == RequestOp::Read).count())
                };
                prop_assert_eq!(profile.requests, counted.len() as u64);
                prop_assert_eq!(
                    reads(made.len(), &mut made.iter().map(|request| request.op)),
                    reads(counted.len(), &mut counted.iter().map(|request| request.op))
                );
            }
        }
    }
}

/// Also where a trace counts bytes, and where rare lengths are put together.
#[test]
fn lengths_are_whole_sectors() {
    let lengths = [1, 511, 512, 513, 4096].into_iter().chain((0..200).map(|at| 100_000 + at * 511));
    let requests: Vec<_> = lengths.map(|length| request(0, 0, 0, length, true)).collect();
    let sizes = fit("bytes", &requests).sizes.read;
    assert_eq!(sizes[..3].iter().map(|&(bytes, _)| bytes).collect::<Vec<_>>(), [512, 1024, 4096]);
    assert!(sizes.len() < 200 && sizes.iter().all(|(bytes, _)| bytes % 512 == 0), "{sizes:?}");
    assert!(sizes.windows(2).all(|pair| pair[0].0 < pair[1].0), "each once: {sizes:?}");
}

#[test]
fn what_no_profile_can_say_is_refused() {
    let error = |request: TraceRequest| Fitter::default().add("x", &[request]).expect_err("too much").kind();
    assert_eq!(error(request(0, 0, 0, (64 << 20) + 1, true)), SynthErrorKind::OutOfRange);
    assert_eq!(error(request(0, 4096, 0, 512, true)), SynthErrorKind::Limit);
}
