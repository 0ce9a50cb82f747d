//! When the VMs' shares are worked out anew, and the working out (ETICA section 4.3).
//!
//! The demands come from the schemes, the solution from `lode-reuse`; this room only keeps the interval
//! and the rule that a share can grow only into space that is free.

use lode_reuse::sizing::{Objective, VmDemand, divide};
use lode_types::Level;

use crate::effect::Sink;
use crate::quota::Quota;
use crate::scheme::{LevelDemand, Points, Scheme};
use crate::settings::{OFF, ON, SIZING, SettingInfo, SettingKind, Settings};

/// The settings of every scheme whose shares follow demand.
pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo {
        key: SIZING,
        default: ON,
        kind: SettingKind::Choice(&[ON, OFF]),
        about: "on: shares follow the demand of each sizing interval; off: every VM has the whole levels",
        source: "ETICA 4.3",
    },
    SettingInfo {
        key: "objective",
        default: "sum_hit_ratio",
        kind: SettingKind::Choice(&[
            "sum_hit_ratio",
            "hits",
            "latency",
            "ppc_total",
            "ppc_literal",
            "maxmin",
        ]),
        about: "what shares maximise when the demands do not fit; where an objective's own minimum shares \
                do not fit either, sum_hit_ratio",
        source: "ETICA Eq. 3 (ppc_literal), our reading of it (sum_hit_ratio), ECI-Cache (latency)",
    },
    SettingInfo {
        key: "ppc_floor",
        default: "0.9",
        kind: SettingKind::Number { min: 0.0, max: 1.0 },
        about: "with ppc_total: the part of its best hit ratio that every VM keeps",
        source: "ours",
    },
    SettingInfo {
        key: "min_blocks",
        default: "0",
        kind: SettingKind::Integer { min: 0, max: 1 << 30 },
        about: "blocks of each level that every VM keeps, demand or not",
        source: "ours; ppc_literal needs at least 1",
    },
    SettingInfo {
        key: "trigger",
        default: "requests",
        kind: SettingKind::Choice(&["requests", "time"]),
        about: "whether intervals are counted in requests or in seconds",
        source: "ETICA: 10,000 requests in the text, 10 minutes in the caption of Fig. 15",
    },
    SettingInfo {
        key: "sizing_interval",
        default: "10000",
        kind: SettingKind::Requests { min: 1, max: 1_000_000_000 },
        about: "requests of all VMs between two sizings",
        source: "ETICA 5.2",
    },
    SettingInfo {
        key: "sizing_interval_s",
        default: "600",
        kind: SettingKind::Number { min: 0.001, max: 86_400.0 },
        about: "seconds between two sizings, with trigger=time",
        source: "ETICA Fig. 15: 10 minutes",
    },
    SettingInfo {
        key: "shrink_rate",
        default: "0",
        kind: SettingKind::Integer { min: 0, max: 1 << 30 },
        about: "most blocks of a level that one VM gives up after one request; 0: all at once",
        source: "ours: bounds the write-back that a new share causes",
    },
];

/// What the objective `latency` takes for a hit and a miss. Only their order matters to the solution.
const LATENCY_CACHE_US: f64 = 120.0;
const LATENCY_BACKING_US: f64 = 8000.0;

/// One of the VMs that divide the levels of a host.
pub trait Tenant {
    /// Its share in force.
    fn quota(&self) -> Quota;

    /// Closes its sizing window and says what it could have used of each of [`Level::SIZED`]; see [`Scheme::demand`].
    fn demand(&mut self, points: Points) -> Option<[LevelDemand; 2]>;

    /// Changes its share.
    fn resize(&mut self, quota: Quota);
}

/// A scheme, and what takes its effects.
impl<T: Scheme, S: Sink> Tenant for (T, S) {
    fn quota(&self) -> Quota {
        self.0.quota()
    }

    fn demand(&mut self, points: Points) -> Option<[LevelDemand; 2]> {
        self.0.demand(points)
    }

    fn resize(&mut self, quota: Quota) {
        self.0.resize(quota, &mut self.1);
    }
}

/// Decides the shares of a set of VMs that divide the levels of one host.
#[derive(Debug)]
pub struct Sizer {
    on: bool,
    physical: Quota,
    objective: Objective,
    min_blocks: u32,
    by_time: bool,
    interval_requests: u64,
    interval_ns: u64,
    shrink_rate: u32,
    requests: u64,
    start_ns: Option<u64>,
    /// Shares still to be reached, where a VM has to give up blocks slowly first.
    targets: Vec<Quota>,
}

impl Sizer {
    /// A sizer for levels of this size. Schemes without sizing settings get a sizer that is off.
    pub fn new(settings: &Settings, physical: Quota) -> Sizer {
        let declared = settings.values().any(|(key, _)| key == SIZING);
        let integer = |key| if declared { settings.integer(key) } else { 0 };
        let min_blocks = integer("min_blocks") as u32;
        Sizer {
            on: declared && settings.is_on(SIZING),
            physical,
            objective: if declared { objective(settings) } else { Objective::SumHitRatio },
            min_blocks,
            by_time: declared && settings.text("trigger") == "time",
            interval_requests: integer("sizing_interval"),
            interval_ns: if declared { (settings.number("sizing_interval_s") * 1e9) as u64 } else { 0 },
            shrink_rate: integer("shrink_rate") as u32,
            requests: 0,
            start_ns: None,
            targets: Vec::new(),
        }
    }

