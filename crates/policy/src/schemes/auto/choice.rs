//! Which candidate is to decide, by what all of them cost: another one once it has saved enough. It must not know what they are made
//! of, or how their costs are measured.

use super::candidates::Candidate;
use super::trial::{ShadowCosts, Spent};
use crate::settings::Settings;

/// What is left of the sums of all looks after each.
const KEPT: f64 = 0.99;

/// What counts of what is spent.
#[derive(Clone, Copy, Debug)]
struct Weights {
    latency: f64,
    ssd_write_us: f64,
    disk: f64,
    disk_peak: f64,
}

impl Weights {
    fn new(settings: &Settings) -> Weights {
        let [latency, ssd_write_us, disk, disk_peak] =
            ["latency_weight", "ssd_write_weight_us", "disk_weight", "disk_peak_weight"]
                .map(|key| settings.number(key));
        Weights { latency, ssd_write_us, disk, disk_peak }
    }

    fn cost(&self, spent: Spent) -> f64 {
        spent.us * self.latency
            + spent.ssd_writes * self.ssd_write_us
            + spent.disk_us * self.disk
            + spent.disk_peak_us * self.disk_peak
    }
}

/// When another candidate is to decide, in parts of what the one that decides costs.
#[derive(Clone, Copy, Debug)]
struct Bar {
    /// What has to be saved for it to count.
    least: f64,
    /// What must have been saved, of a turnover.
    saved: f64,
}

/// A candidate that is to decide, and why.
#[derive(Clone, Copy, Debug)]
pub(super) struct Better {
    /// Its place among the candidates.
    pub at: usize,
    /// What it has saved, in turnovers.
    pub saved: f64,
    /// What it must have saved, in turnovers.
    pub asked: f64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Choice {
    weights: Weights,
    /// For other settings, and for another scheme.
    bars: [Bar; 2],
    /// What each candidate has saved.
    gains: Vec<f64>,
    /// What each has cost in all, the later counting more.
    sums: Vec<f64>,
}

impl Choice {
    pub(super) fn new(settings: &Settings, candidates: usize) -> Choice {
        let bar = |(least, saved)| Bar {
            least: settings.number(least) / 100.0,
            saved: settings.number(saved) / 100.0,
        };
        let keys = [("set_percent", "set_cost_percent"), ("switch_percent", "switch_cost_percent")];
        let nothing = vec![0.0; candidates];
        Choice { weights: Weights::new(settings), bars: keys.map(bar), gains: nothing.clone(), sums: nothing }
    }

    /// Another one decides: nothing is saved yet.
    pub(super) fn note_choice(&mut self) {
        self.gains.fill(0.0);
    }

    /// The shadows begin anew: nothing is known yet of what they cost.
    pub(super) fn begin_anew(&mut self) {
        self.gains.fill(0.0);
        self.sums.fill(0.0);
    }

