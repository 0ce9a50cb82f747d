//! The configuration file: what may be in it, and what it means. It must not open anything it names.
//!
//! `docs/serving.md` describes every key.

mod changes;
mod edit;
mod host;
mod listen;
mod raw;
mod sections;
mod ssd;
pub(crate) mod text;
mod units;
mod write_back;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lode_format::CacheId;
use lode_media::DriverChoice;
use lode_policy::{SchemeInfo, Settings};
use lode_types::Level;

pub use changes::Changes;
pub(crate) use edit::new_vm;
pub(crate) use host::listed;
pub use host::{
    DEFAULT_INTERVAL_S, DEFAULT_RATE_BYTES, HostConfig, HostDevices, HostMode, HostObjective, VmBounds,
};
pub use listen::{Address, Listen};
pub use raw::NOWHERE;
pub use units::{DailyBytes, Size};
pub use write_back::{BackgroundConfig, OrderedKeys, Period, Share, WriteBack};

use self::text::NoText;
use crate::error::{ServerError, ServerErrorKind};

/// Where state is kept unless the configuration says otherwise.
pub const DEFAULT_STATE_DIR: &str = "/var/lib/lodestore";
/// What clients may take unless the configuration says otherwise.
pub const DEFAULT_LIMITS: Limits =
    Limits { connections: 16, connection_bytes: 32 << 20, vm_bytes: 128 << 20, slow_request_ms: 1000 };
/// Longest configuration file.
pub const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// Most VMs of one daemon.
pub const MAX_VMS: usize = 1024;
/// Most shard threads of one daemon.
pub const MAX_SHARDS: u32 = 256;
/// Longest look for more to do before a shard thread sleeps.
pub const MAX_SPIN_US: u32 = 1000;
/// Largest share of a level.
pub const MAX_LEVEL_BYTES: u64 = 8 << 40;

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the cache.
    pub name: String,
    /// Where the identity of the cache is remembered.
    pub state_dir: PathBuf,
    /// Where journal records outlive the daemon.
    pub shm_dir: ShmDir,
    /// The control socket.
    pub control: PathBuf,
    /// Its permission bits.
    pub control_mode: u32,
    /// Name or number of its group; without, it is the process's.
    pub control_group: Option<String>,
    /// Number of shard threads.
    pub shards: usize,
    /// How the shard threads do I/O.
    pub io: DriverChoice,
    /// How long they look for more to do before they sleep.
    pub spin_limit: Duration,
    /// The cache SSD, if there is one.
    pub ssd: Option<SsdConfig>,
    /// The second SSD, for reads, if there is one.
    pub read_ssd: Option<SsdConfig>,
    /// What VMs divide, and how.
    pub host: HostConfig,
    /// The VMs' disks.
    pub vms: Vec<VmConfig>,
    /// What clients may take of VMs that say nothing of their own.
    pub limits: Limits,
    /// Where metrics are scraped.
    pub metrics: Option<Listen>,
    /// What would be refused or warned of otherwise.
    pub danger: Danger,
    /// The file that it came from.
    pub path: PathBuf,
    /// What is written there.
    text: String,
    document: toml::Table,
}

/// Where journal records outlive the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShmDir {
    /// In the state folder if that is in memory, or where Linux usually has a file system in memory.
    Usual,
    /// In this folder, which must be in memory.
    At(PathBuf),
    /// Nowhere.
    Off,
}

/// How long an SSD of a pair may take for a command unless the configuration says otherwise.
pub const DEFAULT_SSD_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest that it may take.
pub const MAX_SSD_TIMEOUT: Duration = Duration::from_secs(600);
/// How fast a resilver copies to an SSD of a pair, unless the configuration says otherwise.
pub const DEFAULT_RESILVER: ResilverRates = ResilverRates { most_bytes: 200 << 20, least_bytes: 4 << 20 };

/// Bytes a second that a resilver copies to one of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResilverRates {
    /// At most.
    pub most_bytes: u64,
    /// Guests who use the SSDs are spared no longer than this rate allows.
    pub least_bytes: u64,
}

/// The cache SSD, or the read SSD.
#[derive(Clone, Debug)]
pub struct SsdConfig {
    /// The device or file; of several the first one that is named.
    pub path: PathBuf,
    /// The pairs that the cache is on; none where it is on one SSD.
    pub pairs: Vec<[PathBuf; 2]>,
    /// How long one of a pair may take for a command before it is dropped; whole seconds.
    pub timeout: Duration,
    /// How fast a resilver copies to one of a pair.
    pub resilver: ResilverRates,
    /// Bytes that may be written to it in all, of pairs to each SSD; none where no rating is named.
    pub rated_write_bytes: Option<u64>,
    /// The identity it must have.
    pub uuid: Option<CacheId>,
}

impl SsdConfig {
    /// Every device or file of it.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        let one = self.pairs.is_empty().then_some(&self.path);
        one.into_iter().chain(self.pairs.iter().flatten())
    }
}

