//! Draining under guests, crashes and faults: guarantees 1, 2, 5, 6 and 7 of `docs/design.md`, and that the backing
//! disk alone has everything once a drain is over.

use lode_engine::{Buf, GuestError, GuestOp, GuestRequest};
use lode_policy::Quota;
use lode_sim::scenario::{
    BLOCK, all_schemes, damage, first_seeds, flush, machine, pattern, plan, read, run_each, seeds, write,
};
use lode_sim::{Crash, Faults, Machine, Plan, RunCounts, SimDisk, World, run};

fn run_all(change: impl Fn(Plan) -> Plan) -> RunCounts {
    let plan_of = |machine, seed| change(Plan { drains: 4, ..plan(vec![machine], seed) });
    let sum = run_each(all_schemes(), seeds().div_ceil(2), plan_of);
    assert!(sum.cleaned > 1000, "{sum:?}");
    sum
}

#[test]
fn g2_power_cuts_amid_drains() {
    run_all(|plan| Plan { crash: Crash::Power, ..plan });
}

#[test]
fn g2_kills_amid_drains() {
    run_all(|plan| Plan { crash: Crash::Kill, ..plan });
}

#[test]
fn g6_a_drained_backing_disk_stands_alone() {
    let tally = run_all(|plan| Plan { ends_drained: true, ..plan });
    assert!(tally.drained >= seeds() * 16, "every run ends drained: {tally:?}");
}

#[test]
fn g7_drains_over_a_failing_backing_disk() {
    for faults in [
        Faults { backing_write_errors: 20, ..Faults::default() },
        Faults { backing_write_errors: 100, ..Faults::default() },
        Faults { backing_flush_errors: 5, ssd_read_errors: 2, backing_write_errors: 5, ..Faults::default() },
        Faults { ssd_metadata_errors: 2, ssd_write_errors: 2, ..Faults::default() },
    ] {
        let tally = run_all(|plan| Plan { faults, ends_drained: true, ..plan });
        assert!(tally.drained > 0 && (faults.backing_write_errors == 0 || tally.drain_failures > 100));
    }
}

#[test]
fn g5_drains_over_damaged_copies() {
    let tally =
        run_all(|plan| Plan { flips: 12, ends_drained: plan.seed % 4 == 0, crash: Crash::Stop, ..plan });
    assert!(tally.damaged > 50 && tally.failed_reads > 10, "{tally:?}");
}

/// Another scheme, another share, another number of extents takes over what a drain had half done.
#[test]
fn g6_drains_and_new_configurations() {
    let mut machines: Vec<Machine> = all_schemes().into_iter().map(|(_, machine)| machine).collect();
    let mut large = machine("lru", &["write_policy=wb"], Quota::new(0, 300));
    large.config.reserve = Quota::new(0, 40);
    machines.insert(2, large);
    for seed in first_seeds(seeds() * 2) {
        let plan = Plan { rounds: 12, requests: 200, depth: 12, drains: 4, ..plan(machines.clone(), seed) };
        run(&plan).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn g2_power_cuts_at_every_step_of_drains() {
    for (name, machine) in all_schemes() {
        for most_steps in 1..seeds() * 8 {
            let plan = Plan {
                rounds: 2,
                crash: Crash::Power,
                drains: 20,
                most_steps: Some(most_steps * 3),
                ..plan(vec![machine.clone()], most_steps)
            };
            run(&plan).unwrap_or_else(|error| panic!("{name}, step {most_steps}: {error}"));
        }
    }
}

const BLOCKS: u64 = 40;

fn wb() -> Machine {
    machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 120))
}

/// A world whose first blocks are dirty, durably, each with its own pattern.
fn dirty_world(machine: &Machine, seed: u64) -> World {
    make_dirty(World::new(machine.clone(), seed).unwrap())
}

fn make_dirty(mut world: World) -> World {
    for block in 0..BLOCKS {
        write(&mut world, block * BLOCK, BLOCK, block as u8 + 1).unwrap();
    }
    flush(&mut world).unwrap();
    world.settle();
    world
}

fn on_disk(disk: &SimDisk, block: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK as usize];
    disk.peek(block * BLOCK, &mut bytes);
    bytes
}

fn finish(world: &mut World) {
    for _ in 0..64 {
        while world.step() {}
        if world.engine().drain_left().is_none() {
            return;
        }
        world.tick();
    }
    panic!("the drain does not end: {:?}", world.engine().gauges());
}

