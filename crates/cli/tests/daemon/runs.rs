//! How one run of a daemon follows another: what is left behind for the next one, where, and what `lode status` says of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{Daemon, MIB, Numbers, Site, SmallFolder, lode, lode_fails};
use crate::fleet::{Fleet, Kind, compare, write_some};
use crate::known::KnownDisk;

const VMS: [&str; 2] = ["vm1", "vm2"];

/// Writes to all disks, without a flush, and has it acknowledged.
fn write<'s>(disks: &mut [KnownDisk], daemon: Daemon<'s>, seed: u64) -> Daemon<'s> {
    write_some(disks, daemon, &mut Numbers(seed), 200, false)
}

fn known_disks() -> [KnownDisk; 2] {
    VMS.map(|vm| KnownDisk::new(vm, 1 << 14))
}

fn taken_over(status: &Value) -> u64 {
    let vms = status["vms"].as_array().unwrap();
    vms.iter().map(|vm| vm["shm"]["records_taken_over"].as_u64().expect("a number")).sum()
}

#[test]
fn status_says_how_the_last_life_ended_and_what_was_taken_over() {
    let site = Site::new();
    let mut disks = known_disks();
    let daemon = site.serve_up();
    let status = daemon.status();
    assert_eq!((&status["last_end"], taken_over(&status)), (&"none".into(), 0), "{status}");
    for vm in status["vms"].as_array().unwrap() {
        assert!(vm["shm"]["bytes"].as_u64() > Some(0), "{vm}");
    }
    write(&mut disks, daemon, 21).kill();
    let daemon = site.serve_up();
    let status = daemon.status();
    assert_eq!(status["last_end"], "killed", "{status}");
    assert!(taken_over(&status) > 0, "{status}");
    assert_eq!(compare(&mut disks, &daemon), []);
    // A run that was killed while nothing was to be taken over is no orderly end.
    daemon.kill();
    let daemon = site.serve_up();
    assert_eq!(daemon.status()["last_end"], "killed");
    write(&mut disks, daemon, 22).stop();
    let daemon = site.serve_up();
    let status = daemon.status();
    assert_eq!((&status["last_end"], taken_over(&status)), (&"orderly".into(), 0), "{status}");
    assert_eq!(compare(&mut disks, &daemon), []);
    daemon.stop();
}

#[test]
fn a_check_says_how_much_memory_records_take() {
    let site = Site::new();
    let output = lode(&["serve", "--check", &site.text("test.toml")]);
    assert!(output.status.success());
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let says_it = |line: &str| line.contains("shm") && line.contains(|letter: char| letter.is_ascii_digit());
    assert!(said.lines().any(says_it), "{said}");
}

/// What there is of records in a folder: the folder of one cache, and the files in it.
fn records_in(folder: &Path) -> Option<(PathBuf, Vec<PathBuf>)> {
    let list = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_it = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("lodestore-");
    let found = list(folder).find(is_it)?;
    let files = list(&found).collect();
    Some((found, files))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn records_are_where_they_were_wanted_and_nobody_elses_business() {
    let site = Site::new();
    let folder = site.memory.path().join("elsewhere");
    fs::create_dir(&folder).unwrap();
    site.configure_top(&format!("shm_dir = \"{}\"", folder.display()));
    let mut disks = known_disks();
    let daemon = write(&mut disks, site.serve_up(), 31);
    let uuid = daemon.status()["cache"]["uuid"].as_str().unwrap().to_owned();
    let (of_cache, files) = records_in(&folder).expect("a folder of records");
    assert_eq!(of_cache.file_name().unwrap().to_str().unwrap(), format!("lodestore-{uuid}"));
    assert_eq!(mode(&of_cache), 0o700);
    assert_eq!(files.len(), VMS.len(), "{files:?}");
    for file in &files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let tag = name.strip_suffix(".records").unwrap_or_else(|| panic!("{name}"));
        assert!(tag.len() == 16 && tag.bytes().all(|letter| letter.is_ascii_hexdigit()), "{name}");
        assert_eq!(mode(file), 0o600, "{name}");
    }
    assert_eq!(site.records(), None, "they are nowhere else");
    daemon.kill();
    assert_eq!(records_in(&folder), Some((of_cache, files)));
    // It takes them over wherever they are, and leaves nothing when it stops.
    let daemon = site.serve_up();
    assert_eq!(compare(&mut disks, &daemon), []);
    daemon.stop();
    assert_eq!(records_in(&folder), None);
}

