//! What serves a plan's two levels: `auto`, unless something else is better by the rules, or is asked for.

use lode_engine::EngineConfig;
use lode_format::ExtentLayout;
use lode_hardware::Host;
use lode_plan::{
    Answer, LeftOut, LevelBytes, Load, Means, ServeOptions, SizeOptions, SizeReport, VmRule, Wish, answer,
};
use lode_policy::{Quota, SchemeInfo};
use lode_replay::{Options, most_memory_bytes, replay};
use lode_reuse::sizing::Objective;
use lode_types::{BlockSize, Direction, Level};

use crate::common::{BLOCK_BYTES, Request, merge_paced};
use crate::wear::{load_of, options, serve};

const LATENCY: Objective = Objective::Latency { cache_us: 120.0, backing_us: 8000.0 };

fn read(block: u64) -> Request {
    Request { vm: 0, op: Direction::Read, block, blocks: 1 }
}

fn levels(dram_blocks: u64, ssd_blocks: u64) -> LevelBytes {
    LevelBytes {
        dram_bytes: dram_blocks * BLOCK_BYTES,
        ssd_bytes: ssd_blocks * BLOCK_BYTES,
        ..LevelBytes::default()
    }
}

/// Blocks that are read again and again and written now and then, under a stream of writes that lie one after the other on the
/// disk and come once: what keeps the former has the hits, and the latter are done as fast without a cache.
fn hot_blocks_under_a_stream() -> Vec<Request> {
    let one = |at: u64| match at % 3 {
        0 => {
            let op = if (at / 3).is_multiple_of(10) { Direction::Write } else { Direction::Read };
            Request { vm: 0, op, block: at / 3 * 7 % 97 * 10, blocks: 1 }
        }
        _ => Request { vm: 0, op: Direction::Write, block: 10_000 + at * 8, blocks: 8 },
    };
    (0..12_000).map(one).collect()
}

/// Blocks that are read in turn, which more SSD holds and less does not.
fn a_loop() -> Vec<Request> {
    (0..6000).map(|at| read(at * 7 % 300)).collect()
}

struct Planned {
    load: Load,
    host: Host,
    options: SizeOptions,
    traces: [(u64, Vec<Request>); 1],
    answer: Answer,
}

impl Planned {
    fn new(requests: Vec<Request>, levels: LevelBytes, wish: Wish) -> Planned {
        Planned::with_rules(requests, levels, wish, Vec::new())
    }

    fn with_rules(requests: Vec<Request>, levels: LevelBytes, wish: Wish, rules: Vec<VmRule>) -> Planned {
        let traces = [(1_000, requests)];
        let (load, host) = (load_of(&traces), Host::find("default").expect("a host"));
        let options = SizeOptions { rules, ..options(LATENCY) };
        let answer = answer(&load, Means::Levels(levels), wish, &options).expect("an answer");
        Planned { load, host, options, traces, answer }
    }

    fn replay(&mut self, memory_bytes: u64) -> Option<LeftOut> {
        let serve = ServeOptions { memory_bytes, ..serve(&self.host, 2) };
        let open = || Ok(merge_paced(&self.traces));
        self.answer.replay(&self.load, &open, &serve, &|_| {}).expect("replays")
    }

    fn report(&self) -> SizeReport {
        let merge = merge_paced(&self.traces);
        let report = self.answer.report(&self.load, &self.options, &self.host, String::new(), &merge, false);
        report.expect("a report")
    }

    fn replayed(requests: Vec<Request>, levels: LevelBytes, wish: Wish) -> SizeReport {
        let mut planned = Planned::new(requests, levels, wish);
        assert_eq!(planned.replay(1 << 30), None);
        planned.report()
    }
}

fn labels(report: &SizeReport) -> Vec<&str> {
    report.replayed.iter().map(|one| one.label.as_str()).collect()
}

const ETICA: [&str; 2] = ["etica:assoc=0:mode=full-hybrid:sizing=off", "etica:assoc=0:sizing=off"];

