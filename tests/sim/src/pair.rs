//! The second SSD of a pair, and what a host does with the two: which of them commands go to, who is dropped, and when the labels
//! say so. It must not know engines, or what is on the SSDs.

use lode_engine::SharedDevice;
use lode_engine::command::{Command, DeviceId};
use lode_format::{CacheId, PairLabel, VolumeTag};
use std::ops::Range;

use lode_store::pair::{
    DeviceChange, Followers, Leg, MEMBERS, Pair, PairArray, PairCommand, PairDevice, PairHealth, PairNews,
    PairOptions, PairVolume, erase_label, probe_pair, write_label,
};
use lode_store::{Store, StoreError, SyncDevice};
use lode_types::{BlockSize, Bufs, MediaError, Rng};

use crate::disk::SimDisk;
use crate::pair_resilver::{Came, Resilvering, put_label};

/// Ticks after which a member that does not answer is given up.
const MOST_TICKS: u64 = 10;

/// A pair of SSDs whose first member is elsewhere.
#[derive(Debug)]
pub struct SimPair {
    /// The second member.
    pub second: SimDisk,
    /// What the labels say.
    labels: Pair,
    /// What the host remembers of them.
    known_generation: Option<u64>,
    /// How the pair stands, and which change of that it is.
    pub(crate) health: PairHealth,
    version: u64,
    followers: Followers,
    volume: PairVolume,
    /// By which number the followers know the volume.
    follower: u64,
    /// A label that is being written, and how far that is.
    recording: Option<Recording>,
    /// After the next start a member that is missing or behind is resilvered.
    pub(crate) resilvers: bool,
    resilvering: Resilvering,
    /// Bytes of the pair that mean anything.
    used: Vec<Range<u64>>,
    /// Epoch of the run.
    epoch: u64,
    /// Devices in whose place another one came, with what commands do that were sent to them, and whether the volume still sends them.
    gone: [Option<SimDisk>; MEMBERS],
    sends_to_gone: [bool; MEMBERS],
    /// Members that were resilvered in this run.
    pub(crate) resilvered: u64,
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

/// Which device a command to a member is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct To {
    pub pair: usize,
    pub member: usize,
    /// Another one has come in its place.
    pub is_gone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recording {
    Begun,
    Written,
    Flushed,
}

impl SimPair {
    /// Makes pairs of devices, with an empty cache on all of them, of so many bytes on each. Gives their first members as well.
    pub(crate) fn format(
        pair_bytes: &[u64],
        block: BlockSize,
        extent_bytes: u64,
    ) -> Result<Vec<OtherPair>, StoreError> {
        let disks = |bytes: &u64| [0, 1].map(|_| SimDisk::new(bytes + PairLabel::DATA_START_BYTES));
        let mut disks: Vec<_> = pair_bytes.iter().map(disks).collect();
        let cache = CacheId([7; 16]);
        let devices = disks.iter_mut().map(|pair| pair.each_mut()).collect();
        let labels = PairArray::format(devices, cache, block, Some(extent_bytes))?;
        let of = |([first, second], labels): ([SimDisk; MEMBERS], Pair)| OtherPair {
            first,
            pair: SimPair::new(second, labels),
        };
        Ok(disks.into_iter().zip(labels).map(of).collect())
    }

