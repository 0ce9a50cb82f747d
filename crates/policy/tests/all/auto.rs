//! What `auto` chooses against its oracle, and what the weights of its objective do.

use std::cell::Cell;

use lode_policy::{
    AccessSink, AnyScheme, Decision, Effect, Lookahead, NullSink, PrefetchHint, PrefetchedAccess, Quota,
    Scheme, Settings, Sink, build,
};
use lode_types::{Access, Direction};
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
    /// Time from one request to the next.
    gap_ns: u64,
}

fn any_phase() -> impl Strategy<Value = Phase> {
    let gap_ms = prop_oneof![Just(0), Just(1), Just(40), Just(3000)];
    let size = (20..1200u64, 1..5u64);
    (size, 0..4u64, 8..200u64, 0..=100u64, any::<bool>(), any::<bool>(), gap_ms).prop_map(
        |((requests, blocks), part, space, write_percent, partial, in_order, gap_ms)| Phase {
            requests,
            blocks,
            first: part * 1000,
            space,
            write_percent,
            partial,
            in_order,
            gap_ns: gap_ms * 1_000_000,
        },
    )
}

/// A request for blocks, and when it comes.
type Request = (u64, Vec<Access>);

fn requests(phases: &[Phase], seed: u64) -> Vec<Request> {
    let mut rng = lode_types::Rng::new(seed);
    let (mut requests, mut now_ns) = (Vec::new(), 0);
    for phase in phases {
        for number in 0..phase.requests {
            let at = if phase.in_order { number * phase.blocks } else { rng.below(phase.space) };
            let writes = rng.below(100) < phase.write_percent;
            let first = phase.first + at % phase.space;
            let blocks = first..first + phase.blocks;
            now_ns += phase.gap_ns;
            requests.push((now_ns, blocks.map(|block| access(block, writes, phase.partial)).collect()));
        }
    }
    requests
}

fn any_given() -> impl Strategy<Value = Given> {
    let weight = || prop_oneof![Just(0.0), Just(1.0), Just(7.0)];
    let write_weight = prop_oneof![Just(0.0), Just(50.0), Just(5000.0)];
    let weights = (weight(), write_weight, weight(), weight());
    let interval_s = prop_oneof![Just(0.001), Just(1.0), Just(60.0)];
    (8..64u64, prop_oneof![Just(0.0), Just(0.3), Just(5.0)], 0..20u32, weights, interval_s).prop_map(
        |(look_accesses, set_percent, cost, (latency, write, disk, peak), interval_s)| Given {
            look_accesses,
            set_percent,
            set_cost_percent: f64::from(cost),
            latency_weight: latency,
            ssd_write_weight_us: write,
            disk_weight: disk,
            disk_peak_weight: peak,
            disk_peak_interval_s: interval_s,
        },
    )
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
        ("disk_peak_weight", given.disk_peak_weight),
        ("disk_peak_interval_s", given.disk_peak_interval_s),
        ("switch_percent", 100.0),
    ];
    let texts = numbers.map(|(key, number)| (key, number.to_string()));
    settings("auto", &texts.each_ref().map(|(key, text)| (*key, text.as_str())))
}

fn serve(scheme: &mut AnyScheme, requests: &[Request]) -> Vec<Decision> {
    for (now_ns, request) in requests {
        request.iter().for_each(|access| scheme.access(*access, &mut NullSink));
        scheme.end_request(*now_ns, &mut NullSink);
    }
    decisions_of(scheme)
}

fn decisions_of(scheme: &AnyScheme) -> Vec<Decision> {
    scheme.choosing().expect("it chooses").decisions().latest().cloned().collect()
}

struct Nowhere;

impl Sink for Nowhere {
    fn effect(&mut self, _: Effect) {}
}

impl AccessSink for Nowhere {
    fn begin_access(&mut self, _: &Access) {}

    fn end_request(&mut self, _: Direction) {}
}

