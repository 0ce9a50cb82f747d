//! A daemon on several pairs of SSDs: its cache is as large as all of them together, and one of each pair may fail, go and come back.

use std::fs::{self, File};

use lode_nbd::Command;

use crate::common::{Daemon, MIB, Site, SmallFolder, lode_fails, lode_ok};
use crate::pairs::{
    Away, BLOCK, BLOCKS, block, check_all, check_versions, states, under_traffic, wait_for, write_all,
};

/// Two pairs, neither of which has room for what both VMs have.
const SSD_MIB: u64 = 24;
const ALL: [&str; 4] = ["one.img", "two.img", "three.img", "four.img"];

/// The other one of its pair.
fn other(name: &str) -> &'static str {
    ALL[ALL.iter().position(|one| *one == name).unwrap() ^ 1]
}

fn site() -> Site {
    let site = Site::in_memory();
    format(&site, ALL, &["--create", &format!("{SSD_MIB}MiB")]);
    configure(&site, &[["one.img", "two.img"], ["three.img", "four.img"]], "");
    site
}

fn format(site: &Site, names: [&str; 4], more: &[&str]) -> String {
    let [one, two, three, four] = names.map(|name| site.text(name));
    lode_ok(&[&["format", &one, "--mirror", &two, "--pair", &three, &four], more].concat())
}

fn configure(site: &Site, pairs: &[[&str; 2]], more: &str) {
    let folder = site.folder.path().display();
    site.configure("");
    let text = fs::read_to_string(site.path("test.toml")).unwrap();
    let one = format!("path = \"{folder}/ssd.img\"\n");
    let pairs: Vec<_> = pairs.iter().map(|pair| pair.map(|name| site.text(name))).collect();
    let first = "dram = \"4MiB\"\nssd = \"32MiB\"\nscheme = \"etica\"\n";
    assert!(text.contains(&one) && text.contains(first), "{text}");
    let text = text
        .replace(&one, &format!("pairs = {pairs:?} # all of them\n{more}\n"))
        .replace(first, "ssd = \"16MiB\"\nscheme = \"lru\"\nwriteback = \"scheme\"\n");
    fs::write(site.path("test.toml"), text).unwrap();
}

fn all_in_sync(site: &Site) -> bool {
    states(site).iter().all(|(_, state)| state == "in-sync")
}

fn add(site: &Site, name: &str) {
    lode_ok(&["device", "add", &site.text("test.toml"), &site.text(name)]);
}

#[test]
fn g2_each_ssd_of_several_pairs_may_be_gone_after_a_kill() {
    let site = site();
    let mut version = 1;
    for gone in ALL {
        let daemon = site.serve_up();
        write_all(&daemon, version);
        assert!(all_in_sync(&site), "{:?}", states(&site));
        daemon.kill();
        site.lose_memory();
        let away = Away::take(&site, gone);
        let daemon = site.serve_up();
        check_all(&daemon, version);
        wait_for(&site, gone, "out-of-sync");
        version += 1;
        write_all(&daemon, version);
        daemon.kill();
        site.lose_memory();
        // It is there again, with old contents: they are not believed.
        away.put_back();
        let daemon = site.serve_up();
        check_all(&daemon, version);
        wait_for(&site, gone, "out-of-sync");
        daemon.kill();
        // Alone of its pair it is refused.
        let away = Away::take(&site, other(gone));
        let said = site.serve_fails();
        assert!(said.contains(gone) && said.contains("has gone on without"), "{said}");
        away.put_back();
        // Resilvered while guests are served, it is as good as the other one.
        let daemon = site.serve_up();
        add(&site, gone);
        version += 1;
        write_all(&daemon, version);
        wait_for(&site, gone, "in-sync");
        daemon.kill();
        site.lose_memory();
        let away = Away::take(&site, other(gone));
        let daemon = site.serve_up();
        check_all(&daemon, version);
        lode_fails(&["device", "remove", &site.text("test.toml"), &site.text(gone)]);
        daemon.stop();
        away.put_back();
        let daemon = site.serve_up();
        add(&site, other(gone));
        wait_for(&site, other(gone), "in-sync");
        daemon.stop();
    }
}

