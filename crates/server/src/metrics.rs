//! What a scrape of the daemon says, in OpenMetrics text. `docs/metrics.md` has the table of all names. It must not know how a
//! status is gathered, or who scrapes.

mod pair;
mod write_back;

use std::fmt::{self, Write};

use lode_policy::LevelCounts;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::latency::{LATENCY_BOUNDS_US, LatencyView};
use crate::sharing::LevelSharing;
use crate::status::{LevelBlocks, Status, VmView};

/// One family of metrics: its samples differ in their labels.
struct Family {
    /// With the unit, if it has one, and without what the format adds for its type.
    name: &'static str,
    about: &'static str,
    samples: Samples,
}

/// Numbers that differ in one label.
type By<T> = Vec<(&'static str, T)>;

/// Where a family's samples come from.
enum Samples {
    /// One that is always 1, with labels that describe the daemon.
    Host(fn(&Status) -> Vec<(&'static str, String)>),
    /// The same for each VM.
    Vm(fn(&VmView) -> Vec<(&'static str, String)>),
    /// A number of the daemon, if it has it.
    HostGauge(fn(&Status) -> Option<u64>),
    Gauge(fn(&VmView) -> u64),
    GaugeBy(&'static str, fn(&VmView) -> By<u64>),
    Fraction(fn(&VmView) -> Option<f64>),
    FractionBy(&'static str, fn(&VmView) -> By<f64>),
    Counter(fn(&VmView) -> u64),
    CounterBy(&'static str, fn(&VmView) -> By<u64>),
    Times(fn(&VmView) -> LatencyView),
    TimesBy(&'static str, fn(&VmView) -> By<LatencyView>),
}
use Samples::{
    Counter, CounterBy, Fraction, FractionBy, Gauge, GaugeBy, Host, HostGauge, Times, TimesBy, Vm,
};

const BYTES: &str = "bytes";
const SECONDS: &str = "seconds";

impl Family {
    fn kind(&self) -> MetricType {
        match self.samples {
            Host(_) | Vm(_) => MetricType::Info,
            HostGauge(_) | Gauge(_) | GaugeBy(..) | Fraction(_) | FractionBy(..) => MetricType::Gauge,
            Counter(_) | CounterBy(..) => MetricType::Counter,
            Times(_) | TimesBy(..) => MetricType::Histogram,
        }
    }

    /// Its name without its unit, and its unit.
    fn split_name(&self) -> (&'static str, Option<Unit>) {
        let unit = [(BYTES, Unit::Bytes), (SECONDS, Unit::Seconds)];
        let split = unit.into_iter().find_map(|(word, unit)| {
            let name = self.name.strip_suffix(word)?.strip_suffix('_')?;
            Some((name, Some(unit)))
        });
        split.unwrap_or((self.name, None))
    }

    fn encode(&self, status: &Status, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (name, unit) = self.split_name();
        let mut metric = encoder.encode_descriptor(name, self.about, unit.as_ref(), self.kind())?;
        match self.samples {
            Host(read) => metric.encode_info(&read(status))?,
            HostGauge(read) => {
                if let Some(value) = read(status) {
                    metric.encode_gauge(&value)?;
                }
            }
            _ => {}
        }
        status.vms.iter().try_for_each(|vm| self.encode_vm(vm, &mut metric))
    }

    fn encode_vm(&self, vm: &VmView, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        let name = ("vm", vm.name.as_str());
        let mut one =
            |sample: &dyn Fn(MetricEncoder<'_>) -> fmt::Result| sample(metric.encode_family(&[name])?);
        match self.samples {
            Host(_) | HostGauge(_) => Ok(()),
            Vm(read) => one(&|mut sample| sample.encode_info(&read(vm))),
            Gauge(read) => one(&|mut sample| sample.encode_gauge(&read(vm))),
            Counter(read) => one(&|sample| counter(sample, read(vm))),
            Times(read) => one(&|sample| times(sample, &read(vm))),
            GaugeBy(label, read) => read(vm).iter().try_for_each(|(which, value)| {
                metric.encode_family(&[name, (label, *which)])?.encode_gauge(value)
            }),
            Fraction(read) => match read(vm) {
                Some(value) => one(&|mut sample| sample.encode_gauge(&value)),
                None => Ok(()),
            },
            FractionBy(label, read) => read(vm).iter().try_for_each(|(which, value)| {
                metric.encode_family(&[name, (label, *which)])?.encode_gauge(value)
            }),
            CounterBy(label, read) => read(vm).iter().try_for_each(|(which, value)| {
                counter(metric.encode_family(&[name, (label, *which)])?, *value)
            }),
            TimesBy(label, read) => read(vm)
                .iter()
                .try_for_each(|(which, value)| times(metric.encode_family(&[name, (label, *which)])?, value)),
        }
    }
}

fn counter(mut sample: MetricEncoder<'_>, value: u64) -> fmt::Result {
    sample.encode_counter::<NoLabelSet, u64, f64>(&value, None)
}

fn times(mut sample: MetricEncoder<'_>, view: &LatencyView) -> fmt::Result {
    let bounds_s = LATENCY_BOUNDS_US.iter().map(|us| us / 1e6).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds_s.zip(view.buckets).collect();
    sample.encode_histogram::<NoLabelSet>(view.sum_us / 1e6, view.count, &buckets, None)
}

fn blocks(blocks: &LevelBlocks) -> By<u64> {
    let LevelBlocks { dram_blocks, ssd_blocks, read_ssd_blocks } = *blocks;
    vec![("dram", dram_blocks.into()), ("ssd", ssd_blocks.into()), ("read_ssd", read_ssd_blocks.into())]
}

fn counts(counts: &LevelCounts) -> By<u64> {
    vec![("dram", counts.dram), ("ssd", counts.ssd), ("read_ssd", counts.read_ssd)]
}

fn describe_host(status: &Status) -> Vec<(&'static str, String)> {
    let ssd = status.cache.as_ref().map(|cache| cache.uuid.clone());
    let read_ssd = status.read_ssd.as_ref().map(|ssd| ssd.uuid.clone());
    vec![
        ("name", status.name.clone()),
        ("version", status.version.to_owned()),
        ("ssd", ssd.unwrap_or_default()),
        ("read_ssd", read_ssd.unwrap_or_default()),
        ("last_end", status.last_end.name().to_owned()),
    ]
}

/// All families, in the order of a scrape.
fn families() -> Vec<Family> {
    let families = [
        host_families(),
        service_families(),
        write_back::families(),
        content_families(),
        sharing_families(),
        decision_families(),
        pair::pair_families(),
        device_families(),
        trouble_families(),
        time_families(),
    ];
    families.into_iter().flatten().map(|(name, about, samples)| Family { name, about, samples }).collect()
}

type Row = (&'static str, &'static str, Samples);

fn host_families() -> Vec<Row> {
    vec![
        (
            "lode_host",
            "The cache, the daemon's version, its SSDs, and how the run before ended",
            Host(describe_host),
        ),
        ("lode_uptime_seconds", "Since it began to serve", HostGauge(|s| Some(s.uptime_s))),
        (
            "lode_pool_bytes",
            "Memory taken for frames and buffers, used or not",
            HostGauge(|s| Some(s.pool_bytes as u64)),
        ),
        ("lode_epoch", "Starts of this cache SSD", HostGauge(|s| s.cache.as_ref().map(|cache| cache.epoch))),
        (
            "lode_ssd_device_bytes",
            "Size of the cache SSD",
            HostGauge(|s| s.cache.as_ref().map(|cache| cache.device_bytes)),
        ),
        (
            "lode_read_ssd_device_bytes",
            "Size of the read SSD",
            HostGauge(|s| s.read_ssd.as_ref().map(|ssd| ssd.device_bytes)),
        ),
        ("lode_host_dram_blocks", "Blocks of memory that VMs divide", HostGauge(Status::dram_blocks)),
        ("lode_host_ssd_blocks", "Blocks of the cache SSD that VMs divide", HostGauge(Status::ssd_blocks)),
        (
            "lode_steering_stopped",
            "1 when a defect ended changes of shares, keys and VMs until the next start",
            HostGauge(|s| s.host.as_ref().map(|host| host.stopped.into())),
        ),
        (
            "lode_vm",
            "The VM's scheme and shard",
            Vm(|vm| vec![("scheme", vm.scheme.to_owned()), ("shard", vm.shard.to_string())]),
        ),
    ]
}

fn service_families() -> Vec<Row> {
    vec![
        ("lode_block_bytes", "Size of a cache block", Gauge(|vm| vm.block_bytes.into())),
        ("lode_connections", "Clients connected", Gauge(|vm| vm.connections.into())),
        ("lode_in_flight_bytes", "Of requests that the cache works on", Gauge(|vm| vm.in_flight_bytes)),
        ("lode_draining", "1 while a drain is under way", Gauge(|vm| vm.draining_blocks.is_some().into())),
        (
            "lode_draining_blocks",
            "Blocks that a drain still has to write back",
            Gauge(|vm| vm.draining_blocks.unwrap_or(0)),
        ),
        (
            "lode_drain_cancelled",
            "1 when the latest drain was stopped before its end",
            Gauge(|vm| vm.drain_cancelled.into()),
        ),
        (
            "lode_vm_stopped",
            "1 when a defect ended the VM's service until the next start",
            Gauge(|vm| vm.stopped.into()),
        ),
    ]
}

fn content_families() -> Vec<Row> {
    vec![
        (
            "lode_quota_blocks",
            "Blocks of a level that the scheme may use now",
            GaugeBy("level", |vm| blocks(&vm.quota)),
        ),
        (
            "lode_held_blocks",
            "Blocks that a level holds",
            GaugeBy("level", |vm| {
                let gauges = &vm.gauges;
                vec![
                    ("dram", gauges.dram_blocks.into()),
                    ("ssd", gauges.ssd_blocks.into()),
                    ("read_ssd", gauges.read_ssd_blocks.into()),
                ]
            }),
        ),
        (
            "lode_dirty_blocks",
            "Blocks newer than the backing disk",
            Gauge(|vm| vm.gauges.dirty_blocks.into()),
        ),
        (
            "lode_unmirrored_blocks",
            "Dirty blocks on one device where the scheme wants two",
            Gauge(|vm| vm.gauges.unmirrored_blocks.into()),
        ),
        (
            "lode_lost_blocks",
            "Dirty blocks that are damaged: guests get errors until they overwrite them",
            Gauge(|vm| vm.gauges.lost_blocks.into()),
        ),
        (
            "lode_write_backs_waiting_blocks",
            "Blocks waiting to be written back",
            Gauge(|vm| vm.gauges.write_backs_waiting.into()),
        ),
        (
            "lode_promotions_waiting_blocks",
            "Copies into an SSD that wait for their turn",
            Gauge(|vm| vm.gauges.promotions_waiting.into()),
        ),
        (
            "lode_quarantined_blocks",
            "Places of a level that are not used any more",
            GaugeBy("level", |vm| {
                vec![
                    ("ssd", vm.gauges.quarantined.into()),
                    ("read_ssd", vm.gauges.read_ssd_quarantined.into()),
                ]
            }),
        ),
        ("lode_memory_bytes", "Memory of tables and frames", Gauge(|vm| vm.gauges.memory_bytes)),
        (
            "lode_shm_bytes",
            "Memory for records that outlive the daemon; 0: there is none",
            Gauge(|vm| vm.shm.bytes),
        ),
        (
            "lode_records_taken_over",
            "Journal records that this start found in memory and not on the SSD",
            Gauge(|vm| vm.shm.records_taken_over),
        ),
    ]
}

/// A number of the share of each level that VMs divide, where there is one.
fn of_shares<T>(vm: &VmView, number: impl Fn(&LevelSharing) -> Option<T>) -> By<T> {
    let levels = vm.sharing.iter().flat_map(|sharing| [("dram", &sharing.dram), ("ssd", &sharing.ssd)]);
    levels.filter_map(|(name, level)| Some((name, number(level)?))).collect()
}

fn sharing_families() -> Vec<Row> {
    vec![
        (
            "lode_share_target_blocks",
            "Blocks of a level that the VM is to have",
            GaugeBy("level", |vm| of_shares(vm, |level| Some(level.target_blocks.into()))),
        ),
        (
            "lode_share_wanted_blocks",
            "The same, if shares could grow to whatever their limits allow",
            GaugeBy("level", |vm| of_shares(vm, |level| Some(level.wanted_blocks.into()))),
        ),
        (
            "lode_share_demand_blocks",
            "Blocks of a level that the VM could have used in the last interval, where that is measured",
            GaugeBy("level", |vm| of_shares(vm, |level| level.demand_blocks.map(u64::from))),
        ),
        (
            "lode_share_min_blocks",
            "Blocks of a level that the VM is guaranteed",
            GaugeBy("level", |vm| of_shares(vm, |level| Some(level.min_blocks.into()))),
        ),
        (
            "lode_share_max_blocks",
            "Blocks of a level that the VM is never given more than",
            GaugeBy("level", |vm| of_shares(vm, |level| Some(level.max_blocks.into()))),
        ),
        (
            "lode_share_reach_blocks",
            "Blocks of a level that the VM can be given at most without a restart",
            GaugeBy("level", |vm| of_shares(vm, |level| Some(level.reach_blocks.into()))),
        ),
        (
            "lode_share_weight",
            "How much the VM counts beside others",
            Fraction(|vm| vm.sharing.as_ref().map(|sharing| sharing.weight)),
        ),
        (
            "lode_expected_hit_ratio",
            "Read hits that the last division expected of a level by itself, where that is measured",
            FractionBy("level", |vm| of_shares(vm, |level| level.expected_hit_ratio)),
        ),
        (
            "lode_measured_hit_ratio",
            "Read hits of a level since that division, where anything was read",
            FractionBy("level", |vm| of_shares(vm, |level| level.measured_hit_ratio)),
        ),
        (
            "lode_dirty_seconds",
            "Since when the VM has dirty blocks without a break; 0 when it has none",
            Gauge(|vm| vm.dirty_s.unwrap_or(0)),
        ),
        (
            "lode_oldest_dirty_seconds",
            "How old the VM's oldest dirty block is at most; 0 when there is none",
            Gauge(|vm| vm.oldest_dirty_s.unwrap_or(0)),
        ),
        (
            "lode_connections_limit",
            "Clients that may be connected at once",
            Gauge(|vm| vm.limits.connections.into()),
        ),
        (
            "lode_in_flight_limit_bytes",
            "Of requests, from which on no more are taken",
            Gauge(|vm| vm.limits.vm_in_flight_bytes),
        ),
    ]
}

fn decision_families() -> Vec<Row> {
    vec![
        ("lode_requests", "Reads and writes of guests", Counter(|vm| vm.counters.requests)),
        (
            "lode_fua_requests",
            "Requests that asked to be answered when they are durable",
            Counter(|vm| vm.requests.fua),
        ),
        ("lode_trim_requests", "Trims", Counter(|vm| vm.requests.trim)),
        ("lode_write_zeroes_requests", "Requests that write zeroes", Counter(|vm| vm.requests.write_zeroes)),
        (
            "lode_block_reads",
            "Blocks read by requests: read hits of all levels, and read misses",
            Counter(|vm| vm.counters.block_reads),
        ),
        ("lode_block_writes", "Blocks written by requests", Counter(|vm| vm.counters.block_writes)),
        (
            "lode_read_hits",
            "Block reads by the level that served them",
            CounterBy("level", |vm| counts(&vm.counters.read_hits)),
        ),
        (
            "lode_read_misses",
            "Block reads that the backing disk served",
            Counter(|vm| vm.counters.read_misses),
        ),
        (
            "lode_write_hits",
            "Block writes to a block that the SSD held and kept",
            Counter(|vm| vm.counters.write_hits.ssd),
        ),
        ("lode_dram_writes", "Blocks put into DRAM", Counter(|vm| vm.counters.dram_writes)),
        (
            "lode_ssd_writes",
            "Data blocks written to the SSD, by cause",
            CounterBy("cause", |vm| {
                let writes = &vm.counters.ssd_writes;
                vec![
                    ("fill", writes.fill),
                    ("write", writes.write),
                    ("promotion", writes.promotion),
                    ("move", writes.moved),
                ]
            }),
        ),
        (
            "lode_read_ssd_writes",
            "Data blocks written to the read SSD",
            Counter(|vm| vm.counters.read_ssd_writes),
        ),
        (
            "lode_backing_reads",
            "Blocks read from the backing disk, for whatever reason",
            Counter(|vm| vm.counters.backing_reads),
        ),
        (
            "lode_backing_writes",
            "Blocks written to the backing disk, for whatever reason",
            Counter(|vm| vm.counters.backing_writes),
        ),
        ("lode_write_backs", "Of these, write-backs of dirty blocks", Counter(|vm| vm.counters.write_backs)),
        (
            "lode_evictions",
            "Blocks that left a level",
            CounterBy("level", |vm| counts(&vm.counters.evictions)),
        ),
    ]
}

fn device_families() -> Vec<Row> {
    vec![
        (
            "lode_ssd_data_written_bytes",
            "Guest data written to the SSD",
            Counter(|vm| vm.gauges.ssd_data_bytes),
        ),
        (
            "lode_ssd_metadata_written_bytes",
            "Journal and tables written to the SSD",
            Counter(|vm| vm.gauges.ssd_metadata_bytes),
        ),
        (
            "lode_read_ssd_data_written_bytes",
            "Data written to the read SSD",
            Counter(|vm| vm.gauges.read_ssd_data_bytes),
        ),
        ("lode_redo_written_bytes", "Written to the redo log", Counter(|vm| vm.gauges.redo_written_bytes)),
        ("lode_backing_read_bytes", "Read from the backing disk", Counter(|vm| vm.gauges.backing_read_bytes)),
        (
            "lode_backing_written_bytes",
            "Written to the backing disk",
            Counter(|vm| vm.gauges.backing_written_bytes),
        ),
        (
            "lode_scheme_switches",
            "Other schemes, or other settings, that came to decide",
            Counter(|vm| vm.gauges.scheme_switches),
        ),
        (
            "lode_cleaned_blocks",
            "Blocks that were written back and stayed in the SSD",
            Counter(|vm| vm.gauges.cleaned_blocks),
        ),
        (
            "lode_dropped_clean_copies",
            "Clean blocks that were looked for, and had gone with the SSD of a pair that alone had them",
            Counter(|vm| vm.gauges.dropped_clean_copies),
        ),
        (
            "lode_scrubbed_blocks",
            "Blocks on the SSD that were compared with their checksums in the background",
            Counter(|vm| vm.gauges.scrubbed_blocks),
        ),
        ("lode_scrub_passes", "Times that all of them were", Counter(|vm| vm.gauges.scrub_passes)),
        (
            "lode_reissued_writes",
            "Writes that were issued again to the SSD",
            Counter(|vm| vm.gauges.reissued_writes),
        ),
        (
            "lode_refused_reissues",
            "Writes that could not be issued again",
            Counter(|vm| vm.gauges.refused_reissues),
        ),
        (
            "lode_discarded_completions",
            "Completions of the slower of two devices",
            Counter(|vm| vm.gauges.discarded_completions),
        ),
    ]
}

fn trouble_families() -> Vec<Row> {
    vec![
        (
            "lode_alarms",
            "Things that should not happen, by their names in the status",
            CounterBy("alarm", |vm| {
                let alarms = &vm.alarms;
                vec![
                    ("unreadable_at_start", alarms.unreadable_at_start),
                    ("damaged_clean", alarms.damaged_clean),
                    ("damaged_mirrored", alarms.damaged_mirrored),
                    ("damaged_dirty", alarms.damaged_dirty),
                    ("ssd_errors", alarms.ssd_errors),
                    ("read_ssd_errors", alarms.read_ssd_errors),
                    ("backing_errors", alarms.backing_errors),
                ]
            }),
        ),
        (
            "lode_failed",
            "1 from when nothing is durable any more (failed), and by which device, or the read SSD is given up",
            GaugeBy("alarm", |vm| {
                let alarms = &vm.alarms;
                vec![
                    ("failed", alarms.failed.into()),
                    ("ssd_failed", alarms.ssd_failed.into()),
                    ("backing_failed", alarms.backing_failed.into()),
                    ("read_ssd_gone", alarms.read_ssd_gone.into()),
                ]
            }),
        ),
        (
            "lode_drain_failures",
            "Write-backs of drains and cleanings that failed",
            Counter(|vm| vm.gauges.drain_failures),
        ),
    ]
}

fn time_families() -> Vec<Row> {
    vec![
        (
            "lode_read_duration_seconds",
            "Reads, from arrival to answer, by where the slowest of their blocks came from",
            TimesBy("served", |vm| {
                let read = &vm.latency.read;
                vec![
                    ("dram", read.dram),
                    ("read_ssd", read.read_ssd),
                    ("ssd", read.ssd),
                    ("backing", read.backing),
                ]
            }),
        ),
        ("lode_write_duration_seconds", "Writes, from arrival to answer", Times(|vm| vm.latency.write)),
        ("lode_flush_duration_seconds", "Flushes, from arrival to answer", Times(|vm| vm.latency.flush)),
        (
            "lode_request_duration_seconds",
            "Reads, writes and flushes, from arrival to answer, by what they waited for longest",
            TimesBy("waited_for", |vm| {
                vm.latency.waited_for.iter().map(|(&name, &times)| (name, times)).collect()
            }),
        ),
    ]
}

#[derive(Debug)]
struct Scraped(Status);

impl Collector for Scraped {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        families().iter().try_for_each(|family| family.encode(&self.0, &mut encoder))
    }
}

/// The whole text.
pub(crate) fn write(out: &mut impl Write, status: Status) -> fmt::Result {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scraped(status)));
    encode(out, &registry)
}
