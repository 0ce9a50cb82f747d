//! Demands of which a host looks at more than the last interval, and what it then takes for a share to grow.

use lode_policy::host::{HostOptions, HostSizer, VmRule};
use lode_policy::{LevelDemand, OfSized, Quota};
use lode_reuse::CurvePoint;
use lode_reuse::sizing::Objective;
use proptest::prelude::*;

const LATENCY: Objective = Objective::Latency { cache_us: 120.0, backing_us: 8_000.0 };

fn host(ssd_blocks: u32, vms: usize, objective: Objective) -> HostSizer {
    let options = HostOptions { objective, ..HostOptions::default() };
    let mut host = HostSizer::new(Quota::new(0, ssd_blocks), options);
    let most = Quota::new(0, ssd_blocks);
    let rule = |vm: usize| VmRule {
        name: vm.to_string(),
        weight: 1.0,
        least: Quota::default(),
        most,
        reach: most,
        named: OfSized::default(),
    };
    host.set_vms((0..vms).map(rule).collect());
    let first: Vec<Quota> = host.shares().collect();
    host.put_shares(&first);
    host
}

/// Of these steps of a curve, sizes and hits that each adds.
fn demand(steps: &[(u32, u64)], accesses: u64, half_life_turnovers: f64) -> LevelDemand {
    let mut steps = steps.to_vec();
    steps.sort_unstable();
    let mut curve: Vec<CurvePoint> = Vec::new();
    for (size_blocks, more) in steps {
        let hits = curve.last().map_or(0, |point| point.hits) + more;
        curve.pop_if(|last| last.size_blocks == u64::from(size_blocks));
        curve.push(CurvePoint { size_blocks: size_blocks.into(), hits });
    }
    let blocks = curve.last().map_or(0, |point| point.size_blocks as u32);
    LevelDemand { blocks, curve, accesses, half_life_turnovers, ..LevelDemand::default() }
}

fn of_ssd(demand: LevelDemand) -> Option<[LevelDemand; 2]> {
    let of_dram = LevelDemand {
        accesses: demand.accesses,
        half_life_turnovers: demand.half_life_turnovers,
        ..LevelDemand::default()
    };
    Some([of_dram, demand])
}

fn ssds(host: &mut HostSizer) -> Vec<u32> {
    host.shrink(u32::MAX);
    let held: Vec<Quota> = host.shares().collect();
    host.grow(&held, |_, _| true);
    host.shares().map(|share| share.ssd_blocks).collect()
}

fn hits_of(steps: &[(u32, u64)], blocks: u32) -> f64 {
    steps.iter().filter(|step| step.0 <= blocks).map(|step| step.1 as f64).sum()
}

/// What a division of two VMs' shares is worth: minus the sum of mean latencies, each hit that a larger share has to make up for taken
/// away. Free is what nobody has.
fn worth(steps: &[Vec<(u32, u64)>; 2], accesses: [u64; 2], old: &[u32], new: &[u32], free: u32) -> f64 {
    let of = |vm: usize| {
        let hits = (0..=new[vm])
            .map(|blocks| hits_of(&steps[vm], blocks) - f64::from(blocks.saturating_sub(old[vm] + free)));
        let ratio = hits.fold(0.0, f64::max) / accesses[vm] as f64;
        -(120.0 * ratio + 8_000.0 * (1.0 - ratio))
    };
    of(0) + of(1)
}

proptest! {
    /// Of all divisions that there are none is worth one per cent more than the one that it comes to.
    #[test]
    fn no_division_pays_more(
        steps in prop::array::uniform2(prop::collection::vec((1u32..60, 1u64..40), 0..12)),
        misses in prop::array::uniform2(1u64..400)
    ) {
        const BLOCKS: u32 = 60;
        let mut host = host(BLOCKS, 2, LATENCY);
        let old = ssds(&mut host);
        // Else each has what it could use, whether it pays or not.
        let could_use = |vm: usize| steps[vm].iter().map(|step| step.0).max().unwrap_or(0);
        prop_assume!(could_use(0) + could_use(1) > BLOCKS);
        let accesses = [0, 1].map(|vm| misses[vm] + hits_of(&steps[vm], u32::MAX) as u64);
        host.divide((0..2).map(|vm| of_ssd(demand(&steps[vm], accesses[vm], 16.0))).collect());
        let new = ssds(&mut host);
        let of = |shares: &[u32]| worth(&steps, accesses, &old, shares, BLOCKS - old.iter().sum::<u32>());
        let best = (0..=BLOCKS).map(|first| of(&[first, BLOCKS - first])).fold(f64::MIN, f64::max);
        prop_assert!(of(&new) >= of(&old));
        prop_assert!(best - of(&new) <= of(&old).abs() * 0.01 + 1e-6, "{old:?} to {new:?}: {} of {best}", of(&new));
    }
}

