//! What the VMs of a host divide, and what each of them may have of it. It must not know blocks, or how a host divides.

use std::ops::Range;
use std::time::Duration;

use lode_hardware::Host;
use lode_policy::host::HostOptions;
use lode_policy::{AccessTimes, OfSized, SchemeInfo, all_schemes};
use lode_reuse::sizing::Objective;
use lode_types::{BlockSize, Level};
use serde::Deserialize;
use toml::Spanned;

use super::raw::Fault;
use super::{Config, DailyBytes, MAX_LEVEL_BYTES, Period, Size, VmConfig};

/// Seconds from one division to the next unless the configuration says otherwise (ETICA Fig. 15).
pub const DEFAULT_INTERVAL_S: u64 = 600;
/// Bytes of a level that VMs give up in a second, unless the configuration says otherwise.
pub const DEFAULT_RATE_BYTES: u64 = 64 << 20;
/// The devices whose times the objective `latency` counts, unless the configuration says otherwise.
const DEFAULT_DEVICES: &str = "default";
/// With the objective `ppc_total`: the part of its best hit ratio that every VM keeps, unless the configuration says otherwise.
const DEFAULT_PPC_FLOOR: f64 = 0.9;
/// With the objective `ppc_literal`: the smallest share of a VM, unless the configuration says otherwise.
const DEFAULT_PPC_LEAST_BYTES: u64 = 1 << 20;
/// The longest time of a device: ten seconds.
const MAX_TIME_US: f64 = 1e7;
/// Most VMs that a message about sums names.
const MOST_NAMED: usize = 4;

/// Who decides the VMs' shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostMode {
    /// The configuration.
    Fixed,
    /// The configuration; what demands would give is told.
    Advise,
    /// The demands of the VMs.
    Auto,
}

impl HostMode {
    /// The word of the configuration.
    pub fn name(self) -> &'static str {
        match self {
            HostMode::Fixed => "fixed",
            HostMode::Advise => "advise",
            HostMode::Auto => "auto",
        }
    }

    /// Whether schemes measure what their VMs could use.
    pub fn measures(self) -> bool {
        self != HostMode::Fixed
    }
}

/// How fast the host's devices are.
#[derive(Clone, Debug, PartialEq)]
pub enum HostDevices {
    /// As a profile of `lode devices` says.
    Profile(Box<Host>),
    /// So fast.
    Times(AccessTimes),
}

impl HostDevices {
    fn times(&self, block: BlockSize) -> AccessTimes {
        match self {
            HostDevices::Profile(host) => AccessTimes::of_us(host.service_times(block).one_block_us()),
            HostDevices::Times(times) => *times,
        }
    }
}

/// What a division maximises, in the units of the configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HostObjective {
    /// The sum of the VMs' hit ratios.
    SumHitRatio,
    /// Hits.
    Hits,
    /// Minus the VMs' mean latencies on the host's devices.
    Latency,
    /// Hit ratios for each block of cache, each VM keeping this part of its best.
    PpcTotal {
        /// From 0 to 1.
        floor: f64,
    },
    /// Performance per cost as ETICA prints it (Eq. 3), each VM keeping a smallest share.
    PpcLiteral {
        /// Bytes of it, at least a block.
        least_bytes: u64,
    },
    /// The hit ratio of the VM that is worst off.
    MaxMin,
}

impl HostObjective {
    /// The objective on devices of these times, in blocks of this size.
    pub fn of_blocks(self, times: &AccessTimes, block: BlockSize) -> Objective {
        match self {
            HostObjective::SumHitRatio => Objective::SumHitRatio,
            HostObjective::Hits => Objective::Hits,
            HostObjective::Latency => times.objective(),
            HostObjective::PpcTotal { floor } => Objective::PpcTotal { floor },
            HostObjective::PpcLiteral { least_bytes } => {
                Objective::PpcLiteral { min_blocks: least_bytes.div_ceil(block.bytes()) }
            }
            HostObjective::MaxMin => Objective::MaxMin,
        }
    }

