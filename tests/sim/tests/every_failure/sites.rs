//! Hosts as operations find them. It must not know what is done with them.

use lode_policy::Quota;
use lode_sim::scenario::{
    BLOCK, damage, damage_on, flush, machine, ordered, paired, paired_later, spread, tica, write,
};
use lode_sim::{Access, Copies, Machine, OtherPair, SimDisk, World};
use lode_store::{Store, VolumeSpec};

use super::runs::{drains, formats, replaces_offline};
use super::{BLOCKS, Site};

pub(super) fn lru() -> Machine {
    machine("lru", &["write_policy=wb"], Quota::new(0, 60))
}

pub(super) fn on_a_pair() -> Machine {
    paired(lru())
}

/// On two pairs, on both of which the volume has an extent.
pub(super) fn paired_twice() -> Machine {
    spread(machine("lru", &["write_policy=wb"], Quota::new(0, 90)), 1)
}

/// Where a block is on the disk: none beside another, so that no two are one command.
pub(super) fn at(block: u64) -> u64 {
    2 * block * BLOCK
}

pub(super) fn name_of(block: u64) -> u8 {
    block as u8 + 1
}

pub(super) fn write_all(world: &mut World) {
    for block in 0..BLOCKS {
        write(world, at(block), BLOCK, name_of(block)).unwrap();
    }
    flush(world).unwrap();
    world.settle();
}

/// A volume that has blocks on both pairs, of those that are looked at as well.
fn site_on_two_pairs(machine: Machine) -> Site {
    // About as many as are on the first one.
    const OTHERS: u64 = 50;
    let first = at(BLOCKS).next_multiple_of(machine.config.block.bytes());
    let mut world = World::new(machine.clone(), 1).unwrap();
    for other in 0..OTHERS {
        write(&mut world, first + other * machine.config.block.bytes(), BLOCK, 0).unwrap();
    }
    write_all(&mut world);
    Site::of(world, machine)
}

pub(super) fn site(machine: Machine) -> Site {
    let mut world = World::new(machine.clone(), 1).unwrap();
    write_all(&mut world);
    Site::of(world, machine)
}

pub(super) fn down(mut site: Site, power_cut: bool) -> Site {
    site.go_down(power_cut);
    site
}

pub(super) fn unused() -> Site {
    let (mut world, machine) = (World::down(lru(), 1), lru());
    world.ssd = SimDisk::new(machine.ssd_bytes);
    world.ssd.put(0, &[0xa5; 64 << 10]);
    world.ssd.settle(world.ssd.flush_mark());
    Site::of(world, machine)
}

pub(super) fn unused_pair() -> Site {
    replaced(site(on_a_pair()))
}

pub(super) fn unused_pairs() -> Site {
    replaced(site_on_two_pairs(paired_twice()))
}

/// There are other devices in the places of all members.
pub(super) fn replaced(site: Site) -> Site {
    let mut site = down(site, true);
    let World { ssd, pair, other_pairs, .. } = &mut site.world;
    for member in 0..2 {
        pair.as_mut().expect("a pair").replace(ssd, member);
        other_pairs.iter_mut().for_each(|OtherPair { first, pair }| pair.replace(first, member));
    }
    site
}

pub(super) fn formatted() -> Site {
    let mut site = unused();
    assert!(formats(&mut site));
    site
}

pub(super) fn killed() -> Site {
    let mut site = site(lru());
    // The records of these are in memory alone.
    for block in 0..4 {
        write(&mut site.world, at(block), BLOCK, name_of(block)).unwrap();
    }
    down(site, false)
}

pub(super) fn cut() -> Site {
    down(site(lru()), true)
}

pub(super) fn killed_pair() -> Site {
    down(site(on_a_pair()), false)
}

pub(super) fn killed_pairs() -> Site {
    down(site_on_two_pairs(paired_twice()), false)
}

/// A new device is a member, and has nothing.
pub(super) fn one_is_new() -> Site {
    let mut site = killed_pair();
    assert!(replaces_offline(&mut site));
    site
}

pub(super) fn other_spec() -> VolumeSpec {
    VolumeSpec {
        name: "other".to_owned(),
        backing_bytes: 1 << 20,
        places: 10,
        spare_places: 0,
        ready_places: u64::MAX,
        read_only: false,
        distrusts: None,
    }
}

pub(super) fn two_volumes() -> Site {
    beside_another(lru())
}

pub(super) fn two_volumes_on_pair() -> Site {
    beside_another(on_a_pair())
}

fn beside_another(machine: Machine) -> Site {
    let mut site = down(site(Machine { ssd_bytes: 4 << 20, ..machine }), true);
    let mut cache = site.world.open_cache().unwrap();
    let mut store = Store::open(&mut *cache).unwrap();
    store.attach(&mut *cache, &other_spec()).unwrap();
    cache.flush().unwrap();
    drop(cache);
    site
}

