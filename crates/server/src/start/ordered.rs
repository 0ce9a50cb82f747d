//! A VM whose disk is written in the order of its guest's flushes, on its way to be served: its redo log is checked before anything
//! is changed, brought to the disk before anybody reads that, and made or opened once the VM has its volume.

use lode_engine::{Fence, OrderedConfig};
use lode_format::{CacheId, VolumeTag};
use lode_store::{Attached, Distrust};
use tracing::warn;

use super::Plan;
use crate::error::{ServerError, ServerErrorKind};
use crate::redo::{self, Disk};

impl Plan<'_> {
    /// Refuses a redo log that cannot be brought to the disk, and a volume with more dirty blocks than its log takes, before
    /// anything is changed. Who was served with this log before has no more; else `count` says how many there are in the volume
    /// with the identity `before`.
    pub(crate) fn check_redo(
        &self,
        before: Option<(CacheId, VolumeTag)>,
        count: impl FnOnce() -> Result<u64, String>,
        volume_name: &dyn Fn(VolumeTag) -> Option<String>,
    ) -> Result<(), ServerError> {
        let found = redo::find(&self.redo_disk(volume_name))?;
        let Some(ordered) = self.config.ordered else { return Ok(()) };
        let is_known = |volume| {
            let label = redo::label(volume, &self.config, &ordered);
            found.is_some_and(|(_, _, log)| log.label == label)
        };
        let loses_all = self.distrusts() == Some(Distrust::All);
        let dirty = match before {
            Some(volume) if !loses_all && !is_known(volume) => count().map_err(|why| {
                ServerError::new(ServerErrorKind::Store, format!("VM {}: {why}", self.vm.name))
            })?,
            _ => 0,
        };
        self.check_ordered(&ordered, self.has_space, dirty)
    }

    fn redo_disk<'a>(&'a self, volume_name: &'a dyn Fn(VolumeTag) -> Option<String>) -> Disk<'a> {
        let checked = self.disk.as_ref().expect("a disk is looked at before its redo log");
        Disk { vm: self.vm, backing: &self.backing, checked, volume_name }
    }

    fn check_ordered(
        &self,
        ordered: &OrderedConfig,
        has_volume: bool,
        dirty: u64,
    ) -> Result<(), ServerError> {
        let most = ordered.capacity_blocks();
        let text = match has_volume {
            false => {
                "`writeback = \"ordered\"` needs a volume on the cache SSD, and there is no share for one"
                    .to_owned()
            }
            true if dirty > u64::from(most) => format!(
                "{dirty} blocks on the cache SSD are newer than the disk, and its redo log takes {most}: serve it with \
                 `writeback = \"scheme\"` and write them back (`lode drain`), or make `writeback.group` larger"
            ),
            true => return Ok(()),
        };
        Err(ServerError::new(ServerErrorKind::Config, format!("VM {}: {text}", self.vm.name)))
    }

    /// What a redo log beside its disk holds comes to the disk, before anybody reads that.
    pub(crate) fn apply_redo(&self) -> Result<(), ServerError> {
        redo::apply(&self.redo_disk(&|_| None), || {
            // It may be a flush that failed.
            if let Err(error) = self.fence.add(Fence::CleanUntilReboot) {
                warn!("VM {}: {}", self.vm.name, self.fence.fault("write", error));
            }
        })
    }

    /// Opens its redo log, or makes one, where its disk is written in the order of its guest's flushes.
    pub(crate) fn prepare_redo(&mut self, attached: Option<&Attached>) -> Result<(), ServerError> {
        let Some(ordered) = self.config.ordered else { return Ok(()) };
        // What was found when the plan was made may have changed: an SSD of a pair failed since.
        let dirty = attached.map_or(0, |attached| attached.recovered_blocks().1 as u64);
        self.check_ordered(&ordered, attached.is_some(), dirty)?;
        let Some(attached) = attached else { return Ok(()) };
        let label = redo::label((attached.cache(), attached.tag()), &self.config, &ordered);
        let open = redo::prepare(self.vm, &label)?;
        let generation = self.disk.as_ref().map_or(0, |disk| disk.next_generation(Some(attached.tag())));
        self.config.ordered = Some(OrderedConfig { last_group: open.last_group, generation, ..ordered });
        self.redo = Some(open);
        Ok(())
    }

    /// Whether its redo log was made now.
    pub(crate) fn has_new_redo(&self) -> bool {
        self.redo.as_ref().is_some_and(|redo| redo.is_new)
    }
}
