//! What a VM could use of a level by all that it did lately: the hit curves of windows added up, of which each counts for less the older
//! it is.
//!
//! One window is short beside what a level holds: what it happened to have, a burst or none at all, says little of the next. It must
//! not know how levels are divided.

use std::collections::BTreeMap;

use lode_reuse::CurvePoint;

use super::MOST_POINTS;
use crate::scheme::LevelDemand;

/// Sizes are rounded up to so many bits at first, when there are too many points.
const FINEST_BITS: u32 = 10;

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct Lasting {
    /// Hits by the smallest size that has them.
    hits: BTreeMap<u64, f64>,
    /// So many bits of a size are told apart; `None`: all.
    bits: Option<u32>,
    accesses: f64,
    buffered_writes: f64,
    /// Time since the VM was first seen, and of it, the time in which it did something; in accesses of all VMs.
    time: f64,
    busy_time: f64,
    /// What follows from all that.
    demand: LevelDemand,
}

/// The part of a sum that is left after so many turnovers, of which `half_life` leave half of it.
pub(super) fn kept_after(turnovers: f64, half_life: f64) -> f64 {
    (-turnovers / half_life).exp2()
}

impl Lasting {
    /// Takes in a window in which all VMs together had so many accesses, and of what was known before so much is `kept`.
    pub(super) fn take(&mut self, window: &LevelDemand, kept: f64, all_accesses: u64) {
        self.hits.values_mut().for_each(|hits| *hits *= kept);
        let and = |sum: &mut f64, new: f64| *sum = *sum * kept + new;
        and(&mut self.accesses, window.accesses as f64);
        and(&mut self.buffered_writes, window.buffered_writes as f64);
        and(&mut self.time, all_accesses as f64);
        and(&mut self.busy_time, if window.accesses > 0 { all_accesses as f64 } else { 0.0 });
        let mut below = 0;
        for point in &window.curve {
            *self.hits.entry(self.rounded(point.size_blocks)).or_default() += (point.hits - below) as f64;
            below = point.hits;
        }
        while self.hits.len() > MOST_POINTS {
            self.bits = Some(self.bits.map_or(FINEST_BITS, |bits| bits - 1));
            for (size_blocks, hits) in std::mem::take(&mut self.hits) {
                *self.hits.entry(self.rounded(size_blocks)).or_default() += hits;
            }
        }
        self.demand = self.sum(window);
    }

    /// What the VM could use by all that is known.
    pub(super) fn demand(&self) -> &LevelDemand {
        &self.demand
    }

    /// The sum, with what the latest window says of the rest. A VM counts by the part of the time in which it did something.
    fn sum(&self, latest: &LevelDemand) -> LevelDemand {
        let mut curve: Vec<CurvePoint> = Vec::new();
        let mut sum = 0.0;
        for (&size_blocks, hits) in &self.hits {
            sum += hits;
            let hits = sum as u64;
            if hits > curve.last().map_or(0, |point| point.hits) {
                curve.push(CurvePoint { size_blocks, hits });
            }
        }
        let last = curve.last().map_or(0, |point| u32::try_from(point.size_blocks).unwrap_or(u32::MAX));
        let presence = if self.busy_time > 0.0 { self.busy_time / self.time } else { 1.0 };
        LevelDemand {
            blocks: last.max(latest.blocks),
            curve,
            accesses: self.accesses.ceil() as u64,
            weight: latest.weight * presence.max(f64::MIN_POSITIVE),
            buffered_writes: self.buffered_writes as u64,
            ..*latest
        }
    }

