//! A volume's flushes on devices that others use as well: what was told of them is believed once it is known how those
//! beside them ended. It must not know what is flushed, or why.

use std::collections::HashMap;
use std::sync::Arc;

use crate::shared::{DisksOf, Flushed, Flushing};
use lode_engine::Worth;

/// What each of some devices lies on, and the flushes of them. See the module's documentation.
#[derive(Debug)]
pub(crate) struct Flushes {
    /// By device; none of one whose flushes promise nothing.
    devices: Vec<Option<Arc<DisksOf>>>,
    under_way: HashMap<u64, (Arc<DisksOf>, Flushing)>,
    /// Ended well, while others are under way.
    open: Vec<(u64, Arc<DisksOf>, Flushed)>,
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
    pub(crate) fn new(devices: Vec<Option<DisksOf>>) -> Flushes {
        let devices = devices.into_iter().map(|disks| disks.map(Arc::new)).collect();
        Flushes { devices, under_way: HashMap::new(), open: Vec::new() }
    }

    /// Another device comes in the place of one.
    pub(crate) fn replace(&mut self, device: usize, disks: DisksOf) {
        self.devices[device] = Some(Arc::new(disks));
    }

    fn disks(&self, device: usize) -> Option<&Arc<DisksOf>> {
        self.devices.get(device)?.as_ref()
    }

    /// Flush `id` is sent to a device.
    pub(crate) fn begin(&mut self, id: u64, device: usize) {
        if let Some(disks) = self.disks(device).map(Arc::clone) {
            let flushing = disks.begin_flush();
            self.under_way.insert(id, (disks, flushing));
        }
    }

    /// Command `id` ended. `None`: it is no flush.
    pub(crate) fn end(&mut self, id: u64, ok: bool) -> Option<Verdict> {
        let (disks, flushing) = self.under_way.remove(&id)?;
        let flushed = disks.end_flush(flushing, ok);
        if !ok {
            return Some(Verdict::Failed);
        }
        // Before it is asked, so that whoever ends in between wakes this thread.
        disks.note_open(true);
        let verdict = verdict(disks.worth(&flushed));
        match verdict {
            Verdict::Open => self.open.push((id, disks, flushed)),
            _ => disks.note_open(false),
        }
        Some(verdict)
    }

    /// An open flush that is decided now.
    pub(crate) fn next_decided(&mut self) -> Option<(u64, Verdict)> {
        let verdict_of = |(_, disks, flushed): &(u64, Arc<DisksOf>, Flushed)| verdict(disks.worth(flushed));
        let verdicts = self.open.iter().map(verdict_of).enumerate();
        let (at, verdict) = verdicts.into_iter().find(|(_, verdict)| *verdict != Verdict::Open)?;
        let (id, disks, _) = self.open.swap_remove(at);
        disks.note_open(false);
        Some((id, verdict))
    }

    /// Changes when an open flush may be decided, or a device has failed: of any volume.
    pub(crate) fn news(&self) -> u64 {
        self.devices.iter().flatten().next().map_or(0, |disks| disks.news())
    }

    /// Whether a device failed, this volume or another one.
    pub(crate) fn has_failed(&self, device: usize) -> bool {
        self.disks(device).is_some_and(|disks| disks.have_failed())
    }

    /// A device failed this volume in another way than by a flush.
    pub(crate) fn fail(&self, device: usize) {
        if let Some(disks) = self.disks(device) {
            disks.fail_file();
        }
    }
}

impl Drop for Flushes {
    /// Nobody will know how a flush ended that is still under way, so that those beside it cannot count on it.
    fn drop(&mut self) {
        for (_, (disks, flushing)) in std::mem::take(&mut self.under_way) {
            disks.end_flush(flushing, false);
        }
        for (_, disks, _) in std::mem::take(&mut self.open) {
            disks.note_open(false);
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

    /// The device that the two have, and one whose flushes promise nothing.
    const DISK: usize = 0;
    const OTHER: usize = 1;

    /// Two volumes with files in one folder, and so on one disk.
    fn two() -> [Flushes; 2] {
        let folder = tempfile::TempDir::new().unwrap();
        let mut disks = Disks::default();
        [0, 1].map(|number| {
            let path = folder.path().join(number.to_string());
            std::fs::write(&path, "").unwrap();
            Flushes::new(vec![Some(disks.under(&path).unwrap()), None])
        })
    }

    #[test]
    fn a_flush_waits_for_the_one_beside_it() {
        for (ok, expected) in [(true, Verdict::Durable), (false, Verdict::Failed)] {
            let [mut one, mut other] = two();
            one.begin(1, DISK);
            other.begin(2, DISK);
            assert_eq!(other.end(2, true), Some(Verdict::Open));
            assert_eq!(other.next_decided(), None);
            assert_eq!(one.end(1, ok), Some(expected));
            assert_eq!(other.next_decided(), Some((2, expected)));
            assert_eq!((other.next_decided(), other.has_failed(DISK)), (None, !ok));
        }
    }

    #[test]
    fn a_flush_whose_end_nobody_will_know_has_failed() {
        let [mut one, mut other] = two();
        one.begin(1, DISK);
        other.begin(2, DISK);
        assert_eq!(other.end(2, true), Some(Verdict::Open));
        drop(one);
        assert_eq!(other.next_decided(), Some((2, Verdict::Failed)));
    }

    #[test]
    fn other_commands_and_the_read_ssd_are_none_of_its_business() {
        let [mut one, _] = two();
        one.begin(1, OTHER);
        assert_eq!((one.end(1, true), one.end(7, false)), (None, None));
    }
}
