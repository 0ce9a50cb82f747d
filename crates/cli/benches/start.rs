//! How long `lode serve` takes from its start to the first read that it answers, by the size of the SSD: for a volume that is new, for one
//! that holds nothing, and for one whose tables are full with a quarter of its blocks dirty, after little was written since the last checkpoint
//! and amid writes to random blocks, with as many records in the journal as there are on average. Each start but the first follows a kill. Where tables are
//! full, so is the ring of the journal: what does not count there is of an earlier one. The files are sparse: tables and journal exist, data
//! does not. Beside the times stands what the daemon has had of memory at most.
//!
//! `cargo bench -p lode-cli --bench start -- 1 4 16 64` measures SSDs of so many GiB, `--svg FILE` draws the times, `--pair` has the cache on
//! a pair of them, both on one disk.

#[path = "../../store/benches/tables/mod.rs"]
mod tables;

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lode_draw::{Axis, LineChart, Series, Shape, Style, Unit};
use lode_format::{CacheId, DeviceLayout, Directory, PairLabel};
use lode_nbd::{Command as NbdCommand, CommandFlags, Request};
use lode_nbd_client::{ClientEvent, ClientHandshake, ClientProgress, ClientTransmission};
use lode_store::{StoreView, SyncDevice};
use lode_types::{BlockSize, MediaError};

use tables::{FullRing, STAMP, full_page};

const LODE: &str = env!("CARGO_BIN_EXE_lode");
/// Longer than any start that is measured.
const PATIENCE: Duration = Duration::from_secs(1200);
/// How large the disk is beside the SSD.
const DISK_PER_SSD: u64 = 4;
const STATES: [&str; 4] = ["new", "empty", "full tables", "amid writes"];

/// The file of the SSD, or those of a pair, as the store reads them.
struct Device {
    files: Vec<File>,
    /// Where the cache begins in each.
    start_bytes: u64,
}

impl SyncDevice for Device {
    fn size_bytes(&self) -> u64 {
        self.files[0].metadata().expect("it is open").len() - self.start_bytes
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.files[0].read_exact_at(buf, self.start_bytes + offset_bytes).map_err(|_| MediaError::Io)
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        let mut files = self.files.iter();
        files
            .try_for_each(|file| file.write_all_at(bytes, self.start_bytes + offset_bytes))
            .map_err(|_| MediaError::Io)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.files.iter().try_for_each(File::sync_data).map_err(|_| MediaError::Io)
    }
}

/// A daemon that is killed when it is not needed any more.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// What a start takes.
struct Start {
    seconds: f64,
    peak_mib: u64,
}

/// A host with one VM, in a folder of its own.
struct Site {
    folder: tempfile::TempDir,
    ssd_bytes: u64,
    is_pair: bool,
}