#[test]
fn g6_drained_blocks_stay_and_are_clean() {
    let mut world = dirty_world(&wb(), 1);
    let before = (*world.engine().counters(), world.engine().gauges());
    assert_eq!(before.1.dirty_blocks, BLOCKS as u32);
    world.drain();
    assert_eq!(world.engine().drain_left(), Some(BLOCKS as u32));
    finish(&mut world);
    world.settle();
    let gauges = world.engine().gauges();
    assert_eq!((gauges.dirty_blocks, gauges.ssd_blocks, gauges.cleaned_blocks), (0, BLOCKS as u32, BLOCKS));
    assert_eq!(gauges.backing_written_bytes, before.1.backing_written_bytes + BLOCKS * BLOCK);
    assert_eq!(*world.engine().counters(), before.0, "a drain is no decision");
    let disk = world.backing.after_power_cut(&mut lode_sim::Rng::new(1));
    // In every place: in the next run too the blocks are hits, and leave without being written.
    for restart in [false, true] {
        if restart {
            world.go_down(true);
            world.restart(wb()).unwrap();
        }
        for block in 0..BLOCKS {
            assert_eq!(on_disk(&disk, block), pattern(block as u8 + 1, BLOCK as usize));
            assert_eq!(read(&mut world, block * BLOCK, BLOCK), Ok(pattern(block as u8 + 1, BLOCK as usize)));
        }
        assert_eq!(world.engine().gauges().dirty_blocks, 0);
        assert_eq!(world.engine().counters().read_misses, 0);
    }
    for block in 200..400 {
        read(&mut world, block * BLOCK, BLOCK).unwrap();
    }
    assert_eq!(world.engine().counters().write_backs, 0, "the scheme knows that they are clean");
}

/// Nobody else waits for the journal to know the copies that a drain is about to write back.
#[test]
fn g2_a_drain_waits_for_the_records_of_its_own_copies() {
    let mut world = World::new(wb(), 1).unwrap();
    for block in 0..BLOCKS {
        write(&mut world, block * BLOCK, BLOCK, 1).unwrap();
    }
    world.drain();
    while world.step() {}
    assert_eq!(world.engine().drain_left(), None, "it ends without a flush or a tick");
    assert_eq!(world.engine().gauges().dirty_blocks, 0);
}

/// A write that is decided while its block is cleaned makes the block dirty, and the scheme knows.
#[test]
fn g8_what_is_written_behind_a_cleaning_is_dirty() {
    let mut world = dirty_world(&wb(), 1);
    world.drain();
    for block in 0..BLOCKS / 2 {
        let buf = Buf::copy_of(&pattern(0, BLOCK as usize));
        let op = GuestOp::write(block * BLOCK, buf, false);
        world.submit(GuestRequest { token: block, op, now_ns: 0 });
    }
    finish(&mut world);
    world.settle();
    assert_eq!(world.engine().gauges().dirty_blocks, BLOCKS as u32 / 2);
    for block in 200..400 {
        read(&mut world, block * BLOCK, BLOCK).unwrap();
    }
    assert_eq!(world.engine().counters().write_backs, BLOCKS / 2);
}

/// A drain takes in what is in flight when it begins, whether a guest reads it or the scheme has it leave.
#[test]
fn g6_blocks_in_flight_are_drained_too() {
    let small = machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 16));
    for leaving in [false, true] {
        let mut world = World::new(small.clone(), 1).unwrap();
        for block in 0..4 {
            write(&mut world, block * BLOCK, BLOCK, block as u8).unwrap();
        }
        flush(&mut world).unwrap();
        world.settle();
        let first = if leaving { 64 } else { 0 };
        for block in first..first + 16 {
            let op = GuestOp::Read { offset_bytes: block * BLOCK, length_bytes: BLOCK };
            world.submit(GuestRequest { token: block, op, now_ns: 0 });
        }
        world.drain();
        assert_eq!(world.engine().drain_left(), Some(4));
        finish(&mut world);
        let disk = world.backing.after_power_cut(&mut lode_sim::Rng::new(1));
        for block in 0..4 {
            assert_eq!(on_disk(&disk, block), pattern(block as u8, BLOCK as usize));
        }
    }
}

/// The power fails at each step of a drain, and later ones find the places of cleaned blocks used for others.
#[test]
fn g2_places_of_cleaned_blocks_are_used_again() {
    // All of an extent's 244 places but a few.
    let full = machine("lru", &["write_policy=wb"], Quota::new(0, 215));
    let mut drained = 0;
    for steps in 0..seeds() * 50 {
        let mut world = World::new(full.clone(), steps).unwrap();
        for block in 100..270 {
            read(&mut world, block * BLOCK, BLOCK).unwrap();
        }
        let mut world = make_dirty(world);
        world.drain();
        // Every second block is written behind its cleaning, so that its place is given up at once.
        for block in (0..BLOCKS).step_by(2) {
            let buf = Buf::copy_of(&pattern(block as u8 + 101, BLOCK as usize));
            let op = GuestOp::write(block * BLOCK, buf, false);
            world.submit(GuestRequest { token: block, op, now_ns: 0 });
        }
        for step in 0..steps {
            let op = GuestOp::Read { offset_bytes: (100 + step * 7 % 400) * BLOCK, length_bytes: BLOCK };
            world.submit(GuestRequest { token: BLOCKS + step, op, now_ns: 0 });
            world.step();
        }
        drained += u32::from(world.engine().drain_left().is_none());
        world.go_down(true);
        world.restart(full.clone()).unwrap();
        for block in 0..BLOCKS {
            let bytes = read(&mut world, block * BLOCK, BLOCK).unwrap_or_else(|error| {
                panic!("{steps} steps: block {block} was durable and is {error:?}");
            });
            let new = block % 2 == 0 && bytes == pattern(block as u8 + 101, BLOCK as usize);
            assert!(new || bytes == pattern(block as u8 + 1, BLOCK as usize), "{steps} steps: block {block}");
        }
    }
    assert!(drained > 0, "some of the drains end");
}

