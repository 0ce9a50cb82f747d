//! The scheme is chosen by measurement: shadows of all candidates run beside the one that decides, on a sample of the blocks,
//! and when one of them is better for some time, it decides from then on, with the blocks that are cached.
//!
//! Our own. Running candidates in miniature to choose among them is from miniature simulations (Waldspurger et al., "Cache
//! Modeling and Optimization using Miniature Simulations", USENIX ATC 2017); that the admission of a cache on flash is chosen by
//! what each would have saved, from CacheSack (Yang et al., USENIX ATC 2022).
//!
//! It must not know how any candidate decides.

mod candidates;
mod choice;
mod cost;
mod demand;
mod disk_peak;
mod live;
mod pace;
mod sizes;
mod slot_map;
mod trial;

use lode_types::{Access, BlockNo, Level};

use crate::decision::{Decision, Decisions};
use crate::effect::{Sink, Slot};
use crate::needs::{Adjacency, Timed};
use crate::parts::sized::SAMPLED_HISTORY;
use crate::prefetch::{AccessSink, Lookahead, Prefetch, PrefetchHint, PrefetchedAccess};
use crate::quota::Quota;
use crate::registry::{AnyScheme, SchemeInfo};
use crate::scheme::{Budgeting, Choosing, LevelDemand, Points, Scheme, Sizing};
use crate::schemes::benefit_density;
use crate::settings::{OFF, SettingInfo, Settings, WriteBudget};
use crate::sizer;
use crate::tracked::{Footprint, percent_of};
use candidates::Candidate;
use choice::{Better, Choice};
use demand::Demand;
use live::Live;
use sizes::Sizes;
use trial::{Spent, Trial};

pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo::integer("shadow_blocks", "4096", 64, 1 << 20)
        .about("blocks of both levels that a shadow has at least; a smaller cache is shadowed as a whole")
        .source("ours"),
    SettingInfo::scaled("look_accesses", "1024", 1, 1 << 30)
        .about("block accesses from one look at the shadows to the next, if a quarter of the blocks of both levels is not more")
        .source("ours"),
    SettingInfo::number("switch_percent", "3", 0.0, 100.0)
        .about("per cent by which another scheme has to be better for that to count")
        .source("ours"),
    SettingInfo::number("switch_cost_percent", "200", 0.0, 1e6)
        .about("what another scheme must have saved before it takes over, in per cent of what requests cost that access as many blocks as both levels have")
        .source("ours: what the newcomer has yet to learn must pay"),
    SettingInfo::number("set_percent", "0.3", 0.0, 100.0)
        .about("as switch_percent, for other settings of the scheme that decides")
        .source("ours"),
    SettingInfo::number("set_cost_percent", "10", 0.0, 1e6)
        .about("as switch_cost_percent, for other settings of the scheme that decides")
        .source("ours: they take effect at once"),
    SettingInfo::number("latency_weight", "1", 0.0, 1e6)
        .about("what counts for each microsecond that a request takes")
        .source("ours: latency alone"),
    SettingInfo::number("ssd_write_weight_us", "0", 0.0, 1e6)
        .about("what counts for each block written to the SSD: with latency_weight=1 in microseconds of a request")
        .source("ours: latency alone"),
    SettingInfo::number("disk_weight", "0", 0.0, 1e6)
        .about("what counts for each microsecond that disks work, whoever waits for it")
        .source("ours: latency alone; Baleen: disk-head time"),
    SettingInfo::number("disk_peak_weight", "0", 0.0, 1e6)
        .about("what counts for each microsecond that disks work when they are as busy as in the busiest interval lately; with the third power of how busy they are less at other times: an eighth when they are half as busy")
        .source("ours: latency alone; Baleen: peak disk-head time"),
    SettingInfo::number("disk_peak_interval_s", "60", 0.001, 86400.0)
        .about("with disk_peak_weight: seconds over which it counts how busy disks are")
        .source("ours"),
    SettingInfo::number("disk_write_work_us", "8000", 0.0, 1e9)
        .about("how long disks work for a write that seeks, all of them together; reads that seek keep one disk for disk_random_us")
        .source("the default devices; a RAID-5 of them: 32000, as each of two disks is read and written"),
];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "auto",
    about: "whichever scheme and price of SSD writes costs requests least, by shadows of all of them",
    source: "ours, after miniature simulations (Waldspurger et al., ATC 2017)",
    tables: &[
        SETTINGS,
        benefit_density::SETTINGS,
        OBJECTIVES,
        &[SettingInfo { default: OFF, ..sizer::SIZED }],
        sizer::SETTINGS,
        SAMPLED_HISTORY,
        DEMANDS,
        SIZE_SHADOWS,
    ],
    build: |settings, physical, quota| AnyScheme::Auto(Box::new(Auto::new(settings, physical, quota))),
    footprint: Footprint::new(768 << 10, BLOCK_BYTES)
        .with_history(BLOCK_BYTES)
        .with_tables_of_history(tables)
        .remembering(remembered),
    levels: &[Level::Dram, Level::Ssd],
    adjacency: Some(Adjacency { key: "runs", off: OFF, what: "runs of neighbouring blocks" }),
    timed: Some(Timed { key: "disk_peak_weight", what: "how busy disks are over time" }),
    variants: &["window"],
    ..SchemeInfo::PLAIN
};

