//! How `auto` chooses, the obvious way: every candidate is an ordinary scheme that decides everything, each of its effects is
//! written down, and what a request costs is added up from the list. Of caches that are shadowed as a whole, where only the
//! settings of one scheme may change: what another scheme takes over has tests of its own.

use lode_policy::{AnyScheme, Decision, Effect, Quota, Scheme, build};
use lode_types::{Access, BlockNo, Direction, Level};

use crate::driver::settings;

/// The default times, in microseconds.
const DRAM: f64 = 2.0;
const SSD_READ: f64 = 120.0;
const SSD_WRITE: f64 = 60.0;
const DISK_READ: f64 = 8000.0;
const DISK_WRITE: f64 = 16000.0;
/// What a write that seeks keeps the disk busy for.
const DISK_WRITE_WORK: f64 = 8000.0;
const IN_SEQUENCE: f64 = 100.0;
/// Which candidate decides by recency.
const RECENCY: usize = 3;

/// Of what is set.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    pub look_accesses: u64,
    pub set_percent: f64,
    pub set_cost_percent: f64,
    pub latency_weight: f64,
    pub ssd_write_weight_us: f64,
    pub disk_weight: f64,
    pub disk_peak_weight: f64,
    pub disk_peak_interval_s: f64,
}

/// What requests took, what the disk was busy with, what that counts for at the peak, and blocks written to the SSD.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub latency_us: f64,
    pub disk_us: f64,
    pub disk_peak_us: f64,
    pub ssd_writes: f64,
}

impl Cost {
    pub fn add(&mut self, other: Cost) {
        self.latency_us += other.latency_us;
        self.disk_us += other.disk_us;
        self.disk_peak_us += other.disk_peak_us;
        self.ssd_writes += other.ssd_writes;
    }

    pub fn scaled(self, by: f64) -> Cost {
        Cost {
            latency_us: self.latency_us * by,
            disk_us: self.disk_us * by,
            disk_peak_us: self.disk_peak_us * by,
            ssd_writes: self.ssd_writes * by,
        }
    }

    fn weighed(self, given: &Given) -> f64 {
        self.latency_us * given.latency_weight
            + self.ssd_writes * given.ssd_write_weight_us
            + self.disk_us * given.disk_weight
            + self.disk_peak_us * given.disk_peak_weight
    }
}

/// Where the disk's head is, of what requests wait for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk {
    next: Option<BlockNo>,
}

impl Disk {
    /// How long it takes, and works.
    fn moves(&mut self, block: BlockNo, elsewhere: (f64, f64)) -> (f64, f64) {
        let is_there = self.next == Some(block);
        self.next = Some(block + 1);
        if is_there { (IN_SEQUENCE, IN_SEQUENCE) } else { elsewhere }
    }

    /// What one block of a request costs.
    pub fn cost(&mut self, block: BlockNo, effects: &[Effect]) -> Cost {
        let level_us = |level: Level| if level == Level::Dram { DRAM } else { SSD_READ };
        let (mut cost, mut merge_us) = (Cost::default(), 0.0);
        for effect in effects {
            let mut disk_us = 0.0;
            let mut takes_us = 0.0;
            match *effect {
                Effect::ReadLevel { level, .. } => takes_us = level_us(level),
                Effect::ReadBacking => {
                    (takes_us, disk_us) = self.moves(block, (DISK_READ, DISK_READ));
                }
                Effect::WriteLevel { level: Level::Dram, .. } => takes_us = merge_us + DRAM,
                Effect::WriteLevel { .. } => {
                    cost.ssd_writes += 1.0;
                    takes_us = merge_us + SSD_WRITE;
                }
                Effect::WriteBacking => {
                    (takes_us, disk_us) = self.moves(block, (DISK_WRITE, DISK_WRITE_WORK));
                    takes_us += merge_us;
                }
                Effect::MergeLevel { level, .. } => merge_us = level_us(level),
                Effect::MergeBacking => {
                    (merge_us, disk_us) = self.moves(block, (DISK_READ, DISK_READ));
                }
                Effect::Fill { level: Level::Ssd, .. } | Effect::Copy { to: Level::Ssd, .. } => {
                    cost.ssd_writes += 1.0;
                }
                Effect::Evict { dirty: true, .. } | Effect::Clean { .. } => disk_us = DISK_WRITE_WORK,
                _ => {}
            }
            cost.disk_us += disk_us;
            cost.latency_us = cost.latency_us.max(takes_us);
        }
        cost
    }
}

