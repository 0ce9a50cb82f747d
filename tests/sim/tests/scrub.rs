//! Guarantee 5 of `docs/design.md`: a scrub finds damage on the SSD that no guest has come across, and repairs what can be repaired.

use lode_engine::{GuestError, GuestOp, GuestRequest};
use lode_policy::Quota;
use lode_sim::scenario::{
    BLOCK, all_schemes, damage, first_seeds, flush, machine, pattern, plan, read, seeds, tica, write,
};
use lode_sim::{Crash, Machine, Plan, World, run};

const BLOCKS: u64 = 40;

fn scrubbed(period_ticks: u32, mut machine: Machine) -> Machine {
    machine.config.scrub_ticks = Some(period_ticks);
    machine
}

fn one_level(policy: &str) -> Machine {
    machine("lru", &[&format!("write_policy={policy}"), "assoc=8"], Quota::new(0, 60))
}

/// A volume of which the guest wrote some blocks, each with a pattern of its own, and everything is settled.
fn written(machine: Machine) -> World {
    let mut world = World::new(machine, 1).unwrap();
    for block in 0..BLOCKS {
        write(&mut world, block * BLOCK, BLOCK, block as u8).unwrap();
    }
    flush(&mut world).unwrap();
    world.settle();
    world
}

fn pass(world: &mut World, ticks: u32) {
    for _ in 0..ticks {
        world.tick();
        while world.step() {}
    }
}

#[test]
fn g5_a_scrub_makes_damaged_clean_blocks_again() {
    let mut world = written(scrubbed(1, one_level("wt")));
    assert_eq!(damage(&mut world, 7), 1);
    pass(&mut world, 2);
    let (alarms, gauges) = (world.engine().alarms(), world.engine().gauges());
    assert_eq!((alarms.damaged_clean, alarms.damaged_dirty, gauges.quarantined), (1, 0, 1));
    assert!(gauges.scrubbed_blocks >= BLOCKS && gauges.scrub_passes >= 1, "{gauges:?}");
    // It is on the SSD again, where the scheme believes it to be.
    assert_eq!(read(&mut world, 7 * BLOCK, BLOCK), Ok(pattern(7, BLOCK as usize)));
    assert_eq!(world.engine().counters().read_misses, 0);
    assert_eq!(damage(&mut world, 7), 1, "another copy was written to the SSD");
    assert_eq!(read(&mut world, 7 * BLOCK, BLOCK), Ok(pattern(7, BLOCK as usize)));
    assert_eq!(world.engine().alarms().damaged_clean, 2, "that one was read");
}

#[test]
fn g5_a_read_makes_a_damaged_clean_block_again() {
    let mut world = written(one_level("wt"));
    assert_eq!(damage(&mut world, 7), 1);
    assert_eq!(read(&mut world, 7 * BLOCK, BLOCK), Ok(pattern(7, BLOCK as usize)));
    world.settle();
    assert_eq!(damage(&mut world, 7), 1, "another copy was written to the SSD");
    assert_eq!(read(&mut world, 7 * BLOCK, BLOCK), Ok(pattern(7, BLOCK as usize)));
    let (alarms, gauges) = (world.engine().alarms(), world.engine().gauges());
    assert_eq!((alarms.damaged_clean, alarms.damaged_dirty), (2, 0), "that one was read");
    assert_eq!(gauges.quarantined, 2);
    // A write that comes at once behind the read is what counts, and not the copy.
    world.settle();
    assert_eq!(damage(&mut world, 7), 1);
    let op = GuestOp::Read { offset_bytes: 7 * BLOCK, length_bytes: BLOCK };
    world.submit(GuestRequest { token: 7, op, now_ns: world.now_ns() });
    write(&mut world, 7 * BLOCK, BLOCK, 99).unwrap();
    world.settle();
    assert_eq!(read(&mut world, 7 * BLOCK, BLOCK), Ok(pattern(99, BLOCK as usize)));
}

#[test]
fn g5_a_scrub_tells_of_damaged_dirty_blocks_and_never_brings_older_bytes() {
    let machine = scrubbed(1, one_level("wb"));
    let mut world = written(machine.clone());
    assert_eq!(damage(&mut world, 7), 1);
    pass(&mut world, 2);
    let (alarms, gauges) = (world.engine().alarms(), world.engine().gauges());
    assert_eq!((alarms.damaged_clean, alarms.damaged_dirty, gauges.lost_blocks), (0, 1, 1));
    assert_eq!(read(&mut world, 7 * BLOCK, BLOCK), Err(GuestError::Io));
    world.go_down(true);
    world.restart(machine).unwrap();
    assert_eq!(read(&mut world, 7 * BLOCK, BLOCK), Err(GuestError::Io));
    write(&mut world, 7 * BLOCK, BLOCK, 99).unwrap();
    pass(&mut world, 2);
    assert_eq!(read(&mut world, 7 * BLOCK, BLOCK), Ok(pattern(99, BLOCK as usize)));
    assert_eq!(world.engine().gauges().lost_blocks, 0);
}

#[test]
fn g9_a_scrub_repairs_dirty_blocks_from_the_second_ssd() {
    let mut world = World::new(scrubbed(1, tica("tica-ef")), 1).unwrap();
    for block in 0..10 {
        write(&mut world, block * BLOCK, BLOCK, block as u8).unwrap();
    }
    flush(&mut world).unwrap();
    world.settle();
    assert_eq!(damage(&mut world, 7), 1);
    pass(&mut world, 3);
    world.settle();
    let (alarms, gauges) = (world.engine().alarms(), world.engine().gauges());
    assert_eq!((alarms.damaged_mirrored, alarms.damaged_dirty, gauges.lost_blocks), (1, 0, 0));
    assert_eq!(read(&mut world, 7 * BLOCK, BLOCK), Ok(pattern(7, BLOCK as usize)));
}

#[test]
fn a_scrub_keeps_its_pace_and_stops_when_told() {
    let mut world = written(scrubbed(20, one_level("wb")));
    let before = world.engine().gauges().scrubbed_blocks;
    pass(&mut world, 5);
    let in_five_ticks = world.engine().gauges().scrubbed_blocks - before;
    assert!((BLOCKS / 4 - 2..=BLOCKS / 4 + 2).contains(&in_five_ticks), "{in_five_ticks} of {BLOCKS}");
    let mut world = written(one_level("wb"));
    pass(&mut world, 5);
    assert_eq!(world.engine().gauges().scrubbed_blocks, 0);
}

#[test]
fn g5_bits_flip_under_a_scrub() {
    let (mut damaged, mut checked) = (0, 0);
    for (name, machine) in all_schemes() {
        for seed in first_seeds(seeds()) {
            let plan = Plan {
                crash: Crash::Stop,
                flips: 12,
                requests: 120,
                ..plan(vec![scrubbed(2, machine.clone())], seed)
            };
            let tally = run(&plan).unwrap_or_else(|error| panic!("{name}: {error}"));
            damaged += tally.damaged;
            checked += tally.sectors_checked;
        }
    }
    assert!(damaged > 100 && checked > 10_000, "{damaged} {checked}");
}
