//! The files and devices that a configuration names: whether they can be used together, and opening them. It must not
//! know what is in them.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lode_media::{Direct, FaultKind, HddModel, Lock, MediaFault, MediaFile, OpenOptions};
use lode_policy::SchemeInfo;
use lode_types::{BlockSize, SECTOR_BYTES};
use tracing::info;

use crate::config::{Config, SsdConfig, VmConfig};
use crate::error::{ServerError, ServerErrorKind};
use crate::redo;

/// How long a locked device is waited for: the kernel still has the I/O of a killed daemon to end, and keeps
/// its files open meanwhile.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// How often it is tried again.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Refuses backing disks that are absent, and files that have two uses: the second one would wait for the
/// lock of the first.
pub(crate) fn check_files(config: &Config) -> Result<(), ServerError> {
    let mut uses: HashMap<(bool, u64, u64), String> = HashMap::new();
    for (path, named) in config.ssd.iter().flat_map(ssds) {
        if let Ok(found) = std::fs::metadata(path)
            && let Some(other) = uses.insert(file_identity(&found), named.text.to_owned())
        {
            let text = format!("{} is {other} as well; {}", path.display(), named.advice);
            return Err(ServerError::new(ServerErrorKind::Config, text));
        }
    }
    if let Some(read_ssd) = &config.read_ssd
        && let Ok(found) = std::fs::metadata(&read_ssd.path)
        && let Some(other) = uses.insert(file_identity(&found), "the read SSD (`read_ssd.path`)".to_owned())
    {
        let text = format!(
            "The read SSD {} is {other} as well; give `read_ssd.path` a device of its own",
            read_ssd.path.display()
        );
        return Err(ServerError::new(ServerErrorKind::Config, text));
    }
    for vm in &config.vms {
        let path = vm.backing.display();
        let found = std::fs::metadata(&vm.backing).map_err(|error| {
            let what = format!("VM {}: cannot find the backing disk {path}; correct `backing.path`", vm.name);
            ServerError::because(ServerErrorKind::Media, what, error)
        })?;
        if found.is_file() && found.len() == 0 {
            let text = format!(
                "VM {}: the backing disk {path} has no bytes; give `backing.path` a disk with a size",
                vm.name
            );
            return Err(ServerError::new(ServerErrorKind::Media, text));
        }
        if let Some(other) = uses.insert(file_identity(&found), format!("the backing disk of VM {}", vm.name))
        {
            let text = format!(
                "VM {}: {path} is {other} as well; give each its own device or file in `backing.path`",
                vm.name
            );
            return Err(ServerError::new(ServerErrorKind::Config, text));
        }
        if let Some(redo) = redo::check(vm)?
            && let Ok(found) = std::fs::metadata(&redo)
            && let Some(other) = uses.insert(file_identity(&found), format!("the redo log of VM {}", vm.name))
        {
            let text = format!(
                "VM {}: {} is {other} as well; give each its own file in `backing.redo`",
                vm.name,
                redo.display()
            );
            return Err(ServerError::new(ServerErrorKind::Config, text));
        }
    }
    Ok(())
}

/// What the key is for that names a cache SSD, and what helps where its device has another use.
struct Named {
    text: &'static str,
    advice: &'static str,
}

/// The cache SSDs of a configuration.
fn ssds(ssd: &SsdConfig) -> impl Iterator<Item = (&PathBuf, Named)> {
    let is_one_pair = ssd.pairs.len() <= 1;
    ssd.paths().enumerate().map(move |(at, path)| {
        let (text, advice) = match at {
            _ if !is_one_pair => {
                ("an SSD of the cache (`ssd.pairs`)", "a pair is two SSDs: give `ssd.pairs` each device once")
            }
            0 => ("the cache SSD (`ssd.path`)", "give `ssd.path` a device of its own"),
            _ => (
                "the mirror of the cache SSD (`ssd.mirror`)",
                "a pair is two SSDs: give `ssd.mirror` the other one",
            ),
        };
        (path, Named { text, advice })
    })
}

/// Refuses settings that speak of what lies beyond a backing disk of so many bytes.
pub(crate) fn check_disk(vm: &VmConfig, disk_bytes: u64, block: BlockSize) -> Result<(), ServerError> {
    let checked = SchemeInfo::find(vm.settings.scheme())
        .and_then(|scheme| scheme.check_disk(&vm.settings, disk_bytes.div_ceil(block.bytes())));
    checked.map_err(|error| {
        let what = format!("VM {}: the backing disk {}", vm.name, vm.backing.display());
        ServerError::because(ServerErrorKind::Config, what, error)
    })
}

/// Checks what the configuration says of backing disks that are files and there already, without opening them. What depends on
/// the size of a block, which an SSD has, is checked for the smallest.
///
/// # Errors
/// When settings speak of what lies beyond such a disk.
pub fn check_disks(config: &Config) -> Result<(), ServerError> {
    for vm in &config.vms {
        if let Ok(found) = std::fs::metadata(&vm.backing)
            && found.is_file()
        {
            check_disk(vm, found.len(), BlockSize::KIB_4)?;
        }
    }
    Ok(())
}

/// What two paths to one file, or two nodes of one device, have in common.
pub(crate) fn file_identity(found: &Metadata) -> (bool, u64, u64) {
    match found.file_type().is_block_device() {
        true => (true, found.rdev(), 0),
        false => (false, found.dev(), found.ino()),
    }
}

/// Opens a VM's backing disk for this daemon alone.
pub(crate) fn open_backing(vm: &VmConfig) -> Result<MediaFile, ServerError> {
    let open = |direct| {
        let options = OpenOptions { write: !vm.read_only, direct, create_size: None, lock: Lock::Exclusive };
        open_patiently(&vm.backing, &options).map_err(|fault| {
            let what = format!("VM {}: cannot open the backing disk (`backing.path`)", vm.name);
            ServerError::because(ServerErrorKind::Media, what, fault)
        })
    };
    let mut backing = open(Direct::Prefer)?;
    let size_bytes = backing.size_bytes();
    if !size_bytes.is_multiple_of(SECTOR_BYTES) {
        // Only a file can be so, and it was opened without direct I/O, which ends with a sector.
        info!("VM {}: {size_bytes} bytes are no whole sectors, the page cache is used", vm.name);
    }
    if u64::from(backing.logical_block_bytes()) > SECTOR_BYTES {
        // Guests may write single sectors, which direct I/O cannot do here.
        info!("VM {}: backing disk with large sectors, the page cache is used", vm.name);
        drop(backing);
        backing = open(Direct::Off)?;
    }
    Ok(if vm.backing_like_hdd { backing.with_delay(HddModel::nearline()) } else { backing })
}

/// Opens a device or file, waiting for a lock of a daemon that was killed just now.
pub(crate) fn open_patiently(path: &Path, options: &OpenOptions) -> Result<MediaFile, MediaFault> {
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match MediaFile::open(path, options) {
            Err(fault) if fault.kind() == FaultKind::Busy && Instant::now() < deadline => {
                std::thread::sleep(LOCK_PAUSE);
            }
            outcome => return outcome,
        }
    }
}