/// One VM's disk.
#[derive(Clone, Debug)]
pub struct VmConfig {
    /// Its name: volume on the SSD, and NBD export.
    pub name: String,
    /// The slow disk.
    pub backing: PathBuf,
    /// Where it is noted beside the disk who serves it.
    pub sidecar: SidecarPlace,
    /// Where the redo log of a disk is that is written in the order of its guest's flushes; none: beside an image file.
    pub redo: Option<PathBuf>,
    /// Whether the slow disk is to behave like a 7200 rpm disk, for demonstrations.
    pub backing_like_hdd: bool,
    /// Share of host memory to begin with.
    pub dram_bytes: u64,
    /// Share of the cache SSD to begin with.
    pub ssd_bytes: u64,
    /// Share of the read SSD.
    pub read_ssd_bytes: u64,
    /// Scheme and its settings.
    pub settings: Settings,
    /// When dirty blocks are written back.
    pub write_back: WriteBack,
    /// Within this time every block on the SSD is compared with its checksum.
    pub scrub: Period,
    /// What it may have of what VMs divide.
    pub bounds: VmBounds,
    /// What its clients may take.
    pub limits: Limits,
    /// Where clients connect.
    pub listen: Vec<Listen>,
    /// Refuse writes.
    pub read_only: bool,
    /// FLUSH and FUA are acknowledged at once.
    pub acknowledges_early: bool,
}

/// Where a VM's sidecar is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SidecarPlace {
    /// Beside an image file; a block device has none.
    Usual,
    /// This file.
    At(PathBuf),
    /// It has none.
    Nowhere,
}

/// What the operator has said to be known: it is dangerous, and refused or warned of otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Danger {
    /// TCP addresses that other hosts can reach are allowed.
    pub allow_remote_tcp: bool,
    /// That dirty blocks are on one SSD alone is not warned of.
    pub single_copy_dirty: bool,
    /// Caches that are gone for good: what they may have held of a disk is given up.
    pub lost_caches: Vec<CacheId>,
}

impl VmConfig {
    /// Its scheme.
    pub fn scheme(&self) -> &'static SchemeInfo {
        SchemeInfo::find(self.settings.scheme()).expect("settings come from a registered scheme")
    }

    /// Whether its disk is written in the order of its guest's flushes.
    pub fn is_ordered(&self) -> bool {
        matches!(self.write_back, WriteBack::Ordered(_)) && !self.read_only
    }

    /// Its share of a level to begin with.
    pub fn share_bytes(&self, level: Level) -> u64 {
        match level {
            Level::Dram => self.dram_bytes,
            Level::Ssd => self.ssd_bytes,
            Level::ReadSsd => self.read_ssd_bytes,
        }
    }

    fn set_share_bytes(&mut self, level: Level, bytes: u64) {
        match level {
            Level::Dram => self.dram_bytes = bytes,
            Level::Ssd => self.ssd_bytes = bytes,
            Level::ReadSsd => self.read_ssd_bytes = bytes,
        }
    }
}

/// What clients may take. A request that is larger than a limit is served when nothing else is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections to one VM's disk.
    pub connections: u32,
    /// Bytes of one connection's requests that are not answered, or whose answers its client has not taken.
    pub connection_bytes: u64,
    /// Bytes of one VM's requests that its cache works on.
    pub vm_bytes: u64,
    /// Requests that take at least so long are told in the log; 0: none.
    pub slow_request_ms: u32,
}

impl Config {
    /// Reads and checks a configuration file.
    ///
    /// # Errors
    /// [`ServerErrorKind::Config`], naming file, line and key.
    pub fn load(path: &Path) -> Result<Config, ServerError> {
        let text = text::read(path).map_err(|why| why.of(path))?;
        let config = Config::parse(&text, path)?;
        // It is read again later, wherever the process is by then.
        Ok(Config {
            path: std::path::absolute(path).map_err(|error| NoText::CannotRead(error).of(path))?,
            ..config
        })
    }

    /// The same with other values of a VM's keys, as `lode vm set` takes them: those that may change while it is served. An
    /// empty value stands for the usual one.
    ///
    /// # Errors
    /// [`ServerErrorKind::Refused`], with the key or VM that was likely meant, or why the values cannot be.
    pub fn with_keys(&self, vm: &str, keys: &BTreeMap<String, String>) -> Result<Config, ServerError> {
        let refused = |text| ServerError::new(ServerErrorKind::Refused, text);
        let text = edit::edited(&self.text, vm, keys).map_err(refused)?;
        let config = raw::parse(&text, &self.path);
        config.map_err(|fault| refused(format!("VM {vm}: {}", fault.message)))
    }

    /// Writes such values to the configuration file, in which nothing else changes. It is replaced at once, or not at all.
    ///
    /// # Errors
    /// As [`Config::with_keys`], of what the file says now; when it cannot be read or written.
    pub fn save_keys(&self, vm: &str, keys: &BTreeMap<String, String>) -> Result<(), ServerError> {
        self.in_file(vm)?.with_keys(vm, keys)?.write()
    }

