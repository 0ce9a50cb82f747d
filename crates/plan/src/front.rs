//! How much host memory and how much SSD to buy: the pairs of sizes within a budget that no other pair beats in
//! latency, SSD life and cost at once. It must not know prices nor how results are shown.

use lode_hardware::time::SECONDS_PER_DAY;
use lode_hardware::{Host, SsdRating};
use lode_reuse::ReuseError;
use lode_reuse::sizing::Division;
use lode_types::Level;

use crate::division::{
    Dividing, LevelPlan, Outcome, SizeOptions, SizePlan, ToDivide, check_rules, granule_blocks, in_words,
    outcome_of_shares, plan_of,
};
use crate::error::PlanError;
use crate::levels::LevelBytes;
use crate::load::{Load, SsdKeeps, VmLoad};

/// Sizes of each level that are tried, beside none: from what is wanted or affordable down to a 16th of that, so many an octave.
/// Nobody buys less than that beside the largest, and what so little serves hangs on what the model leaves out.
const SIZES: i32 = 9;
const SIZES_PER_OCTAVE: f64 = 2.0;

/// Sizes of an SSD that is there to last, from one that lasts as long as it is rated for down.
const LASTING_SIZES: i32 = 24;

/// Numbers of drives that are all tried; from there on those that are one part in so many apart.
const DRIVES_IN_TURN: u64 = 8;

/// Up to how many times longer an SSD must last to be worth a line, unless it then lasts as long as it is rated for.
const SAME_LIFE: f64 = 2.0;

/// An SSD that lasts a tenth of the years that it is rated for is as bad as one that lasts less.
const MOST_WEAR: f64 = 10.0;

/// Bytes of what prices are for.
const GIB: u64 = 1 << 30;

/// The largest budget, in US dollars.
pub const MAX_BUDGET_USD: f64 = 1e12;

/// How much slower a pair of sizes may be and still count as equally fast: a smaller difference is not worth a line, nor
/// the model's word.
const SAME_LATENCY: f64 = 0.01;

/// What levels cost, and what an SSD takes for that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Of a GiB of host memory.
    pub dram_usd_per_gib: f64,
    /// Of a GiB of SSD; where it is bought as drives, of a GiB of these.
    pub ssd_usd_per_gib: f64,
    /// What may be written to an SSD, and for how long.
    pub ssd_rating: SsdRating,
    /// One drive, where the SSD is bought as whole ones; else it has any size.
    pub drive: Option<DrivePrice>,
}

/// What one drive holds and costs, with its copies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrivePrice {
    /// What it holds.
    pub bytes: u64,
    /// Its price and that of its copies.
    pub usd: f64,
}

impl Prices {
    /// Prices of a host's devices.
    pub fn of(host: &Host) -> Prices {
        Prices {
            dram_usd_per_gib: host.cost_usd(GIB, 0, 0).dram,
            ssd_usd_per_gib: host.ssd.cost_usd(GIB) * f64::from(host.ssd_copies),
            ssd_rating: host.ssd.rating(),
            drive: host.drive.as_ref().map(|drive| DrivePrice {
                bytes: drive.capacity_bytes(),
                usd: drive.usd * f64::from(host.ssd_copies),
            }),
        }
    }

    /// The price of both levels, of whole drives where the SSD is bought as such.
    pub fn cost_usd(&self, levels: LevelBytes) -> f64 {
        let by_size = |level: Level| levels.of(level) as f64 / GIB as f64 * self.usd_per_gib(level);
        let of_drives = |drive: DrivePrice| levels.ssd_bytes.div_ceil(drive.bytes) as f64 * drive.usd;
        by_size(Level::Dram) + self.drive.map_or_else(|| by_size(Level::Ssd), of_drives)
    }

    /// What is bought for so much SSD: whole drives.
    fn bought_ssd_bytes(&self, ssd_bytes: u64) -> u64 {
        let whole = |drive: DrivePrice| ssd_bytes.div_ceil(drive.bytes).saturating_mul(drive.bytes);
        self.drive.map_or(ssd_bytes, whole)
    }

