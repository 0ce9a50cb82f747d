//! Scrapes of a daemon's metrics: what they say, that Prometheus understands it, and that no scraper is in the way of guests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lode_nbd::Command as Nbd;
use serde_json::Value;

use crate::client::{Client, PATIENCE, connect_socket};
use crate::common::{Daemon, MIB, Site};

/// Longer than a page is given out again.
const PAGE_LIFE: Duration = Duration::from_millis(150);

fn site() -> Site {
    let site = Site::in_memory();
    let folder = site.folder.path().display();
    site.configure(&format!("[metrics]\nlisten = \"unix:{folder}/metrics.sock\""));
    site
}

fn scraper(site: &Site) -> UnixStream {
    let stream = connect_socket(&site.path("metrics.sock"));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The head and the body of the answer.
fn ask(site: &Site, request: &[u8]) -> (String, String) {
    let mut stream = scraper(site);
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("it is HTTP");
    (head.to_owned(), body.to_owned())
}

pub fn scrape(site: &Site) -> String {
    std::thread::sleep(PAGE_LIFE);
    let (head, body) = ask(site, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    body
}

/// Samples by name and labels as they are written.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| line.rsplit_once(' ').unwrap());
    samples.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

/// Requests of all kinds, on both VMs.
fn work(daemon: &Daemon<'_>) -> [Client; 2] {
    ["vm1", "vm2"].map(|vm| {
        let mut client = daemon.client(vm);
        for at in 0..40 {
            client.write(at * 6144, &[at as u8 + 1; 8192]);
            client.read(at * 4096, 4096);
        }
        for (command, offset, length, fua, bytes) in [
            (Nbd::Write, 0, 4096, true, &[9; 4096][..]),
            (Nbd::Trim, 65536, 65536, false, &[]),
            (Nbd::WriteZeroes, 131_072, 4096, true, &[]),
        ] {
            client.ask(command, offset, length, fua, bytes).unwrap().unwrap();
        }
        client.flush();
        (0..80).for_each(|at| drop(client.read(MIB + at % 50 * 4096, 4096)));
        client
    })
}

/// Every number of a VM in the status, and the sample that tells it; `+`: the sum of all samples that differ in a label.
const OF_STATUS: &[(&str, &str)] = &[
    ("connections", "lode_connections"),
    ("stopped", "lode_vm_stopped"),
    ("writeback/dirty_limit_blocks", "lode_dirty_limit_blocks"),
    ("writeback/dirty_max_blocks", "lode_dirty_max_blocks"),
    ("writeback/age_s", "lode_write_back_age_seconds"),
    ("writeback/idle_s", "lode_write_back_idle_seconds"),
    ("scrub_s", "lode_scrub_period_seconds"),
    ("gauges/dropped_clean_copies", "lode_dropped_clean_copies_total"),
    ("gauges/scrubbed_blocks", "lode_scrubbed_blocks_total"),
    ("gauges/scrub_passes", "lode_scrub_passes_total"),
    ("block_bytes", "lode_block_bytes"),
    ("in_flight_bytes", "lode_in_flight_bytes"),
    ("drain_cancelled", "lode_drain_cancelled"),
    ("quota/dram_blocks", "lode_quota_blocks level dram"),
    ("quota/ssd_blocks", "lode_quota_blocks level ssd"),
    ("quota/read_ssd_blocks", "lode_quota_blocks level read_ssd"),
    ("sharing/dram/share_blocks", "lode_quota_blocks level dram"),
    ("sharing/dram/target_blocks", "lode_share_target_blocks level dram"),
    ("sharing/dram/wanted_blocks", "lode_share_wanted_blocks level dram"),
    ("sharing/dram/min_blocks", "lode_share_min_blocks level dram"),
    ("sharing/dram/max_blocks", "lode_share_max_blocks level dram"),
    ("sharing/dram/reach_blocks", "lode_share_reach_blocks level dram"),
    ("sharing/ssd/share_blocks", "lode_quota_blocks level ssd"),
    ("sharing/ssd/target_blocks", "lode_share_target_blocks level ssd"),
    ("sharing/ssd/wanted_blocks", "lode_share_wanted_blocks level ssd"),
    ("sharing/ssd/min_blocks", "lode_share_min_blocks level ssd"),
    ("sharing/ssd/max_blocks", "lode_share_max_blocks level ssd"),
    ("sharing/ssd/reach_blocks", "lode_share_reach_blocks level ssd"),
    ("sharing/weight", "lode_share_weight"),
    ("limits/connections", "lode_connections_limit"),
    ("limits/vm_in_flight_bytes", "lode_in_flight_limit_bytes"),
    ("requests/fua", "lode_fua_requests_total"),
    ("requests/trim", "lode_trim_requests_total"),
    ("requests/write_zeroes", "lode_write_zeroes_requests_total"),
    ("counters/requests", "lode_requests_total"),
    ("counters/block_reads", "lode_block_reads_total"),
    ("counters/block_writes", "lode_block_writes_total"),
    ("counters/read_hits/dram", "lode_read_hits_total level dram"),
    ("counters/read_hits/ssd", "lode_read_hits_total level ssd"),
    ("counters/read_hits/read_ssd", "lode_read_hits_total level read_ssd"),
    ("counters/read_misses", "lode_read_misses_total"),
    ("counters/write_hits/ssd", "lode_write_hits_total"),
    ("counters/dram_writes", "lode_dram_writes_total"),
    ("counters/ssd_writes/total", "lode_ssd_writes_total +"),
    ("counters/ssd_writes/fill", "lode_ssd_writes_total cause fill"),
    ("counters/ssd_writes/write", "lode_ssd_writes_total cause write"),
    ("counters/ssd_writes/promotion", "lode_ssd_writes_total cause promotion"),
    ("counters/ssd_writes/move", "lode_ssd_writes_total cause move"),
    ("counters/read_ssd_writes", "lode_read_ssd_writes_total"),
    ("counters/backing_reads", "lode_backing_reads_total"),
    ("counters/backing_writes", "lode_backing_writes_total"),
    ("counters/write_backs", "lode_write_backs_total"),
    ("counters/evictions/dram", "lode_evictions_total level dram"),
    ("counters/evictions/ssd", "lode_evictions_total level ssd"),
    ("counters/evictions/read_ssd", "lode_evictions_total level read_ssd"),
    ("gauges/dram_blocks", "lode_held_blocks level dram"),
    ("gauges/ssd_blocks", "lode_held_blocks level ssd"),
    ("gauges/read_ssd_blocks", "lode_held_blocks level read_ssd"),
    ("gauges/dirty_blocks", "lode_dirty_blocks"),
    ("gauges/unmirrored_blocks", "lode_unmirrored_blocks"),
    ("gauges/lost_blocks", "lode_lost_blocks"),
    ("gauges/write_backs_waiting", "lode_write_backs_waiting_blocks"),
    ("gauges/promotions_waiting", "lode_promotions_waiting_blocks"),
    ("gauges/quarantined", "lode_quarantined_blocks level ssd"),
    ("gauges/read_ssd_quarantined", "lode_quarantined_blocks level read_ssd"),
    ("gauges/memory_bytes", "lode_memory_bytes"),
    ("gauges/reissued_writes", "lode_reissued_writes_total"),
    ("gauges/refused_reissues", "lode_refused_reissues_total"),
    ("gauges/discarded_completions", "lode_discarded_completions_total"),
    ("gauges/scheme_switches", "lode_scheme_switches_total"),
    ("gauges/cleaned_blocks", "lode_cleaned_blocks_total"),
    ("gauges/drain_failures", "lode_drain_failures_total"),
    ("gauges/ssd_data_bytes", "lode_ssd_data_written_bytes_total"),
    ("gauges/ssd_metadata_bytes", "lode_ssd_metadata_written_bytes_total"),
    ("gauges/read_ssd_data_bytes", "lode_read_ssd_data_written_bytes_total"),
    ("gauges/backing_read_bytes", "lode_backing_read_bytes_total"),
    ("gauges/backing_written_bytes", "lode_backing_written_bytes_total"),
    ("gauges/redo_written_bytes", "lode_redo_written_bytes_total"),
    ("alarms/unreadable_at_start", "lode_alarms_total alarm unreadable_at_start"),
    ("alarms/damaged_clean", "lode_alarms_total alarm damaged_clean"),
    ("alarms/damaged_mirrored", "lode_alarms_total alarm damaged_mirrored"),
    ("alarms/damaged_dirty", "lode_alarms_total alarm damaged_dirty"),
    ("alarms/ssd_errors", "lode_alarms_total alarm ssd_errors"),
    ("alarms/read_ssd_errors", "lode_alarms_total alarm read_ssd_errors"),
    ("alarms/backing_errors", "lode_alarms_total alarm backing_errors"),
    ("alarms/failed", "lode_failed alarm failed"),
    ("alarms/ssd_failed", "lode_failed alarm ssd_failed"),
    ("alarms/backing_failed", "lode_failed alarm backing_failed"),
    ("alarms/read_ssd_gone", "lode_failed alarm read_ssd_gone"),
    ("latency/read/dram/count", "lode_read_duration_seconds_count served dram"),
    ("latency/read/read_ssd/count", "lode_read_duration_seconds_count served read_ssd"),
    ("latency/read/ssd/count", "lode_read_duration_seconds_count served ssd"),
    ("latency/read/backing/count", "lode_read_duration_seconds_count served backing"),
    ("latency/write/count", "lode_write_duration_seconds_count"),
    ("latency/flush/count", "lode_flush_duration_seconds_count"),
    ("shm/bytes", "lode_shm_bytes"),
    ("shm/records_taken_over", "lode_records_taken_over"),
];

/// Numbers of a VM that no sample tells as they are: sums, quotients, percentiles, settings, and what is not always there.
const DERIVED: [&str; 13] = [
    "shard",
    "counters/block_accesses",
    "counters/cwf",
    "/p50_us",
    "/p99_us",
    "/max_us",
    "/sum_us",
    "measured_hit_ratio",
    "limits/connection_in_flight_bytes",
    "limits/slow_request_ms",
    "dirty_s",
    "acknowledge_before_durable",
    "sidecar/generation",
];

/// The numbers and truth values of an object, by their paths.
fn leaves(value: &Value, path: &str, found: &mut BTreeMap<String, f64>) {
    match value {
        Value::Object(fields) => {
            let path = |key| if path.is_empty() { key } else { format!("{path}/{key}") };
            fields.iter().for_each(|(key, value)| leaves(value, &path(key.clone()), found));
        }
        Value::Number(number) => drop(found.insert(path.to_owned(), number.as_f64().unwrap())),
        Value::Bool(is_true) => drop(found.insert(path.to_owned(), f64::from(u8::from(*is_true)))),
        _ => {}
    }
}

/// The value of a sample of a VM, written as in [`OF_STATUS`].
fn sample_of(samples: &BTreeMap<String, f64>, vm: &str, sample: &str) -> f64 {
    let words: Vec<&str> = sample.split(' ').collect();
    match words[..] {
        [name] => samples[&format!("{name}{{vm=\"{vm}\"}}")],
        [name, "+"] => {
            let (name, label) = (format!("{name}{{"), format!("vm=\"{vm}\""));
            let of_it = samples.iter().filter(|(key, _)| key.starts_with(&name) && key.contains(&label));
            of_it.map(|(_, value)| value).sum()
        }
        [name, label, value] => samples[&format!("{name}{{vm=\"{vm}\",{label}=\"{value}\"}}")],
        _ => panic!("{sample}"),
    }
}

#[test]
fn a_scrape_says_what_the_status_says() {
    let site = site();
    let daemon = site.serve_up();
    let clients = work(&daemon);
    let known: BTreeSet<&str> = OF_STATUS.iter().map(|(path, _)| *path).collect();
    let deadline = Instant::now() + PATIENCE;
    // What goes on in the background ends soon.
    let (status, samples) = loop {
        let before = daemon.status();
        let samples = samples(&scrape(&site));
        if daemon.status()["vms"] == before["vms"] {
            break (before, samples);
        }
        assert!(Instant::now() < deadline, "it does not come to rest");
    };
    for vm in status["vms"].as_array().unwrap() {
        let (name, mut numbers) = (vm["name"].as_str().unwrap(), BTreeMap::new());
        leaves(vm, "", &mut numbers);
        for (path, sample) in OF_STATUS {
            assert_eq!(numbers[*path], sample_of(&samples, name, sample), "{name}: {path}, {sample}");
        }
        let mut waited = 0.0;
        for (cause, times) in vm["latency"]["waited_for"].as_object().unwrap() {
            let sample = format!("lode_request_duration_seconds_count waited_for {cause}");
            waited += times["count"].as_f64().unwrap();
            assert_eq!(times["count"].as_f64().unwrap(), sample_of(&samples, name, &sample));
            numbers.remove(&format!("latency/waited_for/{cause}/count"));
        }
        numbers
            .retain(|path, _| !known.contains(path.as_str()) && !DERIVED.iter().any(|d| path.ends_with(d)));
        assert!(numbers.is_empty(), "no metric tells {numbers:?}");
        let of = |sample| sample_of(&samples, name, sample);
        assert!(of("lode_block_reads_total") > 0.0 && of("lode_read_misses_total") > 0.0);
        assert_eq!(of("lode_block_reads_total"), of("lode_read_hits_total +") + of("lode_read_misses_total"));
        assert_eq!(of("lode_fua_requests_total"), 2.0);
        let reads_and_writes =
            of("lode_read_duration_seconds_count +") + of("lode_write_duration_seconds_count");
        assert_eq!(of("lode_requests_total"), reads_and_writes);
        assert_eq!(waited, reads_and_writes + of("lode_flush_duration_seconds_count"));
        assert_eq!(of("lode_draining"), 0.0);
    }
    drop(clients);
    daemon.stop();
    assert!(!site.path("metrics.sock").exists());
}

/// `| name | type | labels | meaning |` of each family.
fn rows(text: &str) -> Vec<String> {
    let mut rows = Vec::new();
    for block in text.split("# HELP ").skip(1) {
        let (name, rest) = block.split_once(' ').unwrap();
        let (about, rest) = rest.split_once('\n').unwrap();
        let kind = rest.split(&format!("# TYPE {name} ")).nth(1).unwrap().lines().next().unwrap();
        let name = match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        };
        let mut labels = BTreeSet::new();
        for (_, set) in rest.lines().filter_map(|line| line.split_once('{')) {
            let set = set.rsplit_once('}').unwrap().0;
            labels.extend(set.split("\",").map(|label| label.split_once("=\"").unwrap().0.to_owned()));
        }
        labels.remove("le");
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        rows.push(format!("| `{name}` | {kind} | {} | {about} |", labels.join(", ")));
    }
    rows
}

#[test]
fn the_page_has_every_metric() {
    let site = site();
    // With what is only there while demands are measured.
    let text = std::fs::read_to_string(site.path("test.toml")).unwrap();
    std::fs::write(site.path("test.toml"), text + "[host]\nmode = \"advise\"\ninterval = \"1s\"\n").unwrap();
    let daemon = site.serve_up();
    let deadline = Instant::now() + PATIENCE;
    let exported = loop {
        drop(work(&daemon));
        let text = scrape(&site);
        if text.contains("lode_expected_hit_ratio{") && text.contains("lode_measured_hit_ratio{") {
            break rows(&text);
        }
        assert!(Instant::now() < deadline, "nothing is expected");
    };
    daemon.stop();
    let page = include_str!("../../../../docs/metrics.md");
    let written: Vec<&str> = page.lines().filter(|line| line.starts_with("| `lode_")).collect();
    assert_eq!(written, exported, "\n{}\n", exported.join("\n"));
}

const PARSE: &str = "
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
families = list(text_string_to_metric_families(sys.stdin.read()))
print(json.dumps({s.name + json.dumps(s.labels, sort_keys=True): s.value for f in families for s in f.samples}))
";

#[test]
fn prometheus_understands_a_scrape() {
    let has_parser = |python: &&str| {
        let import =
            Command::new(python).args(["-c", "import prometheus_client.openmetrics.parser"]).output();
        import.is_ok_and(|output| output.status.success())
    };
    let Some(python) = ["/usr/bin/python3", "python3"].into_iter().find(has_parser) else {
        return lode_testdata::skip(
            "Prometheus's parser for Python (python3-prometheus-client) is not installed",
        );
    };
    let site = site();
    let daemon = site.serve_up();
    let clients = work(&daemon);
    let text = scrape(&site);
    drop(clients);
    daemon.stop();
    let mut parser = Command::new(python);
    let mut parser = parser.args(["-c", PARSE]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    parser.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = parser.wait_with_output().unwrap();
    assert!(output.status.success(), "it was not understood\n{text}");
    let parsed: BTreeMap<String, f64> = serde_json::from_slice(&output.stdout).unwrap();
    let mut values: Vec<f64> = parsed.into_values().collect();
    let mut own: Vec<f64> = samples(&text).into_values().collect();
    values.sort_by(f64::total_cmp);
    own.sort_by(f64::total_cmp);
    // JSON loses the last digit of some.
    let is_same = |(one, other): (&f64, &f64)| (one - other).abs() <= one.abs() * 1e-12;
    assert!(values.len() == own.len() && values.iter().zip(&own).all(is_same), "{values:?}\n{own:?}");
}

#[test]
fn other_requests_are_refused() {
    let site = site();
    let daemon = site.serve_up();
    let long = [&b"GET /metrics HTTP/1.1\r\nA: "[..], &[b'a'; 9000], b"\r\n\r\n"].concat();
    let many = [&b"GET /metrics HTTP/1.1\r\n"[..], &b"a: b\r\n".repeat(100), b"\r\n"].concat();
    let cases: [(&[u8], &str); 7] = [
        (b"GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        (b"\0\x01\x02\r\n\r\n", "400 Bad Request"),
        (&long, "431 Request Header Fields Too Large"),
        (&many, "431 Request Header Fields Too Large"),
        (b"GET /metrics?name=lode HTTP/1.0\r\n\r\n", "200 OK"),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", "200 OK"),
    ];
    for (request, status) in cases {
        let (head, body) = ask(&site, request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{head}");
        assert_eq!(body.is_empty(), request.starts_with(b"HEAD"), "{body}");
    }
    daemon.stop();
}

#[test]
fn slow_and_hostile_scrapers_are_in_nobodys_way() {
    let site = site();
    let daemon = site.serve_up();
    let mut client = daemon.client("vm1");
    client.write(0, &[1; 4096]);
    let mut slow: Vec<UnixStream> = Vec::new();
    let begin = Instant::now();
    let mut longest = Duration::ZERO;
    for turn in 0..200 {
        let mut stream = scraper(&site);
        // Some say nothing, some half of a request, and some take nothing of the answer. Those that are dropped may fail.
        let request = &b"GET /metrics HTTP/1.1\r\n\r\n"[..[0, 10, 25][turn % 3]];
        let _ = stream.write_all(request);
        slow.push(stream);
        let since = Instant::now();
        client.read(0, 4096);
        longest = longest.max(since.elapsed());
    }
    assert!(longest < Duration::from_secs(1), "a read took {longest:?}");
    let fds = std::fs::read_dir(format!("/proc/{}/fd", daemon.child.id())).unwrap().count();
    assert!(fds < 60, "{fds} files are open");
    // A newcomer is served although all places are taken.
    assert!(scrape(&site).ends_with("# EOF\n"));
    assert!(begin.elapsed() < PATIENCE);
    drop(slow);
    daemon.stop();
}

#[test]
fn a_thousand_vms_are_scraped() {
    const VMS: usize = 1000;
    let site = Site::in_memory();
    let folder = site.folder.path().display();
    let mut text = format!("name = \"test\"\nstate_dir = \"{folder}/state\"\nshards = 2\n");
    text += &format!("[metrics]\nlisten = \"unix:{folder}/metrics.sock\"\n");
    for vm in 0..VMS {
        File::create(site.path(&format!("{vm}.img"))).unwrap().set_len(MIB).unwrap();
        text += &format!(
            "[[vm]]\nname = \"v{vm}\"\nbacking = {{ path = \"{folder}/{vm}.img\" }}\n\
             listen = [\"unix:{folder}/all.sock\"]\n"
        );
    }
    std::fs::write(site.path("test.toml"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lode"));
    command.args(["serve", &site.text("test.toml")]).env("RUST_LOG", "debug");
    let daemon = site.spawn_up(command);
    touch(&site.path("all.sock"), VMS);
    let text = scrape(&site);
    let log = site.log();
    println!("{}", log.lines().find(|line| line.contains("for scrapers in")).expect("the page's line"));
    assert_eq!(text.matches("lode_vm_info{").count(), VMS);
    assert_eq!(samples(&text)["lode_requests_total{vm=\"v999\"}"], 1.0);
    assert!(text.len() < 32 << 20, "{} bytes", text.len());
    daemon.stop();
}

/// Has each VM read once.
fn touch(socket: &Path, vms: usize) {
    for vm in 0..vms {
        Client::connect(socket, &format!("v{vm}"), true).read(0, 4096);
    }
}
