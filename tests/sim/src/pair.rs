//! The second SSD of a pair, and what a host does with the two: who is dropped, when the labels say so, and which device is a member.
//! What one volume does with them is [`PairSide`](crate::pair_side::PairSide)'s. It must not know engines, or what is on the SSDs.

use lode_engine::SharedDevice;
use lode_format::{CacheId, PairLabel};
use std::ops::Range;

use lode_store::pair::{
    Followers, MEMBERS, Pair, PairArray, PairDevice, PairHealth, erase_label, write_label,
};
use lode_store::{Store, StoreError, SyncDevice};
use lode_types::Rng;

use crate::disk::SimDisk;
use crate::machine::{Faults, Machine};
use crate::pair_resilver::{Came, Resilvering, put_label};
use crate::world::World;

mod start;

pub(crate) use start::{begins_again, look, open};

/// A pair of SSDs whose first member is elsewhere.
#[derive(Debug)]
pub struct SimPair {
    /// The second member.
    pub second: SimDisk,
    /// The configuration names it. Until it does, whatever it has is nothing to a start.
    is_second_named: bool,
    loses_name: bool,
    /// Members that get what the start writes that goes on.
    started_on: [bool; MEMBERS],
    /// What the labels say.
    labels: Pair,
    /// What the host remembers of them.
    known_generation: Option<u64>,
    /// How the pair stands, and which change of that it is.
    pub(crate) health: PairHealth,
    pub(crate) version: u64,
    pub(crate) followers: Followers,
    /// It has failed as a whole, for all who use it.
    pub(crate) has_failed: bool,
    /// A label that is being written, and how far that is.
    recording: Option<Recording>,
    /// After the next start a member that is missing or behind is resilvered.
    pub(crate) resilvers: bool,
    pub(crate) resilvering: Resilvering,
    /// Bytes of the pair that mean anything.
    used: Vec<Range<u64>>,
    /// Epoch of the run.
    epoch: u64,
    /// Which device of this run each member is.
    pub(crate) devices: [u64; MEMBERS],
    /// Devices in whose place another one came, by their numbers: what commands do goes there that were sent to them.
    gone: Vec<(u64, SimDisk)>,
    /// Members that were dropped in this run, whatever came in their place.
    pub(crate) were_dropped: [bool; MEMBERS],
    /// Ticks of all volumes together.
    pub(crate) ticks: u64,
    /// Members that were resilvered in this run.
    pub(crate) resilvered: u64,
    /// Resilvers that runs went on with where the ones before them had ended, and that nobody has counted.
    pub(crate) resumed: u64,
    /// This run does.
    is_resumed: bool,
    /// Members that were dropped in this run.
    pub(crate) dropped: u64,
    /// Members in whose place another device came in this run.
    pub(crate) replaced: u64,
    /// The labels that are to say that a member counts are not written, as long as this is set.
    pub holds_labels: bool,
    /// The member whose blocks are damaged.
    pub victim: usize,
    /// A member as it was when an earlier run ended.
    pub(crate) older: Option<(usize, Box<SimDisk>)>,
}

/// A pair beside the first one, whose two members are here.
#[derive(Debug)]
pub struct OtherPair {
    /// The first member.
    pub first: SimDisk,
    /// The second, and what the host does with the two.
    pub pair: SimPair,
}

/// Each pair of a host with its first member. There are others only beside a first one.
pub(crate) fn each_of<'a>(
    first: &'a mut SimDisk,
    pair: Option<&'a mut SimPair>,
    others: &'a mut [OtherPair],
) -> impl Iterator<Item = (&'a mut SimDisk, &'a mut SimPair)> {
    let others = others.iter_mut().map(|OtherPair { first, pair }| (first, pair));
    std::iter::once(first).zip(pair).chain(others)
}

/// The devices of a host's cache: one SSD, or the first member of a pair with what else there is of it and of other pairs.
#[derive(Debug)]
pub(crate) struct Cache {
    pub first: SimDisk,
    pub pair: Option<Box<SimPair>>,
    pub others: Vec<OtherPair>,
}

