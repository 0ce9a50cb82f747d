//! A daemon on a pair of SSDs: either of them may fail, hang, go and come back, while guests are served and between two runs.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command as Process, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::PATIENCE;
use crate::common::{Daemon, MIB, Numbers, Site, SmallFolder, has_tool, lode_fails, lode_ok, pattern};

pub const BLOCK: u32 = 4096;
pub const BLOCKS: u64 = 400;
pub const SSD_MIB: u64 = 64;

/// A site whose cache is on two SSDs.
pub fn site() -> Site {
    let site = Site::in_memory();
    let (one, other) = (site.text("one.img"), site.text("other.img"));
    lode_ok(&["format", &one, "--mirror", &other, "--create", &format!("{SSD_MIB}MiB")]);
    configure(&site, "one.img", "other.img", "");
    site
}

pub fn configure(site: &Site, path: &str, mirror: &str, more: &str) {
    let folder = site.folder.path().display();
    site.configure("");
    let text = fs::read_to_string(site.path("test.toml")).unwrap();
    let one = format!("path = \"{folder}/ssd.img\"\n");
    let two = format!("path = \"{folder}/{path}\"\nmirror = \"{folder}/{mirror}\" # the other one\n{more}\n");
    let first = "dram = \"4MiB\"\nssd = \"32MiB\"\nscheme = \"etica\"\n";
    assert!(text.contains(&one) && text.contains(first), "{text}");
    let text = text
        .replace(&one, &two)
        .replace(first, "ssd = \"16MiB\"\nscheme = \"lru\"\nwriteback = \"scheme\"\n");
    fs::write(site.path("test.toml"), text).unwrap();
}

pub fn block(number: u64, version: u64) -> Vec<u8> {
    pattern(number * u64::from(BLOCK), version, BLOCK as usize)
}

pub fn write_all(daemon: &Daemon<'_>, version: u64) {
    for vm in ["vm1", "vm2"] {
        let mut client = daemon.client(vm);
        (0..BLOCKS).for_each(|at| client.write(at * u64::from(BLOCK), &block(at, version)));
        client.flush();
    }
}

pub fn check_all(daemon: &Daemon<'_>, version: u64) {
    for vm in ["vm1", "vm2"] {
        let mut client = daemon.client(vm);
        for at in 0..BLOCKS {
            assert!(client.read(at * u64::from(BLOCK), BLOCK) == block(at, version), "{vm}: block {at}");
        }
    }
}

/// How the SSDs stand, by path.
pub fn states(site: &Site) -> Vec<(String, String)> {
    let list = lode_ok(&["device", "list", &site.text("test.toml"), "--json"]);
    let list: Value = serde_json::from_str(&list).unwrap();
    let state = |ssd: &Value| {
        let path = PathBuf::from(ssd["path"].as_str().unwrap());
        (path.file_name().unwrap().to_str().unwrap().to_owned(), ssd["state"].as_str().unwrap().to_owned())
    };
    let mut states: Vec<_> = list["ssds"].as_array().unwrap().iter().map(state).collect();
    states.sort();
    states
}

