//! Extents of the SSD go from one VM to another while both are served, and nothing that guests wrote is lost or seen by others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lode_nbd::Command;

use crate::client::Client;
use crate::common::{Daemon, Numbers, Site, lode_fails, lode_ok, pattern, version_of};

const PATIENCE: Duration = Duration::from_secs(60);
const BLOCK_BYTES: u64 = 4096;
/// All of a VM's disk.
const BLOCKS: u64 = 16_384;
const VMS: [&str; 2] = ["vm1", "vm2"];

/// A guest, and what it has written.
struct Guest {
    vm: usize,
    numbers: Numbers,
    last: u64,
    /// The version of each block that was written.
    known: HashMap<u64, u64>,
    /// What was being written when the daemon died.
    in_doubt: Option<(u64, u64)>,
}

impl Guest {
    fn new(vm: usize) -> Guest {
        Guest { vm, numbers: Numbers(77 + vm as u64), last: 0, known: HashMap::new(), in_doubt: None }
    }

    /// Tells which guest wrote it as well.
    fn version(&self, number: u64) -> u64 {
        number * 2 + self.vm as u64
    }

    /// False: the daemon is gone.
    fn write(&mut self, client: &mut Client, block: u64) -> bool {
        self.last += 1;
        let (offset, version) = (block * BLOCK_BYTES, self.version(self.last));
        self.in_doubt = Some((block, version));
        let bytes = pattern(offset, version, BLOCK_BYTES as usize);
        let Some(answer) = client.ask(Command::Write, offset, bytes.len() as u32, false, &bytes) else {
            return false;
        };
        answer.unwrap();
        self.in_doubt = None;
        self.known.insert(block, version);
        true
    }

    /// False: the daemon is gone.
    fn check(&mut self, client: &mut Client, block: u64) -> bool {
        let offset = block * BLOCK_BYTES;
        let Some(answer) = client.ask(Command::Read, offset, BLOCK_BYTES as u32, false, &[]) else {
            return false;
        };
        let (bytes, known) = (answer.unwrap(), self.known.get(&block).copied());
        if bytes.iter().all(|byte| *byte == 0) {
            assert_eq!(known, None, "block {block} of {} is gone", VMS[self.vm]);
            return true;
        }
        let found = version_of(&bytes);
        let is_in_doubt = self.in_doubt == Some((block, found));
        assert!(
            known == Some(found) || is_in_doubt,
            "block {block} of {} is {found}, not {known:?}",
            VMS[self.vm]
        );
        assert_eq!(bytes, pattern(offset, found, bytes.len()));
        self.known.insert(block, found);
        true
    }

    /// Writes, reads and flushes while `goes_on` and there is a daemon.
    fn live(&mut self, mut client: Client, goes_on: &AtomicBool) {
        while goes_on.load(Ordering::Relaxed) {
            let block = self.numbers.below(BLOCKS);
            let is_there = match self.numbers.below(64) {
                0 => match client.ask(Command::Flush, 0, 0, false, &[]) {
                    Some(answer) => answer.is_ok(),
                    None => false,
                },
                1..=20 => self.check(&mut client, block),
                _ => self.write(&mut client, block),
            };
            if !is_there {
                return;
            }
        }
    }

    fn check_all(&mut self, daemon: &Daemon<'_>) {
        let mut client = daemon.client(VMS[self.vm]);
        (0..BLOCKS).for_each(|block| assert!(self.check(&mut client, block)));
    }
}

