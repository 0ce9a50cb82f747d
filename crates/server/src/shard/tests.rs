//! A shard with VMs on small files.

use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{self, Sender};

use lode_engine::{Engine, EngineConfig};
use lode_media::{DriverChoice, MediaFile, OpenOptions, open_driver};
use lode_nbd::proto::SimpleReplyHeader;
use lode_nbd::{Command, CommandFlags, ExportInfo, Negotiated, Request};
use lode_policy::Quota;
use lode_types::BlockSize;

use super::*;
use crate::config::Config;
use crate::connection::Permit;
use crate::fence_file::FenceFile;
use crate::live_scheme::LiveScheme;
use crate::messages::LiveKeys;
use crate::shared::{Disks, DisksOf};
use crate::sharing::Started;
use crate::start::VmDisks;
use crate::status::ShmView;

const VOLUME_BYTES: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(20);

/// VMs without a cache, each on a small file, and the disk that all of these are on.
fn shard(folder: &Path, names: &[&str]) -> (Shard, Sender<ToShard>, Vec<Arc<AtomicU32>>, DisksOf) {
    let (path, mut text) = (folder.display(), String::new());
    text += &format!("name = \"a\"\nstate_dir = \"{path}\"\n");
    for name in names {
        text += &format!(
            "[[vm]]\nname = \"{name}\"\nbacking = {{ path = \"{path}\" }}\nlisten = [\"unix:/{name}\"]\n"
        );
    }
    let config = Config::parse(&text, Path::new("test.toml")).unwrap();
    let mut disks = Disks::default();
    let connections: Vec<_> = names.iter().map(|_| Arc::new(AtomicU32::new(0))).collect();
    let prepare = |vm: &crate::config::VmConfig| Prepared {
        engine: Engine::new(
            EngineConfig::new(BlockSize::KIB_4, VOLUME_BYTES, Quota::default()),
            &vm.settings,
            None,
        ),
        scheme: LiveScheme::new(vm.settings.clone(), false, Quota::default()),
        started: Started::default(),
        live: LiveKeys::of(vm, None),
        export: ExportInfo::new(&vm.name, VOLUME_BYTES).unwrap(),
        backing: backing(&folder.join(&vm.name)),
        ssd: None,
        read_ssd: None,
        redo: None,
        disks: VmDisks { ssd: None, backing: disks.under(folder).unwrap(), redo: None },
        shm: ShmView::default(),
        tag: None,
        disk: None,
        acknowledges_early: false,
        fence: FenceFile::of(&config, &vm.name),
    };
    let vms = config.vms.iter().map(prepare).zip(connections.iter().cloned()).collect();
    let (sender, inbox) = mpsc::channel();
    let draining_blocks = Arc::new(AtomicU64::new(0));
    let context = ShardContext { number: 0, events: Events::default(), inbox, space: None, draining_blocks };
    let (driver, _) = open_driver(DriverChoice::Threads, Duration::ZERO).unwrap();
    (Shard::new(context, driver, vms), sender, connections, disks.under(folder).unwrap())
}

fn backing(path: &Path) -> MediaFile {
    std::fs::File::create(path).unwrap().set_len(VOLUME_BYTES).unwrap();
    MediaFile::open(path, &OpenOptions::default()).unwrap()
}

/// A client of a volume, past its handshake.
fn connect(shard: &mut Shard, volume: usize, taken: &Arc<AtomicU32>) -> UnixStream {
    let (client, socket) = UnixStream::pair().unwrap();
    client.set_nonblocking(true).unwrap();
    let permit = Permit::take(taken, 16).expect("a place");
    let negotiated = Negotiated::default();
    let (socket, early) = (socket.into(), Vec::new());
    shard.connect(NewConnection { socket, volume, negotiated, early, permit });
    client
}

