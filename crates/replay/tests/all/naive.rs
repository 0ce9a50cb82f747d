//! The driver against a loop that does one thing after the other and looks nothing up ahead.

use lode_policy::{AnyScheme, Effect, Quota, Scheme, SchemeInfo, Settings, Sizer, build};
use lode_replay::{Counts, Driver, ServiceTimes, VmOutcome};
use lode_types::{Access, AccessOp, BlockSize, Level, Op, TraceRequest};
use proptest::prelude::*;

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
    latency_ns: u64,
    head: Option<u64>,
}

impl NaiveVm {
    fn disk_ns(&mut self, block: u64, is_write: bool, times: &ServiceTimes) -> u64 {
        let at_head = self.head == Some(block);
        self.head = Some(block + 1);
        match (at_head, is_write) {
            (true, _) => times.disk_sequential_ns,
            (false, false) => times.disk_random_ns,
            (false, true) => times.disk_random_ns * times.disk_small_write_factor,
        }
    }

    fn access_ns(&mut self, block: u64, effects: &[Effect], times: &ServiceTimes) -> u64 {
        let (mut before, mut places) = (0, vec![0]);
        for effect in effects {
            match effect {
                Effect::ReadLevel { level: Level::Dram, .. } => places.push(times.dram_ns),
                Effect::ReadLevel { level: Level::Ssd, .. } => places.push(times.ssd_read_ns),
                Effect::ReadBacking => places.push(self.disk_ns(block, false, times)),
                Effect::WriteLevel { level: Level::Ssd, .. } => places.push(times.ssd_write_ns),
                Effect::WriteBacking => places.push(self.disk_ns(block, true, times)),
                Effect::MergeLevel { level: Level::Dram, .. } => before = times.dram_ns,
                Effect::MergeLevel { level: Level::Ssd, .. } => before = times.ssd_read_ns,
                Effect::MergeBacking => before = self.disk_ns(block, false, times),
                _ => {}
            }
        }
        before + places.into_iter().max().unwrap_or(0)
    }

    fn count(&self, wanted: impl Fn(&Effect) -> bool) -> u64 {
        self.effects.iter().filter(|effect| wanted(effect)).count() as u64
    }

    fn compare(&self, outcome: &VmOutcome) -> Result<(), TestCaseError> {
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
            (found.counters.read_hits.dram, found.counters.read_hits.ssd),
            (reads_of(Level::Dram), reads_of(Level::Ssd))
        );
        let misses = self.count(|e| matches!(e, Effect::ReadBacking));
        prop_assert_eq!(found.counters.read_misses, misses);
        prop_assert_eq!(
            found.counters.write_hits.ssd,
            self.count(|e| matches!(e, Effect::WriteLevel { hit: true, .. }))
        );
        prop_assert_eq!(
            found.counters.ssd_writes.write,
            self.count(|e| matches!(e, Effect::WriteLevel { .. }))
        );
        let fills = self.count(|e| matches!(e, Effect::Fill { level: Level::Ssd, .. }));
        prop_assert_eq!(found.counters.ssd_writes.fill, fills);
        prop_assert_eq!(
            found.counters.ssd_writes.promotion,
            self.count(|e| matches!(e, Effect::Promote { .. }))
        );
        let merges = self.count(|e| matches!(e, Effect::MergeBacking));
        let from_backing = self.count(|e| matches!(e, Effect::Promote { from_dram: None, .. }));
        prop_assert_eq!(found.counters.backing_reads, misses + merges + from_backing);
        let write_backs = self.count(|e| matches!(e, Effect::Evict { dirty: true, .. }));
        prop_assert_eq!(found.counters.write_backs, write_backs);
        let through = self.count(|e| matches!(e, Effect::WriteBacking));
        prop_assert_eq!(found.counters.backing_writes, write_backs + through);
        let evicted = |of: Level| self.count(|e| matches!(e, Effect::Evict { level, .. } if *level == of));
        prop_assert_eq!(
            (found.counters.evictions.dram, found.counters.evictions.ssd),
            (evicted(Level::Dram), evicted(Level::Ssd))
        );
        prop_assert_eq!(outcome.tally.latency_ns, self.latency_ns);
        Ok(())
    }
}

