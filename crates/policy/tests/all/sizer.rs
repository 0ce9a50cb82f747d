//! Shares of several VMs over sizing intervals.

use lode_policy::{AccessTimes, AnyScheme, Effect, NullSink, Quota, Scheme, Settings, Sizer, build};
use lode_reuse::sizing::{Objective, VmDemand, WriteBuffer, divide};
use lode_reuse::{Analyser, Distances, Metric};
use lode_types::{Access, Direction, Level};
use proptest::prelude::*;

use crate::driver::settings;

/// One request: VM, block, read or write.
type Request = (usize, u64, bool);

struct Host {
    vms: Vec<(AnyScheme, Vec<Effect>)>,
    sizer: Sizer,
    now_ns: u64,
}

impl Host {
    fn new(settings: &Settings, physical: Quota, vms: usize) -> Host {
        let sizer = Sizer::new(settings, physical);
        let share = sizer.first_share(vms);
        Host {
            vms: (0..vms).map(|_| (build(settings, physical, share), Vec::new())).collect(),
            sizer,
            now_ns: 0,
        }
    }

    /// Whether an interval ended with it.
    fn request(&mut self, (vm, block, read): Request) -> bool {
        let access = if read { Access::read(block) } else { Access::write(block) };
        let scheme = &mut self.vms[vm].0;
        scheme.access(access, &mut NullSink);
        scheme.end_request(self.now_ns, &mut NullSink);
        self.sizer.after_request(self.now_ns, &mut self.vms)
    }

    fn quotas(&self) -> Vec<Quota> {
        self.vms.iter().map(|(scheme, _)| scheme.quota()).collect()
    }
}

/// Both levels' exact analysers of one VM.
fn analysers() -> [Distances; 2] {
    [Metric::PodRo, Metric::PodWbwo].map(|metric| Distances::with_capacity(metric, 0))
}