#[test]
fn auto_is_recommended_where_it_is_better() {
    let report = Planned::replayed(hot_blocks_under_a_stream(), levels(100, 100), Wish::Best);
    assert_eq!(labels(&report), ["auto", ETICA[0], ETICA[1]]);
    let recommended = &report.recommended;
    assert_eq!((recommended.label.as_str(), recommended.scheme.as_str()), ("auto", "auto"));
    assert!(recommended.settings.is_empty() && recommended.is_of_two_levels());
    assert_eq!((report.two_levels.as_deref(), report.mode), (Some("auto"), None));
    let others = report.replayed[1..].iter().map(|one| one.mean_latency_us);
    let others = others.chain([report.one_level.as_ref().expect("money").mean_latency_us]);
    assert!(others.into_iter().all(|us| us > recommended.mean_latency_us), "{report:?}");
    assert!(recommended.reason.starts_with("it is best in mean latency"), "{}", recommended.reason);
    // What was replayed is the plan with the scheme as it is where nothing is set.
    let vm = &report.vms[0].share;
    let share = Quota::new(vm.dram_blocks as u32, vm.ssd_blocks as u32);
    let alone = Options {
        settings: SchemeInfo::find("auto").expect("a scheme").settings(),
        physical: share,
        block_size: BlockSize::KIB_4,
        host: Host::find("default").expect("a host"),
        shares: Some(vec![share]),
        daily_ssd_bytes: None,
    };
    let traces = [(1_000, hot_blocks_under_a_stream())];
    let expected = replay(merge_paced(&traces), &alone, Some(1), &mut |_, _| {}).expect("a report");
    assert_eq!(recommended.mean_latency_us, expected.total.mean_latency_us);
}

#[test]
fn another_is_recommended_where_it_is_better_by_the_rules() {
    // More SSD for the money of the DRAM.
    let one = Planned::replayed(a_loop(), levels(64, 64), Wish::Best);
    assert_eq!(one.recommended.label, "lru:assoc=0", "{}", one.recommended.reason);
    // With `auto` it is no better there, and less simple.
    let of_auto = one.one_level_of_auto.as_ref().expect("money");
    assert!(of_auto.mean_latency_us > one.recommended.mean_latency_us.map(|us| 0.99 * us), "{of_auto:?}");
    let reason = "no other is better by 1 % in mean latency or wear, and it is the simplest of these";
    assert_eq!(one.recommended.reason, reason);
    assert!(one.replayed.iter().all(|both| both.mean_latency_us > one.recommended.mean_latency_us));
}

/// Blocks that are read once fill an SSD that keeps what is read, and serve nobody there: both modes of another scheme leave them
/// out, so that with either the SSD lasts longer.
#[test]
fn another_that_is_as_fast_and_spares_the_ssd_is_recommended_and_says_so() {
    let write = |at: u64| Request { vm: 0, op: Direction::Write, block: at * 5, blocks: 1 };
    let hot = || (0..40).map(write).chain((0..40).map(|at| read(at * 5)));
    let requests = hot().chain((0..6000).map(|at| read(10_000 + at * at))).collect();
    let report = Planned::replayed(requests, levels(8, 64), Wish::Best);
    let written = |label: &str| {
        let replayed = report.replayed.iter().find(|one| one.label == label).expect("replayed");
        replayed.wear.written_bytes
    };
    assert!(written(ETICA[0]) == written(ETICA[1]) && written(ETICA[0]) < written("auto"), "{report:?}");
    assert_eq!(report.recommended.label, ETICA[0], "the simpler of two");
    let reason = &report.recommended.reason;
    assert!(reason.contains("and no slower, and with it the SSD lasts longest: "), "{reason}");
    assert!(reason.ends_with(" with auto") || reason.ends_with(" with lru:assoc=0"), "{reason}");
}

