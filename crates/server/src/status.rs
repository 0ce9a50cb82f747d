//! What `status` says, in the shape that `docs/control.md` describes. It must not know how it is gathered.

use lode_engine::{Alarms, Behind, Engine, Gauges, WriteBackLimits};
use lode_policy::{CounterReport, Quota};
use serde::Serialize;

use crate::config::Limits;
use crate::identity::LastEnd;
use crate::latency::LatenciesView;
use crate::messages::ReadCounts;
use crate::pair::PairView;
use crate::sharing::{HostView, VmSharing};
use crate::sidecar::claims::SidecarView;
use crate::volume::Migration;

/// The whole answer.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    pub name: String,
    pub version: &'static str,
    /// Of the control socket; see `docs/control.md`.
    pub protocol: u32,
    pub uptime_s: u64,
    /// See [`lode_types::pool_bytes`].
    pub pool_bytes: usize,
    /// How the run before this one ended.
    pub last_end: LastEnd,
    pub cache: Option<CacheView>,
    pub read_ssd: Option<ReadSsdView>,
    /// What VMs divide.
    pub host: Option<HostView>,
    /// The keys of `danger_zone` that are in force.
    pub danger_zone: Vec<String>,
    /// What is being changed; others wait for that. Only whoever asks over the control socket is told.
    pub change: Option<ChangeView>,
    pub vms: Vec<VmView>,
}

impl Status {
    /// Blocks of memory that VMs divide.
    pub(crate) fn dram_blocks(&self) -> Option<u64> {
        Some(self.host.as_ref()?.dram_blocks.into())
    }

    /// Blocks of the cache SSD that VMs divide.
    pub(crate) fn ssd_blocks(&self) -> Option<u64> {
        Some(self.host.as_ref()?.ssd_blocks.into())
    }
}

/// A change under way.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ChangeView {
    /// For people.
    pub text: String,
    /// Since it began.
    pub for_s: u64,
    /// Changes that wait for it.
    pub waiting: usize,
}

/// The cache SSD.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CacheView {
    pub uuid: String,
    pub epoch: u64,
    pub device_bytes: u64,
    pub block_bytes: u64,
    /// What it is rated for in all, of a pair each SSD; none where no rating is named.
    pub rated_write_bytes: Option<u64>,
    /// Of a pair of SSDs, how it stands.
    pub pair: Option<PairView>,
}

/// The read SSD.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ReadSsdView {
    pub uuid: String,
    pub device_bytes: u64,
}

/// One VM.
#[derive(Debug, Serialize)]
pub(crate) struct VmView {
    pub name: String,
    pub scheme: &'static str,
    /// The one that is to decide, while it cannot yet.
    pub next_scheme: Option<&'static str>,
    pub shard: usize,
    pub connections: u32,
    pub block_bytes: u32,
    pub in_flight_bytes: u64,
    /// Blocks that a drain still has to write back; none when there is no drain.
    pub draining_blocks: Option<u64>,
    /// The latest drain was stopped before its end.
    pub drain_cancelled: bool,
    /// Its disk is to be opened elsewhere.
    pub migration: Option<Migration>,
    /// What says beside the disk who serves it.
    pub sidecar: Option<SidecarView>,
    /// FLUSH and FUA are acknowledged at once.
    #[serde(rename = "acknowledge_before_durable")]
    pub acknowledges_early: bool,
    /// A defect of the program ended its service until the next start.
    pub stopped: bool,
    /// What it said.
    pub stopped_by: Option<String>,
    pub quota: LevelBlocks,
    /// What it has of what VMs divide.
    pub sharing: Option<VmSharing>,
    #[serde(skip)]
    pub reads: ReadCounts,
    pub limits: LimitsView,
    /// Since when it has dirty blocks without a break: none of them is older.
    pub dirty_s: Option<u64>,
    /// How old the oldest of them is at most.
    pub oldest_dirty_s: Option<u64>,
    pub writeback: Option<WriteBackView>,
    /// Where the disk is written in the order of its guest's flushes.
    pub ordered: Option<OrderedView>,
    /// Within so long every block on the SSD is compared with its checksum.
    pub scrub_s: Option<u32>,
    pub requests: RequestCounts,
    pub counters: CounterReport,
    pub gauges: GaugesView,
    pub alarms: AlarmsView,
    pub latency: LatenciesView,
    pub shm: ShmView,
    /// Of a pair of SSDs, blocks that were damaged on one and written there again.
    pub healed_blocks: Option<u64>,
}

