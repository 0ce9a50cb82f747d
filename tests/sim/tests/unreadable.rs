//! Guarantees 2 and 5 of `docs/design.md` where pages of what describes a cache cannot be read at a start: of two copies the other one
//! is enough, and of the journal nothing that counts is missing, or nothing is served; and where a block cannot.

use std::ops::Range;

use lode_engine::{GuestOp, GuestRequest};
use lode_format::{DeviceLayout, EntryState, PAGE_BYTES};
use lode_policy::Quota;
use lode_sim::scenario::{BLOCK, flush, machine, pattern, read, write};
use lode_sim::{Machine, Rng, SimDisk, World};
use lode_store::{Store, StoreErrorKind, StoreView, VolumeSpec};

/// A cache that a volume has used for a while, as a power cut or a kill leaves it.
fn used(seed: u64) -> SimDisk {
    let mut rng = Rng::new(seed);
    let lru = machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 500));
    // More than the usual one, so that the ring lies on several extents.
    let machine = Machine { kept_records: 0, ssd_bytes: 5 << 20, ..lru };
    let mut world = World::new(machine.clone(), seed).unwrap();
    for _ in 0..rng.below(3) {
        work(&mut world, &mut rng);
        world.go_down(rng.chance(50));
        world.restart(machine.clone()).unwrap();
    }
    work(&mut world, &mut rng);
    (0..rng.below(40)).for_each(|_| _ = world.step());
    world.go_down(rng.chance(50));
    world.ssd
}

fn work(world: &mut World, rng: &mut Rng) {
    for _ in 0..rng.below(120) {
        let blocks = 1 + rng.below(24);
        write(world, rng.below(480) * BLOCK, blocks * BLOCK, rng.below(200) as u8).unwrap();
        if rng.chance(60) {
            flush(world).unwrap();
        }
        if rng.chance(5) {
            world.tick();
        }
    }
}

/// A block that a start finds: its number, its checksum, and whether it is dirty.
type Found = (u64, u32, bool);

/// What a start finds; an error says why there is none.
fn start(ssd: &mut SimDisk) -> Result<Vec<Found>, StoreErrorKind> {
    let view = StoreView::read(ssd).map_err(|error| error.kind())?;
    let volume = view.volumes().next().expect("there is one");
    let spec = VolumeSpec {
        places: view.places_of(&volume.name),
        name: volume.name,
        backing_bytes: volume.backing_bytes,
        spare_places: 0,
        ready_places: 0,
        read_only: false,
        distrusts: None,
    };
    let mut store = Store::begin(ssd, view).map_err(|error| error.kind())?;
    let (volume, _) = store.attach(ssd, &spec).map_err(|error| error.kind())?.into_ordered_store();
    let found =
        volume.places().held_all().map(|(_, held)| (held.block, held.crc, held.state == EntryState::Dirty));
    let mut found: Vec<Found> = found.collect();
    found.sort_unstable();
    Ok(found)
}

/// Where pages of what describes the cache are: those with another copy, and the sides of the journal's pairs.
fn metadata(ssd: &mut SimDisk) -> (Vec<u64>, Vec<[u64; 2]>) {
    let layout = StoreView::read(ssd).unwrap().superblock().layout().unwrap();
    let heads = (0..DeviceLayout::HEADS_BYTES).step_by(PAGE_BYTES);
    let of_extents = |at: &dyn Fn(u32) -> Vec<u64>| (0..layout.extents).flat_map(at).collect::<Vec<_>>();
    let tables = of_extents(&|extent| {
        let pages = (0..layout.extent.table_pages)
            .flat_map(|page| [0, 1].map(|copy| layout.extent.table_page(page, copy)));
        pages.map(|at| layout.extent_start(extent) + at).collect()
    });
    let pairs = (0..layout.extents).flat_map(|extent| {
        (0..layout.extent.journal_pairs).map(move |pair| {
            [0, 1].map(|side| layout.extent_start(extent) + layout.extent.journal_page(pair, side))
        })
    });
    (heads.chain(tables).collect(), pairs.collect())
}