    /// Looks at what the candidates cost; gives a better one that has saved enough: a sum of what it saves beyond what does not count,
    /// which is never negative (Page, "Continuous inspection schemes", Biometrika 1954). One with which what is known of blocks counts for
    /// nothing must have cost less in all, too: the phases in which it is better where it is not so as a rule are over too soon, and
    /// leave what is worth little in the cache.
    pub(super) fn look(
        &mut self,
        costs: &ShadowCosts,
        candidates: &[Candidate],
        chosen: usize,
    ) -> Option<Better> {
        // Without a shadow of its own it is on its way out.
        let (own, own_mean) = costs.new[chosen].zip(costs.mean[chosen])?;
        let (own, own_mean) = (self.weights.cost(own), self.weights.cost(own_mean));
        let turnover = own_mean * costs.turnover_requests;
        let kept = KEPT.powf(costs.weight);
        for (sum, new) in self.sums.iter_mut().zip(&costs.new) {
            *sum = *sum * kept + new.map_or(0.0, |new| self.weights.cost(new)) * costs.weight;
        }
        let mut best: Option<(f64, Better)> = None;
        for (at, candidate) in candidates.iter().enumerate() {
            let Some((new, mean)) = costs.new[at].zip(costs.mean[at]) else { continue };
            let is_set = candidate.is_same_scheme(candidates[chosen]);
            let Bar { least, saved } = if is_set { self.bars[0] } else { self.bars[1] };
            let gain = &mut self.gains[at];
            *gain = (*gain + (own * (1.0 - least) - self.weights.cost(new)) * costs.weight).max(0.0);
            let excess = *gain - saved * turnover;
            // What it saved must not lie long back.
            let is_better = at != chosen && self.weights.cost(mean) < own_mean;
            let is_so_in_all =
                !candidate.ignores_what_counts_with(candidates[chosen]) || self.sums[at] < self.sums[chosen];
            if is_better && is_so_in_all && excess > 0.0 && best.is_none_or(|(most, _)| excess > most) {
                best = Some((excess, Better { at, saved: *gain / turnover, asked: saved }));
            }
        }
        best.map(|(_, best)| best)
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk_peak::{DiskPeak, Work};
    use super::*;
    use crate::registry::SchemeInfo;

    const CANDIDATES: [Candidate; 2] =
        [Candidate::Benefit { price_us: 10.0 }, Candidate::Benefit { price_us: 1.0 }];

    /// Whether the second is chosen by and by, when disks work for so long in turn in each interval, and two intervals make a look.
    fn is_chosen(weight: &str, disk_us: [[f64; 2]; 2]) -> bool {
        let mut settings = SchemeInfo::find("auto").unwrap().settings();
        settings.set("latency_weight", "0").unwrap();
        settings.set("disk_peak_weight", "1").unwrap();
        let mut peak = DiskPeak::new(&settings).unwrap();
        settings.set("disk_peak_weight", "0").unwrap();
        settings.set(weight, "1").unwrap();
        let mut choice = Choice::new(&settings, CANDIDATES.len());
        (0..100).any(|_| {
            let mut spent = [Spent::default(); 2];
            for interval in 0..2 {
                let scale_us = peak.scale_us((disk_us[0][interval] + disk_us[1][interval]) / 2.0, true);
                for (one, disk_us) in spent.iter_mut().zip(disk_us) {
                    let mut work = Work::default();
                    work.add(disk_us[interval]);
                    one.disk_us += disk_us[interval];
                    one.disk_peak_us += work.count(scale_us);
                }
            }
            let costs = ShadowCosts {
                new: spent.map(Some).to_vec(),
                mean: spent.map(Some).to_vec(),
                weight: 1.0,
                turnover_requests: 4.0,
                of_sizes: None,
                requests: 2.0,
                accesses: 4.0,
            };
            choice.look(&costs, &CANDIDATES, 0).is_some_and(|better| better.at == 1)
        })
    }

    /// As much work in all: only the peak has a choice, and it is the one that works evenly.
    #[test]
    fn the_peak_is_for_even_work() {
        let (even, uneven) = ([6e6, 6e6], [2e6, 10e6]);
        assert!(!is_chosen("disk_weight", [uneven, even]) && !is_chosen("disk_weight", [even, uneven]));
        assert!(is_chosen("disk_peak_weight", [uneven, even]));
        assert!(!is_chosen("disk_peak_weight", [even, uneven]));
        // A little less at the peak is worth much more in quiet times.
        let lower = [4e6, 9e6];
        assert!(is_chosen("disk_peak_weight", [uneven, lower]) && !is_chosen("disk_weight", [uneven, lower]));
    }

    fn costs(us: [f64; 2]) -> ShadowCosts {
        let spent = us.map(|us| Some(Spent { us, ..Spent::default() })).to_vec();
        ShadowCosts {
            new: spent.clone(),
            mean: spent,
            weight: 1.0,
            turnover_requests: 4.0,
            of_sizes: None,
            requests: 1.0,
            accesses: 1.0,
        }
    }

    /// Looks from one on at which the second decides instead of the first, if the first is better up to then, and the second from then on.
    fn looks_until_chosen(candidates: [Candidate; 2]) -> Option<usize> {
        let settings = SchemeInfo::find("auto").unwrap().settings();
        let mut choice = Choice::new(&settings, candidates.len());
        for _ in 0..20 {
            assert!(choice.look(&costs([100.0, 120.0]), &candidates, 0).is_none());
        }
        (1..200).find(|_| choice.look(&costs([100.0, 80.0]), &candidates, 0).is_some())
    }

    /// A price is chosen as soon as it has saved enough; recency must have made good what it cost before, too, and back it is as a price.
    #[test]
    fn recency_must_be_better_in_all() {
        let [benefit, price] = CANDIDATES;
        let recency = Candidate::Recency { price_us: 10.0 };
        assert_eq!(looks_until_chosen([benefit, price]), Some(3));
        assert_eq!(looks_until_chosen([recency, price]), Some(3));
        let looks = looks_until_chosen([benefit, recency]);
        // What lies 20 looks back counts a fifth less.
        assert!(looks.is_some_and(|looks| (15..20).contains(&looks)), "{looks:?}");
    }
}
