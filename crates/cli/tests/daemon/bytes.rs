//! Disks whose size is no whole number of sectors, and clients that never ask for block sizes.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use lode_nbd::proto::{RequestHeader, SimpleReplyHeader};
use lode_nbd::{Command, CommandError};

use crate::client::connect_socket;
use crate::common::{MIB, Numbers, Site, pattern};
use crate::hostile::{header, raw_error};

/// A session begun with `NBD_OPT_EXPORT_NAME`, the oldest way, in which nobody speaks of block sizes.
struct OldClient(UnixStream);

impl OldClient {
    fn connect(site: &Site, vm: &str, size_bytes: u64) -> OldClient {
        let mut stream = connect_socket(&site.path(&format!("{vm}.sock")));
        let name = [&b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0"[..], &[vm.len() as u8], vm.as_bytes()].concat();
        stream.write_all(&name).unwrap();
        let mut reply = [0; 28];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[18..26], size_bytes.to_be_bytes());
        OldClient(stream)
    }

    fn ask(&mut self, command: Command, offset_bytes: u64, length_bytes: u32, payload: &[u8]) -> u32 {
        let header =
            RequestHeader { flags: 0, command: command.code(), cookie: 5, offset_bytes, length_bytes };
        self.0.write_all(&[&header.encode(), payload].concat()).unwrap();
        let mut reply = [0; SimpleReplyHeader::BYTES];
        self.0.read_exact(&mut reply).unwrap();
        let SimpleReplyHeader { error, cookie } = SimpleReplyHeader::decode(&reply).unwrap();
        assert_eq!(cookie, 5);
        error
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) {
        assert_eq!(self.ask(Command::Write, offset_bytes, bytes.len() as u32, bytes), 0);
    }

    fn read(&mut self, offset_bytes: u64, length: usize) -> Vec<u8> {
        assert_eq!(self.ask(Command::Read, offset_bytes, length as u32, &[]), 0);
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }
}

/// A site with a third VM, on a disk of so many bytes that hold a pattern, without a cache that could take its writes.
fn with_third_vm(size_bytes: u64, scheme: &str) -> Site {
    let site = Site::new();
    let folder = site.folder.path().display();
    site.configure(&format!(
        "[[vm]]\nname = \"vm3\"\nbacking = {{ path = \"{folder}/vm3.img\" }}\n{scheme}\n\
         listen = [\"unix:{folder}/vm3.sock\"]"
    ));
    fs::write(site.path("vm3.img"), pattern(0, 3, size_bytes as usize)).unwrap();
    site
}

/// Two clients write bytes that lie beside each other in the same sectors, at once: none takes away what the other wrote.
#[test]
fn g1_bytes_beside_each_other_are_all_kept() {
    const SIZE: u64 = 4 * MIB;
    let schemes =
        ["", "ssd = \"1MiB\"\nscheme = \"lru\"\nsettings = { write_policy = \"ro\" }", "ssd = \"1MiB\""];
    for scheme in schemes {
        let site = with_third_vm(SIZE, scheme);
        let daemon = site.serve();
        let clients = [0, 1].map(|_| OldClient::connect(&site, "vm3", SIZE));
        std::thread::scope(|scope| {
            for (parity, mut client) in clients.into_iter().enumerate() {
                scope.spawn(move || {
                    for at in (parity as u64..600).step_by(2) {
                        client.write(7 * 512 + at * 5, &[at as u8; 5]);
                    }
                });
            }
        });
        let mut expected = pattern(0, 3, SIZE as usize);
        (0..600).for_each(|at| expected[7 * 512 + at * 5..][..5].fill(at as u8));
        let mut client = OldClient::connect(&site, "vm3", SIZE);
        assert!(client.read(1, 8191) == expected[1..8192], "{scheme}");
        assert_eq!(client.ask(Command::WriteZeroes, 4097, 12_001, &[]), 0);
        expected[4097..][..12_001].fill(0);
        assert!(client.read(0, 65_536) == expected[..65_536], "{scheme}");
        drop(client);
        daemon.stop_drained();
        assert!(fs::read(site.path("vm3.img")).unwrap() == expected, "{scheme}");
    }
}

#[test]
fn disks_of_any_size_are_served_to_their_last_byte() {
    const SIZE: u64 = MIB + 777;
    for scheme in [
        "",
        "dram = \"1MiB\"\nssd = \"4MiB\"",
        "ssd = \"1MiB\"\nscheme = \"lru\"\nsettings = { write_policy = \"wt\" }",
    ] {
        let site = with_third_vm(SIZE, scheme);
        let mut expected = pattern(0, 3, SIZE as usize);
        let daemon = site.serve();
        let mut client = daemon.client("vm3");
        assert_eq!((client.export.size_bytes, client.export.min_block_bytes), (SIZE, 1));
        assert_eq!(daemon.client("vm1").export.min_block_bytes, 512);
        assert!(client.read(0, SIZE as u32) == expected, "{scheme}");
        let mut numbers = Numbers(3);
        for version in 0..200 {
            let length = 1 + numbers.below(3000);
            let offset = SIZE - length - numbers.below(2) * numbers.below(20_000);
            let bytes = pattern(offset, version, length as usize);
            client.write(offset, &bytes);
            expected[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
            assert!(client.read(offset, (SIZE - offset) as u32) == expected[offset as usize..], "{scheme}");
        }
        let zeroes = 5000;
        client.ask(Command::WriteZeroes, SIZE - zeroes, zeroes as u32, false, &[]).unwrap().unwrap();
        expected[(SIZE - zeroes) as usize..].fill(0);
        client.ask(Command::Trim, SIZE - 1000, 1000, false, &[]).unwrap().unwrap();
        client.write(SIZE - 3, b"end");
        expected[(SIZE - 3) as usize..].copy_from_slice(b"end");
        drop(client);
        daemon.stop();
        let daemon = site.serve();
        assert!(daemon.client("vm3").read(0, SIZE as u32) == expected, "{scheme}, after a restart");
        daemon.stop_drained();
        assert!(fs::read(site.path("vm3.img")).unwrap() == expected, "{scheme}, on the disk");
    }
}

#[test]
fn who_asks_for_block_sizes_keeps_to_them() {
    let site = Site::new();
    let daemon = site.serve();
    let mut old = OldClient::connect(&site, "vm1", 64 * MIB);
    old.write(64 * MIB - 1, b"x");
    assert_eq!(old.read(64 * MIB - 1, 1), b"x");
    assert_eq!(old.ask(Command::Read, 64 * MIB - 1, 2, &[]), CommandError::Einval.code());
    let mut stream = daemon.client("vm1").stream;
    stream.write_all(&header(Command::Read, 1, 1)).unwrap();
    assert_eq!(raw_error(&mut stream).1, CommandError::Einval.code());
    daemon.stop();
}
