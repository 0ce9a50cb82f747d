//! The shares of a host's VMs while they are served: VMs come and go, each has a scheme, a weight, a minimum and a maximum of
//! its own, and shares move a step at a time (ETICA sections 4.2.1, 4.3 and 5.5).
//!
//! A pure state machine. Whoever owns it measures demands at the end of each interval ([`HostSizer::divide`]), and carries out
//! steps until every VM has the share it is to have ([`HostSizer::shrink`], [`HostSizer::grow`]). It must not know clocks,
//! bytes or how VMs are served.
//!
//! Where it differs from the paper, which looks at what a cache costs: what no VM asks for stays where it is, because a cache
//! that is taken from a VM and given to nobody loses hits and gains nothing; and a level is only divided anew when that is worth
//! it ([`HostOptions::least_gain`]). Of VMs whose schemes ask for it ([`LevelDemand::half_life_turnovers`]) it looks at more than the
//! last interval, and gives them more only where that pays for the blocks that move.

mod budget;
mod governor;
mod lasting;
mod level;
mod step;
mod tenants;

use lode_reuse::CurvePoint;
use lode_reuse::sizing::Objective;
use lode_types::Level;

pub use self::budget::{BudgetDivision, Writer, divide_writes};
pub use self::governor::{BUDGET_INTERVAL_NS, WriteGovernor, WriteUse, follow};
use self::lasting::Lasting;
pub(crate) use self::tenants::HostDivision;

use crate::of_sized::OfSized;
use crate::quota::Quota;
use crate::scheme::LevelDemand;
use crate::sizer::AccessTimes;

/// Most points of a VM's hit curve that a host keeps. Points between are left out, so that hits are never overestimated.
pub const MOST_POINTS: usize = 1024;

/// How a host divides its levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostOptions {
    /// What a division maximises.
    pub objective: Objective,
    /// A level is divided anew when that gives at least this part more of the objective, or when it has to be.
    pub least_gain: f64,
    /// What the objective `latency` counts beside hits.
    pub times: AccessTimes,
}

impl Default for HostOptions {
    /// The mean of the hit ratios of all VMs, and one per cent.
    fn default() -> HostOptions {
        HostOptions { objective: Objective::SumHitRatio, least_gain: 0.01, times: AccessTimes::default() }
    }
}

/// What one VM may have of the host's levels.
#[derive(Clone, Debug, PartialEq)]
pub struct VmRule {
    /// By which it is known from one interval to the next.
    pub name: String,
    /// How much it counts beside others; positive.
    pub weight: f64,
    /// Guaranteed shares.
    pub least: Quota,
    /// Shares never exceeded.
    pub most: Quota,
    /// The largest shares that it can be given as long as it is served as it is now.
    pub reach: Quota,
    /// The shares that it was given by name. It has them where nothing measures what it could use; without, a part of the level
    /// by its weight.
    pub named: OfSized<Option<u32>>,
}

/// One VM and its shares.
#[derive(Clone, Debug)]
struct Vm {
    rule: VmRule,
    /// In force.
    share: Quota,
    /// What the share is to become.
    target: Quota,
    /// What it would be if every VM could be given whatever its rule allows.
    wanted: Quota,
    /// What it could have used of each level in the last interval; none where nothing is measured.
    demands: OfSized<Option<LevelDemand>>,
    /// The same of all it did lately, by which levels are divided; none where the last interval counts by itself.
    lasting: OfSized<Option<Lasting>>,
    /// There was no memory for a larger share of a level.
    is_denied: OfSized<bool>,
}

/// What is known of one VM's share of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LevelView {
    /// Blocks in force.
    pub share: u32,
    /// Blocks that it is to have.
    pub target: u32,
    /// Blocks that it would be given if it could grow to whatever its rule allows.
    pub wanted: u32,
    /// What it could have used of the level in the last interval; none where that is not measured.
    pub demand: Option<u32>,
    /// Block accesses of the last interval.
    pub accesses: u64,
}

/// Why a level is divided anew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// It is worth it: the objective before and after, by the demands of the last interval or, where these last, of all lately; after it
    /// without what the move costs.
    Gain {
        /// With the shares until now.
        before: f64,
        /// With the new ones.
        after: f64,
    },
    /// A VM has less than what the objective keeps for each.
    Kept,
    /// VMs came or went, or may have other shares than they had.
    Rules,
}

