//! A backing disk whose flush failed, in the runs that follow it: guarantees 1 and 2 of `docs/design.md`. What the flush should
//! have covered can be read until the host goes down, and is on the disk after that or is not.

use lode_sim::scenario::{BLOCK, all_schemes, flush, machine, plan, read, run_each, seeds, write};
use lode_sim::{Crash, Faults, Machine, Plan, World};

use lode_policy::Quota;

/// Reads fill its SSD, writes go past it.
fn wa() -> Machine {
    machine("lru", &["write_policy=wa", "assoc=8"], Quota::new(0, 120))
}

fn byte(world: &mut World, at: u64) -> u8 {
    read(world, at, BLOCK).unwrap()[0]
}

/// A world whose disk failed a flush of block 0: 1 is durable there, 2 can be read and may be lost.
fn after_a_failed_flush(seed: u64) -> World {
    let mut world = World::new(wa(), seed).unwrap();
    write(&mut world, 0, BLOCK, 1).unwrap();
    flush(&mut world).unwrap();
    write(&mut world, 0, BLOCK, 2).unwrap();
    world.faults = Faults { backing_flush_errors: 100, ..Faults::default() };
    assert!(flush(&mut world).is_err());
    world.faults = Faults::default();
    // The host is told.
    (0..100).for_each(|_| _ = world.step_or_tick());
    world
}

#[test]
fn g1_what_a_failed_flush_left_readable_is_never_newer_in_the_cache_than_on_the_disk() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..24 {
        let mut world = after_a_failed_flush(seed);
        for _ in 0..2 {
            world.go_down(false);
            world.restart(wa()).unwrap();
            assert_eq!(byte(&mut world, 0), 2);
            flush(&mut world).unwrap();
            world.settle();
            assert_eq!(byte(&mut world, 0), 2, "from the SSD");
        }
        world.go_down(true);
        world.restart(wa()).unwrap();
        let mut on_disk = vec![0; BLOCK as usize];
        world.backing.peek(0, &mut on_disk);
        assert_eq!(read(&mut world, 0, BLOCK).unwrap(), on_disk);
        match on_disk[0] {
            1 => lost += 1,
            _ => kept += 1,
        }
    }
    assert!(lost > 0 && kept > 0, "{lost} of {kept}");
}

/// After a reboot nobody remembers it any more: what is read from then on is believed by the starts that follow.
#[test]
fn a_reboot_ends_it() {
    let mut world = after_a_failed_flush(1);
    let recovered = |world: &World| world.engine().gauges().ssd_blocks;
    for (power_cut, are_believed) in
        [(false, false), (false, false), (true, false), (false, true), (true, true)]
    {
        world.settle();
        world.go_down(power_cut);
        world.restart(wa()).unwrap();
        assert_eq!(recovered(&world) > 0, are_believed, "after a power cut: {power_cut}");
        (0..4).for_each(|at| _ = byte(&mut world, at * BLOCK));
        flush(&mut world).unwrap();
    }
}

/// By chance: flushes fail, and kills and power cuts follow each other.
#[test]
fn g1_g2_flushes_of_the_disk_fail_among_kills_and_power_cuts() {
    let faults = Faults { backing_flush_errors: 10, ..Faults::default() };
    let machines = all_schemes();
    let tally = run_each(machines, seeds().div_ceil(2), |machine, seed| Plan {
        faults,
        crash: Crash::Any,
        rounds: 6,
        write_arounds: 2,
        ..plan(vec![machine], seed)
    });
    assert!(tally.failed_writes > 0, "{tally:?}");
}
