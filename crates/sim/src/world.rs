//! One host: an engine, its two devices, and a clock that jumps from event to event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lode_engine::command::{Command, CommandKind, Completion, DeviceId, MediaError};
use lode_engine::store::{Store, StoreError, VolumeSpec};
use lode_engine::{Engine, EngineConfig, Event, GuestRequest};
use lode_policy::Settings;

use crate::disk::SimDisk;
use crate::rng::Rng;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The volume's engine.
    pub config: EngineConfig,
    /// Scheme and settings.
    pub settings: Settings,
    /// Size of the cache SSD; 0: none.
    pub ssd_bytes: u64,
    /// Extents of the SSD.
    pub extent_bytes: u64,
}

/// How often devices fail, in percent of the commands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Reads of the SSD that return an error.
    pub ssd_read_errors: u64,
    /// Writes of data to the SSD that return an error.
    pub ssd_write_errors: u64,
    /// Reads and writes of the backing disk that return an error.
    pub backing_errors: u64,
}

/// A command on its way.
#[derive(Debug)]
struct Pending {
    command: Command,
    /// For a flush: what it covers.
    mark: u64,
}

/// Devices, clock and engine.
#[derive(Debug)]
pub struct World {
    machine: Machine,
    rng: Rng,
    /// The cache SSD.
    pub ssd: SimDisk,
    /// The backing disk.
    pub backing: SimDisk,
    engine: Engine,
    now_ns: u64,
    due: BinaryHeap<Reverse<(u64, u64)>>,
    pending: std::collections::HashMap<u64, Pending>,
    arrivals: u64,
    events: Vec<Event>,
    /// How often devices fail from now on.
    pub faults: Faults,
}

