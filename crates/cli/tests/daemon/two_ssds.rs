//! A daemon with a second SSD: what it refuses, what it serves, and what it does when the first one fails.

use std::fs::{self, File};
use std::process::Command as Process;
use std::time::{Duration, Instant};

use lode_nbd::Command;

use crate::client::PATIENCE;
use crate::common::{Daemon, MIB, Site, has_tool, lode, lode_fails, lode_ok, pattern};

const BLOCK: u32 = 4096;
const BLOCKS: u64 = 24;

/// A site whose VM uses both SSDs.
fn site() -> Site {
    let site = Site::new();
    lode_ok(&["format", "--read-ssd", &site.text("read.img"), "--create", "32MiB"]);
    configure(&site, "ssd.img", "read.img", "read_ssd = \"16MiB\"");
    site
}

fn configure(site: &Site, ssd: &str, read_ssd: &str, share: &str) {
    let folder = site.folder.path().display();
    let text = format!(
        r#"
name = "test"
state_dir = "{folder}/state"
shards = 1

[ssd]
path = "{folder}/{ssd}"

[read_ssd]
path = "{folder}/{read_ssd}"

[[vm]]
name = "vm1"
backing = {{ path = "{folder}/vm1.img" }}
dram = "4MiB"
ssd = "16MiB"
{share}
scheme = "tica-adaptive"
listen = ["unix:{folder}/vm1.sock"]
"#
    );
    fs::write(site.path("test.toml"), text).unwrap();
}

fn block(number: u64, version: u64) -> Vec<u8> {
    pattern(number * u64::from(BLOCK), version, BLOCK as usize)
}

/// Writes all blocks, and waits until they are mirrored: the scheme makes its copies at the ends of requests.
fn write_all(daemon: &Daemon<'_>, version: u64) {
    let mut client = daemon.client("vm1");
    (0..BLOCKS).for_each(|at| client.write(at * u64::from(BLOCK), &block(at, version)));
    client.flush();
    for _ in 0..2 * BLOCKS {
        client.read(32 * MIB, BLOCK);
    }
    wait_for(daemon, "/gauges/promotions_waiting", 0);
}

fn check_all(daemon: &Daemon<'_>, version: u64) {
    let mut client = daemon.client("vm1");
    for at in 0..BLOCKS {
        assert!(client.read(at * u64::from(BLOCK), BLOCK) == block(at, version), "block {at}");
    }
}

fn value(daemon: &Daemon<'_>, pointer: &str) -> serde_json::Value {
    daemon.status()["vms"][0].pointer(pointer).unwrap_or_else(|| panic!("{pointer}")).clone()
}

