//! Committed and public traces, with the counts that are stated of them.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;

use lode_testdata::{public_traces, traces};
use lode_trace::{ErrorKind, OnError, ReadOptions, Reader, TraceInfo, info, open_trace, read_trace};
use lode_types::{OriginFields, RequestOp};

use crate::samples::{drain, every_format, fault_count, open, with_origins};

/// What is stated of a public trace with reads and writes.
struct Stated {
    file: &'static str,
    format: &'static str,
    requests: u64,
    reads_percent: f64,
    blocks: u64,
    reuse: f64,
    span_s: f64,
    /// How exactly the span is stated.
    span_within_s: f64,
    volumes: usize,
}

const fn stated(
    (file, format): (&'static str, &'static str),
    (requests, reads_percent): (u64, f64),
    (blocks, reuse): (u64, f64),
    (span_s, span_within_s): (f64, f64),
    volumes: usize,
) -> Stated {
    Stated { file, format, requests, reads_percent, blocks, reuse, span_s, span_within_s, volumes }
}

const READS_AND_WRITES: [Stated; 13] = [
    stated(("msr-hm_0-sample1k.csv.zst", "msr"), (1000, 50.8), (1917, 0.23), (127.2, 0.1), 1),
    stated(("msr-cut-rw20_80-10k.trace.zst", "msr-cut"), (10_000, 20.2), (7385, 0.55), (242.9, 0.1), 1),
    stated(("msr-cut-randiops-10k.trace.zst", "msr-cut"), (10_000, 83.2), (29_025, 0.09), (1.02, 0.01), 1),
    stated(("umass-financial1-first10k.ascii.zst", "ssdsim"), (10_000, 40.8), (7322, 0.68), (259.6, 0.1), 22),
    stated(("websearch-mqsim-25k.trace.zst", "ssdsim"), (24_783, 100.0), (93_029, 0.0), (60.1, 0.1), 6),
    stated(("cloudphysics-2h.vscsi.zst", "vscsi"), (113_872, 41.3), (269_210, 0.76), (7200.0, 2.0), 1),
    stated(("cloudphysics-2h.csv.zst", "vscsi-csv"), (113_872, 41.3), (269_210, 0.76), (7200.0, 2.0), 1),
    stated(("hplajw-1week.srt.zst", "srt"), (44_519, 29.3), (7344, 0.90), (603_065.0, 1.0), 2),
    stated(("fiu-mail-10k.blkparse.zst", "fiu"), (9997, 89.0), (9201, 0.08), (23.6, 0.1), 1),
    // One line has a bogus time, which the usual span leaves out.
    stated(("ycsb-ext4.blkparse.zst", "blkparse"), (9887, 91.4), (317_163, 0.0), (810.0, 1.0), 1),
    stated(("disksim-ascii-14dev.trace.zst", "disksim"), (100_000, 79.6), (158_355, 0.26), (1533.0, 1.0), 14),
    stated(("tencent-cbs-sample50k.csv.zst", "tencent"), (50_000, 49.0), (348_239, 0.08), (1.0, 0.1), 2038),
    stated(("systor17-lun0-sample1k.csv.zst", "systor"), (999, 82.7), (9831, 0.06), (2.4, 0.1), 1),
];

/// What is stated of one of block numbers: requests, and blocks of 4 KiB touched and distinct when a number counts `unit`.
struct Bare {
    file: &'static str,
    format: &'static str,
    unit_bytes: Option<u64>,
    requests: u64,
    touches: Option<u64>,
    blocks: u64,
}

const fn bare(
    (file, format): (&'static str, &'static str),
    unit_bytes: Option<u64>,
    requests: u64,
    touches: Option<u64>,
    blocks: u64,
) -> Bare {
    Bare { file, format, unit_bytes, requests, touches, blocks }
}

const W106: (&str, &str) = ("cloudphysics-w106-lbn.u32le.xz", "u32le");
const OLTP: (&str, &str) = ("arc-oltp.lis.zst", "lis");
const P3: (&str, &str) = ("arc-p3.lis.zst", "lis");
const P6: (&str, &str) = ("arc-p6.lis.zst", "lis");
/// With a unit of 4 KiB, 4 KiB blocks count what is stated in the trace's own.
const OWN: Option<u64> = Some(4096);

const BLOCK_NUMBERS: [Bare; 6] = [
    // Four blocks of 4 KiB in each of 16 KiB.
    bare(W106, Some(16_384), 5_292_456, Some(4 * 5_292_456), 4 * 275_171),
    bare(OLTP, OWN, 914_145, Some(914_145), 186_880),
    bare(P3, OWN, 238_578, Some(3_912_296), 762_543),
    bare(P3, None, 238_578, None, 102_348),
    bare(P6, OWN, 519_711, Some(12_672_123), 773_770),
    bare(P6, None, 519_711, None, 101_903),
];

/// Tables of statistics about traces, which are no traces.
const NO_TRACES: [&str; 3] =
    ["README.md", "stats-cloudphysics-106vm.csv.zst", "stats-cloudphysics-106vm-readhit.csv.zst"];

