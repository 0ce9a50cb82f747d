//! Background write-back under guests, crashes and faults: guarantees 1, 2, 5, 6 and 7 of `docs/design.md`, and that dirty
//! blocks stay within their limits where the backing disk lets them.

use lode_engine::{Buf, GuestOp, GuestRequest, WriteBackLimits};
use lode_policy::Quota;
use lode_sim::scenario::{
    BLOCK, all_schemes, first_seeds, machine, pattern, plan, read, run_each, seeds, write,
};
use lode_sim::{Crash, Faults, Machine, Plan, RunCounts, World, run};

const EAGER: WriteBackLimits =
    WriteBackLimits { dirty_limit_blocks: 6, dirty_max_blocks: 20, age_ticks: Some(2), idle_ticks: Some(1) };

fn with(limits: WriteBackLimits, mut machine: Machine) -> Machine {
    machine.config.write_back = Some(limits);
    machine
}

fn run_all(change: impl Fn(Plan) -> Plan) -> RunCounts {
    let plan_of = |machine, seed| change(plan(vec![with(EAGER, machine)], seed));
    let sum = run_each(all_schemes(), seeds().div_ceil(2), plan_of);
    assert!(sum.cleaned > 1000 && sum.answered > 1000, "{sum:?}");
    sum
}

#[test]
fn g2_power_cuts_amid_background_write_back() {
    run_all(|plan| Plan { crash: Crash::Power, ..plan });
}

#[test]
fn g2_kills_amid_background_write_back() {
    run_all(|plan| Plan { crash: Crash::Kill, ..plan });
}

