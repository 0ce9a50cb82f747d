//! What an SSD keeps decides how it is divided: for `auto` what DRAM does not hold, for `etica` what is written. Each scheme is
//! replayed, recommended and told of with the shares that suit it.

use lode_hardware::Host;
use lode_plan::{
    LevelBytes, Load, Means, Prices, ServeOptions, SizeOptions, SizeReport, SsdKeeps, Wish, answer, measure,
    size,
};
use lode_policy::{Quota, SchemeInfo};
use lode_replay::{Options, replay};
use lode_reuse::Method;
use lode_reuse::sizing::{Objective, Solver};
use lode_types::{BlockNo, BlockSize, Direction};
use proptest::prelude::*;

use crate::common::{BLOCK_BYTES, Request, merge, requests, stream_options, streams};
use crate::wear::{load_of, options, serve};

const LATENCY: Objective = Objective::Latency { cache_us: 120.0, backing_us: 8000.0 };

fn levels(dram_blocks: u64, ssd_blocks: u64) -> LevelBytes {
    LevelBytes {
        dram_bytes: dram_blocks * BLOCK_BYTES,
        ssd_bytes: ssd_blocks * BLOCK_BYTES,
        ..LevelBytes::default()
    }
}

fn load(requests: &[Request]) -> Load {
    measure(&mut merge(requests), &stream_options(2), Method::Exact, &mut |_| {}).expect("a load")
}

/// Read hits of an LRU cache of so many blocks that keeps whatever is accessed; `only_reads`: no block beyond a write.
fn alone(stream: &[(Direction, BlockNo)], blocks: u64, only_reads: bool) -> u64 {
    let (mut cache, mut hits): (Vec<BlockNo>, u64) = (Vec::new(), 0);
    for &(op, block) in stream {
        let at = cache.iter().position(|&held| held == block);
        let is_held = at.map(|at| cache.remove(at)).is_some();
        hits += u64::from(is_held && op == Direction::Read);
        if op == Direction::Read || !only_reads {
            cache.push(block);
        }
        if cache.len() as u64 > blocks {
            cache.remove(0);
        }
    }
    hits
}

/// Read hits of both levels by caches of each kind, as `docs/planner.md` says.
fn of_both(stream: &[(Direction, BlockNo)], dram: u64, ssd: u64) -> (u64, u64) {
    let of_dram = alone(stream, dram, true);
    let most = alone(stream, dram + ssd, true) + alone(stream, ssd, false);
    (of_dram, alone(stream, dram + ssd, false).min(most).saturating_sub(of_dram))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// What is foretold is what such caches do, and no other division of the SSD behind the same DRAM has more hits.
    #[test]
    fn the_ssd_is_divided_best_behind_the_dram(requests in requests(80, 12), dram in 0u64..14, ssd in 0u64..14) {
        let load = load(&requests).with_ssd_that_keeps(SsdKeeps::Accessed);
        let options = SizeOptions { solver: Solver::Exact, ..options(Objective::Hits) };
        let plan = size(&load, levels(dram, ssd), &options).expect("a plan");
        let streams = streams(&requests);
        let of = |at: usize, ssd: u64| {
            let share = plan.vms.get(at).map_or(0, |vm| vm.share_blocks[0]);
            streams.get(at).map_or((0, 0), |(_, stream)| of_both(stream, share, ssd))
        };
        for (at, vm) in plan.vms.iter().enumerate() {
            prop_assert_eq!((vm.outcome.dram_hits, vm.outcome.ssd_hits), of(at, vm.share_blocks[1]));
            let misses = vm.outcome.reads - vm.outcome.dram_hits - vm.outcome.ssd_hits;
            let written = if vm.share_blocks[1] > 0 { vm.outcome.writes + misses } else { 0 };
            prop_assert_eq!(vm.outcome.ssd_writes, written);
        }
        let mut best = 0;
        for first in 0..=ssd {
            for second in 0..=ssd - first {
                best = best.max(of(0, first).1 + of(1, second).1 + of(2, ssd - first - second).1);
            }
        }
        prop_assert_eq!(plan.total.ssd_hits, best);
        // DRAM is divided alike, whatever the SSD keeps.
        let other = size(&load.with_ssd_that_keeps(SsdKeeps::Written), levels(dram, ssd), &options).expect("a plan");
        prop_assert_eq!(other.total.dram_hits, plan.total.dram_hits);
    }
}

