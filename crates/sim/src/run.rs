//! Random guests against a world, with crashes in between, held against the model.

use std::collections::HashMap;

use lode_engine::{Buf, Event, GuestError, GuestOp, GuestRequest};
use lode_policy::Counters;

use crate::disk::SimDisk;
use crate::model::{Change, Model, SECTOR, Version};
use crate::rng::Rng;
use crate::world::{Faults, Machine, World};

/// How the host goes down between two rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// By chance one of the others.
    Any,
    /// The process is killed.
    Kill,
    /// The power fails.
    Power,
    /// The daemon is stopped in order.
    Stop,
}

/// One simulated life of a volume.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The machines of the rounds, taken in turn: what a new configuration may change may differ.
    pub machines: Vec<Machine>,
    /// Everything random follows from it.
    pub seed: u64,
    /// Lives from start to crash.
    pub rounds: u32,
    /// Requests of a life.
    pub requests: u32,
    /// Requests under way at most.
    pub depth: usize,
    /// How a life ends.
    pub crash: Crash,
    /// Longest read or write, in sectors.
    pub longest_sectors: u64,
    /// How often devices fail. Requests may fail then, but what a read returns must still be right.
    pub faults: Faults,
    /// Damaged blocks of data on the SSD after every life. Reads may fail then, but what they return must
    /// be right.
    pub flips: u32,
    /// Most starts after every life in which the SSD stops writing somewhere on the way and the power
    /// fails.
    pub failed_starts: u32,
    /// Every life ends after so many completions of devices, if not before.
    pub most_steps: Option<u64>,
}

/// What happened, for tests that must know that something did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Requests answered.
    pub answered: u64,
    /// Sectors read and found right.
    pub sectors_checked: u64,
    /// Crashes survived.
    pub crashes: u64,
    /// Blocks read from the SSD or DRAM.
    pub read_hits: u64,
    /// Blocks written back.
    pub write_backs: u64,
    /// Reads that failed.
    pub failed_reads: u64,
    /// Other requests that failed.
    pub failed_writes: u64,
    /// Starts that failed.
    pub failed_starts: u64,
    /// Damaged blocks that were noticed.
    pub damaged: u64,
    /// Commands on the SSD that failed.
    pub ssd_errors: u64,
}

/// A guest's request on its way.
#[derive(Debug)]
enum Asked {
    Read { sectors: std::ops::Range<usize>, expected: Vec<Vec<Version>> },
    Write { write: u32, fua: bool },
    Flush { mark: u64 },
}

/// Runs a plan. The error names what a guest read that it must not, with the seed that repeats it.
pub fn run(plan: &Plan) -> Result<Tally, String> {
    let mut tallies = run_on_one_ssd(std::slice::from_ref(plan))?;
    Ok(tallies.pop().unwrap_or_default())
}

/// Runs the plans of several volumes that share the SSD of the first one's machine: in turn one life of
/// each. Their machines name the volumes and may take and give back extents.
pub fn run_on_one_ssd(plans: &[Plan]) -> Result<Vec<Tally>, String> {
    let Some(first) = plans.first() else { return Ok(Vec::new()) };
    let mut ssd = World::formatted_ssd(&first.machines[0]).map_err(|error| error.to_string())?;
    let mut volumes: Vec<Option<(World, Guest, Rng)>> = plans.iter().map(|_| None).collect();
    for round in 0..plans.iter().map(|plan| plan.rounds).max().unwrap_or(0) {
        for (i, (plan, volume)) in plans.iter().zip(&mut volumes).enumerate() {
            let fault =
                |error: String| format!("volume {i}, life {round}: {error}; repeat with seed {}", plan.seed);
            let machine = plan.machine(round);
            if let Some((world, ..)) = volume {
                std::mem::swap(&mut world.ssd, &mut ssd);
                world.restart(machine).map_err(|error| fault(error.to_string()))?;
            } else {
                let mut rng = Rng::new(plan.seed);
                let empty = std::mem::replace(&mut ssd, SimDisk::new(0));
                let world =
                    World::on(machine, rng.bits(), empty).map_err(|error| fault(error.to_string()))?;
                *volume = Some((world, Guest::new(plan, i as u32), rng));
            }
            let Some((world, guest, rng)) = volume else { continue };
            guest.round(plan, world, rng, round).map_err(fault)?;
            std::mem::swap(&mut world.ssd, &mut ssd);
        }
    }
    Ok(volumes.into_iter().flatten().map(|(_, guest, _)| guest.tally).collect())
}

impl Plan {
    fn machine(&self, round: u32) -> Machine {
        self.machines[round as usize % self.machines.len()].clone()
    }
}

