//! Devices that stop answering inside a start (guarantees 2, 7 and 9 of `docs/design.md`): of a pair the other SSD is enough, a single one fails
//! the start and has everything when it is back, and what a start gave up may still happen.

use lode_engine::{GuestOp, GuestRequest};
use lode_policy::Quota;
use lode_sim::scenario::{
    BLOCK, first_seeds, flush, machine, paired, pattern, plan, read, run_neighbours, seeds, write,
};
use lode_sim::{Copies, Crash, HangEnd, Machine, Plan, SimDisk, World, attack_start_hangs};

const BLOCKS: u64 = 24;
const ENDS: [HangEnd; 4] =
    [HangEnd::Answers, HangEnd::GivenUp { more: 0 }, HangEnd::GivenUp { more: 2 }, HangEnd::Late];

fn lru() -> Machine {
    machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 60))
}

/// All blocks are durable, the later ones as a second version, and some that are not are on their way.
fn written(machine: &Machine, seed: u64) -> World {
    let mut world = World::new(machine.clone(), seed).unwrap();
    write(&mut world, 0, BLOCKS * BLOCK, 1).unwrap();
    flush(&mut world).unwrap();
    world.settle();
    world.go_down(false);
    world.restart(machine.clone()).unwrap();
    write(&mut world, BLOCKS / 2 * BLOCK, BLOCKS / 2 * BLOCK, 2).unwrap();
    flush(&mut world).unwrap();
    write(&mut world, 30 * BLOCK, BLOCK, 3).unwrap();
    world
}

fn check(world: &mut World, case: &str) {
    let half = (BLOCKS / 2 * BLOCK) as usize;
    let first = pattern(1, 2 * half);
    let mut found =
        |at: u64| read(world, at, half as u64).unwrap_or_else(|error| panic!("{case}: {error:?}"));
    assert!(found(0) == first[..half], "{case}");
    assert!(found(half as u64) == pattern(2, half), "{case}");
}

fn member(world: &mut World, member: usize) -> &mut SimDisk {
    if member == 0 { &mut world.ssd } else { &mut world.pair.as_mut().unwrap().second }
}

/// Each single command of a start on either SSD of a pair, after a kill and after a power cut, and another end of the host after that.
#[test]
fn g9_an_ssd_of_a_pair_that_hangs_in_a_start_costs_nothing() {
    let machine = paired(lru());
    let (mut hung, mut alone) = (0, 0);
    for seed in 0..8 {
        let (which, power_cut, then_power) = ((seed % 2) as usize, seed / 2 % 2 == 1, seed / 4 % 2 == 1);
        for end in ENDS {
            for after in 0.. {
                let case = format!("seed {seed}, {end:?} after {after} commands");
                let mut world = written(&machine, seed);
                world.go_down(power_cut);
                member(&mut world, which).hang_at_command(after, end, seed ^ after);
                world.restart(machine.clone()).unwrap_or_else(|error| panic!("{case}: {error}"));
                let has_hung = world.end_start_hang();
                check(&mut world, &case);
                write(&mut world, 0, BLOCK, 1).unwrap();
                flush(&mut world).unwrap();
                let World { ssd, pair, .. } = &mut world;
                let is_alone = !pair.as_mut().unwrap().found_in_sync(ssd)[which];
                world.go_down(then_power);
                world.restart(machine.clone()).unwrap_or_else(|error| panic!("{case}, then: {error}"));
                check(&mut world, &case);
                if !has_hung {
                    break;
                }
                (hung, alone) = (hung + 1, alone + u32::from(is_alone));
            }
        }
    }
    println!("{hung} starts in which an SSD hung, {alone} of which went on without it");
    assert!(hung > 500 && alone > 200 && alone < hung, "{hung}, {alone}");
}

/// One SSD of a pair stops answering at each single command of a start, and of each page of metadata the other one has a copy that cannot be
/// read: its own other copy is enough.
#[test]
fn g9_an_ssd_that_hangs_in_a_start_is_done_without_where_copies_on_the_other_one_cannot_be_read() {
    let machine = paired(lru());
    let mut hung = 0;
    for (seed, copies) in (0..).zip([Copies::Older, Copies::Newer]) {
        for after in 0.. {
            let case = format!("{copies:?} unreadable, after {after} commands");
            let mut world = written(&machine, seed);
            world.go_down(false);
            assert!(world.make_copies_unreadable(copies) > 2, "{case}");
            member(&mut world, 1).hang_at_command(after, HangEnd::Late, after);
            world.restart(machine.clone()).unwrap_or_else(|error| panic!("{case}: {error}"));
            let has_hung = world.end_start_hang();
            check(&mut world, &case);
            if !has_hung {
                break;
            }
            hung += 1;
        }
    }
    println!("{hung} starts in which an SSD hung");
    assert!(hung > 20, "{hung}");
}

