//! Guarantee 9 of `docs/design.md`: under a scheme that keeps every dirty block on two devices, either SSD may die.

use lode_engine::{Answer, Buf, GuestOp, GuestRequest};
use lode_policy::Quota;
use lode_sim::scenario::{
    BLOCK, damage, first_seeds, flush, machine, pattern, plan, read, run_each, seeds, tica, tica_schemes,
    write,
};
use lode_sim::{Change, Crash, Faults, Model, Plan, Rng, RunCounts, SECTOR, Version, World};
use lode_types::Level;

/// Blocks that the guest of these tests uses: more than the levels hold.
const BLOCKS: u64 = 96;
const SECTORS_PER_BLOCK: u64 = BLOCK / SECTOR as u64;

enum Asked {
    Read { first: usize, expected: Vec<Vec<Version>> },
    Write(u32),
}

/// A guest that never flushes: what was acknowledged is all that counts.
struct Guest {
    model: Model,
    rng: Rng,
    asked: std::collections::HashMap<u64, Asked>,
    next: u64,
    writes: u64,
    reads: u64,
}

impl Guest {
    fn new(seed: u64) -> Guest {
        let model = Model::new(BLOCKS * BLOCK, 0);
        Guest { model, rng: Rng::new(seed), asked: Default::default(), next: 0, writes: 0, reads: 0 }
    }

    fn ask(&mut self, world: &mut World) {
        let most = if self.rng.chance(60) { BLOCKS / 4 } else { BLOCKS };
        let block = self.rng.below(most);
        let whole = self.rng.chance(70);
        let skip = if whole { 0 } else { self.rng.below(SECTORS_PER_BLOCK) };
        let count = if whole { SECTORS_PER_BLOCK } else { 1 + self.rng.below(SECTORS_PER_BLOCK - skip) };
        let first = (block * SECTORS_PER_BLOCK + skip) as usize;
        let sectors = first..first + count as usize;
        let offset_bytes = (first * SECTOR) as u64;
        let (op, asked) = if self.rng.chance(50) {
            let expected = sectors.map(|sector| self.model.expected(sector, true)).collect();
            let length_bytes = count * SECTOR as u64;
            (GuestOp::Read { offset_bytes, length_bytes }, Asked::Read { first, expected })
        } else {
            let id = self.model.submit(sectors.clone(), Change::Data);
            let buf = Buf::copy_of(&Model::contents(id, sectors));
            (GuestOp::write(offset_bytes, buf, false), Asked::Write(id))
        };
        self.next += 1;
        self.asked.insert(self.next, asked);
        world.submit(GuestRequest { token: self.next, op, now_ns: 0 });
    }

    fn answered(&mut self, event: Answer) {
        match (self.asked.remove(&event.token).expect("it was asked"), event.result) {
            (Asked::Write(id), Ok(())) => {
                self.writes += 1;
                self.model.acknowledge(id, false);
            }
            (Asked::Write(id), Err(_)) => self.model.fail(id),
            (Asked::Read { .. }, Err(error)) => panic!("a read failed: {error:?}"),
            (Asked::Read { first, expected }, Ok(())) => {
                self.reads += 1;
                let data = event.data.concat();
                for (at, (bytes, allowed)) in data.chunks(SECTOR).zip(&expected).enumerate() {
                    if let Some(complaint) = Model::complaint(first + at, bytes, allowed) {
                        panic!("{complaint}");
                    }
                }
            }
        }
    }

    /// Keeps so many requests under way for so many steps.
    fn live(&mut self, world: &mut World, depth: usize, steps: u64) {
        for _ in 0..steps {
            while self.asked.len() < depth {
                self.ask(world);
                world.take_events().into_iter().for_each(|event| self.answered(event));
            }
            world.step_or_tick();
            world.take_events().into_iter().for_each(|event| self.answered(event));
        }
    }

    fn finish(&mut self, world: &mut World) {
        world.settle();
        world.take_events().into_iter().for_each(|event| self.answered(event));
        assert!(self.asked.is_empty(), "requests are never answered");
    }

    /// Whether everything reads as it was acknowledged.
    fn check_reads(&self, world: &mut World) {
        for sector in 0..self.model.sectors() {
            let bytes = read(world, (sector * SECTOR) as u64, SECTOR as u64).unwrap();
            if let Some(complaint) = Model::complaint(sector, &bytes, &self.model.expected(sector, true)) {
                panic!("in the next run: {complaint}");
            }
        }
    }

