//! What the daemon refuses to format or to serve.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{MIB, Site, has_tool, lode, lode_fails, lode_ok};

#[test]
fn format_spares_what_it_recognises() {
    let site = Site::new();
    let ssd = site.text("ssd.img");
    let before = fs::read(&ssd).unwrap();
    let said = lode_fails(&["format", &ssd]);
    assert!(said.contains("holds: Lodestore cache") && said.contains("--force"), "{said}");
    assert!(fs::read(&ssd).unwrap() == before, "a refusal changes nothing");
    lode_ok(&["format", &ssd, "--force"]);
    assert!(fs::read(&ssd).unwrap() != before);
    if !has_tool("mkfs.ext4") {
        return;
    }
    let ext4 = site.text("ext4.img");
    File::create(&ext4).unwrap().set_len(64 * MIB).unwrap();
    assert!(Command::new("/sbin/mkfs.ext4").args(["-q", "-F", &ext4]).status().unwrap().success());
    let before = fs::read(&ext4).unwrap();
    let said = lode_fails(&["format", &ext4]);
    assert!(said.contains("ext4"), "{said}");
    assert!(fs::read(&ext4).unwrap() == before, "a refusal changes nothing");
}

#[test]
fn a_device_in_use_is_neither_formatted_nor_served_twice() {
    let site = Site::new();
    let daemon = site.serve();
    drop(daemon.client("vm1"));
    let said = lode_fails(&["format", &site.text("ssd.img"), "--force"]);
    assert!(said.contains("locked"), "{said}");
    let said = site.serve_fails();
    assert!(said.contains("test.sock"), "{said}");
    // The first one did not notice.
    daemon.client("vm1").write(0, &[1; 512]);
    daemon.stop();
}

#[test]
fn another_cache_is_not_served_in_place_of_the_known_one() {
    let site = Site::new();
    site.serve_once();
    fs::rename(site.path("ssd.img"), site.path("old.img")).unwrap();
    lode_ok(&["format", &site.text("ssd.img"), "--create", "128MiB"]);
    let said = site.serve_fails();
    assert!(said.contains("last served cache") && said.contains("state"), "{said}");
    fs::remove_file(site.path("state/test.state")).unwrap();
    // What the known one holds of the disk is said to be lost.
    let said = site.serve_fails();
    let uuid =
        said.split("lost_caches = [\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a name");
    site.configure(&format!("[danger_zone]\nlost_caches = [\"{uuid}\"]"));
    site.serve_once();
}

#[test]
fn the_configured_identity_must_be_found() {
    let site = Site::new();
    let path = site.path("test.toml");
    let text = fs::read_to_string(&path).unwrap();
    let uuid = "uuid = \"00112233-4455-4677-8899-aabbccddeeff\"\n\n[[vm]]\nname = \"vm1\"";
    fs::write(&path, text.replacen("[[vm]]\nname = \"vm1\"", uuid, 1)).unwrap();
    let said = site.serve_fails();
    assert!(said.contains("00112233-4455-4677-8899-aabbccddeeff") && said.contains("uuid"), "{said}");
}

#[test]
fn an_old_copy_of_the_cache_is_not_served() {
    let site = Site::new();
    site.serve_once();
    fs::copy(site.path("ssd.img"), site.path("copy.img")).unwrap();
    site.serve_once();
    fs::rename(site.path("copy.img"), site.path("ssd.img")).unwrap();
    let said = site.serve_fails();
    assert!(said.contains("old copy") && said.contains("epoch"), "{said}");
}

#[test]
fn a_device_of_another_size_is_not_served() {
    let site = Site::new();
    site.serve_once();
    File::options().write(true).open(site.path("ssd.img")).unwrap().set_len(256 * MIB).unwrap();
    let said = site.serve_fails();
    assert!(said.contains("was made for"), "{said}");
    File::options().write(true).open(site.path("ssd.img")).unwrap().set_len(128 * MIB).unwrap();
    site.serve_once();
}

#[test]
fn a_smaller_backing_disk_is_not_served() {
    let site = Site::new();
    site.serve_once();
    let before = fs::read(site.path("ssd.img")).unwrap();
    File::options().write(true).open(site.path("vm1.img")).unwrap().set_len(32 * MIB).unwrap();
    let said = site.serve_fails();
    assert!(said.contains("vm1") && said.contains("another disk"), "{said}");
    assert!(fs::read(site.path("ssd.img")).unwrap() == before, "a refusal changes nothing");
}

