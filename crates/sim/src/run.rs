//! Random guests against a world, with crashes in between, held against the model.

use std::collections::HashMap;

use lode_engine::{Buf, Event, GuestError, GuestOp, GuestRequest};

use crate::model::{Model, SECTOR};
use crate::rng::Rng;
use crate::world::{Machine, World};

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
}

/// A guest's request on its way.
#[derive(Debug)]
enum Asked {
    Read { sectors: std::ops::Range<usize>, expected: Vec<u8> },
    Write { write: u32, fua: bool },
    Flush { mark: u64 },
}

/// Runs a plan. The error names what a guest read that it must not, with the seed that repeats it.
pub fn run(plan: &Plan) -> Result<Tally, String> {
    let fault = |error: String| format!("{error}; repeat with seed {}", plan.seed);
    let mut rng = Rng::new(plan.seed);
    let mut world = World::new(plan.machines[0].clone(), rng.bits()).map_err(|e| fault(e.to_string()))?;
    let volume_bytes = plan.machines[0].config.volume_bytes;
    let mut guest =
        Guest { model: Model::new(volume_bytes), asked: HashMap::new(), token: 0, tally: Tally::default() };
    for round in 0..plan.rounds {
        guest.life(plan, &mut world, &mut rng).map_err(&fault)?;
        let crash = match plan.crash {
            Crash::Any => [Crash::Kill, Crash::Power, Crash::Stop][rng.below(3) as usize],
            crash => crash,
        };
        guest.note(&world);
        if crash == Crash::Stop {
            guest.stop(&mut world).map_err(&fault)?;
        }
        guest.asked.clear();
        guest.model.crash();
        let machine = plan.machines[(round as usize + 1) % plan.machines.len()].clone();
        world.crash(crash == Crash::Power, machine).map_err(|e| fault(e.to_string()))?;
        guest.tally.crashes += 1;
        // What a kill left unflushed is only settled by a flush.
        guest.flush(&mut world).map_err(&fault)?;
        guest.read_everything(&mut world).map_err(|e| fault(format!("after {crash:?} {round}: {e}")))?;
    }
    Ok(guest.tally)
}

struct Guest {
    model: Model,
    asked: HashMap<u64, Asked>,
    token: u64,
    tally: Tally,
}

impl Guest {
    fn life(&mut self, plan: &Plan, world: &mut World, rng: &mut Rng) -> Result<(), String> {
        let mut left = 1 + rng.below(u64::from(plan.requests));
        while left > 0 {
            while self.asked.len() < plan.depth && left > 0 {
                left -= 1;
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
            if !world.step() {
                world.tick();
                if !world.step() {
                    return Err(format!("{} requests are never answered", self.asked.len()));
                }
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
            let expected = sectors.clone().flat_map(|sector| self.model.expected(sector)).collect();
            (GuestOp::Read { offset_bytes, length_bytes }, Asked::Read { sectors, expected })
        } else if kind < 88 {
            let fua = rng.chance(10);
            let write = self.model.submit(sectors.clone(), false);
            let bytes: Vec<u8> = sectors.flat_map(|sector| Model::content(write, sector)).collect();
            (GuestOp::Write { offset_bytes, buf: Buf::copy_of(&bytes), fua }, Asked::Write { write, fua })
        } else if kind < 95 {
            (GuestOp::Flush, Asked::Flush { mark: self.model.flush_mark() })
        } else {
            let fua = rng.chance(20);
            let write = self.model.submit(sectors, true);
            (GuestOp::WriteZeroes { offset_bytes, length_bytes, fua }, Asked::Write { write, fua })
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
        if let Err(error) = event.result {
            return Err(format!("{asked:?} failed with {error:?}"));
        }
        match asked {
            Asked::Read { sectors, expected } => {
                let buf = event.buf.ok_or("a read without bytes")?;
                let pairs = buf.as_slice().chunks(SECTOR).zip(expected.chunks(SECTOR));
                for (sector, (got, want)) in sectors.zip(pairs) {
                    if got != want {
                        let head =
                            |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap_or_default());
                        return Err(format!(
                            "sector {sector} reads {:#x} and must read {:#x}",
                            head(got),
                            head(want)
                        ));
                    }
                    self.tally.sectors_checked += 1;
                }
            }
            Asked::Write { write, fua } => self.model.acknowledge(write, fua),
            Asked::Flush { mark } => self.model.flushed(mark),
        }
        Ok(())
    }

    /// An orderly stop: everything is answered, flushed and saved.
    fn stop(&mut self, world: &mut World) -> Result<(), String> {
        world.settle();
        self.collect(world)?;
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
    fn read_everything(&mut self, world: &mut World) -> Result<(), String> {
        const PIECE_SECTORS: usize = 128;
        for _ in 0..2 {
            for first in (0..self.model.sectors()).step_by(PIECE_SECTORS) {
                let last = (first + PIECE_SECTORS).min(self.model.sectors());
                let op = GuestOp::Read {
                    offset_bytes: (first * SECTOR) as u64,
                    length_bytes: ((last - first) * SECTOR) as u64,
                };
                self.token += 1;
                let event = world.serve(GuestRequest { token: self.token, op, last: true, now_ns: 0 });
                let event = event.ok_or("a read after a crash is never answered")?;
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
    }
}
