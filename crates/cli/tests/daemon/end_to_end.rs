//! What a well-behaved guest sees.

use std::io::Write;

use lode_nbd::{Command, CommandError, CommandFlags};

use crate::client::Client;
use crate::common::{MIB, Numbers, Site, pattern};
use crate::hostile::{header, raw_error};

#[test]
fn reads_return_what_was_written_through_any_connection() {
    let site = Site::new();
    let daemon = site.serve();
    // Structured and simple replies, two VMs, two connections to one of them.
    let mut one = daemon.client("vm1");
    let mut two = Client::connect(&site.path("both.sock"), "vm1", false);
    let mut other = Client::connect(&site.path("both.sock"), "vm2", true);
    assert_eq!(one.export.size_bytes, 64 * MIB);
    let mut numbers = Numbers(7);
    let mut model = vec![0; 64 * MIB as usize];
    for version in 1..300 {
        let length = 512 * (1 + numbers.below(if version % 50 == 0 { 4000 } else { 40 })) as usize;
        let offset = 512 * numbers.below((model.len() - length) as u64 / 512);
        let bytes = pattern(offset, version, length);
        let writer = if version % 2 == 0 { &mut one } else { &mut two };
        let range = offset as usize..offset as usize + length;
        match version % 10 {
            8 => {
                writer.ask(Command::WriteZeroes, offset, length as u32, false, &[]).unwrap().unwrap();
                model[range.clone()].fill(0);
            }
            9 => {
                writer.ask(Command::Write, offset, length as u32, true, &bytes).unwrap().unwrap();
                model[range.clone()].copy_from_slice(&bytes);
            }
            _ => {
                writer.write(offset, &bytes);
                model[range.clone()].copy_from_slice(&bytes);
            }
        }
        let reader = if version % 3 == 0 { &mut one } else { &mut two };
        assert!(reader.read(offset, length as u32) == model[range], "version {version} at {offset}");
    }
    // The largest request there is, at an odd place, in both kinds of replies.
    let (offset, length) = (512 * 7, 32 * MIB as usize);
    let bytes = pattern(offset, 1000, length);
    one.write(offset, &bytes);
    assert!(two.read(offset, length as u32) == bytes);
    assert!(one.read(offset, length as u32) == bytes);
    assert!(other.read(0, 32 * MIB as u32).iter().all(|byte| *byte == 0), "VMs share nothing");
    daemon.stop();
}

#[test]
fn many_requests_at_once_are_all_answered() {
    let site = Site::new();
    let daemon = site.serve();
    let mut client = daemon.client("vm1");
    for block in 0..256 {
        client.write(block * 4096, &pattern(block * 4096, 1, 4096));
    }
    let mut expected = std::collections::HashMap::new();
    let mut numbers = Numbers(11);
    for _ in 0..2000 {
        let offset = 4096 * numbers.below(256);
        let cookie = client.send(Command::Read, offset, 4096, CommandFlags::NONE, &[]).unwrap();
        expected.insert(cookie, offset);
    }
    while !expected.is_empty() {
        let (cookie, result) = client.wait().unwrap();
        let offset = expected.remove(&cookie).expect("an answer is given once");
        assert!(result.unwrap() == pattern(offset, 1, 4096));
    }
    // More than may be in flight at once.
    let sizes = [32 * MIB as u32; 4];
    for size in sizes {
        client.send(Command::Read, 0, size, CommandFlags::NONE, &[]).unwrap();
    }
    for _ in sizes {
        assert!(client.wait().unwrap().1.is_ok());
    }
    daemon.stop();
}

