//! Guarantees 4 and 6 of `docs/design.md` for looking, refusing and removing: a refusal writes nothing, a removal is
//! whole or has not been, and nothing of a removed volume comes back.

use lode_format::DeviceLayout;
use lode_policy::Quota;
use lode_sim::scenario::{BLOCK, VOLUME_BYTES, first_seeds, flush, machine, pattern, read, seeds, write};
use lode_sim::{Machine, Rng, SimDisk, World};
use lode_store::{
    BlockCounts, Store, StoreError, StoreErrorKind, StoreView, SyncDevice, VolumeInfo, VolumeSpec,
};

const SSD_BYTES: u64 = 5 << 20;
const BLOCKS: u64 = 100;

fn volume(name: &str, ssd_blocks: u32) -> Machine {
    let mut machine = machine("lru", &["write_policy=wb"], Quota::new(0, ssd_blocks));
    machine.name = name.to_owned();
    machine.ssd_bytes = SSD_BYTES;
    machine
}

fn spec(name: &str, places: u64) -> VolumeSpec {
    VolumeSpec {
        name: name.to_owned(),
        backing_bytes: VOLUME_BYTES - 1024,
        places,
        spare_places: 0,
        ready_places: u64::MAX,
        read_only: false,
        distrusts: None,
    }
}

/// An SSD with a stopped volume 'vm' that holds so many dirty blocks in its three extents.
fn used(dirty: u64) -> World {
    let mut world = World::new(volume("vm", 600), 1).unwrap();
    for block in 0..dirty {
        write(&mut world, block * BLOCK, BLOCK, block as u8).unwrap();
    }
    flush(&mut world).unwrap();
    world.settle();
    world.go_down(true);
    world
}

fn bytes_of(ssd: &SimDisk) -> Vec<u8> {
    let mut bytes = vec![0; ssd.size_bytes() as usize];
    ssd.peek(0, &mut bytes);
    bytes
}

/// The kind of a refusal of a check, during which no write and no flush works.
fn refusal(ssd: &mut SimDisk, specs: &[VolumeSpec]) -> Option<StoreErrorKind> {
    let before = bytes_of(ssd);
    ssd.fail_after = Some(0);
    let checked = StoreView::read(ssd).and_then(|view| view.check(ssd, specs));
    ssd.fail_after = None;
    assert!(bytes_of(ssd) == before, "a check changes the device");
    checked.err().map(|error| {
        println!("{error}");
        error.kind()
    })
}

/// What really happens: the volumes are attached one after the other.
fn attach_all(ssd: &mut SimDisk, specs: &[VolumeSpec]) -> Option<StoreErrorKind> {
    let mut store = match Store::open(ssd) {
        Ok(store) => store,
        Err(error) => return Some(error.kind()),
    };
    let order = store.view().attach_order(specs);
    order.into_iter().find_map(|at| store.attach(ssd, &specs[at]).err().map(|error| error.kind()))
}

fn remove(ssd: &mut SimDisk, name: &str, force: bool) -> Result<VolumeInfo, StoreError> {
    let view = StoreView::read(ssd)?;
    Store::remove(ssd, view, name, force)
}

