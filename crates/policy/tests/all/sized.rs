//! The schemes that size one SSD level by a measure of the stream, against their oracles, and how they divide a host.

use lode_policy::{AnyScheme, NullSink, Points, Quota, Scheme, Settings, Sizer, build};
use lode_types::{Access, Level};
use proptest::prelude::*;

use crate::driver::{Driver, Observed, Step, any_blocks, any_step, settings};
use crate::oracle::level::PlainLevel;
use crate::oracle::one_level::PlainSets;
use crate::oracle::sized::{Kind, PlainSized};
use crate::write_policies::any_policy_of;

const PHYSICAL: Quota = Quota::new(0, 40);

/// A scheme, its write policy and what else is to be set.
#[derive(Clone, Debug)]
struct Case {
    kind: Kind,
    policy: &'static str,
    assoc: u32,
    carries: bool,
    /// As many as the host has, or more than there are blocks.
    few_tracked: bool,
    /// By a sample, which has all of so few blocks.
    sampled: bool,
}

impl Case {
    fn settings(&self) -> Settings {
        let mut settings = settings(self.kind.name(), &[("assoc", &self.assoc.to_string())]);
        if let Kind::SCave { chunk_percent, .. } = self.kind {
            settings.set("chunk_percent", &chunk_percent.to_string()).unwrap();
        } else {
            settings.set("window", if self.carries { "carry" } else { "reset" }).unwrap();
            settings.set("track_blocks", if self.few_tracked { "1" } else { "0" }).unwrap();
            settings.set("distances", if self.sampled { "sampled" } else { "exact" }).unwrap();
        }
        match self.kind {
            Kind::Eci { threshold, interval } => {
                settings.set("write_threshold", &threshold.to_string()).unwrap();
                settings.set("policy_interval", &interval.to_string()).unwrap();
                return settings;
            }
            Kind::VCacheShare { alpha, by_share } => {
                settings.set("alpha", &alpha.to_string()).unwrap();
                settings.set("intensity", if by_share { "by_share" } else { "flat" }).unwrap();
            }
            Kind::Centaur | Kind::SCave { .. } => {}
        }
        settings.set("write_policy", self.policy).unwrap();
        settings
    }

    fn oracle(&self, blocks: u32) -> PlainSized {
        let level = PlainSets { level: PlainLevel::new(self.assoc, false, blocks), lru: true };
        let limit = if self.few_tracked { PHYSICAL.ssd_blocks as usize } else { 1 << 20 };
        PlainSized::new(self.kind, self.policy, level, self.carries, limit)
    }
}

fn s_cave(chunk_percent: u32) -> Kind {
    Kind::SCave { chunk_percent, chunk_blocks: (PHYSICAL.ssd_blocks * chunk_percent / 100).max(1) }
}

fn any_kind() -> impl Strategy<Value = Kind> {
    let alpha = prop::sample::select(vec![0.0, 0.1, 3.0]);
    prop_oneof![
        2 => (prop::sample::select(vec![0.0, 0.2, 0.4, 1.0]), 1u32..12)
            .prop_map(|(threshold, interval)| Kind::Eci { threshold, interval }),
        1 => Just(Kind::Centaur),
        1 => prop::sample::select(vec![1, 30, 100]).prop_map(s_cave),
        1 => (alpha, any::<bool>()).prop_map(|(alpha, by_share)| Kind::VCacheShare { alpha, by_share }),
    ]
}

fn any_case() -> impl Strategy<Value = Case> {
    let policy = any_policy_of("centaur-like");
    let assoc = prop::sample::select(vec![0u32, 1, 2, 4]);
    (any_kind(), policy, assoc, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(kind, policy, assoc, carries, few_tracked, sampled)| {
            let policy = if matches!(kind, Kind::Eci { .. }) { "wb" } else { policy };
            Case { kind, policy, assoc, carries, few_tracked, sampled }
        },
    )
}

