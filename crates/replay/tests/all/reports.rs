//! The report's shape is stable, and its numbers are numbers.

use lode_policy::{Quota, SchemeInfo};
use lode_replay::{Host, Options, Report, level_blocks, replay};
use lode_trace::{Merge, MergeOptions, OnError, ReadOptions, read_trace};
use lode_types::{BlockSize, Level};
use serde_json::Value;

const COUNT_KEYS: [&str; 20] = [
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
    "read_ssd_writes",
    "backing_reads",
    "backing_writes",
    "write_backs",
    "evictions",
    "mean_latency_us",
    "cwf",
];

fn report(iolog: &str) -> Report {
    report_on("default", "sizing_interval=2", iolog)
}

fn report_on(host: &str, setting: &str, iolog: &str) -> Report {
    report_of("etica", host, setting, iolog)
}

fn report_of(scheme: &str, host: &str, setting: &str, iolog: &str) -> Report {
    report_with(scheme, host, &[setting], iolog)
}

fn report_with(scheme: &str, host: &str, pairs: &[&str], iolog: &str) -> Report {
    let read = ReadOptions { on_error: OnError::Skip, ..ReadOptions::default() };
    let text = format!("fio version 3 iolog\n{iolog}");
    let reader =
        read_trace(std::io::Cursor::new(text.into_bytes()), "memory.iolog", &read).expect("an iolog");
    let mut settings = SchemeInfo::find(scheme).expect("a scheme").settings();
    pairs.iter().for_each(|pair| settings.set_pair(pair).expect("a setting"));
    let options = Options {
        settings,
        physical: Quota::new(8, 16),
        block_size: BlockSize::KIB_4,
        host: Host::find(host).expect("a host"),
        shares: None,
        daily_ssd_bytes: None,
    };
    let merge = Merge::new(vec![reader], MergeOptions::default()).expect("a merge");
    replay(merge, &options, None, &mut |_, _| {}).expect("a report")
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
        "ssd_write_budget_bytes_per_day",
        "model",
        "devices",
        "total",
        "vms",
        "intervals_cut",
        "inputs",
        "warnings",
    ];
    assert_eq!(keys(&json), sorted(top));
    assert_eq!(keys(&json["total"]), sorted(COUNT_KEYS));
    let of_vm = COUNT_KEYS.into_iter().chain(["name", "devices", "first_interval", "intervals", "decisions"]);
    assert_eq!(keys(&json["vms"][0]), sorted(of_vm));
    assert_eq!(keys(&json["total"]["read_hits"]), ["dram", "read_ssd", "ssd"]);
    assert_eq!(keys(&json["total"]["write_hits"]), ["ssd"]);
    assert_eq!(keys(&json["total"]["evictions"]), ["dram", "read_ssd", "ssd"]);
    assert_eq!(keys(&json["total"]["ssd_writes"]), ["fill", "move", "promotion", "total", "write"]);
    let levels = ["dram_blocks", "read_ssd_blocks", "ssd_blocks"];
    assert_eq!(keys(&json["physical"]), levels);
    assert_eq!(keys(&json["vms"][0]["intervals"][0]), levels);
    let model = [
        "host",
        "dram_us",
        "ssd_read_us",
        "ssd_write_us",
        "read_ssd_read_us",
        "read_ssd_write_us",
        "disk_random_us",
        "disk_sequential_us",
        "disk_small_write_factor",
        "disk_random_write_us",
        "disk_sequential_write_us",
        "disk_by_distance",
    ];
    assert_eq!(keys(&json["model"]), sorted(model));
    check_devices_keys(&json);
    let input = &json["inputs"][0];
    let of_input = [
        "path",
        "format",
        "also_fits",
        "implausible_bytes",
        "has_times",
        "unit_bytes",
        "unit_assumed",
        "synthetic",
        "backwards",
        "other_commands",
        "bad_records",
    ];
    assert_eq!(keys(input), sorted(of_input));
    assert_eq!(keys(&input["bad_records"][0]), ["count", "first", "kind"]);
    assert_eq!(keys(&input["bad_records"][0]["first"][0]), ["byte", "expected", "line"]);
    // The third line of the text is the bad one.
    assert_eq!(input["bad_records"][0]["first"][0]["line"], 3);
    assert_eq!((&input["backwards"], &input["path"]), (&1.into(), &"memory.iolog".into()));
    assert_eq!(json["vms"][0]["intervals"].as_array().map(Vec::len), Some(2));
    assert_eq!((&json["vms"][0]["name"], &json["vms"][1]["name"]), (&"a".into(), &"b".into()));
    assert_eq!(json["settings"]["sizing_interval"], "2");
}

