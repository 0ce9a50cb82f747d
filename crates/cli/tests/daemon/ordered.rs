//! A disk that is written in the order of its guest's flushes (guarantee 11): the daemon is killed at any moment, the cache SSD is gone, and the
//! image with its redo log is a state of before, no older than was told.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lode_nbd::Command;

use crate::client::Client;
use crate::common::{Daemon, Numbers, Site, lode, lode_fails, lode_ok, pattern, version_of};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 2000;

/// Of the first VM, in groups of 1 MiB.
fn ordered_site(more: &str) -> Site {
    let site = Site::new();
    reconfigure(&site, |text| {
        text.replacen(
            "ssd = \"32MiB\"",
            "ssd = \"32MiB\"\nwriteback = { ordered = true, group = \"1MiB\" }",
            1,
        )
        .replacen("/vm1.img\" }", &format!("/vm1.img\"{more} }}"), 1)
    });
    site
}

fn reconfigure(site: &Site, change: impl FnOnce(String) -> String) {
    let path = site.path("test.toml");
    let before = std::fs::read_to_string(&path).unwrap();
    let after = change(before.clone());
    assert_ne!(before, after);
    std::fs::write(path, after).unwrap();
}

/// One write after the other, so that a state is told by the latest of its writes.
struct Guest {
    numbers: Numbers,
    /// Which block each write was to; the first is 1.
    writes: Vec<u64>,
    acknowledged: u64,
    /// What was acknowledged at a moment.
    moments: Vec<(Instant, u64)>,
}

impl Guest {
    /// The kill comes at its time whatever the guest waits for; a guest that has to wait is answered when a group is over, and would have
    /// it come only then.
    fn write_until_killed(&mut self, daemon: Daemon<'_>, life: Duration) -> Instant {
        let mut client = daemon.client("vm1");
        std::thread::scope(|scope| {
            let killed = scope.spawn(move || {
                std::thread::sleep(life);
                daemon.kill();
                Instant::now()
            });
            while self.write(&mut client).is_some() {}
            killed.join().unwrap()
        })
    }

    /// One write, or nothing where the daemon is gone: then nobody knows what became of it.
    fn write(&mut self, client: &mut Client) -> Option<()> {
        let block =
            if self.numbers.below(3) == 0 { self.numbers.below(64) } else { self.numbers.below(BLOCKS) };
        self.writes.push(block);
        let version = self.writes.len() as u64;
        let bytes = pattern(block * BLOCK, version, BLOCK as usize);
        client.ask(Command::Write, block * BLOCK, BLOCK as u32, false, &bytes)?.unwrap();
        self.acknowledged = version;
        self.moments.push((Instant::now(), version));
        if self.numbers.below(20) == 0 {
            client.ask(Command::Flush, 0, 0, false, &[])?.unwrap();
        }
        Some(())
    }

    /// The latest write of the state that an image is; it has to be a state.
    fn state_of(&self, image: &[u8]) -> u64 {
        let block_of = |at: u64| &image[(at * BLOCK) as usize..((at + 1) * BLOCK) as usize];
        let is_zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
        let version = |at| if is_zero(block_of(at)) { 0 } else { version_of(block_of(at)) };
        let latest = (0..BLOCKS).map(version).max().unwrap();
        let mut expected: HashMap<u64, u64> = HashMap::new();
        for (at, &block) in self.writes.iter().enumerate().take(latest as usize) {
            expected.insert(block, at as u64 + 1);
        }
        for block in 0..BLOCKS {
            let wanted = expected.get(&block).copied().unwrap_or(0);
            assert_eq!(version(block), wanted, "block {block} of a state of write {latest}");
            if wanted > 0 {
                assert_eq!(block_of(block), pattern(block * BLOCK, wanted, BLOCK as usize), "block {block}");
            }
        }
        latest
    }
}

fn new_guest() -> Guest {
    Guest { numbers: Numbers(0x1357_9bdf), writes: Vec::new(), acknowledged: 0, moments: Vec::new() }
}

