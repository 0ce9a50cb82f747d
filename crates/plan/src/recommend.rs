//! What to serve in the end: the plan's two levels, with one scheme or another, or one level for the same money where that is better. It must not know how
//! either came about.

use std::collections::BTreeMap;

use lode_hardware::{Drives, Host, Utilisation};
use lode_policy::{DEFAULT_SCHEME, SchemeInfo, Settings};
use lode_replay::Report;
use lode_types::{Level, show_size};
use serde::Serialize;

use crate::answer::{Answer, Means};
use crate::choice::{Candidate, Choice, choose};
use crate::division::SizeOptions;
use crate::error::PlanError;
use crate::front::Prices;
use crate::host_memory::HostMemory;
use crate::levels::{LevelBlockCounts, LevelBytes};
use crate::load::{Load, VmLoad};
use crate::one_level::OneLevel;
use crate::report::{ReplayFigures, WearReport};
use crate::two_levels::TwoLevels;
use crate::words::{show_life, show_usd};

/// Which scheme a plan shall be for.
#[derive(Clone, Debug, Default)]
pub enum Wish {
    /// Both levels with `auto`, unless `etica`, or one SSD level for the same money with `auto` or `lru`, is better when they are
    /// replayed.
    #[default]
    Best,
    /// Both levels, with `auto`.
    Auto,
    /// Both levels, with `etica`.
    Etica,
    /// One SSD level for the same money, with this scheme.
    OneLevel(Settings),
}

/// What to serve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecommendedReport {
    /// The scheme with those of its settings that are not at their defaults, as `lode compare` calls it.
    pub label: String,
    /// The scheme.
    pub scheme: String,
    /// Its settings that are not at their defaults.
    pub settings: BTreeMap<String, String>,
    /// The levels.
    pub levels: LevelBytes,
    /// Their price.
    pub cost_usd: f64,
    /// Each VM, in the plan's order.
    pub vms: Vec<RecommendedVm>,
    /// Share of the block reads that the levels serve; none without reads or a replay.
    pub read_hit_ratio: Option<f64>,
    /// Mean time of a request; none without requests or a replay.
    pub mean_latency_us: Option<f64>,
    /// What writing does to the SSD; none without a replay.
    pub wear: Option<WearReport>,
    /// Host memory that it takes at most when it is served; none for shares of more blocks than a cache can have.
    pub host_memory: Option<HostMemory>,
    /// Shares of the traces' span that the devices would work; none without a span or a replay.
    pub utilisation: Option<Utilisation>,
    /// Why this, as a part of a sentence.
    pub reason: String,
    /// All of it in one sentence.
    pub sentence: String,
    /// The scheme, and where that could have both levels whether it has one, as `reason` calls others.
    #[serde(skip)]
    pub called: String,
    /// Whether it is one level for the plan's money, and not the plan.
    #[serde(skip)]
    pub(crate) is_one_level: bool,
}

/// One VM's part of what to serve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecommendedVm {
    /// Its name.
    pub name: String,
    /// What it gets.
    pub share: LevelBlockCounts,
    /// Share of its block reads that the levels serve; none without reads or a replay.
    pub read_hit_ratio: Option<f64>,
    /// Mean time of its requests; none without requests or a replay.
    pub mean_latency_us: Option<f64>,
}

impl RecommendedReport {
    /// Whether it is the plan, and not one level for its money.
    pub fn is_of_two_levels(&self) -> bool {
        !self.is_one_level
    }

    /// That devices could not keep up, in sentences.
    pub(crate) fn about_busy_devices(&self) -> Vec<String> {
        let Some(Utilisation { ssd, backing, .. }) = self.utilisation else { return Vec::new() };
        let mut sentences = Vec::new();
        if backing > 1.0 {
            sentences.push(format!(
                "The backing disks could not keep up: with {} they would work {backing:.2} times as long as the traces \
                 take, each block that is written back being a write of its own; no latency here counts waiting for them.",
                self.label
            ));
        }
        if ssd > 1.0 {
            sentences.push(format!(
                "The SSD could not keep up: with {} it would work {ssd:.2} times as long as the traces take.",
                self.label
            ));
        }
        sentences
    }
}

/// What can be served.
struct Way<'a> {
    settings: Settings,
    /// It is one level for the plan's money.
    is_one_level: bool,
    levels: LevelBytes,
    /// By [`Level::index`], of each VM.
    shares_blocks: Vec<[u64; 2]>,
    replayed: Option<&'a Report>,
}