impl Site {
    fn new(gib: u64, is_pair: bool) -> Site {
        let site = Site { folder: tempfile::tempdir().expect("a folder"), ssd_bytes: gib << 30, is_pair };
        let sparse = |name: &str, bytes| File::create(site.path(name)).and_then(|file| file.set_len(bytes));
        site.ssds().iter().for_each(|ssd| sparse(ssd, site.ssd_bytes).expect("room for a sparse file"));
        sparse("disk", site.ssd_bytes * DISK_PER_SSD).expect("room for a sparse file");
        let mut format = Command::new(LODE);
        format.arg("format").arg(site.path("ssd"));
        let folder = site.folder.path().display();
        let mut mirror = String::new();
        if is_pair {
            format.arg("--mirror").arg(site.path("mirror"));
            mirror = format!("\nmirror = \"{folder}/mirror\"");
        }
        let done = format.output().expect("lode runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        // The rest is what the SSD keeps for itself, and the reserve of the share.
        let share_mib = (gib << 10) * 9 / 10;
        let config = format!(
            "name = \"start\"\nshm_dir = \"none\"\nstate_dir = \"{folder}\"\n[ssd]\npath = \"{folder}/ssd\"{mirror}\n[[vm]]\nname = \"vm\"\n\
             backing = {{ path = \"{folder}/disk\" }}\nscheme = \"lru\"\nssd = \"{share_mib}MiB\"\n\
             listen = [\"unix:{folder}/socket\"]\n"
        );
        std::fs::write(site.path("config.toml"), config).expect("a folder that can be written to");
        site
    }

    /// Names of the SSDs' files.
    fn ssds(&self) -> &'static [&'static str] {
        if self.is_pair { &["ssd", "mirror"] } else { &["ssd"] }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A daemon from its start to the first read that it answers. It is killed then.
    fn start(&self) -> Start {
        let began = Instant::now();
        let log = File::create(self.path("log")).expect("a folder that can be written to");
        let mut command = Command::new(LODE);
        let serve = command.arg("serve").arg(self.path("config.toml")).stderr(Stdio::from(log));
        let mut daemon = Killed(serve.spawn().expect("lode runs"));
        let stream = wait_for(&self.path("socket"), &mut daemon.0, &self.path("log"));
        read_block(stream, self.last_block() * BlockSize::KIB_4.bytes());
        let seconds = began.elapsed().as_secs_f64();
        Start { seconds, peak_mib: peak_mib(daemon.0.id()) }
    }

    /// The disk's last block, which the SSD never holds.
    fn last_block(&self) -> u64 {
        self.ssd_bytes * DISK_PER_SSD / BlockSize::KIB_4.bytes() - 1
    }

    /// As if the volume had been full for longer than since the last checkpoint when the daemon was killed. Amid writes many places have
    /// got other blocks since.
    fn fill_tables(&self, amid_writes: bool) {
        let open = |ssd: &&str| OpenOptions::new().read(true).write(true).open(self.path(ssd));
        let files = self.ssds().iter().map(open).collect::<Result<_, _>>().expect("they were formatted");
        let start_bytes = if self.is_pair { PairLabel::DATA_START_BYTES } else { 0 };
        let mut device = Device { files, start_bytes };
        let view = StoreView::read(&mut device).expect("it was served");
        let (cache, layout) = (view.superblock().cache, view.superblock().layout().expect("it was served"));
        let tag = view.volumes().next().expect("it was served").tag;
        for extent in 0..layout.extents {
            for page in 0..layout.extent.table_pages {
                for copy in 0..2 {
                    let table = full_page(tag, &layout.extent, (extent, page, copy), self.last_block());
                    let at = layout.extent_start(extent) + layout.extent.table_page(page, copy);
                    device.write(at, &table.encode(cache)[..]).expect("room for tables");
                }
            }
        }
        let copies = [0, 1].map(|copy| {
            let mut bytes = vec![0; Directory::COPY_BYTES];
            device.read(DeviceLayout::directory(copy), &mut bytes).expect("it was formatted");
            bytes
        });
        let mut directory = Directory::newest(cache, [&copies[0], &copies[1]]).expect("it was served");
        directory.unwritten.clear();
        let extents = directory.extents_of(0).written;
        let volume = directory.volumes[0].as_mut().expect("it was served");
        // What is older than the run is known to be durable.
        volume.run_version = STAMP + 1;
        let (number, blocks) = (volume.ring, self.last_block());
        let ring = FullRing { volume: tag, number, layout, extents, blocks, amid_writes };
        write_journal(&mut device, cache, &ring);
        directory.generation += 1;
        let bytes = directory.encode(cache).expect("it was read");
        device.write(DeviceLayout::directory(directory.copy()), &bytes).expect("it was formatted");
        device.flush().expect("a file");
    }
}

/// Writes a ring of which each pair has a full page on both sides.
fn write_journal(device: &mut Device, cache: CacheId, ring: &FullRing) {
    let pairs = u64::from(ring.layout.extent.journal_pairs);
    for (ordinal, &extent) in (0..).zip(&ring.extents) {
        let mut bytes = Vec::new();
        for number in ordinal * pairs..(ordinal + 1) * pairs {
            let page = ring.page(number).encode(cache);
            (0..2).for_each(|_| bytes.extend_from_slice(&page[..]));
        }
        let at = ring.layout.extent_start(extent) + ring.layout.extent.journal_page(0, 0);
        device.write(at, &bytes).expect("room for a journal");
    }
}

/// What a daemon has had of memory at most, the page cache left out.
fn peak_mib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux says it");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib >> 10
}

