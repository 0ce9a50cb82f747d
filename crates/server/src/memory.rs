//! How much memory the caches of a host may take, table by table: what a start refuses when the host has less, and what
//! `lode serve --check` says. It must not know what a cache holds.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use lode_engine::{EngineConfig, Memory};
use lode_format::{DeviceLayout, ExtentLayout, PairLabel};
use lode_policy::{Quota, Settings};
use lode_types::{BlockSize, Level};
use rustix::fs::{major, minor};

use crate::config::{Config, Size, SsdConfig};
use crate::division::{HostFrames, frames_of_host, largest};
use crate::error::{ServerError, ServerErrorKind};
use crate::records::records_bytes;
use crate::start::engine_config;

/// Bytes of a sector in which sysfs counts.
const SYSFS_SECTOR_BYTES: u64 = 512;

/// The most memory that a VM's cache takes.
#[derive(Clone, Debug)]
pub struct VmMemory {
    /// The VM.
    pub name: String,
    /// Its scheme.
    pub scheme: &'static str,
    /// Blocks of the largest share that it can have, of all levels.
    pub blocks: u64,
    /// By table.
    pub memory: Memory,
    /// The disk is not there, so that its size was assumed.
    pub is_disk_assumed: bool,
}

/// The memory that the caches of a host take.
#[derive(Clone, Debug)]
pub struct HostMemory {
    /// Each VM alone, with the largest share that it can have.
    pub vms: Vec<VmMemory>,
    /// All together, with the shares that they begin with: frames that VMs divide are there once, and all of them.
    pub together: Memory,
    /// Blocks of these shares, of all levels.
    pub together_blocks: u64,
    /// Tables of all VMs together, had each of them its largest share. As shares move, tables grow until what the host has is
    /// taken.
    pub largest_tables_bytes: u64,
    /// Journal records that outlive the daemon.
    pub records_bytes: u64,
    /// What the host has.
    pub has_bytes: u64,
}

impl HostMemory {
    /// The most that all caches take, with the shares that they begin with.
    pub fn total_bytes(&self) -> u64 {
        self.together.total_bytes() + self.records_bytes
    }

    /// Whether the host has that. Otherwise a start is refused.
    pub fn is_enough(&self) -> bool {
        self.total_bytes() <= self.has_bytes
    }
}

/// What the caches of a configuration may take, with blocks of 4 KiB, and extents as they suit the SSD. No device is opened.
///
/// # Errors
/// When a VM's scheme is refused.
pub fn host_memory(config: &Config) -> Result<HostMemory, ServerError> {
    let block = BlockSize::KIB_4;
    let ssd_bytes = config.ssd.as_ref().and_then(size_of_ssd).unwrap_or(0);
    let extent = ExtentLayout::new(DeviceLayout::suitable_extent_bytes(ssd_bytes), block);
    let extent_places = extent.map_or(1, |extent| extent.places);
    let (mut engines, mut vms, mut begins, mut together_blocks) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for vm in &config.vms {
        let disk_bytes = size_unopened(&vm.backing);
        let engine =
            engine_config(config, vm, disk_bytes.unwrap_or(EngineConfig::ASSUMED_VOLUME_BYTES), block)?;
        let share = largest(&engine).share;
        vms.push(VmMemory {
            name: vm.name.clone(),
            scheme: vm.settings.scheme(),
            blocks: blocks_of(share),
            memory: engine.most_memory(&vm.settings, extent_places),
            is_disk_assumed: disk_bytes.is_none(),
        });
        together_blocks += blocks_of(engine.share);
        begins.push(at_start(&engine, &vm.settings, extent_places));
        engines.push(engine);
    }
    let divided = config.divides().then(|| frames_of_host(config, engines.iter()));
    let volumes = engines.iter().filter(|engine| largest(engine).share.ssd_blocks > 0).count() as u64;
    Ok(HostMemory {
        together: together(begins.into_iter(), divided, block),
        together_blocks,
        largest_tables_bytes: vms.iter().map(|vm| vm.memory.tables_bytes()).sum(),
        vms,
        records_bytes: volumes * records_bytes(),
        has_bytes: memory_of_host(),
    })
}