/// Where nothing is to be had by any of them, and none writes to an SSD, it is the scheme of whoever does not choose.
#[test]
fn a_tie_is_for_the_default() {
    let report = Planned::replayed((0..2000).map(|at| read(at * 3)).collect(), levels(64, 0), Wish::Best);
    assert_eq!(report.recommended.label, "auto");
    let reason = "no other is better by 1 % in mean latency or wear, and it is the default";
    assert_eq!(report.recommended.reason, reason);
}

#[test]
fn a_scheme_that_is_asked_for_is_planned_for_alone() {
    for (wish, label, replayed) in [(Wish::Auto, "auto", &["auto"][..]), (Wish::Etica, ETICA[0], &ETICA[..])]
    {
        // One level would be better.
        let report = Planned::replayed(a_loop(), levels(64, 64), wish.clone());
        assert!(report.one_level.as_ref().expect("money").is_faster);
        assert_eq!((report.recommended.label.as_str(), labels(&report)), (label, replayed.to_vec()));
        assert_eq!(report.two_levels.as_deref(), Some(label));
        let planned = Planned::new(a_loop(), levels(64, 64), wish);
        assert_eq!(planned.answer.replays(), replayed.len() + 2);
    }
    let arc = Wish::OneLevel(SchemeInfo::find("arc").expect("a scheme").settings());
    let report = Planned::replayed(a_loop(), levels(64, 64), arc);
    assert_eq!((report.recommended.label.as_str(), report.replayed.len()), ("arc", 3));
}

/// Without a replay nothing is known of any of them.
#[test]
fn what_is_not_replayed_is_the_default() {
    let report = Planned::new(a_loop(), levels(64, 64), Wish::Best).report();
    assert_eq!((report.recommended.label.as_str(), report.two_levels), ("auto", None));
    assert!(report.recommended.host_memory.is_some(), "that is known without one");
    let report = Planned::new(a_loop(), levels(64, 64), Wish::Etica).report();
    assert_eq!(report.recommended.label, ETICA[0], "the mode that spares the SSD");
}

/// The memory that is told is what an engine with the share takes, of each of those that are compared.
#[test]
fn the_memory_of_tables_is_told() {
    let report = Planned::replayed(hot_blocks_under_a_stream(), levels(64, 512), Wish::Best);
    let engine = |scheme: &str, set: &[(&str, &str)], [dram, ssd]: [u64; 2]| {
        let mut settings = SchemeInfo::find(scheme).expect("a scheme").settings();
        set.iter().for_each(|(key, value)| settings.set(key, value).expect("a setting"));
        let config = EngineConfig::new(BlockSize::KIB_4, 1 << 40, Quota::new(dram as u32, ssd as u32));
        let places = ExtentLayout::new(1 << 20, BlockSize::KIB_4).expect("a layout").places;
        let memory = config.most_memory(&settings, places);
        (memory.frames_bytes, memory.tables_bytes())
    };
    let told = |memory: Option<lode_plan::HostMemory>| {
        let memory = memory.expect("it is told");
        (memory.frames_bytes, memory.tables_bytes)
    };
    // Each with its own.
    let share = |at: usize| Level::SIZED.map(|level| report.replayed[at].shares[0].of(level));
    let of_etica = |mode| [("sizing", "off"), ("assoc", "0"), ("mode", mode)];
    let expected = [
        engine("auto", &[], share(0)),
        engine("etica", &of_etica("full-hybrid"), share(1)),
        engine("etica", &of_etica("npe"), share(2)),
    ];
    assert_eq!(report.replayed.iter().map(|one| told(one.host_memory)).collect::<Vec<_>>(), expected);
    let one_level = report.one_level.as_ref().expect("money");
    assert_eq!(
        told(one_level.host_memory),
        engine("lru", &[("assoc", "0")], [0, one_level.shares_blocks[0]])
    );
    let recommended = &report.recommended;
    assert_eq!((recommended.scheme.as_str(), told(recommended.host_memory)), ("auto", expected[0]));
    assert!(recommended.sentence.contains(", whose tables take at most "), "{}", recommended.sentence);
    assert!(expected[0].1 > expected[2].1, "auto knows more of each block");
    // So little is not worth advice.
    assert!(!report.advice.iter().any(|text| text.starts_with("Tables of")), "{:?}", report.advice);
}