/// A connection, as soon as something listens there.
fn wait_for(socket: &Path, daemon: &mut Child, log: &Path) -> UnixStream {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Ok(stream) = UnixStream::connect(socket) {
            return stream;
        }
        let has_ended = daemon.try_wait().expect("a child").is_some();
        let said = || std::fs::read_to_string(log).unwrap_or_default();
        assert!(!has_ended && Instant::now() < deadline, "it does not serve: {}", said());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Has the daemon answer a read of a block.
fn read_block(mut stream: UnixStream, offset_bytes: u64) {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let (mut input, mut output, mut received) = (Vec::new(), Vec::new(), vec![0; 1 << 16]);
    let mut more = |stream: &mut UnixStream, input: &mut Vec<u8>| {
        let length = stream.read(&mut received).expect("an answer");
        assert!(length > 0, "the daemon hung up");
        input.extend_from_slice(&received[..length]);
    };
    let mut handshake = ClientHandshake::go("vm", true).expect("a name");
    let export = loop {
        more(&mut stream, &mut input);
        let (used, progress) = handshake.advance(&input, &mut output).expect("NBD");
        input.drain(..used);
        stream.write_all(&output).expect("it reads");
        output.clear();
        if let ClientProgress::Done(export) = progress {
            break export;
        }
    };
    let mut transmission = ClientTransmission::new(&export);
    let (command, flags) = (NbdCommand::Read, CommandFlags::NONE);
    let request = Request { cookie: 1, offset_bytes, length_bytes: 4096, command, flags };
    transmission.submit(&request, &mut output).expect("one request");
    stream.write_all(&output).expect("it reads");
    loop {
        let (used, event) = transmission.advance(&input).expect("NBD");
        match event {
            Some(ClientEvent::Done { .. }) => return,
            Some(ClientEvent::Failed { error, .. }) => panic!("the read failed: {error:?}"),
            Some(_) => drop(input.drain(..used)),
            None => {
                input.drain(..used);
                more(&mut stream, &mut input);
            }
        }
    }
}

fn draw(times: &[(f64, [f64; 4])], path: &str) {
    let mut chart = LineChart::new(
        "From start to the first read answered",
        "Seconds that a daemon takes, by the size of its SSD, for four states of the tables there.",
        Axis::log("SSD", Unit::Bytes),
        Axis::log("Time", Unit::Microseconds),
    );
    for (state, name) in STATES.iter().enumerate() {
        let points = times.iter().map(|(bytes, seconds)| (*bytes, seconds[state] * 1e6)).collect();
        chart.series.push(Series::new(*name, Shape::Lines, points));
    }
    let svg = chart.svg(&Style::one_column()).expect("numbers that can be drawn");
    std::fs::write(path, svg).unwrap_or_else(|error| panic!("{path}: {error}"));
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let svg = arguments.iter().position(|word| word == "--svg").and_then(|at| arguments.get(at + 1));
    let is_pair = arguments.iter().any(|word| word == "--pair");
    let mut sizes: Vec<u64> = arguments.iter().filter_map(|word| word.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![1, 4, 16];
    }
    println!(
        "{:>8}{}   memory at most, MiB",
        "SSD, GiB",
        STATES.map(|state| format!("{state:>14}")).concat()
    );
    let mut times = Vec::new();
    for gib in sizes {
        let site = Site::new(gib, is_pair);
        let [new, empty] = [site.start(), site.start()];
        site.fill_tables(false);
        let full = site.start();
        site.fill_tables(true);
        let starts = [new, empty, full, site.start()];
        let seconds = starts.each_ref().map(|start| start.seconds);
        let peaks = starts.map(|start| start.peak_mib.to_string()).join(" / ");
        println!("{gib:>8}{}   {peaks}", seconds.map(|seconds| format!("{seconds:>12.2} s")).concat());
        times.push(((gib << 30) as f64, seconds));
    }
    if let Some(path) = svg {
        draw(&times, path);
    }
}