    fn new(second: SimDisk, labels: Pair) -> SimPair {
        let known_generation = Some(labels.generation);
        let health =
            PairHealth { in_sync: [true; MEMBERS], is_recorded: true, is_lost: false, resilvering: None };
        SimPair {
            second,
            labels,
            known_generation,
            health,
            version: 1,
            followers: Followers::default(),
            volume: PairVolume::new(VolumeTag(0), MOST_TICKS, (health, 1), [false; MEMBERS]),
            follower: 0,
            recording: None,
            resilvers: false,
            resilvering: Resilvering::default(),
            used: Vec::new(),
            epoch: 0,
            gone: [None, None],
            sends_to_gone: [false; MEMBERS],
            resilvered: 0,
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

    /// The labels of both members.
    fn found(&mut self, first: &mut SimDisk) -> [Option<PairLabel>; MEMBERS] {
        [probe_pair(first).ok(), probe_pair(&mut self.second).ok()]
    }

    /// The pair as a start sees it that found these labels, which say this, and what the host remembers of it.
    fn device<'a>(
        &'a mut self,
        first: &'a mut SimDisk,
        labels: &[Option<PairLabel>; MEMBERS],
        said: Pair,
    ) -> (PairDevice<&'a mut SimDisk>, &'a mut Option<u64>) {
        // One that was being resilvered says so itself.
        let is_unfinished = |member: usize| labels[member].is_some_and(|label| !label.in_sync[member]);
        self.resilvers |= (0..MEMBERS).any(is_unfinished);
        let is_used = |member: usize| labels[member].is_some() && said.in_sync[member];
        let mut devices = [Some(first), Some(&mut self.second)];
        for member in (0..MEMBERS).filter(|&member| !is_used(member)) {
            devices[member] = None;
        }
        (PairDevice::new(said, devices), &mut self.known_generation)
    }

    /// A start has succeeded, and left the pair like this.
    pub(crate) fn begin_run(&mut self, labels: Pair, (tag, epoch): (VolumeTag, u64), used: Vec<Range<u64>>) {
        self.epoch = epoch;
        (self.labels, self.known_generation) = (labels, Some(labels.generation));
        self.health =
            PairHealth { in_sync: labels.in_sync, is_recorded: true, is_lost: false, resilvering: None };
        (self.version, self.followers) = (1, Followers::default());
        self.volume = PairVolume::new(tag, MOST_TICKS, (self.health, self.version), [false; MEMBERS]);
        self.follower = self.followers.join(self.volume.followed());
        (self.recording, self.dropped, self.resilvered, self.replaced) = (None, 0, 0, 0);
        (self.resilvering, self.used) = (Resilvering::default(), used);
        self.sends_to_gone = [false; MEMBERS];
        let behind = (0..MEMBERS).find(|&member| !labels.in_sync[member]);
        if let Some(member) = behind.filter(|_| std::mem::take(&mut self.resilvers)) {
            self.resilvering.begin(member);
        }
    }

    /// Commands to members for one to the pair.
    pub(crate) fn begin(&mut self, command: PairCommand) {
        self.volume.begin(command, Some(&mut self.resilvering.resilver));
    }

    fn begin_parked(&mut self) {
        self.volume.take_parked().into_iter().for_each(|command| self.begin(command));
    }

    /// The end of a command to the pair, as far as it may be told.
    pub(crate) fn next_news(&mut self) -> Option<PairNews> {
        let resilver = &mut self.resilvering.resilver;
        let news = self.volume.next_news(|number| resilver.end_write(number))?;
        self.followers.note(self.follower, self.volume.followed());
        Some(news)
    }

    fn change(&mut self, change: impl FnOnce(&mut PairHealth)) {
        change(&mut self.health);
        self.version += 1;
    }

    /// Whether the volume has not followed a change of the pair.
    pub(crate) fn has_news(&self) -> bool {
        self.volume.followed().adopted != self.version
    }

    /// The volume goes by what is known of the pair now.
    pub(crate) fn follow(&mut self) {
        self.volume.follow(self.health, self.version);
        while let Some(change) = self.volume.next_change() {
            if let DeviceChange::Open(member) = change {
                self.sends_to_gone[member] = false;
                self.volume.opened(member);
                self.volume.follow(self.health, self.version);
            }
        }
        self.followers.note(self.follower, self.volume.followed());
        self.begin_parked();
    }

    /// Goes on with a resilver, if there is one. False: that waits for something.
    pub(crate) fn resilver_step(&mut self, first: &mut SimDisk) -> bool {
        if self.holds_labels && self.resilvering.labels_come_next() {
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
                self.resilvering.begun(self.version);
            }
            Came::Failed(member) => self.drop_member(member),
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
        self.begin_parked();
        true
    }

    /// Members that were resilvered in this run.
    pub fn resilvered(&self) -> u64 {
        self.resilvered
    }

    /// Whether commands wait for what is copied where they write.
    pub(crate) fn somebody_waits(&self) -> bool {
        self.volume.has_parked()
    }

    /// Whether anything waits for a label, for what is copied or for what the volume does not know yet.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.is_recording() || self.somebody_waits() || self.has_news()
    }

    /// Whether a member is being resilvered.
    pub(crate) fn is_resilvering(&self) -> bool {
        self.resilvering.is_under_way()
    }

    /// The next command to a member, and to which one.
    pub(crate) fn next_leg(&mut self) -> Option<(Command, To)> {
        let Leg { token, member, kind } = self.volume.next_leg()?;
        let to = To { pair: self.labels.number, member, is_gone: self.sends_to_gone[member] };
        let (device, options) = (DeviceId::Ssd, PairOptions::default());
        Some((Command { id: token, device, kind, options }, to))
    }

    /// A command to a member has ended.
    pub(crate) fn leg_ended(&mut self, token: u64, result: Result<(), MediaError>, bufs: Bufs) {
        if let Some(member) = self.volume.leg_ended(token, result, bufs) {
            self.drop_member(member);
            self.follow();
        }
    }

