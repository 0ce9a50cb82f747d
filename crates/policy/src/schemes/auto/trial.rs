//! Shadows of all candidates: each is the ordinary scheme, with a part of the cache, for the same part of the blocks, which
//! holds no data and serves nobody. What their decisions would cost says which candidate is to decide.
//!
//! Blocks are sampled (SHARDS: Waldspurger et al., FAST 2015; miniature simulations: Waldspurger et al., USENIX ATC 2017) by
//! regions of the disk, and not one by one, so that a sample has neighbours, runs and requests of several blocks. Of one candidate
//! there may be two more, with other shares. It must not know which candidate decides, or what is made of other shares.

use lode_types::{Access, BlockNo, Direction, Level};

use super::candidates::{Cache, Candidate};
use super::cost::Cost;
use super::disk_peak::{DiskPeak, Work};
use super::pace::{Pace, Stage};
use super::sizes;
use crate::effect::NullSink;
use crate::prefetch::{AccessSink, Lookahead, Prefetch, PrefetchHint, PrefetchedAccess};
use crate::quota::Quota;
use crate::scheme::Scheme;
use crate::settings::{Settings, WriteBudget};

/// Blocks of a region, which is in the sample as a whole: a power of two.
const REGION_BITS: u32 = 6;
/// Another sample than those that others take.
const SALT: u64 = 0x6175_746f_2073_6861;
/// From one look at the costs to the next there are as many accesses as so many parts of the blocks of both levels, at least.
pub(super) const PARTS: u64 = 4;
/// What is left of the sums after each look.
const KEPT: f64 = 0.9;
/// Accesses of the sample that shadows decide together, one shadow after the other, so that each has its tables in the
/// processor's caches: enough for that, and few enough that no request waits long for them.
const BATCH: usize = 64;
/// Those of one request are no more than so many.
const MOST_WAITING: usize = 1024;

#[derive(Debug)]
struct Shadow {
    cache: Cache,
    cost: Cost,
    /// In the interval of `DiskPeak` under way.
    work: Work,
    /// Since the last look, as far as it was taken from `cost`.
    new: Spent,
    /// Of some time, the later counting more.
    recent: Spent,
}

/// What requests took with a candidate: together, or each on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spent {
    /// Time of requests, each by itself.
    pub(super) us: f64,
    /// Time of the disk, whoever waits for it.
    pub(super) disk_us: f64,
    /// The same, as the peak counts it.
    pub(super) disk_peak_us: f64,
    /// Blocks written to the SSD.
    pub(super) ssd_writes: f64,
    /// Block reads that DRAM served, and those that the SSD did.
    pub(super) dram_hits: f64,
    pub(super) ssd_hits: f64,
}

impl Spent {
    pub(super) fn times(self, factor: f64) -> Spent {
        Spent {
            us: self.us * factor,
            disk_us: self.disk_us * factor,
            disk_peak_us: self.disk_peak_us * factor,
            ssd_writes: self.ssd_writes * factor,
            dram_hits: self.dram_hits * factor,
            ssd_hits: self.ssd_hits * factor,
        }
    }

    pub(super) fn and(self, other: Spent) -> Spent {
        Spent {
            us: self.us + other.us,
            disk_us: self.disk_us + other.disk_us,
            disk_peak_us: self.disk_peak_us + other.disk_peak_us,
            ssd_writes: self.ssd_writes + other.ssd_writes,
            dram_hits: self.dram_hits + other.dram_hits,
            ssd_hits: self.ssd_hits + other.ssd_hits,
        }
    }
}

/// What requests cost the shadows, by candidate; nothing of those that have no shadow.
#[derive(Debug)]
pub(super) struct ShadowCosts {
    /// Of all requests since the last look, together.
    pub(super) new: Vec<Option<Spent>>,
    /// Of each request, on average of some time, the later counting more.
    pub(super) mean: Vec<Option<Spent>>,
    /// So many looks they stand for.
    pub(super) weight: f64,
    /// Requests that access as many blocks as both levels have, about, in the sample.
    pub(super) turnover_requests: f64,
    /// What requests since the last look took with half of the share of the SSD and with twice as much, where that is measured; and how
    /// many requests and block accesses that were, in the sample.
    pub(super) of_sizes: Option<[Spent; 2]>,
    pub(super) requests: f64,
    pub(super) accesses: f64,
}

