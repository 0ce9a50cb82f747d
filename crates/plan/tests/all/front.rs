//! Budgets: what is offered is affordable, and nothing offered is beaten.

use lode_plan::{FrontPoint, Load, MAX_BUDGET_USD, Prices, SizeOptions, VmRule, best, front, measure, size};
use lode_reuse::Method;
use lode_types::AccessOp;

use crate::common::{BLOCK_BYTES, Request, merge, stream_options};

/// Host memory at a dollar a block, SSD at a tenth of that.
fn prices() -> Prices {
    let usd = (1_u64 << 30) as f64 / BLOCK_BYTES as f64;
    Prices { dram_usd_per_gib: usd, ssd_usd_per_gib: usd / 10.0 }
}

fn load() -> Load {
    let op = |at: usize| if (at / 2).is_multiple_of(3) { AccessOp::Write } else { AccessOp::Read };
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
                    && other.plan.total.ssd_writes <= point.plan.total.ssd_writes
                    && latency_us(other) < latency_us(point)
            };
            assert!(!points.iter().any(beats), "{budget} usd");
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
    let all = size(&load, lode_plan::LevelBytes { dram_bytes: 1 << 30, ssd_bytes: 1 << 30 }, &options);
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

#[test]
fn budgets_out_of_range_are_refused() {
    let load = load();
    for budget in [0.0, -1.0, f64::NAN, f64::INFINITY, 2.0 * MAX_BUDGET_USD] {
        assert!(front(&load, &prices(), budget, &options()).is_err(), "{budget}");
    }
}