    /// About a second has gone by.
    pub(crate) fn tick(&mut self) {
        // The last one that has everything is not given up.
        self.follow();
        if let Some(member) = self.volume.tick() {
            self.drop_member(member);
            self.follow();
        }
    }

    /// A member has failed, or an operator takes it out. The last one is not dropped.
    pub(crate) fn drop_member(&mut self, member: usize) {
        if self.health.resilvering == Some(member) {
            self.change(|health| health.resilvering = None);
            self.resilvering.give_up();
            self.begin_parked();
        } else if self.health.in_sync == [true; MEMBERS] {
            self.change(|health| (health.in_sync[member], health.is_recorded) = (false, false));
            self.labels = self.labels.without(member, self.epoch);
            self.recording = Some(Recording::Begun);
            self.dropped += 1;
        }
    }

    /// The member in whose place another device may come now: it was dropped, labels say so, and nothing goes on with it.
    pub(crate) fn replaceable(&self) -> Option<usize> {
        let is_at_rest = self.health.is_recorded && !self.is_resilvering();
        (0..MEMBERS).find(|&member| is_at_rest && !self.health.uses(member))
    }

    /// Another device comes in the place of a member while the volume is served, and is resilvered. What the volume still sends to the
    /// one that was there goes there.
    pub(crate) fn replace_online(&mut self, first: &mut SimDisk, member: usize) {
        let disk = if member == 0 { first } else { &mut self.second };
        let new = SimDisk::new_in_place_of(disk);
        (disk.fail_nth, disk.fail_after) = (None, None);
        self.gone[member] = Some(std::mem::replace(disk, new));
        self.sends_to_gone[member] = true;
        self.replaced += 1;
        self.resilvering.begin(member);
    }

    /// The device of a member of the pair, whose first one this is.
    pub(crate) fn device_of<'a>(&'a self, first: &'a SimDisk, to: To) -> &'a SimDisk {
        match to {
            To { member, is_gone: true, .. } => self.gone[member].as_ref().expect("one was replaced"),
            To { member: 0, .. } => first,
            To { .. } => &self.second,
        }
    }

    /// As [`SimPair::device_of`].
    pub(crate) fn device_of_mut<'a>(&'a mut self, first: &'a mut SimDisk, to: To) -> &'a mut SimDisk {
        match to {
            To { member, is_gone: true, .. } => self.gone[member].as_mut().expect("one was replaced"),
            To { member: 0, .. } => first,
            To { .. } => &mut self.second,
        }
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
        self.gone = [None, None];
        if power_cut {
            self.second.power_cut(rng);
        }
    }

    /// Which members a start would find to have everything.
    pub fn found_in_sync(&mut self, first: &mut SimDisk) -> [bool; MEMBERS] {
        let labels = self.found(first);
        let found = Pair::of(labels, self.known_generation).map_or([false; MEMBERS], |said| said.in_sync);
        [0, 1].map(|member| found[member] && labels[member].is_some())
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
        self.older = Some((member, Box::new(disk.clone())));
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
        *disk = SimDisk::new_in_place_of(disk);
        let device_bytes = disk.size_bytes();
        erase_label(disk)?;
        write_label(disk, &PairLabel { device_bytes, ..said.label(member) })
    }

    /// After the next start a member that is missing or behind is resilvered.
    pub fn resilver_after_start(&mut self) {
        self.resilvers = true;
    }

    /// Blocks that were written again on a member on which they were damaged.
    pub fn healed(&self) -> u64 {
        self.volume.healed()
    }
}

/// The pairs of a cache as a start sees them, with what labels and the host's memory say.
///
/// # Errors
/// What a start is refused for.
pub(crate) fn open<'a>(
    pairs: impl Iterator<Item = (&'a mut SimDisk, &'a mut SimPair)>,
) -> Result<PairArray<&'a mut SimDisk>, StoreError> {
    let mut pairs: Vec<_> = pairs.collect();
    let labels: Vec<_> = pairs.iter_mut().map(|(first, pair)| pair.found(first)).collect();
    let known: Vec<_> = pairs.iter().map(|(_, pair)| pair.known_generation).collect();
    let said = Pair::all_of(&labels, &known)?;
    let found = labels.iter().zip(said);
    let devices = pairs.into_iter().zip(found);
    let devices = devices.map(|((first, pair), (labels, said))| pair.device(first, labels, said));
    let (devices, mut known): (Vec<_>, Vec<_>) = devices.unzip();
    let mut array = PairArray::new(devices)?;
    array.begin(&labels, |number, generation| {
        *known[number] = Some(generation);
        Ok::<_, StoreError>(())
    })?;
    Ok(array)
}
