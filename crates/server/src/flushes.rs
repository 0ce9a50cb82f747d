//! A volume's flushes on devices that others use as well: what was told of them is believed once it is known how those
//! beside them ended. It must not know what is flushed, or why.

use std::collections::HashMap;

use lode_engine::Worth;
use lode_engine::command::DeviceId;
use lode_media::Waker;

use crate::shared::{DisksOf, Flushed, Flushing};

/// What a volume lies on, and its flushes. See the module's documentation.
#[derive(Debug)]
pub(crate) struct Flushes {
    ssd: Option<DisksOf>,
    backing: DisksOf,
    under_way: HashMap<u64, (DeviceId, Flushing)>,
    /// Ended well, while others are under way.
    open: Vec<(u64, DeviceId, Flushed)>,
}

/// What becomes of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// What it covered is durable.
    Durable,
    /// It failed, for this volume or for another one.
    Failed,
    /// That is open.
    Open,
}

impl Flushes {
    pub(crate) fn new(ssd: Option<DisksOf>, backing: DisksOf, waker: Waker) -> Flushes {
        backing.wakes(waker);
        Flushes { ssd, backing, under_way: HashMap::new(), open: Vec::new() }
    }

    fn disks(&self, device: DeviceId) -> Option<&DisksOf> {
        match device {
            DeviceId::Ssd => self.ssd.as_ref(),
            DeviceId::Backing => Some(&self.backing),
            // What it holds is promised to nobody.
            DeviceId::ReadSsd => None,
        }
    }

    /// Flush `id` is sent to a device.
    pub(crate) fn begin(&mut self, id: u64, device: DeviceId) {
        if let Some(flushing) = self.disks(device).map(DisksOf::begin_flush) {
            self.under_way.insert(id, (device, flushing));
        }
    }

    /// Command `id` ended. `None`: it is no flush.
    pub(crate) fn end(&mut self, id: u64, ok: bool) -> Option<Verdict> {
        let (device, flushing) = self.under_way.remove(&id)?;
        let disks = self.disks(device)?;
        let flushed = disks.end_flush(flushing, ok);
        if !ok {
            return Some(Verdict::Failed);
        }
        // Before it is asked, so that whoever ends in between wakes this thread.
        disks.note_open(true);
        let verdict = verdict(disks.worth(&flushed));
        match verdict {
            Verdict::Open => self.open.push((id, device, flushed)),
            _ => disks.note_open(false),
        }
        Some(verdict)
    }

    /// An open flush that is decided now.
    pub(crate) fn next_decided(&mut self) -> Option<(u64, Verdict)> {
        let verdict_of = |(_, device, flushed): &(u64, DeviceId, Flushed)| {
            self.disks(*device).map_or(Verdict::Failed, |disks| verdict(disks.worth(flushed)))
        };
        let (at, verdict) = self
            .open
            .iter()
            .enumerate()
            .map(|(at, open)| (at, verdict_of(open)))
            .find(|(_, verdict)| *verdict != Verdict::Open)?;
        let (id, device, _) = self.open.swap_remove(at);
        if let Some(disks) = self.disks(device) {
            disks.note_open(false);
        }
        Some((id, verdict))
    }

    /// Whether a device failed, this volume or another one.
    pub(crate) fn has_failed(&self, device: DeviceId) -> bool {
        self.disks(device).is_some_and(DisksOf::have_failed)
    }

    /// A device failed this volume in another way than by a flush.
    pub(crate) fn fail(&self, device: DeviceId) {
        if let Some(disks) = self.disks(device) {
            disks.fail_file();
        }
    }
}

fn verdict(worth: Worth) -> Verdict {
    match worth {
        Worth::Durable => Verdict::Durable,
        Worth::Nothing => Verdict::Failed,
        Worth::Open => Verdict::Open,
    }
}