/// Starts with another folder than the one in which the last run left its records, some of them cut short.
#[test]
fn a_folder_that_changes_loses_nothing() {
    let site = Site::new();
    let config = fs::read_to_string(site.path("test.toml")).unwrap();
    let mut disks = known_disks();
    let mut numbers = Numbers(81);
    for round in 0..6 {
        let folder = site.memory.path().join(format!("shm{}", round % 3));
        fs::create_dir_all(&folder).unwrap();
        let shm_dir = if round == 4 { "none".to_owned() } else { folder.display().to_string() };
        fs::write(site.path("test.toml"), format!("shm_dir = \"{shm_dir}\"\n{config}")).unwrap();
        for _ in 0..3 {
            let daemon = site.serve();
            std::thread::sleep(std::time::Duration::from_millis(numbers.below(40)));
            daemon.kill();
        }
        let daemon = site.serve_up();
        assert_eq!(compare(&mut disks, &daemon), [], "round {round}: older than what was acknowledged");
        write(&mut disks, daemon, 90 + round).kill();
    }
    let daemon = site.serve_up();
    assert_eq!(compare(&mut disks, &daemon), []);
    daemon.stop();
    for number in 0..3 {
        assert_eq!(records_in(&site.memory.path().join(format!("shm{number}"))), None, "folder {number}");
    }
}

fn is_in_memory(folder: &Path) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    rustix::fs::statfs(folder).unwrap().f_type as u64 == TMPFS
}

/// Where the state folder is no memory, records are where Linux has its own.
#[test]
fn records_are_in_memory_by_default() {
    let site = Site::new();
    let daemon = site.serve_up();
    // It listens before it has recovered anything.
    daemon.status();
    assert!(site.records().is_some(), "the state folder is in memory");
    daemon.stop();
    assert_eq!(site.records(), None);
    if is_in_memory(site.folder.path()) {
        return lode_testdata::skip("temporary files are in memory");
    }
    fs::remove_file(site.path("state")).unwrap();
    fs::create_dir(site.path("state")).unwrap();
    // Without its state, for which the SSD is a new one.
    let daemon = site.serve_up();
    let uuid = daemon.status()["cache"]["uuid"].as_str().unwrap().to_owned();
    let default = PathBuf::from(format!("/dev/shm/lodestore-{uuid}"));
    let is_there = default.is_dir();
    daemon.stop();
    assert!(is_there && !default.exists(), "{}", default.display());
}

#[test]
fn without_a_folder_in_memory_nothing_is_left_anywhere() {
    let site = Site::new();
    site.configure_top("shm_dir = \"none\"");
    let daemon = write(&mut known_disks(), site.serve_up(), 41);
    let status = daemon.status();
    let uuid = status["cache"]["uuid"].as_str().unwrap();
    assert!(!PathBuf::from(format!("/dev/shm/lodestore-{uuid}")).exists());
    assert_eq!(site.records(), None);
    daemon.kill();
    let daemon = site.serve_up();
    assert_eq!(daemon.status()["last_end"], "killed");
    daemon.stop();
}

/// What a kill left may be newer than the disk although the journal does not know it yet: whatever refuses to leave dirty
/// blocks behind counts it, too.
#[test]
fn what_only_the_records_know_is_not_left_behind() {
    let site = Site::new();
    let config = fs::read_to_string(site.path("test.toml")).unwrap();
    let mut disks = known_disks();
    // Fewer than fill a page of the journal.
    write_some(&mut disks, site.serve_up(), &mut Numbers(71), 20, false).kill();
    let mut changes = vec![
        config.replace("dram = \"4MiB\"", "read_only = true"),
        config.replace("scheme = \"lru\"", "scheme = \"lru\"\nread_only = true"),
    ];
    // Not every file system tells files apart.
    if fs::read_to_string(site.path("state/test.state")).unwrap().contains("vm1") {
        changes.push(config.replace("name = \"vm1\"", "name = \"web\""));
    }
    for changed in changes {
        assert_ne!(changed, config);
        fs::write(site.path("test.toml"), changed).unwrap();
        let said = site.serve_fails();
        assert!(said.contains("drain"), "{said}");
    }
    fs::write(site.path("test.toml"), config).unwrap();
    for vm in VMS {
        let output = lode(&["volume", "remove", &site.text("test.toml"), vm]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("--force"), "{vm}: {said}");
    }
    let daemon = site.serve_up();
    assert_eq!(compare(&mut disks, &daemon), [], "older than what was acknowledged");
    daemon.stop();
}

