//! When the VMs' shares are worked out anew, and the working out (ETICA section 4.3).
//!
//! The demands come from the schemes, the best division from `lode-reuse`; this module keeps the interval, the rule that a share
//! can grow only into space that is free, and the one division that is no maximum of anything: a chunk that moves.

use lode_reuse::sizing::{Objective, VmDemand, WriteBuffer, divide};
use lode_types::Level;

use crate::effect::Sink;
use crate::host::HostDivision;
use crate::interval::Interval;
use crate::quota::Quota;
use crate::registry::SchemeInfo;
use crate::scheme::{LevelDemand, Points, Scheme};
use crate::settings::{OFF, ON, SIZING, SettingInfo, Settings};

/// Whether a scheme's shares follow demand.
pub(crate) const SIZED: SettingInfo = SettingInfo::choice(SIZING, ON, &[ON, HOST, OFF])
    .about(
        "on: shares follow the demand of each sizing interval; host: they follow as a host divides its \
         levels while it serves; off: every VM keeps the share it starts with, in a replay an equal one",
    )
    .source("ETICA 4.3; host: ours");

/// How they do.
pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo::integer("min_blocks", "0", 0, 1 << 30)
        .about("blocks of each level that every VM keeps, demand or not")
        .source("ours; ppc_literal needs at least 1"),
    SettingInfo::choice("trigger", "requests", &["requests", "time"])
        .about("whether intervals are counted in requests or in seconds")
        .source("ETICA: 10,000 requests in the text, 10 minutes in the caption of Fig. 15"),
    SettingInfo::scaled("sizing_interval", "10000", 1, 1_000_000_000)
        .about("requests of all VMs between two sizings")
        .source("ETICA 5.2"),
    SettingInfo::number("sizing_interval_s", "600", 0.001, 86_400.0)
        .about("seconds between two sizings, with trigger=time")
        .source("ETICA Fig. 15: 10 minutes"),
    SettingInfo::integer("shrink_rate", "0", 0, 1 << 30)
        .about("most blocks of a level that one VM gives up after one request; 0: all at once")
        .source("ours: bounds the write-back that a new share causes"),
];

/// The setting that chooses the objective, for schemes that divide by one.
pub(crate) const fn objective_setting(default: &'static str) -> SettingInfo {
    SettingInfo::choice(
        OBJECTIVE,
        default,
        &["sum_hit_ratio", "hits", "latency", "ppc_total", "ppc_literal", "maxmin"],
    )
    .about(
        "what shares maximise when the demands do not fit; where an objective's own minimum shares do not \
         fit either, sum_hit_ratio",
    )
    .source("ETICA Eq. 3 (ppc_literal), our reading of it (sum_hit_ratio), ECI-Cache (latency)")
}

/// The floor of one of the objectives.
pub(crate) const PPC_FLOOR: SettingInfo = SettingInfo::number("ppc_floor", "0.9", 0.0, 1.0)
    .about("with ppc_total: the part of its best hit ratio that every VM keeps")
    .source("ours");

/// The setting of schemes that divide by moving chunks.
pub(crate) const CHUNK_PERCENT: SettingInfo = SettingInfo::number("chunk_percent", "1", 0.01, 100.0)
    .about(
        "per cent of the level that move from one VM to another at the end of an interval, at least one \
         block",
    )
    .source("ours; S-CAVE's chunk size is not known to us");

const OBJECTIVE: &str = "objective";

/// Of [`SIZING`]: as a host divides.
const HOST: &str = "host";

/// What accesses take on a host's devices, in microseconds, for the objective `latency`: minus the VMs' mean latencies, in which a
/// read is a hit or waits for the disk, and a write waits for the disk unless the VM has a share of the SSD that takes writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccessTimes {
    /// A hit.
    pub ssd_read_us: f64,
    /// A write that the SSD takes.
    pub ssd_write_us: f64,
    /// A miss.
    pub disk_read_us: f64,
    /// A write that the disk takes.
    pub disk_write_us: f64,
}

/// Those of the device profile `default`, for whoever knows no devices.
impl Default for AccessTimes {
    fn default() -> AccessTimes {
        AccessTimes { ssd_read_us: 120.0, ssd_write_us: 60.0, disk_read_us: 8000.0, disk_write_us: 8000.0 }
    }
}

