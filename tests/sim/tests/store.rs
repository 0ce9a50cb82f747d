//! Guarantees 2, 4 and 6 of `docs/design.md` for management: formatting, starting, growing and shrinking cut
//! short anywhere, several volumes on one SSD, damaged metadata.

use lode_engine::{GuestOp, GuestRequest};
use lode_policy::Quota;
use lode_sim::scenario::{BLOCK, first_seeds, flush, machine, pattern, plan, read, seeds, write};
use lode_sim::{Crash, Machine, Plan, Rng, SimDisk, World, run, run_on_one_ssd, run_together};
use lode_store::{Store, StoreErrorKind, SyncDevice};
use lode_types::BlockSize;
use proptest::prelude::*;

const SSD_BYTES: u64 = 5 << 20;

fn volume(name: &str, ssd_blocks: u32) -> Machine {
    let mut machine = machine("lru", &["write_policy=wb", "assoc=8"], Quota::new(0, ssd_blocks));
    machine.name = name.to_owned();
    machine.ssd_bytes = SSD_BYTES;
    machine
}

/// One extent, and three.
fn small(name: &str) -> Machine {
    volume(name, 160)
}

fn large(name: &str) -> Machine {
    volume(name, 600)
}

fn write_all(world: &mut World, names: impl Fn(u64) -> u8) {
    for block in 0..100 {
        write(world, block * BLOCK, BLOCK, names(block)).unwrap();
    }
    flush(world).unwrap();
}

fn check_all(world: &mut World, names: impl Fn(u64) -> u8) {
    for block in 0..100 {
        let bytes = read(world, block * BLOCK, BLOCK);
        assert!(bytes == Ok(pattern(names(block), BLOCK as usize)), "block {block} is wrong");
    }
}

/// A stopped volume whose dirty blocks lie all over its extents.
fn used(machine: &Machine) -> World {
    let mut world = World::new(machine.clone(), 1).unwrap();
    for round in 0..8 {
        write_all(&mut world, |block| (block + round) as u8);
    }
    world.settle();
    world.go_down(true);
    world
}

/// Fails the start's first write or flush, its second, and so on, with a power cut each time. Returns how
/// many there are.
fn fail_every_write(world: &mut World, before: &Machine, after: &Machine) -> u64 {
    for writes in 0.. {
        world.ssd.fail_after = Some(writes);
        let started = world.restart(after.clone());
        world.ssd.fail_after = None;
        if started.is_ok() {
            return writes;
        }
        world.go_down(true);
        if writes % 2 == 0 {
            world.restart(before.clone()).unwrap();
            if before.name == "vm" {
                check_all(world, |block| (block + 7) as u8);
            }
            world.settle();
            world.go_down(true);
        }
    }
    unreachable!("a start has an end")
}

#[test]
fn g6_starts_are_cut_short_anywhere() {
    for (before, after) in [
        (small("vm"), small("vm")),
        (small("vm"), large("vm")),
        (large("vm"), small("vm")),
        (small("vm"), small("other")),
    ] {
        let mut world = used(&before);
        let writes = fail_every_write(&mut world, &before, &after);
        assert!(writes >= 6, "{writes}");
        world.go_down(true);
        let last = if after.name == "vm" { after } else { before };
        world.restart(last).unwrap();
        check_all(&mut world, |block| (block + 7) as u8);
    }
}

#[test]
fn g6_starts_are_cut_short_after_crashes() {
    let machines = vec![large("vm"), small("vm"), large("vm"), volume("vm", 100)];
    let mut failed_starts = 0;
    for seed in first_seeds(seeds() * 8) {
        let plan = Plan {
            rounds: 6,
            requests: 100,
            longest_sectors: 24,
            failed_starts: 3,
            ..plan(machines.clone(), seed)
        };
        failed_starts += run(&plan).unwrap_or_else(|error| panic!("{error}")).failed_starts;
    }
    assert!(failed_starts > seeds(), "{failed_starts}");
}