/// So many accesses at once, as a replay has them.
fn serve_in_batches(scheme: &mut AnyScheme, requests: &[Request], size: usize) -> Vec<Decision> {
    let mut all = Vec::new();
    for &(now_ns, ref request) in requests {
        let hint = |access: &Access| PrefetchHint::new(access.block);
        let prefetched =
            |access: &Access| PrefetchedAccess { access: *access, hint: hint(access), now_ns, last: false };
        all.extend(request.iter().map(prefetched));
        all.last_mut().expect("a block").last = true;
    }
    all.chunks(size).for_each(|batch| scheme.access_batch(batch.iter(), &mut Nowhere));
    decisions_of(scheme)
}

/// The same choices at the same accesses, by the same figures.
#[test]
fn its_choices_equal_the_oracles() {
    let chosen = Cell::new(0);
    let phases = prop::collection::vec(any_phase(), 1..8);
    let dram = prop_oneof![1 => Just(0), 9 => 2..40u32];
    let quota = (dram, 10..100u32).prop_map(|(dram, ssd)| Quota::new(dram, ssd));
    for_each_case(60, (any_given(), quota, phases, any::<u64>()), |(given, quota, phases, seed)| {
        let requests = requests(&phases, seed);
        let mut auto = build(&settings_of(&given), quota, quota);
        let mut plain = PlainChoice::new(given, quota);
        requests.iter().for_each(|(now_ns, request)| plain.request(request, *now_ns));
        let decisions = serve(&mut auto, &requests);
        chosen.set(chosen.get() + decisions.len());
        let mut batched = build(&settings_of(&given), quota, quota);
        prop_assert_eq!(&decisions, &serve_in_batches(&mut batched, &requests, 1 + seed as usize % 100));
        prop_assert_eq!(decisions.len(), plain.decisions.len(), "{:?} {:?}", &decisions, &plain.decisions);
        for (one, other) in decisions.iter().zip(&plain.decisions) {
            prop_assert_eq!(
                (one.block_accesses, &one.from, &one.to),
                (other.block_accesses, &other.from, &other.to)
            );
            prop_assert_eq!(one.from_disk_peak_cost_us.is_some(), given.disk_peak_weight > 0.0);
            let figures = |one: &Decision| {
                [
                    one.from_latency_us,
                    one.to_latency_us,
                    one.from_disk_us,
                    one.to_disk_us,
                    one.from_disk_peak_cost_us.or(Some(0.0)),
                    one.to_disk_peak_cost_us.or(Some(0.0)),
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

/// What a scheme decides of these requests, one after the other.
fn effects_of(mut scheme: AnyScheme, requests: &[Request]) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (now_ns, request) in requests {
        request.iter().for_each(|access| scheme.access(*access, &mut effects));
        scheme.end_request(*now_ns, &mut effects);
    }
    effects
}

/// Until it chooses anew it decides as benefit-density does, which chooses what leaves among four times as many blocks of large levels.
#[test]
fn who_serves_guests_looks_at_more_blocks_than_a_shadow() {
    for (blocks, space, samples, other) in [(160, 1000, "32", "128"), (1100, 8000, "128", "32")] {
        let quota = Quota::new(blocks, blocks);
        for_each_case(8, (prop::collection::vec(any_phase(), 4..8), any::<u64>()), |(mut phases, seed)| {
            phases.iter_mut().for_each(|phase| (phase.requests, phase.space) = (space, space));
            let requests = requests(&phases, seed);
            let never = [("switch_percent", "100"), ("set_percent", "100")];
            let auto = effects_of(build(&settings("auto", &never), quota, quota), &requests);
            let of = |samples| {
                effects_of(
                    build(&settings("benefit-density", &[("samples", samples)]), quota, quota),
                    &requests,
                )
            };
            prop_assert!(auto == of(samples));
            prop_assert!(auto != of(other));
            Ok(())
        });
    }
}
