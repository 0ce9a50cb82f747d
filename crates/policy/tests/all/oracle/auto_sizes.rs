//! How `auto` measures other shares, the obvious way: three ordinary schemes decide everything, with half of the SSD, all of it and twice as
//! much; what they did is added up from lists of effects, and each block of a curve is worked out by itself. Of caches that are shadowed as a
//! whole, of which the first candidate always decides.

use lode_policy::{AnyScheme, Effect, LevelDemand, Quota, Scheme, SizeCost, build};
use lode_types::{Access, Level};

use super::auto::{Cost, Disk, stage};
use crate::driver::settings;

const TURNOVER: u64 = 4;

/// What one of the shares did: blocks times accesses, costs, hits of DRAM and of the SSD, and hits by distances.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    blocks: f64,
    cost: Cost,
    hits: [f64; 2],
    by_distances: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    requests: f64,
    accesses: f64,
    of: [Measured; 3],
}

struct Shadow {
    scheme: AnyScheme,
    disk: Disk,
    new: Measured,
}

impl Shadow {
    /// One request, of which the slowest block counts.
    fn request(&mut self, accesses: &[Access], now_ns: u64) {
        let mut slowest_us: f64 = 0.0;
        for access in accesses {
            let mut effects: Vec<Effect> = Vec::new();
            self.scheme.access(*access, &mut effects);
            let read = |level: Level| {
                effects
                    .iter()
                    .any(|effect| matches!(*effect, Effect::ReadLevel { level: from, .. } if from == level))
            };
            self.new.hits[0] += f64::from(u8::from(read(Level::Dram)));
            self.new.hits[1] += f64::from(u8::from(read(Level::Ssd)));
            let cost = self.disk.cost(access.block, &effects);
            slowest_us = slowest_us.max(cost.latency_us);
            self.new.cost.add(Cost { latency_us: 0.0, ..cost });
        }
        let mut effects: Vec<Effect> = Vec::new();
        self.scheme.end_request(now_ns, &mut effects);
        let cost = self.disk.cost(0, &effects);
        self.new.cost.add(Cost { latency_us: slowest_us, ..cost });
    }
}

/// The three shares of one VM.
pub struct PlainSizes {
    look_accesses: u64,
    physical: Quota,
    share: Quota,
    shadows: [Shadow; 3],
    accesses: u64,
    next_look: u64,
    /// All looks, and those since the share changed that had requests.
    looks: u64,
    looks_of_share: u64,
    begun: Quota,
    /// Since the last look.
    new: (u64, u64),
    window: Sums,
    earlier: Sums,
    known: Option<Sums>,
}

fn shares(share: Quota, physical: Quota) -> [Quota; 3] {
    let ssd = share.ssd_blocks;
    let twice = if 2 * ssd <= physical.ssd_blocks { 2 * ssd } else { physical.ssd_blocks.max(ssd) };
    [ssd / 2, ssd, twice].map(|blocks| Quota::new(share.dram_blocks, blocks))
}

fn look_accesses(least: u64, share: Quota) -> u64 {
    least.max(u64::from(share.dram_blocks + share.ssd_blocks) / 4)
}

fn hits_at(demand: &LevelDemand, blocks: u64) -> f64 {
    demand.curve.iter().filter(|point| point.size_blocks <= blocks).map(|point| point.hits).max().unwrap_or(0)
        as f64
}

impl PlainSizes {
    pub fn new(look_accesses: u64, physical: Quota, share: Quota) -> PlainSizes {
        let shadow = |share| Shadow {
            scheme: build(&settings("benefit-density", &[]), physical, share),
            disk: Disk::default(),
            new: Measured::default(),
        };
        PlainSizes {
            look_accesses,
            physical,
            share,
            shadows: shares(share, physical).map(shadow),
            accesses: 0,
            next_look: self::look_accesses(look_accesses, share),
            looks: 0,
            looks_of_share: 0,
            begun: share,
            new: (0, 0),
            window: Sums::default(),
            earlier: Sums::default(),
            known: None,
        }
    }

    pub fn request(&mut self, accesses: &[Access], now_ns: u64) {
        self.accesses += accesses.len() as u64;
        if stage(self.looks).0 {
            self.new.0 += 1;
            self.new.1 += accesses.len() as u64;
            self.shadows.iter_mut().for_each(|shadow| shadow.request(accesses, now_ns));
        }
        if self.accesses >= self.next_look {
            self.next_look = self.accesses + look_accesses(self.look_accesses, self.share);
            self.look();
        }
    }

    fn look(&mut self) {
        let (_, weight) = stage(self.looks);
        self.looks += 1;
        let (requests, accesses) = std::mem::take(&mut self.new);
        let new = self.shadows.each_mut().map(|shadow| std::mem::take(&mut shadow.new));
        if weight == 0.0 || requests == 0 {
            return;
        }
        self.looks_of_share += 1;
        if self.looks_of_share <= 2 * TURNOVER {
            return;
        }
        self.window.requests += requests as f64;
        self.window.accesses += accesses as f64;
        let shares = shares(self.share, self.physical);
        for ((of, new), share) in self.window.of.iter_mut().zip(new).zip(shares) {
            of.blocks += f64::from(share.ssd_blocks) * accesses as f64;
            of.cost.add(new.cost);
            (of.hits[0], of.hits[1]) = (of.hits[0] + new.hits[0], of.hits[1] + new.hits[1]);
        }
    }

