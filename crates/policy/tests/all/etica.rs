//! ETICA against plain structures, effect by effect, and its demand against the exact analysers.

use lode_policy::{LevelDemand, Points, Quota, RequestSource, Scheme, SchemeInfo, Settings, Sizer, Tenant};
use lode_reuse::{Analyser, CurvePoint, Distances, Metric};
use lode_types::{Direction, Level, Origin, OriginFields};
use proptest::prelude::*;

use crate::driver::{Driver, Observed, Step, any_blocks, any_losing_step, any_step, settings};
use crate::oracle::etica::{Choices, PlainEtica};

fn to_settings(choices: &Choices, sizing: &str, distances: &str) -> Settings {
    let on_off = |on: bool| if on { "on" } else { "off" };
    settings(
        "etica",
        &[
            ("sizing", sizing),
            ("distances", distances),
            ("mode", choices.mode),
            ("assoc", &choices.assoc.to_string()),
            ("map", choices.map),
            ("promotion_interval", &choices.promotion_interval.to_string()),
            ("queue_percent", &(choices.queue_share as f64 / 100.0).to_string()),
            ("queues", choices.queues),
            ("evict", choices.evict),
            ("popularity", choices.popularity),
            ("ageing", &choices.ageing.to_string()),
            ("score_floor", &choices.score_floor.to_string()),
            ("window", choices.window),
            ("chained", on_off(choices.chained)),
            ("ro_ignore_writes", on_off(choices.ro_ignore_writes)),
        ],
    )
}

fn any_choices() -> impl Strategy<Value = Choices> {
    let place = (
        prop::sample::select(vec!["npe", "full-hybrid", "full-hybrid", "full-strict"]),
        prop::sample::select(vec![0u32, 1, 2, 3, 4, 8, 9]),
        prop::sample::select(vec!["modulo", "jhash"]),
    );
    let promotion = (
        1u32..6,
        prop::sample::select(vec![1usize, 500, 700, 2_000, 5_000, 10_000]),
        prop::sample::select(vec!["exact", "exact", "classes"]),
        prop::sample::select(vec!["swap", "literal"]),
        prop::sample::select(vec!["wbwo", "wb", "any"]),
        prop::sample::select(vec![0.0f32, 1e-20, 1e-6, 0.5, 0.9, 1.0]),
        prop::sample::select(vec![0.0f32, 0.001, 0.5]),
    );
    let streams = (prop::sample::select(vec!["carry", "reset"]), any::<bool>(), any::<bool>());
    (place, promotion, streams).prop_map(|(place, promotion, streams)| Choices {
        mode: place.0,
        assoc: place.1,
        map: place.2,
        promotion_interval: promotion.0,
        queue_share: promotion.1,
        queues: promotion.2,
        evict: promotion.3,
        popularity: promotion.4,
        ageing: promotion.5,
        score_floor: promotion.6,
        window: streams.0,
        chained: streams.1,
        ro_ignore_writes: streams.2,
    })
}

/// A sample has all of so few blocks.
fn any_distances() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["exact", "sampled"])
}

fn any_quota() -> impl Strategy<Value = Quota> {
    (any_blocks(), any_blocks()).prop_map(|(dram, ssd)| Quota::new(dram, ssd))
}

/// Steps, `None` where a sizing window ends.
fn any_steps(longest: usize) -> impl Strategy<Value = Vec<Option<Step>>> {
    let step = prop_oneof![
        60 => any_step(40, any_quota().boxed()).prop_map(Some),
        1 => Just(None),
    ];
    prop::collection::vec(step, 0..longest)
}