pub fn wait_for(site: &Site, ssd: &str, state: &str) {
    let deadline = Instant::now() + PATIENCE;
    let is_so = || states(site).contains(&(ssd.to_owned(), state.to_owned()));
    while !is_so() {
        assert!(Instant::now() < deadline, "{ssd} is not {state}: {:?}\n{}", states(site), site.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Takes a file away, and puts it back.
pub struct Away {
    from: PathBuf,
    to: PathBuf,
}

impl Away {
    pub fn take(site: &Site, name: &str) -> Away {
        let away = Away { from: site.path(name), to: site.path(&format!("{name}.away")) };
        fs::rename(&away.from, &away.to).unwrap();
        away
    }

    pub fn put_back(self) {
        fs::rename(self.to, self.from).unwrap();
    }
}

#[test]
fn g2_either_ssd_may_be_gone_after_a_kill() {
    let site = site();
    let mut version = 1;
    for (gone, stays) in [("one.img", "other.img"), ("other.img", "one.img")] {
        let daemon = site.serve_up();
        write_all(&daemon, version);
        assert!(states(&site).iter().all(|(_, state)| state == "in-sync"), "{:?}", states(&site));
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
        let status = daemon.status();
        assert_eq!(status["cache"]["pair"]["ssds"].as_array().map(Vec::len), Some(2), "{status}");
        daemon.kill();
        // Alone it is refused.
        let away = Away::take(&site, stays);
        let said = site.serve_fails();
        assert!(said.contains(gone) && said.contains("has gone on without"), "{said}");
        away.put_back();
        // Resilvered while guests are served, it is as good as the other one.
        let daemon = site.serve_up();
        lode_ok(&["device", "add", &site.text("test.toml"), &site.text(gone)]);
        version += 1;
        write_all(&daemon, version);
        wait_for(&site, gone, "in-sync");
        daemon.kill();
        site.lose_memory();
        let away = Away::take(&site, stays);
        let daemon = site.serve_up();
        check_all(&daemon, version);
        lode_fails(&["device", "remove", &site.text("test.toml"), &site.text(gone)]);
        daemon.stop();
        away.put_back();
        let daemon = site.serve_up();
        lode_ok(&["device", "add", &site.text("test.toml"), &site.text(stays)]);
        wait_for(&site, stays, "in-sync");
        daemon.stop();
    }
}

/// Writes versions to random blocks until told to stop. Gives the latest version of each block.
fn traffic(daemon: &Daemon<'_>, vm: &str, stop: &AtomicBool) -> Vec<u64> {
    let mut client = daemon.client(vm);
    let (mut versions, mut numbers) = (vec![1; BLOCKS as usize], Numbers(7));
    for version in 2.. {
        let at = numbers.below(BLOCKS);
        client.write(at * u64::from(BLOCK), &block(at, version));
        versions[at as usize] = version;
        let at = numbers.below(BLOCKS);
        assert!(client.read(at * u64::from(BLOCK), BLOCK) == block(at, versions[at as usize]), "block {at}");
        if version % 16 == 0 {
            client.flush();
        }
        if stop.load(Ordering::Relaxed) {
            client.flush();
            break;
        }
    }
    versions
}

pub fn check_versions(daemon: &Daemon<'_>, vm: &str, versions: &[u64]) {
    let mut client = daemon.client(vm);
    for (at, &version) in (0..).zip(versions) {
        assert!(client.read(at * u64::from(BLOCK), BLOCK) == block(at, version), "{vm}: block {at}");
    }
}

/// Does something while both VMs have traffic. Gives the latest versions.
pub fn under_traffic(daemon: &Daemon<'_>, work: impl FnOnce()) -> [Vec<u64>; 2] {
    /// Whatever becomes of the work, the guests stop.
    struct Stop<'s>(&'s AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let vms = ["vm1", "vm2"].map(|vm| scope.spawn(|| traffic(daemon, vm, &stop)));
        let stop = Stop(&stop);
        work();
        drop(stop);
        vms.map(|vm| vm.join().unwrap())
    })
}

#[test]
fn g2_an_ssd_is_replaced_under_traffic() {
    let site = site();
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    File::create(site.path("new.img")).unwrap().set_len(SSD_MIB * MIB).unwrap();
    let versions = under_traffic(&daemon, || {
        for (old, new) in [("one.img", "new.img"), ("other.img", "one.img"), ("one.img", "other.img")] {
            let (config, old, new_path) = (site.text("test.toml"), site.text(old), site.text(new));
            lode_ok(&["device", "replace", &config, &old, &new_path]);
            wait_for(&site, new, "in-sync");
        }
    });
    for (vm, versions) in ["vm1", "vm2"].into_iter().zip(&versions) {
        check_versions(&daemon, vm, versions);
    }
    let text = fs::read_to_string(site.path("test.toml")).unwrap();
    assert!(text.contains("new.img\"") && text.contains("other.img\" # the other one"), "{text}");
    daemon.kill();
    site.lose_memory();
    // Either of them has everything by itself.
    for (gone, name) in [("new.img", "other.img"), ("other.img", "new.img")] {
        let away = Away::take(&site, gone);
        let daemon = site.serve_up();
        for (vm, versions) in ["vm1", "vm2"].into_iter().zip(&versions) {
            check_versions(&daemon, vm, versions);
        }
        assert!(states(&site).contains(&(name.to_owned(), "in-sync".to_owned())));
        daemon.kill();
        away.put_back();
        let daemon = site.serve_up();
        lode_ok(&["device", "add", &site.text("test.toml"), &site.text(gone)]);
        wait_for(&site, gone, "in-sync");
        daemon.stop();
    }
}

/// Either SSD is put back as it was after an earlier run.
#[test]
fn g7_an_ssd_as_it_was_in_an_earlier_run_is_not_believed() {
    let site = site();
    let copy = |from: &str, to: &str| _ = fs::copy(site.path(from), site.path(to)).unwrap();
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    daemon.stop();
    let mut version = 1;
    for name in ["one.img", "other.img"] {
        copy(name, "older.img");
        let daemon = site.serve_up();
        version += 1;
        write_all(&daemon, version);
        daemon.kill();
        copy("older.img", name);
        let daemon = site.serve_up();
        wait_for(&site, name, "out-of-sync");
        assert!(site.log().contains("is not used"), "{}", site.log());
        check_all(&daemon, version);
        lode_ok(&["device", "add", &site.text("test.toml"), &site.text(name)]);
        wait_for(&site, name, "in-sync");
        daemon.stop();
    }
    // Both of an earlier run are refused, and so is one where nobody knows that the other one is the newest.
    let names = ["one.img", "other.img"];
    names.iter().for_each(|name| copy(name, &format!("{name}.older")));
    site.serve_up().stop();
    names.iter().for_each(|name| copy(name, &format!("{name}.newest")));
    names.iter().for_each(|name| copy(&format!("{name}.older"), name));
    let said = site.serve_fails();
    assert!(said.contains("both SSDs of pair") && said.contains("bring those back"), "{said}");
    names.iter().for_each(|name| copy(&format!("{name}.newest"), name));
    copy("one.img.older", "one.img");
    fs::remove_file(site.path("state/test.state")).unwrap();
    let said = site.serve_fails();
    assert!(said.contains("an old copy of one SSD") && said.contains("bring it back"), "{said}");
    copy("one.img.newest", "one.img");
    let daemon = site.serve_up();
    check_all(&daemon, version);
    daemon.stop();
}

#[test]
fn g2_resilvering_goes_on_after_a_kill() {
    let site = site();
    configure(&site, "one.img", "other.img", "resilver_rate = \"8MiB\"");
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    File::create(site.path("new.img")).unwrap().set_len(SSD_MIB * MIB).unwrap();
    lode_ok(&["device", "replace", &site.text("test.toml"), &site.text("one.img"), &site.text("new.img")]);
    wait_for(&site, "new.img", "resilvering");
    let said = lode_fails(&["device", "add", &site.text("test.toml"), &site.text("one.img")]);
    assert!(said.contains("being resilvered"), "{said}");
    write_all(&daemon, 2);
    daemon.kill();
    // What it has by now is not believed.
    let away = Away::take(&site, "other.img");
    let said = site.serve_fails();
    assert!(said.contains("has everything is missing"), "{said}");
    away.put_back();
    let daemon = site.serve_up();
    wait_for(&site, "new.img", "resilvering");
    let text = lode_ok(&["device", "list", &site.text("test.toml")]);
    assert!(text.contains("resilvering"), "{text}");
    check_all(&daemon, 2);
    wait_for(&site, "new.img", "in-sync");
    daemon.kill();
    site.lose_memory();
    let _away = Away::take(&site, "other.img");
    let daemon = site.serve_up();
    check_all(&daemon, 2);
    daemon.stop();
}

/// One of the SSDs takes no writes any more, because its file system is full.
#[test]
fn g7_an_ssd_that_fails_is_dropped_and_no_guest_notices() {
    let site = Site::in_memory();
    let Some(small) = SmallFolder::new(site.path("small"), 4 * MIB) else { return };
    for path in [site.path("one.img"), small.0.join("other.img")] {
        File::create(path).unwrap().set_len(SSD_MIB * MIB).unwrap();
    }
    lode_ok(&["format", &site.text("one.img"), "--mirror", &site.text("small/other.img")]);
    configure(&site, "one.img", "small/other.img", "");
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    let versions = under_traffic(&daemon, || {
        let mut client = daemon.client("vm1");
        (BLOCKS..4 * BLOCKS).for_each(|at| client.write(at * u64::from(BLOCK), &block(at, 1)));
        wait_for(&site, "other.img", "out-of-sync");
        std::thread::sleep(Duration::from_millis(200));
    });
    let events = lode_ok(&["events", &site.text("test.toml")]);
    assert!(events.contains("was dropped from the pair"), "{events}");
    let status = daemon.status();
    assert_eq!(status["vms"][0]["alarms"]["failed"], false, "{status}");
    daemon.kill();
    site.lose_memory();
    let daemon = site.serve_up();
    for (vm, versions) in ["vm1", "vm2"].into_iter().zip(&versions) {
        check_versions(&daemon, vm, versions);
    }
    // It cannot be resilvered either, which hurts nobody.
    lode_ok(&["device", "add", &site.text("test.toml"), &site.text("small/other.img")]);
    wait_for(&site, "other.img", "out-of-sync");
    check_versions(&daemon, "vm1", &versions[0]);
    daemon.stop();
}

#[test]
fn g7_an_ssd_that_fails_during_a_start_is_dropped_and_the_start_begins_again() {
    let site = Site::in_memory();
    let Some(small) = SmallFolder::new(site.path("small"), 4 * MIB) else { return };
    for path in [site.path("one.img"), small.0.join("other.img")] {
        File::create(path).unwrap().set_len(SSD_MIB * MIB).unwrap();
    }
    lode_ok(&["format", &site.text("one.img"), "--mirror", &site.text("small/other.img")]);
    // What describes the cache is there; tables of volumes find no space.
    let mut filler = File::create(small.0.join("filler")).unwrap();
    while std::io::Write::write_all(&mut filler, &[7; 4096]).is_ok() {}
    configure(&site, "one.img", "small/other.img", "");
    let daemon = site.serve_up();
    wait_for(&site, "other.img", "out-of-sync");
    assert!(site.log().contains("begins again without the SSD of the pair that failed"), "{}", site.log());
    write_all(&daemon, 1);
    let text = lode_ok(&["status", &site.text("test.toml")]);
    assert!(text.contains("pair of SSDs") && text.contains("is out of the pair"), "{text}");
    daemon.kill();
    site.lose_memory();
    let daemon = site.serve_up();
    check_all(&daemon, 1);
    daemon.stop();
}

/// One of the SSDs answers nothing any more: a file of nbdfuse whose server is stopped.
#[test]
fn g7_an_ssd_that_hangs_is_dropped_and_no_guest_notices() {
    if !["nbdfuse", "nbdkit"].into_iter().all(has_tool) || !PathBuf::from("/dev/fuse").exists() {
        return;
    }
    let site = Site::in_memory();
    for name in ["one.img", "behind.img"] {
        File::create(site.path(name)).unwrap().set_len(SSD_MIB * MIB).unwrap();
    }
    File::create(site.path("hangs.img")).unwrap();
    let behind = site.text("behind.img");
    let socket = site.text("behind.sock");
    let nbdkit = Process::new("nbdkit").args(["-f", "-U", &socket, "file", &behind]).spawn().unwrap();
    let server = Killed(nbdkit);
    let deadline = Instant::now() + PATIENCE;
    while !PathBuf::from(&socket).exists() {
        assert!(Instant::now() < deadline, "nbdkit does not serve");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut nbdfuse = Process::new("nbdfuse");
    nbdfuse.args([&site.text("hangs.img"), "--unix", &socket]).stderr(Stdio::null());
    let _fuse = Killed(nbdfuse.spawn().unwrap());
    let _unmount = Unmount(site.path("hangs.img"));
    let one = site.text("one.img");
    let formats = || {
        Process::new(env!("CARGO_BIN_EXE_lode"))
            .args(["format", &one, "--mirror", &site.text("hangs.img"), "--force"])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    let label = || {
        let mut bytes = [0; 8];
        File::open(&behind).unwrap().read_exact_at(&mut bytes, u64::from(BLOCK)).unwrap();
        &bytes == b"LODEpair"
    };
    while !(formats() && label()) {
        if Instant::now() >= deadline {
            return lode_testdata::skip("nbdfuse does not work here");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    configure(&site, "one.img", "hangs.img", "timeout = \"2s\"");
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    let signal = |name: &str| {
        Process::new("kill").args([name, &server.0.id().to_string()]).status().unwrap();
    };
    let versions = under_traffic(&daemon, || {
        signal("-STOP");
        wait_for(&site, "hangs.img", "out-of-sync");
        std::thread::sleep(Duration::from_millis(200));
    });
    for (vm, versions) in ["vm1", "vm2"].into_iter().zip(&versions) {
        check_versions(&daemon, vm, versions);
    }
    signal("-CONT");
    daemon.stop();
}

struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = Process::new("fusermount3").arg("-uz").arg(&self.0).stderr(Stdio::null()).status();
    }
}

#[test]
fn g5_what_is_damaged_on_one_ssd_is_read_from_the_other() {
    let site = site();
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    daemon.stop();
    // All of its blocks, behind the label, and none of what describes them.
    let file = OpenOptions::new().read(true).write(true).open(site.path("one.img")).unwrap();
    let mut page = vec![0; BLOCK as usize];
    let mut damaged = 0;
    for at in (MIB..SSD_MIB * MIB).step_by(BLOCK as usize) {
        file.read_exact_at(&mut page, at).unwrap();
        if !page.starts_with(b"LODE") && page.iter().any(|&byte| byte != 0) {
            page[100] ^= 1;
            file.write_all_at(&page, at).unwrap();
            damaged += 1;
        }
    }
    assert!(damaged >= 2 * BLOCKS, "{damaged}");
    let daemon = site.serve_up();
    check_all(&daemon, 1);
    let healed = |daemon: &Daemon<'_>| -> u64 {
        let status = daemon.status();
        let vms = status["vms"].as_array().unwrap().iter();
        vms.map(|vm| vm["healed_blocks"].as_u64().unwrap()).sum()
    };
    assert!(healed(&daemon) > 0, "{}", daemon.status());
    assert_eq!(daemon.status()["vms"][0]["alarms"]["damaged_dirty"], 0);
    // A part of the file is gone while it is served.
    file.set_len(SSD_MIB * MIB / 4).unwrap();
    check_all(&daemon, 1);
    write_all(&daemon, 2);
    check_all(&daemon, 2);
    daemon.kill();
    // It is smaller than it was: that is refused, unless it is taken out.
    file.set_len(SSD_MIB * MIB / 4).unwrap();
    let started = states_or_refusal(&site);
    assert!(started.contains("one.img"), "{started}");
    lode_ok(&["device", "remove", &site.text("test.toml"), &site.text("one.img")]);
    let daemon = site.serve_up();
    check_all(&daemon, 2);
    daemon.stop();
}

/// What a start says that is refused, or how the SSDs stand where it was dropped before.
fn states_or_refusal(site: &Site) -> String {
    let output = Process::new(env!("CARGO_BIN_EXE_lode"))
        .args(["device", "list", &site.text("test.toml")])
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn other_ssds_are_refused_by_name() {
    let site = site();
    let refused = |path: &str, mirror: &str, words: &[&str]| {
        configure(&site, path, mirror, "");
        let said = site.serve_fails();
        assert!(words.iter().all(|word| said.contains(word)), "{path}, {mirror}: {words:?}: {said}");
    };
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    daemon.stop();
    refused("one.img", "one.img", &["same path"]);
    std::os::unix::fs::symlink(site.path("one.img"), site.path("link.img")).unwrap();
    refused("one.img", "link.img", &["link.img", "as well"]);
    fs::copy(site.path("one.img"), site.path("copy.img")).unwrap();
    refused("one.img", "copy.img", &["copy.img", "same SSD", "is a copy"]);
    refused("one.img", "ssd.img", &["ssd.img", "holds cache", "by itself", "lode device remove"]);
    refused("ssd.img", "missing.img", &["ssd.img", "by itself", "take `ssd.mirror` out"]);
    let (three, four) = (site.text("three.img"), site.text("four.img"));
    lode_ok(&["format", &three, "--mirror", &four, "--create", "64MiB"]);
    refused("one.img", "four.img", &["different pairs", "one.img", "four.img"]);
    refused("three.img", "four.img", &["this host last served cache"]);
    fs::write(site.path("noise.img"), pattern(0, 3, 4 << 20)).unwrap();
    refused("one.img", "noise.img", &["noise.img", "is to be an SSD of pair"]);
    // In either order they are the pair.
    configure(&site, "other.img", "one.img", "");
    let daemon = site.serve_up();
    check_all(&daemon, 1);
    daemon.stop();
    // One of a pair is no cache by itself, and nothing else is made of it.
    let text = fs::read_to_string(site.path("test.toml")).unwrap();
    let alone: String =
        text.lines().filter(|line| !line.starts_with("mirror")).map(|line| format!("{line}\n")).collect();
    fs::write(site.path("test.toml"), alone).unwrap();
    let said = site.serve_fails();
    assert!(said.contains("is one SSD of pair") && said.contains("add `mirror`"), "{said}");
    for arguments in [vec!["format"], vec!["format", "--read-ssd"]] {
        let one = site.text("one.img");
        let said = lode_fails(&[&arguments[..], &[&one]].concat());
        assert!(said.contains("an SSD of Lodestore pair"), "{said}");
    }
    let said = lode_fails(&["format", &three, "--mirror", &three, "--force"]);
    assert!(said.contains("same device"), "{said}");
    // A copy of what both were before: the host has served a later state.
    configure(&site, "one.img", "other.img", "");
    let copies = ["one.img", "other.img"].map(|name| (site.path(name), site.path(&format!("{name}.old"))));
    copies.iter().for_each(|(from, to)| _ = fs::copy(from, to).unwrap());
    let daemon = site.serve_up();
    lode_ok(&["device", "remove", &site.text("test.toml"), &site.text("other.img")]);
    daemon.stop();
    copies.iter().for_each(|(to, from)| _ = fs::copy(from, to).unwrap());
    let said = site.serve_fails();
    assert!(said.contains("are old copies"), "{said}");
}