fn check_devices_keys(json: &Value) {
    let devices = [
        "host",
        "span_s",
        "ssd_written_bytes",
        "ssd_written_bytes_per_s",
        "ssd_life_years",
        "read_ssd_written_bytes",
        "read_ssd_written_bytes_per_s",
        "read_ssd_life_years",
        "mirrors",
        "energy_j",
        "active_energy_j",
        "mean_w",
        "utilisation",
        "backing_utilisation_peak",
        "cost_usd",
        "drives",
    ];
    assert_eq!(keys(&json["devices"]), sorted(devices));
    for energy in [&json["devices"]["energy_j"], &json["vms"][0]["devices"]["active_energy_j"]] {
        assert_eq!(keys(energy), ["backing", "dram", "read_ssd", "ssd", "total"]);
    }
    assert_eq!(keys(&json["devices"]["cost_usd"]), ["dram", "read_ssd", "ssd", "total"]);
    assert_eq!(keys(&json["devices"]["utilisation"]), ["backing", "read_ssd", "ssd"]);
    let of_vm = ["active_energy_j", "active_mean_w", "read_ssd_written_bytes", "ssd_written_bytes"];
    assert_eq!(keys(&json["vms"][0]["devices"]), of_vm);
}

fn close(found: &Value, expected: f64) {
    let number = found.as_f64().expect("a number");
    assert!((number - expected).abs() <= 1e-9 * expected.abs(), "{number} {expected}");
}

/// Two VMs in ten seconds: blocks that are written, read from the SSD and read from the disk.
#[test]
fn energy_wear_and_cost_by_hand() {
    let trace = "0 a write 0 8192\n4000000 b read 8192 4096\n10000000 a read 0 4096\n";
    let json = serde_json::to_value(report_on("default", "sizing=off", trace)).expect("JSON");
    let devices = &json["devices"];
    close(&devices["span_s"], 10.0);
    // Eight blocks of DRAM and sixteen of SSD at TICA's prices.
    close(&devices["cost_usd"]["total"], (8.0 * 7.875 + 16.0 * 0.842) * 4096.0 / 1e9);
    let written = 2.0 * 4096.0;
    close(&devices["ssd_written_bytes"], written);
    close(&devices["ssd_written_bytes_per_s"], written / 10.0);
    let rated = 6416.0 * 16.0 * 4096.0;
    close(&devices["ssd_life_years"], rated / (written / 10.0) / (8760.0 * 3600.0));
    let counters = &json["total"];
    assert_eq!((&counters["read_hits"]["ssd"], &counters["read_misses"]), (&1.into(), &1.into()));
    // The SSD serves one read, which DRAM then takes too, as it takes what the disk served.
    assert_eq!(counters["dram_writes"], 2);
    let (ssd_read_s, ssd_write_s, disk_s, dram_s) = (120e-6, 2.0 * 60e-6, 8e-3, 2.0 * 2e-6);
    let ssd = ssd_read_s * 2.4 + ssd_write_s * 3.1;
    close(&devices["active_energy_j"]["ssd"], ssd);
    close(&devices["active_energy_j"]["backing"], disk_s * 8.0);
    close(&devices["active_energy_j"]["dram"], dram_s * 4.0);
    close(&devices["energy_j"]["ssd"], ssd + (10.0 - ssd_read_s - ssd_write_s) * 1.3);
    close(&devices["energy_j"]["backing"], disk_s * 8.0 + (10.0 - disk_s) * 5.0);
    close(&devices["energy_j"]["dram"], 40.0);
    close(&devices["utilisation"]["backing"], disk_s / 10.0);
    let total = devices["energy_j"]["total"].as_f64().expect("a number");
    close(&devices["mean_w"], total / 10.0);
    let of_vm = |vm: usize, key: &str| json["vms"][vm]["devices"]["active_energy_j"][key].as_f64();
    assert_eq!((of_vm(0, "backing"), of_vm(1, "ssd")), (Some(0.0), Some(0.0)));
    let sum: f64 = (0..2).filter_map(|vm| of_vm(vm, "total")).sum();
    close(&devices["active_energy_j"]["total"], sum);
}