    /// Whether the backing disk alone has what was acknowledged, also after a power cut.
    fn check_disk(&self, world: &World) {
        let disk = world.backing.after_power_cut(&mut Rng::new(1));
        for sector in 0..self.model.sectors() {
            let mut bytes = [0; SECTOR];
            disk.peek((sector * SECTOR) as u64, &mut bytes);
            if let Some(complaint) = Model::complaint(sector, &bytes, &self.model.expected(sector, true)) {
                panic!("on the backing disk: {complaint}");
            }
        }
    }
}

/// Nothing that was acknowledged is lost, flushed or not, and no read fails.
#[test]
fn g9_the_write_ssd_dies_at_every_step() {
    let (mut rescued, mut reads) = (0, 0);
    for (name, machine) in tica_schemes() {
        for steps in 1..seeds() * 12 {
            println!("{name}, step {steps}");
            let mut world = World::new(machine.clone(), steps).unwrap();
            let mut guest = Guest::new(steps);
            guest.live(&mut world, 8, steps * 3);
            rescued += world.engine().gauges().dirty_blocks;
            world.faults = Faults { ssd_gone: true, ..Faults::default() };
            guest.live(&mut world, 8, 40);
            guest.finish(&mut world);
            let gauges = world.engine().gauges();
            assert_eq!((gauges.dirty_blocks, gauges.lost_blocks), (0, 0), "{gauges:?}");
            guest.check_disk(&world);
            reads += guest.reads;
            // The SSD is there again, and must not be believed.
            world.go_down(steps % 2 == 0);
            world.restart(machine.clone()).unwrap();
            guest.check_reads(&mut world);
        }
    }
    assert!(rescued > 300 && reads > 300, "{rescued} dirty blocks, {reads} reads");
}

/// The power fails while what the dead SSD held is written back, and the SSD is there again afterwards.
#[test]
fn g9_power_cuts_during_the_rescue() {
    let (mut failures, mut cases) = (0, 0);
    for (name, machine) in tica_schemes() {
        for steps in 1..seeds() * 12 {
            println!("{name}, step {steps}");
            let mut world = World::new(machine.clone(), steps).unwrap();
            let mut guest = Guest::new(steps);
            guest.live(&mut world, 8, 150 + steps);
            world.faults = Faults { ssd_gone: true, ..Faults::default() };
            guest.live(&mut world, 8, steps);
            failures += u64::from(world.engine().alarms().failed);
            cases += 1;
            world.go_down(true);
            world.restart(machine.clone()).unwrap();
            flush(&mut world).unwrap();
            // Twice: what is read once stays.
            for _ in 0..2 {
                for sector in 0..guest.model.sectors() {
                    let bytes = read(&mut world, (sector * SECTOR) as u64, SECTOR as u64).unwrap();
                    guest.model.settle(sector, &bytes).unwrap();
                }
            }
        }
    }
    assert!(failures > cases / 2, "{failures} of {cases}");
}

/// After a restart blocks are on one device until they are mirrored again, so that who counts failures asks for one run.
fn run_all(faults: Faults, crash: Crash, rounds: u32) -> RunCounts {
    let plan_of = |machine, seed| Plan { faults, crash, rounds, ..plan(vec![machine], seed) };
    run_each(tica_schemes(), seeds(), plan_of)
}

#[test]
fn g9_the_read_ssd_dies() {
    let tally = run_all(Faults { read_ssd_gone: true, ..Faults::default() }, Crash::Any, 4);
    assert_eq!((tally.failed_reads, tally.failed_writes), (0, 0), "{tally:?}");
    assert!(tally.read_ssd_errors > 10 && tally.mirrored > 100, "{tally:?}");
}

#[test]
fn g9_the_read_ssd_fails_now_and_then() {
    let faults = Faults { read_ssd_read_errors: 10, read_ssd_write_errors: 10, ..Faults::default() };
    let tally = run_all(faults, Crash::Any, 4);
    assert_eq!((tally.failed_reads, tally.failed_writes), (0, 0), "{tally:?}");
    assert!(tally.read_ssd_errors > 100, "{tally:?}");
}

#[test]
fn g9_a_dead_write_ssd_fails_no_read() {
    let tally = run_all(Faults { ssd_gone: true, ..Faults::default() }, Crash::Power, 1);
    assert_eq!(tally.failed_reads, 0, "{tally:?}");
    assert!(tally.failed_writes > 10, "{tally:?}");
}

