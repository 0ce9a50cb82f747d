//! Clean blocks on a pair of SSDs: each is on one of the two, by stripes, and goes with it. What went is never taken for what is in its
//! place on the other one, nor on the one that comes (guarantees 5 and 9 of `docs/design.md`).

use lode_policy::Quota;
use lode_sim::scenario::{BLOCK, flush, machine, pattern, read, write};
use lode_sim::{Machine, World};
use lode_store::SyncDevice;
use lode_store::pair::{MEMBERS, STRIPE_BYTES};

const BLOCKS: u64 = 200;

/// A cache of one level on a pair, with room for all of the blocks that are used.
fn lru() -> Machine {
    let mut machine = machine("lru", &["write_policy=wb"], Quota::new(0, 250));
    machine.config.ssd_is_pair = true;
    machine
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
    let reads = |world: &World| world.engine().counters().read_hits.iter().sum::<u64>();
    let (hits, dropped) = (reads(world), world.engine().gauges().dropped_clean_copies);
    read_all(world);
    let gauges = world.engine().gauges();
    (reads(world) - hits, gauges.dropped_clean_copies - dropped, world.engine().alarms().damaged_clean)
}

/// How many of the clean blocks each member has, at whatever place.
fn held(world: &World) -> [usize; MEMBERS] {
    let pair = world.pair.as_ref().expect("a pair");
    [&world.ssd, &pair.second].map(|disk| {
        let has = |block: &u64| {
            let want = pattern(*block as u8, BLOCK as usize);
            let mut bytes = vec![0; BLOCK as usize];
            (0..disk.size_bytes()).step_by(BLOCK as usize).any(|at| {
                disk.peek(at, &mut bytes);
                bytes == want
            })
        };
        (0..BLOCKS / 2).filter(has).count()
    })
}

#[test]
fn a_clean_block_is_on_one_ssd_and_a_dirty_one_on_both() {
    let world = filled(&lru());
    let [first, second] = held(&world);
    assert_eq!(first + second, BLOCKS as usize / 2);
    assert!(
        u64::from(lru().config.share.ssd_blocks) * BLOCK < STRIPE_BYTES,
        "so that one of them may have none"
    );
}

#[test]
fn g9_what_went_with_an_ssd_is_read_from_the_backing_disk_and_cached_again() {
    for member in [0, 1] {
        let mut world = filled(&lru());
        let held = held(&world)[member] as u64;
        world.take_member_out(member);
        world.settle();
        let (_, dropped, damaged) = look(&mut world);
        assert_eq!((dropped, damaged), (held, 0), "member {member}");
        assert_eq!(look(&mut world), (BLOCKS, 0, 0), "member {member}");
    }
}

#[test]
fn g9_a_start_without_an_ssd_does_not_look_for_what_it_alone_had() {
    for member in [0, 1] {
        let machine = lru();
        let mut world = filled(&machine);
        let held = held(&world)[member] as u64;
        world.go_down(true);
        world.pair.as_mut().expect("a pair").replace(&mut world.ssd, member);
        world.restart(machine.clone()).unwrap();
        let (_, dropped, damaged) = look(&mut world);
        assert_eq!((dropped, damaged), (held, 0), "member {member}");
        // The next start without it knows which came since.
        world.go_down(true);
        world.restart(machine.clone()).unwrap();
        assert_eq!(look(&mut world), (BLOCKS, 0, 0), "member {member}");
    }
}

#[test]
fn g9_an_ssd_that_was_resilvered_does_not_have_what_the_one_before_it_alone_had() {
    for member in [0, 1] {
        let machine = lru();
        let mut world = filled(&machine);
        let held = held(&world)[member] as u64;
        world.take_member_out(member);
        world.settle();
        world.replace_member();
        for _ in 0..8 {
            world.settle();
            world.tick();
        }
        assert_eq!(world.pair.as_ref().expect("a pair").resilvered(), 1, "member {member}");
        // Nothing was read meanwhile, so that the tables still speak of it. This run knows, and so does the next one.
        world.go_down(true);
        world.restart(machine.clone()).unwrap();
        let (_, dropped, damaged) = look(&mut world);
        assert!(dropped >= held && damaged == 0, "member {member}: {dropped} of {held}, {damaged}");
        // What was cached since is believed.
        world.go_down(false);
        world.restart(machine).unwrap();
        assert_eq!(look(&mut world), (BLOCKS, 0, 0), "member {member}");
    }
}
