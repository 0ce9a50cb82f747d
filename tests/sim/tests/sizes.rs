//! Sizes at their limits, tiny reserves, and what requests cost the devices.

use lode_engine::{Buf, GuestOp, GuestRequest, MAX_PIECE_BYTES};
use lode_format::ExtentLayout;
use lode_policy::Quota;
use lode_sim::scenario::{BLOCK, VOLUME_BYTES, first_seeds, flush, machine, plan, seeds, write};
use lode_sim::{Machine, Plan, Rng, World, run, scenario};
use lode_types::{BlockSize, Level};

fn wb(quota: Quota) -> Machine {
    machine("lru", &["write_policy=wb", "assoc=8"], quota)
}

fn run_seeds(name: &str, machine: &Machine, change: impl Fn(Plan) -> Plan) {
    for seed in first_seeds(seeds()) {
        let plan = change(plan(vec![machine.clone()], seed));
        run(&plan).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn g1_g2_other_block_sizes_and_a_short_last_block() {
    for (kib, quota, reserve) in [(8, 40, 40), (64, 12, 20)] {
        for scheme in ["etica", "lru"] {
            let pairs: &[&str] = if scheme == "etica" {
                &["mode=full-hybrid", "promotion_interval=10"]
            } else {
                &["write_policy=wb"]
            };
            let mut machine = machine(scheme, &[pairs, &["assoc=4"]].concat(), Quota::new(quota, quota));
            machine.config.block = BlockSize::new(kib << 10).unwrap();
            machine.config.volume_bytes = VOLUME_BYTES - 512;
            machine.config.reserve = Quota::new(reserve, reserve);
            machine.ssd_bytes = 5 << 20;
            run_seeds(scheme, &machine, |plan| Plan { rounds: 3, ..plan });
        }
    }
}

#[test]
fn g1_g2_without_an_ssd_without_dram_without_both() {
    for (dram_blocks, ssd_bytes) in [(20, 0), (0, 3 << 20), (0, 0)] {
        let ssd_blocks = if ssd_bytes == 0 { 0 } else { 60 };
        let quota = Quota::new(dram_blocks, ssd_blocks);
        let mut machine = machine("etica", &["mode=full-hybrid", "promotion_interval=10", "assoc=4"], quota);
        machine.ssd_bytes = ssd_bytes;
        run_seeds("etica", &machine, |plan| Plan { rounds: 2, ..plan });
    }
}

/// The reserve is as small as one request, so that everything waits for write-backs and promotions.
#[test]
fn g7_tiny_reserves_never_lock_up() {
    for (name, mut machine) in scenario::all_schemes() {
        machine.config.reserve = Quota::new(9, 9);
        run_seeds(name, &machine, |plan| Plan { rounds: 2, depth: 64, ..plan });
    }
}

#[test]
fn g1_largest_requests() {
    let mut machine = wb(Quota::new(0, 60));
    machine.config.reserve = Quota::new(0, 65);
    run_seeds("wb", &machine, |plan| Plan {
        requests: 60,
        rounds: 2,
        longest_sectors: MAX_PIECE_BYTES / 512,
        ..plan
    });
}

/// With requests that are decided in several pieces, each of which may have to wait for room.
fn in_pieces(mut machine: Machine, seeds: std::ops::Range<u64>) -> Result<(), String> {
    machine.config.volume_bytes = 6 * MAX_PIECE_BYTES + 512;
    machine.config.reserve = Quota::new(65, 65);
    for seed in seeds {
        let plan = plan(vec![machine.clone()], seed);
        let longest_sectors = 5 * MAX_PIECE_BYTES / 512;
        run(&Plan { requests: 40, rounds: 2, longest_sectors, ..plan })?;
    }
    Ok(())
}

#[test]
fn g1_g2_requests_of_many_pieces() {
    for (name, machine) in scenario::all_schemes() {
        in_pieces(machine, first_seeds(seeds())).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Copies of what leaves DRAM keep its frames while they wait for places, of which there are as few: guests wait for neither.
#[test]
fn g7_copies_that_wait_for_places_hold_no_guests_up() {
    let machine = scenario::all_schemes().into_iter().find(|(name, _)| *name == "tica-wed").unwrap().1;
    in_pieces(machine, first_seeds(20 * seeds())).unwrap_or_else(|error| panic!("{error}"));
}

/// The largest ranges on a volume of two of them, with cached blocks at every edge.
#[test]
fn g1_largest_ranges() {
    const RANGE: u64 = lode_engine::MAX_RANGE_BYTES;
    let mut machine = wb(Quota::new(0, 200));
    machine.config.volume_bytes = 3 * RANGE + 1024;
    let mut world = World::new(machine.clone(), 1).unwrap();
    for op in [
        GuestOp::Trim { offset_bytes: 512, length_bytes: RANGE },
        GuestOp::WriteZeroes { offset_bytes: RANGE - 512, length_bytes: RANGE, fua: true, unmap: true },
        // In several pieces.
        GuestOp::Trim { offset_bytes: 512, length_bytes: 2 * RANGE },
        GuestOp::WriteZeroes { offset_bytes: 512, length_bytes: 3 * RANGE - 1024, fua: true, unmap: false },
    ] {
        let edges = [0, 1, RANGE / BLOCK - 1, RANGE / BLOCK, 2 * RANGE / BLOCK - 1, 3 * RANGE / BLOCK - 1];
        for block in edges {
            write(&mut world, block * BLOCK, BLOCK, 7).unwrap();
        }
        let event = world.serve(GuestRequest { token: 1, op, now_ns: 0 }).unwrap();
        assert_eq!(event.result, Ok(()));
    }
    world.go_down(true);
    world.restart(machine).unwrap();
    for at in (RANGE..2 * RANGE).step_by(4 << 20) {
        let zeroed = scenario::read(&mut world, at, 4 << 20).unwrap();
        assert!(zeroed.iter().all(|&byte| byte == 0), "{at}");
    }
    assert_eq!(
        scenario::read(&mut world, 3 * RANGE - 512, 512),
        Ok(scenario::pattern(7, 4096)[3584..].to_vec())
    );
}

/// Of these the cleanings have to be over before the next request: a block that is written again before its cleaning began is
/// written back once, where two were decided.
const CLEANING: [&str; 3] = ["eci-cache-like", "flashcache wb", "opencas-like wb"];

/// Guarantee 8: with one request at a time the devices do what the decisions say, block for block.
#[test]
fn g8_devices_do_what_was_decided() {
    for (name, mut machine) in scenario::all_schemes() {
        let settles_every = if CLEANING.contains(&name) { 1 } else { 16 };
        machine.config.volume_bytes = VOLUME_BYTES;
        let mut world = World::new(machine, 1).unwrap();
        let mut rng = Rng::new(3);
        for step in 0..2000 {
            let space = if rng.chance(70) { 64 } else { VOLUME_BYTES / BLOCK };
            let block = rng.below(space);
            if rng.chance(40) {
                write(&mut world, block * BLOCK, BLOCK, step as u8).unwrap();
            } else {
                scenario::read(&mut world, block * BLOCK, BLOCK).unwrap();
            }
            if step % settles_every == 0 {
                world.settle();
            }
        }
        world.settle();
        let (counters, gauges) = (*world.engine().counters(), world.engine().gauges());
        assert_eq!(gauges.backing_read_bytes, counters.backing_reads * BLOCK, "{name}: {counters:?}");
        assert_eq!(gauges.backing_written_bytes, counters.backing_writes * BLOCK, "{name}: {counters:?}");
        assert_eq!(gauges.ssd_data_bytes, counters.ssd_writes.total() * BLOCK, "{name}: {counters:?}");
        assert!(counters.backing_writes > 100, "{name}: {counters:?}");
    }
}

/// A volume whose SSD is large enough for steady checkpoints.
fn large() -> World {
    let mut machine = wb(Quota::new(0, 1000));
    machine.config.volume_bytes = 4 << 20;
    machine.config.reserve = Quota::new(0, 512);
    machine.ssd_bytes = 12 << 20;
    World::new(machine, 1).unwrap()
}

fn amplification(world: &World, writes: u64) -> f64 {
    let gauges = world.engine().gauges();
    let bytes = gauges.ssd_data_bytes + gauges.ssd_metadata_bytes;
    bytes as f64 / (writes * BLOCK) as f64
}

#[test]
fn write_amplification_with_fua_at_depth_one() {
    const WRITES: u64 = 20_000;
    let mut world = large();
    let mut rng = Rng::new(5);
    let before = (world.ssd.flush_mark(), world.ssd.flushes);
    for i in 0..WRITES {
        let buf = Buf::copy_of(&scenario::pattern(i as u8, BLOCK as usize));
        let op = GuestOp::write(rng.below(1000) * BLOCK, buf, true);
        world.serve(GuestRequest { token: i, op, now_ns: 0 }).unwrap().result.unwrap();
    }
    let written = amplification(&world, WRITES);
    let of_each = |all: u64, before: u64| (all - before) as f64 / WRITES as f64;
    let writes = of_each(world.ssd.flush_mark(), before.0);
    let flushes = of_each(world.ssd.flushes, before.1);
    println!(
        "depth 1, FUA: {written:.3} bytes written per byte, {writes:.3} writes and {flushes:.3} flushes of the SSD per write"
    );
    assert!(written <= 2.05 && writes <= 2.05, "{written}, {writes}");
    // Checkpoints of the tables take a few more of both.
    assert!((0.9..=1.05).contains(&flushes), "{flushes}");
}

#[test]
fn write_amplification_with_a_flush_for_32_writes() {
    const ROUNDS: u64 = 1000;
    let mut world = large();
    let mut rng = Rng::new(5);
    for i in 0..ROUNDS {
        for token in 0..32 {
            let buf = Buf::copy_of(&scenario::pattern(i as u8, BLOCK as usize));
            let op = GuestOp::write(rng.below(1000) * BLOCK, buf, false);
            world.submit(GuestRequest { token, op, now_ns: 0 });
        }
        while world.step() {}
        assert_eq!(world.take_events().len(), 32);
        flush(&mut world).unwrap();
    }
    let written = amplification(&world, ROUNDS * 32);
    println!("32 writes a flush: {written:.3} bytes written per byte");
    assert!(written <= 1.1, "{written}");
}

/// What is said before a volume is served holds when its cache is full and its history long.
#[test]
fn memory_stays_below_what_the_configuration_promises() {
    let schemes = [("etica", 2048, 0), ("lru", 0, 0), ("arc", 0, 0), ("tica-adaptive", 2048, 16_384)];
    for (scheme, dram, read_ssd) in schemes {
        let quota = Quota::new(dram, 16_384).with(Level::ReadSsd, read_ssd);
        let mut machine = machine(scheme, &[], quota);
        machine.config = lode_engine::EngineConfig::new(BlockSize::KIB_4, 1 << 30, machine.config.share);
        (machine.ssd_bytes, machine.extent_bytes) = (96 << 20, 4 << 20);
        let extent = ExtentLayout::new(machine.extent_bytes, BlockSize::KIB_4).unwrap();
        let bound = machine.config.most_memory(&machine.settings, extent.places);
        let most = bound.total_bytes();
        let mut world = World::new(machine, 3).unwrap();
        let mut rng = Rng::new(9);
        for token in 0..120_000 {
            let offset_bytes = rng.below(40_000) * BLOCK;
            let op = if rng.below(3) > 0 {
                let buf = Buf::copy_of(&scenario::pattern(token as u8, BLOCK as usize));
                GuestOp::write(offset_bytes, buf, false)
            } else {
                GuestOp::Read { offset_bytes, length_bytes: BLOCK }
            };
            world.serve(GuestRequest { token, op, now_ns: 0 }).unwrap().result.unwrap();
        }
        let gauges = world.engine().gauges();
        println!("{scheme}: {} of at most {most} bytes, {gauges:?}", gauges.memory_bytes);
        assert!(gauges.ssd_blocks > 16_000, "the cache is full");
        assert!(gauges.memory_bytes <= most, "{} of at most {most} bytes", gauges.memory_bytes);
        for ((what, bytes), (_, most)) in world.engine().memory().tables().into_iter().zip(bound.tables()) {
            assert!(bytes <= most, "{scheme}, {what}: {bytes} of at most {most} bytes");
        }
    }
}
