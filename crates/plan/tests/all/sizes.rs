//! Sizes: divisions against every possible one, predictions against caches of those sizes.

use lode_hardware::Host;
use lode_plan::{LevelBytes, Load, SizeOptions, VmRule, measure, size};
use lode_policy::{Quota, SchemeInfo};
use lode_replay::{Options, VmReport, access_times, replay};
use lode_reuse::Method;
use lode_reuse::sizing::{Objective, Solver};
use lode_types::{BlockNo, BlockSize, Direction};
use proptest::prelude::*;

use crate::common::{BLOCK_BYTES, Request, merge, requests, stream_options, streams};

fn options() -> SizeOptions {
    SizeOptions {
        objective: Objective::SumHitRatio,
        solver: Solver::Auto,
        rules: Vec::new(),
        times: Default::default(),
        granule_bytes: 1,
    }
}

fn levels(dram_blocks: u64, ssd_blocks: u64) -> LevelBytes {
    LevelBytes {
        dram_bytes: dram_blocks * BLOCK_BYTES,
        ssd_bytes: ssd_blocks * BLOCK_BYTES,
        ..LevelBytes::default()
    }
}

fn load(requests: &[crate::common::Request]) -> Load {
    measure(&mut merge(requests), &stream_options(2), Method::Exact, &mut |_| {}).expect("a load")
}

/// A fully associative LRU cache that reads fill and writes empty.
#[derive(Default)]
struct ReadOnly(Vec<BlockNo>);

/// A fully associative LRU cache that only writes fill.
#[derive(Default)]
struct WriteOnly(Vec<BlockNo>);

fn touch(blocks: &mut Vec<BlockNo>, block: BlockNo) -> bool {
    let at = blocks.iter().position(|&held| held == block);
    if let Some(at) = at {
        blocks.remove(at);
        blocks.push(block);
    }
    at.is_some()
}

fn put(blocks: &mut Vec<BlockNo>, block: BlockNo, size: u64) {
    if size > 0 {
        if blocks.len() as u64 == size {
            blocks.remove(0);
        }
        blocks.push(block);
    }
}

/// Hits of host memory, and of the SSD beyond those.
fn caches(stream: &[(Direction, BlockNo)], dram_blocks: u64, ssd_blocks: u64) -> (u64, u64) {
    let (mut dram, mut ssd) = (ReadOnly::default(), WriteOnly::default());
    let (mut dram_hits, mut ssd_hits) = (0, 0);
    for &(op, block) in stream {
        if op == Direction::Read {
            let in_dram = touch(&mut dram.0, block);
            let in_ssd = touch(&mut ssd.0, block);
            if in_dram {
                dram_hits += 1;
            } else {
                put(&mut dram.0, block, dram_blocks);
                ssd_hits += u64::from(in_ssd);
            }
        } else {
            dram.0.retain(|&held| held != block);
            if !touch(&mut ssd.0, block) {
                put(&mut ssd.0, block, ssd_blocks);
            }
        }
    }
    (dram_hits, ssd_hits)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn predictions_are_what_caches_of_those_sizes_do(
        requests in requests(100, 16),
        dram_blocks in 0u64..20,
        ssd_blocks in 0u64..20,
    ) {
        let load = load(&requests);
        let plan = size(&load, levels(dram_blocks, ssd_blocks), &options()).expect("a plan");
        prop_assert!(plan.of_level[0].given_blocks <= dram_blocks && plan.of_level[1].given_blocks <= ssd_blocks);
        for (vm, (_, stream)) in plan.vms.iter().zip(streams(&requests)) {
            let expected = caches(&stream, vm.share_blocks[0], vm.share_blocks[1]);
            prop_assert_eq!((vm.outcome.dram_hits, vm.outcome.ssd_hits), expected);
        }
    }

    #[test]
    fn no_other_division_has_more_hits(requests in requests(60, 8), blocks in 0u64..10) {
        let load = load(&requests);
        let options = SizeOptions { objective: Objective::Hits, ..options() };
        let plan = size(&load, levels(blocks, 0), &options).expect("a plan");
        let streams = streams(&requests);
        let hits = |at: usize, blocks: u64| streams.get(at).map_or(0, |(_, stream)| caches(stream, blocks, 0).0);
        let mut best = 0;
        for first in 0..=blocks {
            for second in 0..=blocks - first {
                best = best.max(hits(0, first) + hits(1, second) + hits(2, blocks - first - second));
            }
        }
        prop_assert_eq!(plan.total.dram_hits, best);
    }
}