/// Runs everything, and returns the VMs and their shares after each sizing.
fn naive(
    settings: &Settings,
    physical: Quota,
    requests: &[(u32, TraceRequest)],
) -> (Vec<NaiveVm>, Vec<Vec<Quota>>) {
    let times = ServiceTimes::raid5();
    let mut sizer = Sizer::new(settings, physical);
    let share = sizer.first_share(VMS);
    let mut schemes: Vec<_> = (0..VMS).map(|_| (build(settings, physical, share), Vec::new())).collect();
    let mut vms = vec![NaiveVm::default(); VMS];
    let (mut shares, mut since_sizing) = (Vec::new(), 0);
    for (vm, request) in requests {
        let ((scheme, _), state) = (&mut schemes[*vm as usize], &mut vms[*vm as usize]);
        let (start, end) = (request.offset_bytes, request.offset_bytes + u64::from(request.length_bytes));
        let op = match request.op {
            Op::Read => AccessOp::Read,
            Op::Write => AccessOp::Write,
            Op::Flush => {
                state.flushes += 1;
                continue;
            }
            Op::Trim => {
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
            scheme.access(Access { block, op, partial }, &mut effects);
            slowest = slowest.max(state.access_ns(block, &effects, &times));
            missed |= effects.contains(&Effect::ReadBacking);
            match op {
                AccessOp::Read => state.block_reads += 1,
                AccessOp::Write => state.block_writes += 1,
            }
            state.effects.extend(effects);
        }
        scheme.end_request(request.time_ns, &mut state.effects);
        state.requests += 1;
        state.latency_ns += slowest;
        if op == AccessOp::Read {
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

fn requests() -> impl Strategy<Value = Vec<(u32, TraceRequest)>> {
    let op =
        prop_oneof![4 => Just(Op::Read), 4 => Just(Op::Write), 1 => Just(Op::Trim), 1 => Just(Op::Flush)];
    let request = (0..VMS as u32, 0u64..600, 1u32..40, op).prop_map(|(vm, sector, sectors, op)| {
        let length_bytes = if op == Op::Flush { 0 } else { sectors * 512 };
        (vm, TraceRequest { time_ns: 0, offset_bytes: sector * 512, length_bytes, volume: 0, op })
    });
    proptest::collection::vec(request, 0..300)
}

fn schemes() -> impl Strategy<Value = (Settings, Quota)> {
    let modes = [
        ("etica", "mode=full-hybrid"),
        ("etica", "mode=full-strict"),
        ("etica", "mode=npe"),
        ("one-level", "write_policy=wb"),
        ("one-level", "write_policy=wt"),
        ("one-level", "write_policy=ro"),
        ("one-level", "write_policy=wbwo"),
        ("one-level", "write_policy=wa"),
    ];
    let small = ["sizing_interval=40", "promotion_interval=15", "queue_percent=50", "popularity=any"];
    (proptest::sample::select(modes.to_vec()), 1u32..40, 1u32..80).prop_map(
        move |((scheme, mode), dram, ssd)| {
            let mut settings = SchemeInfo::find(scheme).expect("a scheme").settings();
            settings.set_pair("assoc=4").expect("a setting");
            settings.set_pair(mode).expect("a setting");
            if scheme == "etica" {
                small.iter().for_each(|pair| settings.set_pair(pair).expect("a setting"));
                (settings, Quota::new(dram, ssd))
            } else {
                (settings, Quota::new(0, ssd))
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_driver_does_what_a_naive_loop_does((settings, physical) in schemes(), requests in requests()) {
        let mut driver: Driver<AnyScheme> = {
            let for_build = settings.clone();
            let build = move |share| build(&for_build, physical, share);
            Driver::new(&settings, physical, BlockSize::KIB_4, ServiceTimes::raid5(), VMS, build)
        };
        for (vm, request) in &requests {
            driver.push(*vm, request).expect("volume 0");
        }
        driver.finish();
        let (vms, mut shares) = naive(&settings, physical, &requests);
        if settings.scheme() != "etica" {
            shares.clear();
        }
        for (number, (expected, outcome)) in vms.iter().zip(driver.outcomes()).enumerate() {
            expected.compare(&outcome)?;
            let of_vm: Vec<_> = shares.iter().map(|row| row[number]).collect();
            prop_assert_eq!(outcome.shares, of_vm);
            prop_assert_eq!(outcome.first_interval, 0);
        }
        prop_assert_eq!(driver.outcomes().count(), VMS);
    }
}
