//! Adds a VM: its backing disk is opened and checked, it gets frames and a volume on the SSD, and its shard serves it. What is
//! refused leaves everything as it was. It must not know who asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::mpsc::sync_channel;

use lode_engine::EngineConfig;
use lode_format::VolumeTag;
use lode_media::MediaFile;
use lode_nbd::ExportInfo;
use lode_policy::Quota;
use lode_store::{Attached, MembershipChange, VolumeSpec};
use lode_types::Level;

use super::parts::{DirectoryEnd, Parts};
use crate::backing::identify;
use crate::config::{Config, Size, VmConfig};
use crate::files::{check_files, open_backing};
use crate::identity::StateFile;
use crate::messages::ToShard;
use crate::redo;
use crate::served::ServedVm;
use crate::shared::DisksOf;
use crate::sharing::Started;
use crate::start::{Plan, Prepared, VmDisks, plan_vm};

/// See the module's documentation.
pub(crate) struct AddVm {
    /// With the VM.
    pub config: Config,
    pub vm: String,
    pub number: usize,
    /// The share that it begins with, and the largest that it can be given.
    pub share: Quota,
    pub reach: Quota,
    /// Frames that the host has more with it.
    pub more_frames: u32,
}

/// A VM that is served.
#[derive(Debug)]
pub(crate) struct AddedVm {
    pub vm: ServedVm,
    pub started: Started,
    pub engine: EngineConfig,
    /// Frames that the host has more with it.
    pub more_frames: u32,
}

/// What its backing disk lies on, and the read SSD where it has a part of that.
type Devices = (DisksOf, Option<MediaFile>);

impl AddVm {
    pub(super) fn run(self, parts: &Parts, give_up: &AtomicBool) -> Result<AddedVm, String> {
        let vm =
            self.config.vms.iter().find(|vm| vm.name == self.vm).ok_or("It is not in the configuration")?;
        let words = |error: crate::error::ServerError| error.to_string();
        check_files(&self.config).map_err(words)?;
        let backing = open_backing(vm).map_err(words)?;
        let disk = parts.claims.check(&self.config, vm, &backing, (None, None), || Ok(0)).map_err(words)?;
        let mut plan = plan_vm(&self.config, vm, backing, parts.block).map_err(words)?;
        plan.note_disk(disk);
        plan.begin_with(self.share, self.reach);
        plan.check_redo(None, || Ok(0), &|_| None).map_err(words)?;
        let disks = parts.disks().under_path(&vm.backing).map_err(words)?;
        let read_ssd = self.take_read_ssd(parts, &mut plan)?;
        let added = self.add_with_frames(parts, vm, plan, (disks, read_ssd), give_up);
        if added.is_err() {
            parts.read_ssd.iter().for_each(|read_ssd| read_ssd.give_back(self.number));
        }
        added
    }

    /// The read SSD, if it has a part of it.
    fn take_read_ssd(&self, parts: &Parts, plan: &mut Plan<'_>) -> Result<Option<MediaFile>, String> {
        let bytes = plan.config.read_ssd_bytes();
        if bytes == 0 {
            return Ok(None);
        }
        let read_ssd = parts.read_ssd.as_ref().ok_or("The service was started without a read SSD")?;
        plan.begin_read_ssd_at(read_ssd.take(self.number, &self.vm, bytes)?);
        Ok(Some(read_ssd.file()))
    }

    fn add_with_frames(
        &self,
        parts: &Parts,
        vm: &VmConfig,
        mut plan: Plan<'_>,
        devices: Devices,
        give_up: &AtomicBool,
    ) -> Result<AddedVm, String> {
        parts.space.with_broker(|broker| broker.add_frames(self.more_frames));
        let frames = match self.take_frames(parts, vm, &mut plan) {
            Ok(frames) => frames,
            Err(why) => {
                parts.space.with_broker(|broker| broker.remove_frames(self.more_frames));
                return Err(why);
            }
        };
        let added = self.add(parts, vm, plan, frames, devices, give_up);
        if added.is_err() {
            parts.space.with_broker(|broker| {
                broker.add_frames(frames);
                broker.remove_frames(self.more_frames);
            });
        }
        added
    }

