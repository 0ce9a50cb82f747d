//! The redo log beside a disk that is written in the order of its guest's flushes: where it is, what it holds brought to the disk
//! before anything else is done with that, and a new one for a volume that is about to be served. It must not know what is in it.

mod belongs;
mod recover;
mod removal;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use lode_engine::{EngineConfig, OrderedConfig};
use lode_format::{CacheId, RedoLabel, VolumeTag};
use lode_media::{Direct, Lock, MediaFile, OpenOptions};
use lode_store::{
    RedoLog, StoreError, StoreErrorKind, apply_redo_log, check_redo_log, create_redo_log, read_redo_log,
};
use tracing::info;

use belongs::{DiskFacts, Mismatch, Server};
pub use recover::{RecoveredDisk, recover_disk};
pub(crate) use removal::find_left;

use crate::config::{Size, VmConfig};
use crate::error::{ServerError, ServerErrorKind};
use crate::files::open_patiently;
use crate::new_file::{self, beside};
use crate::sidecar::claims::Checked;
use crate::sync_device::FileDevice;

/// What is added to the name of an image.
const ENDING: &str = ".redo";

/// A redo log that is open and empty, and the number of its latest group.
pub(crate) struct OpenRedo {
    pub file: MediaFile,
    pub last_group: u64,
    /// It was made now.
    pub is_new: bool,
}

/// Where a VM's redo log is, or would be; none of a block device where the configuration names no file.
fn path_of(vm: &VmConfig) -> Result<Option<PathBuf>, ServerError> {
    let path = match &vm.redo {
        Some(path) => Ok(Some(path.clone())),
        None => beside(&vm.backing, ENDING),
    };
    path.map_err(|error| {
        let what = format!("VM {}: cannot find the backing disk {}", vm.name, vm.backing.display());
        ServerError::because(ServerErrorKind::Media, what, error)
    })
}

/// A path on the file system that a VM's redo log is on.
pub(crate) fn folder_of(vm: &VmConfig) -> Result<Option<PathBuf>, ServerError> {
    let path = path_of(vm)?.filter(|_| vm.is_ordered());
    Ok(path.map(|path| new_file::folder_of(&path).to_owned()))
}

fn open(path: &Path) -> Result<Option<MediaFile>, ServerError> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Ok(found) if !found.is_file() => return Err(stranger(path)),
        _ => {}
    }
    let options =
        OpenOptions { write: true, direct: Direct::Prefer, create_size: None, lock: Lock::Exclusive };
    let opened = open_patiently(path, &options);
    opened.map(Some).map_err(|fault| {
        let what = format!("Cannot open the redo log {}", path.display());
        ServerError::because(ServerErrorKind::Media, what, fault)
    })
}

/// What is where a redo log is to be, and is none. It is left alone.
fn stranger(path: &Path) -> ServerError {
    let text = format!(
        "{} is not a redo log, and one is to be there: move it away, or name another file in `backing.redo`",
        path.display()
    );
    ServerError::new(ServerErrorKind::Config, text)
}

/// Refuses what cannot be a VM's redo log, before anything is written.
pub(crate) fn check(vm: &VmConfig) -> Result<Option<PathBuf>, ServerError> {
    if !vm.is_ordered() {
        return Ok(None);
    }
    let path = path_of(vm)?.ok_or_else(|| {
        let text = format!(
            "VM {}: `writeback = \"ordered\"` needs a redo log beside the disk, and {} is not an image file; name a file in \
             `backing.redo`, on a file system that survives the loss of the cache SSDs",
            vm.name,
            vm.backing.display()
        );
        ServerError::new(ServerErrorKind::Config, text)
    })?;
    match std::fs::metadata(&path) {
        Ok(found) if !found.is_file() => Err(stranger(&path)),
        _ => Ok(Some(path)),
    }
}

fn failed(path: &Path) -> impl Fn(lode_store::StoreError) -> ServerError + '_ {
    |error| {
        let text = format!("The redo log {}: {}", path.display(), error.context());
        ServerError::new(ServerErrorKind::Store, text)
    }
}

