//! Guarantees 1 and 5 of `docs/design.md` after a start, while the scheme is told by and by of what was found: reads are served past it,
//! in their order among what else guests ask, and find what is there or an error.

use lode_engine::{Answer, Buf, GuestError, GuestOp, GuestRequest, Served, WaitedFor};
use lode_policy::Quota;
use lode_sim::scenario::{BLOCK, damage, flush, machine, paired, pattern, seeds, write};
use lode_sim::{Machine, World};
use lode_types::Level;

const BLOCKS: u64 = 100;

fn lru(share_blocks: u32) -> Machine {
    machine("lru", &["write_policy=wb"], Quota::new(0, share_blocks))
}

/// A volume with dirty blocks whose last run was killed, and whose scheme is told by and by of them.
fn restarted(seed: u64, share_blocks: u32) -> World {
    restarted_on(seed, lru(120), lru(share_blocks))
}

fn restarted_on(seed: u64, before: Machine, machine: Machine) -> World {
    let mut world = World::new(before, seed).unwrap();
    for block in 0..BLOCKS {
        write(&mut world, block * BLOCK, BLOCK, block as u8).unwrap();
    }
    flush(&mut world).unwrap();
    world.go_down(false);
    world.take_over_in_steps(seed);
    world.restart(machine).unwrap();
    assert!(world.engine().is_taking_over() && u64::from(world.engine().gauges().ssd_blocks) == BLOCKS);
    world
}

fn submit(world: &mut World, token: u64, op: GuestOp) {
    world.submit(GuestRequest { token, op, now_ns: 0 });
}

fn read_of(block: u64) -> GuestOp {
    GuestOp::Read { offset_bytes: block * BLOCK, length_bytes: BLOCK }
}

fn write_of(block: u64, name: u8) -> GuestOp {
    GuestOp::write(block * BLOCK, Buf::copy_of(&pattern(name, BLOCK as usize)), false)
}

fn bytes(answer: &Answer) -> Vec<u8> {
    answer.data.concat()
}

/// The answers to so many requests, and whether the scheme knew everything when each came.
fn answers(world: &mut World, count: usize) -> Vec<(Answer, bool)> {
    let mut answers = Vec::new();
    while answers.len() < count {
        assert!(world.step_or_tick(), "nothing moves: {answers:?}");
        let knows_all = !world.engine().is_taking_over();
        answers.extend(world.take_events().into_iter().map(|answer| (answer, knows_all)));
    }
    answers
}

#[test]
fn g1_reads_are_served_before_the_scheme_knows_what_there_is() {
    let mut early = [0, 0];
    for seed in 0..seeds() {
        let mut world = restarted(seed, 120);
        let first = seed % 90;
        submit(&mut world, 0, GuestOp::Read { offset_bytes: first * BLOCK + 512, length_bytes: 3 * BLOCK });
        submit(&mut world, 1, read_of(BLOCKS + 7));
        let all: Vec<u8> =
            (first..first + 4).flat_map(|block| pattern(block as u8, BLOCK as usize)).collect();
        for (answer, knows_all) in answers(&mut world, 2) {
            answer.result.unwrap();
            let is_hit = answer.token == 0;
            let want =
                if is_hit { all[512..][..3 * BLOCK as usize].to_vec() } else { vec![0; BLOCK as usize] };
            assert!(bytes(&answer) == want, "seed {seed}");
            assert_eq!(answer.served, if is_hit { Served::Ssd } else { Served::Backing });
            early[usize::from(is_hit)] += u64::from(!knows_all);
        }
        world.settle();
        let counters = *world.engine().counters();
        assert_eq!((counters.requests, counters.block_reads), (2, 5), "seed {seed}");
        assert_eq!((counters.read_hits[Level::Ssd.index()], counters.read_misses), (4, 1));
        assert!(!world.engine().is_taking_over() && world.engine().gauges().ssd_blocks as u64 == BLOCKS);
    }
    assert!(early[1] > seeds() / 2 && early[0] > 0, "{early:?}");
}

/// What the SSD alone has newest nobody is told to be as the disk says, from the first moment on.
#[test]
fn g1_what_a_start_found_is_written_from_the_beginning() {
    let all = 0..BLOCKS * BLOCK;
    for seed in 0..seeds() {
        let mut world = restarted(seed, 120);
        loop {
            let written = world.engine().written(all.clone());
            assert_eq!(written, std::slice::from_ref(&all), "seed {seed}");
            if !world.engine().is_taking_over() {
                break;
            }
            assert!(world.step_or_tick());
        }
    }
}

