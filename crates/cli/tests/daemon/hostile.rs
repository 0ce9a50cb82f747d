//! Clients that break rules, dawdle or vanish: they get what they deserve, and others notice nothing.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use lode_nbd::{Command, CommandError, CommandFlags, Request, proto};

use crate::client::connect_socket;
use crate::common::{MIB, Site, pattern};

/// Cookie and error number of the next reply, which must be a structured error.
pub fn raw_error(stream: &mut UnixStream) -> (u64, u32) {
    let mut header = [0; 20];
    stream.read_exact(&mut header).unwrap();
    let length = u32::from_be_bytes(header[16..20].try_into().unwrap()) as usize;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    assert!(header[6] & 0x80 != 0, "an error chunk: {header:?}");
    (u64::from_be_bytes(header[8..16].try_into().unwrap()), u32::from_be_bytes(body[..4].try_into().unwrap()))
}

/// A request on the wire, unchecked, with cookie 9.
pub fn header(command: Command, offset_bytes: u64, length_bytes: u32) -> Vec<u8> {
    let flags = CommandFlags::NONE;
    Request { cookie: 9, offset_bytes, length_bytes, command, flags }.header().encode().to_vec()
}

#[test]
fn requests_against_the_rules_are_refused_one_by_one() {
    let site = Site::new();
    let daemon = site.serve();
    let end = 64 * MIB;
    let wrong = [
        (header(Command::Read, 1, 512), CommandError::Einval),
        (header(Command::Read, 0, 511), CommandError::Einval),
        (header(Command::Read, 0, 0), CommandError::Einval),
        (header(Command::Read, 0, 33 * MIB as u32), CommandError::Einval),
        (header(Command::Read, end, 512), CommandError::Einval),
        (header(Command::Read, u64::MAX - 511, 512), CommandError::Einval),
        (header(Command::Trim, end - 512, 1024), CommandError::Einval),
        (header(Command::WriteZeroes, end - 512, 1024), CommandError::Enospc),
        ([header(Command::Write, end, 512), vec![1; 512]].concat(), CommandError::Enospc),
        ([header(Command::Write, 3, 512), vec![1; 512]].concat(), CommandError::Einval),
        (header(Command::Flush, 512, 0), CommandError::Einval),
    ];
    let mut client = daemon.client("vm1");
    for (bytes, error) in &wrong {
        client.stream.write_all(bytes).unwrap();
        assert_eq!(raw_error(&mut client.stream), (9, error.code()), "{:?}", &bytes[..28]);
    }
    // The same connection goes on.
    client.write(0, &[3; 512]);
    assert_eq!(client.read(0, 512), [3; 512]);
    // What cannot be understood or drained ends the connection.
    for bytes in [vec![0xff; 64], header(Command::Write, 0, u32::MAX)] {
        let mut client = daemon.client("vm1");
        client.stream.write_all(&bytes).unwrap();
        assert_eq!(client.stream.read(&mut [0; 64]).unwrap(), 0, "the daemon hangs up");
    }
    daemon.stop();
}

/// Connections that keep something half done, to be held while others work.
fn nuisances(site: &Site, daemon: &crate::common::Daemon<'_>) -> Vec<UnixStream> {
    let socket = site.path("vm1.sock");
    let mut streams = Vec::new();
    // Handshakes that never end, some with half an option.
    for length in 0..48 {
        let mut stream = connect_socket(&socket);
        let bytes = [&[0, 0, 0, 3][..], b"IHAVEOPT\0\0\0\x07\0\0\x01\0aaaa"].concat();
        stream.write_all(&bytes[..length.min(bytes.len())]).unwrap();
        streams.push(stream);
    }
    // Half a request; half a large write; many large reads whose answers are not taken.
    let half = daemon.client("vm1").stream;
    (&half).write_all(&header(Command::Read, 0, 512)[..13]).unwrap();
    let write = daemon.client("vm1").stream;
    (&write).write_all(&header(Command::Write, 0, 32 * MIB as u32)).unwrap();
    (&write).write_all(&vec![7; 300_000]).unwrap();
    // Zeroes would not be sent.
    daemon.client("vm1").write(32 * MIB, &pattern(32 * MIB, 1, 32 * MIB as usize));
    let reads = daemon.client("vm1").stream;
    reads.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    for _ in 0..2000 {
        if (&reads).write_all(&header(Command::Read, 32 * MIB, 32 * MIB as u32)).is_err() {
            break;
        }
    }
    // Refusals and hints without end, whose answers are not taken.
    let refused = daemon.client("vm1").stream;
    refused.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let many = [header(Command::Read, 1, 1), header(Command::Cache, 0, 512)].concat().repeat(1000);
    for _ in 0..200 {
        if (&refused).write_all(&many).is_err() {
            break;
        }
    }
    streams.extend([half, write, reads, refused]);
    streams
}

