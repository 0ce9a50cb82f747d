//! A cache on several pairs of SSDs: it holds what one on a single SSD does, and either SSD of each pair may go.

use lode_format::{CacheId, DeviceLayout, PairLabel, Superblock};
use lode_policy::Quota;
use lode_sim::scenario::{
    all_schemes, first_seeds, flush, machine, pattern, plan, read, run_each, seeds, spread, write,
};
use lode_sim::{Faults, Machine, Plan, RunCounts, SimDisk, World};
use lode_store::pair::{MEMBERS, Pair, PairArray, PairDevice, probe_pair};
use lode_store::{Store, StoreError, StoreErrorKind, StoreView, SyncDevice, VolumeSpec};
use lode_types::{BlockSize, Rng};

const MIB: u64 = 1 << 20;
const PAGE: u64 = lode_format::PAGE_BYTES as u64;
const CACHE: CacheId = CacheId([7; 16]);

/// Pairs whose two SSDs are of so many MiB, with an empty cache.
fn formatted(mib: &[u64]) -> Vec<[SimDisk; MEMBERS]> {
    let mut disks: Vec<_> = mib.iter().map(|mib| [0, 1].map(|_| SimDisk::new(mib * MIB))).collect();
    let devices = disks.iter_mut().map(|[first, second]| (first, Some(second))).collect();
    PairArray::format(devices, CACHE, BlockSize::KIB_4, Some(MIB)).unwrap();
    disks
}

/// The cache as a start of a host sees it that remembers these labels of each pair, and those of the start from then on.
fn opened<'d>(
    disks: &'d mut [[SimDisk; MEMBERS]],
    known: &mut [u64],
) -> Result<PairArray<&'d mut SimDisk>, StoreError> {
    let labels: Vec<_> =
        disks.iter_mut().map(|pair| pair.each_mut().map(|disk| probe_pair(disk).ok())).collect();
    let remembered: Vec<_> = known.iter().copied().map(Some).collect();
    let pairs = Pair::all_of(&labels, &remembered)?;
    let devices = disks.iter_mut().zip(&labels).map(|(devices, labels)| {
        let mut there = labels.iter().map(Option::is_some);
        devices.each_mut().map(|device| Some(device).filter(|_| there.next() == Some(true)))
    });
    let pairs = pairs.into_iter().zip(devices).map(|(pair, devices)| PairDevice::new(pair, devices));
    let mut array = PairArray::new(pairs.collect())?;
    array.begin(&labels, |number, generation| {
        known[number] = generation;
        Ok::<_, StoreError>(())
    })?;
    Ok(array)
}

#[test]
fn g2_several_pairs_hold_what_one_device_does() {
    for seed in first_seeds(12) {
        let rng = &mut Rng::new(seed);
        let mib: Vec<u64> = (0..1 + rng.below(4)).map(|_| 3 + rng.below(5)).collect();
        let mut disks = formatted(&mib);
        let mut known = vec![1; disks.len()];
        let mut array = opened(&mut disks, &mut known).unwrap();
        let mut model = vec![0; array.size_bytes() as usize];
        array.read(0, &mut model).unwrap();
        for _ in 0..100 {
            let at = rng.below(array.size_bytes() / PAGE) * PAGE;
            let length = (PAGE * (1 + rng.below(400))).min(array.size_bytes() / PAGE * PAGE - at);
            let here = at as usize..(at + length) as usize;
            if rng.chance(50) {
                let name = rng.below(256) as usize;
                model[here.clone()]
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, byte)| *byte = (name + i / 300) as u8);
                array.write(at, &model[here]).unwrap();
            } else {
                let mut found = vec![0; length as usize];
                let read = if rng.chance(50) { PairArray::read } else { PairArray::read_pages };
                read(&mut array, at, &mut found).unwrap();
                assert!(found == model[here], "seed {seed}, {length} bytes at {at}");
            }
        }
        // What was flushed is there after a power cut, on either SSD of each pair.
        array.flush().unwrap();
        disks.iter_mut().flatten().for_each(|disk| disk.power_cut(rng));
        for pair in &mut disks {
            let gone = rng.below(MEMBERS as u64) as usize;
            pair[gone] = SimDisk::new(pair[gone].size_bytes());
        }
        let kept = &model[DeviceLayout::HEADS_BYTES as usize..];
        let mut found = vec![0; kept.len()];
        // Of superblocks a start believes only what was written there as such.
        array_of_labels(&mut disks, &mut known).read(DeviceLayout::HEADS_BYTES, &mut found).unwrap();
        assert!(found == kept, "seed {seed}");
    }
}