impl<'a> Way<'a> {
    fn of_one_level(settings: Settings, level: OneLevel, replayed: Option<&'a Report>) -> Way<'a> {
        let OneLevel { levels, shares, .. } = level;
        let shares_blocks = shares.iter().map(|share| [0, u64::from(share.ssd_blocks)]).collect();
        Way { settings, is_one_level: true, levels, shares_blocks, replayed }
    }

    /// It is of what runs where nobody chooses.
    fn is_default(&self) -> bool {
        self.settings.scheme() == DEFAULT_SCHEME
    }

    /// What it is called beside others.
    fn name(&self) -> String {
        let label = label_of(&self.settings);
        let is_either = self.is_one_level && TwoLevels::wish_for(self.settings.scheme()).is_some();
        if is_either { format!("{label} on one SSD level") } else { label }
    }
}

impl Answer {
    /// Which of the replays of both levels was best, and why.
    pub(crate) fn best_of_two_levels(
        &self,
        load: &Load,
        host: &Host,
        options: &SizeOptions,
    ) -> Option<Choice> {
        chosen(load, host, options, &self.two_levels().ok()?)
    }

    /// What to serve.
    pub(crate) fn recommended(
        &self,
        load: &Load,
        host: &Host,
        options: &SizeOptions,
    ) -> Result<RecommendedReport, PlanError> {
        let ways = match &self.wish {
            Wish::Auto | Wish::Etica => self.two_levels()?,
            Wish::OneLevel(_) => vec![self.one_level_way(host)?.ok_or_else(too_little_money)?],
            Wish::Best if self.may_be_one_level() => {
                // What was not replayed is not recommended unasked. The default comes first, and then the simplest.
                let mut ways = self.two_levels()?;
                let one = self.one_level_way(host)?.filter(|way| way.replayed.is_some());
                let defaults = ways.iter().take_while(|way| way.is_default()).count();
                ways.splice(defaults..defaults, one.into_iter().chain(self.one_level_of_auto_way(host)?));
                ways
            }
            Wish::Best => self.two_levels()?,
        };
        let choice = chosen(load, host, options, &ways).unwrap_or_else(|| Choice {
            at: 0,
            reason: "it was not replayed, so that nothing is known to be better or worse".to_owned(),
        });
        let way = &ways[choice.at];
        Ok(self.report_of(load, host, way, choice.reason))
    }

    /// The replays of both levels with what is wished for.
    pub(crate) fn of_two_levels(&self) -> impl Iterator<Item = &(TwoLevels, Report)> {
        let wished = TwoLevels::wished(&self.wish);
        self.replayed.iter().filter(move |(served, _)| wished.contains(served))
    }

    /// Whether no rule says what one level cannot keep.
    pub(crate) fn one_level_keeps_rules(&self) -> bool {
        self.options.rules.iter().all(|rule| {
            rule.dram_bytes.0.unwrap_or(0) == 0 && rule.ssd_bytes.1.is_none() && rule.dram_bytes.1.is_none()
        })
    }

    /// Whether one level could take the place of both: there is an SSD to have, and it can keep the rules.
    pub(crate) fn may_be_one_level(&self) -> bool {
        self.one_level_keeps_rules()
            && (self.plan().levels.ssd_bytes > 0 || matches!(self.means, Means::Budget { .. }))
    }

    /// Both levels with each scheme that was replayed; where none was, with the one that comes first.
    fn two_levels(&self) -> Result<Vec<Way<'_>>, PlanError> {
        let way = |served: TwoLevels, replayed| {
            Ok(Way {
                settings: served.settings()?,
                is_one_level: false,
                levels: self.plan_for(served).levels,
                shares_blocks: self.divided_for(served).shares(),
                replayed,
            })
        };
        match &self.of_two_levels().collect::<Vec<_>>()[..] {
            [] => TwoLevels::wished(&self.wish).into_iter().take(1).map(|served| way(served, None)).collect(),
            replayed => replayed.iter().map(|(served, report)| way(*served, Some(report))).collect(),
        }
    }

