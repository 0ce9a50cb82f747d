//! The profiles that come with the program: what is made of them has the figures that were published.

use std::collections::{HashMap, HashSet};

use lode_reuse::{Analyser, Distances, Metric};
use lode_synth::{Generator, Profile, builtin, builtins};
use lode_types::{Direction, RequestOp, TraceRequest};

/// TICA, table 2: profile, reads, writes, total size in GB of 2^30 bytes.
const TICA: [(&str, u64, u64, f64); 17] = [
    ("tpcc", 1_352_983, 581_112, 43.932),
    ("webserver", 418_951, 270_569, 7.607),
    ("devtoolrel", 108_507, 52_032, 3.133),
    ("livemapsbe", 294_493, 115_862, 15.646),
    ("msnfs", 644_573, 349_485, 10.251),
    ("exchange", 158_011, 502_716, 9.795),
    ("postmark", 1_272_148, 3_172_014, 19.437),
    ("stg_1", 1_400_409, 796_452, 91.815),
    ("rsrch_0", 133_625, 1_300_030, 13.11),
    ("src1_2-tica", 21_112_615, 16_302_998, 1.65 * 1024.0),
    ("wdev_0", 229_529, 913_732, 10.628),
    ("ts_0", 316_692, 1_485_042, 16.612),
    ("usr_0", 904_483, 1_333_406, 51.945),
    ("hm_1", 580_896, 28_415, 9.45),
    ("mds_0", 143_973, 1_067_061, 11.4),
    ("prn_0", 602_480, 4_983_406, 63.44),
    ("prxy_0", 383_524, 12_135_444, 61.03),
];

/// ETICA, section 5.1.
const ETICA: [&str; 12] = [
    "hm_1", "mds_0", "mds_1", "src2_0", "src1_2", "stg_1", "ts_0", "wdev_0", "web_3", "rsrch_0", "usr_0",
    "proj_0",
];

/// RPAC, table II, in thousands: profile, reads, writes, different blocks read, written and in all.
const RPAC: [(&str, u64, u64, f64, f64, f64); 2] =
    [("fiu-mail", 2_130, 21_492, 1_666.0, 685.0, 2_271.0), ("fiu-webvm", 3_117, 11_177, 354.0, 248.0, 549.0)];

/// ETICA, table 2, and RPAC, section V.C.
const BENCHMARKS: [&str; 6] =
    ["fio-randrw", "filebench-web", "filebench-video", "filebench-varmail", "rpac-varmail", "rpac-webproxy"];

/// The go-sieve benchmark report: profile, requests, keys, LRU miss ratio with a cache of 10 % of the keys.
const REPORT: [(&str, u64, u64, f64); 4] = [
    ("prn_0", 5_585_886, 711_385, 0.231),
    ("proj_0", 4_224_524, 286_228, 0.238),
    ("prxy_0", 12_518_968, 155_681, 0.048),
    ("src1_2-tica", 37_415_613, 5_659_341, 0.913),
];

/// Requests of a profile made smaller for these tests, about; a profile is made smaller by this and its own number.
const SCALED_REQUESTS: f64 = 12_000.0;
/// What chance may do to the total of so few requests.
const BYTES_TOLERANCE: f64 = 0.04;

fn profile(name: &str) -> Profile {
    builtin(name).expect("a good profile").unwrap_or_else(|| panic!("no profile {name}"))
}

fn made(profile: &Profile) -> Vec<TraceRequest> {
    let generator = Generator::new(profile).unwrap_or_else(|error| panic!("{error}"));
    generator.take(profile.requests as usize).collect()
}

/// Mean length that the profile asks for, in bytes.
fn mean_bytes(profile: &Profile) -> f64 {
    let mean = |list: &[(u32, f64)]| {
        let sum: f64 = list.iter().map(|&(_, weight)| weight).sum();
        list.iter().map(|&(bytes, weight)| f64::from(bytes) * weight / sum).sum::<f64>()
    };
    profile.read_share * mean(&profile.sizes.read) + (1.0 - profile.read_share) * mean(&profile.sizes.write)
}