/// After a kill the newest blocks may be there without being durable. A shrinking volume must not move them
/// over the durable ones that they superseded.
#[test]
fn g2_a_share_shrinks_after_a_kill() {
    const CASES: u64 = 120;
    let mut shrunk = 0;
    for case in 0..CASES {
        let mut world = World::new(large("vm"), case).unwrap();
        let write_ten = |world: &mut World, name| {
            (0..10).for_each(|block| write(world, block * BLOCK, BLOCK, name).unwrap());
        };
        write_ten(&mut world, 1);
        // More dirty blocks than in the second extent, so that the first one stays.
        (300..350).for_each(|block| write(&mut world, block * BLOCK, BLOCK, 9).unwrap());
        // The places that come next are in the second extent.
        for i in 0..260 {
            write(&mut world, 200 * BLOCK, BLOCK, i as u8).unwrap();
        }
        flush(&mut world).unwrap();
        // The journal says now how much is durable, so that a start has little to write again before it moves anything.
        write(&mut world, 210 * BLOCK, BLOCK, 7).unwrap();
        flush(&mut world).unwrap();
        write_ten(&mut world, 2);
        if case % 2 == 0 {
            world.submit(GuestRequest { token: 1, op: GuestOp::Flush, now_ns: 0 });
            (0..case / 2 % 5).for_each(|_| {
                world.step();
            });
        }
        world.go_down(false);
        world.ssd.fail_after = Some(4 + case);
        shrunk += u32::from(world.restart(small("vm")).is_ok());
        world.ssd.fail_after = None;
        world.go_down(true);
        world.restart(large("vm")).unwrap();
        for block in 0..10 {
            let bytes = read(&mut world, block * BLOCK, BLOCK)
                .unwrap_or_else(|error| panic!("case {case}: block {block} was durable and is {error:?}"));
            let is_whole = [1, 2].iter().any(|&name| bytes == pattern(name, BLOCK as usize));
            assert!(is_whole, "case {case}: block {block} was durable and is neither old nor new");
        }
    }
    println!("{shrunk}");
    assert!((1..CASES as u32).contains(&shrunk), "{shrunk}");
}

/// A power cut leaves records whose blocks never arrived. A start finds that, writes it to some tables and is cut
/// short: the next one must not take those records for durable ones that end what was before them.
#[test]
fn g2_starts_are_cut_short_after_torn_writes() {
    let mut outcomes = [0, 0];
    for case in 0..600 {
        let mut world = World::new(small("vm"), case).unwrap();
        write(&mut world, 5 * BLOCK, BLOCK, 1).unwrap();
        flush(&mut world).unwrap();
        write(&mut world, 5 * BLOCK, BLOCK, 2).unwrap();
        world.submit(GuestRequest { token: 1, op: GuestOp::Flush, now_ns: 0 });
        // The journal's page is written, and no flush covers it.
        world.step();
        world.go_down(true);
        world.ssd.fail_after = Some(case % 10);
        let started = world.restart(small("vm"));
        world.ssd.fail_after = None;
        world.go_down(true);
        world.restart(small("vm")).unwrap();
        let bytes = read(&mut world, 5 * BLOCK, BLOCK).unwrap();
        let is_new = bytes == pattern(2, BLOCK as usize);
        assert!(
            is_new || bytes == pattern(1, BLOCK as usize),
            "case {case}, {started:?}: a durable write is gone"
        );
        outcomes[usize::from(is_new)] += 1;
    }
    assert!(outcomes.iter().all(|&count| count > 0), "{outcomes:?}");
}

#[test]
fn g6_formatting_is_cut_short_anywhere() {
    let image = || used(&small("vm"));
    for writes in 0.. {
        let mut world = image();
        world.ssd.fail_after = Some(writes);
        let formatted =
            Store::format(&mut world.ssd, lode_format::CacheId([9; 16]), BlockSize::KIB_4, Some(1 << 20));
        world.ssd.fail_after = None;
        world.ssd.power_cut(&mut Rng::new(writes));
        match Store::open(&mut world.ssd) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), StoreErrorKind::NotACache, "{writes}: {error}"),
        }
        if formatted.is_ok() {
            assert!(writes > 4);
            let store = Store::open(&mut world.ssd).unwrap();
            assert_eq!(store.view().volumes().count(), 0);
            return;
        }
    }
}

