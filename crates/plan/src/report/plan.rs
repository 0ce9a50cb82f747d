//! What `lode size` finds. It must not compute anything that is not there yet.

use lode_hardware::time::{SECOND_NS, SECONDS_PER_DAY};
use lode_hardware::{Drive, Drives, Host, SsdRating, Utilisation};
use lode_replay::{InputReport, Report, VmReport};
use lode_reuse::sizing::Split;
use lode_types::Level;
use serde::Serialize;

use crate::answer::Divided;
use crate::division::{LevelPlan, Outcome, SizePlan, VmPlan};
use crate::error::PlanError;
use crate::front::{FrontPoint, Prices};
use crate::host_memory::HostMemory;
use crate::levels::{LevelBlockCounts, LevelBytes};
use crate::load::{Load, SsdKeeps, VmLoad};
use crate::recommend::{RecommendedReport, label_of};
use crate::totals::{LevelTotals, Totals};
use crate::two_levels::TwoLevels;

use super::curve::{points, thinned};

/// Points of each curve.
const CURVE_POINTS: usize = 200;

/// What `lode size` finds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeReport {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Bytes that shares are multiples of, where they can be.
    pub granule_bytes: u64,
    /// How the curves were obtained.
    pub method: String,
    /// What the division maximises.
    pub objective: &'static str,
    /// Name of the device profile.
    pub devices: String,
    /// The levels.
    pub levels: LevelBytes,
    /// What the SSD keeps by the curves that it was divided by: those of the scheme that stands in `two_levels`; without a replay, of
    /// the one that is recommended.
    pub ssd_keeps: SsdKeeps,
    /// How host memory was divided.
    pub dram: LevelReport,
    /// How the SSD was divided.
    pub ssd: LevelReport,
    /// Price of the levels.
    pub cost_usd: f64,
    /// Each VM, in order of appearance.
    pub vms: Vec<VmSizeReport>,
    /// All VMs together, from the curves.
    pub total: OutcomeReport,
    /// The same without any cache.
    pub without_cache: OutcomeReport,
    /// What writing does to the SSD, if every write of a VM with a share of it goes there, and every block that its reads miss, where
    /// the SSD keeps what is read.
    pub wear: WearReport,
    /// What the devices' profile says may be written to an SSD.
    pub ssd_rating: SsdRating,
    /// The drive that the SSD is bought as; none where it has any size.
    pub drive: Option<Drive>,
    /// What to serve in the end.
    pub recommended: RecommendedReport,
    /// Mean time of a request without any cache, replayed; none without requests, or if it was not.
    pub without_cache_us: Option<f64>,
    /// The one of `replayed` that everything here is told of, as `lode compare` calls it: what is recommended, or where that is one
    /// level, with what both were best by the objective; of those about as good, the fastest; of those, that with which the SSD lasts
    /// longest; of those, the first of `replayed`. None if it was not replayed.
    pub two_levels: Option<String>,
    /// Its setting `mode`; none with a scheme that has none.
    pub mode: Option<&'static str>,
    /// Why that scheme, and in that mode, as a part of a sentence.
    pub mode_reason: Option<String>,
    /// What replays of the levels say, one with each scheme that may serve them, divided as suits it; none if there was none.
    pub replayed: Vec<ReplayedReport>,
    /// What one SSD level for the same money led to when it was replayed; none if it was not.
    pub one_level: Option<OneLevelReport>,
    /// The same with `auto`, divided as suits that; none if that was not replayed, and where another scheme is wished for, or the
    /// plan has no host memory.
    pub one_level_of_auto: Option<OneLevelReport>,
    /// Why nothing, or not all that could have been, was replayed; given by whoever knows what was asked for. None where all was.
    pub not_replayed: Option<String>,
    /// What stands out, in sentences.
    pub advice: Vec<String>,
    /// The same for each size of host memory with each size of SSD of `totals`, if a page is to be made of the report;
    /// it would be most of a written one.
    #[serde(skip)]
    pub advice_at: Option<Vec<Vec<Vec<String>>>>,
    /// What each VM would see at the same sizes; none for more VMs than a page can have this of, and for those that make no page.
    #[serde(skip)]
    pub outcomes_at: Option<Vec<Vec<Vec<OutcomeReport>>>>,
    /// Plans for larger and smaller levels.
    pub totals: TotalsReport,
    /// With a budget: what no other pair of sizes beats, ascending in cost.
    pub front: Option<Vec<FrontReport>>,
    /// How often blocks were left out to keep within the memory.
    pub shrinks: u64,
    /// The traces that were read.
    pub inputs: Vec<InputReport>,
    /// What the user should hear of the way the traces fit together.
    pub warnings: Vec<String>,
}