static DEMANDS: &[SettingInfo] = &[demand::HALF_LIFE];
static SIZE_SHADOWS: &[SettingInfo] = &[sizes::SHADOWS];
static OBJECTIVES: &[SettingInfo] = &[sizer::objective_setting("latency"), sizer::PPC_FLOOR];

/// Bytes for each block that a candidate knows.
const BLOCK_BYTES: u64 = 96;

/// Tables that may know a block, beside those of the scheme that decides: of the one before it, and of the shadows.
fn tables(settings: &Settings) -> u64 {
    1 + Candidate::MOST + if sizes::are_measured(settings) { sizes::SHADOWS_BESIDE } else { 0 }
}

/// Blocks of which each is in as many tables as there are: ghosts; while another scheme takes over, as many again with its own
/// blocks; and what the shadows know.
fn remembered(settings: &Settings, share_blocks: u64, physical: Quota) -> u64 {
    let known = share_blocks.saturating_add(percent_of(share_blocks, settings, "ghost_percent"));
    let shadow_blocks = settings.integer("shadow_blocks").saturating_mul(2).min(share_blocks);
    let of_shadow = shadow_blocks.saturating_add(percent_of(shadow_blocks, settings, "ghost_percent"));
    let mut shadows = of_shadow.saturating_mul(Candidate::MOST);
    if sizes::are_measured(settings) {
        // Together at most half and twice as much.
        shadows = shadows.saturating_add(of_shadow.saturating_mul(5).div_ceil(2));
    }
    let tracked = demand::tracked_blocks(settings, physical);
    let beside = known.saturating_mul(2).saturating_add(shadows).saturating_sub(share_blocks);
    beside.saturating_add(tracked).div_ceil(tables(settings))
}

/// One VM's DRAM and SSD.
#[derive(Debug)]
pub struct Auto {
    settings: Settings,
    candidates: Vec<Candidate>,
    /// Which of them decides.
    chosen: usize,
    live: Live,
    trial: Trial,
    /// `None`: nobody asks for demands.
    demand: Option<Demand>,
    /// `None`: sizes are not measured.
    sizes: Option<Sizes>,
    choice: Choice,
    decisions: Decisions,
    /// Accesses that are decided together.
    batch: Vec<PrefetchedAccess>,
}

impl Auto {
    /// A cache with this share on a host that has `physical`.
    pub fn new(settings: &Settings, physical: Quota, quota: Quota) -> Auto {
        let candidates = Candidate::all(settings);
        Auto {
            chosen: 0,
            live: Live::new(candidates[0].build_live(settings, quota)),
            trial: Trial::new(settings, &candidates, physical, quota),
            sizes: Sizes::new(settings, physical, quota),
            demand: Demand::new(settings, physical),
            choice: Choice::new(settings, candidates.len()),
            decisions: Decisions::default(),
            batch: Vec::new(),
            settings: settings.clone(),
            candidates,
        }
    }

