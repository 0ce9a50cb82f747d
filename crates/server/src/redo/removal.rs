//! The redo log of a volume that an operator gives up while no daemon serves it. It must not know what else the volume has.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use lode_format::{CacheId, VolumeTag};
use lode_store::{RedoLog, read_redo_label, read_redo_log};

use super::{failed, open, path_of, remove};
use crate::config::VmConfig;
use crate::error::ServerError;
use crate::sync_device::FileDevice;

/// A log that is to go with its volume.
#[derive(Debug)]
pub(crate) struct LeftLog {
    pub path: PathBuf,
    /// What it holds; none where that is damaged.
    pub log: Option<RedoLog>,
}

impl LeftLog {
    /// It is gone durably when this returns.
    pub(crate) fn remove(&self) -> Result<(), ServerError> {
        if is_absent(&self.path) { Ok(()) } else { remove(&self.path) }
    }
}

fn is_absent(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// The log of this volume beside a VM's disk, if it is there. One of another volume is left alone, and so is what is no log: a start
/// looks at these.
///
/// # Errors
/// When it cannot be told whose it is, and, unless `force` says that what it holds is not wanted, when that cannot be read.
pub(crate) fn find_left(
    vm: &VmConfig,
    volume: (CacheId, VolumeTag),
    force: bool,
) -> Result<Option<LeftLog>, ServerError> {
    // Without its disk nobody knows where the log would be. Should both come back, a start refuses it: the volume is gone.
    let Ok(Some(path)) = path_of(vm) else { return Ok(None) };
    if !vm.is_ordered() && std::fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
        return Ok(None);
    }
    let Some(file) = open(&path)? else { return Ok(None) };
    let label = read_redo_label(&mut FileDevice::new(&file)).map_err(failed(&path))?;
    if label.is_none_or(|label| (label.cache, label.volume) != volume) {
        return Ok(None);
    }
    let log = match read_redo_log(&mut FileDevice::new(&file)) {
        Err(error) if !force => return Err(failed(&path)(error)),
        log => log.ok().flatten(),
    };
    Ok(Some(LeftLog { path, log }))
}