/// Guarantee 8, as far as counters can say.
fn conserved(counters: &Counters) -> Result<(), String> {
    let hits: u64 = counters.read_hits.iter().sum();
    if hits + counters.read_misses == counters.block_reads {
        return Ok(());
    }
    Err(format!("the counters do not add up: {counters:?}"))
}

struct Guest {
    requests_may_fail: bool,
    model: Model,
    asked: HashMap<u64, Asked>,
    token: u64,
    tally: Tally,
}

impl Guest {
    fn new(plan: &Plan, volume: u32) -> Guest {
        Guest {
            requests_may_fail: plan.faults != Faults::default() || plan.flips > 0,
            model: Model::new(plan.machines[0].config.volume_bytes, volume),
            asked: HashMap::new(),
            token: 0,
            tally: Tally::default(),
        }
    }

    /// A life, its end, and what is there after it. At the end the host is down.
    fn round(&mut self, plan: &Plan, world: &mut World, rng: &mut Rng, round: u32) -> Result<(), String> {
        self.life(plan, world, rng)?;
        conserved(world.engine().counters())?;
        let crash = match plan.crash {
            Crash::Any => [Crash::Kill, Crash::Power, Crash::Stop][rng.below(3) as usize],
            crash => crash,
        };
        self.note(world);
        if crash == Crash::Stop {
            self.stop(world)?;
        }
        self.asked.clear();
        self.model.crash();
        world.go_down(crash == Crash::Power);
        world.damage(plan.flips);
        let next = plan.machine(round + 1);
        for _ in 0..rng.below(u64::from(plan.failed_starts) + 1) {
            const MOST_WRITES: u64 = 40;
            world.ssd.fail_after = Some(rng.below(MOST_WRITES));
            let started = world.restart(next.clone());
            world.ssd.fail_after = None;
            self.tally.failed_starts += u64::from(started.is_err());
            world.go_down(true);
        }
        world.restart(next).map_err(|error| error.to_string())?;
        self.tally.crashes += 1;
        // What a kill left unflushed is only settled by a flush.
        self.flush(world)?;
        let damaged = plan.flips > 0;
        self.read_everything(world, damaged).map_err(|error| format!("after {crash:?}: {error}"))?;
        world.go_down(false);
        Ok(())
    }

    fn life(&mut self, plan: &Plan, world: &mut World, rng: &mut Rng) -> Result<(), String> {
        let mut left = 1 + rng.below(u64::from(plan.requests));
        let sound = rng.below(left + 1);
        let last_step = plan.most_steps.map(|steps| world.steps() + steps);
        while left > 0 && last_step.is_none_or(|last| world.steps() < last) {
            while self.asked.len() < plan.depth && left > 0 {
                left -= 1;
                if left <= sound {
                    world.faults = plan.faults;
                }
                let request = self.ask(plan, rng);
                world.submit(request);
            }
            if rng.chance(2) {
                world.tick();
            }
            if !world.step() && self.asked.is_empty() {
                continue;
            }
            self.collect(world)?;
            if !self.asked.is_empty() && self.asked.len() >= plan.depth {
                self.wait_for_one(world)?;
            }
        }
        Ok(())
    }

    fn wait_for_one(&mut self, world: &mut World) -> Result<(), String> {
        let before = self.asked.len();
        while self.asked.len() == before {
            if !world.step_or_tick() {
                return Err(format!("{} requests are never answered", self.asked.len()));
            }
            self.collect(world)?;
        }
        Ok(())
    }

    fn ask(&mut self, plan: &Plan, rng: &mut Rng) -> GuestRequest {
        self.token += 1;
        let total = self.model.sectors() as u64;
        let hot = rng.chance(70);
        let space = if hot { total / 8 } else { total };
        let mut first = rng.below(space.max(1));
        let mut count = 1 + rng.below(plan.longest_sectors);
        if rng.chance(60) {
            first -= first % 8;
            count = count.next_multiple_of(8);
        }
        let last = (first + count).min(total);
        let sectors = first as usize..last as usize;
        let (offset_bytes, length_bytes) = (first * SECTOR as u64, (last - first) * SECTOR as u64);
        let kind = rng.below(100);
        let (op, asked) = if kind < 45 {
            let may_fail = self.requests_may_fail;
            let expected = sectors.clone().map(|sector| self.model.expected(sector, may_fail)).collect();
            (GuestOp::Read { offset_bytes, length_bytes }, Asked::Read { sectors, expected })
        } else if kind < 88 {
            let fua = rng.chance(10);
            let write = self.model.submit(sectors.clone(), Change::Data);
            let bytes: Vec<u8> = sectors.flat_map(|sector| Model::content(write, sector)).collect();
            (GuestOp::Write { offset_bytes, buf: Buf::copy_of(&bytes), fua }, Asked::Write { write, fua })
        } else if kind < 95 {
            (GuestOp::Flush, Asked::Flush { mark: self.model.flush_mark() })
        } else if kind < 98 {
            let fua = rng.chance(20);
            let write = self.model.submit(sectors, Change::Zero);
            (GuestOp::WriteZeroes { offset_bytes, length_bytes, fua }, Asked::Write { write, fua })
        } else {
            let write = self.model.submit(sectors, Change::Trim);
            (GuestOp::Trim { offset_bytes, length_bytes }, Asked::Write { write, fua: false })
        };
        self.asked.insert(self.token, asked);
        GuestRequest { token: self.token, op, last: true, now_ns: 0 }
    }

