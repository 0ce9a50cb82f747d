//! Divisions against brute force over every division, and against the worked examples.

use lode_reuse::sizing::{Method, Objective, Solver, VmDemand, WriteBuffer, divide, divide_by};
use lode_reuse::{Curve, CurvePoint, Distances, Metric, ReuseError};
use lode_types::Direction;
use proptest::prelude::*;
use serde_json::Value;

/// A demand from the hits at 0, 1, 2 ... blocks.
fn demand(hits_by_size: &[u64], accesses: u64) -> VmDemand {
    let mut vm = VmDemand::new(&Curve::default());
    let rises = |&size: &usize| hits_by_size[size] > hits_by_size[size - 1];
    let point = |size: usize| CurvePoint { size_blocks: size as u64, hits: hits_by_size[size] };
    vm.curve = (1..hits_by_size.len()).filter(rises).map(point).collect();
    vm.demand_blocks = vm.curve.last().map_or(0, |p| p.size_blocks);
    vm.accesses = accesses;
    vm
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().expect("a list").iter().map(|v| v.as_u64().expect("a number")).collect()
}

/// The VM's write buffer, where this objective counts it and the VM may have it.
fn buffer(vm: &VmDemand, objective: Objective) -> Option<WriteBuffer> {
    let buffer = vm.write_buffer.filter(|_| matches!(objective, Objective::Latency { .. }));
    buffer.filter(|buffer| buffer.saved_us > 0.0 && buffer.blocks <= vm.max_blocks)
}

/// The VM's sizes that the rules allow, straight from the definitions.
fn allowed(vm: &VmDemand, objective: Objective) -> Vec<u64> {
    let buffer = buffer(vm, objective).map_or(0, |buffer| buffer.blocks);
    let wanted = vm.demand_blocks.max(buffer).min(vm.max_blocks).max(vm.min_blocks);
    let floor_hits = match objective {
        Objective::PpcTotal { floor } => floor * vm.hits_at(wanted) as f64,
        _ => 0.0,
    };
    let least = match objective {
        Objective::PpcLiteral { min_blocks } => min_blocks.min(vm.max_blocks).max(vm.min_blocks),
        _ => vm.min_blocks,
    };
    (least..=wanted.max(least)).filter(|&size| vm.hits_at(size) as f64 >= floor_hits).collect()
}

fn fits(vms: &[VmDemand], capacity: u64, objective: Objective, which: impl Fn(&[u64]) -> u64) -> bool {
    vms.iter().map(|vm| which(&allowed(vm, objective))).sum::<u64>() <= capacity
}

/// The best value of all divisions, or `None` when there is none.
fn brute_force(vms: &[VmDemand], capacity: u64, objective: Objective) -> Option<f64> {
    fn search(vms: &[VmDemand], left: u64, objective: Objective, sizes: &mut Vec<u64>) -> Option<f64> {
        let Some(vm) = vms.get(sizes.len()) else { return Some(objective.value(vms, sizes)) };
        let mut best: Option<f64> = None;
        for size in allowed(vm, objective).into_iter().filter(|&size| size <= left) {
            sizes.push(size);
            let found = search(vms, left - size, objective, sizes);
            sizes.pop();
            best = best.into_iter().chain(found).reduce(f64::max);
        }
        best
    }
    search(vms, capacity, objective, &mut Vec::new())
}

fn vm() -> impl Strategy<Value = VmDemand> {
    let gains = prop::collection::vec(prop_oneof![3 => Just(0u64), 3 => 1u64..6, 1 => 20u64..60], 1..8);
    let limits = (0u64..3, prop_oneof![3 => Just(u64::MAX), 1 => 3u64..6]);
    let buffer = proptest::option::of((1u64..6, prop_oneof![Just(0.0), 10.0..5000.0]));
    let parts = (gains, 0u64..50, 1u32..4, limits, 0u64..2, buffer);
    parts.prop_map(|(gains, misses, weight, (min, max), less, buffer)| {
        let mut hits = vec![0];
        hits.extend(gains.iter().scan(0, |sum, gain| {
            *sum += gain;
            Some(*sum)
        }));
        let mut vm = demand(&hits, hits[hits.len() - 1] + misses);
        vm.demand_blocks = vm.demand_blocks.saturating_sub(less);
        vm.weight = f64::from(weight) / 2.0;
        (vm.min_blocks, vm.max_blocks) = (min, max);
        vm.write_buffer = buffer.map(|(blocks, saved_us)| WriteBuffer { blocks, saved_us });
        vm
    })
}