/// Least and most blocks of a VM.
fn limits() -> impl Strategy<Value = (Option<u64>, Option<u64>)> {
    (proptest::option::of(0u64..12), proptest::option::of(0u64..30))
}

proptest! {
    #[test]
    fn rounding_to_granules_keeps_every_limit(
        requests in requests(100, 24),
        limits in proptest::collection::vec(limits(), 3),
        granule in 1u64..9,
        blocks in 0u64..150,
    ) {
        let load = load(&requests);
        let in_bytes = |blocks: Option<u64>| blocks.map(|blocks| blocks * BLOCK_BYTES);
        let limit_of = |name: &str| limits[name.trim_start_matches("host_").parse::<usize>().expect("a number")];
        let rule = |name: &str| {
            let (least, most) = limit_of(name);
            VmRule {
                name: name.to_owned(),
                weight: None,
                dram_bytes: (in_bytes(least), in_bytes(most)),
                ssd_bytes: (None, None),
            }
        };
        let rules: Vec<VmRule> = load.vms.iter().map(|vm| rule(&vm.facts.name)).collect();
        let options = SizeOptions { granule_bytes: granule * BLOCK_BYTES, rules, ..options() };
        let sum: u64 = load.vms.iter().map(|vm| limit_of(&vm.facts.name).0.unwrap_or(0)).sum();
        let contradicts = |(least, most): (Option<u64>, Option<u64>)| least.unwrap_or(0) > most.unwrap_or(u64::MAX);
        let possible = sum <= blocks && !load.vms.iter().any(|vm| contradicts(limit_of(&vm.facts.name)));
        let plan = size(&load, levels(blocks, 0), &options);
        prop_assert_eq!(plan.is_ok(), possible);
        let Ok(plan) = plan else { return Ok(()) };
        prop_assert!(plan.of_level[0].given_blocks <= blocks);
        for vm in &plan.vms {
            let (share, (least, most)) = (vm.share_blocks[0], limit_of(&vm.name));
            prop_assert!(share >= least.unwrap_or(0) && share <= most.unwrap_or(u64::MAX), "{:?}", vm);
            // Without a guarantee there is always a whole number of granules, even if it is none.
            let free = load.vms.iter().all(|vm| limit_of(&vm.facts.name).0.unwrap_or(0) == 0);
            prop_assert!(!free || share.is_multiple_of(granule), "{:?}", vm);
        }
    }
}

#[test]
fn rules_bind_and_unknown_names_are_refused() {
    let requests: Vec<_> = (0..400)
        .map(|at| crate::common::Request {
            vm: at % 2,
            op: Direction::Read,
            block: (at / 2) as u64 % 40,
            blocks: 1,
        })
        .collect();
    let load = load(&requests);
    let rule = |name: &str| VmRule {
        name: name.to_owned(),
        weight: None,
        dram_bytes: (Some(10 * BLOCK_BYTES), Some(12 * BLOCK_BYTES)),
        ssd_bytes: (None, None),
    };
    let with = |rules| SizeOptions { rules, ..options() };
    let plan = size(&load, levels(60, 0), &with(vec![rule("host_1")])).expect("a plan");
    assert!((10..=12).contains(&plan.vms[1].share_blocks[0]), "{:?}", plan.vms[1].share_blocks);
    assert_eq!(plan.vms[0].share_blocks[0], 40);
    let all = size(&load, levels(60, 0), &with(vec![rule("host*")])).expect("a plan");
    assert!(all.vms.iter().all(|vm| (10..=12).contains(&vm.share_blocks[0])));
    let refused = size(&load, levels(60, 0), &with(vec![rule("guest")])).expect_err("no such VM");
    assert!(refused.to_string().contains("guest"), "{refused}");
    let refused = size(&load, levels(15, 0), &with(vec![rule("host*")])).expect_err("too little");
    assert!(refused.to_string().contains("guaranteed 80 KiB of dram, and there are 60 KiB"), "{refused}");
    // A guarantee of everything leaves no room for rounding, and is kept.
    let with_granules = SizeOptions { granule_bytes: 4 * BLOCK_BYTES, ..with(vec![rule("host_1")]) };
    let tight = size(&load, levels(10, 0), &with_granules).expect("it fits");
    assert_eq!((tight.vms[0].share_blocks[0], tight.vms[1].share_blocks[0]), (0, 10));
}

