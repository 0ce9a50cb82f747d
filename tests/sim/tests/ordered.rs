//! Guarantee 11 of `docs/design.md`: a backing disk that is written in the order of its guest's flushes is, with its redo log, at every
//! moment a state of before, no older than is told, whatever becomes of the SSDs. And guarantees 1, 2, 5 to 8 and 10 as ever.

use lode_engine::{GuestError, GuestOp, GuestRequest};
use lode_format::{
    CacheId, RedoEntry, RedoLabel, RedoLayout, RedoState, RedoTablePage, VolumeTag, data_checksum,
};
use lode_policy::Quota;
use lode_sim::scenario::{
    BLOCK, all_schemes, first_seeds, flush, machine, ordered, pattern, plan, read, run_each, seeds, write,
};
use lode_sim::{Access, Crash, Faults, Machine, Plan, Rng, RunCounts, SimDisk, World, attack_ordered, run};
use lode_store::{SyncDevice, apply_redo_log, create_redo_log};
use lode_types::{BlockSize, Buf};

fn run_all(change: impl Fn(Plan) -> Plan) -> RunCounts {
    run_seeds(seeds().div_ceil(2), change)
}

fn run_seeds(count: u64, change: impl Fn(Plan) -> Plan) -> RunCounts {
    let plan_of = |machine, seed| {
        let machine = ordered(machine, 16 + seed as u32 % 5 * 24, seed as u32 % 3);
        change(Plan { ssd_losses: 50, ..plan(vec![machine], seed) })
    };
    let sum = run_each(all_schemes(), count, plan_of);
    assert!(sum.in_order > sum.crashes, "{sum:?}");
    sum
}

#[test]
fn g11_power_cuts() {
    assert!(run_all(|plan| Plan { crash: Crash::Power, ..plan }).ssds_lost > seeds());
}

#[test]
fn g11_kills() {
    let sum = run_all(|plan| Plan { crash: Crash::Kill, ..plan });
    assert!(sum.ssds_lost > seeds() && sum.cleaned > 100, "{sum:?}");
}

#[test]
fn g11_drains_and_switches() {
    let sum = run_all(|plan| Plan { drains: 2, scheme_switches: 2, ends_drained: true, ..plan });
    assert!(sum.drained > seeds(), "{sum:?}");
}

#[test]
fn g11_power_cuts_at_every_step() {
    let machine = ordered(machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 60)), 24, 0);
    for most_steps in 1..seeds() * 16 {
        let (crash, most_steps) = (Crash::Power, Some(most_steps));
        let plan = Plan { rounds: 2, crash, most_steps, ssd_losses: 50, ..plan(vec![machine.clone()], 1) };
        run(&plan).unwrap_or_else(|error| panic!("step {most_steps:?}: {error}"));
    }
}

/// What says that a log is complete or empty may not be durable after a kill, when the power fails while it is applied or written.
#[test]
fn g11_kills_at_every_step_and_power_cuts_after_them() {
    let machine = ordered(machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 60)), 24, 0);
    let mut lost = 0;
    for most_steps in 1..seeds() * 60 {
        let crash = [Crash::Kill, Crash::Any][most_steps as usize % 2];
        let life = Some(20 + most_steps);
        let plan = Plan {
            rounds: 6,
            crash,
            most_steps: life,
            ssd_losses: 40,
            ..plan(vec![machine.clone()], most_steps)
        };
        let tally = run(&plan).unwrap_or_else(|error| panic!("step {most_steps}: {error}"));
        lost += tally.ssds_lost;
    }
    assert!(lost > seeds() * 30, "{lost}");
}

#[test]
fn g11_devices_that_fail() {
    for faults in [
        Faults { redo_write_errors: 10, redo_flush_errors: 2, ..Faults::default() },
        Faults { backing_write_errors: 20, ..Faults::default() },
        Faults { backing_flush_errors: 5, ssd_read_errors: 2, ..Faults::default() },
        Faults { ssd_metadata_errors: 2, ssd_write_errors: 4, ..Faults::default() },
        Faults { ssd_gone: true, ..Faults::default() },
    ] {
        run_seeds(seeds().div_ceil(6), |plan| Plan { faults, ..plan });
    }
}

