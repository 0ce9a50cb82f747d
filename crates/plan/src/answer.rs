//! From a request for sizes to everything that there is to say of it. It must not know how it is shown.

use lode_hardware::Host;
use lode_policy::Settings;
use lode_replay::{Report, RequestStream, short_trace_warning};
use lode_trace::Merge;
use lode_types::{Level, show_size};

use crate::advice::{advice, advice_everywhere};
use crate::division::{
    Outcome, SizeOptions, SizePlan, granule_blocks, outcome_of_shares, outcome_without_cache, size,
};
use crate::error::PlanError;
use crate::front::{FrontPoint, Prices, best, front};
use crate::host_memory::HostMemory;
use crate::levels::LevelBytes;
use crate::load::Load;
use crate::one_level::{self, OneLevel};
use crate::recommend::{RecommendedReport, Wish};
use crate::report::{
    FrontReport, LevelReport, OutcomeReport, ReplayedReport, SizeReport, TotalsReport, VmSizeReport,
    WearReport,
};
use crate::served::settings;
use crate::totals::{Totals, totals};
use crate::two_levels::TwoLevels;
use crate::words::show_usd;

/// Host memory for tables that is worth a sentence.
const NOTABLE_TABLES_BYTES: u64 = 256 << 20;

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
    /// What the plan led to when it was replayed, by what served it; none if it was not.
    pub replayed: Vec<(TwoLevels, Report)>,
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
    /// How often traces are read for the replays of a plan: once for each scheme that serves both levels, once for one SSD level
    /// for the same money and once for the curves that it is divided by, and once without a cache.
    pub fn replays(&self) -> usize {
        TwoLevels::wished(&self.wish).len() + 3
    }

    /// The scheme that one SSD level has.
    pub(crate) fn one_level_settings(&self) -> Result<Settings, PlanError> {
        match &self.wish {
            Wish::OneLevel(settings) => Ok(settings.clone()),
            Wish::Best | Wish::Auto | Wish::Etica => settings(one_level::SCHEME, one_level::SETTINGS),
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

    /// That tables of what is recommended take much more of the host's memory than those of `etica` would: memory that others
    /// divide as a cache.
    fn about_tables(&self, load: &Load, host: &Host, recommended: &RecommendedReport) -> Option<String> {
        let shares: Vec<[u64; 2]> =
            recommended.vms.iter().map(|vm| Level::SIZED.map(|level| vm.share.of(level))).collect();
        let tables_of = |served: TwoLevels| {
            Some(HostMemory::of(&served.settings().ok()?, load.block_bytes, &shares)?.tables_bytes)
        };
        let (etica, leanest) = TwoLevels::etica()
            .into_iter()
            .filter_map(|etica| Some((etica, tables_of(etica)?)))
            .min_by_key(|&(_, bytes)| bytes)?;
        let own = recommended.host_memory?.tables_bytes;
        let more = own.saturating_sub(leanest);
        if !recommended.is_of_two_levels() || more < NOTABLE_TABLES_BYTES {
            return None;
        }
        let levels = LevelBytes { dram_bytes: more, ..LevelBytes::default() };
        Some(format!(
            "Tables of {} take at most {} of host memory beside the levels, {} more than those of {}; as DRAM that would cost {} usd.",
            recommended.label,
            show_size(own),
            show_size(more),
            etica.called(),
            show_usd(Prices::of(host).cost_usd(levels)),
        ))
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
        own.extend(self.about_tables(load, host, recommended));
        if recommended.is_of_two_levels() {
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
        if recommended.is_of_two_levels() {
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

    /// What the plan led to with each scheme that it was replayed with.
    fn replayed_report(&self, load: &Load, host: &Host) -> Result<Vec<ReplayedReport>, PlanError> {
        let shares: Vec<[u64; 2]> = self.plan.vms.iter().map(|vm| vm.share_blocks).collect();
        let one = |(served, report): &(TwoLevels, Report)| {
            let host_memory = HostMemory::of(&served.settings()?, load.block_bytes, &shares);
            ReplayedReport::new(load, host, self.plan.levels, (*served, host_memory), report)
        };
        self.of_two_levels().map(one).collect()
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
        let choice = self.best_of_two_levels(load, host, options);
        let replayed = self.replayed_report(load, host)?;
        let taken = choice.as_ref().and_then(|choice| replayed.get(choice.at));
        let recommended = self.recommended(load, host, options)?;
        let settings = self.one_level_settings()?;
        let replayed_level = self.one_level.as_ref().zip(self.money_on_one_level(load.block_bytes, host));
        let one_level = replayed_level.map(|((_, report), level)| {
            let by_curves = self.one_level_blocks.is_some();
            one_level::report(load, host, (&settings, level, by_curves), report, taken)
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
            two_levels: taken.map(|taken| taken.label.clone()),
            mode: taken.and_then(|taken| taken.mode),
            mode_reason: choice.map(|choice| choice.reason),
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
