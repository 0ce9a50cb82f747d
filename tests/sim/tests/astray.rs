//! Guarantees 5 and 9 of `docs/design.md` where writes go elsewhere on the SSD, and all guarantees while the clock jumps.

use lode_sim::scenario::{all_schemes, first_seeds, paired, plan, seeds};
use lode_sim::{Crash, Faults, Machine, Plan, RunCounts, run};

fn run_all(plan_of: impl Fn(Machine, u64) -> Plan) -> RunCounts {
    let mut sum = RunCounts::default();
    for (name, machine) in all_schemes() {
        for seed in first_seeds(seeds().div_ceil(2)) {
            let plan = Plan { requests: 120, ..plan_of(machine.clone(), seed) };
            let tally = run(&plan).unwrap_or_else(|error| panic!("{name}: {error}"));
            sum.sectors_checked += tally.sectors_checked;
            sum.misdirected += tally.misdirected;
            sum.damaged += tally.damaged;
            sum.healed += tally.healed;
            sum.clock_jumps += tally.clock_jumps;
            sum.failed_reads += tally.failed_reads;
            sum.failed_writes += tally.failed_writes;
            sum.members_dropped += tally.members_dropped;
        }
    }
    println!("{sum:?}");
    assert!(sum.sectors_checked > 100_000, "{sum:?}");
    sum
}

#[test]
fn g5_what_went_elsewhere_is_an_error_and_never_another_block() {
    let faults = Faults { ssd_misdirected: 4, ..Faults::default() };
    let sum = run_all(|machine, seed| Plan { faults, crash: Crash::Stop, ..plan(vec![machine], seed) });
    assert!(sum.misdirected > 100 && sum.damaged > 50, "{sum:?}");
}

#[test]
fn g9_what_went_elsewhere_on_one_ssd_of_a_pair_is_read_from_the_other() {
    let sum = run_all(|machine, seed| {
        let faults =
            Faults { ssd_misdirected: 4, only_member: Some((seed % 2) as usize), ..Faults::default() };
        Plan { faults, ..plan(vec![paired(machine)], seed) }
    });
    assert!(sum.misdirected > 100 && sum.healed > 50, "{sum:?}");
    assert_eq!((sum.failed_reads, sum.failed_writes), (0, 0));
}

#[test]
fn g1_g2_g8_the_clock_jumps() {
    let sum = run_all(|machine, seed| Plan { clock_jumps: 4, drains: 1, ..plan(vec![machine], seed) });
    assert!(sum.clock_jumps > 200, "{sum:?}");
    assert_eq!((sum.failed_reads, sum.failed_writes), (0, 0));
}

/// Ticks that come all at once make an SSD of a pair look as if it hung. It is dropped, at most, and not both.
#[test]
fn g9_the_clock_of_a_pair_jumps() {
    let sum = run_all(|machine, seed| Plan { clock_jumps: 4, ..plan(vec![paired(machine)], seed) });
    assert!(sum.clock_jumps > 200 && sum.members_dropped > 5, "{sum:?}");
    assert_eq!((sum.failed_reads, sum.failed_writes), (0, 0));
}
