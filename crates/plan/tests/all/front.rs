//! Budgets: what is offered is affordable, and nothing offered is beaten.

use lode_hardware::SsdRating;
use lode_plan::{
    FrontPoint, LevelBytes, Load, MAX_BUDGET_USD, Prices, SizeOptions, VmLoad, VmRule, best, front, measure,
    size,
};
use lode_reuse::sizing::{Objective, Solver};
use lode_reuse::{Curve, Method};
use lode_types::{Direction, Level};

use crate::common::{BLOCK_BYTES, Request, merge, stream_options};

/// Host memory at a dollar a block, SSD at a tenth of that. The load writes a third of its blocks, one in 300 ns or 2.9e11 a
/// day, so that an SSD of about a thousand blocks lasts as long as it is rated for.
fn prices() -> Prices {
    let usd = (1_u64 << 30) as f64 / BLOCK_BYTES as f64;
    let ssd_rating = SsdRating { drive_writes_per_day: 2.88e8, years: 5.0 };
    Prices { dram_usd_per_gib: usd, ssd_usd_per_gib: usd / 10.0, ssd_rating, drive: None }
}

fn load() -> Load {
    let op = |at: usize| if (at / 2).is_multiple_of(3) { Direction::Write } else { Direction::Read };
    let block = |at: usize| (at * at % 97 + at % 13 * 5) as u64;
    let requests: Vec<_> =
        (0..4000).map(|at| Request { vm: at % 2, op: op(at), block: block(at), blocks: 1 }).collect();
    measure(&mut merge(&requests), &stream_options(1), Method::Exact, &mut |_| {}).expect("a load")
}

fn options() -> SizeOptions {
    SizeOptions {
        objective: Default::default(),
        solver: Default::default(),
        rules: Vec::new(),
        times: Default::default(),
        granule_bytes: 1,
    }
}

fn latency_us(point: &FrontPoint) -> f64 {
    point.plan.total.mean_latency_us().expect("accesses")
}

#[test]
fn nothing_on_the_front_is_beaten_or_too_dear() {
    let (load, options) = (load(), options());
    let mut fastest = f64::INFINITY;
    for budget in [0.05, 1.0, 3.0, 10.0, 40.0, 1e3, 1e9] {
        let points = front(&load, &prices(), budget, &options).expect("a front");
        assert!(points.windows(2).all(|pair| pair[0].cost_usd <= pair[1].cost_usd));
        for point in &points {
            assert!(point.cost_usd <= budget);
            assert!((prices().cost_usd(point.plan.levels) - point.cost_usd).abs() < 1e-9);
            let beats = |other: &FrontPoint| {
                other.cost_usd <= point.cost_usd
                    && other.ssd_wear <= point.ssd_wear
                    && latency_us(other) < latency_us(point)
            };
            assert!(!points.iter().any(beats), "{budget} usd");
            let bytes_per_day = point.plan.total.ssd_writes_per_s * BLOCK_BYTES as f64 * 86_400.0;
            let wear = bytes_per_day / 2.88e8 / (point.plan.levels.ssd_bytes as f64).max(1.0);
            assert!((point.ssd_wear - if wear > 0.0 { wear.clamp(1.0, 10.0) } else { 0.0 }).abs() < 1e-9);
            // What is bought is what the plan divides.
            let again = size(&load, point.plan.levels, &options).expect("a plan");
            assert_eq!(again.total, point.plan.total);
        }
        let best = best(&points).expect("at least nothing for nothing");
        assert!(points.iter().all(|point| latency_us(best) <= 1.01 * latency_us(point)));
        assert!(latency_us(best) <= 1.01 * fastest, "more money made it slower");
        fastest = fastest.min(latency_us(best));
    }
    // With more than enough money, everything that can hit does.
    let all = size(
        &load,
        LevelBytes { dram_bytes: 1 << 30, ssd_bytes: 1 << 30, ..LevelBytes::default() },
        &options,
    );
    assert!(fastest <= 1.01 * all.expect("a plan").total.mean_latency_us().expect("accesses"));
}

#[test]
fn guarantees_narrow_the_choice() {
    let load = load();
    let rule = VmRule {
        name: "host_*".to_owned(),
        weight: None,
        dram_bytes: (None, None),
        ssd_bytes: (Some(5 * BLOCK_BYTES), None),
    };
    let options = SizeOptions { rules: vec![rule], ..options() };
    let points = front(&load, &prices(), 20.0, &options).expect("a front");
    assert!(!points.is_empty());
    assert!(points.iter().all(|point| point.plan.vms.iter().all(|vm| vm.share_blocks[1] >= 5)));
    assert!(front(&load, &prices(), 0.5, &options).expect("a front").is_empty());
}

/// More SSD than VMs can use lasts longer.
#[test]
fn an_ssd_is_bought_that_lasts() {
    let load = load();
    let rule =
        VmRule { name: "*".to_owned(), weight: None, dram_bytes: (None, Some(0)), ssd_bytes: (None, None) };
    let options = SizeOptions { rules: vec![rule], ..options() };
    let bought = |budget: f64| {
        let points = front(&load, &prices(), budget, &options).expect("a front");
        best(&points).expect("a plan").clone()
    };
    let (rich, poor) = (bought(1e6), bought(60.0));
    let given = |point: &FrontPoint| point.plan.of_level[1].given_blocks;
    // The same for the VMs, for five years and no longer.
    assert_eq!((rich.ssd_wear, given(&rich)), (1.0, given(&poor)));
    let blocks = rich.plan.levels.ssd_bytes / BLOCK_BYTES;
    assert!((950..1050).contains(&blocks) && blocks > 3 * given(&rich), "{blocks}");
    // What the money is enough for, when that is not enough.
    assert!(poor.ssd_wear > 1.0 && poor.plan.levels.ssd_bytes > 590 * BLOCK_BYTES);
    let points = front(&load, &prices(), 60.0, &options).expect("a front");
    let fast = points.iter().filter(|point| latency_us(point) <= 1.01 * latency_us(&poor));
    assert!(fast.clone().all(|point| point.ssd_wear >= poor.ssd_wear));
    assert!(fast.count() > 1, "cheaper ones that last less long are on the front, too");
}