/// How one level was divided.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LevelReport {
    /// Blocks that there are.
    pub capacity_blocks: u64,
    /// Blocks that all VMs together could use.
    pub demand_blocks: u64,
    /// Blocks that were given to VMs.
    pub given_blocks: u64,
    /// `granted`, `exact`, `greedy`, `maxmin` or `talus`.
    pub solver: &'static str,
}

/// One VM's part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VmSizeReport {
    /// Its name.
    pub name: String,
    /// Reads and writes.
    pub requests: u64,
    /// Blocks beyond which it gains nothing.
    pub demand: LevelBlockCounts,
    /// Blocks that it gets.
    pub share: LevelBlockCounts,
    /// How its caches are to be cut in two; with the Talus solver only.
    pub split: Option<SplitsReport>,
    /// What it would see, from the curves.
    #[serde(flatten)]
    pub outcome: OutcomeReport,
    /// Hits for each access by blocks of host memory, read-only, at most 200 points.
    pub dram_curve: Vec<(u64, f64)>,
    /// Hits for each access by blocks of SSD, at most 200 points: write-back and write-only, or of what the VM's share of host memory
    /// does not serve, as the SSD keeps what is written or accessed.
    pub ssd_curve: Vec<(u64, f64)>,
    /// Share of its blocks that was followed; 1 is all.
    pub rate: f64,
    /// Most that the standard error of `read_hit_ratio` may be: those of both levels' curves at its shares, together; none
    /// without reads, or where it is not known.
    pub standard_error: Option<f64>,
}

/// How one VM's caches are cut in two.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SplitsReport {
    /// Host memory.
    pub dram: SplitReport,
    /// SSD.
    pub ssd: SplitReport,
}

/// A cache as two partitions; see [`Split`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SplitReport {
    /// Size that the first partition behaves like.
    pub smaller_blocks: u64,
    /// Size that the second partition behaves like.
    pub larger_blocks: u64,
    /// Share of the stream that goes to the first partition.
    pub smaller_share: f64,
}

impl From<&Split> for SplitReport {
    fn from(split: &Split) -> SplitReport {
        let Split { smaller_blocks, larger_blocks, smaller_share } = *split;
        SplitReport { smaller_blocks, larger_blocks, smaller_share }
    }
}

/// What VMs would see on the device model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OutcomeReport {
    /// Blocks read.
    pub block_reads: u64,
    /// Blocks written.
    pub block_writes: u64,
    /// Block reads that host memory serves.
    pub dram_hits: u64,
    /// Block reads that the SSD serves.
    pub ssd_hits: u64,
    /// Share of the block reads that either serves; none without reads.
    pub read_hit_ratio: Option<f64>,
    /// Mean time of a block access; none without accesses.
    pub mean_latency_us: Option<f64>,
}

/// What writing does to the SSD.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WearReport {
    /// Bytes written to it over the traces' span.
    pub written_bytes: u64,
    /// Their span; none without requests, and where a trace has no times.
    pub span_s: Option<f64>,
    /// Bytes written a day, each VM's by the span of its own trace; none without a span.
    pub bytes_per_day: Option<f64>,
    /// Full writes of the SSD a day, of whole drives where it is bought as such; none without a span or an SSD.
    pub drive_writes_per_day: Option<f64>,
    /// Years until its rated endurance is used up; none without a span, an SSD or writes.
    pub life_years: Option<f64>,
    /// The drives that it takes, where it is bought as whole ones.
    pub drives: Option<Drives>,
}

