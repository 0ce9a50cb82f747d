//! Whose a redo log is, and of what time: a group comes to the disk and the moment that it was written for, and to no other
//! (guarantees 4 and 11).

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::client::PATIENCE;
use crate::common::{Site, lode_fails, lode_ok, pattern};

const BLOCK: u64 = 4096;
/// Blocks of a group, so far from each other that a slow disk takes its time for each.
const BLOCKS: u64 = 256;
const STRIDE: u64 = 32 * BLOCK;
const BEFORE: u8 = 0xbb;

/// The first VM is written in order, to a slow disk.
fn slow_site() -> Site {
    let site = Site::new();
    reconfigure(&site, |text| {
        text.replacen(
            "ssd = \"32MiB\"",
            "ssd = \"32MiB\"\nwriteback = { ordered = true, group = \"1MiB\" }",
            1,
        )
        .replacen("/vm1.img\" }", "/vm1.img\", delay = \"hdd\" }", 1)
    });
    site
}

fn reconfigure(site: &Site, change: impl FnOnce(String) -> String) {
    let before = fs::read_to_string(site.path("test.toml")).unwrap();
    let after = change(before.clone());
    assert_ne!(before, after);
    fs::write(site.path("test.toml"), after).unwrap();
}

/// Blocks that a VM's log says it holds.
fn in_log(site: &Site, vm: &str) -> u32 {
    const STATES: [u64; 2] = [0x1000, 0x2000];
    let Ok(log) = fs::File::open(site.path(&format!("{vm}.img.redo"))) else { return 0 };
    let blocks = STATES.map(|at| {
        let mut bytes = [0; 4];
        log.read_exact_at(&mut bytes, at + 0x30).unwrap();
        u32::from_le_bytes(bytes)
    });
    blocks[0].min(blocks[1])
}

/// The daemon is killed while a group of the first VM is in its log and not yet on its disk.
fn kill_with_a_group(site: &Site, version: u64) {
    for _ in 0..5 {
        let daemon = site.serve_up();
        let mut client = daemon.client("vm1");
        for block in 0..BLOCKS {
            client.write(block * STRIDE, &pattern(block * STRIDE, version, BLOCK as usize));
        }
        client.flush();
        let deadline = Instant::now() + PATIENCE;
        while in_log(site, "vm1") == 0 {
            assert!(Instant::now() < deadline, "no group comes: {}", daemon.status());
            std::thread::sleep(Duration::from_millis(1));
        }
        daemon.kill();
        if in_log(site, "vm1") > 0 {
            return;
        }
    }
    panic!("every group is over before the kill");
}

/// The first VM's disk is as its backup has it.
fn restore(site: &Site) {
    let bytes = vec![BEFORE; fs::metadata(site.path("vm1.img")).unwrap().len() as usize];
    fs::write(site.path("vm1.img"), bytes).unwrap();
}

fn is_restored(site: &Site) -> bool {
    fs::read(site.path("vm1.img")).unwrap().iter().all(|&byte| byte == BEFORE)
}

fn sidecar(site: &Site) -> String {
    fs::read_to_string(site.path("vm1.img.sidecar")).unwrap()
}

