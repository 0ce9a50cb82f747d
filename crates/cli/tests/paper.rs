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