#[test]
fn a_relative_folder_is_refused() {
    let site = Site::new();
    site.configure_top("shm_dir = \"run\"");
    let said = site.serve_fails();
    assert!(said.contains("test.toml:1") && said.contains("shm_dir") && said.contains("absolute"), "{said}");
}

/// Whoever adds a VM means a disk in the folder of the command, and not in that of the daemon now, or after a restart.
#[test]
fn a_relative_backing_disk_is_that_of_the_command() {
    let site = Site::new();
    let daemon = site.serve_up();
    fs::File::create(site.path("vm3.img")).unwrap().set_len(8 * MIB).unwrap();
    let listen = format!("listen=unix:{}", site.text("vm3.sock"));
    let words = [
        "vm",
        "add",
        "test.toml",
        "vm3",
        "backing=vm3.img",
        "backing.sidecar=vm3.side",
        &listen,
        "ssd=4MiB",
        "scheme=lru",
        "--save",
    ];
    let output =
        Command::new(env!("CARGO_BIN_EXE_lode")).args(words).current_dir(site.path("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    daemon.client("vm3").write(0, &[3; 4096]);
    daemon.stop();
    let config = fs::read_to_string(site.path("test.toml")).unwrap();
    assert!(["vm3.img", "vm3.side"].iter().all(|name| config.contains(&site.text(name))), "{config}");
    site.serve_up().stop();
}

/// A daemon that finds itself on another boot of the host, as it says in `/proc`; `None` where that cannot be made up.
fn serve_on_another_boot(site: &Site) -> Option<Daemon<'_>> {
    const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
    fs::write(site.path("boot_id"), "00112233-4455-4677-8899-aabbccddeeff\n").unwrap();
    let made_up = format!("mount --bind {} {BOOT_ID} && exec \"$@\"", site.text("boot_id"));
    let in_own_mounts = |command: &[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "/bin/sh", "-c", &made_up, "sh"]).args(command);
        unshare
    };
    let is_made_up = in_own_mounts(&["true"]).stderr(Stdio::null()).status();
    if !is_made_up.is_ok_and(|status| status.success()) {
        lode_testdata::skip("another boot can be made up by root only");
        return None;
    }
    let config = site.text("test.toml");
    Some(site.spawn_up(in_own_mounts(&[env!("CARGO_BIN_EXE_lode"), "serve", &config])))
}

/// With the files still there, as they may be on a folder that is not in memory: what they speak of may not be on the SSD.
#[test]
fn records_of_another_boot_are_not_believed() {
    let Fleet { site, mut disks, mut numbers } =
        Fleet::new(&["lru", "etica"].map(|scheme| Kind::new(scheme, &[])), 51);
    site.configure_top(&format!("shm_dir = \"{}\"", site.memory.path().display()));
    let daemon = write_some(&mut disks, site.serve_up(), &mut numbers, 200, true);
    write(&mut disks, daemon, 52).kill();
    let (_, files) = records_in(site.memory.path()).expect("a folder of records");
    let logged = site.log().len();
    let Some(daemon) = serve_on_another_boot(&site) else { return };
    let status = daemon.status();
    assert_eq!((&status["last_end"], taken_over(&status)), (&"host-lost".into(), 0), "{status}");
    let log = site.log().split_off(logged);
    for file in files {
        assert!(log.contains(file.to_str().unwrap()), "{} is not spoken of: {log}", file.display());
    }
    let older = compare(&mut disks, &daemon);
    assert!(older.iter().all(|(_, older)| older.than_durable == 0), "older than what was flushed: {older:?}");
    // On that boot everything is as on any.
    write(&mut disks, daemon, 53).kill();
    let daemon = serve_on_another_boot(&site).expect("it could be made up before");
    assert_eq!(daemon.status()["last_end"], "killed");
    assert_eq!(compare(&mut disks, &daemon), []);
    daemon.stop();
}

/// Fills a file system to its last byte.
fn fill(folder: &Path) {
    use std::io::Write;
    let mut filler = fs::File::create(folder.join("filler")).unwrap();
    for bytes in [MIB as usize, 4096, 1] {
        while filler.write_all(&vec![1; bytes]).is_ok() {}
    }
}