#[test]
fn g2_one_ssd_of_each_pair_may_be_gone_together_and_no_more() {
    let site = site();
    let mut version = 1;
    for gone in [["one.img", "three.img"], ["two.img", "three.img"]] {
        let daemon = site.serve_up();
        write_all(&daemon, version);
        daemon.kill();
        site.lose_memory();
        let away = gone.map(|name| Away::take(&site, name));
        let daemon = site.serve_up();
        check_all(&daemon, version);
        version += 1;
        write_all(&daemon, version);
        gone.iter().for_each(|name| wait_for(&site, name, "out-of-sync"));
        daemon.kill();
        site.lose_memory();
        away.into_iter().for_each(Away::put_back);
        let daemon = site.serve_up();
        check_all(&daemon, version);
        // Both at once.
        gone.iter().for_each(|name| add(&site, name));
        gone.iter().for_each(|name| wait_for(&site, name, "in-sync"));
        daemon.kill();
        site.lose_memory();
        let away = gone.map(|name| Away::take(&site, other(name)));
        let daemon = site.serve_up();
        check_all(&daemon, version);
        daemon.stop();
        away.into_iter().for_each(Away::put_back);
        let daemon = site.serve_up();
        gone.iter().for_each(|name| add(&site, other(name)));
        gone.iter().for_each(|name| wait_for(&site, other(name), "in-sync"));
        check_all(&daemon, version);
        daemon.stop();
    }
    let _away = ["three.img", "four.img"].map(|name| Away::take(&site, name));
    let said = site.serve_fails();
    assert!(
        said.contains("Neither SSD of pair 2 of 2")
            && said.contains("three.img")
            && said.contains("four.img"),
        "{said}"
    );
}

#[test]
fn g2_ssds_of_both_pairs_are_replaced_under_traffic() {
    let site = site();
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    let config = site.text("test.toml");
    for name in ["new.img", "newer.img"] {
        File::create(site.path(name)).unwrap().set_len(SSD_MIB * MIB).unwrap();
    }
    let versions = under_traffic(&daemon, || {
        for (old, new) in [("three.img", "new.img"), ("two.img", "three.img")] {
            lode_ok(&["device", "replace", &config, &site.text(old), &site.text(new), "--force"]);
            wait_for(&site, new, "in-sync");
        }
        // Both pairs lack one: which it is for has to be said.
        for gone in ["one.img", "four.img"] {
            lode_ok(&["device", "remove", &config, &site.text(gone)]);
        }
        let newer = site.text("newer.img");
        let said = lode_fails(&["device", "add", &config, &newer]);
        let words = ["pair 1 (", "one.img", "pair 2 (", "four.img", "--pair"];
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        let said = lode_fails(&["device", "add", &config, &newer, "--pair", "3"]);
        assert!(said.contains("There is no pair 3"), "{said}");
        let said = lode_fails(&["device", "add", &config, &site.text("one.img"), "--pair", "2"]);
        assert!(said.contains("is named as an SSD of pair 1"), "{said}");
        let (new, one) = (site.text("new.img"), site.text("one.img"));
        let said = lode_fails(&["device", "replace", &config, &new, &one, "--force"]);
        assert!(said.contains("is named as an SSD of pair 1"), "{said}");
        lode_ok(&["device", "add", &config, &newer, "--pair", "2"]);
        lode_ok(&["device", "add", &config, &site.text("one.img")]);
        for name in ["newer.img", "one.img"] {
            wait_for(&site, name, "in-sync");
        }
    });
    assert!(all_in_sync(&site), "{:?}", states(&site));
    let check = |daemon: &Daemon<'_>| {
        for (vm, versions) in ["vm1", "vm2"].into_iter().zip(&versions) {
            check_versions(daemon, vm, versions);
        }
    };
    check(&daemon);
    let text = fs::read_to_string(site.path("test.toml")).unwrap();
    let pairs =
        [["one.img", "three.img"], ["new.img", "newer.img"]].map(|pair| pair.map(|name| site.text(name)));
    assert!(text.contains(&format!("pairs = {pairs:?} # all of them")), "{text}");
    daemon.kill();
    site.lose_memory();
    // What each of them got while guests wrote is all that it is to have.
    for gone in [["one.img", "new.img"], ["three.img", "newer.img"]] {
        let away = gone.map(|name| Away::take(&site, name));
        let daemon = site.serve_up();
        check(&daemon);
        daemon.kill();
        away.into_iter().for_each(Away::put_back);
        let daemon = site.serve_up();
        gone.iter().for_each(|name| add(&site, name));
        gone.iter().for_each(|name| wait_for(&site, name, "in-sync"));
        daemon.stop();
    }
}

