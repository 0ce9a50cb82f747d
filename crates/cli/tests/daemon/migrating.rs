//! A disk that is served by one cache and then by another: guarantees 1, 2, 4 and 10 of `docs/design.md` across hosts. Two daemons
//! with a cache, a configuration and a state folder each serve the same image in turn.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lode_nbd::Command as NbdCommand;
use serde_json::Value;

use crate::client::{Client, PATIENCE};
use crate::common::{MIB, Numbers, Site, lode, lode_fails, lode_ok, pattern, version_of};

const BLOCK: u64 = 4096;

/// Points the second site's first VM at the first site's image, as another host does that reaches the same folder.
fn two_hosts() -> [Site; 2] {
    let sites = [Site::new(), Site::new()];
    fs::remove_file(sites[1].path("vm1.img")).unwrap();
    std::os::unix::fs::symlink(sites[0].path("vm1.img"), sites[1].path("vm1.img")).unwrap();
    sites
}

fn sidecar(sites: &[Site; 2]) -> String {
    fs::read_to_string(sites[0].path("vm1.img.sidecar")).unwrap_or_default()
}

fn drain_for_migration(site: &Site) -> String {
    lode_ok(&["vm", "drain", &site.text("test.toml"), "vm1", "--for-migration"])
}

/// The bytes of the image itself.
fn on_disk(site: &Site, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    File::open(site.path("vm1.img")).unwrap().read_exact_at(&mut bytes, offset).unwrap();
    bytes
}

fn vm1(status: &Value) -> &Value {
    status["vms"].as_array().unwrap().iter().find(|vm| vm["name"] == "vm1").unwrap()
}

#[test]
fn g1_a_disk_goes_to_another_host_and_comes_back_without_old_bytes() {
    let sites = two_hosts();
    let a = sites[0].serve_up();
    let mut client = a.client("vm1");
    for block in 0..64 {
        client.write(block * BLOCK, &pattern(block * BLOCK, 1, BLOCK as usize));
        client.read(block * BLOCK, BLOCK as u32);
    }
    assert!(sidecar(&sites).contains("state = \"held\""), "{}", sidecar(&sites));
    drop(client);
    let said = drain_for_migration(&sites[0]);
    assert!(said.contains("may be opened elsewhere"), "{said}");
    assert!(sidecar(&sites).contains("state = \"clean\""));
    assert_eq!(vm1(&a.status())["migration"], "released");
    assert_eq!(on_disk(&sites[0], 0, 8), pattern(0, 1, 8));

    // While the first daemon goes on with its other VM.
    let b = sites[1].serve_up();
    let mut client = b.client("vm1");
    for block in 0..64 {
        assert_eq!(version_of(&client.read(block * BLOCK, BLOCK as u32)), 1);
        client.write(block * BLOCK, &pattern(block * BLOCK, 2, BLOCK as usize));
    }
    a.client("vm2").write(0, &[1; 4096]);
    let said = lode_fails(&["vm", "drain", &sites[0].text("test.toml"), "vm1", "--cancel"]);
    assert!(said.contains("locked") || said.contains("opened or written elsewhere"), "{said}");
    drop(client);
    drain_for_migration(&sites[1]);
    b.stop();
    // Not with what this daemon still has in memory; a start looks again, and drops it.
    let said = lode_fails(&["vm", "drain", &sites[0].text("test.toml"), "vm1", "--cancel"]);
    assert!(said.contains("opened or written elsewhere"), "{said}");
    a.stop();
    let a = sites[0].serve_up();
    let mut client = a.client("vm1");
    assert!(
        sites[0].log().contains("clean blocks that the cache held of it were dropped"),
        "{}",
        sites[0].log()
    );
    for block in 0..64 {
        assert_eq!(client.read(block * BLOCK, BLOCK as u32), pattern(block * BLOCK, 2, BLOCK as usize));
    }
    drop(client);
    a.stop();
}

