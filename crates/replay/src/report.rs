//! The result of a replay, in the shape that `docs/reports.md` describes. It must not compute decisions.

use std::collections::BTreeMap;

use lode_hardware::{Host, ServiceTimes};
use lode_policy::{CounterReport, Decision, Decisions, Quota, Settings, SizeCosts};
use serde::Serialize;

use crate::devices::{DevicesReport, VmDevices};
use crate::driver::VmOutcome;
use crate::inputs::InputReport;
use crate::tally::Tally;

/// What a replay found out. Field names and meanings are stable; new ones may be added.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Name of the scheme.
    pub scheme: String,
    /// Every setting of the scheme with its value.
    pub settings: BTreeMap<String, String>,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Blocks of the levels that the VMs divide.
    pub physical: LevelBlocks,
    /// Bytes that all VMs together might write to the SSD in a day; none: any number.
    pub ssd_write_budget_bytes_per_day: Option<u64>,
    /// The device model.
    pub model: ModelReport,
    /// What the run cost on the devices.
    pub devices: DevicesReport,
    /// All VMs together.
    pub total: Counts,
    /// Each VM, in order of appearance.
    pub vms: Vec<VmReport>,
    /// Sizings that are missing at the end of `intervals`, because there were too many to keep.
    pub intervals_cut: u64,
    /// The traces that were read.
    pub inputs: Vec<InputReport>,
    /// What the user should hear of the way the traces fit together.
    pub warnings: Vec<String>,
}

/// Blocks of each level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LevelBlocks {
    /// Blocks of host memory.
    pub dram_blocks: u32,
    /// Blocks of SSD.
    pub ssd_blocks: u32,
    /// Blocks of read SSD.
    pub read_ssd_blocks: u32,
}

impl From<Quota> for LevelBlocks {
    fn from(quota: Quota) -> LevelBlocks {
        let Quota { dram_blocks, ssd_blocks, read_ssd_blocks } = quota;
        LevelBlocks { dram_blocks, ssd_blocks, read_ssd_blocks }
    }
}

/// Service times of one block in microseconds; see [`ServiceTimes`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelReport {
    /// Name of the host's profile.
    pub host: String,
    /// A read or write of host memory.
    pub dram_us: f64,
    /// A read from the SSD.
    pub ssd_read_us: f64,
    /// A write to the SSD.
    pub ssd_write_us: f64,
    /// A read from the read SSD.
    pub read_ssd_read_us: f64,
    /// A write to the read SSD.
    pub read_ssd_write_us: f64,
    /// A disk read away from the head; of a mean distance when distances matter.
    pub disk_random_us: f64,
    /// A disk read at the head.
    pub disk_sequential_us: f64,
    /// A disk write away from the head.
    pub disk_random_write_us: f64,
    /// A disk write at the head.
    pub disk_sequential_write_us: f64,
    /// What a random disk write costs more than a read; 1 when both cost nothing.
    pub disk_small_write_factor: f64,
    /// Random times depend on the distance.
    pub disk_by_distance: bool,
}

impl ModelReport {
    /// Of a host with these times.
    pub(crate) fn new(host: &Host, times: &ServiceTimes) -> ModelReport {
        let us = |ns: u64| ns as f64 / 1000.0;
        let backing = &times.backing;
        let factor = backing.random_write.ns as f64 / backing.random_read.ns as f64;
        ModelReport {
            host: host.name.clone(),
            dram_us: us(times.dram_ns),
            ssd_read_us: us(times.ssd_read_ns),
            ssd_write_us: us(times.ssd_write_ns),
            read_ssd_read_us: us(times.read_ssd_read_ns),
            read_ssd_write_us: us(times.read_ssd_write_ns),
            disk_random_us: us(backing.random_read.ns),
            disk_sequential_us: us(backing.sequential_read.ns),
            disk_random_write_us: us(backing.random_write.ns),
            disk_sequential_write_us: us(backing.sequential_write.ns),
            disk_small_write_factor: if factor.is_finite() { factor } else { 1.0 },
            disk_by_distance: backing.arm.is_some(),
        }
    }
}

/// One VM.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VmReport {
    /// Its name.
    pub name: String,
    /// What its requests led to.
    #[serde(flatten)]
    pub counts: Counts,
    /// What it asked of the devices.
    pub devices: VmDevices,
    /// Number of the sizing that the first of `intervals` stands for.
    pub first_interval: usize,
    /// Its share after each sizing.
    pub intervals: Vec<LevelBlocks>,
    /// What its scheme chose; none with a scheme that does not choose among others.
    pub decisions: Option<DecisionsReport>,
}

/// What a scheme chose that chooses among others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DecisionsReport {
    /// How often another one began to decide.
    pub count: u64,
    /// The latest times, up to 256, oldest first.
    pub latest: Vec<Decision>,
    /// What half and twice the share of the SSD would cost; none where that is not measured.
    pub sizes: Option<SizeCosts>,
}

impl From<Decisions> for DecisionsReport {
    fn from(decisions: Decisions) -> DecisionsReport {
        let latest = decisions.latest().cloned().collect();
        DecisionsReport { count: decisions.count(), latest, sizes: decisions.sizes() }
    }
}

/// Counts of one VM or of all. In blocks where the name does not say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counts {
    /// What the scheme decided, as the daemon counts it too.
    #[serde(flatten)]
    pub counters: CounterReport,
    /// Requests that were reads.
    pub read_requests: u64,
    /// Read requests of which no block came from the backing disk.
    pub read_request_hits: u64,
    /// Trims, not among the requests.
    pub trims: u64,
    /// Flushes, not among the requests.
    pub flushes: u64,
    /// Mean time of a request on the model; none without requests.
    pub mean_latency_us: Option<f64>,
}

impl From<&Tally> for Counts {
    fn from(tally: &Tally) -> Counts {
        Counts {
            counters: (&tally.counters()).into(),
            read_requests: tally.read_requests(),
            read_request_hits: tally.read_request_hits(),
            trims: tally.trims,
            flushes: tally.flushes,
            mean_latency_us: tally.mean_latency_us(),
        }
    }
}

/// Names and values of `settings`, for reports.
pub(crate) fn setting_values(settings: &Settings) -> BTreeMap<String, String> {
    settings.values().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The VMs' part of a report, and all of them together.
pub(crate) fn vm_reports<'a>(
    names: impl Iterator<Item = &'a str>,
    outcomes: impl Iterator<Item = VmOutcome>,
    devices: impl Fn(&Tally) -> VmDevices,
) -> (Counts, Vec<VmReport>) {
    let mut total = Tally::default();
    let vms = names.zip(outcomes).map(|(name, outcome)| {
        total.add(&outcome.tally);
        VmReport {
            name: name.to_owned(),
            counts: Counts::from(&outcome.tally),
            devices: devices(&outcome.tally),
            first_interval: outcome.first_interval,
            intervals: outcome.shares.into_iter().map(LevelBlocks::from).collect(),
            decisions: outcome.decisions.map(DecisionsReport::from),
        }
    });
    let vms = vms.collect();
    (Counts::from(&total), vms)
}
