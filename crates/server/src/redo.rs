//! The redo log beside a disk that is written in the order of its guest's flushes: where it is, what it holds brought to the disk
//! before anything else is done with that, and a new one for a volume that is about to be served. It must not know what is in it.

use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use lode_format::{CacheId, RedoLabel, VolumeTag};
use lode_media::{Direct, Lock, MediaFile, OpenOptions};
use lode_store::{RedoLog, apply_redo_log, create_redo_log, read_redo_log};
use serde::Serialize;
use tracing::{info, warn};

use crate::config::{Size, VmConfig};
use crate::error::{ServerError, ServerErrorKind};
use crate::files::open_patiently;
use crate::sync_device::FileDevice;

/// What is added to the name of an image.
const ENDING: &str = ".redo";

/// A redo log that is open and empty, and the number of its latest group.
pub(crate) struct OpenRedo {
    pub file: MediaFile,
    pub last_group: u64,
}

/// What was done for a disk.
#[derive(Clone, Debug, Serialize)]
pub struct RecoveredDisk {
    /// The disk.
    pub disk: PathBuf,
    /// Its redo log.
    pub redo: PathBuf,
    /// The cache that wrote it.
    pub cache: String,
    /// Number of the latest group, all of which the disk has now.
    pub group: u64,
    /// Blocks of it that the log held.
    pub applied_blocks: u64,
}

fn beside(image: &Path) -> std::io::Result<Option<PathBuf>> {
    // However the image is reached, its log is the same.
    let image = image.canonicalize()?;
    if !image.metadata()?.is_file() {
        return Ok(None);
    }
    let mut path: OsString = image.into();
    path.push(ENDING);
    Ok(Some(path.into()))
}

/// Where a VM's redo log is, or would be; none of a block device where the configuration names no file.
fn path_of(vm: &VmConfig) -> Result<Option<PathBuf>, ServerError> {
    let path = match &vm.redo {
        Some(path) => Ok(Some(path.clone())),
        None => beside(&vm.backing),
    };
    path.map_err(|error| {
        let what = format!("VM {}: cannot find the backing disk {}", vm.name, vm.backing.display());
        ServerError::because(ServerErrorKind::Media, what, error)
    })
}

/// A path on the file system that a VM's redo log is on.
pub(crate) fn folder_of(vm: &VmConfig) -> Result<Option<PathBuf>, ServerError> {
    let path = path_of(vm)?.filter(|_| vm.is_ordered());
    Ok(path.map(|path| path.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned)))
}

fn open(path: &Path) -> Result<Option<MediaFile>, ServerError> {
    if let Err(error) = std::fs::metadata(path)
        && error.kind() == ErrorKind::NotFound
    {
        return Ok(None);
    }
    let options =
        OpenOptions { write: true, direct: Direct::Prefer, create_size: None, lock: Lock::Exclusive };
    let opened = open_patiently(path, &options);
    opened.map(Some).map_err(|fault| {
        ServerError::because(ServerErrorKind::Media, "Cannot open the redo log (`backing.redo`)", fault)
    })
}

fn failed(path: &Path) -> impl Fn(lode_store::StoreError) -> ServerError + '_ {
    |error| ServerError::because(ServerErrorKind::Store, format!("The redo log {}", path.display()), error)
}

/// Before a VM's disk is read by anybody: what its redo log holds comes to the disk. A log that the VM does not need any more
/// goes.
pub(crate) fn apply(vm: &VmConfig, backing: &MediaFile) -> Result<(), ServerError> {
    let Some(path) = path_of(vm)? else { return Ok(()) };
    let Some(file) = open(&path)? else { return Ok(()) };
    let applied = apply_to(&path, &file, backing)?;
    if let Some(log) = applied.filter(|log| !log.entries.is_empty()) {
        let blocks = log.entries.len();
        info!(
            "VM {}: {blocks} blocks of group {} were brought to the backing disk from its redo log",
            vm.name, log.group
        );
    }
    if !vm.is_ordered() {
        drop(file);
        remove(&path)?;
    }
    Ok(())
}

fn apply_to(path: &Path, file: &MediaFile, backing: &MediaFile) -> Result<Option<RedoLog>, ServerError> {
    apply_redo_log(&mut FileDevice(file), &mut FileDevice(backing)).map_err(failed(path))
}

fn remove(path: &Path) -> Result<(), ServerError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::remove_file(path).and_then(|()| File::open(folder)?.sync_all()).map_err(|error| {
        let what =
            format!("Cannot remove the redo log {}, which is empty; remove it by hand", path.display());
        ServerError::because(ServerErrorKind::Media, what, error)
    })
}

