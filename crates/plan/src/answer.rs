//! From a request for sizes to everything that there is to say of it. It must not know how it is shown.

use lode_hardware::Host;
use lode_policy::{Settings, UNDIVIDED};
use lode_replay::{Report, RequestStream, short_trace_warning};
use lode_trace::Merge;
use lode_types::{Level, show_size};

use crate::advice::{advice, advice_everywhere};
use crate::division::{
    Outcome, SizeOptions, SizePlan, granule_blocks, outcome_of_shares, outcome_without_cache, size,
};
use crate::error::PlanError;
use crate::front::{FrontPoint, Prices, best, front};
use crate::levels::LevelBytes;
use crate::load::Load;
use crate::one_level::{self, OneLevel};
use crate::recommend::{RecommendedReport, Wish, label_of};
use crate::report::{
    FrontReport, LevelReport, OutcomeReport, ReplayedReport, SizeReport, TotalsReport, VmSizeReport,
    WearReport,
};
use crate::served::settings;
use crate::totals::{Totals, totals};
use crate::words::show_usd;

/// The scheme that serves a plan.
pub const SCHEME: &str = "etica";

/// Its settings with which a plan is replayed and served: shares stay as planned, and sets do not divide them, as the
/// curves are those of undivided caches.
pub const PLAN_SETTINGS: [(&str, &str); 2] = [("sizing", "off"), UNDIVIDED];

/// Its modes that are worth a choice: what a full SSD does with writes to blocks that it does not hold. The first turns
/// them away, which spares the SSD; the second takes them all.
pub const MODES: [&str; 2] = ["full-hybrid", "npe"];

/// How often traces are read for the replays of a plan: once for each of [`MODES`], once for one SSD level for the same money and
/// once for the curves that it is divided by, and once without a cache.
pub const REPLAYS: usize = MODES.len() + 3;

/// Most outcomes of single VMs, at all sizes that a page offers, that it has: half a megabyte.
const MAX_PAGE_OUTCOMES: usize = 20_000;

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
    /// What there was to divide.
    pub means: Means,
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
    /// What there is without any cache; none if that was not replayed.
    pub uncached: Option<Report>,
    /// Which scheme the plan shall be for.
    pub wish: Wish,
    /// Blocks that each VM has of that level, by the curves of one level; none where these were not measured.
    pub(crate) one_level_blocks: Option<Vec<u64>>,
    /// How it was divided.
    pub(crate) options: SizeOptions,
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
    let totals = totals(load, &plan, options)?;
    Ok(Answer {
        means,
        plan,
        totals,
        front,
        without_cache,
        replayed: Vec::new(),
        one_level: None,
        uncached: None,
        wish: Wish::default(),
        one_level_blocks: None,
        options: options.clone(),
    })
}

impl Answer {
    /// The scheme that one SSD level has.
    pub(crate) fn one_level_settings(&self) -> Result<Settings, PlanError> {
        match &self.wish {
            Wish::OneLevel(settings) => Ok(settings.clone()),
            Wish::Best | Wish::TwoLevels => settings(one_level::SCHEME, one_level::SETTINGS),
        }
    }

