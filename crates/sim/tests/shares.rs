//! Shares that change while volumes are served: extents and frames go from one volume to another, and guests see nothing of it
//! (guarantees 1, 2, 4, 6, 7 and 10 of `docs/design.md`).

use lode_sim::scenario::{all_schemes, first_seeds, plan, seeds};
use lode_sim::{Crash, Faults, Machine, Plan, RunCounts, run_together};

/// Three volumes on one SSD whose shares change all the time, with each scheme in turn.
fn run_all(change: impl Fn(Plan) -> Plan) -> RunCounts {
    let machines: Vec<Machine> = all_schemes().into_iter().map(|(_, machine)| machine).collect();
    let mut sum = RunCounts::default();
    for at in 0..machines.len() {
        for seed in first_seeds(seeds().div_ceil(4)) {
            let plan_of = |number: usize| {
                let machine = machines[(at + number * 5) % machines.len()].clone();
                let machine = Machine { name: format!("vm{number}"), ssd_bytes: 9 << 20, ..machine };
                change(Plan { share_changes: 1, requests: 400, ..plan(vec![machine], seed) })
            };
            let plans: Vec<Plan> = (0..3).map(plan_of).collect();
            for tally in run_together(&plans).unwrap_or_else(|error| panic!("machine {at}: {error}")) {
                sum.answered += tally.answered;
                sum.failed_writes += tally.failed_writes;
                sum.sectors_checked += tally.sectors_checked;
                sum.share_moves += tally.share_moves;
                sum.moved += tally.moved;
                sum.failed_starts += tally.failed_starts;
            }
        }
    }
    println!("{sum:?}");
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
