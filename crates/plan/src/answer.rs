//! From a request for sizes to everything that there is to say of it. It must not know how it is shown.

use lode_hardware::Host;
use lode_policy::Settings;
use lode_replay::{Report, RequestStream, short_trace_warning};
use lode_trace::Merge;
use lode_types::{Level, show_size};

use crate::advice::{advice, advice_everywhere};
use crate::choice::Choice;
use crate::division::{
    Dividing, Outcome, SizeOptions, SizePlan, ToDivide, divide_one_level, granule_blocks, outcome_of_shares,
    outcome_without_cache, size, ssd_keeps,
};
use crate::error::PlanError;
use crate::front::{FrontPoint, Prices, best, front};
use crate::host_memory::HostMemory;
use crate::levels::LevelBytes;
use crate::load::{Load, SsdKeeps};
use crate::one_level::{self, OneLevel};
use crate::recommend::{RecommendedReport, Wish};
use crate::report::{
    FrontReport, LevelReport, OneLevelReport, OutcomeReport, ReplayedReport, SizeReport, TotalsReport,
    VmSizeReport, WearReport,
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

/// Levels divided for what their SSD keeps, and divisions of others.
#[derive(Clone, Debug)]
pub(crate) struct Divided {
    /// The VMs, with the curves of such an SSD.
    pub(crate) load: Load,
    /// The division.
    pub(crate) plan: SizePlan,
    /// Divisions of smaller and larger levels.
    totals: Totals,
}

impl Divided {
    fn new(load: Load, plan: SizePlan, options: &SizeOptions) -> Result<Divided, PlanError> {
        let totals = totals(&load, &plan, options)?;
        Ok(Divided { load, plan, totals })
    }

    /// What there is to say and to see with each of the sizes that a page offers, where `own` is what is said with those asked for.
    fn at_sizes(&self, options: &SizeOptions, own: &[String], recommended: &RecommendedReport) -> AtSizes {
        let asked = self.totals.of_level.each_ref().map(|sizes| sizes.asked);
        let mut advice = advice_everywhere(&self.load, &self.plan, &self.totals, options);
        // What is said of one level is not said of the two that a page's sliders divide.
        if recommended.is_of_two_levels() {
            advice[asked[0]][asked[1]] = own.to_vec();
        }
        AtSizes { advice, outcomes: self.outcomes_at(options) }
    }

    fn outcomes_at(&self, options: &SizeOptions) -> Option<Vec<Vec<Vec<OutcomeReport>>>> {
        let [drams, ssds] = self.totals.of_level.each_ref().map(|sizes| &sizes.shares_blocks);
        let all = drams.len() * ssds.len() * self.load.vms.len();
        let vms = |dram: &[u64], ssd: &[u64]| -> Vec<OutcomeReport> {
            let shares = dram.iter().zip(ssd).map(|(&dram, &ssd)| [dram, ssd]);
            let outcome = |(vm, shares)| OutcomeReport::from(&outcome_of_shares(vm, shares, options));
            self.load.vms.iter().zip(shares).map(outcome).collect()
        };
        let row = |dram: &Vec<u64>| ssds.iter().map(|ssd| vms(dram, ssd)).collect();
        (all <= MAX_PAGE_OUTCOMES).then(|| drams.iter().map(row).collect())
    }

    /// Blocks of each VM, by [`Level::index`].
    pub(crate) fn shares(&self) -> Vec<[u64; 2]> {
        self.plan.vms.iter().map(|vm| vm.share_blocks).collect()
    }
}

/// What a page shows of two levels of each of the sizes that it offers.
struct AtSizes {
    advice: Vec<Vec<Vec<String>>>,
    /// What each VM would see; none where that is too much for a page.
    outcomes: Option<Vec<Vec<Vec<OutcomeReport>>>>,
}

/// Levels, divided for each of the schemes that may serve them, and what leads to that and away from it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What there was to divide.
    pub means: Means,
    /// The same levels, divided for each thing that an SSD may keep; what comes first is taken where nothing is known to be better.
    divided: Vec<Divided>,
    /// With a budget, what no other pair of sizes beats, by the curves of what comes first.
    front: Option<Vec<FrontPoint>>,
    /// What VMs would see without any cache.
    pub without_cache: Outcome,
    /// What the plan led to when it was replayed, by what served it; none if it was not.
    pub replayed: Vec<(TwoLevels, Report)>,
    /// What one SSD level for the plan's money led to, with what that level is; none if it was not replayed, or where the
    /// money buys no block.
    pub one_level: Option<(LevelBytes, Report)>,
    /// The same of `auto` on one level of that size; none if it was not replayed.
    pub(crate) one_level_of_auto: Option<Report>,
    /// What there is without any cache; none if that was not replayed.
    pub uncached: Option<Report>,
    /// Which scheme the plan is for.
    pub(crate) wish: Wish,
    /// How it was divided.
    pub(crate) options: SizeOptions,
}