    fn usd_per_gib(&self, level: Level) -> f64 {
        if level == Level::Dram { self.dram_usd_per_gib } else { self.ssd_usd_per_gib }
    }
}

/// One pair of sizes that no other pair beats.
#[derive(Clone, Debug, PartialEq)]
pub struct FrontPoint {
    /// What it costs.
    pub cost_usd: f64,
    /// What is written to the SSD at most, over what it is rated for: up to 1 it lasts as long as it is rated for. 0 where
    /// nothing is written or times are not known. At most 10: what lasts a tenth of that or less is no choice between lives.
    pub ssd_wear: f64,
    /// The division of its levels.
    pub plan: SizePlan,
}

/// The point of a front to take: of the fastest, the cheapest of those whose SSD lasts as long as it is rated for; where
/// none does, that whose SSD lasts longest.
pub fn best(front: &[FrontPoint]) -> Option<&FrontPoint> {
    let latency = |point: &FrontPoint| point.plan.total.mean_latency_us().unwrap_or(0.0);
    let least = front.iter().map(latency).fold(f64::INFINITY, f64::min);
    let fast = front.iter().filter(|point| latency(point) <= (1.0 + SAME_LATENCY) * least);
    // Ascending in cost, and the first of equals is taken.
    fast.min_by(|a, b| a.ssd_wear.max(1.0).total_cmp(&b.ssd_wear.max(1.0)))
}

/// The front within `budget_usd`, ascending in cost: of pairs of sizes that are powers of the square root of 2 apart, of
/// host memory at most as large as the VMs can use, of the SSD at most as large as it takes to last as long as it is rated
/// for. Of these pairs, those are left out that another one beats. A level is at least a 16th of the largest that the VMs can use or the budget affords. Shares are whole
/// granules, because no smaller ones can be served, so that some VMs get none where there are fewer granules than VMs. Of pairs that
/// are about equally fast, the cheapest stays. There is none where nothing within the budget gives VMs what they are guaranteed.
///
/// # Errors
/// [`PlanError::Request`] for a budget or price out of range; those of [`size`](crate::size).
pub fn front(
    load: &Load,
    prices: &Prices,
    budget_usd: f64,
    options: &SizeOptions,
) -> Result<Vec<FrontPoint>, PlanError> {
    let is_price = |usd: f64| usd.is_finite() && usd > 0.0;
    if !(Level::SIZED.into_iter().all(|level| is_price(prices.usd_per_gib(level))) && is_price(budget_usd))
        || budget_usd > MAX_BUDGET_USD
    {
        return Err(PlanError::Request(format!(
            "Prices are above 0, and a budget too, up to {MAX_BUDGET_USD:e} usd"
        )));
    }
    check_rules(load, options)?;
    let drams = divisions(load, Dividing::Dram, prices, budget_usd, options)?;
    // Where the SSD does not depend on DRAM, not every pair needs a division of its own.
    let depends = load.ssd_keeps() == SsdKeeps::Accessed;
    let behind = if depends { &drams[..] } else { &drams[..drams.len().min(1)] };
    let behind = behind
        .iter()
        .map(|(_, dram)| divisions(load, Dividing::Ssd { behind: &dram.sizes }, prices, budget_usd, options));
    let ssds = behind.collect::<Result<Vec<_>, PlanError>>()?;
    let mut points: Vec<Candidate<'_>> = Vec::new();
    for (at, dram) in drams.iter().enumerate() {
        for ssd in ssds.get(at).or(ssds.first()).into_iter().flatten() {
            let candidate = Candidate::new(load, prices, [dram, ssd], options);
            let known =
                |other: &Candidate<'_>| other.measures == candidate.measures || other.beats(&candidate);
            if candidate.measures[0] <= budget_usd && !points.iter().any(known) {
                points.retain(|other| !candidate.beats(other));
                points.push(candidate);
            }
        }
    }
    points.sort_by(|a, b| a.measures[0].total_cmp(&b.measures[0]));
    let mut kept: Vec<Candidate<'_>> = Vec::new();
    for point in points {
        if !kept.iter().any(|known| known.stands_in_for(&point)) {
            kept.push(point);
        }
    }
    let point = |candidate: Candidate<'_>| {
        let divisions = candidate.divisions.map(Clone::clone);
        let ssd_wear = if load.has_span() { candidate.measures[2] } else { 0.0 };
        FrontPoint {
            cost_usd: candidate.measures[0],
            ssd_wear,
            plan: plan_of(load, candidate.levels, divisions, options),
        }
    };
    Ok(kept.into_iter().map(point).collect())
}