#[test]
fn the_papers_workloads_are_there() {
    let of_traces = TICA.iter().map(|row| row.0).chain(ETICA).chain(RPAC.iter().map(|row| row.0));
    let mut names: Vec<_> = of_traces.chain(BENCHMARKS).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 30);
    assert!(builtins().map(|(name, _)| name).eq(names.iter().copied()));
    for (name, text) in builtins() {
        let profile = profile(name);
        assert_eq!(profile.name, name);
        assert!(profile.about.ends_with("(synthetic)") && !profile.assumed.is_empty(), "{name}");
        // Only in one case is nothing published but the name.
        assert!(!profile.published.is_empty(), "{name}");
        assert_eq!(Profile::parse(&profile.to_toml().expect("TOML"), name).expect("the same"), profile);
        let page = include_str!("../../../../docs/profiles.md");
        assert!(page.contains(&format!("\n| `{name}` |")), "{name} is not in docs/profiles.md");
        assert!(text.is_ascii());
    }
}

#[test]
fn whole_counts_are_those_of_tica() {
    for (name, reads, writes, total_gb) in TICA {
        let profile = profile(name);
        assert_eq!(profile.requests, reads + writes, "{name}");
        let by_share = profile.read_share * profile.requests as f64;
        assert!((by_share - reads as f64).abs() < 0.5, "{name}: {by_share} reads");
        let total_bytes = mean_bytes(&profile) * profile.requests as f64;
        let published = total_gb * (1u64 << 30) as f64;
        assert!((total_bytes / published - 1.0).abs() < 1e-4, "{name}: {total_bytes} of {published}");
    }
}

#[test]
fn the_smallest_workload_is_made_whole() {
    let (name, reads, writes, total_gb) = TICA[2];
    let requests = made(&profile(name));
    assert_eq!(requests.iter().filter(|request| request.op == RequestOp::Read).count() as u64, reads);
    assert_eq!(requests.iter().filter(|request| request.op == RequestOp::Write).count() as u64, writes);
    let total_bytes: f64 = requests.iter().map(|request| f64::from(request.length_bytes)).sum();
    assert!((total_bytes / (total_gb * (1u64 << 30) as f64) - 1.0).abs() < 0.01, "{total_bytes}");
}

#[test]
fn every_workload_made_smaller_keeps_its_figures() {
    for (name, _) in builtins() {
        let whole = profile(name);
        let scaled = whole.scaled(SCALED_REQUESTS / whole.requests as f64);
        let requests = made(&scaled);
        assert_eq!(requests.len() as u64, scaled.requests, "{name}");
        let reads = requests.iter().filter(|request| request.op == RequestOp::Read).count() as f64;
        // Each stream has a whole number of requests.
        let streams = scaled.phase.iter().map(|phase| phase.stream.len()).sum::<usize>() as f64;
        let expected = scaled.read_share * scaled.requests as f64;
        assert!((reads - expected).abs() <= 0.5 * streams, "{name}: {reads} reads of {expected}");
        let total_bytes: f64 = requests.iter().map(|request| f64::from(request.length_bytes)).sum();
        let expected = mean_bytes(&whole) * scaled.requests as f64;
        assert!(
            (total_bytes / expected - 1.0).abs() < BYTES_TOLERANCE,
            "{name}: {total_bytes} of {expected}"
        );
        let last =
            requests.iter().map(|request| request.end_bytes().expect("an end")).max().expect("requests");
        assert!(last <= scaled.footprint_bytes + (1 << 20), "{name}: {last}");
        assert!(requests.is_sorted_by_key(|request| request.time_ns), "{name}");
    }
}

/// Distinct start offsets, and the miss ratio of an LRU cache of a tenth of so many, by whole requests.
fn keys_and_miss_ratio(requests: &[TraceRequest]) -> (u64, f64) {
    let mut distances = Distances::new(Metric::Trd);
    for request in requests {
        distances.access(Direction::Read, request.offset_bytes).expect("room");
    }
    let keys = distances.distinct_blocks() as u64;
    (keys, 1.0 - distances.tally().curve().hit_ratio_at(keys / 10))
}

#[test]
fn keys_and_miss_ratios_are_those_reported() {
    for (name, requests, keys, miss_ratio) in REPORT {
        let whole = profile(name);
        assert_eq!(whole.requests, requests, "{name}");
        let factor = 100_000.0 / requests as f64;
        let (found_keys, found) = keys_and_miss_ratio(&made(&whole.scaled(factor)));
        let keys = keys as f64 * factor;
        println!("{name}: {found_keys} keys of {keys:.0}, miss ratio {found:.4} of {miss_ratio}");
        assert!(
            (found_keys as f64 / keys - 1.0).abs() < 0.1,
            "{name}: {found_keys} keys, reported {keys:.0}"
        );
        assert!((found - miss_ratio).abs() < 0.03, "{name}: miss ratio {found}, reported {miss_ratio}");
    }
}

