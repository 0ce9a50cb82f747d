//! Shares, volumes, names and schemes that change while the cache is on a pair of SSDs, or on several, and members of these fail, hang,
//! are taken out, replaced and resilvered (guarantees 1, 2, 4, 6, 7, 9 and 10 of `docs/design.md`). No guest may notice any of it.

use lode_sim::scenario::{plan, run_neighbours, spread};
use lode_sim::{Crash, Faults, Machine, Plan, RunCounts};

/// So many volumes on one pair, or where there are others on all of them, that come and go and whose shares, names and schemes change,
/// with each scheme in turn.
fn run_all(volumes: usize, other_pairs: u64, change: impl Fn(Plan) -> Plan) -> RunCounts {
    let plan_of = |machine: Machine, seed| {
        let mut machine = if other_pairs > 0 { spread(machine, other_pairs) } else { machine };
        machine.config.ssd_is_pair = true;
        let plan = plan(vec![machine], seed);
        change(Plan {
            share_changes: 1,
            membership_changes: 1,
            scheme_switches: 1,
            member_losses: 30,
            requests: 100,
            ..plan
        })
    };
    let ssd_bytes = if other_pairs > 0 { 5 << 20 } else { 9 << 20 };
    let sum = run_neighbours(volumes, ssd_bytes, plan_of);
    assert!(sum.gone > 20 && sum.came > 0 && sum.renamed > 10 && sum.switches > 30, "{sum:?}");
    assert!(sum.share_moves > 30 && sum.members_dropped > 50, "{sum:?}");
    // Most are cut short, and go on.
    assert!(sum.members_resilvered > 0 && sum.members_resumed > 10, "{sum:?}");
    assert_eq!((sum.failed_reads, sum.failed_writes), (0, 0), "{sum:?}");
    sum
}

#[test]
fn g4_g9_members_are_replaced_while_volumes_come_and_go() {
    let sum = run_all(3, 0, |plan| Plan { member_changes: 2, crash: Crash::Any, ..plan });
    assert!(sum.members_replaced > 50, "{sum:?}");
}

#[test]
fn g2_g9_power_cuts_while_members_are_replaced_and_volumes_come_and_go() {
    let change = |plan| Plan { member_changes: 2, failed_starts: 2, crash: Crash::Power, ..plan };
    let sum = run_all(2, 0, change);
    assert!(sum.members_replaced > 50 && sum.starts_cut > 100, "{sum:?}");
}

#[test]
fn g4_g9_members_of_several_pairs_fail_while_volumes_come_and_go() {
    let faults = Faults {
        ssd_read_errors: 2,
        ssd_write_errors: 2,
        ssd_metadata_errors: 2,
        ssd_flush_errors: 2,
        only_member: Some(1),
        ..Faults::default()
    };
    let sum = run_all(2, 2, |plan| Plan { faults, member_changes: 2, crash: Crash::Any, ..plan });
    assert!(sum.members_replaced > 50, "{sum:?}");
}

#[test]
fn g9_g10_a_member_hangs_while_volumes_come_and_go() {
    let faults = Faults { hanging_member: Some(0), ..Faults::default() };
    run_all(2, 0, |plan| Plan { faults, crash: Crash::Kill, ..plan });
}

/// Also both of a pair: then neither is dropped, guests and the directory wait for them, and nobody gets an error.
#[test]
fn g9_members_hang_for_a_time_while_volumes_come_and_go() {
    let sum = run_all(2, 0, |plan| Plan { hangs: 2, crash: Crash::Any, ..plan });
    assert!(sum.hangs > 200, "{sum:?}");
}
