//! A volume that leaves, or gets another name, while others are served.

use lode_engine::{GuestOp, GuestRequest};
use lode_media::FileId;
use lode_nbd::ExportInfo;

use super::devices::VolumeSsd;
use super::{LAST_FLUSH, Volume};
use crate::fence_file::FenceFile;

impl Volume {
    /// Whether nothing of it is under way: no request, no question, no command on a device.
    pub(crate) fn is_quiet(&self) -> bool {
        self.requests.is_empty() && self.looked_up.is_empty() && self.engine.is_idle()
    }

    /// Has its devices flushed for the last time; [`Volume::ended`] tells the end.
    pub(crate) fn flush_last(&mut self, now_ns: u64) {
        self.last_flush = None;
        self.engine.submit(GuestRequest { token: LAST_FLUSH, op: GuestOp::Flush, now_ns });
    }

    /// It does not leave after all.
    pub(crate) fn stay(&mut self) {
        self.last_flush = None;
    }

    /// The files that its commands go to.
    pub(crate) fn files(&self) -> impl Iterator<Item = FileId> {
        let (ssd, of_pair) = match &self.ssd {
            None => (None, None),
            Some(VolumeSsd::One(file)) => (Some(*file), None),
            Some(VolumeSsd::Pairs(pairs)) => (None, Some(pairs.files())),
        };
        [Some(self.backing), ssd, self.read_ssd, self.redo]
            .into_iter()
            .flatten()
            .chain(of_pair.into_iter().flatten())
    }

    /// It has another name from now on, and notes under it that its SSD failed.
    pub(crate) fn rename(&mut self, export: ExportInfo, fence: FenceFile) {
        self.log.rename(export.name());
        (self.export, self.fence) = (export, fence.of_disk_of(&self.fence));
    }
}
