//! What the two SSDs of a pair have, and who is believed to have what.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use serde_json::Value;

use crate::client::PATIENCE;
use crate::common::{Daemon, MIB, Site, has_tool, lode_ok};
use crate::pairs::{Away, BLOCK, BLOCKS, SSD_MIB, block, check_all, configure, site, wait_for, write_all};
use crate::switching::while_fio_verifies;

/// Puts a new SSD in the place of one of the pair.
fn replace(site: &Site, old: &str, new: &str) {
    File::create(site.path(new)).unwrap().set_len(SSD_MIB * MIB).unwrap();
    lode_ok(&["device", "replace", &site.text("test.toml"), &site.text(old), &site.text(new)]);
}

/// Both SSDs are replaced several times, and what fio reads is what it wrote, at the end from those that came last alone.
#[test]
fn g2_ssds_are_replaced_while_fio_verifies() {
    if !has_tool("fio") {
        return;
    }
    let site = site();
    let daemon = site.serve_up();
    let mut names = ["one.img".to_owned(), "other.img".to_owned()];
    while_fio_verifies(&site, |has_ended| {
        for number in 0..8 {
            assert!(!has_ended(), "fio goes on");
            let (member, new) = (number % 2, format!("new{number}.img"));
            replace(&site, &names[member], &new);
            wait_for(&site, &new, "in-sync");
            fs::remove_file(site.path(&names[member])).unwrap();
            names[member] = new;
        }
    });
    daemon.stop();
}

