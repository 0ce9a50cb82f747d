//! Guarantee 5 of `docs/design.md`: damaged bytes of data on the SSD are never returned, nor older ones in
//! their place.

use lode_engine::{Buf, GuestError, GuestOp, GuestRequest};
use lode_format::{CacheId, JournalPage, PAGE_BYTES};
use lode_policy::Quota;
use lode_sim::scenario::{
    BLOCK, all_schemes, damage, first_seeds, flush, machine, pattern, plan, read, seeds, write,
};
use lode_sim::{Crash, Machine, Plan, SimDisk, World, run};
use lode_store::SyncDevice;

fn one_level(policy: &str) -> Machine {
    machine("lru", &[&format!("write_policy={policy}"), "assoc=8"], Quota::new(0, 60))
}

fn full(name: u8) -> Result<Vec<u8>, GuestError> {
    Ok(pattern(name, BLOCK as usize))
}

fn restart(world: &mut World, power_cut: bool, machine: &Machine) {
    world.go_down(power_cut);
    world.restart(machine.clone()).unwrap();
}

#[test]
fn g5_a_damaged_clean_block_is_read_again() {
    for at_rest in [false, true] {
        let machine = one_level("wt");
        let mut world = World::new(machine.clone(), 1).unwrap();
        write(&mut world, 5 * BLOCK, BLOCK, 1).unwrap();
        flush(&mut world).unwrap();
        world.settle();
        if at_rest {
            world.go_down(false);
        }
        assert_eq!(damage(&mut world, 1), 1);
        if at_rest {
            world.restart(machine).unwrap();
        }
        assert_eq!(read(&mut world, 5 * BLOCK, BLOCK), full(1));
        let alarms = world.engine().alarms();
        assert_eq!((alarms.damaged_clean, alarms.damaged_dirty), (1, 0));
        assert_eq!(world.engine().gauges().quarantined, 1);
    }
}

#[test]
fn g5_a_damaged_dirty_block_is_an_error_until_it_is_overwritten() {
    for (at_rest, power_cut) in [(false, false), (true, false), (true, true)] {
        let machine = one_level("wb");
        let mut world = World::new(machine.clone(), 1).unwrap();
        write(&mut world, 5 * BLOCK, BLOCK, 1).unwrap();
        flush(&mut world).unwrap();
        world.settle();
        if at_rest {
            world.go_down(power_cut);
        }
        assert_eq!(damage(&mut world, 1), 1);
        if at_rest {
            world.restart(machine.clone()).unwrap();
        }
        for _ in 0..2 {
            assert_eq!(read(&mut world, 5 * BLOCK, BLOCK), Err(GuestError::Io));
            assert_eq!(write(&mut world, 5 * BLOCK, 512, 3), Err(GuestError::Io));
            assert_eq!(world.engine().alarms().damaged_dirty, 1);
            assert_eq!(world.engine().gauges().quarantined, 1);
        }
        // Still an error in the next run: the disk's older bytes are not what the guest wrote.
        restart(&mut world, power_cut, &machine);
        assert_eq!(read(&mut world, 5 * BLOCK, BLOCK), Err(GuestError::Io));
        write(&mut world, 5 * BLOCK, BLOCK, 2).unwrap();
        assert_eq!(read(&mut world, 5 * BLOCK, BLOCK), full(2));
        flush(&mut world).unwrap();
        restart(&mut world, power_cut, &machine);
        assert_eq!(read(&mut world, 5 * BLOCK, BLOCK), full(2));
    }
}

/// The overwriting write goes to the backing disk. The damaged copy is the only trace of the bytes that are
/// missing: it must go after the disk durably has the new ones, and not before.
#[test]
fn g5_a_lost_block_overwritten_on_the_backing_disk() {
    for policy in ["ro", "wt", "wa"] {
        let mut outcomes = [0, 0];
        for steps in 0..16 {
            let mut world = World::new(one_level("wt"), 1).unwrap();
            write(&mut world, 5 * BLOCK, BLOCK, 1).unwrap();
            flush(&mut world).unwrap();
            world.settle();
            restart(&mut world, false, &one_level("wb"));
            write(&mut world, 5 * BLOCK, BLOCK, 2).unwrap();
            flush(&mut world).unwrap();
            world.settle();
            world.go_down(false);
            assert_eq!(damage(&mut world, 2), 1);
            world.restart(one_level(policy)).unwrap();
            assert_eq!(read(&mut world, 5 * BLOCK, BLOCK), Err(GuestError::Io));
            let answered = write_and_cut(&mut world, steps);
            restart(&mut world, true, &one_level(policy));
            let found = read(&mut world, 5 * BLOCK, BLOCK);
            assert!(found == Err(GuestError::Io) || found == full(3), "{policy}, step {steps}: stale bytes");
            assert!(!answered || found == full(3), "{policy}, step {steps}: an acknowledged write is gone");
            outcomes[usize::from(found.is_ok())] += 1;
        }
        assert!(outcomes.iter().all(|&count| count > 0), "{policy}: {outcomes:?}");
    }
}