    /// The SSD level that the plan's money buys; none where that is less than a block.
    pub(crate) fn money_on_one_level(&self, block_bytes: u64, host: &Host) -> Option<OneLevel> {
        let shares: Vec<[u64; 2]> = self.plan.vms.iter().map(|vm| vm.share_blocks).collect();
        let granule_blocks = granule_blocks(block_bytes, &self.options);
        let blocks = (block_bytes, granule_blocks);
        let by_cost = OneLevel::for_money_of(self.plan.levels, &shares, &Prices::of(host), blocks)?;
        Some(by_cost.divided_as(self.one_level_blocks.as_deref()))
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

    /// That years are told of a trace that is short, where they are.
    fn about_short_trace(&self, load: &Load) -> Option<String> {
        let shortest_ns = load.vms.iter().map(|vm| vm.span_ns).min().filter(|&ns| ns > 0)?;
        (self.plan.levels.ssd_bytes > 0).then(|| short_trace_warning(shortest_ns)).flatten()
    }

    /// That the budget buys no share of either level.
    fn about_too_little_money(&self, load: &Load, options: &SizeOptions) -> Option<String> {
        let Means::Budget { usd, prices } = self.means else { return None };
        let share_bytes = options.granule_bytes.max(load.block_bytes);
        let price_of = |level: Level| prices.cost_usd(LevelBytes::default().with(level, share_bytes));
        let is_too_little = Level::SIZED.into_iter().all(|level| usd < price_of(level));
        is_too_little.then(|| {
            let [dram, ssd] = Level::SIZED.map(|level| show_usd(price_of(level)));
            format!(
                "{usd} usd buy nothing: the smallest share, {}, costs {ssd} usd of SSD and {dram} usd of DRAM.",
                show_size(share_bytes)
            )
        })
    }

    /// What there is to say of what is recommended.
    fn advice(
        &self,
        load: &Load,
        host: &Host,
        options: &SizeOptions,
        recommended: &RecommendedReport,
    ) -> Vec<String> {
        let mut own = recommended.about_busy_devices();
        if recommended.scheme == SCHEME {
            own.extend(advice(load, &self.plan, &self.totals, options));
            own.extend(self.about_spare_ssd(load, host));
        }
        own.extend(self.about_too_little_money(load, options));
        own
    }

    /// The same for two levels of each of the sizes that a page offers.
    fn advice_at(
        &self,
        load: &Load,
        options: &SizeOptions,
        own: &[String],
        recommended: &RecommendedReport,
    ) -> Vec<Vec<Vec<String>>> {
        let asked = self.totals.of_level.each_ref().map(|sizes| sizes.asked);
        let mut all = advice_everywhere(load, &self.plan, &self.totals, options);
        // What is said of one level is not said of the two that a page's sliders divide.
        if recommended.scheme == SCHEME {
            all[asked[0]][asked[1]] = own.to_vec();
        }
        all
    }

    /// What each VM would see at each of these sizes, unless that is too much for a page.
    fn outcomes_at(&self, load: &Load, options: &SizeOptions) -> Option<Vec<Vec<Vec<OutcomeReport>>>> {
        let [drams, ssds] = self.totals.of_level.each_ref().map(|sizes| &sizes.shares_blocks);
        let all = drams.len() * ssds.len() * load.vms.len();
        let vms = |dram: &[u64], ssd: &[u64]| -> Vec<OutcomeReport> {
            let shares = dram.iter().zip(ssd).map(|(&dram, &ssd)| [dram, ssd]);
            let outcome = |(vm, shares)| OutcomeReport::from(&outcome_of_shares(vm, shares, options));
            load.vms.iter().zip(shares).map(outcome).collect()
        };
        let row = |dram: &Vec<u64>| ssds.iter().map(|ssd| vms(dram, ssd)).collect();
        (all <= MAX_PAGE_OUTCOMES).then(|| drams.iter().map(row).collect())
    }

    /// All of it as a report. `method` says how the curves were obtained, `merge` are the traces. Only `for_page` has it
    /// what [`crate::size_page`] shows for other sizes.
    ///
    /// # Errors
    /// [`PlanError::Request`] where the money does not buy the one level that was wished for.
    pub fn report(
        &self,
        load: &Load,
        options: &SizeOptions,
        host: &Host,
        method: String,
        merge: &Merge,
        for_page: bool,
    ) -> Result<SizeReport, PlanError> {
        let plan = &self.plan;
        let [dram, ssd] = plan.of_level.each_ref().map(LevelReport::from);
        let replayed = |(mode, report): &(&'static str, Report)| {
            ReplayedReport::new(load, host, plan.levels, mode, report)
        };
        let replayed: Vec<ReplayedReport> = self.replayed.iter().map(replayed).collect();
        let choice = self.mode(load, host, options);
        let taken = choice.as_ref().and_then(|(mode, _)| replayed.iter().find(|one| one.mode == *mode));
        let recommended = self.recommended(load, host, options)?;
        let label = label_of(&self.one_level_settings()?);
        let replayed_level = self.one_level.as_ref().zip(self.money_on_one_level(load.block_bytes, host));
        let one_level = replayed_level.map(|((_, report), level)| {
            let by_curves = self.one_level_blocks.is_some();
            one_level::report(load, host, (label, level, by_curves), report, taken)
        });
        let own = self.advice(load, host, options, &recommended);
        let advice_at = for_page.then(|| self.advice_at(load, options, &own, &recommended));
        Ok(SizeReport {
            block_bytes: load.block_bytes,
            granule_bytes: options.granule_bytes,
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
            drive: host.drive.clone(),
            recommended,
            without_cache_us: self.without_cache_us(),
            mode: choice.as_ref().map(|(mode, _)| *mode),
            mode_reason: choice.map(|(_, reason)| reason),
            replayed,
            one_level,
            not_replayed: None,
            advice_at,
            outcomes_at: if for_page { self.outcomes_at(load, options) } else { None },
            advice: own,
            totals: TotalsReport::new(load, &self.totals, &Prices::of(host)),
            front: self
                .front
                .as_ref()
                .map(|front| front.iter().map(|point| FrontReport::new(load, host, point)).collect()),
            shrinks: load.shrinks,
            inputs: merge.inputs(),
            warnings: RequestStream::warnings(merge)
                .into_iter()
                .chain(self.totals.warnings())
                .chain(self.about_short_trace(load))
                .collect(),
        })
    }
}
