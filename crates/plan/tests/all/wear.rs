//! What is said of the SSD's life, and what follows from it.

use lode_hardware::Host;
use lode_plan::{
    LevelBytes, Load, Made, Means, Prices, ReplayedReport, ServeOptions, SizeOptions, SizeReport, VmRule,
    WearReport, Wish, answer, measure, size, size_page,
};
use lode_reuse::Method;
use lode_reuse::sizing::Objective;
use lode_types::{BlockSize, Direction};

use crate::common::{BLOCK_BYTES, Request, merge_paced, stream_options};

/// Every other access writes, to blocks that are read after.
pub fn written_and_read(requests: usize, blocks: u64) -> Vec<Request> {
    let op = |at: usize| if at.is_multiple_of(2) { Direction::Write } else { Direction::Read };
    (0..requests).map(|at| Request { vm: 0, op: op(at), block: at as u64 / 2 % blocks, blocks: 1 }).collect()
}

pub fn load_of(traces: &[(u64, Vec<Request>)]) -> Load {
    measure(&mut merge_paced(traces), &stream_options(1), Method::Exact, &mut |_| {}).expect("a load")
}

pub fn options(objective: Objective) -> SizeOptions {
    SizeOptions {
        objective,
        solver: Default::default(),
        rules: Vec::new(),
        times: Default::default(),
        granule_bytes: 1,
    }
}

pub fn serve(host: &Host, threads: usize) -> ServeOptions<'_> {
    ServeOptions { block_size: BlockSize::KIB_4, host, threads, memory_bytes: 1 << 30 }
}

fn wear_of(traces: &[(u64, Vec<Request>)]) -> WearReport {
    let options = options(Objective::default());
    let levels = LevelBytes { ssd_bytes: 1 << 20, ..LevelBytes::default() };
    let load = load_of(traces);
    let total = size(&load, levels, &options).expect("a plan").total;
    let host = Host::find("default").expect("a host");
    WearReport::new(&load, &host, levels.ssd_bytes, total.ssd_writes, total.ssd_writes_per_s)
}

#[test]
fn a_long_trace_beside_it_does_not_make_an_ssd_last() {
    let busy = (1_000, written_and_read(1001, 16));
    let calm = (100_000, written_and_read(1001, 16));
    let [alone, other] = [&busy, &calm].map(|trace| wear_of(std::slice::from_ref(trace)));
    let both = wear_of(&[busy, calm]);
    // 501 blocks in a second.
    let a_day = 501.0 * BLOCK_BYTES as f64 * 86_400.0;
    assert!((alone.bytes_per_day.expect("a span") / a_day - 1.0).abs() < 1e-9);
    let sum = [&alone, &other].map(|wear| wear.bytes_per_day.expect("a span")).iter().sum::<f64>();
    assert!((both.bytes_per_day.expect("a span") / sum - 1.0).abs() < 1e-9);
    assert!(both.life_years < alone.life_years && alone.life_years.is_some());
    assert_eq!((both.written_bytes, both.span_s), (1002 * BLOCK_BYTES, Some(100.0)));
}

fn replayed(traces: &[(u64, Vec<Request>)], levels: LevelBytes, options: &SizeOptions) -> SizeReport {
    let load = load_of(traces);
    // Its modes are what is to be chosen from.
    let mut answer = answer(&load, Means::Levels(levels), Wish::Etica, options).expect("an answer");
    let host = Host::find("default").expect("a host");
    let open = || Ok(merge_paced(traces));
    answer.replay(&load, &open, &serve(&host, 1), &|_| {}).expect("replays");
    answer.report(&load, options, &host, String::new(), &merge_paced(traces), false).expect("a report")
}