/// A share grows when by what was seen until then it would have paid for the blocks that it takes from others, and not before.
#[test]
fn a_share_grows_when_that_has_paid() {
    let grown_after = |half_life: f64| {
        let mut host = host(1_000, 2, LATENCY);
        let wants = || of_ssd(demand(&[(900, 100)], 1_000, half_life));
        let idle = || of_ssd(demand(&[], 1_000, half_life));
        (1..100).find(|_| {
            host.divide(vec![wants(), idle()]);
            ssds(&mut host)[0] >= 900
        })
    };
    // 400 blocks more, and 100 hits of each window: 400 hits alone would be even, and 500 not yet one per cent better.
    assert_eq!(grown_after(1e6), Some(6));
    assert_eq!(grown_after(0.0), Some(1), "each window by itself");
    assert_eq!(grown_after(1.0), None, "what was seen is forgotten before it pays");
}

/// What is nobody's costs nobody anything.
#[test]
fn what_is_free_is_given_at_once() {
    let mut host = host(1_000, 2, LATENCY);
    host.put_shares(&[Quota::new(0, 100); 2]);
    let wants = of_ssd(demand(&[(900, 100)], 1_000, 16.0));
    host.divide(vec![wants, of_ssd(demand(&[(100, 100)], 1_000, 16.0))]);
    assert_eq!(ssds(&mut host), [900, 100]);
}

/// A burst of one VM moves nothing away from another one that has used its share for long.
#[test]
fn a_burst_takes_nothing() {
    let steady = || demand(&[(500, 300)], 1_000, 16.0);
    let mut host = host(1_000, 2, LATENCY);
    for _ in 0..20 {
        host.divide(vec![of_ssd(steady()), of_ssd(steady())]);
        assert_eq!(ssds(&mut host), [500, 500]);
    }
    host.divide(vec![of_ssd(demand(&[(1_000, 900)], 1_000, 16.0)), of_ssd(demand(&[], 0, 16.0))]);
    assert_eq!(ssds(&mut host), [500, 500]);
}

/// One that does nothing any more counts for less and less, until another one has what it had.
#[test]
fn who_has_gone_quiet_gives_way_in_the_end() {
    let mut host = host(1_000, 2, LATENCY);
    let steady = || demand(&[(500, 600)], 1_000, 16.0);
    for _ in 0..20 {
        host.divide(vec![of_ssd(steady()), of_ssd(steady())]);
    }
    let wants = || of_ssd(demand(&[(500, 600), (900, 150)], 1_000, 16.0));
    let mut shares = Vec::new();
    for _ in 0..200 {
        host.divide(vec![wants(), of_ssd(demand(&[], 0, 16.0))]);
        shares.push(ssds(&mut host)[0]);
    }
    assert_eq!((shares[0], shares[199]), (500, 900), "{shares:?}");
}

/// Objectives that count blocks, and not hits alone, take demands as they are.
#[test]
fn objectives_that_are_no_sums_of_hits_charge_nothing() {
    let grown = |objective| {
        let mut host = host(1_000, 2, objective);
        host.divide(vec![
            of_ssd(demand(&[(900, 100)], 1_000, 16.0)),
            of_ssd(demand(&[(100, 100)], 1_000, 16.0)),
        ]);
        ssds(&mut host)
    };
    assert_eq!(grown(Objective::PpcTotal { floor: 1.0 }), [900, 100]);
    assert_eq!(grown(Objective::SumHitRatio), [500, 500]);
}