    /// One SSD level for the money of both, where that buys any.
    fn one_level_way(&self, host: &Host) -> Result<Option<Way<'_>>, PlanError> {
        let settings = self.one_level_settings()?;
        let replayed = self.one_level.as_ref().map(|(_, report)| report);
        Ok(self.money_on_one_level(host).map(|level| Way::of_one_level(settings, level, replayed)))
    }

    /// The same with `auto`, where it was replayed.
    fn one_level_of_auto_way(&self, host: &Host) -> Result<Option<Way<'_>>, PlanError> {
        let Some(replayed) = &self.one_level_of_auto else { return Ok(None) };
        let settings = TwoLevels::Auto.settings()?;
        let level = self.money_on_one_level_of_auto(host);
        Ok(level.map(|level| Way::of_one_level(settings, level, Some(replayed))))
    }

    fn report_of(&self, load: &Load, host: &Host, way: &Way<'_>, reason: String) -> RecommendedReport {
        let figures = way.replayed.map(|report| ReplayFigures::of(load, host, way.levels, report));
        let vm = |(at, vm): (usize, &VmLoad)| {
            let counts = way.replayed.and_then(|report| report.vms.get(at)).map(|vm| &vm.counts);
            let hit_ratio = counts.and_then(|counts| {
                let reads = counts.counters.block_reads;
                (reads > 0).then(|| counts.counters.read_hits.total() as f64 / reads as f64)
            });
            RecommendedVm {
                name: vm.facts.name.clone(),
                share: way.shares_blocks[at].into(),
                read_hit_ratio: hit_ratio,
                mean_latency_us: counts.and_then(|counts| counts.mean_latency_us),
            }
        };
        let mut report = RecommendedReport {
            label: label_of(&way.settings),
            scheme: way.settings.scheme().to_owned(),
            settings: unusual(&way.settings).map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            levels: way.levels,
            cost_usd: Prices::of(host).cost_usd(way.levels),
            vms: load.vms.iter().enumerate().map(vm).collect(),
            read_hit_ratio: figures.as_ref().and_then(|figures| figures.read_hit_ratio),
            mean_latency_us: figures.as_ref().and_then(|figures| figures.mean_latency_us),
            utilisation: figures.as_ref().and_then(|figures| figures.utilisation),
            wear: figures.map(|figures| figures.wear),
            host_memory: HostMemory::of(&way.settings, load.block_bytes, &way.shares_blocks),
            reason,
            sentence: String::new(),
            called: way.name(),
            is_one_level: way.is_one_level,
        };
        report.sentence = sentence(&report, self.without_cache_us());
        report
    }

    /// Mean time of a request without any cache, replayed.
    pub(crate) fn without_cache_us(&self) -> Option<f64> {
        self.uncached.as_ref()?.total.mean_latency_us
    }
}

/// The best of the ways that were replayed, and why; none where one was not.
fn chosen(load: &Load, host: &Host, options: &SizeOptions, ways: &[Way<'_>]) -> Option<Choice> {
    let mut candidates = Vec::with_capacity(ways.len());
    for way in ways {
        let report = way.replayed?;
        let wear = ReplayFigures::of(load, host, way.levels, report).wear;
        candidates.push(Candidate { name: way.name(), is_default: way.is_default(), report, wear });
    }
    choose(load, options, &candidates)
}

fn too_little_money() -> PlanError {
    let message = "The money of these levels does not buy a block of SSD; give more, or leave --scheme out";
    PlanError::Request(message.to_owned())
}

/// Settings that are not at their defaults.
fn unusual(settings: &Settings) -> impl Iterator<Item = (&'static str, &str)> {
    let defaults = SchemeInfo::find(settings.scheme()).ok().map(SchemeInfo::settings);
    let is_default =
        move |key: &str, value: &str| defaults.as_ref().is_some_and(|defaults| defaults.text(key) == value);
    settings.values().filter(move |(key, value)| !is_default(key, value))
}

/// A scheme with its settings that are not at their defaults, as `lode compare` calls it.
pub(crate) fn label_of(settings: &Settings) -> String {
    unusual(settings)
        .fold(settings.scheme().to_owned(), |label, (key, value)| format!("{label}:{key}={value}"))
}

/// What whoever pays for it wants to know.
fn sentence(report: &RecommendedReport, without_cache_us: Option<f64>) -> String {
    let level = |(level, name): (Level, &str)| {
        let bytes = report.levels.of(level);
        (bytes > 0).then(|| format!("{} of {name}", show_size(bytes)))
    };
    let levels: Vec<String> =
        [(Level::Dram, "DRAM"), (Level::Ssd, "SSD")].into_iter().filter_map(level).collect();
    let levels = if levels.is_empty() { "no cache".to_owned() } else { levels.join(" and ") };
    let mut text = format!("{levels} with {}", report.label);
    if let Some(HostMemory { tables_bytes, .. }) = report.host_memory {
        text += &format!(", whose tables take at most {} of host memory", show_size(tables_bytes));
    }
    text += &format!(", for {} usd", show_usd(report.cost_usd));
    if let Some(us) = report.mean_latency_us {
        text += &format!(": a request takes {us:.0} us on average");
        text += &without_cache_us.map(|without| format!(" instead of {without:.0}")).unwrap_or_default();
    }
    if let Some(ratio) = report.read_hit_ratio {
        text += &format!(", {:.0} % of the blocks read come from the cache", 100.0 * ratio);
    }
    if let Some(wear) = &report.wear {
        text += &match (wear.life_years, &wear.drives) {
            (Some(years), Some(Drives { words, count, .. })) => {
                format!(", and {words} last{} {}", if *count == 1 { "s" } else { "" }, show_life(years))
            }
            (Some(years), None) => format!(", and the SSD lasts {}", show_life(years)),
            (None, _) => String::new(),
        };
    }
    text + "."
}
