//! What `auto` chooses against its oracle, and what the weights of its objective do.

use std::cell::Cell;

use lode_policy::{AnyScheme, Decision, NullSink, Quota, Scheme, Settings, build};
use lode_types::Access;
use proptest::prelude::*;

use crate::driver::{for_each_case, settings};
use crate::oracle::auto::{Given, PlainChoice, access};

/// A stretch of requests that are alike: so many, of so many blocks each, in this part of the volume, and the part of them that write.
#[derive(Clone, Copy, Debug)]
struct Phase {
    requests: u64,
    blocks: u64,
    first: u64,
    space: u64,
    write_percent: u64,
    partial: bool,
    in_order: bool,
}

fn any_phase() -> impl Strategy<Value = Phase> {
    (20..1200u64, 1..5u64, 0..4u64, 8..200u64, 0..=100u64, any::<bool>(), any::<bool>()).prop_map(
        |(requests, blocks, part, space, write_percent, partial, in_order)| Phase {
            requests,
            blocks,
            first: part * 1000,
            space,
            write_percent,
            partial,
            in_order,
        },
    )
}

fn requests(phases: &[Phase], seed: u64) -> Vec<Vec<Access>> {
    let mut rng = lode_types::Rng::new(seed);
    let mut requests = Vec::new();
    for phase in phases {
        for number in 0..phase.requests {
            let at = if phase.in_order { number * phase.blocks } else { rng.below(phase.space) };
            let writes = rng.below(100) < phase.write_percent;
            let first = phase.first + at % phase.space;
            let blocks = first..first + phase.blocks;
            requests.push(blocks.map(|block| access(block, writes, phase.partial)).collect());
        }
    }
    requests
}

fn any_given() -> impl Strategy<Value = Given> {
    let weight = || prop_oneof![Just(0.0), Just(1.0), Just(7.0)];
    let write_weight = prop_oneof![Just(0.0), Just(50.0), Just(5000.0)];
    (8..64u64, prop_oneof![Just(0.0), Just(0.3), Just(5.0)], 0..20u32, weight(), write_weight, weight())
        .prop_map(|(look_accesses, set_percent, cost, latency, write, disk)| Given {
            look_accesses,
            set_percent,
            set_cost_percent: f64::from(cost),
            latency_weight: latency,
            ssd_write_weight_us: write,
            disk_weight: disk,
        })
}

/// Another scheme never saves more than all.
fn settings_of(given: &Given) -> Settings {
    let numbers = [
        ("look_accesses", given.look_accesses as f64),
        ("set_percent", given.set_percent),
        ("set_cost_percent", given.set_cost_percent),
        ("latency_weight", given.latency_weight),
        ("ssd_write_weight_us", given.ssd_write_weight_us),
        ("disk_weight", given.disk_weight),
        ("switch_percent", 100.0),
    ];
    let texts = numbers.map(|(key, number)| (key, number.to_string()));
    settings("auto", &texts.each_ref().map(|(key, text)| (*key, text.as_str())))
}

fn serve(scheme: &mut AnyScheme, requests: &[Vec<Access>]) -> Vec<Decision> {
    for request in requests {
        request.iter().for_each(|access| scheme.access(*access, &mut NullSink));
        scheme.end_request(0, &mut NullSink);
    }
    scheme.choosing().expect("it chooses").decisions().latest().cloned().collect()
}

/// The same choices at the same accesses, by the same figures.
#[test]
fn its_choices_equal_the_oracles() {
    let chosen = Cell::new(0);
    let phases = prop::collection::vec(any_phase(), 1..8);
    let quota = (2..40u32, 10..100u32).prop_map(|(dram, ssd)| Quota::new(dram, ssd));
    for_each_case(60, (any_given(), quota, phases, any::<u64>()), |(given, quota, phases, seed)| {
        let requests = requests(&phases, seed);
        let mut auto = build(&settings_of(&given), quota, quota);
        let mut plain = PlainChoice::new(given, quota);
        requests.iter().for_each(|request| plain.request(request));
        let decisions = serve(&mut auto, &requests);
        chosen.set(chosen.get() + decisions.len());
        prop_assert_eq!(decisions.len(), plain.decisions.len(), "{:?} {:?}", &decisions, &plain.decisions);
        for (one, other) in decisions.iter().zip(&plain.decisions) {
            prop_assert_eq!(
                (one.block_accesses, &one.from, &one.to),
                (other.block_accesses, &other.from, &other.to)
            );
            let figures = |one: &Decision| {
                [
                    one.from_latency_us,
                    one.to_latency_us,
                    one.from_disk_us,
                    one.to_disk_us,
                    one.from_ssd_writes,
                    one.to_ssd_writes,
                ]
                .map(Option::unwrap)
            };
            for (a, b) in figures(one).into_iter().zip(figures(other)) {
                prop_assert!((a - b).abs() <= 1e-9 * a.abs().max(1.0), "{:?} {:?}", one, other);
            }
        }
        Ok(())
    });
    assert!(chosen.get() > 60, "{} choices in all", chosen.get());
}
