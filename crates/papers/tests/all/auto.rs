//! `auto` beside every single scheme, on few workloads and at a short length; and `docs/auto.md`, which a whole run makes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lode_papers::auto::{AutoOptions, AutoReport, auto_markdown, auto_page, run_auto};
use lode_papers::workload::Length;
use lode_plan::Made;

const DOCUMENT: &str = include_str!("../../../../docs/auto.md");

/// Ratios of a short run are this far from those of a whole one at most, with so many of a hundred that may be farther.
const NEAR: f64 = 0.15;
const FAR_PERCENT: usize = 20;

fn run(traces: Option<&Path>, only: Option<&[&str]>, length: Length) -> AutoReport {
    let only = only.map(|names| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>());
    let options = AutoOptions { length, traces, only, threads: 2, memory_bytes: 1 << 30 };
    run_auto(&options, &|_, _| {}).expect("a run")
}

/// The ratio of each workload at each size, as the document has it.
fn documented() -> BTreeMap<(String, String), f64> {
    let section = DOCUMENT.split("## ").find(|part| part.starts_with("Without a budget")).expect("a section");
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    let rows = section.lines().filter(|line| line.starts_with("| ")).map(cells);
    let rows = rows.filter_map(|cells: Vec<String>| {
        let name = cells[0].trim_end_matches(" †").trim_end_matches(" *made*").to_owned();
        Some(((name, cells[1].clone()), cells.get(4)?.parse().ok()?))
    });
    rows.collect()
}

/// Of profiles alone, which every machine has.
#[test]
fn a_short_run_is_near_what_is_documented() {
    let report = run(None, None, Length::Tiny);
    let documented = documented();
    let mut far = Vec::new();
    for case in &report.cases {
        let name = (case.workload.clone(), case.percent.to_string());
        let known = documented.get(&name).unwrap_or_else(|| {
            panic!("docs/auto.md does not have {name:?}; make it anew with the command at its head")
        });
        let found = case.ratio.expect("requests take time");
        if (found / known - 1.0).abs() > NEAR {
            far.push(format!("{name:?}: {known} documented, {found:.3} found"));
        }
    }
    println!("{} compared, far: {far:#?}", report.cases.len());
    assert!(report.cases.len() >= 56);
    assert!(100 * far.len() <= FAR_PERCENT * report.cases.len(), "{far:#?}");
}

/// No window of a tenth has more than 2 % beyond its part of a budget, or than 5 blocks where that is more: of committed traces as
/// they are, and of public ones where they are.
#[test]
fn budgets_are_kept_in_every_tenth_of_a_trace() {
    let committed = lode_testdata::committed("traces");
    let folders = [Some(committed), lode_testdata::public_traces()];
    for folder in folders.into_iter().flatten() {
        let names = ["cloudphysics-2h", "hplajw-1week", "umass-financial1-first10k", "msr-hm_0-sample1k"];
        let report = run(Some(&folder), Some(&names), Length::Full);
        assert_eq!(report.cases.len(), 2 * names.len());
        for case in &report.cases {
            let budget = case.budget.as_ref().expect("something is written");
            let name = format!("{} at {} %", case.workload, case.percent);
            println!("{name}: {budget:?}");
            assert!(budget.most_over <= 0.02 || budget.most_over_blocks <= 5.0, "{name}: {budget:?}");
            assert!(budget.auto.ssd_writes > budget.allowed_blocks / 20, "{name}: {budget:?}");
        }
    }
}

#[test]
fn everything_is_shown() {
    let mut report = run(None, Some(&["prxy_0", "web_3"]), Length::Tiny);
    assert_eq!(report.cases.iter().map(|case| case.percent).collect::<Vec<_>>(), [5, 25, 5, 25]);
    for case in &report.cases {
        let schemes: Vec<&str> = case.schemes.iter().map(|one| one.scheme).collect();
        assert!(
            schemes.len() > 20 && ["lru", "etica", "benefit-density"].iter().all(|one| schemes.contains(one))
        );
        assert!(case.synthetic && case.requests > 1000 && case.best.is_some());
        let best_us = case.best.and_then(|best| best.latency_us).expect("requests take time");
        assert!(case.schemes.iter().filter_map(|one| one.latency_us).all(|us| us >= best_us));
    }
    let words = auto_markdown(&report, "lode paper auto");
    assert!(words.contains("| prxy_0 *made* | 5 | `") && words.contains("| web_3 *made* | 5 | `"), "{words}");
    every_scheme_has_its_ratio(&report, &words);
    let made = Made { command: "lode paper auto".to_owned(), ..Made::default() };
    assert!(auto_page(&report, &made).expect("a page").contains("With a budget of SSD writes"));
    // Where no workload can be given a budget there is a page all the same.
    report.cases.iter_mut().for_each(|case| case.budget = None);
    assert!(!auto_page(&report, &made).expect("a page").contains("With a budget of SSD writes"));
}