#[test]
fn g2_a_disk_of_which_a_killed_cache_holds_newer_blocks_is_refused_elsewhere() {
    let sites = two_hosts();
    let a = sites[0].serve_up();
    let mut client = a.client("vm1");
    client.write(0, &pattern(0, 7, BLOCK as usize));
    client.flush();
    drop(client);
    a.kill();
    let before = fs::read(sites[0].path("vm1.img")).unwrap();
    let said = sites[1].serve_fails();
    for word in ["VM vm1", "cache test", "--for-migration", "lost_caches", "vm1.img.sidecar"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(fs::read(sites[0].path("vm1.img")).unwrap() == before, "a refusal changes nothing");
    // Where it was, it goes on as ever, with all that it held.
    let a = sites[0].serve_up();
    assert_eq!(version_of(&a.client("vm1").read(0, BLOCK as u32)), 7);
    assert!(!sites[0].log().contains("were dropped"));
    // Stopped with newer blocks it is no other host's either, drained it is.
    a.client("vm1").write(0, &pattern(0, 8, BLOCK as usize));
    a.stop();
    let said = sites[1].serve_fails();
    assert!(said.contains("may hold blocks that are newer"), "{said}");
    sites[0].serve_up().stop_drained();
    let b = sites[1].serve_up();
    assert_eq!(version_of(&b.client("vm1").read(0, BLOCK as u32)), 8);
    b.stop_drained();
}

#[test]
fn a_cache_that_is_gone_is_given_up_by_name_and_does_not_come_back_unnoticed() {
    let sites = two_hosts();
    let a = sites[0].serve_up();
    a.client("vm1").write(0, &pattern(0, 7, BLOCK as usize));
    let uuid = a.status()["cache"]["uuid"].as_str().unwrap().to_owned();
    a.kill();
    let said = sites[1].serve_fails();
    assert!(said.contains(&format!("lost_caches = [\"{uuid}\"]")), "{said}");
    sites[1].configure(&format!("[danger_zone]\nlost_caches = [\"{uuid}\"]"));
    let b = sites[1].serve_up();
    let mut client = b.client("vm1");
    assert!(sites[1].log().contains("danger_zone.lost_caches"), "{}", sites[1].log());
    assert_eq!(b.status()["danger_zone"], serde_json::json!(["lost_caches"]));
    assert_eq!(client.read(0, BLOCK as u32), vec![0; BLOCK as usize], "what was lost");
    client.write(BLOCK, &pattern(BLOCK, 9, BLOCK as usize));
    drop(client);
    b.stop_drained();
    // There are two versions of the disk now.
    let said = sites[0].serve_fails();
    assert!(said.contains("two versions") && said.contains("lode volume remove --force"), "{said}");
    lode_ok(&["volume", "remove", "--force", &sites[0].text("test.toml"), "vm1"]);
    let a = sites[0].serve_up();
    let mut client = a.client("vm1");
    assert_eq!(client.read(0, BLOCK as u32), vec![0; BLOCK as usize]);
    assert_eq!(version_of(&client.read(BLOCK, BLOCK as u32)), 9);
}

/// Guests write in turn through either cache, which is stopped, drained, released or killed; each start finds what the last
/// one acknowledged, or is refused for a reason.
#[test]
fn g1_g10_caches_that_take_turns_with_a_disk_are_killed_at_any_moment() {
    let sites = two_hosts();
    let mut numbers = Numbers(0x5eed_0016);
    let mut newest = [0_u64; 32];
    let (mut version, mut refused, mut served) = (0, 0, 0);
    // Who may hold newer blocks: nobody else can serve then.
    let mut holder: Option<usize> = None;
    for _ in 0..36 {
        let at = numbers.below(2) as usize;
        if holder.is_some_and(|holder| holder != at) {
            let said = sites[at].serve_fails();
            assert!(said.contains("may hold blocks that are newer"), "{said}");
            refused += 1;
            continue;
        }
        // Killed while it starts, a few times.
        if numbers.below(3) == 0 {
            let daemon = sites[at].serve();
            std::thread::sleep(Duration::from_millis(numbers.below(60)));
            daemon.kill();
            let is_held = sidecar(&sites).contains("state = \"held\"");
            holder = is_held.then_some(at);
            continue;
        }
        let daemon = sites[at].serve_up();
        (holder, served) = (Some(at), served + 1);
        let mut client = daemon.client("vm1");
        for block in 0..newest.len() as u64 {
            let found = client.read(block * BLOCK, BLOCK as u32);
            let expected = newest[block as usize];
            match expected {
                0 => assert!(found.iter().all(|byte| *byte == 0), "block {block}"),
                _ => assert_eq!(version_of(&found), expected, "block {block} at host {at}"),
            }
        }
        for _ in 0..20 {
            let block = numbers.below(newest.len() as u64);
            version += 1;
            client.write(block * BLOCK, &pattern(block * BLOCK, version, BLOCK as usize));
            newest[block as usize] = version;
        }
        drop(client);
        match numbers.below(4) {
            0 => daemon.kill(),
            1 => daemon.stop(),
            2 => {
                daemon.stop_drained();
                holder = None;
            }
            _ => {
                drain_for_migration(&sites[at]);
                // The moment is exact: what comes to the daemon after it changes nothing.
                daemon.kill();
                holder = None;
            }
        }
        if holder.is_some() && sidecar(&sites).contains("state = \"clean\"") {
            // Background write-back had brought everything to the disk.
            holder = None;
        }
    }
    assert!(refused > 2 && served > 8, "refused {refused}, served {served}");
}

#[test]
fn g1_an_image_that_was_written_past_the_cache_after_a_stop_meets_no_clean_block() {
    let sites = [Site::new()];
    let site = &sites[0];
    let write_past = |byte: u8| {
        let mut image = File::options().write(true).open(site.path("vm1.img")).unwrap();
        image.seek(SeekFrom::Start(0)).unwrap();
        image.write_all(&[byte; BLOCK as usize]).unwrap();
    };
    let daemon = site.serve_up();
    let mut client = daemon.client("vm1");
    client.write(0, &[1; BLOCK as usize]);
    client.read(0, BLOCK as u32);
    drop(client);
    daemon.stop_drained();
    write_past(2);
    let daemon = site.serve_up();
    let mut client = daemon.client("vm1");
    assert!(site.log().contains("the image was written or replaced"), "{}", site.log());
    assert_eq!(client.read(0, BLOCK as u32), vec![2; BLOCK as usize]);
    // With newer blocks in the cache there are two versions.
    client.write(0, &[3; BLOCK as usize]);
    drop(client);
    daemon.stop();
    write_past(4);
    let said = site.serve_fails();
    assert!(said.contains("two versions"), "{said}");
    // The cache's is the one that counts: what the refusal says to remove is removed.
    let state = fs::read_to_string(site.path("state/test.state")).unwrap();
    let mut table: toml::Table = state.parse().unwrap();
    table.get_mut("seen").unwrap().as_table_mut().unwrap().remove("vm1").unwrap();
    fs::write(site.path("state/test.state"), table.to_string()).unwrap();
    fs::remove_file(site.path("vm1.img.sidecar")).unwrap();
    let daemon = site.serve_up();
    assert_eq!(daemon.client("vm1").read(0, BLOCK as u32), vec![3; BLOCK as usize]);
}

/// Another name, another owner: clean blocks are dropped to be sure, and what is newer in the cache is not lost.
#[test]
fn an_image_that_was_only_touched_keeps_what_is_newer_in_the_cache() {
    let site = Site::new();
    let daemon = site.serve_up();
    daemon.client("vm1").write(0, &[3; BLOCK as usize]);
    daemon.stop();
    fs::rename(site.path("vm1.img"), site.path("away.img")).unwrap();
    fs::rename(site.path("away.img"), site.path("vm1.img")).unwrap();
    let daemon = site.serve_up();
    assert_eq!(daemon.client("vm1").read(0, BLOCK as u32), vec![3; BLOCK as usize]);
    assert!(site.log().contains("touched, but not written"), "{}", site.log());
    daemon.stop_drained();
    assert_eq!(on_disk(&site, 0, BLOCK as usize), vec![3; BLOCK as usize]);
}

/// A cache of an older version: nothing is noted anywhere.
#[test]
fn volumes_without_a_sidecar_get_one_and_stay_warm() {
    let site = Site::new();
    let daemon = site.serve_up();
    daemon.client("vm1").write(0, &pattern(0, 5, BLOCK as usize));
    daemon.stop();
    fs::remove_file(site.path("vm1.img.sidecar")).unwrap();
    let state = fs::read_to_string(site.path("state/test.state")).unwrap();
    let mut table: toml::Table = state.parse().unwrap();
    table.remove("seen").unwrap();
    fs::write(site.path("state/test.state"), table.to_string()).unwrap();
    let daemon = site.serve_up();
    assert_eq!(version_of(&daemon.client("vm1").read(0, BLOCK as u32)), 5);
    assert!(fs::read_to_string(site.path("vm1.img.sidecar")).unwrap().contains("state = \"held\""));
    assert_eq!(vm1(&daemon.status())["sidecar"]["generation"], 1);
    daemon.stop();
    // With one that somebody took away or damaged it is another matter.
    let good = fs::read_to_string(site.path("vm1.img.sidecar")).unwrap();
    fs::write(site.path("vm1.img.sidecar"), "version = 1\n").unwrap();
    let said = site.serve_fails();
    assert!(said.contains("is damaged") && said.contains("vm1.img.sidecar"), "{said}");
    fs::remove_file(site.path("vm1.img.sidecar")).unwrap();
    let said = site.serve_fails();
    assert!(said.contains("sidecar is gone") && said.contains("two versions"), "{said}");
    fs::write(site.path("vm1.img.sidecar"), good).unwrap();
    let daemon = site.serve_up();
    assert_eq!(version_of(&daemon.client("vm1").read(0, BLOCK as u32)), 5);
}

#[test]
fn g2_while_a_disk_is_drained_for_migration_the_guest_goes_on_and_nothing_is_dirty() {
    let site = Site::new();
    let daemon = site.serve_up();
    let mut client = daemon.client("vm1");
    for block in 0..256 {
        client.write(block * BLOCK, &pattern(block * BLOCK, 1, BLOCK as usize));
    }
    let mut draining = Draining::begin(&site, &["--for-migration"]);
    draining.wait_until(&site, |vm| vm["migration"] == "write-around" && vm["gauges"]["dirty_blocks"] == 0);
    // It waits for the guest, which writes: nothing becomes dirty, and the disk has it.
    for block in 0..64 {
        client.write(block * BLOCK, &pattern(block * BLOCK, 2, BLOCK as usize));
        assert_eq!(on_disk(&site, block * BLOCK, BLOCK as usize), pattern(block * BLOCK, 2, BLOCK as usize));
        assert_eq!(version_of(&client.read(block * BLOCK, BLOCK as u32)), 2);
    }
    assert_eq!(vm1(&daemon.status())["gauges"]["dirty_blocks"], 0);
    assert!(draining.child.try_wait().unwrap().is_none(), "a client is connected");
    drop(client);
    let said = draining.end();
    assert!(said.contains("may be opened elsewhere") && said.contains("generation 1"), "{said}");
    // Nobody is served any more, until it is taken back.
    let connects = || drop(daemon.client("vm1"));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(connects));
    assert!(outcome.is_err(), "a client is served");
    assert!(lode_ok(&["vm", "drain", &site.text("test.toml"), "vm1", "--cancel"]).contains("as before"));
    let mut client = daemon.client("vm1");
    client.write(0, &pattern(0, 3, BLOCK as usize));
    assert_eq!(vm1(&daemon.status())["gauges"]["dirty_blocks"], 1, "a write-back cache again");
    assert_eq!(vm1(&daemon.status())["sidecar"]["generation"], 2);
    drop(client);
    daemon.kill();
    let daemon = site.serve_up();
    assert_eq!(version_of(&daemon.client("vm1").read(0, BLOCK as u32)), 3);
}