/// A VM that reads a loop, and one that writes and reads what it wrote.
fn reader_and_writer(turns: u64) -> Vec<Request> {
    let read = |at: u64| Request { vm: 0, op: Direction::Read, block: at * 7 % 200, blocks: 1 };
    let write = |at: u64| {
        let op = if at.is_multiple_of(2) { Direction::Write } else { Direction::Read };
        Request { vm: 1, op, block: at / 2 * 5 % 60, blocks: 1 }
    };
    (0..turns).flat_map(|at| [read(at), write(at)]).collect()
}

/// Blocks that are written once and read again and again, beside many that are read once: an SSD that keeps these wears.
fn hot_writes_and_cold_reads() -> Vec<Request> {
    let one = |op, block| Request { vm: 0, op, block, blocks: 1 };
    let hot = || (0..40).map(|at| at * 5);
    let wrote = hot().map(|block| one(Direction::Write, block));
    let read = hot().map(|block| one(Direction::Read, block));
    let other = (0..40).map(|at| Request { vm: 1, ..one(Direction::Read, at % 8) });
    let cold = (0..6000).map(|at| one(Direction::Read, 10_000 + at * at));
    wrote.chain(read).chain(other).chain(cold).collect()
}

struct Planned {
    requests: Vec<Request>,
    options: SizeOptions,
    host: Host,
}

impl Planned {
    fn of(requests: Vec<Request>) -> Planned {
        Planned { requests, options: options(LATENCY), host: Host::find("default").expect("a host") }
    }

    fn report(&self, means: Means, wish: Wish, is_replayed: bool) -> SizeReport {
        let load = load(&self.requests);
        let mut answer = answer(&load, means, wish, &self.options).expect("an answer");
        if is_replayed {
            let open = || Ok(merge(&self.requests));
            let serve = ServeOptions { memory_bytes: 1 << 30, ..serve(&self.host, 1) };
            assert_eq!(answer.replay(&load, &open, &serve, &|_| {}).expect("replays"), None);
        }
        let merge = merge(&self.requests);
        answer.report(&load, &self.options, &self.host, String::new(), &merge, true).expect("a report")
    }
}

fn shares(report: &SizeReport) -> Vec<[u64; 2]> {
    report.vms.iter().map(|vm| [vm.share.dram_blocks, vm.share.ssd_blocks]).collect()
}

/// What is shown, recommended and replayed is of one division, which is that of the scheme.
fn assert_consistent(planned: &Planned, report: &SizeReport) {
    let taken = report.replayed.iter().find(|one| Some(&one.label) == report.two_levels.as_ref());
    let taken = taken.expect("it was replayed");
    assert!(report.vms.iter().map(|vm| vm.share).eq(taken.shares.iter().copied()), "{report:?}");
    let keeps = if taken.scheme == "auto" { SsdKeeps::Accessed } else { SsdKeeps::Written };
    assert_eq!(report.ssd_keeps, keeps);
    if report.recommended.is_of_two_levels() {
        assert_eq!(report.recommended.label, taken.label);
        assert!(report.recommended.vms.iter().map(|vm| vm.share).eq(taken.shares.iter().copied()));
        let advice = report.advice_at.as_ref().expect("it is for a page");
        assert_eq!(advice[report.totals.dram.asked][report.totals.ssd.asked], report.advice);
    }
    for (of_totals, level) in [(&report.totals.dram, 0), (&report.totals.ssd, 1)] {
        let asked = &of_totals.shares_blocks[of_totals.asked];
        assert!(shares(report).iter().map(|share| &share[level]).eq(asked));
    }
    let outcome = &report.totals.outcomes[report.totals.dram.asked][report.totals.ssd.asked];
    assert_eq!(outcome, &report.total);
    let written = report.totals.ssd_writes[report.totals.ssd.asked] * BLOCK_BYTES;
    assert_eq!(written, report.wear.written_bytes);
    // Each was replayed with its own.
    for one in &report.replayed {
        let mut settings = SchemeInfo::find(&one.scheme).expect("a scheme").settings();
        if let Some(mode) = one.mode {
            let of_plan = [("sizing", "off"), ("assoc", "0"), ("mode", mode)];
            of_plan.iter().for_each(|(key, value)| settings.set(key, value).expect("a setting"));
        }
        let quota = |share: &lode_plan::LevelBlockCounts| {
            Quota::new(share.dram_blocks as u32, share.ssd_blocks as u32)
        };
        let quotas: Vec<Quota> = one.shares.iter().map(quota).collect();
        let sum = |blocks: fn(&Quota) -> u32| quotas.iter().map(blocks).sum();
        let options = Options {
            settings,
            physical: Quota::new(sum(|quota| quota.dram_blocks), sum(|quota| quota.ssd_blocks)),
            block_size: BlockSize::KIB_4,
            host: planned.host.clone(),
            shares: Some(quotas),
            daily_ssd_bytes: None,
        };
        let vms = report.vms.len();
        let expected =
            replay(merge(&planned.requests), &options, Some(vms), &mut |_, _| {}).expect("a report");
        assert_eq!(one.mean_latency_us, expected.total.mean_latency_us, "{}", one.label);
    }
}