#[test]
fn g6_a_check_finds_what_would_be_refused_and_writes_nothing() {
    use StoreErrorKind::{Geometry, HoldsDirty, NoSpace, WrongBacking};
    let smaller = VolumeSpec { backing_bytes: 4096, ..spec("vm", 600) };
    let read_only = VolumeSpec { read_only: true, ..spec("vm", 600) };
    let many: Vec<VolumeSpec> = (0..300).map(|number| spec(&format!("vm{number}"), 1)).collect();
    let cases: Vec<(Vec<VolumeSpec>, Option<StoreErrorKind>)> = vec![
        (vec![spec("vm", 600)], None),
        (vec![spec("vm", 300)], None),
        (vec![spec("vm", 1)], Some(NoSpace)),
        (vec![spec("", 1)], Some(Geometry)),
        (vec![spec(&"n".repeat(201), 1)], Some(Geometry)),
        (vec![smaller], Some(WrongBacking)),
        (vec![read_only.clone()], Some(HoldsDirty { blocks: 300 })),
        (vec![VolumeSpec { places: 300, ..read_only }], Some(HoldsDirty { blocks: 300 })),
        (vec![spec("other", 200)], None),
        (vec![spec("other", 400)], Some(NoSpace)),
        (vec![spec("vm", 600), spec("other", 200)], None),
        // Each has room alone.
        (vec![spec("one", 200), spec("other", 200)], Some(NoSpace)),
        // What one gives back another may have, whichever comes first.
        (vec![spec("other", 400), spec("vm", 400)], None),
        (vec![spec("other", 600), spec("vm", 400)], Some(NoSpace)),
        (vec![VolumeSpec { read_only: true, ..spec("other", 200) }], None),
        (many, Some(NoSpace)),
    ];
    for (specs, expected) in cases {
        let mut world = used(300);
        let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).take(3).collect();
        assert_eq!(refusal(&mut world.ssd, &specs), expected, "{names:?}");
        assert_eq!(attach_all(&mut world.ssd, &specs), expected, "{names:?}");
    }
}

/// The SSD has four extents of about 250 places, three of them 'vm''s.
#[test]
fn spare_places_are_granted_from_what_no_volume_needs() {
    let mut world = used(1);
    let view = StoreView::read(&mut world.ssd).unwrap();
    let in_extents = |extents: u64| {
        let layout = view.superblock().layout().unwrap();
        extents * u64::from(layout.extent.places)
    };
    let granted = |wanted: &[(&str, u64, u64)]| {
        let mut specs: Vec<_> = wanted
            .iter()
            .map(|&(name, places, spare_places)| VolumeSpec { spare_places, ..spec(name, places) })
            .collect();
        view.grant_spares(&mut specs);
        assert!(specs.iter().all(|spec| spec.spare_places == 0));
        let places: Vec<_> = specs.iter().map(|spec| spec.places).collect();
        specs.retain(|spec| spec.places > 0);
        assert_eq!(attach_all(&mut world.ssd.clone(), &specs), None, "{places:?}");
        places
    };
    assert_eq!(granted(&[("vm", 600, 10)]), [610], "the last extent has more");
    assert_eq!(granted(&[("vm", 600, 300)]), [900], "one is free");
    assert_eq!(granted(&[("vm", 600, 9000)]), [in_extents(4)]);
    // What others need comes first, in whatever order they are.
    assert_eq!(granted(&[("vm", 600, 9000), ("other", 200, 0)]), [in_extents(3), 200]);
    assert_eq!(granted(&[("other", 200, 9000), ("vm", 600, 9000)]), [in_extents(1), in_extents(3)]);
    // What one gives back another has, and a volume without a share takes nothing.
    assert_eq!(granted(&[("other", 200, 9000), ("vm", 100, 0)]), [in_extents(3), 100]);
    assert_eq!(granted(&[("vm", 600, 9000), ("none", 0, 0)]), [in_extents(4), 0]);
}

#[test]
fn g6_a_check_refuses_names_that_come_twice() {
    let mut world = used(1);
    let specs = [spec("new", 1), spec("new", 1)];
    assert_eq!(refusal(&mut world.ssd, &specs), Some(StoreErrorKind::Geometry));
}

