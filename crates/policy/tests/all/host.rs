//! The shares of a host whose VMs come and go, over made-up demands.

use lode_policy::host::{Division, HostOptions, HostSizer, MOST_POINTS, Reason, VmRule, thinned};
use lode_policy::{LevelDemand, OfSized, Quota};
use lode_reuse::CurvePoint;
use lode_reuse::sizing::{Objective, VmDemand, divide};
use lode_types::Level;
use proptest::prelude::*;

const ALL: Quota = Quota { dram_blocks: u32::MAX, ssd_blocks: u32::MAX, read_ssd_blocks: u32::MAX };

fn rule(name: &str) -> VmRule {
    let name = name.to_owned();
    VmRule { name, weight: 1.0, least: Quota::default(), most: ALL, reach: ALL, named: OfSized::default() }
}

fn rules(count: usize) -> Vec<VmRule> {
    (0..count).map(|vm| rule(&format!("vm{vm}"))).collect()
}

/// A straight curve up to `blocks`, over a hundred accesses of which so many per cent could hit.
fn demand(blocks: u32, percent: u64) -> LevelDemand {
    const STEPS: u32 = 20;
    let point = |step: u32| CurvePoint {
        size_blocks: u64::from(blocks) * u64::from(step) / u64::from(STEPS),
        hits: 10 * percent * u64::from(step) / u64::from(STEPS),
    };
    let curve = if blocks < STEPS { Vec::new() } else { (1..=STEPS).map(point).collect() };
    LevelDemand { blocks, curve, accesses: 1000, ..LevelDemand::default() }
}

fn dram(blocks: u32, percent: u64) -> Option<[LevelDemand; 2]> {
    Some([demand(blocks, percent), LevelDemand::default()])
}

/// Carries out all steps; what VMs hold is what they may.
fn settle(host: &mut HostSizer) {
    for _ in 0..10_000 {
        if !host.is_moving() {
            return;
        }
        host.shrink(u32::MAX);
        let held: Vec<Quota> = host.shares().collect();
        host.grow(&held, |_, _| true);
    }
    panic!("it never settles");
}

fn drams(host: &HostSizer) -> Vec<u32> {
    host.shares().map(|share| share.dram_blocks).collect()
}

fn host(dram_blocks: u32, rules: Vec<VmRule>) -> HostSizer {
    let mut host = HostSizer::new(Quota::new(dram_blocks, 0), HostOptions::default());
    host.set_vms(rules);
    host
}

/// ETICA 5.5 and Figs 15, 16: 50,000 blocks; one VM, then four, sixteen and thirty-two come, and in the end most want little.
#[test]
fn vms_come_and_go_as_in_etica_5_5() {
    const BLOCKS: u32 = 50_000;
    let mut host = host(BLOCKS, rules(1));
    assert_eq!(drams(&host), [BLOCKS], "all of it, as long as it is alone");
    host.divide(vec![dram(9_000, 96)]);
    settle(&mut host);
    assert_eq!(drams(&host), [BLOCKS], "nobody else asks for it");
    // Four: what they ask for fits, so each has it.
    host.set_vms(rules(4));
    assert_eq!(drams(&host)[1..], [0, 0, 0], "nothing is free when they come");
    host.divide(vec![dram(9_000, 77), dram(12_000, 44), dram(8_000, 29), dram(5_000, 37)]);
    settle(&mut host);
    assert!(drams(&host).iter().zip([9_000, 12_000, 8_000, 5_000]).all(|(&has, wants)| has >= wants));
    assert_eq!(drams(&host).iter().sum::<u32>(), BLOCKS);
    // Sixteen, then thirty-two, which ask for more than there is: VM 0 has less than it asks for.
    for vms in [16, 32] {
        host.set_vms(rules(vms));
        host.divide((0..vms).map(|vm| dram(9_000, 40 + vm as u64)).collect());
        settle(&mut host);
        // But for what rounding leaves.
        assert!(drams(&host).iter().sum::<u32>() > BLOCKS - vms as u32, "all is in use with {vms} VMs");
        assert!(drams(&host)[0] < 9_000, "{:?}", drams(&host));
    }
    // The others want little: it grows again.
    let demands = (0..32).map(|vm| if vm == 0 { dram(9_000, 64) } else { dram(1_000, 64) });
    host.divide(demands.collect());
    settle(&mut host);
    assert!(drams(&host)[0] >= 9_000 && drams(&host)[1..].iter().all(|&has| has >= 1_000));
    // They go: what they had is free, and the one that stays is given it when it asks.
    host.set_vms(rules(1));
    host.divide(vec![dram(30_000, 64)]);
    settle(&mut host);
    assert!(drams(&host)[0] >= 30_000);
}

