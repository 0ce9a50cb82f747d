//! VMs that are added, removed and renamed while others are served, and the daemon is killed at any moment of it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::PATIENCE;
use crate::common::{Daemon, MIB, Numbers, Site, lode_fails, lode_ok, pattern};

const BLOCK: u64 = 4096;

fn vm(site: &Site, words: &[&str]) -> String {
    lode_ok(&[&["vm", words[0], &site.text("test.toml")], &words[1..]].concat())
}

fn vm_fails(site: &Site, words: &[&str]) -> String {
    lode_fails(&[&["vm", words[0], &site.text("test.toml")], &words[1..]].concat())
}

/// The keys of a VM that is to come, whose disk is there.
fn newcomer(site: &Site, name: &str) -> Vec<String> {
    let disk = site.path(&format!("{name}.img"));
    if !disk.exists() {
        File::create(&disk).unwrap().set_len(32 * MIB).unwrap();
    }
    let (disk, socket) = (disk.display(), site.text(&format!("{name}.sock")));
    vec![name.to_owned(), format!("backing={disk}"), format!("listen=unix:{socket}"), "scheme=lru".to_owned()]
}

fn add(site: &Site, name: &str, more: &[&str]) -> String {
    let words = newcomer(site, name);
    let words: Vec<&str> = ["add"].into_iter().chain(words.iter().map(String::as_str)).collect();
    vm(site, &[&words, more].concat())
}

fn add_fails(site: &Site, name: &str, more: &[&str]) -> String {
    let words = newcomer(site, name);
    let words: Vec<&str> = ["add"].into_iter().chain(words.iter().map(String::as_str)).collect();
    vm_fails(site, &[&words, more].concat())
}

fn names(daemon: &Daemon<'_>) -> Vec<String> {
    let status = daemon.status();
    status["vms"].as_array().unwrap().iter().map(|vm| vm["name"].as_str().unwrap().to_owned()).collect()
}

fn text(site: &Site) -> String {
    std::fs::read_to_string(site.path("test.toml")).unwrap()
}

#[test]
fn vms_come_and_go_while_others_write() {
    let site = Site::new();
    let daemon = site.serve_up();
    let mut client = daemon.client("vm1");
    for round in 1..=3_u64 {
        let said = add(&site, "vm3", &["ssd=8MiB"]);
        assert!(said.contains("VM vm3 is added") && said.contains("it is gone with a restart"), "{said}");
        assert_eq!(names(&daemon), ["vm1", "vm2", "vm3"]);
        let mut third = daemon.client("vm3");
        for at in 0..64 {
            third.write(at * BLOCK, &pattern(at, round, BLOCK as usize));
            client.write(at * BLOCK, &pattern(at, round << 8, BLOCK as usize));
        }
        assert_eq!(daemon.status()["vms"][2]["quota"]["ssd_blocks"], 2048);
        let said = vm_fails(&site, &["remove", "vm3"]);
        assert!(said.contains("1 client is connected") && said.contains("--disconnect"), "{said}");
        drop(third);
        wait_for_no_client(&daemon, 2);
        let said = vm_fails(&site, &["remove", "vm3"]);
        assert!(
            said.contains("64 of its blocks are newer than the backing disk")
                && said.contains(&format!("`lode drain {} --vm vm3`", site.text("test.toml"))),
            "{said}"
        );
        // It is served on.
        assert_eq!(daemon.client("vm3").read(5 * BLOCK, BLOCK as u32), pattern(5, round, BLOCK as usize));
        wait_for_no_client(&daemon, 2);
        lode_ok(&["drain", &site.text("test.toml"), "--vm", "vm3"]);
        let said = vm(&site, &["remove", "vm3"]);
        assert!(said.contains("VM vm3 is removed") && !said.contains("Warning"), "{said}");
        assert!(!said.contains("comes back"), "it was never in the file: {said}");
        assert_eq!(names(&daemon), ["vm1", "vm2"]);
        assert!(!site.path("vm3.sock").exists(), "nobody listens there any more");
        let (disk, mut bytes) = (File::open(site.path("vm3.img")).unwrap(), vec![0; BLOCK as usize]);
        disk.read_exact_at(&mut bytes, 9 * BLOCK).unwrap();
        assert_eq!(bytes, pattern(9, round, BLOCK as usize));
    }
    for at in 0..64 {
        assert_eq!(client.read(at * BLOCK, BLOCK as u32), pattern(at, 3 << 8, BLOCK as usize));
    }
    let events = lode_ok(&["events", &site.text("test.toml")]);
    assert!(
        events.contains("it is served from now on") && events.contains("it is served no more"),
        "{events}"
    );
    drop(client);
    daemon.stop();
    let volumes = lode_ok(&["volume", "list", "--json", &site.text("test.toml")]);
    assert!(!volumes.contains("vm3"), "its space is free: {volumes}");
    site.serve_up().stop();
}