    /// Notes an access for whoever watches.
    #[inline(always)]
    fn note(&mut self, access: Access, hint: PrefetchHint) {
        self.trial.access(access, hint);
        if let Some(demand) = &mut self.demand {
            demand.access(access, hint.hash);
        }
    }

    /// Looks at what the candidates cost, and lets a better one decide.
    #[inline(never)]
    fn look(&mut self) {
        let Some(costs) = self.trial.look() else { return };
        if let Some(sizes) = &mut self.sizes
            && let Some(([half, twice], own)) = costs.of_sizes.zip(costs.new[self.chosen])
        {
            sizes.look(costs.requests, costs.accesses, [half, own, twice]);
        }
        if let Some(best) = self.choice.look(&costs, &self.candidates, self.chosen)
            && !self.live.is_taking_over()
        {
            self.choose(best.at, Some(best), costs.mean[self.chosen].zip(costs.mean[best.at]));
        }
    }

    /// Another candidate decides from now on; what it saved, and what requests took with the one before and with it, where that is
    /// known.
    fn choose(&mut self, best: usize, better: Option<Better>, means: Option<(Spent, Spent)>) {
        let (from, to) = (self.candidates[self.chosen], self.candidates[best]);
        let (own, new) = means.unzip();
        let counts_peak = self.trial.counts_peak();
        self.decisions.note(Decision {
            block_accesses: self.trial.accesses(),
            from: from.to_string(),
            to: to.to_string(),
            saved_turnovers: better.map(|better| better.saved),
            asked_turnovers: better.map(|better| better.asked),
            from_latency_us: own.map(|own| own.us),
            to_latency_us: new.map(|new| new.us),
            from_disk_us: own.map(|own| own.disk_us),
            to_disk_us: new.map(|new| new.disk_us),
            from_disk_peak_cost_us: own.filter(|_| counts_peak).map(|own| own.disk_peak_us),
            to_disk_peak_cost_us: new.filter(|_| counts_peak).map(|new| new.disk_peak_us),
            from_ssd_writes: own.map(|own| own.ssd_writes),
            to_ssd_writes: new.map(|new| new.ssd_writes),
        });
        self.chosen = best;
        self.choice.note_choice();
        self.trial.note_choice(to, self.live.cache().quota());
        self.sizes.iter_mut().for_each(Sizes::begin_anew);
        if !to.set(self.live.cache_mut()) {
            let quota = self.live.cache().quota();
            let mut cache = to.build_live(&self.settings, quota);
            trial::set_host_budget(&mut cache, self.trial.host_budget());
            self.live.begin(cache);
        }
    }

    /// Under a budget only a candidate decides that holds to it, as soon as no other one is still being taken over.
    fn keep_to_budget(&mut self) {
        if self.trial.has_budget()
            && !self.candidates[self.chosen].holds_to_budgets()
            && !self.live.is_taking_over()
            && let Some(first) = self.candidates.iter().position(|candidate| candidate.holds_to_budgets())
        {
            self.choose(first, None, None);
        }
    }
}

impl Prefetch for Auto {
    #[inline]
    fn prefetch_index(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        self.live.cache().prefetch_index(blocks);
    }

    #[inline]
    fn prefetch_entries<'a>(&self, blocks: impl Iterator<Item = (BlockNo, &'a mut PrefetchHint)>) {
        self.live.cache().prefetch_entries(blocks);
    }

    #[inline]
    fn prefetch_neighbours(&self, blocks: impl Iterator<Item = (BlockNo, PrefetchHint)>) {
        self.live.cache().prefetch_neighbours(blocks);
    }
}

impl Lookahead for Auto {
    fn access_prefetched<S: Sink>(&mut self, access: Access, hint: PrefetchHint, sink: &mut S) {
        self.note(access, hint);
        self.live.access(access, hint, sink);
    }

