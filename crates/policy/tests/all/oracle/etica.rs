//! ETICA from plain vectors, a log of the stream and a table of scores.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use lode_policy::{LevelDemand, Quota};
use lode_reuse::CurvePoint;
use lode_types::{BlockNo, Level};

use super::level::PlainLevel;
use super::pod::{Log, Seen};
use crate::driver::{Observed, Step};

#[derive(Clone, Debug)]
pub struct Choices {
    pub mode: &'static str,
    pub assoc: u32,
    pub map: &'static str,
    pub promotion_interval: u32,
    /// In hundredths of a per cent.
    pub queue_share: usize,
    pub queues: &'static str,
    pub evict: &'static str,
    pub popularity: &'static str,
    pub ageing: f32,
    pub score_floor: f32,
    pub window: &'static str,
    pub chained: bool,
    pub ro_ignore_writes: bool,
}

#[derive(Debug)]
pub struct PlainEtica {
    choices: Choices,
    pub dram: PlainLevel,
    pub ssd: PlainLevel,
    quota: Quota,
    log: Log,
    useful: [Vec<u32>; 2],
    accesses: u64,
    writes: u64,
    scores: BTreeMap<BlockNo, f32>,
    /// When each block was last accessed, or restored.
    last: BTreeMap<BlockNo, u64>,
    now: u64,
    inflation: f32,
    requests: u32,
}

/// Exponent and sixteenth of the octave.
fn class(score: f32) -> (i32, u32) {
    let score = f64::from(score);
    let smallest = f64::from(f32::MIN_POSITIVE);
    if score < smallest {
        return (i32::MIN, (score / smallest * 16.0) as u32);
    }
    let mut octave = 0;
    while score < 2f64.powi(octave) {
        octave -= 1;
    }
    while score >= 2f64.powi(octave + 1) {
        octave += 1;
    }
    (octave, ((score / 2f64.powi(octave) - 1.0) * 16.0) as u32)
}

fn demand(mut distances: Vec<u32>, accesses: u64) -> LevelDemand {
    distances.sort_unstable();
    let blocks = distances.last().map_or(0, |most| most + 1);
    let mut curve: Vec<CurvePoint> = Vec::new();
    for (at, distance) in distances.iter().enumerate() {
        let point = CurvePoint { size_blocks: u64::from(*distance) + 1, hits: at as u64 + 1 };
        curve.retain(|earlier| earlier.size_blocks != point.size_blocks);
        curve.push(point);
    }
    LevelDemand { blocks, curve, accesses, ..LevelDemand::default() }
}

impl PlainEtica {
    pub fn new(choices: Choices, quota: Quota) -> PlainEtica {
        let by_jhash = choices.map == "jhash";
        PlainEtica {
            dram: PlainLevel::new(choices.assoc, by_jhash, quota.dram_blocks),
            ssd: PlainLevel::new(choices.assoc, by_jhash, quota.ssd_blocks),
            choices,
            quota,
            log: Log::default(),
            useful: [Vec::new(), Vec::new()],
            accesses: 0,
            writes: 0,
            scores: BTreeMap::new(),
            last: BTreeMap::new(),
            now: 0,
            inflation: 1.0,
            requests: 0,
        }
    }

    fn is_npe(&self) -> bool {
        self.choices.mode == "npe"
    }

    fn score(&self, block: BlockNo) -> f32 {
        self.scores.get(&block).copied().unwrap_or(0.0)
    }

    fn note(&mut self, block: BlockNo) {
        self.now += 1;
        self.last.insert(block, self.now);
    }

    /// The worst first: by score, then the oldest access.
    fn worst_first(&self, a: BlockNo, b: BlockNo) -> Ordering {
        let by_score = self.score(a).total_cmp(&self.score(b));
        by_score.then(self.last[&a].cmp(&self.last[&b]))
    }

    fn add_popularity(&mut self, block: BlockNo, pod: Option<u32>) {
        if let Some(pod) = pod
            && !self.is_npe()
            && self.quota.ssd_blocks > 0
        {
            let worth = (-(pod as f32) / self.quota.ssd_blocks as f32).exp() * self.inflation;
            *self.scores.entry(block).or_default() += worth;
        }
    }

