//! What the papers claim, on traces at hand: of committed traces and hostile folders; and `docs/experiments-traces.md`, which
//! public traces make.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use lode_hardware::Host;
use lode_papers::run::RunOptions;
use lode_papers::workload::Length;
use lode_papers::{AtHandRun, Chart, ExperimentReport, Paper, Sources, at_hand, markdown, run_at_hand};
use lode_papers::{page, run_experiments};
use lode_plan::Made;
use lode_policy::{Quota, SchemeInfo};
use lode_replay::{Options, Recording, replay};
use lode_trace::{Merge, MergeOptions, ReadOptions, VmBy, open_trace};
use lode_types::{BlockSize, Level};

const DOCUMENT: &str = include_str!("../../../../docs/experiments-traces.md");

fn options(length: Length, threads: usize) -> RunOptions {
    RunOptions { length, traces: Default::default(), threads, memory_bytes: 1 << 30 }
}

fn run(folder: &Path, papers: &[Paper], length: Length) -> AtHandRun {
    let chosen: Vec<_> = at_hand().filter(|one| papers.contains(&one.paper)).collect();
    run_at_hand(&chosen, folder, &options(length, 2), &|_, _, _| {}).expect("a run")
}

fn of(run: &AtHandRun, paper: Paper) -> &ExperimentReport {
    run.experiments.iter().find(|one| one.paper == paper).expect("a table")
}

/// The number of a claim on a trace.
fn number(report: &ExperimentReport, key: &str, row: &str) -> Option<f64> {
    let claim = report.claims.iter().find(|claim| claim.key == key).expect("a claim");
    let reading = claim.otherwise.iter().find(|reading| reading.reading.starts_with(row));
    reading.unwrap_or_else(|| panic!("{key} has no row {row}: {claim:?}")).measured
}

/// Lines as MSR Cambridge's, from one on to another.
fn msr(host: &str, disk: u32, lines: std::ops::Range<u64>) -> String {
    lines.fold(String::new(), |mut text, at| {
        let op = if at % 3 == 0 { "Read" } else { "Write" };
        let (ticks, offset) = (128_166_372_000_000_000 + 10_000 * at, at * 7919 % 900 * 4096);
        writeln!(text, "{ticks},{host},{disk},{op},{offset},4096,100").expect("memory");
        text
    })
}

#[test]
fn every_paper_is_asked_of_every_committed_trace() {
    let run = run(&lode_testdata::committed("traces"), &Paper::ALL, Length::Tiny);
    let names: Vec<&str> = run.traces.traces.iter().map(|facts| facts.name.as_str()).collect();
    let committed = [
        "arc-oltp",
        "arc-p3",
        "cloudphysics-2h",
        "hplajw-1week",
        "msr-hm_0-sample1k",
        "umass-financial1-first10k",
    ];
    assert_eq!(names, committed);
    assert!(run.traces.traces.iter().all(|facts| facts.synthetic && facts.requests <= 6000));
    // Profiles and a page of text.
    assert_eq!((run.traces.files, run.traces.passed_over.len()), (13, 7), "{:?}", run.traces.passed_over);
    let lists =
        run.traces.passed_over.iter().filter(|line| line.contains("; name one of lode, msr, ")).count();
    let unknown =
        run.traces.passed_over.iter().filter(|line| line.contains(": The trace is in no known format"));
    assert!(lists == 1 && unknown.count() > 1, "{:?}", run.traces.passed_over);
    let papers: Vec<Paper> = run.experiments.iter().map(|one| one.paper).collect();
    assert_eq!(papers, [Paper::Etica, Paper::EciCache, Paper::Tica, Paper::Rpac]);
    for report in &run.experiments {
        assert_eq!((report.figure, report.sources), ("real", Sources::OtherTraces));
        assert!(report.conditions[0].contains("other workloads than the paper's"), "{:?}", report.conditions);
        assert!(
            !report.charts.is_empty() && report.notes.iter().all(|note| !note.starts_with("Not in this"))
        );
        for claim in &report.claims {
            assert!(claim.measured.is_some(), "{}", claim.key);
            for name in committed {
                assert!(
                    claim.otherwise.iter().any(|row| row.reading.starts_with(name)),
                    "{} {name}",
                    claim.key
                );
            }
        }
    }
    let etica = of(&run, Paper::Etica);
    assert!(etica.question.is_some() && etica.notes.iter().any(|note| note.contains("Rank correlation")));
    assert_eq!(number(etica, "etica-real-writes", "arc-p3 (made, reads alone)"), Some(1.0));
    let shown = lode_papers::run_experiments(&[], None, options(Length::Tiny, 2), &|_| {}, &|_, _| {});
    let report = shown.expect("nothing to run").with_at_hand(run);
    let words = markdown(&report, None, "lode paper all --figure real");
    assert!(words.starts_with("# The papers' claims on other traces\n"), "{words}");
    assert!(words.contains("| arc-p3 (made, reads alone) | 6000 |"), "{words}");
    assert!(report.in_short()[0].starts_with("On traces at hand, which are other workloads, "));
    let made = Made { command: "lode paper all".to_owned(), ..Made::default() };
    assert!(page(&report, &made).expect("a page").contains("ETICA, Real"));
}