/// Steps, `None` where a sizing window ends.
fn any_steps() -> impl Strategy<Value = Vec<Option<Step>>> {
    let quotas = any_blocks().prop_map(|blocks| Quota::new(0, blocks)).boxed();
    let step = prop_oneof![40 => any_step(80, quotas).prop_map(Some), 1 => Just(None)];
    prop::collection::vec(step, 0..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn equals_the_oracle(case in any_case(), blocks in any_blocks(), steps in any_steps()) {
        let mut driver = Driver::new(&case.settings(), PHYSICAL, Quota::new(0, blocks));
        let mut oracle = case.oracle(blocks);
        for (at, step) in steps.iter().enumerate() {
            match *step {
                Some(step) => prop_assert_eq!(driver.step(step), oracle.step(step), "step {}: {:?}", at, step),
                None => {
                    let [dram, ssd] = driver.scheme.sizing().map(|sizing| sizing.demand(Points::All)).unwrap();
                    prop_assert_eq!(ssd, oracle.demand(), "step {}", at);
                    prop_assert_eq!(dram.blocks, 0);
                }
            }
            prop_assert_eq!(driver.residents(Level::Ssd), oracle.residents(), "after step {}: {:?}", at, step);
        }
        prop_assert_eq!(driver.counters, oracle.level.counters);
        driver.check_counters();
    }
}

#[test]
fn a_read_only_cache_holds_nothing_dirty() {
    let settings = settings("eci-cache-like", &[("policy_interval", "10")]);
    let quota = Quota::new(0, 20);
    let mut driver = Driver::new(&settings, quota, quota);
    let mut cleaned = Vec::new();
    for request in 0..20u64 {
        // Each of five blocks is written again and again.
        driver.step(Step::Write(request % 5, false));
        cleaned.extend(driver.step(Step::EndRequest));
        let dirty = driver.residents(Level::Ssd).values().filter(|&&dirty| dirty).count();
        assert_eq!(dirty == 0, request >= 9, "request {request}");
    }
    assert_eq!(cleaned, [0, 1, 2, 3, 4].map(Observed::Clean));
    // They were cached and clean until they were written again.
    assert_eq!(driver.residents(Level::Ssd).len(), 0);
    for request in 0..10u64 {
        driver.step(Step::Read(request % 5));
        driver.step(Step::EndRequest);
    }
    driver.step(Step::Write(1, false));
    assert!(driver.residents(Level::Ssd)[&1], "write-back again");
}

/// What hit before the share was taken away is not to be had a second time.
#[test]
fn a_share_that_is_taken_away_promises_no_more_hits_than_accesses() {
    let settings = settings("s-cave-like", &[]);
    let mut driver = Driver::new(&settings, PHYSICAL, PHYSICAL);
    for _ in 0..3 {
        driver.step(Step::Read(1));
        driver.step(Step::EndRequest);
    }
    driver.step(Step::Resize(Quota::default()));
    let [_, ssd] = driver.scheme.sizing().unwrap().demand(Points::All);
    assert_eq!((ssd.accesses, ssd.curve.last().unwrap().hits), (3, 3));
}

/// VMs on one host.
struct Host {
    vms: Vec<(AnyScheme, NullSink)>,
    sizer: Sizer,
}

impl Host {
    fn new(settings: &Settings, physical: Quota, vms: usize) -> Host {
        let sizer = Sizer::new(settings, physical);
        let share = sizer.first_share(vms);
        Host { vms: (0..vms).map(|_| (build(settings, physical, share), NullSink)).collect(), sizer }
    }

    /// One request of one block; whether an interval ended.
    fn request(&mut self, vm: usize, block: u64, read: bool) -> bool {
        let access = if read { Access::read(block) } else { Access::write(block) };
        let (scheme, sink) = &mut self.vms[vm];
        scheme.access(access, sink);
        scheme.end_request(0, sink);
        self.sizer.after_request(0, &mut self.vms)
    }

    fn shares(&self) -> Vec<u32> {
        self.vms.iter().map(|(scheme, _)| scheme.quota().ssd_blocks).collect()
    }
}

fn any_requests(vms: usize) -> impl Strategy<Value = Vec<(usize, u64, bool)>> {
    prop::collection::vec((0..vms, 0u64..14, any::<bool>()), 50..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// After each interval a chunk has gone from who uses least of its share to who uses most of it.
    #[test]
    fn chunks_move_to_who_uses_most(requests in any_requests(3), chunk in 1u32..6, least in 0u32..4) {
        let physical = Quota::new(0, 32);
        let percent = (f64::from(chunk) / 0.32).to_string();
        let settings = settings("s-cave-like", &[
            ("chunk_percent", &percent), ("sizing_interval", "20"), ("min_blocks", &least.to_string()), ("assoc", "0"),
        ]);
        let mut host = Host::new(&settings, physical, 3);
        let mut twin: Vec<PlainSized> = host.shares().iter().map(|&blocks| {
            let level = PlainSets { level: PlainLevel::new(0, false, blocks), lru: true };
            PlainSized::new(s_cave(1), "wt", level, true, 1 << 20)
        }).collect();
        for (vm, block, read) in requests {
            let before = host.shares();
            let ended = host.request(vm, block, read);
            twin[vm].step(if read { Step::Read(block) } else { Step::Write(block, false) });
            let mut expected = before.clone();
            if ended {
                let used: Vec<f64> = twin.iter_mut().zip(&before).map(|(vm, &share)| {
                    let demand = vm.demand();
                    if share > 0 { f64::from(demand.blocks) / f64::from(share) } else { f64::from(demand.accesses.min(1) as u32) }
                }).collect();
                let mut most = 0;
                for vm in 0..3 {
                    if used[vm] > used[most] { most = vm; }
                }
                let mut from: Option<usize> = None;
                for vm in 0..3 {
                    if used[vm] < used[most] && before[vm] > least && from.is_none_or(|from| used[vm] < used[from]) {
                        from = Some(vm);
                    }
                }
                let free = 32 - before.iter().sum::<u32>();
                let chunk = (f64::from(32) * (percent.parse::<f64>().unwrap() / 100.0)) as u32;
                let chunk = chunk.max(1);
                let unused = if used[most] > 0.0 { free.min(chunk) } else { 0 };
                expected[most] += unused;
                if let Some(from) = from {
                    let moved = (chunk - unused).min(before[from] - least);
                    expected[from] -= moved;
                    expected[most] += moved;
                }
                for (vm, &blocks) in expected.iter().enumerate() {
                    twin[vm].step(Step::Resize(Quota::new(0, blocks)));
                }
            }
            prop_assert_eq!(host.shares(), expected);
        }
    }

    /// No other division of the level has more utility; with `by_share`, none of those at which hits rise.
    #[test]
    fn the_utility_is_the_largest(
        requests in any_requests(2), blocks in 0u32..16, alpha in prop::sample::select(vec![0.0, 0.5, 2.0]),
        by_share in any::<bool>(),
    ) {
        let kind = Kind::VCacheShare { alpha, by_share };
        let count = requests.len();
        let settings = settings("vcacheshare-like", &[
            ("alpha", &alpha.to_string()), ("intensity", if by_share { "by_share" } else { "flat" }),
            ("sizing_interval", &count.to_string()),
        ]);
        let mut host = Host::new(&settings, Quota::new(0, blocks), 2);
        let level = || PlainSets { level: PlainLevel::new(0, false, 4), lru: true };
        let mut twin: Vec<_> = (0..2).map(|_| PlainSized::new(kind, "wa", level(), true, 1 << 20)).collect();
        for (vm, block, read) in requests {
            host.request(vm, block, read);
            twin[vm].step(if read { Step::Read(block) } else { Step::Write(block, false) });
        }
        let demands: Vec<_> = twin.iter_mut().map(PlainSized::demand).collect();
        let utility = |shares: &[u32]| -> f64 {
            demands.iter().zip(shares).map(|(demand, &share)| {
                let reached = demand.curve.iter().rfind(|point| point.size_blocks <= u64::from(share));
                reached.map_or(0.0, |point| point.hits as f64 / demand.accesses as f64 * demand.weight)
            }).sum()
        };
        let shares = host.shares();
        prop_assert!(shares.iter().sum::<u32>() <= blocks);
        let best = (0..=blocks).map(|first| utility(&[first, blocks - first])).fold(0.0, f64::max);
        prop_assert!(utility(&shares) >= best - 1e-9, "{:?} has {}, best is {best}", shares, utility(&shares));
    }
}
