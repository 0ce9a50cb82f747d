//! Writes that go past the SSD, before the backing disk is to be used elsewhere: guarantees 1, 2, 7 and 8 of `docs/design.md`; and
//! that nothing is dirty once everything was drained, whatever guests go on to write.

use lode_sim::scenario::{BLOCK, all_schemes, first_seeds, machine, plan, read, reissuing, seeds, write};
use lode_sim::{Crash, Faults, Machine, Plan, RunCounts, World, run};

use lode_policy::Quota;

fn run_all(change: impl Fn(Plan) -> Plan) -> RunCounts {
    let mut sum = RunCounts::default();
    let mut machines = all_schemes();
    machines.push(("reissuing", reissuing()));
    for (name, machine) in machines {
        for seed in first_seeds(seeds().div_ceil(4)) {
            let plan = change(Plan { write_arounds: 2, ..plan(vec![machine.clone()], seed) });
            let tally = run(&plan).unwrap_or_else(|error| panic!("{name}: {error}"));
            (sum.around, sum.drained) = (sum.around + tally.around, sum.drained + tally.drained);
            (sum.crashes, sum.answered) = (sum.crashes + tally.crashes, sum.answered + tally.answered);
        }
    }
    println!("{sum:?}");
    sum
}

#[test]
fn g2_power_cuts_while_writes_go_past_the_ssd() {
    assert!(run_all(|plan| Plan { crash: Crash::Power, ..plan }).around > seeds() * 4);
}

#[test]
fn g10_kills_while_writes_go_past_the_ssd() {
    assert!(run_all(|plan| Plan { crash: Crash::Kill, ..plan }).around > seeds() * 4);
}

#[test]
fn g6_the_backing_disk_stands_alone_after_writes_that_went_past_the_ssd() {
    let tally = run_all(|plan| Plan { ends_drained: true, ..plan });
    assert!(tally.drained >= seeds() * 4 && tally.around > seeds() * 4, "{tally:?}");
}

#[test]
fn g1_schemes_switch_and_drains_come_while_writes_go_past_the_ssd() {
    run_all(|plan| Plan { scheme_switches: 2, drains: 2, ..plan });
}

#[test]
fn g7_devices_fail_while_writes_go_past_the_ssd() {
    for faults in [
        Faults { backing_write_errors: 20, ..Faults::default() },
        Faults { backing_flush_errors: 5, ssd_read_errors: 2, backing_write_errors: 5, ..Faults::default() },
        Faults { ssd_metadata_errors: 2, ssd_write_errors: 4, ..Faults::default() },
        Faults { read_ssd_write_errors: 5, read_ssd_read_errors: 5, ..Faults::default() },
    ] {
        run_all(|plan| Plan { faults, ..plan });
    }
}

fn wb() -> Machine {
    machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 120))
}

/// What a write that went around leaves: the disk has it at once, and what the cache had of the block is not read again.
#[test]
fn g1_a_write_that_goes_around_is_on_the_disk_and_its_block_not_in_the_cache() {
    let mut world = World::new(wb(), 1).unwrap();
    write(&mut world, 0, BLOCK, 1).unwrap();
    assert!(world.engine().may_have_dirty());
    world.set_writes_around(true);
    assert!(world.engine().may_have_dirty(), "the drain is yet to come");
    world.drain();
    world.settle();
    assert!(!world.engine().may_have_dirty());
    write(&mut world, 0, BLOCK, 2).unwrap();
    assert!(!world.engine().may_have_dirty());
    let mut bytes = vec![0; BLOCK as usize];
    world.backing.peek(0, &mut bytes);
    assert_eq!(bytes, read(&mut world, 0, BLOCK).unwrap());
    world.set_writes_around(false);
    write(&mut world, 0, BLOCK, 3).unwrap();
    assert_eq!(world.engine().gauges().dirty_blocks, 1, "it is a write-back cache again");
}