pub(super) fn dirty() -> Site {
    site(lru())
}

pub(super) fn dirty_in_order() -> Site {
    site(ordered(lru(), 24, 1))
}

pub(super) fn dirty_pair() -> Site {
    site(on_a_pair())
}

pub(super) fn dirty_before_second() -> Site {
    site(paired_later(lru()))
}

pub(super) fn dirty_pairs() -> Site {
    site_on_two_pairs(paired_twice())
}

pub(super) fn damaged_clean() -> Site {
    down(damaged(drained(lru())), true)
}

pub(super) fn damaged_dirty() -> Site {
    Site { lost: Some(DAMAGED), ..down(damaged(site(lru())), true) }
}

/// The second SSD has what is damaged on the first one.
pub(super) fn damaged_on_first() -> Site {
    Site { lost: Some(DAMAGED), ..down(damaged(site(on_a_pair())), true) }
}

/// These copies of superblock, directory and table pages are gone, on the SSD or the first one of a pair.
fn without(copies: Copies, machine: Machine) -> Site {
    const PAGES: usize = 3;
    let mut site = down(site(machine), true);
    assert!(site.world.lose_copies(copies) >= PAGES);
    site
}

pub(super) fn without_newer() -> Site {
    without(Copies::Newer, lru())
}

pub(super) fn without_older() -> Site {
    without(Copies::Older, lru())
}

pub(super) fn without_newer_on_first() -> Site {
    without(Copies::Newer, on_a_pair())
}

pub(super) fn without_any_on_first() -> Site {
    without(Copies::Both, on_a_pair())
}

/// The log holds a group of which the disk has nothing for sure.
pub(super) fn group_in_log() -> Site {
    const MOST_STEPS: usize = 10_000;
    let mut site = dirty_in_order();
    for block in 0..BLOCKS {
        write(&mut site.world, at(block), BLOCK, name_of(block)).unwrap();
    }
    site.world.drain();
    let has_group = |world: &World| {
        let log = lode_store::read_redo_log(&mut world.redo.clone());
        log.is_ok_and(|log| log.is_some_and(|log| !log.entries.is_empty()))
    };
    for _ in 0..MOST_STEPS {
        if has_group(&site.world) {
            return down(site, false);
        }
        site.world.step();
    }
    panic!("no group comes to the log")
}

/// A scrub passes with each tick.
fn scrubbed(mut machine: Machine) -> Machine {
    machine.config.scrub_ticks = Some(1);
    machine
}

/// A block that goes bad after all is settled, on this device alone.
const DAMAGED: u64 = 7;

fn damaged(mut site: Site) -> Site {
    assert_eq!(damage(&mut site.world, name_of(DAMAGED)), 1);
    site
}

pub(super) fn rotten() -> Site {
    Site { lost: Some(DAMAGED), ..damaged(site(scrubbed(lru()))) }
}

fn drained(machine: Machine) -> Site {
    let mut site = site(machine);
    assert!(drains(&mut site));
    site.world.stop_drain();
    site
}

pub(super) fn rotten_clean() -> Site {
    damaged(drained(scrubbed(lru())))
}

pub(super) fn rotten_clean_on_pair() -> Site {
    damaged(drained(scrubbed(on_a_pair())))
}

/// The second SSD has what is damaged on the first one.
pub(super) fn rotten_on_first() -> Site {
    Site { lost: Some(DAMAGED), ..damaged(site(scrubbed(on_a_pair()))) }
}

/// The first SSD fails the next read that it is asked for.
pub(super) fn unreadable_on_first() -> Site {
    let mut site = site(scrubbed(on_a_pair()));
    site.world.ssd.fail_nth = Some((Access::Read, 0));
    site
}

fn with_read_ssd() -> Machine {
    scrubbed(tica("tica-ef"))
}

pub(super) fn dirty_on_two() -> Site {
    site(with_read_ssd())
}

/// There is a read SSD, which the scheme does not use.
pub(super) fn dirty_on_one() -> Site {
    let with_both = with_read_ssd();
    site(Machine { settings: lru().settings, ..with_both })
}

/// The second SSD of the second pair has what is damaged on the first one.
pub(super) fn rotten_on_other() -> Site {
    const LAST: u64 = BLOCKS - 1;
    let mut site = site_on_two_pairs(scrubbed(paired_twice()));
    assert_eq!(damage_on(&mut site.world.other_pairs[0].first, name_of(LAST)), 1);
    Site { lost: Some(LAST), ..site }
}

/// What is damaged on the read SSD is on the other one.
pub(super) fn rotten_mirror() -> Site {
    let mut site = dirty_on_two();
    assert_eq!(damage_on(&mut site.world.read_ssd, name_of(DAMAGED)), 1);
    site
}

/// The read SSD has what is damaged on the other one.
pub(super) fn rotten_on_one() -> Site {
    Site { lost: Some(DAMAGED), ..damaged(dirty_on_two()) }
}