/// How far a resilver is, is told; and it takes no less time than it may.
#[test]
fn a_resilver_keeps_its_pace_and_says_how_far_it_is() {
    const RATE_MIB: u64 = 4;
    let site = site();
    configure(&site, "one.img", "other.img", &format!("resilver_rate = \"{RATE_MIB}MiB\""));
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    let began = Instant::now();
    replace(&site, "one.img", "new.img");
    let (mut told, mut of_bytes) = (vec![0], 0);
    loop {
        assert!(began.elapsed() < PATIENCE * 10, "{told:?} of {of_bytes}");
        let list = lode_ok(&["device", "list", &site.text("test.toml"), "--json"]);
        let elapsed_s = began.elapsed().as_secs_f64();
        let list: Value = serde_json::from_str(&list).unwrap();
        let ssds = list["ssds"].as_array().unwrap();
        if ssds.iter().all(|ssd| ssd["state"] == "in-sync") {
            break;
        }
        let new = ssds.iter().find(|ssd| ssd["state"] == "resilvering");
        if let Some((done, of)) = new.and_then(|ssd| ssd["done_bytes"].as_u64().zip(ssd["of_bytes"].as_u64()))
        {
            // A second's worth may be copied at once.
            let most = (elapsed_s + 1.0) * (RATE_MIB * MIB) as f64;
            assert!(
                done >= *told.last().unwrap() && done <= of && done as f64 <= most,
                "{done} of {of} at {elapsed_s}"
            );
            told.push(done);
            of_bytes = of;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let least_s = of_bytes as f64 / (RATE_MIB * MIB) as f64 - 1.0;
    assert!(least_s > 0.5 && began.elapsed().as_secs_f64() >= least_s, "{of_bytes} in {:?}", began.elapsed());
    told.dedup();
    assert!(told.len() > 3, "{told:?}");
    check_all(&daemon, 1);
    daemon.stop();
}

/// What the resilvered SSD had when the daemon was killed it is not given again, and it has all that was written since.
#[test]
fn g9_a_resilver_goes_on_where_a_kill_cut_it_short() {
    let site = site();
    let with_rate = |mirror: &str, rate: &str| {
        configure(&site, "new.img", mirror, &format!("resilver_rate = \"{rate}\""));
    };
    configure(&site, "one.img", "other.img", "resilver_rate = \"512KiB\"");
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    replace(&site, "one.img", "new.img");
    let done = |state: &str| {
        let list = lode_ok(&["device", "list", &site.text("test.toml"), "--json"]);
        let list: Value = serde_json::from_str(&list).unwrap();
        let ssds = list["ssds"].as_array().unwrap();
        let new = ssds.iter().find(|ssd| ssd["state"] == state);
        new.map(|new| (new["done_bytes"].as_u64().unwrap(), list["generation"].as_u64().unwrap()))
    };
    wait_for(&site, "new.img", "resilvering");
    let (_, generation) = done("resilvering").unwrap();
    // Labels say how far it is, which makes them newer.
    let deadline = Instant::now() + PATIENCE;
    let copied_bytes = loop {
        assert!(Instant::now() < deadline, "{}", site.log());
        let (done, now) = done("resilvering").expect("it takes long");
        if now > generation {
            break done;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    write_all(&daemon, 2);
    daemon.kill();
    with_rate("other.img", "512KiB");
    let daemon = site.serve_up();
    let is_told = |words: &str| {
        let deadline = Instant::now() + PATIENCE;
        while !site.log().contains(words) {
            assert!(Instant::now() < deadline, "{words}: {}", site.log());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    is_told("are resilvered, and the rest follows while guests are served");
    write_all(&daemon, 3);
    is_told(" were before");
    let (again, _) = done("resilvering").unwrap();
    assert!(again + MIB >= copied_bytes, "{again} of {copied_bytes}");
    daemon.stop();
    with_rate("other.img", "200MiB");
    let daemon = site.serve_up();
    wait_for(&site, "new.img", "in-sync");
    check_all(&daemon, 3);
    daemon.kill();
    site.lose_memory();
    let _away = Away::take(&site, "other.img");
    let daemon = site.serve_up();
    check_all(&daemon, 3);
    daemon.stop();
}

/// Has the backing disk of the first VM hold something, which what is in another place on an SSD is not.
fn fill_backing(site: &Site) {
    let bytes: Vec<u8> = (0..2 * BLOCKS).flat_map(|at| block(at, 9)).collect();
    let disk = OpenOptions::new().write(true).open(site.path("vm1.img")).unwrap();
    disk.write_all_at(&bytes, 0).unwrap();
}

/// What clean blocks it has not, because the other one has them, is no damage.
#[test]
fn a_check_of_one_ssd_of_a_pair_does_without_what_the_other_one_alone_has() {
    let site = site();
    fill_backing(&site);
    let daemon = site.serve_up();
    let mut client = daemon.client("vm1");
    (0..2 * BLOCKS).for_each(|at| drop(client.read(at * u64::from(BLOCK), BLOCK)));
    drop(client);
    daemon.stop();
    for name in ["one.img", "other.img"] {
        let said = lode_ok(&["check", &site.text(name)]);
        assert!(said.contains("Sound"), "{said}");
    }
}

/// A start that fails for another reason than an SSD ends, although labels have changed meanwhile.
#[test]
fn a_start_that_fails_without_an_ssd_says_why_and_ends() {
    let site = site();
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    daemon.stop();
    let _away = Away::take(&site, "one.img");
    let mut bytes = fs::read(site.path("other.img")).unwrap();
    let tables = bytes.chunks_mut(BLOCK as usize).filter(|page| page.starts_with(b"LODEslot"));
    let damaged = tables.map(|page| page[100] ^= 1).count();
    assert!(damaged > 0, "it has tables");
    fs::write(site.path("other.img"), bytes).unwrap();
    let said = site.serve_fails();
    assert!(said.contains("table") && !said.contains("begins again"), "{said}");
}

/// An SSD in whose place another one came comes back in the place of that one. It is resilvered, and nothing of what it has is believed.
#[test]
fn g9_an_old_ssd_that_is_added_between_runs_is_resilvered() {
    let site = site();
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    File::create(site.path("new.img")).unwrap().set_len(SSD_MIB * MIB).unwrap();
    lode_ok(&["device", "replace", &site.text("test.toml"), &site.text("one.img"), &site.text("new.img")]);
    wait_for(&site, "new.img", "in-sync");
    write_all(&daemon, 2);
    daemon.stop();
    fs::rename(site.path("one.img"), site.path("new.img")).unwrap();
    lode_ok(&["device", "add", &site.text("test.toml"), &site.text("new.img"), "--force"]);
    let daemon = site.serve_up();
    check_all(&daemon, 2);
    wait_for(&site, "new.img", "in-sync");
    let _away = Away::take(&site, "other.img");
    daemon.kill();
    let daemon = site.serve_up();
    check_all(&daemon, 2);
    daemon.stop();
}

/// What is only read is on one of them, goes with it, and is cached again.
#[test]
fn g9_clean_blocks_go_with_an_ssd_and_come_back() {
    let site = site();
    fill_backing(&site);
    let daemon = site.serve_up();
    let read_all = |daemon: &Daemon<'_>| {
        let mut client = daemon.client("vm1");
        for at in 0..2 * BLOCKS {
            assert!(client.read(at * u64::from(BLOCK), BLOCK) == block(at, 9), "block {at}");
        }
    };
    let number = |daemon: &Daemon<'_>, group: &str, name: &str| {
        daemon.status()["vms"][0][group][name].as_u64().unwrap_or_else(|| panic!("{group}.{name}"))
    };
    read_all(&daemon);
    read_all(&daemon);
    let cached = number(&daemon, "gauges", "ssd_blocks");
    assert!(cached >= BLOCKS, "{}", daemon.status());
    lode_ok(&["device", "remove", &site.text("test.toml"), &site.text("one.img")]);
    read_all(&daemon);
    let lost = number(&daemon, "gauges", "dropped_clean_copies");
    assert!(lost > 0 && lost < cached, "{lost} of {cached}");
    assert_eq!(number(&daemon, "alarms", "damaged_clean"), 0);
    read_all(&daemon);
    assert_eq!(number(&daemon, "gauges", "dropped_clean_copies"), lost);
    daemon.stop();
}
