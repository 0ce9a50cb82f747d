//! Writing back what only the SSD has, while guests are served and at the end.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Daemon, MIB, Site, SmallFolder, has_tool, lode, lode_fails, lode_ok, pattern};

/// A status' number for a VM.
fn gauge(status: &Value, vm: usize, key: &str) -> u64 {
    status["vms"][vm]["gauges"][key].as_u64().unwrap()
}

fn dirty_blocks(daemon: &Daemon<'_>) -> [u64; 2] {
    let status = daemon.status();
    [0, 1].map(|vm| gauge(&status, vm, "dirty_blocks"))
}

/// Two daemons' worth of writes: both VMs have dirty blocks. Returns what their disks are to hold.
fn write_some(daemon: &Daemon<'_>, version: u64) -> [Vec<u8>; 2] {
    let bytes = [1, 2].map(|vm| pattern(0, 10 * version + vm, 6 * MIB as usize));
    for (vm, bytes) in ["vm1", "vm2"].into_iter().zip(&bytes) {
        daemon.client(vm).write(0, bytes);
    }
    bytes
}

fn backing_holds(site: &Site, vm: usize, bytes: &[u8]) -> bool {
    fs::read(site.path(["vm1.img", "vm2.img"][vm])).unwrap().starts_with(bytes)
}

#[test]
fn an_idle_vm_is_written_back() {
    let site = Site::new();
    let text = fs::read_to_string(site.path("test.toml")).unwrap();
    let limits = "writeback = { dirty = \"90%\", idle = \"2s\" }\n";
    fs::write(site.path("test.toml"), format!("{text}{limits}")).unwrap();
    let daemon = site.serve();
    let bytes = write_some(&daemon, 1);
    let view = &daemon.status()["vms"][1]["writeback"];
    assert_eq!((&view["dirty_limit_blocks"], &view["age_s"]), (&3686.into(), &3600.into()), "{view}");
    let began = Instant::now();
    while dirty_blocks(&daemon)[1] > 0 {
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", dirty_blocks(&daemon));
        sleep(Duration::from_millis(100));
    }
    assert!(backing_holds(&site, 1, &bytes[1]));
    assert!(dirty_blocks(&daemon)[0] >= 1024, "the other VM may take its time");
    assert!(daemon.client("vm2").read(0, bytes[1].len() as u32) == bytes[1]);
    assert_eq!(daemon.status()["vms"][1]["counters"]["read_misses"], 0, "it stays cached");
    daemon.stop();
}

#[test]
fn a_reload_changes_what_it_can_and_nothing_else() {
    let site = Site::new();
    let daemon = site.serve_up();
    let config = site.text("test.toml");
    let text = fs::read_to_string(&config).unwrap();
    assert_eq!(lode_ok(&["reload", &config]), "Reloaded; nothing has changed\n");
    let mut client = daemon.client("vm2");
    client.write(0, &pattern(0, 1, MIB as usize));
    // With something that needs a restart, nothing is changed.
    let limits = "writeback = { idle = \"1s\" }\n[limits]\nconnections = 1\n";
    fs::write(&config, format!("{text}{limits}").replace("shards = 2", "shards = 1")).unwrap();
    let said = lode_fails(&["reload", &config]);
    assert!(said.contains("Nothing was changed: shards can only change with a restart"), "{said}");
    fs::write(&config, format!("{text}oops")).unwrap();
    assert!(lode_fails(&["reload", &config]).contains("test.toml:"));
    let idle = |daemon: &Daemon<'_>| daemon.status()["vms"][1]["writeback"]["idle_s"].clone();
    fs::write(&config, &text).unwrap();
    assert_eq!(idle(&daemon), 30);
    // By a signal, which used to end the daemon.
    fs::write(&config, format!("{text}{limits}")).unwrap();
    assert!(Command::new("kill").args(["-HUP", &daemon.child.id().to_string()]).status().unwrap().success());
    let began = Instant::now();
    while idle(&daemon) != 1 || dirty_blocks(&daemon)[1] > 0 {
        assert!(began.elapsed() < Duration::from_secs(30), "{}", site.log());
        sleep(Duration::from_millis(100));
    }
    assert!(client.read(0, MIB as u32) == pattern(0, 1, MIB as usize), "its client stays");
    if has_tool("nbdinfo") {
        let said = Command::new("nbdinfo").arg(site.uri("vm2")).output().unwrap();
        assert!(!said.status.success(), "and is the only one that may");
    }
    assert_eq!(lode_ok(&["reload", &config]), "Reloaded; nothing has changed\n");
    daemon.stop();
}

