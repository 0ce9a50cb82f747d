//! Requests made from profiles: the same from the same seed, what the profile says, and nothing from a bad one.

use std::io::Cursor;

use lode_reuse::{Analyser, Distances, Metric};
use lode_synth::{Again, Arrival, Generator, Pattern, Phase, Profile, Reuse, Sizes, Stream, SynthErrorKind};
use lode_trace::{CompactWriter, ReadOptions, is_synthetic, read_trace};
use lode_types::{BlockSize, Direction, RequestOp, TraceRequest, blocks_of};
use proptest::prelude::*;

const SMALL: &str = r#"
name = "small"
seed = 7
requests = 4000
footprint_bytes = 4194304
read_share = 0.6

[sizes]
read = [[4096, 3], [8192, 1]]
write = [[4096, 1], [512, 1]]
aligned_share = 0.5

[arrival]
kind = "on-off"
requests_per_s = 1000.0
on_s = 0.1
off_s = 1.0

[[phase]]
share = 0.75

[[phase.stream]]
weight = 0.5
range = [0.0, 0.5]
pattern.zipf.exponent = 0.9

[[phase.stream]]
weight = 0.25
range = [0.5, 0.75]
read_share = 1.0
pattern = "loop"

[[phase.stream]]
weight = 0.25
range = [0.0, 1.0]
sequential_share = 0.5
read_after_write_share = 0.8
pattern = "random"

[[phase]]
share = 0.25

[[phase.stream]]
weight = 0.5
range = [0.25, 0.75]
pattern.sequential.run_bytes = 65536

[[phase.stream]]
weight = 0.5
range = [0.75, 1.0]
sequential_share = 0.1

[phase.stream.pattern.reuse]
run_bytes = 16384
new_by_reads_share = 0.5

[[phase.stream.pattern.reuse.read]]
after = "read"
share = 0.5
distances = [[8, 1], [64, 1]]

[[phase.stream.pattern.reuse.read]]
after = "write"
share = 0.5
distances = [[32, 1]]

[[phase.stream.pattern.reuse.write]]
distances = [[16, 3], [128, 1]]
"#;

