//! The division of one level between the VMs of a host.

use lode_reuse::sizing::{Objective, VmDemand, divide};
use lode_types::Level;

use super::lasting::kept_after;
use super::{Change, Division, HostSizer, Reason, Vm, hits_at, thinned};
use crate::scheme::LevelDemand;

impl HostSizer {
    /// Ends an interval: what every VM could have used in it, where its scheme measures that, in their order. Divides the levels
    /// anew where that has to be or is worth it, and says how. A VM without a demand keeps its named share, or has its part by
    /// weight.
    ///
    /// # Panics
    /// When there are demands of another number of VMs.
    pub fn divide(&mut self, demands: Vec<Option<[LevelDemand; 2]>>) -> Vec<Division> {
        assert_eq!(demands.len(), self.vms.len(), "a demand for each VM");
        // A VM says as much of its accesses for each level.
        let of_vm = |levels: &[LevelDemand; 2]| levels.iter().map(|demand| demand.accesses).max();
        let all_accesses: u64 = demands.iter().flatten().filter_map(of_vm).sum();
        let blocks = Level::SIZED.map(|level| f64::from(self.capacity.of(level)));
        let turnovers = all_accesses as f64 / blocks.iter().sum::<f64>().max(1.0);
        for (vm, demand) in self.vms.iter_mut().zip(demands) {
            // What it was given because it asked for it, or was not, has to be seen anew.
            self.is_disturbed |= demand.is_none() && vm.demands.iter().any(Option::is_some);
            let Some(levels) = demand else {
                vm.forget_demand();
                continue;
            };
            for (level, window) in Level::SIZED.into_iter().zip(levels) {
                let mut window = thinned(window);
                // Hits as such weigh as much as there are of them: those of many intervals have no place beside those of one.
                if self.options.objective == Objective::Hits {
                    window.half_life_turnovers = 0.0;
                }
                vm.note(level, window, turnovers, all_accesses);
            }
        }
        self.divide_again()
    }

    /// Divides by what VMs could have used in the last interval, after what they may have has changed.
    pub fn divide_again(&mut self) -> Vec<Division> {
        let is_disturbed = std::mem::take(&mut self.is_disturbed);
        Level::SIZED.into_iter().filter_map(|level| self.divide_level(level, is_disturbed)).collect()
    }

    fn divide_level(&mut self, level: Level, is_disturbed: bool) -> Option<Division> {
        let (mut wanted, _) = self.best(level, false);
        self.leave_spare(level, &mut wanted, false);
        for (vm, &wanted) in self.vms.iter_mut().zip(&wanted) {
            vm.wanted = vm.wanted.with(level, wanted);
        }
        let (mut new, objective) = self.best(level, true);
        self.leave_spare(level, &mut new, true);
        let old: Vec<u32> = self.vms.iter().map(|vm| vm.target.of(level)).collect();
        let reason = self.reason(level, is_disturbed, &objective, &old, &new)?;
        let mut changes = Vec::new();
        for (at, (vm, (&from, &to))) in self.vms.iter_mut().zip(old.iter().zip(&new)).enumerate() {
            if from != to {
                let demand = vm.demand(level);
                let hits = demand.map(|demand| (hits_at(&demand.curve, from), hits_at(&demand.curve, to)));
                let (share, accesses) = (vm.share.of(level), demand.map_or(0, |demand| demand.accesses));
                changes.push(Change { vm: at, share, from, to, hits, accesses });
                vm.target = vm.target.with(level, to);
            }
        }
        (!changes.is_empty()).then_some(Division { level, reason, objective, changes })
    }

    /// Why the level should have the new shares, if it should.
    fn reason(
        &self,
        level: Level,
        is_disturbed: bool,
        objective: &Objective,
        old: &[u32],
        new: &[u32],
    ) -> Option<Reason> {
        let sum: u64 = old.iter().copied().map(u64::from).sum();
        let breaks = |(vm, &blocks): (&super::Vm, &u32)| {
            blocks > vm.most(level, true) || blocks < vm.rule.least.of(level).min(vm.most(level, true))
        };
        let has_to = sum > u64::from(self.capacity.of(level)) || self.vms.iter().zip(old).any(breaks);
        if is_disturbed || has_to || self.is_left_short(level, sum, old, new) {
            return Some(Reason::Rules);
        }
        if self.is_owed(level, objective, old, new) {
            return Some(Reason::Kept);
        }
        let before = self.value(level, objective, old, None);
        let after = self.value(level, objective, new, Some(old));
        let is_worth_it = after > before && after - before >= before.abs() * self.options.least_gain;
        is_worth_it.then_some(Reason::Gain { before, after })
    }