#[test]
fn clients_of_a_paused_guest_are_refused_and_lose_nothing() {
    let site = Site::new();
    let daemon = site.serve_up();
    let mut client = daemon.client("vm1");
    client.write(0, &pattern(0, 1, BLOCK as usize));
    let mut waiting = Draining::begin(&site, &["--for-migration"]);
    waiting.wait_until(&site, |vm| vm["migration"] == "write-around");
    let said =
        lode_ok(&["vm", "drain", &site.text("test.toml"), "vm1", "--for-migration", "--refuse-clients"]);
    assert!(said.contains("is released"), "{said}");
    assert_eq!(version_of(&on_disk(&site, 0, BLOCK as usize)), 1);
    let refused = client.ask(NbdCommand::Write, 0, BLOCK as u32, false, &pattern(0, 2, BLOCK as usize));
    assert_eq!(refused.unwrap().unwrap_err(), lode_nbd::CommandError::Eshutdown);
    let refused = client.ask(NbdCommand::Read, 0, BLOCK as u32, false, &[]);
    assert_eq!(refused.unwrap().unwrap_err(), lode_nbd::CommandError::Eshutdown);
    // There is nothing to be flushed, as a guest that ends wants to hear.
    client.flush();
    assert_eq!(version_of(&on_disk(&site, 0, BLOCK as usize)), 1);
    // A command that waited for the guest hears of it.
    assert!(waiting.end().contains("is released"));
    // The migration failed, and the guest goes on here.
    lode_ok(&["vm", "drain", &site.text("test.toml"), "vm1", "--cancel"]);
    client.write(0, &pattern(0, 2, BLOCK as usize));
    assert_eq!(version_of(&client.read(0, BLOCK as u32)), 2);
    // It can go from here for good as well.
    lode_ok(&["vm", "drain", &site.text("test.toml"), "vm1", "--for-migration", "--refuse-clients"]);
    lode_ok(&["vm", "remove", &site.text("test.toml"), "vm1", "--disconnect"]);
    assert!(fs::read_to_string(site.path("vm1.img.sidecar")).unwrap().contains("state = \"clean\""));
    drop(client);
    daemon.stop();
}

