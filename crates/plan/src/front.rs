//! How much host memory and how much SSD to buy: the pairs of sizes within a budget that no other pair beats in
//! latency, SSD wear and cost at once. It must not know prices nor how results are shown.

use lode_hardware::Host;

use crate::compare::LevelBytes;
use crate::error::PlanError;
use crate::load::Load;
use crate::size::{SizeOptions, SizePlan, size};

/// Spendings that are tried, as equal steps up to the budget.
const SPENDINGS: u32 = 8;

/// How much slower a pair of sizes may be and still count as equally fast: a smaller difference is not worth a line, nor
/// the model's word.
const SAME_LATENCY: f64 = 0.01;

/// Shares of a spending that go into host memory.
const DRAM_SHARES: [f64; 9] = [0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0];

/// What levels cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Of a GiB of host memory.
    pub dram_usd_per_gib: f64,
    /// Of a GiB of SSD.
    pub ssd_usd_per_gib: f64,
}

impl Prices {
    /// Prices of a host's devices.
    pub fn of(host: &Host) -> Prices {
        const GIB: u64 = 1 << 30;
        Prices { dram_usd_per_gib: host.cost_usd(GIB, 0).dram, ssd_usd_per_gib: host.cost_usd(0, GIB).ssd }
    }

    /// The price of both levels.
    pub fn cost_usd(&self, levels: LevelBytes) -> f64 {
        const GIB: f64 = (1_u64 << 30) as f64;
        levels.dram_bytes as f64 / GIB * self.dram_usd_per_gib
            + levels.ssd_bytes as f64 / GIB * self.ssd_usd_per_gib
    }

    fn levels(&self, usd: f64, dram_share: f64, block_bytes: u64) -> LevelBytes {
        const GIB: f64 = (1_u64 << 30) as f64;
        let bytes = |usd: f64, each: f64| (usd / each * GIB) as u64 / block_bytes * block_bytes;
        LevelBytes {
            dram_bytes: bytes(usd * dram_share, self.dram_usd_per_gib),
            ssd_bytes: bytes(usd * (1.0 - dram_share), self.ssd_usd_per_gib),
        }
    }
}

/// One pair of sizes that no other pair beats.
#[derive(Clone, Debug, PartialEq)]
pub struct FrontPoint {
    /// What it costs.
    pub cost_usd: f64,
    /// The division of its levels.
    pub plan: SizePlan,
}

impl FrontPoint {
    fn measures(&self) -> [f64; 3] {
        let latency_us = self.plan.total.mean_latency_us().unwrap_or(0.0);
        [self.cost_usd, latency_us, self.plan.total.ssd_writes as f64]
    }

    fn beats(&self, other: &FrontPoint) -> bool {
        let (ours, theirs) = (self.measures(), other.measures());
        ours != theirs && ours.iter().zip(theirs).all(|(ours, theirs)| *ours <= theirs)
    }

    /// It costs and writes no more than the other one, and is about as fast.
    fn stands_in_for(&self, other: &FrontPoint) -> bool {
        let ([cost, latency, writes], theirs) = (self.measures(), other.measures());
        cost <= theirs[0] && latency <= (1.0 + SAME_LATENCY) * theirs[1] && writes <= theirs[2]
    }
}

/// The point of a front to take: the cheapest of the fastest.
pub fn best(front: &[FrontPoint]) -> Option<&FrontPoint> {
    let latency = |point: &FrontPoint| point.measures()[1];
    let least = front.iter().map(latency).fold(f64::INFINITY, f64::min);
    // Ascending in cost.
    front.iter().find(|point| latency(point) <= (1.0 + SAME_LATENCY) * least)
}

/// The front within `budget_usd`, ascending in cost. Of pairs that are about equally fast, the cheapest stays.
///
/// Levels are cut down to what the VMs can use, so that nothing is bought in vain.
///
/// # Errors
/// [`PlanError::Request`] for a budget or price that is not above 0; those of [`size`].
pub fn front(
    load: &Load,
    prices: &Prices,
    budget_usd: f64,
    options: &SizeOptions,
) -> Result<Vec<FrontPoint>, PlanError> {
    let positive = |value: f64| value.is_finite() && value > 0.0;
    if ![budget_usd, prices.dram_usd_per_gib, prices.ssd_usd_per_gib].into_iter().all(positive) {
        return Err(PlanError::Request("Budget and prices must be above 0".to_owned()));
    }
    let mut points: Vec<FrontPoint> = Vec::new();
    for step in 0..=SPENDINGS {
        let usd = budget_usd * f64::from(step) / f64::from(SPENDINGS);
        for dram_share in DRAM_SHARES {
            let offered = prices.levels(usd, dram_share, load.block_bytes);
            let mut plan = size(load, offered, options)?;
            // What nobody uses is not bought.
            let used = plan.of_level.map(|level| level.given_blocks * load.block_bytes);
            plan.levels = LevelBytes { dram_bytes: used[0], ssd_bytes: used[1] };
            plan.of_level.iter_mut().for_each(|level| level.capacity_blocks = level.given_blocks);
            let point = FrontPoint { cost_usd: prices.cost_usd(plan.levels), plan };
            let known = |other: &FrontPoint| other.measures() == point.measures() || other.beats(&point);
            if !points.iter().any(known) {
                points.retain(|other| !point.beats(other));
                points.push(point);
            }
        }
    }
    points.sort_by(|a, b| a.cost_usd.total_cmp(&b.cost_usd));
    let mut kept: Vec<FrontPoint> = Vec::new();
    for point in points {
        if !kept.iter().any(|known| known.stands_in_for(&point)) {
            kept.push(point);
        }
    }
    Ok(kept)
}