/// What shadows are made of.
#[derive(Debug)]
struct Making {
    settings: Settings,
    candidates: Vec<Candidate>,
    host_budget: WriteBudget,
}

impl Making {
    /// Whether writes to the SSD are held to a budget.
    fn has_budget(&self) -> bool {
        self.host_budget != WriteBudget::Any || self.settings.budget("write_budget") != WriteBudget::Any
    }

    /// Of 2^`bits` regions one is in the sample. `build` is the candidate's.
    fn shadow(
        &self,
        candidate: Candidate,
        build: fn(Candidate, &Settings, Quota) -> Cache,
        share: Quota,
        bits: u32,
    ) -> Option<Shadow> {
        if self.has_budget() && !candidate.holds_to_budgets() {
            return None;
        }
        let mut cache = build(candidate, &self.settings.for_sample(part(bits)), share);
        set_host_budget(&mut cache, sampled_budget(self.host_budget, bits));
        let cost = Cost::new(&self.settings);
        Some(Shadow { cache, cost, work: Work::default(), new: Spent::default(), recent: Spent::default() })
    }

    fn shadows(&self, share: Quota, bits: u32) -> Vec<Option<Shadow>> {
        let shadow = |&candidate| self.shadow(candidate, Candidate::build_to_stay, share, bits);
        self.candidates.iter().map(shadow).collect()
    }
}

/// Shadows of one candidate with other shares of what a host has: with half of the SSD's, and with twice as much.
#[derive(Debug)]
struct SizeShadows {
    physical: Quota,
    candidate: Candidate,
    /// `None`: there is a budget, and the candidate cannot hold to one.
    shadows: Option<[Shadow; 2]>,
}

impl SizeShadows {
    /// None yet.
    fn new(physical: Quota, candidate: Candidate) -> SizeShadows {
        SizeShadows { physical, candidate, shadows: None }
    }

    /// Their shares in the sample.
    fn shares(&self, share: Quota, bits: u32) -> [Quota; 2] {
        let [half, _, twice] = sizes::sizes_of(share, self.physical);
        [half, twice].map(|share| sampled(share, bits))
    }

    fn begin_anew(&mut self, making: &Making, share: Quota, bits: u32) {
        // Another candidate may come to decide, by what these have learned until then.
        let shadow = |share| making.shadow(self.candidate, Candidate::build, share, bits);
        let [half, twice] = self.shares(share, bits).map(shadow);
        self.shadows = half.zip(twice).map(|(half, twice)| [half, twice]);
    }

    fn resize(&mut self, share: Quota, bits: u32) {
        let shares = self.shares(share, bits);
        for (shadow, share) in self.shadows.iter_mut().flatten().zip(shares) {
            shadow.cache.resize(share, &mut NullSink);
        }
    }

    fn each(&mut self) -> impl Iterator<Item = &mut Shadow> {
        self.shadows.iter_mut().flatten()
    }