/// A VM's disk, open, and what was found beside it; `volume_name` says for which VM this cache has a volume.
#[derive(Clone, Copy)]
pub(crate) struct Disk<'a> {
    pub vm: &'a VmConfig,
    pub backing: &'a MediaFile,
    pub checked: &'a Checked,
    pub volume_name: &'a dyn Fn(VolumeTag) -> Option<String>,
}

impl Disk<'_> {
    /// Refuses a log whose group does not belong on the disk.
    fn check(&self, log: &RedoLog, path: &Path) -> Result<(), ServerError> {
        let server = Server {
            cache: self.checked.cache(),
            volume: self.checked.volume(),
            changed: self.checked.changed(),
        };
        let facts = DiskFacts { sidecar: self.checked.sidecar(), server: Some(server) };
        belongs::check(log, &facts).map_err(|why| {
            let name = (self.volume_name)(log.label.volume).filter(|_| server.cache == Some(log.label.cache));
            let what = refusal((log, path), &why, &facts, &self.vm.backing, name);
            ServerError::new(ServerErrorKind::Identity, format!("VM {}: {what}", self.vm.name))
        })
    }
}

/// What is said of a log that is not for a disk.
fn refusal(
    log: (&RedoLog, &Path),
    why: &Mismatch,
    facts: &DiskFacts<'_>,
    disk: &Path,
    volume_name: Option<String>,
) -> String {
    let what = belongs::tell(log, why, facts, disk, volume_name);
    format!("{what}. Nothing was written to the disk")
}

/// What of a redo log cannot be brought to its VM's disk is refused, before anything is written, and so is what is another disk's or of
/// another time. Gives the log, where there is one, and its path and file.
pub(crate) fn find(disk: &Disk<'_>) -> Result<Option<(PathBuf, MediaFile, RedoLog)>, ServerError> {
    let vm = disk.vm;
    let Some(path) = path_of(vm)? else { return Ok(None) };
    // Nobody said that there is to be a log; what has its name and is something else is nobody's business here.
    if !vm.is_ordered() && std::fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
        return Ok(None);
    }
    let Some(file) = open(&path)? else { return Ok(None) };
    let found =
        check_redo_log(&mut FileDevice::new(&file), disk.backing.size_bytes()).map_err(failed(&path))?;
    let Some(found) = found else {
        return if vm.is_ordered() { Err(stranger(&path)) } else { Ok(None) };
    };
    disk.check(&found, &path)?;
    let blocks = found.entries.len();
    if vm.read_only && blocks > 0 {
        let text = format!(
            "VM {}: its redo log {} holds {blocks} blocks that the disk may lack, and the disk is served read-only; `lode recover {}` \
             brings them to it",
            vm.name,
            path.display(),
            vm.backing.display()
        );
        return Err(ServerError::new(ServerErrorKind::Config, text));
    }
    Ok(Some((path, file, found)))
}

/// Before a VM's disk is read by anybody: what its redo log holds comes to the disk. A log that the VM does not need any more
/// goes. Where a device failed meanwhile `a_device_failed` is told, before the error.
pub(crate) fn apply(disk: &Disk<'_>, a_device_failed: impl FnOnce()) -> Result<(), ServerError> {
    let Disk { vm, backing, .. } = *disk;
    let Some((path, file, found)) = find(disk)? else { return Ok(()) };
    let (blocks, ranges) = (found.entries.len(), found.ranges.len());
    if !vm.read_only {
        let applied = apply_to(&file, backing);
        if matches!(&applied, Err(error) if error.kind() == StoreErrorKind::Media) {
            a_device_failed();
        }
        applied.map_err(failed(&path))?;
    }
    if blocks > 0 {
        info!(
            "VM {}: {blocks} blocks of group {} were brought to the backing disk from its redo log",
            vm.name, found.group
        );
    }
    if ranges > 0 && !vm.read_only {
        info!(
            "VM {}: what trims or zeroings of the last run left in {ranges} places of the backing disk, maybe not durably, was written there \
             again",
            vm.name
        );
    }
    if !vm.is_ordered() && !vm.read_only {
        drop(file);
        remove(&path)?;
    }
    Ok(())
}

