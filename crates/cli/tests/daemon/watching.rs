//! `lode status --watch` beside a daemon that works.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::common::{Site, lode_fails};

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
    // A title, the table's header, a line for each VM, and an empty one.
    let mut next = || lines.by_ref().take(5).collect::<Vec<String>>();
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
    let titles = "VM read/s writ/s MiB/s rdhit% wrhit% rd p99 wr p99 dirty SSDwr";
    assert_eq!(busy[1].split_whitespace().collect::<Vec<_>>().join(" "), titles);
    let rate = |lines: &[String]| lines[2].split_whitespace().nth(1).unwrap().parse::<f64>().unwrap();
    assert!(rate(&busy) > 0.0 && rate(&busy) <= 50.0, "{busy:?}");
    assert_eq!(rate(&next()), 0.0, "nothing more is read");
    // The daemon's end is the watch's.
    drop(client);
    daemon.stop();
    assert!(!watch.wait().unwrap().success());
    assert!(lode_fails(&["status", &site.text("test.toml"), "--watch", "0"]).contains("--watch"));
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
