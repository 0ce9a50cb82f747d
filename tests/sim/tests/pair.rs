//! Guarantees 2, 5, 7 and 10 of `docs/design.md` on a pair of SSDs: what was promised of one SSD holds when either of the two fails,
//! hangs, is lost or is damaged, and no guest sees an error.

use lode_format::{DeviceLayout, Directory, PAGE_BYTES, PairLabel};
use lode_policy::Quota;
use lode_sim::scenario::{
    BLOCK, all_schemes, damage, first_seeds, flush, machine, paired, paired_later, pattern, plan, read,
    run_each, seeds, write,
};
use lode_sim::{Access, Crash, Faults, Machine, Plan, RunCounts, SimDisk, World, run};
use lode_store::{StoreErrorKind, SyncDevice};

fn lru() -> Machine {
    paired(machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 60)))
}

/// Runs every scheme on a pair with each seed, and adds up what happened.
fn run_all(plan_of: impl Fn(Machine, u64) -> Plan) -> RunCounts {
    let plan_of = |machine, seed| Plan { requests: 120, ..plan_of(paired(machine), seed) };
    let sum = run_each(all_schemes(), seeds(), plan_of);
    assert_eq!((sum.failed_reads, sum.failed_writes), (0, 0), "{sum:?}");
    assert!(sum.sectors_checked > 100_000, "{sum:?}");
    sum
}

#[test]
fn g2_a_pair_keeps_what_one_ssd_keeps() {
    run_all(|machine, seed| plan(vec![machine], seed));
}

#[test]
fn g2_the_loss_of_either_ssd_at_any_crash_loses_nothing() {
    let sum = run_all(|machine, seed| Plan { rounds: 6, member_losses: 60, ..plan(vec![machine], seed) });
    assert!(sum.members_dropped > 200 && sum.members_resilvered > 100, "{sum:?}");
    assert!(sum.members_resumed > 20, "{sum:?}");
}

#[test]
fn g9_ssds_are_taken_out_and_replaced_while_guests_are_served() {
    let sum = run_all(|machine, seed| Plan {
        rounds: 6,
        member_changes: 2 + seed % 8,
        member_losses: 60,
        ..plan(vec![machine], seed)
    });
    assert!(sum.members_replaced > 200 && sum.members_resilvered > 100, "{sum:?}");
    assert!(sum.members_resumed > 20, "{sum:?}");
    assert!(sum.dropped_clean_copies > 100, "{sum:?}");
}

/// The cache begins on one SSD, and the second comes, goes and is given up at any time.
#[test]
fn g9_the_second_ssd_comes_while_guests_are_served() {
    let sum = run_each(all_schemes(), seeds(), |machine, seed| Plan {
        requests: 120,
        rounds: 6,
        member_changes: 2 + seed % 8,
        member_losses: 60,
        ..plan(vec![paired_later(machine)], seed)
    });
    assert_eq!((sum.failed_reads, sum.failed_writes), (0, 0), "{sum:?}");
    assert!(sum.members_replaced > 200 && sum.members_resilvered > 100, "{sum:?}");
    assert!(sum.members_resumed > 20 && sum.members_dropped > 100, "{sum:?}");
}

#[test]
fn g2_g9_power_cuts_before_the_second_ssd_has_come() {
    let sum = run_each(all_schemes(), seeds(), |machine, seed| Plan {
        crash: Crash::Power,
        failed_starts: 1,
        ..plan(vec![paired_later(machine)], seed)
    });
    assert_eq!((sum.failed_reads, sum.failed_writes), (0, 0), "{sum:?}");
    let of_second = (sum.members_dropped, sum.members_resilvered, sum.dropped_clean_copies);
    assert_eq!(of_second, (0, 0, 0), "{sum:?}");
}

#[test]
fn g7_an_ssd_of_a_pair_that_fails_in_any_way_is_dropped_and_no_guest_notices() {
    let faults = |seed: u64| {
        let only_member = Some((seed % 2) as usize);
        let none = Faults { only_member, ..Faults::default() };
        match seed / 2 % 4 {
            0 => Faults { ssd_write_errors: 5, ssd_metadata_errors: 5, ..none },
            1 => Faults { ssd_flush_errors: 20, ssd_read_errors: 5, ..none },
            2 => Faults { ssd_gone: true, ..none },
            _ => Faults { hanging_member: only_member, ..none },
        }
    };
    let sum = run_all(|machine, seed| Plan {
        rounds: 6,
        member_losses: 30,
        faults: faults(seed),
        ..plan(vec![machine], seed)
    });
    assert!(sum.members_dropped > 200, "{sum:?}");
}