    /// Whether shares ever change; if not, nobody has to be asked after a request.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// The share each of `vms` VMs starts with: equal parts, or without sizing the whole levels.
    pub fn first_share(&self, vms: usize) -> Quota {
        let parts = if self.on { (vms as u32).max(1) } else { 1 };
        self.physical.map(|_, blocks| blocks / parts)
    }

    /// Notes one request of any of the VMs and, when the interval ends, gives every VM its new share.
    /// Says whether an interval ended.
    #[inline]
    pub fn after_request<V: Tenant>(&mut self, now_ns: u64, vms: &mut [V]) -> bool {
        if !self.on {
            return false;
        }
        self.requests += 1;
        let sized = self.interval_is_over(now_ns);
        if sized || !self.targets.is_empty() {
            self.size(sized, now_ns, vms);
        }
        sized
    }

    /// Makes new targets when an `interval_ended`, and takes a step towards those there are.
    #[inline(never)]
    fn size<V: Tenant>(&mut self, interval_ended: bool, now_ns: u64, vms: &mut [V]) {
        if interval_ended {
            self.requests = 0;
            self.start_ns = Some(now_ns);
            self.targets = self.shares(vms);
        }
        // Targets of a host whose VMs came or went since are for others; the next interval makes new ones.
        if !self.targets.is_empty() && self.targets.len() == vms.len() {
            self.approach(vms);
        }
    }

    #[inline(always)]
    fn interval_is_over(&mut self, now_ns: u64) -> bool {
        if self.by_time {
            let start = *self.start_ns.get_or_insert(now_ns);
            now_ns.saturating_sub(start) >= self.interval_ns
        } else {
            self.requests >= self.interval_requests
        }
    }

    /// What every VM should have, from the window that ends now.
    fn shares<V: Tenant>(&self, vms: &mut [V]) -> Vec<Quota> {
        let mut shares: Vec<Quota> = vms.iter().map(Tenant::quota).collect();
        let points = if vms.len() == 1 && !self.is_per_block() {
            Points::LastWithin(self.physical)
        } else {
            Points::All
        };
        let demands: Vec<_> = vms.iter_mut().map(|vm| vm.demand(points)).collect();
        let Some(mut demands) = demands.into_iter().collect::<Option<Vec<_>>>() else { return shares };
        for level in Level::SIZED {
            let physical = self.physical.of(level);
            let most_guaranteed = physical / vms.len() as u32;
            let of_level: Vec<VmDemand> = demands
                .iter_mut()
                .map(|demand| self.vm_demand(std::mem::take(&mut demand[level.index()]), most_guaranteed))
                .collect();
            let division = divide(&of_level, u64::from(physical), self.objective)
                .or_else(|_| divide(&of_level, u64::from(physical), Objective::SumHitRatio))
                .expect("measured demands are well formed and their minimums are cut to what fits");
            for (share, blocks) in shares.iter_mut().zip(division.sizes) {
                *share = share.with(level, blocks as u32);
            }
        }
        shares
    }

    /// Whether more hits may be worth less, because of the blocks that they take.
    fn is_per_block(&self) -> bool {
        matches!(self.objective, Objective::PpcTotal { .. } | Objective::PpcLiteral { .. })
    }

    fn vm_demand(&self, demand: LevelDemand, most_guaranteed: u32) -> VmDemand {
        VmDemand {
            curve: demand.curve,
            accesses: demand.accesses,
            demand_blocks: u64::from(demand.blocks),
            weight: 1.0,
            min_blocks: u64::from(self.min_blocks.min(most_guaranteed)),
            max_blocks: u64::MAX,
            write_buffer: None,
        }
    }

    /// One step towards the targets: first what is given up, then what grows into free space.
    fn approach<V: Tenant>(&mut self, vms: &mut [V]) {
        let slowest = if self.shrink_rate == 0 { u32::MAX } else { self.shrink_rate };
        let mut next: Vec<Quota> = vms.iter().map(Tenant::quota).collect();
        for level in Level::SIZED {
            for (quota, target) in next.iter_mut().zip(&self.targets) {
                let step = quota.of(level).saturating_sub(target.of(level)).min(slowest);
                *quota = quota.with(level, quota.of(level) - step);
            }
            let used: u64 = next.iter().map(|quota| u64::from(quota.of(level))).sum();
            let mut free = u64::from(self.physical.of(level)).saturating_sub(used);
            for (quota, target) in next.iter_mut().zip(&self.targets) {
                let growth = u64::from(target.of(level).saturating_sub(quota.of(level))).min(free);
                free -= growth;
                *quota = quota.with(level, quota.of(level) + growth as u32);
            }
        }
        for (vm, quota) in vms.iter_mut().zip(&next) {
            if vm.quota() != *quota {
                vm.resize(*quota);
            }
        }
        if next == self.targets {
            self.targets.clear();
        }
    }
}

fn objective(settings: &Settings) -> Objective {
    match settings.text("objective") {
        "hits" => Objective::Hits,
        "latency" => Objective::Latency { cache_us: LATENCY_CACHE_US, backing_us: LATENCY_BACKING_US },
        "ppc_total" => Objective::PpcTotal { floor: settings.number("ppc_floor") },
        "ppc_literal" => Objective::PpcLiteral { min_blocks: settings.integer("min_blocks").max(1) },
        "maxmin" => Objective::MaxMin,
        _ => Objective::SumHitRatio,
    }
}
