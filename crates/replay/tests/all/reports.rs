//! The report's shape is stable, and its numbers are numbers.

use lode_policy::{Quota, SchemeInfo};
use lode_replay::{Options, Report, ServiceTimes, level_blocks, replay};
use lode_trace::{Merge, MergeOptions, OnError, ReadOptions, read_trace};
use lode_types::{BlockSize, Level};
use serde_json::Value;

const COUNT_KEYS: [&str; 19] = [
    "requests",
    "read_requests",
    "read_request_hits",
    "trims",
    "flushes",
    "block_accesses",
    "block_reads",
    "block_writes",
    "read_hits",
    "read_misses",
    "write_hits",
    "dram_writes",
    "ssd_writes",
    "backing_reads",
    "backing_writes",
    "write_backs",
    "evictions",
    "mean_latency_us",
    "cwf",
];

fn report(iolog: &str) -> Report {
    let read = ReadOptions { on_error: OnError::Skip, ..ReadOptions::default() };
    let text = format!("fio version 3 iolog\n{iolog}");
    let reader =
        read_trace(std::io::Cursor::new(text.into_bytes()), "memory.iolog", &read).expect("an iolog");
    let mut settings = SchemeInfo::find("etica").expect("a scheme").settings();
    settings.set_pair("sizing_interval=2").expect("a setting");
    let options = Options {
        settings,
        physical: Quota::new(8, 16),
        block_size: BlockSize::KIB_4,
        times: ServiceTimes::default(),
    };
    let merge = Merge::new(vec![reader], MergeOptions::default()).expect("a merge");
    replay(merge, &options, None, &mut |_| {}).expect("a report")
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

fn sorted<'a>(keys: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut keys: Vec<_> = keys.into_iter().collect();
    keys.sort_unstable();
    keys
}

#[test]
fn the_keys_are_those_of_the_documentation() {
    let report = report(
        "0 a read 0 8192\nrubbish\n1 a write 0 4096\n2 b read 0 4096\n3 b read 0 4096\n1 a sync 0 0\n",
    );
    let json = serde_json::to_value(&report).expect("JSON");
    let top = [
        "scheme",
        "settings",
        "block_bytes",
        "physical",
        "model",
        "total",
        "vms",
        "intervals_cut",
        "inputs",
        "warnings",
    ];
    assert_eq!(keys(&json), sorted(top));
    assert_eq!(keys(&json["total"]), sorted(COUNT_KEYS));
    let of_vm = COUNT_KEYS.into_iter().chain(["name", "first_interval", "intervals"]);
    assert_eq!(keys(&json["vms"][0]), sorted(of_vm));
    assert_eq!(keys(&json["total"]["read_hits"]), ["dram", "ssd"]);
    assert_eq!(keys(&json["total"]["write_hits"]), ["ssd"]);
    assert_eq!(keys(&json["total"]["evictions"]), ["dram", "ssd"]);
    assert_eq!(keys(&json["total"]["ssd_writes"]), ["fill", "move", "promotion", "total", "write"]);
    assert_eq!(keys(&json["physical"]), ["dram_blocks", "ssd_blocks"]);
    assert_eq!(keys(&json["vms"][0]["intervals"][0]), ["dram_blocks", "ssd_blocks"]);
    let model = [
        "dram_us",
        "ssd_read_us",
        "ssd_write_us",
        "disk_random_us",
        "disk_sequential_us",
        "disk_small_write_factor",
    ];
    assert_eq!(keys(&json["model"]), sorted(model));
    let input = &json["inputs"][0];
    assert_eq!(keys(input), ["backwards", "bad_records", "format", "other_commands", "path"]);
    assert_eq!(keys(&input["bad_records"][0]), ["count", "first", "kind"]);
    assert_eq!(keys(&input["bad_records"][0]["first"][0]), ["byte", "expected", "line"]);
    // The third line of the text is the bad one.
    assert_eq!(input["bad_records"][0]["first"][0]["line"], 3);
    assert_eq!((&input["backwards"], &input["path"]), (&1.into(), &"memory.iolog".into()));
    assert_eq!(json["vms"][0]["intervals"].as_array().map(Vec::len), Some(2));
    assert_eq!((&json["vms"][0]["name"], &json["vms"][1]["name"]), (&"a".into(), &"b".into()));
    assert_eq!(json["settings"]["sizing_interval"], "2");
}

#[test]
fn numbers_without_a_base_are_null() {
    let json = serde_json::to_value(report("0 a sync 0 0\n0 a trim 0 8192\n")).expect("JSON");
    let total = &json["total"];
    assert_eq!((&total["requests"], &total["trims"], &total["flushes"]), (&0.into(), &1.into(), &1.into()));
    assert_eq!((&total["mean_latency_us"], &total["cwf"]), (&Value::Null, &Value::Null));
    let json = serde_json::to_value(report("0 a read 0 4096\n0 a read 0 4096\n")).expect("JSON");
    assert_eq!(json["total"]["cwf"], Value::Null);
    // One random read of the disk, one of DRAM.
    assert_eq!(json["total"]["mean_latency_us"], 4001.0);
}

#[test]
fn an_empty_trace_gives_an_empty_report() {
    let report = report("");
    assert_eq!((report.vms.len(), report.total.counters.requests), (0, 0));
}

#[test]
fn level_sizes_are_checked() {
    let block = BlockSize::KIB_4;
    assert_eq!(level_blocks(Level::Dram, 0, block).ok(), Some(0));
    assert_eq!(level_blocks(Level::Dram, 8191, block).ok(), Some(1));
    assert_eq!(level_blocks(Level::Ssd, 4 << 40, block).ok(), Some(1 << 30));
    for (bytes, message) in [(4095, "smaller than one block"), (u64::MAX, "more than 1073741824 blocks")] {
        let error = level_blocks(Level::Ssd, bytes, block).expect_err("a bad size").to_string();
        assert!(error.contains(message) && error.starts_with("The ssd level"), "{error}");
    }
}
