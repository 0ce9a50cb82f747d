//! The user's own traces: recognised by their figures, and used in place of profiles.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use lode_papers::run::{Folder, RunOptions, Source, Verdict};
use lode_papers::workload::Length;
use lode_papers::{Sources, experiments, run_experiments};
use lode_synth::{Generator, builtin};
use lode_types::RequestOp;

/// A CSV as MSR Cambridge's, of so many requests of a profile, said to be of `host` and `disk`.
fn write_msr(path: &Path, profile: &str, host: &str, disk: u32, requests: usize) {
    let profile = builtin(profile).expect("a good profile").expect("a profile");
    let mut text = String::new();
    for request in Generator::new(&profile).expect("requests").take(requests) {
        let op = if request.op == RequestOp::Read { "Read" } else { "Write" };
        let ticks = 128_166_372_000_000_000 + request.time_ns / 100;
        writeln!(text, "{ticks},{host},{disk},{op},{},{},100", request.offset_bytes, request.length_bytes)
            .expect("memory");
    }
    std::fs::write(path, text).expect("a file");
}

fn options() -> RunOptions {
    RunOptions { length: Length::Tiny, traces: Default::default(), threads: 2, memory_bytes: 1 << 30 }
}

/// web_3 is the smallest volume: 31,000 requests, as recalled.
const WEB_3: usize = 31_000;

#[test]
fn traces_are_taken_for_what_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    write_msr(&at("web_3.csv"), "web_3", "web", 3, WEB_3);
    write_msr(&at("WEB_3.copy.csv"), "web_3", "web", 3, WEB_3);
    write_msr(&at("hm_1.csv"), "web_3", "hm", 1, WEB_3);
    write_msr(&at("ts_0.csv"), "web_3", "web", 3, WEB_3);
    write_msr(&at("usr_0.csv"), "usr_0", "usr", 0, 1000);
    std::fs::write(at("stg_1.csv"), "no trace").expect("a file");
    std::fs::write(at("notes.txt"), "no trace").expect("a file");
    std::fs::write(at("proj_1.csv"), "of a volume that is not needed").expect("a file");
    let needed: BTreeSet<&'static str> =
        ["web_3", "hm_1", "ts_0", "usr_0", "stg_1", "mds_1"].into_iter().collect();
    let found = Folder::look(folder.path(), &needed, &|_| {}).expect("a folder");
    assert_eq!((found.found.len(), found.other_files), (6, 1));
    assert_eq!(found.not_needed, [at("proj_1.csv")]);
    let of = |name: &str| {
        let one = found.found.iter().find(|one| one.path == at(name)).expect("it was looked at");
        one.verdict.clone()
    };
    // The first of two by name.
    assert!(matches!(of("WEB_3.copy.csv"), Verdict::Used { .. }));
    assert!(matches!(of("web_3.csv"), Verdict::Unusable { reason } if reason.contains("already")));
    assert_eq!(
        of("hm_1.csv"),
        Verdict::OtherFigures {
            requests: 609_311,
            read_share: Some(580_896.0 / 609_311.0),
            source: "TICA, table 2"
        }
    );
    assert_eq!(of("ts_0.csv"), Verdict::WrongVolume { is: "web_3" });
    assert!(matches!(of("usr_0.csv"), Verdict::OtherFigures { .. }));
    assert!(matches!(of("stg_1.csv"), Verdict::Unusable { .. }));
    let words = found.in_words().join("\n");
    assert!(words.contains("6 found, 1 used") && words.contains("is not ts_0 but web_3"), "{words}");
    assert!(words.contains("No figure here needs these volumes: proj_1.csv"), "{words}");
    assert!(words.contains("1 file is named after no known volume"), "{words}");
    assert!(words.contains("usr_0.csv is not all of usr_0: 1000 requests"), "{words}");
    assert_eq!(found.by_profile().keys().copied().collect::<Vec<_>>(), ["web_3"]);
}

