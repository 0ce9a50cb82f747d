//! Budgets of SSD writes: what a scheme holds to, and how a host divides one.

use lode_policy::host::{BudgetDivision, Writer, divide_writes};
use lode_policy::{Counters, NullSink, Quota, Scheme, Settings, Sink, WriteBudget, all_schemes, build};
use lode_types::{Access, BlockSize, Direction, Origin};
use proptest::prelude::*;

use crate::driver::settings;

const NS_PER_S: u64 = 1_000_000_000;
const S_PER_DAY: u64 = 86_400;

/// Schemes that hold to budgets.
fn holders() -> impl Iterator<Item = &'static str> {
    all_schemes().iter().filter(|info| info.holds_to_budgets()).map(|info| info.name)
}

struct Counted<'a>(&'a mut Counters);

impl Sink for Counted<'_> {
    fn effect(&mut self, effect: lode_policy::Effect) {
        self.0.effect(&effect);
    }
}

/// Requests of four hours, more of them by day than by night: when, and the first of eight blocks that each reads or writes.
fn requests() -> Vec<(u64, u64, Direction)> {
    let mut rng = lode_types::Rng::new(7);
    let mut requests = Vec::new();
    for s in 0..4 * 3600u64 {
        let rate = if s / 1800 % 2 == 0 { 6 } else { 1 };
        for _ in 0..rate {
            let near = rng.below(3) > 0;
            let first = 8 * rng.below(if near { 300 } else { 20_000 });
            let op = if rng.below(2) == 0 { Direction::Read } else { Direction::Write };
            requests.push((s * NS_PER_S + rng.below(NS_PER_S), first, op));
        }
    }
    requests.sort_unstable_by_key(|request| (request.0, request.1));
    requests
}

/// Blocks written to the SSD by each request, and how many a scheme says that it wanted.
fn written(settings: &Settings, host: WriteBudget, requests: &[(u64, u64, Direction)]) -> (Vec<u64>, u64) {
    let quota = Quota::new(400, 1600);
    let mut scheme = build(settings, quota, quota);
    scheme.budgeting().expect("it holds to budgets").set_host_budget(host);
    let mut counters = Counters::default();
    let mut written = Vec::new();
    for &(now_ns, first, op) in requests {
        let before = counters.ssd_writes.total();
        for block in first..first + 8 {
            let access = Access { block, op, partial: false, origin: Origin::UNKNOWN };
            scheme.access(access, &mut Counted(&mut counters));
        }
        scheme.end_request(now_ns, &mut Counted(&mut counters));
        written.push(counters.ssd_writes.total() - before);
    }
    (written, scheme.budgeting().expect("it holds to budgets").wanted_blocks())
}

/// Most blocks in any tenth of the time.
fn most_in_a_tenth(requests: &[(u64, u64, Direction)], written: &[u64]) -> u64 {
    let window_ns = (requests[requests.len() - 1].0 - requests[0].0) / 10;
    let (mut first, mut inside, mut most) = (0, 0, 0);
    for (at, &blocks) in written.iter().enumerate() {
        inside += blocks;
        while requests[at].0 - requests[first].0 > window_ns {
            inside -= written[first];
            first += 1;
        }
        most = most.max(inside);
    }
    most
}

/// A day's worth of so many blocks in the four hours.
fn of_four_hours(blocks: u64) -> u64 {
    blocks * S_PER_DAY / (4 * 3600)
}

#[test]
fn a_daily_budget_is_held_in_every_tenth() {
    let requests = requests();
    for scheme in holders() {
        let (free, wanted) = written(&settings(scheme, &[]), WriteBudget::Any, &requests);
        let free: u64 = free.iter().sum();
        assert!(wanted >= free, "{wanted} wanted, {free} written");
        for part in [2, 4] {
            let allowed = free / part;
            let daily = of_four_hours(allowed) * BlockSize::KIB_4.bytes();
            let own = settings(scheme, &[("write_budget", &format!("{daily}/day"))]);
            let of_host = WriteBudget::PerDay(of_four_hours(allowed) as f64);
            for (settings, host) in [(&own, WriteBudget::Any), (&settings(scheme, &[]), of_host)] {
                let (written, wanted) = written(settings, host, &requests);
                let (most, sum) = (most_in_a_tenth(&requests, &written), written.iter().sum::<u64>());
                assert!(most * 1000 <= allowed * 102, "{scheme}: {most} of {} in a tenth", allowed / 10);
                // Half of the time hardly anything is asked for.
                assert!(sum * 100 >= allowed * 55, "{scheme}: {sum} of {allowed} used");
                assert!(wanted > sum, "{scheme}: {wanted} wanted, {sum} written");
            }
        }
    }
}

