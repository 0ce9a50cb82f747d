//! Levels sized by a measure of their stream, from lists of the blocks that came last and of everything in the window.

use std::collections::BTreeSet;

use lode_policy::LevelDemand;
use lode_reuse::CurvePoint;
use lode_types::BlockNo;

use super::one_level::{PlainOneLevel, PlainSets};
use crate::driver::{Observed, Residents, Step};

/// What the schemes differ in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// The part of overwrites that makes it read-only, and requests from choice to choice.
    Eci {
        threshold: f64,
        interval: u32,
    },
    Centaur,
    /// What a VM grows by at a time, in per cent of the level, and in blocks.
    SCave {
        chunk_percent: u32,
        chunk_blocks: u32,
    },
    /// Alpha, and whether the intensity counts by share.
    VCacheShare {
        alpha: f64,
        by_share: bool,
    },
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Eci { .. } => "eci-cache-like",
            Kind::Centaur => "centaur-like",
            Kind::SCave { .. } => "s-cave-like",
            Kind::VCacheShare { .. } => "vcacheshare-like",
        }
    }
}

#[derive(Debug)]
pub struct PlainSized {
    pub level: PlainOneLevel<PlainSets>,
    kind: Kind,
    carries: bool,
    /// Blocks that are remembered.
    limit: usize,
    /// The latest first.
    latest: Vec<BlockNo>,
    /// Of these blocks the history does not go back beyond the window.
    fresh: BTreeSet<BlockNo>,
    /// Accesses of the window: block and whether it read.
    window: Vec<(BlockNo, bool)>,
    /// Blocks that `window` counts as distinct.
    distinct: u64,
    seen_in_window: BTreeSet<BlockNo>,
    distances: Vec<u32>,
    /// Writes to blocks that are remembered.
    rewrites: u64,
    /// Cached blocks hit in the window, and hits.
    hit: BTreeSet<BlockNo>,
    hits: u64,
    requests: u32,
    /// Accesses and overwrites since the last choice of a policy.
    mix: (u32, u32),
    policy: &'static str,
}

impl PlainSized {
    pub fn new(
        kind: Kind,
        policy: &'static str,
        level: PlainSets,
        carries: bool,
        limit: usize,
    ) -> PlainSized {
        PlainSized {
            level: PlainOneLevel::new(level, policy),
            kind,
            carries,
            limit,
            latest: Vec::new(),
            fresh: BTreeSet::new(),
            window: Vec::new(),
            distinct: 0,
            seen_in_window: BTreeSet::new(),
            distances: Vec::new(),
            rewrites: 0,
            hit: BTreeSet::new(),
            hits: 0,
            requests: 0,
            mix: (0, 0),
            policy,
        }
    }

    pub fn residents(&mut self) -> Residents {
        self.level.residents()
    }

    /// How many distinct blocks came since this one did, if it is remembered.
    fn visit(&mut self, block: BlockNo) -> Option<u32> {
        let at = self.latest.iter().position(|&other| other == block);
        // Without the history before the window, only blocks of the window stand in between.
        let known = at.filter(|_| self.carries || self.fresh.contains(&block));
        let distance = known.map(|at| {
            self.latest[..at].iter().filter(|&other| self.carries || self.fresh.contains(other)).count()
                as u32
        });
        self.latest.retain(|&other| other != block);
        self.latest.insert(0, block);
        for gone in self.latest.drain(self.limit.min(self.latest.len())..) {
            self.seen_in_window.remove(&gone);
            self.fresh.remove(&gone);
        }
        self.fresh.insert(block);
        self.distinct += u64::from(self.seen_in_window.insert(block));
        distance
    }

    fn note(&mut self, block: BlockNo, is_read: bool) {
        self.window.push((block, is_read));
        self.mix.0 += 1;
        if matches!(self.kind, Kind::VCacheShare { .. }) && !is_read {
            return;
        }
        if let Some(distance) = self.visit(block) {
            self.mix.1 += u32::from(!is_read);
            self.rewrites += u64::from(!is_read);
            if is_read || self.kind == Kind::Centaur {
                self.distances.push(distance);
            }
        }
    }

    /// Blocks that were hit and are still there.
    fn note_hit(&mut self, block: BlockNo, observed: &[Observed]) {
        let is_hit = |observed: &Observed| {
            matches!(observed, Observed::ReadLevel(_) | Observed::WriteLevel { hit: true, .. })
        };
        if observed.iter().any(is_hit) {
            self.hit.insert(block);
            self.hits += 1;
        }
    }