    fn read(&mut self, block: BlockNo) -> Vec<Observed> {
        let dram_hit = self.dram.find(block).is_some();
        self.useful[0].extend(self.log.ro(block, self.choices.ro_ignore_writes));
        let seen_by_ssd = !(self.choices.chained && dram_hit);
        let wbwo = if seen_by_ssd { self.log.wbwo(block, self.choices.chained) } else { None };
        self.useful[1].extend(wbwo);
        let popular = if self.choices.popularity == "wb" { self.log.wb(block) } else { wbwo };
        self.add_popularity(block, popular);
        self.log.note(Seen { is_read: true, block, dram_hit });
        if dram_hit {
            self.dram.touch(block);
            return vec![Observed::ReadLevel(Level::Dram)];
        }
        let mut observed = if self.ssd.find(block).is_some() {
            self.touch_ssd(block);
            vec![Observed::ReadLevel(Level::Ssd)]
        } else {
            vec![Observed::ReadBacking]
        };
        if !self.dram.is_closed(block) {
            if self.dram.is_full(block) {
                observed.push(self.evict_dram(self.dram.set_of(block)));
            }
            self.dram.push(block, false);
            observed.push(Observed::Fill(Level::Dram));
        }
        observed
    }

    fn touch_ssd(&mut self, block: BlockNo) {
        if self.is_npe() {
            self.ssd.touch(block);
        }
    }

    fn evict_dram(&mut self, set: usize) -> Observed {
        let entry = self.dram.rows[set].remove(0);
        Observed::Evict { level: Level::Dram, block: entry.block, dirty: false }
    }

    fn evict_ssd(&mut self, block: BlockNo) -> Observed {
        let entry = self.ssd.remove(block).expect("a victim is resident");
        Observed::Evict { level: Level::Ssd, block, dirty: entry.dirty }
    }

    fn write(&mut self, block: BlockNo, partial: bool) -> Vec<Observed> {
        let popular = match self.choices.popularity {
            "any" => self.log.wbwo(block, self.choices.chained),
            _ => None,
        };
        self.add_popularity(block, popular);
        self.log.note(Seen { is_read: false, block, dram_hit: false });
        let mut observed = Vec::new();
        let hit = self.ssd.find(block).is_some();
        let mut to_ssd = hit;
        if !hit && !self.ssd.is_closed(block) {
            to_ssd = match self.choices.mode {
                "npe" => true,
                "full-hybrid" => !self.ssd.is_full(block),
                _ => false,
            };
            if to_ssd {
                if self.ssd.is_full(block) {
                    observed.push(self.evict_ssd(self.ssd.row_of(block)[0].block));
                }
                self.ssd.push(block, false);
            }
        }
        let in_dram = self.dram.find(block).is_some();
        if to_ssd {
            if partial {
                observed.push(match (in_dram, hit) {
                    (true, _) => Observed::MergeLevel(Level::Dram),
                    (false, true) => Observed::MergeLevel(Level::Ssd),
                    (false, false) => Observed::MergeBacking,
                });
            }
            self.touch_ssd(block);
            self.ssd.set_dirty(block, true);
        }
        if in_dram {
            self.dram.remove(block);
            observed.push(Observed::Invalidate(Level::Dram));
        }
        observed.push(if to_ssd {
            Observed::WriteLevel { hit, dirty: true }
        } else {
            Observed::WriteBacking
        });
        observed
    }

    /// The lowest score of the set, then the oldest access; under NPE the least recently used.
    fn least_wanted(&self, set: usize) -> BlockNo {
        let blocks = self.ssd.rows[set].iter().map(|entry| entry.block);
        if self.is_npe() {
            self.ssd.rows[set][0].block
        } else {
            blocks.min_by(|a, b| self.worst_first(*a, *b)).expect("a block")
        }
    }

    /// How many of these, sorted, are queued; with whole classes all whose class the last one has.
    fn queued(&self, sorted: &[BlockNo]) -> usize {
        let wanted = (sorted.len() * self.choices.queue_share).div_ceil(10_000);
        let class_of = |block: &BlockNo| class(self.score(*block));
        match sorted[..wanted].last() {
            Some(last) if self.choices.queues == "classes" => {
                wanted + sorted[wanted..].iter().take_while(|block| class_of(block) == class_of(last)).count()
            }
            _ => wanted,
        }
    }

    /// The end of a promotion interval.
    pub fn end_interval(&mut self) -> Vec<Observed> {
        if self.is_npe() { Vec::new() } else { self.promote() }
    }