    /// Decides as many as there are until the next look at once.
    fn access_batch<'a, W: AccessSink>(
        &mut self,
        accesses: impl Iterator<Item = &'a PrefetchedAccess>,
        sink: &mut W,
    ) {
        let mut accesses = accesses.peekable();
        while accesses.peek().is_some() {
            if self.live.is_taking_over() {
                let Some(&PrefetchedAccess { access, hint, now_ns, last }) = accesses.next() else { break };
                sink.begin_access(&access);
                self.access_prefetched(access, hint, sink);
                if last {
                    self.end_request(now_ns, sink);
                    sink.end_request(access.op);
                }
                continue;
            }
            let mut batch = std::mem::take(&mut self.batch);
            batch.clear();
            let mut is_due = false;
            while !is_due && let Some(next) = accesses.next() {
                batch.push(*next);
                self.note(next.access, next.hint);
                is_due = next.last && self.trial.end_request(next.now_ns);
            }
            self.live.access_batch(&batch, sink);
            self.batch = batch;
            if is_due {
                self.look();
                self.keep_to_budget();
            }
        }
    }
}

impl Scheme for Auto {
    fn access<S: Sink>(&mut self, access: Access, sink: &mut S) {
        self.access_prefetched(access, PrefetchHint::new(access.block), sink);
    }

    fn end_request<S: Sink>(&mut self, now_ns: u64, sink: &mut S) {
        self.live.end_request(now_ns, sink);
        if self.trial.end_request(now_ns) {
            self.look();
            self.keep_to_budget();
        }
    }

    fn discard<S: Sink>(&mut self, block: BlockNo, sink: &mut S) {
        self.trial.discard(block);
        if let Some(demand) = &mut self.demand {
            demand.discard(block);
        }
        self.live.discard(block, sink);
    }

    fn forget(&mut self, level: Level, block: BlockNo) {
        self.live.forget(level, block);
    }

    fn cleaned(&mut self, block: BlockNo) {
        self.live.cleaned(block);
    }

    fn restore(&mut self, block: BlockNo, dirty: bool) -> Option<Slot> {
        self.live.restore(block, dirty)
    }

    fn expect(&mut self, blocks: u32) {
        self.live.expect(blocks);
    }

    fn resize<S: Sink>(&mut self, quota: Quota, sink: &mut S) {
        self.live.resize(quota, sink);
        self.sizes.iter_mut().for_each(|sizes| sizes.resize(quota));
        if self.trial.resize(quota) {
            self.choice.begin_anew();
            self.sizes.iter_mut().for_each(Sizes::begin_anew);
        }
    }

    fn quota(&self) -> Quota {
        self.live.cache().quota()
    }

    fn resident_blocks(&self, level: Level) -> u32 {
        self.live.resident_blocks(level)
    }

    fn memory_bytes(&self) -> usize {
        let batch = self.batch.capacity() * size_of::<PrefetchedAccess>();
        let demand = self.demand.as_ref().map_or(0, Demand::memory_bytes);
        self.live.memory_bytes() + self.trial.memory_bytes() + self.decisions.memory_bytes() + demand + batch
    }

    fn sizing(&mut self) -> Option<&mut dyn Sizing> {
        if self.demand.is_some() { Some(self) } else { None }
    }

    fn budgeting(&mut self) -> Option<&mut dyn Budgeting> {
        Some(self)
    }

    fn choosing(&self) -> Option<&dyn Choosing> {
        Some(self)
    }
}

impl Choosing for Auto {
    fn decisions(&self) -> &Decisions {
        &self.decisions
    }
}

impl Sizing for Auto {
    fn demand(&mut self, _: Points) -> [LevelDemand; 2] {
        let dram_blocks = self.live.cache().quota().dram_blocks;
        let Some(demand) = &mut self.demand else { return Default::default() };
        let mut demands = demand.close_window(dram_blocks);
        if let Some(sizes) = &mut self.sizes {
            let ssd = &mut demands[Level::Ssd.index()];
            *ssd = sizes.close_window(std::mem::take(ssd));
            self.decisions.set_sizes(sizes.costs());
        }
        demands
    }
}

impl Budgeting for Auto {
    fn set_host_budget(&mut self, budget: WriteBudget) {
        trial::set_host_budget(self.live.cache_mut(), budget);
        if self.trial.set_host_budget(budget, self.live.cache().quota()) {
            self.choice.begin_anew();
            self.sizes.iter_mut().for_each(Sizes::begin_anew);
        }
        self.keep_to_budget();
    }

    fn wanted_blocks(&mut self) -> u64 {
        self.live.wanted_blocks()
    }
}
