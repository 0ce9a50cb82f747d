//! What `status` says, in the shape that `docs/serving.md` describes. It must not know how it is gathered.

use lode_engine::{Alarms, Engine, Gauges};
use lode_policy::Counters;
use lode_types::Level;
use serde::Serialize;

use crate::latency::LatenciesView;

/// The whole answer.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    pub name: String,
    pub version: &'static str,
    pub uptime_s: u64,
    pub cache: Option<CacheView>,
    pub vms: Vec<VmView>,
}

/// The cache SSD.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CacheView {
    pub uuid: String,
    pub epoch: u64,
    pub device_bytes: u64,
    pub block_bytes: u64,
}

/// One VM.
#[derive(Debug, Serialize)]
pub(crate) struct VmView {
    pub name: String,
    pub scheme: &'static str,
    pub shard: usize,
    pub connections: u32,
    pub in_flight_bytes: u64,
    pub quota: LevelBlocks,
    pub counters: CountersView,
    pub gauges: GaugesView,
    pub alarms: AlarmsView,
    pub latency: LatenciesView,
}

/// Blocks of each level.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct LevelBlocks {
    dram_blocks: u32,
    ssd_blocks: u32,
}

/// A count for each level.
#[derive(Clone, Copy, Debug, Serialize)]
struct LevelCounts {
    dram: u64,
    ssd: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct SsdOnly {
    ssd: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct SsdWritesView {
    total: u64,
    fill: u64,
    write: u64,
    promotion: u64,
    #[serde(rename = "move")]
    moved: u64,
}

/// [`Counters`], with the names of a replay's report.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct CountersView {
    requests: u64,
    block_accesses: u64,
    block_reads: u64,
    block_writes: u64,
    read_hits: LevelCounts,
    read_misses: u64,
    write_hits: SsdOnly,
    dram_writes: u64,
    ssd_writes: SsdWritesView,
    backing_reads: u64,
    backing_writes: u64,
    write_backs: u64,
    evictions: LevelCounts,
    cwf: Option<f64>,
}

/// See [`Gauges`].
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct GaugesView {
    dram_blocks: u32,
    ssd_blocks: u32,
    dirty_blocks: u32,
    write_backs_waiting: u32,
    promotions_waiting: u32,
    quarantined: u32,
    memory_bytes: u64,
    ssd_data_bytes: u64,
    ssd_metadata_bytes: u64,
    backing_read_bytes: u64,
    backing_written_bytes: u64,
}

/// See [`Alarms`].
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct AlarmsView {
    damaged_clean: u64,
    damaged_dirty: u64,
    ssd_errors: u64,
    backing_errors: u64,
    failed: bool,
}

impl LevelBlocks {
    pub(crate) fn quota(engine: &Engine) -> LevelBlocks {
        let quota = engine.quota();
        LevelBlocks { dram_blocks: quota.dram_blocks, ssd_blocks: quota.ssd_blocks }
    }
}

impl From<&Counters> for CountersView {
    fn from(counters: &Counters) -> CountersView {
        let levels =
            |of: [u64; 2]| LevelCounts { dram: of[Level::Dram.index()], ssd: of[Level::Ssd.index()] };
        let writes = &counters.ssd_writes;
        CountersView {
            requests: counters.requests,
            block_accesses: counters.block_accesses(),
            block_reads: counters.block_reads,
            block_writes: counters.block_writes,
            read_hits: levels(counters.read_hits),
            read_misses: counters.read_misses,
            write_hits: SsdOnly { ssd: counters.write_hits_ssd },
            dram_writes: counters.dram_writes,
            ssd_writes: SsdWritesView {
                total: writes.total(),
                fill: writes.fill,
                write: writes.write,
                promotion: writes.promotion,
                moved: writes.moved,
            },
            backing_reads: counters.backing_reads,
            backing_writes: counters.backing_writes,
            write_backs: counters.write_backs,
            evictions: levels(counters.evictions),
            cwf: counters.cwf(),
        }
    }
}

impl From<Gauges> for GaugesView {
    fn from(gauges: Gauges) -> GaugesView {
        GaugesView {
            dram_blocks: gauges.dram_blocks,
            ssd_blocks: gauges.ssd_blocks,
            dirty_blocks: gauges.dirty_blocks,
            write_backs_waiting: gauges.write_backs_waiting,
            promotions_waiting: gauges.promotions_waiting,
            quarantined: gauges.quarantined,
            memory_bytes: gauges.memory_bytes,
            ssd_data_bytes: gauges.ssd_data_bytes,
            ssd_metadata_bytes: gauges.ssd_metadata_bytes,
            backing_read_bytes: gauges.backing_read_bytes,
            backing_written_bytes: gauges.backing_written_bytes,
        }
    }
}

impl From<Alarms> for AlarmsView {
    fn from(alarms: Alarms) -> AlarmsView {
        AlarmsView {
            damaged_clean: alarms.damaged_clean,
            damaged_dirty: alarms.damaged_dirty,
            ssd_errors: alarms.ssd_errors,
            backing_errors: alarms.backing_errors,
            failed: alarms.failed,
        }
    }
}