    /// The word of the configuration.
    pub fn name(self) -> &'static str {
        self.of_blocks(&AccessTimes::default(), BlockSize::KIB_4).name()
    }
}

/// What VMs divide, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct HostConfig {
    /// Who decides the shares.
    pub mode: HostMode,
    /// Bytes that VMs have together; none: what their shares add up to.
    pub bytes: OfSized<Option<u64>>,
    /// From one division to the next.
    pub interval: Duration,
    /// Bytes of a level that VMs give up in a second.
    pub rate_bytes: u64,
    /// What a division maximises; for its times and blocks see [`HostConfig::options`].
    pub objective: HostObjective,
    /// Which only the objective `latency` looks at.
    pub devices: HostDevices,
    /// What may be written to the cache SSD in a day; none: any amount.
    pub ssd_writes: Option<DailyBytes>,
}

impl HostConfig {
    /// How the host divides blocks of this size.
    pub fn options(&self, block: BlockSize) -> HostOptions {
        let times = self.devices.times(block);
        let objective = self.objective.of_blocks(&times, block);
        HostOptions { objective, times, ..HostOptions::default() }
    }
}

/// What one VM may have of the levels that a host divides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VmBounds {
    /// How much it counts beside others.
    pub weight: f64,
    /// Guaranteed bytes.
    pub min_bytes: OfSized<u64>,
    /// Most bytes.
    pub max_bytes: OfSized<Option<u64>>,
    /// Whether its share is named in the configuration.
    pub named: OfSized<bool>,
}

impl Config {
    /// What VMs divide of a level: what the host has, or else what their shares add up to.
    pub fn level_bytes(&self, level: Level) -> u64 {
        let shares = || self.vms.iter().map(|vm| vm.share_bytes(level)).sum();
        self.host.bytes.get(level).copied().unwrap_or_else(shares)
    }

    /// The largest share of a level that a VM can be given without a restart. Where nobody divides it can be given more by
    /// hand: up to its `max`, or what the host has.
    pub fn reach_bytes(&self, vm: &VmConfig, level: Level) -> u64 {
        if !vm.scheme().levels.contains(&level) {
            return 0;
        }
        let most = || vm.bounds.most_bytes(level, &self.host);
        let (max, of_host) = (vm.bounds.max_bytes.get(level), self.host.bytes.get(level));
        let reach = match self.host.mode {
            HostMode::Auto | HostMode::Advise => most().min(self.level_bytes(level)),
            HostMode::Fixed if max.is_some() || of_host.is_some() => most(),
            HostMode::Fixed => 0,
        };
        reach.max(vm.share_bytes(level))
    }

    /// Whether space goes from one VM to another while they are served: shares can grow, or could under another scheme.
    pub fn divides(&self) -> bool {
        let grows = |vm: &VmConfig, level| self.reach_bytes(vm, level) > vm.share_bytes(level);
        let has_levels = self.host.bytes.iter().any(|bytes| bytes.is_some_and(|bytes| bytes > 0));
        has_levels || self.vms.iter().any(|vm| Level::SIZED.into_iter().any(|level| grows(vm, level)))
    }
}

impl VmBounds {
    /// The bytes of a share that the VM may have.
    pub fn most_bytes(&self, level: Level, host: &HostConfig) -> u64 {
        let of_host = host.bytes.get(level).copied().unwrap_or(MAX_LEVEL_BYTES);
        self.max_bytes.get(level).copied().unwrap_or(of_host).min(of_host)
    }

    /// Guaranteed bytes of a level.
    pub fn least_bytes(&self, level: Level) -> u64 {
        self.min_bytes.of(level).copied().unwrap_or(0)
    }