#[test]
fn g6_a_check_refuses_other_devices_and_damaged_ones() {
    let specs = [spec("vm", 600)];
    assert_eq!(refusal(&mut SimDisk::new(1 << 20), &specs), Some(StoreErrorKind::NotACache));
    assert_eq!(refusal(&mut SimDisk::new(4096), &specs), Some(StoreErrorKind::NotACache));
    let world = used(1);
    let mut larger = SimDisk::new(SSD_BYTES + 4096);
    larger.put(0, &bytes_of(&world.ssd));
    assert_eq!(refusal(&mut larger, &specs), Some(StoreErrorKind::WrongSize));
    let mut damaged = world.ssd.clone();
    for copy in 0..2 {
        damaged.flip_bit(lode_format::DeviceLayout::directory(copy) + 99, 1);
    }
    assert_eq!(refusal(&mut damaged, &specs), Some(StoreErrorKind::Damaged));
    // A table of which no copy is left: whoever is to shrink is refused.
    let mut damaged = world.ssd.clone();
    for at in (0..SSD_BYTES).step_by(BLOCK as usize) {
        let mut magic = [0; 512];
        damaged.peek(at, &mut magic);
        if magic.starts_with(b"LODEslot") {
            damaged.flip_bit(at + 99, 1);
        }
    }
    assert_eq!(refusal(&mut damaged, &[spec("vm", 1)]), Some(StoreErrorKind::Damaged));
}

#[test]
fn g6_looking_changes_nothing() {
    let mut world = used(BLOCKS);
    world.restart(volume("vm", 600)).unwrap();
    world.drain();
    write(&mut world, 0, 20 * BLOCK, 9).unwrap();
    world.settle();
    world.go_down(false);
    let before = bytes_of(&world.ssd);
    world.ssd.fail_after = Some(0);
    let view = StoreView::read(&mut world.ssd).unwrap();
    let volumes: Vec<_> = view.volumes().collect();
    assert_eq!(volumes.len(), 1);
    assert_eq!((volumes[0].name.as_str(), volumes[0].extents), ("vm", 3));
    assert_eq!((volumes[0].backing_bytes, volumes[0].space_bytes), (VOLUME_BYTES - 1024, 3 << 20));
    assert_eq!(view.free_extents(), 1);
    let counts = view.count_blocks(&mut world.ssd, "vm").unwrap();
    assert_eq!(counts, BlockCounts { clean: BLOCKS - 20, dirty: 20 });
    let error = view.count_blocks(&mut world.ssd, "other").unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::NoSuchVolume);
    assert!(bytes_of(&world.ssd) == before);
}

#[test]
fn g6_a_removal_discards_dirty_blocks_only_by_force() {
    let mut world = used(BLOCKS);
    let before = bytes_of(&world.ssd);
    let error = remove(&mut world.ssd, "vm", false).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::HoldsDirty { blocks: BLOCKS });
    let error = remove(&mut world.ssd, "other", true).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::NoSuchVolume);
    assert!(bytes_of(&world.ssd) == before, "a refusal writes nothing");
    // After a drain it goes without force.
    let mut drained = used(BLOCKS);
    drained.restart(volume("vm", 600)).unwrap();
    drained.drain();
    drained.settle();
    drained.go_down(false);
    for (world, force) in [(&mut world, true), (&mut drained, false)] {
        let removed = remove(&mut world.ssd, "vm", force).unwrap();
        assert_eq!((removed.name.as_str(), removed.extents), ("vm", 3));
        let view = StoreView::read(&mut world.ssd).unwrap();
        assert_eq!((view.volumes().count(), view.free_extents()), (0, 4));
    }
}

/// Whatever write of a removal is the last one, the volume is there as a whole or gone. A new volume of any name gets
/// its space and sees nothing of it, not even when the newer superblock is lost, from which tags come.
#[test]
fn g4_removals_are_cut_short_anywhere() {
    let mut outcomes = [0, 0];
    for writes in 0..14 {
        for seed in first_seeds(seeds()) {
            let mut world = used(BLOCKS);
            world.ssd.fail_after = Some(writes);
            let removed = remove(&mut world.ssd, "vm", true);
            world.ssd.fail_after = None;
            world.ssd.power_cut(&mut Rng::new(seed));
            let is_there = StoreView::read(&mut world.ssd).unwrap().volumes().count() == 1;
            assert!(!is_there || removed.is_err());
            outcomes[usize::from(is_there)] += 1;
            if is_there {
                world.restart(volume("vm", 600)).unwrap();
                for block in 0..BLOCKS {
                    assert_eq!(
                        read(&mut world, block * BLOCK, BLOCK),
                        Ok(pattern(block as u8, BLOCK as usize))
                    );
                }
                continue;
            }
            if seed % 2 == 1 {
                lose_newest_superblock(&mut world.ssd);
            }
            let name = ["vm", "other"][seed as usize / 2 % 2];
            let mut next = owner_of(world.ssd, name, seed);
            for block in 0..BLOCKS {
                assert_eq!(read(&mut next, block * BLOCK, BLOCK), Ok(vec![0; BLOCK as usize]), "a leak");
            }
        }
    }
    assert!(outcomes.iter().all(|&count| count > 0), "{outcomes:?}");
}