impl Default for Cache {
    /// One that is elsewhere.
    fn default() -> Cache {
        Cache { first: SimDisk::new(0), pair: None, others: Vec::new() }
    }
}

impl Cache {
    /// With an empty cache on it.
    pub(crate) fn formatted(machine: &Machine) -> Result<Cache, StoreError> {
        if !machine.config.ssd_is_pair {
            return Ok(Cache { first: World::formatted_ssd(machine)?, ..Cache::default() });
        }
        let mut others = SimPair::format(machine)?;
        let OtherPair { first, pair } = others.remove(0);
        Ok(Cache { first, pair: Some(Box::new(pair)), others })
    }

    /// Each pair with its first member; none where it is one SSD.
    pub(crate) fn pairs(&mut self) -> impl Iterator<Item = (&mut SimDisk, &mut SimPair)> {
        each_of(&mut self.first, self.pair.as_deref_mut(), &mut self.others)
    }
}

/// Which device a command to a member is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct To {
    pub pair: usize,
    pub member: usize,
    /// Which of the devices that were this member.
    pub device: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recording {
    Begun,
    Written,
    Flushed,
}

impl SimPair {
    /// Makes pairs of devices, with an empty cache on all of them. Gives their first members as well.
    pub(crate) fn format(machine: &Machine) -> Result<Vec<OtherPair>, StoreError> {
        let disks = |bytes| [0, 1].map(|_| SimDisk::new(bytes + PairLabel::DATA_START_BYTES));
        let mut disks: Vec<_> = machine.pair_bytes().into_iter().map(disks).collect();
        let devices =
            disks.iter_mut().map(|[first, second]| (first, Some(second).filter(|_| !machine.mirror_later)));
        let (block, extent_bytes) = (machine.config.block, Some(machine.extent_bytes));
        let labels = PairArray::format(devices.collect(), CacheId([7; 16]), block, extent_bytes)?;
        let of = |([first, second], labels): ([SimDisk; MEMBERS], Pair)| OtherPair {
            first,
            pair: SimPair::new(second, labels),
        };
        Ok(disks.into_iter().zip(labels).map(of).collect())
    }

    fn new(second: SimDisk, labels: Pair) -> SimPair {
        let known_generation = Some(labels.generation);
        let health =
            PairHealth { in_sync: labels.in_sync, is_recorded: true, is_lost: false, resilvering: None };
        SimPair {
            second,
            is_second_named: !labels.awaits_other,
            loses_name: false,
            started_on: [false; MEMBERS],
            labels,
            known_generation,
            health,
            version: 1,
            followers: Followers::default(),
            has_failed: false,
            recording: None,
            resilvers: false,
            resilvering: Resilvering::default(),
            used: Vec::new(),
            epoch: 0,
            devices: [0; MEMBERS],
            gone: Vec::new(),
            were_dropped: [false; MEMBERS],
            ticks: 0,
            resilvered: 0,
            resumed: 0,
            is_resumed: false,
            dropped: 0,
            replaced: 0,
            holds_labels: false,
            victim: 0,
            older: None,
        }
    }

    /// The cache that this pair has alone, as a start sees it.
    ///
    /// # Errors
    /// What a start is refused for.
    pub fn open<'a>(&'a mut self, first: &'a mut SimDisk) -> Result<PairArray<&'a mut SimDisk>, StoreError> {
        open(std::iter::once((first, self)))
    }

    /// By chance an operator takes the second out of the configuration before the next start, should it not have come by then.
    pub(crate) fn lose_name_by_chance(&mut self, rng: &mut Rng) {
        self.loses_name = self.is_second_named && self.labels.awaits_other && rng.chance(50);
    }