#[test]
fn g5_what_is_damaged_on_one_ssd_is_read_from_the_other_and_written_again() {
    let sum = run_all(|machine, seed| {
        let mut machine = machine;
        machine.config.scrub_ticks = (seed % 2 == 0).then_some(2);
        Plan { flips: 8, ..plan(vec![machine], seed) }
    });
    assert!(sum.healed > 100, "{sum:?}");
}

/// A volume of which the guest wrote some blocks, each with a pattern of its own, and everything is settled.
fn written(machine: Machine, blocks: u64) -> World {
    let mut world = World::new(machine, 1).unwrap();
    for block in 0..blocks {
        write(&mut world, block * BLOCK, BLOCK, block as u8).unwrap();
    }
    flush(&mut world).unwrap();
    world.settle();
    world
}

#[test]
fn g5_a_scrub_of_a_pair_looks_at_both_copies() {
    let mut machine = lru();
    machine.config.scrub_ticks = Some(1);
    let mut world = written(machine.clone(), 40);
    // The first is the one that is read, and the second the one that only a scrub reads.
    assert_eq!(damage(&mut world, 7), 1);
    let pair = world.pair.as_mut().expect("a pair");
    std::mem::swap(&mut pair.second, &mut world.ssd);
    assert_eq!(damage(&mut world, 8), 1);
    let pair = world.pair.as_mut().expect("a pair");
    std::mem::swap(&mut pair.second, &mut world.ssd);
    for _ in 0..3 {
        world.tick();
        while world.step() {}
    }
    assert_eq!((world.engine().alarms().damaged_dirty, world.engine().gauges().lost_blocks), (0, 0));
    assert_eq!(world.healed(), 2);
    // Either of them has everything again.
    for member in [0, 1] {
        let mut world = written(machine.clone(), 40);
        world.go_down(true);
        world.pair.as_mut().expect("a pair").replace(&mut world.ssd, member);
        world.restart(machine.clone()).unwrap();
        for block in 0..40 {
            assert_eq!(read(&mut world, block * BLOCK, BLOCK), Ok(pattern(block as u8, BLOCK as usize)));
        }
    }
}

/// Resilvers the member that lacks something, and goes down: both have everything.
fn run_resilvered(world: &mut World, machine: &Machine, reads: &impl Fn(&mut World)) {
    world.pair.as_mut().expect("a pair").resilver_after_start();
    world.restart(machine.clone()).unwrap();
    reads(world);
    world.settle_resilvers();
    assert_eq!(world.pair.as_ref().expect("a pair").resilvered(), 1);
    world.go_down(true);
}

#[test]
fn g7_an_ssd_that_was_dropped_is_not_believed_when_it_comes_back() {
    let machine = lru();
    let mut world = written(machine.clone(), 40);
    // The first stops answering, and what is written then is on the second alone.
    world.faults = Faults { ssd_gone: true, only_member: Some(0), ..Faults::default() };
    for block in 0..40 {
        write(&mut world, block * BLOCK, BLOCK, 100 + block as u8).unwrap();
    }
    flush(&mut world).unwrap();
    world.go_down(true);
    // Both are there again.
    world.restart(machine.clone()).unwrap();
    let reads = |world: &mut World| {
        for block in 0..40 {
            let expected = pattern(100 + block as u8, BLOCK as usize);
            assert_eq!(read(world, block * BLOCK, BLOCK), Ok(expected));
        }
    };
    reads(&mut world);
    world.go_down(true);
    // The one that was dropped is there alone: it is refused, and nothing is served from it.
    let second = std::mem::replace(&mut world.pair.as_mut().expect("a pair").second, SimDisk::new(4 << 20));
    let refused = world.restart(machine.clone()).expect_err("it lacks something");
    assert_eq!(refused.kind(), lode_store::StoreErrorKind::WrongMember);
    world.go_down(true);
    let pair = world.pair.as_mut().expect("a pair");
    pair.second = second;
    // Resilvered, it has everything, and the other one may go.
    let away = world.ssd.clone();
    world.pair.as_mut().expect("a pair").replace(&mut world.ssd, 0);
    run_resilvered(&mut world, &machine, &reads);
    // The one in whose place it came is put back: it is not believed.
    let filled = std::mem::replace(&mut world.ssd, away);
    world.restart(machine.clone()).unwrap();
    reads(&mut world);
    world.go_down(true);
    world.ssd = filled;
    world.pair.as_mut().expect("a pair").replace(&mut world.ssd, 0);
    world.restart(machine).unwrap();
    reads(&mut world);
}