/// The journal fails just when it should say that blocks are clean: their places are not given to others.
#[test]
fn g7_the_journal_fails_amid_a_drain() {
    let mut world = dirty_world(&wb(), 1);
    world.faults = Faults { ssd_metadata_errors: 100, ..Faults::default() };
    world.drain();
    while world.step() {}
    assert!(world.engine().alarms().failed);
    let (left, gauges) = (world.engine().drain_left(), world.engine().gauges());
    assert!(
        left.is_some() || gauges.dirty_blocks == 0,
        "it ends when all is on the disk, or not: {gauges:?}"
    );
    for block in 0..512 - 1 {
        read(&mut world, block * BLOCK, BLOCK).unwrap();
    }
    world.go_down(true);
    world.restart(wb()).unwrap();
    for block in 0..BLOCKS {
        assert_eq!(read(&mut world, block * BLOCK, BLOCK), Ok(pattern(block as u8 + 1, BLOCK as usize)));
    }
}

/// A backing disk that takes nothing is asked once a tick, and everything is there when it does again.
#[test]
fn g7_a_failing_drain_waits_and_goes_on() {
    let mut world = dirty_world(&wb(), 1);
    world.faults = Faults { backing_write_errors: 100, ..Faults::default() };
    world.drain();
    for tick in 1..5u64 {
        let steps = world.steps();
        while world.step() {}
        assert!(world.steps() - steps < 200, "it spins");
        let gauges = world.engine().gauges();
        assert_eq!((world.engine().drain_left(), gauges.cleaned_blocks), (Some(BLOCKS as u32), 0));
        assert_eq!(gauges.drain_failures, tick * BLOCKS, "{gauges:?}");
        assert_eq!(gauges.dirty_blocks, BLOCKS as u32);
        world.tick();
    }
    world.faults = Faults::default();
    finish(&mut world);
    assert_eq!(world.engine().gauges().cleaned_blocks, BLOCKS);
}

/// A dirty block that is damaged on the SSD cannot be written back. The drain ends without it, counts it as lost, and
/// writes back all others.
#[test]
fn g5_a_damaged_block_is_no_obstacle() {
    let mut world = dirty_world(&wb(), 1);
    assert_eq!(damage(&mut world, 8), 1);
    world.drain();
    finish(&mut world);
    world.settle();
    let gauges = world.engine().gauges();
    assert_eq!((gauges.lost_blocks, gauges.dirty_blocks, gauges.cleaned_blocks), (1, 1, BLOCKS - 1));
    assert_eq!(read(&mut world, 7 * BLOCK, BLOCK), Err(GuestError::Io));
    assert_eq!(on_disk(&world.backing, 7), vec![0; BLOCK as usize], "no damaged bytes reach the disk");
}

/// Guests that write the same blocks all the time do not hold a drain up, nor does one that is stopped.
#[test]
fn g1_a_drain_ends_under_steady_writes() {
    let mut world = dirty_world(&wb(), 1);
    world.drain();
    let mut rounds = 0u8;
    while world.engine().drain_left().is_some() {
        rounds = rounds.checked_add(1).expect("the drain starves");
        for block in 0..4 {
            write(&mut world, block * BLOCK, BLOCK, rounds).unwrap();
        }
    }
    for block in 0..4 {
        assert_eq!(read(&mut world, block * BLOCK, BLOCK), Ok(pattern(rounds, BLOCK as usize)));
    }
    world.drain();
    world.stop_drain();
    assert_eq!(world.engine().drain_left(), None);
    world.settle();
    world.drain();
    finish(&mut world);
    world.settle();
    assert_eq!(world.engine().gauges().dirty_blocks, 0);
}

/// A guest may wait behind a batch and not behind a drain.
#[test]
fn g7_guests_wait_no_longer_than_a_batch() {
    let scattered = machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 240));
    let mut world = World::new(scattered, 1).unwrap();
    for block in 0..200 {
        write(&mut world, block * 2 * BLOCK, BLOCK, block as u8).unwrap();
    }
    flush(&mut world).unwrap();
    world.settle();
    world.drain();
    let mut longest_ns = 0;
    for _ in 0..10_000 {
        let before = world.now_ns();
        write(&mut world, before % 200 * 2 * BLOCK, BLOCK, 1).unwrap();
        longest_ns = longest_ns.max(world.now_ns() - before);
        if world.engine().drain_left().is_none() {
            break;
        }
    }
    assert_eq!(world.engine().drain_left(), None, "the drain starves");
    // One write of the backing disk takes at most 8.1 ms, and eight are under way at once here.
    assert!(longest_ns < 40_000_000, "{longest_ns}");
}
