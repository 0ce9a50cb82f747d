//! Start-up: opens devices, makes sure they are the right ones, recovers every VM's cache. Nothing is
//! served before all of it has succeeded.

use std::path::Path;
use std::time::{Duration, Instant};

use lode_engine::store::{Attached, Store, VolumeSpec};
use lode_engine::{Engine, EngineConfig};
use lode_format::Superblock;
use lode_media::{Direct, FaultKind, HddModel, Lock, MediaFault, MediaFile, OpenOptions};
use lode_nbd::ExportInfo;
use lode_policy::{Quota, SchemeInfo};
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

/// The cache SSD in its new life.
struct OpenSsd {
    file: MediaFile,
    store: Store,
}

/// Opens and recovers everything that the configuration names. Returns the identity of the SSD as well.
pub(crate) fn prepare(config: &Config) -> Result<(Vec<Prepared>, Option<Superblock>), ServerError> {
    let mut ssd = config.ssd.as_ref().map(|ssd| open_ssd(config, ssd)).transpose()?;
    let mut prepared = Vec::new();
    for vm in &config.vms {
        prepared.push(prepare_vm(vm, ssd.as_mut())?);
    }
    let superblock = ssd.as_ref().map(|ssd| *ssd.store.superblock());
    if let Some(ssd) = &ssd {
        warn_of_strangers(config, &ssd.store);
    }
    Ok((prepared, superblock))
}

fn open_ssd(config: &Config, ssd: &SsdConfig) -> Result<OpenSsd, ServerError> {
    let file = open_patiently(&ssd.path, &OpenOptions::default())?;
    let mut device = DeviceBytes(&file);
    let of_ssd = |error| ServerError::store(ssd.path.display(), error);
    let state = StateFile::of(config);
    state.check(ssd, &Store::probe(&mut device).map_err(of_ssd)?)?;
    let store = Store::open(&mut device).map_err(of_ssd)?;
    let superblock = store.superblock();
    state.update(ssd, superblock)?;
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

fn prepare_vm(vm: &VmConfig, mut ssd: Option<&mut OpenSsd>) -> Result<Prepared, ServerError> {
    let began = Instant::now();
    let block = ssd.as_ref().map_or(BlockSize::KIB_4, |ssd| ssd.store.superblock().block);
    // Sizes are whole blocks and bounded: the configuration saw to it.
    let blocks = |bytes: u64| (bytes / block.bytes()) as u32;
    let quota = Quota::new(blocks(vm.dram_bytes), blocks(vm.ssd_bytes));
    let scheme = SchemeInfo::find(vm.settings.scheme());
    scheme.and_then(|scheme| scheme.check_levels(quota)).map_err(|error| of_vm(vm, error))?;
    let backing = open_backing(vm)?;
    let config = EngineConfig::new(block, backing.size_bytes(), quota);
    let export = ExportInfo::new(&vm.name, config.volume_bytes)
        .and_then(|export| export.with_preferred_block_bytes(block.bytes() as u32))
        .map_err(|error| of_vm(vm, error))?
        .with_read_only(vm.read_only);
    let has_space =
        |ssd: &&mut OpenSsd| quota.ssd_blocks > 0 || ssd.store.volumes().any(|name| name == vm.name);
    let attached = match ssd.as_deref_mut().filter(has_space) {
        Some(ssd) => Some(attach(vm, ssd, &config)?),
        None => None,
    };
    let (recovered, dirty) = attached.as_ref().map_or((0, 0), Attached::recovered_blocks);
    let ssd = attached.as_ref().and(ssd).map(|ssd| ssd.file.clone());
    let engine = Engine::new(config, &vm.settings, attached);
    let frames = u64::from(quota.dram_blocks + config.reserve.dram_blocks) * block.bytes();
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
        open_patiently(&vm.backing, &options)
    };
    let mut backing = open(Direct::Prefer)?;
    let size_bytes = backing.size_bytes();
    if !size_bytes.is_multiple_of(SECTOR_BYTES) {
        let text =
            format!("its backing disk has {size_bytes} bytes; make its size a multiple of {SECTOR_BYTES}");
        return Err(of_vm(vm, ServerError::new(ServerErrorKind::Media, text)));
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

fn of_vm(vm: &VmConfig, error: impl std::error::Error + Send + Sync + 'static) -> ServerError {
    ServerError::because(ServerErrorKind::Config, format!("VM {}", vm.name), error)
}

/// Volumes on the SSD that nobody serves keep their space and what they hold.
fn warn_of_strangers(config: &Config, store: &Store) {
    for name in store.volumes().filter(|name| config.vms.iter().all(|vm| vm.name != *name)) {
        tracing::warn!("The cache holds volume '{name}', which is not configured: its space stays taken");
    }
}