impl World {
    /// Formats the SSD and starts on zeroed devices.
    pub fn new(machine: Machine, seed: u64) -> Result<World, StoreError> {
        let mut ssd = SimDisk::new(machine.ssd_bytes);
        if machine.ssd_bytes > 0 {
            let cache = lode_format::CacheId([7; 16]);
            Store::format(&mut ssd, cache, machine.config.block, Some(machine.extent_bytes))?;
        }
        let backing = SimDisk::new(machine.config.volume_bytes);
        let engine = start(&machine, &mut ssd)?;
        Ok(World {
            machine,
            rng: Rng::new(seed),
            ssd,
            backing,
            engine,
            now_ns: 0,
            due: BinaryHeap::new(),
            pending: std::collections::HashMap::new(),
            arrivals: 0,
            events: Vec::new(),
            faults: Faults::default(),
        })
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The virtual time.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Submits a guest's request.
    pub fn submit(&mut self, request: GuestRequest) {
        self.engine.submit(request);
        self.take_commands();
    }

    /// Lets one device finish something. False: nothing is under way.
    pub fn step(&mut self) -> bool {
        let Some(Reverse((at, arrival))) = self.due.pop() else { return false };
        self.now_ns = self.now_ns.max(at);
        let pending = self.pending.remove(&arrival).expect("what is due is pending");
        let completion = self.carry_out(pending);
        self.engine.complete(completion);
        self.take_commands();
        true
    }

    /// Lets the engine do what it does now and then.
    pub fn tick(&mut self) {
        self.engine.tick();
        self.take_commands();
    }

    /// Runs until nothing is under way, and saves.
    pub fn settle(&mut self) {
        const MOST_TICKS: usize = 64;
        for _ in 0..MOST_TICKS {
            while self.step() {}
            if self.engine.is_idle() && self.engine.is_saved() {
                return;
            }
            self.tick();
        }
    }

    /// Answers since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Submits a request and runs until it is answered. `None`: it never was.
    pub fn serve(&mut self, request: GuestRequest) -> Option<Event> {
        let token = request.token;
        self.submit(request);
        loop {
            if let Some(at) = self.events.iter().position(|event| event.token == token) {
                return Some(self.events.swap_remove(at));
            }
            if !self.step() {
                return None;
            }
        }
    }

    /// The process is killed and started again, or with `power_cut` the host. `machine` may differ in
    /// what a new configuration may change.
    pub fn crash(&mut self, power_cut: bool, machine: Machine) -> Result<(), StoreError> {
        let mut under_way: Vec<_> = std::mem::take(&mut self.pending).into_iter().collect();
        under_way.sort_unstable_by_key(|(arrival, _)| *arrival);
        self.due.clear();
        self.events.clear();
        for (_, pending) in under_way {
            if power_cut || self.rng.chance(50) {
                self.apply(&pending.command);
            }
        }
        if power_cut {
            self.ssd.power_cut(&mut self.rng);
            self.backing.power_cut(&mut self.rng);
        }
        self.machine = machine;
        self.restart()
    }

    /// Starts an engine on what the devices hold.
    pub fn restart(&mut self) -> Result<(), StoreError> {
        self.engine = start(&self.machine, &mut self.ssd)?;
        self.take_commands();
        Ok(())
    }

    fn take_commands(&mut self) {
        while let Some(command) = self.engine.next_command() {
            let mark = match command.device {
                DeviceId::Ssd => self.ssd.flush_mark(),
                DeviceId::Backing => self.backing.flush_mark(),
            };
            let service_ns = match command.device {
                DeviceId::Ssd => 20_000 + self.rng.below(200_000),
                DeviceId::Backing => 100_000 + self.rng.below(8_000_000),
            };
            self.arrivals += 1;
            self.due.push(Reverse((self.now_ns + service_ns, self.arrivals)));
            self.pending.insert(self.arrivals, Pending { command, mark });
        }
        while let Some(event) = self.engine.next_event() {
            self.events.push(event);
        }
    }

    fn fails(&mut self, command: &Command) -> bool {
        let percent = match (&command.kind, command.device) {
            (CommandKind::Read { .. }, DeviceId::Ssd) => self.faults.ssd_read_errors,
            (CommandKind::Write { buf, .. }, DeviceId::Ssd) if !is_metadata(buf.as_slice()) => {
                self.faults.ssd_write_errors
            }
            (CommandKind::Read { .. } | CommandKind::Write { .. }, DeviceId::Backing) => {
                self.faults.backing_errors
            }
            _ => 0,
        };
        percent > 0 && self.rng.chance(percent)
    }

    fn carry_out(&mut self, pending: Pending) -> Completion {
        let Pending { command, mark } = pending;
        let id = command.id;
        if self.fails(&command) {
            let buf = match command.kind {
                CommandKind::Read { buf, .. } | CommandKind::Write { buf, .. } => Some(buf),
                _ => None,
            };
            return Completion { id, result: Err(MediaError::Io), buf };
        }
        self.apply(&command);
        let disk = match command.device {
            DeviceId::Ssd => &mut self.ssd,
            DeviceId::Backing => &mut self.backing,
        };
        let buf = match command.kind {
            CommandKind::Read { offset_bytes, mut buf } => {
                disk.peek(offset_bytes, buf.as_mut_slice());
                Some(buf)
            }
            CommandKind::Write { buf, .. } => Some(buf),
            CommandKind::Flush => {
                disk.settle(mark);
                None
            }
            CommandKind::Trim { .. } | CommandKind::WriteZeroes { .. } => None,
        };
        Completion { id, result: Ok(()), buf }
    }

    /// What a command changes on its device.
    fn apply(&mut self, command: &Command) {
        let disk = match command.device {
            DeviceId::Ssd => &mut self.ssd,
            DeviceId::Backing => &mut self.backing,
        };
        match &command.kind {
            CommandKind::Write { offset_bytes, buf } => disk.put(*offset_bytes, buf.as_slice()),
            CommandKind::Trim { offset_bytes, length_bytes }
            | CommandKind::WriteZeroes { offset_bytes, length_bytes } => {
                disk.put(*offset_bytes, &vec![0; *length_bytes as usize]);
            }
            CommandKind::Read { .. } | CommandKind::Flush => {}
        }
    }
}

fn is_metadata(bytes: &[u8]) -> bool {
    bytes.starts_with(b"LODE")
}

fn start(machine: &Machine, ssd: &mut SimDisk) -> Result<Engine, StoreError> {
    let attached = if machine.ssd_bytes > 0 {
        let spec = VolumeSpec {
            name: "vm".to_owned(),
            backing_bytes: machine.config.volume_bytes,
            places: machine.config.ssd_places(),
        };
        Some(Store::open(ssd)?.attach(ssd, &spec)?)
    } else {
        None
    };
    Ok(Engine::new(machine.config, &machine.settings, attached))
}