#[test]
fn g7_an_ssd_that_was_missing_at_a_start_is_not_believed_when_it_comes_back() {
    let machine = lru();
    let mut world = written(machine.clone(), 40);
    world.go_down(true);
    // The first is the one that starts read first.
    let away = world.ssd.clone();
    world.pair.as_mut().expect("a pair").replace(&mut world.ssd, 0);
    world.restart(machine.clone()).unwrap();
    for block in 0..40 {
        write(&mut world, block * BLOCK, BLOCK, 100 + block as u8).unwrap();
    }
    flush(&mut world).unwrap();
    world.go_down(true);
    world.ssd = away;
    world.restart(machine).unwrap();
    for block in 0..40 {
        assert_eq!(read(&mut world, block * BLOCK, BLOCK), Ok(pattern(100 + block as u8, BLOCK as usize)));
    }
}

/// One SSD is put back as it was in an earlier run, in which both had everything. It is not believed, whichever it is and however the run
/// since then ended, and the other one does not go by it.
#[test]
fn g7_an_ssd_as_it_was_in_an_earlier_run_is_not_believed() {
    for (member, power_cut, is_after_run) in [0, 1]
        .into_iter()
        .flat_map(|member| [(member, false, false), (member, true, false), (member, true, true)])
    {
        let machine = lru();
        let mut world = written(machine.clone(), 40);
        let disk_of = |world: &mut World| match member {
            0 => world.ssd.clone(),
            _ => world.pair.as_ref().expect("a pair").second.clone(),
        };
        // As it is while it is served, or after that.
        let before = disk_of(&mut world);
        world.go_down(power_cut);
        let older = if is_after_run { disk_of(&mut world) } else { before };
        world.restart(machine.clone()).unwrap();
        for block in 0..40 {
            write(&mut world, block * BLOCK, BLOCK, 100 + block as u8).unwrap();
        }
        flush(&mut world).unwrap();
        world.go_down(power_cut);
        let put_back = |world: &mut World| match member {
            0 => world.ssd = older.clone(),
            _ => world.pair.as_mut().expect("a pair").second = older.clone(),
        };
        put_back(&mut world);
        world.restart(machine.clone()).unwrap();
        let reads = |world: &mut World| {
            for block in 0..40 {
                let expected = pattern(100 + block as u8, BLOCK as usize);
                assert_eq!(read(world, block * BLOCK, BLOCK), Ok(expected), "member {member}, block {block}");
            }
        };
        reads(&mut world);
        world.go_down(true);
        let pair = world.pair.as_mut().expect("a pair");
        assert_eq!(pair.found_in_sync(&mut world.ssd), [member != 0, member != 1]);
        // It is as good as a new one: resilvered, it has everything, and the other one may go.
        run_resilvered(&mut world, &machine, &reads);
        world.pair.as_mut().expect("a pair").replace(&mut world.ssd, 1 - member);
        world.restart(machine).unwrap();
        reads(&mut world);
    }
}

/// Starts are cut short between any of their labels, of which each writes three to each SSD, one after the other as well. Both go on having
/// everything, and either may be missing then.
#[test]
fn g2_starts_that_are_cut_short_leave_no_ssd_behind() {
    let machine = lru();
    // Writes and flushes that each of them takes.
    let cuts = [
        [0, 0],
        [1, 0],
        [2, 0],
        [2, 1],
        [2, 2],
        [3, 2],
        [4, 2],
        [4, 3],
        [4, 4],
        [5, 4],
        [6, 4],
        [6, 5],
        [6, 6],
        [8, 8],
    ];
    let twice = cuts.into_iter().flat_map(|first| cuts.map(|second| [first, second]));
    for (number, cuts) in twice.enumerate() {
        let mut world = written(machine.clone(), 4);
        world.go_down(true);
        for cut in cuts {
            world.ssd.fail_after = Some(cut[0]);
            world.pair.as_mut().expect("a pair").second.fail_after = Some(cut[1]);
            world.restart(machine.clone()).expect_err("neither takes any more");
            world.ssd.fail_after = None;
            world.pair.as_mut().expect("a pair").second.fail_after = None;
            world.go_down(true);
        }
        let pair = world.pair.as_mut().expect("a pair");
        assert_eq!(pair.found_in_sync(&mut world.ssd), [true; 2], "{cuts:?}");
        if let Some(member) = [None, Some(0), Some(1)][number % 3] {
            pair.replace(&mut world.ssd, member);
        }
        world.restart(machine.clone()).unwrap_or_else(|error| panic!("{cuts:?}: {error}"));
        for block in 0..4 {
            assert_eq!(read(&mut world, block * BLOCK, BLOCK), Ok(pattern(block as u8, BLOCK as usize)));
        }
    }
}