/// One VM's new share of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The VM, by its place among [`HostSizer::set_vms`].
    pub vm: usize,
    /// Blocks in force.
    pub share: u32,
    /// Blocks that it was to have until now.
    pub from: u32,
    /// Blocks that it is to have.
    pub to: u32,
    /// Hits that a share of `from` and of `to` would have given in the last interval; none where that is not measured.
    pub hits: Option<(u64, u64)>,
    /// Block accesses of the last interval.
    pub accesses: u64,
}

/// A level that is divided anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// The level.
    pub level: Level,
    /// Why.
    pub reason: Reason,
    /// What it maximises: the host's objective, or the sum of hit ratios where what that keeps for VMs does not fit.
    pub objective: Objective,
    /// The VMs whose shares change, in their order.
    pub changes: Vec<Change>,
}

/// Decides the shares of the VMs of a host. See the module's documentation.
#[derive(Clone, Debug)]
pub struct HostSizer {
    capacity: Quota,
    options: HostOptions,
    vms: Vec<Vm>,
    /// VMs came or went, or their rules are others, since the last division.
    is_disturbed: bool,
}

impl HostSizer {
    /// A host with these levels and no VM.
    pub fn new(capacity: Quota, options: HostOptions) -> HostSizer {
        HostSizer { capacity, options, vms: Vec::new(), is_disturbed: false }
    }

    /// The levels that are divided.
    pub fn capacity(&self) -> Quota {
        self.capacity
    }

    /// These are the VMs from now on. Those that were there keep their shares; what those had that are gone is free. A newcomer
    /// begins with its named share, or its part by weight, as far as that is free now, and the next division gives it the rest.
    pub fn set_vms(&mut self, rules: Vec<VmRule>) {
        let mut old = std::mem::take(&mut self.vms);
        self.is_disturbed |= !rules.iter().eq(old.iter().map(|vm| &vm.rule));
        let mut are_new = Vec::with_capacity(rules.len());
        for rule in rules {
            let known = old.iter().position(|vm| vm.rule.name == rule.name).map(|at| old.swap_remove(at));
            are_new.push(known.is_none());
            let vm = match known {
                Some(vm) => Vm { rule, is_denied: OfSized::default(), ..vm },
                None => Vm::new(rule),
            };
            self.vms.push(vm);
        }
        for level in Level::SIZED {
            let firsts = self.unmeasured_shares(level, &vec![true; self.vms.len()], true);
            let taken: u64 = self.vms.iter().map(|vm| u64::from(vm.share.of(level))).sum();
            let mut free = u64::from(self.capacity.of(level)).saturating_sub(taken);
            for ((vm, first), &is_new) in self.vms.iter_mut().zip(firsts).zip(&are_new) {
                if is_new {
                    let blocks = u64::from(first.min(vm.rule.reach.of(level))).min(free) as u32;
                    free -= u64::from(blocks);
                    vm.share = vm.share.with(level, blocks);
                    vm.target = vm.target.with(level, blocks);
                    vm.wanted = vm.wanted.with(level, blocks);
                }
            }
        }
    }

    /// A VM's scheme measures nothing from now on: what it could use was said of another one.
    pub fn forget_demand(&mut self, vm: usize) {
        if let Some(vm) = self.vms.get_mut(vm) {
            self.is_disturbed |= vm.demands.iter().any(Option::is_some);
            vm.forget_demand();
        }
    }

    /// A VM is known by another name from now on.
    pub fn rename(&mut self, from: &str, to: &str) {
        if let Some(vm) = self.vms.iter_mut().find(|vm| vm.rule.name == from) {
            to.clone_into(&mut vm.rule.name);
        }
    }

    /// What a VM may have; none of a VM that is not there.
    pub fn rule(&self, vm: usize) -> Option<&VmRule> {
        self.vms.get(vm).map(|vm| &vm.rule)
    }

    /// Hits of the last interval in a level of so many blocks; none where nothing is measured, or nothing was asked for.
    pub fn expected_hits(&self, vm: usize, level: Level, blocks: u32) -> Option<u64> {
        let demand = self.vms.get(vm)?.demand(level).filter(|demand| demand.accesses > 0)?;
        Some(hits_at(&demand.curve, blocks))
    }

