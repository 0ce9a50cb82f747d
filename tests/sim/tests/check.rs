//! Guarantees 2, 5 and 6 of `docs/design.md` for checking and mending a cache that nobody serves: every damaged block is found,
//! looking writes nothing, and mending, cut short anywhere, loses nothing and brings nothing old back.

use lode_engine::GuestError;
use lode_policy::Quota;
use lode_sim::scenario::{BLOCK, first_seeds, flush, machine, pattern, read, write};
use lode_sim::{HangEnd, Machine, Rng, SimDisk, World};
use lode_store::{Store, StoreError, StoreView, SyncDevice, VolumeCheck};

const SSD_BYTES: u64 = 5 << 20;
/// The first of these are clean, the others dirty.
const CLEAN: u64 = 60;
const BLOCKS: u64 = 100;

fn volume() -> Machine {
    let mut machine = machine("lru", &["write_policy=wb"], Quota::new(0, 300));
    machine.ssd_bytes = SSD_BYTES;
    machine
}

fn name_of(block: u64) -> u8 {
    block as u8 + 1
}

/// A volume that went down with [`CLEAN`] clean blocks, the others dirty.
fn used(power_cut: bool) -> World {
    let mut world = World::new(volume(), 1).unwrap();
    for blocks in [0..CLEAN, CLEAN..BLOCKS] {
        let is_first = blocks.start == 0;
        for block in blocks {
            write(&mut world, block * BLOCK, BLOCK, name_of(block)).unwrap();
        }
        flush(&mut world).unwrap();
        if is_first {
            world.drain();
            world.settle();
            world.stop_drain();
        }
    }
    world.settle();
    world.go_down(power_cut);
    world
}

/// Where the bytes of a block lie.
fn offset_of(ssd: &SimDisk, block: u64) -> u64 {
    let (wanted, mut bytes) = (pattern(name_of(block), BLOCK as usize), vec![0; BLOCK as usize]);
    let is_there = |at: &u64| {
        ssd.peek(*at, &mut bytes);
        bytes == wanted
    };
    (0..SSD_BYTES).step_by(BLOCK as usize).find(is_there).expect("it is on the SSD")
}

fn check(ssd: &mut SimDisk) -> VolumeCheck {
    ssd.fail_after = Some(0);
    let checked =
        StoreView::read(ssd).and_then(|view| view.check_volume(ssd, "vm", true, &mut |_| {})).unwrap();
    ssd.fail_after = None;
    checked
}

fn mend(ssd: &mut SimDisk, found: &VolumeCheck) -> Result<(), StoreError> {
    Store::open(ssd)?.mend(ssd, found)
}

/// Every block is what the guest wrote, but for the damaged dirty ones, which are errors.
fn check_guest(world: &mut World, damaged: &[u64]) {
    for block in 0..BLOCKS {
        let is_lost = block >= CLEAN && damaged.contains(&block);
        let expected =
            if is_lost { Err(GuestError::Io) } else { Ok(pattern(name_of(block), BLOCK as usize)) };
        assert!(read(world, block * BLOCK, BLOCK) == expected, "block {block}, damaged {damaged:?}");
    }
}

/// Damages a few blocks, other ones for each seed.
fn damage(world: &mut World, seed: u64) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    let mut damaged: Vec<u64> = (0..BLOCKS).filter(|_| rng.below(8) == 0).collect();
    damaged.push(BLOCKS - 1);
    damaged.dedup();
    for &block in &damaged {
        let at = offset_of(&world.ssd, block) + rng.below(BLOCK);
        world.ssd.flip_bit(at, rng.below(8) as u8);
    }
    damaged
}

#[test]
fn g5_a_check_names_every_damaged_block_and_writes_nothing() {
    for seed in first_seeds(8) {
        let mut world = used(seed % 2 == 0);
        let whole = check(&mut world.ssd);
        assert_eq!((whole.clean_blocks, whole.dirty_blocks), (CLEAN, BLOCKS - CLEAN));
        assert_eq!((whole.damaged_clean_blocks, whole.damaged_dirty_blocks), (0, 0));
        let offsets: Vec<u64> = (0..BLOCKS).map(|block| offset_of(&world.ssd, block)).collect();
        let damaged = damage(&mut world, seed);
        let found = check(&mut world.ssd);
        let dirty = damaged.iter().filter(|&&block| block >= CLEAN).count() as u64;
        assert_eq!(found.damaged_clean_blocks, damaged.len() as u64 - dirty);
        assert_eq!(found.damaged_dirty_blocks, dirty);
        for named in &found.damaged {
            assert!(damaged.contains(&named.block) && named.is_dirty == (named.block >= CLEAN));
            assert_eq!(named.offset_bytes, offsets[named.block as usize]);
            assert!(!named.is_unreadable);
        }
        assert_eq!(found.damaged.len(), damaged.len().min(16));
    }
}