/// Blocks of the SSD that are read over and over, and writes elsewhere that drive them out when they are all taken. A
/// full SSD that turns writes away has the hits; one that takes them has the shorter latency.
fn hot_reads_under_a_stream_of_writes() -> Vec<Request> {
    let one = |op, block| Request { vm: 0, op, block, blocks: 1 };
    let mut requests: Vec<Request> = (0..8).map(|block| one(Direction::Write, block)).collect();
    for round in 0..200 {
        requests.extend((0..12).map(|at| one(Direction::Write, 1000 + (round * 12 + at) * 7)));
        requests.extend((0..8).map(|block| one(Direction::Read, block * 3 % 8)));
    }
    requests
}

#[test]
fn the_mode_follows_the_objective() {
    let traces = [(1_000, hot_reads_under_a_stream_of_writes())];
    let rule = VmRule {
        name: "*".to_owned(),
        weight: None,
        dram_bytes: (None, None),
        ssd_bytes: (Some(8 * BLOCK_BYTES), None),
    };
    let levels = LevelBytes { ssd_bytes: 8 * BLOCK_BYTES, ..LevelBytes::default() };
    let latency = Objective::Latency { cache_us: 120.0, backing_us: 8000.0 };
    for objective in [Objective::Hits, Objective::SumHitRatio, Objective::MaxMin, latency] {
        let options = SizeOptions { rules: vec![rule.clone()], ..options(objective) };
        let report = replayed(&traces, levels, &options);
        let of = |mode: &str| {
            report.replayed.iter().find(|one| one.mode == Some(mode)).expect("both modes are replayed")
        };
        let (spares, takes) = (of("full-hybrid"), of("npe"));
        assert!(spares.read_hit_ratio > takes.read_hit_ratio, "{spares:?} {takes:?}");
        assert!(spares.mean_latency_us > takes.mean_latency_us, "{spares:?} {takes:?}");
        let expected = if objective == latency { "npe" } else { "full-hybrid" };
        assert_eq!(report.mode, Some(expected), "{objective:?}");
        assert!(report.mode_reason.expect("a reason").starts_with("it is best in"));
    }
}

/// Blocks that are read all the time stay, whether a few writes elsewhere are taken or turned away. So the modes are alike in
/// hits; writes that wait for the disk make one slower, unless reads that do are most of the time anyway.
#[test]
fn near_ties_are_decided_by_latency_and_then_by_wear() {
    let one = |op, block| Request { vm: 0, op, block, blocks: 1 };
    let requests = |cold_reads: u64, rounds: u64| {
        let mut requests: Vec<Request> = (0..8).map(|block| one(Direction::Write, block)).collect();
        for round in 0..rounds {
            requests.extend((0..40).map(|at| one(Direction::Read, at * 3 % 8)));
            requests.push(one(Direction::Write, 1000 + round * 7));
        }
        requests.extend((0..cold_reads).map(|at| one(Direction::Read, 100_000 + at * 9)));
        requests
    };
    let levels = LevelBytes { ssd_bytes: 16 * BLOCK_BYTES, ..LevelBytes::default() };
    for objective in [Objective::Hits, Objective::SumHitRatio, Objective::MaxMin] {
        for (cold_reads, rounds, expected) in
            [(0, 50, "less time than those of"), (10_000, 50, "lasts longest")]
        {
            let report = replayed(&[(1_000, requests(cold_reads, rounds))], levels, &options(objective));
            let least = |figure: fn(&ReplayedReport) -> f64| {
                report.replayed.iter().map(figure).fold(f64::INFINITY, f64::min)
            };
            let taken = report.replayed.iter().find(|one| one.mode == report.mode).expect("a mode");
            let other = report.replayed.iter().find(|one| one.mode != report.mode).expect("a mode");
            let latency = |one: &ReplayedReport| one.mean_latency_us.unwrap_or(0.0);
            let written = |one: &ReplayedReport| one.wear.written_bytes as f64;
            assert!(written(taken) != written(other), "the modes differ");
            if cold_reads == 0 {
                assert_eq!(latency(taken), least(latency));
                assert!(written(taken) > written(other), "speed comes before wear");
            } else {
                assert_eq!(written(taken), least(written));
            }
            let reason = report.mode_reason.as_ref().expect("a reason");
            assert!(reason.contains(expected) && reason.contains(" %"), "{reason}");
        }
    }
}