/// The cache without a look at its superblock, which tests write over.
fn array_of_labels<'d>(disks: &'d mut [[SimDisk; MEMBERS]], known: &mut [u64]) -> PairArray<&'d mut SimDisk> {
    let superblock = Superblock {
        cache: CACHE,
        generation: 1 << 40,
        epoch: 0,
        device_bytes: 64 * MIB,
        extent_bytes: MIB,
        block: BlockSize::KIB_4,
    };
    for disk in &mut disks[0] {
        disk.put(PairLabel::DATA_START_BYTES, &superblock.encode()[..]);
    }
    opened(disks, known).unwrap()
}

#[test]
fn capacity_adds_up() {
    let extents = |mib: &[u64]| {
        let mut disks = formatted(mib);
        let mut array = opened(&mut disks, &mut vec![1; mib.len()]).unwrap();
        let view = StoreView::read(&mut array).unwrap();
        assert_eq!(array.pairs().count(), mib.len());
        view.free_extents()
    };
    assert_eq!(extents(&[5]), 3);
    assert_eq!(extents(&[5, 5]), 6);
    assert_eq!(extents(&[5, 4, 9]), 3 + 2 + 7);
    // A volume may have all of it.
    let mut disks = formatted(&[5, 4, 9]);
    let mut array = opened(&mut disks, &mut [1; 3]).unwrap();
    let spec = VolumeSpec {
        name: "vm".to_owned(),
        backing_bytes: 64 * MIB,
        places: 12 * 240,
        spare_places: 0,
        ready_places: u64::MAX,
        read_only: false,
        distrusts: None,
    };
    Store::open(&mut array).unwrap().attach(&mut array, &spec).unwrap();
    let view = StoreView::read(&mut array).unwrap();
    assert_eq!((view.free_extents(), view.volumes().next().unwrap().extents), (0, 12));
}

#[test]
fn g7_a_pair_of_which_neither_ssd_is_there_is_named() {
    for number in 0..3 {
        let mut disks = formatted(&[4, 4, 4]);
        for disk in &mut disks[number] {
            *disk = SimDisk::new(disk.size_bytes());
        }
        let refused = opened(&mut disks, &mut [1; 3]).unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::WrongMember);
        assert!(refused.to_string().contains(&format!("pair {} of 3", number + 1)), "{refused}");
    }
}

#[test]
fn a_superblock_of_another_cache_is_refused() {
    let mut disks = formatted(&[4, 4]);
    let mut others = [0, 1].map(|member| SimDisk::new(disks[0][member].size_bytes()));
    let [first, second] = others.each_mut();
    PairDevice::format((first, Some(second)), CacheId([8; 16]), BlockSize::KIB_4, Some(MIB)).unwrap();
    for (disk, other) in disks[0].iter_mut().zip(&others) {
        let mut page = vec![0; 2 * PAGE as usize];
        other.peek(PairLabel::DATA_START_BYTES, &mut page);
        disk.put(PairLabel::DATA_START_BYTES, &page);
    }
    let refused = opened(&mut disks, &mut [1; 2]).unwrap_err();
    assert!(refused.to_string().contains("pair 1 of 2"), "{refused}");
}