#[test]
fn g11_an_image_alone_is_a_state_of_before() {
    const LEAST_LIVES: usize = 4;
    const MOST_LIVES: usize = 16;
    // So slow that kills come while groups are written, most of them when a log is complete and not applied.
    let site = ordered_site(", delay = \"hdd\"");
    let mut guest = new_guest();
    let mut applied = 0;
    for (life, life_ms) in [300, 2300, 2600, 3900].into_iter().cycle().enumerate().take(MOST_LIVES) {
        if life >= LEAST_LIVES && applied > 0 {
            break;
        }
        let killed = guest.write_until_killed(site.serve_up(), Duration::from_millis(life_ms));
        let copy = site.copy_of_disk("vm1");
        let told = lode_ok(&["recover", "--json", &copy]);
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        applied += told["applied_blocks"].as_u64().unwrap();
        let state = guest.state_of(&std::fs::read(&copy).unwrap());
        // Groups end within two seconds, and take a few to a disk that is so slow.
        const MOST_BEHIND: Duration = Duration::from_secs(20);
        let old = guest.moments.iter().filter(|(at, _)| killed.duration_since(*at) > MOST_BEHIND);
        assert!(state >= old.map(|&(_, version)| version).max().unwrap_or(0), "state of write {state}");
        // Again changes nothing.
        let again: serde_json::Value = serde_json::from_str(&lode_ok(&["recover", "--json", &copy])).unwrap();
        assert_eq!((again["applied_blocks"].as_u64(), &again["group"]), (Some(0), &told["group"]));
        // With its SSD the disk goes on as if nothing had been.
        let daemon = site.serve_up();
        let bytes = daemon.client("vm1").read(0, (BLOCKS * BLOCK) as u32);
        assert!(guest.state_of(&bytes) >= guest.acknowledged);
        let state = guest.state_of(&bytes);
        guest.writes.truncate(state as usize);
        daemon.kill();
    }
    assert!(
        guest.acknowledged > 100 && applied > 0,
        "{} writes, {applied} blocks applied",
        guest.acknowledged
    );
}

#[test]
fn g11_a_disk_goes_on_without_its_ssd() {
    let site = ordered_site("");
    let mut guest = new_guest();
    guest.write_until_killed(site.serve_up(), Duration::from_millis(2500));
    std::fs::remove_file(site.path("ssd.img")).unwrap();
    site.lose_memory();
    let said = lode_ok(&["recover", &site.text("vm1.img")]);
    assert!(said.contains("is the state of group"), "{said}");
    let state = guest.state_of(&std::fs::read(site.path("vm1.img")).unwrap());
    assert!(state > 0);
    let told: serde_json::Value =
        serde_json::from_str(&lode_ok(&["recover", "--json", &site.text("vm1.img")])).unwrap();
    let cache = told["cache"].as_str().unwrap();
    // A new SSD is another cache, which is told that the lost one is gone for good.
    lode_ok(&["format", &site.text("ssd.img"), "--create", "128MiB"]);
    std::fs::remove_file(site.path("state/test.state")).ok();
    let refused = site.serve_fails();
    assert!(refused.contains("lost_caches") && refused.contains(cache), "{refused}");
    reconfigure(&site, |text| format!("{text}\n[danger_zone]\nlost_caches = [\"{cache}\"]\n"));
    let daemon = site.serve_up();
    let mut client = daemon.client("vm1");
    assert_eq!(guest.state_of(&client.read(0, (BLOCKS * BLOCK) as u32)), state);
    client.write(0, &[9; BLOCK as usize]);
    client.flush();
    drop(client);
    daemon.stop();
}

