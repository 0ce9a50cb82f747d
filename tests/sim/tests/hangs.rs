//! Devices that stop answering for a time (guarantees 1, 2, 7, 9, 10 and 11 of `docs/design.md`): what needs them waits and is answered at
//! last, what does not goes on, and a flush that hangs covers nothing.

use std::collections::BTreeSet;

use lode_engine::command::DeviceId;
use lode_engine::{Answer, Buf, GuestOp, GuestRequest};
use lode_policy::Quota;
use lode_sim::scenario::{
    BLOCK, all_schemes, flush, machine, ordered, paired, pattern, plan, read, run_each, run_neighbours,
    seeds, tica, write,
};
use lode_sim::{Crash, Faults, Machine, Plan, World};

fn lru() -> Machine {
    machine("lru", &["write_policy=wb"], Quota::new(0, 60))
}

fn on_a_pair() -> Machine {
    paired(lru())
}

/// Blocks 0 to 9 are on the SSD, the even ones dirty, and the disk has all but those.
fn world(machine: Machine, seed: u64) -> World {
    let mut world = World::new(machine, seed).unwrap();
    (0..10).for_each(|block| write(&mut world, block * BLOCK, BLOCK, 1 + block as u8).unwrap());
    flush(&mut world).unwrap();
    world.drain();
    world.settle();
    (0..10).step_by(2).for_each(|block| write(&mut world, block * BLOCK, BLOCK, 101 + block as u8).unwrap());
    flush(&mut world).unwrap();
    world.settle();
    world.take_events();
    world
}

/// What a block of [`world`] holds.
fn name_of(block: u64) -> u8 {
    if block.is_multiple_of(2) { 101 + block as u8 } else { 1 + block as u8 }
}

fn read_of(block: u64) -> GuestOp {
    GuestOp::Read { offset_bytes: block * BLOCK, length_bytes: BLOCK }
}

fn write_of(block: u64, name: u8) -> GuestOp {
    GuestOp::write(block * BLOCK, Buf::copy_of(&pattern(name, BLOCK as usize)), false)
}

/// Asks for something, and lets all happen that devices which answer have to do. The answer, if there is one then.
fn ask(world: &mut World, token: u64, op: GuestOp) -> Option<Answer> {
    world.submit(GuestRequest { token, op, now_ns: 0 });
    while world.step() {}
    let mut answers = world.take_events();
    assert!(answers.len() <= 1 && answers.iter().all(|answer| answer.token == token), "{answers:?}");
    answers.pop()
}

fn is_right(answer: &Option<Answer>, name: Option<u8>) -> bool {
    let expected = name.map_or(vec![0; BLOCK as usize], |name| pattern(name, BLOCK as usize));
    answer.as_ref().is_some_and(|answer| answer.result.is_ok() && answer.data.concat() == expected)
}

/// Ticks go by until nothing hangs any more. The answers until then.
fn wait(world: &mut World) -> Vec<Answer> {
    let mut answers = Vec::new();
    for _ in 0..40 {
        world.tick();
        while world.step() {}
        answers.extend(world.take_events());
    }
    assert!(!world.has_hanging_device());
    answers
}

fn assert_answered(answers: &[Answer], tokens: &[u64]) {
    let answered: BTreeSet<u64> = answers.iter().map(|answer| answer.token).collect();
    assert_eq!(answered, tokens.iter().copied().collect());
    assert!(answers.iter().all(|answer| answer.result.is_ok()), "{answers:?}");
}

#[test]
fn g1_g2_what_the_ssd_has_and_takes_goes_on_while_the_backing_disk_hangs() {
    let mut world = world(lru(), 1);
    world.hang(DeviceId::Backing, 30);
    assert_eq!(ask(&mut world, 1, read_of(200)).map(|answer| answer.token), None, "only the disk has it");
    for block in 0..10 {
        let hit = ask(&mut world, 10 + block, read_of(block));
        assert!(is_right(&hit, Some(name_of(block))), "block {block}: {hit:?}");
    }
    for block in 20..30 {
        let taken = ask(&mut world, 100 + block, write_of(block, block as u8));
        assert!(taken.is_some_and(|answer| answer.result.is_ok()));
    }
    assert!(ask(&mut world, 3, GuestOp::Flush).is_some_and(|answer| answer.result.is_ok()));
    // What was flushed is there although the disk has not got it.
    world.go_down(true);
    world.restart(lru()).unwrap();
    (20..30).for_each(|block| {
        assert_eq!(read(&mut world, block * BLOCK, BLOCK).unwrap(), pattern(block as u8, BLOCK as usize))
    });
    world.hang(DeviceId::Backing, 5);
    assert!(ask(&mut world, 4, read_of(201)).is_none());
    assert_answered(&wait(&mut world), &[4]);
}