/// Runs every scheme on two or three pairs with each seed, and adds up what happened.
fn run_all(plan_of: impl Fn(Machine, u64) -> Plan) -> RunCounts {
    let plan_of = |machine, seed| Plan { requests: 120, ..plan_of(spread(machine, 1 + seed % 2), seed) };
    let sum = run_each(all_schemes(), seeds().div_ceil(2), plan_of);
    assert_eq!((sum.failed_reads, sum.failed_writes), (0, 0), "{sum:?}");
    assert!(sum.sectors_checked > 100_000, "{sum:?}");
    sum
}

#[test]
fn g2_pairs_keep_what_one_ssd_keeps() {
    run_all(|machine, seed| plan(vec![machine], seed));
}

#[test]
fn g2_the_loss_of_an_ssd_of_each_pair_at_any_crash_loses_nothing() {
    let sum = run_all(|machine, seed| Plan { rounds: 6, member_losses: 60, ..plan(vec![machine], seed) });
    assert!(sum.members_dropped > 200 && sum.members_resilvered > 60, "{sum:?}");
}

#[test]
fn g9_ssds_of_any_pair_are_taken_out_and_replaced_while_guests_are_served() {
    let sum = run_all(|machine, seed| Plan {
        rounds: 6,
        member_changes: 4 + seed % 8,
        member_losses: 60,
        ..plan(vec![machine], seed)
    });
    assert!(sum.members_replaced > 100 && sum.members_resilvered > 60, "{sum:?}");
}

#[test]
fn g7_an_ssd_of_any_pair_that_fails_in_any_way_is_dropped_and_no_guest_notices() {
    let faults = |seed: u64| {
        let only_member = Some((seed % 2) as usize);
        // Of one pair, or of each.
        let only_pair = [None, Some(0), Some(1)][(seed / 8 % 3) as usize];
        let none = Faults { only_member, only_pair, ..Faults::default() };
        match seed / 2 % 4 {
            0 => Faults { ssd_write_errors: 5, ssd_metadata_errors: 5, ..none },
            1 => Faults { ssd_flush_errors: 20, ssd_read_errors: 5, ..none },
            2 => Faults { ssd_gone: true, ..none },
            _ => Faults { hanging_member: only_member, ..none },
        }
    };
    // A scheme and a seed have one of the faults; with another scheme the seed has another one.
    let number = std::cell::Cell::new(0);
    let sum = run_all(|machine, seed| {
        number.set(number.get() + 1);
        Plan { rounds: 6, member_losses: 30, faults: faults(number.get()), ..plan(vec![machine], seed) }
    });
    assert!(sum.members_dropped > 100, "{sum:?}");
}

#[test]
fn g5_what_is_damaged_on_one_ssd_of_any_pair_is_read_from_the_other_and_written_again() {
    let sum = run_all(|machine, seed| {
        let mut machine = machine;
        machine.config.scrub_ticks = (seed % 2 == 0).then_some(2);
        Plan { flips: 8, ..plan(vec![machine], seed) }
    });
    assert!(sum.healed > 50, "{sum:?}");
}

const BLOCK: u64 = 16 << 10;
const BLOCKS: u64 = 120;

/// A volume of which the guest wrote some blocks, each with a pattern of its own, and flushed.
fn written(machine: &Machine, first: u8) -> World {
    let mut world = World::new(machine.clone(), 1).unwrap();
    rewrite(&mut world, first);
    world
}

fn rewrite(world: &mut World, first: u8) {
    for block in 0..BLOCKS {
        write(world, block * BLOCK, BLOCK, first + block as u8).unwrap();
    }
    flush(world).unwrap();
}

fn check(world: &mut World, first: u8) {
    for block in 0..BLOCKS {
        let expected = pattern(first + block as u8, BLOCK as usize);
        assert_eq!(read(world, block * BLOCK, BLOCK), Ok(expected), "block {block}");
    }
}

fn lru() -> Machine {
    spread(machine("lru", &["write_policy=wb"], Quota::new(0, 150)), 1)
}

fn blank(disk: &SimDisk) -> SimDisk {
    SimDisk::new(disk.size_bytes())
}

