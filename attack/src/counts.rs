//! Guarantee 8: what a daemon counted adds up, for each VM, at any moment. It must not know what was asked of it.

use std::collections::BTreeMap;

use lode_policy::CounterReport;
use serde::Deserialize;

/// What of `lode status --json` this is about.
#[derive(Deserialize)]
struct Status {
    vms: Vec<Vm>,
}

#[derive(Deserialize)]
struct Vm {
    name: String,
    connections: u64,
    in_flight_bytes: u64,
    stopped: bool,
    stopped_by: Option<String>,
    counters: CounterReport,
    alarms: Alarms,
    latency: Latency,
}

#[derive(Deserialize)]
struct Alarms {
    failed: bool,
}

#[derive(Deserialize)]
struct Latency {
    read: BTreeMap<String, Answered>,
    write: Answered,
}

#[derive(Deserialize)]
struct Answered {
    count: u64,
}

/// What is wrong with the counts of a status.
pub fn check(status: &[u8]) -> Vec<String> {
    match serde_json::from_slice::<Status>(status) {
        Ok(status) => status.vms.iter().filter_map(Vm::wrong).collect(),
        Err(error) => vec![format!("a status is not as documented: {error}")],
    }
}

impl Vm {
    fn wrong(&self) -> Option<String> {
        let Vm { name, counters, latency, .. } = self;
        if self.stopped {
            let why = self.stopped_by.as_deref().unwrap_or("without a reason");
            return Some(format!("{name} is stopped by a defect: {why}"));
        }
        if let Some(sum) = counters.broken_sum() {
            return Some(format!("the counts of {name} do not add up: {sum}: {counters:?}"));
        }
        // What was asked and what was answered is the same when nothing is under way and no answer can be missing.
        let is_at_rest = self.connections == 0 && self.in_flight_bytes == 0 && !self.alarms.failed;
        let answered = latency.read.values().map(|level| level.count).sum::<u64>() + latency.write.count;
        (is_at_rest && answered != counters.requests)
            .then(|| format!("{name} at rest: {answered} requests were answered of {}", counters.requests))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_that_do_not_add_up_are_reported() {
        let levels = |dram, ssd| json!({"dram": dram, "ssd": ssd, "read_ssd": 0});
        let good = json!({"vms": [{
            "name": "vm0", "connections": 0, "in_flight_bytes": 0, "stopped": false, "stopped_by": null,
            "alarms": {"failed": false},
            "counters": {
                "requests": 5, "block_accesses": 9, "block_reads": 6, "block_writes": 3,
                "read_hits": levels(1, 2), "read_misses": 3, "write_hits": {"ssd": 1}, "dram_writes": 1,
                "ssd_writes": {"total": 5, "fill": 2, "write": 3, "promotion": 0, "move": 0},
                "read_ssd_writes": 0, "backing_reads": 3, "backing_writes": 1, "write_backs": 1,
                "evictions": levels(0, 0), "cwf": null
            },
            "latency": {
                "read": {"dram": {"count": 1}, "ssd": {"count": 1}, "read_ssd": {"count": 0}, "backing": {"count": 1}},
                "write": {"count": 2}
            }
        }]});
        let wrong = |status: &serde_json::Value| check(status.to_string().as_bytes());
        assert_eq!(wrong(&good), Vec::<String>::new());
        for count in [
            "requests",
            "block_reads",
            "read_misses",
            "read_hits/ssd",
            "ssd_writes/total",
            "ssd_writes/write",
        ] {
            let mut bad = good.clone();
            let value = bad.pointer_mut(&format!("/vms/0/counters/{count}")).expect(count);
            *value = (value.as_u64().expect(count) + 1).into();
            assert_eq!(wrong(&bad).len(), 1, "{count}");
        }
        let mut stopped = good.clone();
        (stopped["vms"][0]["stopped"], stopped["vms"][0]["stopped_by"]) = (true.into(), "a panic".into());
        assert!(wrong(&stopped)[0].ends_with("a panic"));
        assert_eq!(wrong(&json!({"vms": [{}]})).len(), 1);
        // Under way, what was answered is behind.
        let mut busy = good.clone();
        (busy["vms"][0]["connections"], busy["vms"][0]["counters"]["requests"]) = (1.into(), 6.into());
        assert_eq!(wrong(&busy), Vec::<String>::new());
    }
}
