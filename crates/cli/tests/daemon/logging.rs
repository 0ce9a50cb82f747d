//! What operators read in the log of a daemon.

use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::client::{PATIENCE, connect_socket};
use crate::common::{Site, lode_ok};

/// Waits for a line with all these words, in this order.
fn wait_for(site: &Site, words: &[&str]) -> String {
    let has_all = |line: &&str| {
        let after =
            |rest: Option<usize>, word: &&str| rest.and_then(|at| line[at..].find(*word).map(|i| at + i));
        words.iter().fold(Some(0), after).is_some()
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let log = site.log();
        if let Some(line) = log.lines().find(has_all) {
            return line.to_owned();
        }
        assert!(Instant::now() < deadline, "no line with {words:?} in\n{log}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn clients_that_come_and_go_are_told_with_the_reason() {
    let site = Site::new();
    let daemon = site.serve_up();
    let first = daemon.client("vm1");
    let process = format!("process {} of user ", std::process::id());
    wait_for(&site, &["INFO", "VM vm1: a client connected from ", &process, "; connections: 1"]);
    let second = daemon.client("vm1");
    wait_for(&site, &["VM vm1: a client connected", "; connections: 2"]);
    drop(first);
    wait_for(&site, &["VM vm1: a client left: it hung up; connections: 1"]);
    // A request with a wrong magic number.
    let mut rude = connect_socket(&site.path("vm2.sock"));
    rude.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x09\0\0\0\x03vm2\0\0").unwrap();
    wait_for(&site, &["VM vm2: a client connected"]);
    rude.write_all(&[7; 28]).unwrap();
    wait_for(&site, &["VM vm2: a client left: it broke the protocol; connections: 0"]);
    // NBD_CMD_DISC.
    let mut polite = connect_socket(&site.path("vm2.sock"));
    polite.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x09\0\0\0\x03vm2\0\0").unwrap();
    polite.write_all(&[&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, 2][..], &[0; 20]].concat()).unwrap();
    wait_for(&site, &["VM vm2: a client left: it took its leave; connections: 0"]);
    daemon.stop();
    wait_for(&site, &["VM vm1: a client left: the service stops; connections: 0"]);
    drop((second, rude, polite));
}

#[test]
fn a_flood_of_clients_does_not_flood_the_log() {
    let site = Site::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lode"));
    command.args(["serve", &site.text("test.toml")]).env("RUST_LOG", "debug");
    let daemon = site.spawn_up(command);
    for _ in 0..50 {
        daemon.client("vm1").read(0, 512);
    }
    daemon.stop();
    let log = site.log();
    let told =
        |level: &str| log.lines().filter(|l| l.contains(level) && l.contains("VM vm1: a client")).count();
    assert!(told(" INFO ") < 60, "{log}");
    assert_eq!(told(" INFO ") + told("DEBUG "), 100, "each is told at debug level\n{log}");
}

#[test]
fn what_is_asked_measured_and_moved_is_told_in_detail() {
    let site = Site::new();
    site.configure("[host]\nmode = \"auto\"\ninterval = \"1h\"\nssd = \"48MiB\"");
    let path = site.path("test.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("ssd = \"16MiB\"\n", "").replace("ssd = \"32MiB\"\n", "")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lode"));
    command.args(["serve", &site.text("test.toml")]).env("RUST_LOG", "debug");
    let daemon = site.spawn_up(command);
    let mut client = daemon.client("vm1");
    for _ in 0..2 {
        (0..64).for_each(|at| drop(client.read(at << 12, 4096)));
    }
    lode_ok(&["divide", &site.text("test.toml"), "--wait"]);
    wait_for(&site, &["DEBUG", "Asked over the control socket: Divide"]);
    wait_for(&site, &["DEBUG", "VM vm1: could have used ", " of the dram level", "with 128 block accesses"]);
    lode_ok(&["vm", "set", &site.text("test.toml"), "vm2", "min.ssd=30MiB"]);
    wait_for(&site, &["DEBUG", "VM vm2: 0 B of DRAM and 30 MiB of the SSD from now on"]);
    drop(client);
    daemon.stop();
}

#[test]
fn drains_are_told_from_their_begin_to_their_end() {
    let site = Site::new();
    let daemon = site.serve_up();
    let mut client = daemon.client("vm2");
    client.write(0, &[1; 65536]);
    client.flush();
    lode_ok(&["drain", &site.text("test.toml"), "--vm", "vm2"]);
    wait_for(&site, &["INFO", "VM vm2: a drain begins, of 16 blocks"]);
    wait_for(&site, &["INFO", "VM vm2: the drain of 16 blocks ended after ", " ms"]);
    assert!(!site.log().contains("VM vm1: a drain"));
    drop(client);
    daemon.stop();
}

#[test]
fn slow_requests_are_told_with_what_they_waited_for() {
    let site = Site::new();
    site.configure("[limits]\nslow_request_ms = 2");
    let path = site.path("test.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("vm1.img\"", "vm1.img\", delay = \"hdd\"", 1)).unwrap();
    let daemon = site.serve_up();
    let mut client = daemon.client("vm1");
    for at in 0..30 {
        client.read((at * 37 % 60) << 20, 4096);
    }
    wait_for(
        &site,
        &["WARN", "VM vm1: slow read of 4096 bytes at ", " ms, waited ", " ms for reads of the backing disk"],
    );
    let lines = site.log().matches("VM vm1: slow read").count();
    assert!(lines < 30, "{lines} lines");
    drop(client);
    daemon.stop();
}

#[test]
fn nothing_is_slow_when_the_limit_is_zero() {
    let site = Site::new();
    site.configure("[limits]\nslow_request_ms = 0");
    let daemon = site.serve_up();
    daemon.client("vm1").read(0, 4096);
    daemon.stop();
    assert!(!site.log().contains("slow read"));
}