    /// A start has succeeded, and left the pair like this. Volumes join afterwards.
    pub(crate) fn begin_run(&mut self, first: &mut SimDisk, labels: Pair, epoch: u64, used: Vec<Range<u64>>) {
        self.epoch = epoch;
        (self.labels, self.known_generation) = (labels, Some(labels.generation));
        // One of which labels say how much it has gets what is written from the beginning.
        let (in_sync, resilvering) = (labels.in_sync, labels.resilvered_member());
        self.health = PairHealth { in_sync, is_recorded: true, is_lost: false, resilvering };
        (self.version, self.followers, self.has_failed) = (1, Followers::default(), false);
        (self.recording, self.dropped, self.resilvered, self.replaced) = (None, 0, 0, 0);
        (self.resilvering, self.used) = (Resilvering::default(), used);
        (self.devices, self.were_dropped) = ([0; MEMBERS], [false; MEMBERS]);
        self.gone.clear();
        (first.shared, self.second.shared) = (SharedDevice::default(), SharedDevice::default());
        let behind = (0..MEMBERS).find(|&member| !labels.in_sync[member]);
        let is_wanted = std::mem::take(&mut self.resilvers);
        self.is_resumed = resilvering.is_some();
        match behind {
            Some(member) if self.is_resumed => {
                self.resilvering.resume(member, self.version);
                self.resumed += 1;
            }
            Some(member) if is_wanted => {
                // Before that nobody could open it.
                if member == 0 {
                    first.end_late()
                } else {
                    self.second.end_late()
                }
                self.resilvering.begin(member);
            }
            _ => {}
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut PairHealth)) {
        change(&mut self.health);
        self.version += 1;
    }

    /// Which of the pairs it is.
    pub(crate) fn number(&self) -> usize {
        self.labels.number
    }

    /// The device that is this member now.
    pub(crate) fn to(&self, member: usize) -> To {
        To { pair: self.labels.number, member, device: self.devices[member] }
    }

    /// Whether another device has come in the place of this one.
    pub(crate) fn is_gone(&self, to: To) -> bool {
        to.device != self.devices[to.member]
    }

    /// Whether what happens to `only` of each pair, or of that one pair to which it happens alone, happens to this device: while the other
    /// one has everything, too.
    pub(crate) fn is_concerned(&self, to: To, faults: &Faults, only: Option<usize>) -> bool {
        if faults.only_pair.is_some_and(|only_pair| to.pair != only_pair) {
            return false;
        }
        // One that was resilvered has everything when its labels say so.
        let is_alone = !self.health.in_sync[1 - to.member] || self.resilvered_member() == Some(1 - to.member);
        only.is_none_or(|only| to.member == only && !self.is_gone(to) && !is_alone)
    }

    /// The bytes of the pair that mean anything by now, where that changes while volumes are served.
    pub(crate) fn set_used(&mut self, used: Vec<Range<u64>>) {
        self.used = used;
    }

    /// Goes on with a resilver, if there is one. False: that waits for something.
    pub(crate) fn resilver_step(&mut self, first: &mut SimDisk) -> bool {
        let hangs = first.hangs() || self.second.hangs();
        if hangs || (self.holds_labels && self.resilvering.labels_come_next()) {
            return false;
        }
        let member = usize::from(self.labels.in_sync[0]);
        let disks = [first, &mut self.second];
        let followed = (&self.followers, self.version);
        match self.resilvering.step(disks, &self.labels, &self.used, followed, self.epoch) {
            Came::Waits => return false,
            Came::On => {}
            Came::Begun => {
                self.change(|health| health.resilvering = Some(member));
                self.is_second_named = true;
                self.resilvering.begun(self.version);
            }
            Came::Failed(member) => self.drop_member(member),
            Came::Says(labels) => {
                self.labels = labels;
                self.known_generation = self.known_generation.max(Some(labels.generation));
            }
            Came::IsToCount(before) => self.labels = before,
            Came::Counts(labels) => {
                self.known_generation = self.known_generation.max(Some(self.labels.generation));
                self.labels = labels;
                self.change(|health| (health.in_sync[member], health.resilvering) = (true, None));
                self.resilvering.counted(self.version);
            }
            Came::Over(generation) => {
                self.known_generation = self.known_generation.max(Some(generation));
                self.resilvered += 1;
            }
        }
        true
    }

