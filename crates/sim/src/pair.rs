//! The second SSD of a pair, and what a host does with the two: which of them commands go to, who is dropped, and when the labels
//! say so. It must not know engines, or what is on the SSDs.

use lode_engine::command::{Command, DeviceId};
use lode_format::{CacheId, PairLabel, VolumeTag};
use std::ops::Range;

use lode_store::pair::{Fanout, MEMBERS, Pair, PairDevice, PairEnd, PairHealth, PairRead, probe_pair};
use lode_store::{StoreError, SyncDevice};
use lode_types::{BlockSize, Bufs, MediaError, Rng};

use crate::disk::SimDisk;
use crate::pair_fill::{Came, Fill};

/// A pair of SSDs whose first member is elsewhere.
#[derive(Debug)]
pub struct SimPair {
    /// The second member.
    pub second: SimDisk,
    /// What the labels say.
    labels: Pair,
    /// What the host remembers of them.
    known_generation: Option<u64>,
    pub(crate) health: PairHealth,
    pub(crate) fanout: Fanout,
    /// A label that is being written, and how far that is.
    recording: Option<Recording>,
    /// After the next start a member that is missing or behind is brought up to date.
    pub(crate) fills: bool,
    fill: Fill,
    /// Bytes of the pair that mean anything.
    used: Vec<Range<u64>>,
    /// Members that were brought up to date in this run.
    pub(crate) filled: u64,
    /// Members that were dropped in this run.
    pub(crate) dropped: u64,
    /// The member whose blocks are damaged.
    pub victim: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recording {
    Begun,
    Written,
    Flushed,
}

impl SimPair {
    /// Makes a pair of two devices of this size, with an empty cache. Gives the first one.
    pub(crate) fn format(
        bytes: u64,
        block: BlockSize,
        extent_bytes: u64,
    ) -> Result<(SimDisk, SimPair), StoreError> {
        let [mut first, mut second] = [0, 1].map(|_| SimDisk::new(bytes + PairLabel::DATA_START_BYTES));
        let cache = CacheId([7; 16]);
        let labels = PairDevice::format([&mut first, &mut second], cache, block, Some(extent_bytes))?;
        let known_generation = Some(labels.generation);
        let pair = SimPair {
            second,
            labels,
            known_generation,
            health: PairHealth { in_sync: [true; MEMBERS], is_recorded: true, is_lost: false, filling: None },
            fanout: Fanout::new(VolumeTag(0), Fanout::USUAL_TICKS),
            recording: None,
            fills: false,
            fill: Fill::default(),
            used: Vec::new(),
            filled: 0,
            dropped: 0,
            victim: 0,
        };
        Ok((first, pair))
    }

    /// The pair as a start sees it, with what labels and the host's memory say.
    ///
    /// # Errors
    /// What a start is refused for.
    pub fn open<'a>(&'a mut self, first: &'a mut SimDisk) -> Result<PairDevice<&'a mut SimDisk>, StoreError> {
        let labels = [probe_pair(first).ok(), probe_pair(&mut self.second).ok()];
        let said = Pair::of(labels, self.known_generation)?;
        // One that was being brought up to date says so itself.
        let is_unfinished = |member: usize| labels[member].is_some_and(|label| !label.in_sync[member]);
        self.fills |= (0..MEMBERS).any(is_unfinished);
        let is_used = |member: usize| labels[member].is_some() && said.in_sync[member];
        let mut devices = [Some(first), Some(&mut self.second)];
        for member in (0..MEMBERS).filter(|&member| !is_used(member)) {
            devices[member] = None;
        }
        let mut device = PairDevice::new(said, devices);
        device.begin(&labels)?;
        Ok(device)
    }

    /// A start has succeeded, and left the pair like this.
    pub(crate) fn begin_run(&mut self, labels: Pair, tag: VolumeTag, used: Vec<Range<u64>>) {
        (self.labels, self.known_generation) = (labels, Some(labels.generation));
        self.health =
            PairHealth { in_sync: labels.in_sync, is_recorded: true, is_lost: false, filling: None };
        self.fanout = Fanout::new(tag, Fanout::USUAL_TICKS);
        (self.recording, self.dropped, self.filled) = (None, 0, 0);
        (self.fill, self.used) = (Fill::default(), used);
        let behind = (0..MEMBERS).find(|&member| !labels.in_sync[member]);
        if let Some(member) = behind.filter(|_| std::mem::take(&mut self.fills)) {
            self.fill.begin(member);
        }
    }

    /// Commands to members for one to the pair.
    pub(crate) fn begin(&mut self, command: Command) {
        if let Some(Command { id, kind, read, .. }) = self.fill.admit(command, self.health.filling.is_some())
        {
            self.fanout.begin(id, kind, read, &self.health);
        }
    }

    /// The end of a command to the pair, as far as it may be told.
    pub(crate) fn next_end(&mut self) -> Option<PairEnd> {
        let end = self.fanout.next_end(&self.health)?;
        if end.is_write {
            self.fill.ended(end.id);
        }
        Some(end)
    }