/// The plan, replayed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayedReport {
    /// The scheme with its settings, as `lode compare` calls it.
    pub label: String,
    /// The scheme and its mode, for people.
    #[serde(skip)]
    pub called: String,
    /// The scheme.
    pub scheme: String,
    /// Its setting `mode`; none with a scheme that has none.
    pub mode: Option<&'static str>,
    /// What each VM has with it, in their order.
    pub shares: Vec<LevelBlockCounts>,
    /// Share of the block reads that either level serves; none without reads.
    pub read_hit_ratio: Option<f64>,
    /// Mean time of a request; none without requests.
    pub mean_latency_us: Option<f64>,
    /// What writing does to the SSD.
    pub wear: WearReport,
    /// Shares of the traces' span that the devices would work; above 1 they could not keep up. None without a span.
    pub utilisation: Option<Utilisation>,
    /// Host memory that it takes at most when it is served; none for shares of more blocks than a cache can have.
    pub host_memory: Option<HostMemory>,
}

/// One SSD level for the money of a plan, replayed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OneLevelReport {
    /// The scheme with its settings, as `lode compare` calls it.
    pub label: String,
    /// The level; of host memory there is none.
    pub levels: LevelBytes,
    /// Blocks of it that each VM has, in their order.
    pub shares_blocks: Vec<u64>,
    /// Whether that is what suits one level best, by curves of it; else each VM has what its shares of both levels cost.
    pub by_curves: bool,
    /// Its price: at most a block's for each VM below that of the plan.
    pub cost_usd: f64,
    /// Share of the block reads that it serves; none without reads.
    pub read_hit_ratio: Option<f64>,
    /// Mean time of a request; none without requests.
    pub mean_latency_us: Option<f64>,
    /// What writing does to the SSD.
    pub wear: WearReport,
    /// Shares of the traces' span that the devices would work; above 1 they could not keep up. None without a span.
    pub utilisation: Option<Utilisation>,
    /// Host memory that it takes at most when it is served; none for shares of more blocks than a cache can have.
    pub host_memory: Option<HostMemory>,
    /// Whether its requests take at least 1 % less than those of both levels at their best.
    pub is_faster: bool,
    /// Whether less than half as much is written to the SSD as by both levels at their best.
    pub writes_far_less: bool,
    /// What there is to say of it, where it is better in one of the two.
    pub sentence: Option<String>,
    /// The command that shows it; given by whoever knows how the traces were named. None where one does not show it.
    pub command: Option<String>,
}

/// Plans for larger and smaller levels.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TotalsReport {
    /// Host memory.
    pub dram: LevelTotalsReport,
    /// SSD.
    pub ssd: LevelTotalsReport,
    /// What all VMs together would see, for each size of host memory with each size of SSD.
    pub outcomes: Vec<Vec<OutcomeReport>>,
    /// Price of both levels, for each size of host memory with each size of SSD.
    pub cost_usd: Vec<Vec<f64>>,
    /// Blocks written to the SSD with each size of it beside the host memory asked for, as in `wear`.
    pub ssd_writes: Vec<u64>,
    /// Bytes of them a day with each size of it, as in `wear`; none without a span.
    pub ssd_bytes_per_day: Option<Vec<f64>>,
}

/// Plans for larger and smaller sizes of one level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LevelTotalsReport {
    /// Sizes, ascending; just 0 for a level that is not there.
    pub sizes_bytes: Vec<u64>,
    /// Index of the size that was asked for.
    pub asked: usize,
    /// Blocks of each VM at each size, in the VMs' order.
    pub shares_blocks: Vec<Vec<u64>>,
}

/// One pair of sizes that no other beats.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrontReport {
    /// Price of the levels.
    pub cost_usd: f64,
    /// The levels.
    pub levels: LevelBytes,
    /// What all VMs together would see.
    #[serde(flatten)]
    pub outcome: OutcomeReport,
    /// What writing does to the SSD.
    pub wear: WearReport,
}

