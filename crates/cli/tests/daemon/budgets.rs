//! A host's budget of SSD writes: VMs hold to it from the first request on, nothing is lost by it, it is told, and it can be changed
//! while guests go on.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Daemon, Site, lode_fails, lode_ok, pattern};

const PATIENCE: Duration = Duration::from_secs(30);
const BLOCK_BYTES: u64 = 4096;
/// A scheme that holds to budgets.
const AUTO: &str = "scheme = \"auto\"\n";

/// Two VMs, the second one with this scheme, and a budget.
fn configure(site: &Site, host: &str, second: &str) {
    let folder = site.folder.path().display();
    let vm = |name: &str, scheme: &str| {
        format!(
            "[[vm]]\nname = \"{name}\"\nbacking = {{ path = \"{folder}/{name}.img\" }}\nssd = \"16MiB\"\n{scheme}\
             listen = [\"unix:{folder}/{name}.sock\"]\n"
        )
    };
    let text = format!(
        "name = \"test\"\nstate_dir = \"{folder}/state\"\nshards = 2\n[ssd]\npath = \"{folder}/ssd.img\"\nwritten_tb = 1\n[host]\n{host}\n{}{}",
        vm("vm1", AUTO),
        vm("vm2", second)
    );
    std::fs::write(site.path("test.toml"), text).unwrap();
}

fn write_on(daemon: &Daemon, vm: &str, version: u64) {
    let mut client = daemon.client(vm);
    for block in 0..1000 {
        let offset = block * BLOCK_BYTES;
        client.write(offset, &pattern(offset, version, BLOCK_BYTES as usize));
    }
    client.flush();
}

/// Blocks that a VM has written to the SSD.
fn ssd_writes(status: &Value, vm: usize) -> u64 {
    status["vms"][vm]["counters"]["ssd_writes"]["total"].as_u64().unwrap()
}

fn budget(status: &Value, vm: usize) -> Option<u64> {
    status["vms"][vm]["sharing"]["ssd_write_budget_bytes_per_day"].as_u64()
}

/// What `lode status --watch` says at first with the details of a VM.
fn first_look(site: &Site, vm: &str) -> Vec<String> {
    let mut watch = Command::new(env!("CARGO_BIN_EXE_lode"));
    let arguments = ["status", &site.text("test.toml"), "--watch", "--vm", vm];
    let mut watch = watch.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    let look = lines.take_while(|line| !line.is_empty()).collect();
    watch.kill().unwrap();
    watch.wait().unwrap();
    look
}

fn wait_until(daemon: &Daemon, is_so: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let status = daemon.status();
        if is_so(&status) {
            return status;
        }
        assert!(began.elapsed() < PATIENCE, "{status}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until one line of the events says all of this.
fn wait_for_event(site: &Site, words: &[&str]) {
    let began = Instant::now();
    loop {
        let events = lode_ok(&["events", &site.text("test.toml")]);
        if events.lines().any(|line| words.iter().all(|part| line.contains(part))) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{words:?}: {events}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn vms_hold_to_a_hosts_budget_and_lose_nothing() {
    let site = Site::new();
    configure(&site, "ssd_writes = \"64MiB/day\"", AUTO);
    let daemon = site.serve_up();
    // A day's budget is 16,384 blocks: in the seconds of this test a few dozen.
    write_on(&daemon, "vm1", 1);
    let status = wait_until(&daemon, |status| budget(status, 0).is_some());
    assert_eq!(status["host"]["ssd_write_budget_bytes_per_day"], 64 << 20);
    assert!(ssd_writes(&status, 0) < 100, "{}", status["vms"][0]["counters"]);
    assert_eq!(status["vms"][0]["scheme"], "auto");
    let parts = [0, 1].map(|vm| budget(&status, vm).unwrap());
    assert!(parts[0].abs_diff(32 << 20) <= 4096 && parts[0].abs_diff(parts[1]) <= 4096, "{parts:?}");
    // Whoever watches sees it beside what is written, and how long the SSD lasts.
    assert_eq!(status["cache"]["rated_write_bytes"], 1_000_000_000_000_u64);
    let look = first_look(&site, "vm1");
    assert!(
        look[1].starts_with("SSD wear ") && look[1].contains("/day of 64 MiB/day; 1 TB rated last "),
        "{look:#?}"
    );
    let own = look.iter().find(|line| line.starts_with("vm1: auto, ")).expect("details");
    assert!(own.contains("; SSD wear ") && own.contains("/day of 32"), "{look:#?}");
    let mut client = daemon.client("vm1");
    for block in (0..1000).step_by(7) {
        let offset = block * BLOCK_BYTES;
        assert_eq!(client.read(offset, BLOCK_BYTES as u32), pattern(offset, 1, BLOCK_BYTES as usize));
    }
    drop(client);
    let events = lode_ok(&["events", &site.text("test.toml"), "--vm", "vm1"]);
    assert!(events.contains("it may write 32 MiB a day to the SSD"), "{events}");
    // Without it everything that is worth it goes there.
    configure(&site, "", AUTO);
    lode_ok(&["reload", &site.text("test.toml")]);
    wait_until(&daemon, |status| budget(status, 0).is_none() && budget(status, 1).is_none());
    let before = ssd_writes(&daemon.status(), 0);
    write_on(&daemon, "vm1", 2);
    let written = ssd_writes(&daemon.status(), 0) - before;
    assert!(written > 500, "{written}");
    daemon.stop();
}

#[test]
fn what_no_scheme_can_keep_is_refused_or_told() {
    let site = Site::new();
    configure(&site, "ssd_writes = \"64MiB/day\"", "scheme = \"lru\"\n");
    let daemon = site.serve_up();
    write_on(&daemon, "vm2", 1);
    let status = wait_until(&daemon, |status| budget(status, 0).is_some());
    assert!(ssd_writes(&status, 1) >= 1000 && budget(&status, 1).is_none());
    let told = "the budget of 1 MiB/day of SSD writes cannot be kept";
    assert!(!lode_ok(&["events", &site.text("test.toml")]).contains("cannot be kept"));
    configure(&site, "ssd_writes = \"1MiB/day\"", "scheme = \"lru\"\n");
    lode_ok(&["reload", &site.text("test.toml")]);
    let is_least =
        "of VMs whose schemes hold to no budget (vm2) is written a day, which is the least possible";
    wait_for_event(&site, &[told, is_least]);
    daemon.stop();
    let text = std::fs::read_to_string(site.path("test.toml")).unwrap();
    std::fs::write(site.path("test.toml"), text.replace("scheme = \"auto\"", "scheme = \"lru\"")).unwrap();
    let refused = lode_fails(&["serve", "--check", &site.text("test.toml")]);
    assert!(refused.contains("no VM has a scheme that can keep to a budget"), "{refused}");
}