/// A command under way.
struct Draining {
    child: Child,
}

impl Draining {
    fn begin(site: &Site, more: &[&str]) -> Draining {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lode"));
        command.args(["vm", "drain", &site.text("test.toml"), "vm1"]).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Draining { child: command.spawn().unwrap() }
    }

    fn wait_until(&mut self, site: &Site, is_so: impl Fn(&Value) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = lode_ok(&["status", "--json", &site.text("test.toml")]);
            let status: Value = serde_json::from_str(&text).unwrap();
            if is_so(vm1(&status)) {
                return;
            }
            assert!(Instant::now() < deadline, "{status}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn end(mut self) -> String {
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut said = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Draining {
    fn drop(&mut self) {
        // Fails when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write_config(site: &Site, change: impl Fn(&str) -> String) {
    let text = fs::read_to_string(site.path("test.toml")).unwrap();
    fs::write(site.path("test.toml"), change(&text)).unwrap();
}

fn place(path: &Path) -> PathBuf {
    path.parent().unwrap().join("vm1.elsewhere")
}

#[test]
fn a_sidecar_may_be_elsewhere_or_nowhere_and_dangers_are_shown() {
    let site = Site::new();
    let image = site.path("vm1.img");
    let elsewhere = place(&image);
    let (from, sidecar) = (format!("{{ path = \"{}\" }}", image.display()), elsewhere.display().to_string());
    let to = format!("{{ path = \"{}\", sidecar = \"{sidecar}\" }}", image.display());
    write_config(&site, |text| text.replacen(&from, &to, 1));
    let checked: Value =
        serde_json::from_str(&lode_ok(&["serve", "--check", "--json", &site.text("test.toml")])).unwrap();
    assert_eq!(checked["vms"][0]["sidecar"], sidecar.as_str());
    assert!(checked["vms"][1]["sidecar"].as_str().unwrap().ends_with("vm2.img.sidecar"));
    assert!(checked["warnings"][0].as_str().unwrap().contains("one SSD alone"), "{checked}");
    let daemon = site.serve_up();
    drop(daemon.client("vm1"));
    assert!(elsewhere.exists() && !site.path("vm1.img.sidecar").exists());
    daemon.stop();
    assert!(site.log().contains("on one SSD alone"), "{}", site.log());

    let none = to.replace(&sidecar, "none");
    write_config(&site, |text| text.replacen(&to, &none, 1) + "[danger_zone]\nsingle_copy_dirty = true\n");
    fs::remove_file(site.path("log")).unwrap();
    let text = lode_ok(&["serve", "--check", &site.text("test.toml")]);
    assert!(
        text.contains("without a sidecar") && text.contains("In [danger_zone]: single_copy_dirty"),
        "{text}"
    );
    let daemon = site.serve_up();
    assert_eq!(vm1(&daemon.status())["sidecar"], Value::Null);
    daemon.stop();
    assert!(!site.log().contains("on one SSD alone"), "{}", site.log());
    // Where it cannot be written, that is no start.
    let to = none.replace("none", &site.text("no-folder/vm1.sidecar"));
    write_config(&site, |text| text.replacen(&none, &to, 1));
    let said = site.serve_fails();
    assert!(said.contains("Cannot write the sidecar") && said.contains("backing.sidecar"), "{said}");
    assert!(!lode(&["serve", "--check", &site.text("none.toml")]).status.success());
}

/// FLUSH is answered although the disk takes nothing: that is the danger, and it is named.
#[test]
fn flushes_are_acknowledged_early_only_where_that_is_said_to_be_known() {
    let site = Site::new();
    write_config(&site, |text| {
        text.replacen(
            "scheme = \"lru\"",
            "scheme = \"lru\"\ndanger_zone = { acknowledge_before_durable = true }",
            1,
        )
    });
    let daemon = site.serve_up();
    let status = daemon.status();
    assert_eq!(status["danger_zone"], serde_json::json!(["acknowledge_before_durable of VM vm2"]));
    assert_eq!(
        (&vm1(&status)["acknowledge_before_durable"], &status["vms"][1]["acknowledge_before_durable"]),
        (&Value::Bool(false), &Value::Bool(true))
    );
    assert!(site.log().contains("acknowledged before anything is durable"), "{}", site.log());
    let flushes = |daemon: &crate::common::Daemon<'_>, vm: &str| {
        let mut client: Client = daemon.client(vm);
        client.write(0, &[1; BLOCK as usize]);
        client.flush();
        client.ask(NbdCommand::Write, 0, BLOCK as u32, true, &[2; BLOCK as usize]).unwrap().unwrap();
        assert_eq!(client.read(0, BLOCK as u32), vec![2; BLOCK as usize]);
        let status = daemon.status();
        let vms = status["vms"].as_array().unwrap();
        let of_vm = vms.iter().find(|one| one["name"] == vm).unwrap();
        of_vm["latency"]["flush"]["count"].as_u64().unwrap()
    };
    assert_eq!(flushes(&daemon, "vm1"), 1, "the engine has flushed");
    assert_eq!(flushes(&daemon, "vm2"), 0, "it was not asked to");
    // A kill loses nothing all the same, and a stop saves everything.
    daemon.kill();
    let daemon = site.serve_up();
    assert_eq!(daemon.client("vm2").read(0, BLOCK as u32), vec![2; BLOCK as usize]);
    daemon.stop_drained();
    let mut bytes = vec![0; BLOCK as usize];
    File::open(site.path("vm2.img")).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!((bytes, MIB), (vec![2; BLOCK as usize], 1 << 20));
}