#[test]
fn what_does_not_fit_is_divided_as_a_plan_divides_it() {
    let mut host = host(1_000, rules(3));
    let demands = [(900, 80), (400, 20), (600, 70)];
    host.divide(demands.iter().map(|&(blocks, percent)| dram(blocks, percent)).collect());
    settle(&mut host);
    let of_vm = |&(blocks, percent): &(u32, u64)| {
        let LevelDemand { curve, accesses, .. } = demand(blocks, percent);
        VmDemand {
            curve,
            accesses,
            demand_blocks: blocks.into(),
            weight: 1.0,
            min_blocks: 0,
            max_blocks: u64::MAX,
            write_buffer: None,
        }
    };
    let demands: Vec<VmDemand> = demands.iter().map(of_vm).collect();
    let plan = divide(&demands, 1_000, Objective::SumHitRatio).unwrap();
    let shares: Vec<u64> = drams(&host).into_iter().map(u64::from).collect();
    let spare = 1_000 - plan.sizes.iter().sum::<u64>();
    assert!(shares.iter().zip(&plan.sizes).all(|(share, plan)| share >= plan), "{shares:?} {plan:?}");
    assert_eq!(shares.iter().sum::<u64>(), plan.sizes.iter().sum::<u64>() + spare);
}

#[test]
fn a_little_more_is_not_worth_it() {
    let mut host = host(1_000, rules(2));
    let first = host.divide(vec![dram(1_000, 60), dram(1_000, 50)]);
    assert_eq!(first[0].reason, Reason::Rules, "newcomers are always divided for");
    settle(&mut host);
    let before = drams(&host);
    assert_eq!(before, [1_000, 0]);
    assert_eq!(host.divide(vec![dram(1_000, 600 / 10), dram(1_000, 60)]), [], "no better than before");
    // Half of a per cent better is not enough, ten per cent are.
    let options = HostOptions { least_gain: 0.2, ..HostOptions::default() };
    let mut patient = HostSizer::new(Quota::new(1_000, 0), options);
    patient.set_vms(rules(2));
    patient.divide(vec![dram(1_000, 60), dram(1_000, 50)]);
    assert_eq!(patient.divide(vec![dram(1_000, 50), dram(1_000, 60)]), []);
    let divided = patient.divide(vec![dram(1_000, 50), dram(1_000, 61)]);
    let [Division { level: Level::Dram, reason: Reason::Gain { before, after }, changes, .. }] = &divided[..]
    else {
        panic!("{divided:?}")
    };
    assert_eq!((*before, *after), (0.5, 0.61));
    let told: Vec<_> =
        changes.iter().map(|change| (change.vm, change.from, change.to, change.hits)).collect();
    assert_eq!(told, [(0, 1_000, 0, Some((500, 0))), (1, 0, 1_000, Some((0, 610)))]);
}

