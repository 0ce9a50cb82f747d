//! A cache that begins on one SSD of a pair, to which the second one comes while guests are served.

use std::fs::{self, File};

use crate::common::{MIB, Site, lode_fails, lode_ok};
use crate::metrics::scrape;
use crate::pairs::{
    Away, SSD_MIB, check_all, check_versions, configure, states, under_traffic, wait_for, write_all,
};

/// A site whose cache is on one SSD that has room for a second one.
fn site() -> Site {
    let site = Site::in_memory();
    let size = format!("{SSD_MIB}MiB");
    let said = lode_ok(&["format", &site.text("one.img"), "--mirror", "later", "--create", &size]);
    assert!(
        said.contains("lode device add CONFIG.toml DEVICE") && said.contains("at least as large"),
        "{said}"
    );
    let socket = site.text("metrics.sock");
    configure(&site, "one.img", "none.img", &format!("[metrics]\nlisten = \"unix:{socket}\""));
    take_mirror_out(&site);
    site
}

fn take_mirror_out(site: &Site) {
    let text = fs::read_to_string(site.path("test.toml")).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("mirror")).collect();
    fs::write(site.path("test.toml"), lines.join("\n")).unwrap();
}

fn new_ssd(site: &Site, name: &str, bytes: u64) -> String {
    File::create(site.path(name)).unwrap().set_len(bytes).unwrap();
    site.text(name)
}

fn single(name: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), "single".to_owned())]
}

#[test]
fn g9_the_second_ssd_comes_under_traffic_and_then_has_everything() {
    let site = site();
    let config = site.text("test.toml");
    assert_eq!(states(&site), single("one.img"), "before it is served");
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    assert_eq!(states(&site), single("one.img"));
    let list = lode_ok(&["device", "list", &config]);
    assert!(list.contains("has not come yet") && list.contains("64 MiB"), "{list}");
    let second = new_ssd(&site, "second.img", SSD_MIB * MIB);
    let versions = under_traffic(&daemon, || {
        lode_ok(&["device", "add", &config, &second]);
        wait_for(&site, "second.img", "in-sync");
    });
    assert_eq!(states(&site).len(), 2);
    assert!(scrape(&site).contains("\nlode_pair_in_sync_ssds 2\n"), "{}", scrape(&site));
    let text = fs::read_to_string(site.path("test.toml")).unwrap();
    assert!(text.contains(&format!("mirror = \"{second}\"")), "{text}");
    daemon.kill();
    site.lose_memory();
    // Either has everything by itself.
    for gone in ["one.img", "second.img"] {
        let away = Away::take(&site, gone);
        let daemon = site.serve_up();
        ["vm1", "vm2"]
            .into_iter()
            .zip(&versions)
            .for_each(|(vm, versions)| check_versions(&daemon, vm, versions));
        wait_for(&site, gone, "out-of-sync");
        assert!(scrape(&site).contains("\nlode_pair_in_sync_ssds 1\n"), "{}", scrape(&site));
        daemon.stop();
        away.put_back();
        let daemon = site.serve_up();
        lode_ok(&["device", "add", &config, &site.text(gone)]);
        wait_for(&site, gone, "in-sync");
        daemon.stop();
    }
    // From when it has come, one that is named alone is refused as of any pair.
    take_mirror_out(&site);
    let said = site.serve_fails();
    assert!(said.contains("names no other one: add `mirror`"), "{said}");
}

/// Nobody is alarmed, but of what is to be said of a cache on one SSD.
#[test]
fn g9_a_second_ssd_that_has_not_come_is_no_failure() {
    let site = site();
    for _ in 0..2 {
        let daemon = site.serve_up();
        write_all(&daemon, 1);
        let status = daemon.status();
        assert!(status["cache"]["pair"].is_null() && !status["cache"]["uuid"].is_null(), "{status}");
        let text = lode_ok(&["status", &site.text("test.toml")]);
        assert!(!text.contains("pair") && !text.contains("out of"), "{text}");
        assert!(!scrape(&site).contains("\nlode_pair_in_sync_ssds "), "{}", scrape(&site));
        let said = lode_fails(&["device", "remove", &site.text("test.toml"), &site.text("one.img")]);
        assert!(said.contains("only SSD"), "{said}");
        daemon.kill();
        let log = site.log();
        assert!(log.contains("until the second one of its pair comes"), "{log}");
        assert!(log.contains("are on one SSD alone") && !log.contains("of the pair is not used"), "{log}");
    }
    let daemon = site.serve_up();
    check_all(&daemon, 1);
    daemon.stop();
    let said = lode_ok(&["check", &site.text("test.toml")]);
    assert!(said.contains("ound"), "{said}");
    lode_ok(&["check", &site.text("one.img")]);
    let said = lode_fails(&["device", "remove", &site.text("test.toml"), &site.text("one.img")]);
    assert!(said.contains("the second one has not come yet"), "{said}");
}