impl AccessTimes {
    /// Of microseconds in the order of the fields.
    pub fn of_us([ssd_read_us, ssd_write_us, disk_read_us, disk_write_us]: [f64; 4]) -> AccessTimes {
        AccessTimes { ssd_read_us, ssd_write_us, disk_read_us, disk_write_us }
    }

    /// The objective at these times.
    pub fn objective(&self) -> Objective {
        Objective::Latency { cache_us: self.ssd_read_us, backing_us: self.disk_read_us }
    }

    /// What a smallest share of `blocks` of the SSD saves a VM of whose `accesses` so many are `writes` that it takes; none where
    /// that is nothing.
    pub fn write_buffer(&self, blocks: u64, writes: u64, accesses: u64) -> Option<WriteBuffer> {
        let each_us = self.disk_write_us - self.ssd_write_us;
        (writes > 0 && each_us > 0.0)
            .then(|| WriteBuffer { blocks, saved_us: writes as f64 / accesses.max(1) as f64 * each_us })
    }

    /// The same of a demand on a level.
    pub(crate) fn buffer_of(&self, level: Level, demand: &LevelDemand) -> Option<WriteBuffer> {
        let writes = if level == Level::Ssd { demand.buffered_writes } else { 0 };
        self.write_buffer(1, writes, demand.accesses)
    }
}

/// One of the VMs that divide the levels of a host.
pub trait Tenant {
    /// Its share in force.
    fn quota(&self) -> Quota;

    /// Closes its sizing window and says what it could have used of each of [`Level::SIZED`]; see
    /// [`Sizing::demand`](crate::Sizing::demand).
    fn demand(&mut self, points: Points) -> Option<[LevelDemand; 2]>;

    /// Changes its share.
    fn resize(&mut self, quota: Quota);

    /// Does what is due at the end of the host's own interval; see [`HostTimed`](crate::HostTimed). Nothing for those that are
    /// one VM by themselves: [`SchemeInfo::check_alone`](crate::SchemeInfo::check_alone) refuses them settings that need it.
    fn end_host_interval(&mut self) {}
}

/// A scheme, and what takes its effects.
impl<T: Scheme, S: Sink> Tenant for (T, S) {
    fn quota(&self) -> Quota {
        self.0.quota()
    }

    fn demand(&mut self, points: Points) -> Option<[LevelDemand; 2]> {
        self.0.sizing().map(|sizing| sizing.demand(points))
    }

    fn resize(&mut self, quota: Quota) {
        self.0.resize(quota, &mut self.1);
    }

    fn end_host_interval(&mut self) {
        if let Some(timed) = self.0.host_timed() {
            timed.end_host_interval(&mut self.1);
        }
    }
}

/// How shares follow from demands.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// The best by an objective, worked out anew every time.
    Best(Objective),
    /// A chunk of this many blocks for each block of the level goes from the VM that uses least of its share to the one
    /// that uses most (S-CAVE, recalled).
    Chunk(f64),
}

/// Who divides at the end of an interval.
#[derive(Debug)]
enum Division {
    /// Nobody.
    Off,
    /// The scheme's own rule.
    Scheme(Rule),
    /// What divides a host's levels while it serves.
    Host(Box<HostDivision>),
}

/// Decides the shares of a set of VMs that divide the levels of one host.
#[derive(Debug)]
pub struct Sizer {
    division: Division,
    physical: Quota,
    times: AccessTimes,
    min_blocks: u32,
    interval: Interval,
    /// From when to when all VMs work together, where they do.
    host_interval: Option<Interval>,
    shrink_rate: u32,
    /// Shares still to be reached, where a VM has to give up blocks slowly first.
    targets: Vec<Quota>,
}

impl Sizer {
    /// A sizer for levels of this size on the default devices. Schemes without sizing settings get a sizer that is off.
    pub fn new(settings: &Settings, physical: Quota) -> Sizer {
        Sizer::on_devices(settings, physical, AccessTimes::default())
    }