/// Blocks of the write SSD that cannot be read are read from, and repaired with, their mirrors.
#[test]
fn g9_bad_blocks_of_the_write_ssd() {
    let tally = run_all(Faults { ssd_read_errors: 20, ..Faults::default() }, Crash::Stop, 1);
    assert_eq!(tally.failed_reads, 0, "{tally:?}");
}

/// A mirror whose bytes went bad is noticed, and the write SSD has them.
#[test]
fn g9_a_damaged_mirror() {
    let machine = tica("tica-ef");
    let mut world = World::new(machine, 1).unwrap();
    write(&mut world, 5 * BLOCK, BLOCK, 1).unwrap();
    push_mirrors_out(&mut world);
    let want = pattern(1, BLOCK as usize);
    let found = mirrors_of(&world, 1);
    assert_eq!(found.len(), 1, "the block is mirrored once");
    world.read_ssd.flip_bit(found[0] + 700, 3);
    assert_eq!(read(&mut world, 5 * BLOCK, BLOCK), Ok(want));
    let alarms = world.engine().alarms();
    assert_eq!((alarms.damaged_clean, alarms.damaged_dirty), (1, 0), "{alarms:?}");
}

/// A damaged block of the write SSD is served from its mirror and not lost.
#[test]
fn g9_a_damaged_block_of_the_write_ssd() {
    let machine = tica("tica-ef");
    let mut world = World::new(machine, 1).unwrap();
    write(&mut world, 5 * BLOCK, BLOCK, 1).unwrap();
    push_mirrors_out(&mut world);
    assert_eq!(damage(&mut world, 1), 1);
    assert_eq!(read(&mut world, 5 * BLOCK, BLOCK), Ok(pattern(1, BLOCK as usize)));
    world.drain();
    world.settle();
    let mut bytes = vec![0; BLOCK as usize];
    world.backing.peek(5 * BLOCK, &mut bytes);
    assert_eq!(bytes, pattern(1, BLOCK as usize), "a drain reads what is left of it");
    assert_eq!(world.engine().alarms().damaged_dirty, 0);
}

/// Where the read SSD has blocks with the pattern `name`.
fn mirrors_of(world: &World, name: u8) -> Vec<u64> {
    let want = pattern(name, BLOCK as usize);
    let is_it = |at: &u64| {
        let mut bytes = [0; BLOCK as usize];
        world.read_ssd.peek(*at, &mut bytes);
        bytes[..] == want
    };
    (0..world.read_ssd_bytes()).step_by(BLOCK as usize).filter(is_it).collect()
}

/// Lets the scheme copy what is dirty to the read SSD, which it does at the end of requests.
fn push_mirrors_out(world: &mut World) {
    const MOST_REQUESTS: u64 = 64;
    for _ in 0..MOST_REQUESTS {
        read(world, 90 * BLOCK, BLOCK).unwrap();
        world.settle();
    }
}

/// After a restart the mirrors are gone, and are made again.
#[test]
fn g9_mirrors_come_back_after_a_restart() {
    for (name, machine) in tica_schemes() {
        let mut world = World::new(machine.clone(), 1).unwrap();
        for block in 0..8 {
            write(&mut world, block * BLOCK, BLOCK, block as u8 + 1).unwrap();
        }
        flush(&mut world).unwrap();
        world.settle();
        world.go_down(true);
        world.restart(machine).unwrap();
        let gauges = world.engine().gauges();
        assert_eq!((gauges.dirty_blocks, gauges.unmirrored_blocks), (8, 8), "{name}");
        push_mirrors_out(&mut world);
        let gauges = world.engine().gauges();
        assert_eq!((gauges.dirty_blocks, gauges.unmirrored_blocks), (8, 0), "{name}");
        world.faults = Faults { ssd_gone: true, ..Faults::default() };
        for block in 0..8 {
            assert_eq!(read(&mut world, block * BLOCK, BLOCK), Ok(pattern(block as u8 + 1, BLOCK as usize)));
        }
    }
}