#[test]
fn backing_disks_that_changed_places_are_not_served() {
    let site = Site::new();
    site.serve_once();
    if !fs::read_to_string(site.path("state/test.state")).unwrap().contains("vm1") {
        return lode_testdata::skip("this file system does not tell files apart");
    }
    let swap = || {
        fs::rename(site.path("vm1.img"), site.path("other.img")).unwrap();
        fs::rename(site.path("vm2.img"), site.path("vm1.img")).unwrap();
        fs::rename(site.path("other.img"), site.path("vm2.img")).unwrap();
    };
    swap();
    let before = fs::read(site.path("ssd.img")).unwrap();
    let said = site.serve_fails();
    assert!(
        said.contains("VM vm1") && said.contains("another one") && said.contains("`backing.path`"),
        "{said}"
    );
    assert!(fs::read(site.path("ssd.img")).unwrap() == before, "a refusal changes nothing");
    swap();
    site.serve_once();
    // A new disk for the VM, on purpose.
    fs::write(site.path("new.img"), vec![7; 64 * MIB as usize]).unwrap();
    fs::rename(site.path("new.img"), site.path("vm1.img")).unwrap();
    assert!(site.serve_fails().contains("volume remove"));
    lode_ok(&["volume", "remove", "--force", &site.text("test.toml"), "vm1"]);
    let daemon = site.serve();
    assert!(daemon.client("vm1").read(0, 4096) == [7; 4096]);
    daemon.stop();
}

#[test]
fn a_wrong_configuration_is_refused_with_its_line() {
    let site = Site::new();
    site.configure("[limits]\nconections = 3");
    let said = site.serve_fails();
    assert!(said.contains("test.toml:") && said.contains("conections"), "{said}");
    assert!(!lode_fails(&["serve", "--check", &site.text("test.toml")]).is_empty());
    site.configure("");
    let said = lode_ok(&["serve", "--check", &site.text("test.toml")]);
    let is_good = format!("{} is good: 2 VMs. ", site.text("test.toml"));
    assert!(said.starts_with(&is_good), "{said}");
    // What memory each of the two takes, and both.
    for (what, times) in
        [(" SSD places ", 3), (" all tables ", 3), (" vm1 ", 1), (" all VMs ", 1), ("enough", 1)]
    {
        assert_eq!(said.matches(what).count(), times, "{what} in {said}");
    }
    let row = said.lines().find(|line| line.contains(" SSD places ")).expect("a row for it");
    let a_block: f64 =
        row.split_whitespace().last().and_then(|word| word.parse().ok()).expect("bytes a block");
    // Nine a place, its bits, and what is there whatever the share is.
    assert!(a_block > 9.0, "{row}");
    let said = lode_ok(&["serve", "--check", "--json", &site.text("test.toml")]);
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&json["vms"][1]["scheme"], &json["is_enough"]), (&"lru".into(), &true.into()), "{said}");
    let tables = json["together"]["tables"].as_object().expect("tables by kind");
    let sum: u64 = tables.values().filter_map(serde_json::Value::as_u64).sum();
    assert!(tables.contains_key("ssd_places_bytes") && json["together"]["tables_bytes"] == sum, "{said}");
    assert!(lode_fails(&["serve", "--json", &site.text("test.toml")]).contains("--check"));
}

#[test]
fn a_dry_run_of_formatting_writes_nothing() {
    let site = Site::new();
    let ssd = site.text("ssd.img");
    let before = fs::read(site.path("ssd.img")).unwrap();
    let said = lode_fails(&["format", &ssd, "--dry-run"]);
    assert!(said.contains("in use"), "{said}");
    let said = lode_ok(&["format", &ssd, "--dry-run", "--force"]);
    for words in
        ["Nothing was written", "superblock", "directory", "extents of 1 MiB", "SSD places: ", "slots: "]
    {
        assert!(said.contains(words), "{words} in {said}");
    }
    assert!(fs::read(site.path("ssd.img")).unwrap() == before);
    let said = lode_ok(&["format", &site.text("new.img"), "--dry-run", "--create", "64MiB"]);
    assert!(said.contains("would make the file, of 64 MiB"), "{said}");
    let said = lode_ok(&["format", &site.text("new.img"), "--dry-run", "--create", "64MiB", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&json["device_bytes"], &json["uuid"]),
        (&(64 * MIB).into(), &serde_json::Value::Null),
        "{said}"
    );
    assert_eq!(json["data_bytes"].as_u64(), json["places"].as_u64().map(|places| places * 4096), "{said}");
    let said = lode_fails(&["format", &site.text("new.img"), "--dry-run", "--create", "64KiB"]);
    assert!(said.contains("smallest possible size"), "{said}");
    let said = lode_ok(&["format", "--read-ssd", &ssd, "--dry-run", "--force"]);
    assert!(said.contains("label"), "{said}");
    assert!(fs::read(site.path("ssd.img")).unwrap() == before && !site.path("new.img").exists());
}