    /// The same on devices that take these times, which only the objective `latency` counts.
    pub fn on_devices(settings: &Settings, physical: Quota, times: AccessTimes) -> Sizer {
        let declares = |key: &str| settings.values().any(|(known, _)| known == key);
        let declared = declares(SIZING);
        let integer = |key| if declared { settings.integer(key) } else { 0 };
        let interval = match declared {
            true => interval(settings, "sizing_interval", "sizing_interval_s"),
            false => Interval::never(),
        };
        let rule = if declares(CHUNK_PERCENT.key) {
            Rule::Chunk(settings.number(CHUNK_PERCENT.key) / 100.0)
        } else {
            Rule::Best(objective(settings, &times))
        };
        let min_blocks = integer("min_blocks") as u32;
        let division = match if declared { settings.text(SIZING) } else { OFF } {
            ON => Division::Scheme(rule),
            HOST => Division::Host(Box::new(HostDivision::new(
                settings,
                objective(settings, &times),
                times,
                physical,
                min_blocks,
            ))),
            _ => Division::Off,
        };
        Sizer {
            division,
            physical,
            times,
            min_blocks,
            interval,
            host_interval: SchemeInfo::find(settings.scheme())
                .ok()
                .and_then(|info| (info.host_interval)(settings)),
            shrink_rate: integer("shrink_rate") as u32,
            targets: Vec::new(),
        }
    }

    /// Whether shares ever change.
    pub fn is_on(&self) -> bool {
        !matches!(self.division, Division::Off)
    }

    /// Whether it has to hear of every request, because shares change or VMs work together.
    pub fn follows_requests(&self) -> bool {
        self.is_on() || self.host_interval.is_some()
    }

    /// The share each of `vms` VMs starts with, and without sizing keeps: equal parts, so that with any scheme the VMs have
    /// together what the host has.
    pub fn first_share(&self, vms: usize) -> Quota {
        let parts = u32::try_from(vms).unwrap_or(u32::MAX).max(1);
        self.physical.map(|_, blocks| blocks / parts)
    }

    /// Notes one request of any of the VMs. When the host's own interval ends, every VM hears of it; then, when the sizing
    /// interval ends, gives every VM its new share. Says whether a sizing interval ended.
    #[inline]
    pub fn after_request<V: Tenant>(&mut self, now_ns: u64, vms: &mut [V]) -> bool {
        if let Some(interval) = &mut self.host_interval
            && interval.ends_with(now_ns)
        {
            vms.iter_mut().for_each(Tenant::end_host_interval);
        }
        if !self.is_on() {
            return false;
        }
        let sized = self.interval.ends_with(now_ns);
        if sized || !self.targets.is_empty() {
            self.size(sized, vms);
        }
        sized
    }

    /// So many requests may be noted together, by [`Sizer::pass_requests`], since nothing comes of any of them; none where that cannot be
    /// told.
    #[inline]
    pub fn quiet_requests(&self) -> u64 {
        let until_host = self.host_interval.as_ref().map_or(u64::MAX, Interval::requests_before_end);
        let until_sizing = match (self.is_on(), self.targets.is_empty()) {
            (false, _) => u64::MAX,
            (true, true) => self.interval.requests_before_end(),
            (true, false) => 0,
        };
        until_host.min(until_sizing)
    }

    /// Notes requests, at most as many as [`Sizer::quiet_requests`].
    #[inline]
    pub fn pass_requests(&mut self, requests: u64) {
        self.host_interval.iter_mut().for_each(|interval| interval.pass(requests));
        if self.is_on() {
            self.interval.pass(requests);
        }
    }

    /// Makes new targets when an `interval_ended`, and takes a step towards those there are.
    #[inline(never)]
    fn size<V: Tenant>(&mut self, interval_ended: bool, vms: &mut [V]) {
        if let Division::Host(division) = &mut self.division {
            division.size(vms);
            return;
        }
        if interval_ended {
            self.targets = self.shares(vms);
        }
        // Targets of a host whose VMs came or went since are for others; the next interval makes new ones.
        if !self.targets.is_empty() && self.targets.len() == vms.len() {
            self.approach(vms);
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
            let of_level =
                demands.iter_mut().map(|demand| std::mem::take(&mut demand[level.index()])).collect();
            match self.division {
                Division::Scheme(Rule::Best(objective)) => {
                    self.best(level, objective, of_level, &mut shares);
                }
                Division::Scheme(Rule::Chunk(part)) => self.move_chunk(level, part, of_level, &mut shares),
                Division::Off | Division::Host(_) => {}
            }
        }
        shares
    }