#[test]
fn g11_writes_that_go_past_the_ssd_and_back() {
    for (name, machine) in all_schemes() {
        for seed in first_seeds(seeds().div_ceil(4)) {
            let plan = Plan { write_arounds: 2, ..plan(vec![ordered(machine.clone(), 40, 1)], seed) };
            run(&plan).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

#[test]
fn g11_hosts_of_known_seeds() {
    let mut sum = RunCounts::default();
    for seed in first_seeds(seeds() * 12) {
        let crash = [Crash::Power, Crash::Kill, Crash::Any][seed as usize % 3];
        let counts = attack_ordered(seed, crash).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        counts.into_iter().for_each(|counts| sum += counts);
    }
    println!("{sum:?}");
    assert!(sum.in_order > 0);
}

/// One copy of the state is enough, whichever it is; without both nobody knows whether the disk has a part of a group.
#[test]
fn g11_a_log_whose_state_is_damaged_is_not_empty() {
    let layout = RedoLayout { block: BlockSize::KIB_4, capacity_blocks: 8 };
    let label = RedoLabel { cache: CacheId([3; 16]), volume: VolumeTag(4), volume_bytes: 8 * BLOCK, layout };
    // A disk that grew is served on.
    let mut disk = SimDisk::new(2 * label.volume_bytes);
    for copies in [&[0][..], &[1], &[0, 1]] {
        let mut log = SimDisk::new(layout.bytes());
        create_redo_log(&mut log, &label).unwrap();
        copies.iter().for_each(|&copy| log.flip_bit(RedoLayout::state(copy) + 40, 1));
        let applied = apply_redo_log(&mut log, &mut disk);
        assert_eq!(applied.is_ok(), copies.len() == 1, "{copies:?}: {applied:?}");
    }
    let mut other = SimDisk::new(layout.bytes());
    other.write(0, &[7; 4096]).unwrap();
    assert_eq!(apply_redo_log(&mut other, &mut disk), Ok(None), "it is something else");
}

/// A trim or zeroing may have come to the disk before its daemon was killed, and not be durable. Guests see it after the start, and the
/// next group must not be there without it.
#[test]
fn g11_what_a_start_finds_on_the_disk_is_durable() {
    let layout = RedoLayout { block: BlockSize::KIB_4, capacity_blocks: 8 };
    let label = RedoLabel { cache: CacheId([3; 16]), volume: VolumeTag(4), volume_bytes: 8 * BLOCK, layout };
    for seed in 0..40 {
        let (mut log, mut disk) = (SimDisk::new(layout.bytes()), SimDisk::new(label.volume_bytes));
        create_redo_log(&mut log, &label).unwrap();
        let bytes = pattern(1, BLOCK as usize);
        disk.write(2 * BLOCK, &bytes).unwrap();
        apply_redo_log(&mut log, &mut disk).unwrap();
        disk.power_cut(&mut Rng::new(seed));
        let mut found = vec![0; BLOCK as usize];
        disk.peek(2 * BLOCK, &mut found);
        assert!(found == bytes, "seed {seed}: the disk lost what a start had found there");
    }
}

/// A daemon that was killed may have left a log that says that it is complete, and not durably so. Were it applied as it is, a power cut would
/// leave a part of the group, and a log that knows nothing of it.
#[test]
fn g11_a_log_is_durable_before_it_is_applied() {
    let layout = RedoLayout { block: BlockSize::KIB_4, capacity_blocks: 8 };
    let (cache, volume) = (CacheId([3; 16]), VolumeTag(4));
    let label = RedoLabel { cache, volume, volume_bytes: 8 * BLOCK, layout };
    let blocks: Vec<(u64, Vec<u8>)> =
        (1..4u8).map(|block| (block.into(), pattern(block, BLOCK as usize))).collect();
    let entry = |(block, bytes): &(u64, Vec<u8>)| RedoEntry {
        block: *block,
        crc: data_checksum(volume, *block, bytes),
    };
    let table = RedoTablePage { volume, group: 1, page: 0, entries: blocks.iter().map(entry).collect() };
    let state = RedoState { volume, group: 1, blocks: 3, generation: 0 };
    let mut outcomes = [0, 0];
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let (mut log, mut disk) = (SimDisk::new(layout.bytes()), SimDisk::new(label.volume_bytes));
        create_redo_log(&mut log, &label).unwrap();
        log.write(RedoLayout::table_page(0), &table.encode(cache)[..]).unwrap();
        for (number, (_, bytes)) in (0..).zip(&blocks) {
            log.write(layout.block(number), bytes).unwrap();
        }
        log.flush().unwrap();
        for copy in 0..RedoLayout::STATES {
            log.write(RedoLayout::state(copy), &state.encode(cache)[..]).unwrap();
        }
        disk.fail_after = Some(rng.below(4));
        log.fail_after = rng.chance(20).then(|| rng.below(3));
        assert!(apply_redo_log(&mut log, &mut disk).is_err());
        (log.fail_after, disk.fail_after) = (None, None);
        log.power_cut(&mut rng);
        disk.power_cut(&mut rng);
        apply_redo_log(&mut log, &mut disk).unwrap();
        let is_there = |(block, bytes): &&(u64, Vec<u8>)| {
            let mut found = vec![0; BLOCK as usize];
            disk.peek(block * BLOCK, &mut found);
            assert!(
                found == *bytes || found.iter().all(|&byte| byte == 0),
                "seed {seed}: block {block} is torn"
            );
            found == *bytes
        };
        let there = blocks.iter().filter(is_there).count();
        assert!(there == 0 || there == 3, "seed {seed}: {there} of 3 blocks of a group");
        outcomes[there / 3] += 1;
    }
    assert!(outcomes.iter().all(|&count| count > 0), "{outcomes:?}");
}

/// A daemon that was killed may have left a log that says that it is empty, and not durably so. Were the next group written to it as it
/// is, a power cut would leave the group before with a part of the next one.
#[test]
fn g11_a_log_is_durably_empty_before_it_is_used_again() {
    let layout = RedoLayout { block: BlockSize::KIB_4, capacity_blocks: 8 };
    let (cache, volume) = (CacheId([3; 16]), VolumeTag(4));
    let label = RedoLabel { cache, volume, volume_bytes: 8 * BLOCK, layout };
    let bytes = pattern(1, BLOCK as usize);
    let table = |group| {
        let entries = vec![RedoEntry { block: group, crc: data_checksum(volume, group, &bytes) }];
        RedoTablePage { volume, group, page: 0, entries }.encode(cache)
    };
    for seed in 0..40 {
        let (mut log, mut disk) = (SimDisk::new(layout.bytes()), SimDisk::new(label.volume_bytes));
        create_redo_log(&mut log, &label).unwrap();
        log.write(RedoLayout::table_page(0), &table(1)[..]).unwrap();
        log.write(layout.block(0), &bytes).unwrap();
        for blocks in [1, 0] {
            let state = RedoState { volume, group: 1, blocks, generation: 0 }.encode(cache);
            for copy in 0..RedoLayout::STATES {
                log.write(RedoLayout::state(copy), &state[..]).unwrap();
            }
            if blocks > 0 {
                log.flush().unwrap();
            }
        }
        apply_redo_log(&mut log, &mut disk).unwrap();
        log.write(RedoLayout::table_page(0), &table(2)[..]).unwrap();
        log.power_cut(&mut Rng::new(seed));
        apply_redo_log(&mut log, &mut disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

fn small() -> Machine {
    ordered(machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 60)), 16, 1)
}

fn on_disk(world: &World, block: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK as usize];
    world.backing.peek(block * BLOCK, &mut bytes);
    bytes
}

/// What is overwritten between two cuts is written to the disk once, and the disk has the state of a flush.
#[test]
fn g11_a_group_is_what_was_written_before_a_flush() {
    let mut world = World::new(small(), 1).unwrap();
    world.tick();
    for name in 1..=5 {
        write(&mut world, 3 * BLOCK, BLOCK, name).unwrap();
    }
    write(&mut world, 7 * BLOCK, BLOCK, 9).unwrap();
    assert_eq!(on_disk(&world, 3), vec![0; BLOCK as usize]);
    flush(&mut world).unwrap();
    while world.step() {}
    assert_eq!(on_disk(&world, 3), pattern(5, BLOCK as usize));
    assert_eq!(on_disk(&world, 7), pattern(9, BLOCK as usize));
    let behind = world.engine().behind().unwrap();
    assert_eq!((behind.blocks, behind.ticks, behind.group), (0, 0, 1), "{behind:?}");
    let gauges = world.engine().gauges();
    assert_eq!(gauges.backing_written_bytes, 2 * BLOCK, "{gauges:?}");
}

/// A zeroing comes behind a group of what was written before, and its blocks are noted as clean behind it. The disk may have
/// carried out a part of a zeroing that failed: what the SSD holds is newer then, and comes to the disk again.
#[test]
fn g11_what_a_zeroing_that_failed_left_on_the_disk_is_written_again() {
    let (blocks, offset_bytes) = ([3, 4], 3 * BLOCK);
    let zeroes = |offset_bytes, token| {
        let op = GuestOp::WriteZeroes { offset_bytes, length_bytes: 2 * BLOCK, fua: false, unmap: true };
        GuestRequest { token, op, now_ns: 0 }
    };
    let mut failed = [0; 2];
    for seed in 0..seeds() {
        for (access, nth) in [(Access::Write, 1), (Access::Flush, 0), (Access::Flush, 1), (Access::Flush, 2)]
        {
            let mut world = World::new(small(), seed).unwrap();
            write(&mut world, offset_bytes, 2 * BLOCK, 5).unwrap();
            // What comes first is the group's.
            world.backing.fail_nth = Some((access, nth));
            world.submit(zeroes(offset_bytes, 1));
            if seed % 2 == 0 {
                // A read that waits for it, and another zeroing, before which there is a cut.
                let op = GuestOp::Read { offset_bytes, length_bytes: BLOCK };
                world.submit(GuestRequest { token: 2, op, now_ns: 0 });
                world.submit(zeroes(20 * BLOCK, 3));
            }
            while world.step() {}
            world.backing.fail_nth = None;
            let answers = world.take_events();
            let answer = answers.iter().find(|answer| answer.token == 1).expect("it ends");
            failed[usize::from(access == Access::Flush)] += u64::from(answer.result.is_err());
            let found = read(&mut world, offset_bytes, 2 * BLOCK).unwrap();
            if access == Access::Write {
                world.drain();
                (0..8).for_each(|_| {
                    world.tick();
                    while world.step() {}
                });
                assert_eq!(world.engine().gauges().dirty_blocks, 0);
                assert!(blocks.map(|block| on_disk(&world, block)).concat() == found, "seed {seed}");
            }
            world.go_down(false);
            world.restart(small()).unwrap();
            for _ in 0..2 {
                let again = read(&mut world, offset_bytes, 2 * BLOCK).unwrap();
                assert!(again == found, "seed {seed}, {access:?} {nth}");
                world.drain();
                (0..8).for_each(|_| world.tick());
            }
        }
    }
    assert!(failed[0] == seeds() && failed[1] >= 2 * seeds(), "{failed:?}");
}

fn until_clean(world: &mut World) {
    world.drain();
    for _ in 0..8 {
        world.tick();
        while world.step() {}
    }
    assert_eq!(world.engine().gauges().dirty_blocks, 0);
}

/// A flush fails that should have made a trim or zeroing durable, that of the volume itself or, where the daemon was killed meanwhile,
/// that of the next start. Guests see on the disk what was trimmed or zeroed, in runs that follow in the same boot: so it is durable
/// before a later group is.
#[test]
fn g11_zeroes_that_a_failed_flush_lost_are_written_again_before_later_groups() {
    let (offset_bytes, length_bytes) = (3 * BLOCK, 2 * BLOCK);
    let op_of = |seed| match seed % 3 {
        0 => GuestOp::Trim { offset_bytes, length_bytes },
        kind => GuestOp::WriteZeroes { offset_bytes, length_bytes, fua: false, unmap: kind == 1 },
    };
    let is_zeroed = |world: &World| on_disk(world, 3).iter().all(|&byte| byte == 0);
    let (mut zeroed, mut refused) = (0, 0);
    for (seed, is_killed) in (0..seeds()).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut world = World::new(small(), seed).unwrap();
        write(&mut world, offset_bytes, length_bytes, 5).unwrap();
        until_clean(&mut world);
        let op = op_of(seed);
        world.backing.fail_nth = (!is_killed).then_some((Access::Flush, 0));
        world.submit(GuestRequest { token: 1, op, now_ns: 0 });
        let is_over = |world: &World| is_killed && is_zeroed(world);
        while !is_over(&world) && world.step() {}
        // The host is told.
        (0..100).for_each(|_| _ = !is_killed && world.step_or_tick());
        world.go_down(false);
        world.backing.fail_nth = is_killed.then_some((Access::Flush, 0));
        refused += u64::from(world.restart(small()).is_err());
        if is_killed {
            world.restart(small()).unwrap();
        }
        let found = read(&mut world, offset_bytes, length_bytes).unwrap();
        write(&mut world, 20 * BLOCK, BLOCK, 7).unwrap();
        until_clean(&mut world);
        zeroed += u64::from(is_zeroed(&world));
        world.go_down(true);
        assert!(on_disk(&world, 20) == pattern(7, BLOCK as usize), "seed {seed}: a group is lost");
        let left = [3, 4].map(|block| on_disk(&world, block)).concat();
        assert!(left == found, "seed {seed}, killed: {is_killed}: zeroes came undone behind a later group");
    }
    assert!(zeroed > seeds() && refused == seeds(), "{zeroed} {refused}");
}

/// A zeroing that the disk carried out in part and then refused may be lost with a flush as well: it stays named beside the next one.
#[test]
fn g11_a_zeroing_that_failed_in_part_is_not_lost_behind_the_next_one() {
    let zeroes = |token, offset_bytes| {
        let op = GuestOp::WriteZeroes { offset_bytes, length_bytes: 2 * BLOCK, fua: false, unmap: true };
        GuestRequest { token, op, now_ns: 0 }
    };
    let mut in_part = 0;
    for seed in 0..seeds() * 4 {
        let mut world = World::new(small(), seed).unwrap();
        write(&mut world, 3 * BLOCK, 2 * BLOCK, 5).unwrap();
        until_clean(&mut world);
        world.faults = Faults { backing_write_errors: 100, ..Faults::default() };
        world.submit(zeroes(1, 3 * BLOCK));
        while world.take_events().is_empty() && world.step() {}
        world.faults = Faults { backing_flush_errors: 100, ..Faults::default() };
        world.submit(zeroes(2, 30 * BLOCK));
        while world.step() {}
        (0..100).for_each(|_| _ = world.step_or_tick());
        world.go_down(false);
        world.restart(small()).unwrap();
        let found = read(&mut world, 3 * BLOCK, 2 * BLOCK).unwrap();
        in_part += u64::from(found != pattern(5, 2 * BLOCK as usize));
        write(&mut world, 20 * BLOCK, BLOCK, 7).unwrap();
        until_clean(&mut world);
        world.go_down(true);
        let left = [3, 4].map(|block| on_disk(&world, block)).concat();
        assert!(left == found, "seed {seed}: what was read came undone behind a later group");
    }
    assert!(in_part > seeds(), "{in_part}");
}

/// Without flushes and with full room writes wait for the group before, and none fails.
#[test]
fn g11_writes_wait_for_room() {
    let mut world = World::new(small(), 2).unwrap();
    for block in 0..200 {
        write(&mut world, block * BLOCK, BLOCK, block as u8).unwrap();
    }
    let behind = world.engine().behind().unwrap();
    assert!(behind.blocks <= 2 * 16 + 2 && behind.group > 5, "{behind:?}");
}

/// As long as the disk is further behind than it may be writes wait, though there is room for them; none fails.
#[test]
fn g11_writes_wait_for_a_disk_that_is_too_far_behind() {
    const MOST_TICKS: u32 = 3;
    for (seed, limit) in (0..20).flat_map(|seed| [(seed, None), (seed, Some(MOST_TICKS))]) {
        let mut machine = small();
        machine.config.ordered.iter_mut().for_each(|config| config.max_lag_ticks = limit);
        let mut world = World::new(machine, seed).unwrap();
        // How far the disk is behind when a write is acknowledged; devices do no more than that takes.
        let lag_at_write = |world: &mut World, token: u64| {
            let op = GuestOp::write(token * BLOCK, Buf::copy_of(&pattern(1, BLOCK as usize)), false);
            world.submit(GuestRequest { token, op, now_ns: 0 });
            loop {
                if let Some(answer) = world.take_events().pop() {
                    answer.result.unwrap();
                    return world.engine().behind().unwrap().ticks;
                }
                assert!(world.step(), "it is answered");
            }
        };
        assert_eq!(lag_at_write(&mut world, 0), 0);
        // What the group asks of devices takes longer than the limit.
        (0..2 * MOST_TICKS).for_each(|_| world.tick());
        assert!(world.engine().behind().unwrap().ticks >= MOST_TICKS);
        let lag = lag_at_write(&mut world, 1);
        assert_eq!(lag >= MOST_TICKS, limit.is_none(), "seed {seed}, {limit:?}: {lag}");
    }
}

/// A disk that takes nothing stays the state that it was; what there is room for is taken, and the rest refused.
#[test]
fn g11_a_disk_that_refuses_its_log_stays_as_it_is() {
    let mut world = World::new(small(), 3).unwrap();
    world.faults = Faults { redo_write_errors: 100, ..Faults::default() };
    let results: Vec<_> = (0..64).map(|block| write(&mut world, block * BLOCK, BLOCK, 1)).collect();
    assert!(results.iter().filter(|result| result.is_ok()).count() >= 16);
    assert!(results.contains(&Err(GuestError::Io)), "{results:?}");
    assert!((0..64).all(|block| on_disk(&world, block) == vec![0; BLOCK as usize]));
    let behind = world.engine().behind().unwrap();
    assert!(behind.is_stuck && behind.group == 0, "{behind:?}");
    world.faults = Faults::default();
    (0..4).for_each(|_| {
        world.tick();
        while world.step() {}
    });
    write(&mut world, 63 * BLOCK, BLOCK, 2).unwrap();
    assert_eq!(read(&mut world, 63 * BLOCK, BLOCK).unwrap(), pattern(2, BLOCK as usize));
    let behind = world.engine().behind().unwrap();
    assert!(!behind.is_stuck && behind.group > 0, "{behind:?}");
}
