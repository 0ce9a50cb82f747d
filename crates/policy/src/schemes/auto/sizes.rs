//! What the candidate that decides makes of half and of twice the VM's share of the SSD, by shadows of it, and what that says of the
//! VM's demand: reuse distances say what LRU would make of space. Where a share was measured, the curve by which a host divides is
//! put right by as much as distances were wrong there.
//!
//! It must not know which candidate decides.

use lode_reuse::CurvePoint;
use lode_types::Level;

use super::trial::{PARTS, Spent};
use crate::decision::{SizeCost, SizeCosts};
use crate::quota::Quota;
use crate::scheme::LevelDemand;
use crate::settings::{OFF, ON, SettingInfo, Settings};

const KEY: &str = "size_shadows";

pub(super) const SHADOWS: SettingInfo = SettingInfo::choice(KEY, OFF, &[ON, OFF])
    .about(
        "on: where shares follow demand, shadows with half and with twice the VM's share of the SSD put right what it says \
         of its demand",
    )
    .source("ours");

/// Shares that are measured: half of the SSD's, all of it, and twice as much.
const SIZES: usize = 3;
/// Of these, those that have shadows of their own.
pub(super) const SHADOWS_BESIDE: u64 = SIZES as u64 - 1;
/// The one in force among them.
const OWN: usize = 1;
/// Looks after a change of the share or of the candidate that do not count: two turnovers of the cache.
const WARM_LOOKS: u64 = 2 * PARTS;
/// Another share is still the same one when it differs by no more than one of so many parts.
const SAME_PARTS: u32 = 8;
/// What is left of the sums with each later window.
const KEPT: f64 = 0.5;
/// Steps in which the curve rises where distances do not say how.
const STEPS: u64 = 16;

/// Whether other sizes are measured.
pub(super) fn are_measured(settings: &Settings) -> bool {
    settings.measures_demand() && settings.is_on(KEY)
}

/// The shares that are measured. Twice as much is no more than the host has.
pub(super) fn sizes_of(share: Quota, physical: Quota) -> [Quota; SIZES] {
    let blocks = share.ssd_blocks;
    let twice = blocks.saturating_mul(2).min(physical.ssd_blocks).max(blocks);
    [share.with(Level::Ssd, blocks / 2), share, share.with(Level::Ssd, twice)]
}

/// What was measured of one of the shares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    /// Blocks of the SSD, times block accesses.
    blocks: f64,
    spent: Spent,
    /// Hits of the SSD by distances, of as many accesses.
    by_distances: f64,
}

/// The same of all of them, and of how many requests and block accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    requests: f64,
    accesses: f64,
    of: [Sum; SIZES],
}

impl Sums {
    /// These, after what is left of earlier ones.
    fn after(self, earlier: Sums) -> Sums {
        let and = |earlier: f64, new: f64| earlier * KEPT + new;
        let sum = |at: usize| {
            let (earlier, new) = (earlier.of[at], self.of[at]);
            Sum {
                blocks: and(earlier.blocks, new.blocks),
                spent: earlier.spent.times(KEPT).and(new.spent),
                by_distances: and(earlier.by_distances, new.by_distances),
            }
        };
        Sums {
            requests: and(earlier.requests, self.requests),
            accesses: and(earlier.accesses, self.accesses),
            of: std::array::from_fn(sum),
        }
    }

    /// Blocks of the SSD, on average.
    fn blocks(&self, at: usize) -> u64 {
        (self.of[at].blocks / self.accesses).round() as u64
    }