#[test]
fn nuisances_do_not_disturb_others() {
    let site = Site::new();
    let daemon = site.serve();
    let mut early = daemon.client("vm1");
    let held = nuisances(&site, &daemon);
    let began = Instant::now();
    let mut late = daemon.client("vm1");
    for round in 0..200 {
        let offset = 4096 * (round % 64) + 8 * MIB;
        early.write(offset, &pattern(offset, round, 4096));
        assert!(late.read(offset, 4096) == pattern(offset, round, 4096));
    }
    late.flush();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let memory = resident_bytes(daemon.child.id());
    assert!(memory < 600 * MIB, "{} MiB are held for clients that take nothing", memory / MIB);
    drop(held);
    // All of their places come back.
    let deadline = Instant::now() + Duration::from_secs(10);
    while daemon.status()["vms"][0]["connections"] != 2 {
        assert!(Instant::now() < deadline, "connections of clients that are gone are kept");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop((early, late));
    daemon.stop();
}

#[test]
fn a_flood_of_options_ends_the_handshake() {
    let site = Site::new();
    let daemon = site.serve();
    let mut flood = connect_socket(&site.path("vm1.sock"));
    flood.write_all(&[0, 0, 0, 3]).unwrap();
    // Unknown options without end; each is refused, until there were too many.
    let option = [&b"IHAVEOPT"[..], &99u32.to_be_bytes(), &0u32.to_be_bytes()].concat().repeat(100);
    let mut reader = flood.try_clone().unwrap();
    let writer = std::thread::spawn(move || (0..10_000).any(|_| flood.write_all(&option).is_err()));
    let mut received = 0;
    let mut buf = [0; 65536];
    loop {
        match reader.read(&mut buf) {
            Ok(0) | Err(_) => break,
            Ok(length) => received += length,
        }
    }
    assert!(writer.join().unwrap(), "the daemon hangs up");
    assert!(received < 1 << 20, "{received}");
    daemon.client("vm1").write(0, &[1; 512]);
    daemon.stop();
}

#[test]
fn the_limit_of_connections_holds() {
    let site = Site::new();
    site.configure("[limits]\nconnections = 3");
    let daemon = site.serve();
    let mut clients: Vec<_> = (0..3).map(|_| daemon.client("vm1")).collect();
    // It is told so, in words, and may go on with its handshake.
    let mut fourth = connect_socket(&site.path("both.sock"));
    let go = |vm: &[u8]| [&b"IHAVEOPT\0\0\0\x07\0\0\0\x09\0\0\0\x03"[..], vm, &[0, 0]].concat();
    fourth.write_all(&[&[0, 0, 0, 3][..], &go(b"vm1")].concat()).unwrap();
    let mut reply = [0; 38];
    fourth.read_exact(&mut reply).unwrap();
    assert_eq!(reply[30..34], proto::REP_ERR_POLICY.to_be_bytes());
    let mut words = vec![0; u32::from_be_bytes(reply[34..].try_into().unwrap()) as usize];
    fourth.read_exact(&mut words).unwrap();
    assert!(words.starts_with(b"Export takes no more connections"), "{words:?}");
    fourth.write_all(&go(b"vm2")).unwrap();
    fourth.read_exact(&mut reply[..20]).unwrap();
    assert_eq!(reply[12..16], proto::REP_INFO.to_be_bytes());
    // `EXPORT_NAME` has no error reply: not a byte of the export comes.
    let mut by_name = connect_socket(&site.path("vm1.sock"));
    by_name.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x03vm1").unwrap();
    let mut greeting = Vec::new();
    assert_eq!(by_name.read_to_end(&mut greeting).unwrap(), 18);
    drop(fourth);
    clients[2].write(0, &[1; 512]);
    daemon.client("vm2").write(0, &[1; 512]);
    clients.pop();
    let deadline = Instant::now() + Duration::from_secs(10);
    while daemon.status()["vms"][0]["connections"] != 2 {
        assert!(Instant::now() < deadline);
    }
    daemon.client("vm1").write(0, &[1; 512]);
    daemon.stop();
}

fn resident_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