fn describe(path: &Path, unit_bytes: Option<u64>) -> TraceInfo {
    let options = ReadOptions { unit_bytes, ..ReadOptions::default() };
    let mut reader = open_trace(path, &options).unwrap_or_else(|error| panic!("{error}"));
    info(&mut reader).unwrap_or_else(|error| panic!("{error}"))
}

fn names(info: &TraceInfo) -> Vec<&str> {
    info.volumes.iter().map(|volume| volume.name.as_str()).collect()
}

/// Requests and mix are exact; the rest of what was made of a fitted profile is near.
fn assert_like(info: &TraceInfo, stated: &Stated) {
    let (total, file) = (&info.total, stated.file);
    assert_eq!((info.format, total.requests, info.volumes.len()), ("lode", stated.requests, 1), "{file}");
    let percent = total.read_share().expect("requests") * 100.0;
    assert!((percent - stated.reads_percent).abs() < 0.051, "{file}: {percent} % reads");
    assert!((total.distinct_blocks as f64 / stated.blocks as f64 - 1.0).abs() < 0.05, "{file}: {total:?}");
    let reuse = total.re_reference_share().expect("touches");
    assert!((reuse - stated.reuse).abs() < 0.02, "{file}: reuse {reuse}");
    let span_s = info.span.expect("requests").usual_last_ns as f64 / 1e9;
    assert!((span_s / stated.span_s - 1.0).abs() < 0.1, "{file}: {span_s} s");
}

fn assert_exact(info: &TraceInfo, stated: &Stated) {
    let (total, file) = (&info.total, stated.file);
    assert_eq!(
        (info.format, total.requests, total.distinct_blocks),
        (stated.format, stated.requests, stated.blocks),
        "{file}"
    );
    let percent = total.read_share().expect("requests") * 100.0;
    assert!((percent - stated.reads_percent).abs() < 0.051, "{file}: {percent} % reads");
    // Stated with two decimals, not always rounded to the nearest.
    let reuse = total.re_reference_share().expect("touches");
    assert!((reuse - stated.reuse).abs() < 0.01, "{file}: reuse {reuse}");
    let span = info.span.expect("requests");
    let span_s = (span.usual_last_ns - span.usual_first_ns) as f64 / 1e9;
    assert!((span_s - stated.span_s).abs() <= stated.span_within_s, "{file}: {span_s} s");
    assert_eq!(info.volumes.len(), stated.volumes, "{file}");
    assert_eq!((fault_count(&info.skipped), info.skipped.other_commands), (0, 0), "{file}");
}

#[test]
fn reads_and_writes_are_as_stated() {
    // In the shortest one chance counts for more.
    for name in ["cloudphysics-2h", "hplajw-1week", "umass-financial1-first10k"] {
        let stated = READS_AND_WRITES.iter().find(|stated| stated.file.starts_with(name)).expect(name);
        assert_like(&describe(&traces(name)[0].path, None), stated);
    }
    let Some(folder) = public_traces() else { return };
    for stated in &READS_AND_WRITES {
        assert_exact(&describe(&folder.join(stated.file), None), stated);
    }
}

#[test]
fn block_numbers_are_as_stated() {
    // The second is a tenth as large.
    for (name, (requests, blocks)) in [("arc-p3", (238_578, 102_348)), ("arc-oltp", (91_415, 18_688))] {
        let total = describe(&traces(name)[0].path, None).total;
        assert_eq!((total.requests, total.reads), (requests, requests), "{name}");
        assert!((total.distinct_blocks as f64 / f64::from(blocks) - 1.0).abs() < 0.05, "{name}: {total:?}");
    }
    let Some(folder) = public_traces() else { return };
    for stated in BLOCK_NUMBERS {
        let info = describe(&folder.join(stated.file), stated.unit_bytes);
        let (total, file) = (&info.total, stated.file);
        assert_eq!(
            (info.format, total.requests, total.distinct_blocks),
            (stated.format, stated.requests, stated.blocks),
            "{file}"
        );
        assert_eq!(total.reads, stated.requests, "{file}");
        match stated.touches {
            Some(touches) => assert_eq!(total.block_touches, touches, "{file}"),
            // In sectors the bytes count the references.
            None => assert!(
                BLOCK_NUMBERS
                    .iter()
                    .any(|other| { other.file == file && other.touches == Some(total.read_bytes / 512) })
            ),
        }
    }
}