    /// What the file says now, in which there has to be this VM, which is served.
    ///
    /// # Errors
    /// [`ServerErrorKind::Refused`] when it is not there; when the file cannot be read.
    pub(crate) fn in_file(&self, vm: &str) -> Result<Config, ServerError> {
        let file = Config::load(&self.path)?;
        if file.vms.iter().any(|one| one.name == vm) {
            return Ok(file);
        }
        let text = format!(
            "VM {vm} is served, and {} does not have it: it was added without --save, or was taken out of the file since. Write its \
             [[vm]] section there first, or leave --save out",
            self.path.display()
        );
        Err(ServerError::new(ServerErrorKind::Refused, text))
    }

    /// The same without a VM.
    ///
    /// # Errors
    /// [`ServerErrorKind::Refused`] when there is no such VM, or no other.
    pub fn without(&self, vm: &str) -> Result<Config, ServerError> {
        self.edited(sections::without(&self.text, vm))
    }

    /// The same with a VM more, which has these keys.
    ///
    /// # Errors
    /// [`ServerErrorKind::Refused`], when it cannot be.
    pub fn with_vm(&self, vm: &toml::Table) -> Result<Config, ServerError> {
        self.edited(sections::with(&self.text, vm))
    }

    /// The same with another name of a VM.
    ///
    /// # Errors
    /// [`ServerErrorKind::Refused`], when it cannot be.
    pub fn renamed(&self, from: &str, to: &str) -> Result<Config, ServerError> {
        self.edited(sections::renamed(&self.text, from, to))
    }

    /// The same with another device in the place of one of the cache SSDs.
    ///
    /// # Errors
    /// [`ServerErrorKind::Refused`] when no cache SSD is at `from`, or the new one is named already.
    pub fn with_ssd(&self, from: Option<&Path>, to: &Path) -> Result<Config, ServerError> {
        self.edited(sections::with_ssd(&self.text, from, to))
    }

    fn edited(&self, text: Result<String, String>) -> Result<Config, ServerError> {
        let refused = |text| ServerError::new(ServerErrorKind::Refused, text);
        raw::parse(&text.map_err(refused)?, &self.path).map_err(|fault| refused(fault.message))
    }

    /// Makes the file say what this says. It is replaced at once, or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self) -> Result<(), ServerError> {
        edit::replace(&self.path, &self.text).map_err(|error| {
            let what = format!(
                "Cannot write {}; without --save the change lasts until a restart or reload",
                self.path.display()
            );
            ServerError::because(ServerErrorKind::Refused, what, error)
        })
    }

    /// The same with its VMs in the order in which another one has them.
    pub(crate) fn sorted_as(&self, other: &Config) -> Config {
        let mut sorted = self.clone();
        sorted.sort_vms(other.vms.iter().map(|vm| vm.name.as_str()));
        sorted
    }

    /// Its VMs in the order in which these names have them, others behind.
    pub(crate) fn sort_vms<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        let places: BTreeMap<&str, usize> = names.enumerate().map(|(at, name)| (name, at)).collect();
        self.vms.sort_by_key(|vm| places.get(vm.name.as_str()).copied().unwrap_or(usize::MAX));
    }

    /// The keys of `danger_zone` that are in force, as they are written; those of a VM with its name.
    pub fn dangers(&self) -> Vec<String> {
        let Danger { allow_remote_tcp, single_copy_dirty, lost_caches } = &self.danger;
        let of_host = [
            (*allow_remote_tcp, "allow_remote_tcp"),
            (*single_copy_dirty, "single_copy_dirty"),
            (!lost_caches.is_empty(), "lost_caches"),
        ];
        let of_host = of_host.into_iter().filter(|(is_set, _)| *is_set).map(|(_, key)| key.to_owned());
        let early = self.vms.iter().filter(|vm| vm.acknowledges_early);
        of_host.chain(early.map(|vm| format!("acknowledge_before_durable of VM {}", vm.name))).collect()
    }

    /// The control socket as something to listen on.
    pub(crate) fn control_listen(&self) -> Listen {
        let address = Address::Unix(self.control.clone());
        Listen { address, mode: Some(self.control_mode), group: self.control_group.clone() }
    }

    /// Whether it has a VM of this name.
    pub fn has_vm(&self, name: &str) -> bool {
        self.vms.iter().any(|vm| vm.name == name)
    }

    /// Checks the text of a configuration; `path` is for messages.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Config, ServerError> {
        raw::parse(text, path).map_err(|fault| {
            let line = fault
                .at
                .map(|at| 1 + text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count());
            let line = line.map(|line| format!(":{line}")).unwrap_or_default();
            ServerError::new(ServerErrorKind::Config, format!("{}{line}: {}", path.display(), fault.message))
        })
    }
}
