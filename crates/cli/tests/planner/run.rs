//! `lode run`.

use std::fs;

use serde_json::Value;

use crate::common::*;

const FILE: &str = r#"
title = "A test"
traces = ["*.csv"]

[[step]]
name = "policies"
command = "compare"
outputs = ["json", "csv"]
options = { schemes = ["lru", "arc"], ssd = ["10%", "1MiB"], each = true, baseline = "lru" }

[[step]]
name = "curve"
command = "curve"
options = { metric = "trd" }
"#;

const PROFILE: &str =
    "[host.mine]\nabout = 'a'\nsource = 's'\ndram = 'ddr4'\nssd = 'nvme'\nbacking = 'hdd-raid5'\n";

fn outcomes(report: &Value) -> Vec<String> {
    list(&report["steps"]).iter().map(|one| one["outcome"].as_str().expect("a word").to_owned()).collect()
}

#[test]
fn an_experiment_is_run_once_and_goes_on_where_it_was() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    let file = folder.path("test.toml");
    fs::write(&file, FILE).expect("a file");
    let run = |more: &[&str]| json(&[&["run", &file][..], more].concat());
    assert_eq!(outcomes(&run(&["--jobs", "2"])), ["done", "done"]);
    let results = folder.path("test.results");
    let read = |name: &str| fs::read_to_string(format!("{results}/{name}")).expect("a result");
    let alone = json(&[
        "compare",
        &trace,
        "--schemes",
        "lru,arc",
        "--ssd",
        "10%,1MiB",
        "--each",
        "--baseline",
        "lru",
    ]);
    assert_eq!(serde_json::from_str::<Value>(&read("policies.json")).expect("JSON"), alone);
    assert!(
        read("policies.csv").starts_with("trace,scheme,") && read("policies.txt").contains("trace by trace")
    );
    let stamp: Value = serde_json::from_str(&read("curve.stamp")).expect("JSON");
    assert_eq!((list(&stamp["inputs"]).len(), list(&stamp["outputs"]).len()), (1, 2));
    assert_eq!(outcomes(&run(&[])), ["up-to-date", "up-to-date"]);
    assert_eq!(outcomes(&run(&["--again"])), ["done", "done"]);
    // A result that was changed, an option, a profile and a trace count.
    fs::write(format!("{results}/policies.csv"), "1").expect("a file");
    assert_eq!(outcomes(&run(&[])), ["done", "up-to-date"]);
    fs::write(folder.path("mine.toml"), PROFILE).expect("a file");
    let file_text = FILE.replace("trd", "urd").replace("each = true", "each = true, devices = \"mine.toml\"");
    fs::write(&file, &file_text).expect("a file");
    assert_eq!(outcomes(&run(&[])), ["done", "done"]);
    fs::write(folder.path("mine.toml"), format!("{PROFILE}# mine\n")).expect("a file");
    assert_eq!(outcomes(&run(&[])), ["done", "up-to-date"]);
    fs::copy(&trace, folder.path("more.csv")).expect("a copy");
    assert_eq!(outcomes(&run(&[])), ["done", "done"]);
    // What fails is told, and the other steps are run all the same.
    fs::write(folder.path("bad.csv"), "no trace").expect("a file");
    let failed = lode(&["run", &file]);
    let message = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{message}");
    assert!(message.contains("policies: failed: ") && message.contains("2 steps failed"), "{message}");
}

#[test]
fn an_experiment_that_cannot_be_is_refused_before_anything_runs() {
    let folder = Folder::new();
    two_vms(&folder);
    let file = folder.path("test.toml");
    for (from, to, expected) in [
        ("\"compare\"", "\"compere\"", "step 'policies': there is no command 'compere'"),
        ("*.csv", "*.none", "no trace is called"),
        ("schemes", "skemes", "Step 'policies': unexpected argument '--skemes'"),
        ("\"csv\"]", "\"gif\"]", "there is no output 'gif'; write one of csv, html, json, png, svg"),
        ("name = \"curve\"", "name = \"policies\"", "two steps are called 'policies'"),
        ("name = \"curve\"", "name = \"../curve\"", "name it with letters"),
        ("metric = \"trd\"", "json = \"x\"", "write outputs = [\"json\"]"),
        ("title", "titel", "titel"),
        ("[[step]]", "[step]", "step"),
    ] {
        assert!(FILE.contains(from), "{from}");
        fs::write(&file, FILE.replace(from, to)).expect("a file");
        let message = bad(&["run", &file], 2);
        assert!(message.contains(expected), "{from}: {message}");
        assert!(!fs::exists(folder.path("test.results")).expect("a folder"));
    }
    assert!(bad(&["run", &folder.path("none.toml")], 1).contains("Cannot read"));
}
