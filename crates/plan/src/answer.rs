//! From a request for sizes to everything that there is to say of it. It must not know how it is shown.

use lode_hardware::Host;
use lode_policy::{SchemeInfo, Settings};
use lode_replay::{MAX_LEVEL_BLOCKS, Options, ReplayError, Report, Source, replay};
use lode_trace::{Merge, TraceError};
use lode_types::{BlockSize, Level, show_size};

use crate::advice::{advice, advice_everywhere};
use crate::division::{Outcome, SizeOptions, SizePlan, outcome_without_cache, size};
use crate::error::PlanError;
use crate::front::{FrontPoint, Prices, best, front};
use crate::jobs::in_parallel;
use crate::levels::LevelBytes;
use crate::load::Load;
use crate::mode::choose;
use crate::one_level::{self, OneLevel};
use crate::planned::quota;
use crate::report::{
    FrontReport, LevelReport, OutcomeReport, ReplayedReport, SizeReport, TotalsReport, VmSizeReport,
    WearReport,
};
use crate::totals::{Totals, totals};

/// The scheme that serves a plan.
pub const SCHEME: &str = "etica";

/// Its settings with which a plan is replayed and served: shares stay as planned, and sets do not divide them, as the
/// curves are those of undivided caches.
pub const PLAN_SETTINGS: [(&str, &str); 2] = [("sizing", "off"), ("assoc", "0")];

/// Its modes that are worth a choice: what a full SSD does with writes to blocks that it does not hold. The first turns
/// them away, which spares the SSD; the second takes them all.
pub const MODES: [&str; 2] = ["full-hybrid", "npe"];

/// Replays of a plan: one for each of [`MODES`], and one of one SSD level for the same money.
pub const REPLAYS: usize = MODES.len() + 1;

/// What there is to divide.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Means {
    /// Levels of these sizes.
    Levels(LevelBytes),
    /// Levels of whatever sizes are best for so many US dollars.
    Budget {
        /// US dollars.
        usd: f64,
        /// What levels cost.
        prices: Prices,
    },
}

/// A division, and what leads to it and away from it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The division.
    pub plan: SizePlan,
    /// Divisions of smaller and larger levels.
    pub totals: Totals,
    /// With a budget, what no other pair of sizes beats.
    pub front: Option<Vec<FrontPoint>>,
    /// What VMs would see without any cache.
    pub without_cache: Outcome,
    /// What the plan led to when it was replayed, by mode of the scheme; none if it was not.
    pub replayed: Vec<(&'static str, Report)>,
    /// What one SSD level for the plan's money led to, with what that level is; none if it was not replayed, or where the
    /// money buys no block.
    pub one_level: Option<(LevelBytes, Report)>,
}

