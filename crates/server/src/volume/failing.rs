//! A volume that a device failed, or a defect of the program.

use lode_engine::Fence;
use lode_media::Done;

use super::Volume;
use super::devices::{OF_MEMBER, VolumeSsd};
use crate::connection::close;
use crate::fence_file::FenceFile;

impl Volume {
    /// Whether a device has failed it, so that what it held is being saved.
    pub(crate) fn has_failed(&self) -> bool {
        self.engine.alarms().failed
    }

    /// After [`Volume::begin_end`]: whether its backing disk has everything durably, with nothing newer anywhere. After the SSD
    /// failed it is so when all that it held was saved.
    pub(crate) fn has_all_on_disk(&self) -> bool {
        let alarms = self.engine.alarms();
        let is_saved = self.ended() == Some(true) || (alarms.ssd_failed && !alarms.backing_failed);
        is_saved && self.dirty_and_lost_blocks() == (0, 0)
    }

    /// Ends the volume's service, because of a defect that showed in these words. What was acknowledged stays where it is, as if
    /// the daemon had been killed, until the next start.
    pub(crate) fn stop(&mut self, defect: &str) {
        self.defect = Some(defect.to_owned());
        self.stalled.clear();
        close(&self.connections);
        tracing::error!(
            "VM {}: stopped by a defect of the program: {defect}. Other VMs are served on. Report what the log says above, and \
             restart the service: what was acknowledged is there",
            self.export.name()
        );
    }

    /// Takes the end of device command `id` of a volume that is stopped: only others still have to know of flushes.
    pub(crate) fn complete_stopped(&mut self, id: u64, done: &Done) {
        match &mut self.ssd {
            Some(VolumeSsd::Pairs(pairs)) if id & OF_MEMBER != 0 => {
                pairs.leg_ended_stopped(id & !OF_MEMBER, done.result.is_ok());
            }
            _ => _ = self.flushes.end(id, done.result.is_ok()),
        }
    }

    /// What is known by now of the flushes of a volume that is stopped.
    pub(crate) fn forget_decided(&mut self) {
        while self.flushes.next_decided().is_some() {}
        if let Some(VolumeSsd::Pairs(pairs)) = &mut self.ssd {
            pairs.forget_decided();
        }
    }

    /// After a device failed: what is to be remembered for starts to come, and where. It takes a flush of a file system, which is not for this thread; [`Volume::fence_ended`] is told the end.
    pub(crate) fn next_fence(&mut self) -> Option<(FenceFile, Fence)> {
        let fence = self.engine.next_fence()?;
        Some((self.fence.clone(), fence))
    }

    /// What was to be remembered is, or could not be.
    pub(crate) fn fence_ended(&mut self, fence: Fence, result: &std::io::Result<()>) {
        let (name, path) = (self.export.name(), self.fence.path().display());
        match (result, fence) {
            (Ok(()), Fence::Clean) => tracing::warn!(
                "VM {name}: what the cache SSD held is written to the backing disk now, from wherever it can be read; \
                 {path} keeps the next start from believing the SSD's clean blocks"
            ),
            (Ok(()), Fence::All) => tracing::warn!(
                "VM {name}: the backing disk has everything now; {path} keeps the next start from believing the SSD"
            ),
            (Ok(()), Fence::CleanUntilReboot) => tracing::warn!(
                "VM {name}: what the failed flush of the backing disk should have covered may be lost when this host goes down; \
                 {path} keeps starts up to the first one after a reboot from believing the SSD's clean blocks"
            ),
            (Err(error), Fence::CleanUntilReboot) => tracing::error!(
                "VM {name}: cannot write {path}: {error}. Before it is written a restart may put blocks into the cache that a \
                 power failure takes from the backing disk: free space in `state_dir`, or write the lines 'clean' and 'disk failed in boot \
                 unknown' into that file, and remove it after the next reboot"
            ),
            (Err(error), _) => tracing::error!(
                "VM {name}: cannot write {path}: {error}. Before it is written the backing disk does not get what the cache \
                 SSD held; free space in `state_dir`"
            ),
        }
        self.engine.fence_ended(result.is_ok());
    }

    /// Whether a flush of the backing disk has failed and the next start would not know it.
    pub(crate) fn has_untold_failure(&self) -> bool {
        self.engine.has_untold_failure()
    }

    /// Whether the SSD failed and what it held is on its way to the backing disk.
    pub(crate) fn is_rescuing(&self) -> bool {
        self.engine.is_rescuing()
    }
}