/// The redo log of a VM that is served no more, and whose disk has everything, goes.
pub(crate) fn leave(vm: &VmConfig) -> Result<(), ServerError> {
    let Some(path) = path_of(vm)?.filter(|_| vm.is_ordered()) else { return Ok(()) };
    let Some(file) = open(&path)? else { return Ok(()) };
    let log = read_redo_log(&mut FileDevice(&file)).map_err(failed(&path))?;
    if log.is_some_and(|log| !log.entries.is_empty()) {
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
pub(crate) fn prepare(vm: &VmConfig, label: RedoLabel) -> Result<OpenRedo, ServerError> {
    let Some(path) = path_of(vm)? else {
        let text = format!(
            "VM {}: `writeback = \"ordered\"` needs a redo log beside the disk, and {} is not an image file; name a file in \
             `backing.redo`, on a file system that survives the loss of the cache SSDs",
            vm.name,
            vm.backing.display()
        );
        return Err(ServerError::new(ServerErrorKind::Config, text));
    };
    if let Some(file) = open(&path)? {
        let log = read_redo_log(&mut FileDevice(&file)).map_err(failed(&path))?;
        if let Some(log) = log.filter(|log| log.label == label) {
            return Ok(OpenRedo { file, last_group: log.group });
        }
        // It is empty, and of another volume or size.
        drop(file);
        remove(&path)?;
    }
    let bytes = label.layout.bytes();
    info!("VM {}: a new redo log of {} in {}", vm.name, Size(bytes), path.display());
    create(&path, bytes)?;
    let file = open(&path)?.ok_or_else(|| {
        ServerError::new(ServerErrorKind::Media, format!("The redo log {} is gone", path.display()))
    })?;
    create_redo_log(&mut FileDevice(&file), &label).map_err(failed(&path))?;
    Ok(OpenRedo { file, last_group: 0 })
}

/// A file with room for all of it, so that it cannot be full when it is needed.
fn create(path: &Path, bytes: u64) -> Result<(), ServerError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let made = || {
        let file = File::create_new(path)?;
        match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
            Err(rustix::io::Errno::OPNOTSUPP) => {
                warn!("{}: its file system sets no space aside", path.display());
                file.set_len(bytes)?;
            }
            result => result?,
        }
        file.sync_all()?;
        File::open(folder)?.sync_all()
    };
    made().map_err(|error| {
        let _ = std::fs::remove_file(path);
        let what = format!(
            "Cannot make the redo log {} of {bytes} bytes; check space and permissions, or make `writeback.group` smaller",
            path.display()
        );
        ServerError::because(ServerErrorKind::Media, what, error)
    })
}

/// Brings what the redo log of a disk holds to the disk, while no daemon serves it: after that the disk alone is the state of one of
/// its guest's flushes. `None`: there is no log.
///
/// # Errors
/// When either cannot be opened alone, read or written, or the log is not what it was.
pub fn recover_disk(disk: &Path, redo: Option<&Path>) -> Result<Option<RecoveredDisk>, ServerError> {
    let cannot = |error| {
        ServerError::because(
            ServerErrorKind::Media,
            format!("Cannot find the disk {}", disk.display()),
            error,
        )
    };
    let path = match redo {
        Some(path) => path.to_owned(),
        None => beside(disk).map_err(cannot)?.ok_or_else(|| {
            let text = format!("{} is not an image file; name its redo log with --redo", disk.display());
            ServerError::new(ServerErrorKind::Config, text)
        })?,
    };
    let Some(file) = open(&path)? else { return Ok(None) };
    let options =
        OpenOptions { write: true, direct: Direct::Prefer, create_size: None, lock: Lock::Exclusive };
    let backing = MediaFile::open(disk, &options)
        .map_err(|fault| ServerError::because(ServerErrorKind::Media, "Cannot open the disk", fault))?;
    let log = apply_to(&path, &file, &backing)?;
    Ok(log.map(|log| RecoveredDisk {
        disk: disk.to_owned(),
        redo: path,
        cache: log.label.cache.to_string(),
        group: log.group,
        applied_blocks: log.entries.len() as u64,
    }))
}

/// The label of a volume's log.
pub(crate) fn label(
    cache: CacheId,
    volume: VolumeTag,
    config: &lode_engine::EngineConfig,
) -> Option<RedoLabel> {
    let layout = config.ordered?.redo_layout(config.block);
    Some(RedoLabel { cache, volume, volume_bytes: config.volume_bytes, layout })
}