    /// Members that were resilvered in this run.
    pub fn resilvered(&self) -> u64 {
        self.resilvered
    }

    /// Whether this run goes on with a resilver where another one ended, and how many bytes of the pair labels call resilvered.
    pub fn resumed(&self) -> Option<u64> {
        self.is_resumed.then_some(self.labels.resilvered_bytes)
    }

    /// Whether a member is being resilvered.
    pub(crate) fn is_resilvering(&self) -> bool {
        self.resilvered_member().is_some()
    }

    /// The member that is being resilvered, until labels say that it has everything.
    pub(crate) fn resilvered_member(&self) -> Option<usize> {
        self.resilvering.member()
    }

    /// A member has failed, or an operator takes it out. The last one is not dropped.
    pub(crate) fn drop_member(&mut self, member: usize) {
        if self.health.resilvering == Some(member) {
            self.change(|health| health.resilvering = None);
            self.resilvering.give_up();
            // Labels say how much it has, which it gets no more of.
            if self.labels.resilvered_bytes > 0 {
                self.labels = self.labels.without_resilvered();
                self.change(|health| health.is_recorded = false);
                self.recording = Some(Recording::Begun);
            }
        } else if self.health.in_sync == [true; MEMBERS] {
            self.change(|health| (health.in_sync[member], health.is_recorded) = (false, false));
            self.labels = self.labels.without(member, self.epoch);
            self.recording = Some(Recording::Begun);
            self.were_dropped[member] = true;
            self.dropped += 1;
        }
    }

    /// The member in whose place another device may come now: it was dropped, labels say so, and nothing goes on with it.
    pub(crate) fn replaceable(&self) -> Option<usize> {
        let is_at_rest = self.health.is_recorded && !self.is_resilvering();
        (0..MEMBERS).find(|&member| is_at_rest && !self.health.uses(member))
    }

    /// Another device comes in the place of a member while volumes are served, and is resilvered. What they still send to the
    /// one that was there goes there.
    pub(crate) fn replace_online(&mut self, first: &mut SimDisk, member: usize) {
        let disk = if member == 0 { first } else { &mut self.second };
        let new = SimDisk::new_in_place_of(disk);
        (disk.fail_nth, disk.fail_after) = (None, None);
        self.gone.push((self.devices[member], std::mem::replace(disk, new)));
        // No number is given twice.
        self.devices[member] = 1 + self.devices.iter().max().expect("there are members");
        self.replaced += 1;
        self.resilvering.begin(member);
    }

    /// The device of a member of the pair, whose first one this is.
    pub(crate) fn device_of<'a>(&'a self, first: &'a SimDisk, to: To) -> &'a SimDisk {
        match to.member {
            _ if self.is_gone(to) => {
                &self.gone.iter().find(|(device, _)| *device == to.device).expect("one was replaced").1
            }
            0 => first,
            _ => &self.second,
        }
    }

    /// As [`SimPair::device_of`].
    pub(crate) fn device_of_mut<'a>(&'a mut self, first: &'a mut SimDisk, to: To) -> &'a mut SimDisk {
        match to.member {
            _ if self.is_gone(to) => {
                &mut self
                    .gone
                    .iter_mut()
                    .find(|(device, _)| *device == to.device)
                    .expect("one was replaced")
                    .1
            }
            0 => first,
            _ => &mut self.second,
        }
    }

    /// Whether a label is on its way to a member that answers.
    pub(crate) fn may_record(&self, first: &SimDisk) -> bool {
        let disk = if self.labels.first_in_sync() == 0 { first } else { &self.second };
        self.is_recording() && !disk.hangs()
    }