    fn cost(&self, at: usize) -> SizeCost {
        let each = self.of[at].spent.times(1.0 / self.requests);
        SizeCost {
            ssd_blocks: self.blocks(at),
            latency_us: each.us,
            disk_us: each.disk_us,
            ssd_writes: each.ssd_writes,
            dram_hits: each.dram_hits,
            ssd_hits: each.ssd_hits,
        }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Sizes {
    physical: Quota,
    sizes: [Quota; SIZES],
    /// The share in force when the sums began, and looks since then.
    begun: Quota,
    looks: u64,
    /// Of the window under way, and of those before, the later counting more.
    window: Sums,
    sums: Sums,
    /// The latest sums, of this share or of an earlier one.
    known: Option<Sums>,
}

impl Sizes {
    /// `None`: other sizes are not measured.
    pub(super) fn new(settings: &Settings, physical: Quota, share: Quota) -> Option<Sizes> {
        are_measured(settings).then(|| Sizes {
            physical,
            sizes: sizes_of(share, physical),
            begun: share,
            looks: 0,
            window: Sums::default(),
            sums: Sums::default(),
            known: None,
        })
    }

    /// The VM has another share.
    pub(super) fn resize(&mut self, share: Quota) {
        self.sizes = sizes_of(share, self.physical);
        let is_other = |level: Level| {
            let begun = self.begun.of(level);
            begun.abs_diff(share.of(level)) > begun / SAME_PARTS
        };
        if Level::SIZED.into_iter().any(is_other) {
            self.begun = share;
            self.begin_anew();
        }
    }

    /// What is measured from now on is of another candidate, another share or another sample. What was known of a share goes on to be
    /// said until something newer is.
    pub(super) fn begin_anew(&mut self) {
        self.looks = 0;
        (self.window, self.sums) = (Sums::default(), Sums::default());
    }

    /// What so many requests of so many block accesses took since the last look: with half of the share, all of it, and twice as much.
    pub(super) fn look(&mut self, requests: f64, accesses: f64, spent: [Spent; SIZES]) {
        self.looks += 1;
        if self.looks <= WARM_LOOKS {
            return;
        }
        self.window.requests += requests;
        self.window.accesses += accesses;
        for ((sum, size), spent) in self.window.of.iter_mut().zip(self.sizes).zip(spent) {
            sum.blocks += f64::from(size.ssd_blocks) * accesses;
            sum.spent = sum.spent.and(spent);
        }
    }

    /// A window ends, in which the VM could have used so much of the SSD by distances. Returns what it could use by what was measured.
    pub(super) fn close_window(&mut self, by_distances: LevelDemand) -> LevelDemand {
        let mut window = std::mem::take(&mut self.window);
        if window.accesses > 0.0 {
            let part = window.accesses / by_distances.accesses.max(1) as f64;
            for at in 0..SIZES {
                window.of[at].by_distances = hits_at(&by_distances.curve, window.blocks(at)) * part;
            }
            self.sums = window.after(self.sums);
            self.known = Some(self.sums);
        }
        let Some(known) = &self.known else { return by_distances };
        let part = by_distances.accesses as f64 / known.accesses;
        let hits = |at: usize| known.of[at].spent.dram_hits + known.of[at].spent.ssd_hits;
        let corner = |at: usize| {
            // What only goes from one level to the other is no gain.
            let measured = known.of[OWN].spent.ssd_hits + hits(at) - hits(OWN);
            let blocks = known.blocks(at);
            let wrong = (measured - known.of[at].by_distances) * part;
            (blocks, hits_at(&by_distances.curve, blocks) + wrong)
        };
        let corners = std::array::from_fn(corner);
        through(by_distances, corners)
    }

    /// What the shares cost, as far as that is known.
    pub(super) fn costs(&self) -> Option<SizeCosts> {
        let known = self.known.as_ref()?;
        Some(SizeCosts { half: known.cost(0), own: known.cost(OWN), twice: known.cost(2) })
    }
}

fn hits_at(curve: &[CurvePoint], blocks: u64) -> f64 {
    let after = curve.partition_point(|point| point.size_blocks <= blocks);
    after.checked_sub(1).map_or(0.0, |at| curve[at].hits as f64)
}

/// A demand whose curve goes through these corners, blocks and hits, with no more hits than it had. It ends where it does not rise any
/// more: more space would be of no use. Between two corners it rises as it did before, or evenly where it did not.
fn through(demand: LevelDemand, corners: [(u64, f64); SIZES]) -> LevelDemand {
    let old = demand.curve;
    let most = old.last().map_or(0.0, |point| point.hits as f64);
    let mut curve: Vec<CurvePoint> = Vec::new();
    let (mut from, mut from_hits) = (0, 0.0);
    for (to, to_hits) in corners.into_iter().chain([(demand.blocks.into(), most)]) {
        if to <= from {
            continue;
        }
        let to_hits = to_hits.min(most).max(from_hits);
        let (old_from, old_to) = (hits_at(&old, from), hits_at(&old, to));
        let part = |size: u64| match old_to > old_from {
            true => (hits_at(&old, size) - old_from) / (old_to - old_from),
            false => (size - from) as f64 / (to - from) as f64,
        };
        let hits_of =
            |size| if size == to { to_hits } else { from_hits + (to_hits - from_hits) * part(size) };
        let mut sizes: Vec<u64> = match old_to > old_from {
            true => {
                old.iter().map(|point| point.size_blocks).filter(|size| (from..to).contains(size)).collect()
            }
            false => (1..STEPS).map(|step| from + (to - from) * step / STEPS).collect(),
        };
        sizes.push(to);
        for size_blocks in sizes {
            let hits = hits_of(size_blocks) as u64;
            if hits > curve.last().map_or(0, |point| point.hits) {
                curve.push(CurvePoint { size_blocks, hits });
            }
        }
        (from, from_hits) = (to, to_hits);
    }
    let blocks = curve.last().map_or(0, |point| point.size_blocks) as u32;
    LevelDemand { blocks, curve, ..demand }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(points: &[(u64, u64)]) -> LevelDemand {
        let curve = points.iter().map(|&(size_blocks, hits)| CurvePoint { size_blocks, hits });
        LevelDemand {
            blocks: points.last().map_or(0, |point| point.0) as u32,
            curve: curve.collect(),
            ..LevelDemand::default()
        }
    }

    #[test]
    fn space_that_brings_no_more_hits_is_not_asked_for() {
        let by_distances = demand(&[(4, 10), (12, 20)]);
        // All hits with 10 blocks, which distances say of 12.
        let measured = through(by_distances.clone(), [(5, 10.0), (10, 25.0), (20, 25.0)]);
        assert_eq!((measured.blocks, measured.curve.last().map(|point| point.hits)), (10, Some(20)));
        // As many as with 12 blocks, with twice as many.
        let measured = through(by_distances, [(5, 10.0), (10, 10.5), (20, 18.7)]);
        assert_eq!(measured, demand(&[(4, 10), (12, 18)]));
    }
}