/// Others use the host's memory, too. What is full after the start may not be missed; without room at the start the daemon
/// either says so, or does without.
#[test]
fn a_folder_without_room_loses_nothing() {
    for is_full_at_start in [false, true] {
        let site = Site::new();
        let Some(small) = SmallFolder::new(site.path("small"), 64 * MIB) else { return };
        site.configure_top(&format!("shm_dir = \"{}\"", small.0.display()));
        if is_full_at_start {
            fill(&small.0);
        }
        let mut daemon = site.serve();
        if let Some(status) = daemon.wait_until_up() {
            let log = site.log();
            assert!(is_full_at_start && status.code() == Some(1), "{status}: {log}");
            assert!(log.contains(small.0.to_str().unwrap()), "{log}");
            continue;
        }
        let mut disks = known_disks();
        for seed in 61..64 {
            fill(&small.0);
            write(&mut disks, daemon, seed).kill();
            // Only whether it lost something is asked, and not whether it can start without room.
            fs::remove_file(small.0.join("filler")).unwrap();
            daemon = site.serve_up();
            assert_eq!(compare(&mut disks, &daemon), [], "older than what was acknowledged");
        }
        daemon.stop();
    }
}

/// Guarantees 1 and 2: what is clean on the SSD is not believed from a failed flush of the disk up to the first start after a
/// reboot. That a failed flush has this remembered, and that it is enough, is shown by `failed_disk.rs` of `tests/sim/tests`.
#[test]
fn g1_clean_blocks_are_dropped_until_a_reboot_after_a_flush_of_the_disk_failed() {
    let site = Site::new();
    let note = site.path("state/test.vm2.failed");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let note_of = |boot: &str| fs::write(&note, format!("clean\ndisk failed in boot {boot}\n")).unwrap();
    let cached = |daemon: &Daemon| daemon.status_at_rest("vm2")["vms"][1]["gauges"]["ssd_blocks"].clone();
    let fill_and_stop = |daemon: Daemon| {
        let mut client = daemon.client("vm2");
        for block in 0..16 {
            client.read(block * 4096, 4096);
        }
        drop(client);
        assert!(cached(&daemon).as_u64() >= Some(16));
        daemon.stop();
    };
    fill_and_stop(site.serve_up());
    note_of(boot.trim_end());
    for _ in 0..2 {
        let daemon = site.serve_up();
        assert_eq!(cached(&daemon), 0);
        assert!(
            site.log().contains("VM vm2: a flush of its backing disk or redo log has failed"),
            "{}",
            site.log()
        );
        fill_and_stop(daemon);
        assert!(note.exists(), "the host is still up");
    }
    note_of("another");
    let daemon = site.serve_up();
    assert_eq!(cached(&daemon), 0);
    assert!(!note.exists(), "the host was down since");
    fill_and_stop(daemon);
    let daemon = site.serve_up();
    assert!(cached(&daemon).as_u64() >= Some(16));
    daemon.stop();
}

/// What must not be believed of a volume is remembered until it is gone, however often its VM is refused.
#[test]
fn g1_an_addition_that_is_refused_leaves_the_note_of_a_failed_ssd() {
    let site = Site::new();
    let note = site.path("state/test.vm2.failed");
    let daemon = site.serve_up();
    let mut client = daemon.client("vm2");
    client.write(0, &[7; 4096]);
    drop(client);
    daemon.kill();
    // As if the SSD had failed, and the disk had got all that it held and more.
    fs::write(&note, "all\n").unwrap();
    let both = fs::read_to_string(site.path("test.toml")).unwrap();
    let (first, _) = both.split_once("[[vm]]\nname = \"vm2\"").unwrap();
    fs::write(site.path("test.toml"), first).unwrap();
    let daemon = site.serve_up();
    let (disk, socket) = (site.text("vm2.img"), site.text("vm2.sock"));
    let (backing, listen) = (format!("backing={disk}"), format!("listen=unix:{socket}"));
    let config = site.text("test.toml");
    let said = lode_fails(&["vm", "add", &config, "vm2", &backing, &listen, "scheme=lru", "ssd=16MiB"]);
    assert!(said.contains("restart the service"), "{said}");
    assert_eq!(fs::read_to_string(&note).unwrap(), "all\n");
    daemon.stop();
    fs::write(site.path("test.toml"), both).unwrap();
    let daemon = site.serve_up();
    // It listens before it has recovered anything.
    assert_eq!(daemon.client("vm2").read(0, 4096), [0; 4096]);
    assert!(site.log().contains("VM vm2: the cache SSD failed when it was last served"), "{}", site.log());
    assert!(!note.exists());
    daemon.stop();
}