#[test]
fn g1_what_the_disk_has_alone_is_read_while_the_cache_ssd_hangs() {
    let mut world = world(lru(), 1);
    write(&mut world, 9 * BLOCK, BLOCK, 66).unwrap();
    world.hang(DeviceId::Ssd, 30);
    for block in [200, 300] {
        let miss = ask(&mut world, block, read_of(block));
        assert!(is_right(&miss, None), "a read waits for its copy: {miss:?}");
    }
    assert!(ask(&mut world, 1, read_of(3)).is_none(), "the SSD has it");
    assert!(ask(&mut world, 2, write_of(5, 77)).is_none() && ask(&mut world, 3, GuestOp::Flush).is_none());
    assert!(is_right(&ask(&mut world, 4, read_of(301)), None), "those that wait keep nobody back");
    assert_answered(&wait(&mut world), &[1, 2, 3]);
    assert_eq!(read(&mut world, 5 * BLOCK, BLOCK).unwrap(), pattern(77, BLOCK as usize));
}

/// What is on the read SSD, or on its way there, waits for it, and nothing else.
#[test]
fn g9_writes_and_misses_go_on_while_the_read_ssd_hangs() {
    let mut world = world(tica("tica-ef"), 1);
    world.hang(DeviceId::ReadSsd, 30);
    for block in 0..10 {
        let written = ask(&mut world, 1 + block, write_of(100 + block, 50 + block as u8));
        assert!(written.is_some_and(|answer| answer.result.is_ok()), "block {block}");
        assert!(is_right(&ask(&mut world, 20 + block, read_of(300 + block)), None));
    }
    assert!(ask(&mut world, 40, GuestOp::Flush).is_some_and(|answer| answer.result.is_ok()));
    assert!(ask(&mut world, 41, read_of(3)).is_none(), "it is read from there");
    assert!(ask(&mut world, 42, read_of(100)).is_none(), "it is on its way there");
    assert_answered(&wait(&mut world), &[41, 42]);
    assert_eq!(read(&mut world, 100 * BLOCK, BLOCK).unwrap(), pattern(50, BLOCK as usize));
}

#[test]
fn g2_a_flush_that_hangs_covers_nothing_until_it_ends() {
    let mut found = BTreeSet::new();
    for seed in 0..40 {
        let mut world = world(lru(), seed);
        assert!(ask(&mut world, 1, write_of(4, 33)).is_some_and(|answer| answer.result.is_ok()));
        world.hang(DeviceId::Ssd, 30);
        assert!(ask(&mut world, 2, GuestOp::Flush).is_none(), "seed {seed}: answered before it is durable");
        (0..20).for_each(|_| world.tick());
        while world.step() {}
        assert!(world.take_events().is_empty(), "seed {seed}: a flush ends while its device hangs");
        world.go_down(true);
        world.restart(lru()).unwrap();
        let bytes = read(&mut world, 4 * BLOCK, BLOCK).unwrap();
        let new = pattern(33, BLOCK as usize);
        found.extend(bytes.chunks(512).zip(new.chunks(512)).map(|(found, new)| found == new));
    }
    assert_eq!(found, [false, true].into(), "what was under way has happened or not");
}

