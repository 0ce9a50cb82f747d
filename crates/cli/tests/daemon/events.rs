//! `lode events`: what happened, as people and programs follow it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::client::PATIENCE;
use crate::common::{MIB, Site, lode_fails, lode_ok};

/// `lode events --follow --json`, as a program reads it; killed, by its own process id, when dropped.
struct Follower {
    child: Child,
    lines: Receiver<String>,
}

impl Follower {
    fn new(site: &Site, more: &[&str]) -> Follower {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lode"));
        command.args(["events", &site.text("test.toml"), "--follow", "--json"]).args(more);
        let said = File::options().create(true).append(true).open(site.path("followers")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(said).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        // It ends with what it reads.
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Follower { child, lines }
    }

    /// The next line, which has to be an event as `docs/control.md` has it.
    fn next(&self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("another event");
        let event: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let keys = event.as_object().expect("an object");
        let known = ["number", "time_ms", "kind", "vm", "text", "share"];
        assert!(keys.keys().all(|key| known.contains(&key.as_str())), "{line}");
        assert!(known[..5].iter().all(|key| keys.contains_key(*key)), "{line}");
        assert!(event["number"].is_u64() && event["time_ms"].is_u64() && event["text"].is_string(), "{line}");
        assert_eq!(keys.contains_key("share"), event["kind"] == "share", "{line}");
        event
    }

    /// Events up to one with such a text, which is the last of them.
    fn until(&self, text: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            events.push(self.next());
            if events.last().unwrap()["text"].as_str().unwrap().contains(text) {
                return events;
            }
        }
    }

