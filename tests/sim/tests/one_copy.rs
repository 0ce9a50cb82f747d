//! Clean blocks on a pair of SSDs: each is on one of the two, by stripes, and goes with it. What went is never taken for what is in its
//! place on the other one, nor on the one that comes (guarantees 5 and 9 of `docs/design.md`).

use lode_format::Directory;
use lode_policy::Quota;
use lode_sim::scenario::{BLOCK, flush, machine, paired, pattern, read, write};
use lode_sim::{Access, Machine, OtherPair, SimDisk, SimPair, World};
use lode_store::pair::MEMBERS;
use lode_store::{DirectoryOutput, MembershipChange, Store, SyncDevice};

const BLOCKS: u64 = 200;

/// A cache of one level on a pair, and others beside it, with room for all of the blocks that are used.
fn lru(other_pairs: u64) -> Machine {
    Machine { other_pairs, ..paired(machine("lru", &["write_policy=wb"], Quota::new(0, 250))) }
}

/// The same on pairs whose second SSDs have not come yet, with room for twice as many blocks, so that clean ones have either home.
fn lru_later(other_pairs: u64) -> Machine {
    let mut machine = Machine { mirror_later: true, ssd_bytes: 5 << 20, ..lru(other_pairs) };
    machine.config.share = Quota::new(0, 450);
    machine
}

/// Reads as many other blocks, which nobody has written. Gives how many of them the SSDs had.
fn read_others(world: &mut World) -> u64 {
    let (hits, dropped) = (hits_of(world), world.engine().gauges().dropped_clean_copies);
    for block in BLOCKS..2 * BLOCKS {
        assert_eq!(read(world, block * BLOCK, BLOCK), Ok(vec![0; BLOCK as usize]), "block {block}");
    }
    world.settle();
    hits_of(world) - hits - (world.engine().gauges().dropped_clean_copies - dropped)
}

fn hits_of(world: &World) -> u64 {
    world.engine().counters().read_hits.iter().sum::<u64>()
}

/// Every member: of a cache on one pair, and of the second of two.
fn members() -> impl Iterator<Item = (Machine, usize, usize)> {
    let pairs = [(0, 0), (1, 1)];
    pairs.into_iter().flat_map(|(others, pair)| [0, 1].map(|member| (lru(others), pair, member)))
}

/// Blocks with patterns of their own, half of them clean copies of what the backing disk has and half of them dirty.
fn filled(machine: &Machine) -> World {
    let mut world = World::new(Machine { settings: around(), ..machine.clone() }, 1).unwrap();
    (0..BLOCKS).for_each(|block| write(&mut world, block * BLOCK, BLOCK, block as u8).unwrap());
    flush(&mut world).unwrap();
    world.settle();
    world.go_down(false);
    world.restart(machine.clone()).unwrap();
    read_all(&mut world);
    for block in BLOCKS / 2..BLOCKS {
        write(&mut world, block * BLOCK, BLOCK, block as u8).unwrap();
    }
    flush(&mut world).unwrap();
    world.settle();
    world
}

/// What is written goes past the SSD.
fn around() -> lode_policy::Settings {
    machine("lru", &["write_policy=ro"], Quota::new(0, 250)).settings
}

fn read_all(world: &mut World) {
    for block in 0..BLOCKS {
        let found = read(world, block * BLOCK, BLOCK);
        assert_eq!(found, Ok(pattern(block as u8, BLOCK as usize)), "block {block}");
    }
    world.settle();
}

/// Reads all blocks. Gives how many the SSDs had, how many had gone with one of them, and how many were damaged.
fn look(world: &mut World) -> (u64, u64, u64) {
    let (hits, dropped) = (hits_of(world), world.engine().gauges().dropped_clean_copies);
    read_all(world);
    let gauges = world.engine().gauges();
    (hits_of(world) - hits, gauges.dropped_clean_copies - dropped, world.engine().alarms().damaged_clean)
}

/// How many of the clean blocks each member of each pair has, at whatever place.
fn held(world: &World) -> Vec<[usize; MEMBERS]> {
    let pair = world.pair.as_ref().expect("a pair");
    let others = world.other_pairs.iter().map(|other| [&other.first, &other.pair.second]);
    let count = |disk: &SimDisk| {
        let has = |block: &u64| {
            let want = pattern(*block as u8, BLOCK as usize);
            let mut bytes = vec![0; BLOCK as usize];
            (0..disk.size_bytes()).step_by(BLOCK as usize).any(|at| {
                disk.peek(at, &mut bytes);
                bytes == want
            })
        };
        (0..BLOCKS / 2).filter(has).count()
    };
    std::iter::once([&world.ssd, &pair.second]).chain(others).map(|pair| pair.map(count)).collect()
}

