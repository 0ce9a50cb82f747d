//! Real traces, with the counts their README states.

use std::path::PathBuf;

use lode_trace::{ErrorKind, ReadOptions, TraceInfo, info, open_trace};

/// The folder with the traces, if this checkout has it.
fn traces() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces"));
    if !folder.is_dir() {
        println!("skipped: ../shared is absent");
        return None;
    }
    Some(folder)
}

fn describe(path: PathBuf) -> TraceInfo {
    let mut reader = open_trace(&path, &ReadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    info(&mut reader).unwrap_or_else(|error| panic!("{error}"))
}

fn percent(share: Option<f64>) -> f64 {
    (share.expect("requests") * 1000.0).round() / 10.0
}

/// Whether the re-reference share is the README's, which has two decimals and not always rounded to the nearest.
fn reuse_is(info: &TraceInfo, stated: f64) -> bool {
    (info.total.re_reference_share().expect("touches") - stated).abs() < 0.01
}

fn span_s(info: &TraceInfo) -> f64 {
    let span = info.span.expect("requests");
    (span.usual_last_ns - span.usual_first_ns) as f64 / 1e9
}

#[test]
fn msr_sample() {
    let Some(folder) = traces() else { return };
    let info = describe(folder.join("msr-hm_0-sample1k.csv.zst"));
    assert_eq!((info.format, info.total.requests, info.total.distinct_blocks), ("msr", 1000, 1917));
    assert_eq!(percent(info.total.read_share()), 50.8);
    assert!(reuse_is(&info, 0.23));
    assert_eq!(info.volumes.iter().map(|volume| volume.name.as_str()).collect::<Vec<_>>(), ["hm_0"]);
    assert_eq!((span_s(&info) * 10.0).round(), 1272.0);
    assert_eq!(info.skipped.fault_count(), 0);
}

#[test]
fn cloudphysics_binary_and_text_agree() {
    let Some(folder) = traces() else { return };
    let mut infos = Vec::new();
    for (name, format) in [("cloudphysics-2h.vscsi.zst", "vscsi"), ("cloudphysics-2h.csv.zst", "vscsi-csv")] {
        let info = describe(folder.join(name));
        assert_eq!(
            (info.format, info.total.requests, info.total.distinct_blocks),
            (format, 113_872, 269_210)
        );
        assert_eq!(percent(info.total.read_share()), 41.3);
        assert!(reuse_is(&info, 0.76));
        assert!((span_s(&info) - 7200.0).abs() < 2.0, "{}", span_s(&info));
        assert_eq!(
            info.volumes.iter().map(|volume| volume.name.as_str()).collect::<Vec<_>>(),
            ["cloudphysics-2h"]
        );
        infos.push(info);
    }
    assert_eq!((&infos[0].total, &infos[0].sizes), (&infos[1].total, &infos[1].sizes));
}

#[test]
fn blkparse_without_queue_events() {
    let Some(folder) = traces() else { return };
    let info = describe(folder.join("ycsb-ext4.blkparse.zst"));
    assert_eq!((info.format, info.total.requests, info.total.distinct_blocks), ("blkparse", 9887, 317_163));
    assert_eq!(percent(info.total.read_share()), 91.4);
    assert!(reuse_is(&info, 0.0));
    // One line has a bogus time.
    assert_eq!((span_s(&info).round(), info.span.expect("requests").stray_requests), (810.0, 1));
    // blkparse's own summary: 9039 read and 848 write dispatches.
    assert_eq!((info.total.reads, info.total.writes), (9039, 848));
    assert_eq!(info.volumes.iter().map(|volume| volume.name.as_str()).collect::<Vec<_>>(), ["8,16"]);
}

#[test]
fn traces_in_other_formats_are_not_mistaken() {
    let Some(folder) = traces() else { return };
    let known = ["msr-hm_0-sample1k", "cloudphysics-2h", "ycsb-ext4"];
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        // The mail server's trace is named after blkparse but is not its output: reading says so.
        if known.iter().any(|known| name.starts_with(known)) || name.starts_with("fiu-mail") {
            continue;
        }
        let error = open_trace(&path, &ReadOptions::default()).expect_err(&name);
        assert_eq!(error.kind(), ErrorKind::UnknownFormat, "{name}");
        seen += 1;
    }
    assert!(seen > 5);
}