    /// Whether the share of a level is named in the configuration.
    pub fn is_named(&self, level: Level) -> bool {
        self.named.of(level).copied().unwrap_or(false)
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table { dram = \"16GiB\", ssd = \"1TiB\" }")]
pub(super) struct RawHost {
    mode: Option<HostMode>,
    dram: Option<Spanned<Size>>,
    ssd: Option<Spanned<Size>>,
    interval: Option<Spanned<Period>>,
    rate: Option<Spanned<Size>>,
    objective: Option<Spanned<String>>,
    ppc_floor: Option<Spanned<f64>>,
    ppc_least: Option<Spanned<Size>>,
    devices: Option<Spanned<RawDevices>>,
    ssd_writes: Option<Spanned<DailyBytes>>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected the name of devices that `lode devices` lists, or a table { ssd_read_us = 120, ssd_write_us = 60, disk_read_us = 8000, disk_write_us = 8000 }"
)]
enum RawDevices {
    Name(String),
    Times(RawTimes),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTimes {
    ssd_read_us: f64,
    ssd_write_us: f64,
    disk_read_us: f64,
    disk_write_us: f64,
}

/// Sizes of the levels.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table { dram = \"1GiB\", ssd = \"20GiB\" }")]
pub(super) struct RawLevels {
    dram: Option<Spanned<Size>>,
    ssd: Option<Spanned<Size>>,
}

/// The key of a level that VMs divide.
pub(super) fn key(level: Level) -> &'static str {
    if level == Level::Dram { "dram" } else { "ssd" }
}

impl RawHost {
    /// What is said of a host whose VMs all name their shares, or do not.
    pub(super) fn check(self, all_named: bool, has_ssd: bool) -> Result<HostConfig, Fault> {
        if let Some(ssd) = self.ssd.as_ref().filter(|ssd| !has_ssd && ssd.get_ref().0 > 0) {
            let message = "The host has a cache SSD to divide, but there is no [ssd] section; add it";
            return Err(Fault::at(ssd.span(), message));
        }
        if let Some(writes) = self.ssd_writes.as_ref().filter(|_| !has_ssd) {
            let message =
                "The host has a budget of writes to a cache SSD, but there is no [ssd] section; add it";
            return Err(Fault::at(writes.span(), message));
        }
        let bytes = OfSized::new([check_size("dram", self.dram)?, check_size("ssd", self.ssd)?]);
        let has_levels = bytes.iter().any(Option::is_some);
        let usual = if has_levels && !all_named { HostMode::Auto } else { HostMode::Fixed };
        let interval = match self.interval {
            None => Duration::from_secs(DEFAULT_INTERVAL_S),
            Some(period) => period.get_ref().0.ok_or_else(|| {
                let message = "Key 'interval' cannot be \"never\"; write mode = \"fixed\" for a host that divides nothing";
                Fault::at(period.span(), message)
            })?,
        };
        let rate_bytes = match self.rate {
            Some(rate) if rate.get_ref().0 < BlockSize::MAX_BYTES => {
                let message = "Key 'rate' is less than 64 KiB a second; shares would not move";
                return Err(Fault::at(rate.span(), message));
            }
            rate => rate.map_or(DEFAULT_RATE_BYTES, |rate| rate.get_ref().0),
        };
        let objective = objective(self.objective, self.ppc_floor, self.ppc_least)?;
        let devices = devices(self.devices)?;
        let ssd_writes = self.ssd_writes.map(Spanned::into_inner);
        let mode = self.mode.unwrap_or(usual);
        Ok(HostConfig { mode, bytes, interval, rate_bytes, objective, devices, ssd_writes })
    }
}

fn devices(raw: Option<Spanned<RawDevices>>) -> Result<HostDevices, Fault> {
    let built_in = |name: &str| Host::find(name).map(|host| HostDevices::Profile(Box::new(host)));
    let Some(raw) = raw else {
        return Ok(built_in(DEFAULT_DEVICES).expect("the catalogue has it"));
    };
    let span = raw.span();
    match raw.into_inner() {
        RawDevices::Name(name) => built_in(&name).map_err(|error| {
            Fault::at(span, format!("Key 'devices': {error}; other devices are a table of their times"))
        }),
        RawDevices::Times(RawTimes { ssd_read_us, ssd_write_us, disk_read_us, disk_write_us }) => {
            let times = [ssd_read_us, ssd_write_us, disk_read_us, disk_write_us];
            if times.iter().any(|us| !(0.0..=MAX_TIME_US).contains(us)) {
                let message = format!("Key 'devices' takes times from 0 to {MAX_TIME_US} microseconds");
                return Err(Fault::at(span, message));
            }
            Ok(HostDevices::Times(AccessTimes::of_us(times)))
        }
    }
}

