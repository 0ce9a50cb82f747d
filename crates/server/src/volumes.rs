//! Looking at the volumes of a cache SSD, and removing them, while no daemon serves it.

use std::path::PathBuf;

use serde::Serialize;

use crate::config::Config;
use crate::error::{ServerError, ServerErrorKind};
use crate::ssd::FoundSsd;

/// What the cache SSD holds.
#[derive(Clone, Debug, Serialize)]
pub struct Volumes {
    /// Identity of the cache.
    pub uuid: String,
    /// Size of a block.
    pub block_bytes: u64,
    /// Space that no volume has.
    pub free_bytes: u64,
    /// By name.
    pub volumes: Vec<VolumeView>,
}

/// One volume.
#[derive(Clone, Debug, Serialize)]
pub struct VolumeView {
    /// Name of the VM that it was made for.
    pub name: String,
    /// Whether the configuration has a VM of this name.
    pub configured: bool,
    /// Size of its backing disk when it was last served.
    pub backing_bytes: u64,
    /// Its space on the SSD.
    pub space_bytes: u64,
    /// Blocks it holds; none when its metadata is damaged.
    pub blocks: Option<u64>,
    /// Of those, newer than the backing disk.
    pub dirty_blocks: Option<u64>,
    /// Why the blocks could not be counted.
    pub damage: Option<String>,
}

/// What became of a volume that was removed.
#[derive(Clone, Debug)]
pub struct RemovedVolume {
    /// Space that is free again; 0 where an earlier removal had freed it, and was cut short then.
    pub space_bytes: u64,
    /// Its redo log, which went with it, where there was one.
    pub log: Option<RemovedLog>,
}

/// A redo log that is gone.
#[derive(Clone, Debug)]
pub struct RemovedLog {
    /// Where it was.
    pub path: PathBuf,
    /// Number of its latest group; none where it was damaged.
    pub group: Option<u64>,
    /// Blocks of it that the disk might have lacked; none where it was damaged.
    pub blocks: Option<u64>,
    /// The disk has them; otherwise they were dropped.
    pub is_applied: bool,
}

/// What the cache SSD of a configuration holds. Nothing is changed.
///
/// # Errors
/// When the configuration names no SSD, a daemon serves it, or it is not the right one.
pub fn volumes(config: &Config) -> Result<Volumes, ServerError> {
    let ssd = find(config)?;
    let mut device = ssd.files.device();
    let superblock = ssd.view.superblock();
    let mut volumes = Vec::new();
    for info in ssd.view.volumes() {
        let counts = ssd.view.count_blocks(&mut device, &info.name);
        let (blocks, damage) = match counts {
            Ok(counts) => (Some(counts), None),
            Err(error) => (None, Some(error.to_string())),
        };
        volumes.push(VolumeView {
            configured: config.has_vm(&info.name),
            name: info.name,
            backing_bytes: info.backing_bytes,
            space_bytes: info.space_bytes,
            blocks: blocks.map(|counts| counts.clean + counts.dirty),
            dirty_blocks: blocks.map(|counts| counts.dirty),
            damage,
        });
    }
    volumes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Volumes {
        uuid: superblock.cache.to_string(),
        block_bytes: superblock.block.bytes(),
        free_bytes: u64::from(ssd.view.free_extents()) * superblock.extent_bytes,
        volumes,
    })
}

/// Gives a volume's space back, and with `force` even if that loses blocks newer than its backing disk. A redo log beside the disk
/// goes with it: what it holds comes to the disk first, and with `force` is dropped.
///
/// # Errors
/// As [`volumes`]; when there is no such volume; [`ServerErrorKind::InUse`] when it takes `force`; when the redo log cannot be read, applied
/// or removed.
pub fn remove_volume(config: &Config, name: &str, force: bool) -> Result<RemovedVolume, ServerError> {
    find(config)?.remove(name, force)
}

/// The SSD of a configuration, which has to name one.
pub(crate) fn find(config: &Config) -> Result<FoundSsd<'_>, ServerError> {
    let none = || ServerError::new(ServerErrorKind::Config, "The configuration has no cache SSD; add [ssd]");
    FoundSsd::find(config)?.ok_or_else(none)
}
