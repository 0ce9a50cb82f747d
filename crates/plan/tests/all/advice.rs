//! What is advised, against the plans that it speaks of.

use lode_hardware::Host;
use lode_plan::{LevelBytes, Load, Means, SizeOptions, SizeReport, VmRule, Wish, answer, measure, size};
use lode_reuse::Method;
use lode_reuse::sizing::{Objective, Solver};
use lode_types::BlockSize;
use lode_types::Direction::{self, Read, Write};

use crate::common::{BLOCK_BYTES, Request, merge, stream_options};

const LATENCY: Objective = Objective::Latency { cache_us: 120.0, backing_us: 8000.0 };

fn host() -> Host {
    Host::find("default").expect("a host")
}

fn options(objective: Objective, solver: Solver, rules: Vec<VmRule>) -> SizeOptions {
    let times = host().service_times(BlockSize::KIB_4);
    SizeOptions { objective, solver, rules, times, granule_bytes: 4 * BLOCK_BYTES }
}

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

/// Of an SSD that keeps what is written.
fn report(requests: &[Request], levels: LevelBytes, options: &SizeOptions) -> SizeReport {
    report_of(requests, levels, Wish::Etica, options)
}

fn report_of(requests: &[Request], levels: LevelBytes, wish: Wish, options: &SizeOptions) -> SizeReport {
    let load = load(requests);
    let answer = answer(&load, Means::Levels(levels), wish, options).expect("an answer");
    answer.report(&load, options, &host(), "exact".to_owned(), &merge(requests), true).expect("a report")
}

fn request(op: Direction, block: u64, blocks: u64) -> Request {
    Request { vm: 0, op, block, blocks }
}

fn ssd_rule(most_blocks: u64) -> VmRule {
    let ssd_bytes = (None, Some(most_blocks * BLOCK_BYTES));
    VmRule { name: "host_0".to_owned(), weight: None, dram_bytes: (None, None), ssd_bytes }
}

/// Writes to 40 blocks, each followed by a read of it after 39 others.
fn writer() -> Vec<Request> {
    (0..800).map(|at| request(if at / 40 % 2 == 0 { Write } else { Read }, at % 40, 1)).collect()
}

#[test]
fn advice_keeps_the_rules() {
    let free = report(&writer(), levels(0, 8), &options(Objective::Hits, Solver::Auto, Vec::new()));
    let gains = |report: &SizeReport| {
        report.advice.iter().any(|line| line == "host_0 gains 60.0 % read hits from 96 KiB more SSD.")
    };
    assert!(gains(&free), "{:?}", free.advice);
    for (most, given) in [(0, 0), (7, 4)] {
        let bound = options(Objective::Hits, Solver::Auto, vec![ssd_rule(most)]);
        let bound = report(&writer(), levels(0, 100), &bound);
        assert!(!bound.advice.iter().any(|line| line.contains(" gains ")), "{:?}", bound.advice);
        assert_eq!(
            (bound.ssd.given_blocks, bound.ssd.demand_blocks, bound.ssd.solver),
            (given, most, "granted")
        );
        assert_eq!(bound.vms[0].demand.ssd_blocks, most);
    }
    let none = options(Objective::Hits, Solver::Auto, vec![ssd_rule(0)]);
    let none = report(&writer(), levels(0, 100), &none);
    assert!(none.advice.iter().any(|line| line == "No VM may use SSD by the rules."), "{:?}", none.advice);
    assert!(!none.advice.iter().any(|line| line.contains("would buffer")), "{:?}", none.advice);
}

/// One useful read of a thousand is not worth a share, but the writes are: some of it stays.
#[test]
fn a_vm_that_writes_is_not_told_to_give_all_of_its_ssd() {
    let mut requests: Vec<Request> = (0..40).map(|block| request(Write, block, 1)).collect();
    requests.push(request(Read, 0, 1));
    requests.extend((0..1000).map(|block| request(Read, 1000 + block, 1)));
    let plan = report(&requests, levels(0, 40), &options(Objective::Hits, Solver::Auto, Vec::new()));
    assert_eq!(plan.vms[0].share.ssd_blocks, 40);
    let gift = plan.advice.iter().find(|line| line.contains(" loses "));
    let expected = "host_0 loses 0.1 % read hits by giving 144 KiB of SSD.";
    assert_eq!(gift.map(String::as_str), Some(expected), "{:?}", plan.advice);
}