#[test]
fn a_vm_that_only_reads_gets_ssd_for_auto_and_none_for_etica() {
    let planned = Planned::of(reader_and_writer(3000));
    let means = Means::Levels(levels(20, 210));
    for (wish, is_replayed, reads) in [
        (Wish::Best, false, true),
        (Wish::Auto, false, true),
        (Wish::Auto, true, true),
        (Wish::Etica, false, false),
    ] {
        let report = planned.report(means, wish.clone(), is_replayed);
        let [reader, writer] = &shares(&report)[..] else { panic!("two VMs") };
        assert_eq!(reader[1] > 0, reads, "{wish:?} {reader:?}");
        assert!(writer[1] > 0);
        assert!(!reads || reader[0] + reader[1] >= 200 && report.vms[0].outcome.ssd_hits > 0, "{reader:?}");
        assert_eq!(
            report.advice.iter().any(|text| text.contains("are of no use")),
            !reads,
            "{:?}",
            report.advice
        );
        assert_eq!(report.recommended.scheme, if reads { "auto" } else { "etica" });
        assert!(report.recommended.vms.iter().map(|vm| vm.share).eq(report.vms.iter().map(|vm| vm.share)));
    }
    let report = planned.report(means, Wish::Best, true);
    assert_consistent(&planned, &report);
    let hits = |scheme: &str| {
        report.replayed.iter().find(|one| one.scheme == scheme).and_then(|one| one.read_hit_ratio)
    };
    assert!(hits("auto") > hits("etica").map(|ratio| ratio + 0.3), "{report:?}");
}

/// A loop that neither level holds alone fits both together: DRAM that serves nothing by itself is given for that, and not to a VM
/// that has a use for none.
#[test]
fn dram_that_serves_nothing_alone_serves_before_the_ssd() {
    let read = |vm: usize, block: u64| Request { vm, op: Direction::Read, block, blocks: 1 };
    let planned = Planned::of((0..2000).flat_map(|at| [read(0, at * 7 % 200), read(1, at * at)]).collect());
    let report = planned.report(Means::Levels(levels(100, 100)), Wish::Best, true);
    assert_consistent(&planned, &report);
    assert_eq!((shares(&report), report.two_levels.as_deref()), (vec![[100, 100], [0, 0]], Some("auto")));
    assert_eq!((report.vms[0].outcome.dram_hits, report.vms[0].outcome.ssd_hits), (0, 1800));
    assert!(report.replayed[0].read_hit_ratio > Some(0.4), "{report:?}");
}

/// What is not LRU has a use for more than an LRU curve says: what is left over of a level that is there goes to those that
/// access more, as far as all of it, and only then is it of no use.
#[test]
fn what_is_left_over_is_given_until_all_that_is_accessed_fits() {
    let planned = Planned::of(reader_and_writer(3000));
    for (ssd, given, idle) in [(205, 205, false), (212, 212, false), (400, 212, true)] {
        let report = planned.report(Means::Levels(levels(0, ssd)), Wish::Auto, false);
        assert_eq!((report.ssd.given_blocks, report.ssd.demand_blocks), (given, 201));
        let is_idle =
            |text: &String| text.contains(" are of no use: all that is written, and all that is read");
        assert_eq!(report.advice.iter().any(is_idle), idle, "{:?}", report.advice);
    }
    // A budget buys none of that.
    let prices = Prices::of(&planned.host);
    let report = planned.report(Means::Budget { usd: 1.0, prices }, Wish::Auto, false);
    let front = report.front.as_ref().expect("a budget");
    assert!(front.iter().all(|point| point.levels.dram_bytes <= 201 * BLOCK_BYTES));
}

