//! What was acknowledged outlives its daemon, flushed or not, as long as the host lives; what was flushed outlives both.

use std::process::Command as Process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lode_nbd::{Command, CommandFlags};

use crate::client::{Client, PATIENCE};
use crate::common::{Daemon, Numbers, Site};
use crate::fleet::{Fleet, Kind, at_work, compare, write_some};
use crate::known::{HOT_BLOCKS, KnownDisk, Older, SECTOR_BYTES, SECTORS_PER_BLOCK, Writer};

/// Runs of a daemon, each with other moments at which it ends.
const RUNS: u64 = 5;

/// Ends a daemon at some moment of its work, or of a stop that has begun.
fn kill_at_some_time(daemon: Daemon<'_>, numbers: &mut Numbers) {
    std::thread::sleep(Duration::from_millis(150 + numbers.below(500)));
    if numbers.below(3) == 0 {
        let pid = daemon.child.id().to_string();
        assert!(Process::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        std::thread::sleep(Duration::from_millis(numbers.below(60)));
    }
    daemon.kill();
}

/// Writes without a flush, kills, and compares, again and again.
fn kill_again_and_again(fleet: Fleet) {
    let Fleet { site, mut disks, mut numbers } = fleet;
    for run in 0..RUNS {
        // A start that is cut short loses nothing either.
        for _ in 0..numbers.below(3) {
            let daemon = site.serve();
            std::thread::sleep(Duration::from_millis(numbers.below(120)));
            daemon.kill();
        }
        let daemon = site.serve_up();
        let older = compare(&mut disks, &daemon);
        assert!(older.is_empty(), "run {run}: older than what was acknowledged: {older:?}");
        let mut moments = Numbers(numbers.below(1 << 32) | 1);
        at_work(
            &mut disks,
            daemon,
            &mut numbers,
            |disk, client, _, seed| Writer::new(disk, client, seed).work_until_the_end(),
            |daemon| kill_at_some_time(daemon, &mut moments),
        );
    }
    for disk in &disks {
        assert_eq!(disk.stale_reads, 0, "{}", disk.vm);
        assert!(disk.answered > 20 * RUNS, "{}: there was traffic: {}", disk.vm, disk.answered);
    }
}

#[test]
fn what_was_acknowledged_survives_kills_under_every_scheme() {
    Fleet::on_several_hosts(kill_again_and_again);
}

#[test]
fn what_was_acknowledged_survives_kills_without_memory_for_it() {
    let fleet = Fleet::new(&SOME.map(|scheme| Kind::new(scheme, &[])), 0x1357_9bdf);
    fleet.site.configure_top("shm_dir = \"none\"");
    kill_again_and_again(fleet);
}

/// One level, two, and three.
const SOME: [&str; 3] = ["lru", "etica", "tica-ef"];

/// More than a buffer of records may hold, with requests that are large and blocks that give way to others.
#[test]
fn any_number_of_acknowledged_writes_survives_a_kill() {
    const PASSES: u64 = 6;
    const SECTORS_PER_WRITE: u64 = 2048;
    let site = Site::new();
    let daemon = site.serve_up();
    // Each fits into its VM's share, which would otherwise have to make its records durable.
    let mut disks = [("vm1", 24), ("vm2", 12)].map(|(vm, mib)| KnownDisk::new(vm, mib * SECTORS_PER_WRITE));
    let mut numbers = Numbers(77);
    let write = |disk: &mut KnownDisk, mut client: Client, _: Client, _: u64| {
        let writes = disk.sectors() / SECTORS_PER_WRITE;
        for at in (0..PASSES * writes).map(|write| write % writes * SECTORS_PER_WRITE) {
            let sectors = at..at + SECTORS_PER_WRITE;
            let (version, bytes) = disk.send(&sectors);
            client.write(at * SECTOR_BYTES, &bytes);
            disk.acknowledge(&sectors, version, false);
        }
    };
    let daemon = at_work(&mut disks, daemon, &mut numbers, write, |daemon| daemon);
    write_some(&mut disks, daemon, &mut numbers, 1000, false).kill();
    let older = compare(&mut disks, &site.serve_up());
    assert!(older.is_empty(), "older than what was acknowledged: {older:?}");
}

/// Has guests do what must be durable and then go on, kills the daemon when all of them have come so far, and takes the host's
/// memory away. Returns what is older than it was then.
fn lose_the_host(
    fleet: &mut Fleet,
    promise: impl Fn(&mut Writer<'_>, &mut Client) + Sync,
) -> Vec<(String, Older)> {
    let Fleet { site, disks, numbers } = fleet;
    let (promised, wanted) = (AtomicUsize::new(0), disks.len());
    let delay = Duration::from_millis(numbers.below(150));
    let guest = |disk: &mut KnownDisk, client: Client, mut other: Client, seed: u64| {
        let mut writer = Writer::new(disk, client, seed);
        promise(&mut writer, &mut other);
        promised.fetch_add(1, Ordering::SeqCst);
        writer.work_until_the_end();
    };
    at_work(disks, site.serve_up(), numbers, guest, |daemon| {
        let deadline = Instant::now() + PATIENCE;
        while promised.load(Ordering::SeqCst) < wanted && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(delay);
        daemon.kill();
    });
    site.lose_memory();
    let older = compare(disks, &site.serve_up());
    let sum: usize = older.iter().map(|(_, older)| older.than_acknowledged).sum();
    println!("{sum} blocks that were acknowledged and not flushed are lost with the host");
    older
}

fn nothing_durable_is_older(older: &[(String, Older)]) {
    let broken: Vec<_> = older.iter().filter(|(_, older)| older.than_durable > 0).collect();
    assert!(broken.is_empty(), "older than what was durable: {broken:?}");
}

#[test]
fn a_flush_covers_what_other_connections_were_answered() {
    Fleet::on_several_hosts(|mut fleet| {
        for _ in 0..2 {
            let older = lose_the_host(&mut fleet, |writer, other| {
                // Some are in flight meanwhile, about which nothing is said.
                writer.work(300).expect("it serves");
                other.flush();
                writer.disk.flushed();
            });
            nothing_durable_is_older(&older);
        }
    });
}

/// Asks for a write or for zeroes with FUA, behind a write to the same place that is not answered yet.
fn write_through(disk: &mut KnownDisk, client: &mut Client, first: u64, length: u64, zeroes: bool) {
    let sectors = first..first + length;
    let (earlier, bytes) = disk.send(&sectors);
    let (offset, bytes_long) = (first * SECTOR_BYTES, bytes.len() as u32);
    client.send(Command::Write, offset, bytes_long, CommandFlags::NONE, &bytes).expect("it serves");
    let (version, command, payload) = if zeroes {
        (disk.send_zeroes(&sectors), Command::WriteZeroes, Vec::new())
    } else {
        let (version, bytes) = disk.send(&sectors);
        (version, Command::Write, bytes)
    };
    let fua = client.send(command, offset, bytes_long, CommandFlags::FUA, &payload).expect("it serves");
    for _ in 0..2 {
        let (cookie, result) = client.wait().expect("it serves");
        result.unwrap();
        let (version, fua) = if cookie == fua { (version, true) } else { (earlier, false) };
        disk.acknowledge(&sectors, version, fua);
    }
}

/// Over blocks that are dirty, some of them flushed, and not only over whole ones.
#[test]
fn fua_makes_writes_and_zeroes_durable() {
    const BLOCKS: u64 = 20;
    Fleet::on_several_hosts(|mut fleet| {
        let older = lose_the_host(&mut fleet, |writer, client| {
            for place in 0..12 {
                let first = (HOT_BLOCKS + place * 2 * BLOCKS) * SECTORS_PER_BLOCK;
                let sectors = first..first + BLOCKS * SECTORS_PER_BLOCK;
                let (version, bytes) = writer.disk.send(&sectors);
                client.write(first * SECTOR_BYTES, &bytes);
                writer.disk.acknowledge(&sectors, version, false);
                if place % 3 == 0 {
                    client.flush();
                    writer.disk.flushed();
                }
                let odd_bits = place / 2;
                let (before, after) = (odd_bits % 2 * 3, odd_bits / 2 % 2 * 5);
                let length = BLOCKS * SECTORS_PER_BLOCK - before - after;
                write_through(writer.disk, client, first + before, length, place % 2 == 0);
            }
        });
        nothing_durable_is_older(&older);
    });
}

/// Shows that the tests above can fail: nobody flushes, and what is lost is printed.
#[test]
fn without_a_flush_a_host_may_take_acknowledged_writes_with_it() {
    let mut fleet = Fleet::new(&SOME.map(|scheme| Kind::new(scheme, &[])), 0x0bad_cafe);
    for _ in 0..2 {
        let older = lose_the_host(&mut fleet, |writer, _| writer.work(500).expect("it serves"));
        nothing_durable_is_older(&older);
        println!("{older:?}");
    }
}