impl From<&LevelPlan> for LevelReport {
    fn from(plan: &LevelPlan) -> LevelReport {
        LevelReport {
            capacity_blocks: plan.capacity_blocks,
            demand_blocks: plan.demand_blocks,
            given_blocks: plan.given_blocks,
            solver: plan.method.name(),
        }
    }
}

impl From<&Outcome> for OutcomeReport {
    fn from(outcome: &Outcome) -> OutcomeReport {
        OutcomeReport {
            block_reads: outcome.reads,
            block_writes: outcome.writes,
            dram_hits: outcome.dram_hits,
            ssd_hits: outcome.ssd_hits,
            read_hit_ratio: outcome.read_hit_ratio(),
            mean_latency_us: outcome.mean_latency_us(),
        }
    }
}

impl WearReport {
    /// The wear of an SSD of `ssd_bytes` to which `blocks` are written over the load, so many of them a second.
    pub fn new(load: &Load, host: &Host, ssd_bytes: u64, blocks: u64, blocks_per_s: f64) -> WearReport {
        let written_bytes = blocks.saturating_mul(load.block_bytes);
        let span_ns = load.span_ns();
        let bytes_per_s = span_ns.filter(|&ns| ns > 0).map(|_| blocks_per_s * load.block_bytes as f64);
        let bytes_per_day = bytes_per_s.map(|bytes| bytes * SECONDS_PER_DAY);
        WearReport {
            written_bytes,
            span_s: span_ns.map(|ns| ns as f64 / SECOND_NS),
            bytes_per_day,
            drive_writes_per_day: bytes_per_day
                .filter(|_| ssd_bytes > 0)
                .map(|bytes| bytes / host.bought_ssd_bytes(ssd_bytes) as f64),
            life_years: bytes_per_s.and_then(|bytes| host.ssd_life_years(ssd_bytes, bytes)),
            drives: host.ssd_drives(ssd_bytes),
        }
    }
}

impl WearReport {
    /// The wear of a plan, if every write of a VM with a share of the SSD goes there.
    pub(crate) fn of_plan(load: &Load, host: &Host, plan: &SizePlan) -> WearReport {
        let Outcome { ssd_writes, ssd_writes_per_s, .. } = plan.total;
        WearReport::new(load, host, plan.levels.ssd_bytes, ssd_writes, ssd_writes_per_s)
    }
}

/// What a replay says of a plan or of what else its money buys.
pub(crate) struct ReplayFigures {
    pub(crate) read_hit_ratio: Option<f64>,
    pub(crate) mean_latency_us: Option<f64>,
    pub(crate) wear: WearReport,
    pub(crate) utilisation: Option<Utilisation>,
}

impl ReplayFigures {
    /// Those of a replay of `load` with these levels.
    pub(crate) fn of(load: &Load, host: &Host, levels: LevelBytes, report: &Report) -> ReplayFigures {
        let counters = &report.total.counters;
        let hits = counters.read_hits.dram + counters.read_hits.ssd;
        let written = counters.ssd_writes.total;
        let of_vm =
            |(vm, replayed): (&VmLoad, &VmReport)| vm.per_s(replayed.counts.counters.ssd_writes.total);
        let written_per_s = load.vms.iter().zip(&report.vms).map(of_vm).sum();
        ReplayFigures {
            read_hit_ratio: (counters.block_reads > 0).then(|| hits as f64 / counters.block_reads as f64),
            mean_latency_us: report.total.mean_latency_us,
            wear: WearReport::new(load, host, levels.ssd_bytes, written, written_per_s),
            utilisation: report.devices.utilisation,
        }
    }
}

impl ReplayedReport {
    /// The outcome of replaying a plan.
    pub(crate) fn new(
        host: &Host,
        divided: &Divided,
        served: TwoLevels,
        report: &Report,
    ) -> Result<ReplayedReport, PlanError> {
        let Divided { load, plan, .. } = divided;
        let (settings, shares) = (served.settings()?, divided.shares());
        let figures = ReplayFigures::of(load, host, plan.levels, report);
        let ReplayFigures { read_hit_ratio, mean_latency_us, wear, utilisation } = figures;
        Ok(ReplayedReport {
            label: label_of(&settings),
            called: served.called(),
            scheme: report.scheme.clone(),
            mode: served.mode(),
            read_hit_ratio,
            mean_latency_us,
            wear,
            utilisation,
            host_memory: HostMemory::of(&settings, load.block_bytes, &shares),
            shares: shares.into_iter().map(LevelBlockCounts::from).collect(),
        })
    }
}