/// The one that comes fails, or is too small, or the host goes down: the cache goes on, and it is not taken for whole.
#[test]
fn g9_a_second_ssd_that_does_not_come_to_its_end_is_not_believed() {
    let site = site();
    let config = site.text("test.toml");
    let small = new_ssd(&site, "small.img", SSD_MIB * MIB - 4096);
    for is_served in [false, true] {
        let daemon = is_served.then(|| site.serve_up());
        let said = lode_fails(&["device", "add", &config, &small]);
        assert!(said.contains(&format!("at least {} bytes", SSD_MIB * MIB)), "{said}");
        assert_eq!(states(&site), single("one.img"));
        drop(daemon);
    }
    // Killed at once, it goes on with the next start, as the configuration names it.
    let second = new_ssd(&site, "second.img", SSD_MIB * MIB);
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    lode_ok(&["device", "add", &config, &second]);
    daemon.kill();
    let daemon = site.serve_up();
    wait_for(&site, "second.img", "in-sync");
    check_all(&daemon, 1);
    daemon.stop();
}

/// Without a daemon the next start resilvers it; one that goes away again is missed as long as the configuration names it.
#[test]
fn g9_a_second_ssd_is_put_in_offline_and_may_be_taken_out_of_the_configuration_before_it_has_everything() {
    let site = site();
    let config = site.text("test.toml");
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    daemon.stop();
    let second = new_ssd(&site, "second.img", SSD_MIB * MIB);
    lode_ok(&["device", "add", &config, &second]);
    assert!(fs::read_to_string(&config).unwrap().contains(&format!("mirror = \"{second}\"")));
    let away = Away::take(&site, "second.img");
    let daemon = site.serve_up();
    wait_for(&site, "second.img", "out-of-sync");
    assert!(scrape(&site).contains("\nlode_pair_in_sync_ssds 1\n"), "{}", scrape(&site));
    check_all(&daemon, 1);
    write_all(&daemon, 2);
    daemon.stop();
    away.put_back();
    // Alone it is nothing, and the first one is served without it.
    let text = fs::read_to_string(&config).unwrap();
    take_mirror_out(&site);
    let alone = fs::read_to_string(&config).unwrap();
    fs::write(&config, alone.replace("one.img", "second.img")).unwrap();
    let said = site.serve_fails();
    assert!(said.contains("is one SSD of pair"), "{said}");
    fs::write(&config, alone).unwrap();
    let daemon = site.serve_up();
    assert_eq!(states(&site), single("one.img"));
    check_all(&daemon, 2);
    write_all(&daemon, 3);
    daemon.stop();
    fs::write(&config, text).unwrap();
    let daemon = site.serve_up();
    wait_for(&site, "second.img", "in-sync");
    daemon.kill();
    let _away = Away::take(&site, "one.img");
    let daemon = site.serve_up();
    check_all(&daemon, 3);
    daemon.stop();
}

#[test]
fn later_is_of_a_single_pair_and_a_file_of_this_name_is_given_with_its_folder() {
    let site = Site::in_memory();
    let [one, three, four] = ["one.img", "three.img", "four.img"].map(|name| site.text(name));
    for arguments in [["later", "--pair", &three, &four], [&four, "--pair", &three, "later"]] {
        let said =
            lode_fails(&[&["format", &one, "--mirror"][..], &arguments, &["--create", "64MiB"]].concat());
        assert!(said.contains("of a single pair") && said.contains("./later"), "{said}");
    }
    let plan = lode_ok(&["format", &one, "--mirror", "later", "--create", "64MiB", "--dry-run", "--json"]);
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    assert_eq!((plan["kind"].as_str(), plan["mirror"].is_null()), (Some("pair"), true), "{plan}");
    let size = ["--create", "64MiB", "--dry-run"];
    let said = lode_ok(&[&["format", &one, "--mirror", "./later"][..], &size].concat());
    assert!(said.contains("one.img and ./later") && !said.contains("device add"), "{said}");
}
