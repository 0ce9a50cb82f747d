//! What of a disk is allocated, and who is told of it.

use std::os::unix::fs::MetadataExt;

use lode_nbd::{Command, CommandFlags, proto};

use crate::common::{Daemon, MIB, Site, lode_ok, pattern};

fn allocated_bytes(site: &Site) -> u64 {
    std::fs::metadata(site.path("vm1.img")).unwrap().blocks() * 512
}

/// Zeroes a range with these flags, and waits until everything is on the backing disk.
fn zero(site: &Site, daemon: &Daemon<'_>, offset: u64, length: u64, flags: CommandFlags) {
    let mut client = daemon.client("vm1");
    client.send(Command::WriteZeroes, offset, length as u32, flags, &[]).unwrap();
    client.wait().unwrap().1.unwrap();
    client.flush();
    assert!(client.read(offset, length as u32).iter().all(|byte| *byte == 0));
    lode_ok(&["drain", &site.text("test.toml")]);
}

#[test]
fn zeroes_punch_holes_unless_they_are_to_stay_allocated() {
    let site = Site::new();
    let daemon = site.serve();
    let mut client = daemon.client("vm1");
    client.write(0, &pattern(0, 1, 8 * MIB as usize));
    lode_ok(&["drain", &site.text("test.toml")]);
    assert!(allocated_bytes(&site) >= 8 * MIB);
    // Dirty copies in the cache go too, and are not written back later.
    client.write(4 * MIB, &pattern(4 * MIB, 2, MIB as usize));
    zero(&site, &daemon, 4 * MIB, 4 * MIB, CommandFlags::NONE);
    let full = allocated_bytes(&site);
    assert!((4 * MIB..5 * MIB).contains(&full), "{full}");
    zero(&site, &daemon, 0, 2 * MIB, CommandFlags(proto::CMD_FLAG_NO_HOLE));
    assert_eq!(allocated_bytes(&site), full);
    // Zeroes where nothing is take no space.
    zero(&site, &daemon, 16 * MIB, 32 * MIB, CommandFlags::NONE);
    assert_eq!(allocated_bytes(&site), full);
    assert_eq!(client.read(2 * MIB, 2 * MIB as u32), pattern(2 * MIB, 1, 2 * MIB as usize));
    daemon.stop();
}

#[test]
fn status_counts_requests_of_these_kinds() {
    let site = Site::new();
    let daemon = site.serve();
    let mut client = daemon.client("vm1");
    let requests = [
        (Command::Write, CommandFlags::FUA),
        (Command::Write, CommandFlags::NONE),
        (Command::WriteZeroes, CommandFlags::FUA),
        (Command::WriteZeroes, CommandFlags::NONE),
        (Command::Trim, CommandFlags::NONE),
        (Command::Trim, CommandFlags::NONE),
        (Command::Trim, CommandFlags::NONE),
    ];
    for (command, flags) in requests {
        let payload: &[u8] = if command == Command::Write { &[1; 4096] } else { &[] };
        client.send(command, 0, 4096, flags, payload).unwrap();
        client.wait().unwrap().1.unwrap();
    }
    let counted = &daemon.status()["vms"][0]["requests"];
    assert_eq!(*counted, serde_json::json!({ "fua": 2, "trim": 3, "write_zeroes": 2 }));
    let text = lode_ok(&["status", &site.text("test.toml")]);
    assert!(text.contains("vm1: 2 requests with FUA, 3 trims, 2 zeroings"), "{text}");
    assert!(!text.contains("vm2: "), "{text}");
    daemon.stop();
}