    /// As many frames as there are for its share: it may get the rest later.
    fn take_frames(&self, parts: &Parts, vm: &VmConfig, plan: &mut Plan<'_>) -> Result<u32, String> {
        let wanted = u32::try_from(plan.config.places(Level::Dram)).unwrap_or(u32::MAX);
        let taken = parts.space.with_broker(|broker| broker.take_frames(wanted));
        let first = plan.config.within_frames(taken);
        let frames = u32::try_from(first.places(Level::Dram)).unwrap_or(u32::MAX);
        let least = vm.scheme().least_blocks(Level::Dram);
        let is_enough = first.share.dram_blocks >= least;
        let given_back = if is_enough { taken - frames } else { taken };
        parts.space.with_broker(|broker| broker.add_frames(given_back));
        if !is_enough {
            return Err(format!(
                "There is no memory for it now: scheme {} needs {} of DRAM at least; make `dram` of [host] larger, or shares of \
                 others smaller",
                vm.settings.scheme(),
                Size(u64::from(least) * parts.block.bytes())
            ));
        }
        plan.config = first;
        Ok(frames)
    }

    fn add(
        &self,
        parts: &Parts,
        vm: &VmConfig,
        mut plan: Plan<'_>,
        frames: u32,
        (backing, read_ssd): Devices,
        give_up: &AtomicBool,
    ) -> Result<AddedVm, String> {
        let state = StateFile::of(&self.config);
        plan.apply_redo().map_err(|error| error.to_string())?;
        let attached = match self.reach.ssd_blocks {
            0 => None,
            _ => Some(self.new_volume(parts, vm, &plan.config, &state, give_up)?),
        };
        let tag = attached.as_ref().map(Attached::tag);
        // Nothing of it is on the SSD that should not be believed: its volume is new.
        let obeyed = if attached.is_some() { plan.obey_fence() } else { Ok(()) };
        let keeps_records = attached.as_ref().is_some_and(Attached::keeps_records);
        let noted = tag.map_or(Ok(()), |_| state.note_records(&self.vm, keeps_records));
        let ssd = parts.space.ssd().filter(|_| tag.is_some());
        let prepared_redo = plan.prepare_redo(attached.as_ref());
        let redo = redo::folder_of(vm).and_then(|folder| {
            let under = |path: std::path::PathBuf| parts.disks().under_path(&path);
            folder.map(under).transpose()
        });
        let redo = prepared_redo.and(redo);
        let disks = VmDisks {
            ssd: ssd.map(|ssd| ssd.disks.clone()),
            backing,
            redo: redo.as_ref().ok().cloned().flatten(),
        };
        let media = ssd.map(|ssd| ssd.media.clone());
        let has_new_redo = plan.has_new_redo();
        let mut prepared = plan.ready(attached, media, read_ssd, disks);
        let disk = prepared.disk.take().map(|disk| (self.number, disk, tag));
        let claimed = redo
            .map(drop)
            .and(noted)
            .and(obeyed)
            .and_then(|()| parts.claims.begin(disk.into_iter().collect()));
        let served = claimed
            .map_err(|error| error.to_string())
            .and_then(|()| self.serve(parts, prepared, tag, frames));
        if served.is_err() {
            if let Err(error) = parts.claims.forget(self.number) {
                tracing::warn!("VM {}: {error}", self.vm);
            }
            if has_new_redo
                && let Some(volume) = parts.volume(tag)
                && let Err(error) = redo::leave(vm, volume)
            {
                tracing::warn!("VM {}: {error}", self.vm);
            }
            self.undo(parts, &state, tag, give_up);
        }
        served
    }