/// Of caches that are cut in two, what is lost is read from the hull, as what there is.
#[test]
fn what_split_caches_lose_is_read_from_their_hulls() {
    let mut requests: Vec<Request> = (0..2340).map(|_| request(Read, 0, 10)).collect();
    requests.extend(
        [(100, 200), (100, 200), (1000, 110), (1000, 40)].map(|(block, blocks)| request(Read, block, blocks)),
    );
    let gift = |solver| {
        let plan = report(&requests, levels(200, 0), &options(Objective::Hits, solver, Vec::new()));
        assert_eq!(plan.vms[0].share.dram_blocks, 200);
        plan.advice.into_iter().find(|line| line.contains(" loses "))
    };
    // The hull is straight from 10 to 200 blocks; the curve itself has nearly all of that rise at its end.
    assert_eq!(
        gift(Solver::Talus).as_deref(),
        Some("host_0 loses 0.5 % read hits by giving 352 KiB of DRAM.")
    );
    assert_eq!(gift(Solver::Auto), None);
}

#[test]
fn the_advice_of_a_page_has_the_advice_of_the_plan() {
    let requests: Vec<Request> = writer();
    for solver in [Solver::Auto, Solver::Talus] {
        let plan = report(&requests, levels(8, 16), &options(Objective::Hits, solver, Vec::new()));
        let everywhere = plan.advice_at.as_ref().expect("it is for a page");
        assert_eq!(everywhere[plan.totals.dram.asked][plan.totals.ssd.asked], plan.advice);
        assert_eq!(
            (everywhere.len(), everywhere[0].len()),
            (plan.totals.dram.sizes_bytes.len(), plan.totals.ssd.sizes_bytes.len())
        );
    }
}

/// A VM that writes and never reads that again has no use for hits, and one for a buffer. Another could use all of the SSD.
#[test]
fn latency_buys_write_buffers_and_other_objectives_say_what_they_would_save() {
    let requests: Vec<Request> = (0..300).map(|at| request(Write, at * 5 % 97, 1)).collect();
    let other = |at: u64| Request {
        vm: 1,
        ..request(if (at / 100).is_multiple_of(2) { Write } else { Read }, at % 100, 1)
    };
    let both = [requests.clone(), (0..2000).map(other).collect()].concat();
    let buffered = report(&both, levels(0, 100), &options(LATENCY, Solver::Auto, Vec::new()));
    assert_eq!((buffered.vms[0].share.ssd_blocks, buffered.ssd.demand_blocks), (4, 104));
    assert!(buffered.vms[0].outcome.mean_latency_us.expect("accesses") < 100.0);
    let hits = report(&both, levels(0, 100), &options(Objective::Hits, Solver::Auto, Vec::new()));
    assert_eq!(hits.vms[0].share.ssd_blocks, 0);
    let expected = format!(
        "16 KiB of SSD would buffer the writes of host_0: its mean latency would be {:.1} us instead of {:.1}.",
        buffered.vms[0].outcome.mean_latency_us.expect("accesses"),
        hits.vms[0].outcome.mean_latency_us.expect("accesses")
    );
    assert!(hits.advice.contains(&expected), "{expected} in {:?}", hits.advice);
    // A guarantee gives it a share; that is no reason to say that it is of no use.
    let guaranteed = VmRule { ssd_bytes: (Some(4 * BLOCK_BYTES), None), ..ssd_rule(0) };
    let told = report(&requests, levels(0, 100), &options(Objective::Hits, Solver::Auto, vec![guaranteed]));
    assert!(told.advice.iter().any(|line| line.ends_with("Its shares buffer writes.")), "{:?}", told.advice);
    // Where it may have less than a granule there is no buffer to have.
    let bound = report(&requests, levels(0, 100), &options(LATENCY, Solver::Auto, vec![ssd_rule(3)]));
    assert_eq!((bound.vms[0].share.ssd_blocks, bound.ssd.demand_blocks), (0, 0));
}