    /// The share in force of every VM.
    pub fn shares(&self) -> impl Iterator<Item = Quota> {
        self.vms.iter().map(|vm| vm.share)
    }

    /// What is known of a VM's share of a level; nothing of a VM that is not there.
    pub fn view(&self, vm: usize, level: Level) -> LevelView {
        let Some(vm) = self.vms.get(vm) else { return LevelView::default() };
        let demand = vm.demand(level);
        LevelView {
            share: vm.share.of(level),
            target: vm.target.of(level),
            wanted: vm.wanted.of(level),
            demand: demand.map(|demand| demand.blocks),
            accesses: demand.map_or(0, |demand| demand.accesses),
        }
    }

    /// These are the shares in force, in the order of the VMs: whoever serves them began with these.
    ///
    /// # Panics
    /// When they are of another number of VMs.
    pub fn put_shares(&mut self, shares: &[Quota]) {
        assert_eq!(shares.len(), self.vms.len(), "a share for each VM");
        for (vm, &share) in self.vms.iter_mut().zip(shares) {
            (vm.share, vm.target, vm.wanted) = (share, share, share);
        }
        self.is_disturbed = false;
    }

    /// All shares stay as they are now, whatever they were to become.
    pub fn hold(&mut self) {
        self.vms.iter_mut().for_each(|vm| vm.target = vm.share);
    }

    /// Gives a VM another share, where nobody divides: the steps that follow carry it out.
    ///
    /// # Errors
    /// The level of which there is not enough beside the shares of others.
    pub fn set_target(&mut self, vm: usize, target: Quota) -> Result<(), Level> {
        for level in Level::SIZED {
            let others = self.vms.iter().enumerate().filter(|(at, _)| *at != vm);
            let taken: u64 = others.map(|(_, other)| u64::from(other.target.of(level))).sum();
            let grows = target.of(level) > self.vms[vm].target.of(level);
            if grows && taken + u64::from(target.of(level)) > u64::from(self.capacity.of(level)) {
                return Err(level);
            }
        }
        let vm = &mut self.vms[vm];
        (vm.target, vm.wanted) = (target, target);
        Ok(())
    }

    /// The host has levels of another size from now on.
    pub fn set_capacity(&mut self, capacity: Quota) {
        self.is_disturbed |= capacity != self.capacity;
        self.capacity = capacity;
    }

    /// Divides by other rules from now on.
    pub fn set_options(&mut self, options: HostOptions) {
        self.is_disturbed |= options != self.options;
        self.options = options;
    }
}

impl Vm {
    fn new(rule: VmRule) -> Vm {
        let none = Quota::default();
        let (demands, lasting) = (OfSized::default(), OfSized::default());
        let is_denied = OfSized::default();
        Vm { rule, share: none, target: none, wanted: none, demands, lasting, is_denied }
    }

    fn forget_demand(&mut self) {
        self.demands = OfSized::default();
        self.lasting = OfSized::default();
    }

    fn demand(&self, level: Level) -> Option<&LevelDemand> {
        self.demands.get(level)
    }

    /// By which a level is divided.
    fn demand_to_divide(&self, level: Level) -> Option<&LevelDemand> {
        self.lasting.get(level).map(Lasting::demand).or_else(|| self.demand(level))
    }

    /// What it may be given at most, for good or as it is served now.
    fn most(&self, level: Level, as_served: bool) -> u32 {
        let most = self.rule.most.of(level);
        if as_served { most.min(self.rule.reach.of(level)) } else { most }
    }
}

/// Hits of a level of so many blocks.
fn hits_at(curve: &[CurvePoint], blocks: u32) -> u64 {
    let after = curve.partition_point(|point| point.size_blocks <= u64::from(blocks));
    after.checked_sub(1).map_or(0, |at| curve[at].hits)
}

/// A demand with at most [`MOST_POINTS`] points on its curve, the last one among them.
pub fn thinned(mut demand: LevelDemand) -> LevelDemand {
    let points = demand.curve.len();
    if points > MOST_POINTS {
        let every = points.div_ceil(MOST_POINTS);
        let last = (points - 1) % every;
        let mut at = 0;
        demand.curve.retain(|_| {
            at += 1;
            (at - 1) % every == last
        });
        demand.curve.shrink_to_fit();
    }
    demand
}
