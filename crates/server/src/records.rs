//! Where journal records outlive the daemon: a file for each volume, in a folder of the cache's own on a file system in
//! memory. It must not know what the records say.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use lode_format::{BootId, CacheId, VolumeTag};
use lode_media::{SharedMemory, is_in_memory};
use lode_store::RecordStorage;
use lode_store::StoreView;
use rustix::fs::OFlags;
use tracing::warn;

use crate::boot::{BOOT_ID, boot_text};
use crate::config::{Config, ShmDir, Size};
use crate::error::{ServerError, ServerErrorKind};

/// Where every Linux system has a file system in memory.
const USUAL_FOLDER: &str = "/dev/shm";
/// Most that is read of a file: what a lode with larger buffers may have left.
const MOST_BYTES: u64 = 64 << 20;

/// The records of one cache's volumes. See the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    /// The cache's own folder; none where no memory outlives the daemon.
    folder: Option<PathBuf>,
    boot: Option<BootId>,
    boot_text: Option<String>,
}

/// Memory of one volume's records.
pub(crate) fn records_bytes() -> u64 {
    RecordStorage::bytes(RecordStorage::USUAL_RECORDS) as u64
}

/// The folder that a configuration means, if what is written there stays in memory.
///
/// # Errors
/// When it names one where it does not.
pub(crate) fn shm_dir(config: &Config) -> Result<Option<PathBuf>, ServerError> {
    match &config.shm_dir {
        ShmDir::Off => Ok(None),
        ShmDir::At(folder) => match is_in_memory(folder) {
            Ok(true) => Ok(Some(folder.clone())),
            Ok(false) => {
                let text = format!(
                    "`shm_dir` {} is not on a file system in memory (tmpfs), so that every write would wait for a disk; \
                     give a folder on one, such as {USUAL_FOLDER}, or \"none\"",
                    folder.display()
                );
                Err(ServerError::new(ServerErrorKind::Config, text))
            }
            Err(error) => {
                let text = format!("Cannot use `shm_dir` {}; create the folder", folder.display());
                Err(ServerError::because(ServerErrorKind::Config, text, error))
            }
        },
        ShmDir::Usual => {
            let folders = [config.state_dir.as_path(), Path::new(USUAL_FOLDER)];
            let found = folders.into_iter().find(|folder| is_in_memory(folder).unwrap_or(false));
            Ok(found.map(Path::to_path_buf))
        }
    }
}

/// What `lode serve --check` says of the memory for records.
///
/// # Errors
/// When `shm_dir` cannot be used.
pub fn describe_records(config: &Config) -> Result<String, ServerError> {
    let volumes = config.vms.iter().filter(|vm| vm.ssd_bytes > 0).count();
    let (each, all) = (records_bytes(), records_bytes() * volumes as u64);
    Ok(match shm_dir(config)? {
        Some(folder) => format!(
            "Journal records outlive the daemon in {} (shm_dir): {all} bytes of memory, {} for each of {volumes} VMs with \
             a share of the SSD",
            folder.display(),
            Size(each)
        ),
        None => "No memory outlives the daemon (shm_dir): 0 bytes; every write waits until its journal record is on the \
                 SSD"
            .to_owned(),
    })
}

impl Records {
    /// The records of this cache.
    pub(crate) fn of(config: &Config, cache: CacheId) -> Result<Records, ServerError> {
        let folder = shm_dir(config)?.map(|folder| folder.join(format!("lodestore-{cache}")));
        let boot_text = boot_text();
        // It is written as a cache's identity is.
        let boot = boot_text.as_ref().and_then(|text| text.parse::<CacheId>().ok()).map(|id| BootId(id.0));
        if boot.is_none() && folder.is_some() {
            warn!("{BOOT_ID} does not tell this boot of the host from others: no memory outlives the daemon");
        }
        Ok(Records { folder, boot, boot_text })
    }

    /// The host's boot, as the system writes it.
    pub(crate) fn boot_text(&self) -> Option<&str> {
        self.boot_text.as_deref()
    }