#[test]
fn shares_in_granules_stay_within_the_level() {
    let requests: Vec<_> = (0..6000)
        .map(|at| crate::common::Request {
            vm: at % 3,
            op: Direction::Read,
            block: (at / 3) as u64 % 700,
            blocks: 1,
        })
        .collect();
    let load = load(&requests);
    let options = SizeOptions { granule_bytes: 16 * BLOCK_BYTES, ..options() };
    for blocks in [15, 16, 40, 100, 700, 900, 1500, 2000, 3000] {
        let plan = size(&load, levels(blocks, 0), &options).expect("a plan");
        assert!(plan.vms.iter().all(|vm| vm.share_blocks[0] % 16 == 0), "{plan:?}");
        // The loops are of 700 blocks; of smaller levels a part would be of no use.
        let expected = blocks.min(3 * 704) / 704 * 704;
        assert_eq!(plan.of_level[0].given_blocks, expected, "{plan:?}");
    }
}

/// Of what a trace asks in one interval, the sizer of a scheme makes what `size` makes of the whole trace: with the devices that are
/// given, and the writes that an SSD takes.
#[test]
fn a_scheme_that_minimises_latency_divides_as_a_plan_does() {
    let requests: Vec<Request> = (0..3000u64)
        .map(|at| {
            let vm = at % 3;
            let op = if at * at % 7 < 2 * vm { Direction::Write } else { Direction::Read };
            Request { vm: vm as usize, op, block: at * at % 401 % (60 + 50 * vm), blocks: 1 }
        })
        .collect();
    let load =
        measure(&mut merge(&requests), &stream_options(1), Method::Exact, &mut |_| {}).expect("a load");
    let mut divisions = Vec::new();
    for devices in ["default", "nvme-hdd"] {
        let host = Host::find(devices).expect("a host");
        let times = host.service_times(BlockSize::KIB_4);
        let objective = access_times(&times).objective();
        for (dram_blocks, ssd_blocks) in [(30, 50), (3, 2), (0, 1)] {
            let levels = LevelBytes {
                dram_bytes: dram_blocks * BLOCK_BYTES,
                ssd_bytes: ssd_blocks * BLOCK_BYTES,
                ..LevelBytes::default()
            };
            let options =
                SizeOptions { objective, solver: Solver::Auto, rules: Vec::new(), times, granule_bytes: 1 };
            let plan = size(&load, levels, &options).expect("a plan");
            let planned: Vec<[u64; 2]> = plan.vms.iter().map(|vm| vm.share_blocks).collect();
            let mut settings = SchemeInfo::find("etica").expect("a scheme").settings();
            for (key, value) in [("objective", "latency"), ("sizing_interval", "3000"), ("mode", "npe")] {
                settings.set(key, value).expect("a setting");
            }
            let replayed = Options {
                settings,
                physical: Quota::new(dram_blocks as u32, ssd_blocks as u32),
                block_size: BlockSize::KIB_4,
                host: host.clone(),
                shares: None,
                daily_ssd_bytes: None,
            };
            let report = replay(merge(&requests), &replayed, Some(3), &mut |_, _| {}).expect("a report");
            let last = |vm: &VmReport| {
                vm.intervals.last().map(|share| [share.dram_blocks.into(), share.ssd_blocks.into()])
            };
            let served: Vec<[u64; 2]> = report.vms.iter().map(|vm| last(vm).expect("an interval")).collect();
            assert_eq!(served, planned, "{devices} {levels:?}");
            divisions.push(planned);
        }
    }
    println!("{divisions:?}");
}