    /// Up, so that no hits are promised of a smaller size, and to the same one however often.
    fn rounded(&self, size_blocks: u64) -> u64 {
        let significant = u64::BITS - size_blocks.leading_zeros();
        let low = self.bits.map_or(0, |bits| significant.saturating_sub(bits));
        size_blocks.div_ceil(1 << low) << low
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Steps of a curve: sizes, and hits that each adds.
    type Steps = [(u64, u64)];

    fn window(steps: &Steps) -> LevelDemand {
        let mut by_size = BTreeMap::<u64, u64>::new();
        steps.iter().for_each(|&(size_blocks, hits)| *by_size.entry(size_blocks).or_default() += hits);
        let mut hits = 0;
        let curve = by_size.into_iter().map(|(size_blocks, more)| {
            hits += more;
            CurvePoint { size_blocks, hits }
        });
        LevelDemand {
            curve: curve.collect(),
            accesses: 100 + hits,
            buffered_writes: 50,
            ..LevelDemand::default()
        }
    }

    fn hits_of(steps: &Steps, blocks: u64) -> f64 {
        steps.iter().filter(|step| step.0 <= blocks).map(|step| step.1 as f64).sum()
    }

    fn hits_at(demand: &LevelDemand, blocks: u64) -> f64 {
        demand
            .curve
            .iter()
            .filter(|point| point.size_blocks <= blocks)
            .map(|point| point.hits as f64)
            .fold(0.0, f64::max)
    }

    /// Steps of each window, and what is kept of those before it.
    fn windows(points: usize) -> impl Strategy<Value = Vec<(Vec<(u64, u64)>, f64)>> {
        let steps = prop::collection::vec((1u64..5_000, 1u64..9), 0..points);
        prop::collection::vec((steps, 0.0f64..=1.0), 1..9)
    }

    /// Compares with a sum over all windows; hits may only be known of sizes larger by `tolerance`.
    fn check(all: &[(Vec<(u64, u64)>, f64)], tolerance: impl Fn(u64) -> u64) -> Result<(), TestCaseError> {
        let mut lasting = Lasting::default();
        all.iter().for_each(|(steps, kept)| lasting.take(&window(steps), *kept, 1_000));
        let demand = lasting.demand();
        let sum = |value: &dyn Fn(&Steps) -> f64| -> f64 {
            let kept = |at: usize| all[at + 1..].iter().map(|(_, kept)| kept).product::<f64>();
            all.iter().enumerate().map(|(at, (steps, _))| value(steps) * kept(at)).sum()
        };
        let accesses = sum(&|steps| 100.0 + hits_of(steps, u64::MAX));
        prop_assert!((demand.accesses as f64 - accesses).abs() <= 1.0);
        prop_assert!((demand.buffered_writes as f64 - sum(&|_| 50.0)).abs() <= 1.0);
        prop_assert!(demand.curve.last().is_none_or(|last| last.hits <= demand.accesses));
        prop_assert!(demand.curve.is_sorted_by(|a, b| a.size_blocks < b.size_blocks && a.hits < b.hits));
        prop_assert!(demand.curve.len() <= MOST_POINTS);
        for blocks in (0..5_100).step_by(31) {
            let most = sum(&|steps| hits_of(steps, blocks));
            let least = sum(&|steps| hits_of(steps, blocks - tolerance(blocks)));
            let known = hits_at(demand, blocks);
            prop_assert!(
                known <= most + 1e-6 && known >= least - 1.0,
                "{blocks}: {known}, not {least} to {most}"
            );
        }
        Ok(())
    }

    proptest! {
        /// As long as there are few points all of them are known as they are.
        #[test]
        fn it_is_the_sum_of_all_windows(all in windows(60)) {
            check(&all, |_| 0)?;
        }

        /// When there are more, sizes are rounded up by no more than one of 128 parts, however often.
        #[test]
        fn many_points_promise_no_hits_too_early(all in windows(2_000)) {
            check(&all, |blocks| blocks.div_ceil(128))?;
        }
    }

    #[test]
    fn it_counts_by_the_time_in_which_the_vm_did_something() {
        let mut lasting = Lasting::default();
        let idle = LevelDemand::default();
        lasting.take(&idle, 0.5, 1_000);
        assert_eq!(lasting.demand().weight, 1.0, "nothing to weigh yet");
        lasting.take(&window(&[(10, 10)]), 0.5, 1_000);
        assert_eq!(lasting.demand().weight, 1_000.0 / 1_500.0);
        lasting.take(&idle, 0.5, 3_000);
        assert_eq!(lasting.demand().weight, 500.0 / 3_750.0);
    }
}