/// SSD that a budget buys to last is there, and is divided as if it had been asked for.
#[test]
fn what_is_bought_to_last_is_given() {
    let traces = [(1_000_000, reader_and_writer(3000))];
    let (load, options) = (load_of(&traces), options(LATENCY));
    // Less than DRAM for the loop costs.
    let means = Means::Budget { usd: 0.004, prices: Prices::of(&Host::find("default").expect("a host")) };
    let answer = answer(&load, means, Wish::Auto, &options).expect("an answer");
    let plan = answer.plan();
    let ssd = &plan.of_level[1];
    assert!(ssd.demand_blocks < ssd.given_blocks && ssd.given_blocks <= ssd.capacity_blocks, "{ssd:?}");
    let load = load.with_ssd_that_keeps(SsdKeeps::Accessed);
    assert_eq!(plan, &size(&load, plan.levels, &options).expect("a plan"));
}

#[test]
fn what_is_told_is_of_the_scheme_that_is_best() {
    let mut best = Vec::new();
    for (requests, dram, ssd) in [
        (reader_and_writer(2000), 30, 120),
        (hot_writes_and_cold_reads(), 8, 64),
        (reader_and_writer(2000), 0, 300),
    ] {
        let planned = Planned::of(requests);
        let report = planned.report(Means::Levels(levels(dram, ssd)), Wish::Best, true);
        assert_consistent(&planned, &report);
        best.push(report.ssd_keeps);
    }
    assert!(best.contains(&SsdKeeps::Written) && best.contains(&SsdKeeps::Accessed), "{best:?}");
}

/// A budget is spent by the curves for `auto`, and `etica` has the same levels.
#[test]
fn a_budget_buys_ssd_for_what_is_read() {
    let planned = Planned::of(reader_and_writer(2000));
    let prices = Prices::of(&planned.host);
    let usd = prices.cost_usd(levels(20, 300));
    let report = planned.report(Means::Budget { usd, prices }, Wish::Best, true);
    assert_consistent(&planned, &report);
    let by = |wish| planned.report(Means::Budget { usd, prices }, wish, false);
    let (auto, etica) = (by(Wish::Auto), by(Wish::Etica));
    assert!(auto.total.read_hit_ratio > etica.total.read_hit_ratio, "{auto:?} {etica:?}");
    assert!(auto.cost_usd <= usd && etica.cost_usd <= usd);
    // The plan is one of the pairs, with the shares that the levels have by themselves.
    let front = auto.front.as_ref().expect("a budget");
    let own = front.iter().find(|point| point.levels == auto.levels).expect("it is one of them");
    assert_eq!(own.outcome, auto.total);
    let load = load(&planned.requests).with_ssd_that_keeps(SsdKeeps::Accessed);
    let again = size(&load, auto.levels, &planned.options).expect("a plan");
    assert!(again.vms.iter().map(|vm| vm.share_blocks).eq(shares(&auto)));
}

/// Caches that are cut in two are cut by curves of levels that do not depend on each other.
#[test]
fn caches_that_are_cut_are_those_of_etica() {
    let mut planned = Planned::of(reader_and_writer(1000));
    planned.options.solver = Solver::Talus;
    let report = planned.report(Means::Levels(levels(20, 100)), Wish::Best, false);
    assert_eq!((report.recommended.scheme.as_str(), report.ssd_keeps), ("auto", SsdKeeps::Written));
    assert!(report.vms.iter().all(|vm| vm.split.is_some()));
}

/// Each block is read as soon as it is written, and later again, when DRAM has it: for `etica` the SSD would have to hold all of them.
#[test]
fn where_its_own_division_cannot_keep_what_is_guaranteed_a_scheme_has_the_other() {
    let one = |op, block: u64| Request { vm: 0, op, block: block * 3, blocks: 1 };
    let wrote = (0..60).flat_map(|block| [one(Direction::Write, block), one(Direction::Read, block)]);
    let mut planned = Planned::of(wrote.chain((0..600).map(|at| one(Direction::Read, at % 60))).collect());
    planned.options.objective = Objective::PpcTotal { floor: 1.0 };
    let means = Means::Levels(levels(64, 20));
    let load = load(&planned.requests);
    let refused = answer(&load, means, Wish::Etica, &planned.options).expect_err("20 of 60 blocks");
    assert!(refused.to_string().contains("VMs are guaranteed 240 KiB of ssd"), "{refused}");
    let report = planned.report(means, Wish::Best, true);
    assert_eq!((report.replayed.len(), report.ssd_keeps), (3, SsdKeeps::Accessed));
    assert!(report.replayed.iter().all(|other| other.shares == report.replayed[0].shares));
}