    fn collect(&mut self, world: &mut World) -> Result<(), String> {
        for event in world.take_events() {
            self.answered(event)?;
        }
        Ok(())
    }

    fn answered(&mut self, event: Event) -> Result<(), String> {
        let asked = self.asked.remove(&event.token).ok_or("an answer to nothing")?;
        self.tally.answered += 1;
        match (asked, event.result) {
            (asked, Err(error)) if !self.requests_may_fail => {
                return Err(format!("{asked:?} failed with {error:?}"));
            }
            (Asked::Read { .. }, Err(_)) => self.tally.failed_reads += 1,
            (Asked::Write { write, .. }, Err(_)) => {
                self.tally.failed_writes += 1;
                self.model.fail(write);
            }
            (Asked::Flush { .. }, Err(_)) => self.tally.failed_writes += 1,

            (Asked::Read { sectors, expected }, Ok(())) => {
                let buf = event.buf.ok_or("a read without bytes")?;
                for (sector, (got, allowed)) in sectors.zip(buf.as_slice().chunks(SECTOR).zip(&expected)) {
                    if let Some(complaint) = Model::complaint(sector, got, allowed) {
                        return Err(complaint);
                    }
                    self.tally.sectors_checked += 1;
                }
            }
            (Asked::Write { write, fua }, Ok(())) => self.model.acknowledge(write, fua),
            (Asked::Flush { mark }, Ok(())) => self.model.flushed(mark),
        }
        Ok(())
    }

    /// An orderly stop: everything is answered, flushed and saved.
    fn stop(&mut self, world: &mut World) -> Result<(), String> {
        world.faults = Faults::default();
        world.settle();
        self.collect(world)?;
        if world.engine().alarms().failed {
            return if self.asked.is_empty() {
                Ok(())
            } else {
                Err("requests are never answered".to_owned())
            };
        }
        let mark = self.model.flush_mark();
        self.flush(world)?;
        self.model.flushed(mark);
        world.settle();
        if !world.engine().is_idle() {
            return Err("the engine does not come to rest".to_owned());
        }
        Ok(())
    }

    fn flush(&self, world: &mut World) -> Result<(), String> {
        let flush = GuestRequest { token: u64::MAX, op: GuestOp::Flush, last: true, now_ns: 0 };
        let event = world.serve(flush).ok_or("a flush is never answered")?;
        event.result.map_err(|error: GuestError| format!("a flush failed: {error:?}"))?;
        Ok(())
    }

    /// Reads the whole volume twice: what is there must be allowed, and must stay.
    fn read_everything(&mut self, world: &mut World, damaged: bool) -> Result<(), String> {
        let piece_sectors = if damaged { 8 } else { 128 };
        for _ in 0..2 {
            for first in (0..self.model.sectors()).step_by(piece_sectors) {
                let last = (first + piece_sectors).min(self.model.sectors());
                let op = GuestOp::Read {
                    offset_bytes: (first * SECTOR) as u64,
                    length_bytes: ((last - first) * SECTOR) as u64,
                };
                self.token += 1;
                let event = world.serve(GuestRequest { token: self.token, op, last: true, now_ns: 0 });
                let event = event.ok_or("a read after a crash is never answered")?;
                if damaged && event.result.is_err() {
                    self.tally.failed_reads += 1;
                    continue;
                }
                event.result.map_err(|error| format!("a read after a crash failed: {error:?}"))?;
                let buf = event.buf.ok_or("a read without bytes")?;
                for (sector, bytes) in (first..last).zip(buf.as_slice().chunks(SECTOR)) {
                    self.model.settle(sector, bytes)?;
                    self.tally.sectors_checked += 1;
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, world: &World) {
        let counters = world.engine().counters();
        self.tally.read_hits += counters.read_hits.iter().sum::<u64>();
        self.tally.write_backs += counters.write_backs;
        let alarms = world.engine().alarms();
        self.tally.damaged += alarms.damaged_clean + alarms.damaged_dirty;
        self.tally.ssd_errors += alarms.ssd_errors;
    }
}