/// What is recommended is the one level where that is better, and the two levels where they are asked for.
#[test]
fn the_better_one_is_recommended_unless_another_is_wished_for() {
    // Blocks read again and again, more of them than DRAM holds: an SSD that keeps what is read has the hits.
    let one = |op, block| Request { vm: 0, op, block, blocks: 1 };
    let read: Vec<Request> = (0..6000).map(|at| one(Direction::Read, at * 7 % 300)).collect();
    let traces = [(1_000, read)];
    let levels =
        LevelBytes { dram_bytes: 64 * BLOCK_BYTES, ssd_bytes: 64 * BLOCK_BYTES, ..LevelBytes::default() };
    let load = load_of(&traces);
    let host = Host::find("default").expect("a host");
    let options = options(Objective::Latency { cache_us: 120.0, backing_us: 8000.0 });
    let report = |wish: Wish| {
        let mut answer = answer(&load, Means::Levels(levels), wish, &options).expect("an answer");
        answer.replay(&load, &|| Ok(merge_paced(&traces)), &serve(&host, 1), &|_| {}).expect("replays");
        let merge = merge_paced(&traces);
        answer.report(&load, &options, &host, String::new(), &merge, false).expect("a report")
    };
    let best = report(Wish::Best);
    let instead = best.one_level.as_ref().expect("some money");
    let recommended = &best.recommended;
    assert_eq!((&recommended.label, &recommended.levels), (&instead.label, &instead.levels));
    assert_eq!(recommended.mean_latency_us, instead.mean_latency_us);
    assert!(best.replayed.iter().all(|both| both.mean_latency_us > recommended.mean_latency_us), "{best:?}");
    assert!(recommended.reason.ends_with("the simplest of these"), "{}", recommended.reason);
    assert!(recommended.sentence.contains("a request takes") && recommended.sentence.contains("instead of"));
    assert!(best.without_cache_us > recommended.mean_latency_us);
    // Nothing is advised about levels that nobody is told to buy.
    assert!(!best.advice.iter().any(|text| text.contains("DRAM")), "{:?}", best.advice);
    let two = report(Wish::Etica);
    assert_eq!((two.recommended.scheme.as_str(), two.recommended.levels), ("etica", levels));
    assert!(two.advice.iter().any(|text| text.contains("DRAM")), "{:?}", two.advice);
}

/// A full SSD that takes every write sends as many back to the disk, which the latency of a request does not show.
#[test]
fn a_disk_that_cannot_keep_up_is_named() {
    let writes = |blocks: u64, pace_us: u64| {
        let one = |at: u64| Request { vm: 0, op: Direction::Write, block: at * 7 % blocks, blocks: 1 };
        [(pace_us, (0..4000).map(one).collect::<Vec<_>>())]
    };
    let levels = LevelBytes { dram_bytes: 0, ssd_bytes: 64 * BLOCK_BYTES, ..LevelBytes::default() };
    let all_of_it = VmRule {
        name: "*".to_owned(),
        weight: None,
        dram_bytes: (None, None),
        ssd_bytes: (Some(levels.ssd_bytes), None),
    };
    let latency = Objective::Latency { cache_us: 120.0, backing_us: 8000.0 };
    let latency = SizeOptions { rules: vec![all_of_it], ..options(latency) };
    let busy = |report: &SizeReport| {
        report.advice.iter().any(|text| text.contains("backing disks could not keep up"))
    };
    // The same writes, a millisecond and a second apart.
    for (pace_us, expected) in [(1_000, true), (1_000_000, false)] {
        let report = replayed(&writes(1000, pace_us), levels, &latency);
        assert_eq!(report.mode, Some("npe"), "whose writes all go to the SSD");
        let taken = report.replayed.iter().find(|one| one.mode == report.mode).expect("replayed");
        let backing = taken.utilisation.expect("times").backing;
        assert!(taken.mean_latency_us.is_some_and(|us| us < 200.0), "fast, as far as a request tells");
        assert_eq!((backing > 1.0, busy(&report)), (expected, expected), "{backing}: {:?}", report.advice);
    }
    // What fits stays.
    let fits = replayed(&writes(60, 1_000), levels, &latency);
    assert!(!busy(&fits), "{:?}", fits.advice);
}