/// Without a daemon they are prepared, and the next start resilvers them.
#[test]
fn g2_ssds_of_several_pairs_are_changed_while_no_daemon_serves_them() {
    let site = site();
    let config = site.text("test.toml");
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    daemon.stop();
    for name in ["new.img", "newer.img"] {
        File::create(site.path(name)).unwrap().set_len(SSD_MIB * MIB).unwrap();
    }
    lode_ok(&["device", "replace", &config, &site.text("four.img"), &site.text("new.img")]);
    lode_ok(&["device", "remove", &config, &site.text("two.img")]);
    let said = lode_fails(&["device", "remove", &config, &site.text("three.img")]);
    assert!(said.contains("three.img is the only SSD of the pair that has everything"), "{said}");
    let said = lode_fails(&["device", "add", &config, &site.text("newer.img")]);
    assert!(said.contains("pair 1 (") && said.contains("pair 2 (") && said.contains("--pair"), "{said}");
    lode_ok(&["device", "add", &config, &site.text("newer.img"), "--pair", "1"]);
    let daemon = site.serve_up();
    write_all(&daemon, 2);
    for name in ["new.img", "newer.img"] {
        wait_for(&site, name, "in-sync");
    }
    daemon.kill();
    site.lose_memory();
    let _away = ["one.img", "three.img"].map(|name| Away::take(&site, name));
    let daemon = site.serve_up();
    check_all(&daemon, 2);
    daemon.stop();
}

#[test]
fn capacity_is_the_sum_and_every_ssd_is_told_with_its_pair() {
    let site = site();
    let daemon = site.serve_up();
    let status = daemon.status();
    let bytes = status["cache"]["device_bytes"].as_u64().unwrap();
    assert!((40 * MIB..2 * SSD_MIB * MIB).contains(&bytes), "{status}");
    // More than one pair holds, each block of it from the SSDs.
    let blocks = 15 * MIB / u64::from(BLOCK);
    for vm in ["vm1", "vm2"] {
        let mut client = daemon.client(vm);
        (0..blocks).for_each(|at| client.write(at * u64::from(BLOCK), &block(at, 3)));
        client.flush();
    }
    let status = daemon.status();
    let mut ssds: Vec<_> = status["cache"]["pair"]["ssds"].as_array().unwrap().iter().collect();
    ssds.sort_by_key(|ssd| ssd["pair"].as_u64());
    let numbers: Vec<_> = ssds.iter().map(|ssd| ssd["pair"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 1, 2, 2], "{status}");
    let list = lode_ok(&["device", "list", &site.text("test.toml")]);
    assert!(list.contains("pair") && ALL.iter().all(|name| list.contains(name)), "{list}");
    let text = lode_ok(&["status", &site.text("test.toml")]);
    assert!(text.contains("2 pairs of SSDs"), "{text}");
    daemon.kill();
    site.lose_memory();
    let daemon = site.serve_up();
    for vm in ["vm1", "vm2"] {
        let mut client = daemon.client(vm);
        for at in 0..blocks {
            assert!(client.read(at * u64::from(BLOCK), BLOCK) == block(at, 3), "{vm}: block {at}");
        }
    }
    daemon.stop();
    // What is on all of them is checked together, and one alone says what it takes.
    let said = lode_ok(&["check", &site.text("test.toml")]);
    assert!(said.contains("Sound"), "{said}");
    let said = lode_fails(&["check", &site.text("three.img")]);
    assert!(said.contains("pair 2 of 2") && said.contains("`ssd.pairs`"), "{said}");
}

