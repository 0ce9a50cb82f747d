//! Taking a volume off a cache SSD that no daemon serves, with what there is of it elsewhere. Each step is durable before the next
//! one begins:
//!
//! 1. its redo log goes: what it holds comes to the disk first, unless that is not wanted;
//! 2. the SSD forgets the volume;
//! 3. this host forgets it;
//! 4. the sidecar of its disk says that the disk alone is the VM's disk.
//!
//! Cut short before 2, the volume is there with all of its blocks, and is served as after a kill; after 2, the removal can be
//! asked for again, and comes to its end. The log goes first, because a group must never be left behind when nobody knows any more what it was for.

use lode_engine::Fence;
use lode_format::VolumeTag;
use lode_store::{Store, StoreErrorKind};
use lode_types::planted;
use tracing::warn;

use super::{FoundSsd, begin};
use crate::error::{ServerError, ServerErrorKind};
use crate::fence_file::FenceFile;
use crate::files::open_backing;
use crate::identity::StateFile;
use crate::redo::{self, Disk};
use crate::sidecar::claims::{Claims, give_up, held_by};
use crate::volumes::{RemovedLog, RemovedVolume};

impl FoundSsd<'_> {
    /// Takes a volume off the SSD. What this host remembers of it follows, and what is beside its disk.
    pub(crate) fn remove(mut self, name: &str, force: bool) -> Result<RemovedVolume, ServerError> {
        let cache = self.view.superblock().cache.to_string();
        let volume = self.of_volume(name).0;
        if volume.is_none()
            && let Some(tag) = self.half_removed(&cache, name)?
        {
            return self.end_removal(&cache, name, tag, force);
        }
        // What the store refuses below, and says why, has touched nothing before.
        let is_refused = !force && self.dirty_blocks(name) != Ok(0);
        let log = match volume {
            Some(tag) if !is_refused => self.remove_log(name, tag, force)?,
            _ => None,
        };
        let mut device = self.files.device();
        let state = StateFile::of(self.config);
        // Before the first write, as at a start; a removal that succeeds leaves everything as durable as it was.
        let boot = self.records.boot_text().map(str::to_owned);
        state.note_run(|run| (run.all_durable, run.written_boot) = (false, boot))?;
        self.known.pair_generations = begin(&self.files, &mut device, &state)?;
        let removed = Store::remove(&mut device, self.view.clone(), name, force).map_err(|error| {
            let what = self.ssd.path.display();
            match error.kind() {
                StoreErrorKind::HoldsDirty { blocks } => {
                    let what = format!("{what}: `lode volume remove --force` loses these {blocks} blocks");
                    ServerError::because(ServerErrorKind::InUse, what, error)
                }
                _ => ServerError::store(what, error),
            }
        })?;
        let superblock =
            Store::probe(&mut device).map_err(|error| ServerError::store(self.ssd.path.display(), error))?;
        self.known.backings.remove(name);
        self.known.seen.remove(name);
        let folders = self.known.run.as_ref().map_or_else(Vec::new, |run| run.shm.clone());
        state.update(self.ssd, &superblock, self.known)?;
        self.records.remove(&folders, &[removed.tag]);
        give_up(self.config, &cache, name)?;
        Ok(RemovedVolume { space_bytes: removed.space_bytes, log })
    }

    /// The volume that a VM had, which the SSD has forgotten and the sidecar of the disk has not.
    fn half_removed(&self, cache: &str, name: &str) -> Result<Option<VolumeTag>, ServerError> {
        let held = held_by(self.config, cache, name)?;
        Ok(held.filter(|&tag| self.name_of(tag).is_none()))
    }

    /// A removal was cut short after the SSD had forgotten the volume: the rest is done.
    fn end_removal(
        self,
        cache: &str,
        name: &str,
        tag: VolumeTag,
        force: bool,
    ) -> Result<RemovedVolume, ServerError> {
        let log = self.remove_log(name, tag, force)?;
        let epoch = self.view.superblock().epoch;
        StateFile::of(self.config).note_removed(name, epoch)?;
        give_up(self.config, cache, name)?;
        Ok(RemovedVolume { space_bytes: 0, log })
    }

    /// The redo log of a volume that is to be removed goes.
    fn remove_log(&self, name: &str, tag: VolumeTag, force: bool) -> Result<Option<RemovedLog>, ServerError> {
        let Some(vm) = self.config.vms.iter().find(|vm| vm.name == name) else { return Ok(None) };
        let cache = self.view.superblock().cache;
        let Some(left) = redo::find_left(vm, (cache, tag), force)? else { return Ok(None) };
        let holds_something = left.log.as_ref().is_some_and(|log| !log.is_empty());
        if holds_something && !force {
            let backing = open_backing(vm)?;
            let claims = Claims::new(self.config, Some(cache.to_string()));
            let count = || self.dirty_blocks(name);
            let checked = claims.check(self.config, vm, &backing, self.of_volume(name), count)?;
            let volume_name = &|tag| self.name_of(tag);
            let disk = Disk { vm, backing: &backing, checked: &checked, volume_name };
            redo::apply(&disk, || {
                let fence = FenceFile::of(self.config, name).of_disk(&vm.backing);
                if let Err(error) = fence.add(Fence::CleanUntilReboot) {
                    warn!("VM {name}: {}", fence.fault("write", error));
                }
            })?;
        }
        if !(force && planted("log-survives-forced-removal")) {
            left.remove()?;
        }
        let (path, log) = (left.path, left.log);
        Ok(Some(RemovedLog {
            path,
            group: log.as_ref().map(|log| log.group),
            blocks: log.map(|log| log.entries.len() as u64),
            is_applied: !force,
        }))
    }

    /// The VM that a volume was made for.
    pub(crate) fn name_of(&self, tag: VolumeTag) -> Option<String> {
        self.view.volumes().find(|volume| volume.tag == tag).map(|volume| volume.name)
    }
}