fn compare(choices: &Choices, sizing: &str, distances: &str, quota: Quota, steps: &[Option<Step>]) {
    let mut driver = Driver::new(&to_settings(choices, sizing, distances), Quota::new(64, 64), quota);
    let mut oracle = PlainEtica::new(choices.clone(), quota);
    for (at, step) in steps.iter().enumerate() {
        match *step {
            Some(step) => {
                assert_eq!(driver.step(step), oracle.step(step), "step {at}: {step:?}");
            }
            None if sizing == "on" => {
                assert_eq!(
                    driver.scheme.sizing().map(|sizing| sizing.demand(Points::All)),
                    Some(oracle.demand()),
                    "step {at}"
                );
            }
            None => assert_eq!(driver.scheme.sizing().map(|sizing| sizing.demand(Points::All)), None),
        }
        assert_eq!(driver.residents(Level::Dram), oracle.dram.residents(), "after step {at}");
        assert_eq!(driver.residents(Level::Ssd), oracle.ssd.residents(), "after step {at}");
    }
    driver.check_counters();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn equals_the_oracle_effect_by_effect(
        choices in any_choices(), quota in any_quota(), steps in any_steps(250),
    ) {
        compare(&choices, "off", "exact", quota, &steps);
    }

    #[test]
    fn equals_the_oracle_with_windows(
        choices in any_choices(), quota in any_quota(), steps in any_steps(250), distances in any_distances(),
    ) {
        compare(&choices, "on", distances, quota, &steps);
    }

    /// Large sets of which any block may be lost at any time: the heaps of the least wanted hold.
    #[test]
    fn equals_the_oracle_when_blocks_are_lost(
        choices in any_choices(), ssd in 20u32..40, steps in prop::collection::vec(any_losing_step(50), 0..400),
    ) {
        let choices = Choices { mode: "full-hybrid", assoc: 0, popularity: "any", queue_share: 10_000, ..choices };
        let mut steps: Vec<_> = steps.into_iter().map(Some).collect();
        steps.extend((0..ssd).rev().map(|blocks| Some(Step::Resize(Quota::new(0, blocks)))));
        compare(&choices, "off", "exact", Quota::new(0, ssd), &steps);
    }
}

/// One of several VMs of a host.
struct Vm {
    driver: Driver,
    observed: Vec<Observed>,
}

impl Tenant for Vm {
    fn quota(&self) -> Quota {
        self.driver.scheme.quota()
    }

    fn demand(&mut self, points: Points) -> Option<[LevelDemand; 2]> {
        self.driver.scheme.sizing().map(|sizing| sizing.demand(points))
    }

    fn resize(&mut self, quota: Quota) {
        let observed = self.driver.step(Step::Resize(quota));
        self.observed.extend(observed);
    }

