//! Guarantee 8 of a running daemon: what it counted adds up, for each VM.

use lode_policy::CounterReport;
use serde_json::Value;

use crate::common::Site;

/// That the counts of a status add up: the sums that hold at any moment, and the answers of VMs that are at rest.
pub fn check(status: &Value) -> Result<(), String> {
    for vm in status["vms"].as_array().ok_or("a status without VMs")? {
        let name = &vm["name"];
        let counters: CounterReport = serde_json::from_value(vm["counters"].clone())
            .map_err(|error| format!("{name}: {error}: {vm}"))?;
        if let Some(sum) = counters.broken_sum() {
            return Err(format!("{name}: {sum} does not add up: {vm}"));
        }
        let number = |path: &str| {
            vm.pointer(path).and_then(Value::as_u64).ok_or_else(|| format!("{name} has no {path}: {vm}"))
        };
        let is_at_rest = number("/in_flight_bytes")? == 0 && vm["connections"] == 0;
        if is_at_rest && vm["stopped"] == false && vm["alarms"]["failed"] == false {
            let mut answered = number("/latency/write/count")?;
            for level in ["dram", "read_ssd", "ssd", "backing"] {
                answered += number(&format!("/latency/read/{level}/count"))?;
            }
            if counters.requests != answered {
                return Err(format!("{name}: {answered} requests were answered: {vm}"));
            }
        }
    }
    Ok(())
}

/// The checker itself: any one count that is wrong by one is noticed.
#[test]
fn g8_a_count_that_is_wrong_is_noticed() {
    let site = Site::new();
    let daemon = site.serve_up();
    let mut client = daemon.client("vm1");
    client.write(0, &[1; 1 << 20]);
    for offset in [0, 2 << 20] {
        client.read(offset, 1 << 20);
    }
    drop(client);
    let status = daemon.status_at_rest("vm1");
    assert_eq!(check(&status), Ok(()));
    let all = [
        "requests",
        "block_accesses",
        "block_reads",
        "block_writes",
        "read_hits/dram",
        "read_hits/ssd",
        "read_misses",
        "ssd_writes/total",
        "ssd_writes/fill",
        "ssd_writes/write",
        "ssd_writes/move",
    ];
    for count in all {
        let mut wrong = status.clone();
        let value = wrong.pointer_mut(&format!("/vms/0/counters/{count}")).unwrap();
        *value = (value.as_u64().unwrap() + 1).into();
        assert!(check(&wrong).is_err_and(|what| what.starts_with("\"vm1\"")), "{count}");
    }
    daemon.stop();
}