fn cache_of(site: &Site) -> String {
    let listed = lode_ok(&["volume", "list", "--json", &site.text("test.toml")]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    listed["uuid"].as_str().unwrap().to_owned()
}

/// Asks a start and `lode recover` for a VM's disk: both refuse, with these words, and leave everything as it was.
fn both_refuse(site: &Site, vm: &str, words: &[&str]) {
    let [image, log] = ["img", "img.redo"].map(|ending| format!("{vm}.{ending}"));
    let files = || [&image, &log, "ssd.img"].map(|name| fs::read(site.path(name)).unwrap());
    let before = files();
    for said in [site.serve_fails(), lode_fails(&["recover", &site.text(&image)])] {
        for word in words.iter().chain([&&*log, &"blocks of group"]) {
            assert!(said.contains(word), "{word}: {said}");
        }
    }
    assert!(files() == before, "a refusal changes nothing");
}

#[test]
fn g4_a_redo_log_of_another_disk_is_refused_by_a_start_and_by_recover() {
    let site = slow_site();
    kill_with_a_group(&site, 1);
    let cache = cache_of(&site);
    fs::copy(site.path("vm1.img.redo"), site.path("vm2.img.redo")).unwrap();
    // Of another VM of the same cache, which is named.
    both_refuse(&site, "vm2", &[&cache, "vm2.img is not known as the disk", "VM vm2", "Move the log"]);
    let said = site.serve_fails();
    assert!(said.contains("(VM vm1)"), "{said}");
    // Of another cache.
    let other = Site::new();
    other.serve_up().stop();
    fs::copy(site.path("vm1.img.redo"), other.path("vm1.img.redo")).unwrap();
    both_refuse(&other, "vm1", &[&cache, &cache_of(&other), "vm1.img is not known as the disk"]);
    // By a daemon that is to serve one disk more.
    fs::remove_file(site.path("vm2.img.redo")).unwrap();
    let config = other.text("test.toml");
    fs::remove_file(other.path("vm1.img.redo")).unwrap();
    let daemon = other.serve_up();
    lode_ok(&["vm", "remove", &config, "vm1"]);
    fs::copy(site.path("vm1.img.redo"), other.path("vm1.img.redo")).unwrap();
    let image = fs::read(other.path("vm1.img")).unwrap();
    let keys = [
        format!("backing={}", other.text("vm1.img")),
        "ssd=8MiB".to_owned(),
        format!("listen=unix:{}", other.text("vm1.sock")),
    ];
    let said = lode_fails(&["vm", "add", &config, "vm1", &keys[0], &keys[1], &keys[2]]);
    assert!(said.contains(&cache) && said.contains("blocks of group"), "{said}");
    assert!(fs::read(other.path("vm1.img")).unwrap() == image);
    daemon.stop();
    // Where it belongs it is brought to the disk.
    let daemon = site.serve_up();
    assert_eq!(daemon.client("vm1").read(0, BLOCK as u32), pattern(0, 1, BLOCK as usize));
    assert!(site.log().contains("blocks of group"), "{}", site.log());
}

#[test]
fn g11_a_disk_and_its_log_are_enough_where_nothing_else_is_left() {
    let site = slow_site();
    kill_with_a_group(&site, 1);
    let cache = cache_of(&site);
    let copy = site.copy_of_disk("vm1");
    let said = lode_ok(&["recover", &copy]);
    assert!(said.contains("blocks came from its redo log. No sidecar says"), "{said}");
    // Nor is it taken for absent what cannot be read.
    let copy = site.copy_of_disk("vm1");
    let before = fs::read(&copy).unwrap();
    fs::write(site.path("copy.img.sidecar"), "version = 1\n").unwrap();
    let said = lode_fails(&["recover", &copy]);
    assert!(said.contains("copy.img.sidecar is damaged"), "{said}");
    let said = lode_fails(&["recover", &copy, "--sidecar", &site.text("nowhere")]);
    assert!(said.contains("There is no sidecar"), "{said}");
    let log = fs::File::options().write(true).open(site.path("copy.img.redo")).unwrap();
    log.write_all_at(&[0xff; 8], 0x20).unwrap();
    let said = lode_fails(&["recover", &copy, "--sidecar", &site.text("vm1.img.sidecar")]);
    assert!(said.contains("copy.img.redo") && said.contains("checksum"), "{said}");
    assert!(fs::read(&copy).unwrap() == before);
    // The disk's own is found where it is named.
    let copy = site.copy_of_disk("vm1");
    let told = lode_ok(&["recover", "--json", &copy, "--sidecar", &site.text("vm1.img.sidecar")]);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((told["cache"].as_str(), told["sidecar"].as_str().is_some()), (Some(&*cache), true));
    assert!(told["applied_blocks"].as_u64().unwrap() > 0);
    // A start that is told that the cache is lost brings the group to the disk as well.
    fs::remove_file(site.path("ssd.img")).unwrap();
    site.lose_memory();
    lode_ok(&["format", &site.text("ssd.img"), "--create", "128MiB"]);
    fs::remove_file(site.path("state/test.state")).unwrap();
    fs::copy(site.path("vm1.img.redo"), site.path("old.redo")).unwrap();
    reconfigure(&site, |text| format!("{text}\n[danger_zone]\nlost_caches = [\"{cache}\"]\n"));
    let daemon = site.serve_up();
    let mut client = daemon.client("vm1");
    assert!(site.log().contains("blocks of group"), "{}", site.log());
    for block in 0..BLOCKS {
        let bytes = client.read(block * STRIDE, BLOCK as u32);
        assert!(bytes == fs::read(&copy).unwrap()[(block * STRIDE) as usize..][..BLOCK as usize], "{block}");
    }
    client.write(0, &[7; BLOCK as usize]);
    client.flush();
    drop(client);
    daemon.stop_drained();
    // The host that died comes back with its log.
    fs::rename(site.path("old.redo"), site.path("vm1.img.redo")).unwrap();
    both_refuse(&site, "vm1", &[&cache, "is not known as the disk"]);
}

#[test]
fn g4_a_forced_removal_drops_the_group_of_a_disk_that_was_restored() {
    let site = slow_site();
    let config = site.text("test.toml");
    kill_with_a_group(&site, 1);
    // Without force nothing is touched: the cache has newer blocks.
    let files = || ["vm1.img", "vm1.img.redo"].map(|name| fs::read(site.path(name)).unwrap());
    let before = files();
    let said = lode_fails(&["volume", "remove", &config, "vm1"]);
    assert!(said.contains("--force"), "{said}");
    assert!(files() == before);
    restore(&site);
    let said = lode_ok(&["volume", "remove", "--force", &config, "vm1"]);
    assert!(said.contains("vm1.img.redo") && said.contains("went with it"), "{said}");
    assert!(!site.path("vm1.img.redo").exists() && sidecar(&site).contains("state = \"clean\""));
    let daemon = site.serve_up();
    assert_eq!(daemon.client("vm1").read(0, BLOCK as u32), [BEFORE; BLOCK as usize]);
    daemon.stop_drained();
    assert!(is_restored(&site));
}

#[test]
fn g4_a_removal_that_was_cut_short_brings_no_group_to_a_disk_and_can_be_ended() {
    let site = slow_site();
    let config = site.text("test.toml");
    kill_with_a_group(&site, 1);
    let [log, held] = ["vm1.img.redo", "vm1.img.sidecar"].map(|name| fs::read(site.path(name)).unwrap());
    // The log is gone, and the SSD still has the volume: it is served as after a kill.
    let left = site.path("left.redo");
    fs::rename(site.path("vm1.img.redo"), &left).unwrap();
    let daemon = site.serve_up();
    assert_eq!(daemon.client("vm1").read(0, BLOCK as u32), pattern(0, 1, BLOCK as usize));
    daemon.kill();
    restore(&site);
    // The SSD has forgotten the volume, and nobody has said so beside the disk; the log is what an older program leaves.
    lode_ok(&["volume", "remove", "--force", &config, "vm1"]);
    fs::write(site.path("vm1.img.redo"), &log).unwrap();
    let said = site.serve_fails();
    assert!(said.contains("the disk alone has everything") && said.contains("remove the log"), "{said}");
    fs::write(site.path("vm1.img.sidecar"), held).unwrap();
    let said = site.serve_fails();
    assert!(said.contains("has given that volume") && said.contains("`lode recover"), "{said}");
    assert!(is_restored(&site));
    let said = lode_ok(&["volume", "remove", "--force", &config, "vm1"]);
    assert!(said.contains("went with it"), "{said}");
    assert!(!site.path("vm1.img.redo").exists() && sidecar(&site).contains("state = \"clean\""));
    assert!(lode_fails(&["volume", "remove", "--force", &config, "vm1"]).contains("vm1"));
    site.serve_up().stop_drained();
    assert!(is_restored(&site));
}

#[test]
fn g4_a_group_of_an_earlier_generation_is_refused() {
    let site = slow_site();
    kill_with_a_group(&site, 1);
    let old = fs::read(site.path("vm1.img.redo")).unwrap();
    site.serve_up().stop_drained();
    // The disk was given back since.
    let now = fs::read(site.path("vm1.img.redo")).unwrap();
    let put = |log: &[u8]| fs::write(site.path("vm1.img.redo"), log).unwrap();
    put(&old);
    both_refuse(&site, "vm1", &["the disk alone has everything", "remove the log"]);
    let config = site.text("test.toml");
    assert!(lode_fails(&["volume", "remove", &config, "vm1"]).contains("the disk alone has everything"));
    // And it was served again, by the same volume.
    put(&now);
    let daemon = site.serve_up();
    let mut client = daemon.client("vm1");
    assert!(sidecar(&site).contains("generation = 2"), "{}", sidecar(&site));
    client.write(0, &[2; BLOCK as usize]);
    drop(client);
    daemon.kill();
    let now = fs::read(site.path("vm1.img.redo")).unwrap();
    put(&old);
    both_refuse(&site, "vm1", &["in generation 1 of the disk's sidecar", "is of generation 2"]);
    put(&now);
    let daemon = site.serve_up();
    assert_eq!(daemon.client("vm1").read(0, BLOCK as u32), [2; BLOCK as usize]);
}

/// What was given back and is served again without a restart writes groups of the new generation.
#[test]
fn g11_a_group_of_a_disk_that_was_taken_back_is_its_own() {
    let site = slow_site();
    let config = site.text("test.toml");
    let daemon = site.serve_up();
    lode_ok(&["vm", "drain", &config, "vm1", "--for-migration"]);
    // Others may open the log as well as the disk.
    let told = lode_ok(&["recover", "--json", &site.text("vm1.img")]);
    assert!(told.contains("\"applied_blocks\": 0") || told.contains("\"applied_blocks\":0"), "{told}");
    lode_ok(&["vm", "drain", &config, "vm1", "--cancel"]);
    assert!(sidecar(&site).contains("generation = 2"), "{}", sidecar(&site));
    let mut client = daemon.client("vm1");
    for block in 0..BLOCKS {
        client.write(block * STRIDE, &pattern(block * STRIDE, 1, BLOCK as usize));
    }
    client.flush();
    let deadline = Instant::now() + PATIENCE;
    while in_log(&site, "vm1") == 0 {
        assert!(Instant::now() < deadline, "no group comes: {}", daemon.status());
        std::thread::sleep(Duration::from_millis(1));
    }
    daemon.kill();
    let daemon = site.serve_up();
    assert_eq!(daemon.client("vm1").read(0, BLOCK as u32), pattern(0, 1, BLOCK as usize));
    // It leaves the log to whoever serves the disk next.
    daemon.client("vm1").flush();
    lode_ok(&["vm", "drain", &config, "vm1", "--for-migration"]);
    lode_ok(&["vm", "remove", &config, "vm1"]);
    assert!(site.path("vm1.img.redo").exists());
    daemon.stop();
}