#[test]
fn a_log_beyond_the_disk_and_levels_without_use_are_refused() {
    let site = Site::new();
    let folder = site.path("");
    let folder = folder.display();
    File::create(site.path("vm3.img")).unwrap().set_len(8 * MIB).unwrap();
    let vm3 = |scheme: &str| {
        site.configure(&format!(
            "[[vm]]\nname = \"vm3\"\nbacking = {{ path = \"{folder}vm3.img\" }}\nssd = \"1MiB\"\n\
             listen = [\"unix:{folder}vm3.sock\"]\n{scheme}"
        ));
    };
    let with_log = |first: u64| {
        vm3(&format!(
            "scheme = \"request-oriented\"\n\
             settings = {{ admission = \"wal\", log_first_block = {first}, log_blocks = 8 }}"
        ));
    };
    // The disk has blocks 0 to 2047.
    with_log(2048);
    for said in [lode_fails(&["serve", "--check", &site.text("test.toml")]), site.serve_fails()] {
        assert!(said.contains("vm3") && said.contains("log_first_block=2048 lies beyond the disk"), "{said}");
    }
    with_log(2047);
    lode_ok(&["serve", "--check", &site.text("test.toml")]);
    vm3("scheme = \"l2arc-like\"");
    let said = lode_fails(&["serve", "--check", &site.text("test.toml")]);
    assert!(said.contains("does not work without a share of the dram level"), "{said}");
}

#[test]
fn a_refused_start_changes_nothing_on_the_ssd() {
    let site = Site::new();
    site.serve_once();
    let before = fs::read(site.path("ssd.img")).unwrap();
    fs::rename(site.path("vm2.img"), site.path("away.img")).unwrap();
    let refused = |words: &[&str]| {
        let began = Instant::now();
        let said = site.serve_fails();
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        assert!(!said.contains("create"), "{said}");
        assert!(began.elapsed() < Duration::from_secs(5), "it waited for a lock of its own");
        assert!(fs::read(site.path("ssd.img")).unwrap() == before, "a refusal changes nothing");
    };
    refused(&["VM vm2", "vm2.img", "`backing.path`"]);
    File::create(site.path("vm2.img")).unwrap();
    refused(&["VM vm2", "no bytes", "`backing.path`"]);
    File::create(site.path("vm2.img")).unwrap().set_len(1000).unwrap();
    refused(&["volume 'vm2' has 1000 bytes, and had 67108864"]);
    fs::remove_file(site.path("vm2.img")).unwrap();
    symlink(site.path("vm1.img"), site.path("vm2.img")).unwrap();
    refused(&["VM vm2", "VM vm1"]);
    fs::remove_file(site.path("vm2.img")).unwrap();
    fs::hard_link(site.path("ssd.img"), site.path("vm2.img")).unwrap();
    refused(&["VM vm2", "the cache SSD"]);
    fs::rename(site.path("away.img"), site.path("vm2.img")).unwrap();
    site.serve_once();
}

#[test]
fn an_ssd_that_is_not_formatted_is_not_served() {
    let site = Site::new();
    File::create(site.path("ssd.img")).unwrap().set_len(128 * MIB).unwrap();
    let said = site.serve_fails();
    assert!(said.contains(&format!("`lode format {}` first", site.text("ssd.img"))), "{said}");
}

#[test]
fn sizes_that_do_not_fit_are_wrong_usage() {
    let site = Site::new();
    let path = site.text("new.img");
    let cases: [(&[&str], &str); 3] = [
        (&["--create", "64KiB"], "smallest possible size"),
        (&["--create", "1048576TiB"], "largest possible size"),
        (&["--create", "64MiB", "--extent", "3MiB"], "power of two from 1 MiB to 4 GiB"),
    ];
    for (more, word) in cases {
        let output = lode(&[&["format", &path], more].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(word), "{said}");
        assert!(!site.path("new.img").exists(), "nothing is left behind");
    }
}

#[test]
fn a_file_without_room_is_not_left_behind() {
    let site = Site::new();
    let path = site.text("new.img");
    // Files may have 2 MiB here, and the signal that says so is ignored.
    let script = "trap '' XFSZ; ulimit -f 4096; exec \"$0\" format \"$1\" --create 64MiB";
    let output =
        Command::new("/bin/sh").args(["-c", script, env!("CARGO_BIN_EXE_lode"), &path]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("64 MiB") && said.contains("new.img") && said.contains("smaller"), "{said}");
    assert!(!site.path("new.img").exists(), "nothing is left behind");
}

impl Site {
    /// Serves, writes a little, and stops cleanly.
    fn serve_once(&self) {
        let daemon = self.serve();
        daemon.client("vm1").write(0, &[1; 4096]);
        daemon.stop();
    }
}
