//! What people read in a status.

use super::*;

fn vm(name: &str, alarms: serde_json::Value) -> serde_json::Value {
    let latency = |count, p50_us, p99_us| serde_json::json!({"count": count, "p50_us": p50_us, "p99_us": p99_us, "max_us": 1e6});
    serde_json::json!({
        "name": name, "scheme": "etica", "shard": 0, "connections": 7, "in_flight_bytes": 0, "draining_blocks": null, "stopped": false,
        "quota": {"dram_blocks": 131_072, "ssd_blocks": 0, "read_ssd_blocks": 0},
        "requests": {"fua": 0, "trim": 0, "write_zeroes": 0},
        "counters": {
            "block_reads": 1000, "read_hits": {"dram": 605, "ssd": 0, "read_ssd": 0}, "read_misses": 395, "cwf": 1.234
        },
        "gauges": {
            "dram_blocks": 640, "ssd_blocks": 0, "read_ssd_blocks": 0, "dirty_blocks": 42, "unmirrored_blocks": 0
        },
        "alarms": alarms,
        "latency": {
            "read": {
                "dram": latency(5, 4.25, 80.0), "read_ssd": latency(6, 50.0, 90.0), "ssd": latency(0, 0.0, 0.0),
                "backing": latency(4, 8100.0, 23_456.0)
            },
            "write": latency(3, 33.0, 444.0), "flush": latency(0, 0.0, 0.0),
        },
        "shm": {"bytes": 266_240, "records_taken_over": 3},
    })
}

fn alarms(damaged_dirty: u64, failed: bool) -> serde_json::Value {
    serde_json::json!({
        "unreadable_at_start": 0, "damaged_clean": 0, "damaged_mirrored": 0, "damaged_dirty": damaged_dirty, "ssd_errors": 0,
        "read_ssd_errors": 0, "read_ssd_gone": false, "backing_errors": 0, "failed": failed
    })
}

fn status(cache: serde_json::Value, vms: &[serde_json::Value]) -> String {
    let answer = serde_json::json!({"name": "host1", "version": "1", "uptime_s": 7500, "last_end": "orderly",
        "cache": cache, "vms": vms});
    Status::new(answer).unwrap().text()
}

/// The words of the lines of a text.
fn words(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn a_row_tells_levels_and_times() {
    let cache = serde_json::json!({"uuid": "1-2", "epoch": 3, "device_bytes": 1 << 30, "block_bytes": 4096});
    let text = status(cache, &[vm("vm1", alarms(0, false))]);
    let lines = words(&text);
    assert_eq!(text.lines().next(), Some("Cache host1, SSD 1-2, epoch 3, up 2 h 5 min"));
    assert_eq!(
        lines[lines.len() - 3..],
        [
            vec!["vm1", "DRAM", "2.5/512", "60.5", "4.2/80", "33/444", "42", "1.23", "7"],
            vec!["etica", "SSD", "-", "0.0", "-"],
            vec!["disk", "39.5", "8100/23456"],
        ],
        "{text}"
    );
    assert!(!text.contains("alarm"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
}

#[test]
fn a_read_ssd_has_a_line_of_its_own() {
    let mut two = vm("vm1", alarms(0, false));
    two["quota"]["read_ssd_blocks"] = 2560.into();
    two["gauges"]["read_ssd_blocks"] = 1280.into();
    two["gauges"]["unmirrored_blocks"] = 3.into();
    two["counters"]["read_hits"]["read_ssd"] = 100.into();
    let text = status(serde_json::Value::Null, &[two, vm("vm2", alarms(0, false))]);
    let lines = words(&text);
    let line = lines.iter().find(|line| line.contains(&"rd.")).expect("its line");
    assert_eq!(line[..], ["etica", "rd.", "SSD", "1280/2560", "10.0", "50/90"], "{text}");
    assert_eq!(text.matches("rd. SSD").count(), 1, "vm2 has none\n{text}");
    let told = "vm1: 3 dirty blocks on one device only, until copied to the read SSD\n";
    assert!(text.ends_with(told), "{text}");
}

#[test]
fn only_a_vm_with_an_alarm_has_a_line_for_it() {
    let vms = [vm("vm1", alarms(0, false)), vm("vm2", alarms(2, true))];
    let text = status(serde_json::Value::Null, &vms);
    assert!(text.starts_with("Cache host1, without an SSD, up 2 h 5 min\n"), "{text}");
    assert!(text.contains("640/131072"), "without an SSD blocks are counted\n{text}");
    let lines: Vec<_> = text.lines().filter(|line| line.contains("alarm")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(lines[0].starts_with("vm2: alarm: nothing is acknowledged as durable"), "{text}");
    assert!(lines[0].contains("also 2 times damaged on the SSD where no other copy is"), "{text}");
}

#[test]
fn a_vm_that_is_stopped_says_why() {
    let mut stopped = vm("vm1", alarms(0, false));
    stopped["stopped"] = true.into();
    stopped["stopped_by"] = "index out of bounds".into();
    let text = status(serde_json::Value::Null, &[stopped, vm("vm2", alarms(0, false))]);
    assert!(
        text.contains("vm1: alarm: stopped by a defect of the program (index out of bounds): report"),
        "{text}"
    );
}

#[test]
fn a_drain_has_a_line_of_its_own() {
    let mut draining = vm("vm1", alarms(0, false));
    draining["draining_blocks"] = 1.into();
    let text = status(serde_json::Value::Null, &[draining, vm("vm2", alarms(0, false))]);
    assert!(text.ends_with("\nvm1: draining, 1 block left to write back\n"), "{text}");
    let mut released = vm("vm1", alarms(0, false));
    released["migration"] = "released".into();
    let text = status(serde_json::Value::Null, &[released]);
    assert!(text.contains("\nvm1: its disk may be opened elsewhere"), "{text}");
}

#[test]
fn an_answer_of_another_version_is_an_error() {
    assert!(Status::new(serde_json::json!({"name": "host1"})).is_err());
}