#[test]
fn status_tells_what_happened() {
    let site = Site::new();
    let daemon = site.serve();
    let mut client = daemon.client("vm1");
    client.write(0, &[1; 8192]);
    client.read(0, 8192);
    client.flush();
    let status = daemon.status();
    let vm = &status["vms"][0];
    assert_eq!(status["cache"]["epoch"], 1);
    assert!(status["pool_bytes"].as_u64().unwrap() >= 8192);
    assert_eq!((&vm["name"], &status["vms"][1]["name"]), (&"vm1".into(), &"vm2".into()));
    assert_eq!(vm["connections"], 1);
    let counters = &vm["counters"];
    assert_eq!((&counters["requests"], &counters["block_accesses"]), (&2.into(), &4.into()));
    assert_eq!((&counters["block_writes"], &counters["ssd_writes"]["total"]), (&2.into(), &2.into()));
    assert_eq!(counters["read_hits"]["ssd"], 2);
    for (kind, count) in [("write", 1), ("flush", 1)] {
        assert_eq!(vm["latency"][kind]["count"], count, "{kind}");
        assert!(vm["latency"][kind]["max_us"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(vm["alarms"]["failed"], false);
    daemon.stop();
}

#[test]
fn a_clean_stop_keeps_the_cache_warm() {
    let site = Site::new();
    let daemon = site.serve();
    let mut client = daemon.client("vm1");
    let bytes = pattern(0, 3, 8 * MIB as usize);
    client.write(0, &bytes);
    // Not even flushed: the stop sees to it.
    daemon.stop();
    let daemon = site.serve();
    let mut client = daemon.client("vm1");
    assert!(client.read(0, 8 * MIB as u32) == bytes);
    let status = daemon.status();
    let counters = &status["vms"][0]["counters"];
    assert_eq!(status["cache"]["epoch"], 2);
    assert_eq!((&counters["read_hits"]["ssd"], &counters["read_misses"]), (&2048.into(), &0.into()));
    daemon.stop();
}

#[test]
fn a_signal_stops_it_cleanly_with_requests_in_flight() {
    let site = Site::new();
    let mut daemon = site.serve();
    let mut client = daemon.client("vm1");
    client.write(0, &[5; 4096]);
    for _ in 0..100 {
        client.send(Command::Read, 0, 4096, CommandFlags::NONE, &[]).unwrap();
    }
    daemon.check_counts();
    let pid = daemon.child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    daemon.wait_for_end();
    // Whatever was answered was answered rightly.
    while let Some((_, answer)) = client.wait() {
        assert!(answer.unwrap() == [5; 4096]);
    }
    assert!(!site.path("vm1.sock").exists(), "a clean stop takes its sockets away");
}

#[test]
fn a_read_only_export_refuses_writes() {
    let site = Site::new();
    let folder = site.folder.path().display().to_string();
    site.configure(&format!(
        "[[vm]]\nname = \"ro\"\nbacking = {{ path = \"{folder}/ro.img\" }}\ndram = \"1MiB\"\nread_only = true\n\
         listen = [\"unix:{folder}/ro.sock\"]"
    ));
    std::fs::write(site.path("ro.img"), pattern(0, 9, MIB as usize)).unwrap();
    let daemon = site.serve();
    let mut client = daemon.client("ro");
    assert!(client.export.read_only());
    assert!(client.read(4096, 8192) == pattern(4096, 9, 8192));
    // Past the client's own check.
    for command in [Command::Write, Command::WriteZeroes, Command::Trim] {
        let mut request = header(command, 0, 512);
        if command == Command::Write {
            request.extend_from_slice(&[1; 512]);
        }
        client.stream.write_all(&request).unwrap();
        assert_eq!(raw_error(&mut client.stream).1, CommandError::Eperm.code(), "{command:?}");
    }
    assert!(client.read(0, 512) == pattern(0, 9, 512));
    daemon.stop();
}

#[test]
fn threads_instead_of_io_uring_and_tcp_instead_of_unix_sockets_serve_as_well() {
    let site = Site::new();
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let path = site.path("test.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replacen("shards = 2", "shards = 1\nio = \"threads\"", 1);
    let text = text.replacen("listen = [", &format!("listen = [\"tcp:127.0.0.1:{port}\", "), 1);
    std::fs::write(&path, text).unwrap();
    let daemon = site.serve();
    let mut local = daemon.client("vm1");
    let mut remote = Client::connect_tcp(port, "vm1");
    for round in 0..50 {
        let (offset, length) = (round * 3 * 512, 4096 * (1 + round as usize * 5));
        local.write(offset, &pattern(offset, round, length));
        assert!(remote.read(offset, length as u32) == pattern(offset, round, length));
    }
    remote.flush();
    assert_eq!(daemon.status()["vms"][0]["connections"], 2);
    daemon.stop();
}
