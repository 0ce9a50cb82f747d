//! The driver against a loop that does one thing after the other and looks nothing up ahead.

use std::collections::HashSet;

use lode_hardware::Operations;
use lode_policy::{
    AnyScheme, CopyReason, CopySource, Effect, Quota, Scheme, SchemeInfo, SettingKind, Settings, Sizer,
    all_schemes, build,
};
use lode_replay::{Counts, Driver, Host, ServiceTimes, VmOutcome};
use lode_types::{Access, BlockSize, Direction, Level, Origin, RequestOp, TraceRequest};
use proptest::prelude::*;

use crate::requests::any_requests;

const BLOCK_BYTES: u64 = 4096;
const VMS: usize = 3;
const SIZING_INTERVAL: usize = 40;

/// One VM of the naive loop: its counts, by name, and what the model says of time.
#[derive(Clone, Default)]
struct NaiveVm {
    requests: u64,
    read_requests: u64,
    read_request_hits: u64,
    trims: u64,
    flushes: u64,
    block_reads: u64,
    block_writes: u64,
    effects: Vec<Effect>,
    /// How many effects came before each access.
    starts: HashSet<usize>,
    latency_ns: u64,
    head: Option<u64>,
    disks_ns: u64,
}

fn is_write_back(effect: &Effect) -> bool {
    matches!(effect, Effect::Evict { dirty: true, .. } | Effect::Clean { .. })
}

impl NaiveVm {
    fn disk_ns(&mut self, block: u64, is_write: bool, times: &ServiceTimes) -> u64 {
        let (from, disk) = (self.head.replace(block + 1), &times.backing);
        let command = match (from == Some(block), is_write) {
            (true, true) => disk.sequential_write,
            (true, false) => disk.sequential_read,
            (false, false) => disk.random_read,
            (false, true) => disk.random_write,
        };
        // A mean is taken out and the distance's time put in, as often as the arm moves and on every disk that works:
        // small writes of RAID-5 do everything twice, and those of all arrays here keep two disks at work.
        let (mut ns, mut work_ns) = (command.ns as f64, command.work_ns as f64);
        if let Some(arm) = disk.arm.filter(|_| from != Some(block)) {
            let more = arm.positioning_ns(from, block) - arm.positioning_ns(None, block);
            let passes = if is_write && disk.random_write.ns > disk.random_read.ns { 2.0 } else { 1.0 };
            let disks = if is_write && command.work_ns > command.ns { 2.0 } else { 1.0 };
            ns += passes * more;
            work_ns += disks * passes * more;
        }
        self.disks_ns += work_ns.round() as u64;
        ns.round() as u64
    }

    /// What devices did, from the effects.
    fn operations(&self, times: &ServiceTimes) -> Operations {
        let of = |wanted: Level, effect: &Effect| match effect {
            Effect::ReadLevel { level, .. } | Effect::MergeLevel { level, .. } => *level == wanted,
            Effect::Copy { from: CopySource::Level { level, .. }, .. } => *level == wanted,
            _ => false,
        };
        let into = |wanted: Level, effect: &Effect| match effect {
            Effect::Fill { level, .. } | Effect::WriteLevel { level, .. } => *level == wanted,
            Effect::Copy { to, .. } => *to == wanted,
            _ => false,
        };
        let copied_reads = self.count(|e| matches!(e, Effect::Copy { from: CopySource::Backing, .. }));
        let write_backs_from = self.write_backs_from();
        let read_of = |level: Level| self.count(|e| of(level, e)) + write_backs_from[level.index()];
        let write_backs = self.count(is_write_back);
        let disk = &times.backing;
        let background_ns = copied_reads * disk.random_read.work_ns + write_backs * disk.random_write.work_ns;
        Operations {
            dram_reads: read_of(Level::Dram),
            dram_writes: self.count(|e| into(Level::Dram, e)),
            ssd_reads: read_of(Level::Ssd),
            ssd_writes: self.count(|e| into(Level::Ssd, e)),
            read_ssd_reads: read_of(Level::ReadSsd),
            read_ssd_writes: self.count(|e| into(Level::ReadSsd, e)),
            backing_reads: copied_reads
                + self.count(|e| matches!(e, Effect::ReadBacking | Effect::MergeBacking)),
            backing_writes: write_backs + self.count(|e| matches!(e, Effect::WriteBacking)),
            backing_work_ns: Some(self.disks_ns + background_ns),
        }
    }