    /// A volume on the SSD that is its own.
    fn new_volume(
        &self,
        parts: &Parts,
        vm: &VmConfig,
        engine: &EngineConfig,
        state: &StateFile,
        give_up: &AtomicBool,
    ) -> Result<Attached, String> {
        parts.check_ssd()?;
        self.clear_name(parts, state, give_up)?;
        state.note_new_volume(&self.vm, identify(&vm.backing)).map_err(|error| error.to_string())?;
        let places = engine.ssd_places();
        let extents = places.div_ceil(u64::from(parts.extent_places)).max(1);
        let ready_places = VolumeSpec::READY_BYTES / engine.block.bytes();
        let change = MembershipChange::Create {
            name: self.vm.clone(),
            backing_bytes: engine.volume_bytes,
            extents: u32::try_from(extents).unwrap_or(u32::MAX),
            ready_extents: u32::try_from(ready_places.div_ceil(parts.extent_places.into()))
                .unwrap_or(u32::MAX),
        };
        let tag = match parts.change_directory(change, give_up) {
            DirectoryEnd::Done(tag) => tag,
            DirectoryEnd::Refused(why) => return Err(why),
            DirectoryEnd::Unknown => {
                return Err("The cache SSD failed on the way; look at it, and restart the service".to_owned());
            }
        };
        let attached = parts.space.with_broker(|broker| broker.attach_new(tag, places));
        let mut attached = attached.map_err(|error| error.to_string())?;
        if let Some(storage) = parts.records.as_ref().and_then(|records| records.storage(tag)) {
            attached.keep_records_in(storage);
        }
        Ok(attached)
    }

    /// Gives up a volume of its name, of an earlier run, that holds nothing which its backing disk does not have.
    fn clear_name(&self, parts: &Parts, state: &StateFile, give_up: &AtomicBool) -> Result<(), String> {
        let find = |broker: &mut lode_engine::SpaceBroker| {
            broker.directory().and_then(|directory| directory.find(&self.vm))
        };
        let Some(before) = parts.space.with_broker(find) else { return Ok(()) };
        if !parts.expendable.contains(&self.vm) {
            return Err(
                "The cache SSD has a volume of this name, and what it holds is recovered by a start only: restart the service, or \
                 give the volume up with `lode volume remove` while it is stopped"
                    .to_owned(),
            );
        }
        self.undo(parts, state, Some(before), give_up);
        Ok(())
    }

    /// Has its shard serve it.
    fn serve(
        &self,
        parts: &Parts,
        prepared: Prepared,
        tag: Option<VolumeTag>,
        frames: u32,
    ) -> Result<AddedVm, String> {
        let connections = Arc::new(AtomicU32::new(0));
        let export: ExportInfo = prepared.export.clone();
        let started = Started { number: self.number, ..prepared.started };
        let engine = *prepared.engine.config();
        parts.space.with_broker(|broker| broker.join(self.number, tag, frames));
        let (answer, answered) = sync_channel(1);
        let theirs = Arc::clone(&connections);
        parts.host.tell(self.number, |volume| ToShard::Add {
            volume,
            prepared: Box::new(prepared),
            connections: theirs,
            answer,
        });
        if answered.recv() != Ok(true) {
            parts.space.with_broker(|broker| {
                // Whoever calls gives back what was taken for it.
                broker.remove_frames(frames);
                broker.leave(self.number);
            });
            return Err("Its shard does not take it: the service stops, or see the log".to_owned());
        }
        let vm = ServedVm { number: self.number, connections, export, tag };
        Ok(AddedVm { vm, started, engine, more_frames: self.more_frames })
    }

    /// What has come to be of it goes again.
    fn undo(&self, parts: &Parts, state: &StateFile, tag: Option<VolumeTag>, give_up: &AtomicBool) {
        let Some(tag) = tag else { return };
        parts.records.iter().for_each(|records| records.remove(&[], &[tag]));
        match parts.change_directory(MembershipChange::Remove(tag), give_up) {
            DirectoryEnd::Done(_) => {
                let epoch = parts.space.with_broker(|broker| {
                    broker.directory().map_or(0, |directory| directory.superblock().epoch)
                });
                // Remembered or not, the volume is gone.
                let _ = state.note_removed(&self.vm, epoch);
            }
            DirectoryEnd::Refused(_) | DirectoryEnd::Unknown => tracing::warn!(
                "VM {} did not come, and its volume on the cache SSD stays until `lode volume remove` gives it back",
                self.vm
            ),
        }
    }
}