#[test]
fn minimum_maximum_and_weight_are_kept() {
    let limited = |weight, least, most| VmRule {
        weight,
        least: Quota::new(least, 0),
        most: Quota::new(most, 0),
        ..rule(&format!("{weight} {least} {most}"))
    };
    // Without weights the first would have all.
    let mut host = host(1_000, vec![limited(1.0, 0, 1_000), limited(3.0, 0, 300), limited(1.0, 100, 1_000)]);
    host.divide(vec![dram(1_000, 60), dram(1_000, 30), dram(0, 0)]);
    settle(&mut host);
    let shares = drams(&host);
    assert!(shares[1] == 300 && shares[2] >= 100 && shares[0] <= 600, "{shares:?}");
    // A higher minimum holds at once, whatever it is worth.
    let mut rules: Vec<VmRule> = (0..3).map(|vm| host.rule(vm).unwrap().clone()).collect();
    rules[2].least = Quota::new(500, 0);
    host.set_vms(rules);
    let divided = host.divide_again();
    assert_eq!(divided[0].reason, Reason::Rules);
    settle(&mut host);
    let shares = drams(&host);
    assert!(shares[1] == 300 && shares[2] == 500 && shares[0] == 200, "{shares:?}");
    assert_eq!(host.divide_again(), [], "nothing has changed since");
}

#[test]
fn who_measures_nothing_has_its_name_or_its_weight() {
    let mut host = host(1_000, {
        let mut rules = rules(3);
        (rules[0].named, rules[1].weight) = (OfSized::new([Some(100), None]), 2.0);
        rules
    });
    host.divide(vec![None, None, dram(1_000, 10)]);
    settle(&mut host);
    assert_eq!(drams(&host), [100, 600, 300]);
    assert_eq!((host.view(0, Level::Dram).demand, host.view(2, Level::Dram).demand), (None, Some(1_000)));
}

#[test]
fn what_cannot_be_reached_is_wanted() {
    let mut host = host(1_000, {
        let mut rules = rules(2);
        rules.iter_mut().for_each(|rule| rule.reach = Quota::new(500, 0));
        rules
    });
    host.divide(vec![dram(800, 90), dram(100, 5)]);
    settle(&mut host);
    let view = host.view(0, Level::Dram);
    assert_eq!((view.share, view.target, view.wanted), (500, 500, 800));
    assert_eq!((host.expected_hits(0, Level::Dram, 500), view.accesses), (Some(540), 1000));
    assert_eq!(drams(&host), [500, 500], "what the other cannot take is left where it is");
    // An interval without requests asks for nothing, and takes nothing away.
    host.divide(vec![dram(0, 0), dram(0, 0)]);
    assert_eq!([0, 1].map(|vm| host.view(vm, Level::Dram).wanted), [800, 200]);
}

#[test]
fn a_step_grows_only_into_what_was_given_back() {
    let mut host = host(1_000, rules(2));
    host.divide(vec![dram(200, 10), dram(800, 90)]);
    assert_eq!(drams(&host), [500, 500]);
    assert_eq!(host.shrink(100), [(0, Quota::new(400, 0))]);
    // It still holds all of it.
    assert_eq!(host.grow(&[Quota::new(500, 0), Quota::new(500, 0)], |_, _| true), []);
    assert_eq!(host.grow(&[Quota::new(430, 0), Quota::new(500, 0)], |_, _| true), [(1, Quota::new(570, 0))]);
    assert_eq!(host.shrink(100), [(0, Quota::new(300, 0))]);
    assert_eq!(host.grow(&[Quota::new(300, 0), Quota::new(570, 0)], |_, _| true), [(1, Quota::new(700, 0))]);
    assert!(host.is_moving());
    settle(&mut host);
    assert_eq!(drams(&host), [200, 800]);
}