fn objective(
    name: Option<Spanned<String>>,
    floor: Option<Spanned<f64>>,
    least: Option<Spanned<Size>>,
) -> Result<HostObjective, Fault> {
    let floor_is = floor.as_ref().map_or(DEFAULT_PPC_FLOOR, |floor| *floor.get_ref());
    let least_bytes = least.as_ref().map_or(DEFAULT_PPC_LEAST_BYTES, |least| least.get_ref().0);
    let known = [
        HostObjective::SumHitRatio,
        HostObjective::Hits,
        HostObjective::Latency,
        HostObjective::PpcTotal { floor: floor_is },
        HostObjective::PpcLiteral { least_bytes },
        HostObjective::MaxMin,
    ];
    let found = match &name {
        None => HostObjective::SumHitRatio,
        Some(name) => known.into_iter().find(|one| one.name() == name.get_ref()).ok_or_else(|| {
            let known = known.map(HostObjective::name).join(", ");
            let message = format!("Key 'objective' cannot be '{}'; write one of {known}", name.get_ref());
            Fault::at(name.span(), message)
        })?,
    };
    if let Some(floor) = floor {
        if !matches!(found, HostObjective::PpcTotal { .. }) {
            return Err(only_with(floor.span(), "ppc_floor", "ppc_total"));
        }
        if !(0.0..=1.0).contains(floor.get_ref()) {
            return Err(Fault::at(floor.span(), "Key 'ppc_floor' takes a number from 0 to 1"));
        }
    }
    if let Some(least) = least {
        if !matches!(found, HostObjective::PpcLiteral { .. }) {
            return Err(only_with(least.span(), "ppc_least", "ppc_literal"));
        }
        if !(1..=MAX_LEVEL_BYTES).contains(&least_bytes) {
            let most = Size(MAX_LEVEL_BYTES);
            return Err(Fault::at(
                least.span(),
                format!("Key 'ppc_least' takes a size from 1 byte to {most}"),
            ));
        }
    }
    Ok(found)
}

/// A key that means nothing under another objective.
fn only_with(at: Range<usize>, key: &str, objective: &str) -> Fault {
    let message =
        format!("Key '{key}' is only for objective = \"{objective}\"; write that, or take the key out");
    Fault::at(at, message)
}

/// Whole blocks of any size.
pub(super) fn check_size(key: &str, size: Option<Spanned<Size>>) -> Result<Option<u64>, Fault> {
    let Some(size) = size else { return Ok(None) };
    let bytes = size.get_ref().0;
    if !bytes.is_multiple_of(BlockSize::MAX_BYTES) || bytes > MAX_LEVEL_BYTES {
        let most = Size(MAX_LEVEL_BYTES);
        let message = format!("Key '{key}' must be a multiple of 64 KiB, at most {most}");
        return Err(Fault::at(size.span(), message));
    }
    Ok(Some(bytes))
}

