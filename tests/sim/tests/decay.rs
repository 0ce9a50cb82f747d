//! Guarantee 5 of `docs/design.md` while space changes hands: blocks on the SSD go bad and writes go elsewhere there, at any moment, while
//! extents move between volumes, volumes come, go and get other names, and schemes change.

use lode_sim::scenario::{all_schemes, paired, plan, run_each, run_neighbours, seeds};
use lode_sim::{Crash, Faults, Plan, RunCounts};

/// Three volumes on one SSD whose shares change all the time, each scheme in turn, with damage of all kinds.
fn run_all(change: impl Fn(Plan) -> Plan) -> RunCounts {
    let faults = Faults { ssd_misdirected: 2, ..Faults::default() };
    let plan_of = |machine, seed| {
        let plan = plan(vec![machine], seed);
        change(Plan {
            share_changes: 2,
            requests: 220,
            looks_around: true,
            decay: 2,
            flips: 4,
            faults,
            ..plan
        })
    };
    let sum = run_neighbours(3, 9 << 20, plan_of);
    assert!(sum.share_moves > 50 && sum.moved > 50, "{sum:?}");
    assert!(sum.misdirected > 100 && sum.decayed > 300, "{sum:?}");
    assert!(sum.damaged > 200 && sum.failed_reads > 20, "{sum:?}");
    sum
}

fn with_membership(plan: Plan) -> Plan {
    Plan { membership_changes: 1, scheme_switches: 1, ..plan }
}

#[test]
fn g5_damage_while_shares_change_between_stops() {
    let sum = run_all(|plan| Plan { crash: Crash::Stop, ..plan });
    assert_eq!(sum.doubtful, 0, "{sum:?}");
}

#[test]
fn g5_damage_and_power_cuts_while_shares_change() {
    run_all(|plan| Plan { crash: Crash::Power, failed_starts: 2, ..plan });
}

#[test]
fn g5_damage_and_kills_while_shares_change() {
    run_all(|plan| Plan { crash: Crash::Kill, failed_starts: 2, ..plan });
}

#[test]
fn g5_damage_and_power_cuts_while_volumes_come_and_go_and_schemes_change() {
    let sum = run_all(|plan| with_membership(Plan { crash: Crash::Power, failed_starts: 2, ..plan }));
    assert!(sum.gone > 10 && sum.came > 5 && sum.renamed > 20 && sum.switches > 100, "{sum:?}");
}

#[test]
fn g5_damage_while_volumes_come_and_go_and_schemes_change() {
    let sum = run_all(|plan| with_membership(Plan { crash: Crash::Any, ..plan }));
    assert!(sum.gone > 10 && sum.came > 5 && sum.renamed > 20 && sum.switches > 100, "{sum:?}");
}

/// Copies of metadata go bad on one SSD of a pair between runs, while either of the two is lost and replaced.
#[test]
fn g5_g9_metadata_that_goes_bad_on_one_ssd_of_a_pair() {
    let machines = all_schemes().into_iter().map(|(name, machine)| (name, paired(machine))).collect();
    let sum = run_each(machines, seeds().div_ceil(4), |machine, seed| Plan {
        rounds: 6,
        requests: 120,
        rot: 70,
        member_losses: 30 * (seed % 2),
        ..plan(vec![machine], seed)
    });
    assert!(sum.rotten > 100, "{sum:?}");
    assert_eq!((sum.failed_reads, sum.failed_writes), (0, 0), "{sum:?}");
}
