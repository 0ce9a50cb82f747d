//! `lode recover`: the disk alone, with its redo log and no cache. It must not know of a configuration.

use std::path::{Path, PathBuf};

use lode_media::{Direct, Lock, MediaFile, OpenOptions};
use lode_store::check_redo_log;
use serde::Serialize;

use super::belongs::{self, DiskFacts};
use super::{ENDING, apply_to, failed, open, refusal};
use crate::error::{ServerError, ServerErrorKind};
use crate::new_file::beside;
use crate::sidecar::{self, Sidecar};
use crate::sync_device::FileDevice;

/// What was done for a disk.
#[derive(Clone, Debug, Serialize)]
pub struct RecoveredDisk {
    /// The disk.
    pub disk: PathBuf,
    /// Its redo log.
    pub redo: PathBuf,
    /// The sidecar that says that the log is the disk's; none: there was none, and the log was taken at the operator's word.
    pub sidecar: Option<PathBuf>,
    /// The cache that wrote it.
    pub cache: String,
    /// Number of the latest group, all of which the disk has now.
    pub group: u64,
    /// Blocks of it that the log held.
    pub applied_blocks: u64,
}

/// Brings what the redo log of a disk holds to the disk, while no daemon serves it: after that the disk alone is a crash-consistent earlier
/// state, of a FLUSH of its guest where one came in time. `None`: there is no log. The sidecar is beside an image where none is named.
///
/// # Errors
/// When either cannot be opened alone, read or written, or the log is not what it was; when the sidecar says that the log is another disk's
/// or of another time, or cannot be read. Nothing is written then.
pub fn recover_disk(
    disk: &Path,
    redo: Option<&Path>,
    sidecar: Option<&Path>,
) -> Result<Option<RecoveredDisk>, ServerError> {
    let cannot = |error| {
        ServerError::because(
            ServerErrorKind::Media,
            format!("Cannot find the disk {}", disk.display()),
            error,
        )
    };
    let path = match redo {
        Some(path) => path.to_owned(),
        None => beside(disk, ENDING).map_err(cannot)?.ok_or_else(|| {
            let text = format!("{} is not an image file; name its redo log with --redo", disk.display());
            ServerError::new(ServerErrorKind::Config, text)
        })?,
    };
    let Some(file) = open(&path)? else { return Ok(None) };
    let options =
        OpenOptions { write: true, direct: Direct::Prefer, create_size: None, lock: Lock::Exclusive };
    let backing = MediaFile::open(disk, &options)
        .map_err(|fault| ServerError::because(ServerErrorKind::Media, "Cannot open the disk", fault))?;
    let place = match sidecar {
        Some(path) => Some(path.to_owned()),
        None => sidecar::beside_image(disk).map_err(cannot)?,
    };
    let found = place.as_deref().map(Sidecar::read).transpose()?.flatten();
    if let (Some(path), None) = (sidecar, &found) {
        let text = format!("There is no sidecar {}; correct --sidecar", path.display());
        return Err(ServerError::new(ServerErrorKind::Config, text));
    }
    let log = check_redo_log(&mut FileDevice::new(&file), backing.size_bytes()).map_err(failed(&path))?;
    if let Some(log) = &log {
        let facts = DiskFacts { sidecar: found.as_ref(), server: None };
        belongs::check(log, &facts).map_err(|why| {
            let text = refusal((log, &path), &why, &facts, disk, None);
            ServerError::new(ServerErrorKind::Identity, format!("Not recovered: {text}"))
        })?;
    }
    let log = apply_to(&file, &backing).map_err(failed(&path))?;
    Ok(log.map(|log| RecoveredDisk {
        disk: disk.to_owned(),
        redo: path,
        sidecar: place.filter(|_| found.is_some()),
        cache: log.label.cache.to_string(),
        group: log.group,
        applied_blocks: log.entries.len() as u64,
    }))
}

#[cfg(test)]
mod tests {
    use lode_format::{CacheId, RedoLabel, RedoLayout, RedoRanges, VolumeTag};
    use lode_store::{SyncDevice, read_redo_log};
    use lode_types::BlockSize;

    use super::*;
    use crate::redo::make;

    #[test]
    fn writing_ranges_again_changes_nothing() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let [disk, path] = ["disk", "disk.redo"].map(|name| folder.path().join(name));
        // The last block is a part of one, and the ranges hold zeroes and other bytes.
        let mut bytes = vec![0; (3 << 20) - 512];
        bytes[1 << 20..].iter_mut().zip(1u8..=250).for_each(|(byte, number)| *byte = number);
        bytes[(3 << 20) - 1024..].fill(7);
        std::fs::write(&disk, &bytes).expect("a disk");
        let layout = RedoLayout { block: BlockSize::KIB_4, capacity_blocks: 8 };
        let (cache, volume, volume_bytes) = (CacheId([3; 16]), VolumeTag(4), bytes.len() as u64);
        make(&path, &RedoLabel { cache, volume, volume_bytes, layout }).expect("a log");
        let ranges = vec![3..200, 250..768];
        let page = RedoRanges { volume, group: 0, ranges: ranges.clone() }.encode(cache);
        let log_of = |change: &dyn Fn(&mut FileDevice<&MediaFile>)| {
            let file = open(&path).expect("it opens").expect("it is there");
            change(&mut FileDevice::new(&file));
            read_redo_log(&mut FileDevice::new(&file)).expect("it can be read").expect("it is one")
        };
        let log = log_of(&|log| log.write(RedoRanges::AT, &page[..]).expect("it takes it"));
        assert_eq!((&log.ranges, log.is_empty()), (&ranges, false));
        let recovered = recover_disk(&disk, None, None).expect("it is well").expect("there is a log");
        assert_eq!((recovered.group, recovered.applied_blocks), (0, 0));
        assert!(std::fs::read(&disk).expect("it is there") == bytes);
        assert!(log_of(&|_| ()).is_empty());
    }
}