    /// Events up to the first one of the next daemon.
    fn until_next_start(&self) {
        loop {
            let event = self.next();
            if event["number"] == 1 {
                assert_eq!(event["kind"], "start", "{event}");
                return;
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // Fails when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn numbers(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["number"].as_u64().unwrap()).collect()
}

/// Has another VM come. Returns what it is to have of the SSD.
fn add_vm(site: &Site) -> u64 {
    File::create(site.path("vm3.img")).unwrap().set_len(32 * MIB).unwrap();
    let (backing, listen) =
        (format!("backing={}", site.text("vm3.img")), format!("listen=unix:{}", site.text("vm3.sock")));
    let config = site.text("test.toml");
    lode_ok(&["vm", "add", &config, "vm3", &backing, &listen, "scheme=lru", "ssd=8MiB"]);
    8 * MIB
}

#[test]
fn programs_follow_events_one_object_a_line() {
    let site = Site::new();
    let mut daemon = site.serve_up();
    let mut all = Follower::new(&site, &[]);
    let first = all.next();
    assert_eq!((&first["number"], &first["kind"], &first["vm"]), (&json!(1), &json!("start"), &Value::Null));
    let of_vm1 = Follower::new(&site, &["--vm", "vm1"]);
    // What comes later appears, each event once and in its order.
    drop(daemon.client("vm2"));
    let mut client = daemon.client("vm1");
    client.write(0, &[1; 4096]);
    lode_ok(&["drain", &site.text("test.toml"), "--vm", "vm1"]);
    // The log tells the end of a drain at the next second.
    let mut events = all.until("ended after");
    lode_ok(&["vm", "set", &site.text("test.toml"), "vm1", "weight=3"]);
    events.extend(all.until("weight=3"));
    drop(client);
    let expected: Vec<u64> = (2..).take(events.len()).collect();
    assert_eq!(numbers(&events), expected);
    let kinds = |events: &[Value], vm: &str| -> Vec<String> {
        let of_vm = events.iter().filter(|event| event["vm"] == vm);
        of_vm.map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&events, "vm1"), ["client", "drain", "drain", "setting"]);
    assert_eq!(kinds(&events, "vm2"), ["client", "client"]);
    // The same of one VM, and of no other.
    let of_one = of_vm1.until("weight=3");
    assert!(of_one.iter().all(|event| event["vm"] == "vm1"), "{of_one:?}");
    let is_of_vm1 = |event: &&Value| event["vm"] == "vm1";
    assert_eq!(of_one, events.iter().filter(is_of_vm1).cloned().collect::<Vec<_>>());
    // A command that does not follow ends with what there is, in the same form.
    let now = lode_ok(&["events", &site.text("test.toml"), "--json", "--vm", "vm2"]);
    let now: Vec<Value> = now.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(now, events.iter().filter(|event| event["vm"] == "vm2").cloned().collect::<Vec<_>>());
    // A daemon that stops ends no follower: it says so, once, and goes on with the next one, which counts anew.
    daemon.check_counts();
    lode_ok(&["stop", &site.text("test.toml")]);
    daemon.wait_for_end();
    let (began, waiting) = (Instant::now(), || std::fs::read_to_string(site.path("followers")).unwrap());
    while waiting().matches("Waiting for it").count() < 2 {
        assert!(began.elapsed() < PATIENCE, "{}", waiting());
        std::thread::sleep(Duration::from_millis(10));
    }
    let daemon = site.serve_up();
    all.until_next_start();
    drop(daemon.client("vm1"));
    let left = of_vm1.until("a client left: it hung up");
    assert!(left.iter().all(|event| event["vm"] == "vm1"), "{left:?}");
    // The next one may be there at once, with as many events: none of them is missed.
    daemon.kill();
    let daemon = site.serve_up();
    for _ in 0..10 {
        drop(daemon.client("vm2"));
    }
    all.until_next_start();
    assert!(all.child.try_wait().unwrap().is_none());
    assert_eq!(waiting().lines().filter(|line| !line.contains("Waiting for it")).count(), 0, "{}", waiting());
    // It ends by the signal that it is sent. Whoever runs tests in the background may have them ignore interrupts.
    kill_process(Pid::from_child(&all.child), Signal::TERM).unwrap();
    assert_eq!(all.child.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
    daemon.stop();
}

/// A decision about the share of a VM that comes is told like any other: what it has, of what, and why.
#[test]
fn the_first_share_of_a_vm_that_comes_is_an_event() {
    let site = Site::new();
    let daemon = site.serve_up();
    let follower = Follower::new(&site, &["--vm", "vm1"]);
    let bytes = add_vm(&site);
    let events = lode_ok(&["events", &site.text("test.toml"), "--json", "--vm", "vm3"]);
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shares: Vec<&Value> = events.iter().filter(|event| event["kind"] == "share").collect();
    assert_eq!(shares.len(), 1, "it has no DRAM: {events:?}");
    let others = json!([{ "vm": null, "bytes": bytes, "expected_hit_ratio_change": null }]);
    let share = json!({
        "level": "ssd", "from_bytes": 0, "to_bytes": bytes,
        "expected_hit_ratio_from": null, "expected_hit_ratio_to": null, "others": others
    });
    assert_eq!(shares[0]["share"], share);
    let text = shares[0]["text"].as_str().unwrap();
    assert!(text.starts_with("+8 MiB SSD (0 B to 8 MiB), its first share: 8 MiB is named, and "), "{text}");
    assert!(site.log().contains(&format!("VM vm3: {text}")), "the log has it as well");
    let status = daemon.status();
    let [blocks, block] = ["/quota/ssd_blocks", "/block_bytes"].map(|key| status["vms"][2].pointer(key));
    assert_eq!(blocks.and_then(Value::as_u64).unwrap() * block.and_then(Value::as_u64).unwrap(), bytes);
    assert_eq!(follower.lines.try_recv(), Err(TryRecvError::Empty), "it concerns no other VM");
    daemon.stop();
}

/// Where the host divides by need, it is what the VM's weight gives it of what is free.
#[test]
fn a_first_share_by_weight_says_so() {
    let site = Site::new();
    site.configure("[host]\nmode = \"auto\"\nssd = \"60MiB\"\n");
    let daemon = site.serve_up();
    File::create(site.path("vm3.img")).unwrap().set_len(32 * MIB).unwrap();
    let (backing, listen) =
        (format!("backing={}", site.text("vm3.img")), format!("listen=unix:{}", site.text("vm3.sock")));
    lode_ok(&["vm", "add", &site.text("test.toml"), "vm3", &backing, &listen, "weight=2"]);
    let events = lode_ok(&["events", &site.text("test.toml"), "--json", "--vm", "vm3"]);
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let first = |level: &str| {
        let is_first = |event: &&Value| event["share"]["level"] == level && event["share"]["from_bytes"] == 0;
        events.iter().find(is_first).unwrap_or_else(|| panic!("{events:?}"))
    };
    let text = first("ssd")["text"].as_str().unwrap();
    assert!(text.contains("its first share: its weight is 2 of 4 together, and "), "{text}");
    daemon.stop();
}

#[test]
fn events_are_followed() {
    let site = Site::new();
    let daemon = site.serve_up();
    let mut follow = Command::new(env!("CARGO_BIN_EXE_lode"));
    let mut follow = follow
        .args(["events", &site.text("test.toml"), "--follow", "--vm", "vm1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines().map(Result::unwrap);
    drop(daemon.client("vm2"));
    let mut client = daemon.client("vm1");
    let connected = lines.next().unwrap();
    assert!(connected.contains("client   vm1: a client connected"), "{connected}");
    client.write(0, &[1; 4096]);
    lode_ok(&["drain", &site.text("test.toml"), "--vm", "vm1"]);
    let (begins, ended) = (lines.next().unwrap(), lines.next().unwrap());
    assert!(
        begins.contains("a drain begins, of 1 block") && ended.contains("ended after"),
        "{begins}\n{ended}"
    );
    lode_ok(&["vm", "set", &site.text("test.toml"), "vm1", "weight=3"]);
    let changed = lines.next().unwrap();
    assert!(changed.contains("setting  vm1: set by hand, until a restart or reload: weight=3"), "{changed}");
    assert!(lode_fails(&["events", &site.text("test.toml"), "--vm", "vm3"]).contains("no VM 'vm3'"));
    drop(client);
    daemon.stop();
    // Whoever follows it goes on with the next run.
    let daemon = site.serve_up();
    drop(daemon.client("vm1"));
    assert!(lines.any(|line| line.contains("client   vm1: a client connected")));
    assert!(follow.try_wait().unwrap().is_none());
    follow.kill().unwrap();
    follow.wait().unwrap();
    // Of a VM that has another name by now, what happened is still there.
    lode_ok(&["vm", "rename", &site.text("test.toml"), "vm2", "db"]);
    drop(crate::client::Client::connect(&site.path("vm2.sock"), "db", true));
    for vm in ["vm1", "db"] {
        assert!(lode_ok(&["events", &site.text("test.toml"), "--vm", vm]).contains(vm));
    }
    daemon.stop();
}