/// What a VM's clients may take.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct LimitsView {
    pub connections: u32,
    pub connection_in_flight_bytes: u64,
    pub vm_in_flight_bytes: u64,
    pub slow_request_ms: u32,
}

impl From<Limits> for LimitsView {
    fn from(limits: Limits) -> LimitsView {
        LimitsView {
            connections: limits.connections,
            connection_in_flight_bytes: limits.connection_bytes,
            vm_in_flight_bytes: limits.vm_bytes,
            slow_request_ms: limits.slow_request_ms,
        }
    }
}

/// A VM's requests since the start that are counted nowhere else.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct RequestCounts {
    /// Those that asked to be answered when they are durable.
    pub fua: u64,
    pub trim: u64,
    pub write_zeroes: u64,
}

/// How far a disk that is written in the order of its guest's flushes is behind.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct OrderedView {
    /// Since the first write that the disk, with its redo log, lacks.
    pub behind_s: u32,
    /// Of blocks that it lacks.
    pub behind_bytes: u64,
    /// It lacks what was written before this start, and is behind by more than is said.
    pub is_of_before_start: bool,
    /// What is to be written cannot be.
    pub is_stuck: bool,
    /// Number of the latest group that it has.
    pub group: u64,
    /// From so far behind on writes wait.
    pub max_lag_s: Option<u32>,
}

impl OrderedView {
    pub(crate) fn new(behind: Behind, engine: &Engine) -> OrderedView {
        let config = engine.config();
        OrderedView {
            behind_s: behind.ticks,
            behind_bytes: u64::from(behind.blocks) * config.block.bytes(),
            is_of_before_start: behind.is_of_before_start,
            is_stuck: behind.is_stuck,
            group: behind.group,
            max_lag_s: config.ordered.and_then(|ordered| ordered.max_lag_ticks),
        }
    }
}

/// When dirty blocks are written back in the background.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct WriteBackView {
    pub dirty_limit_blocks: u32,
    /// From so many on writes wait for write-backs.
    pub dirty_max_blocks: u32,
    pub age_s: Option<u32>,
    pub idle_s: Option<u32>,
}

impl From<WriteBackLimits> for WriteBackView {
    fn from(limits: WriteBackLimits) -> WriteBackView {
        WriteBackView {
            dirty_limit_blocks: limits.dirty_limit_blocks,
            dirty_max_blocks: limits.dirty_max_blocks,
            age_s: limits.age_ticks,
            idle_s: limits.idle_ticks,
        }
    }
}

/// The memory in which a VM's journal records outlive the daemon.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct ShmView {
    /// 0: there is none, and records are on the SSD before a write is acknowledged.
    pub bytes: u64,
    /// Records that the last start found there and not on the SSD.
    pub records_taken_over: u64,
}

/// Blocks of each level.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct LevelBlocks {
    pub dram_blocks: u32,
    pub ssd_blocks: u32,
    pub read_ssd_blocks: u32,
}

