//! The second SSD of a pair, and what a host does with the two: which of them commands go to, who is dropped, and when the labels
//! say so. It must not know engines, or what is on the SSDs.

use lode_engine::command::{Command, DeviceId};
use lode_format::{CacheId, PairLabel, VolumeTag};
use lode_store::pair::{Fanout, MEMBERS, Pair, PairDevice, PairHealth, PairRead, probe_pair};
use lode_store::{StoreError, StoreView, SyncDevice};
use lode_types::{BlockSize, Bufs, MediaError, Rng};

use crate::disk::SimDisk;

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
    /// The next start brings a member that is missing or behind up to date.
    pub(crate) fills: bool,
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
            health: PairHealth { in_sync: [true; MEMBERS], is_recorded: true, is_lost: false },
            fanout: Fanout::new(VolumeTag(0)),
            recording: None,
            fills: false,
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
        let is_used = |member: usize| labels[member].is_some() && said.in_sync[member];
        let (mut devices, mut left) = ([Some(first), Some(&mut self.second)], None);
        for member in (0..MEMBERS).filter(|&member| !is_used(member)) {
            left = devices[member].take().map(|device| (member, device));
        }
        let mut device = PairDevice::new(said, devices);
        device.begin(&labels)?;
        if let Some((member, disk)) = left.filter(|_| std::mem::take(&mut self.fills)) {
            let ranges = StoreView::read(&mut device)?.used_bytes();
            device.fill(member, disk, &ranges, &mut |_| {})?;
        }
        Ok(device)
    }

    /// A start has succeeded, and left the pair like this.
    pub(crate) fn begin_run(&mut self, labels: Pair, tag: VolumeTag) {
        (self.labels, self.known_generation) = (labels, Some(labels.generation));
        self.health = PairHealth { in_sync: labels.in_sync, is_recorded: true, is_lost: false };
        self.fanout = Fanout::new(tag);
        (self.recording, self.dropped) = (None, 0);
    }

    /// Commands to members for one to the pair.
    pub(crate) fn begin(&mut self, Command { id, kind, read, .. }: Command) {
        self.fanout.begin(id, kind, read, &self.health);
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
                self.known_generation = Some(label.generation);
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

    /// The next start brings a member that is missing or behind up to date.
    pub fn fill_at_start(&mut self) {
        self.fills = true;
    }

    /// Blocks that were written again on a member on which they were damaged.
    pub fn healed(&self) -> u64 {
        self.fanout.healed()
    }
}
