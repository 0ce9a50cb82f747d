//! What a request that waits holds up, and what it does not: guarantee 1 of `docs/design.md`, and that neither a long trim or
//! zeroing nor a throttled write keeps a volume from serving others.

use lode_engine::{Buf, GuestOp, GuestRequest, Served, WaitedFor, WriteBackLimits};
use lode_policy::Quota;
use lode_sim::World;
use lode_sim::scenario::{BLOCK, VOLUME_BYTES, machine, pattern, read, write};

/// A request whose answer is looked for.
const PROBE: u64 = 1 << 32;

/// Writes of [`throttled`] wait while more are dirty.
const DIRTY_MAX_BLOCKS: u32 = 40;

/// A volume whose writes wait for what is dirty to become less.
fn throttled() -> World {
    let (dirty_limit_blocks, dirty_max_blocks) = (20, DIRTY_MAX_BLOCKS);
    let limits = WriteBackLimits { dirty_limit_blocks, dirty_max_blocks, age_ticks: None, idle_ticks: None };
    let mut machine = machine("etica", &["promotion_interval=10", "assoc=8"], Quota::new(20, 120));
    machine.config.write_back = Some(limits);
    World::new(machine, 1).unwrap()
}

fn submit(world: &mut World, token: u64, op: GuestOp) {
    world.submit(GuestRequest { token, op, now_ns: 0 });
}

fn zero(offset_bytes: u64, length_bytes: u64) -> GuestOp {
    GuestOp::WriteZeroes { offset_bytes, length_bytes, fua: false, unmap: false }
}

fn read_of(block: u64) -> GuestOp {
    GuestOp::Read { offset_bytes: block * BLOCK, length_bytes: BLOCK }
}

fn write_of(block: u64, blocks: u64) -> GuestOp {
    GuestOp::write(block * BLOCK, Buf::copy_of(&pattern(7, (blocks * BLOCK) as usize)), false)
}

/// Whether a request that nothing keeps from being served is: DRAM holds it.
fn is_served_at_once(world: &mut World, block: u64) -> bool {
    submit(world, PROBE, read_of(block));
    let events = world.take_events();
    let answer = events.into_iter().find(|event| event.token == PROBE);
    answer.is_some_and(|event| event.result.is_ok() && event.served == Served::Dram)
}

/// A volume of several pieces of a range, with a block in DRAM that no range has to do with.
fn with_a_block_in_dram(block: u64) -> World {
    let mut machine = machine("etica", &["promotion_interval=10", "assoc=8"], Quota::new(20, 60));
    machine.config.volume_bytes = 256 << 20;
    let mut world = World::new(machine, 1).unwrap();
    write(&mut world, block * BLOCK, BLOCK, 7).unwrap();
    while !is_served_at_once(&mut world, block) {
        read(&mut world, block * BLOCK, BLOCK).unwrap();
    }
    world
}

/// The rest of a long range, and ranges behind it, wait for the piece that is under way. Nothing else does.
#[test]
fn g1_reads_and_writes_pass_a_range_that_waits() {
    let (size, last) = (256 << 20, (256 << 20) / BLOCK - 1);
    let mut world = with_a_block_in_dram(last);
    submit(&mut world, 1, zero(0, size - (1 << 20)));
    submit(&mut world, 2, zero(size - (1 << 20), 64 << 10));
    submit(&mut world, 3, write_of(last - 1, 1));
    let (mut over, mut looks) = (Vec::new(), 0);
    while over.len() < 3 {
        assert!(is_served_at_once(&mut world, last), "{over:?} are over");
        looks += 1;
        assert!(world.step_or_tick());
        over.extend(world.take_events().into_iter().map(|event| event.token));
    }
    assert!(looks >= 8, "the range takes a while: {looks}");
    // A short one does not wait for all of a long one.
    assert_eq!(over, [3, 2, 1]);
}

/// What has to do with blocks of a range that waits comes after it.
#[test]
fn g1_what_overlaps_a_range_that_waits_comes_after_it() {
    for seed in 0..20 {
        let mut world = World::new(machine("lru", &["write_policy=wb"], Quota::new(0, 60)), seed).unwrap();
        (0..8).for_each(|block| write(&mut world, block * BLOCK, BLOCK, 1).unwrap());
        submit(&mut world, 1, zero(100 * BLOCK, 8 * BLOCK));
        submit(&mut world, 2, zero(0, 8 * BLOCK));
        submit(&mut world, 3, read_of(3));
        submit(&mut world, 4, write_of(4, 1));
        submit(&mut world, 5, read_of(4));
        let mut found = Vec::new();
        while found.len() < 5 {
            assert!(world.step_or_tick());
            found.extend(world.take_events());
        }
        let bytes = |token| {
            let event = found.iter().find(|event| event.token == token).unwrap();
            assert_eq!(event.result, Ok(()));
            event.data.concat()
        };
        assert!(bytes(3) == vec![0; BLOCK as usize], "seed {seed}: the zeroes came first");
        assert!(bytes(5) == pattern(7, BLOCK as usize), "seed {seed}: and the write before its read");
    }
}

