//! Replays and the memory that they may take: fewer at once, or none, but never more than there is.

use std::collections::HashSet;
use std::sync::Mutex;
use std::thread;

use lode_hardware::Host;
use lode_plan::{
    CompareOptions, CompareProgress, ComparedSchemes, LevelBytes, Load, Means, PlanError, ServeOptions, Wish,
    answer, compare, measure,
};
use lode_policy::{Quota, SchemeInfo};
use lode_replay::{Options, count_distinct_blocks, most_memory_bytes};
use lode_reuse::Method;
use lode_reuse::sizing::{Objective, Solver};
use lode_types::{BlockSize, Direction};

use crate::common::{BLOCK_BYTES, Request, merge, stream_options};
use crate::wear::options;

const GIB: u64 = 1 << 30;

/// Two VMs that go over their blocks twice, read and written in turn.
fn requests(blocks: u64) -> Vec<Request> {
    let op = |at: u64| if at.is_multiple_of(3) { Direction::Write } else { Direction::Read };
    let request = |at: u64| Request { vm: at as usize % 2, op: op(at), block: at / 2 % blocks, blocks: 1 };
    (0..4 * blocks).map(request).collect()
}

fn comparison(threads: usize, memory_bytes: u64, schemes: &[&str]) -> CompareOptions {
    let settings = |name: &str| SchemeInfo::find(name).expect("a scheme").settings();
    CompareOptions {
        schemes: ComparedSchemes::new(
            schemes.iter().map(|&name| (name.to_owned(), settings(name))).collect(),
        ),
        sizes: [GIB, 2 * GIB, 3 * GIB]
            .map(|ssd_bytes| LevelBytes { ssd_bytes, ..LevelBytes::default() })
            .to_vec(),
        planned: None,
        block_size: BlockSize::KIB_4,
        host: Host::find("default").expect("a host"),
        threads,
        memory_bytes,
    }
}

/// Cells' totals, and how many threads replayed them. Where fewer replay than may, because memory is short, the different
/// blocks were counted, and that was heard of.
fn compared(requests: &[Request], options: &CompareOptions) -> Result<(Vec<String>, usize), PlanError> {
    let (threads, counted) = (Mutex::new(HashSet::new()), Mutex::new(0));
    let cells = compare(&|| Ok(merge(requests)), options, &|progress| match progress {
        CompareProgress::Replaying { .. } => {
            threads.lock().expect("no panic").insert(thread::current().id());
        }
        CompareProgress::Counting(requests) => *counted.lock().expect("no panic") = requests,
        _ => {}
    })?;
    let is_short = threads.lock().expect("no panic").len() < options.threads;
    let counted = counted.into_inner().expect("no panic");
    assert!(counted == requests.len() as u64 || (counted == 0 && !is_short), "{counted}");
    let totals = cells.iter().map(|cell| format!("{:?}", cell.report.total)).collect();
    Ok((totals, threads.into_inner().expect("no panic").len()))
}

/// Bytes that replaying one of these schemes with the largest of the sizes may take.
fn needed_bytes(requests: &[Request], scheme: &str) -> u64 {
    let of_comparison = comparison(1, 0, &[scheme]);
    let replay = Options {
        settings: of_comparison.schemes.as_slice()[0].1.clone(),
        physical: Quota::new(0, (3 * GIB / BLOCK_BYTES) as u32),
        block_size: BlockSize::KIB_4,
        host: of_comparison.host,
        shares: None,
        daily_ssd_bytes: None,
    };
    let blocks = count_distinct_blocks(merge(requests), BlockSize::KIB_4, &mut |_, _| {}).expect("a count");
    most_memory_bytes(&replay, &blocks)
}

#[test]
fn fewer_replays_run_at_once_where_all_do_not_fit() {
    let requests = requests(20_000);
    let needed = needed_bytes(&requests, "arc");
    let (expected, _) = compared(&requests, &comparison(1, GIB, &["arc", "sieve"])).expect("a comparison");
    assert_eq!(expected.len(), 6);
    // The traces take about as much as one replay: beside them there is room for one, and for none.
    for memory_bytes in [needed + needed / 2, needed] {
        let few = comparison(3, memory_bytes, &["arc", "sieve"]);
        let (totals, threads) = compared(&requests, &few).expect("a comparison");
        assert_eq!(totals, expected);
        assert_eq!(threads, 1, "{memory_bytes} of {needed}");
    }
}

#[test]
fn a_comparison_that_does_not_fit_is_refused_before_it_begins() {
    let requests = requests(20_000);
    let replayed = Mutex::new(false);
    let open = || Ok(merge(&requests));
    let refused = compare(&open, &comparison(2, GIB >> 10, &["sieve", "arc"]), &|progress| {
        if matches!(progress, CompareProgress::Replaying { .. }) {
            *replayed.lock().expect("no panic") = true;
        }
    });
    assert!(!*replayed.lock().expect("no panic"));
    let error = refused.expect_err("too little memory");
    let PlanError::ReplayMemory { needed_bytes, limit_bytes, .. } = &error else { panic!("{error}") };
    assert_eq!((*limit_bytes, *needed_bytes), (GIB >> 10, self::needed_bytes(&requests, "arc")));
    assert!(error.to_string().contains("Replaying arc with"), "{error}");
    compared(&requests, &comparison(2, *needed_bytes, &["sieve", "arc"])).expect("a comparison");
    // What the future takes is no room for a replay.
    let with_future = |memory_bytes| compared(&requests, &comparison(1, memory_bytes, &["belady"]));
    let mut tried = (1..64).map(|mib| with_future(mib << 20));
    let beside = tried.find_map(|result| match result {
        Err(PlanError::ReplayMemory { needed_bytes, .. }) => Some(needed_bytes),
        _ => None,
    });
    let needed_bytes = beside.expect("some memory holds traces and future, and no replay");
    with_future(needed_bytes).expect("a comparison");
    with_future(needed_bytes - 1).expect_err("a byte too little");
}