#[test]
fn a_drained_cache_stays_and_its_disks_are_up_to_date() {
    let site = Site::new();
    let daemon = site.serve();
    let bytes = write_some(&daemon, 1);
    let held = [0, 1].map(|vm| gauge(&daemon.status(), vm, "ssd_blocks"));
    assert!(dirty_blocks(&daemon).iter().all(|blocks| *blocks >= 1024), "{:?}", dirty_blocks(&daemon));
    assert!(!backing_holds(&site, 0, &bytes[0]) && !backing_holds(&site, 1, &bytes[1]));

    let expected = format!("Drained; {} blocks written back, ", dirty_blocks(&daemon)[1]);
    let said = lode_ok(&["drain", &site.text("test.toml"), "--vm", "vm2"]);
    assert!(said.starts_with(&expected) && said.lines().count() == 1, "{said}");
    let dirty = dirty_blocks(&daemon);
    assert!(dirty[0] >= 1024 && dirty[1] == 0, "{dirty:?}");
    assert!(backing_holds(&site, 1, &bytes[1]));

    lode_ok(&["drain", &site.text("test.toml")]);
    assert_eq!(dirty_blocks(&daemon), [0, 0]);
    assert!(backing_holds(&site, 0, &bytes[0]) && backing_holds(&site, 1, &bytes[1]));
    let status = daemon.status();
    assert_eq!([0, 1].map(|vm| gauge(&status, vm, "ssd_blocks")), held, "the blocks stay cached");
    assert!(status["vms"][0]["draining_blocks"].is_null());
    for (vm, bytes) in ["vm1", "vm2"].into_iter().zip(&bytes) {
        assert!(daemon.client(vm).read(0, bytes.len() as u32) == *bytes);
    }
    assert_eq!(daemon.status()["vms"][1]["counters"]["read_misses"], 0);

    let said = lode_fails(&["drain", &site.text("test.toml"), "--vm", "vm3"]);
    assert!(said.contains("'vm3'"), "{said}");
    let said = lode_ok(&["drain", &site.text("test.toml"), "--cancel"]);
    assert_eq!(said, "No drain is under way any more\n");
    daemon.stop();
}

#[test]
fn a_stop_says_what_only_the_ssd_has_unless_it_drains() {
    let site = Site::new();
    let mut daemon = site.serve();
    write_some(&daemon, 1);
    daemon.check_counts();
    let said = lode_ok(&["stop", &site.text("test.toml")]);
    assert!(said.contains("blocks newer on the SSD") && said.contains("--drain"), "{said}");
    daemon.wait_for_end();

    let mut daemon = site.serve();
    let bytes = write_some(&daemon, 2);
    daemon.check_counts();
    let said = lode_ok(&["stop", "--drain", &site.text("test.toml")]);
    assert!(said.contains("up to date"), "{said}");
    daemon.wait_for_end();
    assert!(backing_holds(&site, 0, &bytes[0]) && backing_holds(&site, 1, &bytes[1]));

    // What refusals advise a drain for is possible now, and the cache is still warm.
    let config = fs::read_to_string(site.path("test.toml")).unwrap();
    let smaller = config.replace("ssd = \"32MiB\"", "ssd = \"8MiB\"");
    let changed = smaller.replace("scheme = \"lru\"", "scheme = \"lru\"\nread_only = true");
    assert!(smaller != config && changed != smaller);
    fs::write(site.path("test.toml"), changed).unwrap();
    let daemon = site.serve();
    assert!(daemon.client("vm2").read(0, bytes[1].len() as u32) == bytes[1]);
    assert_eq!(daemon.status()["vms"][1]["counters"]["read_misses"], 0);
    daemon.stop();
}

#[test]
fn what_needs_a_drain_is_refused_and_nothing_is_changed() {
    let site = Site::new();
    let daemon = site.serve();
    let bytes = pattern(0, 7, 30 * MIB as usize);
    daemon.client("vm1").write(0, &bytes);
    daemon.stop();
    let before = fs::read(site.path("ssd.img")).unwrap();
    let config = fs::read_to_string(site.path("test.toml")).unwrap();
    let cases = [
        (config.replace("ssd = \"32MiB\"", "ssd = \"1MiB\""), "vm1", "drain"),
        (config.replace("dram = \"4MiB\"", "read_only = true"), "vm1", "drain"),
        (config.replace("ssd = \"16MiB\"", "ssd = \"1GiB\""), "vm2", "MiB"),
        (config.replace("vm2.sock", "no/such/folder.sock"), "folder.sock", "listen"),
        (config.replace("dram = \"4MiB\"", "dram = \"4TiB\""), "TiB", "memory"),
    ];
    for (changed, name, word) in cases {
        assert_ne!(changed, config);
        fs::write(site.path("test.toml"), changed).unwrap();
        let said = site.serve_fails();
        assert!(said.contains(name) && said.contains(word), "{said}");
        assert!(fs::read(site.path("ssd.img")).unwrap() == before, "a refusal changes nothing: {said}");
    }
    fs::write(site.path("test.toml"), config).unwrap();
    let daemon = site.serve();
    assert!(daemon.client("vm1").read(0, bytes.len() as u32) == bytes);
    daemon.stop();
}