/// Writes that wait because too much is dirty hold up writes and no others.
#[test]
fn reads_pass_throttled_writes() {
    let block = VOLUME_BYTES / BLOCK - 2;
    let mut world = throttled();
    write(&mut world, block * BLOCK, BLOCK, 7).unwrap();
    while !is_served_at_once(&mut world, block) {
        read(&mut world, block * BLOCK, BLOCK).unwrap();
    }
    let (mut submitted, mut answered, mut throttled) = (0, 0, 0);
    while answered < 400 {
        while submitted < 400 && submitted - answered < 16 {
            submit(&mut world, submitted, write_of(submitted, 1));
            submitted += 1;
        }
        let waits = world.engine().gauges().dirty_blocks > DIRTY_MAX_BLOCKS;
        throttled += u32::from(waits);
        assert!(is_served_at_once(&mut world, block), "{answered} writes are answered");
        assert!(world.step_or_tick());
        answered += world.take_events().len() as u64;
    }
    assert!(throttled > 50, "{throttled}");
}

/// While there is no room for a large write, reads that find less take it, but no more than it needs itself.
#[test]
fn reads_without_end_do_not_starve_a_write_that_waits_for_room() {
    let mut world =
        World::new(machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 60)), 1).unwrap();
    (0..60).for_each(|block| write(&mut world, block * BLOCK, BLOCK, 1).unwrap());
    let (mut next, mut under_way, mut before_the_writes, mut writes_left) = (0, 0, 0, 4);
    for token in 0..writes_left {
        submit(&mut world, token, write_of(100 + 20 * token, 20));
    }
    while writes_left > 0 {
        while under_way < 8 {
            submit(&mut world, PROBE + next, read_of(200 + next % 300));
            (next, under_way) = (next + 1, under_way + 1);
        }
        assert!(world.step_or_tick());
        for event in world.take_events() {
            assert_eq!(event.result, Ok(()));
            if event.token >= PROBE {
                (under_way, before_the_writes) = (under_way - 1, before_the_writes + 1);
            } else {
                writes_left -= 1;
            }
        }
    }
    assert!((16..=4 * 20 + 60).contains(&before_the_writes), "{before_the_writes} reads came before");
}

/// A write that comes behind another one to its block, and then waits because too much is dirty, has waited for both.
#[test]
fn what_a_write_waits_for_after_earlier_ones_is_not_counted_as_them() {
    let mut world = throttled();
    // Each block twice, so that half of the writes come behind one that waits.
    (0..400).for_each(|token| submit(&mut world, token, write_of(token / 2, 1)));
    let mut both = 0;
    let mut answered = 0;
    while answered < 400 {
        assert!(world.step_or_tick());
        for event in world.take_events() {
            answered += 1;
            let waited = |cause| event.waits.ns(cause) > 0;
            let is_first = event.token % 2 == 0;
            assert!(!is_first || !waited(WaitedFor::Order), "write {}: {:?}", event.token, event.waits);
            both += u32::from(waited(WaitedFor::Order) && waited(WaitedFor::DirtyLimit));
        }
    }
    assert!(both > 0, "no write waited for an earlier one and then for dirty blocks to become fewer");
}

/// Requests that are refused after they waited say what for.
#[test]
fn refused_requests_say_what_they_waited_for() {
    let mut world = throttled();
    (0..400).for_each(|token| submit(&mut world, token, write_of(token, 1)));
    let mut refused = 0;
    let mut answered = 0;
    while answered < 400 {
        world.faults.ssd_gone = answered > 100;
        assert!(world.step_or_tick());
        for event in world.take_events() {
            answered += 1;
            let waited_ns: u64 = WaitedFor::ALL.iter().map(|&cause| event.waits.ns(cause)).sum();
            if event.result.is_err() {
                refused += 1;
                assert!(waited_ns > 0, "write {} was refused: {:?}", event.token, event.waits);
            }
        }
    }
    assert!(refused > 20, "{refused} writes were refused");
}