    /// What requests took since the last look.
    fn take(&mut self) -> Option<[Spent; 2]> {
        let shadows = self.shadows.as_mut()?;
        Some(shadows.each_mut().map(|shadow| std::mem::take(&mut shadow.new)))
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Trial {
    making: Making,
    shadows: Vec<Option<Shadow>>,
    /// Of the candidate that decides, with half and twice the share of the SSD. `None`: sizes are not measured.
    sizes: Option<SizeShadows>,
    /// Of 2^`sample_bits` regions one is in the sample.
    sample_bits: u32,
    least_blocks: u64,
    least_accesses: u64,
    pace: Pace,
    /// What the pace says until the next look.
    stage: Stage,
    /// `None`: the peak does not count.
    disk_peak: Option<DiskPeak>,
    /// Accesses of the sample that shadows have yet to decide. The request under way may have some among them.
    waiting: Vec<PrefetchedAccess>,
    is_seen: bool,
    /// Requests in the sample that count as recent, and those since the last look; and of these, block accesses.
    requests: f64,
    new_requests: u64,
    recent_accesses: f64,
    new_accesses: u64,
    accesses: u64,
    next_look: u64,
    look_accesses: u64,
}

impl Trial {
    /// Of a VM with this share on a host that has `physical`.
    pub(super) fn new(settings: &Settings, candidates: &[Candidate], physical: Quota, quota: Quota) -> Trial {
        let least_blocks = settings.integer("shadow_blocks");
        let sample_bits = sample_bits(least_blocks, quota);
        let making = Making {
            settings: settings.clone(),
            candidates: candidates.to_vec(),
            host_budget: WriteBudget::Any,
        };
        let least_accesses = settings.integer("look_accesses");
        let look_accesses = look_accesses(least_accesses, quota);
        let pace = Pace::new(sample_bits);
        let mut sizes = sizes::are_measured(settings).then(|| SizeShadows::new(physical, candidates[0]));
        sizes.iter_mut().for_each(|sizes| sizes.begin_anew(&making, quota, sample_bits));
        Trial {
            shadows: making.shadows(sampled(quota, sample_bits), sample_bits),
            making,
            sizes,
            sample_bits,
            least_blocks,
            least_accesses,
            stage: pace.stage(),
            pace,
            disk_peak: DiskPeak::new(settings),
            waiting: Vec::new(),
            is_seen: false,
            requests: 0.0,
            new_requests: 0,
            recent_accesses: 0.0,
            new_accesses: 0,
            accesses: 0,
            next_look: look_accesses,
            look_accesses,
        }
    }

    /// Block accesses so far, in the sample or not.
    pub(super) fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Whether it is counted how busy disks are.
    pub(super) fn counts_peak(&self) -> bool {
        self.disk_peak.is_some()
    }

    /// Whether writes to the SSD are held to a budget.
    pub(super) fn has_budget(&self) -> bool {
        self.making.has_budget()
    }

    #[inline(always)]
    fn follows(&self, block: BlockNo) -> bool {
        let mut hash = ((block >> REGION_BITS) ^ SALT).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 32;
        hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
        hash.leading_zeros() >= self.sample_bits
    }

    /// Notes an access, before or after it is decided.
    #[inline]
    pub(super) fn access(&mut self, access: Access, hint: PrefetchHint) {
        self.accesses += 1;
        if self.stage == Stage::Paused {
            self.disk_peak.iter_mut().for_each(DiskPeak::rest);
        } else if self.follows(access.block) {
            self.is_seen = true;
            self.waiting.push(PrefetchedAccess { access, hint, now_ns: 0, last: false });
            if self.waiting.len() >= MOST_WAITING {
                self.decide_waiting();
            }
        }
    }

    /// The request is over. Whether it is time to look at the costs.
    #[inline]
    pub(super) fn end_request(&mut self, now_ns: u64) -> bool {
        if self.is_seen {
            self.end_sampled(now_ns);
        }
        self.accesses >= self.next_look
    }

    fn end_sampled(&mut self, now_ns: u64) {
        self.is_seen = false;
        self.new_requests += 1;
        if self.disk_peak.as_mut().is_some_and(|peak| peak.begins_with(now_ns)) {
            self.end_interval();
        }
        match self.waiting.last_mut() {
            Some(last) => (last.now_ns, last.last) = (now_ns, true),
            None => each_of(&mut self.shadows, &mut self.sizes).for_each(|Shadow { cache, cost, .. }| {
                cache.end_request(now_ns, cost);
                cost.end_request(Direction::Read);
            }),
        }
        if self.waiting.len() >= BATCH {
            self.decide_waiting();
        }
    }

    /// Shadows decide what waits, the request under way included as far as it has come.
    fn decide_waiting(&mut self) {
        self.decide_first(self.waiting.len());
    }

    /// Shadows decide so many accesses of those that wait.
    #[inline(never)]
    fn decide_first(&mut self, count: usize) {
        let Some(waiting) = self.waiting.get_mut(..count) else { return };
        self.new_accesses += waiting.len() as u64;
        for Shadow { cache, cost, .. } in each_of(&mut self.shadows, &mut self.sizes) {
            waiting.iter_mut().for_each(|next| next.hint.entry = PrefetchHint::NO_ENTRY);
            cache.prefetch_index(waiting.iter().map(|next| (next.access.block, next.hint)));
            cache.prefetch_entries(waiting.iter_mut().map(|next| (next.access.block, &mut next.hint)));
            cache.prefetch_neighbours(waiting.iter().map(|next| (next.access.block, next.hint)));
            cache.access_batch(waiting.iter(), cost);
        }
        self.waiting.drain(..count);
    }

    /// An interval ended before the request under way, unless that has so many blocks that some had to be decided before its time was
    /// known.
    #[cold]
    fn end_interval(&mut self) {
        let is_before = |next: &PrefetchedAccess| next.last;
        self.decide_first(self.waiting.iter().rposition(is_before).map_or(0, |last| last + 1));
        self.count_spent(true);
    }

    /// Counts what requests took since the last time; the interval of the peak ends with that or goes on.
    fn count_spent(&mut self, interval_ends: bool) {
        let mut shadows: Vec<&mut Shadow> = self.shadows.iter_mut().flatten().collect();
        for Shadow { cost, work, new, .. } in &mut shadows {
            let spent = cost.take();
            work.add(spent.disk_us);
            *new = new.and(spent);
        }
        for Shadow { cost, new, .. } in self.sizes.iter_mut().flat_map(SizeShadows::each) {
            *new = new.and(cost.take());
        }
        let Some(peak) = &mut self.disk_peak else { return };
        let sum_us: f64 = shadows.iter().map(|shadow| shadow.work.us()).sum();
        let scale_us = peak.scale_us(sum_us / shadows.len().max(1) as f64, interval_ends);
        for Shadow { work, new, .. } in shadows {
            new.disk_peak_us += work.count(scale_us);
            if interval_ends {
                *work = Work::default();
            }
        }
    }

    /// What requests took with each candidate; `None`: nothing that counts.
    pub(super) fn look(&mut self) -> Option<ShadowCosts> {
        self.next_look = self.accesses + self.look_accesses;
        self.decide_waiting();
        let stage = self.pace.next();
        self.stage = self.pace.stage();
        self.count_spent(false);
        let take = |shadow: &mut Option<Shadow>| Some(std::mem::take(&mut shadow.as_mut()?.new));
        let spent: Vec<Option<Spent>> = self.shadows.iter_mut().map(take).collect();
        let of_sizes = self.sizes.as_mut().and_then(SizeShadows::take);
        let (new_requests, new_accesses) =
            (std::mem::take(&mut self.new_requests), std::mem::take(&mut self.new_accesses));
        let Stage::Counts { weight } = stage else { return None };
        if new_requests == 0 {
            return None;
        }
        self.requests = self.requests * KEPT + new_requests as f64;
        self.recent_accesses = self.recent_accesses * KEPT + new_accesses as f64;
        let mut mean = Vec::with_capacity(spent.len());
        for (shadow, new) in self.shadows.iter_mut().zip(&spent) {
            mean.push(shadow.as_mut().zip(*new).map(|(shadow, new)| {
                shadow.recent = shadow.recent.times(KEPT).and(new);
                shadow.recent.times(1.0 / self.requests)
            }));
        }
        let turnover_accesses = ((self.look_accesses * PARTS) >> self.sample_bits) as f64;
        let turnover_requests = turnover_accesses * self.requests / self.recent_accesses;
        let (requests, accesses) = (new_requests as f64, new_accesses as f64);
        Some(ShadowCosts { new: spent, mean, weight, turnover_requests, of_sizes, requests, accesses })
    }

    /// Another candidate decides, for a VM of this share: shadows are looked at as in the beginning.
    pub(super) fn note_choice(&mut self, candidate: Candidate, quota: Quota) {
        self.begin_pace();
        let Some(sizes) = &mut self.sizes else { return };
        sizes.candidate = candidate;
        if sizes.shadows.is_none() || !sizes.each().all(|shadow| candidate.set(&mut shadow.cache)) {
            sizes.begin_anew(&self.making, quota, self.sample_bits);
        }
    }

    fn begin_pace(&mut self) {
        self.pace = Pace::new(self.sample_bits);
        self.stage = self.pace.stage();
    }

    /// The guest no longer needs a block.
    pub(super) fn discard(&mut self, block: BlockNo) {
        if self.follows(block) {
            self.decide_waiting();
            let caches = each_of(&mut self.shadows, &mut self.sizes).map(|shadow| &mut shadow.cache);
            caches.for_each(|cache| cache.discard(block, &mut NullSink));
        }
    }

    /// The VM has another share. Shadows keep what they know, unless the sample changes: then they begin anew; says whether
    /// it is so.
    pub(super) fn resize(&mut self, quota: Quota) -> bool {
        self.decide_waiting();
        self.look_accesses = look_accesses(self.least_accesses, quota);
        let sample_bits = sample_bits(self.least_blocks, quota);
        let share = sampled(quota, sample_bits);
        if sample_bits == self.sample_bits {
            let caches = self.shadows.iter_mut().flatten().map(|shadow| &mut shadow.cache);
            caches.for_each(|cache| cache.resize(share, &mut NullSink));
            self.sizes.iter_mut().for_each(|sizes| sizes.resize(quota, sample_bits));
            return false;
        }
        self.sample_bits = sample_bits;
        self.begin_anew(quota);
        true
    }

    /// Of a VM of this share.
    fn begin_anew(&mut self, quota: Quota) {
        self.shadows = self.making.shadows(sampled(quota, self.sample_bits), self.sample_bits);
        self.sizes.iter_mut().for_each(|sizes| sizes.begin_anew(&self.making, quota, self.sample_bits));
        self.disk_peak = DiskPeak::new(&self.making.settings);
        (self.requests, self.recent_accesses) = (0.0, 0.0);
        (self.new_requests, self.new_accesses) = (0, 0);
        self.begin_pace();
    }

    /// What the host allows.
    pub(super) fn host_budget(&self) -> WriteBudget {
        self.making.host_budget
    }

    /// The host allows so much from now on, to a VM of this share. Where there was no budget before, or there is none any more,
    /// shadows begin anew, because others are compared; says whether it is so.
    pub(super) fn set_host_budget(&mut self, budget: WriteBudget, quota: Quota) -> bool {
        self.decide_waiting();
        let had_budget = self.making.has_budget();
        self.making.host_budget = budget;
        if self.making.has_budget() != had_budget {
            self.begin_anew(quota);
            return true;
        }
        let sampled = sampled_budget(budget, self.sample_bits);
        let caches = each_of(&mut self.shadows, &mut self.sizes).map(|shadow| &mut shadow.cache);
        caches.for_each(|cache| set_host_budget(cache, sampled));
        false
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let of_sizes = self.sizes.iter().flat_map(|sizes| sizes.shadows.iter().flatten());
        let shadows = self.shadows.iter().flatten().chain(of_sizes);
        let shadows = shadows.map(|shadow| shadow.cache.memory_bytes()).sum::<usize>();
        let waiting = self.waiting.capacity() * size_of::<PrefetchedAccess>();
        shadows + self.shadows.capacity() * size_of::<Option<Shadow>>() + waiting
    }
}

/// Every shadow there is.
fn each_of<'a>(
    shadows: &'a mut [Option<Shadow>],
    sizes: &'a mut Option<SizeShadows>,
) -> impl Iterator<Item = &'a mut Shadow> {
    shadows.iter_mut().flatten().chain(sizes.iter_mut().flat_map(SizeShadows::each))
}