/// Divisions of a level at every size that is tried. What hits have no use for is not bought for the sake of anything else.
fn divisions(
    load: &Load,
    what: Dividing<'_>,
    prices: &Prices,
    budget_usd: f64,
    options: &SizeOptions,
) -> Result<Vec<(LevelPlan, Division)>, PlanError> {
    let level = what.level();
    let affordable_bytes = (budget_usd / prices.usd_per_gib(level) * GIB as f64) as u64;
    // All that VMs can use, with what rounding may add.
    let to_divide = ToDivide::new(load, what, options, false);
    let (all, everything) = to_divide.divide(u64::MAX)?;
    let all_bytes = all.given_blocks.saturating_mul(load.block_bytes);
    let granule = granule_blocks(load.block_bytes, options);
    let is_whole = |division: &Division| division.sizes.iter().all(|blocks| blocks.is_multiple_of(granule));
    let steps = |most_bytes: u64, sizes: i32| {
        let scaled =
            move |step: i32| (most_bytes as f64 * (-f64::from(step) / SIZES_PER_OCTAVE).exp2()) as u64;
        (0..sizes).map(scaled)
    };
    let sizes: Vec<u64> = match prices.drive.filter(|_| level == Level::Ssd) {
        // Between whole drives nothing is cheaper, nor does it last longer.
        Some(drive) => {
            let whole = whole_drives(all_bytes, affordable_bytes, drive.bytes);
            whole.map(|bytes| bytes.min(all_bytes)).chain([0]).collect()
        }
        None => steps(all_bytes.min(affordable_bytes), SIZES).chain([0]).collect(),
    };
    // Sizes at which guarantees do not fit are no choice, nor those at which they fit only in shares that are no whole granules.
    let divided = |bytes: u64| -> Result<Option<(LevelPlan, Division)>, PlanError> {
        match to_divide.try_to_divide(bytes) {
            Ok(found) if is_whole(&found.1) || !is_whole(&everything) => Ok(Some(found)),
            Ok(_) | Err(ReuseError::GuaranteesDoNotFit { .. }) => Ok(None),
            Err(error) => Err(in_words(error, load, level)),
        }
    };
    let mut found = sizes
        .into_iter()
        .filter_map(|bytes| divided(bytes).transpose())
        .collect::<Result<Vec<_>, PlanError>>()?;
    // What nobody gets is not bought.
    found.iter_mut().for_each(|(plan, _)| plan.capacity_blocks = plan.given_blocks);
    if let Dividing::Ssd { behind } = what {
        // Unless it is there to be worn: an SSD larger than anyone can use lasts longer.
        // Whole granules, and one more than enough.
        let unit = options.granule_bytes.max(load.block_bytes);
        let lasting = lasting_bytes(load, [behind, &everything.sizes], prices, options).saturating_add(unit);
        let spare: Vec<u64> = match prices.drive {
            Some(drive) => whole_drives(lasting, affordable_bytes, drive.bytes).collect(),
            None => steps(lasting.min(affordable_bytes), LASTING_SIZES).collect(),
        };
        let spare = spare.into_iter().map(|bytes| bytes / unit * unit).filter(|&bytes| bytes > all_bytes);
        for bytes in spare {
            found.extend(divided(bytes)?.filter(|(plan, _)| plan.given_blocks == all.given_blocks));
        }
    }
    Ok(found)
}

