//! `lode paper`: a figure that takes no time, its outputs, and what is refused.

use std::process::{Command, Output};

use serde_json::Value;

fn lode(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lode")).args(arguments).output().expect("it starts")
}

fn good(arguments: &[&str]) -> String {
    let output = lode(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn refused(arguments: &[&str]) -> String {
    let output = lode(arguments);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}");
    String::from_utf8(output.stderr).expect("UTF-8")
}

#[test]
fn a_worked_example_comes_out_everywhere() {
    let text = good(&["paper", "etica", "--figure", "9"]);
    assert!(text.contains("ETICA, Figs. 8 to 9") && text.contains("4 of 4 measured statements"), "{text}");
    let json: Value =
        serde_json::from_str(&good(&["paper", "etica", "--figure", "9", "--json"])).expect("JSON");
    let claim = &json["experiments"][0]["claims"][3];
    assert_eq!((&claim["key"], &claim["measured"]), (&"etica-9-pod".into(), &1.0.into()));
    assert_eq!((&json["experiments"][0]["sources"], &json["traces"]), (&"example".into(), &Value::Null));
    let page = good(&["paper", "etica", "--figure", "5", "--html", "-"]);
    assert!(page.starts_with("<!") && page.contains("ETICA, Fig. 5"), "{}", &page[..200]);
    let words = good(&["paper", "etica", "--figure", "5", "--markdown", "-"]);
    assert!(words.contains("lode paper etica --figure 5 --markdown -"), "{words}");
}

/// A folder with one trace of 300 requests, and something that is none.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let line = |at: u64| {
        let (op, offset) = (if at.is_multiple_of(3) { "Read" } else { "Write" }, at * 7919 % 90 * 4096);
        format!("{},usr,7,{op},{offset},4096,100\n", 128_166_372_000_000_000 + 10_000 * at)
    };
    std::fs::write(folder.path().join("mine.csv"), (0..300).map(line).collect::<String>()).expect("a file");
    std::fs::write(folder.path().join("notes.txt"), "no trace").expect("a file");
    folder
}

#[test]
fn papers_are_asked_of_traces_at_hand() {
    let folder = folder();
    let traces = folder.path().to_str().expect("a path");
    let arguments = ["paper", "etica", "--figure", "real", "--traces", traces];
    let output = lode(&arguments);
    let (text, notes) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{notes}");
    assert!(text.contains("ETICA, Real: what the paper claims, on traces at hand"), "{text}");
    assert!(text.contains("  - mine ") && text.contains("the paper's 12 VMs"), "{text}");
    assert!(notes.contains("2 files, 1 of them") && notes.contains("notes.txt"), "{notes}");
    let of_all = ["paper", "all", "--figure", "real", "--traces", traces, "--json"];
    let json: Value = serde_json::from_str(&good(&of_all)).expect("JSON");
    let papers: Vec<_> =
        json["experiments"].as_array().expect("a list").iter().map(|one| &one["paper"]).collect();
    assert_eq!(papers, ["etica", "eci-cache", "tica", "rpac"]);
    assert_eq!((&json["experiments"][0]["sources"], &json["traces"]), (&"other-traces".into(), &Value::Null));
    let trace = &json["at_hand"]["traces"][0];
    assert_eq!((&trace["name"], &trace["requests"]), (&"mine".into(), &300.into()));
    assert!((trace["read_share"].as_f64().expect("a share") - 1.0 / 3.0).abs() < 1e-9);
    let page = good(&["paper", "rpac", "--figure", "real", "--traces", traces, "--html", "-"]);
    assert!(page.starts_with("<!") && page.contains("RPAC, Real"));
    let words = good(&["paper", "tica", "--figure", "real", "--traces", traces, "--markdown", "-"]);
    assert!(words.starts_with("# The papers' claims on other traces"), "{words}");
    // Beside the paper's own figures where none is chosen.
    let whole = good(&["paper", "eci-cache", "--traces", traces]);
    assert!(whole.contains("ECI-Cache, Headlines") && whole.contains("ECI-Cache, Real"), "{whole}");
    assert!(!whole.contains("real traces of your own"), "{whole}");
}

#[test]
fn how_to_ask_of_traces_at_hand_is_said() {
    const HINT: &str =
        "What is claimed, on real traces of your own: lode paper etica --figure real --traces DIR\n";
    assert!(good(&["paper", "etica", "--figure", "5"]).ends_with(HINT));
    let without = refused(&["paper", "etica", "--figure", "real"]);
    assert!(without.contains("name their folder with --traces DIR"), "{without}");
    let none = refused(&["paper", "request-oriented", "--figure", "real"]);
    assert!(none.contains("There is no figure 'real'"), "{none}");
    let empty = tempfile::tempdir().expect("a folder");
    let traces = empty.path().to_str().expect("a path");
    let nothing = refused(&["paper", "all", "--figure", "real", "--traces", traces]);
    assert!(nothing.contains("put some there"), "{nothing}");
    let nowhere = refused(&["paper", "rpac", "--figure", "real", "--traces", "/nowhere/at/all"]);
    assert!(nowhere.contains("Cannot look for traces in /nowhere/at/all"), "{nowhere}");
}

#[test]
fn what_is_not_there_is_named() {
    let unknown = refused(&["paper", "rpac", "--figure", "99"]);
    assert!(unknown.contains("There is no figure '99'; of this paper there are 5-6, 7, 8"), "{unknown}");
    let of_all = refused(&["paper", "all", "--figure", "3"]);
    assert!(of_all.contains("--figure goes with one paper"), "{of_all}");
    let twice = refused(&["paper", "etica", "--figure", "5", "--html", "-", "--markdown", "-"]);
    assert!(twice.contains("Only one result can go to standard output"), "{twice}");
    let folder = refused(&["paper", "etica", "--figure", "10", "--traces", "/nowhere/at/all"]);
    assert!(folder.contains("Cannot look for traces in /nowhere/at/all"), "{folder}");
}