    /// Whether a label is on its way.
    pub(crate) fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    /// The label that says who was dropped goes a step further: written, flushed, and remembered by the host. False: the last member
    /// does not take it, and nothing is acknowledged any more.
    pub(crate) fn record(&mut self, first: &mut SimDisk) -> bool {
        let Some(recording) = self.recording else { return true };
        let member = self.labels.first_in_sync();
        let disk = if member == 0 { first } else { &mut self.second };
        let label = self.labels.label(member);
        let step = match recording {
            Recording::Begun => put_label(disk, &label).map(|()| Some(Recording::Written)),
            Recording::Written => disk.flush().map(|()| Some(Recording::Flushed)),
            Recording::Flushed => {
                self.known_generation = self.known_generation.max(Some(label.generation));
                self.change(|health| health.is_recorded = true);
                Ok(None)
            }
        };
        self.recording = step.unwrap_or(None);
        if step.is_err() {
            self.change(|health| health.is_lost = true);
            self.has_failed = true;
        }
        step.is_ok()
    }

    /// The host goes down. A label on its way may have come as far as its device.
    pub(crate) fn go_down(&mut self, first: &mut SimDisk, power_cut: bool, rng: &mut Rng) {
        while self.is_recording() && self.recording != Some(Recording::Flushed) && rng.chance(50) {
            self.record(first);
        }
        self.recording = None;
        self.resilvering = Resilvering::default();
        if power_cut {
            self.second.power_cut(rng);
        }
    }

    /// The next start finds a new device in place of a member.
    pub fn replace(&mut self, first: &mut SimDisk, member: usize) {
        let disk = if member == 0 { first } else { &mut self.second };
        *disk = SimDisk::new(disk.size_bytes());
    }

    /// The pair is formatted anew: what the host remembers is of a cache with another identity.
    pub fn forget(&mut self) {
        self.known_generation = None;
    }

    /// Keeps a member as it is, while nobody serves the pair.
    pub(crate) fn keep(&mut self, first: &SimDisk, member: usize) {
        let disk = if member == 0 { first } else { &self.second };
        self.older = Some((member, Box::new(disk.medium())));
    }

    /// The next start finds a member as it was once.
    pub(crate) fn put_back(&mut self, first: &mut SimDisk, member: usize, older: Box<SimDisk>) {
        let disk = if member == 0 { first } else { &mut self.second };
        *disk = *older;
        disk.shared = SharedDevice::default();
    }

    /// An operator takes a member out while nobody serves the pair.
    ///
    /// # Errors
    /// When the other one does not have everything, or does not take what it is to say.
    pub fn take_out(&mut self, first: &mut SimDisk, member: usize) -> Result<(), StoreError> {
        let mut labels = self.found(first);
        labels[member] = None;
        let said = Pair::of(labels, self.known_generation)?;
        let mut devices = [Some(first), Some(&mut self.second)];
        devices[member] = None;
        let mut device = PairDevice::new(said, devices);
        let epoch = Store::probe(&mut device)?.epoch;
        device.begin(&labels, epoch)?;
        self.known_generation = Some(device.pair().generation);
        Ok(())
    }

    /// An operator puts a new device in the place of a member that was taken out, while nobody serves the pair. The next start
    /// resilvers it.
    ///
    /// # Errors
    /// When labels do not say who is out, or the device does not take what it is to say.
    pub fn put_in(&mut self, first: &mut SimDisk, member: usize) -> Result<(), StoreError> {
        let labels = self.found(first);
        let said = Pair::of([0, 1].map(|at| labels[at].filter(|_| at != member)), self.known_generation)?;
        let disk = if member == 0 { first } else { &mut self.second };
        self.is_second_named = true;
        *disk = SimDisk::new_in_place_of(disk);
        let device_bytes = disk.size_bytes();
        erase_label(disk)?;
        write_label(disk, &said.label_of_new(device_bytes))
    }

    /// After the next start a member that is missing or behind is resilvered.
    pub fn resilver_after_start(&mut self) {
        self.resilvers = true;
    }
}