#[test]
fn blocks_read_and_written_are_those_of_rpac() {
    const FACTOR: f64 = 0.01;
    for (name, reads, writes, blocks_read, blocks_written, blocks) in RPAC {
        let whole = profile(name);
        assert_eq!(whole.requests, 1000 * (reads + writes), "{name}");
        assert!((whole.read_share * whole.requests as f64 - 1e3 * reads as f64).abs() < 0.5, "{name}");
        let (mut read, mut written) = (HashSet::new(), HashSet::new());
        for request in made(&whole.scaled(FACTOR)) {
            let kind = if request.op == RequestOp::Read { &mut read } else { &mut written };
            kind.insert(request.offset_bytes / 4096);
        }
        let all = read.union(&written).count();
        for (found, thousands) in [(read.len(), blocks_read), (written.len(), blocks_written), (all, blocks)]
        {
            let part = found as f64 / (thousands * 1e3 * FACTOR);
            assert!((part - 1.0).abs() < 0.03, "{name}: {found} blocks of {thousands} thousand");
        }
    }
}

#[test]
fn benchmarks_are_those_of_etica() {
    for (name, bytes, reads) in [
        ("fio-randrw", 8 << 10, Some(0.7)),
        ("filebench-web", 64 << 10, None),
        ("filebench-video", 256 << 10, Some(1.0)),
        ("filebench-varmail", 64 << 10, Some(0.5)),
    ] {
        let whole = profile(name);
        assert!((mean_bytes(&whole) - f64::from(bytes)).abs() < 1.0, "{name}");
        assert!(reads.is_none_or(|share| whole.read_share == share), "{name}");
    }
}

#[test]
fn benchmarks_of_rpac_have_its_files() {
    for name in ["rpac-varmail", "rpac-webproxy"] {
        let whole = profile(name);
        assert_eq!((whole.footprint_bytes, mean_bytes(&whole)), (600_000 * (16 << 10), 16384.0), "{name}");
        let files = made(&whole.scaled(0.01));
        let different: HashSet<u64> = files.iter().map(|request| request.offset_bytes / (16 << 10)).collect();
        assert!((5_500..=6_000).contains(&different.len()), "{name}: {} files", different.len());
    }
}

/// What the papers say in words.
#[test]
fn words_of_the_papers_hold() {
    let facts = |name: &str| {
        let whole = profile(name);
        let requests = made(&whole.scaled(30_000.0 / whole.requests as f64));
        let (mut written, mut again, mut after_write) = (HashMap::new(), 0u32, 0u32);
        let (mut sequential, mut end, mut read_bytes, mut bytes) = (0u32, 0, 0.0, 0.0);
        let mut distances = Distances::new(Metric::Trd);
        for request in &requests {
            sequential += u32::from(request.offset_bytes == end);
            end = request.end_bytes().expect("an end");
            bytes += f64::from(request.length_bytes);
            let reads = request.op == RequestOp::Read;
            read_bytes += if reads { f64::from(request.length_bytes) } else { 0.0 };
            let block = request.offset_bytes / 4096;
            distances.access(Direction::Read, block).expect("room");
            let before = written.insert(block, !reads);
            (again, after_write) = match before {
                Some(was_written) if reads => (again + 1, after_write + u32::from(was_written)),
                _ => (again, after_write),
            };
        }
        let count = requests.len() as f64;
        let tenth = distances.distinct_blocks() as u64 / 10;
        (
            f64::from(sequential) / count,
            f64::from(after_write) / f64::from(again.max(1)),
            distances.tally().curve().hit_ratio_at(tenth),
            read_bytes / bytes,
        )
    };
    let (sequential, _, hits, _) = facts("hm_1");
    assert!(sequential < 0.1 && hits > 0.75, "hm_1: random, high locality: {sequential} {hits}");
    let (sequential, _, hits, _) = facts("mds_1");
    assert!(sequential > 0.55 && hits < 0.15, "mds_1: sequential, low locality: {sequential} {hits}");
    for name in ["src2_0", "ts_0", "wdev_0"] {
        let (_, after_write, _, _) = facts(name);
        assert!(after_write > 0.5, "{name}: reads of what was written: {after_write}");
    }
    let (_, _, _, read_bytes) = facts("web_3");
    assert!(read_bytes > 0.7, "web_3: mainly reads: {read_bytes}");
}