fn pair_of(world: &mut World, pair: usize) -> &mut SimPair {
    match pair {
        0 => world.pair.as_mut().expect("a pair"),
        other => &mut world.other_pairs[other - 1].pair,
    }
}

/// An empty device is in the place of a member while nobody serves the pair.
fn replace(world: &mut World, pair: usize, member: usize) {
    match pair {
        0 => world.pair.as_mut().expect("a pair").replace(&mut world.ssd, member),
        other => {
            let OtherPair { first, pair } = &mut world.other_pairs[other - 1];
            pair.replace(first, member);
        }
    }
}

fn resilvered(world: &World) -> u64 {
    let others = world.other_pairs.iter().map(|other| other.pair.resilvered());
    world.pair.as_ref().expect("a pair").resilvered() + others.sum::<u64>()
}

#[test]
fn a_clean_block_is_on_one_ssd_and_a_dirty_one_on_both() {
    for others in [0, 1] {
        let world = filled(&lru(others));
        assert_eq!(held(&world).iter().flatten().sum::<usize>(), BLOCKS as usize / 2);
    }
}

#[test]
fn g9_what_went_with_an_ssd_is_read_from_the_backing_disk_and_cached_again() {
    for (machine, pair, member) in members() {
        let mut world = filled(&machine);
        let held = held(&world)[pair][member] as u64;
        world.take_member_out_of(pair, member);
        world.settle();
        let (_, dropped, damaged) = look(&mut world);
        assert_eq!((dropped, damaged), (held, 0), "pair {pair}, member {member}");
        assert_eq!(look(&mut world), (BLOCKS, 0, 0), "pair {pair}, member {member}");
    }
}

#[test]
fn g9_a_start_without_an_ssd_does_not_look_for_what_it_alone_had() {
    for (machine, pair, member) in members() {
        let mut world = filled(&machine);
        let held = held(&world)[pair][member] as u64;
        world.go_down(true);
        replace(&mut world, pair, member);
        world.restart(machine.clone()).unwrap();
        let (_, dropped, damaged) = look(&mut world);
        assert_eq!((dropped, damaged), (held, 0), "pair {pair}, member {member}");
        // The next start without it knows which came since.
        world.go_down(true);
        world.restart(machine.clone()).unwrap();
        assert_eq!(look(&mut world), (BLOCKS, 0, 0), "pair {pair}, member {member}");
    }
}

#[test]
fn g9_an_ssd_that_was_resilvered_does_not_have_what_the_one_before_it_alone_had() {
    for (machine, pair, member) in members() {
        let mut world = filled(&machine);
        let held = held(&world)[pair][member] as u64;
        world.take_member_out_of(pair, member);
        world.settle();
        world.replace_member_of(pair);
        world.settle_resilvers();
        assert_eq!(resilvered(&world), 1, "pair {pair}, member {member}");
        // Nothing was read meanwhile, so that the tables still speak of it. This run knows, and so does the next one.
        world.go_down(true);
        world.restart(machine.clone()).unwrap();
        let (_, dropped, damaged) = look(&mut world);
        let what = format!("pair {pair}, member {member}: {dropped} of {held}, {damaged}");
        assert!(dropped >= held && damaged == 0, "{what}");
        // What was cached since is believed.
        world.go_down(false);
        world.restart(machine).unwrap();
        assert_eq!(look(&mut world), (BLOCKS, 0, 0), "{what}");
    }
}

/// After a start without an SSD the new one has everything, gets clean blocks for itself alone, and labels do not say so yet when the
/// power fails.
#[test]
fn g9_a_resilver_that_is_cut_short_leaves_no_copies_to_be_believed() {
    let mut alone = 0;
    for (machine, pair, member) in members() {
        let mut world = filled(&machine);
        world.go_down(true);
        replace(&mut world, pair, member);
        world.restart(machine.clone()).unwrap();
        pair_of(&mut world, pair).holds_labels = true;
        world.replace_member_of(pair);
        (0..40).for_each(|_| {
            world.settle();
            world.tick();
        });
        let has = |world: &World| held(world)[pair];
        let before = has(&world);
        for block in 0..BLOCKS / 2 {
            let found = read(&mut world, block * BLOCK, BLOCK);
            assert_eq!(found, Ok(pattern(block as u8, BLOCK as usize)), "block {block}");
            // For the record of what was read to become durable.
            let dirty = BLOCKS / 2 + block;
            write(&mut world, dirty * BLOCK, BLOCK, dirty as u8).unwrap();
            flush(&mut world).unwrap();
        }
        let what = format!("pair {pair}, member {member}");
        assert_eq!(resilvered(&world), 0, "{what}");
        let now = has(&world);
        alone += usize::from(now[member] > before[member] && now[1 - member] < now[member]);
        world.go_down(true);
        world.restart(machine.clone()).unwrap();
        let (_, dropped, damaged) = look(&mut world);
        assert_eq!(damaged, 0, "{what}: {dropped}, {before:?}, {now:?}");
    }
    assert!(alone > 0, "none of them had anything for itself alone");
}