/// A VM with ordered write-back comes with a redo log of its own, which its image is a state with, and which goes with it.
#[test]
fn g11_a_vm_with_ordered_write_back_comes_and_goes() {
    let site = Site::new();
    let daemon = site.serve_up();
    add(&site, "vm3", &["ssd=8MiB", "writeback=ordered"]);
    let mut third = daemon.client("vm3");
    (0..64).for_each(|at| third.write(at * BLOCK, &pattern(at, 1, BLOCK as usize)));
    third.flush();
    let ordered = || daemon.status()["vms"][2]["ordered"].clone();
    let deadline = Instant::now() + PATIENCE;
    while ordered()["group"] == 0 || ordered()["behind_bytes"] != 0 {
        assert!(Instant::now() < deadline, "{}", ordered());
        std::thread::sleep(Duration::from_millis(20));
    }
    third.write(0, &pattern(0, 2, BLOCK as usize));
    daemon.kill();
    // The file does not know it: the image with its log is all there is.
    let said = lode_ok(&["recover", &site.text("vm3.img")]);
    assert!(said.contains("is the state of group"), "{said}");
    let (disk, mut bytes) = (File::open(site.path("vm3.img")).unwrap(), vec![0; BLOCK as usize]);
    for at in 1..64 {
        disk.read_exact_at(&mut bytes, at * BLOCK).unwrap();
        assert!(bytes == pattern(at, 1, BLOCK as usize), "block {at}");
    }
    disk.read_exact_at(&mut bytes, 0).unwrap();
    assert!([1, 2].iter().any(|&name| bytes == pattern(0, name, BLOCK as usize)));
    let daemon = site.serve_up();
    assert_eq!(names(&daemon), ["vm1", "vm2"]);
    add(&site, "vm4", &["ssd=8MiB", "writeback=ordered"]);
    let mut fourth = daemon.client("vm4");
    fourth.write(0, &pattern(0, 3, BLOCK as usize));
    drop(fourth);
    wait_for_no_client(&daemon, 2);
    lode_ok(&["drain", &site.text("test.toml"), "--vm", "vm4"]);
    assert!(site.path("vm4.img.redo").exists());
    let said = vm(&site, &["remove", "vm4"]);
    assert!(!said.contains("Warning") && !site.path("vm4.img.redo").exists(), "{said}");
    let (disk, mut bytes) = (File::open(site.path("vm4.img")).unwrap(), vec![0; BLOCK as usize]);
    disk.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == pattern(0, 3, BLOCK as usize));
    daemon.stop();
}

