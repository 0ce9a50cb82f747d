//! How VMs come to be: counted ahead, met in the first batch, or met later.

use std::path::PathBuf;

use lode_policy::{Quota, SchemeInfo};
use lode_replay::{Host, LevelBlocks, Options, Report, count_vms, replay};
use lode_trace::{Merge, MergeOptions, ReadOptions, VmBy, limits, open_trace, read_trace};
use lode_types::BlockSize;

/// Writes one iolog line per entry: the volume's name and the number of times it reads block 0 and 1.
fn iolog(volumes: &[(&str, usize)]) -> String {
    let mut text = "fio version 3 iolog\n".to_owned();
    for (name, times) in volumes {
        (0..*times).for_each(|i| text += &format!("0 {name} read {} 4096\n", i % 2 * 4096));
    }
    text
}

fn options(pairs: &[&str]) -> Options {
    let mut settings = SchemeInfo::find("etica").expect("a scheme").settings();
    pairs.iter().for_each(|pair| settings.set_pair(pair).expect("a setting"));
    let (block_size, host) = (BlockSize::KIB_4, Host::find("default").expect("a host"));
    Options { settings, physical: Quota::new(8, 8), block_size, host, shares: None, daily_ssd_bytes: None }
}

fn run(text: String, options: &Options, known_vms: Option<usize>) -> Report {
    let reader =
        read_trace(std::io::Cursor::new(text.into_bytes()), "t", &ReadOptions::default()).expect("an iolog");
    let merge = Merge::new(vec![reader], MergeOptions::default()).expect("a merge");
    replay(merge, options, known_vms, &mut |_, _| {}).expect("a report")
}

#[test]
fn volumes_are_counted_once_they_have_a_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: String| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    let paths = [
        write("one.iolog", iolog(&[("a", 2), ("b", 1)])),
        write("two.iolog", iolog(&[("a", 1)])),
        write("empty.iolog", iolog(&[])),
    ];
    let read = ReadOptions::default();
    let count = |vm_by| count_vms(&paths, &read, vm_by, &mut |_| {}).expect("good traces");
    assert_eq!((count(VmBy::Volume), count(VmBy::File)), (Some(3), Some(2)));
    for vm_by in [VmBy::Volume, VmBy::File] {
        let readers = paths.iter().map(|path| open_trace(path, &read).expect("a trace")).collect();
        let merge = Merge::new(readers, MergeOptions { vm_by, ..MergeOptions::default() }).expect("a merge");
        let report = replay(merge, &options(&[]), count(vm_by), &mut |_, _| {}).expect("a report");
        assert_eq!(Some(report.vms.len()), count(vm_by));
    }
    let with_stdin = [paths[0].clone(), PathBuf::from("-")];
    assert_eq!(count_vms(&with_stdin, &read, VmBy::Volume, &mut |_| {}).expect("not read"), None);
}

#[test]
fn a_vm_met_late_has_no_share_before_the_next_sizing() {
    let first = 2 * limits::BATCH_REQUESTS;
    let text = iolog(&[("early", first), ("late", 1_000), ("late", 1_000)]);
    let interval = format!("sizing_interval={}", first + 1_000);
    let report = run(text.clone(), &options(&[&interval]), None);
    let late = &report.vms[1];
    assert_eq!((late.name.as_str(), late.first_interval), ("late", 0));
    // Without a share every one of its first 1,000 reads misses; then it has its two blocks.
    assert_eq!((late.counts.counters.read_misses, late.counts.counters.read_hits.dram), (1_002, 998));
    assert_eq!(late.intervals, [LevelBlocks { dram_blocks: 2, ssd_blocks: 0, read_ssd_blocks: 0 }]);
    // Counted ahead, it starts with half of the levels.
    let report = run(text.clone(), &options(&[&interval]), Some(2));
    assert_eq!(report.vms[1].counts.counters.read_misses, 2);
    // Without sizing it never gets one, and that is said; counted ahead, it keeps its half.
    let report = run(text.clone(), &options(&["sizing=off"]), None);
    assert_eq!(report.vms[1].counts.counters.read_misses, 2_000);
    assert!(report.warnings[0].contains("before 1 volume appeared"), "{:?}", report.warnings);
    let report = run(text, &options(&["sizing=off"]), Some(2));
    assert_eq!(report.vms[1].counts.counters.read_misses, 2);
    assert!(report.vms[1].intervals.is_empty() && report.warnings.is_empty());
}

#[test]
fn a_vm_met_after_a_sizing_says_where_its_intervals_start() {
    let first = 2 * limits::BATCH_REQUESTS;
    let report = run(iolog(&[("early", first), ("late", 3_000)]), &options(&["sizing_interval=3000"]), None);
    assert_eq!((report.vms[0].first_interval, report.vms[0].intervals.len()), (0, 3));
    assert_eq!((report.vms[1].first_interval, report.vms[1].intervals.len()), (2, 1));
}

#[test]
fn volumes_of_one_vm_do_not_share_blocks() {
    let text = iolog(&[("a", 2), ("b", 2), ("a", 2), ("b", 2)]);
    let reader =
        read_trace(std::io::Cursor::new(text.into_bytes()), "t", &ReadOptions::default()).expect("an iolog");
    let by_file = MergeOptions { vm_by: VmBy::File, ..MergeOptions::default() };
    let merge = Merge::new(vec![reader], by_file).expect("a merge");
    let report = replay(merge, &options(&[]), Some(1), &mut |_, _| {}).expect("a report");
    assert_eq!(
        (report.vms.len(), report.total.counters.read_misses, report.total.counters.read_hits.dram),
        (1, 4, 4)
    );
}