    /// Whether a VM has less than the objective keeps for it, by more than what is worth a move, and would have it: such a move may
    /// gain nothing.
    fn is_owed(&self, level: Level, objective: &Objective, old: &[u32], new: &[u32]) -> bool {
        self.vms.iter().zip(old).zip(new).any(|((vm, &old), &new)| {
            let Some(demand) = vm.demand_to_divide(level) else { return false };
            let bounds = (vm.rule.least.of(level), vm.most(level, true));
            let kept = objective.least_blocks(&self.vm_demand(level, demand, vm.rule.weight, bounds));
            f64::from(old) < kept as f64 * (1.0 - self.options.least_gain) && u64::from(new) >= kept
        })
    }

    /// Whether a VM of which nothing is measured has less than its part while space is nobody's: there is no gain that tells.
    fn is_left_short(&self, level: Level, given: u64, old: &[u32], new: &[u32]) -> bool {
        let is_short = |((vm, old), new): ((&super::Vm, &u32), &u32)| {
            new > old && vm.demand(level).is_none() && vm.is_denied.of(level) != Some(&true)
        };
        given < u64::from(self.capacity.of(level)) && self.vms.iter().zip(old).zip(new).any(is_short)
    }

    /// What shares are worth to the VMs whose demand is measured, with what it takes to come there from old ones.
    fn value(&self, level: Level, objective: &Objective, shares: &[u32], old: Option<&[u32]>) -> f64 {
        let measured = self.vms.iter().zip(shares).filter_map(|(vm, &share)| {
            let mut demand =
                self.vm_demand(level, vm.demand_to_divide(level)?, vm.rule.weight, (0, u32::MAX));
            if let Some(old) = old {
                self.charge_growth(level, vm, old, &mut demand);
            }
            Some((demand, u64::from(share)))
        });
        let (demands, sizes): (Vec<VmDemand>, Vec<u64>) = measured.unzip();
        objective.value(&demands, &sizes)
    }

    /// The best shares of a level, and by which objective: those of VMs without a demand first, then the best of the rest.
    fn best(&self, level: Level, as_served: bool) -> (Vec<u32>, Objective) {
        let is_unmeasured: Vec<bool> = self.vms.iter().map(|vm| vm.demand(level).is_none()).collect();
        let least: Vec<u32> = self.least(level, as_served);
        let mut shares = self.unmeasured_shares(level, &is_unmeasured, as_served);
        let taken: u64 = shares.iter().copied().map(u64::from).sum();
        let capacity = u64::from(self.capacity.of(level)).saturating_sub(taken);
        let measured: Vec<usize> = (0..self.vms.len()).filter(|&at| !is_unmeasured[at]).collect();
        let old: Vec<u32> = self.vms.iter().map(|vm| vm.target.of(level)).collect();
        let demands: Vec<VmDemand> = measured
            .iter()
            .map(|&at| {
                let vm = &self.vms[at];
                let demand = vm.demand_to_divide(level).expect("it is measured");
                let bounds = (least[at], vm.most(level, as_served));
                let mut demand = self.vm_demand(level, demand, vm.rule.weight, bounds);
                self.charge_growth(level, vm, &old, &mut demand);
                demand
            })
            .collect();
        // What an objective keeps for VMs may be more than there is.
        let by = |objective| divide(&demands, capacity, objective).map(|division| (division, objective));
        let (division, objective) = by(self.options.objective)
            .or_else(|_| by(Objective::SumHitRatio))
            .expect("measured demands are well formed and their minimums are cut to what fits");
        for (at, blocks) in measured.into_iter().zip(division.sizes) {
            shares[at] = u32::try_from(blocks).unwrap_or(u32::MAX);
        }
        (shares, objective)
    }

    /// Takes from the hits of shares beyond what the VM has of `old` ones, and beyond what is nobody's, one for each block more: it has to
    /// come from the disk once before it can hit, and whoever gives it up may miss it once. So a share grows only where by what
    /// was seen that would have paid; and where demands change faster than shares can follow, it stays. Of demands that are of one
    /// interval, and of objectives that are no sums of hits, nothing is taken.
    fn charge_growth(&self, level: Level, vm: &Vm, old: &[u32], demand: &mut VmDemand) {
        let sums_hits = matches!(self.options.objective, Objective::SumHitRatio | Objective::Latency { .. });
        if !sums_hits || vm.lasting.get(level).is_none() {
            return;
        }
        let given: u64 = old.iter().copied().map(u64::from).sum();
        let free = u64::from(self.capacity.of(level)).saturating_sub(given);
        let from = u64::from(vm.target.of(level)) + free;
        let mut most = 0;
        demand.curve.retain_mut(|point| {
            point.hits = point.hits.saturating_sub(point.size_blocks.saturating_sub(from));
            let rises = point.hits > most;
            most = most.max(point.hits);
            rises
        });
    }