/// So many requests of web_3 as there should be, all of which read.
#[test]
fn another_share_of_reads_is_called_that() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("web_3.csv");
    let line = |at: usize| format!("{},web,3,Read,{},4096,100\n", 128_166_372_000_000_000 + at, 4096 * at);
    std::fs::write(&path, (0..WEB_3).map(line).collect::<String>()).expect("a file");
    let found = Folder::look(folder.path(), &["web_3"].into_iter().collect(), &|_| {}).expect("a folder");
    assert!(matches!(found.found[0].verdict, Verdict::OtherFigures { .. }), "{found:?}");
    let words = found.in_words().join("\n");
    assert!(words.contains("has as many requests as web_3 and another share of reads"), "{words}");
    assert!(
        words.contains("100.0 % reads, published are 31.4 %") && !words.contains("not all of"),
        "{words}"
    );
}

/// Models of processes and worked examples have no trace.
#[test]
fn where_no_trace_can_be_used_it_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let found = Folder::look(folder.path(), &BTreeSet::new(), &|_| {}).expect("a folder");
    let words = found.in_words().join("\n");
    assert!(words.contains("of what is run here there is no trace whose figures are published"), "{words}");
    assert!(!words.contains("hm_1") && !words.contains("found"), "{words}");
}

/// Recordings that RPAC and TICA used, by the names of their profiles.
#[test]
fn other_recordings_are_known_too() {
    let folder = tempfile::tempdir().expect("a folder");
    write_msr(&folder.path().join("devtoolrel.csv"), "devtoolrel", "dev", 0, 160_539);
    write_msr(&folder.path().join("fiu-mail.csv"), "devtoolrel", "mail", 0, 160_539);
    let needed: BTreeSet<&'static str> = ["devtoolrel", "fiu-mail"].into_iter().collect();
    let found = Folder::look(folder.path(), &needed, &|_| {}).expect("a folder");
    assert_eq!(found.by_profile().keys().copied().collect::<Vec<_>>(), ["devtoolrel"]);
    let words = found.in_words().join("\n");
    assert!(words.contains("fiu-mail.csv is not fiu-mail but devtoolrel"), "{words}");
}

#[test]
fn a_trace_stands_for_its_profile_and_every_table_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    write_msr(&folder.path().join("web_3.csv"), "web_3", "web", 3, WEB_3);
    let chosen: Vec<_> = experiments().filter(|one| one.figure == "10-11" || one.figure == "5").collect();
    let report =
        run_experiments(&chosen, Some(folder.path()), options(), &|_| {}, &|_, _| {}).expect("a run");
    let of = |figure: &str| report.experiments.iter().find(|one| one.figure == figure).expect("it was run");
    assert_eq!(of("10-11").sources, Sources::Mixed);
    assert!(of("10-11").conditions.iter().any(|text| text.contains("From traces") && text.contains("web_3")));
    assert_eq!(of("5").sources, Sources::Example);
    let vms = &report.workloads[0].vms;
    let read: Vec<_> =
        vms.iter().filter(|vm| matches!(vm.source, Source::Trace { .. })).map(|vm| vm.name).collect();
    assert_eq!(read, ["web_3"]);
}

#[test]
fn a_folder_that_is_not_there_is_an_error_and_an_empty_one_is_none() {
    let chosen: Vec<_> = experiments().filter(|one| one.figure == "10-11").collect();
    let run = |path: &Path| run_experiments(&chosen, Some(path), options(), &|_| {}, &|_, _| {});
    let missing = run(Path::new("/nowhere/at/all")).expect_err("no folder").to_string();
    assert!(missing.contains("Cannot look for traces in /nowhere/at/all"), "{missing}");
    let folder = tempfile::tempdir().expect("a folder");
    let report = run(folder.path()).expect("profiles");
    assert_eq!(report.experiments[0].sources, Sources::Synthetic);
    let traces = report.traces.expect("what was found");
    assert!(traces.found.is_empty() && traces.looked_for.contains(&"hm_1"));
    assert!(traces.in_words()[0].contains("0 found, 0 used; profiles stand for the rest"));
}