/// The same for a host's budget that comes and goes, whatever decides by then.
#[test]
fn budgets_come_and_go() {
    let requests = requests();
    let quota = Quota::new(400, 1600);
    for scheme in holders() {
        let eager = [("look_accesses", "50"), ("switch_cost_percent", "1"), ("switch_percent", "0")];
        let given: &[(&str, &str)] = if scheme == "auto" { &eager } else { &[] };
        let mut scheme = build(&settings(scheme, given), quota, quota);
        let mut counters = Counters::default();
        let budgets = [WriteBudget::Any, WriteBudget::PerDay(of_four_hours(2000) as f64), WriteBudget::Any];
        let mut writes = Vec::new();
        for (budget, part) in budgets.into_iter().zip(requests.chunks(requests.len().div_ceil(3))) {
            let before = counters.ssd_writes.total();
            scheme.budgeting().expect("it holds to budgets").set_host_budget(budget);
            for &(now_ns, first, op) in part {
                for block in first..first + 8 {
                    let access = Access { block, op, partial: false, origin: Origin::UNKNOWN };
                    scheme.access(access, &mut Counted(&mut counters));
                }
                scheme.end_request(now_ns, &mut Counted(&mut counters));
            }
            writes.push(counters.ssd_writes.total() - before);
        }
        assert!(writes[1] < 1000 && writes[0] > 2 * writes[1] && writes[2] > 2 * writes[1], "{writes:?}");
        scheme.resize(Quota::default(), &mut NullSink);
    }
}

#[test]
fn blocks_of_another_size_are_fewer() {
    let settings = settings("benefit-density", &[("write_budget", "64MiB/day")]);
    assert_eq!(settings.budget("write_budget"), WriteBudget::PerDay(16384.0));
    let large = settings.clone().for_blocks(BlockSize::new(64 << 10).expect("a size of blocks"));
    assert_eq!(large.budget("write_budget"), WriteBudget::PerDay(1024.0));
    assert_eq!(settings.for_sample(0.25).budget("write_budget"), WriteBudget::PerDay(4096.0));
}

fn writer(weight: f64, wanted: Option<f64>) -> Writer {
    Writer { weight, holds: true, wanted, written: 0.0 }
}

fn parts(division: &BudgetDivision) -> Vec<f64> {
    let part =
        |budget: &WriteBudget| if let WriteBudget::PerDay(blocks) = budget { *blocks } else { f64::NAN };
    division.budgets.iter().map(part).collect()
}

#[test]
fn what_one_does_not_want_the_others_have() {
    let equal = divide_writes(900.0, &[writer(1.0, None), writer(1.0, None), writer(1.0, None)]);
    assert_eq!(parts(&equal), [300.0, 300.0, 300.0]);
    let by_weight = divide_writes(900.0, &[writer(2.0, None), writer(1.0, None)]);
    assert_eq!(parts(&by_weight), [600.0, 300.0]);
    let one_idles = divide_writes(900.0, &[writer(1.0, Some(80.0)), writer(1.0, Some(1000.0))]);
    assert_eq!(parts(&one_idles), [100.0, 800.0]);
    // What nobody wants is there for all.
    let spare = divide_writes(900.0, &[writer(1.0, Some(80.0)), writer(1.0, Some(160.0))]);
    assert_eq!(parts(&spare), [400.0, 500.0]);
    let free = Writer { weight: 1.0, holds: false, wanted: None, written: 700.0 };
    let beside = divide_writes(900.0, &[free, writer(1.0, None)]);
    assert_eq!((beside.budgets[0], beside.budgets[1]), (WriteBudget::Any, WriteBudget::PerDay(200.0)));
    assert_eq!(
        (beside.least, divide_writes(500.0, &[free, writer(1.0, None)]).budgets[1]),
        (700.0, WriteBudget::PerDay(0.0))
    );
}

proptest! {
    #[test]
    fn a_division_is_fair_and_of_all_there_is(
        blocks in 0.0..1e6,
        writers in prop::collection::vec((0.01..100.0f64, prop::option::of(0.0..1e6f64), any::<bool>(), 0.0..1e5f64), 1..20),
    ) {
        let writers: Vec<Writer> = writers
            .into_iter()
            .map(|(weight, wanted, holds, written)| Writer { weight, wanted, holds, written })
            .collect();
        let division = divide_writes(blocks, &writers);
        let least: f64 = writers.iter().filter(|one| !one.holds).map(|one| one.written).sum();
        prop_assert!((division.least - least).abs() < 1e-6);
        let holding: Vec<(&Writer, f64)> = writers
            .iter()
            .zip(parts(&division))
            .filter(|(one, _)| one.holds)
            .collect();
        if holding.is_empty() {
            return Ok(());
        }
        let rest = (blocks - least).max(0.0);
        let sum: f64 = holding.iter().map(|(_, part)| part).sum();
        prop_assert!((sum - rest).abs() <= 1e-6 * rest.max(1.0), "{} of {}", sum, rest);
        // Whoever has less than it wants has, for its weight, no less than anybody else who has no more than it wants.
        let wants = |one: &Writer| one.wanted.map_or(f64::INFINITY, |wanted| wanted * 1.25);
        for (one, part) in &holding {
            for (other, other_part) in &holding {
                if *part < wants(one) * (1.0 - 1e-9) && *other_part <= wants(other) {
                    prop_assert!(part / one.weight >= other_part / other.weight * (1.0 - 1e-6));
                }
            }
        }
    }
}