/// After a power cut blocks that no flush covers are on one SSD of a pair and not on the other one. Where the one stops answering, the start
/// goes on without it and them.
#[test]
fn g9_an_ssd_that_hangs_where_it_alone_may_have_a_block_is_done_without() {
    let machine = paired(lru());
    let mut hung = 0;
    for seed in 0..30 {
        let which = (seed % 2) as usize;
        for after in 10..40 {
            let case = format!("seed {seed}, after {after} commands");
            let mut world = World::new(machine.clone(), seed).unwrap();
            write(&mut world, 0, BLOCKS * BLOCK, 1).unwrap();
            flush(&mut world).unwrap();
            for at in 0..12 {
                write(&mut world, (40 + at) * BLOCK, BLOCK, 3).unwrap();
            }
            world.submit(GuestRequest { token: 1, op: GuestOp::Flush, now_ns: 0 });
            (0..seed / 2).for_each(|_| _ = world.step());
            world.go_down(true);
            member(&mut world, which).hang_at_command(after, HangEnd::Late, after);
            world.restart(machine.clone()).unwrap_or_else(|error| panic!("{case}: {error}"));
            hung += u32::from(world.end_start_hang());
            let found = read(&mut world, 0, BLOCKS * BLOCK).unwrap();
            assert!(found == pattern(1, found.len()), "{case}");
        }
    }
    println!("{hung} starts in which an SSD hung");
    assert!(hung > 300, "{hung}");
}

/// The same of a single SSD, and of both of a pair.
#[test]
fn g2_a_start_on_ssds_that_hang_fails_and_another_one_finds_everything() {
    let (mut failed, mut ended) = (0, 0);
    for seed in 0..8 {
        let (machine, power_cut, then_power) =
            (if seed % 2 == 0 { lru() } else { paired(lru()) }, seed / 2 % 2 == 1, seed / 4 % 2 == 1);
        for end in ENDS {
            for after in 0.. {
                let case = format!("seed {seed}, {end:?} after {after} commands");
                let mut world = written(&machine, seed);
                world.go_down(power_cut);
                world.ssd.hang_at_command(after, end, seed ^ after);
                if let Some(pair) = &mut world.pair {
                    pair.second.hang_at_command(after, end, seed ^ after ^ 1);
                }
                let started = world.restart(machine.clone());
                let has_hung = world.end_start_hang();
                let never_ends = world.start_never_ends();
                assert!(has_hung || started.is_ok(), "{case}: {started:?}");
                ended += u32::from(never_ends);
                failed += u32::from(started.is_err());
                if started.is_ok() && !never_ends {
                    check(&mut world, &case);
                }
                // What a kill left unflushed no power cut may take that comes later, but for that.
                world.go_down(then_power);
                world.devices_come_back();
                world.restart(machine.clone()).unwrap_or_else(|error| panic!("{case}, then: {error}"));
                check(&mut world, &case);
                if !has_hung {
                    break;
                }
            }
        }
    }
    println!("{failed} starts failed, {ended} never ended");
    assert!(failed > 300 && ended > 100, "{failed}, {ended}");
}

/// A start that came to nothing leaves a command at one SSD, of which the label of the other one does not say that anything is missing: nobody
/// knows who has the device, and the next start is refused until it can be opened.
#[test]
fn g7_an_ssd_that_is_locked_and_may_have_everything_is_not_done_without() {
    let machine = paired(lru());
    let (mut refused, mut seed) = (0, 0);
    while refused < 10 {
        seed += 1;
        assert!(seed < 200, "{refused}");
        let mut world = written(&machine, seed);
        world.go_down(false);
        member(&mut world, 1).hang_at_command(0, HangEnd::Late, seed);
        world.ssd.fail_after = Some(0);
        assert!(world.restart(machine.clone()).is_err());
        world.ssd.fail_after = None;
        world.go_down(false);
        if world.restart(machine.clone()).is_err() {
            refused += 1;
            world.go_down(false);
            world.devices_come_back();
            world.restart(machine.clone()).unwrap();
        }
        check(&mut world, &format!("seed {seed}"));
    }
}

fn neighbours(machine: Machine, seed: u64) -> Plan {
    Plan { rounds: 5, requests: 100, start_hangs: 80, starts_at_once: true, ..plan(vec![machine], seed) }
}

#[test]
fn g2_volumes_on_one_ssd_that_hangs_in_starts_lose_nothing() {
    let sum =
        run_neighbours(3, 8 << 20, |machine, seed| Plan { failed_starts: 1, ..neighbours(machine, seed) });
    assert!(sum.start_hangs > 50 && sum.failed_starts > 50, "{sum:?}");
    assert_eq!((sum.failed_reads, sum.failed_writes), (0, 0), "{sum:?}");
}

#[test]
fn g9_volumes_on_a_pair_one_of_which_hangs_in_starts_lose_nothing() {
    let plan_of = |machine, seed| Plan { member_losses: 30, ..neighbours(paired(machine), seed) };
    let sum = run_neighbours(3, 8 << 20, plan_of);
    assert!(sum.start_hangs > 50 && sum.members_resilvered > 10, "{sum:?}");
    assert_eq!((sum.failed_reads, sum.failed_writes), (0, 0), "{sum:?}");
}

#[test]
fn hosts_whose_devices_hang_in_starts() {
    let (mut hangs, mut rotten) = (0, 0);
    for seed in first_seeds(4 * seeds()) {
        let tallies = attack_start_hangs(seed, Crash::Any).unwrap_or_else(|error| panic!("{error}"));
        hangs += tallies.iter().map(|tally| tally.start_hangs).sum::<u64>();
        rotten += tallies.iter().map(|tally| tally.rotten).sum::<u64>();
    }
    println!("{hangs} hangs in starts, {rotten} copies of metadata that rotted");
    assert!(hangs > 30 && rotten > 30, "{hangs} {rotten}");
}