fn small() -> Profile {
    Profile::parse(SMALL, "small.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn made(profile: &Profile, count: usize) -> Vec<TraceRequest> {
    Generator::new(profile).unwrap_or_else(|error| panic!("{error}")).take(count).collect()
}

/// FNV-1a over every field: what a machine makes of a seed is compared by it.
fn print_of(requests: &[TraceRequest]) -> u64 {
    let fields = |request: &TraceRequest| {
        let length = u64::from(request.length_bytes);
        [request.time_ns, request.offset_bytes, length, request.op as u64]
    };
    let bytes = requests.iter().flat_map(fields).flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |print, byte| (print ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What the seed of [`small`] gives, written down once; no machine may give anything else.
const PRINT: u64 = 4_957_294_064_645_681_331;

#[test]
fn a_seed_gives_the_same_requests_everywhere() {
    let profile = small();
    let all = made(&profile, 5000);
    assert_eq!(print_of(&all), PRINT);
    let mut generator = Generator::new(&profile).expect("a generator");
    let (mut again, mut batch) = (Vec::new(), Vec::new());
    for count in [1, 0, 999, 4000] {
        generator.next_batch(&mut batch, count);
        again.append(&mut batch);
    }
    assert_eq!(again, all);
    let other = made(&Profile { seed: 8, ..profile }, 5000);
    assert_ne!(print_of(&other), print_of(&all));
}

#[test]
fn phases_ranges_shares_and_lengths_are_the_profile_s() {
    let profile = small();
    let all = made(&profile, 8000);
    // After its 4,000 requests the profile begins again.
    for half in all.chunks(4000) {
        let (first, second) = half.split_at(3000);
        let within = |request: &TraceRequest, from: f64, to: f64| {
            let at = |share: f64| (share * 4_194_304.0) as u64;
            request.offset_bytes >= at(from)
                && request.offset_bytes + u64::from(request.length_bytes) <= at(to)
        };
        assert!(first.iter().any(|request| within(request, 0.0, 0.25)));
        assert!(second.iter().all(|request| within(request, 0.25, 1.0)));
        let reads =
            |part: &[TraceRequest]| part.iter().filter(|request| request.op == RequestOp::Read).count();
        // 900 of 1,500, all of 750, 450 of 750; 600 of 1,000.
        assert_eq!((reads(first), reads(second)), (900 + 750 + 450, 600));
    }
    assert!(all.is_sorted_by_key(|request| request.time_ns));
    for (op, lengths) in [(RequestOp::Read, [4096, 8192]), (RequestOp::Write, [4096, 512])] {
        let mut of_op = all.iter().filter(|request| request.op == op).map(|request| request.length_bytes);
        assert!(of_op.all(|bytes| lengths.contains(&bytes)));
    }
    let short = all.iter().filter(|request| request.length_bytes == 512).count() as f64;
    let writes = all.iter().filter(|request| request.op == RequestOp::Write).count() as f64;
    assert!((short / writes - 0.5).abs() < 0.03);
}

#[test]
fn what_is_made_says_that_it_is_synthetic_wherever_it_is_converted() {
    let mut generator = Generator::new(&small()).expect("a generator");
    let mut batch = Vec::new();
    generator.next_batch(&mut batch, 100);
    let mut bytes = Vec::new();
    let mut names = vec![generator.volume().to_owned()];
    assert_eq!(names, ["synthetic:small"]);
    for _ in 0..2 {
        let mut writer = CompactWriter::new(Vec::new(), "memory").expect("memory");
        writer.write(&names, &batch).expect("good requests");
        bytes = writer.finish().expect("memory");
        let mut reader =
            read_trace(Cursor::new(bytes.clone()), "x.lode", &ReadOptions::default()).expect("the format");
        let (mut read, mut some) = (Vec::new(), Vec::new());
        while reader.next_batch(&mut some).expect("good requests") > 0 {
            read.append(&mut some);
        }
        assert_eq!(read, batch);
        names = reader.volumes().to_vec();
        assert!(names.iter().all(|name| is_synthetic(name)));
    }
    assert!(!bytes.is_empty() && !is_synthetic("small"));
}

/// A stream of single blocks with this reuse.
fn reuse_profile(reuse: Reuse, requests: u64, blocks: u64, read_share: f64) -> Profile {
    let stream = Stream::new(Pattern::Reuse(reuse));
    let one = vec![(4096, 1.0)];
    Profile {
        name: "reuse".to_owned(),
        about: String::new(),
        published: Vec::new(),
        assumed: Vec::new(),
        seed: 1,
        requests,
        footprint_bytes: blocks * 4096,
        block_bytes: 4096,
        read_share,
        sizes: Sizes { read: one.clone(), write: one, aligned_share: 1.0, alignment_bytes: 4096 },
        arrival: Arrival::Constant { requests_per_s: 1e6 },
        phase: vec![Phase { share: 1.0, stream: vec![stream] }],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Distances measured by the analyser are those that the profile asks for.
    #[test]
    fn distances_are_those_asked_for(
        weights in proptest::collection::vec(0.05f64..1.0, 3), seed in any::<u64>(), read_share in 0.2f64..0.8,
    ) {
        let (blocks, requests) = (2000, 40_000);
        let distances: Vec<_> = [10, 100, 1000].into_iter().zip(weights.iter().copied()).collect();
        let again = vec![Again { after: None, share: 1.0, distances }];
        let reuse =
            Reuse { run_bytes: 1 << 16, new_by_reads_share: 0.5, read: again.clone(), write: again };
        let profile = Profile { seed, ..reuse_profile(reuse, requests, blocks, read_share) };
        let mut measured = Distances::new(Metric::Trd);
        let mut found = [0.0; 3];
        for request in made(&profile, requests as usize) {
            let block = request.offset_bytes / 4096;
            if let Some(reuse) = measured.access(Direction::Read, block).expect("room") {
                let at = [10, 100, 1000].iter().position(|&end| reuse.distance < end);
                found[at.expect("a distance below 1,000")] += 1.0;
            }
        }
        prop_assert!((measured.distinct_blocks() as f64 - blocks as f64).abs() < 150.0);
        let (sum, whole) = (weights.iter().sum::<f64>(), found.iter().sum::<f64>());
        for (found, weight) in found.iter().zip(&weights) {
            prop_assert!((found / whole - weight / sum).abs() < 0.02, "{:?} {:?}", found / whole, weight / sum);
        }
    }

    /// No profile that checks makes a request outside its range, and none makes the generator fail.
    #[test]
    fn requests_stay_in_their_range(
        seed in any::<u64>(), kilobytes in 1u32..300, blocks in 80u64..600, sequential_share in 0.0f64..1.0,
        aligned_share in 0.0f64..1.0, read_share in 0.0f64..1.0, which in 0usize..5, run in 19u32..22,
        requests in 1u64..3000,
    ) {
        let again = vec![Again { after: None, share: 1.0, distances: vec![(3, 1.0), (50, 0.5), (100_000, 0.5)] }];
        let reuse =
            Reuse { run_bytes: 1 << run, new_by_reads_share: 0.5, read: again.clone(), write: again };
        let pattern = match which {
            0 => Pattern::Random,
            1 => Pattern::Loop,
            2 => Pattern::Sequential { run_bytes: 100_000 },
            3 => Pattern::Zipf { exponent: 1.1 },
            _ => Pattern::Reuse(reuse.clone()),
        };
        let mut profile = reuse_profile(reuse, requests, blocks, read_share);
        profile.seed = seed;
        profile.phase[0].stream[0].pattern = pattern;
        profile.phase[0].stream[0].sequential_share = sequential_share;
        profile.sizes.read = vec![(kilobytes * 1000, 1.0), (1, 1.0)];
        profile.sizes.write = vec![(512, 1.0)];
        profile.sizes.aligned_share = aligned_share;
        profile.sizes.alignment_bytes = 512;
        if let Ok(generator) = Generator::new(&profile) {
            let run_bytes = if which == 4 { 1u64 << run } else { 1 };
            let end = profile.footprint_bytes.next_multiple_of(run_bytes);
            for request in generator.take(3000) {
                prop_assert!(request.length_bytes > 0 && request.end_bytes().is_some_and(|at| at <= end));
            }
        } else {
            prop_assert!(profile.check().is_err() || which == 4);
        }
    }
}

#[test]
fn blocks_read_after_writes_follow_the_profile() {
    let profile = reuse_profile(
        Reuse {
            run_bytes: 1 << 16,
            new_by_reads_share: 0.5,
            read: [(lode_synth::After::Read, 0.3), (lode_synth::After::Write, 0.7)]
                .map(|(after, share)| Again { after: Some(after), share, distances: vec![(500, 1.0)] })
                .to_vec(),
            write: vec![Again { after: None, share: 1.0, distances: vec![(800, 1.0)] }],
        },
        50_000,
        1000,
        0.5,
    );
    let mut written = std::collections::HashMap::new();
    let (mut again, mut after_write) = (0.0, 0.0);
    for request in made(&profile, 50_000) {
        for part in blocks_of(BlockSize::KIB_4, request.offset_bytes, request.length_bytes.into()) {
            let before = written.insert(part.block, request.op == RequestOp::Write);
            if let (Some(was_written), RequestOp::Read) = (before, request.op) {
                again += 1.0;
                after_write += if was_written { 1.0 } else { 0.0 };
            }
        }
    }
    assert!((after_write / again - 0.7_f64).abs() < 0.03, "{}", after_write / again);
}

#[test]
fn bad_profiles_are_refused_with_their_place() {
    let replaced = |from: &str, to: &str| {
        assert!(SMALL.contains(from), "{from}");
        let text = SMALL.replacen(from, to, 1);
        let error = Profile::parse(&text, "bad.toml").map(|_| ()).expect_err(&format!("{from} -> {to}"));
        assert_eq!(error.kind(), SynthErrorKind::Profile);
        error.to_string()
    };
    for (from, to, expected) in [
        ("name = \"small\"", "name = \"Small\"", "name is \"Small\"; write 1 to 64 lower-case"),
        ("seed = 7", "seed = -1", "line 3"),
        ("seed = 7", "sead = 7", "unknown field `sead`"),
        ("requests = 4000", "requests = 0", "requests is 0; write 1 to"),
        ("footprint_bytes = 4194304", "footprint_bytes = 100", "footprint_bytes is 100; write 4096 to"),
        ("footprint_bytes = 4194304", "footprint_bytes = 40960", "phase 2: stream 2: range holds 2 blocks"),
        ("read_share = 0.6", "read_share = 1.5", "read_share is 1.5; write 0 to 1"),
        ("read_share = 0.6", "read_share = nan", "read_share is NaN"),
        (
            "read = [[4096, 3], [8192, 1]]",
            "read = []",
            "phase 1: stream 1: it has reads, but sizes.read is empty",
        ),
        ("[8192, 1]", "[0, 1]", "sizes.read is 0; write 1 to"),
        ("[8192, 1]", "[4294967295, 1]", "sizes.read is 4294967295"),
        ("[[4096, 3], [8192, 1]]", "[[4096, 0]]", "sizes.read: no weight is above 0"),
        ("[8192, 1]", "[8192, -1]", "sizes.read: weight is -1"),
        ("aligned_share = 0.5", "aligned_share = 2", "sizes.aligned_share is 2"),
        (
            "aligned_share = 0.5",
            "alignment_bytes = 513",
            "sizes.alignment_bytes is 513; write a power of two",
        ),
        ("kind = \"on-off\"", "kind = \"never\"", "unknown variant `never`"),
        ("requests_per_s = 1000.0", "requests_per_s = 0", "arrival.requests_per_s is 0"),
        ("on_s = 0.1", "on_s = 0.0001", "arrival.on_s is 0.0001; write 0.001 to"),
        ("share = 0.75", "share = 0.5", "share of the phases adds up to 0.75"),
        ("weight = 0.5", "weight = 0.25", "phase 1: weight of the streams adds up to 0.75"),
        ("range = [0.0, 0.5]", "range = [0.5, 0.0]", "phase 1: stream 1: range holds 0 blocks"),
        ("exponent = 0.9", "exponent = 40", "phase 1: stream 1: zipf.exponent is 40; write 0 to 4"),
        ("pattern = \"loop\"", "pattern = \"lop\"", "unknown variant `lop`"),
        ("run_bytes = 65536", "run_bytes = 0", "phase 2: stream 1: sequential.run_bytes is 0"),
        (
            "run_bytes = 16384",
            "run_bytes = 4096",
            "phase 2: stream 2: reuse.run_bytes is 4096; write 16384 to",
        ),
        ("run_bytes = 16384", "run_bytes = 20000", "reuse.run_bytes is 20000; write a power of two"),
        ("new_by_reads_share = 0.5", "new_by_reads_share = -1", "reuse.new_by_reads_share is -1"),
        ("[8, 1], [64, 1]", "[8, 1], [8, 1]", "reuse.read.distances: 8 follows 8; write ascending"),
        ("[8, 1], [64, 1]", "[0, 1]", "reuse.read.distances: 0 follows 0"),
        ("after = \"write\"", "after = \"read\"", "reuse.read: two entries are after the same"),
        ("[[32, 1]]", "[]", "reuse.read.distances: number of entries is 0"),
        ("sequential_share = 0.1", "read_after_write_share = 0.1", "with the reuse pattern"),
    ] {
        let message = replaced(from, to);
        assert!(message.contains(expected) && message.ends_with("(bad.toml)"), "{from} -> {to}: {message}");
    }
    let long = "#".repeat(lode_synth::check::MAX_PROFILE_BYTES + 1);
    assert!(Profile::parse(&long, "x").is_err());
    // What only shows when the requests are counted.
    let mut profile = small();
    profile.requests = 400;
    let error = Generator::new(&profile).map(|_| ()).expect_err("too few requests");
    assert!(error.to_string().contains("phase 2, stream 2"), "{error}");
}