#[test]
fn a_share_grows_no_further_than_it_may() {
    let mut host = host(1_000, rules(2));
    host.divide(vec![dram(200, 10), dram(800, 90)]);
    host.shrink(1_000);
    let held = [Quota::new(200, 0), Quota::new(500, 0)];
    let most = |blocks| move |_: usize, share: Quota| share.dram_blocks <= blocks;
    assert_eq!(host.grow(&held, most(660)), [(1, Quota::new(650, 0))], "half of 300");
    assert!(host.is_moving(), "the rest may be had later");
    let held = [Quota::new(200, 0), Quota::new(650, 0)];
    assert_eq!(host.grow(&held, most(660)), [(1, Quota::new(659, 0))], "150 halved four times");
    let held = [Quota::new(200, 0), Quota::new(659, 0)];
    assert_eq!(host.grow(&held, most(659)), []);
    assert!(!host.is_moving(), "it settles with what it has");
    assert_eq!(host.view(1, Level::Dram).target, 659);
    settle(&mut host);
    assert_eq!(drams(&host), [200, 659]);
}

#[test]
fn shares_by_hand_are_reached_in_steps() {
    let mut host = host(1_000, rules(2));
    host.put_shares(&[Quota::new(300, 0), Quota::new(600, 0)]);
    assert_eq!(host.set_target(0, Quota::new(401, 0)), Err(Level::Dram), "100 are free");
    assert_eq!(host.set_target(1, Quota::new(500, 0)), Ok(()));
    assert_eq!(host.set_target(0, Quota::new(500, 0)), Ok(()));
    assert_eq!(drams(&host), [300, 600]);
    settle(&mut host);
    assert_eq!(drams(&host), [500, 500]);
    // A host that has become smaller can take nothing from those who were given it by hand, but gives nobody more.
    host.set_capacity(Quota::new(800, 0));
    assert_eq!(host.set_target(0, Quota::new(501, 0)), Err(Level::Dram));
    assert_eq!(host.set_target(0, Quota::new(499, 0)), Ok(()));
}

#[test]
fn thinning_keeps_the_end_and_never_promises_more() {
    for points in [1, MOST_POINTS, MOST_POINTS + 1, 3 * MOST_POINTS + 7] {
        let curve: Vec<_> =
            (1..=points as u64).map(|at| CurvePoint { size_blocks: 2 * at, hits: 3 * at }).collect();
        let full = LevelDemand { blocks: 9, accesses: 1 << 40, curve, ..LevelDemand::default() };
        let thin = thinned(full.clone());
        assert!(thin.curve.len() <= MOST_POINTS && thin.curve.last() == full.curve.last(), "{points}");
        assert!(thin.curve.iter().all(|point| full.curve.contains(point)));
    }
}

/// A VM's minimum, what it may have beyond, weight, reach, and what it could use and hit.
type AnyVm = (u32, u32, u32, u32, Option<(u32, u64)>);

/// Two VMs of which the second comes to ask for more than it has, and what an objective keeps for it.
#[test]
fn what_an_objective_keeps_for_a_vm_moves_shares_that_gain_nothing() {
    let shares_by = |objective| {
        let options = HostOptions { objective, ..HostOptions::default() };
        let mut host = HostSizer::new(Quota::new(1_000, 0), options);
        host.set_vms(rules(2));
        host.divide(vec![dram(600, 90), dram(40, 90)]);
        settle(&mut host);
        let before = drams(&host);
        let told = host.divide(vec![dram(600, 90), dram(1_200, 30)]);
        settle(&mut host);
        (before, drams(&host), told.first().map(|division| (division.reason, division.objective)))
    };
    // For each block the first one gains three times as much.
    let floor = Objective::PpcTotal { floor: 0.5 };
    let (before, after, told) = shares_by(floor);
    assert!(before[1] < 500, "{before:?}");
    assert!(after[0] >= 300 && after[1] >= 600, "half of its hits is kept for each: {after:?}");
    assert_eq!(told, Some((Reason::Kept, floor)));
    let least = Objective::PpcLiteral { min_blocks: 450 };
    let (_, after, _) = shares_by(least);
    assert!(after.iter().all(|&blocks| blocks >= 450), "{after:?}");
    // What does not fit is divided as by hit ratios, and judged so.
    let (_, by_ratios, _) = shares_by(Objective::SumHitRatio);
    for objective in [Objective::PpcLiteral { min_blocks: 600 }, Objective::PpcTotal { floor: 1.0 }] {
        let (_, after, told) = shares_by(objective);
        assert_eq!(after, by_ratios, "{objective:?}");
        assert!(told.is_none_or(|(_, by)| by == Objective::SumHitRatio), "{told:?}");
    }
}