/// What no hit has a use for keeps writes, where there are any, and is said to be of no use where all of them fit.
#[test]
fn what_is_left_over_keeps_writes_or_is_said_to_be_of_no_use() {
    let writes = |vm: usize, count: u64, blocks: u64| {
        (0..count).map(move |at| Request { vm, ..request(Write, at * 7 % blocks, 1) })
    };
    // The first writes each of its blocks ten times, the second once.
    let requests: Vec<Request> = writes(0, 400, 40).chain(writes(1, 60, 60)).collect();
    for objective in [Objective::Hits, LATENCY] {
        let shares = |ssd_blocks: u64| {
            let plan =
                report(&requests, levels(64, ssd_blocks), &options(objective, Solver::Auto, Vec::new()));
            let shares: Vec<u64> = plan.vms.iter().map(|vm| vm.share.ssd_blocks).collect();
            assert_eq!(plan.ssd.given_blocks, shares.iter().sum::<u64>());
            (shares, plan.advice.join(" "))
        };
        let (few, _) = shares(48);
        assert_eq!(few, [40, 8], "whoever writes most for a block");
        let (all, said) = shares(200);
        assert_eq!(all, [40, 60]);
        assert_eq!(
            said.contains("400 KiB of 800 KiB are of no use: all that is written fits"),
            objective == LATENCY
        );
    }
}

/// What an objective guarantees of a level that is not there is nothing.
#[test]
fn one_level_alone_can_be_divided_by_every_objective() {
    // What is read again and again serves host memory.
    let load = load(&[writer(), (0..200).map(|at| request(Read, at % 40, 1)).collect()].concat());
    for objective in [Objective::PpcLiteral { min_blocks: 4 }, Objective::PpcTotal { floor: 1.0 }] {
        for levels in [levels(100, 0), levels(0, 100)] {
            let plan = size(&load, levels, &options(objective, Solver::Auto, Vec::new()));
            let plan = plan.unwrap_or_else(|error| panic!("{levels:?}: {error}"));
            assert!(plan.of_level.iter().any(|level| level.given_blocks > 0), "{plan:?}");
            assert!(plan.of_level.iter().any(|level| level.given_blocks == 0), "{plan:?}");
        }
        // What a rule promises is an error still.
        let guaranteed = VmRule { ssd_bytes: (Some(4 * BLOCK_BYTES), None), ..ssd_rule(0) };
        let refused = size(&load, levels(100, 0), &options(objective, Solver::Auto, vec![guaranteed]));
        assert!(
            refused.expect_err("no SSD").to_string().contains("guaranteed 16 KiB of ssd, and there are 0 B")
        );
    }
}

/// Host memory keeps no writes off the disk, and without a write there are none to keep: what a share has more is said to be rounding.
#[test]
fn what_shares_have_more_than_hits_need_is_said_as_it_is() {
    let reads: Vec<Request> = (0..40).map(|at| request(Read, at % 5, 1)).collect();
    let mut mixed = reads.clone();
    mixed.extend((0..20).map(|at| request(Write, 100 + at, 1)));
    for requests in [&reads, &mixed] {
        let options = options(LATENCY, Solver::Auto, Vec::new());
        let advice = report(requests, levels(16, 0), &options).advice;
        let of_dram = "DRAM of 20 KiB is enough for every hit; 12 KiB more make shares multiples of 16 KiB; 32 KiB of 64 KiB";
        assert!(advice.iter().any(|line| line.starts_with(of_dram)), "{advice:?}");
        let of_writes = |line: &&String| line.contains("keep what VMs write off the disk");
        assert!(!advice.iter().any(|line| of_writes(&line)), "{advice:?}");
    }
    let options = options(LATENCY, Solver::Auto, Vec::new());
    let advice = report(&mixed, levels(0, 64), &options).advice;
    assert!(!advice.iter().any(|line| line.contains("host_0 mostly")), "{advice:?}");
    let writes: Vec<Request> = (0..40).map(|at| request(Write, at, 1)).collect();
    let advice = report(&writes, levels(0, 64), &options).advice;
    assert!(advice.iter().any(|line| line.starts_with("host_0 mostly writes: its share")), "{advice:?}");
}