#[test]
fn a_volume_that_nobody_needs_gives_its_space_back() {
    let site = Site::new();
    let config = site.text("test.toml");
    let mut daemon = site.serve();
    let bytes = write_some(&daemon, 1);
    daemon.check_counts();
    lode_ok(&["stop", "--drain", &config]);
    daemon.wait_for_end();
    let list =
        || -> Value { serde_json::from_str(&lode_ok(&["volume", "list", &config, "--json"])).unwrap() };
    let before = list();
    let volumes = before["volumes"].as_array().unwrap();
    assert_eq!(volumes.iter().map(|v| v["name"].as_str().unwrap()).collect::<Vec<_>>(), ["vm1", "vm2"]);
    assert!(volumes.iter().all(|v| v["dirty_blocks"] == 0 && v["blocks"].as_u64() >= Some(1024)), "{before}");
    assert!(lode_ok(&["volume", "list", &config]).contains("vm2"));

    // Under its new name the VM is new to the cache, which has no room for both.
    let text = fs::read_to_string(site.path("test.toml")).unwrap();
    let renamed = text
        .replace("name = \"vm1\"", "name = \"web\"")
        .replace("vm1.sock", "web.sock")
        .replace("ssd = \"32MiB\"", "ssd = \"80MiB\"");
    fs::write(site.path("test.toml"), renamed).unwrap();
    let said = site.serve_fails();
    assert!(said.contains("'web'") && said.contains("remove a volume"), "{said}");
    assert_eq!(list()["volumes"][0]["configured"], false);
    assert!(lode_fails(&["volume", "remove", &config, "vm3"]).contains("vm1, vm2"));
    let said = lode_ok(&["volume", "remove", &config, "vm1"]);
    assert!(said.contains("free again"), "{said}");
    assert!(list()["free_bytes"].as_u64() > before["free_bytes"].as_u64());
    let daemon = site.serve();
    assert!(daemon.client("web").read(0, bytes[0].len() as u32) == bytes[0]);
    daemon.client("web").write(0, &bytes[1]);
    daemon.stop();

    // What only the SSD has goes only by force, and wrong usage is told from failure.
    let output = lode(&["volume", "remove", &config, "web"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("--force") && said.contains("drain"), "{said}");
    lode_ok(&["volume", "remove", &config, "web", "--force"]);
    let daemon = site.serve();
    assert!(daemon.client("web").read(0, bytes[0].len() as u32) == bytes[0], "the backing disk was older");
    daemon.stop();
}

#[test]
fn dirty_blocks_are_not_left_behind() {
    let site = Site::new();
    let daemon = site.serve();
    write_some(&daemon, 1);
    daemon.stop();
    let config = fs::read_to_string(site.path("test.toml")).unwrap();
    let state = fs::read_to_string(site.path("state/test.state")).unwrap();
    let ssd = fs::read(site.path("ssd.img")).unwrap();
    let refused = |changed: String, words: &[&str]| {
        assert_ne!(changed, config);
        fs::write(site.path("test.toml"), changed).unwrap();
        let said = site.serve_fails();
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        assert!(fs::read(site.path("ssd.img")).unwrap() == ssd, "a refusal changes nothing");
        assert_eq!(fs::read_to_string(site.path("state/test.state")).unwrap(), state);
    };
    // Without the SSD the guests would miss what they wrote.
    let lines = config.lines().filter(|line| !line.contains("ssd"));
    refused(lines.collect::<Vec<_>>().join("\n"), &["[ssd]", "stop --drain"]);
    // The same disk under another name as well.
    if state.contains("vm1") {
        let renamed = config.replace("name = \"vm1\"", "name = \"web\"");
        refused(renamed, &["VM web", "'vm1'", "stop --drain"]);
    }
    fs::write(site.path("test.toml"), config).unwrap();
    let daemon = site.serve();
    // It answers once it is up.
    drop(daemon.client("vm1"));
    daemon.stop_drained();
}

/// A backing disk in a file system without room for what is to be written back.
#[test]
fn a_drain_that_cannot_end_does_not_keep_the_daemon_from_stopping() {
    let site = Site::new();
    let Some(small) = SmallFolder::new(site.path("small"), MIB) else { return };
    let disk = small.0.join("vm2.img");
    fs::File::create(&disk).unwrap().set_len(64 * MIB).unwrap();
    fs::remove_file(site.path("vm2.img")).unwrap();
    std::os::unix::fs::symlink(&disk, site.path("vm2.img")).unwrap();
    let mut daemon = site.serve();
    let bytes = pattern(0, 5, 4 * MIB as usize);
    daemon.client("vm2").write(0, &bytes);
    daemon.client("vm2").flush();
    daemon.check_counts();
    let output = lode(&["stop", "--drain", &site.text("test.toml")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("could not be written back"), "{said}");
    daemon.wait_for_end();
    assert!(site.log().contains("VM vm2: a command on the backing disk failed: No space left on device"));
    assert!(!backing_holds(&site, 1, &bytes));
    // With room again, nothing is lost.
    let grown = Command::new("mount").args(["-o", "remount,size=128M"]).arg(&small.0).status().unwrap();
    assert!(grown.success());
    let daemon = site.serve();
    assert!(daemon.client("vm2").read(0, bytes.len() as u32) == bytes);
    daemon.stop_drained();
    assert!(backing_holds(&site, 1, &bytes));
}