/// Submits a write with FUA and lets so many commands end. True: the write was acknowledged by then.
fn write_and_cut(world: &mut World, steps: usize) -> bool {
    let buf = lode_engine::Buf::copy_of(&pattern(3, BLOCK as usize));
    let op = lode_engine::GuestOp::write(5 * BLOCK, buf, true);
    world.submit(lode_engine::GuestRequest { token: 9, op, now_ns: 0 });
    for _ in 0..steps {
        world.step();
    }
    world.take_events().iter().any(|event| event.token == 9 && event.result.is_ok())
}

/// Newer pages of the journal than the last one that a flush covers may be there or not, each for itself. What the last of them calls
/// durable is so although one before it is missing: a dirty block of that is damaged then, and not absent.
#[test]
fn g5_a_page_behind_a_missing_one_says_what_is_durable() {
    // Every write has a page of its own, which no flush covers.
    let machine = Machine { kept_records: 0, ..one_level("wb") };
    let mut world = World::new(machine.clone(), 1).unwrap();
    for name in [1, 2] {
        write(&mut world, 5 * BLOCK, BLOCK, name).unwrap();
        flush(&mut world).unwrap();
    }
    let before = journal_pages(&world.ssd);
    for block in [6, 7] {
        write(&mut world, block * BLOCK, BLOCK, block as u8).unwrap();
    }
    world.go_down(false);
    let pages = journal_pages(&world.ssd);
    let missing = pages.iter().find(|(number, _)| before.iter().all(|(older, _)| older != number));
    let (missing, at) = *missing.expect("there are new pages");
    assert!(pages.iter().any(|&(number, _)| number > missing), "one came after it");
    world.ssd.put(at, &[0; PAGE_BYTES]);
    assert_eq!(damage(&mut world, 2), 1);
    world.restart(machine).unwrap();
    assert_eq!(read(&mut world, 5 * BLOCK, BLOCK), Err(GuestError::Io));
    assert_eq!(read(&mut world, 6 * BLOCK, BLOCK), Ok(vec![0; BLOCK as usize]));
}

/// A dirty block of the last commit before a crash looks unwritten once it is damaged. What was written past it meanwhile relied on it,
/// so that a clean copy from before it may be older than the backing disk.
#[test]
fn g5_a_clean_copy_does_not_outlive_a_dirty_one_that_is_missing() {
    let machine = Machine { kept_records: 0, ..one_level("wb") };
    for steps in 0..20 {
        let mut world = World::new(machine.clone(), steps).unwrap();
        assert_eq!(read(&mut world, 5 * BLOCK, BLOCK), Ok(vec![0; BLOCK as usize]));
        world.settle();
        restart(&mut world, false, &machine);
        write(&mut world, 5 * BLOCK, BLOCK, 1).unwrap();
        flush(&mut world).unwrap();
        world.set_writes_around(true);
        let op = GuestOp::write(5 * BLOCK, Buf::copy_of(&pattern(2, BLOCK as usize)), false);
        world.submit(GuestRequest { token: 1, op, now_ns: 0 });
        for _ in 0..steps {
            world.step();
        }
        world.go_down(true);
        assert_eq!(damage(&mut world, 1), 1);
        world.restart(machine.clone()).unwrap();
        let mut on_disk = vec![0; BLOCK as usize];
        world.backing.peek(5 * BLOCK, &mut on_disk);
        assert_eq!(read(&mut world, 5 * BLOCK, BLOCK), Ok(on_disk), "after {steps} steps");
    }
}

/// Numbers and places of the journal's pages, in ascending order.
fn journal_pages(ssd: &SimDisk) -> Vec<(u64, u64)> {
    let cache = CacheId([7; 16]);
    let page_at = |at: u64| {
        let mut page = [0; PAGE_BYTES];
        ssd.peek(at, &mut page);
        JournalPage::decode(cache, &page).ok().map(|page| (page.number, at))
    };
    let mut pages: Vec<_> = (0..ssd.size_bytes()).step_by(PAGE_BYTES).filter_map(page_at).collect();
    pages.sort_unstable();
    pages
}

#[test]
fn g5_bits_flip_everywhere() {
    let (mut damaged, mut failed) = (0, 0);
    for (name, machine) in all_schemes() {
        for seed in first_seeds(seeds()) {
            let plan = Plan { crash: Crash::Stop, flips: 12, ..plan(vec![machine.clone()], seed) };
            let tally = run(&plan).unwrap_or_else(|error| panic!("{name}: {error}"));
            damaged += tally.damaged;
            failed += tally.failed_reads;
        }
    }
    assert!(damaged > 100 && failed > 10, "{damaged} noticed, {failed} reads failed");
}