/// The first requests of a committed trace, replayed by hand.
fn by_hand(name: &str, scheme: &str, pairs: &[(&str, &str)], dram: u64, ssd: u64) -> (f64, f64) {
    let path = lode_testdata::committed(&format!("traces/{name}.lode.zst"));
    let reader = open_trace(&path, &ReadOptions::default()).expect("a trace");
    let merge = MergeOptions { vm_by: VmBy::File, ..MergeOptions::default() };
    let merge = Merge::new(vec![reader], merge).expect("one trace");
    let recording = Recording::of(merge, 1 << 30, &mut |_, _| {}).expect("requests").expect("room");
    assert!(recording.requests() <= 6000, "no longer than what is run");
    let block_size = BlockSize::KIB_4;
    let touched: u64 = recording.touched_blocks(block_size).iter().sum();
    let mut settings = SchemeInfo::find(scheme).expect("a scheme").settings();
    pairs.iter().for_each(|(key, value)| settings.set(key, value).expect("a setting"));
    let part = |of: u64| (touched * of / 10_000) as u32;
    let physical = Quota::default().with(Level::Dram, part(dram)).with(Level::Ssd, part(ssd));
    let host = Host::find("sata-raid5").expect("devices");
    let options = Options { settings, physical, block_size, host, shares: None, daily_ssd_bytes: None };
    let total = replay(recording.play(), &options, Some(1), &mut |_, _| {}).expect("a replay").total;
    (total.mean_latency_us.expect("requests take time"), total.counters.ssd_writes.total as f64)
}

#[test]
fn numbers_are_those_of_a_replay_by_hand() {
    const NAME: &str = "msr-hm_0-sample1k";
    let intervals = |scheme: &str, mode: Option<&'static str>| match mode {
        Some(mode) => {
            let pairs = [
                ("mode", mode),
                ("promotion_clock", "host"),
                ("sizing_interval", "10000"),
                ("promotion_interval", "1000"),
            ];
            by_hand(NAME, scheme, &pairs, 200, 800)
        }
        None => by_hand(NAME, scheme, &[("sizing_interval", "10000"), ("policy_interval", "10000")], 0, 1000),
    };
    let eci = intervals("eci-cache-like", None);
    let (npe, full) = (intervals("etica", Some("npe")), intervals("etica", Some("full-hybrid")));
    let run = run(&lode_testdata::committed("traces"), &[Paper::Etica], Length::Tiny);
    let found = |key| number(of(&run, Paper::Etica), key, NAME).expect("a number");
    let near = |one: f64, other: f64| assert!((one - other).abs() < 1e-12, "{one} and {other}");
    near(found("etica-real-npe"), 1.0 - npe.0 / eci.0);
    near(found("etica-real-full"), 1.0 - full.0 / eci.0);
    near(found("etica-real-writes"), 1.0 - full.1 / eci.1);
}

