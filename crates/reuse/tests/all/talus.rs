//! Hulls and split caches against brute force, and against the worked example.

use lode_reuse::sizing::{Hull, Method, Objective, Solver, Split, VmDemand, divide_by};
use lode_reuse::{Curve, CurvePoint, ReuseError};
use proptest::prelude::*;

fn demand(hits_by_size: &[u64], accesses: u64) -> VmDemand {
    let mut vm = VmDemand::new(&Curve::default());
    let rises = |&size: &usize| hits_by_size[size] > hits_by_size[size - 1];
    let point = |size: usize| CurvePoint { size_blocks: size as u64, hits: hits_by_size[size] };
    vm.curve = (1..hits_by_size.len()).filter(rises).map(point).collect();
    vm.demand_blocks = vm.curve.last().map_or(0, |p| p.size_blocks);
    vm.accesses = accesses;
    vm
}

/// Hits by size of a curve with flat parts and cliffs.
fn curve() -> impl Strategy<Value = Vec<u64>> {
    let gains = prop::collection::vec(prop_oneof![3 => Just(0u64), 3 => 1u64..6, 1 => 20u64..60], 1..9);
    gains.prop_map(|gains| {
        let sums = gains.iter().scan(0, |sum, gain| {
            *sum += gain;
            Some(*sum)
        });
        std::iter::once(0).chain(sums).collect()
    })
}

/// The best mixture of any two sizes around this one.
fn best_mixture(vm: &VmDemand, size: u64, largest: u64) -> f64 {
    let mut best = vm.hits_at(size) as f64;
    for smaller in 0..=size {
        for larger in size + 1..=largest {
            let split = Split::between(smaller, larger, size);
            best = best.max(split.mix(|blocks| vm.hits_at(blocks) as f64));
        }
    }
    best
}

/// Blocks of the first and the second partition.
fn partition_blocks(split: &Split) -> (f64, f64) {
    let larger_share = 1.0 - split.smaller_share;
    (split.smaller_share * split.smaller_blocks as f64, larger_share * split.larger_blocks as f64)
}

#[test]
fn the_worked_example() {
    let vector = lode_testdata::vector("talus");
    let point = |key: &str| {
        let size = vector[key][0].as_u64().expect("a size");
        (size, vector[key][1].as_f64().expect("misses"))
    };
    let ((a, misses_a), (b, misses_b)) = (point("a"), point("b"));
    let split = Split::between(a, b, vector["s"].as_u64().expect("a size"));
    let partitions = partition_blocks(&split);
    let misses = split.mix(|size| if size == a { misses_a } else { misses_b });
    for (found, key) in
        [(split.smaller_share, "rho"), (partitions.0, "s1"), (partitions.1, "s2"), (misses, "miss")]
    {
        let expected = vector["expected"][key].as_f64().expect("a number");
        assert!((found - expected).abs() < 1e-12, "{key}: {found}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_hull_is_the_best_mixture(hits in curve()) {
        let largest = hits.len() as u64 + 1;
        let vm = demand(&hits, 1000);
        let hull = Hull::new(&vm.curve);
        for size in 0..=largest {
            let split = hull.split(size);
            let (first, second) = partition_blocks(&split);
            prop_assert!(first + second <= size as f64 + 1e-9);
            let found = hull.hits_at(size);
            prop_assert!((found - best_mixture(&vm, size, largest)).abs() < 1e-9, "{size}: {found}");
        }
    }

    #[test]
    fn no_other_division_of_split_caches_is_better(
        vms in prop::collection::vec((curve(), 0u64..3, 1u32..4), 1..4),
        capacity in 0u64..20,
        by_hits in any::<bool>(),
    ) {
        let vms: Vec<VmDemand> = vms.iter().map(|(hits, min, weight)| {
            let mut vm = demand(hits, 1000);
            (vm.min_blocks, vm.weight) = (*min, f64::from(*weight));
            vm
        }).collect();
        let objective = if by_hits { Objective::Hits } else { Objective::SumHitRatio };
        let value = |sizes: &[u64]| -> f64 {
            vms.iter().zip(sizes).map(|(vm, &size)| {
                let hits = Hull::new(&vm.curve).hits_at(size);
                vm.weight * if by_hits { hits } else { hits / vm.accesses as f64 }
            }).sum()
        };
        let mut best: Option<f64> = None;
        let mut sizes = vec![0; vms.len()];
        // Every division, counted up like a number.
        'all: loop {
            let fits = sizes.iter().sum::<u64>() <= capacity;
            if fits && vms.iter().zip(&sizes).all(|(vm, &size)| size >= vm.min_blocks) {
                best = best.into_iter().chain([value(&sizes)]).reduce(f64::max);
            }
            let mut at = 0;
            loop {
                if at == sizes.len() {
                    break 'all;
                }
                sizes[at] += 1;
                if sizes[at] <= 10 {
                    break;
                }
                sizes[at] = 0;
                at += 1;
            }
        }
        match divide_by(Solver::Talus, &vms, capacity, objective) {
            Ok(found) => {
                let best = best.expect("there is one");
                prop_assert!(found.sizes.iter().sum::<u64>() <= capacity);
                prop_assert!((value(&found.sizes) - best).abs() < 1e-9, "{:?} is not {}", found, best);
                prop_assert!(found.method == Method::Granted || (found.value - best).abs() < 1e-9);
            }
            Err(error) => {
                prop_assert!(best.is_none());
                let is_named = matches!(error, ReuseError::GuaranteesDoNotFit { .. });
                prop_assert!(is_named, "{}", error);
            }
        }
    }
}

#[test]
fn other_objectives_are_refused() {
    let vm = demand(&[0, 1, 5], 10);
    for objective in
        [Objective::MaxMin, Objective::PpcTotal { floor: 0.5 }, Objective::PpcLiteral { min_blocks: 1 }]
    {
        let error = divide_by(Solver::Talus, std::slice::from_ref(&vm), 1, objective).expect_err("not a sum");
        assert!(matches!(error, ReuseError::InvalidObjective { .. }), "{error}");
    }
}
