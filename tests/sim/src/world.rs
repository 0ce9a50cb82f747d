//! One host: an engine, its devices, and a clock that jumps from event to event.

mod delays;
mod devices;
mod hangs;
mod operator;
mod ordered;
mod pairs;
mod rot;
mod sharing;
mod space;
mod start_hangs;
mod start_reads;
mod starts;

pub(crate) use pairs::FoundPairs;
pub(crate) use sharing::Opened;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use lode_engine::command::{Command, CommandKind, Completion, DeviceId, MediaError};
use lode_engine::{Answer, EndedFlush, Engine, Fence, FlushTicket, GuestRequest, Worth};
use lode_format::VolumeTag;
use lode_policy::Sizer;
use lode_store::pair::{ArrayCommands, Stripes};
use lode_store::{Distrust, Store, StoreError, SyncDevice};
use lode_types::Rng;

use crate::disk::SimDisk;
use crate::durable::Lost;
use crate::machine::{Faults, Machine};
use crate::memory::HostMemory;
use crate::pair::{Cache, OtherPair, SimPair, To, each_of};
use crate::pair_side::PairSide;
use crate::space::HostSpace;

/// A command on its way.
#[derive(Debug)]
struct Pending {
    command: Command,
    /// Of a pair of SSDs, the member that it is for.
    member: Option<To>,
    /// For a flush: what it covers, what those who share the device know it by, and how it ended if the device is through
    /// with it and has not said so yet.
    mark: u64,
    ticket: Option<FlushTicket>,
    flushed: Option<Result<(), MediaError>>,
    /// The system gave it up after a hang.
    is_given_up: bool,
}

/// A flush that ended well, while it is not known how those beside it end.
#[derive(Debug)]
struct Held {
    device: DeviceId,
    member: Option<To>,
    ended: EndedFlush,
    completion: Completion,
}

/// Devices, clock and engine.
#[derive(Debug)]
pub struct World {
    machine: Machine,
    rng: Rng,
    /// The cache SSD, or the first of a pair.
    pub ssd: SimDisk,
    /// The second one, where the SSD is a pair.
    pub pair: Option<Box<SimPair>>,
    /// Where there are several pairs, those beside the first, and which of them commands go to.
    pub other_pairs: Vec<OtherPair>,
    array: ArrayCommands,
    /// The volume's way to each of them.
    sides: Vec<PairSide>,
    /// Of each pair the member to which something happens in this run: no operator takes the other one out.
    pub(crate) failing_member: Option<usize>,
    /// The second SSD, of the size that the volume needs.
    pub read_ssd: SimDisk,
    /// The backing disk, perhaps together with those of other volumes.
    pub backing: SimDisk,
    /// The redo log beside it, where it is written in the order of the guest's flushes.
    pub redo: SimDisk,
    /// Where the volume's own begins.
    pub(crate) backing_start: u64,
    /// Where the host divides its levels: the part that all volumes have in common, and this one's number there.
    pub(crate) space: Option<HostSpace>,
    pub(crate) number: usize,
    /// What the directory knows the volume by, where it is led by hand.
    pub(crate) tag: Option<VolumeTag>,
    memory: HostMemory,
    /// A device failed, and the next start is not to believe this of the SSD. Outlives everything.
    fenced: Option<Distrust>,
    /// Nor are those that come after it, until the power was cut.
    fenced_until_reboot: bool,
    /// What it is being told to remember.
    fencing: Option<Fence>,
    /// A flush of the backing disk failed in this run, and that is not remembered yet.
    disk_failure_untold: bool,
    engine: Engine,
    /// Where schemes are told by and by of what was found: how much at a time, and what comes before.
    taking_over: Option<Rng>,
    /// Where some commands to SSDs take long: which, and how long.
    slow_commands: Option<Rng>,
    /// Divides the levels of the engine's own share: it is the only VM here.
    sizer: Sizer,
    now_ns: u64,
    due: BinaryHeap<Reverse<(u64, u64)>>,
    pending: HashMap<u64, Pending>,
    held: VecDeque<Held>,
    /// What waits for devices that hang, with how many times these had been given up.
    hung: Vec<(u64, u64)>,
    /// When something waited for such a device last.
    pub(crate) hung_until_ns: u64,
    /// Devices that hung, and whether any may.
    pub(crate) hangs: u64,
    pub(crate) may_hang: bool,
    arrivals: u64,
    /// Ticks of the engine.
    ticks: u64,
    steps: u64,
    /// Of all commands so far, in their order.
    digest: u64,
    events: Vec<Answer>,
    /// The power fails after so many steps: nothing happens any more until the host goes down.
    pub power_fails_at: Option<u64>,
    /// Where a write of one block to the SSD has failed in this run.
    bad_places: Vec<u64>,
    /// Writes that went elsewhere, and blocks of the SSD and of the read SSD that went bad while the volume was served.
    pub(crate) misdirected: u64,
    pub(crate) decayed: u64,
    /// What was damaged so on the SSD since the run began, some of it perhaps before it was durable.
    pub(crate) lost: Vec<Lost>,
    /// What must not have been asked of a device.
    complaint: Option<String>,
    /// The SSD answers nobody any more until the host has gone down, and another scheme was asked for since.
    pub(crate) ssd_died: bool,
    pub(crate) switched_since: bool,
    /// How often devices fail from now on.
    pub faults: Faults,
}

