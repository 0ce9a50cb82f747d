//! What a simulation counts and tells. It must not know how anything came about.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::device::DeviceLoad;
use crate::script::{DataKind, Primitive};

/// Longest latency that is told apart: one hour.
const MAX_LATENCY_US: u64 = 3_600_000_000;

/// Latencies of requests in microseconds, exact to three digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: u64,
    /// 99 of 100 are not longer.
    pub p99_us: u64,
    /// 999 of 1,000 are not longer.
    pub p99_9_us: u64,
    /// 9,999 of 10,000 are not longer.
    pub p99_99_us: u64,
    /// Longest.
    pub max_us: u64,
}

/// What became of the writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WriteCounts {
    /// Submitted by processes.
    pub submitted: u64,
    /// Blocks of those.
    pub submitted_blocks: u64,
    /// Synchronous ones among them.
    pub sync: u64,
    /// Blocks of those.
    pub sync_blocks: u64,
    /// Acknowledged, of those that were submitted while it was counted.
    pub acknowledged: u64,
    /// Admitted by the policy when they were submitted.
    pub admitted: u64,
    /// Writes that the cache took, reissued ones and updates of its dirty blocks included.
    pub cached: u64,
    /// Blocks of those.
    pub cached_blocks: u64,
    /// Admitted writes that found no free block.
    pub stalled: u64,
    /// Blocks of those.
    pub stalled_blocks: u64,
    /// Writes that went to the disk, as a whole or in part.
    pub disk: u64,
    /// Writes issued again.
    pub reissued: u64,
    /// Writes that were to be issued again and were not: no free block, or a newer write on its way.
    pub reissues_refused: u64,
    /// Second completions that were discarded.
    pub discarded_completions: u64,
    /// Blocks destaged.
    pub destaged_blocks: u64,
    /// Writes of the cache's own map.
    pub map_writes: u64,
}

/// Why writes were admitted, as in the columns of the paper's table 3, by kind of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reasons {
    /// Database, log, metadata and journal.
    pub db: u64,
    /// The log.
    pub log: u64,
    /// Metadata.
    pub metadata: u64,
    /// Journal.
    pub journal: u64,
    /// Asynchronous ones among all these.
    pub asynchronous: u64,
}

impl Reasons {
    pub(crate) fn add(&mut self, data: DataKind, sync: bool) {
        let count = match data {
            DataKind::Db => &mut self.db,
            DataKind::Log => &mut self.log,
            DataKind::Metadata => &mut self.metadata,
            DataKind::Journal => &mut self.journal,
        };
        *count += 1;
        self.asynchronous += u64::from(!sync);
    }
}

/// What processes of one name wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessWrites {
    /// The name.
    pub process: String,
    /// Blocks that they wrote synchronously.
    pub sync_blocks: u64,
    /// Blocks that they wrote asynchronously.
    pub async_blocks: u64,
}

/// How long critical processes waited in a primitive while they served requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WaitReport {
    /// The primitive.
    pub primitive: &'static str,
    /// Waits.
    pub count: u64,
    /// Sum for each request.
    pub per_request_us: f64,
    /// Mean of the waits.
    pub mean_us: f64,
    /// Longest.
    pub max_us: f64,
}

/// What a device had to do while it was counted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DeviceReport {
    /// cache, disk or log disk.
    pub device: &'static str,
    /// Commands that it began.
    pub commands: u64,
    /// Mean time that they waited for it.
    pub queued_us_mean: f64,
    /// Mean time that it took for them.
    pub service_us_mean: f64,
    /// Most commands that waited.
    pub longest_queue: usize,
}

impl DeviceReport {
    pub(crate) fn new(device: &'static str, load: DeviceLoad) -> DeviceReport {
        let mean_us = |ns: u64| ns as f64 / 1000.0 / load.commands.max(1) as f64;
        DeviceReport {
            device,
            commands: load.commands,
            queued_us_mean: mean_us(load.waited_ns),
            service_us_mean: mean_us(load.served_ns),
            longest_queue: load.longest_queue,
        }
    }
}