    fn vm_demand(
        &self,
        level: Level,
        demand: &LevelDemand,
        weight: f64,
        (least, most): (u32, u32),
    ) -> VmDemand {
        VmDemand {
            curve: demand.curve.clone(),
            accesses: demand.accesses,
            demand_blocks: u64::from(demand.blocks) + u64::from(demand.trial_blocks),
            weight: demand.weight * weight,
            min_blocks: u64::from(least.min(most)),
            max_blocks: u64::from(most),
            write_buffer: self.options.times.buffer_of(level, demand),
        }
    }

    /// What every VM is guaranteed, cut where the level has less.
    fn least(&self, level: Level, as_served: bool) -> Vec<u32> {
        let least = self
            .vms
            .iter()
            .map(|vm| vm.rule.least.of(level).min(vm.most(level, as_served)))
            .collect::<Vec<_>>();
        fit(&vec![0; least.len()], &least, self.capacity.of(level).into())
    }

    /// The shares of VMs of which nothing is measured, and 0 for the others: by name, or by weight, as far as the minimums of
    /// the others allow.
    pub(super) fn unmeasured_shares(
        &self,
        level: Level,
        is_unmeasured: &[bool],
        as_served: bool,
    ) -> Vec<u32> {
        let capacity = u64::from(self.capacity.of(level));
        let least = self.least(level, as_served);
        // What is promised by name is nobody else's part.
        let named = |vm: &super::Vm| vm.rule.named.get(level).copied();
        let promised: u64 = self.vms.iter().filter_map(named).map(u64::from).sum();
        let rest = capacity.saturating_sub(promised) as f64;
        let unnamed = self.vms.iter().filter(|vm| named(vm).is_none() && vm.most(level, as_served) > 0);
        let weights: f64 = unnamed.map(|vm| vm.rule.weight).sum();
        let kept: u64 =
            least.iter().zip(is_unmeasured).filter(|(_, is)| !**is).map(|(l, _)| u64::from(*l)).sum();
        let of = |at: usize| -> (u32, u32) {
            if !is_unmeasured[at] {
                return (0, 0);
            }
            let rule = &self.vms[at].rule;
            let by_weight = (rest * rule.weight / weights) as u32;
            let want = named(&self.vms[at]).unwrap_or(by_weight).min(self.vms[at].most(level, as_served));
            (least[at], want.max(least[at]))
        };
        let (least, want): (Vec<u32>, Vec<u32>) = (0..self.vms.len()).map(of).unzip();
        fit(&least, &want, capacity.saturating_sub(kept))
    }

    /// What nobody asks for stays with those who have it, and whose part could not be told by a gain has what it would be given.
    fn leave_spare(&self, level: Level, shares: &mut [u32], as_served: bool) {
        let given: u64 = shares.iter().copied().map(u64::from).sum();
        let spare = u64::from(self.capacity.of(level)).saturating_sub(given);
        let kept: Vec<u32> = self
            .vms
            .iter()
            .zip(&*shares)
            .map(|(vm, &share)| {
                let had = match as_served {
                    true if vm.demand(level).is_none() => vm.target.of(level).max(vm.wanted.of(level)),
                    true => vm.target.of(level),
                    false => vm.wanted.of(level),
                };
                had.min(vm.most(level, as_served)).saturating_sub(share)
            })
            .collect();
        for (share, more) in shares.iter_mut().zip(fit(&vec![0; kept.len()], &kept, spare)) {
            *share += more;
        }
    }
}

impl Vm {
    /// Takes in what the VM could have used in a window, in which all VMs together had so many accesses, so many turnovers of the host.
    fn note(&mut self, level: Level, window: LevelDemand, turnovers: f64, all_accesses: u64) {
        let half_life = window.half_life_turnovers;
        if let Some(lasting) = self.lasting.of_mut(level) {
            match half_life > 0.0 {
                true => {
                    let kept = kept_after(turnovers, half_life);
                    lasting.get_or_insert_default().take(&window, kept, all_accesses);
                }
                false => *lasting = None,
            }
        }
        if let Some(demand) = self.demands.of_mut(level) {
            *demand = Some(window);
        }
    }
}

/// What is wanted, or where that is more than `room`, the minimums and equal parts of what is wanted beyond; or where these are
/// more, equal parts of them.
fn fit(least: &[u32], want: &[u32], room: u64) -> Vec<u32> {
    let sum = |blocks: &[u32]| blocks.iter().copied().map(u64::from).sum::<u64>();
    let (all_least, all_want) = (sum(least), sum(want));
    let part = |blocks: u32, of: u64, all: u64| {
        (u128::from(blocks) * u128::from(of) / u128::from(all.max(1))) as u32
    };
    if all_want <= room {
        want.to_vec()
    } else if all_least >= room {
        least.iter().map(|&blocks| part(blocks, room, all_least)).collect()
    } else {
        let beyond = |(&least, &want): (&u32, &u32)| {
            least + part(want.saturating_sub(least), room - all_least, all_want - all_least)
        };
        least.iter().zip(want).map(beyond).collect()
    }
}
