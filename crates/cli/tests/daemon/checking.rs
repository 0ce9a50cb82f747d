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
    assert!(
        lode_fails(&["check", "--repair", &site.text("ssd.img")]).contains("lode check --repair CONFIG.toml")
    );
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