impl World {
    /// Formats the SSD and starts on zeroed devices.
    pub fn new(machine: Machine, seed: u64) -> Result<World, StoreError> {
        if machine.config.ssd_is_pair {
            let mut world = World::down(machine.clone(), seed);
            let Cache { first, pair, others } = Cache::formatted(&machine)?;
            (world.ssd, world.pair, world.other_pairs) = (first, pair, others);
            world.restart(machine)?;
            return Ok(world);
        }
        let ssd = World::formatted_ssd(&machine)?;
        World::on(machine, seed, ssd)
    }

    /// An SSD with an empty cache, if the machine has one.
    pub fn formatted_ssd(machine: &Machine) -> Result<SimDisk, StoreError> {
        let mut ssd = SimDisk::new(machine.ssd_bytes);
        if machine.ssd_bytes > 0 {
            let cache = lode_format::CacheId([7; 16]);
            Store::format(&mut ssd, cache, machine.config.block, Some(machine.extent_bytes))?;
        }
        Ok(ssd)
    }

    /// Starts on this SSD and a zeroed backing disk.
    pub fn on(machine: Machine, seed: u64, ssd: SimDisk) -> Result<World, StoreError> {
        let mut world = World::down(machine.clone(), seed);
        world.ssd = ssd;
        world.restart(machine)?;
        Ok(world)
    }

    /// A host that has not started, with a zeroed backing disk and an SSD that is elsewhere. What follows is
    /// [`World::restart_on`].
    pub fn down(machine: Machine, seed: u64) -> World {
        World {
            rng: Rng::new(seed),
            ssd: SimDisk::new(0),
            pair: None,
            other_pairs: Vec::new(),
            array: ArrayCommands::new(Stripes::one(0).into()),
            sides: Vec::new(),
            failing_member: None,
            read_ssd: SimDisk::new(machine.config.read_ssd_bytes()),
            fenced: None,
            fenced_until_reboot: false,
            fencing: None,
            disk_failure_untold: false,
            backing: SimDisk::new(machine.config.volume_bytes),
            redo: SimDisk::new(0),
            ticks: 0,
            backing_start: 0,
            space: None,
            number: 0,
            tag: None,
            memory: HostMemory::default(),
            engine: Engine::new(machine.config, &machine.settings, None),
            taking_over: None,
            slow_commands: None,
            sizer: World::sizer(&machine),
            machine,
            now_ns: 0,
            due: BinaryHeap::new(),
            pending: HashMap::new(),
            held: VecDeque::new(),
            hung: Vec::new(),
            hung_until_ns: 0,
            hangs: 0,
            may_hang: false,
            arrivals: 0,
            steps: 0,
            digest: 0,
            events: Vec::new(),
            power_fails_at: None,
            bad_places: Vec::new(),
            misdirected: 0,
            decayed: 0,
            lost: Vec::new(),
            ssd_died: false,
            switched_since: false,
            complaint: None,
            faults: Faults::default(),
        }
    }

    /// Of a volume whose share moves it divides what there may be.
    fn sizer(machine: &Machine) -> Sizer {
        Sizer::new(&machine.settings, machine.config.largest_share.unwrap_or(machine.config.share))
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Size of the cache SSD.
    pub fn ssd_bytes(&self) -> u64 {
        self.ssd.size_bytes()
    }

    /// Size of a cache block.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.machine.config.block.bytes()
    }

    /// Size of the read SSD.
    pub fn read_ssd_bytes(&self) -> u64 {
        self.read_ssd.size_bytes()
    }