#[test]
fn what_a_volume_writes_is_spread_over_the_pairs() {
    let mut world = written(&lru(), 0);
    world.settle();
    let blocks_on = |disk: &SimDisk| {
        let places = (0..disk.size_bytes() - PAGE).step_by(PAGE as usize);
        let mut page = vec![0; PAGE as usize];
        let is_first_page = |&at: &u64| {
            disk.peek(at, &mut page);
            (0..BLOCKS).any(|block| page[..] == pattern(block as u8, BLOCK as usize)[..PAGE as usize])
        };
        places.filter(is_first_page).count()
    };
    let [first, other] = [blocks_on(&world.ssd), blocks_on(&world.other_pairs[0].first)];
    assert!(first >= 40 && other >= 40, "{first} {other}");
}

/// A flush is durable on every pair, whichever member of each is left.
#[test]
fn g2_what_was_flushed_is_there_after_a_power_cut_on_either_ssd_of_each_pair() {
    let machine = lru();
    for left in 0..4 {
        let mut world = written(&machine, 0);
        world.go_down(true);
        let pair = world.pair.as_mut().expect("a pair");
        pair.replace(&mut world.ssd, left % 2);
        let other = &mut world.other_pairs[0];
        other.pair.replace(&mut other.first, left / 2);
        world.restart(machine.clone()).unwrap();
        check(&mut world, 0);
    }
}

#[test]
fn g7_pairs_go_on_each_without_another_member_and_neither_is_believed_when_it_comes_back() {
    let machine = lru();
    let mut world = written(&machine, 0);
    world.take_member_out_of(0, 0);
    world.take_member_out_of(1, 1);
    rewrite(&mut world, 100);
    world.go_down(true);
    world.restart(machine.clone()).unwrap();
    check(&mut world, 100);
    world.go_down(true);
    // Of the second pair only the one that was taken out is there.
    let away = std::mem::replace(&mut world.other_pairs[0].first, SimDisk::new(4 << 20));
    let refused = world.restart(machine.clone()).expect_err("it lacks something");
    assert!(refused.to_string().contains("pair 2 of 2"), "{refused}");
    world.go_down(true);
    world.other_pairs[0].first = away;
    // Resilvered, both have everything, and the others may go.
    world.pair.as_mut().expect("a pair").resilver_after_start();
    world.other_pairs[0].pair.resilver_after_start();
    world.restart(machine.clone()).unwrap();
    world.settle_resilvers();
    let resilvered =
        [world.pair.as_ref().expect("a pair").resilvered(), world.other_pairs[0].pair.resilvered()];
    assert_eq!(resilvered, [1, 1]);
    world.go_down(true);
    let pair = world.pair.as_mut().expect("a pair");
    pair.replace(&mut world.ssd, 1);
    let other = &mut world.other_pairs[0];
    other.pair.replace(&mut other.first, 0);
    world.restart(machine).unwrap();
    check(&mut world, 100);
}

/// Guarantee 7: without a pair nothing is right any more, and guests are told.
#[test]
fn g7_the_loss_of_a_whole_pair_is_the_failure_of_the_ssd() {
    let machine = lru();
    for number in 0..2 {
        let mut world = written(&machine, 0);
        world.faults = Faults { ssd_gone: true, only_pair: Some(number), ..Faults::default() };
        for block in 0..BLOCKS {
            let _ = write(&mut world, block * BLOCK, BLOCK, 50);
        }
        let _ = flush(&mut world);
        world.settle();
        assert!(world.engine().alarms().failed, "pair {number}");
        world.go_down(true);
        let disk = if number == 0 { &mut world.ssd } else { &mut world.other_pairs[number - 1].first };
        *disk = blank(disk);
        let second = if number == 0 {
            &mut world.pair.as_mut().expect("a pair").second
        } else {
            &mut world.other_pairs[number - 1].pair.second
        };
        *second = blank(second);
        let refused = world.restart(machine.clone()).expect_err("a pair is missing");
        assert!(refused.to_string().contains(&format!("pair {} of 2", number + 1)), "{refused}");
    }
}