#[test]
fn traces_that_read_and_write_share_a_host_and_the_number_of_threads_is_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, host) in [("one.csv", "one"), ("two.csv", "two")] {
        std::fs::write(folder.path().join(name), msr(host, 0, 0..3000)).expect("a file");
    }
    let reads = msr("three", 0, 0..3000).replace("Write", "Read");
    std::fs::write(folder.path().join("three.csv"), reads).expect("a file");
    let chosen: Vec<_> = at_hand().collect();
    let of_threads = |threads| {
        let run = run_at_hand(&chosen, folder.path(), &options(Length::Full, threads), &|_, _, _| {});
        run.expect("a run")
    };
    let (one, two) = (of_threads(1), of_threads(2));
    let words = |run: AtHandRun| {
        let nothing = run_experiments(&[], None, options(Length::Full, 1), &|_| {}, &|_, _| {});
        markdown(&nothing.expect("nothing").with_at_hand(run), None, "")
    };
    let etica = of(&one, Paper::Etica);
    let Chart::Bars(bars) = &etica.charts[0] else { panic!("bars") };
    assert_eq!(bars.rows, ["the paper's 12 VMs", "one", "three (reads alone)", "two", "2 VMs of one host"]);
    let on_host = &bars.parts.last().expect("a part").values;
    assert_eq!(on_host.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false, true, false]);
    assert_eq!(words(one), words(two));
}

/// Whatever is in the folder, the traces in it are run, and what is not run is named with the reason.
#[test]
fn hostile_files_are_passed_over_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, content: &[u8]| {
        std::fs::write(folder.path().join(name), content).expect("a file");
    };
    write("good.csv", msr("usr", 7, 0..3000).as_bytes());
    write("single.csv", msr("usr", 6, 0..1).as_bytes());
    write("empty.csv", b"");
    write("garbage.csv", b"\x00\xff\xfe no trace at all \x01\x02");
    write("text.txt", b"Lorem ipsum dolor sit amet\n");
    write("packed.csv.zst", b"\x28\xb5\x2f\xfd this is no frame");
    // Damage behind what is read at first, and a record that no disk has.
    write("damaged.csv", format!("{}no record,,,\n", msr("usr", 8, 0..5500)).as_bytes());
    write("beyond.csv", b"128166372000000000,usr,9,Read,18446744073709547520,4096,100\n");
    // Named after volumes, one of another's content and one of its own.
    write("hm_1.csv", msr("web", 3, 0..3000).as_bytes());
    write("mds_0.csv", msr("mds", 0, 0..3000).as_bytes());
    std::fs::create_dir(folder.path().join("folder.csv")).expect("a folder");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::os::unix::fs::symlink("/nowhere/at/all", folder.path().join("dangling.csv")).expect("a link");
        write("unreadable.csv", b"");
        let unreadable = folder.path().join("unreadable.csv");
        std::fs::set_permissions(unreadable, std::fs::Permissions::from_mode(0o000)).expect("rights");
    }
    let run = run(folder.path(), &[Paper::Etica, Paper::Rpac], Length::Tiny);
    let rows = |paper| {
        let claim = &of(&run, paper).claims[0];
        claim.otherwise.iter().map(|row| row.reading.clone()).collect::<Vec<_>>()
    };
    assert_eq!(rows(Paper::Etica), ["good", "single (reads alone)"]);
    // A volume of the other papers is a trace as any other here.
    assert_eq!(rows(Paper::Rpac), ["good", "mds_0", "single (reads alone)"]);
    let passed_over = &run.traces.passed_over;
    for name in ["empty", "garbage", "text", "packed", "damaged", "beyond", "hm_1", "mds_0"] {
        let lines = passed_over.iter().filter(|line| line.contains(&format!("{name}."))).count();
        assert_eq!(lines, 1, "{name}: {passed_over:#?}");
    }
    assert!(passed_over.iter().any(|line| line.contains("mds_0.csv: named after a workload of etica,")));
    assert!(passed_over.iter().any(|line| line.contains("is not hm_1 but web_3: give it its own name")));
    #[cfg(unix)]
    for name in ["dangling", "unreadable"] {
        assert!(passed_over.iter().any(|line| line.contains(name)), "{name}: {passed_over:#?}");
    }
}