/// Guarantee 4: extents wander between two volumes, and nothing else does.
#[test]
fn g4_volumes_share_an_ssd() {
    for seed in first_seeds(seeds() * 4) {
        let usual = |name: &str, machines: Vec<Machine>| Plan {
            rounds: 6,
            requests: 120,
            longest_sectors: 24,
            failed_starts: 1,
            crash: Crash::Any,
            ..plan(machines, seed ^ name.len() as u64)
        };
        let plans = [
            usual("one", [small, small, large, small, small, small].map(|share| share("one")).to_vec()),
            usual("other", [small, small, small, small, large, small].map(|share| share("other")).to_vec()),
        ];
        let tallies = run_on_one_ssd(&plans).unwrap_or_else(|error| panic!("{error}"));
        assert!(tallies.iter().all(|tally| tally.sectors_checked > 10_000));
    }
}

/// Guarantee 4 with all engines at work at once: commands of all interleave on the SSD, extents wander between runs.
#[test]
fn g4_volumes_use_an_ssd_at_once() {
    let pairs: [(&str, &[&str]); 3] = [
        ("lru", &["write_policy=wb"]),
        ("lru", &["write_policy=wt"]),
        ("etica", &["mode=full-hybrid", "promotion_interval=10", "sizing_interval=100", "assoc=8"]),
    ];
    for seed in first_seeds(seeds() * 4) {
        let faulty = seed % 4 == 3;
        let plan_of = |number: usize| {
            let share = |blocks| {
                let (scheme, settings) = pairs[(number + seed as usize) % 3];
                let dram_blocks = if scheme == "etica" { 20 } else { 0 };
                let mut machine = machine(scheme, settings, Quota::new(dram_blocks, blocks));
                machine.name = format!("volume {number}");
                machine.ssd_bytes = SSD_BYTES;
                machine
            };
            // Each has two extents in another run.
            let machines = (0..3).map(|run| share(if run == number { 300 } else { 100 })).collect();
            Plan {
                rounds: 5,
                requests: 150,
                longest_sectors: 24,
                failed_starts: 1,
                crash: if faulty { Crash::Stop } else { Crash::Any },
                flips: if faulty { 20 } else { 0 },
                drains: 1,
                ends_drained: seed % 8 == 1,
                ..plan(machines, seed)
            }
        };
        let plans = [plan_of(0), plan_of(1), plan_of(2)];
        let tallies = run_together(&plans).unwrap_or_else(|error| panic!("{error}"));
        assert!(tallies.iter().all(|tally| tally.sectors_checked > 10_000), "{tallies:?}");
    }
}

fn metadata_pages(ssd: &SimDisk) -> Vec<u64> {
    let is_metadata = |at: &u64| {
        let mut magic = [0; 512];
        ssd.peek(*at, &mut magic);
        magic.starts_with(b"LODE")
    };
    (0..SSD_BYTES).step_by(BLOCK as usize).filter(is_metadata).collect()
}

fn names_after(rounds: u64) -> impl Fn(u64) -> u8 {
    move |block| (block + rounds - 1) as u8
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever happens to a page of metadata at rest, the start finds right data or says that it cannot.
    #[test]
    fn g6_damaged_metadata_is_never_believed(
        rounds in 1u64..24,
        drained in 1u64..48,
        pick in any::<prop::sample::Index>(),
        at in 0u64..BLOCK,
        bytes in prop::collection::vec(any::<u8>(), 1..64),
    ) {
        let machine = small("vm");
        let mut world = World::new(machine.clone(), 1).unwrap();
        for round in 0..rounds {
            write_all(&mut world, |block| (block + round) as u8);
            if round % drained == 0 {
                world.drain();
            }
        }
        world.settle();
        world.go_down(false);
        let pages = metadata_pages(&world.ssd);
        let page = pages[pick.index(pages.len())];
        let mut damaged = vec![0; BLOCK as usize];
        world.ssd.peek(page, &mut damaged);
        for (i, byte) in bytes.into_iter().enumerate() {
            damaged[(at as usize + i) % BLOCK as usize] ^= byte;
        }
        SyncDevice::write(&mut world.ssd, page, &damaged).unwrap();
        SyncDevice::flush(&mut world.ssd).unwrap();
        match world.restart(machine) {
            Ok(()) => check_all(&mut world, names_after(rounds)),
            Err(error) => prop_assert_eq!(error.kind(), StoreErrorKind::Damaged),
        }
    }
}