#[test]
fn single_traces_are_as_stated() {
    let path = &traces("hplajw-1week")[0].path;
    assert_eq!(names(&describe(path, None)), ["synthetic:hplajw-1week"]);
    let Some(folder) = public_traces() else { return };
    let describe = |file: &str| describe(&folder.join(file), None);
    assert_eq!(names(&describe("msr-hm_0-sample1k.csv.zst")), ["hm_0"]);
    let (binary, text) = (describe("cloudphysics-2h.vscsi.zst"), describe("cloudphysics-2h.csv.zst"));
    assert_eq!((&binary.total, &binary.sizes), (&text.total, &text.sizes));
    assert_eq!(names(&binary), ["cloudphysics-2h"]);
    // blkparse's own summary: 9039 read and 848 write dispatches.
    let ycsb = describe("ycsb-ext4.blkparse.zst");
    assert_eq!((ycsb.total.reads, ycsb.total.writes), (9039, 848));
    assert_eq!((names(&ycsb), ycsb.span.expect("requests").stray_requests), (vec!["8,16"], 1));
    let hp = describe("hplajw-1week.srt.zst");
    let requests: Vec<_> = hp.volumes.iter().map(|disk| (disk.name.as_str(), disk.requests)).collect();
    assert_eq!(requests, [("1", 2267), ("0", 44_519 - 2267)]);
    assert_eq!(names(&describe("fiu-mail-10k.blkparse.zst")), ["6,0"]);
    assert_eq!(names(&describe("systor17-lun0-sample1k.csv.zst")), ["0"]);
    // Not sorted by time, and ordered by completion.
    for file in ["tencent-cbs-sample50k.csv.zst", "systor17-lun0-sample1k.csv.zst"] {
        assert!(describe(file).backwards > 0, "{file}");
    }
}

/// Under another name the content alone speaks: it is recognised, or it is not, but never taken for another format.
#[test]
fn no_content_is_claimed_by_a_wrong_format() {
    for name in ["msr-hm_0-sample1k", "umass-financial1-first10k"] {
        let mut all = drain(&mut open_trace(&traces(name)[0].path, &ReadOptions::default()).expect(name)).0;
        for request in &mut all {
            // What every format can hold.
            request.time_ns = request.time_ns.next_multiple_of(1000);
            request.length_bytes = request.length_bytes.next_multiple_of(512);
        }
        for (format, bytes) in every_format(&all) {
            let mut reader = open(bytes, "unnamed", OnError::Stop).expect(format);
            assert_eq!(reader.format(), format, "{name}");
            assert_eq!(drain(&mut reader).0, with_origins(format, &all), "{name}, {format}");
        }
    }
    let Some(folder) = public_traces() else { return };
    let by_content = READS_AND_WRITES.iter().map(|stated| (stated.file, Some(stated.format)));
    let by_name = BLOCK_NUMBERS.iter().map(|stated| (stated.file, None));
    let expected: Vec<_> = by_content.chain(by_name).chain(NO_TRACES.map(|file| (file, None))).collect();
    for entry in std::fs::read_dir(&folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let file = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let (_, format) = expected.iter().find(|(known, _)| *known == file).unwrap_or_else(|| {
            panic!("{file} is in no list of this test");
        });
        let bytes = File::open(&path).expect("a file");
        match (read_trace(bytes, "unnamed", &ReadOptions::default()), format) {
            (Ok(reader), Some(format)) => assert_eq!(reader.format(), *format, "{file}"),
            (Err(error), None) => assert_eq!(error.kind(), ErrorKind::UnknownFormat, "{file}"),
            (found, _) => panic!("{file}: {found:?}"),
        }
    }
    for file in NO_TRACES.iter().filter(|file| folder.join(file).exists()) {
        let error = open_trace(folder.join(file), &ReadOptions::default()).expect_err(file);
        assert_eq!(error.kind(), ErrorKind::UnknownFormat, "{file}");
    }
}

/// Of the requests of a trace: how many processes, and how many writes whose issuers wait, and others.
fn who_asks(reader: &mut Reader) -> (OriginFields, usize, [usize; 2]) {
    let (mut processes, mut writes) = (HashSet::new(), [0; 2]);
    for request in drain(reader).0 {
        processes.insert(request.origin.process().expect("every line has one"));
        if request.op == RequestOp::Write {
            writes[usize::from(request.origin.sync() != Some(true))] += 1;
        }
    }
    (reader.recorded().origins, processes.len(), writes)
}

#[test]
fn who_asks_is_counted() {
    let process = OriginFields { process: true, ..OriginFields::NONE };
    let path = &traces("msr-hm_0-sample1k")[0].path;
    let (all, _) = drain(&mut open_trace(path, &ReadOptions::default()).expect("a trace"));
    for (format, bytes) in every_format(&all) {
        let (told, writes) = match format {
            "blkparse" => (OriginFields { sync: true, ..process }, [492, 0]),
            "fiu" => (process, [0, 492]),
            _ => continue,
        };
        let mut reader = open(bytes, "unnamed", OnError::Stop).expect(format);
        assert_eq!(who_asks(&mut reader), (told, 1, writes), "{format}");
    }
    // Counted in the text with awk.
    let Some(folder) = public_traces() else { return };
    for (file, told, processes, writes) in [
        ("ycsb-ext4.blkparse.zst", OriginFields { sync: true, ..process }, 29, [671, 177]),
        ("fiu-mail-10k.blkparse.zst", process, 21, [0, 1101]),
    ] {
        let mut reader = open_trace(folder.join(file), &ReadOptions::default()).expect(file);
        assert_eq!(who_asks(&mut reader), (told, processes, writes), "{file}");
    }
}