/// What a simulation found. Synthetic: the processes are a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestsReport {
    /// The admission policy.
    pub policy: &'static str,
    /// Time that was counted, in seconds.
    pub counted_s: f64,
    /// Requests served.
    pub requests: u64,
    /// Requests a second.
    pub requests_per_s: f64,
    /// Their latencies.
    pub latency: Latency,
    /// The writes.
    pub writes: WriteCounts,
    /// The same blocks by who submitted them.
    pub by_process: Vec<ProcessWrites>,
    /// Critical writes: synchronous ones of critical processes; of processes that inherited; issued again.
    pub critical: [Reasons; 3],
    /// Waits of critical processes, by primitive; those that never happened are left out.
    pub waits: Vec<WaitReport>,
    /// How often a process inherited criticality.
    pub inheritances: u64,
    /// The cache and each disk.
    pub devices: Vec<DeviceReport>,
    /// When each process ended.
    #[serde(skip)]
    pub finished_ns: Vec<Option<u64>>,
    /// What was left when the script had ended: inheritances, and writes under way.
    #[serde(skip)]
    pub left: (usize, usize),
}

#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

/// Counts that begin anew when the warm-up is over.
#[derive(Debug)]
pub(crate) struct ProcessCounts {
    pub writes: WriteCounts,
    /// Of each process, blocks written synchronously and asynchronously.
    pub written_blocks: Vec<[u64; 2]>,
    pub critical: [Reasons; 3],
    pub inheritances: u64,
    latencies_us: Histogram<u64>,
    waits: [Waits; Primitive::ALL.len()],
}

impl ProcessCounts {
    pub fn new(processes: usize) -> ProcessCounts {
        ProcessCounts {
            writes: WriteCounts::default(),
            written_blocks: vec![[0; 2]; processes],
            critical: Default::default(),
            inheritances: 0,
            latencies_us: Histogram::new_with_bounds(1, MAX_LATENCY_US, 3)
                .expect("the bounds are constants that fit"),
            waits: Default::default(),
        }
    }

    pub fn served(&mut self, latency_ns: u64, requests: u32) {
        self.latencies_us.saturating_record_n(latency_ns / 1000, u64::from(requests));
    }

    pub fn waited(&mut self, primitive: Primitive, ns: u64) {
        let waits = &mut self.waits[primitive as usize];
        waits.count += 1;
        waits.sum_ns += ns;
        waits.max_ns = waits.max_ns.max(ns);
    }

    pub fn requests(&self) -> u64 {
        self.latencies_us.len()
    }

    /// What processes of each name wrote, in the order in which names first come; those that wrote nothing are left out.
    pub fn by_process(&self, roles: &[String]) -> Vec<ProcessWrites> {
        let mut found: Vec<ProcessWrites> = Vec::new();
        for (role, [sync_blocks, async_blocks]) in roles.iter().zip(&self.written_blocks) {
            if sync_blocks + async_blocks == 0 {
                continue;
            }
            match found.iter_mut().find(|one| one.process == *role) {
                Some(one) => {
                    one.sync_blocks += sync_blocks;
                    one.async_blocks += async_blocks;
                }
                None => found.push(ProcessWrites {
                    process: role.clone(),
                    sync_blocks: *sync_blocks,
                    async_blocks: *async_blocks,
                }),
            }
        }
        found
    }

    pub fn latency(&self) -> Latency {
        let at = |quantile| self.latencies_us.value_at_quantile(quantile);
        Latency {
            mean_us: self.latencies_us.mean(),
            p50_us: at(0.5),
            p99_us: at(0.99),
            p99_9_us: at(0.999),
            p99_99_us: at(0.9999),
            max_us: self.latencies_us.max(),
        }
    }

    pub fn waits(&self) -> Vec<WaitReport> {
        let requests = self.requests().max(1) as f64;
        let report = |primitive: &Primitive| {
            let waits = self.waits[*primitive as usize];
            (waits.count > 0).then(|| WaitReport {
                primitive: primitive.name(),
                count: waits.count,
                per_request_us: waits.sum_ns as f64 / 1000.0 / requests,
                mean_us: waits.sum_ns as f64 / 1000.0 / waits.count as f64,
                max_us: waits.max_ns as f64 / 1000.0,
            })
        };
        Primitive::ALL.iter().filter_map(report).collect()
    }
}