/// A VM's bounds; `shares_bytes` are its named shares.
pub(super) fn check_bounds(
    weight: Option<Spanned<f64>>,
    min: RawLevels,
    max: RawLevels,
    shares_bytes: [Option<u64>; 2],
    span: &Range<usize>,
) -> Result<VmBounds, Fault> {
    const WEIGHTS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;
    let weight = match weight {
        Some(weight) if !WEIGHTS.contains(weight.get_ref()) => {
            return Err(Fault::at(weight.span(), "Key 'weight' takes a number from 0.001 to 1000"));
        }
        weight => weight.map_or(1.0, Spanned::into_inner),
    };
    let min = [check_size("min.dram", min.dram)?, check_size("min.ssd", min.ssd)?];
    let max_bytes = [check_size("max.dram", max.dram)?, check_size("max.ssd", max.ssd)?];
    let min_bytes = min.map(Option::unwrap_or_default);
    for level in Level::SIZED {
        let (at, key) = (level.index(), key(level));
        let most = max_bytes[at].unwrap_or(u64::MAX);
        let wrong = match shares_bytes[at] {
            _ if most < min_bytes[at] => Some(("min", min_bytes[at], "max", most)),
            Some(share) if share < min_bytes[at] => Some(("min", min_bytes[at], key, share)),
            Some(share) if share > most => Some((key, share, "max", most)),
            _ => None,
        };
        if let Some((larger, large, smaller, small)) = wrong {
            let name = |word: &str| if word == key { key.to_owned() } else { format!("{word}.{key}") };
            let (larger, smaller) = (name(larger), name(smaller));
            let message =
                format!("Key '{larger}' is {}, more than '{smaller}', which is {}", Size(large), Size(small));
            return Err(Fault::at(span.clone(), message));
        }
    }
    let named = OfSized::new(shares_bytes.map(|share| share.is_some()));
    Ok(VmBounds { weight, min_bytes: OfSized::new(min_bytes), max_bytes: OfSized::new(max_bytes), named })
}

/// Gives the VMs whose shares have no name their parts of what the others leave, by weight. Then all of it has to fit.
pub(super) fn share_out(host: &HostConfig, vms: &mut [VmConfig]) -> Result<(), Fault> {
    for level in Level::SIZED {
        let key = key(level);
        if let Some(&all_bytes) = host.bytes.get(level) {
            check_sum(
                &format!("min.{key}"),
                key,
                all_bytes,
                vms.iter().map(|vm| (vm, vm.bounds.least_bytes(level))),
            )?;
            let named =
                vms.iter().filter(|vm| vm.bounds.is_named(level)).map(|vm| (vm, vm.share_bytes(level)));
            let named_bytes = check_sum(key, key, all_bytes, named)?;
            if host.mode.measures() {
                by_weight(host, level, all_bytes - named_bytes, vms);
                check_sum(key, key, all_bytes, vms.iter().map(|vm| (vm, vm.share_bytes(level))))?;
            }
        }
    }
    check_kept(host, vms)?;
    vms.iter().try_for_each(check_least)
}

/// That there is what the host's objective keeps for each VM that it divides for, as far as that is known before anything is measured.
fn check_kept(host: &HostConfig, vms: &[VmConfig]) -> Result<(), Fault> {
    let HostObjective::PpcLiteral { least_bytes } = host.objective else { return Ok(()) };
    for level in Level::SIZED.into_iter().filter(|_| host.mode.measures()) {
        let Some(&all_bytes) = host.bytes.get(level) else { continue };
        let kept =
            vms.iter().filter(|vm| vm.scheme().levels.contains(&level) && vm.settings.measures_demand());
        let kept = kept.map(|vm| (vm, least_bytes.min(vm.bounds.most_bytes(level, host))));
        check_sum("host.ppc_least", key(level), all_bytes, kept)?;
    }
    Ok(())
}

/// Parts of `rest_bytes` for the VMs without a named share: as their weights are, each within its minimum and maximum. More
/// than there is only where the minimums are.
fn by_weight(host: &HostConfig, level: Level, rest_bytes: u64, vms: &mut [VmConfig]) {
    const HALVINGS: usize = 64;
    let is_meant = |vm: &VmConfig| !vm.bounds.is_named(level) && vm.scheme().levels.contains(&level);
    let part = |vm: &VmConfig, per_weight: f64| {
        let min_bytes = vm.bounds.least_bytes(level);
        let most_bytes = vm.bounds.most_bytes(level, host).max(min_bytes);
        let bytes = ((vm.bounds.weight * per_weight) as u64).clamp(min_bytes, most_bytes);
        bytes / BlockSize::MAX_BYTES * BlockSize::MAX_BYTES
    };
    let fits = |per_weight: f64| {
        let meant = vms.iter().filter(|vm| is_meant(vm));
        meant.map(|vm| part(vm, per_weight)).sum::<u64>() <= rest_bytes
    };
    // The most bytes for each unit of weight with which all parts fit. Nobody gets more than all of it.
    let weights = vms.iter().filter(|vm| is_meant(vm)).map(|vm| vm.bounds.weight);
    let (mut low, mut high) = (0.0, (rest_bytes + 1) as f64 / weights.fold(f64::MAX, f64::min));
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if fits(middle) { low = middle } else { high = middle }
    }
    for vm in vms.iter_mut().filter(|vm| is_meant(vm)) {
        vm.set_share_bytes(level, part(vm, low));
    }
}