    /// The best shares of a level.
    fn best(&self, level: Level, objective: Objective, demands: Vec<LevelDemand>, shares: &mut [Quota]) {
        let physical = self.physical.of(level);
        let most_guaranteed = physical / demands.len() as u32;
        let demands: Vec<VmDemand> =
            demands.into_iter().map(|demand| self.vm_demand(level, demand, most_guaranteed)).collect();
        let division = divide(&demands, u64::from(physical), objective)
            .or_else(|_| divide(&demands, u64::from(physical), Objective::SumHitRatio))
            .expect("measured demands are well formed and their minimums are cut to what fits");
        for (share, blocks) in shares.iter_mut().zip(division.sizes) {
            *share = share.with(level, blocks as u32);
        }
    }

    /// The VM that uses most of its share of the level gets a chunk: what nobody has, and for the rest from the VM that uses
    /// least of its share.
    fn move_chunk(&self, level: Level, part: f64, demands: Vec<LevelDemand>, shares: &mut [Quota]) {
        let physical = self.physical.of(level);
        if physical == 0 {
            return;
        }
        let least_kept = self.min_blocks.min(physical / demands.len() as u32);
        let used: Vec<f64> = demands
            .iter()
            .zip(&*shares)
            .map(|(demand, share)| part_in_use(demand, share.of(level)))
            .collect();
        let most = (0..used.len()).rev().max_by(|&a, &b| used[a].total_cmp(&used[b])).unwrap_or(0);
        let givers = (0..used.len()).filter(|&vm| used[vm] < used[most] && shares[vm].of(level) > least_kept);
        let least = givers.min_by(|&a, &b| used[a].total_cmp(&used[b]));
        let chunk = chunk_blocks(physical, part);
        let taken: u64 = shares.iter().map(|share| u64::from(share.of(level))).sum();
        let unused = u64::from(physical).saturating_sub(taken).min(u64::from(chunk)) as u32;
        let mut gained = if used[most] > 0.0 { unused } else { 0 };
        if let Some(least) = least {
            let has = shares[least].of(level);
            let moved = (chunk - gained).min(has - least_kept);
            shares[least] = shares[least].with(level, has - moved);
            gained += moved;
        }
        shares[most] = shares[most].with(level, shares[most].of(level) + gained);
    }

    /// Whether more hits may be worth less, because of the blocks that they take.
    fn is_per_block(&self) -> bool {
        matches!(
            self.division,
            Division::Scheme(Rule::Best(Objective::PpcTotal { .. } | Objective::PpcLiteral { .. }))
        )
    }

    fn vm_demand(&self, level: Level, demand: LevelDemand, most_guaranteed: u32) -> VmDemand {
        VmDemand {
            write_buffer: self.times.buffer_of(level, &demand),
            curve: demand.curve,
            accesses: demand.accesses,
            demand_blocks: u64::from(demand.blocks),
            weight: demand.weight,
            min_blocks: u64::from(self.min_blocks.min(most_guaranteed)),
            max_blocks: u64::MAX,
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

/// The interval of two settings of a scheme whose `trigger` says which of them counts.
pub(crate) fn interval(settings: &Settings, requests: &str, seconds: &str) -> Interval {
    let by_time = settings.text("trigger") == "time";
    Interval::new(by_time, settings.integer(requests), settings.number(seconds))
}

/// What moves at a time of a level, of which it is this part: at least one block.
pub(crate) fn chunk_blocks(physical: u32, part: f64) -> u32 {
    ((f64::from(physical) * part) as u32).max(1)
}

/// How much of its share a VM uses, from 0 to 1: the blocks that it came back to. One that has no share could use all that it
/// gets.
fn part_in_use(demand: &LevelDemand, blocks: u32) -> f64 {
    match blocks {
        0 if demand.accesses > 0 => 1.0,
        0 => 0.0,
        blocks => (f64::from(demand.blocks) / f64::from(blocks)).min(1.0),
    }
}

/// What shares maximise; of schemes that do not choose, the sum of hit ratios.
fn objective(settings: &Settings, times: &AccessTimes) -> Objective {
    if !settings.values().any(|(key, _)| key == OBJECTIVE) {
        return Objective::SumHitRatio;
    }
    match settings.text(OBJECTIVE) {
        "hits" => Objective::Hits,
        "latency" => times.objective(),
        "ppc_total" => Objective::PpcTotal { floor: settings.number("ppc_floor") },
        "ppc_literal" => Objective::PpcLiteral { min_blocks: settings.integer("min_blocks").max(1) },
        "maxmin" => Objective::MaxMin,
        _ => Objective::SumHitRatio,
    }
}
