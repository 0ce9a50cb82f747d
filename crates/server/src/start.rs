//! Start-up: opens devices, makes sure they are the right ones, recovers every VM's cache. Nothing is
//! served before all of it has succeeded.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

use lode_engine::store::{Attached, Store, StoreErrorKind, VolumeSpec};
use lode_engine::{Engine, EngineConfig};
use lode_format::Superblock;
use lode_media::{Direct, FaultKind, HddModel, Lock, MediaFault, MediaFile, OpenOptions};
use lode_nbd::ExportInfo;
use lode_policy::Quota;
use lode_types::{BlockSize, SECTOR_BYTES};
use tracing::info;

use crate::bytes::DeviceBytes;
use crate::config::{Config, Size, SsdConfig, VmConfig};
use crate::error::{ServerError, ServerErrorKind};
use crate::identity::StateFile;

/// How long a locked device is waited for: the kernel still has the I/O of a killed daemon to end, and keeps
/// its files open meanwhile.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// How often it is tried again.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// One VM's disk, ready to be served by any thread.
pub(crate) struct Prepared {
    pub engine: Engine,
    pub scheme: &'static str,
    pub export: ExportInfo,
    pub backing: MediaFile,
    pub ssd: Option<MediaFile>,
}

/// A cache SSD that is the right one, and has not been changed yet.
struct FoundSsd {
    file: MediaFile,
    superblock: Superblock,
}

/// The cache SSD in its new life.
struct OpenSsd {
    file: MediaFile,
    store: Store,
}

/// A VM whose backing disk is open and checked.
struct Plan<'c> {
    vm: &'c VmConfig,
    backing: MediaFile,
    config: EngineConfig,
    export: ExportInfo,
}

/// Opens and recovers everything that the configuration names. Returns the identity of the SSD as well.
pub(crate) fn prepare(config: &Config) -> Result<(Vec<Prepared>, Option<Superblock>), ServerError> {
    check_files(config)?;
    let backings = config.vms.iter().map(open_backing).collect::<Result<Vec<_>, _>>()?;
    let found = config.ssd.as_ref().map(|ssd| find_ssd(config, ssd)).transpose()?;
    let block = found.as_ref().map_or(BlockSize::KIB_4, |found| found.superblock.block);
    let vms = config.vms.iter().zip(backings);
    let plans = vms.map(|(vm, backing)| plan_vm(vm, backing, block)).collect::<Result<Vec<_>, _>>()?;
    // A start that is refused above has changed nothing.
    let ssd = config.ssd.as_ref().zip(found);
    let mut ssd = ssd.map(|(ssd, found)| open_ssd(config, ssd, found)).transpose()?;
    let mut prepared = Vec::new();
    for plan in plans {
        prepared.push(prepare_vm(plan, ssd.as_mut())?);
    }
    let superblock = ssd.as_ref().map(|ssd| *ssd.store.superblock());
    if let Some(ssd) = &ssd {
        warn_of_strangers(config, &ssd.store);
    }
    Ok((prepared, superblock))
}

/// Refuses backing disks that are absent, and files that have two uses: the second one would wait for the
/// lock of the first.
fn check_files(config: &Config) -> Result<(), ServerError> {
    let mut uses: HashMap<(bool, u64, u64), String> = HashMap::new();
    if let Some(ssd) = &config.ssd
        && let Ok(found) = std::fs::metadata(&ssd.path)
    {
        uses.insert(file_identity(&found), "the cache SSD (`ssd.path`)".to_owned());
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
    }
    Ok(())
}

/// What two paths to one file, or two nodes of one device, have in common.
fn file_identity(found: &Metadata) -> (bool, u64, u64) {
    match found.file_type().is_block_device() {
        true => (true, found.rdev(), 0),
        false => (false, found.dev(), found.ino()),
    }
}

fn find_ssd(config: &Config, ssd: &SsdConfig) -> Result<FoundSsd, ServerError> {
    let path = ssd.path.display();
    let file = open_patiently(&ssd.path, &OpenOptions::default()).map_err(|fault| {
        ServerError::because(ServerErrorKind::Media, "Cannot open the cache SSD (`ssd.path`)", fault)
    })?;
    let superblock = Store::probe(&mut DeviceBytes(&file)).map_err(|error| match error.kind() {
        StoreErrorKind::NotACache => {
            let what = format!(
                "{path} holds no cache that can be read; correct `ssd.path`, or if the device is new run `lode \
                 format {path}` first"
            );
            ServerError::because(ServerErrorKind::Store, what, error)
        }
        _ => ServerError::store(path, error),
    })?;
    StateFile::of(config).check(ssd, &superblock)?;
    Ok(FoundSsd { file, superblock })
}

