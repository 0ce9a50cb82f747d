//! Guarantees 2 and 7 of `docs/design.md` for devices that several volumes share: what fails for one has failed for all.

use lode_policy::Quota;
use lode_sim::scenario::{all_schemes, first_seeds, machine, plan, seeds};
use lode_sim::{Crash, Faults, Machine, Plan, RunCounts, run_together};

/// Two volumes of these machines, on one SSD and with backing disks on one device.
fn run_pairs(first: &[Machine], change: impl Fn(Plan) -> Plan) -> RunCounts {
    let mut sum = RunCounts::default();
    for (at, one) in first.iter().enumerate() {
        let other = &first[(at + 1) % first.len()];
        for seed in first_seeds(seeds() * 2) {
            let plan_of = |machine: &Machine, name: &str| {
                let machine = Machine { name: name.to_owned(), ssd_bytes: 4 << 20, ..machine.clone() };
                change(Plan { shares_backing: true, requests: 120, ..plan(vec![machine], seed) })
            };
            let plans = [plan_of(one, "vm0"), plan_of(other, "vm1")];
            let counts = run_together(&plans).unwrap_or_else(|error| panic!("machine {at}: {error}"));
            counts.into_iter().for_each(|counts| sum += counts);
        }
    }
    println!("{sum:?}");
    sum
}

fn dirty_keepers() -> Vec<Machine> {
    let named = ["lru wb", "etica npe", "arc wb", "flashcache wb", "request-oriented reissue"];
    all_schemes().into_iter().filter(|(name, _)| named.contains(name)).map(|(_, machine)| machine).collect()
}

fn writers_around() -> Vec<Machine> {
    ["wt", "ro", "wa"]
        .map(|policy| machine("lru", &[&format!("write_policy={policy}"), "assoc=8"], Quota::new(0, 60)))
        .to_vec()
}

#[test]
fn g7_a_flush_of_the_ssd_that_failed_for_one_volume_has_failed_for_all() {
    let faults = Faults { ssd_flush_errors: 4, ..Faults::default() };
    let tally = run_pairs(&dirty_keepers(), |plan| Plan { faults, crash: Crash::Power, ..plan });
    assert!(tally.failed_writes > 100, "{tally:?}");
}

#[test]
fn g7_a_flush_of_a_shared_disk_that_failed_for_one_volume_has_failed_for_all() {
    let faults = Faults { backing_flush_errors: 8, ..Faults::default() };
    let machines = [writers_around(), dirty_keepers()].concat();
    let tally = run_pairs(&machines, |plan| Plan { faults, crash: Crash::Power, ..plan });
    assert!(tally.failed_writes > 100, "{tally:?}");
}

#[test]
fn g7_a_journal_that_failed_for_one_volume_has_failed_for_all() {
    let faults = Faults { ssd_metadata_errors: 2, ..Faults::default() };
    let tally = run_pairs(&dirty_keepers(), |plan| Plan { faults, crash: Crash::Any, ..plan });
    assert!(tally.failed_writes > 100, "{tally:?}");
}

/// What a failed flush lost stays lost for later flushes, of the next run as well, until it is written again.
#[test]
fn g2_kills_after_failed_flushes_and_then_power_cuts() {
    let faults = Faults { ssd_flush_errors: 6, ..Faults::default() };
    let tally = run_pairs(&dirty_keepers(), |plan| Plan { faults, crash: Crash::Any, rounds: 8, ..plan });
    assert!(tally.failed_writes > 100, "{tally:?}");
}

#[test]
fn g2_sound_devices_that_several_volumes_share() {
    let machines = [writers_around(), dirty_keepers()].concat();
    let tally = run_pairs(&machines, |plan| plan);
    assert!(tally.failed_writes == 0 && tally.sectors_checked > 100_000, "{tally:?}");
}
