//! Several volumes of one host that divide its levels between them, on devices that carry out every command at once: nothing is
//! under way when a call returns, so that a test may look at every single write, or compare decisions.

use lode_engine::command::{Command, CommandKind, Completion, DeviceId};
use lode_engine::{Engine, GuestRequest, SpaceAnswer, SpaceBroker};
use lode_store::{DirectoryOutput, Distrust, Store, SyncDevice};
use lode_types::{Bufs, Rng};

use crate::disk::SimDisk;
use crate::machine::Machine;
use crate::world::World;

/// A host whose devices take no time. What a guest writes is on the backing disk and the SSD as soon as the engine says so; only a
/// flush makes it durable.
#[derive(Debug)]
pub struct DirectHost {
    /// The cache SSD of all volumes.
    pub ssd: SimDisk,
    /// What the volumes were made from.
    pub machines: Vec<Machine>,
    /// The volumes' backing disks.
    pub backing: Vec<SimDisk>,
    /// The volumes' engines.
    pub engines: Vec<Engine>,
    broker: SpaceBroker,
    /// What the host remembers of an SSD that failed, by volume.
    fences: Vec<Option<Distrust>>,
    /// Requests that failed.
    pub failed: usize,
    /// Nobody gets the turn to change its extents.
    pub holds_turns: bool,
    /// Those that wait for it then.
    held_turns: Vec<usize>,
}

impl DirectHost {
    /// Volumes on an SSD like that of the first machine. So many frames are nobody's at first.
    ///
    /// # Panics
    /// When the SSD has no room for them.
    pub fn new(machines: Vec<Machine>, free_frames: u32) -> DirectHost {
        let mut ssd = World::formatted_ssd(&machines[0]).expect("the SSD is large enough");
        let mut store = Store::open(&mut ssd).expect("it was formatted");
        let mut attach = |one: &Machine| store.attach(&mut ssd, &one.spec()).expect("there is room");
        let attached: Vec<_> = machines.iter().map(&mut attach).collect();
        let tags: Vec<_> = attached.iter().map(|one| one.tag()).collect();
        let engines: Vec<Engine> = std::iter::zip(attached, &machines)
            .map(|(attached, one)| Engine::new(one.config, &one.settings, Some(attached)))
            .collect();
        let mut broker = SpaceBroker::new(free_frames, Some(store.into_directory()));
        for (id, (engine, tag)) in std::iter::zip(&engines, tags).enumerate() {
            broker.join(id, Some(tag), engine.gauges().frames);
        }
        let backing = machines.iter().map(|one| SimDisk::new(one.config.volume_bytes)).collect();
        let fences = vec![None; machines.len()];
        DirectHost {
            ssd,
            machines,
            backing,
            engines,
            broker,
            fences,
            failed: 0,
            holds_turns: false,
            held_turns: Vec::new(),
        }
    }

    /// Lets everything happen that can, and has every write to a device looked at.
    pub fn run(&mut self, look: &mut dyn FnMut(&DirectHost)) {
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for at in 0..self.engines.len() {
                while let Some(command) = self.engines[at].next_command() {
                    moved = true;
                    let completion = self.carry_out(at, command, look);
                    self.engines[at].complete(completion);
                }
                while let Some(fence) = self.engines[at].next_fence() {
                    moved = true;
                    self.fences[at] = self.fences[at].max(Some(fence.distrust()));
                    self.engines[at].fence_ended(true);
                }
                while let Some(request) = self.engines[at].next_space_request() {
                    self.broker.ask(at, request);
                }
                while let Some(answer) = self.engines[at].next_answer() {
                    self.failed += usize::from(answer.result.is_err());
                }
            }
            while let Some(output) = self.broker.next_output() {
                let is_ok = match output {
                    DirectoryOutput::Write { offset_bytes, buf } => {
                        let written = self.ssd.write(offset_bytes, buf.as_slice());
                        look(self);
                        written.is_ok()
                    }
                    DirectoryOutput::Flush => SyncDevice::flush(&mut self.ssd).is_ok(),
                };
                self.broker.done(is_ok);
                if !is_ok {
                    // For all who use it.
                    self.engines.iter_mut().for_each(|engine| engine.device_failed(DeviceId::Ssd));
                }
            }
            while let Some((id, answer)) = self.broker.next_answer() {
                if answer == SpaceAnswer::Turn && self.holds_turns {
                    self.held_turns.push(id);
                    continue;
                }
                moved = true;
                self.engines[id].space_answered(answer);
            }
            if !self.holds_turns {
                let held = std::mem::take(&mut self.held_turns);
                moved |= !held.is_empty();
                held.into_iter().for_each(|id| self.engines[id].space_answered(SpaceAnswer::Turn));
            }
        }
    }

    /// What a start finds of the volumes on this SSD, and on their disks after a power cut. They are not served together.
    ///
    /// # Panics
    /// When the start is refused.
    pub fn start_on(&self, mut ssd: SimDisk, rng: &mut Rng) -> Vec<World> {
        let mut store = Store::open(&mut ssd).expect("it can be read");
        let mut worlds: Vec<World> = std::iter::zip(&self.machines, &self.backing)
            .zip(&self.fences)
            .map(|((machine, backing), &fence)| {
                let mut world = World::down(machine.clone(), rng.bits());
                world.remember_fence(fence);
                world.backing = backing.after_power_cut(rng);
                let places = store.view().places_of(&machine.name);
                world.restart_on(machine.clone(), places, &mut store, &mut ssd).expect("it starts");
                world
            })
            .collect();
        worlds.iter_mut().for_each(|world| world.ssd = ssd.clone());
        worlds
    }

    fn carry_out(&mut self, at: usize, command: Command, look: &mut dyn FnMut(&DirectHost)) -> Completion {
        let Command { id, device, kind, .. } = command;
        let disk = if device == DeviceId::Ssd { &mut self.ssd } else { &mut self.backing[at] };
        let mut filled = Bufs::new();
        let result = match kind {
            CommandKind::Read { offset_bytes, mut bufs } => {
                let mut at = offset_bytes;
                let result = bufs.iter_mut().try_for_each(|buf| {
                    let read = disk.read(at, buf.as_mut_slice());
                    at += buf.len() as u64;
                    read
                });
                filled = bufs;
                result
            }
            CommandKind::Write { offset_bytes, data } => {
                let result = disk.write(offset_bytes, &data.concat());
                look(self);
                result
            }
            CommandKind::Flush => {
                let result = SyncDevice::flush(disk);
                if result.is_err() && device == DeviceId::Ssd {
                    // For all who use it.
                    self.engines.iter_mut().for_each(|engine| engine.device_failed(device));
                }
                result
            }
            CommandKind::Trim { .. } | CommandKind::WriteZeroes { .. } => unreachable!("nobody asks for it"),
        };
        Completion { id, result, bufs: filled }
    }

    /// Serves a guest's request to its end.
    pub fn serve(&mut self, at: usize, request: GuestRequest) {
        self.engines[at].submit(request);
        self.run(&mut |_| {});
    }

    /// About a second passes.
    pub fn tick(&mut self, look: &mut dyn FnMut(&DirectHost)) {
        self.engines.iter_mut().for_each(Engine::tick);
        self.run(look);
    }
}