/// That a VM without a named share got what its scheme needs.
fn check_least(vm: &VmConfig) -> Result<(), Fault> {
    for level in Level::SIZED {
        if vm.share_bytes(level) == 0 && vm.scheme().least_blocks(level) > 0 {
            let key = key(level);
            return Err(Fault {
                at: None,
                message: needs(vm.scheme(), level, key, &format!("VM {}", vm.name)),
            });
        }
    }
    Ok(())
}

/// What to say of a VM without a level that its scheme needs.
pub(super) fn needs(scheme: &SchemeInfo, level: Level, key: &str, vm: &str) -> String {
    format!(
        "Scheme '{}' does not work without a share of the {} level; give {vm} a `{key}` size",
        scheme.name,
        level.name()
    )
}

/// That there is a VM that can be held to a host's budget of writes to the SSD.
pub(super) fn check_budget(host: &HostConfig, vms: &[VmConfig]) -> Result<(), Fault> {
    let Some(writes) = host.ssd_writes else { return Ok(()) };
    let mut writers = vms.iter().filter(|vm| vm.scheme().levels.contains(&Level::Ssd)).peekable();
    if writers.peek().is_none() || writers.any(|vm| vm.scheme().holds_to_budgets()) {
        return Ok(());
    }
    let holding = all_schemes().iter().filter(|info| info.holds_to_budgets()).map(|info| info.name);
    let message = format!(
        "[host] allows {writes} to be written to the SSD with `ssd_writes`, and no VM has a scheme that can keep to a budget; \
         give one of them {}, or take `ssd_writes` out",
        holding.collect::<Vec<_>>().join(" or ")
    );
    Err(Fault { at: None, message })
}

/// The sum of what these VMs have, which must be no more than the host has.
fn check_sum<'v>(
    what: &str,
    key: &str,
    all_bytes: u64,
    vms: impl Iterator<Item = (&'v VmConfig, u64)>,
) -> Result<u64, Fault> {
    let vms: Vec<_> =
        vms.filter(|(_, bytes)| *bytes > 0).map(|(vm, bytes)| (vm.name.as_str(), bytes)).collect();
    let sum_bytes: u64 = vms.iter().map(|(_, bytes)| bytes).sum();
    if sum_bytes <= all_bytes {
        return Ok(sum_bytes);
    }
    let message = format!(
        "The VMs' `{what}` are {} together ({}), and [host] has `{key}` = {}: {} too much; make them smaller",
        Size(sum_bytes),
        listed(vms),
        Size(all_bytes),
        Size(sum_bytes - all_bytes)
    );
    Err(Fault { at: None, message })
}

/// The largest of these amounts, and how much the others are.
pub(crate) fn listed(mut vms: Vec<(&str, u64)>) -> String {
    vms.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let mut parts: Vec<String> =
        vms.iter().take(MOST_NAMED).map(|(name, bytes)| format!("{name} {}", Size(*bytes))).collect();
    if let Some(more @ 1..) = vms.len().checked_sub(MOST_NAMED) {
        let bytes = vms[MOST_NAMED..].iter().map(|(_, bytes)| bytes).sum();
        parts.push(format!("{more} more {}", Size(bytes)));
    }
    parts.join(" + ")
}