/// What may happen to a host between two intervals: VMs with limits and demands.
fn vms() -> impl Strategy<Value = Vec<AnyVm>> {
    let vm = (0u32..300, 0u32..900, 1u32..4, 0u32..900, prop::option::of((0u32..2_000, 0u64..100)));
    prop::collection::vec(vm, 1..12)
}

/// What a division may maximise, with guarantees that there is not always room for.
fn objectives() -> impl Strategy<Value = Objective> {
    prop_oneof![
        Just(Objective::SumHitRatio),
        Just(Objective::Hits),
        Just(Objective::Latency { cache_us: 120.0, backing_us: 8000.0 }),
        Just(Objective::MaxMin),
        (0.0..=1.0).prop_map(|floor| Objective::PpcTotal { floor }),
        (1u64..600).prop_map(|min_blocks| Objective::PpcLiteral { min_blocks }),
    ]
}

proptest! {
    /// Whatever comes: never more than there is, limits kept where they can be, no step larger than allowed, and an end.
    #[test]
    fn shares_never_exceed_the_host(
        rounds in prop::collection::vec(vms(), 1..6), most_blocks in 1u32..500, slow in 0u32..50,
        objective in objectives()
    ) {
        const BLOCKS: u32 = 1_000;
        let options = HostOptions { objective, ..HostOptions::default() };
        let mut host = HostSizer::new(Quota::new(BLOCKS, BLOCKS / 2), options);
        for round in rounds {
            let rules: Vec<VmRule> = round.iter().enumerate().map(|(at, &(least, more, weight, reach, _))| VmRule {
                least: Quota::new(least, least / 2),
                most: Quota::new(least + more, BLOCKS),
                reach: Quota::new(reach, BLOCKS),
                weight: f64::from(weight),
                ..rule(&format!("vm{at}"))
            }).collect();
            host.set_vms(rules.clone());
            host.divide(round.iter().map(|vm| vm.4.map(|(blocks, percent)| {
                [demand(blocks, percent), demand(blocks / 3, percent)]
            })).collect());
            let mut held: Vec<Quota> = host.shares().collect();
            let mut steps = 0;
            while host.is_moving() {
                let before: Vec<Quota> = host.shares().collect();
                host.shrink(most_blocks);
                let given_up: u32 = before.iter().zip(host.shares()).map(|(old, new)| {
                    old.dram_blocks - new.dram_blocks
                }).sum();
                prop_assert!(given_up <= most_blocks);
                // VMs let go of what they have too much at a pace of their own.
                for (held, share) in held.iter_mut().zip(host.shares()) {
                    let keep = |held: u32, share: u32| if held > share { share.max(held.saturating_sub(1 + slow)) } else { share };
                    *held = Quota::new(keep(held.dram_blocks, share.dram_blocks), keep(held.ssd_blocks, share.ssd_blocks));
                }
                host.grow(&held, |_, _| true);
                for level in Level::SIZED {
                    let used: u64 = host.shares().zip(&held).map(|(s, h)| u64::from(s.of(level).max(h.of(level)))).sum();
                    prop_assert!(used <= u64::from(host.capacity().of(level)), "{used} of {level:?}");
                }
                steps += 1;
                prop_assert!(steps < 5_000, "it never settles");
            }
            let fits: u64 = rules.iter().map(|rule| u64::from(rule.least.dram_blocks.min(rule.reach.dram_blocks))).sum();
            for (rule, share) in rules.iter().zip(host.shares()) {
                let most = rule.most.dram_blocks.min(rule.reach.dram_blocks);
                prop_assert!(share.dram_blocks <= most);
                prop_assert!(fits > u64::from(BLOCKS) || share.dram_blocks >= rule.least.dram_blocks.min(most));
            }
        }
    }
}