/// A row for each case and a column for each scheme, with and without a budget: to `auto`, or a dash for what breaks the budget.
fn every_scheme_has_its_ratio(report: &AutoReport, words: &str) {
    for (title, budgeted) in
        [("## Every single scheme\n", false), ("## Every single scheme with a budget\n", true)]
    {
        let section = words.split(title).nth(1).expect("a section").split("\n## ").next().expect("a section");
        let lines: Vec<Vec<&str>> = section
            .lines()
            .filter(|line| line.starts_with("| "))
            .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
            .collect();
        assert_eq!(lines.len(), 1 + report.cases.len(), "{section}");
        let column = lines[0].iter().position(|title| *title == "`lru`").expect("a column");
        for (cells, case) in lines[1..].iter().zip(&report.cases) {
            let lru = case.schemes.iter().find(|one| one.scheme == "lru").expect("it was run");
            let ratio = lru.latency_us.expect("it takes time") / case.auto.latency_us.expect("it takes time");
            // The budget is half of what lru writes.
            let shown = if budgeted { "-".to_owned() } else { format!("{ratio:.2}") };
            assert_eq!(cells[column], shown, "{section}");
        }
    }
}

/// A budget for each hundred accesses, then.
#[test]
fn times_that_are_all_the_same_do_not_keep_a_trace_from_a_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = |at: u64| format!("128166372003061629,host,0,Write,{},4096,100\n", at * 7919 % 500 * 4096);
    std::fs::write(folder.path().join("still.csv"), (0..3000).map(line).collect::<String>()).expect("room");
    let report = run(Some(folder.path()), Some(&["still"]), Length::Full);
    for case in &report.cases {
        let budget = case.budget.as_ref().expect("something is written");
        assert!(budget.write_budget.parse::<f64>().is_ok(), "{budget:?}");
    }
    assert_eq!(report.cases.len(), 2);
}

/// What the aim allows above the best single scheme.
const AIM: f64 = 0.03;

/// Whoever does not choose a scheme loses no more than the aim allows: on profiles of which a short run is enough to learn, on the committed
/// recordings as they are, and on the first requests of the public ones where they are.
#[test]
fn nobody_has_to_choose() {
    let profiles = ["devtoolrel", "fiu-webvm", "hm_1", "mds_0", "ts_0", "usr_0"];
    let committed = lode_testdata::committed("traces");
    let recordings = ["hplajw-1week", "msr-hm_0-sample1k", "umass-financial1-first10k"];
    let mut reports = vec![
        run(None, Some(&profiles), Length::Reduced),
        run(Some(&committed), Some(&recordings), Length::Full),
    ];
    match lode_testdata::public_traces() {
        Some(folder) => {
            let more = ["arc-oltp", "cloudphysics-w106-lbn", "msr-cut-rw20_80-10k"];
            let names = [&recordings[..], &more].concat();
            reports.push(run(Some(&folder), Some(&names), Length::Reduced));
        }
        None => println!("No public traces: auto was not held to its aim on them"),
    }
    for case in reports.iter().flat_map(|report| &report.cases) {
        let (ratio, best) = (case.ratio.expect("requests take time"), case.best.expect("a scheme").scheme);
        println!("{} at {} %: {ratio:.4} of {best}", case.workload, case.percent);
        assert!(ratio <= 1.0 + AIM, "{} at {} %: {ratio:.4} of {best}", case.workload, case.percent);
    }
    assert_eq!(reports.iter().map(|report| report.cases.len()).collect::<Vec<_>>()[..2], [12, 6]);
}
