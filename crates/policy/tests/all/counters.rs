//! What adds up in a report of counts, and the names of counts.

use lode_policy::{CounterReport, Counters, SsdWrites};

type Change = fn(&mut CounterReport);

/// A report that agrees with itself, and what each change breaks.
#[test]
fn a_sum_that_does_not_hold_is_named() {
    let writes = SsdWrites { fill: 3, write: 4, promotion: 2, moved: 1 };
    let good = Counters {
        block_reads: 10,
        block_writes: 6,
        read_hits: [2, 3, 1],
        read_misses: 4,
        write_hits_ssd: 1,
        ssd_writes: writes,
        backing_reads: 7,
        backing_writes: 5,
        write_backs: 2,
        ..Counters::default()
    };
    assert_eq!(CounterReport::from(&good).broken_sum(), None);
    let changed: [(Change, &str); 12] = [
        (|report| report.block_accesses += 1, "block_accesses"),
        (|report| report.read_hits.dram += 1, "block_reads"),
        (|report| report.write_backs = 6, "write_backs"),
        (|report| report.ssd_writes.write = 7, "ssd_writes.write"),
        (|report| report.backing_writes = 9, "backing_writes - write_backs"),
        (|report| report.ssd_writes.write = 2, "block_writes"),
        (|report| report.backing_writes = 3, "block_writes"),
        (|report| report.ssd_writes.moved += 1, "ssd_writes.total"),
        (|report| (report.ssd_writes.fill, report.ssd_writes.total) = (5, 12), "ssd_writes.fill"),
        (|report| report.write_hits.ssd = 5, "write_hits.ssd"),
        (|report| report.backing_reads = 3, "backing_reads"),
        (|report| report.backing_reads = 13, "backing_reads"),
    ];
    for (change, broken) in changed {
        let mut report = CounterReport::from(&good);
        change(&mut report);
        assert_eq!(report.broken_sum(), Some(broken), "{report:?}");
    }
}

#[test]
fn every_count_has_its_documented_name() {
    let writes = SsdWrites { fill: 8, write: 9, promotion: 10, moved: 11 };
    let counters = Counters {
        requests: 1,
        block_reads: 2,
        block_writes: 4,
        read_hits: [5, 6, 19],
        read_misses: 7,
        write_hits_ssd: 12,
        ssd_writes: writes,
        read_ssd_writes: 20,
        dram_writes: 13,
        backing_reads: 14,
        backing_writes: 15,
        write_backs: 16,
        evictions: [17, 18, 21],
    };
    let expected = serde_json::json!({
        "requests": 1, "block_accesses": 6, "block_reads": 2, "block_writes": 4,
        "read_hits": {"dram": 5, "ssd": 6, "read_ssd": 19}, "read_misses": 7, "write_hits": {"ssd": 12},
        "dram_writes": 13, "read_ssd_writes": 20,
        "ssd_writes": {"total": 38, "fill": 8, "write": 9, "promotion": 10, "move": 11},
        "backing_reads": 14, "backing_writes": 15, "write_backs": 16,
        "evictions": {"dram": 17, "ssd": 18, "read_ssd": 21}, "cwf": 14.5,
    });
    let found = serde_json::to_value(CounterReport::from(&counters)).expect("plain numbers");
    assert_eq!(found, expected);
    let none = serde_json::to_value(CounterReport::from(&Counters::default())).expect("plain numbers");
    assert!(none["cwf"].is_null());
}