/// Turns of the shard until the client has so many bytes, or is hung up on, when they are fewer.
fn receive(shard: &mut Shard, client: &mut UnixStream, length: usize) -> Vec<u8> {
    let (deadline, mut bytes, mut done) = (Instant::now() + PATIENCE, Vec::new(), Vec::new());
    while bytes.len() < length {
        assert!(Instant::now() < deadline, "no answer");
        shard.turn(Duration::from_millis(5), &mut done).unwrap();
        let mut buf = vec![0; length - bytes.len()];
        match client.read(&mut buf) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&buf[..count]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    bytes
}

fn ask(client: &mut UnixStream, command: Command, payload: &[u8]) {
    let (offset_bytes, length_bytes) = if command == Command::Flush { (0, 0) } else { (4096, 512) };
    let request = Request { cookie: 1, offset_bytes, length_bytes, command, flags: CommandFlags::NONE };
    client.write_all(&[&request.header().encode(), payload].concat()).unwrap();
}

fn write_and_flush(shard: &mut Shard, client: &mut UnixStream, byte: u8) {
    for (command, payload) in [(Command::Write, &[byte; 512][..]), (Command::Flush, &[])] {
        ask(client, command, payload);
        let reply = receive(shard, client, SimpleReplyHeader::BYTES);
        assert_eq!(SimpleReplyHeader::decode(&reply.try_into().unwrap()).unwrap().error, 0);
    }
    ask(client, Command::Read, &[]);
    assert_eq!(
        receive(shard, client, SimpleReplyHeader::BYTES + 512)[SimpleReplyHeader::BYTES..],
        [byte; 512]
    );
}

/// The end of something that was never begun, which only a defect can bring about.
fn bring_about_a_defect(shard: &mut Shard, volume: u64) {
    let token = LOOK_UP << KIND_SHIFT | volume << VOLUME_SHIFT | 77;
    shard.dispatch(Done { token, result: Ok(0), os_error: None, payload: Payload::None });
}

#[test]
fn a_panic_stops_its_vm_and_no_other() {
    let folder = tempfile::TempDir::new().unwrap();
    let (mut shard, _sender, taken, _) = shard(folder.path(), &["one", "two"]);
    let mut clients = [0, 1].map(|vm| connect(&mut shard, vm, &taken[vm]));
    let mut other = connect(&mut shard, 0, &taken[0]);
    clients.iter_mut().for_each(|client| write_and_flush(&mut shard, client, 1));
    // Under way, with a flush that shares its disk with the other VM: nobody hears of it again.
    ask(&mut clients[0], Command::Flush, &[]);
    shard.turn(Duration::ZERO, &mut Vec::new()).unwrap();
    bring_about_a_defect(&mut shard, 0);
    while !receive(&mut shard, &mut clients[0], 1).is_empty() {}
    assert!(receive(&mut shard, &mut other, 1).is_empty(), "all of its clients are cut off");
    write_and_flush(&mut shard, &mut clients[1], 2);
    let [one, two] = [0, 1].map(|at| shard.view(at));
    assert!(one.stopped && one.drain_cancelled && !two.stopped && !two.drain_cancelled);
    assert_eq!((one.connections, two.connections), (0, 1));
    assert!(Permit::take(&taken[0], 16).is_none() && Permit::take(&taken[1], 16).is_some());
    assert_eq!(shard.connections.len(), 1);
    // Whatever else is tried goes to the other one alone.
    shard.tick();
    bring_about_a_defect(&mut shard, 0);
    write_and_flush(&mut shard, &mut clients[1], 3);
    drop(clients);
    let ended = end(&mut shard, true);
    assert!(!ended.saved, "what the stopped VM had is not known to be saved");
}

/// Has a shard, which these messages go to, run the engine of its first VM, whose client this is.
type EngineRun = fn(&mut Shard, &Sender<ToShard>, &mut UnixStream);

/// What anybody may ask of a shard, and what it does by itself.
const ENGINE_RUNS: &[(&str, EngineRun)] = &[
    ("status", |_, sender, _| {
        let (answer, _) = mpsc::sync_channel(1);
        sender.send(ToShard::Status(answer)).unwrap();
    }),
    ("drain", |_, sender, _| {
        let (answer, _) = mpsc::sync_channel(1);
        sender.send(ToShard::Drain { volumes: vec![0], cancel: false, answer }).unwrap();
    }),
    ("measure", |_, sender, _| {
        let (answer, _) = mpsc::sync_channel(1);
        sender.send(ToShard::Measure(answer)).unwrap();
    }),
    ("writes to the SSD", |_, sender, _| {
        let (answer, _) = mpsc::sync_channel(1);
        sender.send(ToShard::SsdWrites(answer)).unwrap();
    }),
    ("shares of others", |_, sender, _| {
        let (answer, _) = mpsc::sync_channel(1);
        sender.send(ToShard::Shares { shares: Vec::new(), answer }).unwrap();
    }),
    ("a share", |_, sender, _| {
        let (answer, _) = mpsc::sync_channel(1);
        sender.send(ToShard::Shares { shares: vec![(0, Quota::default())], answer }).unwrap();
    }),
    ("a budget", |_, sender, _| {
        sender.send(ToShard::Budget(0, lode_policy::WriteBudget::Any)).unwrap();
    }),
    ("a removal", |_, sender, _| {
        let (answer, _) = mpsc::sync_channel(1);
        sender.send(ToShard::Remove { volume: 0, disconnect: true, answer }).unwrap();
    }),
    ("a step of a removal", |shard, _, _| shard.advance_leavings(Instant::now())),
    ("migration", |_, sender, _| {
        let (answer, _) = mpsc::sync_channel(1);
        sender.send(ToShard::WriteAround { volume: 0, answer }).unwrap();
    }),
    ("a release", |_, sender, _| {
        let (answer, _) = mpsc::sync_channel(1);
        sender.send(ToShard::Release { volume: 0, refuse_clients: true, answer }).unwrap();
    }),
    ("the end of a migration", |_, sender, _| {
        let (answer, _) = mpsc::sync_channel(1);
        sender.send(ToShard::Resume { volume: 0, generation: None, answer }).unwrap();
    }),
    ("a client that connects", |shard, _, _| drop(connect(shard, 0, &Arc::default()))),
    ("a request", |_, _, client| ask(client, Command::Read, &[])),
    ("the end of a question", |shard, _, _| bring_about_a_defect(shard, 0)),
    ("the clock", |shard, _, _| shard.tick()),
    ("a client that hangs up amid a write", |shard, _, client| {
        client.write_all(&[0; 100]).unwrap();
        shard.turn(Duration::from_millis(50), &mut Vec::new()).unwrap();
        client.shutdown(std::net::Shutdown::Both).unwrap();
    }),
];

/// Whatever is asked of a shard when a panic shows, it stops that VM, with its reason, and no other; nothing runs its engine again.
#[test]
fn a_panic_wherever_an_engine_runs_stops_its_vm_and_no_other() {
    for (what, run) in ENGINE_RUNS {
        let folder = tempfile::TempDir::new().unwrap();
        let (mut shard, sender, taken, _) = shard(folder.path(), &["one", "two"]);
        let mut clients = [0, 1].map(|vm| connect(&mut shard, vm, &taken[vm]));
        clients.iter_mut().for_each(|client| write_and_flush(&mut shard, client, 1));
        if what.contains("amid a write") {
            let (offset_bytes, length_bytes) = (0, 512);
            let (command, flags) = (Command::Write, CommandFlags::NONE);
            let write = Request { cookie: 1, offset_bytes, length_bytes, command, flags };
            clients[0].write_all(&write.header().encode()).unwrap();
            shard.turn(Duration::from_millis(50), &mut Vec::new()).unwrap();
        }
        shard.tick();
        shard.settle();
        let (answer, removed) = mpsc::sync_channel(1);
        if what.contains("step") {
            shard.begin_removal(0, true, answer);
        }
        shard.volumes[0].bring_about_a_defect();
        run(&mut shard, &sender, &mut clients[0]);
        while !receive(&mut shard, &mut clients[0], 1).is_empty() {}
        if what.contains("step") {
            assert!(removed.recv_timeout(PATIENCE).unwrap().is_err(), "it is not removed");
        }
        write_and_flush(&mut shard, &mut clients[1], 2);
        shard.tick();
        shard.advance_leavings(Instant::now());
        let [one, two] = [0, 1].map(|at| shard.view(at));
        assert!(one.stopped && one.drain_cancelled && !two.stopped && two.stopped_by.is_none(), "{what}");
        assert!(one.stopped_by.is_some_and(|why| !why.is_empty()), "{what}");
        assert_eq!((one.counters.block_reads, two.counters.block_reads > 1), (1, true), "{what}");
        assert_eq!((shard.volumes[0].runs_since_defect(), one.connections), (1, 0), "{what}");
        let (_, events) = shard.context.events.latest(Some("one"), 100);
        assert!(events.iter().any(|event| event.text.contains("stopped by a defect")), "{what}");
        assert!(Permit::take(&taken[0], 16).is_none(), "{what}: it gets no clients");
        let ended = end(&mut shard, false);
        assert_eq!((ended.saved, &ended.disks[..]), (false, &[(0, false), (1, true)][..]), "{what}");
        assert_eq!(shard.volumes[0].runs_since_defect(), 1, "{what}: at the stop");
    }
}

/// The same at each step of a stop, which saves what the other VM has.
#[test]
fn a_panic_at_a_stop_keeps_no_other_vm_from_its_end() {
    for drain in [false, true] {
        for turns in 0..3 {
            let folder = tempfile::TempDir::new().unwrap();
            let (mut shard, _sender, taken, _) = shard(folder.path(), &["one", "two"]);
            let mut clients = [0, 1].map(|vm| connect(&mut shard, vm, &taken[vm]));
            clients.iter_mut().for_each(|client| write_and_flush(&mut shard, client, 1));
            shard.begin_stop(drain);
            drop(clients);
            for _ in 0..turns {
                shard.turn(Duration::from_millis(5), &mut Vec::new()).unwrap();
                assert!(shard.stop_step(Instant::now()).is_none() || turns > 1);
            }
            shard.volumes[0].bring_about_a_defect();
            let ended = end(&mut shard, drain);
            assert_eq!((ended.saved, &ended.disks[..]), (false, &[(0, false), (1, true)][..]));
            assert_eq!(shard.volumes[0].runs_since_defect(), 1);
        }
    }
}

/// Brings a shard to its end.
fn end(shard: &mut Shard, drain: bool) -> Ended {
    shard.begin_stop(drain);
    let deadline = Instant::now() + PATIENCE;
    loop {
        shard.turn(Duration::from_millis(5), &mut Vec::new()).unwrap();
        if let Some(ended) = shard.stop_step(Instant::now()) {
            return ended;
        }
        assert!(Instant::now() < deadline, "it never ends");
    }
}

/// Writes whose bytes do not come are ended when others wait for what they take, and only then.
#[test]
fn clients_that_vanish_amid_a_write_do_not_starve_others() {
    let folder = tempfile::TempDir::new().unwrap();
    let (mut shard, _sender, taken, _) = shard(folder.path(), &["one"]);
    shard.volumes[0].limits.vm_bytes = VOLUME_BYTES;
    let mut vanished = [(); 2].map(|()| connect(&mut shard, 0, &taken[0]));
    for client in &mut vanished {
        let (cookie, offset_bytes, length_bytes) = (1, 0, VOLUME_BYTES as u32 / 2);
        let (command, flags) = (Command::Write, CommandFlags::NONE);
        let write = Request { cookie, offset_bytes, length_bytes, command, flags };
        client.write_all(&write.header().encode()).unwrap();
        client.write_all(&[7; 1000]).unwrap();
    }
    let turns = |shard: &mut Shard| {
        (0..20).for_each(|_| shard.turn(Duration::from_millis(5), &mut Vec::new()).unwrap());
    };
    turns(&mut shard);
    let let_pass = |shard: &mut Shard, time: Duration| {
        shard.start -= time;
        shard.turn(Duration::ZERO, &mut Vec::new()).unwrap();
        shard.tick();
        shard.settle();
    };
    // Nobody waits.
    let_pass(&mut shard, 2 * WRITE_LIMIT);
    assert_eq!(shard.connections.len(), 2);
    let mut other = connect(&mut shard, 0, &taken[0]);
    ask(&mut other, Command::Read, &[]);
    turns(&mut shard);
    assert_eq!(other.read(&mut [0; 64]).unwrap_err().kind(), ErrorKind::WouldBlock, "it has to wait");
    let_pass(&mut shard, Duration::ZERO);
    assert_eq!(receive(&mut shard, &mut other, SimpleReplyHeader::BYTES + 512)[16..], [0; 512]);
    for client in &mut vanished {
        assert!(receive(&mut shard, client, 1).is_empty(), "it is cut off");
    }
    write_and_flush(&mut shard, &mut other, 1);
}

/// All volumes of an SSD that fails want something remembered at once.
#[test]
fn one_thread_remembers_what_is_not_to_be_believed() {
    let folder = tempfile::TempDir::new().unwrap();
    let (shard, _sender, _, _) = shard(folder.path(), &["one"]);
    let text = format!("name = \"a\"\nstate_dir = \"{}\"\n", folder.path().display());
    let text = text + "[[vm]]\nname = \"one\"\nbacking = { path = \"/d\" }\nlisten = [\"unix:/one\"]\n";
    let config = Config::parse(&text, Path::new("test.toml")).unwrap();
    let (mut fences, threads_begun) = (Fences::default(), Cell::new(0));
    let fence = |volume: usize| FenceFile::of(&config, &format!("vm{volume}"));
    // A thread asks for its waker as it begins.
    let waker = || {
        threads_begun.set(threads_begun.get() + 1);
        shard.driver.waker()
    };
    for volume in 0..50 {
        fences.begin(volume, fence(volume), lode_engine::Fence::Clean, waker);
    }
    let deadline = Instant::now() + PATIENCE;
    let mut ended = Vec::new();
    while !fences.is_idle() {
        assert!(Instant::now() < deadline, "{ended:?} have ended");
        while let Some(end) = fences.next_ended() {
            end.result.unwrap();
            ended.push(end.volume);
        }
    }
    assert_eq!(ended, (0..50).collect::<Vec<_>>());
    assert_eq!(threads_begun.get(), 1);
    for volume in 0..50 {
        assert_eq!(
            fence(volume).noted().unwrap().map(|noted| noted.distrust),
            Some(lode_store::Distrust::Clean)
        );
    }
}

/// Guarantee 2 across connections, and 7: a flush is the disk's, whoever wrote.
#[test]
fn g2_a_flush_on_a_connection_that_wrote_nothing_reaches_the_disk() {
    let folder = tempfile::TempDir::new().unwrap();
    let (mut shard, _sender, taken, disk) = shard(folder.path(), &["one"]);
    let [mut writes, mut flushes] = [0, 1].map(|_| connect(&mut shard, 0, &taken[0]));
    let mut ask = |client: &mut UnixStream, command, payload: &[u8]| {
        ask(client, command, payload);
        let reply = receive(&mut shard, client, SimpleReplyHeader::BYTES);
        SimpleReplyHeader::decode(&reply.try_into().unwrap()).unwrap().error
    };
    for fails in [false, true] {
        assert_eq!(ask(&mut writes, Command::Write, &[7; 512]), 0);
        if fails {
            // As somebody else's flush of the same disk does.
            let flushing = disk.begin_flush();
            disk.end_flush(flushing, false);
        }
        let error = ask(&mut flushes, Command::Flush, &[]);
        assert_eq!(error != 0, fails, "a flush of a disk that failed: {fails}, error {error}");
    }
}