/// Has a cache hold to what its host allows, where it can.
pub(super) fn set_host_budget(cache: &mut Cache, budget: WriteBudget) {
    if let Some(budgeting) = cache.budgeting() {
        budgeting.set_host_budget(budget);
    }
}

/// The part of the regions that is in the sample.
fn part(bits: u32) -> f64 {
    1.0 / (1u64 << bits.min(63)) as f64
}

/// Of what is written in a day, a sample writes its part.
fn sampled_budget(budget: WriteBudget, bits: u32) -> WriteBudget {
    match budget {
        WriteBudget::PerDay(blocks) => WriteBudget::PerDay(blocks * part(bits)),
        WriteBudget::Any | WriteBudget::PerAccess(_) => budget,
    }
}

fn blocks_of(quota: Quota) -> u64 {
    u64::from(quota.dram_blocks) + u64::from(quota.ssd_blocks)
}

fn look_accesses(least_accesses: u64, quota: Quota) -> u64 {
    (blocks_of(quota) / PARTS).max(least_accesses)
}

/// How often the blocks of both levels can be halved without being fewer than `least_blocks`.
pub(super) fn sample_bits(least_blocks: u64, quota: Quota) -> u32 {
    (blocks_of(quota) / least_blocks.max(1)).checked_ilog2().unwrap_or(0)
}

/// The part of a share that a sample has.
pub(super) fn sampled(quota: Quota, sample_bits: u32) -> Quota {
    quota.map(|level, blocks| match level {
        Level::ReadSsd => 0,
        _ if blocks == 0 => 0,
        _ => (blocks >> sample_bits).max(1),
    })
}