/// What one drive holds, two and so on, up to as many as hold `enough_bytes` or are affordable: every number up to
/// [`DRIVES_IN_TURN`], then an eighth more each time, and the last.
fn whole_drives(enough_bytes: u64, affordable_bytes: u64, drive_bytes: u64) -> impl Iterator<Item = u64> {
    let most = enough_bytes.div_ceil(drive_bytes).min(affordable_bytes / drive_bytes);
    let next = move |drives: &u64| {
        let more = drives.saturating_add((drives / DRIVES_IN_TURN).max(1));
        (*drives < most).then_some(more.min(most))
    };
    std::iter::successors((most > 0).then_some(1), next).map(move |drives| drives.saturating_mul(drive_bytes))
}

/// The size from which on an SSD of which the VMs have these shares, by [`Level::index`], lasts as long as it is rated for.
fn lasting_bytes(load: &Load, [drams, ssds]: [&[u64]; 2], prices: &Prices, options: &SizeOptions) -> u64 {
    let written_per_s = |(vm, (&dram, &ssd)): (&VmLoad, (&u64, &u64))| {
        outcome_of_shares(vm, [dram, ssd], options).ssd_writes_per_s
    };
    let blocks_per_s: f64 = load.vms.iter().zip(drams.iter().zip(ssds)).map(written_per_s).sum();
    let bytes_per_day = blocks_per_s * load.block_bytes as f64 * SECONDS_PER_DAY;
    (bytes_per_day / prices.ssd_rating.drive_writes_per_day).ceil() as u64
}

/// A pair of divisions, by what it costs, how fast it is and what it does to the SSD.
struct Candidate<'a> {
    divisions: [&'a (LevelPlan, Division); 2],
    levels: LevelBytes,
    /// Cost, latency, and what wears the SSD; less is better. The last is what is written over what it is rated for, from 1
    /// for whatever lasts so long, as more is no gain, to [`MOST_WEAR`]; without times, the blocks written.
    measures: [f64; 3],
    /// How many times more may wear the SSD and still count as the same.
    same_wear: f64,
}

impl<'a> Candidate<'a> {
    fn new(
        load: &Load,
        prices: &Prices,
        divisions: [&'a (LevelPlan, Division); 2],
        options: &SizeOptions,
    ) -> Candidate<'a> {
        let mut total = Outcome::default();
        for (at, vm) in load.vms.iter().enumerate() {
            total.add(&outcome_of_shares(vm, divisions.map(|(_, division)| division.sizes[at]), options));
        }
        let [dram_bytes, ssd_bytes] =
            divisions.map(|(plan, _)| plan.capacity_blocks.saturating_mul(load.block_bytes));
        let levels = LevelBytes { dram_bytes, ssd_bytes, ..LevelBytes::default() };
        let latency_us = total.mean_latency_us().unwrap_or(0.0);
        let worn = if load.has_span() {
            let bytes_per_day = total.ssd_writes_per_s * load.block_bytes as f64 * SECONDS_PER_DAY;
            let bought_bytes = prices.bought_ssd_bytes(ssd_bytes) as f64;
            let rated_per_day = bought_bytes * prices.ssd_rating.drive_writes_per_day;
            if bytes_per_day > 0.0 { (bytes_per_day / rated_per_day).clamp(1.0, MOST_WEAR) } else { 0.0 }
        } else {
            total.ssd_writes as f64
        };
        let same_wear = if load.has_span() { SAME_LIFE } else { 1.0 };
        Candidate { divisions, levels, measures: [prices.cost_usd(levels), latency_us, worn], same_wear }
    }

    fn beats(&self, other: &Candidate<'_>) -> bool {
        self.measures != other.measures
            && self.measures.iter().zip(other.measures).all(|(ours, theirs)| *ours <= theirs)
    }

    /// It costs no more than the other one, is about as fast, and wears the SSD about as much.
    fn stands_in_for(&self, other: &Candidate<'_>) -> bool {
        let ([cost, latency, worn], theirs) = (self.measures, other.measures);
        cost <= theirs[0]
            && latency <= (1.0 + SAME_LATENCY) * theirs[1]
            && (worn <= theirs[2] || theirs[2] > 1.0 && worn <= self.same_wear * theirs[2])
    }
}