/// VMs that a small level gives nothing are no reason to buy none: a pair that fits the money is not much faster than what is
/// taken, and all that can be used is tried where it is affordable.
#[test]
fn many_vms_are_no_reason_to_buy_nothing() {
    // Each VM reads a block of its own twice, the first ones far more often.
    let request = |vm: usize| Request { vm, op: Direction::Read, block: 0, blocks: 1 };
    let requests: Vec<_> = (0..100_usize)
        .flat_map(|vm| std::iter::repeat_n(request(vm), if vm < 4 { 500 } else { 1 + vm % 2 }))
        .collect();
    let load =
        measure(&mut merge(&requests), &stream_options(1), Method::Exact, &mut |_| {}).expect("a load");
    let options = SizeOptions { granule_bytes: 8 * BLOCK_BYTES, objective: Objective::Hits, ..options() };
    for (budget, dram_blocks) in [(33.0, 32), (100.0, 96), (416.0, 416), (1e4, 416)] {
        let points = front(&load, &prices(), budget, &options).expect("a front");
        let taken = best(&points).expect("a plan");
        let levels = LevelBytes { dram_bytes: dram_blocks * BLOCK_BYTES, ..LevelBytes::default() };
        let other = size(&load, levels, &options).expect("a plan");
        assert!(prices().cost_usd(levels) <= budget && other.total.dram_hits > 0);
        assert!(latency_us(taken) <= 1.01 * other.total.mean_latency_us().expect("accesses"), "{budget} usd");
    }
}

/// A configuration cannot hold a share below a granule.
#[test]
fn no_share_is_too_small_to_be_served() {
    let load = load();
    let options = SizeOptions { granule_bytes: 8 * BLOCK_BYTES, ..options() };
    let points = front(&load, &prices(), 1e4, &options).expect("a front");
    assert!(points.len() > 2);
    for point in points {
        let LevelBytes { dram_bytes, ssd_bytes, .. } = point.plan.levels;
        for bytes in [dram_bytes, ssd_bytes] {
            assert!(bytes == 0 || bytes >= 8 * BLOCK_BYTES, "{bytes}");
        }
        let shares = point.plan.vms.iter().flat_map(|vm| vm.share_blocks);
        assert!(shares.into_iter().all(|blocks| blocks.is_multiple_of(8)));
    }
}

/// Nothing is listed that nobody would buy beside the rest: a level is none, or a 16th of the largest that is of use or affordable.
#[test]
fn no_level_is_a_trifle() {
    let (load, options) = (load(), options());
    let demand = |curve: fn(&VmLoad) -> &Curve| load.vms.iter().map(|vm| curve(vm).blocks_needed()).sum();
    let demands: [u64; 2] = [demand(|vm| vm.profile.ro_curve()), demand(|vm| vm.profile.wbwo_curve())];
    assert!(demands.iter().all(|&blocks| blocks > 100), "{demands:?}");
    for budget in [7.0, 40.0, 1e6] {
        let points = front(&load, &prices(), budget, &options).expect("a front");
        for (demand, block_usd, level) in [(demands[0], 1.0, Level::Dram), (demands[1], 0.1, Level::Ssd)] {
            let blocks = points.iter().map(|point| point.plan.levels.of(level) / BLOCK_BYTES);
            let least = blocks.filter(|&blocks| blocks > 0).min().unwrap_or(u64::MAX);
            let most = (demand as f64).min(budget / block_usd);
            assert!(least as f64 > most / 16.0 - 2.0, "{least} of {most}");
        }
    }
}

/// As with levels of given sizes.
#[test]
fn rules_for_nobody_are_refused() {
    let load = load();
    let (dram_bytes, ssd_bytes) = ((None, None), (None, None));
    let rule = VmRule { name: "nope".to_owned(), weight: Some(2.0), dram_bytes, ssd_bytes };
    let options = SizeOptions { rules: vec![rule], ..options() };
    let levels = LevelBytes { dram_bytes: 1 << 20, ..LevelBytes::default() };
    for error in [front(&load, &prices(), 500.0, &options).err(), size(&load, levels, &options).err()] {
        assert!(error.is_some_and(|error| error.to_string().contains("is called nope")));
    }
}

/// What a solver cannot do is no reason to buy something else.
#[test]
fn sizes_too_large_for_a_solver_are_an_error() {
    // Every size up to 3,000 blocks has a hit of its own.
    let blocks = (0..3000).chain((0..3000).rev());
    let requests: Vec<_> = blocks
        .flat_map(|block| (0..2).map(move |vm| Request { vm, op: Direction::Read, block, blocks: 1 }))
        .collect();
    let load =
        measure(&mut merge(&requests), &stream_options(1), Method::Exact, &mut |_| {}).expect("a load");
    let front = |solver: Solver| front(&load, &prices(), 1e4, &SizeOptions { solver, ..options() });
    assert!(front(Solver::Exact).is_err_and(|error| error.to_string().contains("exact solver")));
    assert!(front(Solver::Auto).is_ok_and(|points| points.len() > 1));
}

#[test]
fn budgets_out_of_range_are_refused() {
    let load = load();
    for budget in [0.0, -1.0, f64::NAN, f64::INFINITY, 2.0 * MAX_BUDGET_USD] {
        assert!(front(&load, &prices(), budget, &options()).is_err(), "{budget}");
    }
}