#[test]
fn g2_of_two_copies_one_that_cannot_be_read_is_not_needed() {
    for seed in 0..12 {
        let mut ssd = used(seed);
        let expected = start(&mut ssd.clone()).unwrap();
        for at in metadata(&mut ssd).0 {
            let mut damaged = ssd.clone();
            damaged.make_unreadable(at);
            assert!(start(&mut damaged).as_ref() == Ok(&expected), "seed {seed}, page at {at}");
            // A start writes the copies that differ; of what is of no volume nobody looks.
            assert!(
                start(&mut damaged).as_ref() == Ok(&expected),
                "seed {seed}, page at {at}, started again"
            );
        }
    }
}

#[test]
fn g5_what_the_journal_may_hide_in_a_page_that_cannot_be_read_is_never_taken_for_absent() {
    let (mut started, mut refused) = (0, 0);
    for seed in 0..120 {
        let mut ssd = used(seed);
        let expected = start(&mut ssd.clone()).unwrap();
        let pairs = metadata(&mut ssd).1;
        let each = pairs.iter().flat_map(|&[one, other]| [vec![one], vec![other], vec![one, other]]);
        for unreadable in each {
            let mut damaged = ssd.clone();
            unreadable.iter().for_each(|&at| damaged.make_unreadable(at));
            match start(&mut damaged) {
                Ok(found) => {
                    started += 1;
                    assert!(found == expected, "seed {seed}, journal pages at {unreadable:?}");
                }
                Err(kind) => {
                    refused += 1;
                    assert_eq!(kind, StoreErrorKind::Damaged, "seed {seed}, journal pages at {unreadable:?}");
                }
            }
        }
    }
    println!("{started} starts, {refused} refused");
    assert!(started > 2 * refused && refused > 100, "{started} starts, {refused} refused");
}

/// The power fails when a block was written and flushed with these contents one after the other, and the last copy, of which this is the place, did
/// not arrive.
fn without_the_last_copy(machine: &Machine, contents: &[u8]) -> (World, u64) {
    let mut world = World::new(machine.clone(), 1).unwrap();
    for &content in contents {
        world.settle();
        write(&mut world, 5 * BLOCK, BLOCK, content).unwrap();
        flush(&mut world).unwrap();
    }
    world.go_down(true);
    let last = pattern(contents[contents.len() - 1], BLOCK as usize);
    let is_copy = |&at: &u64| {
        let mut found = vec![0; last.len()];
        world.ssd.peek(at, &mut found);
        found == last
    };
    // Places are taken in ascending order.
    let at = (0..machine.ssd_bytes).step_by(BLOCK as usize).filter(is_copy).last().unwrap();
    // That its record arrived and it did not is how it may be while a flush is under way.
    world.ssd.put(at, &vec![0; last.len()]);
    world.ssd.power_cut(&mut Rng::new(1));
    (world, at)
}

fn small() -> Machine {
    let lru = machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, 60));
    Machine { kept_records: 0, ..lru }
}

/// A start of this machine is cut short after each of its writes in turn, from none on; what is done then.
fn after_each_cut(world: &mut World, machine: &Machine, mut then: impl FnMut(&mut World, u64)) {
    let before = world.ssd.clone();
    for writes in 0.. {
        world.ssd = before.clone();
        world.ssd.fail_after = Some(writes);
        if world.restart(machine.clone()).is_ok() {
            break;
        }
        world.ssd.fail_after = None;
        then(world, writes);
    }
}

/// What guests read of such a block after a start that could not read the last copy. `None`: an error.
fn read_without_the_last_copy(contents: &[u8]) -> Option<Vec<u8>> {
    let (mut world, at) = without_the_last_copy(&small(), contents);
    world.ssd.make_unreadable(at);
    world.restart(small()).unwrap();
    world.ssd.bad_pages.clear();
    read(&mut world, 5 * BLOCK, BLOCK).ok()
}

/// A block that is written again as it is, or moved, has two copies of the same bytes. Where nobody can tell whether the later one arrived, the
/// earlier one is as good. Only the copy immediately before counts: in 1, 2, 1 the first was superseded.
#[test]
fn g2_a_copy_that_cannot_be_read_costs_nothing_where_the_one_before_has_the_same_bytes() {
    assert_eq!(read_without_the_last_copy(&[1, 1]), Some(pattern(1, BLOCK as usize)));
    for contents in [&[1, 2][..], &[1, 2, 1], &[2, 1, 1, 2]] {
        assert_eq!(read_without_the_last_copy(contents), None, "{contents:?}");
    }
}