    /// Dirty blocks that were written back, by the level that they are read from: the one whose copy is evicted next after
    /// that on the SSD, before another access, else the SSD.
    fn write_backs_from(&self) -> [u64; Level::COUNT] {
        let mut from = [0; Level::COUNT];
        for (first, effect) in self.effects.iter().enumerate() {
            let Effect::Evict { block: written, dirty: true, .. } = effect else { continue };
            let later = (first + 1..self.effects.len()).take_while(|at| !self.starts.contains(at));
            let evicted =
                later.map(|at| &self.effects[at]).find(|effect| matches!(effect, Effect::Evict { .. }));
            if let Some(Effect::Evict { level, block, .. }) = evicted
                && block == written
            {
                from[level.index()] += 1;
            }
        }
        from[Level::Ssd.index()] = self.count(is_write_back) - from.iter().sum::<u64>();
        from
    }

    fn access_ns(&mut self, block: u64, effects: &[Effect], times: &ServiceTimes) -> u64 {
        let (mut before, mut places) = (0, vec![0]);
        for effect in effects {
            match effect {
                Effect::ReadLevel { level: Level::Dram, .. } => places.push(times.dram_ns),
                Effect::ReadLevel { level: Level::Ssd, .. } => places.push(times.ssd_read_ns),
                Effect::ReadLevel { level: Level::ReadSsd, .. } => places.push(times.read_ssd_read_ns),
                Effect::WriteLevel { level: Level::Dram, .. } => places.push(times.dram_ns),
                Effect::ReadBacking => places.push(self.disk_ns(block, false, times)),
                Effect::WriteLevel { level: Level::Ssd, .. } => places.push(times.ssd_write_ns),
                Effect::WriteBacking => places.push(self.disk_ns(block, true, times)),
                Effect::MergeLevel { level: Level::Dram, .. } => before = times.dram_ns,
                Effect::MergeLevel { level: Level::Ssd, .. } => before = times.ssd_read_ns,
                Effect::MergeLevel { level: Level::ReadSsd, .. } => before = times.read_ssd_read_ns,
                Effect::MergeBacking => before = self.disk_ns(block, false, times),
                _ => {}
            }
        }
        before + places.into_iter().max().unwrap_or(0)
    }

    fn count(&self, wanted: impl Fn(&Effect) -> bool) -> u64 {
        self.effects.iter().filter(|effect| wanted(effect)).count() as u64
    }

    fn compare(&self, outcome: &VmOutcome, times: &ServiceTimes) -> Result<(), TestCaseError> {
        let found = Counts::from(&outcome.tally);
        prop_assert_eq!(
            (
                found.counters.requests,
                found.read_requests,
                found.read_request_hits,
                found.trims,
                found.flushes
            ),
            (self.requests, self.read_requests, self.read_request_hits, self.trims, self.flushes)
        );
        prop_assert_eq!(
            (found.counters.block_reads, found.counters.block_writes, found.counters.block_accesses),
            (self.block_reads, self.block_writes, self.block_reads + self.block_writes)
        );
        let reads_of =
            |of: Level| self.count(|e| matches!(e, Effect::ReadLevel { level, .. } if *level == of));
        prop_assert_eq!(
            [found.counters.read_hits.dram, found.counters.read_hits.ssd, found.counters.read_hits.read_ssd],
            Level::ALL.map(reads_of)
        );
        let misses = self.count(|e| matches!(e, Effect::ReadBacking));
        prop_assert_eq!(found.counters.read_misses, misses);
        prop_assert_eq!(
            found.counters.write_hits.ssd,
            self.count(|e| matches!(e, Effect::WriteLevel { level: Level::Ssd, hit: true, .. }))
        );
        prop_assert_eq!(
            found.counters.ssd_writes.write,
            self.count(|e| matches!(e, Effect::WriteLevel { level: Level::Ssd, .. }))
        );
        let fills = self.count(|e| matches!(e, Effect::Fill { level: Level::Ssd, .. }));
        prop_assert_eq!(found.counters.ssd_writes.fill, fills);
        let copied = |for_what: CopyReason| {
            self.count(|e| matches!(e, Effect::Copy { to: Level::Ssd, reason, .. } if *reason == for_what))
        };
        prop_assert_eq!(found.counters.ssd_writes.promotion, copied(CopyReason::Promotion));
        prop_assert_eq!(found.counters.ssd_writes.moved, copied(CopyReason::Move));
        let merges = self.count(|e| matches!(e, Effect::MergeBacking));
        let from_backing = self.count(|e| matches!(e, Effect::Copy { from: CopySource::Backing, .. }));
        prop_assert_eq!(found.counters.backing_reads, misses + merges + from_backing);
        let write_backs = self.count(is_write_back);
        prop_assert_eq!(found.counters.write_backs, write_backs);
        let through = self.count(|e| matches!(e, Effect::WriteBacking));
        prop_assert_eq!(found.counters.backing_writes, write_backs + through);
        let evicted = |of: Level| self.count(|e| matches!(e, Effect::Evict { level, .. } if *level == of));
        prop_assert_eq!(
            [found.counters.evictions.dram, found.counters.evictions.ssd, found.counters.evictions.read_ssd],
            Level::ALL.map(evicted)
        );
        let mirrored = self.count(|e| matches!(e, Effect::Copy { to: Level::ReadSsd, .. }));
        prop_assert_eq!(found.counters.read_ssd_writes, mirrored);
        prop_assert_eq!(outcome.tally.latency_ns, self.latency_ns);
        prop_assert_eq!(outcome.tally.operations(), self.operations(times));
        Ok(())
    }
}