/// A trace says nothing of the time after its end: what a VM writes in its ten seconds is its rate, however long others go.
#[test]
fn rates_of_traces_of_different_lengths_add_up() {
    let run = |traces: &[&str]| {
        let reader = |(at, trace): (usize, &&str)| {
            let text = format!("fio version 3 iolog\n{trace}").into_bytes();
            read_trace(std::io::Cursor::new(text), format!("{at}.iolog"), &ReadOptions::default())
                .expect("an iolog")
        };
        let readers = traces.iter().enumerate().map(reader).collect();
        let mut settings = SchemeInfo::find("etica").expect("a scheme").settings();
        settings.set_pair("sizing=off").expect("a setting");
        let options = Options {
            settings,
            physical: Quota::new(8, 16),
            block_size: BlockSize::KIB_4,
            host: Host::find("default").expect("a host"),
            shares: None,
            daily_ssd_bytes: None,
        };
        let merge = Merge::new(readers, MergeOptions::default()).expect("a merge");
        replay(merge, &options, None, &mut |_, _| {}).expect("a report").devices
    };
    let short = "0 a write 0 8192\n10000000 a read 0 4096\n";
    let long = "0 b write 0 8192\n0 c write 0 4096\n50000000 c read 0 4096\n100000000 b read 0 4096\n";
    let instant = "0 d write 0 4096\n";
    let per_s = |traces: &[&str]| run(traces).ssd_written_bytes_per_s.expect("a span");
    assert!((per_s(&[short]) - 2.0 * 409.6).abs() < 1e-9);
    // VMs of one trace were watched equally long.
    assert!((per_s(&[long]) - 3.0 * 40.96).abs() < 1e-9);
    let both = run(&[short, long]);
    assert!((per_s(&[short, long]) - per_s(&[short]) - per_s(&[long])).abs() < 1e-9);
    assert_eq!(both.span_s, Some(100.0));
    let years = |devices: &lode_replay::DevicesReport| devices.ssd_life_years.expect("a life");
    let inverse = 1.0 / years(&run(&[short])) + 1.0 / years(&run(&[long]));
    assert!((1.0 / years(&both) / inverse - 1.0).abs() < 1e-9);
    let busy = |traces: &[&str]| run(traces).utilisation.expect("a span");
    let (of_short, of_long, of_both) = (busy(&[short]), busy(&[long]), busy(&[short, long]));
    assert!(of_short.ssd > 0.0 && of_long.ssd > 0.0);
    assert!((of_both.ssd / (of_short.ssd + of_long.ssd) - 1.0).abs() < 1e-9);
    // Disks that cannot follow a short trace cannot do so either beside a long one.
    let burst: String = (0..200).map(|at| format!("{} e read {} 4096\n", at * 1000, at * 409_600)).collect();
    let (alone, beside) = (busy(&[&burst]).backing, busy(&[&burst, long]).backing);
    assert!(alone > 1.0 && beside >= alone, "{alone} {beside}");
    // What takes no time has no rate of its own.
    assert!((per_s(&[long, instant]) - 4.0 * 40.96).abs() < 1e-9);
}

/// Reads of the disk, eleven of them in the minute before the one at 60 s, of two volumes in turn.
#[test]
fn the_busiest_minute_by_hand() {
    let reads = |times_s: &[u64]| -> String {
        let read =
            |(at, s): (usize, &u64)| format!("{} v{} read {} 4096\n", s * 1_000_000, at % 2, at * 40_960);
        times_s.iter().enumerate().map(read).collect()
    };
    let times_s = [0, 1, 2, 3, 4, 5, 50, 51, 57, 58, 59, 60, 61, 130];
    let report = report_on("default", "sizing=off", &reads(&times_s));
    let peak = report.devices.backing_utilisation_peak.expect("more than a minute");
    assert!((peak - 11.0 * 0.008 / 60.0).abs() < 1e-12, "{peak}");
    // Of several disks each works for its part, and no more in a minute than in all.
    let of_array = report_on("sata-raid5", "sizing=off", &reads(&times_s)).devices;
    let (peak, mean) =
        (of_array.backing_utilisation_peak.expect("as long"), of_array.utilisation.expect("a span").backing);
    assert!(peak > mean && peak * 60.0 < mean * 130.0, "{peak} {mean}");
    assert_eq!(report_on("default", "sizing=off", &reads(&[0, 59])).devices.backing_utilisation_peak, None);
}

