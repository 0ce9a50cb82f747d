//! The figures of one workload: every single scheme and `auto` at equal space. It must not know where requests are from.

use lode_hardware::Host;
use lode_policy::{Decision, Quota, SchemeInfo, Settings, all_schemes};
use lode_replay::{Options, Recording, ReplayError, Report, RequestStream, replay};
use lode_types::Level;
use serde::Serialize;

use super::budget::{self, BudgetFigures};
use super::workloads::Workload;
use super::{AUTO, DRAM_PART, PERCENTS};
use crate::error::PapersError;
use crate::run::BLOCK;

/// A workload at a size.
#[derive(Clone, Debug, Serialize)]
pub struct CaseFigures {
    /// The workload.
    pub workload: String,
    /// It was made from a profile, and is no recording.
    pub synthetic: bool,
    /// It was looked at while `benefit-density` and `auto` were made.
    pub seen: bool,
    /// Its requests, and the blocks that they access.
    pub requests: u64,
    /// Blocks that they access, each as often as it is accessed.
    pub block_accesses: u64,
    /// Both levels, in per cent of the blocks that are touched.
    pub percent: u64,
    /// The same in blocks.
    pub blocks: u32,
    /// The single scheme with the least mean latency; none where no request takes any time.
    pub best: Option<SchemeFigures>,
    /// `auto`.
    pub auto: SchemeFigures,
    /// Mean latency of `auto` to that of the best.
    pub ratio: Option<f64>,
    /// Single schemes that have no higher latency and no more SSD writes, and less of one of them.
    pub beaten_by: Vec<&'static str>,
    /// Every single scheme.
    pub schemes: Vec<SchemeFigures>,
    /// What `auto` chose: the latest 256 decisions.
    pub decisions: Vec<Decision>,
    /// The same with a budget of SSD writes; none where nothing is written.
    pub budget: Option<BudgetFigures>,
}

/// A scheme's figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SchemeFigures {
    /// The scheme.
    pub scheme: &'static str,
    /// Mean time of a request.
    pub latency_us: Option<f64>,
    /// Blocks written to the SSD.
    pub ssd_writes: u64,
}

/// Schemes that can be compared: with what a trace tells, and without a second SSD. Their sets would divide small caches, and one VM
/// has nothing to divide.
fn single_schemes(recording: &Recording) -> impl Iterator<Item = (&'static SchemeInfo, Settings)> {
    let inputs = recording.play();
    let origins = inputs.origins();
    let settings = |info: &'static SchemeInfo| (info, info.settings().without_sizing().without_sets());
    all_schemes().iter().filter(|info| info.name != AUTO && !info.needs_future()).map(settings).filter(
        move |(info, settings)| {
            let told = info.check_origins(settings, origins, lode_policy::RequestSource::Trace);
            !info.levels.contains(&Level::ReadSsd) && told.is_ok()
        },
    )
}

/// The levels of a scheme that has so many blocks in all.
pub(super) fn quota_of(info: &SchemeInfo, blocks: u64) -> Quota {
    let [dram, ssd] = [Level::Dram, Level::Ssd].map(|level| info.levels.contains(&level));
    let of_dram = match (dram, ssd) {
        (true, true) => (blocks / DRAM_PART).max(1),
        (true, false) => blocks,
        (false, _) => 0,
    };
    let count = |blocks: u64| u32::try_from(blocks).unwrap_or(u32::MAX);
    Quota::new(count(of_dram), count(blocks - of_dram))
}

pub(super) fn replayed(
    recording: &Recording,
    settings: Settings,
    physical: Quota,
) -> Result<Report, PapersError> {
    let host = Host::find("default")?;
    let options =
        Options { settings, physical, block_size: BLOCK, host, shares: None, daily_ssd_bytes: None };
    Ok(replay(recording.play(), &options, Some(1), &mut |_, _| {})?)
}

pub(super) fn figures_of(scheme: &'static str, report: &Report) -> SchemeFigures {
    let ssd_writes = report.total.counters.ssd_writes.total;
    SchemeFigures { scheme, latency_us: report.total.mean_latency_us, ssd_writes }
}

/// The best of those that there are.
pub(super) fn best_of<'a>(figures: impl Iterator<Item = &'a SchemeFigures>) -> Option<SchemeFigures> {
    let timed = figures.filter_map(|one| Some((one.latency_us?, one)));
    timed.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, best)| *best)
}

/// All sizes of a workload.
pub(super) fn measure(workload: &Workload, recording: &Recording) -> Result<Vec<CaseFigures>, PapersError> {
    let touched = recording.touched_blocks(BLOCK).iter().sum();
    PERCENTS.iter().map(|&percent| case(workload, recording, percent, touched)).collect()
}

fn case(
    workload: &Workload,
    recording: &Recording,
    percent: u64,
    touched: u64,
) -> Result<CaseFigures, PapersError> {
    // A level of two has a block at least.
    let blocks = (touched * percent / 100).max(2);
    let mut schemes = Vec::new();
    for (info, settings) in single_schemes(recording) {
        let physical = quota_of(info, blocks);
        if info.check_needs(physical).is_ok() {
            schemes.push(figures_of(info.name, &replayed(recording, settings, physical)?));
        }
    }
    let info = SchemeInfo::find(AUTO).map_err(ReplayError::from)?;
    let physical = quota_of(info, blocks);
    let report = replayed(recording, info.settings(), physical)?;
    let auto = figures_of(AUTO, &report);
    let best = best_of(schemes.iter());
    let has_times = recording.play().has_times();
    let budget = budget::measure(recording, has_times, physical, &schemes)?;
    Ok(CaseFigures {
        workload: workload.name.clone(),
        synthetic: workload.is_synthetic(),
        seen: workload.was_seen(),
        requests: report.total.counters.requests,
        block_accesses: report.total.counters.block_accesses,
        percent,
        blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
        ratio: best.and_then(|best| Some(auto.latency_us? / best.latency_us?)),
        best,
        beaten_by: schemes.iter().filter(|one| beats(one, &auto)).map(|one| one.scheme).collect(),
        auto,
        schemes,
        decisions: report.vms.iter().filter_map(|vm| vm.decisions.clone()).flat_map(|d| d.latest).collect(),
        budget,
    })
}

/// No worse in both, and better in one.
fn beats(one: &SchemeFigures, other: &SchemeFigures) -> bool {
    let (Some(us), Some(other_us)) = (one.latency_us, other.latency_us) else { return false };
    let (writes, other_writes) = (one.ssd_writes, other.ssd_writes);
    us <= other_us && writes <= other_writes && (us < other_us || writes < other_writes)
}
