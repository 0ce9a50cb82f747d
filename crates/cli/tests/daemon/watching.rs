//! `lode status --watch` beside a daemon that works.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::common::{Site, lode_fails, lode_ok};

#[test]
fn a_watch_tells_rates_of_its_intervals() {
    let site = Site::new();
    let daemon = site.serve_up();
    let mut client = daemon.client("vm1");
    let mut watch = Command::new(env!("CARGO_BIN_EXE_lode"));
    let mut watch = watch
        .args(["status", &site.text("test.toml"), "--watch", "1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    // A title, the table's header, a line for each VM, what happened, and an empty line.
    let mut next = || lines.by_ref().take_while(|line| !line.is_empty()).collect::<Vec<String>>();
    let first = next();
    assert!(
        first[0].starts_with("Cache test, up ") && first[0].ends_with("rates since the start"),
        "{first:?}"
    );
    for _ in 0..50 {
        client.read(0, 4096);
    }
    let busy = next();
    assert!(busy[0].contains("rates of the last 1."), "{busy:?}");
    let titles = "VM read/s writ/s MiB/s rdhit% wrhit% rd p99 wr p99 dirty age SSDwr";
    assert_eq!(busy[1].split_whitespace().collect::<Vec<_>>().join(" "), titles);
    let rate = |lines: &[String]| lines[2].split_whitespace().nth(1).unwrap().parse::<f64>().unwrap();
    assert!(rate(&busy) > 0.0 && rate(&busy) <= 50.0, "{busy:?}");
    assert_eq!(rate(&next()), 0.0, "nothing more is read");
    // What happens is told once, in its interval.
    lode_ok(&["vm", "set", &site.text("test.toml"), "vm1", "weight=3"]);
    let told = |lines: &[String]| lines[4..].iter().filter(|line| line.contains("weight")).count();
    let after: Vec<Vec<String>> = (0..3).map(|_| next()).collect();
    assert_eq!(after.iter().map(|lines| told(lines)).sum::<usize>(), 1, "{after:?}");
    // It waits for a daemon that is started anew.
    drop(client);
    daemon.stop();
    let daemon = site.serve_up();
    let again = next();
    assert!(again[0].ends_with("rates since the start"), "{again:?}");
    watch.kill().unwrap();
    watch.wait().unwrap();
    daemon.stop();
    assert!(lode_fails(&["status", &site.text("test.toml"), "--watch", "0"]).contains("--watch"));
}

#[test]
fn a_watch_of_one_vm_says_what_it_waits_for() {
    let site = Site::new();
    let daemon = site.serve_up();
    let mut client = daemon.client("vm1");
    client.write(0, &[7; 4096]);
    (0..20).for_each(|at| drop(client.read(at * 4096, 4096)));
    let mut watch = Command::new(env!("CARGO_BIN_EXE_lode"));
    let arguments = ["status", &site.text("test.toml"), "--watch", "--vm", "vm1"];
    let mut watch = watch.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let has = |words: &[&str]| first.iter().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(has(&["requests/s", "waited for", "time %"]), "{first:#?}");
    assert!(has(&["disk", "daemon"]) || has(&["DRAM", "daemon"]) || has(&["disk read"]), "{first:#?}");
    assert!(!has(&["vm2"]), "{first:#?}");
    watch.kill().unwrap();
    watch.wait().unwrap();
    let said = lode_fails(&["status", &site.text("test.toml"), "--watch", "--vm", "vm9"]);
    assert!(said.contains("There is no VM 'vm9' here"), "{said}");
    drop(client);
    daemon.stop();
}

#[test]
fn what_needs_a_terminal_says_so() {
    let site = Site::new();
    let daemon = site.serve_up();
    let said = lode_fails(&["top", &site.text("test.toml")]);
    assert!(said.contains("Cannot use the terminal") && said.contains("lode status --watch"), "{said}");
    daemon.stop();
    assert!(lode_fails(&["top", &site.text("test.toml")]).contains("is it running?"));
}