fn apply_to(file: &MediaFile, backing: &MediaFile) -> Result<Option<RedoLog>, StoreError> {
    apply_redo_log(&mut FileDevice::new(file), &mut FileDevice::new(backing))
}

fn remove(path: &Path) -> Result<(), ServerError> {
    let removed = std::fs::remove_file(path).and_then(|()| new_file::sync_folder(new_file::folder_of(path)));
    removed.map_err(|error| {
        let what =
            format!("Cannot remove the redo log {}, which is empty; remove it by hand", path.display());
        ServerError::because(ServerErrorKind::Media, what, error)
    })
}

/// The redo log of a VM that is served no more goes: its disk has everything, and was flushed. One that is not this volume's is
/// left alone: another host may serve the disk by now.
pub(crate) fn leave(vm: &VmConfig, volume: (CacheId, VolumeTag)) -> Result<(), ServerError> {
    let Some(path) = path_of(vm)?.filter(|_| vm.is_ordered()) else { return Ok(()) };
    let Some(file) = open(&path)? else { return Ok(()) };
    let log = read_redo_log(&mut FileDevice::new(&file)).map_err(failed(&path))?;
    let Some(log) = log.filter(|log| (log.label.cache, log.label.volume) == volume) else { return Ok(()) };
    if !log.entries.is_empty() {
        let what = format!(
            "The redo log {} is not empty; `lode recover` brings what it holds to the disk",
            path.display()
        );
        return Err(ServerError::new(ServerErrorKind::Store, what));
    }
    drop(file);
    remove(&path)
}

/// The redo log of a volume that is about to be served, with [`apply`] done before.
pub(crate) fn prepare(vm: &VmConfig, label: &RedoLabel) -> Result<OpenRedo, ServerError> {
    let path = check(vm)?.expect("it is asked where write-back is ordered");
    if let Some(file) = open(&path)? {
        let log = read_redo_log(&mut FileDevice::new(&file)).map_err(failed(&path))?;
        let log = log.ok_or_else(|| stranger(&path))?;
        if log.label == *label {
            return Ok(OpenRedo { file, last_group: log.group, is_new: false });
        }
        // It is empty, and of another volume or size.
        drop(file);
        remove(&path)?;
    }
    let bytes = label.layout.bytes();
    info!("VM {}: a new redo log of {} in {}", vm.name, Size(bytes), path.display());
    make(&path, label)?;
    let file = open(&path)?.ok_or_else(|| {
        ServerError::new(ServerErrorKind::Media, format!("The redo log {} is gone", path.display()))
    })?;
    Ok(OpenRedo { file, last_group: 0, is_new: true })
}

/// Makes a log, with room for all of it, so that it cannot be full when it is needed. It has its name when it is whole.
fn make(path: &Path, label: &RedoLabel) -> Result<(), ServerError> {
    let mut new: OsString = path.into();
    new.push(".new");
    let new = PathBuf::from(new);
    let fault = |error| {
        let what =
            format!("Cannot make the redo log {}; check space and permissions of its folder", path.display());
        ServerError::because(ServerErrorKind::Media, what, error)
    };
    // One that was cut short.
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(fault(error)),
        _ => {}
    }
    new_file::create(&new, label.layout.bytes())?;
    let file = open(&new)?.ok_or_else(|| fault(ErrorKind::NotFound.into()))?;
    create_redo_log(&mut FileDevice::new(&file), label).map_err(failed(&new))?;
    drop(file);
    std::fs::rename(&new, path).and_then(|()| new_file::sync_folder(new_file::folder_of(path))).map_err(fault)
}

/// The label of a volume's log.
pub(crate) fn label(
    (cache, volume): (CacheId, VolumeTag),
    config: &EngineConfig,
    ordered: &OrderedConfig,
) -> RedoLabel {
    let layout = ordered.redo_layout(config.block);
    RedoLabel { cache, volume, volume_bytes: config.volume_bytes, layout }
}