impl VmSizeReport {
    /// One VM of a plan.
    pub(crate) fn all(load: &Load, plan: &SizePlan) -> Vec<VmSizeReport> {
        let one = |(vm, planned): (&VmLoad, &VmPlan)| VmSizeReport {
            name: planned.name.clone(),
            requests: vm.facts.requests,
            demand: planned.demand_blocks.into(),
            share: planned.share_blocks.into(),
            split: planned
                .splits
                .as_ref()
                .map(|[dram, ssd]| SplitsReport { dram: dram.into(), ssd: ssd.into() }),
            outcome: (&planned.outcome).into(),
            dram_curve: points(&thinned(&vm.curve(Level::Dram, 0), CURVE_POINTS)),
            ssd_curve: points(&thinned(&vm.curve(Level::Ssd, planned.share_blocks[0]), CURVE_POINTS)),
            rate: vm.rate(),
            standard_error: standard_error(vm, planned.share_blocks),
        };
        load.vms.iter().zip(&plan.vms).map(one).collect()
    }
}

/// See [`VmSizeReport::standard_error`]. `shares_blocks` are by [`Level::index`].
fn standard_error(vm: &VmLoad, shares_blocks: [u64; 2]) -> Option<f64> {
    let (reads, writes) = (vm.profile.reads(), vm.profile.writes());
    let of_accesses = vm.standard_error(shares_blocks)?;
    (reads > 0).then(|| of_accesses * (reads + writes) as f64 / reads as f64)
}

impl From<&LevelTotals> for LevelTotalsReport {
    fn from(totals: &LevelTotals) -> LevelTotalsReport {
        let LevelTotals { sizes_bytes, asked, shares_blocks } = totals.clone();
        LevelTotalsReport { sizes_bytes, asked, shares_blocks }
    }
}

impl TotalsReport {
    /// Of divisions of the levels' sizes around those asked for.
    pub(crate) fn new(load: &Load, totals: &Totals, prices: &Prices) -> TotalsReport {
        let [dram, ssd] = totals.of_level.each_ref().map(LevelTotalsReport::from);
        let cost_usd = |&dram_bytes: &u64| {
            let levels = |&ssd_bytes| LevelBytes { dram_bytes, ssd_bytes, ..LevelBytes::default() };
            ssd.sizes_bytes.iter().map(|ssd_bytes| prices.cost_usd(levels(ssd_bytes))).collect()
        };
        let cost_usd = dram.sizes_bytes.iter().map(cost_usd).collect();
        // What is written depends on the SSD; where it keeps what is read, also on what DRAM serves, for which that asked for stands.
        let asked = dram.asked;
        let with_each_ssd = || totals.outcomes.get(asked).into_iter().flatten();
        let per_day =
            |outcome: &Outcome| outcome.ssd_writes_per_s * load.block_bytes as f64 * SECONDS_PER_DAY;
        TotalsReport {
            dram,
            ssd,
            outcomes: totals
                .outcomes
                .iter()
                .map(|row| row.iter().map(OutcomeReport::from).collect())
                .collect(),
            cost_usd,
            ssd_writes: with_each_ssd().map(|outcome| outcome.ssd_writes).collect(),
            ssd_bytes_per_day: load.has_span().then(|| with_each_ssd().map(per_day).collect()),
        }
    }
}

impl FrontReport {
    /// One point of the front.
    pub(crate) fn new(load: &Load, host: &Host, point: &FrontPoint) -> FrontReport {
        let FrontPoint { cost_usd, plan, .. } = point;
        FrontReport {
            cost_usd: *cost_usd,
            levels: plan.levels,
            outcome: (&plan.total).into(),
            wear: WearReport::of_plan(load, host, plan),
        }
    }
}