/// A start reads a label that the flush after it did not make durable, and a power cut follows.
#[test]
fn g7_a_label_is_durable_once_a_start_goes_by_it() {
    for seed in 0..20 {
        let machine = lru();
        let mut world = World::new(machine.clone(), seed).unwrap();
        write(&mut world, 0, BLOCK, 1).unwrap();
        flush(&mut world).unwrap();
        world.settle();
        // The label that says who was dropped can be read and is not durable: the flush after it fails.
        world.ssd.fail_nth = Some((Access::Flush, 0));
        world.take_member_out(1);
        world.settle();
        assert_eq!(world.ssd.fail_nth, None, "it has failed");
        world.go_down(false);
        // A start goes by it, and what is written then is on the one SSD alone.
        world.restart(machine.clone()).unwrap();
        write(&mut world, 0, BLOCK, 2).unwrap();
        flush(&mut world).unwrap();
        world.go_down(true);
        world.restart(machine).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(read(&mut world, 0, BLOCK), Ok(pattern(2, BLOCK as usize)), "seed {seed}");
    }
}

/// What a flush should have covered that failed can still be read, and a resilver that leaves it as it is has nothing of it that lasts.
#[test]
fn g9_a_resilver_writes_what_seems_to_be_there() {
    const BLOCKS: u64 = 240;
    // More than one part, so that there is one with nothing but what was written before.
    let machine = paired(machine("lru", &["write_policy=wb"], Quota::new(0, 250)));
    for seed in first_seeds(seeds()) {
        let mut world = World::new(machine.clone(), seed).unwrap();
        for block in 0..BLOCKS {
            write(&mut world, block * BLOCK, BLOCK, block as u8).unwrap();
        }
        world.faults = Faults { ssd_flush_errors: 100, only_member: Some(1), ..Faults::default() };
        flush(&mut world).unwrap();
        world.settle();
        // The daemon is restarted, as it asks for before it believes that SSD anything.
        world.go_down(false);
        world.pair.as_mut().expect("a pair").resilver_after_start();
        world.restart(machine.clone()).unwrap();
        world.settle_resilvers();
        assert_eq!(world.pair.as_ref().expect("a pair").resilvered(), 1);
        world.go_down(true);
        world.pair.as_mut().expect("a pair").replace(&mut world.ssd, 0);
        world.restart(machine.clone()).unwrap();
        for block in 0..BLOCKS {
            let found = read(&mut world, block * BLOCK, BLOCK);
            assert_eq!(found, Ok(pattern(block as u8, BLOCK as usize)), "block {block}, seed {seed}");
        }
    }
}

/// Offsets of the pages of metadata on a member, behind its label.
fn metadata(disk: &SimDisk) -> Vec<u64> {
    let is_metadata = |&at: &u64| {
        let mut page = [0; BLOCK as usize];
        disk.peek(at, &mut page);
        page.starts_with(b"LODE")
    };
    (PairLabel::DATA_START_BYTES..disk.size_bytes()).step_by(BLOCK as usize).filter(is_metadata).collect()
}

#[test]
fn g5_a_start_takes_each_page_from_the_ssd_on_which_it_is_whole() {
    let machine = lru();
    let mut world = written(machine.clone(), 40);
    world.go_down(true);
    let pages = metadata(&world.ssd);
    assert!(pages.len() > 20, "{pages:?}");
    for (number, at) in pages.into_iter().enumerate() {
        let pair = world.pair.as_mut().expect("a pair");
        let disk = if number % 2 == 0 { &mut world.ssd } else { &mut pair.second };
        disk.flip_bit(at + 100, 3);
    }
    world.restart(machine).unwrap();
    for block in 0..40 {
        assert_eq!(read(&mut world, block * BLOCK, BLOCK), Ok(pattern(block as u8, BLOCK as usize)));
    }
}