    fn end_host_interval(&mut self) {
        let observed = self.driver.end_host_interval();
        self.observed.extend(observed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// By the host's clock every VM promotes after so many requests of all of them.
    #[test]
    fn intervals_of_the_host_are_those_of_all_vms(
        choices in any_choices(),
        quota in any_quota(),
        requests in prop::collection::vec((0usize..3, any_step(40, any_quota().boxed())), 0..300),
    ) {
        let interval = choices.promotion_interval;
        let mut settings = to_settings(&choices, "off", "exact");
        settings.set("promotion_clock", "host").unwrap();
        let choices = Choices { promotion_interval: u32::MAX, ..choices };
        let mut sizer = Sizer::new(&settings, Quota::new(64, 64));
        let vm = |_| Vm { driver: Driver::new(&settings, Quota::new(64, 64), quota), observed: Vec::new() };
        let mut vms: Vec<Vm> = (0..3).map(vm).collect();
        let mut oracles: Vec<_> = (0..3).map(|_| PlainEtica::new(choices.clone(), quota)).collect();
        let mut since_promotion = 0;
        for (vm, step) in requests {
            let mut expected = vec![Vec::new(); 3];
            let observed = vms[vm].driver.step(step);
            vms[vm].observed.extend(observed);
            expected[vm].extend(oracles[vm].step(step));
            if matches!(step, Step::EndRequest) {
                prop_assert!(!sizer.after_request(0, &mut vms));
                since_promotion += 1;
                if since_promotion == interval {
                    since_promotion = 0;
                    for (oracle, expected) in oracles.iter_mut().zip(&mut expected) {
                        expected.extend(oracle.end_interval());
                    }
                }
            }
            let observed: Vec<_> = vms.iter_mut().map(|vm| std::mem::take(&mut vm.observed)).collect();
            prop_assert_eq!(observed, expected);
        }
    }
}

#[test]
fn the_clock_of_the_host_is_refused_where_a_vm_is_by_itself() {
    let info = SchemeInfo::find("etica").unwrap();
    let check = |clock, source| {
        let settings = settings("etica", &[("promotion_clock", clock)]);
        info.check_origins(&settings, OriginFields::NONE, source).map_err(|error| error.to_string())
    };
    assert_eq!(check("vm", RequestSource::Guest), Ok(()));
    assert_eq!(check("host", RequestSource::Trace), Ok(()));
    let refused = check("host", RequestSource::Guest).unwrap_err();
    assert!(refused.contains("set promotion_clock=vm"), "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Long enough for the timelines to be compacted many times.
    #[test]
    fn demand_equals_the_exact_analysers(
        stream in prop::collection::vec((any::<bool>(), 0u64..400), 20_000..40_000),
        window in 500usize..9000,
        carry in any::<bool>(),
        ignore in any::<bool>(),
        distances in any_distances(),
        within in prop::option::of((prop_oneof![Just(0u32), 0u32..500], 0u32..500)),
    ) {
        let (window_name, ignore_name) = (if carry { "carry" } else { "reset" }, if ignore { "on" } else { "off" });
        let settings = settings(
            "etica",
            &[
                ("window", window_name),
                ("ro_ignore_writes", ignore_name),
                ("promotion_interval", "50"),
                ("distances", distances),
            ],
        );
        let quota = Quota::new(50, 60);
        let mut driver = Driver::new(&settings, quota, quota);
        let ro = if ignore { Metric::PodRoIgnoringWrites } else { Metric::PodRo };
        let mut analysers = [Distances::with_capacity(ro, 0), Distances::with_capacity(Metric::PodWbwo, 0)];
        for accesses in stream.chunks(window) {
            for &(read, block) in accesses {
                let op = if read { Direction::Read } else { Direction::Write };
                driver.scheme.access(lode_types::Access { block, op, partial: false, origin: Origin::UNKNOWN }, &mut lode_policy::NullSink);
                driver.scheme.end_request(0, &mut lode_policy::NullSink);
                for analyser in &mut analysers {
                    analyser.access(op, block).unwrap();
                }
            }
            let within = within.map(|(dram_blocks, ssd_blocks)| Quota::new(dram_blocks, ssd_blocks));
            let demand = driver.scheme.sizing().map(|sizing| sizing.demand(within.map_or(Points::All, Points::LastWithin))).unwrap();
            for ((demand, analyser), level) in demand.iter().zip(&mut analysers).zip(Level::SIZED) {
                prop_assert_eq!(u64::from(demand.blocks), analyser.tally().blocks_needed());
                let curve = analyser.tally().curve();
                let points = asked_for(curve.points(), within.map(|quota| quota.of(level)));
                prop_assert_eq!(&demand.curve, &points);
                prop_assert_eq!(demand.accesses, curve.accesses());
                if carry { analyser.clear_tally() } else { *analyser = Distances::new(analyser.metric()) }
            }
        }
    }
}

/// One window in which distances are folded together several times.
#[test]
fn demand_of_a_long_window_equals_the_exact_analysers() {
    for within in [None, Some(Quota::new(1500, 2000))] {
        a_long_window_equals_the_exact_analysers(within);
    }
}

/// Of a curve what [`Points`] describe, by looking at each point.
fn asked_for(curve: &[CurvePoint], within: Option<u32>) -> Vec<CurvePoint> {
    let is_last_within = |point: &CurvePoint| {
        let next = curve.iter().find(|other| other.size_blocks > point.size_blocks);
        within.is_none_or(|most| {
            point.size_blocks <= u64::from(most) && next.is_none_or(|next| next.size_blocks > u64::from(most))
        })
    };
    curve.iter().filter(|&point| is_last_within(point) || Some(point) == curve.last()).copied().collect()
}

fn a_long_window_equals_the_exact_analysers(within: Option<Quota>) {
    let quota = Quota::new(50, 60);
    let mut driver = Driver::new(&settings("etica", &[]), quota, quota);
    let mut analysers = [Metric::PodRo, Metric::PodWbwo].map(|metric| Distances::with_capacity(metric, 0));
    let mut random = 1u64;
    for _ in 0..500_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let block = (random >> 40) % 3000;
        let op = if (random >> 33) % 8 < 6 { Direction::Read } else { Direction::Write };
        driver.scheme.access(
            lode_types::Access { block, op, partial: false, origin: Origin::UNKNOWN },
            &mut lode_policy::NullSink,
        );
        for analyser in &mut analysers {
            analyser.access(op, block).unwrap();
        }
    }
    let demands = driver
        .scheme
        .sizing()
        .map(|sizing| sizing.demand(within.map_or(Points::All, Points::LastWithin)))
        .unwrap();
    for ((demand, analyser), level) in demands.iter().zip(&analysers).zip(Level::SIZED) {
        let curve = analyser.tally().curve();
        assert_eq!(demand.curve, asked_for(curve.points(), within.map(|quota| quota.of(level))));
        assert_eq!(u64::from(demand.blocks), analyser.tally().blocks_needed());
    }
}