    fn choose_policy(&mut self) -> Vec<Observed> {
        let Kind::Eci { threshold, interval } = self.kind else { return Vec::new() };
        self.requests += 1;
        if self.requests < interval {
            return Vec::new();
        }
        self.requests = 0;
        let (accesses, overwrites) = std::mem::take(&mut self.mix);
        let policy = if f64::from(overwrites) >= threshold * f64::from(accesses) { "ro" } else { "wb" };
        if accesses == 0 || policy == self.policy {
            return Vec::new();
        }
        self.policy = policy;
        self.level.set_policy(policy);
        if policy == "ro" { self.level.clean_all() } else { Vec::new() }
    }

    pub fn step(&mut self, step: Step) -> Vec<Observed> {
        match step {
            Step::Read(block) => self.note(block, true),
            Step::Write(block, _) => self.note(block, false),
            Step::Discard(block) => {
                self.latest.retain(|&other| other != block);
                self.fresh.remove(&block);
                self.seen_in_window.remove(&block);
            }
            _ => {}
        }
        let mut observed = self.level.step(step);
        match step {
            Step::Read(block) | Step::Write(block, _) => self.note_hit(block, &observed),
            Step::EndRequest => observed.extend(self.choose_policy()),
            _ => {}
        }
        let residents = self.residents();
        self.hit.retain(|block| residents.contains_key(block));
        observed
    }

    pub fn demand(&mut self) -> LevelDemand {
        let window = std::mem::take(&mut self.window);
        let distances = std::mem::take(&mut self.distances);
        let distinct = std::mem::take(&mut self.distinct);
        let hit = std::mem::take(&mut self.hit);
        let hits = std::mem::take(&mut self.hits);
        let rewrites = std::mem::take(&mut self.rewrites);
        self.seen_in_window.clear();
        self.fresh.clear();
        let accesses = window.len() as u64;
        let reads = window.iter().filter(|access| access.1).count() as u64;
        match self.kind {
            Kind::Eci { .. } | Kind::Centaur => {
                let counted = if self.kind == Kind::Centaur { rewrites } else { 0 };
                let keeps = ["wb", "wbwo"].contains(&self.policy);
                let buffered_writes = if keeps { accesses - reads - counted } else { 0 };
                LevelDemand { buffered_writes, ..of_curve(curve(&distances), accesses, 1.0) }
            }
            Kind::SCave { chunk_blocks, .. } => {
                let in_use = hit.len() as u64;
                // As good as what is in use, block by block; of a VM without a share nothing is known.
                let beyond = match in_use {
                    0 if self.level.replacement.level.blocks == 0 => accesses - hits,
                    0 => 0,
                    _ => (hits * u64::from(chunk_blocks) / in_use).min(accesses - hits),
                };
                let mut curve = vec![CurvePoint { size_blocks: in_use, hits }];
                curve.retain(|point| point.size_blocks > 0);
                let mut trial_blocks = 0;
                if beyond > 0 {
                    trial_blocks = chunk_blocks;
                    curve.push(CurvePoint {
                        size_blocks: in_use + u64::from(chunk_blocks),
                        hits: hits + beyond,
                    });
                }
                LevelDemand { blocks: in_use as u32, trial_blocks, ..of_curve(curve, accesses, 1.0) }
            }
            Kind::VCacheShare { .. } if reads == 0 => of_curve(vec![], accesses, 1.0),
            Kind::VCacheShare { alpha, by_share } => {
                let mut points = curve(&distances);
                if !by_share && alpha > 0.0 && points.first().is_none_or(|point| point.size_blocks != 1) {
                    points.insert(0, CurvePoint { size_blocks: 1, hits: 0 });
                }
                let intensity = reads as f64 / distinct as f64;
                let most = 1.0 + alpha * intensity;
                for point in &mut points {
                    let share = (point.size_blocks as f64 / distinct as f64).min(1.0);
                    let part = if by_share { share } else { 1.0 };
                    let utility = point.hits as f64 / reads as f64 + alpha * intensity * part;
                    point.hits = ((utility / most * 2f64.powi(40)) as u64).min(1 << 40);
                }
                of_curve(points, 1 << 40, reads as f64 / accesses as f64 * most)
            }
        }
    }
}

fn of_curve(curve: Vec<CurvePoint>, accesses: u64, weight: f64) -> LevelDemand {
    let blocks = curve.last().map_or(0, |point| point.size_blocks as u32);
    LevelDemand { blocks, curve, accesses, weight, ..LevelDemand::default() }
}

/// For each distance that occurs, how many are no longer.
fn curve(distances: &[u32]) -> Vec<CurvePoint> {
    let sizes: BTreeSet<u32> = distances.iter().copied().collect();
    let hits = |size: u32| distances.iter().filter(|&&distance| distance <= size).count() as u64;
    sizes.iter().map(|&size| CurvePoint { size_blocks: u64::from(size) + 1, hits: hits(size) }).collect()
}