/// A VM's weight, reach, and what it could use.
type Measured = (u32, u32, Option<(u32, u64)>);

proptest! {
    /// VMs come and go, and their schemes begin and cease to measure: what nobody has is nobody's only where nobody lacks it.
    #[test]
    fn who_measures_nothing_lacks_nothing_that_is_free(
        rounds in prop::collection::vec(
            (prop::collection::vec((1u32..4, 0u32..900, prop::option::of((0u32..2_000, 0u64..100))), 1..6), any::<bool>()), 1..8
        )
    ) {
        const BLOCKS: u32 = 1_000;
        let mut host = host(BLOCKS, Vec::new());
        for (round, settles) in rounds {
            host.set_vms(round.iter().enumerate().map(|(at, &(weight, reach, _)): (usize, &Measured)| VmRule {
                weight: f64::from(weight), reach: Quota::new(reach, BLOCKS), ..rule(&format!("vm{at}"))
            }).collect());
            // A change of VMs is looked at before the interval ends.
            host.divide_again();
            host.divide(round.iter().map(|vm| vm.2.map(|(blocks, percent)| {
                [demand(blocks, percent), LevelDemand::default()]
            })).collect());
            let views: Vec<_> = (0..round.len()).map(|vm| host.view(vm, Level::Dram)).collect();
            // But for what rounding leaves.
            let is_free = views.iter().map(|view| view.target).sum::<u32>() + (round.len() as u32) < BLOCKS;
            for (view, (_, reach, _)) in views.iter().zip(&round).filter(|(view, _)| view.demand.is_none()) {
                prop_assert!(!is_free || view.target >= view.wanted.min(*reach), "{views:?}");
            }
            if settles {
                settle(&mut host);
            }
        }
    }
}

/// One that measured, and does not any more, has its part again: at once where that is known, or when its interval ends.
#[test]
fn a_scheme_that_measures_nothing_is_given_its_part_again() {
    for is_told in [true, false] {
        let mut host = host(8_192, rules(2));
        host.divide(vec![dram(1_000, 50), None]);
        settle(&mut host);
        // It measured, and asked for little when others needed much.
        let mut three = rules(3);
        host.set_vms(three.clone());
        host.divide(vec![dram(500, 50), None, dram(8_000, 90)]);
        settle(&mut host);
        assert!(drams(&host)[0] < 2_000, "{:?}", drams(&host));
        three.pop();
        if is_told {
            host.forget_demand(0);
            host.set_vms(three);
            host.divide_again();
        } else {
            host.set_vms(three);
            host.divide_again();
            host.divide(vec![None, None]);
        }
        settle(&mut host);
        assert_eq!(drams(&host), [4_096, 4_096], "is told: {is_told}");
    }
}

/// A VM with nothing is served with nothing: only what a newcomer begins with is known to whoever serves it.
#[test]
fn only_newcomers_begin_with_a_share() {
    let mut host = HostSizer::new(Quota::new(1000, 2000), HostOptions::default());
    host.set_vms(rules(2));
    assert_eq!(host.shares().collect::<Vec<_>>(), [Quota::new(500, 1000); 2], "of both levels");
    let served = [Quota::new(1000, 2000), Quota::default()];
    host.put_shares(&served);
    host.set_capacity(Quota::new(2000, 4000));
    let mut others = rules(2);
    others[0].weight = 2.0;
    host.set_vms(others);
    assert_eq!(host.shares().collect::<Vec<_>>(), served);
    assert!(!host.is_moving());
}