/// Runs everything, and returns the VMs and their shares after each sizing.
fn naive(
    settings: &Settings,
    physical: Quota,
    times: &ServiceTimes,
    requests: &[(u32, TraceRequest)],
) -> (Vec<NaiveVm>, Vec<Vec<Quota>>) {
    let mut sizer = Sizer::on_devices(settings, physical, lode_replay::access_times(times));
    let share = sizer.first_share(VMS);
    let mut schemes: Vec<_> = (0..VMS).map(|_| (build(settings, physical, share), Vec::new())).collect();
    let mut vms = vec![NaiveVm::default(); VMS];
    let (mut shares, mut since_sizing) = (Vec::new(), 0);
    for (vm, request) in requests {
        let ((scheme, _), state) = (&mut schemes[*vm as usize], &mut vms[*vm as usize]);
        let (start, end) = (request.offset_bytes, request.offset_bytes + u64::from(request.length_bytes));
        let op = match request.op {
            RequestOp::Read => Direction::Read,
            RequestOp::Write => Direction::Write,
            RequestOp::Flush => {
                state.flushes += 1;
                continue;
            }
            RequestOp::Trim => {
                state.trims += 1;
                for block in start.div_ceil(BLOCK_BYTES)..end / BLOCK_BYTES {
                    scheme.discard(block, &mut state.effects);
                }
                continue;
            }
        };
        let (mut slowest, mut missed) = (0, false);
        for block in start / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES) {
            let partial = block * BLOCK_BYTES < start || (block + 1) * BLOCK_BYTES > end;
            let mut effects = Vec::new();
            scheme.access(Access { block, op, partial, origin: Origin::UNKNOWN }, &mut effects);
            slowest = slowest.max(state.access_ns(block, &effects, times));
            missed |= effects.contains(&Effect::ReadBacking);
            match op {
                Direction::Read => state.block_reads += 1,
                Direction::Write => state.block_writes += 1,
            }
            state.starts.insert(state.effects.len());
            state.effects.extend(effects);
        }
        scheme.end_request(request.time_ns, &mut state.effects);
        state.requests += 1;
        state.latency_ns += slowest;
        if op == Direction::Read {
            state.read_requests += 1;
            state.read_request_hits += u64::from(!missed);
        }
        sizer.after_request(request.time_ns, &mut schemes);
        vms.iter_mut().zip(&mut schemes).for_each(|(vm, (_, effects))| vm.effects.append(effects));
        since_sizing += 1;
        if since_sizing == SIZING_INTERVAL {
            since_sizing = 0;
            shares.push(schemes.iter().map(|(scheme, _)| scheme.quota()).collect());
        }
    }
    (vms, shares)
}

