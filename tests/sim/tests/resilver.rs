//! A resilver that is cut short goes on where it was (guarantees 2 and 9 of `docs/design.md`): what labels say is resilvered is on both SSDs,
//! whatever was written meanwhile, however the run ended, and whatever the start that goes on writes.

use lode_policy::Quota;
use lode_sim::scenario::{BLOCK, flush, machine, paired, pattern, read, write};
use lode_sim::{Faults, Machine, SimPair, World};
use lode_store::pair::MEMBERS;

const BLOCKS: u64 = 240;
/// More than a resilver of the whole takes.
const MOST_STEPS: u64 = 56;
const SEEDS: u64 = 4;

fn lru() -> Machine {
    paired(machine("lru", &["write_policy=wb"], Quota::new(0, 250)))
}

/// A guest that knows what it wrote.
struct Written {
    world: World,
    machine: Machine,
    values: Vec<u8>,
}

impl Written {
    fn new(seed: u64) -> Written {
        let machine = lru();
        let world = World::new(machine.clone(), seed).unwrap();
        let mut written = Written { world, machine, values: vec![0; BLOCKS as usize] };
        (0..BLOCKS).for_each(|block| written.write(block, block as u8));
        flush(&mut written.world).unwrap();
        written.world.settle();
        written
    }

    fn write(&mut self, block: u64, value: u8) {
        write(&mut self.world, block * BLOCK, BLOCK, value).unwrap();
        self.values[block as usize] = value;
    }

    /// Some blocks get another value, durably.
    fn write_some(&mut self, turn: u64) {
        for block in (turn % 49..BLOCKS).step_by(49) {
            self.write(block, self.values[block as usize].wrapping_add(101));
        }
        flush(&mut self.world).unwrap();
        self.world.settle();
    }

    fn step(&mut self) {
        self.world.settle();
        self.world.resilver_step();
    }

    fn pair(&mut self) -> &mut SimPair {
        self.world.pair.as_mut().expect("a pair")
    }

    /// An empty device is in the place of a member, and a run begins that resilvers it.
    fn replace(&mut self, member: usize) {
        self.world.go_down(true);
        let pair = self.world.pair.as_mut().expect("a pair");
        pair.replace(&mut self.world.ssd, member);
        pair.resilver_after_start();
        self.world.restart(self.machine.clone()).unwrap();
    }

    /// The run ends, and the next one begins. Gives up to where that has a resilver go on, if it does.
    fn restart(&mut self, power_cut: bool) -> Option<u64> {
        self.world.go_down(power_cut);
        self.world.restart(self.machine.clone()).unwrap();
        self.pair().resumed()
    }

    /// The resilver comes to its end, and each SSD has everything: the other one is lost.
    fn finish(mut self, resilvered: usize, what: &str) {
        self.world.settle_resilvers();
        self.world.go_down(true);
        let World { ssd, pair, .. } = &mut self.world;
        let found = pair.as_mut().expect("a pair").found_in_sync(ssd);
        assert_eq!(found, [true; MEMBERS], "{what}");
        self.replace(1 - resilvered);
        for block in 0..BLOCKS {
            let found = read(&mut self.world, block * BLOCK, BLOCK);
            let wanted = pattern(self.values[block as usize], BLOCK as usize);
            assert!(found == Ok(wanted), "{what}: block {block}");
        }
    }
}

#[test]
fn g9_a_resilver_goes_on_where_the_run_before_ended() {
    let mut reached = [0; MEMBERS];
    for (seed, steps) in (0..SEEDS).flat_map(|seed| (1..MOST_STEPS).map(move |steps| (seed, steps))) {
        let (member, power_cut) = ((seed + steps) as usize % MEMBERS, steps % 8 != 0);
        let what = format!("seed {seed}, {steps} steps of SSD {member}, power cut: {power_cut}");
        let mut written = Written::new(seed * MOST_STEPS + steps);
        written.replace(member);
        for turn in 0..steps {
            written.step();
            if turn % 8 == 0 {
                written.write_some(turn);
            }
        }
        let was_over = written.pair().resilvered() == 1;
        let resumed = written.restart(power_cut);
        if was_over {
            assert_eq!(resumed, None, "{what}");
            continue;
        }
        if let Some(bytes) = resumed {
            reached[member] += 1;
            // And once more: what is resilvered stays that.
            written.write_some(steps);
            let again = written.restart(true);
            assert!(again >= Some(bytes), "{what}: {bytes}, {again:?}");
        } else {
            written.pair().resilver_after_start();
            written.restart(power_cut);
        }
        written.finish(member, &what);
    }
    assert!(reached.iter().all(|&times| times > 30), "{reached:?}");
}

#[test]
fn g9_a_resilver_of_an_ssd_that_failed_on_the_way_begins_anew() {
    let mut failed = 0;
    for steps in 1..MOST_STEPS {
        let (member, fails) = (steps as usize % MEMBERS, steps / 2 % 3);
        let what = format!("{steps} steps of SSD {member}, failure {fails}");
        let mut written = Written::new(steps);
        written.replace(member);
        (0..steps).for_each(|_| written.step());
        if written.pair().resilvered() == 1 {
            continue;
        }
        // It fails, and what is written then is acknowledged all the same.
        let only = Faults { only_member: Some(member), ..Faults::default() };
        written.world.faults = match fails {
            0 => Faults { ssd_gone: true, ..only },
            1 => Faults { ssd_write_errors: 100, ssd_metadata_errors: 100, ..only },
            _ => Faults { ssd_flush_errors: 100, ..only },
        };
        written.write_some(1);
        written.world.faults = Faults::default();
        written.write_some(2);
        let resumed = written.restart(true);
        // What is told of it is told before the next write is acknowledged.
        failed += u64::from(resumed.is_none());
        if resumed.is_none() {
            written.pair().resilver_after_start();
            written.restart(true);
        }
        written.finish(member, &what);
    }
    assert!(failed > 10, "{failed}");
}

/// A start goes on with the resilver, and the SSD fails while volumes are recovered: it lacks what the start writes from then on.
#[test]
fn g9_a_resilver_of_an_ssd_that_fails_in_a_start_begins_anew() {
    const MOST_ACCESSES: u64 = 60;
    let mut failed = 0;
    for (seed, nth) in (0..2).flat_map(|seed| (1..MOST_ACCESSES).map(move |nth| (seed, nth))) {
        let member = nth as usize % MEMBERS;
        let what = format!("seed {seed}, SSD {member} is gone after {nth} accesses");
        let mut written = Written::new(seed * MOST_ACCESSES + nth);
        written.replace(member);
        (0..16).for_each(|_| written.step());
        written.write_some(nth);
        written.world.go_down(true);
        let fails_after = |written: &mut Written, nth| {
            let World { ssd, pair, .. } = &mut written.world;
            let disk = if member == 0 { ssd } else { &mut pair.as_mut().expect("a pair").second };
            std::mem::replace(&mut disk.fail_after, nth)
        };
        fails_after(&mut written, Some(nth));
        written.world.restart(written.machine.clone()).unwrap();
        fails_after(&mut written, None);
        written.write_some(nth + 1);
        if written.pair().resumed().is_none() {
            failed += 1;
            written.pair().resilver_after_start();
            written.restart(true);
        }
        written.finish(member, &what);
    }
    assert!(failed > 20, "{failed}");
}