#[test]
fn g5_a_check_tells_metadata_of_which_one_copy_is_left() {
    let mut world = used(false);
    let view = StoreView::read(&mut world.ssd).unwrap();
    let copies = view.check_copies(&mut world.ssd);
    assert_eq!((copies.superblocks, copies.directories), (2, 2));
    assert_eq!(check(&mut world.ssd).lone_table_pages, 0);
    let mut magic = [0; 512];
    let pages: Vec<u64> = (0..SSD_BYTES)
        .step_by(BLOCK as usize)
        .filter(|&at| {
            world.ssd.peek(at, &mut magic);
            magic.starts_with(b"LODE")
        })
        .collect();
    let (mut superblocks, mut directories, mut tables) = (0, 0, 0);
    for at in pages {
        world.ssd.flip_bit(at + 100, 3);
        match StoreView::read(&mut world.ssd) {
            Ok(view) => {
                let copies = view.check_copies(&mut world.ssd);
                superblocks += 2 - copies.superblocks;
                directories += 2 - copies.directories;
                if let Ok(found) = view.check_volume(&mut world.ssd, "vm", false, &mut |_| {}) {
                    tables += found.lone_table_pages;
                }
            }
            Err(error) => panic!("one damaged page is too much: {error}"),
        }
        world.ssd.flip_bit(at + 100, 3);
    }
    assert_eq!(superblocks, 2);
    assert!(directories >= 2 && directories % 2 == 0, "{directories} pages of directories");
    assert!(tables >= 2, "{tables}");
}

#[test]
fn g6_mending_is_cut_short_anywhere() {
    for seed in first_seeds(4) {
        for writes in 0.. {
            let mut world = used(seed % 2 == 0);
            let damaged = damage(&mut world, seed);
            let found = check(&mut world.ssd);
            world.ssd.fail_after = Some(writes);
            let mended = mend(&mut world.ssd, &found);
            world.ssd.fail_after = None;
            if mended.is_err() {
                let mut rng = Rng::new(seed ^ writes);
                world.ssd.power_cut(&mut rng);
            } else {
                let after = check(&mut world.ssd);
                assert_eq!(after.damaged_clean_blocks, 0, "they are given up");
                assert_eq!(after.clean_blocks, found.clean_blocks - found.damaged_clean_blocks);
                assert_eq!(after.dirty_blocks, found.dirty_blocks);
                assert_eq!(after.damaged_dirty_blocks, found.damaged_dirty_blocks);
            }
            world.restart(volume()).unwrap();
            check_guest(&mut world, &damaged);
            world.settle();
            world.go_down(true);
            world.restart(volume()).unwrap();
            check_guest(&mut world, &damaged);
            if mended.is_ok() {
                assert!(writes > 5, "mending writes more than that");
                break;
            }
        }
    }
}

/// As a start it waits for a device that hangs, until the system gives up what that was asked for, or somebody ends it.
#[test]
fn g6_mending_an_ssd_that_hangs_loses_nothing() {
    let mut failed = 0;
    for end in [HangEnd::GivenUp { more: 0 }, HangEnd::GivenUp { more: 2 }, HangEnd::Late] {
        for (after, power_cut) in (0..).flat_map(|after| [(after, false), (after, true)]) {
            let mut world = used(power_cut);
            let damaged = damage(&mut world, after);
            let found = check(&mut world.ssd);
            world.ssd.hang_at_command(after, end, after);
            failed += u32::from(mend(&mut world.ssd, &found).is_err());
            let has_hung = world.end_start_hang();
            world.go_down(power_cut);
            world.restart(volume()).unwrap();
            check_guest(&mut world, &damaged);
            world.go_down(true);
            world.restart(volume()).unwrap();
            check_guest(&mut world, &damaged);
            if !has_hung {
                break;
            }
        }
    }
    assert!(failed > 40, "{failed}");
}

#[test]
fn g6_both_copies_are_whole_after_mending() {
    let mut world = used(true);
    // The second copy of the directory is gone, and one of each table page.
    let mut magic = [0; 512];
    let before = StoreView::read(&mut world.ssd).unwrap();
    for at in (0..SSD_BYTES).step_by(BLOCK as usize).collect::<Vec<_>>() {
        world.ssd.peek(at, &mut magic);
        if !magic.starts_with(b"LODE") {
            continue;
        }
        world.ssd.flip_bit(at + 64, 1);
        let is_needed = StoreView::read(&mut world.ssd)
            .and_then(|view| view.check_volume(&mut world.ssd, "vm", true, &mut |_| {}))
            .map_or(true, |found| found.dirty_blocks != BLOCKS - CLEAN);
        if is_needed {
            world.ssd.flip_bit(at + 64, 1);
        }
    }
    let found = check(&mut world.ssd);
    let copies = before.check_copies(&mut world.ssd);
    assert!(found.lone_table_pages > 0 && copies.directories == 1 && copies.superblocks == 1);
    SyncDevice::flush(&mut world.ssd).unwrap();
    mend(&mut world.ssd, &found).unwrap();
    let view = StoreView::read(&mut world.ssd).unwrap();
    let copies = view.check_copies(&mut world.ssd);
    assert_eq!((copies.superblocks, copies.directories), (2, 2));
    assert_eq!(check(&mut world.ssd).lone_table_pages, 0);
    world.restart(volume()).unwrap();
    check_guest(&mut world, &[]);
}