#[test]
fn without_other_traces_there_is_no_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let none = run(folder.path(), &Paper::ALL, Length::Tiny);
    assert!(none.experiments.is_empty() && none.traces.in_words().ends_with("0 files, none of them"));
    std::fs::write(folder.path().join("hm_1.csv"), msr("hm", 1, 0..100)).expect("a file");
    let own = run(folder.path(), &[Paper::Etica, Paper::Tica], Length::Tiny);
    assert!(own.experiments.is_empty(), "it is named after a volume of both");
    let chosen: Vec<_> = at_hand().collect();
    let missing = run_at_hand(&chosen, Path::new("/nowhere"), &options(Length::Tiny, 1), &|_, _, _| {});
    assert!(missing.expect_err("no folder").to_string().contains("Cannot look for traces in /nowhere"));
}

/// Rows of a section of the document, by statement and trace: paper, measured, same direction.
fn documented(paper: Paper) -> HashMap<(String, String), Vec<String>> {
    let section = format!("\n## {}\n", paper.title());
    let section = DOCUMENT.split(section.as_str()).nth(1).expect("a section").split("\n## ").next();
    let (mut rows, mut claim) = (HashMap::new(), String::new());
    for line in section.expect("a section").lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<String> =
            line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
        if cells.len() != 5 {
            continue;
        }
        if !cells[1].is_empty() {
            claim = cells[0].clone();
        }
        rows.insert((claim.clone(), cells[0].clone()), cells[1..4].to_vec());
    }
    rows
}

#[test]
fn the_document_has_every_statement_and_says_how_it_is_made() {
    assert!(
        DOCUMENT.contains(
            "\nlode paper all --figure real --traces traces --markdown docs/experiments-traces.md\n"
        )
    );
    assert!(DOCUMENT.contains("\n#### Why does ETICA's advantage in latency differ so much between traces"));
    for one in at_hand() {
        let documented = documented(one.paper);
        for claim in one.claims {
            let name = format!("{} ({})", claim.about, claim.source);
            let cells = documented.get(&(name.clone(), name.clone()));
            let cells = cells.unwrap_or_else(|| panic!("docs/experiments-traces.md does not have '{name}'"));
            assert_eq!(cells[0], claim.reported.text(claim.shown), "{name}");
        }
    }
}

/// Of public traces that do not take long, where they are: what is documented, digit by digit.
#[test]
fn the_document_is_what_comes_out_on_public_traces() {
    let Some(public) = lode_testdata::public_traces() else {
        println!("skipped: no public traces are here");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let files = ["hplajw-1week.srt.zst", "umass-financial1-first10k.ascii.zst", "msr-hm_0-sample1k.csv.zst"];
    for file in files {
        std::fs::copy(public.join(file), folder.path().join(file)).expect("a public trace");
    }
    let run = run(folder.path(), &Paper::ALL, Length::Reduced);
    let mut compared = 0;
    for report in &run.experiments {
        let documented = documented(report.paper);
        for claim in &report.claims {
            let name = format!("{} ({})", claim.about, claim.source);
            for row in
                claim.otherwise.iter().filter(|row| files.iter().any(|file| file.starts_with(&row.reading)))
            {
                let cells = &documented[&(name.clone(), row.reading.clone())];
                let found = [claim.shown.text(row.measured), row.verdict().to_owned()];
                assert_eq!(cells[1..], found, "{name} on {}; make the document anew", row.reading);
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 3 * at_hand().map(|one| one.claims.len()).sum::<usize>());
}
