//! Guests of QEMU's block layer, which waits for a daemon that is gone and goes on with the next one: their requests do not
//! fail, and a flush that the next daemon answers covers what the one before acknowledged.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::client::{Client, PATIENCE};
use crate::common::{Daemon, MIB, Numbers, Site, has_tool};
use crate::known::{KnownDisk, Older, SECTOR_BYTES, Writer};

const VMS: [&str; 2] = ["vm1", "vm2"];
/// More than the smaller VM's share of the SSD.
const DISK_BYTES: u64 = 24 * MIB;

/// A process that ends with the test.
struct Tool(Child);

impl Drop for Tool {
    fn drop(&mut self) {
        // Fails when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How QEMU attaches to a VM's disk, waiting for a daemon that is gone.
fn attachment(site: &Site, vm: &str) -> String {
    let socket = site.text(&format!("{vm}.sock"));
    format!("driver=nbd,server.type=unix,server.path={socket},export={vm},reconnect-delay=10")
}

fn qemu_socket(site: &Site) -> PathBuf {
    site.path("qemu.sock")
}

/// QEMU's block layer between guests and a daemon that serves already.
fn start_qemu(site: &Site) -> Tool {
    let mut command = Command::new("/usr/bin/qemu-storage-daemon");
    let server = format!("addr.type=unix,addr.path={}", qemu_socket(site).display());
    command.args(["--nbd-server", &server]);
    for vm in VMS {
        command.args(["--blockdev", &format!("{},node-name={vm}", attachment(site, vm))]);
        let export = format!("type=nbd,id=e-{vm},node-name={vm},name={vm},writable=on");
        command.args(["--export", &export]);
    }
    Tool(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
}

/// Waits until something is so.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Kills the daemon and starts it again, many times, each time with requests of all guests in flight and answered.
fn kill_many_times<'s>(site: &'s Site, mut daemon: Daemon<'s>, answers: &[AtomicU64; 2]) -> Daemon<'s> {
    const ANSWERS_PER_LIFE: u64 = 100;
    let kills = std::env::var("LODE_QEMU_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(5u64);
    let mut numbers = Numbers(0x0f1e_2d3c);
    let count = |vm: usize| answers[vm].load(Ordering::SeqCst);
    for kill in 0..=kills {
        let before = [count(0), count(1)];
        wait_until("guests are answered", || (0..2).all(|vm| count(vm) >= before[vm] + ANSWERS_PER_LIFE));
        if kill < kills {
            std::thread::sleep(Duration::from_millis(numbers.below(300)));
            daemon.kill();
            // QEMU may find the next one at once, or has to wait.
            std::thread::sleep(Duration::from_millis(numbers.below(3) * 150));
            daemon = site.serve_up();
        }
    }
    daemon
}

#[test]
fn guests_of_qemu_write_on_through_kills_and_lose_nothing() {
    if !has_tool("qemu-storage-daemon") {
        return;
    }
    let site = Site::new();
    let daemon = site.serve_up();
    drop(VMS.map(|vm| daemon.client(vm)));
    let qemu = start_qemu(&site);
    let mut disks = VMS.map(|vm| KnownDisk::new(vm, DISK_BYTES / SECTOR_BYTES));
    let answers = [AtomicU64::new(0), AtomicU64::new(0)];
    let ended = AtomicU64::new(0);
    let daemon = std::thread::scope(|scope| {
        for (disk, answers) in disks.iter_mut().zip(&answers) {
            let (client, ended) = (Client::connect(&qemu_socket(&site), &disk.vm, true), &ended);
            scope.spawn(move || {
                let mut writer = Writer::new(disk, client, 0x7654_3210);
                // QEMU sends requests again in whatever order.
                writer.overlapping = false;
                while ended.load(Ordering::SeqCst) == 0 {
                    writer.step().expect("QEMU goes on");
                    answers.fetch_add(1, Ordering::SeqCst);
                }
                writer.drain().expect("QEMU goes on");
            });
        }
        let daemon = kill_many_times(&site, daemon, &answers);
        ended.store(1, Ordering::SeqCst);
        daemon
    });
    for disk in &mut disks {
        let mut client = Client::connect(&qemu_socket(&site), &disk.vm, true);
        client.flush();
        let found = (disk.compare(&mut client), disk.stale_reads);
        assert_eq!(found, (Older::default(), 0), "blocks of {} through QEMU, and reads before", disk.vm);
        assert_eq!(disk.compare(&mut daemon.client(&disk.vm)), Older::default(), "{} directly", disk.vm);
    }
    drop(qemu);
    daemon.stop();
}

/// One client, idle while the daemon is killed, that flushes through the next one what the first one acknowledged.
#[test]
fn a_flush_after_a_pause_covers_what_was_written_before() {
    const BLOCKS: u64 = 64;
    if !has_tool("qemu-io") {
        return;
    }
    let site = Site::new();
    let daemon = site.serve_up();
    drop(daemon.client("vm1"));
    // Requests of 4 KiB at the same time, then a pause, in which the daemon is killed, and then the flush.
    let offset = |block: u64| block * 8192;
    let pattern = |block: u64| format!("-P {} {} 4k", block + 1, offset(block));
    let mut commands: Vec<String> =
        (0..BLOCKS).map(|block| format!("aio_write -q {}", pattern(block))).collect();
    commands.extend(["aio_flush", "sleep 2000", "flush"].map(str::to_owned));
    commands.extend((0..BLOCKS).map(|block| format!("read {}", pattern(block))));
    let mut command = Command::new("/usr/bin/timeout");
    // Of itself it would write with FUA.
    command.args(["20", "/usr/bin/qemu-io", "-t", "none", "--image-opts", &attachment(&site, "vm1")]);
    commands.iter().for_each(|text| {
        command.args(["-c", text]);
    });
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let qemu = command.spawn().unwrap();
    wait_until("it writes", || daemon.status()["vms"][0]["counters"]["block_writes"] == BLOCKS);
    // Its answers are on their way for a moment longer.
    std::thread::sleep(Duration::from_millis(200));
    daemon.kill();
    let daemon = site.serve_up();
    let output = qemu.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let lost = said.matches("Pattern verification failed").count();
    assert_eq!(lost, 0, "blocks that were flushed after the kill are lost: {said}");
    assert!(output.status.success() && !said.contains("failed"), "{said}");
    let mut client = daemon.client("vm1");
    for block in 0..BLOCKS {
        assert!(client.read(offset(block), 4096) == [1 + block as u8; 4096], "block {block}");
    }
    daemon.stop();
}