/// What is where the log is to be and is none is left alone, whether or not it is asked for one; and nobody else reads a log.
#[test]
fn other_files_are_no_redo_logs() {
    use std::os::unix::fs::PermissionsExt;
    let site = ordered_site("");
    let log = site.path("vm1.img.redo");
    for foreign in [&b"notes of somebody"[..], &[0; 8192]] {
        std::fs::write(&log, foreign).unwrap();
        let refused = site.serve_fails();
        assert!(refused.contains("is not a redo log") && refused.contains("vm1.img.redo"), "{refused}");
        assert_eq!(std::fs::read(&log).unwrap(), foreign);
        // A VM with another write-back does not look at it.
        std::fs::rename(&log, site.path("vm2.img.redo")).unwrap();
        let daemon = site.serve_up();
        drop(daemon.client("vm1"));
        assert_eq!(std::fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
        daemon.stop_drained();
        assert_eq!(std::fs::read(site.path("vm2.img.redo")).unwrap(), foreign);
        std::fs::remove_file(&log).unwrap();
    }
    reconfigure(&site, |text| {
        text.replacen("vm1.img\" }", &format!("vm1.img\", redo = \"{}\" }}", site.text("vm2.img")), 1)
    });
    let refused = site.serve_fails();
    assert!(refused.contains("vm2.img is the redo log of VM vm1 as well"), "{refused}");
}

/// How far it is behind is told, and a stop with a drain leaves a disk that has everything and an empty log.
#[test]
fn how_far_the_disk_is_behind_is_told() {
    let site = ordered_site("");
    let daemon = site.serve_up();
    let mut client = daemon.client("vm1");
    let image = || std::fs::read(site.path("vm1.img")).unwrap();
    client.write(0, &[5; 8192]);
    let ordered = |daemon: &Daemon<'_>| daemon.status()["vms"][0]["ordered"].clone();
    assert_eq!(ordered(&daemon)["max_lag_s"], 30);
    let deadline = Instant::now() + Duration::from_secs(30);
    // Nobody flushes, and a group is written all the same.
    while ordered(&daemon)["group"] == 0 {
        assert!(Instant::now() < deadline, "{}", daemon.status());
        std::thread::sleep(Duration::from_millis(50));
    }
    while ordered(&daemon)["behind_bytes"] != 0 || image()[..8192] != [5; 8192] {
        assert!(Instant::now() < deadline, "{}", daemon.status());
        std::thread::sleep(Duration::from_millis(50));
    }
    let text = lode_ok(&["status", &site.text("test.toml")]);
    assert!(text.contains("vm1: the backing disk with its redo log has everything"), "{text}");
    client.ask(Command::Trim, 0, 4096, false, &[]).unwrap().unwrap();
    client.write(1 << 20, &[6; 4096]);
    drop(client);
    daemon.stop_drained();
    assert_eq!(image()[1 << 20..][..4096], [6; 4096]);
    let said = lode_ok(&["recover", &site.text("vm1.img")]);
    assert!(said.contains("0 blocks came from its redo log"), "{said}");
    assert!(lode_fails(&["recover", &site.text("vm2.img")]).contains("no redo log"));
    // Served otherwise, it needs no log.
    reconfigure(&site, |text| text.replacen("writeback = { ordered = true, group = \"1MiB\" }", "", 1));
    let daemon = site.serve_up();
    // It is served once what it needs was recovered.
    drop(daemon.client("vm1"));
    assert!(!site.path("vm1.img.redo").exists());
    assert_eq!(daemon.status()["vms"][0]["ordered"], serde_json::Value::Null);
    let reload = |site: &Site| lode(&["reload", &site.text("test.toml")]);
    reconfigure(&site, |text| {
        text.replacen("ssd = \"32MiB\"", "ssd = \"32MiB\"\nwriteback = \"ordered\"", 1)
    });
    let refused = reload(&site);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("writeback of VM vm1"), "{said}");
    daemon.stop();
}