/// What a start could not read is counted for the operator, also where a start before it, which was cut short, wrote in the tables that nothing is there.
#[test]
fn g5_a_copy_that_a_start_cannot_read_is_counted_whatever_tables_say() {
    let (mut world, at) = without_the_last_copy(&small(), &[1, 2]);
    let (mut refused, mut counted) = (0, 0);
    after_each_cut(&mut world, &small(), |world, writes| {
        world.ssd.make_unreadable(at);
        if world.restart(small()).is_err() {
            refused += 1;
            return;
        }
        let told = world.engine().alarms().unreadable_at_start;
        let is_lost = read(world, 5 * BLOCK, BLOCK).is_err();
        assert_eq!(told, u64::from(is_lost), "{writes} writes");
        counted += told;
        world.go_down(true);
    });
    println!("{refused} starts were refused, {counted} counted it");
    assert!(counted > 0);
}

const BLOCKS: u64 = 20;
const OTHERS: Range<u64> = 300..480;

/// What the others have, each something else than all the rest.
fn of_other(block: u64) -> u8 {
    (block - OTHERS.start + 10) as u8
}

/// The same SSD for a volume with so many blocks on it.
fn of_share(blocks: u32) -> Machine {
    let lru = machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, blocks));
    Machine { ssd_bytes: 5 << 20, ..lru }
}

/// Pages of the SSD that hold data.
fn data_pages(ssd: &mut SimDisk, machine: &Machine) -> Vec<u64> {
    let (kept_twice, pairs) = metadata(ssd);
    let is_data = |at: &u64| !kept_twice.contains(at) && !pairs.as_flattened().contains(at);
    (DeviceLayout::HEADS_BYTES..machine.ssd_bytes).step_by(PAGE_BYTES).filter(is_data).collect()
}

fn page(ssd: &SimDisk, at: u64) -> [u8; PAGE_BYTES] {
    let mut bytes = [0; PAGE_BYTES];
    ssd.peek(at, &mut bytes);
    bytes
}

/// The power fails while blocks are under way to places that are the first to be free in the first extent, which is nearly full; some others are in
/// another one.
fn with_copies_under_way(machine: &Machine, case: u64) -> World {
    let mut rng = Rng::new(case);
    let mut world = World::new(machine.clone(), case).unwrap();
    let write_all = |world: &mut World, blocks: Range<u64>, content: fn(u64) -> u8| {
        blocks.for_each(|block| write(world, block * BLOCK, BLOCK, content(block)).unwrap());
    };
    // Takes so many places in turn and gives them back.
    let go_on = |world: &mut World, places| {
        for place in 0..places {
            write(world, 200 * BLOCK, BLOCK, 7).unwrap();
            if place % 16 == 0 {
                flush(world).unwrap();
            }
        }
    };
    // Most of the first extent; then some blocks go to another one, and what is written next to the places that these had.
    write_all(&mut world, 0..BLOCKS, |_| 1);
    write_all(&mut world, OTHERS, of_other);
    go_on(&mut world, 100);
    write_all(&mut world, OTHERS.start..OTHERS.start + 10, of_other);
    flush(&mut world).unwrap();
    go_on(&mut world, 680 + rng.below(60));
    flush(&mut world).unwrap();
    world.settle();
    write_all(&mut world, 0..BLOCKS, |_| 2);
    world.submit(GuestRequest { token: 77, op: GuestOp::Flush, now_ns: 0 });
    (0..rng.below(6)).for_each(|_| _ = world.step());
    world.go_down(true);
    world
}