/// What the page says at first is what the profile says: one life for the same writes.
#[test]
fn the_page_starts_from_the_rating_of_the_profile() {
    let traces = [(1_000_000, written_and_read(2000, 16))];
    let levels = LevelBytes { ssd_bytes: 64 * BLOCK_BYTES, ..LevelBytes::default() };
    for name in ["default", "nvme-hdd"] {
        let load = load_of(&traces);
        let options = options(Objective::Hits);
        let host = Host::find(name).expect("a host");
        let answer = answer(&load, Means::Levels(levels), Wish::Best, &options).expect("an answer");
        let report = answer
            .report(&load, &options, &host, String::new(), &merge_paced(&traces), true)
            .expect("a report");
        let rating = report.ssd_rating;
        let page = size_page(&report, &Made::default()).expect("a page");
        for value in [rating.drive_writes_per_day, rating.years] {
            // Four digits are more than a life is shown with.
            let shown: f64 = format!("{value:.3e}").parse().expect("a number");
            assert!((shown / value - 1.0).abs() < 5e-4);
            assert!(page.contains(&format!("value=\"{shown}\"")), "{name}: {shown}");
        }
        // What the page works out is what the report says.
        let per_day = report.totals.ssd_bytes_per_day.expect("times")[report.totals.ssd.asked];
        let years = levels.ssd_bytes as f64 * rating.drive_writes_per_day * rating.years / per_day;
        assert!((years / report.wear.life_years.expect("a life") - 1.0).abs() < 1e-9, "{name}");
    }
}

/// The picture of a budget names every pair, marks the one that was chosen, and calls each as its row is called.
#[test]
fn the_picture_of_a_budget_names_its_pairs() {
    let one = |op, block| Request { vm: 0, op, block, blocks: 1 };
    let mixed =
        |at: u64| one(if at.is_multiple_of(4) { Direction::Write } else { Direction::Read }, at * at % 997);
    let traces = [(1_000, (0..6000).map(mixed).collect::<Vec<_>>())];
    let load = load_of(&traces);
    let host = Host::find("default").expect("a host");
    let options = options(Objective::Latency { cache_us: 120.0, backing_us: 8000.0 });
    let means = Means::Budget { usd: 0.02, prices: Prices::of(&host) };
    let answer = answer(&load, means, Wish::Best, &options).expect("an answer");
    let merge = merge_paced(&traces);
    let report = answer.report(&load, &options, &host, String::new(), &merge, true).expect("a report");
    let front = report.front.as_ref().expect("a budget");
    assert!(front.len() > 2, "{}", front.len());
    let page = size_page(&report, &Made::default()).expect("a page");
    let rows: Vec<&str> =
        page.split("<th scope=\"row\">").skip(1).filter_map(|rest| rest.split('<').next()).collect();
    let pairs: Vec<&str> = rows.into_iter().filter(|name| name.contains(" + ")).collect();
    assert_eq!(pairs.len(), front.len(), "{pairs:?}");
    let mut names = pairs.clone();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), pairs.len(), "no two are called the same: {pairs:?}");
    let chosen: Vec<&&str> = pairs.iter().filter(|name| name.ends_with(", this plan")).collect();
    let of_plan = format!("{} + ", lode_types::show_size(report.levels.dram_bytes));
    assert!(matches!(&chosen[..], [name] if name.starts_with(&of_plan)), "{chosen:?}");
    // The chart's data have the same names.
    pairs.iter().for_each(|name| assert!(page.contains(&format!("\"{name}\"")), "{name}"));
}
