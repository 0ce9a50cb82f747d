//! Guarantee 9 of `docs/design.md` while space changes hands: either device of a scheme that keeps dirty blocks on two of them dies, or what
//! is on it goes bad, while extents move between volumes, volumes come, go and get other names, and schemes change.

use lode_sim::scenario::{first_seeds, plan, seeds, tica_schemes};
use lode_sim::{Crash, Decay, Faults, Machine, Plan, RunCounts, run_together};

/// Three volumes on one SSD, whose schemes keep dirty blocks on two devices at first.
fn run_all(change: impl Fn(Plan) -> Plan) -> RunCounts {
    run_seeds(seeds() * 3 / 2, change)
}

/// The same with so many seeds: what a dead SSD leaves is looked at once in a run.
fn run_seeds(count: u64, change: impl Fn(Plan) -> Plan) -> RunCounts {
    let machines = tica_schemes();
    let mut sum = RunCounts::default();
    for seed in first_seeds(count) {
        let plan_of = |number: usize| {
            let (_, machine) = machines[(seed as usize + number) % machines.len()].clone();
            let machine = Machine { name: format!("vm{number}"), ssd_bytes: 9 << 20, ..machine };
            let plan = plan(vec![machine], seed);
            change(Plan { share_changes: 2, requests: 250, looks_around: true, ..plan })
        };
        let plans: Vec<Plan> = (0..3).map(plan_of).collect();
        let counts = run_together(&plans).unwrap_or_else(|error| panic!("{error}"));
        counts.into_iter().for_each(|counts| sum += counts);
    }
    println!("{sum:?}");
    assert!(sum.share_moves > 20 && sum.moved > 50 && sum.mirrored > 100, "{sum:?}");
    sum
}

fn with_membership(plan: Plan) -> Plan {
    Plan { membership_changes: 1, scheme_switches: 1, ..plan }
}

fn assert_no_guest_noticed(sum: &RunCounts) {
    assert_eq!((sum.failed_reads, sum.failed_writes), (0, 0), "{sum:?}");
}

#[test]
fn g9_the_read_ssd_fails_and_dies_while_shares_volumes_and_schemes_change() {
    let errors = Faults { read_ssd_read_errors: 10, read_ssd_write_errors: 10, ..Faults::default() };
    for faults in [errors, Faults { read_ssd_gone: true, ..Faults::default() }] {
        let sum = run_all(|plan| with_membership(Plan { faults, ..plan }));
        assert_no_guest_noticed(&sum);
        assert!(sum.read_ssd_errors > 20 && sum.gone > 10 && sum.switches > 20, "{sum:?}");
    }
}

#[test]
fn g9_second_copies_go_bad_while_shares_volumes_and_schemes_change() {
    let sum = run_all(|plan| with_membership(Plan { decay: 10, decays: Decay::ReadSsd, ..plan }));
    assert_no_guest_noticed(&sum);
    assert!(sum.damaged > 50 && sum.gone > 10 && sum.switches > 20, "{sum:?}");
}

#[test]
fn g9_the_ssd_dies_while_shares_change() {
    let sum = run_seeds(seeds() * 4, |plan| Plan { share_changes: 8, ssd_deaths: 100, ..plan });
    assert!(sum.rescued > 30, "{sum:?}");
}

#[test]
fn g9_the_ssd_dies_and_the_power_fails_while_shares_volumes_and_schemes_change() {
    let died = |plan| with_membership(Plan { ssd_deaths: 80, crash: Crash::Power, ..plan });
    let sum = run_seeds(seeds() * 3, died);
    assert!(sum.rescued > 12 && sum.gone > 5 && sum.switches > 20, "{sum:?}");
}

/// Scrubs find what nobody reads while DRAM or the read SSD has it. The first run alone: what a restart finds damaged has no second copy
/// any more.
#[test]
fn g9_what_goes_bad_is_read_from_the_second_copy_while_shares_and_volumes_change() {
    let sum = run_all(|mut plan| {
        plan.machines[0].config.scrub_ticks = Some(1);
        Plan {
            decay: 30,
            decays: Decay::Mirrored,
            membership_changes: 1,
            requests: 700,
            rounds: 1,
            crash: Crash::Stop,
            ..plan
        }
    });
    assert_eq!(sum.failed_writes, 0, "{sum:?}");
    assert!(sum.decayed > 100 && sum.damaged > 15 && sum.gone > 5, "{sum:?}");
}