    fn promote(&mut self) -> Vec<Observed> {
        let floor = self.choices.score_floor * self.inflation;
        let ssd = &self.ssd;
        self.scores.retain(|block, score| *score >= floor && *score > 0.0 || ssd.find(*block).is_some());
        let mut evictable: Vec<BlockNo> = self.ssd.all().map(|entry| entry.block).collect();
        evictable.sort_by(|a, b| self.worst_first(*a, *b));
        let mut queue: Vec<BlockNo> =
            self.scores.keys().copied().filter(|block| ssd.find(*block).is_none()).collect();
        queue.sort_by(|a, b| self.score(*b).total_cmp(&self.score(*a)).then(self.last[a].cmp(&self.last[b])));
        queue.truncate(self.queued(&queue));
        let mut observed = Vec::new();
        if self.choices.evict == "literal" {
            let count = (evictable.len() * self.choices.queue_share).div_ceil(10_000);
            observed.extend(evictable.drain(..count).map(|block| self.evict_ssd(block)).collect::<Vec<_>>());
            evictable.clear();
        }
        evictable.truncate(self.queued(&evictable));
        for block in queue {
            if self.ssd.is_closed(block) {
                continue;
            }
            if self.ssd.is_full(block) {
                let set = self.ssd.set_of(block);
                let Some(at) = evictable.iter().position(|victim| self.ssd.set_of(*victim) == set) else {
                    continue;
                };
                if self.score(block) <= self.score(evictable[at]) {
                    continue;
                }
                observed.push(self.evict_ssd(evictable.remove(at)));
            }
            self.ssd.push(block, false);
            observed.push(Observed::Promote { block, from_dram: self.dram.find(block).is_some() });
        }
        self.age();
        observed
    }

    fn age(&mut self) {
        const LARGEST: f32 = (1u128 << 80) as f32;
        // A factor this small leaves nothing that single precision could tell from nothing.
        if self.choices.ageing < 1.0 / 1_099_511_627_776.0 {
            self.scores.clear();
            return;
        }
        self.inflation /= self.choices.ageing;
        if self.inflation >= LARGEST {
            self.inflation /= LARGEST;
            self.scores.values_mut().for_each(|score| *score /= LARGEST);
        }
    }

    fn resize(&mut self, quota: Quota) -> Vec<Observed> {
        self.quota = quota;
        self.dram.regroup(quota.dram_blocks);
        self.ssd.regroup(quota.ssd_blocks);
        let mut observed = Vec::new();
        for set in 0..self.dram.rows.len() {
            while self.dram.rows[set].len() > self.dram.ways(set) {
                observed.push(self.evict_dram(set));
            }
        }
        for set in 0..self.ssd.rows.len() {
            while self.ssd.rows[set].len() > self.ssd.ways(set) {
                observed.push(self.evict_ssd(self.least_wanted(set)));
            }
        }
        observed
    }

    pub fn step(&mut self, step: Step) -> Vec<Observed> {
        match step {
            Step::Read(block) => {
                self.accesses += 1;
                self.note(block);
                self.read(block)
            }
            Step::Write(block, partial) => {
                self.accesses += 1;
                self.writes += 1;
                self.note(block);
                self.write(block, partial)
            }
            Step::EndRequest => {
                self.requests += 1;
                if self.requests < self.choices.promotion_interval {
                    return Vec::new();
                }
                self.requests = 0;
                self.end_interval()
            }
            Step::Discard(block) => {
                let dram = self.dram.remove(block).map(|_| Observed::Invalidate(Level::Dram));
                let ssd = self.ssd.remove(block).map(|_| Observed::Invalidate(Level::Ssd));
                self.log.discard(block);
                self.scores.remove(&block);
                dram.into_iter().chain(ssd).collect()
            }
            Step::Forget(level, block) => {
                match level {
                    Level::Dram => self.dram.remove(block),
                    Level::Ssd => self.ssd.remove(block),
                    Level::ReadSsd => None,
                };
                Vec::new()
            }
            Step::Cleaned(block) => {
                self.ssd.set_dirty(block, false);
                Vec::new()
            }
            Step::Restore(block, dirty) => {
                let fits = !self.ssd.is_full(block) && self.ssd.find(block).is_none();
                if fits {
                    self.note(block);
                    self.ssd.push(block, dirty);
                }
                vec![Observed::Restored(fits)]
            }
            Step::Resize(quota) => self.resize(quota),
        }
    }

    pub fn demand(&mut self) -> [LevelDemand; 2] {
        if self.choices.window == "reset" {
            self.log.clear();
        }
        let accesses = std::mem::take(&mut self.accesses);
        let mut demands = [0, 1].map(|level| demand(std::mem::take(&mut self.useful[level]), accesses));
        demands[1].buffered_writes = std::mem::take(&mut self.writes);
        demands
    }
}
