//! Guarantee 7 of `docs/design.md`: devices that fail cost service, never right bytes, and no request hangs.

use lode_sim::scenario::{all_schemes, plan, run_each, seeds};
use lode_sim::{Faults, Plan, RunCounts};

fn run_all(faults: Faults) -> RunCounts {
    run_some(faults, |_| true)
}

fn run_some(faults: Faults, chosen: impl Fn(&str) -> bool) -> RunCounts {
    let machines = all_schemes().into_iter().filter(|(name, _)| chosen(name)).collect();
    run_each(machines, seeds().div_ceil(2), |machine, seed| Plan { faults, ..plan(vec![machine], seed) })
}

#[test]
fn g7_ssd_reads_fail() {
    let tally = run_all(Faults { ssd_read_errors: 5, ..Faults::default() });
    assert!(tally.failed_reads > 0, "dirty blocks are read too: {tally:?}");
}

#[test]
fn g7_ssd_writes_fail() {
    let tally = run_all(Faults { ssd_write_errors: 5, ..Faults::default() });
    assert_eq!(tally.failed_reads, 0, "a failed fill is no failed read");
    assert_eq!(tally.failed_writes, 0, "the backing disk takes what the SSD cannot");
    assert!(tally.ssd_errors > 100, "{tally:?}");
}

#[test]
fn g7_backing_reads_fail() {
    let tally = run_all(Faults { backing_read_errors: 5, ..Faults::default() });
    assert!(tally.failed_reads > 0, "{tally:?}");
}

#[test]
fn g7_backing_writes_fail() {
    let tally = run_all(Faults { backing_write_errors: 10, ..Faults::default() });
    assert!(tally.failed_writes > 0, "{tally:?}");
}

#[test]
fn g7_backing_takes_no_writes_at_all() {
    let tally = run_all(Faults { backing_write_errors: 100, ..Faults::default() });
    assert_eq!(tally.failed_reads, 0, "what is cached can be read: {tally:?}");
}

#[test]
fn g7_everything_fails_now_and_then() {
    run_all(Faults {
        ssd_read_errors: 2,
        ssd_write_errors: 2,
        backing_read_errors: 2,
        backing_write_errors: 2,
        ..Faults::default()
    });
}

#[test]
fn g7_the_journal_fails() {
    let tally = run_all(Faults { ssd_metadata_errors: 3, ..Faults::default() });
    assert_eq!(tally.failed_reads, 0, "reads go on: {tally:?}");
    assert!(tally.failed_writes > 0, "{tally:?}");
}

#[test]
fn g7_flushes_of_the_ssd_fail() {
    let tally = run_all(Faults { ssd_flush_errors: 3, ..Faults::default() });
    assert_eq!(tally.failed_reads, 0, "reads go on: {tally:?}");
    assert!(tally.failed_writes > 0, "{tally:?}");
}

#[test]
fn g7_flushes_of_the_backing_disk_fail() {
    let tally = run_all(Faults { backing_flush_errors: 10, ..Faults::default() });
    assert_eq!(tally.failed_reads, 0, "reads go on: {tally:?}");
    assert!(tally.failed_writes > 0, "{tally:?}");
}

/// The whole SSD dies: what it held durably is there in the next run.
#[test]
fn g7_a_dead_ssd() {
    let tally = run_all(Faults { ssd_gone: true, ..Faults::default() });
    assert!(tally.failed_writes > 0, "{tally:?}");
}

/// Without dirty blocks a dead SSD fails no read.
#[test]
fn g7_a_dead_ssd_of_clean_blocks() {
    let clean = ["lru wt", "lru ro", "lru wa"];
    let tally = run_some(Faults { ssd_gone: true, ..Faults::default() }, |name| clean.contains(&name));
    assert!(tally.failed_reads == 0 && tally.sectors_checked > 0, "{tally:?}");
}