/// What a scheme does not take over from a start is on one device until it is written back, as what it takes over is until it is
/// mirrored; and so is what is being mirrored.
#[test]
fn g9_what_is_on_one_device_is_counted_whoever_knows_of_it() {
    const BLOCKS: u32 = 30;
    let machine = tica("tica-ef");
    let mut world = World::new(machine.clone(), 1).unwrap();
    for block in 0..u64::from(BLOCKS) {
        write(&mut world, block * BLOCK, BLOCK, block as u8 + 1).unwrap();
    }
    flush(&mut world).unwrap();
    world.settle();
    assert_eq!(world.engine().gauges().unmirrored_blocks, 0);
    world.go_down(true);
    let mut smaller = machine;
    smaller.config.share.ssd_blocks = 8;
    world.restart(smaller).unwrap();
    let gauges = world.engine().gauges();
    assert_eq!((gauges.ssd_blocks, gauges.dirty_blocks, gauges.unmirrored_blocks), (8, BLOCKS, BLOCKS));
    // One more request, and some are on their way: no step may have fewer counted than an SSD that dies would take.
    read(&mut world, 90 * BLOCK, BLOCK).unwrap();
    for _ in 0..200 {
        let gauges = world.engine().gauges();
        let written = gauges.read_ssd_data_bytes / BLOCK;
        let left = u64::from(gauges.dirty_blocks).saturating_sub(written);
        assert!(u64::from(gauges.unmirrored_blocks) >= left, "{gauges:?}");
        world.step();
    }
    push_mirrors_out(&mut world);
    assert_eq!(world.engine().gauges().unmirrored_blocks, 0);
}

/// Blocks 0, 1, 2 and so on are written, one after the other, until one that is dirty had to leave the SSD. Says which
/// device failed to read it, when these do nothing else.
fn read_errors_of_a_write_back(copy_rate: &str, faults: Faults) -> (u64, u64) {
    // As many blocks of DRAM as of the SSD may wait for their second copy.
    let quota = Quota::new(40, 8).with(Level::ReadSsd, 16);
    let machine = machine("tica-ef", &["write_percent=90", copy_rate], quota);
    let mut world = World::new(machine, 1).unwrap();
    for block in 0..8 {
        write(&mut world, block * BLOCK, BLOCK, block as u8 + 1).unwrap();
        world.settle();
    }
    assert_eq!(world.engine().gauges().dirty_blocks, 8);
    world.faults = faults;
    write(&mut world, 8 * BLOCK, BLOCK, 9).unwrap();
    world.settle();
    let mut bytes = vec![0; BLOCK as usize];
    world.backing.peek(0, &mut bytes);
    assert_eq!(bytes, pattern(1, BLOCK as usize), "the oldest block was written back");
    let alarms = world.engine().alarms();
    (alarms.ssd_errors, alarms.read_ssd_errors)
}

/// Whence a dirty block is read that leaves the SSD: from DRAM while its second copy is there, else from the read SSD. The
/// replay counts the same, see the tests of its tally.
#[test]
fn a_write_back_reads_the_second_copy() {
    let no_ssd = Faults { ssd_read_errors: 100, ..Faults::default() };
    let neither = Faults { read_ssd_read_errors: 100, ..no_ssd };
    assert_eq!(read_errors_of_a_write_back("copy_rate=8", no_ssd), (0, 0), "the read SSD has it");
    assert_eq!(read_errors_of_a_write_back("copy_rate=8", Faults { ssd_read_errors: 0, ..neither }), (0, 1));
    assert_eq!(read_errors_of_a_write_back("copy_rate=0", neither), (0, 0), "DRAM has it");
}

/// A write that finds its partition of DRAM full has another block copied to the read SSD, and is answered without waiting
/// for that: its own place is one of the reserve. So the replay counts no time for the copy.
#[test]
fn a_write_does_not_wait_for_the_copy_that_makes_its_room() {
    let quota = Quota::new(8, 40).with(Level::ReadSsd, 48);
    let machine = machine("tica-ef", &["write_percent=50", "copy_rate=0"], quota);
    let mut before_its_copy = 0;
    for seed in first_seeds(seeds()) {
        let mut world = World::new(machine.clone(), seed).unwrap();
        // All of DRAM but one block.
        for block in 0..7 {
            write(&mut world, block * BLOCK, BLOCK, block as u8 + 1).unwrap();
        }
        world.settle();
        assert_eq!(world.engine().counters().read_ssd_writes, 0);
        write(&mut world, 7 * BLOCK, BLOCK, 8).unwrap();
        assert_eq!(world.engine().counters().read_ssd_writes, 1, "a copy is decided");
        before_its_copy += u64::from(mirrors_of(&world, 1).is_empty());
        world.settle();
        assert_eq!(mirrors_of(&world, 1).len(), 1);
    }
    // Which of the two is first is chance. A write that waited would never be.
    assert!(before_its_copy > 0, "none of {}", seeds());
}