    pub fn resize(&mut self, share: Quota) {
        self.share = share;
        for (shadow, share) in self.shadows.iter_mut().zip(shares(share, self.physical)) {
            shadow.scheme.resize(share, &mut Vec::new());
        }
        let is_other = |old: u32, new: u32| old.max(new) - old.min(new) > old / 8;
        if is_other(self.begun.dram_blocks, share.dram_blocks)
            || is_other(self.begun.ssd_blocks, share.ssd_blocks)
        {
            (self.begun, self.looks_of_share) = (share, 0);
            (self.window, self.earlier) = (Sums::default(), Sums::default());
        }
    }

    /// Hits of each number of blocks from 0 on, where distances say `old`.
    pub fn close_window(&mut self, old: &LevelDemand) -> Vec<f64> {
        let mut window = std::mem::take(&mut self.window);
        if window.accesses > 0.0 {
            let earlier = self.earlier;
            for (of, earlier) in window.of.iter_mut().zip(earlier.of) {
                let blocks = (of.blocks / window.accesses).round() as u64;
                let ratio = hits_at(old, blocks) / old.accesses as f64;
                *of = Measured {
                    blocks: of.blocks + earlier.blocks / 2.0,
                    cost: sum(of.cost, earlier.cost.scaled(0.5)),
                    hits: [0, 1].map(|level| of.hits[level] + earlier.hits[level] / 2.0),
                    by_distances: ratio * window.accesses + earlier.by_distances / 2.0,
                };
            }
            window.requests += earlier.requests / 2.0;
            window.accesses += earlier.accesses / 2.0;
            (self.earlier, self.known) = (window, Some(window));
        }
        let length = old.blocks.max(2 * self.physical.ssd_blocks) as u64 + 1;
        let Some(known) = self.known else { return (0..length).map(|blocks| hits_at(old, blocks)).collect() };
        let ratios =
            known.of.map(|of| ((of.hits[0] + of.hits[1]) / known.accesses, of.by_distances / known.accesses));
        let own = known.of[1].hits[1] / known.accesses;
        let most = old.curve.last().map_or(0.0, |point| point.hits as f64);
        let mut corners = vec![(0, 0.0)];
        for (of, (ratio, by_distances)) in known.of.iter().zip(ratios) {
            let blocks = (of.blocks / known.accesses).round() as u64;
            let wrong = own + ratio - ratios[1].0 - by_distances;
            corners.push((blocks, hits_at(old, blocks) + wrong * old.accesses as f64));
        }
        corners.push((u64::from(old.blocks), most));
        curve(old, &corners, most, length)
    }

    /// What half of the share, all of it and twice as much cost.
    pub fn costs(&self) -> Option<[SizeCost; 3]> {
        let known = self.known?;
        Some(known.of.map(|of| SizeCost {
            ssd_blocks: (of.blocks / known.accesses).round() as u64,
            latency_us: of.cost.latency_us / known.requests,
            disk_us: of.cost.disk_us / known.requests,
            ssd_writes: of.cost.ssd_writes / known.requests,
            dram_hits: of.hits[0] / known.requests,
            ssd_hits: of.hits[1] / known.requests,
        }))
    }
}

fn sum(mut one: Cost, other: Cost) -> Cost {
    one.add(other);
    one
}

/// The best that is reached with so many blocks or fewer: at each block where something happens, between the corners on both sides.
fn curve(old: &LevelDemand, corners: &[(u64, f64)], most: f64, length: u64) -> Vec<f64> {
    let mut kept = vec![corners[0]];
    for &(blocks, hits) in &corners[1..] {
        let (last, last_hits) = kept[kept.len() - 1];
        if blocks > last {
            kept.push((blocks, if hits > most { most } else { hits }.max(last_hits)));
        }
    }
    let mut best = vec![0.0; length as usize];
    for pair in kept.windows(2) {
        let ((from, low), (to, high)) = (pair[0], pair[1]);
        let (old_low, old_high) = (hits_at(old, from), hits_at(old, to));
        let is_flat = old_low == old_high;
        for blocks in from + 1..=to.min(length - 1) {
            let is_step = (1..=16).any(|step| blocks == from + (to - from) * step / 16);
            let is_point = old.curve.iter().any(|point| point.size_blocks == blocks);
            if blocks == to || if is_flat { is_step } else { is_point } {
                let part = match is_flat {
                    true => (blocks - from) as f64 / (to - from) as f64,
                    false => (hits_at(old, blocks) - old_low) / (old_high - old_low),
                };
                best[blocks as usize] = low + (high - low) * part;
            }
        }
    }
    let mut highest: f64 = 0.0;
    best.into_iter()
        .map(|hits| {
            highest = highest.max(hits);
            highest
        })
        .collect()
}