#[test]
fn g2_a_start_makes_what_describes_the_cache_the_same_on_both() {
    let machine = lru();
    let mut world = written(machine.clone(), 4);
    world.go_down(true);
    // Before a power cut one of them got a newer copy of the directory, and the other one did not.
    let newer = PairLabel::DATA_START_BYTES + DeviceLayout::directory(1);
    let mut page = [0; BLOCK as usize];
    world.ssd.peek(newer, &mut page);
    page[100] ^= 1;
    world.pair.as_mut().expect("a pair").second.put(newer, &page);
    // The start is cut short when the labels are right and nothing else was written.
    let pair = world.pair.as_mut().expect("a pair");
    pair.open(&mut world.ssd).expect("both are there");
    let heads = |disk: &SimDisk| {
        let mut bytes = vec![0; DeviceLayout::HEADS_BYTES as usize];
        disk.peek(PairLabel::DATA_START_BYTES, &mut bytes);
        bytes
    };
    assert!(heads(&world.ssd) == heads(&world.pair.as_ref().expect("a pair").second));
}

/// What one SSD has of the tables is taken, and the other one's need not be the same, however old that is.
#[test]
fn g2_a_start_makes_tables_the_same_on_both() {
    const TABLE: &[u8] = b"LODEslot";
    let machine = lru();
    let mut world = written(machine.clone(), 40);
    world.go_down(false);
    world.restart(machine.clone()).unwrap();
    world.go_down(true);
    let tables = |world: &World| {
        let second = &world.pair.as_ref().expect("a pair").second;
        let pages = metadata(&world.ssd).into_iter().map(|at| {
            let mut copies = [[0; BLOCK as usize]; 2];
            world.ssd.peek(at, &mut copies[0]);
            second.peek(at, &mut copies[1]);
            (at, copies)
        });
        pages.filter(|(_, copies)| copies[0].starts_with(TABLE)).collect::<Vec<_>>()
    };
    let before = tables(&world);
    assert!(before.len() > 1, "{}", before.len());
    let pair = world.pair.as_mut().expect("a pair");
    before.iter().for_each(|&(at, _)| pair.second.flip_bit(at + 100, 3));
    world.restart(machine).unwrap();
    assert!(tables(&world).iter().all(|(_, [one, other])| one == other));
}

#[test]
fn g7_the_last_ssd_of_a_pair_fails_as_one_ssd_does() {
    for seed in first_seeds(seeds()) {
        let faults =
            Faults { ssd_flush_errors: 5, ssd_metadata_errors: 3, ssd_write_errors: 3, ..Faults::default() };
        for (name, machine) in all_schemes() {
            let plan = Plan { faults, crash: Crash::Any, ..plan(vec![paired(machine)], seed) };
            run(&plan).unwrap_or_else(|error| panic!("{name}, seed {seed}: {error}"));
        }
    }
}

/// A newer program had begun to write what it alone understands, on one SSD before the other. A start reads the other one first, and would make the
/// two the same.
#[test]
fn g6_a_page_of_another_version_on_either_ssd_is_refused() {
    const VERSION_AT: usize = 12;
    const CHECKSUM_AT: std::ops::Range<usize> = 8..12;
    let last_page = DeviceLayout::directory(1) + (Directory::COPY_BYTES - PAGE_BYTES) as u64;
    let pages =
        [DeviceLayout::superblock(0), DeviceLayout::superblock(1), DeviceLayout::directory(0), last_page];
    for (at, member) in pages.into_iter().flat_map(|at| [(at, 0), (at, 1)]) {
        let machine = lru();
        let mut world = World::new(machine.clone(), 1).unwrap();
        write(&mut world, 0, BLOCK, 1).unwrap();
        flush(&mut world).unwrap();
        world.settle();
        world.go_down(true);
        let mut page = [0; PAGE_BYTES];
        let at = PairLabel::DATA_START_BYTES + at;
        let disk = if member == 0 { &mut world.ssd } else { &mut world.pair.as_mut().unwrap().second };
        disk.peek(at, &mut page);
        let before = page;
        page[VERSION_AT] += 1;
        page[CHECKSUM_AT].fill(0);
        let checksum = crc32c::crc32c(&page);
        page[CHECKSUM_AT].copy_from_slice(&checksum.to_le_bytes());
        disk.put(at, &page);
        let pair = world.pair.as_mut().unwrap();
        let refused = pair.open(&mut world.ssd).unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::OtherVersion, "{at}, {member}: {refused}");
        let said = refused.to_string();
        assert!(said.contains("one SSD of the pair") && said.contains("use the lode that made it"), "{said}");
        let disk = if member == 0 { &mut world.ssd } else { &mut world.pair.as_mut().unwrap().second };
        let mut after = [0; PAGE_BYTES];
        disk.peek(at, &mut after);
        assert!(after == page, "{at}, {member}: it is as it was");
        disk.put(at, &before);
        world.restart(machine).unwrap();
        assert_eq!(read(&mut world, 0, BLOCK), Ok(pattern(1, BLOCK as usize)));
    }
}