fn wait_for(daemon: &Daemon<'_>, pointer: &str, wanted: u64) {
    let deadline = Instant::now() + PATIENCE;
    while value(daemon, pointer) != wanted {
        assert!(Instant::now() < deadline, "{pointer} does not become {wanted}: {}", daemon.status());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_two_ssds_are_not_taken_for_each_other() {
    let site = site();
    let before = fs::read(site.path("read.img")).unwrap();
    let said = lode_fails(&["format", &site.text("read.img")]);
    assert!(said.contains("Lodestore read SSD") && said.contains("--force"), "{said}");
    assert!(fs::read(site.path("read.img")).unwrap() == before, "a refusal changes nothing");
    let said = lode_fails(&["format", "--read-ssd", &site.text("ssd.img")]);
    assert!(said.contains("Lodestore cache"), "{said}");
    let said = lode_fails(&["format", "--read-ssd", &site.text("ssd.img"), "--block", "8KiB"]);
    assert!(said.contains("--block"), "{said}");

    configure(&site, "read.img", "ssd.img", "read_ssd = \"16MiB\"");
    let said = site.serve_fails();
    assert!(said.contains("is a read SSD") && said.contains("exchanged"), "{said}");
    fs::copy(site.path("ssd.img"), site.path("other.img")).unwrap();
    configure(&site, "ssd.img", "other.img", "read_ssd = \"16MiB\"");
    let said = site.serve_fails();
    assert!(said.contains("exchanged"), "{said}");
    configure(&site, "ssd.img", "ssd.img", "read_ssd = \"16MiB\"");
    let said = site.serve_fails();
    assert!(said.contains("is the cache SSD (`ssd.path`) as well"), "{said}");
    File::create(site.path("empty.img")).unwrap().set_len(32 * MIB).unwrap();
    configure(&site, "ssd.img", "empty.img", "read_ssd = \"16MiB\"");
    let said = site.serve_fails();
    assert!(said.contains("lode format --read-ssd"), "{said}");
}

/// A read SSD that is somebody else's is not written over because it has the path of the one that was there.
#[test]
fn another_read_ssd_is_taken_when_it_is_named() {
    let site = site();
    site.serve_up().stop();
    let text = |name: &str| fs::read_to_string(site.path(name)).unwrap();
    let known = text("state/test.state");
    let known = known.lines().find_map(|line| line.strip_prefix("read_ssd = ")).expect("it is remembered");
    let known = known.trim_matches('"').to_owned();
    fs::rename(site.path("read.img"), site.path("known.img")).unwrap();
    lode_ok(&["format", "--read-ssd", &site.text("read.img"), "--create", "32MiB"]);
    let foreign = fs::read(site.path("read.img")).unwrap();
    let said = site.serve_fails();
    assert!(fs::read(site.path("read.img")).unwrap() == foreign, "a refusal changes nothing");
    let uuid =
        said.split("uuid = \"").nth(1).and_then(|rest| rest.split('"').next()).expect("a UUID").to_owned();
    assert!(uuid != known && said.contains(&known) && said.contains("`read_ssd.path`"), "{said}");
    let as_it_was = text("test.toml");
    let path = format!("path = \"{}\"\n", site.text("read.img"));
    fs::write(site.path("test.toml"), as_it_was.replace(&path, &format!("{path}uuid = \"{uuid}\"\n")))
        .unwrap();
    site.serve_up().stop();
    // It is the one that is known from now on.
    fs::write(site.path("test.toml"), &as_it_was).unwrap();
    site.serve_up().stop();
    fs::rename(site.path("known.img"), site.path("read.img")).unwrap();
    let said = site.serve_fails();
    assert!(said.contains(&uuid) && said.contains(&known), "{said}");
}

#[test]
fn shares_of_the_read_ssd_must_make_sense() {
    let site = site();
    configure(&site, "ssd.img", "read.img", "");
    let said = site.serve_fails();
    assert!(said.contains("tica-adaptive") && said.contains("`read_ssd`"), "{said}");
    configure(&site, "ssd.img", "read.img", "read_ssd = \"64MiB\"");
    let said = site.serve_fails();
    assert!(said.contains("make `read_ssd` of some VM smaller"), "{said}");
    let text = fs::read_to_string(site.path("test.toml")).unwrap();
    fs::write(site.path("test.toml"), text.replace("tica-adaptive", "etica")).unwrap();
    let said = site.serve_fails();
    assert!(said.contains("read-ssd") || said.contains("read_ssd"), "{said}");
    let unused = text.replace("read_ssd = \"64MiB\"", "").replace("tica-adaptive", "etica");
    fs::write(site.path("test.toml"), unused).unwrap();
    let said = site.serve_fails();
    assert!(said.contains("No VM has a share of the read SSD"), "{said}");
}

/// A VM that comes while others are served has its part of the read SSD, which is nobody else's; and it is there again when the VM
/// has gone.
#[test]
fn g4_a_newcomer_has_its_part_of_the_read_ssd() {
    let site = site();
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    let config = site.text("test.toml");
    let add = |name: &str, share: &str| {
        File::create(site.path(&format!("{name}.img"))).unwrap().set_len(64 * MIB).unwrap();
        let keys = [format!("backing={}", site.text(&format!("{name}.img"))), share.to_owned()];
        let listen = format!("listen=unix:{}", site.text(&format!("{name}.sock")));
        let fixed = ["dram=2MiB", "ssd=8MiB", "scheme=tica-adaptive"];
        let words = ["vm", "add", &config, name, &keys[0], &keys[1], &listen];
        lode(&[&words[..], &fixed].concat())
    };
    let said = add("vm2", "read_ssd=16MiB");
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    let words = ["VM vm2 cannot come: its share of the read SSD takes", "make its `read_ssd` smaller"];
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    for round in 0..3 {
        assert!(add("vm2", "read_ssd=8MiB").status.success(), "round {round}");
        assert!(!add("vm3", "read_ssd=8MiB").status.success(), "there is no room for two");
        let mut client = daemon.client("vm2");
        (0..BLOCKS).for_each(|at| client.write(at * u64::from(BLOCK), &block(at, 10 + round)));
        for _ in 0..2 * BLOCKS {
            client.read(32 * MIB, BLOCK);
        }
        let second = || daemon.status()["vms"][1].clone();
        let deadline = Instant::now() + PATIENCE;
        while second()["gauges"]["read_ssd_data_bytes"].as_u64() < Some(BLOCKS * u64::from(BLOCK)) {
            assert!(Instant::now() < deadline, "{}", second());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(second()["quota"]["read_ssd_blocks"], 8 * MIB / u64::from(BLOCK));
        for at in 0..BLOCKS {
            assert!(client.read(at * u64::from(BLOCK), BLOCK) == block(at, 10 + round), "block {at}");
        }
        check_all(&daemon, 1);
        drop(client);
        let deadline = Instant::now() + PATIENCE;
        while second()["connections"] != 0 {
            assert!(Instant::now() < deadline, "{}", second());
            std::thread::sleep(Duration::from_millis(5));
        }
        lode_ok(&["drain", &config, "--vm", "vm2"]);
        lode_ok(&["vm", "remove", &config, "vm2"]);
        fs::remove_file(site.path("vm2.img")).unwrap();
    }
    daemon.stop();
}

#[test]
fn both_ssds_serve_and_a_kill_loses_nothing() {
    let site = site();
    let daemon = site.serve();
    write_all(&daemon, 1);
    let number = |pointer| value(&daemon, pointer).as_u64().unwrap();
    assert_eq!(number("/gauges/dirty_blocks"), BLOCKS);
    assert_eq!(number("/gauges/unmirrored_blocks"), 0);
    assert!(number("/gauges/read_ssd_blocks") >= BLOCKS);
    check_all(&daemon, 1);
    assert!(number("/counters/read_hits/read_ssd") >= BLOCKS / 2, "{}", daemon.status());
    assert!(number("/latency/read/read_ssd/count") > 0);
    assert!(daemon.status()["read_ssd"]["uuid"].is_string());
    let text = lode_ok(&["status", &site.text("test.toml")]);
    assert!(text.contains("rd. SSD"), "{text}");
    daemon.kill();
    let daemon = site.serve();
    drop(daemon.client("vm1"));
    assert_eq!(value(&daemon, "/gauges/unmirrored_blocks"), BLOCKS, "mirrors are lost at a stop");
    let text = lode_ok(&["status", &site.text("test.toml")]);
    assert!(text.contains("on one device only"), "{text}");
    check_all(&daemon, 1);
    daemon.stop();
}

/// From now on the SSDs take no writes, as the daemon finds out at once.
fn fail_ssds(daemon: &Daemon<'_>) {
    // Files do not grow and take no writes beyond this: in the SSDs that is journal, tables and blocks, and in the disk no
    // block that is written here.
    let pid = daemon.child.id().to_string();
    assert!(Process::new("prlimit").args(["--fsize=131072", "--pid", &pid]).status().unwrap().success());
    let mut client = daemon.client("vm1");
    let answer = client.ask(Command::Write, 0, BLOCK, true, &block(0, 1)).expect("an answer");
    assert!(answer.is_err(), "nothing can be promised");
}

#[test]
fn a_stop_after_the_ssd_failed_waits_until_the_next_start_is_told() {
    if !has_tool("prlimit") {
        return;
    }
    let site = site();
    let mut daemon = site.serve();
    write_all(&daemon, 1);
    fail_ssds(&daemon);
    Process::new("kill").args(["-TERM", &daemon.child.id().to_string()]).status().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while daemon.child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "the daemon does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    let fence = fs::read_to_string(site.path("state/test.vm1.failed")).unwrap();
    assert!(fence.starts_with("all"), "{fence}");
    drop(daemon);
    let daemon = site.serve();
    check_all(&daemon, 1);
    daemon.stop();
}

/// The cache SSD takes no writes any more, and neither does the read SSD.
#[test]
fn when_the_ssd_fails_its_dirty_blocks_go_to_the_disk() {
    if !has_tool("prlimit") {
        return;
    }
    let site = site();
    let daemon = site.serve();
    write_all(&daemon, 1);
    fail_ssds(&daemon);
    wait_for(&daemon, "/gauges/dirty_blocks", 0);
    assert_eq!(value(&daemon, "/alarms/failed"), true);
    let fence = || fs::read_to_string(site.path("state/test.vm1.failed"));
    let deadline = Instant::now() + PATIENCE;
    while !fence().unwrap().starts_with("all") {
        assert!(Instant::now() < deadline, "{}", fence().unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
    check_all(&daemon, 1);
    let disk = fs::read(site.path("vm1.img")).unwrap();
    for at in 0..BLOCKS {
        let start = (at * u64::from(BLOCK)) as usize;
        assert!(disk[start..start + BLOCK as usize] == block(at, 1)[..], "block {at} on the disk");
    }
    daemon.kill();
    // The SSD works again.
    let daemon = site.serve();
    check_all(&daemon, 1);
    assert!(fence().is_err(), "it is done with");
    write_all(&daemon, 2);
    check_all(&daemon, 2);
    daemon.stop();
}