struct Candidate {
    name: String,
    scheme: AnyScheme,
    disk: Disk,
    /// Of the request under way, of requests since the last look, and of all, the later counting more.
    request: Cost,
    new: Cost,
    recent: Cost,
    gain: f64,
    /// Of all looks, the later counting more.
    in_all: f64,
    /// How long the disk worked in the interval under way, up to the last count and up to now.
    interval_us: (f64, f64),
}

/// Time as far as shadows run, cut into intervals.
#[derive(Clone, Copy, Debug, Default)]
struct RunTime {
    /// Since the interval began, and when the last request came since shadows run.
    passed_ns: u64,
    last_ns: Option<u64>,
}

/// The candidates, and which of them decides.
pub struct PlainChoice {
    given: Given,
    candidates: Vec<Candidate>,
    chosen: usize,
    look_accesses: u64,
    accesses: u64,
    next_look: u64,
    /// Looks since the choice.
    looks: u64,
    /// Since the last look, and of all, the later counting more.
    new: (u64, u64),
    recent: (f64, f64),
    run_time: RunTime,
    highest_us: f64,
    pub decisions: Vec<Decision>,
}

impl PlainChoice {
    pub fn new(given: Given, quota: Quota) -> PlainChoice {
        let benefit =
            |key, value| (format!("benefit-density:{key}={value}"), "benefit-density", vec![(key, value)]);
        let prices = ["10", "1", "100"].map(|price| benefit("write_price_us", price));
        let one_lru = vec![("worth_hits", "0"), ("ssd_order", "use"), ("ssd_hits", "stay")];
        // One LRU is one LRU, whoever keeps it.
        let recency = ("benefit-density:order=recency".to_owned(), "ucache-like", one_lru);
        let ucache = ("ucache-like:worth_hits=1".to_owned(), "ucache-like", vec![("worth_hits", "1")]);
        let others = [recency, ucache];
        let candidate = |(name, scheme, as_set): (String, &str, Vec<(&str, &str)>)| Candidate {
            name,
            scheme: build(&settings(scheme, &as_set), quota, quota),
            disk: Disk::default(),
            request: Cost::default(),
            new: Cost::default(),
            recent: Cost::default(),
            gain: 0.0,
            in_all: 0.0,
            interval_us: (0.0, 0.0),
        };
        let look_accesses = given.look_accesses.max(u64::from(quota.dram_blocks + quota.ssd_blocks) / 4);
        PlainChoice {
            given,
            candidates: prices.into_iter().chain(others).map(candidate).collect(),
            chosen: 0,
            look_accesses,
            accesses: 0,
            next_look: look_accesses,
            looks: 0,
            new: (0, 0),
            recent: (0.0, 0.0),
            run_time: RunTime::default(),
            highest_us: 0.0,
            decisions: Vec::new(),
        }
    }

    /// Time passes up to a request, which may begin an interval. The clock never goes backwards here.
    fn pass(&mut self, now_ns: u64) {
        self.run_time.passed_ns += now_ns - self.run_time.last_ns.unwrap_or(now_ns);
        self.run_time.last_ns = Some(now_ns);
        if self.run_time.passed_ns as f64 >= self.given.disk_peak_interval_s * 1e9 {
            let mean_us = self.count_peak();
            self.highest_us = (self.highest_us * (1023.0 / 1024.0)).max(mean_us);
            self.run_time.passed_ns = 0;
            self.candidates.iter_mut().for_each(|one| one.interval_us = (0.0, 0.0));
        }
    }

    /// What the disk did since the last count: of all that it did in the interval, up to now, what did not count up to then. Returns
    /// the mean of what they have done in it.
    fn count_peak(&mut self) -> f64 {
        let sum_us: f64 = self.candidates.iter().map(|one| one.interval_us.1).sum();
        let mean_us = sum_us / self.candidates.len() as f64;
        let most_us = self.highest_us.max(mean_us);
        for Candidate { interval_us: (before, now), new, .. } in &mut self.candidates {
            if most_us > 0.0 {
                new.disk_peak_us += (now.powi(4) - before.powi(4)) / most_us.powi(3);
            }
            *before = *now;
        }
        mean_us
    }