fn load_of(requests: &[Request]) -> Load {
    measure(&mut merge(requests), &stream_options(1), Method::Exact, &mut |_| {}).expect("a load")
}

#[test]
fn a_plan_stays_where_its_replays_do_not_fit() {
    let requests = requests(20_000);
    let (load, host) = (load_of(&requests), Host::find("default").expect("a host"));
    let levels = LevelBytes { dram_bytes: GIB, ssd_bytes: GIB, ..LevelBytes::default() };
    let means = Means::Levels(levels);
    let mut answer = answer(&load, means, Wish::Best, &options(Objective::Hits)).expect("an answer");
    let plan = answer.plan().clone();
    let open = || Ok(merge(&requests));
    let mut replay = |memory_bytes| {
        let serve = ServeOptions { block_size: BlockSize::KIB_4, host: &host, threads: 2, memory_bytes };
        let left_out = answer.replay(&load, &open, &serve, &|_| {}).expect("no failure");
        (left_out, answer.replayed.len(), answer.one_level.is_some())
    };
    let (left_out, replayed, one_level) = replay(GIB >> 10);
    let left_out = left_out.expect("too little memory");
    assert!(left_out.reason.starts_with("the plan is not replayed"), "{}", left_out.reason);
    assert_eq!((replayed, one_level), (0, false));
    let needed_bytes = left_out.needed_bytes.expect("memory");
    assert_eq!(replay(needed_bytes), (None, 3, true));
    // One that knows more of each block is left out alone, until none is left.
    let (left_out, replayed, one_level) = replay(needed_bytes - 1);
    let reason = left_out.expect("too little memory for one").reason;
    assert!(reason.starts_with("the plan is not replayed with auto: that may take"), "{reason}");
    assert_eq!((replayed, one_level), (2, true));
    assert_eq!(answer.plan(), &plan);
}

/// Host memory costs much, so that one SSD level for its money is large: it alone does not fit.
#[test]
fn one_level_alone_may_be_left_out() {
    let part = |first: u64, blocks: u64| {
        (0..blocks / 1024).map(move |at| Request {
            vm: 0,
            op: Direction::Read,
            block: first + at * 1024,
            blocks: 1024,
        })
    };
    let used = 20 << 10;
    let requests: Vec<Request> = part(0, used).chain(part(0, used)).chain(part(used, 2000 << 10)).collect();
    let (load, host) = (load_of(&requests), Host::find("nvme-hdd").expect("a host"));
    let levels = LevelBytes { dram_bytes: used * BLOCK_BYTES, ..LevelBytes::default() };
    let means = Means::Levels(levels);
    let mut answer = answer(&load, means, Wish::Etica, &options(Objective::Hits)).expect("an answer");
    let serve =
        ServeOptions { block_size: BlockSize::KIB_4, host: &host, threads: 2, memory_bytes: 14 << 20 };
    let left_out = answer.replay(&load, &|| Ok(merge(&requests)), &serve, &|_| {}).expect("no failure");
    let reason = left_out.expect("too little memory for one of three").reason;
    assert!(reason.starts_with("one SSD level for the same money is not replayed"), "{reason}");
    assert_eq!((answer.replayed.len(), answer.one_level), (2, None));
}

#[test]
fn sizes_that_are_too_large_for_the_exact_solver_are_named() {
    let mut state = 1_u64;
    let request = |at: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Request { vm: at % 2, op: Direction::Read, block: (state >> 33) % 3000, blocks: 1 }
    };
    let requests: Vec<Request> = (0..60_000).map(request).collect();
    let load = load_of(&requests);
    let levels = LevelBytes { dram_bytes: 500 * BLOCK_BYTES, ..LevelBytes::default() };
    let exact = lode_plan::SizeOptions { solver: Solver::Exact, ..options(Objective::Hits) };
    let host = Host::find("default").expect("a host");
    let report = |options| {
        let answer = answer(&load, Means::Levels(levels), Wish::Etica, options).expect("an answer");
        answer.report(&load, options, &host, String::new(), &merge(&requests), false).expect("a report")
    };
    let (all, some) = (report(&options(Objective::Hits)), report(&exact));
    let missing = all.totals.dram.sizes_bytes.len() - some.totals.dram.sizes_bytes.len();
    let named = |warning: &&String| warning.contains("The exact solver would take too long for");
    let warning = some.warnings.iter().find(named).expect("a warning");
    assert!(missing > 2 && warning.matches("MiB").count() == missing, "{missing}: {warning}");
    assert!(all.warnings.iter().find(named).is_none());
}
