//! Shares that change while volumes are served: extents and frames go from one volume to another, and guests see nothing of it
//! (guarantees 1, 2, 4, 6, 7 and 10 of `docs/design.md`).

use lode_sim::scenario::{plan, run_neighbours};
use lode_sim::{Crash, Faults, Plan, RunCounts};

/// Three volumes on one SSD whose shares change all the time, with each scheme in turn.
fn run_all(change: impl Fn(Plan) -> Plan) -> RunCounts {
    let plan_of =
        |machine, seed| change(Plan { share_changes: 1, requests: 400, ..plan(vec![machine], seed) });
    let sum = run_neighbours(3, 9 << 20, plan_of);
    assert!(sum.share_moves > 50 && sum.moved > 50, "{sum:?}");
    sum
}

#[test]
fn g4_g6_shares_that_change_between_stops() {
    let tally = run_all(|plan| Plan { crash: Crash::Stop, ..plan });
    assert!(tally.failed_writes == 0, "{tally:?}");
}

#[test]
fn g2_g4_power_cuts_while_shares_change() {
    let tally = run_all(|plan| Plan { crash: Crash::Power, failed_starts: 2, ..plan });
    assert!(tally.failed_writes == 0, "{tally:?}");
}

#[test]
fn g4_g10_kills_while_shares_change() {
    let tally = run_all(|plan| Plan { crash: Crash::Kill, failed_starts: 2, ..plan });
    assert!(tally.failed_writes == 0, "{tally:?}");
}

#[test]
fn g4_g7_devices_that_fail_while_shares_change() {
    let faults = Faults {
        ssd_write_errors: 2,
        ssd_read_errors: 2,
        ssd_metadata_errors: 1,
        ssd_flush_errors: 1,
        backing_write_errors: 3,
        ..Faults::default()
    };
    let tally = run_all(|plan| Plan { faults, crash: Crash::Any, ..plan });
    assert!(tally.failed_writes > 100, "{tally:?}");
}

#[test]
fn g1_g4_drains_while_shares_change() {
    run_all(|plan| Plan { drains: 3, ends_drained: true, crash: Crash::Any, ..plan });
}