    /// A request for these blocks, which comes at this time.
    pub fn request(&mut self, accesses: &[Access], now_ns: u64) {
        self.accesses += accesses.len() as u64;
        if stage(self.looks).0 {
            self.pass(now_ns);
            self.new.0 += 1;
            self.new.1 += accesses.len() as u64;
            for candidate in &mut self.candidates {
                for access in accesses {
                    let mut effects: Vec<Effect> = Vec::new();
                    candidate.scheme.access(*access, &mut effects);
                    let cost = candidate.disk.cost(access.block, &effects);
                    candidate.request.disk_us += cost.disk_us;
                    candidate.request.ssd_writes += cost.ssd_writes;
                    candidate.request.latency_us = candidate.request.latency_us.max(cost.latency_us);
                }
                let mut effects: Vec<Effect> = Vec::new();
                candidate.scheme.end_request(now_ns, &mut effects);
                let cost = candidate.disk.cost(0, &effects);
                candidate.request.disk_us += cost.disk_us;
                candidate.request.ssd_writes += cost.ssd_writes;
                candidate.interval_us.1 += candidate.request.disk_us;
                candidate.new.add(std::mem::take(&mut candidate.request));
            }
        } else {
            self.run_time.last_ns = None;
        }
        if self.accesses >= self.next_look {
            self.next_look = self.accesses + self.look_accesses;
            self.look();
        }
    }

    fn look(&mut self) {
        let (_, weight) = stage(self.looks);
        self.looks += 1;
        self.count_peak();
        let new: Vec<Cost> = self.candidates.iter_mut().map(|one| std::mem::take(&mut one.new)).collect();
        let (requests, accesses) = std::mem::take(&mut self.new);
        if weight == 0.0 || requests == 0 {
            return;
        }
        self.recent = (self.recent.0 * 0.9 + requests as f64, self.recent.1 * 0.9 + accesses as f64);
        let mut means = Vec::new();
        for (candidate, new) in self.candidates.iter_mut().zip(&new) {
            candidate.recent = candidate.recent.scaled(0.9);
            candidate.recent.add(*new);
            means.push(candidate.recent.scaled(1.0 / self.recent.0));
            candidate.in_all = candidate.in_all * 0.99f64.powf(weight) + new.weighed(&self.given) * weight;
        }
        let own = means[self.chosen].weighed(&self.given);
        let turnover = own * (4 * self.look_accesses) as f64 * self.recent.0 / self.recent.1;
        let asked = self.given.set_cost_percent / 100.0;
        let mut best: Option<(f64, usize, f64)> = None;
        // Only benefit-density, with three prices and by recency.
        let own_in_all = self.candidates[self.chosen].in_all;
        for at in 0..=RECENCY {
            let saved = new[self.chosen].weighed(&self.given) * (1.0 - self.given.set_percent / 100.0)
                - new[at].weighed(&self.given);
            let Candidate { gain, in_all, .. } = &mut self.candidates[at];
            *gain = (*gain + saved * weight).max(0.0);
            let excess = *gain - asked * turnover;
            let is_better = at != self.chosen
                && means[at].weighed(&self.given) < own
                && (at != RECENCY || *in_all < own_in_all);
            if is_better && excess > 0.0 && best.is_none_or(|(most, ..)| excess > most) {
                best = Some((excess, at, *gain / turnover));
            }
        }
        if let Some((_, best, saved)) = best {
            let (from, to) = (means[self.chosen], means[best]);
            self.decisions.push(Decision {
                block_accesses: self.accesses,
                from: self.candidates[self.chosen].name.clone(),
                to: self.candidates[best].name.clone(),
                saved_turnovers: Some(saved),
                asked_turnovers: Some(asked),
                from_latency_us: Some(from.latency_us),
                to_latency_us: Some(to.latency_us),
                from_disk_us: Some(from.disk_us),
                to_disk_us: Some(to.disk_us),
                from_disk_peak_cost_us: (self.given.disk_peak_weight > 0.0).then_some(from.disk_peak_us),
                to_disk_peak_cost_us: (self.given.disk_peak_weight > 0.0).then_some(to.disk_peak_us),
                from_ssd_writes: Some(from.ssd_writes),
                to_ssd_writes: Some(to.ssd_writes),
            });
            self.chosen = best;
            self.looks = 0;
            self.candidates.iter_mut().for_each(|candidate| candidate.gain = 0.0);
        }
    }
}

/// Whether the shadows run until the next look, and for how many looks that counts, after so many. All run for eight turnovers of four looks;
/// from then on one turnover of sixteen warms them up, and the one after it counts for all sixteen.
pub fn stage(looks: u64) -> (bool, f64) {
    const TURNOVER: u64 = 4;
    match looks.checked_sub(8 * TURNOVER) {
        None => (true, 1.0),
        Some(later) => match later % (16 * TURNOVER) / TURNOVER {
            0..14 => (false, 0.0),
            14 => (true, 0.0),
            _ => (true, 16.0),
        },
    }
}

/// One access of a request.
pub fn access(block: BlockNo, writes: bool, partial: bool) -> Access {
    Access { partial, op: if writes { Direction::Write } else { Direction::Read }, ..Access::read(block) }
}