fn requests(vms: usize, count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Request>> {
    prop::collection::vec((0..vms, 0u64..60, any::<bool>()), count).prop_map(|all| {
        all.into_iter().map(|(vm, block, read)| (vm, block % (10 * vm as u64 + 10), read)).collect()
    })
}

const OBJECTIVES: [&str; 6] = ["sum_hit_ratio", "hits", "latency", "ppc_total", "ppc_literal", "maxmin"];

fn objective(name: &str) -> Objective {
    match name {
        "sum_hit_ratio" => Objective::SumHitRatio,
        "hits" => Objective::Hits,
        "latency" => Objective::Latency { cache_us: 120.0, backing_us: 8000.0 },
        "ppc_total" => Objective::PpcTotal { floor: 0.9 },
        "ppc_literal" => Objective::PpcLiteral { min_blocks: 1 },
        _ => Objective::MaxMin,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn shares_stay_within_the_levels_and_shrink_at_the_rate(
        requests in requests(4, 0..600),
        interval in 1u64..80,
        rate in prop::sample::select(vec![0u32, 1, 3, 7]),
        min_blocks in 0u32..40,
        objective in prop::sample::select(OBJECTIVES.to_vec()),
        physical in (0u32..50, 0u32..50).prop_map(|(dram, ssd)| Quota::new(dram, ssd)),
    ) {
        let settings = settings("etica", &[
            ("sizing_interval", &interval.to_string()), ("shrink_rate", &rate.to_string()),
            ("min_blocks", &min_blocks.to_string()), ("objective", objective), ("assoc", "4"),
            ("promotion_interval", "7"), ("mode", "full-hybrid"),
        ]);
        let mut host = Host::new(&settings, physical, 4);
        for request in requests {
            let before = host.quotas();
            host.request(request);
            let after = host.quotas();
            for level in Level::SIZED {
                let sum: u64 = after.iter().map(|quota| u64::from(quota.of(level))).sum();
                prop_assert!(sum <= u64::from(physical.of(level)), "{sum} blocks of {}", level.name());
                for (before, after) in before.iter().zip(&after) {
                    let lost = before.of(level).saturating_sub(after.of(level));
                    prop_assert!(rate == 0 || lost <= rate, "{lost} blocks at once");
                }
                for (vm, _) in &host.vms {
                    prop_assert!(vm.resident_blocks(level) <= vm.quota().of(level));
                }
            }
        }
        for effect in host.vms.iter().flat_map(|(_, effects)| effects) {
            prop_assert!(matches!(effect, Effect::Evict { .. }), "{effect:?}");
        }
    }

    /// After every interval each share is the demand measured by the exact analysers when all demands
    /// fit, and else what the solver makes of their curves.
    #[test]
    fn shares_are_the_division_of_exact_demands(
        (vms, requests) in (1usize..4).prop_flat_map(|vms| (Just(vms), requests(vms, 300..600))),
        interval in 60usize..150,
        min_blocks in prop_oneof![Just(0u32), 0u32..70],
        objective_name in prop::sample::select(OBJECTIVES.to_vec()),
        carry in any::<bool>(),
        physical in prop_oneof![Just(1000u32), 0u32..60],
    ) {
        let min_blocks = if objective_name == "ppc_literal" { 1 } else { min_blocks };
        let settings = settings("etica", &[
            ("sizing_interval", &interval.to_string()), ("objective", objective_name),
            ("window", if carry { "carry" } else { "reset" }), ("min_blocks", &min_blocks.to_string()),
        ]);
        let mut host = Host::new(&settings, Quota::new(physical, physical), vms);
        let mut exact: Vec<_> = (0..vms).map(|_| analysers()).collect();
        for window in requests.chunks_exact(interval) {
            for &(vm, block, read) in window {
                let op = if read { Direction::Read } else { Direction::Write };
                for analyser in &mut exact[vm] {
                    analyser.access(op, block).unwrap();
                }
                host.request((vm, block, read));
            }
            for level in Level::SIZED {
                let min_blocks = u64::from(min_blocks.min(physical / vms as u32));
                let demand = |(at, vm): (usize, &[Distances; 2])| {
                    let of_vm = || window.iter().filter(|(vm, _, _)| *vm == at);
                    let (accesses, writes) = (of_vm().count(), of_vm().filter(|(_, _, read)| !read).count());
                    let saved_us = writes as f64 / accesses.max(1) as f64 * (8000.0 - 60.0);
                    let buffers = level == Level::Ssd && writes > 0;
                    let write_buffer = buffers.then_some(WriteBuffer { blocks: 1, saved_us });
                    let demand = VmDemand::new(&vm[level.index()].tally().curve());
                    VmDemand { min_blocks, write_buffer, ..demand }
                };
                let demands: Vec<VmDemand> = exact.iter().enumerate().map(demand).collect();
                let sizes = divide(&demands, physical.into(), objective(objective_name))
                    .or_else(|_| divide(&demands, physical.into(), Objective::SumHitRatio))
                    .unwrap()
                    .sizes;
                let got: Vec<u64> = host.quotas().iter().map(|quota| quota.of(level).into()).collect();
                prop_assert_eq!(&got, &sizes);
                if physical == 1000 && objective_name == "sum_hit_ratio" && min_blocks == 0 {
                    let needed: Vec<u64> =
                        exact.iter().map(|vm| vm[level.index()].tally().blocks_needed()).collect();
                    prop_assert_eq!(got, needed);
                }
            }
            for analyser in exact.iter_mut().flatten() {
                if carry { analyser.clear_tally() } else { *analyser = Distances::new(analyser.metric()) }
            }
        }
    }
}

/// One block of SSD, one VM that hits in it and one whose writes it would buffer: the devices say what is worth more.
#[test]
fn latency_is_that_of_the_devices() {
    let slow_writes = AccessTimes::default();
    let fast_writes = AccessTimes { disk_write_us: 100.0, ..slow_writes };
    for scheme in ["etica", "eci-cache-like", "centaur-like"] {
        for (times, expected) in [(slow_writes, [0, 1]), (fast_writes, [1, 0])] {
            let settings = settings(scheme, &[("objective", "latency"), ("sizing_interval", "40")]);
            // ETICA's sizes change level by level; the others have no host memory.
            let physical = Quota::new(0, 1);
            let mut host = Host::new(&settings, physical, 2);
            host.sizer = Sizer::on_devices(&settings, physical, times);
            // Half of the first one's accesses read again what came just before, which hits in one block; nearly all of the
            // second one's write.
            for at in 0..20u64 {
                host.request((0, if at % 4 == 3 { 50 + at } else { 0 }, at > 0));
                host.request((1, 100 + at, at == 19));
            }
            let shares: Vec<u32> = host.quotas().iter().map(|quota| quota.ssd_blocks).collect();
            let of_writes = times.write_buffer(1, 19, 20).map_or(0.0, |buffer| buffer.saved_us);
            assert!((of_writes > 7000.0) == (times == slow_writes), "{of_writes}");
            assert_eq!(shares, expected, "{scheme}");
        }
    }
}

#[test]
fn without_sizing_every_vm_keeps_its_part() {
    let physical = Quota::new(100, 1000);
    let settings = settings("etica", &[("sizing", "off"), ("sizing_interval", "1")]);
    let mut host = Host::new(&settings, physical, 3);
    for at in 0..100 {
        host.request((at % 3, at as u64 % 7, at % 2 == 0));
        assert_eq!(host.quotas(), [Quota::new(33, 333); 3]);
    }
    let settings = crate::driver::settings("lru", &[]);
    assert_eq!(Sizer::new(&settings, physical).first_share(5), Quota::new(20, 200));
}

/// Two VMs; the first asks for 3 blocks of each level, the second for nothing.
fn three_blocks(host: &mut Host) {
    for at in 0..9 {
        host.request((0, at % 3, at >= 3));
    }
    host.request((1, 9, true));
}

#[test]
fn intervals_follow_time_when_told_to() {
    let settings = settings(
        "etica",
        &[("trigger", "time"), ("sizing_interval_s", "10"), ("sizing_interval", "1"), ("window", "reset")],
    );
    let mut host = Host::new(&settings, Quota::new(20, 40), 2);
    host.now_ns = 1 << 60;
    let start = host.now_ns;
    let halves = [Quota::new(10, 20); 2];
    for second in [0, 1, 9] {
        host.now_ns = start + second * 1_000_000_000;
        three_blocks(&mut host);
        assert_eq!(host.quotas(), halves, "after {second} s");
    }
    host.now_ns = start - 1;
    host.request((1, 9, true));
    assert_eq!(host.quotas(), halves, "a clock that runs backwards ends nothing");
    host.now_ns = start + 10_000_000_000;
    host.request((1, 9, true));
    let shares = host.quotas();
    assert_eq!((shares[0].ssd_blocks, shares[1].ssd_blocks), (3, 0));
    // POD(RO) of the second VM: its reads of block 9 follow each other.
    assert_eq!((shares[0].dram_blocks, shares[1].dram_blocks), (3, 1));
    host.now_ns += 9_999_999_999;
    host.request((1, 9, true));
    assert_eq!(host.quotas(), shares, "the next interval starts where the last one ended");
    // A time that is far ahead ends one, and after it two requests are where the times go on.
    let here = host.now_ns;
    let mut ends = |now_ns| {
        host.now_ns = now_ns;
        host.request((1, 9, true))
    };
    assert!(ends(u64::MAX), "a stray time is believed");
    assert!(!ends(here) && !ends(here + 1) && !ends(here + 9_999_999_999));
    assert!(ends(here + 10_000_000_000), "intervals go on after a stray time");
}

#[test]
fn a_share_grows_only_as_fast_as_the_others_shrink() {
    let settings = settings(
        "etica",
        &[
            ("mode", "full-hybrid"),
            ("sizing_interval", "30"),
            ("shrink_rate", "2"),
            ("promotion_interval", "1000000000"),
        ],
    );
    let physical = Quota::new(0, 20);
    let mut host = Host::new(&settings, physical, 2);
    // The second VM needs all 20 blocks, the first none: it gives up its 10, two after each request.
    for block in 0..15 {
        host.request((1, block, false));
    }
    let mut seen = Vec::new();
    for at in 0..30u64 {
        host.request((1, at % 15, true));
        seen.push(host.quotas().iter().map(|quota| quota.ssd_blocks).collect::<Vec<_>>());
    }
    assert_eq!(seen[13], [10, 10], "still the first share");
    assert_eq!(seen[14], [8, 12], "one step towards 0 and 15");
    assert_eq!(seen[16], [4, 15]);
    assert_eq!(seen[18], [0, 15], "reached");
    assert_eq!(seen[29], [0, 15]);
}

#[test]
fn vms_that_come_or_go_wait_for_the_next_interval() {
    let settings = settings("etica", &[("sizing_interval", "20"), ("shrink_rate", "1"), ("window", "reset")]);
    let mut host = Host::new(&settings, Quota::new(20, 40), 3);
    for _ in 0..2 {
        three_blocks(&mut host);
    }
    let before = host.quotas();
    host.vms.pop();
    host.request((1, 9, true));
    assert_eq!(host.quotas(), before[..2]);
    for _ in 0..5 {
        three_blocks(&mut host);
    }
    assert_eq!(host.quotas()[0].ssd_blocks, 3);
}

/// As a host divides: who asks for more gets it from who asks for less, what nobody asks for stays, and a level stays as it is
/// where another division is worth nothing.
#[test]
fn a_host_leaves_spare_space_where_it_is() {
    let settings = settings("etica", &[("sizing", "host"), ("sizing_interval", "20"), ("window", "reset")]);
    let mut host = Host::new(&settings, Quota::new(20, 40), 2);
    let halves = [Quota::new(10, 20); 2];
    for _ in 0..2 {
        three_blocks(&mut host);
    }
    assert_eq!(host.quotas(), halves, "three blocks fit");
    // The second VM now comes back to 15 blocks, which its half of the DRAM cannot hold and its half of the SSD can.
    for at in 0..15 {
        host.request((1, at, true));
    }
    for at in 0..5 {
        host.request((1, at, true));
    }
    for at in 0..20 {
        host.request((1, at % 15, true));
    }
    assert_eq!(host.quotas(), [Quota::new(5, 20), Quota::new(15, 20)]);
}