/// A new volume in its second run, so that its tables and its journal were read.
fn owner_of(ssd: SimDisk, name: &str, seed: u64) -> World {
    let mut world = World::on(volume(name, 600), seed, ssd).unwrap();
    world.go_down(true);
    world.restart(volume(name, 600)).unwrap();
    world
}

fn lose_newest_superblock(ssd: &mut SimDisk) {
    let generation = Store::probe(ssd).unwrap().generation;
    ssd.flip_bit(lode_format::DeviceLayout::superblock((generation & 1) as u8) + 40, 3);
    assert_eq!(Store::probe(ssd).unwrap().generation, generation - 1);
}

/// Guests of later owners, over crashes, in the places of removed volumes.
#[test]
fn g4_later_owners_see_nothing_of_removed_volumes() {
    for seed in first_seeds(seeds()) {
        let mut world = used(300);
        let mut rng = Rng::new(seed);
        for run in 0..4u64 {
            let names = ["vm", "other", "third"];
            let names = [names[run as usize % 3], names[(run as usize + 1) % 3]];
            if run > 0 && rng.chance(50) {
                lose_newest_superblock(&mut world.ssd);
            }
            remove(&mut world.ssd, names[0], true).unwrap();
            world = owner_of(world.ssd, names[1], seed);
            for block in 0..VOLUME_BYTES / BLOCK - 1 {
                assert_eq!(read(&mut world, block * BLOCK, BLOCK), Ok(vec![0; BLOCK as usize]), "a leak");
            }
            for _ in 0..300 {
                let name = 1 + rng.below(200) as u8;
                write(&mut world, rng.below(400) * BLOCK, BLOCK, name).unwrap();
            }
            world.go_down(rng.chance(50));
        }
    }
}

/// A look from outside counts what the next run finds, also where a drain was cut short.
#[test]
fn g6_counts_are_those_of_the_next_life() {
    for seed in first_seeds(seeds()) {
        let mut world = used(BLOCKS);
        world.restart(volume("vm", 600)).unwrap();
        world.drain();
        (0..seed * 2).for_each(|_| {
            world.step();
        });
        world.go_down(seed % 2 == 0);
        let view = StoreView::read(&mut world.ssd).unwrap();
        let counts = view.count_blocks(&mut world.ssd, "vm").unwrap();
        assert_eq!(counts.clean + counts.dirty, BLOCKS);
        world.restart(volume("vm", 600)).unwrap();
        assert_eq!(u64::from(world.engine().gauges().dirty_blocks), counts.dirty);
    }
}

/// The epoch tells an old copy of an SSD from the newest one, so that either superblock alone has to know it.
#[test]
fn g2_one_damaged_superblock_does_not_make_a_cache_look_old() {
    let machine = machine("etica", &["assoc=4"], Quota::new(20, 60));
    for copy in 0..2 {
        let mut ssd = World::formatted_ssd(&machine).unwrap();
        for _life in 0..3 {
            let epoch = Store::open(&mut ssd).unwrap().superblock().epoch;
            let mut damaged = ssd.clone();
            damaged.write(DeviceLayout::superblock(copy), &[0xa5; 4096]).unwrap();
            assert_eq!(Store::probe(&mut damaged).unwrap().epoch, epoch);
        }
    }
}