/// What a start refuses, it refuses before the redo log of any VM is brought to its disk, and before the SSD is changed.
#[test]
fn g11_a_start_refuses_before_anything_is_changed() {
    let site = ordered_site("");
    let scheme = "ssd = \"16MiB\"\nwriteback = \"scheme\"";
    let ordered = "ssd = \"16MiB\"\nwriteback = { ordered = true, group = \"1MiB\" }";
    reconfigure(&site, |text| text.replacen("ssd = \"16MiB\"", scheme, 1));
    let daemon = site.serve_up();
    let bytes = |version| pattern(0, version, 4 << 20);
    let [mut first, mut second] = ["vm1", "vm2"].map(|vm| daemon.client(vm));
    first.write(0, &bytes(1)[..64 << 10]);
    first.flush();
    second.write(0, &bytes(2));
    second.flush();
    daemon.kill();
    // Twice as much as two groups are.
    reconfigure(&site, |text| text.replacen(scheme, ordered, 1));
    let files = || {
        ["ssd.img", "vm1.img", "vm1.img.redo", "vm2.img"].map(|name| std::fs::read(site.path(name)).unwrap())
    };
    let before = files();
    let refused = site.serve_fails();
    let words = ["VM vm2", "1024 blocks on the cache SSD are newer", "takes 768", "`lode drain`"];
    assert!(words.iter().all(|word| refused.contains(word)), "{refused}");
    assert!(files() == before, "something was changed");
    assert!(!site.path("vm2.img.redo").exists());
    // One whose log is damaged is refused as well.
    reconfigure(&site, |text| text.replacen(ordered, scheme, 1));
    let log = site.path("vm1.img.redo");
    let mut damaged = before[2].clone();
    damaged[4096..3 * 4096].fill(0x5a);
    std::fs::write(&log, &damaged).unwrap();
    let refused = site.serve_fails();
    let said = format!("The redo log {}: neither copy of its state is one", log.display());
    assert!(refused.contains(&said), "{refused}");
    assert!(files() == [before[0].clone(), before[1].clone(), damaged, before[3].clone()]);
    std::fs::write(&log, &before[2]).unwrap();
    // As it was it goes on.
    let daemon = site.serve_up();
    assert!(daemon.client("vm2").read(0, 4 << 20) == bytes(2));
    assert!(daemon.client("vm1").read(0, 64 << 10) == bytes(1)[..64 << 10]);
    daemon.stop_drained();
    // With nothing dirty it can be served in order.
    reconfigure(&site, |text| text.replacen(scheme, ordered, 1));
    site.serve_up().stop();
}

/// What is wrong with the disks of VMs that a reload brings is found before others go.
#[test]
fn a_reload_looks_at_the_disks_of_newcomers_before_anything_is_changed() {
    let site = Site::new();
    let config = site.text("test.toml");
    let before = std::fs::read_to_string(&config).unwrap();
    let daemon = site.serve_up();
    let names = || {
        let status = daemon.status();
        status["vms"].as_array().unwrap().iter().map(|vm| vm["name"].to_string()).collect::<Vec<_>>()
    };
    let served = names();
    let file = std::fs::File::create(site.path("vm3.img")).unwrap();
    file.set_len(8 << 20).unwrap();
    let third = format!(
        "[[vm]]\nname = \"vm3\"\nbacking = {{ path = \"{}\" }}\nlisten = [\"unix:{}\"]\nscheme = \"lru\"\nssd = \"8MiB\"\n",
        site.text("vm3.img"),
        site.text("vm3.sock")
    );
    let second = before.find("[[vm]]\nname = \"vm2\"").unwrap();
    let with = |keys: &str| std::fs::write(&config, format!("{}{third}{keys}\n", &before[..second])).unwrap();
    with("writeback = \"ordered\"");
    let log = site.path("vm3.img.redo");
    std::fs::write(&log, "notes of somebody").unwrap();
    let refused = lode_fails(&["reload", &config]);
    assert!(refused.contains("Nothing was changed: ") && refused.contains("is not a redo log"), "{refused}");
    assert_eq!(names(), served);
    std::fs::remove_file(&log).unwrap();
    // Without one that goes, the room is looked at as well.
    let all = format!("{before}{}", third.replace("8MiB", "8TiB"));
    std::fs::write(&config, all).unwrap();
    let refused = lode_fails(&["reload", &config]);
    assert!(refused.contains("Nothing was changed: "), "{refused}");
    assert_eq!(names(), served);
    with("writeback = \"ordered\"");
    lode_ok(&["reload", &config]);
    assert_eq!(names(), ["\"vm1\"", "\"vm3\""]);
    daemon.stop();
}
