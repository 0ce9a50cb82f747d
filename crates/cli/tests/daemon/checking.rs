//! `lode check`: what it finds on an SSD, what it says with its exit code, and what a repair leaves.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use serde_json::Value;

use lode_nbd::Command;

use crate::common::{MIB, Site, lode, lode_fails, lode_ok, pattern};

/// Runs `lode check --json` and returns its exit code and what was found of the first target.
fn check(arguments: &[&str]) -> (i32, Value) {
    let output = lode(&[&["check", "--json"], arguments].concat());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let reports: Value = serde_json::from_str(&said)
        .unwrap_or_else(|_| panic!("{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), reports[0].clone())
}

/// Flips a bit of the first block of the SSD with these bytes.
fn damage(site: &Site, bytes: &[u8]) -> u64 {
    let ssd = File::options().read(true).write(true).open(site.path("ssd.img")).unwrap();
    let all = fs::read(site.path("ssd.img")).unwrap();
    let at = all.chunks(4096).position(|block| block == bytes).expect("it is on the SSD") as u64 * 4096;
    ssd.write_all_at(&[bytes[77] ^ 4], at + 77).unwrap();
    at
}

#[test]
fn a_check_finds_damage_and_a_repair_mends_what_the_backing_disk_has() {
    let site = Site::new();
    let config = site.text("test.toml");
    let mut daemon = site.serve();
    let (clean, dirty) = (pattern(0, 1, MIB as usize), pattern(1, 2, MIB as usize));
    daemon.client("vm2").write(0, &clean);
    daemon.check_counts();
    lode_ok(&["stop", "--drain", &config]);
    daemon.wait_for_end();
    let (code, found) = check(&[&config]);
    assert_eq!((code, &found["verdict"], &found["is_clean"]), (0, &"sound".into(), &true.into()));
    assert_eq!(check(&["--clean", &config]).0, 0);
    assert_eq!(found["volumes"][1]["clean_blocks"], 256);
    let daemon = site.serve();
    daemon.client("vm2").write(4 * MIB, &dirty);
    daemon.stop();
    let (code, found) = check(&[&config]);
    assert_eq!(
        (code, &found["is_clean"], &found["volumes"][1]["dirty_blocks"]),
        (0, &false.into(), &256.into())
    );

    let at = damage(&site, &clean[8192..12_288]);
    // The device alone will do to look, and not to repair.
    for target in [&config, &site.text("ssd.img")] {
        let (code, found) = check(&[target]);
        assert_eq!((code, &found["verdict"]), (3, &"mendable".into()), "{found}");
        let block = &found["volumes"][1]["damaged"][0];
        assert_eq!((&block["ssd_offset_bytes"], &block["disk_offset_bytes"]), (&at.into(), &8192.into()));
        assert_eq!((&block["is_dirty"], &block["is_unreadable"]), (&false.into(), &false.into()));
    }
    assert_eq!(check(&[&config, "--metadata"]).0, 0, "metadata is whole");
    let (code, found) = check(&["--repair", &site.text("ssd.img")]);
    let why = found["not_mended"].as_str().unwrap_or_default();
    assert!(code == 3 && why.contains("lode check --repair CONFIG.toml"), "{found}");
    // Of these alone it is asked whether there is anything dirty.
    assert_eq!(check(&["--clean", "--metadata", &config]).0, 5, "dirty, and sound");
    let (code, found) = check(&["--repair", &config]);
    assert_eq!((code, &found["volumes"][1]["mended"]["clean_blocks"]), (0, &1.into()), "{found}");
    assert_eq!(found["volumes"][1]["clean_blocks"], 255);
    let daemon = site.serve();
    assert!(daemon.client("vm2").read(0, clean.len() as u32) == clean);
    assert!(daemon.client("vm2").read(4 * MIB, dirty.len() as u32) == dirty);
    daemon.stop();

    damage(&site, &dirty[..4096]);
    let output = lode(&["check", "--repair", &config]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(4) && said.contains("newer than the backing disk"), "{said}");
    let daemon = site.serve();
    assert!(
        daemon.client("vm2").ask(Command::Read, 4 * MIB, 4096, false, &[]).unwrap().is_err(),
        "an error, and no older bytes"
    );
    assert!(daemon.client("vm2").read(4 * MIB + 4096, 4096) == dirty[4096..8192]);
    // A stop in order ends with an error that says so.
    daemon.kill();
}

#[test]
fn what_a_killed_daemon_acknowledged_goes_through_a_repair() {
    let site = Site::new();
    let config = site.text("test.toml");
    let bytes = pattern(3, 9, MIB as usize);
    let daemon = site.serve();
    daemon.client("vm2").write(0, &bytes);
    daemon.kill();
    // The second copy of the superblock is lost, so that there is something to mend.
    let ssd = File::options().write(true).open(site.path("ssd.img")).unwrap();
    ssd.write_all_at(&[0; 4096], 4096).unwrap();
    let (code, found) = check(&[&config]);
    assert_eq!((code, &found["superblock_copies"]), (3, &1.into()), "{found}");
    let (code, found) = check(&["--repair", &config]);
    assert_eq!((code, &found["superblock_copies"]), (0, &2.into()), "{found}");
    assert_eq!(found["volumes"][1]["dirty_blocks"], 256);
    let daemon = site.serve();
    assert!(daemon.client("vm2").read(0, bytes.len() as u32) == bytes);
    daemon.stop();
}

#[test]
fn a_check_of_what_is_served_or_no_cache_is_refused() {
    let site = Site::new();
    let daemon = site.serve_up();
    for target in [site.text("test.toml"), site.text("ssd.img")] {
        let said = lode_fails(&["check", &target]);
        assert!(said.contains("ssd.img"), "{said}");
    }
    daemon.stop();
    let said = lode_fails(&["check", &site.text("vm1.img")]);
    assert!(said.contains("vm1.img"), "{said}");
    // Of several, the others are checked.
    let output = lode(&["check", &site.text("ssd.img"), &site.text("vm1.img")]);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.code() == Some(1) && out.contains("Sound") && err.contains("vm1.img"),
        "{out}{err}"
    );
}

/// What describes the cache is written again without the configuration, and what memory has of the last run still counts.
#[test]
fn a_lost_copy_of_superblock_and_directory_is_mended_of_the_device_alone() {
    let site = Site::new();
    let (config, device) = (site.text("test.toml"), site.text("ssd.img"));
    assert_eq!(check(&[&device]).0, 0, "it is new, and sound");
    let bytes = pattern(3, 9, MIB as usize);
    let daemon = site.serve();
    daemon.client("vm2").write(0, &bytes);
    daemon.kill();
    for magic in [b"LODEsupr", b"LODEdirc"] {
        for newest in [true, false] {
            let all = fs::read(&device).unwrap();
            let generation = |page: &[u8]| u64::from_le_bytes(page[32..40].try_into().unwrap());
            let pages = all.chunks(4096).enumerate().filter(|(_, page)| page.starts_with(magic));
            let mut pages: Vec<(u64, usize)> = pages.map(|(at, page)| (generation(page), at)).collect();
            pages.sort_unstable();
            let (_, at) = if newest { *pages.last().unwrap() } else { pages[0] };
            let ssd = File::options().write(true).open(&device).unwrap();
            ssd.write_all_at(&[0; 4096], at as u64 * 4096).unwrap();
            let (code, found) = check(&[&device]);
            let copies = [&found["superblock_copies"], &found["directory_copies"]];
            assert!(code == 3 && copies.contains(&&1.into()), "{found}");
            let (code, found) = check(&["--repair", &device]);
            let copies = [&found["superblock_copies"], &found["directory_copies"]];
            assert_eq!((code, copies), (0, [&2.into(), &2.into()]), "{found}");
        }
    }
    let (code, found) = check(&[&config]);
    assert_eq!((code, &found["volumes"][1]["dirty_blocks"]), (0, &256.into()), "{found}");
    let daemon = site.serve();
    assert!(daemon.client("vm2").read(0, bytes.len() as u32) == bytes);
    daemon.stop();
}

/// What is neither a cache SSD nor a configuration is refused by name, at once, by all commands that load one.
#[test]
fn what_is_no_configuration_is_refused_with_the_reason() {
    let site = Site::new();
    let make = |name: &str, bytes: &[u8]| {
        fs::write(site.path(name), bytes).unwrap();
        site.text(name)
    };
    let pipe = site.text("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let socket = site.text("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let (big, noise) = (make("v.img", &vec![b'a'; 2 << 20]), make("noise", &[0xff; 5000]));
    let (zeroes, text) = (make("zeroes.img", &[0; 65536]), make("zz", b"hello there\n"));
    for (path, why) in [
        (&pipe, "named pipe"),
        (&socket, "socket"),
        (&site.text(""), "folder"),
        (&"/dev/null".to_owned(), "character device"),
        (&big, "more than 1048576 bytes"),
        (&noise, "no text"),
        (&zeroes, "no text"),
    ] {
        for command in
            [&["check"][..], &["serve"], &["status"], &["stop"], &["device", "list"], &["volume", "list"]]
        {
            let said = lode_fails(&[command, &[path]].concat());
            assert!(said.contains(why) && said.contains(path.as_str()), "{command:?} {path}: {said}");
        }
        let output = lode(&["check", path]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && said.contains("is neither a cache SSD nor a configuration"),
            "{said}"
        );
    }
    let said = lode_fails(&["check", &text]);
    assert!(said.contains("is neither a cache SSD nor a configuration") && said.contains("zz:1"), "{said}");
    // What is meant to be one is told what is wrong with it.
    let said = lode_fails(&["check", &make("wrong.toml", b"[ssd]\npath 7\n")]);
    assert!(said.contains("wrong.toml:2") && !said.contains("neither"), "{said}");
    let said = lode_fails(&["check", &site.text("absent")]);
    assert!(said.contains("absent") && said.contains("check path"), "{said}");
}