/// Settings that the naive loop knows the values of; the last one is [`SIZING_INTERVAL`].
const FIXED: [(&str, &str); 4] =
    [("assoc", "4"), ("sizing", "on"), ("trigger", "requests"), ("sizing_interval", "40")];

/// Any settings of a scheme: a third of them not at their defaults, numbers small, so that intervals end within a few requests.
fn any_settings(info: &'static SchemeInfo) -> impl Strategy<Value = Settings> {
    let value = |kind| prop_oneof![2 => Just(None), 1 => any_value(kind).prop_map(Some)];
    let values: Vec<_> = info.setting_infos().map(|setting| value(setting.kind)).collect();
    values.prop_map(|values| {
        // A tenth of a per cent of the requests are those of an interval.
        let mut settings = info.settings().for_sample(0.001);
        let keys = || info.setting_infos().map(|setting| setting.key);
        let chosen = keys().zip(&values).filter_map(|(key, value)| Some((key, value.as_deref()?)));
        let fixed = FIXED.into_iter().filter(|(key, _)| keys().any(|known| known == *key));
        chosen.chain(fixed).for_each(|(key, value)| settings.set(key, value).expect("a setting"));
        settings
    })
}

fn any_value(kind: SettingKind) -> BoxedStrategy<String> {
    match kind {
        SettingKind::Integer { min, max } | SettingKind::Scaled { min, max } => {
            (min..=max.min(min + 7)).prop_map(|number| number.to_string()).boxed()
        }
        SettingKind::Number { min, max } => {
            (min..=max.min(min + 5.0)).prop_map(|number| number.to_string()).boxed()
        }
        SettingKind::Choice(words) => proptest::sample::select(words).prop_map(str::to_owned).boxed(),
        SettingKind::Budget { max } => {
            let daily = (1..1u64 << 40).prop_map(|bytes| format!("{bytes}/day"));
            prop_oneof![Just("0".to_owned()), (0.0..=max).prop_map(|n| n.to_string()), daily].boxed()
        }
    }
}

/// Of what there is, the levels that the scheme uses.
fn used_levels(info: &SchemeInfo, physical: Quota) -> Quota {
    physical.map(|level, blocks| if info.levels.contains(&level) { blocks } else { 0 })
}

/// Any scheme of the registry that need not know what comes, with any levels; the read SSD may be smaller than the other one.
fn schemes() -> impl Strategy<Value = (Settings, Quota)> {
    let blind: Vec<&'static SchemeInfo> = all_schemes().iter().filter(|info| !info.needs_future()).collect();
    (proptest::sample::select(blind), 1u32..40, 1u32..80).prop_flat_map(|(info, dram, ssd)| {
        let physical = Quota::new(dram, ssd).with(Level::ReadSsd, dram + 20);
        (any_settings(info), Just(used_levels(info, physical)))
    })
}

/// Service times with and without small-write penalty, with and without an arm.
fn models() -> impl Strategy<Value = ServiceTimes> {
    let hosts = vec!["default", "default-raid5", "sata-raid5", "nvme-raid10", "tica-ro"];
    proptest::sample::select(hosts)
        .prop_map(|name| Host::find(name).expect("a host").service_times(BlockSize::KIB_4))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_driver_does_what_a_naive_loop_does(
        (settings, physical) in schemes(),
        times in models(),
        requests in any_requests(VMS, 600),
    ) {
        let mut driver: Driver<AnyScheme> = {
            let for_build = settings.clone();
            let build = move |share| build(&for_build, physical, share);
            Driver::new(&settings, physical, BlockSize::KIB_4, times, VMS, build)
        };
        for (vm, request) in &requests {
            driver.push(*vm, request).expect("volume 0");
        }
        driver.finish();
        let (vms, mut shares) = naive(&settings, physical, &times, &requests);
        if !settings.values().any(|(key, _)| key == "sizing") {
            shares.clear();
        }
        for (number, (expected, outcome)) in vms.iter().zip(driver.outcomes()).enumerate() {
            expected.compare(&outcome, &times)?;
            let of_vm: Vec<_> = shares.iter().map(|row| row[number]).collect();
            prop_assert_eq!(outcome.shares, of_vm);
            prop_assert_eq!(outcome.first_interval, 0);
        }
        prop_assert_eq!(driver.outcomes().count(), VMS);
    }
}