    /// Goes on with bringing a member up to date, if it is. False: that waits for something.
    pub(crate) fn fill_step(&mut self, first: &mut SimDisk) -> bool {
        let came = self.fill.step([first, &mut self.second], &self.labels, &self.used);
        let member = usize::from(self.labels.in_sync[0]);
        match came {
            Came::Waits => return false,
            Came::On => {}
            Came::Begun => self.health.filling = Some(member),
            Came::Counts => {
                self.labels = self.labels.with(member, self.second.size_bytes());
                (self.health.in_sync[member], self.health.filling) = (true, None);
            }
            Came::Over(generation) => {
                self.known_generation = self.known_generation.max(Some(generation));
                self.filled += 1;
            }
        }
        for _ in 0..self.fill.parked() {
            self.fill.next_parked().into_iter().for_each(|command| self.begin(command));
        }
        true
    }

    /// Members that were brought up to date in this run.
    pub fn filled(&self) -> u64 {
        self.filled
    }

    /// Whether commands wait for what is copied where they write.
    pub(crate) fn somebody_waits(&self) -> bool {
        self.fill.parked() > 0
    }

    /// Whether anything waits for a label or for what is copied.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.is_recording() || self.somebody_waits()
    }

    /// Whether a member is being brought up to date.
    pub(crate) fn is_filling(&self) -> bool {
        self.fill.is_under_way()
    }

    /// The next command to a member, and to which one.
    pub(crate) fn next_leg(&mut self) -> Option<(Command, usize)> {
        let leg = self.fanout.next_leg()?;
        let read = PairRead::default();
        Some((Command { id: leg.token, device: DeviceId::Ssd, kind: leg.kind, read }, leg.member))
    }

    /// A command to a member has ended.
    pub(crate) fn leg_ended(&mut self, token: u64, result: Result<(), MediaError>, bufs: Bufs) {
        if let Some(member) = self.fanout.leg_ended(token, result, bufs, &self.health) {
            self.drop_member(member);
        }
    }

    /// About a second has gone by.
    pub(crate) fn tick(&mut self) {
        if let Some(member) = self.fanout.tick(&self.health) {
            self.drop_member(member);
        }
    }

    /// A member has failed. The last one is not dropped.
    pub(crate) fn drop_member(&mut self, member: usize) {
        if self.health.filling == Some(member) {
            self.health.filling = None;
            self.fill.give_up();
            self.fanout.give_up(member, &self.health);
            for _ in 0..self.fill.parked() {
                self.fill.next_parked().into_iter().for_each(|command| self.begin(command));
            }
            return;
        }
        if self.health.in_sync == [true; MEMBERS] {
            self.health.in_sync[member] = false;
            self.health.is_recorded = false;
            self.labels = self.labels.without(member);
            self.recording = Some(Recording::Begun);
            self.dropped += 1;
            self.fanout.give_up(member, &self.health);
        }
    }

    /// Whether a label is on its way.
    pub(crate) fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    /// The label that says who was dropped goes a step further: written, flushed, and remembered by the host.
    pub(crate) fn record(&mut self, first: &mut SimDisk) {
        let member = self.labels.first_in_sync();
        let disk = if member == 0 { first } else { &mut self.second };
        let label = self.labels.label(member);
        self.recording = match self.recording {
            None => return,
            Some(Recording::Begun) => {
                disk.put(lode_format::DeviceLayout::superblock(label.copy()), &label.encode()[..]);
                Some(Recording::Written)
            }
            Some(Recording::Written) => {
                disk.settle(disk.flush_mark());
                Some(Recording::Flushed)
            }
            Some(Recording::Flushed) => {
                self.known_generation = self.known_generation.max(Some(label.generation));
                self.health.is_recorded = true;
                None
            }
        };
    }

    /// The host goes down. A label on its way may have come as far as its device.
    pub(crate) fn go_down(&mut self, first: &mut SimDisk, power_cut: bool, rng: &mut Rng) {
        while self.is_recording() && self.recording != Some(Recording::Flushed) && rng.chance(50) {
            self.record(first);
        }
        self.recording = None;
        self.fill = Fill::default();
        if power_cut {
            self.second.power_cut(rng);
        }
    }

    /// Which members a start would find to have everything.
    pub(crate) fn found_in_sync(&mut self, first: &mut SimDisk) -> [bool; MEMBERS] {
        let labels = [probe_pair(first).ok(), probe_pair(&mut self.second).ok()];
        let found = Pair::of(labels, self.known_generation).map_or([false; MEMBERS], |said| said.in_sync);
        [0, 1].map(|member| found[member] && labels[member].is_some())
    }

    /// The next start finds a new device in place of a member.
    pub fn replace(&mut self, first: &mut SimDisk, member: usize) {
        let disk = if member == 0 { first } else { &mut self.second };
        *disk = SimDisk::new(disk.size_bytes());
    }

    /// After the next start a member that is missing or behind is brought up to date.
    pub fn fill_after_start(&mut self) {
        self.fills = true;
    }

    /// Blocks that were written again on a member on which they were damaged.
    pub fn healed(&self) -> u64 {
        self.fanout.healed()
    }
}
