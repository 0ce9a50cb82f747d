//! Processes that serve requests, before a write cache and its disks: a deterministic simulation of admission.
//!
//! Processes run lists of operations ([`Script`]): they use the processor, take locks, wait for events, write
//! synchronously or not, and wait for writes. The hooks of [`lode_policy::criticality`] are called as a kernel would
//! call them. Everything follows from the script, the configuration and one seed.
//!
//! # What is modelled, and what is not
//!
//! * Reads never reach the devices: the paper warms the page cache first. Processors are shared in slices of time.
//! * The cache is one device, a map and a list of dirty blocks. When more than a share of it is dirty, the oldest are
//!   destaged: a read of the cache, then a write of the disk, which compete with everything else.
//! * The map lies on the cache as well: a write is complete when its entries are. Entries of one block of the map that come
//!   while it is being written are written together. A destage does not wait for its entry.
//! * A disk turns, has one head, and serves of the oldest commands that wait the one that it reaches soonest. Neither disks nor
//!   the kernel's queues ever refuse a command.
//! * A write to the disk waits for an older one of the same block. A block that is newer in the cache than on the disk is
//!   never written to the disk around the cache.
//! * A power cut keeps, of every block that was being written, the old or the new contents. Devices have no volatile
//!   cache.
//!
//! It must not know the engine, the schemes, real files or devices.

#![forbid(unsafe_code)]

mod background;
mod cache;
mod device;
mod io;
mod machine;
mod map;
mod pages;
mod postgres;
mod processors;
mod recovery;
mod redis;
mod report;
mod script;
mod settings;
mod sync;
mod text;
mod world;

pub use device::{DeviceModel, Platter};
pub use machine::{CacheKind, MachineSettings};
pub use postgres::PostgresSettings;
pub use recovery::{PowerCut, cut_power};
pub use redis::RedisSettings;
pub use report::{DeviceReport, Latency, ProcessWrites, Reasons, RequestsReport, WaitReport, WriteCounts};
pub use script::{
    DataKind, EventInfo, IoTarget, MAX_CPU_NS, MAX_SCRIPT_ITEMS, MAX_WRITE_BLOCKS, Mode, Primitive, Program,
    Script, Step, WriteOp,
};
pub use text::{MAX_TEXT_STEPS, ScriptText, TextError};

use lode_policy::criticality::{AdmissionOptions, Object, ProcessId};

/// Largest cache, in blocks: 64 GiB of 4 KiB.
pub const MAX_CACHE_BLOCKS: usize = 1 << 24;
/// Most operations of a process without any time passing.
pub const MAX_OPS_AT_ONCE: u32 = 1 << 16;

/// Why a simulation cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestsError {
    /// The script is too large.
    #[error("The script has {count} {what}; at most {most} can be simulated")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// An operation makes no sense.
    #[error("Process {process} cannot {what}; correct the script")]
    BadOp {
        /// Whose operation.
        process: ProcessId,
        /// Which of its operations, from 0.
        step: u64,
        /// What it tries.
        what: &'static str,
    },
    /// A process never lets time pass.
    #[error(
        "Process {process} does {} operations and no time passes; let it use the processor",
        MAX_OPS_AT_ONCE
    )]
    NeverWaits {
        /// Which.
        process: ProcessId,
    },
    /// Processes wait for each other.
    #[error("Processes {} wait for each other; correct the script", processes(.cycle))]
    Deadlock {
        /// Each waits for the next, the last for the first.
        cycle: Vec<Stuck>,
    },
    /// Nobody can go on, and nobody is going to let these.
    #[error("Processes {} wait for what never comes; correct the script", processes(.stuck))]
    WaitsForEver {
        /// Those that wait.
        stuck: Vec<Stuck>,
    },
    /// A setting is outside its range.
    #[error("'{key}' cannot be {value}: it takes {} to {}", .allowed.start(), .allowed.end())]
    BadSetting {
        /// Which.
        key: &'static str,
        /// What it is.
        value: u64,
        /// What it may be.
        allowed: std::ops::RangeInclusive<u64>,
    },
}

/// A process that cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Which.
    pub process: ProcessId,
    /// In which of its operations, from 0.
    pub step: u64,
    /// What it waits for.
    pub object: Object,
}

fn processes(stuck: &[Stuck]) -> String {
    let numbers: Vec<String> = stuck.iter().map(|stuck| stuck.process.to_string()).collect();
    numbers.join(", ")
}

/// Refuses a value outside a range.
pub(crate) fn check(
    key: &'static str,
    value: u64,
    allowed: std::ops::RangeInclusive<u64>,
) -> Result<(), RequestsError> {
    if allowed.contains(&value) { Ok(()) } else { Err(RequestsError::BadSetting { key, value, allowed }) }
}

/// How to run a script.
#[derive(Clone, Copy, Debug)]
pub struct RunConfig {
    /// What is admitted.
    pub admission: AdmissionOptions,
    /// Blocks of the write cache.
    pub cache_blocks: usize,
    /// The write cache.
    pub cache: DeviceModel,
    /// Each disk.
    pub disk: DeviceModel,
    /// All else of the machine.
    pub machine: MachineSettings,
    /// Everything random follows from it.
    pub seed: u64,
    /// When the simulation ends, if the script does not end before.
    pub end_ns: u64,
    /// Nothing is counted before.
    pub warm_up_ns: u64,
}

impl RunConfig {
    /// A cache of 512 MiB before this machine's disks, for 60 s of which the first ten do not count.
    pub fn new(admission: AdmissionOptions, machine: MachineSettings, kind: CacheKind) -> RunConfig {
        RunConfig {
            admission,
            cache_blocks: 131_072,
            cache: machine.cache(kind),
            disk: machine.disk(),
            machine,
            seed: 1,
            end_ns: 60_000_000_000,
            warm_up_ns: 10_000_000_000,
        }
    }
}

/// Runs a script to its end, or to the end of the configured time.
///
/// # Errors
/// When the script is too large or makes no sense, or a setting is outside its range.
pub fn run_script(script: Script, config: &RunConfig) -> Result<RequestsReport, RequestsError> {
    let mut world = world::World::new(script, config, false)?;
    world.run(u64::MAX)?;
    Ok(world.report())
}