/// Finds the best division for each of the schemes that may serve it. Of a budget's front, that is [`best`].
///
/// # Errors
/// Those of [`size`] and [`front`].
pub fn answer(load: &Load, means: Means, wish: Wish, options: &SizeOptions) -> Result<Answer, PlanError> {
    let mut kept: Vec<SsdKeeps> = Vec::new();
    for served in TwoLevels::wished(&wish) {
        let keeps = ssd_keeps(served.ssd_keeps(), options.solver);
        kept.extend((!kept.contains(&keeps)).then_some(keeps));
    }
    let mut loads = kept.into_iter().map(|keeps| load.with_ssd_that_keeps(keeps));
    let first = loads.next().unwrap_or_else(|| load.clone());
    let (plan, front) = match means {
        Means::Levels(levels) => (size(&first, levels, options)?, None),
        Means::Budget { usd, prices } => {
            let front = front(&first, &prices, usd, options)?;
            let plan = match best(&front) {
                // What was bought to last is there for whoever has a use for it.
                Some(point) => size(&first, point.plan.levels, options)?,
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
    let levels = plan.levels;
    let mut divided = vec![Divided::new(first, plan, options)?];
    for load in loads {
        match size(&load, levels, options) {
            Ok(plan) => divided.push(Divided::new(load, plan, options)?),
            // What an objective guarantees by these curves does not fit: see [`Answer::divided_for`].
            Err(PlanError::Request(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Answer {
        means,
        divided,
        front,
        without_cache,
        replayed: Vec::new(),
        one_level: None,
        one_level_of_auto: None,
        uncached: None,
        wish,
        options: options.clone(),
    })
}

impl Answer {
    /// The division that is taken where nothing is known to be better.
    pub fn plan(&self) -> &SizePlan {
        &self.first().plan
    }

    /// The division that a scheme is replayed and served with.
    pub fn plan_for(&self, served: TwoLevels) -> &SizePlan {
        &self.divided_for(served).plan
    }

    fn first(&self) -> &Divided {
        &self.divided[0]
    }

    /// The division that suits a scheme best; the first where what the objective guarantees does not fit by its own curves.
    pub(crate) fn divided_for(&self, served: TwoLevels) -> &Divided {
        let keeps = ssd_keeps(served.ssd_keeps(), self.options.solver);
        self.divided.iter().find(|one| one.load.ssd_keeps() == keeps).unwrap_or(self.first())
    }

    /// How often traces are read for the replays of a plan at most: once for each scheme that serves both levels, once for each that
    /// may serve one SSD level for the same money, and once without a cache.
    pub fn replays(&self) -> usize {
        TwoLevels::wished(&self.wish).len() + 2 + usize::from(self.may_be_one_level_of_auto())
    }

    /// Whether `auto` on one level may take the place of the plan, and is not what the plan has already.
    fn may_be_one_level_of_auto(&self) -> bool {
        matches!(self.wish, Wish::Best) && self.may_be_one_level() && self.plan().levels.dram_bytes > 0
    }

    /// The scheme that one SSD level has.
    pub(crate) fn one_level_settings(&self) -> Result<Settings, PlanError> {
        match &self.wish {
            Wish::OneLevel(settings) => Ok(settings.clone()),
            Wish::Best | Wish::Auto | Wish::Etica => settings(one_level::SCHEME, one_level::SETTINGS),
        }
    }

    /// The SSD level that the plan's money buys, divided as suits it best; none where that is less than a block.
    pub(crate) fn money_on_one_level(&self, host: &Host) -> Option<OneLevel> {
        let load = &self.first().load;
        let by_cost = self.one_level_by_cost(host)?;
        let is_meant = self.one_level_keeps_rules() || matches!(self.wish, Wish::OneLevel(_));
        if !is_meant || by_cost.shares.len() < 2 {
            return Some(by_cost);
        }
        // Guarantees of the objective may not fit by its curves.
        let blocks = by_cost.levels.ssd_bytes / load.block_bytes;
        let by_curves = divide_one_level(load, blocks, &self.options).ok();
        Some(by_cost.divided_as(by_curves.as_deref()))
    }

    /// The same level, divided as suits `auto`.
    pub(crate) fn money_on_one_level_of_auto(&self, host: &Host) -> Option<OneLevel> {
        let by_cost = self.one_level_by_cost(host).filter(|_| self.may_be_one_level_of_auto())?;
        let load = self.first().load.with_ssd_that_keeps(SsdKeeps::Accessed);
        let alone = ToDivide::new(&load, Dividing::Ssd { behind: &[] }, &self.options, true);
        // Guarantees of the objective may not fit by its curves.
        let (_, division) = alone.try_to_divide(by_cost.levels.ssd_bytes).ok()?;
        Some(by_cost.divided_as(Some(&division.sizes)))
    }

    /// The level where each VM has what its shares of both cost.
    fn one_level_by_cost(&self, host: &Host) -> Option<OneLevel> {
        let Divided { load, plan, .. } = self.first();
        let blocks = (load.block_bytes, granule_blocks(load.block_bytes, &self.options));
        OneLevel::for_money_of(plan.levels, &self.first().shares(), &Prices::of(host), blocks)
    }

    /// What one level led to, and what it led to with `auto`.
    fn one_levels(
        &self,
        load: &Load,
        host: &Host,
        taken: Option<&ReplayedReport>,
    ) -> Result<[Option<OneLevelReport>; 2], PlanError> {
        let told = |replayed: Option<&Report>, level: Option<OneLevel>, settings: Settings| {
            let told = |(report, level)| one_level::report(load, host, (&settings, level), report, taken);
            replayed.zip(level).map(told)
        };
        let replayed = self.one_level.as_ref().map(|(_, report)| report);
        let (of_auto, level) = (self.one_level_of_auto.as_ref(), self.money_on_one_level_of_auto(host));
        Ok([
            told(replayed, self.money_on_one_level(host), self.one_level_settings()?),
            told(of_auto, level, TwoLevels::Auto.settings()?),
        ])
    }

    /// What a budget buys of SSD beyond what VMs can use.
    fn about_spare_ssd(&self, Divided { load, plan, .. }: &Divided, host: &Host) -> Option<String> {
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
        if TwoLevels::wish_for(&recommended.scheme).is_none() || more < NOTABLE_TABLES_BYTES {
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
        (self.plan().levels.ssd_bytes > 0).then(|| short_trace_warning(shortest_ns)).flatten()
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
        divided: &Divided,
        host: &Host,
        options: &SizeOptions,
        recommended: &RecommendedReport,
    ) -> Vec<String> {
        let Divided { load, plan, totals } = divided;
        let mut own = recommended.about_busy_devices();
        own.extend(self.about_tables(load, host, recommended));
        if recommended.is_of_two_levels() {
            own.extend(advice(load, plan, totals, options));
            own.extend(self.about_spare_ssd(divided, host));
        }
        own.extend(self.about_too_little_money(load, options));
        own
    }

    /// What each scheme that the plan was replayed with led to, with the shares that suit it.
    fn replayed_report(&self, host: &Host) -> Result<Vec<ReplayedReport>, PlanError> {
        let one = |(served, report): &(TwoLevels, Report)| {
            ReplayedReport::new(host, self.divided_for(*served), *served, report)
        };
        self.of_two_levels().map(one).collect()
    }

    /// The one of `replayed` that stands for both levels, and why it is taken: what is recommended, or where that is one level the best.
    fn taken(
        &self,
        load: &Load,
        host: &Host,
        options: &SizeOptions,
        (replayed, recommended): (&[ReplayedReport], &RecommendedReport),
    ) -> Option<Choice> {
        let is_recommended =
            |one: &ReplayedReport| recommended.is_of_two_levels() && one.label == recommended.label;
        match replayed.iter().position(is_recommended) {
            Some(at) => Some(Choice { at, reason: recommended.reason.clone() }),
            None => self.best_of_two_levels(load, host, options),
        }
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
        let replayed = self.replayed_report(host)?;
        let recommended = self.recommended(load, host, options)?;
        let choice = self.taken(load, host, options, (&replayed, &recommended));
        let taken = choice.as_ref().and_then(|choice| replayed.get(choice.at));
        // Everything that is told of two levels is of what is taken of them.
        let served = choice.as_ref().and_then(|choice| Some(self.of_two_levels().nth(choice.at)?.0));
        let divided = served.map_or(self.first(), |served| self.divided_for(served));
        let Divided { load, plan, totals } = divided;
        let [dram, ssd] = plan.of_level.each_ref().map(LevelReport::from);
        let [one_level, one_level_of_auto] = self.one_levels(load, host, taken)?;
        let own = self.advice(divided, host, options, &recommended);
        let for_page = for_page.then(|| divided.at_sizes(options, &own, &recommended));
        let (advice_at, outcomes_at) = for_page.map_or((None, None), |at| (Some(at.advice), at.outcomes));
        Ok(SizeReport {
            block_bytes: load.block_bytes,
            granule_bytes: options.granule_bytes,
            method,
            objective: options.objective.name(),
            devices: host.name.clone(),
            levels: plan.levels,
            ssd_keeps: load.ssd_keeps(),
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
            one_level_of_auto,
            not_replayed: None,
            advice_at,
            outcomes_at,
            advice: own,
            totals: TotalsReport::new(load, totals, &Prices::of(host)),
            front: self
                .front
                .as_ref()
                .map(|front| front.iter().map(|point| FrontReport::new(load, host, point)).collect()),
            shrinks: load.shrinks,
            inputs: merge.inputs(),
            warnings: RequestStream::warnings(merge)
                .into_iter()
                .chain(totals.warnings())
                .chain(self.about_short_trace(load))
                .collect(),
        })
    }
}