/// New devices fail at any moment of their resilver, one after the other. The SSD that has everything is believed all the same.
#[test]
fn g9_new_ssds_that_fail_do_not_make_the_other_one_seem_old() {
    let machine = lru(0);
    for (member, flushes) in (0..6).flat_map(|flushes| [(0, flushes), (1, flushes)]) {
        let mut world = filled(&machine);
        world.go_down(true);
        replace(&mut world, 0, member);
        world.restart(machine.clone()).unwrap();
        for _ in 0..2 {
            let pair = world.pair.as_mut().expect("a pair");
            let disk = if member == 0 { &mut world.ssd } else { &mut pair.second };
            disk.fail_nth = Some((Access::Flush, flushes));
            world.replace_member();
            world.settle_resilvers();
        }
        // One more has just come when the power fails.
        world.replace_member();
        (0..3).for_each(|block| drop(read(&mut world, block * BLOCK, BLOCK)));
        world.go_down(true);
        world.restart(machine.clone()).unwrap();
        let (_, _, damaged) = look(&mut world);
        assert_eq!(damaged, 0, "member {member}, flush {flushes}");
    }
}

/// A volume that comes after another one went is of the run that began before, as the SSD that is dropped in that.
#[test]
fn g9_a_volume_that_is_added_is_of_the_run_that_is_on() {
    let machine = lru(0);
    let machine = Machine { ssd_bytes: 6 << 20, ..machine };
    let mut ssd = World::formatted_ssd(&machine).unwrap();
    let mut store = Store::open(&mut ssd).unwrap();
    let tag = store.attach(&mut ssd, &machine.spec()).unwrap().tag();
    let cache = store.superblock().cache;
    let epoch = store.superblock().epoch;
    let mut directory = store.into_directory();
    let mut last = None;
    let create = MembershipChange::Create {
        name: "new".to_owned(),
        backing_bytes: 1 << 20,
        extents: 1,
        ready_extents: 1,
    };
    for change in [MembershipChange::Remove(tag), create] {
        directory.begin_membership(&change).unwrap();
        while let Some(output) = directory.next_output() {
            if let DirectoryOutput::Write { buf, .. } = output {
                last = Some(buf);
            }
            directory.done();
        }
    }
    let written = Directory::decode(cache, last.expect("a directory").as_slice()).unwrap();
    let (_, volume) = written.find("new").expect("it is there");
    assert!(directory.superblock().epoch > epoch);
    assert_eq!(volume.attached_in, epoch);
}

/// All is on the first SSD until the second comes, and nothing went with one that never was there. Then either may go.
#[test]
fn g9_no_copy_is_missed_before_the_second_ssd_has_come() {
    for (others, gone) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let machine = lru_later(others);
        let mut world = filled(&machine);
        read_others(&mut world);
        assert!(held(&world).iter().all(|&[_, second]| second == 0), "{others} other pairs");
        for power_cut in [false, true] {
            world.go_down(power_cut);
            world.restart(machine.clone()).unwrap();
            assert_eq!(look(&mut world), (BLOCKS, 0, 0), "{others} other pairs, power cut: {power_cut}");
            assert_eq!(read_others(&mut world), BLOCKS, "{others} other pairs, power cut: {power_cut}");
        }
        for pair in 0..=others as usize {
            world.replace_member_of(pair);
        }
        world.settle_resilvers();
        assert_eq!(resilvered(&world), 1 + others);
        assert_eq!(look(&mut world), (BLOCKS, 0, 0), "{others} other pairs");
        world.go_down(true);
        (0..=others as usize).for_each(|pair| replace(&mut world, pair, gone));
        world.restart(machine).unwrap();
        // Of clean blocks at most those are gone that have their home there.
        let (_, dropped, damaged) = look(&mut world);
        assert!(dropped <= BLOCKS / 2 && damaged == 0, "{dropped} {damaged}");
        assert_eq!(look(&mut world), (BLOCKS, 0, 0), "{others} other pairs");
    }
}