/// Writes wait until the scheme knows everything, and reads that came after one of the same block wait for it; others do not.
#[test]
fn g1_order_of_arrival_holds_before_the_scheme_knows_what_there_is() {
    let mut passed = 0;
    for seed in 0..seeds() {
        let mut world = restarted(seed, 120);
        let ops = [read_of(5), write_of(5, 200), read_of(5), write_of(5, 201), read_of(5), read_of(6)];
        (0..).zip(ops).for_each(|(token, op)| submit(&mut world, token, op));
        let answers = answers(&mut world, 6);
        let at = |token: u64| answers.iter().position(|(answer, _)| answer.token == token).unwrap();
        for (token, name) in [(0, 5), (2, 200), (4, 201), (5, 6)] {
            assert!(
                bytes(&answers[at(token)].0) == pattern(name, BLOCK as usize),
                "seed {seed}: read {token}"
            );
        }
        for token in 1..5 {
            let (answer, knows_all) = &answers[at(token)];
            assert!(answer.result.is_ok() && *knows_all, "seed {seed}: {token}");
            let waited_ns: u64 = WaitedFor::ALL.iter().map(|&cause| answer.waits.ns(cause)).sum();
            assert!(waited_ns <= world.now_ns());
        }
        passed += u64::from(at(5) < at(1));
    }
    assert_eq!(passed, seeds(), "a read of another block waits for writes");
}

/// What is not what it should be is an error or comes from elsewhere, and never what is there.
#[test]
fn g5_damage_that_an_early_read_meets_is_dealt_with() {
    for seed in 0..seeds() {
        let mut world = restarted(seed, 120);
        assert!(damage(&mut world, 9) > 0);
        for (token, block) in [(0, 9), (1, 10)] {
            submit(&mut world, token, read_of(block));
        }
        for (answer, _) in answers(&mut world, 2) {
            match answer.token {
                0 => assert_eq!(answer.result, Err(GuestError::Io), "seed {seed}"),
                _ => assert!(bytes(&answer) == pattern(10, BLOCK as usize), "seed {seed}"),
            }
        }
        assert_eq!(world.engine().alarms().damaged_dirty, 1, "an operator hears of it once");
    }
}

/// Of a pair one SSD is damaged: the other one is read and repairs it when the scheme decides, which keeps the place from being used again
/// meanwhile. An early read does not.
#[test]
fn g9_an_early_read_writes_nothing() {
    let mut healed = 0;
    for seed in 0..seeds() {
        let mut world = restarted_on(seed, paired(lru(120)), paired(lru(40)));
        (0..60).for_each(|name| _ = damage(&mut world, name));
        (0..60).for_each(|block| submit(&mut world, block, read_of(block)));
        for block in 100..180 {
            submit(&mut world, block, write_of(block, block as u8));
        }
        let mut answered = 0;
        while answered < 140 {
            assert!(world.step_or_tick());
            assert!(!world.engine().is_taking_over() || world.healed() == 0, "seed {seed}");
            for answer in world.take_events() {
                answer.result.unwrap();
                assert!(answer.token >= 60 || bytes(&answer) == pattern(answer.token as u8, BLOCK as usize));
                answered += 1;
            }
        }
        healed += world.healed();
    }
    assert!(healed > seeds(), "{healed}");
}

/// What a smaller share has no room for comes to the disk, and is read wherever it is.
#[test]
fn g2_what_there_is_no_room_for_leaves_while_reads_are_served() {
    for seed in 0..seeds() {
        let mut world = restarted(seed, 40);
        for block in 0..BLOCKS {
            submit(&mut world, block, read_of(block));
            (0..seed % 4).for_each(|_| _ = world.step());
        }
        for (answer, _) in answers(&mut world, BLOCKS as usize) {
            assert!(
                bytes(&answer) == pattern(answer.token as u8, BLOCK as usize),
                "seed {seed}: {}",
                answer.token
            );
        }
        world.settle();
        assert!(world.engine().gauges().ssd_blocks <= 40);
    }
}

/// What cannot wait has the scheme be told of the rest at once; reads under way come to their end.
#[test]
fn g1_a_share_that_changes_meanwhile_is_carried_out_at_once() {
    for seed in 0..seeds() {
        let mut world = restarted(seed, 120);
        submit(&mut world, 0, read_of(5));
        (0..seed % 6).for_each(|_| _ = world.step());
        submit(&mut world, 1, write_of(5, 200));
        world.resize(Quota::new(0, 60));
        assert!(!world.engine().is_taking_over());
        let all = answers(&mut world, 2);
        let read = all.iter().find(|(answer, _)| answer.token == 0);
        if let Some((answer, _)) = read {
            assert!(bytes(answer) == pattern(5, BLOCK as usize), "seed {seed}");
        }
        for (token, block) in (2..).zip(0..BLOCKS) {
            submit(&mut world, token, read_of(block));
            let name = if block == 5 { 200 } else { block as u8 };
            let (answer, _) = answers(&mut world, 1).remove(0);
            assert!(bytes(&answer) == pattern(name, BLOCK as usize), "seed {seed}: {block}");
        }
    }
}