/// An SSD of the second pair takes no writes any more, because its file system is full: at a start, and while guests are served.
#[test]
fn g7_an_ssd_of_the_second_pair_that_fails_is_dropped() {
    for fills_first in [true, false] {
        let site = Site::in_memory();
        let Some(small) = SmallFolder::new(site.path("small"), 4 * MIB) else { return };
        let names = ["one.img", "two.img", "three.img", "small/four.img"];
        for name in names {
            File::create(site.path(name)).unwrap().set_len(SSD_MIB * MIB).unwrap();
        }
        format(&site, names, &[]);
        configure(&site, &[["one.img", "two.img"], ["three.img", "small/four.img"]], "");
        if fills_first {
            // Its label is there; tables of volumes find no space.
            let mut filler = File::create(small.0.join("filler")).unwrap();
            while std::io::Write::write_all(&mut filler, &[7; 4096]).is_ok() {}
        }
        let daemon = site.serve_up();
        if fills_first {
            wait_for(&site, "four.img", "out-of-sync");
            let log = site.log();
            assert!(log.contains("begins again without the SSD of the pair that failed"), "{log}");
        }
        write_all(&daemon, 1);
        let versions = under_traffic(&daemon, || {
            let mut client = daemon.client("vm1");
            (BLOCKS..6 * BLOCKS).for_each(|at| client.write(at * u64::from(BLOCK), &block(at, 1)));
            wait_for(&site, "four.img", "out-of-sync");
        });
        let text = lode_ok(&["status", &site.text("test.toml")]);
        assert!(text.contains("four.img is out of pair 2"), "{text}");
        assert_eq!(daemon.status()["vms"][0]["alarms"]["failed"], false);
        daemon.kill();
        site.lose_memory();
        let daemon = site.serve_up();
        for (vm, versions) in ["vm1", "vm2"].into_iter().zip(&versions) {
            check_versions(&daemon, vm, versions);
        }
        daemon.stop();
    }
}