fn objective() -> impl Strategy<Value = Objective> {
    prop_oneof![
        Just(Objective::SumHitRatio),
        Just(Objective::Hits),
        Just(Objective::Latency { cache_us: 100.0, backing_us: 8000.0 }),
        Just(Objective::Latency { cache_us: 100.0, backing_us: 50.0 }),
        (0u32..5).prop_map(|f| Objective::PpcTotal { floor: f64::from(f) / 4.0 }),
        (1u64..4).prop_map(|min_blocks| Objective::PpcLiteral { min_blocks }),
        Just(Objective::MaxMin),
    ]
}

/// What holds for every division.
fn check_rules(vms: &[VmDemand], capacity: u64, objective: Objective, sizes: &[u64], method: Method) {
    assert_eq!(sizes.len(), vms.len());
    assert!(sizes.iter().sum::<u64>() <= capacity, "{sizes:?} exceed {capacity}");
    for (vm, &size) in vms.iter().zip(sizes) {
        let allowed = allowed(vm, objective);
        assert!(allowed.contains(&size), "{size} is not allowed: {vm:?}");
        if method != Method::Granted && size > allowed[0] {
            let buffers = buffer(vm, objective).is_some_and(|buffer| buffer.blocks == size);
            assert!(buffers || vm.hits_at(size - 1) < vm.hits_at(size), "{size} could be smaller: {vm:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn divisions_agree_with_brute_force(
        vms in prop::collection::vec(vm(), 0..5), percent in 10u64..105, objective in objective(),
    ) {
        let capacity = vms.iter().map(|vm| vm.demand_blocks.min(vm.max_blocks)).sum::<u64>() * percent / 100;
        let Some(best) = brute_force(&vms, capacity, objective) else {
            for solver in [Solver::Auto, Solver::Exact, Solver::Greedy] {
                let error = divide_by(solver, &vms, capacity, objective).expect_err("nothing is allowed");
                let is_named = matches!(error, ReuseError::GuaranteesDoNotFit { .. });
                prop_assert!(is_named, "{}", error);
            }
            return Ok(());
        };
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * (1.0 + a.abs());
        let lowest: Vec<u64> = vms.iter().map(|vm| allowed(vm, objective)[0]).collect();
        let base = objective.value(&vms, &lowest);
        for solver in [Solver::Auto, Solver::Exact, Solver::Greedy] {
            let found = divide_by(solver, &vms, capacity, objective).expect("there is a division");
            check_rules(&vms, capacity, objective, &found.sizes, found.method);
            prop_assert_eq!(found.value, objective.value(&vms, &found.sizes));
            let is_granted = fits(&vms, capacity, objective, |sizes| sizes[sizes.len() - 1]);
            prop_assert_eq!(found.method == Method::Granted, is_granted);
            match found.method {
                Method::Granted => {}
                Method::Talus => prop_assert!(false, "not asked for"),
                Method::Exact | Method::MaxMin => {
                    prop_assert!(close(found.value, best), "{} is not {}: {:?}", found.value, best, found);
                }
                Method::Greedy if matches!(objective, Objective::PpcTotal { .. }) => {}
                Method::Greedy => {
                    let (gain, possible) = (found.value - base, best - base);
                    prop_assert!(gain >= possible / 2.0 - 1e-9, "{} of {}: {:?}", gain, possible, found);
                    prop_assert!(found.value <= best + 1e-9 * (1.0 + best.abs()));
                }
            }
        }
    }

    /// Concave curves have no cliffs: there the greedy solver is optimal.
    #[test]
    fn greedy_is_exact_on_concave_curves(
        gains in prop::collection::vec(prop::collection::vec(1u64..40, 1..9), 1..6), capacity in 0u64..40,
    ) {
        let vms: Vec<VmDemand> = gains
            .into_iter()
            .map(|mut gains| {
                gains.sort_unstable_by(|a, b| b.cmp(a));
                let mut hits = vec![0];
                for gain in gains {
                    hits.push(hits[hits.len() - 1] + gain);
                }
                demand(&hits, 1000)
            })
            .collect();
        for objective in [Objective::Hits, Objective::PpcTotal { floor: 0.0 }] {
            let by = |solver| divide_by(solver, &vms, capacity, objective).expect("no guarantees").value;
            prop_assert!((by(Solver::Greedy) - by(Solver::Exact)).abs() < 1e-9);
        }
    }
}

/// What fails: one block at a time to whoever gains most by that block.
fn plain_marginal(vms: &[VmDemand], capacity: u64) -> Vec<u64> {
    let mut sizes = vec![0; vms.len()];
    for _ in 0..capacity {
        let gain = |vm: usize| vms[vm].hits_at(sizes[vm] + 1) - vms[vm].hits_at(sizes[vm]);
        let best = (0..vms.len()).rev().max_by_key(|&vm| gain(vm)).expect("there are VMs");
        sizes[best] += 1;
    }
    sizes
}

#[test]
fn both_solvers_find_the_cliff() {
    let vector = lode_testdata::vector("alloc_small");
    let curve = |name: &str| demand(&numbers(&vector["curves"][name]), 100);
    let vms = [curve("vm0"), curve("vm1"), curve("vm2")];
    let capacity = vector["capacity"].as_u64().expect("a number");
    let sizes_in =
        |value: &Value| ["vm0", "vm1", "vm2"].map(|vm| value[0][vm].as_u64().expect("a size")).to_vec();
    for (solver, method, key) in [
        (Solver::Exact, Method::Exact, "dp_max_hits"),
        (Solver::Greedy, Method::Greedy, "greedy_hull"),
        (Solver::Auto, Method::Exact, "dp_max_hits"),
    ] {
        let found = divide_by(solver, &vms, capacity, Objective::Hits).expect("it fits");
        assert_eq!(found.method, method);
        assert_eq!(found.sizes, sizes_in(&vector[key]));
        assert_eq!(Some(found.value), vector[key][1].as_f64());
        assert_eq!(Some(found.sizes.iter().sum()), vector[key][2].as_u64());
    }
    let plain = plain_marginal(&vms, capacity);
    assert_eq!(plain, sizes_in(&vector["greedy_marginal"]));
    assert_eq!(Some(Objective::Hits.value(&vms, &plain)), vector["greedy_marginal"][1].as_f64());
}

/// H(c) = 1 - exp(-c / 100), in 10^15 accesses so that counts are precise enough.
fn exponential_vm(largest: u64) -> VmDemand {
    let accesses = 10u64.pow(15);
    let hits = |size: u64| ((1.0 - (-(size as f64) / 100.0).exp()) * accesses as f64).round() as u64;
    demand(&(0..=largest).map(hits).collect::<Vec<_>>(), accesses)
}

#[test]
fn printed_equation_3_prefers_starving() {
    let vector = lode_testdata::vector("etica_eq3_ppc");
    let vms = [exponential_vm(1000), exponential_vm(1000)];
    let literal = Objective::PpcLiteral { min_blocks: 1 };
    for (objective, key, argmax) in
        [(literal, "literal_ppc", "literal_argmax"), (Objective::SumHitRatio, "sum_hit_ratio", "sum_argmax")]
    {
        let mut best = (f64::NEG_INFINITY, "");
        for (split, expected) in vector[key].as_object().expect("splits") {
            let sizes: Vec<u64> = split.split(',').map(|n| n.parse().expect("a size")).collect();
            let value = objective.value(&vms, &sizes);
            assert!((value - expected.as_f64().expect("a value")).abs() < 1e-12, "{key} {split}: {value}");
            if value > best.0 {
                best = (value, split);
            }
        }
        assert_eq!(Some(best.1), vector[argmax].as_str());
    }
    for (size, expected) in vector["single_vm_H_over_c"].as_object().expect("sizes") {
        let size = size.parse().expect("a size");
        let value = literal.value(&vms[..1], &[size]);
        assert!((value - expected.as_f64().expect("a value")).abs() < 1e-12, "{size}: {value}");
    }
    assert_eq!(divide(&vms, 100, literal).expect("it fits").sizes, [1, 1]);
    assert_eq!(divide(&vms, 100, Objective::SumHitRatio).expect("it fits").sizes, [50, 50]);
}

#[test]
fn large_problems_go_to_the_greedy_solver() {
    let mut vms = vec![exponential_vm(20_000); 8];
    for (number, vm) in vms.iter_mut().enumerate() {
        vm.min_blocks = 10 * number as u64;
    }
    let found = divide(&vms, 4_000, Objective::SumHitRatio).expect("it fits");
    assert_eq!(found.method, Method::Greedy);
    check_rules(&vms, 4_000, Objective::SumHitRatio, &found.sizes, found.method);
    assert!(found.sizes.iter().all(|&size| size == 500), "{:?}", found.sizes);
    let error = divide_by(Solver::Exact, &vms, 4_000, Objective::SumHitRatio).expect_err("too large");
    assert!(matches!(error, ReuseError::TooLargeForExact { .. }));
    let per_cost = divide(&vms, 4_000, Objective::PpcTotal { floor: 0.5 }).expect("it fits");
    assert!(per_cost.sizes.iter().all(|&size| size == 70), "{:?}", per_cost.sizes);
}

#[test]
fn a_measured_curve_is_a_demand() {
    let mut analyser = Distances::new(Metric::Urd);
    for block in [1, 2, 3, 1, 1] {
        analyser.access(Direction::Read, block).expect("few blocks");
    }
    let vm = VmDemand::new(&analyser.tally().curve());
    assert_eq!((vm.demand_blocks, vm.accesses, vm.hits_at(1), vm.hits_at(3)), (3, 5, 1, 2));
    assert_eq!(divide(std::slice::from_ref(&vm), 9, Objective::default()).expect("it fits").sizes, [3]);
    assert_eq!(divide(&[vm], 2, Objective::default()).expect("it fits").sizes, [1]);
}

#[test]
fn refuses_malformed_problems() {
    let good = demand(&[0, 3, 5], 10);
    let broken: [fn(&mut VmDemand); 6] = [
        |vm| vm.curve.reverse(),
        |vm| vm.curve[1].hits = 2,
        |vm| vm.accesses = 4,
        |vm| vm.weight = f64::NAN,
        |vm| vm.weight = 0.0,
        |vm| (vm.min_blocks, vm.max_blocks) = (3, 2),
    ];
    for break_it in broken {
        let mut vm = good.clone();
        break_it(&mut vm);
        let error = divide(&[good.clone(), vm], 10, Objective::Hits).expect_err("malformed");
        assert!(matches!(error, ReuseError::InvalidDemand { vm: 1, .. }), "{error}");
    }
    let nowhere = f64::NAN;
    for objective in [
        Objective::PpcTotal { floor: 1.5 },
        Objective::PpcTotal { floor: nowhere },
        Objective::PpcLiteral { min_blocks: 0 },
        Objective::Latency { cache_us: nowhere, backing_us: 1.0 },
        Objective::Latency { cache_us: 1.0, backing_us: -1.0 },
    ] {
        let error = divide(std::slice::from_ref(&good), 10, objective).expect_err("malformed");
        assert!(matches!(error, ReuseError::InvalidObjective { .. }), "{error}");
    }
    let mut greedy_guests = [good.clone(), good];
    for vm in &mut greedy_guests {
        (vm.min_blocks, vm.max_blocks) = (u64::MAX, u64::MAX);
    }
    let error = divide(&greedy_guests, u64::MAX, Objective::Hits).expect_err("they do not fit");
    assert_eq!(
        error,
        ReuseError::GuaranteesDoNotFit { needed_blocks: 2 * u128::from(u64::MAX), capacity_blocks: u64::MAX }
    );
}

/// A VM that only writes has a use for its buffer when latency counts, and for nothing otherwise.
#[test]
fn a_write_buffer_is_worth_what_it_saves() {
    let with = |saved_us| {
        let mut vm = demand(&[0], 100);
        vm.write_buffer = Some(WriteBuffer { blocks: 16, saved_us });
        vm
    };
    let latency = Objective::Latency { cache_us: 100.0, backing_us: 8000.0 };
    let sizes = |vms: &[VmDemand], capacity, objective, solver| {
        divide_by(solver, vms, capacity, objective).expect("a division").sizes
    };
    let vms = [with(50.0), with(70.0), with(0.0)];
    for solver in [Solver::Exact, Solver::Greedy, Solver::Talus] {
        assert_eq!(sizes(&vms, 100, latency, solver), [16, 16, 0], "{solver:?}");
        assert_eq!(sizes(&vms, 31, latency, solver)[1], 16, "{solver:?}: the larger saving comes first");
        assert_eq!(sizes(&vms, 100, Objective::Hits, solver), [0, 0, 0], "{solver:?}");
    }
    let mut reader = demand(&[0, 60], 100);
    reader.weight = 0.5;
    assert_eq!(sizes(&[with(5000.0), reader.clone()], 16, latency, Solver::Exact), [16, 0]);
    assert_eq!(sizes(&[with(1000.0), reader], 16, latency, Solver::Exact), [0, 1]);
    let refused = divide(&[with(f64::NAN)], 100, latency).expect_err("no number");
    assert!(matches!(refused, ReuseError::InvalidDemand { vm: 0, .. }), "{refused}");
}