#[test]
fn g7_background_write_back_over_a_failing_disk() {
    for faults in [
        Faults { backing_write_errors: 20, ..Faults::default() },
        Faults { backing_write_errors: 100, ..Faults::default() },
        Faults { backing_flush_errors: 5, ssd_read_errors: 2, backing_write_errors: 5, ..Faults::default() },
    ] {
        let machines = all_schemes().into_iter().map(|(_, machine)| with(EAGER, machine));
        for (machine, seed) in machines.flat_map(|machine| first_seeds(2).map(move |s| (machine.clone(), s)))
        {
            let plan = Plan { faults, ..plan(vec![machine], seed) };
            run(&plan).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

fn wb(limits: WriteBackLimits) -> World {
    World::new(with(limits, machine("lru", &["write_policy=wb"], Quota::new(0, 120))), 1).unwrap()
}

const NEVER: WriteBackLimits =
    WriteBackLimits { dirty_limit_blocks: 120, dirty_max_blocks: 120, age_ticks: None, idle_ticks: None };

fn dirty(world: &World) -> u32 {
    world.engine().gauges().dirty_blocks
}

fn tick(world: &mut World) {
    world.tick();
    while world.step() {}
}

#[test]
fn what_is_over_the_limit_is_written_back_oldest_first() {
    let mut world = wb(WriteBackLimits { dirty_limit_blocks: 32, ..NEVER });
    for block in 0..64 {
        write(&mut world, block * BLOCK, BLOCK, block as u8).unwrap();
    }
    for _ in 0..8 {
        // A guest that is never idle, and reads nothing from the disk.
        read(&mut world, 63 * BLOCK, BLOCK).unwrap();
        tick(&mut world);
    }
    let left = dirty(&world);
    assert!((16..=32).contains(&left), "{left}");
    // The first half of all that was written is on the disk.
    let mut bytes = vec![0; BLOCK as usize];
    for block in 0..16 {
        world.backing.peek(block * BLOCK, &mut bytes);
        assert!(bytes == pattern(block as u8, BLOCK as usize), "block {block}");
    }
    assert_eq!(world.engine().counters().write_backs, 0, "the scheme evicted nothing");
}

#[test]
fn blocks_that_are_not_written_again_are_dirty_for_no_longer_than_they_may_be() {
    let mut world = wb(WriteBackLimits { age_ticks: Some(20), ..NEVER });
    for round in 0..60 {
        write(&mut world, round * BLOCK, BLOCK, round as u8).unwrap();
        tick(&mut world);
        assert!(dirty(&world) <= 24, "round {round}: {}", dirty(&world));
    }
    assert!(dirty(&world) >= 18, "and no shorter: {}", dirty(&world));
}

/// Limits are parts of a share, which a host moves while guests are served: ages go on.
#[test]
fn blocks_grow_old_while_limits_change() {
    let limits = |tick: u64| WriteBackLimits {
        age_ticks: Some(20),
        dirty_limit_blocks: 100 + (tick % 7) as u32,
        ..NEVER
    };
    let mut world = wb(limits(0));
    (0..10).for_each(|block| write(&mut world, block * BLOCK, BLOCK, 1).unwrap());
    for round in 0..30 {
        world.set_write_back_limits(Some(limits(round)));
        read(&mut world, 0, BLOCK).unwrap();
        tick(&mut world);
    }
    assert_eq!(dirty(&world), 0);
}

/// What a write replaces is dirty in the journal until that is committed, and is not written back.
#[test]
fn superseded_copies_do_not_count() {
    let mut world = wb(WriteBackLimits { dirty_limit_blocks: 30, ..NEVER });
    for round in 0..40 {
        (0..10).for_each(|block| write(&mut world, block * BLOCK, BLOCK, round).unwrap());
    }
    assert_eq!(world.engine().gauges().cleaned_blocks, 0);
    assert!(dirty(&world) >= 10);
}

#[test]
fn an_idle_guest_leaves_nothing_dirty() {
    let mut world = wb(WriteBackLimits { idle_ticks: Some(5), ..NEVER });
    (0..40).for_each(|block| write(&mut world, block * BLOCK, BLOCK, 1).unwrap());
    for round in 0..4 {
        tick(&mut world);
        assert_eq!(dirty(&world), 40, "tick {round}");
    }
    (0..6).for_each(|_| tick(&mut world));
    assert_eq!(dirty(&world), 0);
    assert_eq!(world.engine().gauges().ssd_blocks, 40, "they stay");
}

/// Requests under way at once.
const DEPTH: u64 = 8;

/// A burst far beyond the limit: writes wait for write-backs, all are answered, and dirty blocks stay near the limit.
#[test]
fn writes_wait_where_too_many_blocks_are_dirty() {
    let limits = WriteBackLimits { dirty_limit_blocks: 20, dirty_max_blocks: 40, ..NEVER };
    let mut world = wb(limits);
    let (mut submitted, mut answered, mut most, mut ticks) = (0, 0, 0, 0);
    while answered < 400 {
        while submitted < 400 && submitted - answered < DEPTH {
            let op = GuestOp::write(submitted * BLOCK, Buf::copy_of(&pattern(1, BLOCK as usize)), false);
            world.submit(GuestRequest { token: submitted, op, now_ns: 0 });
            submitted += 1;
        }
        if !world.step() {
            world.tick();
            ticks += 1;
            assert!(ticks < 10, "{answered} are answered");
        }
        let events = world.take_events();
        assert!(events.iter().all(|event| event.result.is_ok()));
        answered += events.len() as u64;
        most = most.max(dirty(&world));
    }
    // What was admitted before is written all the same.
    assert!((38..=40 + DEPTH as u32).contains(&most), "{most}");
}

/// Nothing can be written back: nobody waits for it.
#[test]
fn g6_a_disk_that_takes_nothing_does_not_stop_writes() {
    let limits = WriteBackLimits { dirty_limit_blocks: 10, dirty_max_blocks: 20, ..NEVER };
    let mut world = wb(limits);
    world.faults.backing_write_errors = 100;
    for block in 0..100 {
        write(&mut world, block * BLOCK, BLOCK, 1).unwrap();
    }
    assert_eq!(dirty(&world), 100);
    assert!(world.engine().gauges().drain_failures > 0);
}