/// One replay.
enum Replay {
    /// Of the plan, with this mode.
    Plan(&'static str),
    /// Of one SSD level for its money.
    OneLevel(OneLevel),
}

/// Finds the best division. Of a budget's front, that is [`best`].
///
/// # Errors
/// Those of [`size`] and [`front`].
pub fn answer(load: &Load, means: Means, options: &SizeOptions) -> Result<Answer, PlanError> {
    let (plan, front) = match means {
        Means::Levels(levels) => (size(load, levels, options)?, None),
        Means::Budget { usd, prices } => {
            let front = front(load, &prices, usd, options)?;
            let plan = match best(&front) {
                Some(point) => point.plan.clone(),
                None => {
                    let message = "Nothing within the budget gives VMs what they are guaranteed; raise it, or lower that";
                    return Err(PlanError::Request(message.to_owned()));
                }
            };
            (plan, Some(front))
        }
    };
    let mut without_cache = Outcome::default();
    load.vms.iter().for_each(|vm| without_cache.add(&outcome_without_cache(vm, &options.times)));
    let totals = totals(load, &plan, options);
    Ok(Answer { plan, totals, front, without_cache, replayed: Vec::new(), one_level: None })
}

impl Answer {
    /// Replays the plan with the modes of the scheme that serves it, each VM with its share, and one SSD level for the same
    /// money: so many at a time. `open` gives the same VMs in the same order as the traces that were measured; `progress`
    /// hears of every batch of requests of every replay.
    ///
    /// # Errors
    /// [`PlanError::Replay`]; [`PlanError::Request`] for shares that a replay cannot have.
    pub fn replay(
        &mut self,
        open: &(dyn Fn() -> Result<Merge, TraceError> + Sync),
        block_size: BlockSize,
        host: &Host,
        threads: usize,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<(), PlanError> {
        let shares = self.plan.vms.iter().map(|vm| quota(vm.share_blocks)).collect::<Result<Vec<_>, _>>()?;
        let given = |level: Level| self.plan.of_level[level.index()].given_blocks.min(MAX_LEVEL_BLOCKS);
        let physical = quota(Level::SIZED.map(given))?;
        let known = Some(self.plan.vms.len());
        let run = |replayed: &Replay| -> Result<Report, PlanError> {
            let (settings, physical, shares) = match replayed {
                Replay::Plan(mode) => {
                    let set = PLAN_SETTINGS.into_iter().chain([("mode", *mode)]);
                    (settings(SCHEME, set)?, physical, shares.clone())
                }
                Replay::OneLevel(OneLevel { levels, shares }) => {
                    let given = quota([0, levels.ssd_bytes / block_size.bytes()])?;
                    (settings(one_level::SCHEME, one_level::SETTINGS)?, given, shares.clone())
                }
            };
            let options =
                Options { settings, physical, block_size, host: host.clone(), shares: Some(shares) };
            Ok(replay(open()?, &options, known, &mut |_, requests| progress(requests))?)
        };
        let prices = Prices::of(host);
        let all: Vec<[u64; 2]> = self.plan.vms.iter().map(|vm| vm.share_blocks).collect();
        let instead = OneLevel::for_money_of(self.plan.levels, &all, &prices, block_size.bytes());
        let replays: Vec<Replay> =
            MODES.into_iter().map(Replay::Plan).chain(instead.map(Replay::OneLevel)).collect();
        let reports = in_parallel(&replays, threads, run)?;
        (self.replayed, self.one_level) = (Vec::new(), None);
        for (replayed, report) in replays.into_iter().zip(reports) {
            match replayed {
                Replay::Plan(mode) => self.replayed.push((mode, report)),
                Replay::OneLevel(OneLevel { levels, .. }) => self.one_level = Some((levels, report)),
            }
        }
        Ok(())
    }

    /// What a budget buys of SSD beyond what VMs can use.
    fn about_spare_ssd(&self, load: &Load, host: &Host) -> Option<String> {
        let plan = &self.plan;
        let used_blocks = plan.of_level[Level::Ssd.index()].given_blocks;
        let used_bytes = used_blocks.saturating_mul(load.block_bytes);
        let life = |ssd_bytes: u64| {
            let levels = LevelBytes { ssd_bytes, ..plan.levels };
            WearReport::of_plan(load, host, &SizePlan { levels, ..plan.clone() }).life_years
        };
        let (spare_bytes, small, large) = (
            plan.levels.ssd_bytes.saturating_sub(used_bytes),
            life(used_bytes)?,
            life(plan.levels.ssd_bytes)?,
        );
        (self.front.is_some() && spare_bytes > 0).then(|| {
            format!(
                "{} of the SSD are bought for its life: it lasts {large:.2} years at least, and {} would last {small:.2}.",
                show_size(spare_bytes),
                show_size(used_bytes)
            )
        })
    }

    /// All of it as a report. `method` says how the curves were obtained, `merge` are the traces. Only `for_page` has it
    /// what [`crate::size_page`] shows for other sizes.
    pub fn report(
        &self,
        load: &Load,
        options: &SizeOptions,
        host: &Host,
        method: String,
        merge: &Merge,
        for_page: bool,
    ) -> SizeReport {
        let plan = &self.plan;
        let [dram, ssd] = plan.of_level.each_ref().map(LevelReport::from);
        let replayed = |(mode, report): &(&'static str, Report)| {
            ReplayedReport::new(load, host, plan.levels, mode, report)
        };
        let replayed: Vec<ReplayedReport> = self.replayed.iter().map(replayed).collect();
        let choice = choose(load, options, &self.replayed, &replayed);
        let taken = choice.as_ref().and_then(|choice| replayed.iter().find(|one| one.mode == choice.mode));
        let one_level = self
            .one_level
            .as_ref()
            .map(|(levels, report)| one_level::report(load, host, *levels, report, taken));
        let mut own: Vec<String> = taken.map(ReplayedReport::about_busy_devices).unwrap_or_default();
        own.extend(advice(load, plan, &self.totals, options));
        own.extend(self.about_spare_ssd(load, host));
        let everywhere = || {
            let asked = self.totals.of_level.each_ref().map(|sizes| sizes.asked);
            let mut all = advice_everywhere(load, plan, &self.totals, options);
            all[asked[0]][asked[1]].clone_from(&own);
            all
        };
        SizeReport {
            block_bytes: load.block_bytes,
            method,
            objective: options.objective.name(),
            devices: host.name.clone(),
            levels: plan.levels,
            dram,
            ssd,
            cost_usd: Prices::of(host).cost_usd(plan.levels),
            vms: VmSizeReport::all(load, plan),
            total: OutcomeReport::from(&plan.total),
            without_cache: OutcomeReport::from(&self.without_cache),
            wear: WearReport::of_plan(load, host, plan),
            ssd_rating: host.ssd.rating(),
            mode: choice.as_ref().map(|choice| choice.mode),
            mode_reason: choice.map(|choice| choice.reason),
            replayed,
            one_level,
            advice_at: for_page.then(everywhere),
            advice: own,
            totals: TotalsReport::new(load, &self.totals),
            front: self
                .front
                .as_ref()
                .map(|front| front.iter().map(|point| FrontReport::new(load, host, point)).collect()),
            shrinks: load.shrinks,
            inputs: merge.inputs(),
            warnings: Source::warnings(merge),
        }
    }
}

/// A scheme's settings: its defaults, and those that are `set`.
fn settings(
    scheme: &str,
    set: impl IntoIterator<Item = (&'static str, &'static str)>,
) -> Result<Settings, PlanError> {
    let mut settings = SchemeInfo::find(scheme).map_err(ReplayError::from)?.settings();
    for (key, value) in set {
        settings.set(key, value).map_err(ReplayError::from)?;
    }
    Ok(settings)
}