#[test]
fn a_span_of_no_time_has_no_rates() {
    let trace = "5 a write 0 4096\n5 a read 0 4096\n";
    let json = serde_json::to_value(report(trace)).expect("JSON");
    let devices = &json["devices"];
    assert_eq!(devices["span_s"], 0.0);
    for key in
        ["ssd_written_bytes_per_s", "ssd_life_years", "mean_w", "utilisation", "backing_utilisation_peak"]
    {
        assert!(devices[key].is_null(), "{key}");
    }
    assert!(json["vms"][0]["devices"]["active_mean_w"].is_null());
    assert_eq!(devices["energy_j"], devices["active_energy_j"]);
    let reads = serde_json::to_value(report("0 a read 0 4096\n9 a read 0 4096\n")).expect("JSON");
    assert!(reads["devices"]["ssd_life_years"].is_null());
    assert_eq!(reads["devices"]["ssd_written_bytes"], 0);
}

#[test]
fn another_host_changes_times_and_nothing_that_is_decided() {
    let trace = "0 a read 0 4096\n10 a read 409600 4096\n20 a write 0 4096\n90 a read 40960000 4096\n";
    let [one, two] = ["default", "sata-raid5"].map(|host| report_on(host, "sizing_interval=2", trace));
    assert_eq!(one.total.counters, two.total.counters);
    assert!(!one.model.disk_by_distance && two.model.disk_by_distance);
    assert_eq!((one.model.disk_small_write_factor, &two.model.host[..]), (1.0, "sata-raid5"));
    assert_ne!(one.total.mean_latency_us, two.total.mean_latency_us);
    // Two SSDs for one, two prices.
    assert!((two.devices.cost_usd.ssd / one.devices.cost_usd.ssd - 2.0).abs() < 1e-12);
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

#[test]
fn a_budget_that_cannot_be_met_is_told_with_the_least_possible() {
    // Half of the accesses go to eight blocks.
    let line = |at: u64| {
        let block = if at.is_multiple_of(2) { at % 16 } else { 16 + at };
        format!("{} a {} {} 4096\n", at, if at.is_multiple_of(3) { "write" } else { "read" }, block * 4096)
    };
    let iolog: String = (1..4000).map(line).collect();
    let warnings = |budget: &str| {
        let report = report_of("benefit-density", "default", &format!("write_budget={budget}"), &iolog);
        let written = report.total.counters.ssd_writes.total;
        (report.warnings.into_iter().find(|warning| warning.contains("write_budget")), written)
    };
    for budget in ["0", "90", "1000TiB/day"] {
        assert_eq!(warnings(budget).0, None, "{budget} is met, or none");
    }
    let (told, written) = warnings("0.0001");
    let told = told.expect("it is not met");
    assert!(written > 0, "it would be met");
    assert!(told.contains("`write_budget` is not met: it allows 0.00 blocks"), "{told}");
    assert!(
        told.contains(&format!("and {written} blocks were")) && told.contains("least possible"),
        "{told}"
    );
}

/// As much is told of each VM whose demand other shares put right, and null of others.
#[test]
fn what_other_shares_cost_is_told() {
    let request = |at: u64| format!("{at} a read {} 4096\n", at * 7 % 40 * 4096);
    let iolog: String = (0..20_000).map(request).collect();
    let pairs = ["sizing=host", "sizing_interval=5000", "look_accesses=10", "size_shadows=on"];
    let of = |pairs: &[&str]| {
        let report = report_with("auto", "default", pairs, &iolog);
        serde_json::to_value(&report).expect("JSON")["vms"][0]["decisions"].take()
    };
    let decisions = of(&pairs);
    assert_eq!(keys(&decisions), ["count", "latest", "sizes"]);
    assert_eq!(keys(&decisions["sizes"]), ["half", "own", "twice"]);
    let figures = ["disk_us", "dram_hits", "latency_us", "ssd_blocks", "ssd_hits", "ssd_writes"];
    assert_eq!(keys(&decisions["sizes"]["half"]), figures);
    let latency_us = |share: &str| decisions["sizes"][share]["latency_us"].as_f64().expect("a time");
    assert!(latency_us("half") > latency_us("own"), "{decisions}");
    assert_eq!(of(&pairs[..3])["sizes"], Value::Null);
}