#[test]
fn g9_a_member_that_hangs_is_given_up_in_time_and_both_are_waited_for() {
    // Shorter than the limit: it stays, and what it was asked for is answered then.
    let mut short = world(on_a_pair(), 1);
    short.hang(DeviceId::Ssd, 5);
    assert!(ask(&mut short, 1, write_of(5, 77)).is_none());
    assert_answered(&wait(&mut short), &[1]);
    let pair = short.pair.as_mut().expect("a pair");
    assert_eq!(pair.found_in_sync(&mut short.ssd), [true, true]);
    // Longer: it is dropped, and nothing waits for it any more.
    let mut long = world(on_a_pair(), 1);
    long.hang(DeviceId::Ssd, 30);
    assert!(ask(&mut long, 1, write_of(5, 77)).is_none());
    let answers: Vec<Answer> = (0..15)
        .flat_map(|_| {
            long.tick();
            while long.step() {}
            long.take_events()
        })
        .collect();
    assert_answered(&answers, &[1]);
    assert!(long.has_hanging_device());
    assert!(ask(&mut long, 2, write_of(6, 78)).is_some_and(|answer| answer.result.is_ok()));
    wait(&mut long);
    let pair = long.pair.as_mut().expect("a pair");
    assert_eq!(pair.found_in_sync(&mut long.ssd), [false, true]);
    // Both: neither is dropped, and what waits for them is answered at last.
    let mut both = world(on_a_pair(), 1);
    write(&mut both, 9 * BLOCK, BLOCK, 66).unwrap();
    both.hang(DeviceId::Ssd, 25);
    both.pair.as_mut().expect("a pair").second.hang_ticks = 28;
    assert!(ask(&mut both, 1, write_of(5, 77)).is_none() && ask(&mut both, 2, GuestOp::Flush).is_none());
    assert!(is_right(&ask(&mut both, 3, read_of(300)), None));
    assert_answered(&wait(&mut both), &[1, 2]);
    let pair = both.pair.as_mut().expect("a pair");
    assert_eq!(pair.found_in_sync(&mut both.ssd), [true, true]);
}

/// The one that hangs is all that is left. Were it given up because it is late and the other one is not, both would be gone.
#[test]
fn g9_a_member_that_hangs_is_waited_for_when_the_other_one_is_gone() {
    let mut world = world(on_a_pair(), 1);
    write(&mut world, 9 * BLOCK, BLOCK, 66).unwrap();
    world.hang(DeviceId::Ssd, 25);
    world.faults = Faults { ssd_gone: true, only_member: Some(1), ..Faults::default() };
    assert!(ask(&mut world, 1, write_of(5, 77)).is_none() && ask(&mut world, 2, GuestOp::Flush).is_none());
    assert_answered(&wait(&mut world), &[1, 2]);
    let pair = world.pair.as_mut().expect("a pair");
    assert_eq!(pair.found_in_sync(&mut world.ssd), [true, false]);
}

#[test]
fn g1_g2_devices_hang_under_every_scheme() {
    for crash in [Crash::Any, Crash::Power] {
        let plan_of = |machine, seed| Plan { hangs: 2, crash, failed_starts: 1, ..plan(vec![machine], seed) };
        let sum = run_each(all_schemes(), seeds().div_ceil(4), plan_of);
        assert!(sum.hangs > 200, "{sum:?}");
        assert_eq!((sum.failed_reads, sum.failed_writes), (0, 0), "{sum:?}");
    }
}

#[test]
fn g7_the_system_gives_up_what_devices_that_hang_were_asked_for() {
    let plan_of = |machine, seed| {
        let plan = plan(vec![machine], seed);
        Plan { hangs: 2, hangs_give_up: true, share_changes: 1, requests: 150, ..plan }
    };
    let sum = run_neighbours(3, 9 << 20, plan_of);
    assert!(sum.hangs > 200 && sum.failed_writes > 100, "{sum:?}");
}

#[test]
fn g11_disks_and_logs_hang_while_groups_are_written() {
    let machines = all_schemes().into_iter().map(|(name, machine)| (name, ordered(machine, 40, 1))).collect();
    let plan_of =
        |machine, seed| Plan { hangs: 2, ssd_losses: 50, requests: 200, ..plan(vec![machine], seed) };
    let sum = run_each(machines, seeds().div_ceil(4), plan_of);
    assert!(sum.hangs > 100 && sum.in_order > 100 && sum.ssds_lost > 20, "{sum:?}");
    assert_eq!((sum.failed_reads, sum.failed_writes), (0, 0), "{sum:?}");
}