/// Bytes of the cache SSD, or of what all pairs hold together.
fn size_of_ssd(ssd: &SsdConfig) -> Option<u64> {
    if ssd.pairs.is_empty() {
        return size_unopened(&ssd.path);
    }
    let of_pair = |pair: &[PathBuf; 2]| {
        let smaller = pair.iter().filter_map(|path| size_unopened(path)).min()?;
        Some(smaller.saturating_sub(PairLabel::DATA_START_BYTES))
    };
    ssd.pairs.iter().map(of_pair).sum()
}

fn blocks_of(share: Quota) -> u64 {
    Level::ALL.into_iter().map(|level| u64::from(share.of(level))).sum()
}

/// The most that a cache takes with the share that it begins with.
fn at_start(engine: &EngineConfig, settings: &Settings, extent_places: u32) -> Memory {
    EngineConfig { largest_share: None, ..*engine }.most_memory(settings, extent_places)
}

/// What several caches take together. Frames of what VMs divide are there once, whoever has them.
fn together(each: impl Iterator<Item = Memory>, divided: Option<HostFrames>, block: BlockSize) -> Memory {
    let all: Memory = each.sum();
    let frames_bytes = divided.map_or(all.frames_bytes, |memory| memory.frames * block.bytes());
    Memory { frames_bytes, ..all }
}

/// Refuses caches that this host has no memory for with the shares that they begin with: engines with their settings, and
/// whether they keep records. Returns the bytes that are left for tables, those of these shares included.
pub(crate) fn check_memory<'e>(
    engines: impl Iterator<Item = (&'e EngineConfig, &'e Settings, bool)>,
    extent_places: u32,
    divided: Option<HostFrames>,
) -> Result<u64, ServerError> {
    let (mut records, mut block, mut each) = (0, BlockSize::KIB_4, Vec::new());
    for (engine, settings, keeps_records) in engines {
        records += if keeps_records { records_bytes() } else { 0 };
        block = engine.block;
        each.push(at_start(engine, settings, extent_places));
    }
    let all = together(each.into_iter(), divided, block);
    let (needed_bytes, has_bytes) = (all.total_bytes() + records, memory_of_host());
    if needed_bytes <= has_bytes {
        return Ok(has_bytes.saturating_sub(all.frames_bytes + records));
    }
    let text = format!(
        "The caches of all VMs may take {} of memory ({} for their DRAM levels, and {} for tables of all levels), and this \
         host has {}; make `dram`, `ssd` or `read_ssd` smaller; `lode serve --check` says what each VM takes",
        Size(needed_bytes),
        Size(all.frames_bytes),
        Size(needed_bytes - all.frames_bytes),
        Size(has_bytes)
    );
    Err(ServerError::new(ServerErrorKind::Config, text))
}

/// Refuses another configuration if a start with it would be refused for memory, and one with the present configuration would not.
pub(crate) fn check_next_start(present: &Config, next: &Config) -> Result<(), String> {
    let memory_of = |config| host_memory(config).map_err(|error| error.to_string());
    let needed = memory_of(next)?;
    if needed.is_enough() || !memory_of(present)?.is_enough() {
        return Ok(());
    }
    Err(format!(
        "The next start would be refused: the caches of all VMs may take {} of memory, and this host has {}; `lode serve --check` says \
         what each VM takes",
        Size(needed.total_bytes()),
        Size(needed.has_bytes)
    ))
}

fn memory_of_host() -> u64 {
    let found = rustix::system::sysinfo();
    (found.totalram as u64).saturating_mul(u64::from(found.mem_unit))
}

/// Bytes of a disk that need not be opened for it: a file, or a block device that sysfs knows.
fn size_unopened(disk: &Path) -> Option<u64> {
    let found = fs::metadata(disk).ok()?;
    if found.is_file() {
        return Some(found.len());
    }
    let device = found.file_type().is_block_device().then(|| found.rdev())?;
    let path = format!("/sys/dev/block/{}:{}/size", major(device), minor(device));
    let sectors: u64 = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    sectors.checked_mul(SYSFS_SECTOR_BYTES)
}