/// Begins a new life of the SSD: raises its epoch and remembers it.
fn open_ssd(config: &Config, ssd: &SsdConfig, found: FoundSsd) -> Result<OpenSsd, ServerError> {
    let file = found.file;
    let store = Store::open(&mut DeviceBytes(&file))
        .map_err(|error| ServerError::store(ssd.path.display(), error))?;
    let superblock = store.superblock();
    StateFile::of(config).update(ssd, superblock)?;
    info!(
        "Cache {} on {}, epoch {}, {} with blocks of {}{}",
        superblock.cache,
        ssd.path.display(),
        superblock.epoch,
        Size(superblock.device_bytes),
        Size(superblock.block.bytes()),
        if file.is_direct() { "" } else { "; direct I/O does not work there, the page cache is used" }
    );
    Ok(OpenSsd { file, store })
}

fn plan_vm(vm: &VmConfig, backing: MediaFile, block: BlockSize) -> Result<Plan<'_>, ServerError> {
    // Sizes are whole blocks and bounded, and of levels that the scheme uses: the configuration saw to it.
    let blocks = |bytes: u64| (bytes / block.bytes()) as u32;
    let quota = Quota::new(blocks(vm.dram_bytes), blocks(vm.ssd_bytes));
    let config = EngineConfig::new(block, backing.size_bytes(), quota);
    let export = ExportInfo::new(&vm.name, config.volume_bytes)
        .and_then(|export| export.with_preferred_block_bytes(block.bytes() as u32))
        .map_err(|error| ServerError::because(ServerErrorKind::Config, format!("VM {}", vm.name), error))?
        .with_read_only(vm.read_only);
    Ok(Plan { vm, backing, config, export })
}

fn prepare_vm(plan: Plan<'_>, mut ssd: Option<&mut OpenSsd>) -> Result<Prepared, ServerError> {
    let began = Instant::now();
    let Plan { vm, backing, config, export } = plan;
    let quota = config.quota;
    let has_space =
        |ssd: &&mut OpenSsd| quota.ssd_blocks > 0 || ssd.store.volumes().any(|name| name == vm.name);
    let attached = match ssd.as_deref_mut().filter(has_space) {
        Some(ssd) => Some(attach(vm, ssd, &config)?),
        None => None,
    };
    let (recovered, dirty) = attached.as_ref().map_or((0, 0), Attached::recovered_blocks);
    let ssd = attached.as_ref().and(ssd).map(|ssd| ssd.file.clone());
    let engine = Engine::new(config, &vm.settings, attached);
    let frames = u64::from(quota.dram_blocks + config.reserve.dram_blocks) * config.block.bytes();
    info!(
        "VM {}: {} disk, {} recovered blocks ({dirty} newer than the disk) in {:.1} s; needs {} of memory for \
         tables and up to {} for blocks",
        vm.name,
        Size(config.volume_bytes),
        recovered,
        began.elapsed().as_secs_f64(),
        Size(engine.gauges().memory_bytes),
        Size(frames),
    );
    Ok(Prepared { engine, scheme: vm.settings.scheme(), export, backing, ssd })
}

fn attach(vm: &VmConfig, ssd: &mut OpenSsd, config: &EngineConfig) -> Result<Attached, ServerError> {
    let spec =
        VolumeSpec { name: vm.name.clone(), backing_bytes: config.volume_bytes, places: config.ssd_places() };
    let attached = ssd
        .store
        .attach(&mut DeviceBytes(&ssd.file), &spec)
        .map_err(|error| ServerError::store(format!("VM {}", vm.name), error))?;
    let (_, dirty) = attached.recovered_blocks();
    if vm.read_only && dirty > 0 {
        let text = format!(
            "VM {}: the cache holds {dirty} blocks newer than the backing disk, so it cannot be read-only; serve \
             it writable until status shows no dirty blocks",
            vm.name
        );
        return Err(ServerError::new(ServerErrorKind::Config, text));
    }
    Ok(attached)
}

fn open_backing(vm: &VmConfig) -> Result<MediaFile, ServerError> {
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
        let text = format!(
            "VM {}: the backing disk {} (`backing.path`) has {size_bytes} bytes; make its size a multiple of \
             {SECTOR_BYTES}",
            vm.name,
            vm.backing.display()
        );
        return Err(ServerError::new(ServerErrorKind::Media, text));
    }
    if u64::from(backing.logical_block_bytes()) > SECTOR_BYTES {
        // Guests may write single sectors, which direct I/O cannot do here.
        info!("VM {}: backing disk with large sectors, the page cache is used", vm.name);
        drop(backing);
        backing = open(Direct::Off)?;
    }
    Ok(if vm.backing_like_hdd { backing.with_delay(HddModel::nearline()) } else { backing })
}

fn open_patiently(path: &Path, options: &OpenOptions) -> Result<MediaFile, MediaFault> {
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

/// Volumes on the SSD that nobody serves keep their space and what they hold.
fn warn_of_strangers(config: &Config, store: &Store) {
    for name in store.volumes().filter(|name| config.vms.iter().all(|vm| vm.name != *name)) {
        tracing::warn!("The cache holds volume '{name}', which is not configured: its space stays taken");
    }
}