    /// The cache's own folder.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Has a start take over what the last run left, volume by volume, in one of these folders or in its own. Says so where
    /// there is nothing of a volume although `expects` it.
    pub(crate) fn offer(&self, view: &mut StoreView, folders: &[PathBuf], expects: impl Fn(&str) -> bool) {
        let Some(boot) = self.boot else { return };
        let own = self.folder.iter().filter(|own| !folders.contains(own));
        let folders: Vec<&PathBuf> = folders.iter().chain(own).filter(|folder| is_usable(folder)).collect();
        let volumes: Vec<_> = view.volumes().collect();
        for volume in volumes {
            let paths = folders.iter().map(|folder| path_of(folder, volume.tag));
            let found =
                paths.map(|path| take_over(view, &volume.name, boot, &path)).fold(false, |a, b| a | b);
            if !found && expects(&volume.name) {
                warn!(
                    "VM {}: the last run was killed or crashed, and its records in shm are not there: what guests wrote \
                     and did not flush before that may be missing",
                    volume.name
                );
            }
        }
    }

    /// Memory for a volume's records. Without it the volume is served all the same.
    pub(crate) fn storage(&self, tag: VolumeTag) -> Option<RecordStorage> {
        let (Some(folder), Some(boot)) = (&self.folder, self.boot) else { return None };
        let path = path_of(folder, tag);
        let made = make_folder(folder).and_then(|()| SharedMemory::create(&path, records_bytes() as usize));
        match made {
            Ok(memory) => {
                let records = RecordStorage::USUAL_RECORDS;
                Some(RecordStorage { memory: Box::new(memory), records, boot })
            }
            Err(error) => {
                warn!(
                    "Cannot use shm file {}: {error}. Every write waits until its journal record is on the SSD; make room \
                     there, or set `shm_dir`",
                    path.display()
                );
                None
            }
        }
    }

    /// Removes the records of these volumes, of which nothing is left that only they say, wherever they are.
    pub(crate) fn remove(&self, folders: &[PathBuf], tags: &[VolumeTag]) {
        for folder in folders.iter().chain(&self.folder) {
            remove_files(folder, tags);
        }
    }

    /// Removes what these volumes have left in folders of earlier runs. Returns those that still hold something, and the
    /// own one.
    pub(crate) fn leave(&self, folders: &[PathBuf], tags: &[VolumeTag]) -> Vec<PathBuf> {
        let earlier = folders.iter().filter(|folder| Some(*folder) != self.folder.as_ref());
        let held = earlier.filter(|folder| {
            remove_files(folder, tags);
            folder.exists()
        });
        held.chain(&self.folder).cloned().collect()
    }
}

fn path_of(folder: &Path, tag: VolumeTag) -> PathBuf {
    folder.join(format!("{:016x}.records", tag.0))
}

fn remove_files(folder: &Path, tags: &[VolumeTag]) {
    for &tag in tags {
        // A file that stays is of an earlier start of its volume, which no later one believes.
        let _ = fs::remove_file(path_of(folder, tag));
    }
    // It stays while other volumes have something there.
    let _ = fs::remove_dir(folder);
}

/// Whether nobody else can have put files there; says so where somebody can.
fn is_usable(folder: &Path) -> bool {
    match check_folder(folder) {
        Ok(()) => true,
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                warn!("Records in shm folder {} are ignored: {error}", folder.display());
            }
            false
        }
    }
}

/// Has a start take over the records of a volume. Whether there are any that it takes.
fn take_over(view: &mut StoreView, name: &str, boot: BootId, path: &Path) -> bool {
    let shown = path.display();
    let outcome = match read_own(path) {
        Ok(bytes) => view.take_over(name, boot, &bytes).map_err(|ignored| ignored.to_string()),
        Err(error) if error.kind() == ErrorKind::NotFound => return false,
        Err(error) => Err(format!("{error}; what guests wrote and did not flush may be missing")),
    };
    match &outcome {
        Ok(found) if found.damaged > 0 => warn!(
            "VM {name}: {} of the records in shm file {shown} are damaged: the blocks they spoke of may be older than guests \
             were told",
            found.damaged
        ),
        Ok(_) => {}
        Err(reason) => warn!("VM {name}: shm file {shown} is ignored: {reason}"),
    }
    outcome.is_ok()
}

/// Whether nobody else may change what is there.
fn check_owner(found: &Metadata) -> io::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own || found.mode() & 0o077 != 0 {
        let text = format!(
            "it belongs to user {} with mode {:o}, so that others may have changed it",
            found.uid(),
            found.mode() & 0o7777
        );
        return Err(io::Error::new(ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

fn check_folder(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() {
        return Err(io::Error::new(ErrorKind::NotADirectory, "it is not a folder"));
    }
    check_owner(&found)
}

fn make_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => check_folder(folder),
        outcome => outcome,
    }
}

/// Reads a file that its owner alone may write, if it is one, and not a link, a pipe or another thing to wait for.
fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::options().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is not a file"));
    }
    check_owner(&found)?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
