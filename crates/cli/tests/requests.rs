//! `lode requests`: policies side by side, the same for the same seed, and refusals.

use std::process::{Command, Output};

use serde_json::Value;

fn lode(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lode")).arg("requests").args(arguments).output().unwrap()
}

fn good(arguments: &[&str]) -> String {
    let output = lode(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn bad(arguments: &[&str]) -> String {
    let output = lode(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn policies_stand_side_by_side_and_a_seed_repeats_them() {
    let short = ["--seconds", "6", "--nvwc", "32MiB", "--policies", "all,cp-pi-ioi"];
    let text = good(&short);
    for word in ["req/s", "cp-pi-ioi", "mutex_lock", "Synthetic"] {
        assert!(text.contains(word), "{word} is missing:\n{text}");
    }
    assert!(!text.contains("sync"), "it was not asked for:\n{text}");
    assert_eq!(text, good(&short));
    assert_ne!(text, good(&[&short[..], &["--seed", "2"]].concat()));
    let json: Value = serde_json::from_str(&good(&[&short[..], &["--json"]].concat())).unwrap();
    assert_eq!((&json["synthetic"], &json["model"]), (&Value::from(true), &Value::from("postgres")));
    assert_eq!(json["nvwc_bytes"], 32 << 20);
    let [all, ioi] = &json["policies"].as_array().unwrap()[..] else { panic!("{json}") };
    assert_eq!((&all["policy"], &ioi["policy"]), (&Value::from("all"), &Value::from("cp-pi-ioi")));
    assert!(ioi["writes"]["cached"].as_u64() < all["writes"]["submitted"].as_u64());
    assert!(ioi["requests"].as_u64() > Some(0));
}

#[test]
fn the_other_models_run() {
    for model in ["redis", "redis-reads"] {
        let text = good(&[
            "--model",
            model,
            "--seconds",
            "1",
            "--policies",
            "cp",
            "--device",
            "ssd",
            "--clients",
            "4",
        ]);
        assert!(text.contains("jbd2_log_wait_commit"), "{text}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    for (arguments, hint) in [
        (&["--policies", "cp-po"][..], "cp-pi"),
        (&["--nvwc", "1K"], "4KiB to 64GiB"),
        (&["--nvwc", "1T"], "4KiB to 64GiB"),
        (&["--clients", "0"], "1 to 4096"),
        (&["--seconds", "0"], "1..=3600"),
        (
            &["--set", "stal=wait"],
            "(did you mean 'stall'?): neither the admission, the machine nor the model has one",
        ),
        (&["--set", "foo=1"], "`lode requests --settings` lists them"),
        (
            &["--script", "../../docs/examples/figure-3a.requests", "--set", "foo=1"],
            "`lode requests --script FILE --settings` lists them",
        ),
        (&["--set", "jurnal_blocks=64"], "(did you mean 'journal_blocks'?)"),
        (&["--set", "journal_blocks=9"], "'journal_blocks' cannot be 9"),
        (&["--set", "backends=3"], "--clients"),
        (&["--script", "x", "--clients", "3"], "--script"),
        (&["--set", "stall=wait", "--set", "stall=bypass"], "'stall' is given twice"),
        (&["--set", "stall=perhaps"], "bypass|wait"),
        (&["--set", "admission=all"], "--policies"),
        (&["--model", "mysql"], "postgres"),
    ] {
        let message = bad(arguments);
        assert!(message.contains(hint), "{arguments:?}: {message}");
    }
}

#[test]
fn what_can_be_set_is_listed_and_what_is_set_counts() {
    let list: Value =
        serde_json::from_str(&good(&["--model", "redis-reads", "--settings", "--json"])).unwrap();
    let of = |key: &str| list.as_array().unwrap().iter().find(|entry| entry["key"] == key).cloned();
    assert_eq!(of("updates_percent").unwrap()["default"], "5");
    assert!(of("processors").is_some() && of("admission").is_none() && of("backends").is_none());
    let run = |more: &[&str]| {
        let base = ["--seconds", "2", "--policies", "all", "--json"];
        let json: Value = serde_json::from_str(&good(&[&base[..], more].concat())).unwrap();
        json["policies"][0]["requests_per_s"].as_f64().unwrap()
    };
    assert!(run(&["--set", "processors=4"]) < 0.7 * run(&[]), "eight processors serve more than four");
}

#[test]
fn a_script_runs_and_its_faults_have_lines() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/");
    let figure = format!("{examples}figure-3c.requests");
    let device = ["--device", "ssd", "--nvwc", "64KiB"];
    let text = good(&[&["--script", &figure][..], &device].concat());
    assert!(text.contains("When each process ended"), "{text}");
    let json: Value =
        serde_json::from_str(&good(&[&["--script", &figure, "--json"][..], &device].concat())).unwrap();
    // All, sync, wal, cp, cp-pi, cp-pi-ioi: the last three as the paper's figure has them.
    let ended = &json["ended_ms"][0];
    assert_eq!(ended["process"], "P1");
    assert_eq!(ended["ended_ms"].as_array().unwrap()[3..], [11.0, 11.0, 4.0].map(Value::from));
    let folder = tempfile::tempdir().unwrap();
    for (text, hint) in [
        ("process P\n  lock M\n", "Line 2: there is no lock 'M'"),
        ("set processers 3\nprocess P\n  cpu 1ms\n", "Line 1: "),
        (
            "lock A\nlock B\nprocess P\n  lock A\n  cpu 1ms\n  lock B\nprocess Q\n  lock B\n  cpu 1ms\n  lock A\n",
            "P waits for lock B in line 6; Q waits for lock A in line 10",
        ),
    ] {
        let path = folder.path().join("faulty.requests");
        std::fs::write(&path, text).unwrap();
        let message = bad(&["--script", path.to_str().unwrap()]);
        assert!(message.contains(hint) && message.contains("faulty.requests: "), "{text}: {message}");
    }
}