/// See [`Gauges`].
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct GaugesView {
    pub dram_blocks: u32,
    pub ssd_blocks: u32,
    pub read_ssd_blocks: u32,
    pub dirty_blocks: u32,
    pub unmirrored_blocks: u32,
    pub lost_blocks: u32,
    pub dropped_clean_copies: u64,
    pub write_backs_waiting: u32,
    pub promotions_waiting: u32,
    pub reissued_writes: u64,
    pub refused_reissues: u64,
    pub discarded_completions: u64,
    pub quarantined: u32,
    pub read_ssd_quarantined: u32,
    /// Other schemes, or other settings, that came to decide since the start.
    pub scheme_switches: u64,
    pub scrubbed_blocks: u64,
    pub scrub_passes: u64,
    pub cleaned_blocks: u64,
    pub drain_failures: u64,
    pub memory_bytes: u64,
    pub ssd_data_bytes: u64,
    pub ssd_metadata_bytes: u64,
    pub read_ssd_data_bytes: u64,
    pub backing_read_bytes: u64,
    pub backing_written_bytes: u64,
    pub redo_written_bytes: u64,
}

/// See [`Alarms`].
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct AlarmsView {
    pub unreadable_at_start: u64,
    pub damaged_clean: u64,
    pub damaged_mirrored: u64,
    pub damaged_dirty: u64,
    pub ssd_errors: u64,
    pub read_ssd_errors: u64,
    pub read_ssd_gone: bool,
    pub backing_errors: u64,
    pub failed: bool,
    pub ssd_failed: bool,
    pub backing_failed: bool,
}

impl From<Quota> for LevelBlocks {
    fn from(quota: Quota) -> LevelBlocks {
        let Quota { dram_blocks, ssd_blocks, read_ssd_blocks } = quota;
        LevelBlocks { dram_blocks, ssd_blocks, read_ssd_blocks }
    }
}

impl From<Gauges> for GaugesView {
    fn from(gauges: Gauges) -> GaugesView {
        GaugesView {
            dram_blocks: gauges.dram_blocks,
            ssd_blocks: gauges.ssd_blocks,
            read_ssd_blocks: gauges.read_ssd_blocks,
            dirty_blocks: gauges.dirty_blocks,
            unmirrored_blocks: gauges.unmirrored_blocks,
            lost_blocks: gauges.lost_blocks,
            dropped_clean_copies: gauges.dropped_clean_copies,
            write_backs_waiting: gauges.write_backs_waiting,
            promotions_waiting: gauges.promotions_waiting,
            reissued_writes: gauges.reissued_writes,
            refused_reissues: gauges.refused_reissues,
            discarded_completions: gauges.discarded_completions,
            quarantined: gauges.quarantined,
            read_ssd_quarantined: gauges.read_ssd_quarantined,
            scheme_switches: gauges.scheme_switches,
            scrubbed_blocks: gauges.scrubbed_blocks,
            scrub_passes: gauges.scrub_passes,
            cleaned_blocks: gauges.cleaned_blocks,
            drain_failures: gauges.drain_failures,
            memory_bytes: gauges.memory_bytes,
            ssd_data_bytes: gauges.ssd_data_bytes,
            ssd_metadata_bytes: gauges.ssd_metadata_bytes,
            read_ssd_data_bytes: gauges.read_ssd_data_bytes,
            backing_read_bytes: gauges.backing_read_bytes,
            backing_written_bytes: gauges.backing_written_bytes,
            redo_written_bytes: gauges.redo_written_bytes,
        }
    }
}

impl From<Alarms> for AlarmsView {
    fn from(alarms: Alarms) -> AlarmsView {
        AlarmsView {
            unreadable_at_start: alarms.unreadable_at_start,
            damaged_clean: alarms.damaged_clean,
            damaged_mirrored: alarms.damaged_mirrored,
            damaged_dirty: alarms.damaged_dirty,
            ssd_errors: alarms.ssd_errors,
            read_ssd_errors: alarms.read_ssd_errors,
            read_ssd_gone: alarms.read_ssd_gone,
            backing_errors: alarms.backing_errors,
            failed: alarms.failed,
            ssd_failed: alarms.ssd_failed,
            backing_failed: alarms.backing_failed,
        }
    }
}