fn wait_for_no_client(daemon: &Daemon<'_>, vm: usize) {
    let deadline = Instant::now() + PATIENCE;
    while daemon.status()["vms"][vm]["connections"] != 0 {
        assert!(Instant::now() < deadline, "the client does not go");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_vm_with_clients_goes_when_it_has_to_and_loses_nothing() {
    let site = Site::new();
    let daemon = site.serve_up();
    let mut client = daemon.client("vm2");
    let bytes = pattern(7, 3, MIB as usize);
    client.write(3 * MIB, &bytes);
    let said = vm(&site, &["remove", "vm2", "--disconnect", "--save"]);
    assert!(said.contains("VM vm2 is removed; ") && said.contains("says so"), "{said}");
    assert_eq!(names(&daemon), ["vm1"]);
    assert!(!text(&site).contains("vm2"), "{}", text(&site));
    let (disk, mut found) = (File::open(site.path("vm2.img")).unwrap(), vec![0; bytes.len()]);
    disk.read_exact_at(&mut found, 3 * MIB).unwrap();
    assert!(found == bytes, "the backing disk has everything");
    assert!(vm_fails(&site, &["remove", "vm1"]).contains("last VM"));
    // On the socket that they shared there is the other one alone.
    daemon.client("vm1").write(0, &bytes);
    // Its place is for somebody else.
    add(&site, "vm4", &["ssd=16MiB", "--save"]);
    daemon.client("vm4").write(0, &bytes);
    daemon.kill();
    let daemon = site.serve_up();
    assert_eq!(names(&daemon), ["vm1", "vm4"]);
    assert!(
        daemon.client("vm4").read(0, bytes.len() as u32) == bytes,
        "records outlive the daemon for it, too"
    );
    assert!(daemon.client("vm1").read(0, bytes.len() as u32) == bytes);
    daemon.stop();
}

/// Writes blocks anywhere until it is cut off; returns the version of each block that was acknowledged last.
fn write_until_cut_off(client: &mut crate::client::Client, blocks: u64, writer: u64) -> Vec<u64> {
    let (mut random, mut acknowledged) = (Numbers(writer + 3), vec![0; blocks as usize]);
    for version in 1.. {
        let at = random.below(blocks);
        let offset = (writer * blocks + at) * BLOCK;
        let bytes = pattern(offset, version, BLOCK as usize);
        match client.ask(lode_nbd::Command::Write, offset, BLOCK as u32, false, &bytes) {
            Some(Ok(_)) => acknowledged[at as usize] = version,
            _ => break,
        }
    }
    acknowledged
}

/// Whatever stands on a disk is no older than what was acknowledged.
fn check_disk(site: &Site, disk: &str, writer: u64, acknowledged: &[u64]) {
    let disk = File::open(site.path(disk)).unwrap();
    for (at, version) in acknowledged.iter().enumerate().filter(|(_, version)| **version > 0) {
        let offset = (writer * acknowledged.len() as u64 + at as u64) * BLOCK;
        let mut found = vec![0; BLOCK as usize];
        disk.read_exact_at(&mut found, offset).unwrap();
        // One more may have been on its way.
        assert!(crate::common::version_of(&found) >= *version, "block {at} of writer {writer}");
    }
}

#[test]
fn a_busy_vm_goes_with_everything_that_was_acknowledged() {
    const WRITERS: u64 = 3;
    let site = Site::in_memory();
    let daemon = site.serve_up();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let mut client = daemon.client("vm2");
                scope.spawn(move || write_until_cut_off(&mut client, 1000, writer))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        let began = Instant::now();
        let removing = scope.spawn(|| vm(&site, &["remove", "vm2", "--disconnect"]));
        // Who cancels drains does not mean that of a VM that goes.
        while !removing.is_finished() {
            lode_ok(&["drain", &site.text("test.toml"), "--cancel"]);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(removing.join().unwrap().contains("VM vm2 is removed"));
        assert!(began.elapsed() < PATIENCE);
        for (writer, acknowledged) in writers.into_iter().enumerate() {
            check_disk(&site, "vm2.img", writer as u64, &acknowledged.join().unwrap());
        }
    });
    assert_eq!(names(&daemon), ["vm1"]);
    daemon.stop();
}

#[test]
fn a_vm_on_a_slow_disk_goes_as_long_as_it_makes_progress() {
    const BLOCKS: u64 = 1_500;
    let site = Site::in_memory();
    let text = text(&site).replace("vm2.img\" }", "vm2.img\", delay = \"hdd\" }\nwriteback = \"scheme\"");
    std::fs::write(site.path("test.toml"), text).unwrap();
    let daemon = site.serve_up();
    let mut client = daemon.client("vm2");
    // Apart from each other, each takes a seek.
    let offset = |at: u64| (at * 7919 % 4096) * 4 * BLOCK;
    for at in 0..BLOCKS {
        client.write(offset(at), &pattern(offset(at), 5, BLOCK as usize));
    }
    let began = Instant::now();
    let said = vm(&site, &["remove", "vm2", "--disconnect"]);
    println!("removed after {:?}", began.elapsed());
    assert!(said.contains("VM vm2 is removed"), "{said}");
    let (disk, mut found) = (File::open(site.path("vm2.img")).unwrap(), vec![0; BLOCK as usize]);
    for at in 0..BLOCKS {
        disk.read_exact_at(&mut found, offset(at)).unwrap();
        assert_eq!(found, pattern(offset(at), 5, BLOCK as usize), "block {at}");
    }
    drop(client);
    daemon.stop();
}

#[test]
fn a_rename_that_is_left_half_way_is_followed_and_told() {
    let site = Site::new();
    let daemon = site.serve_up();
    daemon.client("vm2").write(0, &pattern(1, 1, BLOCK as usize));
    wait_for_no_client(&daemon, 1);
    // What is noted of failures cannot be read: that comes last, when all else has the new name.
    let note = site.path("state/test.vm2.failed");
    std::fs::create_dir(&note).unwrap();
    let said = vm(&site, &["rename", "vm2", "db"]);
    assert!(
        said.contains("VM db is renamed") && said.contains("the next start has the rest to do"),
        "{said}"
    );
    assert_eq!(names(&daemon), ["vm1", "db"]);
    // To what is served the file says nothing new: nobody goes and nobody comes.
    assert!(lode_ok(&["reload", &site.text("test.toml")]).contains("nothing has changed"));
    assert!(vm_fails(&site, &["rename", "db", "web"]).contains("restart the service first"));
    std::fs::remove_dir(&note).unwrap();
    daemon.kill();
    let daemon = site.serve_up();
    assert_eq!(names(&daemon), ["vm1", "db"]);
    let mut client = crate::client::Client::connect(&site.path("vm2.sock"), "db", true);
    assert_eq!(client.read(0, BLOCK as u32), pattern(1, 1, BLOCK as usize));
    vm(&site, &["rename", "db", "web"]);
    drop(client);
    daemon.stop();
}

#[test]
fn a_reload_that_cannot_let_a_vm_go_changes_nothing() {
    let site = Site::new();
    let daemon = site.serve_up();
    for name in ["vm3", "vm4"] {
        add(&site, name, &["ssd=4MiB", "--save"]);
    }
    daemon.client("vm4").write(0, &pattern(0, 1, MIB as usize));
    let mut client = daemon.client("vm2");
    client.write(0, &pattern(0, 1, BLOCK as usize));
    wait_for_no_client(&daemon, 3);
    let all = text(&site);
    let first = all[..all.find("[[vm]]\nname = \"vm2\"").unwrap()]
        .replace("dram = \"4MiB\"", "dram = \"4MiB\"\nweight = 2");
    std::fs::write(site.path("test.toml"), &first).unwrap();
    let said = lode_fails(&["reload", &site.text("test.toml")]);
    for words in [
        "Nothing was changed",
        "Cannot remove VM vm2: 1 client is connected",
        "1 of its blocks is newer",
        "Cannot remove VM vm4: 256 of its blocks are newer",
        &format!("`lode drain {} --vm vm4`", site.text("test.toml")),
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }
    assert_eq!(names(&daemon), ["vm1", "vm2", "vm3", "vm4"]);
    assert_eq!(daemon.status()["vms"][0]["sharing"]["weight"], 1.0);
    drop(client);
    wait_for_no_client(&daemon, 1);
    lode_ok(&["drain", &site.text("test.toml")]);
    lode_ok(&["reload", &site.text("test.toml")]);
    assert_eq!(names(&daemon), ["vm1"]);
    daemon.stop();
}

#[test]
fn a_vm_gets_another_name_and_keeps_its_cache() {
    let site = Site::new();
    let daemon = site.serve_up();
    let mut client = daemon.client("vm2");
    let bytes = pattern(1, 2, MIB as usize);
    client.write(0, &bytes);
    let said = vm(&site, &["rename", "vm2", "db"]);
    assert!(said.contains("VM db is renamed"), "{said}");
    assert_eq!(names(&daemon), ["vm1", "db"]);
    assert!(text(&site).contains("name = \"db\"") && !text(&site).contains("name = \"vm2\""));
    assert!(client.read(0, bytes.len() as u32) == bytes, "who is connected stays");
    drop(client);
    assert!(vm_fails(&site, &["rename", "db", "db"]).contains("has that name already"));
    for name in ["vm1", "a b", ""] {
        assert!(!vm_fails(&site, &["rename", "db", name]).is_empty(), "{name}");
    }
    assert!(vm_fails(&site, &["rename", "vm2", "x"]).contains("There is no VM 'vm2'"));
    let client = |_: &Daemon<'_>| crate::client::Client::connect(&site.path("vm2.sock"), "db", true);
    assert!(client(&daemon).read(0, bytes.len() as u32) == bytes);
    daemon.kill();
    let daemon = site.serve_up();
    assert!(client(&daemon).read(0, bytes.len() as u32) == bytes);
    assert_eq!(daemon.status()["vms"][1]["gauges"]["dirty_blocks"], 256);
    daemon.stop();
}

/// Begins a command, and kills the daemon after so long.
#[test]
fn a_vm_that_the_file_does_not_have_gets_another_name_until_a_restart() {
    let site = Site::new();
    let (before, daemon) = (text(&site), site.serve_up());
    add(&site, "vm3", &["ssd=8MiB"]);
    daemon.client("vm3").write(0, &[7; 4096]);
    let said = vm(&site, &["rename", "vm3", "db"]);
    assert!(said.contains("VM db is renamed") && said.contains("added without --save"), "{said}");
    let said = vm_fails(&site, &["set", "db", "weight=2", "--save"]);
    assert!(said.contains("[[vm]] section there first, or leave --save out"), "{said}");
    assert_eq!((names(&daemon).pop().as_deref(), text(&site)), (Some("db"), before));
    let mut client = crate::client::Client::connect(&site.path("vm3.sock"), "db", true);
    assert!(client.read(0, 4096) == [7; 4096]);
    daemon.stop();
}

fn kill_during(daemon: Daemon<'_>, words: &[&str], after: Duration) {
    let child = Command::new(env!("CARGO_BIN_EXE_lode"))
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(after);
    daemon.kill();
    let said = child.wait_with_output().unwrap();
    let said = [said.stdout, said.stderr].concat();
    println!("{words:?}, killed after {after:?}: {}", String::from_utf8_lossy(&said).trim_end());
}

#[test]
fn g2_g4_a_kill_while_a_vm_gets_another_name_loses_nothing() {
    let site = Site::new();
    let (mut random, mut before, mut renamed) = (Numbers(11), "vm2".to_owned(), 0);
    let config = site.text("test.toml");
    for round in 1..=25_u64 {
        let daemon = site.serve_up();
        let mut client = crate::client::Client::connect(&site.path("vm2.sock"), &before, true);
        client.write(0, &pattern(0, round, MIB as usize));
        drop(client);
        let to = format!("name{round}");
        let after = Duration::from_micros(random.below(30_000));
        kill_during(daemon, &["vm", "rename", &config, &before, &to], after);
        // The configuration says which it is, and a start goes by that.
        let daemon = site.serve_up();
        let now = if text(&site).contains(&format!("\"{to}\"")) { to } else { before.clone() };
        assert_eq!(names(&daemon), ["vm1", &now]);
        let mut client = crate::client::Client::connect(&site.path("vm2.sock"), &now, true);
        assert!(client.read(0, MIB as u32) == pattern(0, round, MIB as usize), "round {round}");
        renamed += u32::from(now != before);
        before = now;
        drop(client);
        daemon.kill();
    }
    assert!(renamed > 0, "every kill came before the name");
}

#[test]
fn g2_g4_a_kill_while_vms_come_and_go_loses_nothing() {
    let site = Site::new();
    let mut random = Numbers(5);
    let (config, words) = (site.text("test.toml"), newcomer(&site, "vm3"));
    let mut came = 0;
    for round in 1..=20_u64 {
        let daemon = site.serve_up();
        daemon.client("vm1").write(0, &pattern(0, round, MIB as usize));
        let here = names(&daemon).len() == 3;
        let after = Duration::from_micros(random.below(60_000));
        if here {
            daemon.client("vm3").write(0, &pattern(3, round, MIB as usize));
            let remove = ["vm", "remove", &config, "vm3", "--disconnect", "--save"];
            kill_during(daemon, &remove, after);
        } else {
            came += 1;
            let add = ["vm", "add", &config].into_iter().chain(words.iter().map(String::as_str));
            kill_during(daemon, &add.chain(["ssd=8MiB", "--save"]).collect::<Vec<_>>(), after);
        }
        let daemon = site.serve_up();
        assert!(daemon.client("vm1").read(0, MIB as u32) == pattern(0, round, MIB as usize), "round {round}");
        if names(&daemon).len() == 3 && here {
            assert!(
                daemon.client("vm3").read(0, MIB as u32) == pattern(3, round, MIB as usize),
                "round {round}"
            );
        } else if here {
            let (disk, mut found) = (File::open(site.path("vm3.img")).unwrap(), vec![0; MIB as usize]);
            disk.read_exact_at(&mut found, 0).unwrap();
            assert!(
                found == pattern(3, round, MIB as usize),
                "it went with everything on its disk, round {round}"
            );
        }
        daemon.kill();
    }
    assert!(came > 1, "it never went");
}

#[test]
fn a_reload_lets_vms_come_and_go() {
    let site = Site::new();
    let daemon = site.serve_up();
    let bytes = pattern(2, 2, MIB as usize);
    daemon.client("vm1").write(0, &bytes);
    wait_for_no_client(&daemon, 0);
    // The second one goes, another one comes before the first, and the first changes.
    newcomer(&site, "vm3");
    let folder = site.folder.path().display();
    let three = format!(
        "[[vm]]\nname = \"vm3\"\nbacking = {{ path = \"{folder}/vm3.img\" }}\nssd = \"8MiB\"\nscheme = \"arc\"\n\
         listen = [\"unix:{folder}/vm3.sock\"]\n\n[[vm]]\nname = \"vm1\""
    );
    let old = text(&site);
    let vm2 = old.find("[[vm]]\nname = \"vm2\"").unwrap();
    let new = old[..vm2]
        .replace("[[vm]]\nname = \"vm1\"", &three)
        .replace("dram = \"4MiB\"", "weight = 3\ndram = \"4MiB\"");
    std::fs::write(site.path("test.toml"), &new).unwrap();
    let said = lode_ok(&["reload", &site.text("test.toml")]);
    assert!(said.contains("VM vm2 removed, weight of VM vm1, VM vm3 added"), "{said}");
    assert_eq!(names(&daemon), ["vm1", "vm3"]);
    assert_eq!(daemon.status()["vms"][0]["sharing"]["weight"], 3.0);
    daemon.client("vm3").write(0, &bytes);
    assert!(daemon.client("vm1").read(0, bytes.len() as u32) == bytes);
    // What cannot be leaves everything as it is.
    std::fs::write(site.path("test.toml"), new.replace("shards = 2", "shards = 1") + &old[vm2..]).unwrap();
    assert!(
        lode_fails(&["reload", &site.text("test.toml")]).contains("shards can only change with a restart")
    );
    assert_eq!(names(&daemon), ["vm1", "vm3"]);
    std::fs::write(site.path("test.toml"), &new).unwrap();
    assert!(lode_ok(&["reload", &site.text("test.toml")]).contains("nothing has changed"));
    daemon.kill();
    let daemon = site.serve_up();
    assert!(daemon.client("vm3").read(0, bytes.len() as u32) == bytes);
    daemon.stop();
}

#[test]
fn what_cannot_come_is_refused_and_nothing_is_left_of_it() {
    let site = Site::new();
    site.configure("[host]\nssd = \"64MiB\"\n");
    let daemon = site.serve_up();
    let before = text(&site);
    let backing = format!("backing={}", site.text("vm1.img"));
    for (name, more, said) in [
        ("vm3", &["ssd=32MiB"][..], "16 MiB too much"),
        ("vm3", &["sdd=8MiB"], "Key 'sdd' is unknown; did you mean 'ssd'?"),
        ("vm3", &["ssd=8MiB", "wieght=2"], "did you mean 'weight'?"),
        ("vm3", &["ssd=8MiB", "limits.slow_request_ms=-1"], "-1 is not a number from 0"),
        ("vm3", &["ssd=8MiB", "ssd=4MiB"], "given twice"),
        ("vm3", &["ssd=8MiB", "settings.write_policy=perhaps"], "write_policy"),
        ("vm2", &["ssd=8MiB"], "Two VMs are named 'vm2'"),
        ("vm3", &["ssd=8MiB", "listen=unix:/none/such/folder/a"], "there is no folder"),
    ] {
        let found = add_fails(&site, name, &[more, &["--save"]].concat());
        assert!(found.contains(said), "{more:?}: {found}");
    }
    let socket = format!("listen=unix:{}", site.text("vm3.sock"));
    for (backing, said) in
        [(backing.as_str(), "give each its own device"), ("backing=/none/such", "cannot find")]
    {
        let found = vm_fails(&site, &["add", "vm3", backing, &socket, "scheme=lru", "ssd=8MiB"]);
        assert!(found.contains(said), "{found}");
    }
    assert_eq!((names(&daemon).len(), text(&site)), (2, before));
    assert!(!site.path("vm3.sock").exists());
    // Then it can.
    add(&site, "vm3", &["ssd=16MiB"]);
    assert!(add_fails(&site, "vm4", &["ssd=64KiB"]).contains("64 KiB too much"));
    daemon.stop();
}

#[test]
fn changes_are_made_one_after_the_other_and_each_is_answered() {
    let site = Site::new();
    let daemon = site.serve_up();
    std::thread::scope(|scope| {
        let adds: Vec<_> = (0..6)
            .map(|at| {
                let site = &site;
                scope.spawn(move || add(site, &format!("new{at}"), &["ssd=4MiB"]))
            })
            .collect();
        for added in adds {
            assert!(added.join().unwrap().contains("is added"));
        }
    });
    let mut here = names(&daemon);
    here.sort();
    assert_eq!(here, ["new0", "new1", "new2", "new3", "new4", "new5", "vm1", "vm2"]);
    for at in (0..6).rev() {
        daemon.client(&format!("new{at}")).write(0, &pattern(at, 1, BLOCK as usize));
    }
    lode_ok(&["drain", &site.text("test.toml")]);
    std::thread::scope(|scope| {
        for at in [1, 3, 0, 5] {
            let site = &site;
            scope.spawn(move || vm(site, &["remove", &format!("new{at}"), "--disconnect"]));
        }
    });
    assert_eq!(names(&daemon).len(), 4);
    assert_eq!(daemon.client("new4").read(0, BLOCK as u32), pattern(4, 1, BLOCK as usize));
    assert_eq!(daemon.client("new2").read(0, BLOCK as u32), pattern(2, 1, BLOCK as usize));
    daemon.stop();
}

#[test]
fn a_vm_that_comes_gets_its_part_of_what_others_have() {
    let site = Site::new();
    site.configure(
        "[host]\nmode = \"auto\"\ndram = \"4MiB\"\nssd = \"48MiB\"\ninterval = \"2s\"\nrate = \"64MiB\"\n",
    );
    let old = text(&site)
        .replace("dram = \"4MiB\"\nssd = \"32MiB\"\n", "")
        .replace("ssd = \"16MiB\"\nscheme = \"lru\"\n", "");
    std::fs::write(site.path("test.toml"), old).unwrap();
    let daemon = site.serve_up();
    add(&site, "vm3", &["min.ssd=8MiB"]);
    let deadline = Instant::now() + PATIENCE;
    let mut client = daemon.client("vm3");
    loop {
        (0..256).for_each(|at| client.write(at * BLOCK, &pattern(at, 1, BLOCK as usize)));
        let vm = daemon.status()["vms"][2].clone();
        if vm["quota"]["ssd_blocks"].as_u64() >= Some(2048) {
            break;
        }
        assert!(Instant::now() < deadline, "it does not get what it is guaranteed: {vm}");
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(client);
    vm(&site, &["remove", "vm3", "--disconnect"]);
    assert_eq!(names(&daemon), ["vm1", "vm2"]);
    daemon.stop();
}