    /// Commands completed so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// What tells this run's commands and their order from another's.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    fn note_in_digest(&mut self, command: &Command) {
        let kind = match &command.kind {
            CommandKind::Read { .. } => 0,
            CommandKind::Write { .. } => 1,
            CommandKind::Flush => 2,
            CommandKind::Trim { .. } => 3,
            CommandKind::WriteZeroes { .. } => 4,
        };
        let (offset, length) = command.kind.range();
        for word in [command.device as u64, kind, offset, length, self.now_ns] {
            self.digest = Rng::new(self.digest ^ word).bits();
        }
    }

    /// The virtual time.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Submits a guest's request.
    pub fn submit(&mut self, request: GuestRequest) {
        self.notice_failures();
        let counts = request.is_access();
        let now_ns = request.now_ns;
        self.engine.set_clock(self.now_ns);
        self.engine.submit(request);
        if counts {
            self.sizer.after_request(now_ns, std::slice::from_mut(&mut self.engine));
        }
        self.take_commands();
    }

    /// Lets one device finish something. False: nothing is under way.
    pub fn step(&mut self) -> bool {
        if self.is_without_power() {
            return false;
        }
        self.notice_failures();
        if self.take_over_step() {
            self.steps += 1;
            return true;
        }
        if self.space_step() {
            self.steps += 1;
            self.take_commands();
            return true;
        }
        let completion = match self.next_decided() {
            Some(completion) => Some(completion),
            None => {
                let Some((at, arrival)) = self.next_due() else { return self.pair_step_alone() };
                self.now_ns = self.now_ns.max(at);
                self.engine.set_clock(self.now_ns);
                let pending = self.pending.remove(&arrival).expect("what is due is pending");
                self.carry_out(pending)
            }
        };
        self.steps += 1;
        if let Some((completion, member)) = completion {
            self.completed(completion, member);
        }
        self.pair_step();
        self.take_commands();
        true
    }

    fn is_without_power(&self) -> bool {
        self.power_fails_at.is_some_and(|last| self.steps >= last)
    }

    /// The SSD has failed for another volume.
    pub(crate) fn ssd_has_failed_another(&mut self) {
        self.disk(DeviceId::Ssd, None).shared.fail();
    }

    /// The end of a flush that waited for those beside it.
    fn next_decided(&mut self) -> Option<(Completion, Option<To>)> {
        let worth = |held: &Held| self.shared_disk(held.device, held.member).shared.worth(held.ended);
        let at = self.held.iter().position(|held| worth(held) != Worth::Open)?;
        let is_durable = worth(&self.held[at]) == Worth::Durable;
        let Held { completion, member, .. } = self.held.remove(at)?;
        let result = if is_durable { completion.result } else { Err(MediaError::Gone) };
        Some((Completion { result, ..completion }, member))
    }

    fn shared_disk(&self, device: DeviceId, member: Option<To>) -> &SimDisk {
        match device {
            DeviceId::Ssd => match (&self.pair, member) {
                (Some(pair), Some(to)) => match to.pair.checked_sub(1) {
                    None => pair.device_of(&self.ssd, to),
                    Some(other) => self.other_pairs[other].pair.device_of(&self.other_pairs[other].first, to),
                },
                _ => &self.ssd,
            },
            DeviceId::ReadSsd => &self.read_ssd,
            DeviceId::Backing => &self.backing,
            DeviceId::Redo => &self.redo,
        }
    }

    /// Whether it waits for flushes of others.
    pub(crate) fn is_held(&self) -> bool {
        !self.held.is_empty() || self.space.as_ref().is_some_and(HostSpace::is_open)
    }

    /// Whether flushes are under way, for which others may wait.
    pub(crate) fn has_flushes(&self) -> bool {
        self.pending.values().any(|pending| pending.ticket.is_some())
    }

    /// Whether any command is under way.
    pub(crate) fn has_commands(&self) -> bool {
        !self.pending.is_empty() || !self.held.is_empty()
    }

    /// Whether no device has anything to do, no pair is waited for, as by a directory that waits for what a resilver copies, and no answer is
    /// left to be taken.
    pub(crate) fn stands_still(&mut self) -> bool {
        let is_empty = self.due.is_empty() && self.hung.is_empty() && self.held.is_empty();
        is_empty && self.events.is_empty() && !self.waits_for_pairs()
    }

    /// Lets the engine do what it does now and then.
    pub fn tick(&mut self) {
        if self.is_without_power() {
            return;
        }
        self.notice_failures();
        self.ticks += 1;
        self.engine.tick();
        self.tick_devices();
        self.tick_pairs();
        self.resilver_pairs();
        self.pair_step();
        self.take_commands();
    }

    /// Runs until nothing is under way, and saves.
    pub fn settle(&mut self) {
        const MOST_TICKS: usize = 64;
        for _ in 0..MOST_TICKS {
            while self.step() {}
            if self.engine.is_idle() && self.engine.is_saved() && !self.engine.is_rescuing() {
                return;
            }
            self.tick();
        }
    }

    /// Answers since the last call.
    pub fn take_events(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.events)
    }

    /// Lets one device finish something, or where everything stands still, the engine do what it does
    /// now and then. False: nothing moves any more.
    pub fn step_or_tick(&mut self) -> bool {
        let ticks = match self.failing_member {
            // Until one that hangs, perhaps for another volume, is given up, and labels say so: that takes long where a flush beside that of
            // another one stays open.
            Some(_) => 80,
            // Until it answers again.
            None if self.has_hanging_device() => 40,
            None if self.faults.hanging_member.is_some() => 16,
            None => 4,
        };
        (0..ticks).any(|_| {
            self.step() || !self.events.is_empty() || {
                self.tick();
                false
            }
        }) || !self.events.is_empty()
    }

    /// Submits a request and runs until it is answered. `None`: it never was.
    pub fn serve(&mut self, request: GuestRequest) -> Option<Answer> {
        let token = request.token;
        self.submit(request);
        loop {
            if let Some(at) = self.events.iter().position(|event| event.token == token) {
                return Some(self.events.swap_remove(at));
            }
            if !self.step_or_tick() {
                return None;
            }
        }
    }

    /// The process is killed, or with `power_cut` the host fails. What follows is [`World::restart`].
    pub fn go_down(&mut self, power_cut: bool) {
        let mut under_way: Vec<_> = std::mem::take(&mut self.pending).into_iter().collect();
        under_way.sort_unstable_by_key(|(arrival, _)| *arrival);
        self.due.clear();
        self.held.clear();
        self.hung.clear();
        self.end_hangs();
        self.process_ends(power_cut);
        self.events.clear();
        if let Some(mut space) = self.space.take() {
            let World { ssd, pair, other_pairs, rng, .. } = self;
            space.go_down(ssd, power_cut, rng);
            space.go_down_on_pairs(
                &mut each_of(ssd, pair.as_deref_mut(), other_pairs).collect(),
                power_cut,
                rng,
            );
        }
        for (_, pending) in under_way {
            let is_gone = self.is_gone(pending.command.device, pending.member);
            if !is_gone && (power_cut || self.rng.chance(50)) && !self.is_replaced(pending.member) {
                self.apply(&pending.command, pending.member);
            }
        }
        (self.faults, self.ssd_died, self.power_fails_at) = (Faults::default(), false, None);
        let is_forgotten = self.fence_goes_down(power_cut);
        for (first, pair) in each_of(&mut self.ssd, self.pair.as_deref_mut(), &mut self.other_pairs) {
            pair.go_down(first, power_cut, &mut self.rng);
        }
        if power_cut {
            self.ssd.power_cut(&mut self.rng);
            self.other_pairs.iter_mut().for_each(|other| other.first.power_cut(&mut self.rng));
            self.read_ssd.power_cut(&mut self.rng);
            self.backing.power_cut(&mut self.rng);
            self.redo.power_cut(&mut self.rng);
            self.memory.power_cut(&mut self.rng);
        }
        if is_forgotten {
            self.backing.decide_dropped(&mut self.rng);
        }
        self.redo.decide_dropped(&mut self.rng);
    }

    fn disk(&mut self, device: DeviceId, member: Option<To>) -> &mut SimDisk {
        match device {
            DeviceId::Ssd => match (&mut self.pair, member) {
                (Some(pair), Some(to)) => match to.pair.checked_sub(1) {
                    None => pair.device_of_mut(&mut self.ssd, to),
                    Some(other) => {
                        let OtherPair { first, pair } = &mut self.other_pairs[other];
                        pair.device_of_mut(first, to)
                    }
                },
                _ => &mut self.ssd,
            },
            DeviceId::ReadSsd => &mut self.read_ssd,
            DeviceId::Backing => &mut self.backing,
            DeviceId::Redo => &mut self.redo,
        }
    }

    fn is_gone(&self, device: DeviceId, member: Option<To>) -> bool {
        match device {
            DeviceId::Ssd => {
                self.ssd_died || (self.faults.ssd_gone && self.is_concerned(member, self.faults.only_member))
            }
            DeviceId::ReadSsd => self.faults.read_ssd_gone,
            DeviceId::Backing | DeviceId::Redo => false,
        }
    }

    pub(crate) fn take_commands(&mut self) {
        self.fence();
        for device in [DeviceId::Ssd, DeviceId::Backing] {
            if self.engine.has_failed(device) {
                match device {
                    DeviceId::Ssd if self.pair.is_some() => self.pairs_have_failed(),
                    _ => self.disk(device, None).shared.fail(),
                }
            }
        }
        if let Some(space) = &mut self.space {
            while let Some(request) = self.engine.next_space_request() {
                space.ask(self.number, request);
            }
            space.send(&mut self.ssd);
        }
        while let Some((command, member)) = self.next_command() {
            let service_ns = self.service_ns(command.device);
            self.arrivals += 1;
            let hangs = self
                .faults
                .hanging_member
                .is_some_and(|_| self.is_concerned(member, self.faults.hanging_member));
            if member.is_none() || !hangs {
                self.due.push(Reverse((self.now_ns + service_ns, self.arrivals)));
            }
            let pending = self.send(command, member);
            self.pending.insert(self.arrivals, pending);
        }
        while let Some(event) = self.engine.next_answer() {
            self.events.push(event);
        }
    }
}
