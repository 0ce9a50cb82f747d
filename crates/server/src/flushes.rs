//! A volume's flushes on devices that others use as well: what was told of them is believed once it is known how those
//! beside them ended. It must not know what is flushed, or why.

use std::collections::HashMap;

use crate::shared::{DisksOf, Flushed, Flushing};
use lode_engine::Worth;
use lode_engine::command::DeviceId;

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
    pub(crate) fn new(ssd: Option<DisksOf>, backing: DisksOf) -> Flushes {
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

    /// Changes when an open flush may be decided, or a device has failed: of any volume.
    pub(crate) fn news(&self) -> u64 {
        self.backing.news()
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

impl Drop for Flushes {
    /// Nobody will know how a flush ended that is still under way, so that those beside it cannot count on it.
    fn drop(&mut self) {
        for (_, (device, flushing)) in std::mem::take(&mut self.under_way) {
            if let Some(disks) = self.disks(device) {
                disks.end_flush(flushing, false);
            }
        }
        for (_, device, _) in std::mem::take(&mut self.open) {
            if let Some(disks) = self.disks(device) {
                disks.note_open(false);
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Disks;

    /// Two volumes with files in one folder, and so on one disk.
    fn two() -> [Flushes; 2] {
        let folder = tempfile::TempDir::new().unwrap();
        let mut disks = Disks::default();
        [0, 1].map(|number| {
            let path = folder.path().join(number.to_string());
            std::fs::write(&path, "").unwrap();
            Flushes::new(None, disks.under(&path).unwrap())
        })
    }

    #[test]
    fn a_flush_waits_for_the_one_beside_it() {
        for (ok, expected) in [(true, Verdict::Durable), (false, Verdict::Failed)] {
            let [mut one, mut other] = two();
            one.begin(1, DeviceId::Backing);
            other.begin(2, DeviceId::Backing);
            assert_eq!(other.end(2, true), Some(Verdict::Open));
            assert_eq!(other.next_decided(), None);
            assert_eq!(one.end(1, ok), Some(expected));
            assert_eq!(other.next_decided(), Some((2, expected)));
            assert_eq!((other.next_decided(), other.has_failed(DeviceId::Backing)), (None, !ok));
        }
    }

    #[test]
    fn a_flush_whose_end_nobody_will_know_has_failed() {
        let [mut one, mut other] = two();
        one.begin(1, DeviceId::Backing);
        other.begin(2, DeviceId::Backing);
        assert_eq!(other.end(2, true), Some(Verdict::Open));
        drop(one);
        assert_eq!(other.next_decided(), Some((2, Verdict::Failed)));
    }

    #[test]
    fn other_commands_and_the_read_ssd_are_none_of_its_business() {
        let [mut one, _] = two();
        one.begin(1, DeviceId::ReadSsd);
        assert_eq!((one.end(1, true), one.end(7, false)), (None, None));
    }
}
