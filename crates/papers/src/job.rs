//! What has to be run for an experiment, as plain data, so that experiments that need the same share it. It must not know
//! how anything is run.

use crate::workload::Workload;

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Job {
    /// A workload through a scheme.
    Replay(Replay),
    /// What metrics ask for, interval by interval.
    Demand(Demand),
    /// VMs that come and go.
    Arrivals(Arrivals),
    /// Processes above a write cache.
    Processes(Processes),
}

/// A workload through a scheme.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replay {
    /// What runs.
    pub workload: &'static Workload,
    /// The scheme.
    pub scheme: Scheme,
    /// Its levels.
    pub space: LevelSizes,
    /// The devices, by the name of their profile.
    pub host: &'static str,
}

/// A scheme with settings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scheme {
    /// Its name.
    pub name: &'static str,
    /// Settings that are not at their defaults.
    pub settings: Vec<(&'static str, Setting)>,
}

/// A value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Setting {
    /// As it is.
    Text(&'static str),
    /// A number of requests, accesses or blocks, which shrinks with the workload.
    Scaled(u64),
}

impl Scheme {
    /// A scheme at its defaults.
    pub fn new(name: &'static str) -> Scheme {
        Scheme { name, settings: Vec::new() }
    }

    /// With a setting.
    #[must_use]
    pub fn set(mut self, key: &'static str, value: &'static str) -> Scheme {
        self.settings.push((key, Setting::Text(value)));
        self
    }

    /// With a setting that counts requests, accesses or blocks.
    #[must_use]
    pub fn scaled(mut self, key: &'static str, number: u64) -> Scheme {
        self.settings.push((key, Setting::Scaled(number)));
        self
    }
}

/// Sizes of the levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LevelSizes {
    /// Host memory.
    pub dram: Size,
    /// The SSD.
    pub ssd: Size,
    /// The read SSD.
    pub read_ssd: Size,
}

/// Size of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Size {
    /// Not there.
    #[default]
    None,
    /// Ten-thousandths of the different blocks that the workload touches.
    OfTouched(u32),
    /// Ten-thousandths of the blocks of its footprint, touched or not; of a trace, of those touched.
    OfFootprint(u32),
    /// So many blocks of the whole workload, of which a shorter one has its part.
    Blocks(u32),
}

/// What metrics ask for: for each VM, and for each of its intervals, the blocks that each of
/// [`crate::run::DEMAND_METRICS`] says are needed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Demand {
    /// What runs.
    pub workload: &'static Workload,
    /// Requests of a VM in an interval; they shrink with the workload.
    pub interval: u64,
    /// Distances reach back into earlier intervals.
    pub carry: bool,
}

/// VMs of [`crate::workload::ARRIVING`] that come, and go again, under a scheme with sizing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arrivals {
    /// The scheme.
    pub scheme: Scheme,
    /// Blocks of host memory.
    pub dram_blocks: u32,
    /// Blocks of SSD.
    pub ssd_blocks: u32,
    /// Intervals are ten minutes long, and not 10,000 requests.
    pub by_time: bool,
    /// The devices.
    pub host: &'static str,
}

/// Processes above a write cache, under an admission policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Processes {
    /// The application.
    pub model: Model,
    /// The policy, as `lode requests` names it.
    pub policy: &'static str,
    /// Size of the write cache.
    pub cache_mib: u32,
    /// What it is made of.
    pub device: CacheDevice,
    /// Clients, instead of the model's number.
    pub clients: Option<u32>,
    /// Per cent of the cache that may be dirty before it is written back, instead of the default.
    pub dirty_percent: Option<u32>,
    /// Commands of which a disk serves the nearest first, instead of the default.
    pub disk_queue: Option<u64>,
    /// Blocks of the application's log, instead of the model's number.
    pub log_blocks: Option<u64>,
    /// Simulated seconds, instead of those of all runs of a length.
    pub seconds: Option<u64>,
    /// Everything random follows from it.
    pub seed: u64,
}

/// An application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Model {
    /// PostgreSQL with TPC-C.
    Postgres(Variation),
    /// Redis with YCSB, this many of a hundred requests being updates.
    Redis(u64),
}

/// What is other than in the model of PostgreSQL as it is committed, to find out what a result hangs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Variation {
    /// Processor time of a transaction, in microseconds.
    pub transaction_us: Option<u64>,
    /// Pages that a hundred transactions change.
    pub dirtied_percent: Option<u64>,
}

impl Variation {
    /// As committed.
    pub const NONE: Variation = Variation { transaction_us: None, dirtied_percent: None };
}

/// What a write cache is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheDevice {
    /// Memory that keeps its contents.
    Ram,
    /// A SATA SSD.
    Ssd,
}

impl Job {
    /// The workload that it replays, if it replays a shared one.
    pub fn workload(&self) -> Option<&'static Workload> {
        match self {
            Job::Replay(replay) => Some(replay.workload),
            Job::Demand(demand) => Some(demand.workload),
            Job::Arrivals(_) | Job::Processes(_) => None,
        }
    }
}