/// While both guests write and read, does something with the daemon.
fn while_guests_live<'s>(
    guests: &mut [Guest; 2],
    daemon: Daemon<'s>,
    work: impl FnOnce(Daemon<'s>) -> Option<Daemon<'s>>,
) -> Option<Daemon<'s>> {
    let goes_on = AtomicBool::new(true);
    std::thread::scope(|scope| {
        for guest in guests {
            let client = daemon.client(VMS[guest.vm]);
            let goes_on = &goes_on;
            scope.spawn(move || guest.live(client, goes_on));
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(daemon)));
        goes_on.store(false, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn set(site: &Site, vm: &str, ssd: &str) {
    lode_ok(&["vm", "set", &site.text("test.toml"), vm, &format!("ssd={ssd}")]);
}

/// Waits until VMs' shares of the SSD in force are these, in blocks.
fn wait_for_shares(daemon: &Daemon<'_>, are_so: impl Fn([u64; 2]) -> bool) -> serde_json::Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = daemon.status();
        let shares = [0, 1].map(|vm| status["vms"][vm]["quota"]["ssd_blocks"].as_u64().unwrap());
        if are_so(shares) {
            return status;
        }
        assert!(Instant::now() < deadline, "shares in force: {shares:?} blocks; {}", status["host"]);
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Two VMs under one scheme, the first one with `first` and the second one with `second`, and a host with `host`.
fn configure(site: &Site, [first, second]: [&str; 2], host: &str) {
    site.configure(&format!("[host]\n{host}"));
    let text = std::fs::read_to_string(site.path("test.toml")).unwrap();
    let text = text.replace("ssd = \"16MiB\"\nscheme = \"lru\"", second);
    let text = text.replace("dram = \"4MiB\"\nssd = \"32MiB\"\nscheme = \"etica\"", first);
    assert!(text.contains(first) && text.contains(second));
    std::fs::write(site.path("test.toml"), text).unwrap();
}

#[test]
fn extents_move_while_guests_write_and_a_kill_loses_nothing() {
    let site = Site::in_memory();
    let shares = ["ssd = \"16MiB\"\nscheme = \"lru\"", "ssd = \"56MiB\"\nscheme = \"lru\""];
    // With what both have beside their shares all of the SSD is taken.
    configure(&site, shares, "ssd = \"80MiB\"");
    let daemon = site.serve_up();
    let status = daemon.status();
    assert_eq!(status["host"]["ssd_grows"], true, "{}", status["host"]);
    assert_eq!(status["vms"][0]["sharing"]["ssd"]["reach_blocks"], 80 * 256);
    let config = site.text("test.toml");
    let said = lode_fails(&["vm", "set", &config, "vm1", "ssd=64MiB"]);
    assert!(said.contains("and [host] has `ssd` = 80 MiB"), "{said}");
    let mut guests = [0, 1].map(Guest::new);
    let daemon = while_guests_live(&mut guests, daemon, |daemon| {
        set(&site, "vm2", "8MiB");
        set(&site, "vm1", "64MiB");
        wait_for_shares(&daemon, |shares| shares == [64 * 256, 8 * 256]);
        Some(daemon)
    });
    let daemon = daemon.unwrap();
    // More than all that it had at its start, its spare places included.
    let mut client = daemon.client("vm1");
    (0..BLOCKS).for_each(|block| assert!(guests[0].write(&mut client, block)));
    drop(client);
    let status = daemon.status();
    let held = status["vms"][0]["gauges"]["ssd_blocks"].as_u64().unwrap();
    assert!(held > 60 * 256, "{held} blocks");
    daemon.kill();
    // It goes on with the extents that it has: what is dirty there need not fit into the share that is configured.
    let daemon = site.serve_up();
    guests.iter_mut().for_each(|guest| guest.check_all(&daemon));
    wait_for_shares(&daemon, |shares| shares == [16 * 256, 56 * 256]);
    // Again and again, each time to the middle of it.
    let mut daemon = Some(daemon);
    for (round, pause_ms) in [300, 900, 1700, 2600].into_iter().enumerate() {
        while_guests_live(&mut guests, daemon.take().unwrap(), |daemon| {
            let (less, more) = if round % 2 == 0 { ("vm2", "vm1") } else { ("vm1", "vm2") };
            set(&site, less, "8MiB");
            set(&site, more, "64MiB");
            std::thread::sleep(Duration::from_millis(pause_ms));
            daemon.kill();
            None
        });
        let up = daemon.insert(site.serve_up());
        for guest in &mut guests {
            guest.check_all(up);
            // Whichever of both it was, it is that from now on.
            guest.in_doubt = None;
        }
        let alarms = &up.status()["vms"][0]["alarms"];
        assert_eq!(alarms["failed"], false, "{alarms}");
    }
    let daemon = daemon.unwrap();
    daemon.stop();
    let daemon = site.serve_up();
    guests.iter_mut().for_each(|guest| guest.check_all(&daemon));
    daemon.stop();
}

#[test]
fn shares_of_the_ssd_follow_demand_beyond_those_of_the_start() {
    let site = Site::in_memory();
    let scheme = "scheme = \"centaur-like\"";
    let host = "mode = \"auto\"\nssd = \"48MiB\"\ninterval = \"2s\"";
    configure(&site, [scheme, scheme], host);
    let daemon = site.serve_up();
    wait_for_shares(&daemon, |shares| shares == [24 * 256; 2]);
    // 36 MiB that are read again and again; the other VM does nothing.
    let (began, mut client) = (Instant::now(), daemon.client("vm1"));
    loop {
        (0..36 * 256).for_each(|block| drop(client.read(block * BLOCK_BYTES, BLOCK_BYTES as u32)));
        let status = daemon.status();
        let share = status["vms"][0]["quota"]["ssd_blocks"].as_u64().unwrap();
        if share >= 36 * 256 {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{share} blocks; {}", status["host"]);
    }
    let status = wait_for_shares(&daemon, |[one, other]| one + other <= 48 * 256);
    assert_eq!(status["host"]["ssd_grows"], true);
    assert_eq!(status["vms"][0]["sharing"]["ssd"]["reach_blocks"], 48 * 256);
    drop(client);
    daemon.stop();
}

/// By hand, and durably: what it holds there is found after a kill, although it has no share then.
#[test]
fn a_vm_that_began_without_the_ssd_is_given_a_share_of_it() {
    let site = Site::in_memory();
    configure(&site, ["ssd = \"16MiB\"\nscheme = \"lru\"", "dram = \"4MiB\""], "ssd = \"48MiB\"");
    let daemon = site.serve_up();
    let vm2 = &daemon.status()["vms"][1];
    assert_eq!((&vm2["quota"]["ssd_blocks"], &vm2["scheme"]), (&0.into(), &"auto".into()));
    assert_eq!(vm2["sharing"]["ssd"]["reach_blocks"], 48 * 256);
    let mut guests = [0, 1].map(Guest::new);
    let daemon = while_guests_live(&mut guests, daemon, |daemon| {
        set(&site, "vm2", "24MiB");
        wait_for_shares(&daemon, |shares| shares == [16 * 256, 24 * 256]);
        // It is used.
        let deadline = Instant::now() + PATIENCE;
        while daemon.status()["vms"][1]["gauges"]["dirty_blocks"].as_u64().unwrap() < 100 {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(100));
        }
        daemon.kill();
        None
    });
    assert!(daemon.is_none());
    let daemon = site.serve_up();
    // It has none again, which the configuration does not name: what was dirty there is not lost.
    assert_eq!(daemon.status()["vms"][1]["quota"]["ssd_blocks"], 0);
    guests.iter_mut().for_each(|guest| guest.check_all(&daemon));
    let is_clean = |daemon: &Daemon<'_>| daemon.status()["vms"][1]["gauges"]["dirty_blocks"] == 0;
    let deadline = Instant::now() + PATIENCE;
    while !is_clean(&daemon) {
        assert!(Instant::now() < deadline, "{}", daemon.status()["vms"][1]["gauges"]);
        std::thread::sleep(Duration::from_millis(100));
    }
    daemon.stop();
}

#[test]
fn a_vm_that_began_without_the_ssd_gets_what_it_could_use_of_it() {
    let site = Site::in_memory();
    let vms = ["ssd = \"16MiB\"\nscheme = \"centaur-like\"", "dram = \"1MiB\"\nssd = \"0\""];
    configure(&site, vms, "mode = \"auto\"\nssd = \"48MiB\"\ninterval = \"1s\"");
    let daemon = site.serve_up();
    assert_eq!(daemon.status()["vms"][1]["quota"]["ssd_blocks"], 0);
    let (began, mut client) = (Instant::now(), daemon.client("vm2"));
    while daemon.status()["vms"][1]["quota"]["ssd_blocks"].as_u64().unwrap() < 8 * 256 {
        (0..12 * 256).for_each(|block| drop(client.read(block * BLOCK_BYTES, BLOCK_BYTES as u32)));
        assert!(began.elapsed() < PATIENCE, "{}", daemon.status()["vms"][1]["sharing"]);
    }
    drop(client);
    daemon.stop();
}

/// A step each second, in which a VM gives up no more than `rate` and the other one grows by no more than that.
#[test]
fn shares_move_no_faster_than_the_rate() {
    const RATE_BLOCKS: u64 = 2 * 256;
    let site = Site::in_memory();
    let shares = ["ssd = \"16MiB\"\nscheme = \"lru\"", "ssd = \"32MiB\"\nscheme = \"lru\""];
    configure(&site, shares, "ssd = \"48MiB\"\nrate = \"2MiB\"");
    let daemon = site.serve_up();
    let shares = || [0, 1].map(|vm| daemon.status()["vms"][vm]["quota"]["ssd_blocks"].as_u64().unwrap());
    let began = Instant::now();
    set(&site, "vm2", "20MiB");
    set(&site, "vm1", "28MiB");
    let (mut last, mut changes) = (shares(), 0);
    while last != [28 * 256, 20 * 256] {
        assert!(began.elapsed() < PATIENCE, "{last:?}");
        let now = shares();
        if now != last {
            // What is seen at once may be two steps, of which one was late.
            let moved = |vm: usize| last[vm].abs_diff(now[vm]);
            assert!([0, 1].iter().all(|&vm| moved(vm) <= 2 * RATE_BLOCKS), "{last:?} to {now:?}");
            (last, changes) = (now, changes + 1);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // 12 MiB in steps of 2 MiB, of which only the first one comes at once.
    assert!(began.elapsed() >= Duration::from_secs(4) && changes >= 5, "{changes} in {:?}", began.elapsed());
    daemon.stop();
}

#[test]
fn a_share_that_nothing_lets_grow_is_refused_with_what_would() {
    let site = Site::new();
    let daemon = site.serve_up();
    let said = lode_fails(&["vm", "set", &site.text("test.toml"), "vm1", "ssd=40MiB"]);
    assert!(said.contains("started with room for 32 MiB") && said.contains("A `max` of ssd"), "{said}");
    assert_eq!(daemon.status()["host"]["ssd_grows"], false);
    daemon.stop();
}

/// Where the host is to have more of the SSD than there is, what there is is divided, and a VM has what it is to have at least.
#[test]
fn no_more_of_the_ssd_is_divided_than_there_is() {
    const ROOM: u64 = 128 << 8;
    let site = Site::in_memory();
    let vms = ["scheme = \"centaur-like\"", "scheme = \"centaur-like\"\nmin = { ssd = \"40MiB\" }"];
    configure(&site, vms, "mode = \"auto\"\nssd = \"48MiB\"\ninterval = \"1s\"");
    site.serve_up().stop();
    // The volumes are there, so that a start does not look for places any more.
    configure(&site, vms, "mode = \"auto\"\nssd = \"1GiB\"\ninterval = \"1s\"");
    let daemon = site.serve_up();
    let divided = daemon.status()["host"]["ssd_blocks"].as_u64().unwrap();
    assert!(divided < ROOM, "{divided} blocks of an SSD with fewer than {ROOM}");
    assert!(site.log().contains("`host.ssd` is 1 GiB, and the SSD has room for shares of"), "{}", site.log());
    // The first one could use all of it.
    let mut client = daemon.client("vm1");
    for _ in 0..2 {
        (0..64).for_each(|at| _ = client.read(at << 20, 1 << 20));
    }
    let held = |status: &serde_json::Value| status["vms"][1]["quota"]["ssd_blocks"].as_u64().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while held(&daemon.status()) < 40 << 8 {
        assert!(Instant::now() < deadline, "{}", daemon.status());
        std::thread::sleep(Duration::from_millis(100));
    }
    // A reload that asks for more is refused, with what there is.
    let text = std::fs::read_to_string(site.path("test.toml")).unwrap();
    std::fs::write(
        site.path("test.toml"),
        text.replace("ssd = \"1GiB\"\ninterval", "ssd = \"2GiB\"\ninterval"),
    )
    .unwrap();
    let said = lode_fails(&["reload", &site.text("test.toml")]);
    assert!(said.contains("`host.ssd` cannot be 2 GiB: the SSD has room for shares of"), "{said}");
    // Nor is one taken over that the next start would be refused for.
    std::fs::write(
        site.path("test.toml"),
        text.replace("mode = \"auto\"", "mode = \"auto\"\ndram = \"7TiB\""),
    )
    .unwrap();
    let said = lode_fails(&["reload", &site.text("test.toml")]);
    assert!(said.contains("The next start would be refused") && said.contains("and this host has"), "{said}");
    drop(client);
    daemon.stop();
}