/// Levels whose tables are more than a host would give unasked.
#[test]
fn tables_that_take_much_are_advised_about() {
    let rule = VmRule {
        name: "*".to_owned(),
        weight: None,
        dram_bytes: (None, None),
        ssd_bytes: (Some(4 << 30), None),
    };
    let of = |wish| {
        let planned = Planned::with_rules(a_loop(), levels(64, 1 << 20), wish, vec![rule.clone()]);
        planned.report()
    };
    let about =
        |report: &SizeReport| report.advice.iter().find(|text| text.starts_with("Tables of")).cloned();
    let report = of(Wish::Best);
    let sentence = about(&report).expect("a sentence");
    let tables = lode_types::show_size(report.recommended.host_memory.expect("told").tables_bytes);
    let expected = format!("Tables of auto take at most {tables} of host memory beside the levels, ");
    assert!(sentence.starts_with(&expected), "{sentence}");
    assert!(sentence.contains(" more than those of etica mode=npe; as DRAM that would cost "), "{sentence}");
}

/// What its replay takes is the bound of its own tables, and where that is too much the others are still replayed.
#[test]
fn where_its_replay_does_not_fit_the_others_decide() {
    let blocks = 40_000_u64;
    let op = |at: u64| if at < blocks { Direction::Write } else { Direction::Read };
    let one = |at: u64| Request { vm: 0, op: op(at), block: at * 7 % blocks, blocks: 1 };
    let requests = || (0..2 * blocks).map(one).collect::<Vec<_>>();
    let mut planned = Planned::new(requests(), levels(1_000, 4_000), Wish::Best);
    let shares: Vec<Quota> = planned
        .answer
        .plan()
        .vms
        .iter()
        .map(|vm| Quota::new(vm.share_blocks[0] as u32, vm.share_blocks[1] as u32))
        .collect();
    let needed = most_memory_bytes(
        &Options {
            settings: SchemeInfo::find("auto").expect("a scheme").settings(),
            physical: Quota::new(1_000, 4_000),
            block_size: BlockSize::KIB_4,
            host: planned.host.clone(),
            shares: Some(shares),
            daily_ssd_bytes: None,
        },
        &planned.load.vms.iter().map(lode_plan::VmLoad::most_distinct_blocks).collect::<Vec<_>>(),
    );
    // On one level there is more to keep track of.
    let left_out = planned.replay(needed).expect("too little for it");
    assert!(
        left_out
            .reason
            .starts_with("one SSD level for the same money is not replayed with auto: that may take"),
        "{}",
        left_out.reason
    );
    assert_eq!((labels(&planned.report()).len(), planned.report().one_level_of_auto), (3, None));
    let enough = left_out.needed_bytes.filter(|&enough| enough > needed).expect("more than for the plan");
    assert_eq!(planned.replay(enough), None);
    assert!(planned.report().one_level_of_auto.is_some());
    let left_out = planned.replay(needed - 1).expect("a byte too little");
    assert_eq!(left_out.needed_bytes, Some(enough));
    assert!(
        left_out.reason.starts_with("the plan is not replayed with auto: that may take"),
        "{}",
        left_out.reason
    );
    let report = planned.report();
    assert_eq!(labels(&report), ETICA);
    assert!(report.recommended.scheme != "auto", "{}", report.recommended.reason);
    // Alone it is all there is.
    let mut planned = Planned::new(requests(), levels(1_000, 4_000), Wish::Auto);
    let left_out = planned.replay(needed - 1).expect("a byte too little");
    assert!(left_out.reason.starts_with("the plan is not replayed, so that wear is an upper bound"));
    assert!(planned.answer.replayed.is_empty() && planned.answer.one_level.is_none());
}