#[test]
fn what_is_not_all_pairs_of_the_cache_is_refused_by_name() {
    let site = site();
    let refused = |pairs: &[[&str; 2]], words: &[&str]| {
        configure(&site, pairs, "");
        let said = site.serve_fails();
        assert!(words.iter().all(|word| said.contains(word)), "{pairs:?}: {words:?}: {said}");
    };
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    daemon.stop();
    let [one, two, three, four] = ALL;
    refused(&[[one, two], [three, one]], &["one.img twice"]);
    std::os::unix::fs::symlink(site.path(one), site.path("link.img")).unwrap();
    refused(&[[one, two], [three, "link.img"]], &["link.img", "as well", "`ssd.pairs` each device once"]);
    fs::copy(site.path(three), site.path("copy.img")).unwrap();
    refused(&[[one, two], [three, "copy.img"]], &["copy.img", "the same SSD of pair 2 of 2", "is a copy"]);
    refused(&[[one, two], [three, "ssd.img"]], &["ssd.img is to be an SSD of pair 2 of 2", "by itself"]);
    refused(&[[one, two], ["no.img", "none.img"]], &["Neither SSD of pair 2 of 2", "no.img", "none.img"]);
    refused(&[["no.img", "none.img"], ["nil.img", "nothing.img"]], &["No SSD of any pair", "--pair"]);
    let others = ["five.img", "six.img", "seven.img", "eight.img"];
    format(&site, others, &["--create", &format!("{SSD_MIB}MiB")]);
    refused(&[[one, two], [three, "eight.img"]], &["different caches", "eight.img"]);
    refused(&[["five.img", "six.img"], ["seven.img", "eight.img"]], &["this host last served cache"]);
    refused(&[[one, two], [three, four], ["nil.img", "nothing.img"]], &["of pair 1 of 2", "names 3"]);
    // One pair of them, or one of its SSDs, is no cache by itself.
    configure(&site, &[[one, two], [three, four]], "");
    let text = fs::read_to_string(site.path("test.toml")).unwrap();
    let line = text.lines().find(|line| line.starts_with("pairs")).unwrap();
    let path = format!("path = \"{}\"", site.text(three));
    for (keys, words) in [
        (format!("{path}\nmirror = \"{}\"", site.text(four)), ["of pair 2 of 2", "`ssd.pairs`"]),
        (path.clone(), ["of pair 2 of 2", "`pairs` of [ssd]"]),
        (format!("{line}\n{path}"), ["'pairs' names all SSDs", "take 'path' and 'mirror' out"]),
    ] {
        fs::write(site.path("test.toml"), text.replace(line, &keys)).unwrap();
        let said = site.serve_fails();
        assert!(words.iter().all(|word| said.contains(word)), "{keys}: {said}");
    }
    // In whatever order they are the same cache.
    for pairs in [[[four, three], [two, one]], [[one, three], [four, two]]] {
        configure(&site, &pairs, "");
        let daemon = site.serve_up();
        check_all(&daemon, 1);
        assert!(all_in_sync(&site), "{:?}", states(&site));
        daemon.stop();
    }
    let said = lode_fails(&[
        "format",
        &site.text(one),
        "--mirror",
        &site.text(two),
        "--pair",
        &site.text(three),
        &site.text(two),
    ]);
    assert!(said.contains("given before"), "{said}");
    let said = lode_fails(&["format", &site.text(one)]);
    assert!(said.contains("an SSD of Lodestore pair"), "{said}");
    // With --dry-run nothing is written.
    let bytes = |name: &str| fs::read(site.path(name)).unwrap();
    let before = bytes("five.img");
    let said = format(&site, others, &["--dry-run", "--force"]);
    assert!(said.contains("Nothing was written") && said.contains("label, 2 copies"), "{said}");
    assert!(before == bytes("five.img"));
}

/// No SSD of the second pair takes writes any more: that is the failure of the SSD, for all VMs, whatever the first pair takes. What was
/// flushed before is kept.
#[test]
fn g7_a_pair_of_which_both_ssds_fail_fails_as_one_ssd_does() {
    let site = Site::in_memory();
    let Some(small) = SmallFolder::new(site.path("small"), 6 * MIB) else { return };
    let names = ["one.img", "two.img", "small/three.img", "small/four.img"];
    for name in names {
        File::create(site.path(name)).unwrap().set_len(SSD_MIB * MIB).unwrap();
    }
    format(&site, names, &[]);
    configure(&site, &[["one.img", "two.img"], ["small/three.img", "small/four.img"]], "");
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    let filler_path = small.0.join("filler");
    let mut filler = File::create(&filler_path).unwrap();
    while std::io::Write::write_all(&mut filler, &[7; 4096]).is_ok() {}
    let mut client = daemon.client("vm1");
    let is_refused = (BLOCKS..12 * BLOCKS).any(|at| {
        let (offset, bytes) = (at * u64::from(BLOCK), block(at, 1));
        client.ask(Command::Write, offset, BLOCK, true, &bytes).expect("an answer").is_err()
    });
    assert!(is_refused, "{}", site.log());
    let alarms = [0, 1].map(|vm| daemon.status()["vms"][vm]["alarms"].clone());
    assert!(alarms.iter().all(|alarms| alarms["ssd_failed"] == true), "{alarms:?}");
    check_all(&daemon, 1);
    daemon.kill();
    site.lose_memory();
    drop(filler);
    fs::remove_file(&filler_path).unwrap();
    let daemon = site.serve_up();
    check_all(&daemon, 1);
    daemon.stop();
}