/// A start that takes space away moves dirty blocks out of it, also to places of copies that it found not to have arrived. When it is cut short then, the
/// next one finds no record of these copies any more: it reads no block that is in one place, so that none of these is in doubt, and nothing is as it was
/// before it was flushed.
#[test]
fn g5_a_start_that_is_cut_short_after_it_moved_blocks_left_no_record_of_their_places() {
    let (fewer, more) = (of_share(160), of_share(600));
    let (mut cut_after_moves, mut in_doubt) = (0, 0);
    for case in 0..16 {
        let mut world = with_copies_under_way(&more, case);
        let data = data_pages(&mut world.ssd, &more);
        let before = world.ssd.clone();
        after_each_cut(&mut world, &fewer, |world, writes| {
            if !data.iter().any(|&at| page(&world.ssd, at) != page(&before, at)) {
                return;
            }
            cut_after_moves += 1;
            data.iter().for_each(|&at| world.ssd.make_unreadable(at));
            world.restart(more.clone()).unwrap();
            // Of blocks that are in two places nobody can tell which is better.
            in_doubt += u32::from(world.engine().alarms().unreadable_at_start > 0);
            world.ssd.bad_pages.clear();
            let contents = (0..BLOCKS)
                .map(|block| (block, vec![1, 2]))
                .chain(OTHERS.map(|block| (block, vec![of_other(block)])));
            for (block, contents) in contents {
                let found = read(world, block * BLOCK, BLOCK).unwrap();
                let is_known = contents.iter().any(|&content| found == pattern(content, BLOCK as usize));
                assert!(is_known, "case {case}, {writes} writes: block {block} is what it was before");
            }
            world.go_down(true);
        });
    }
    println!(
        "{cut_after_moves} starts were cut short after they moved blocks, {in_doubt} amid the change of tables"
    );
    assert!(cut_after_moves > 100 && in_doubt * 5 < cut_after_moves, "{cut_after_moves}, {in_doubt}");
}

/// A start that moves blocks and is cut short may leave a block in two places with one version. The next one reads it, whichever of them cannot be read.
#[test]
fn g5_a_block_that_a_start_left_in_two_places_needs_one_of_them() {
    let (fewer, more) = (of_share(160), of_share(600));
    let mut found = [0; 3];
    for case in 0..3 {
        let mut world = with_copies_under_way(&more, case);
        let data = data_pages(&mut world.ssd, &more);
        let before = world.ssd.clone();
        let mut latest = 0;
        after_each_cut(&mut world, &fewer, |world, writes| {
            let cut = world.ssd.clone();
            let is_new = |&&at: &&u64| page(&cut, at) != page(&before, at);
            let of_places = |block: u64, places: &[u64]| {
                let bytes = pattern(of_other(block), BLOCK as usize);
                places.iter().copied().filter(|&at| page(&cut, at)[..] == bytes[..]).collect::<Vec<u64>>()
            };
            let new: Vec<u64> = data.iter().filter(is_new).copied().collect();
            let moved = OTHERS.rev().map(|block| (block, of_places(block, &new)));
            let Some((block, to)) = moved.into_iter().find(|(_, to)| !to.is_empty()) else { return };
            // Where it is, or was some time before.
            let mut from = of_places(block, &data);
            from.retain(|at| !to.contains(at));
            // Whether it is read, and the blocks that are told to be unreadable.
            let mut read_without = |places: &[u64]| {
                world.ssd = cut.clone();
                for &at in places {
                    // What guests would get if it were read.
                    world.ssd.put(at, &[0; PAGE_BYTES]);
                    world.ssd.make_unreadable(at);
                }
                world.restart(more.clone()).unwrap();
                let told = world.engine().alarms().unreadable_at_start;
                let bytes = read(world, block * BLOCK, BLOCK);
                world.go_down(true);
                if let Ok(bytes) = &bytes {
                    assert!(
                        *bytes == pattern(of_other(block), BLOCK as usize),
                        "case {case}, {writes} writes"
                    );
                }
                (bytes.is_ok(), told)
            };
            let stage = match [&from, &to].map(|places| read_without(places).0) {
                [false, true] => 0,
                [true, true] => {
                    let both = [from, to].concat();
                    assert_eq!(read_without(&both), (false, 1), "case {case}, {writes} writes");
                    1
                }
                [true, false] => 2,
                neither => panic!("case {case}, {writes} writes: {neither:?}"),
            };
            assert!(stage >= latest, "case {case}, {writes} writes: lost with one of two places");
            latest = stage;
            found[stage] += 1;
        });
    }
    println!("{found:?} cuts before, amid and after the change of tables");
    assert!(found.iter().all(|&cuts| cuts > 0), "{found:?}");
}
