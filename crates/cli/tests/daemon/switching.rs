//! Schemes that change while guests write, with what the cache holds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::client::PATIENCE;
use crate::common::{Daemon, MIB, Numbers, Site, has_tool, lode_fails, lode_ok, pattern, version_of};
use crate::tools::run;

/// Two VMs with shares that can change, of schemes that use both levels.
fn site() -> Site {
    let site = Site::new();
    let text = std::fs::read_to_string(site.path("test.toml")).unwrap();
    let text =
        text.replace("dram = \"4MiB\"\n", "dram = \"4MiB\"\nmax = { dram = \"8MiB\", ssd = \"48MiB\" }\n");
    std::fs::write(site.path("test.toml"), text).unwrap();
    site
}

fn set(site: &Site, words: &[&str]) -> String {
    lode_ok(&[&["vm", "set", &site.text("test.toml")], words].concat())
}

/// Waits until a scheme decides.
fn wait_for_scheme(daemon: &Daemon<'_>, vm: usize, scheme: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = daemon.status();
        let vm = &status["vms"][vm];
        if vm["scheme"] == scheme && vm["next_scheme"].is_null() {
            return;
        }
        assert!(Instant::now() < deadline, "{scheme} does not decide: {vm}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Every so many commands one switches the scheme, too.
const SWITCH_EVERY: usize = 4;
const SCHEMES: [&str; 6] = ["lru", "arc", "etica", "s3-fifo", "lirs", "sieve"];

/// The share of the SSD that the first VM is served with, in blocks, once it is the one that it is to have.
fn settled_share(daemon: &Daemon<'_>) -> Option<u64> {
    let vm = &daemon.status()["vms"][0];
    let blocks = vm["quota"]["ssd_blocks"].as_u64().unwrap();
    (vm["sharing"]["ssd"]["target_blocks"] == blocks).then_some(blocks)
}

/// Waits until the first VM is served with another share than so far, the one asked for if one is; none where that takes too long.
fn next_share(daemon: &Daemon<'_>, old_blocks: u64, asked: Option<u64>) -> Option<u64> {
    let deadline = Instant::now() + Duration::from_secs(2);
    let is_it = |&blocks: &u64| blocks != old_blocks && asked.is_none_or(|asked| blocks == asked);
    while Instant::now() < deadline {
        if let Some(blocks) = settled_share(daemon).filter(is_it) {
            return Some(blocks);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}

/// What fio leaves alone: written before all changes, and read after them.
const KEPT_FROM: u64 = 48 * MIB;
const KEPT_BYTES: u64 = 12 * MIB;
const KEPT_STEP: u64 = MIB;

fn kept() -> impl Iterator<Item = (u64, Vec<u8>)> {
    (KEPT_FROM..KEPT_FROM + KEPT_BYTES)
        .step_by(KEPT_STEP as usize)
        .map(|at| (at, pattern(at, 1 + at / KEPT_STEP, KEPT_STEP as usize)))
}

/// Has fio write and verify on the first VM until `work` is over, which can ask whether fio has ended by itself.
pub fn while_fio_verifies<T>(site: &Site, work: impl FnOnce(&dyn Fn() -> bool) -> T) -> T {
    let uri = format!("--uri={}", site.uri("vm1"));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let fio = scope.spawn(|| {
            let mut runs = 0;
            while !is_done.load(Ordering::Relaxed) {
                let job =
                    ["--name=v", "--ioengine=nbd", &uri, "--rw=randrw", "--bsrange=4k-64k", "--iodepth=16"];
                // What was written is read again after so many other writes, and all of it at the end.
                let check = ["--size=48M", "--verify=crc32c", "--verify_fatal=1", "--verify_backlog=256"];
                let time = ["--verify_state_save=0", "--time_based", "--runtime=5"];
                let text = run("/usr/bin/fio", &[&job[..], &check[..], &time[..]].concat());
                assert!(text.contains("err= 0"), "{text}");
                runs += 1;
            }
            runs
        });
        let result = work(&|| fio.is_finished());
        is_done.store(true, Ordering::Relaxed);
        println!("{} runs of fio", fio.join().unwrap());
        result
    })
}

/// Has fio write and verify on the first VM until its share has changed so many times, and its scheme a fifth as often. `change`
/// gives the command for a change, and returns the blocks that it asks for if it does.
fn fio_verifies(
    site: &Site,
    daemon: &Daemon<'_>,
    changes: usize,
    mut change: impl FnMut(usize, &mut Numbers) -> Option<u64>,
) {
    let mut client = daemon.client("vm1");
    kept().for_each(|(at, bytes)| client.write(at, &bytes));
    let (mut changed, mut asked) = (0, 0);
    while_fio_verifies(site, |has_ended| {
        let mut random = Numbers(7);
        let deadline = Instant::now() + 10 * PATIENCE;
        let mut blocks = settled_share(daemon).unwrap_or_default();
        while changed < changes && Instant::now() < deadline && !has_ended() {
            let wanted = change(asked, &mut random);
            asked += 1;
            if let Some(new) = next_share(daemon, blocks, wanted) {
                (blocks, changed) = (new, changed + 1);
            }
        }
    });
    kept().for_each(|(at, bytes)| assert!(client.read(at, KEPT_STEP as u32) == bytes, "at byte {at}"));
    assert_eq!(changed, changes, "shares that came into force, of {asked} commands");
    let switches = daemon.status()["vms"][0]["gauges"]["scheme_switches"].as_u64().unwrap();
    assert!(switches >= changes as u64 / 5, "{switches} switches came about");
}

#[test]
fn fio_verifies_through_share_changes_and_scheme_switches() {
    if !has_tool("fio") {
        return;
    }
    let site = site();
    let daemon = site.serve_up();
    fio_verifies(&site, &daemon, 100, |change, random| {
        let mib = 4 + random.below(40);
        let ssd = format!("ssd={mib}MiB");
        if change % SWITCH_EVERY > 0 {
            set(&site, &["vm1", &ssd]);
            return Some(mib << 8);
        }
        let scheme = SCHEMES[change / SWITCH_EVERY % SCHEMES.len()];
        let (dram, max) =
            if scheme == "etica" { ("dram=4MiB", "max.dram=8MiB") } else { ("dram=", "max.dram=") };
        set(&site, &["vm1", &format!("scheme={scheme}"), &ssd, dram, max]);
        Some(mib << 8)
    });
    daemon.stop();
}

/// The configuration of two VMs that name no share, on a host of this mode.
fn configure_host(site: &Site, mode: &str) {
    site.configure(&format!(
        "[host]\nmode = \"{mode}\"\ndram = \"8MiB\"\nssd = \"48MiB\"\ninterval = \"1s\"\nrate = \"64MiB\"\n"
    ));
    let text = std::fs::read_to_string(site.path("test.toml")).unwrap();
    let text = text.replace("dram = \"4MiB\"\nssd = \"32MiB\"\nscheme = \"etica\"", "scheme = \"lru\"");
    let text = if mode == "auto" { text.replace("ssd = \"16MiB\"\n", "") } else { text };
    let text = if mode == "auto" {
        text
    } else {
        text.replacen("scheme = \"lru\"", "ssd = \"16MiB\"\nscheme = \"lru\"", 1)
    };
    std::fs::write(site.path("test.toml"), text).unwrap();
}

#[test]
fn fio_verifies_while_shares_follow_demands_and_schemes_switch() {
    if !has_tool("fio") {
        return;
    }
    let site = Site::new();
    configure_host(&site, "auto");
    let daemon = site.serve_up();
    fio_verifies(&site, &daemon, 25, |change, random| {
        if change % SWITCH_EVERY == 0 {
            let scheme = SCHEMES[change / SWITCH_EVERY % SCHEMES.len()];
            set(&site, &["vm1", &format!("scheme={scheme}")]);
        } else {
            // What it is guaranteed, and what the other one is, moves the shares of both.
            let [mine, others] = [random.below(20), random.below(20)];
            set(&site, &["vm1", &format!("min.ssd={mine}MiB"), &format!("weight={}", 1 + random.below(9))]);
            set(&site, &["vm2", &format!("min.ssd={others}MiB")]);
        }
        None
    });
    assert_eq!(daemon.status()["host"]["stopped"], false);
    daemon.stop();
}

/// Reads until a VM holds something in memory.
fn read_until_in_memory(daemon: &Daemon<'_>) {
    let (deadline, mut client) = (Instant::now() + PATIENCE, daemon.client("vm1"));
    loop {
        (0..256).for_each(|at| drop(client.read(at * 4096, 4096)));
        let vm = daemon.status()["vms"][0].clone();
        if vm["gauges"]["dram_blocks"].as_u64() > Some(0) {
            return;
        }
        assert!(Instant::now() < deadline, "it gets no memory: {vm}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_scheme_that_comes_to_use_memory_gets_what_the_host_has() {
    for (mode, more) in [("auto", &[][..]), ("fixed", &["dram=4MiB"])] {
        let site = Site::new();
        configure_host(&site, mode);
        let daemon = site.serve_up();
        let host = daemon.status()["host"].clone();
        assert_eq!(host["dram_blocks"], 2048, "{host}");
        for _ in 0..2 {
            set(&site, &[&["vm1", "scheme=etica"], more].concat());
            wait_for_scheme(&daemon, 0, "etica");
            let reach = daemon.status()["vms"][0]["sharing"]["dram"]["reach_blocks"].clone();
            assert_eq!(reach, 2048, "{mode}");
            read_until_in_memory(&daemon);
            let back: Vec<&str> = if more.is_empty() { vec![] } else { vec!["dram="] };
            set(&site, &[&["vm1", "scheme=lru"][..], &back].concat());
            wait_for_scheme(&daemon, 0, "lru");
        }
        daemon.stop();
    }
}

/// What a VM was started with is there for it whatever schemes it had since.
#[test]
fn a_share_that_shrank_grows_again_after_a_switch() {
    let site = Site::new();
    let daemon = site.serve_up();
    for scheme in ["scheme=arc", "scheme=lru"] {
        for ssd in [("ssd=4MiB", 4 << 8), ("ssd=16MiB", 16 << 8)] {
            set(&site, &["vm2", ssd.0]);
            if ssd.1 == 4 << 8 {
                set(&site, &["vm2", scheme]);
                wait_for_scheme(&daemon, 1, &scheme["scheme=".len()..]);
            }
            let deadline = Instant::now() + PATIENCE;
            while daemon.status()["vms"][1]["quota"]["ssd_blocks"] != ssd.1 {
                assert!(Instant::now() < deadline, "{}", daemon.status()["vms"][1]["sharing"]);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    daemon.stop();
}

#[test]
fn memory_for_a_scheme_that_comes_to_use_it_is_found_without_a_host_section() {
    let site = Site::new();
    let text = std::fs::read_to_string(site.path("test.toml")).unwrap();
    let text = text
        .replace("dram = \"4MiB\"\nssd = \"32MiB\"\nscheme = \"etica\"", "ssd = \"32MiB\"\nscheme = \"lru\"");
    std::fs::write(site.path("test.toml"), text).unwrap();
    let daemon = site.serve_up();
    for _ in 0..3 {
        set(&site, &["vm1", "scheme=etica", "dram=2MiB", "max.dram=4MiB"]);
        wait_for_scheme(&daemon, 0, "etica");
        read_until_in_memory(&daemon);
        set(&site, &["vm1", "scheme=lru", "dram=", "max.dram="]);
        wait_for_scheme(&daemon, 0, "lru");
    }
    daemon.stop();
}

#[test]
fn g1_what_was_flushed_is_there_whatever_scheme_decided() {
    const BLOCK: u64 = 16 << 10;
    let site = site();
    let mut random = Numbers(3);
    let mut versions = vec![0_u64; (24 * MIB / BLOCK) as usize];
    for round in 1..=4_u64 {
        let daemon = site.serve_up();
        let mut client = daemon.client("vm2");
        for (at, version) in versions.iter().enumerate() {
            let found = client.read(at as u64 * BLOCK, BLOCK as u32);
            let expected = if *version == 0 { 0 } else { *version };
            assert_eq!(version_of(&found), expected, "block {at} in round {round}");
        }
        for (turn, scheme) in ["arc", "fifo", "lru"].into_iter().enumerate() {
            for _ in 0..300 {
                let at = random.below(versions.len() as u64);
                versions[at as usize] = (round << 8) | (turn as u64 + 1);
                client.write(at * BLOCK, &pattern(at * BLOCK, versions[at as usize], BLOCK as usize));
            }
            set(&site, &["vm2", &format!("scheme={scheme}")]);
        }
        wait_for_scheme(&daemon, 1, "lru");
        client.flush();
        daemon.kill();
    }
}

#[test]
fn what_a_switch_cannot_do_is_said_and_settings_spelled_otherwise_are_none() {
    let site = site();
    let daemon = site.serve_up();
    let fails = |words: &[&str]| lode_fails(&[&["vm", "set", &site.text("test.toml")], words].concat());
    assert!(fails(&["vm1", "scheme=sieves"]).contains("did you mean 'sieve'?"));
    assert!(fails(&["vm1", "settings.mod=npe"]).contains("did you mean 'mode'?"));
    assert!(fails(&["vm1", "scheme=belady"]).contains("belady"));
    assert!(fails(&["vm1", "scheme=lru"]).contains("does not use the dram level"));
    // With the default written out nothing changes, and no switch is made of it.
    let said = set(&site, &["vm1", "settings.mode=npe", "--save"]);
    assert!(said.contains("settings of VM vm1"), "{said}");
    assert_eq!(daemon.status()["vms"][0]["gauges"]["scheme_switches"], 0);
    set(&site, &["vm1", "settings.mode=full-hybrid"]);
    wait_for_scheme(&daemon, 0, "etica");
    assert_eq!(daemon.status()["vms"][0]["gauges"]["scheme_switches"], 1);
    let events = lode_ok(&["events", &site.text("test.toml"), "--vm", "vm1"]);
    assert!(events.contains("scheme etica decides with its new settings"), "{events}");
    // A reload brings back what the file says, and takes over what is new there.
    let text = std::fs::read_to_string(site.path("test.toml")).unwrap();
    std::fs::write(site.path("test.toml"), text.replace("scheme = \"lru\"", "scheme = \"w-tinylfu\""))
        .unwrap();
    lode_ok(&["reload", &site.text("test.toml")]);
    wait_for_scheme(&daemon, 1, "w-tinylfu");
    wait_for_scheme(&daemon, 0, "etica");
    assert_eq!(daemon.status()["vms"][0]["gauges"]["scheme_switches"], 2);
    daemon.stop();
}
