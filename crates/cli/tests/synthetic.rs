//! Synthetic traces through the built `lode` program: made, described, converted, replayed, fitted.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn lode(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lode")).args(arguments).stdin(Stdio::null()).output().expect("it starts")
}

/// Standard output of a run that must succeed.
fn good(arguments: &[&str]) -> String {
    let output = lode(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Standard error of a run that must fail with this code.
fn bad(arguments: &[&str], code: i32) -> String {
    let output = lode(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    String::from_utf8(output.stderr).expect("UTF-8")
}

fn in_folder(folder: &tempfile::TempDir, name: &str) -> String {
    let path: PathBuf = folder.path().join(name);
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn what_is_made_is_called_synthetic_everywhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let [made, again, copy] =
        ["made.lode", "again.lode", "copy.lode.zst"].map(|name| in_folder(&folder, name));
    let text = good(&["trace", "synth", "hm_1", "-o", &made, "--scale", "0.01"]);
    assert!(text.starts_with("Wrote 6093 synthetic requests of synthetic:hm_1 to "), "{text}");
    good(&["trace", "synth", "hm_1", "-o", &again, "--scale", "0.01"]);
    assert_eq!(std::fs::read(&made).expect("a file"), std::fs::read(&again).expect("a file"));
    good(&["trace", "synth", "hm_1", "-o", &again, "--scale", "0.01", "--seed", "2", "--requests", "7000"]);
    good(&["trace", "convert", &made, "-o", &copy]);
    let info: Value = serde_json::from_str(&good(&["trace", "info", "--json", &copy])).expect("JSON");
    assert_eq!(
        (&info["input"]["synthetic"], &info["total"]["requests"]),
        (&Value::Bool(true), &Value::from(6093))
    );
    assert_eq!(info["total"]["reads"], Value::from(5809));
    assert!(good(&["trace", "info", &copy]).contains("synthetic:hm_1"));
    let replay = ["replay", copy.as_str(), "--scheme", "lru", "--ssd", "1MiB"];
    assert!(good(&replay).contains("synthetic:hm_1"));
    let report: Value = serde_json::from_str(&good(&[&replay[..], &["--json"]].concat())).expect("JSON");
    assert_eq!(report["inputs"][0]["synthetic"], Value::Bool(true));
    let info: Value = serde_json::from_str(&good(&["trace", "info", "--json", &again])).expect("JSON");
    assert_eq!(info["total"]["requests"], Value::from(7000));
}

/// The words after `lode` of the lines in the README of the committed traces that begin with a command.
fn recipes(command: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(lode_testdata::committed("traces/README.md")).expect("text");
    let lines = text.lines().filter(|line| line.starts_with(command));
    lines.map(|line| line.split_whitespace().skip(1).map(str::to_owned).collect()).collect()
}

#[test]
fn committed_traces_are_what_their_profiles_make() {
    let folder = tempfile::tempdir().expect("a folder");
    let unpacked = |path: &Path| zstd::decode_all(File::open(path).expect("a trace")).expect("zstd");
    let mut made = Vec::new();
    for mut words in recipes("lode trace synth ") {
        let committed = lode_testdata::committed("traces").join(&words[4]);
        words[2] = lode_testdata::committed("traces").join(&words[2]).to_str().expect("UTF-8").to_owned();
        words[4] = in_folder(&folder, &words[4]);
        good(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(unpacked(Path::new(&words[4])) == unpacked(&committed), "{} differs", committed.display());
        made.push(committed);
    }
    let files = std::fs::read_dir(lode_testdata::committed("traces")).expect("a folder");
    let traces = files
        .map(|file| file.expect("a file").path())
        .filter(|path| path.extension() == Some("zst".as_ref()));
    let mut traces: Vec<_> = traces.collect();
    traces.sort_unstable();
    assert_eq!(made, traces);
}

#[test]
fn committed_profiles_are_fitted_to_public_traces() {
    let fits = recipes("lode trace fit ");
    assert_eq!(fits.len(), recipes("lode trace synth ").len());
    let Some(folder) = lode_testdata::public_traces() else { return };
    for mut words in fits {
        let profile = words.pop().expect("a profile");
        words[2] = folder.join(&words[2]).to_str().expect("UTF-8").to_owned();
        words.push("-".to_owned());
        let fitted = good(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let committed = std::fs::read_to_string(lode_testdata::committed("traces").join(&profile));
        assert!(fitted == committed.expect("text"), "{profile} differs");
    }
}

#[test]
fn a_fitted_profile_makes_a_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let [made, profile, like] = ["made.lode", "made.toml", "like.lode"].map(|name| in_folder(&folder, name));
    good(&["trace", "synth", "devtoolrel", "-o", &made, "--scale", "0.02"]);
    let text = good(&["trace", "fit", &made, "-o", &profile]);
    assert!(text.starts_with("Wrote the profile of 3211 requests to "), "{text}");
    assert_eq!(good(&["trace", "fit", &made, "-o", "-"]), std::fs::read_to_string(&profile).expect("text"));
    good(&["trace", "synth", &profile, "-o", &like]);
    assert!(good(&["trace", "info", &like]).contains("synthetic:made"));
}

#[test]
fn profiles_are_listed_shown_and_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let [out, profile] = ["out.lode", "mine.toml"].map(|name| in_folder(&folder, name));
    let list = good(&["trace", "synth", "--list"]);
    let profiles = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../synth/profiles"))
        .expect("a folder")
        .count();
    assert!(list.contains("src1_2-tica") && list.lines().count() == profiles + 1, "{list}");
    let text = good(&["trace", "synth", "--show", "prxy_0"]);
    assert!(text.contains("published = ["));
    std::fs::write(&profile, text.replace("read_share = 0", "read_share = 7")).expect("a file");
    for (arguments, code, expected) in [
        (
            vec!["trace", "synth", "nothing", "-o", &out],
            2,
            "No profile is called nothing; see lode trace synth --list",
        ),
        (vec!["trace", "synth", "--show", "nothing"], 2, "No profile is called nothing"),
        (vec!["trace", "synth", "none.toml", "-o", &out], 1, "Cannot read the profile none.toml"),
        (vec!["trace", "synth", &profile, "-o", &out], 1, "read_share is 7"),
        (
            vec!["trace", "synth", "hm_1", "-o", &out, "--scale=-1"],
            2,
            "--scale is -1; write a number above 0",
        ),
        (
            vec!["trace", "synth", "hm_1", "-o", &out, "--scale", "1e300"],
            1,
            "requests is 18446744073709551615; write 1 to",
        ),
        (vec!["trace", "synth", "hm_1", "-o", &out, "--scale", "1e-9"], 1, "hm_1"),
        (vec!["trace", "synth", "hm_1", "-o", &out, "--requests", "0"], 2, "--requests"),
        (vec!["trace", "synth", "hm_1", "-o", &in_folder(&folder, "out.csv")], 2, "--output is"),
        (vec!["trace", "synth", "hm_1"], 2, "--output <FILE>"),
        (vec!["trace", "fit", &profile, "-o", &out], 1, "no known format"),
    ] {
        let message = bad(&arguments, code);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    assert!(!std::path::Path::new(&out).exists());
}
