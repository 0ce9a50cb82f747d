//! A recorded VM, and a synthetic one like it, through every mode: the numbers must conserve.

use std::path::Path;

use lode_policy::{Quota, SchemeInfo};
use lode_replay::{Counts, Host, Options, Report, replay};
use lode_trace::{CompactWriter, Merge, MergeOptions, ReadOptions, open_trace, read_trace};
use lode_types::{BlockSize, Level};

const REQUESTS: usize = 20_000;

/// The first requests of each trace in the compact format.
fn heads() -> Vec<Vec<u8>> {
    lode_testdata::traces("cloudphysics-2h").iter().map(|trace| head_of(&trace.path)).collect()
}

fn head_of(path: &Path) -> Vec<u8> {
    let mut reader = open_trace(path, &ReadOptions::default()).expect("the trace");
    let mut writer = CompactWriter::new(Vec::new(), "memory").expect("memory");
    let (mut batch, mut left) = (Vec::new(), REQUESTS);
    while left > 0 && reader.next_batch(&mut batch).expect("good requests") > 0 {
        let take = batch.len().min(left);
        writer.write(reader.volumes(), &batch[..take]).expect("memory");
        left -= take;
    }
    writer.finish().expect("memory")
}

fn run(trace: &[u8], scheme: &str, setting: &str, physical: Quota) -> Report {
    let reader = read_trace(std::io::Cursor::new(trace.to_vec()), "head", &ReadOptions::default())
        .expect("a compact trace");
    let mut settings = SchemeInfo::find(scheme).expect("a scheme").settings();
    settings.set_pair(setting).expect("a setting");
    let host = Host::find("default").expect("a host");
    let options = Options {
        settings,
        physical,
        block_size: BlockSize::KIB_4,
        host,
        shares: None,
        daily_ssd_bytes: None,
    };
    let merge = Merge::new(vec![reader], MergeOptions::default()).expect("a merge");
    replay(merge, &options, Some(1), &mut |_, _| {}).expect("a report")
}

fn check_conservation(counts: &Counts, acknowledged_once: bool) {
    assert_eq!(counts.counters.requests as usize, REQUESTS);
    assert_eq!(counts.counters.broken_sum(), None);
    let (writes, evictions) = (&counts.counters.ssd_writes, &counts.counters.evictions);
    // It began empty.
    assert!(counts.counters.backing_writes <= counts.counters.block_writes);
    assert!(evictions.ssd <= writes.total - counts.counters.write_hits.ssd);
    assert!(evictions.dram <= counts.counters.dram_writes);
    assert!(evictions.read_ssd <= counts.counters.read_ssd_writes);
    let through = counts.counters.backing_writes - counts.counters.write_backs;
    if acknowledged_once {
        // Each guest write goes to the SSD or to the backing disk, never to both.
        assert_eq!(writes.write + through, counts.counters.block_writes);
    }
    assert!(counts.read_request_hits <= counts.read_requests);
    let latency_us = counts.mean_latency_us.expect("there are requests");
    // From DRAM hits alone to nothing but random merges and random writes of the disk.
    assert!((2.0..=16_000.0).contains(&latency_us), "{latency_us}");
    assert!(counts.counters.cwf.expect("there are writes").is_finite());
}

#[test]
fn a_recorded_vm_conserves_in_every_mode() {
    for trace in heads() {
        let physical = Quota::new(4_096, 16_384);
        for mode in ["mode=npe", "mode=full-hybrid", "mode=full-strict"] {
            let report = run(&trace, "etica", mode, physical);
            check_conservation(&report.total, true);
            assert_eq!(report.total.counters.ssd_writes.fill, 0, "{mode}: a read miss fills DRAM only");
            assert!(report.total.counters.read_hits.dram > 0, "{mode}");
            assert_eq!(report.vms[0].intervals.len(), REQUESTS / 10_000, "{mode}");
            for share in &report.vms[0].intervals {
                assert!(
                    share.dram_blocks <= physical.dram_blocks && share.ssd_blocks <= physical.ssd_blocks,
                    "{mode}"
                );
            }
        }
        for policy in ["wb", "wt", "ro", "wbwo", "wa"] {
            let report = run(&trace, "lru", &format!("write_policy={policy}"), Quota::new(0, 16_384));
            check_conservation(&report.total, matches!(policy, "wb" | "wbwo" | "ro"));
            assert_eq!(
                (report.total.counters.read_hits.dram, report.total.counters.dram_writes),
                (0, 0),
                "{policy}"
            );
            assert!(
                report.total.counters.read_hits.ssd > 0 && report.vms[0].intervals.is_empty(),
                "{policy}"
            );
            let through = report.total.counters.backing_writes - report.total.counters.write_backs;
            if matches!(policy, "wt" | "ro" | "wa") {
                assert_eq!(
                    (through, report.total.counters.write_backs),
                    (report.total.counters.block_writes, 0),
                    "{policy}"
                );
            }
        }
    }
}

/// With nothing left from before, pt has nothing to serve and nothing to write.
#[test]
fn a_recorded_vm_passes_through() {
    for trace in heads() {
        let report = run(&trace, "opencas-like", "write_policy=pt", Quota::new(0, 16_384));
        check_conservation(&report.total, true);
        let counters = &report.total.counters;
        assert_eq!((counters.ssd_writes.total, counters.read_hits.total()), (0, 0));
        let (misses, through) = (counters.read_misses, counters.backing_writes);
        assert_eq!((misses, through), (counters.block_reads, counters.block_writes));
    }
}

/// Every guest write reaches the SSD, and most of them the read SSD; the rest was rewritten or left before its turn.
#[test]
fn a_recorded_vm_is_on_two_devices() {
    for trace in heads() {
        let physical = Quota::new(4_096, 16_384).with(Level::ReadSsd, 16_384);
        let writes = |scheme: &str, setting: &str| {
            let report = run(&trace, scheme, setting, physical);
            check_conservation(&report.total, true);
            let counters = &report.total.counters;
            assert_eq!(counters.ssd_writes.write, counters.block_writes, "{scheme}");
            assert!((1..=counters.block_writes).contains(&counters.read_ssd_writes), "{scheme}");
            assert!(counters.evictions.read_ssd <= counters.evictions.ssd, "{scheme}");
            let mirrors = report.devices.mirrors.expect("second copies");
            assert_eq!(mirrors.missing, Some(0.0), "{scheme}");
            let loss = mirrors.loss_per_year.expect("something was dirty");
            // DRAM fails half as often as an SSD of the default host.
            assert!(
                (mirrors.pair_loss_per_year / 2.0..=mirrors.pair_loss_per_year * 1.001).contains(&loss),
                "{loss}"
            );
            (
                counters.ssd_writes.moved,
                counters.read_ssd_writes,
                mirrors.in_dram.expect("something was dirty"),
            )
        };
        let (copies, mirrored, in_dram) = writes("tica-ef", "copy_rate=1");
        assert_eq!(copies, 0);
        let (_, fewer, longer) = writes("tica-ef", "copy_rate=0");
        assert!(fewer < mirrored && longer > in_dram, "{fewer} {mirrored} {longer} {in_dram}");
        assert!(writes("tica-wed", "copy_rate=1").0 > 0);
        assert!(writes("tica-adaptive", "sample_size=1000").1 > 0);
    }
}

#[test]
fn the_same_run_gives_the_same_report() {
    for trace in heads() {
        let run = || run(&trace, "etica", "mode=full-hybrid", Quota::new(1_000, 5_000));
        assert_eq!(run(), run());
    }
}
