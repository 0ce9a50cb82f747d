//! What of a disk is allocated, and who is told of it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

use lode_nbd::proto::{ChunkHeader, OptionReplyHeader, RequestHeader};
use lode_nbd::{Command, CommandFlags, proto};

use crate::client::connect_socket;
use crate::common::{Daemon, MIB, Numbers, Site, has_tool, lode_ok, pattern};
use crate::tools::run;

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

/// A session that may ask what is allocated.
struct Asker(UnixStream);

impl Asker {
    fn connect(site: &Site, vm: &str) -> Asker {
        let text = |text: &str| [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
        let option = |code: u32, data: &[u8]| {
            [b"IHAVEOPT", &code.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
        };
        let context = [text(vm), 1_u32.to_be_bytes().to_vec(), text(proto::BASE_ALLOCATION)].concat();
        let options = [
            option(proto::OPT_STRUCTURED_REPLY, &[]),
            option(proto::OPT_SET_META_CONTEXT, &context),
            option(proto::OPT_GO, &[text(vm), vec![0; 2]].concat()),
        ];
        let mut stream = connect_socket(&site.path(&format!("{vm}.sock")));
        stream.write_all(&[&[0, 0, 0, 3][..], &options.concat()].concat()).unwrap();
        stream.read_exact(&mut [0; 18]).unwrap();
        loop {
            let mut header = [0; OptionReplyHeader::BYTES];
            stream.read_exact(&mut header).unwrap();
            let header = OptionReplyHeader::decode(&header).unwrap();
            let mut data = vec![0; header.length_bytes as usize];
            stream.read_exact(&mut data).unwrap();
            assert_eq!(header.kind & proto::REP_ERROR_BIT, 0, "{}", String::from_utf8_lossy(&data));
            if header.option == proto::OPT_GO && header.kind == proto::REP_ACK {
                return Asker(stream);
            }
        }
    }

    /// Lengths, and whether they are holes.
    fn extents(&mut self, offset_bytes: u64, length_bytes: u32, flags: u16) -> Vec<(u64, bool)> {
        let command = Command::BlockStatus.code();
        let header = RequestHeader { flags, command, cookie: 3, offset_bytes, length_bytes };
        self.0.write_all(&header.encode()).unwrap();
        let mut chunk = [0; ChunkHeader::BYTES];
        self.0.read_exact(&mut chunk).unwrap();
        let chunk = ChunkHeader::decode(&chunk).unwrap();
        assert_eq!((chunk.flags, chunk.kind), (proto::CHUNK_FLAG_DONE, proto::CHUNK_BLOCK_STATUS));
        let mut data = vec![0; chunk.length_bytes as usize];
        self.0.read_exact(&mut data).unwrap();
        let word = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        let extents = data[4..].chunks(8).map(|one| (u64::from(word(&one[..4])), word(&one[4..]) != 0));
        let extents: Vec<_> = extents.collect();
        assert!(
            extents.iter().map(|one| one.0).sum::<u64>() <= u64::from(length_bytes) && !extents.is_empty()
        );
        extents
    }

    /// Of the whole disk, asked for piece by piece.
    fn holes(&mut self, size_bytes: u64) -> Vec<(u64, u64)> {
        let (mut at, mut holes) = (0, Vec::new());
        while at < size_bytes {
            for (length, is_hole) in self.extents(at, (size_bytes - at) as u32, 0) {
                if is_hole {
                    holes.push((at, length));
                }
                at += length;
            }
        }
        holes
    }
}

#[test]
fn g1_a_hole_is_never_where_something_was_written() {
    const SIZE: u64 = 64 * MIB;
    let site = Site::new();
    let mut model = vec![0; SIZE as usize];
    let mut numbers = Numbers(21);
    for round in 0..6 {
        let daemon = site.serve();
        let mut asker = Asker::connect(&site, "vm1");
        let mut client = daemon.client("vm1");
        if round == 0 {
            assert_eq!(asker.extents(0, SIZE as u32, 0), [(SIZE, true)], "nothing was ever written");
        }
        for version in 0..40 {
            let length = 512 * (1 + numbers.below(1500));
            let offset = 512 * numbers.below((SIZE - length) / 512);
            let range = offset as usize..(offset + length) as usize;
            if version % 4 == 3 {
                client.ask(Command::WriteZeroes, offset, length as u32, false, &[]).unwrap().unwrap();
                model[range].fill(0);
            } else {
                let bytes = pattern(offset, version + 1, length as usize);
                client.write(offset, &bytes);
                model[range].copy_from_slice(&bytes);
            }
            let holes = asker.holes(SIZE);
            for (at, length) in &holes {
                let bytes = &model[*at as usize..(at + length) as usize];
                assert!(bytes.iter().all(|byte| *byte == 0), "round {round}, {length} bytes at {at}");
            }
            let open: u64 = holes.iter().map(|hole| hole.1).sum();
            assert!(round > 0 || open > SIZE / 2, "{open} bytes of holes");
        }
        // At some ends dirty blocks are left on the SSD, at others the backing disk has everything.
        match round % 3 {
            0 => daemon.kill(),
            1 => daemon.stop(),
            _ => daemon.stop_drained(),
        }
    }
    let daemon = site.serve();
    let (mut asker, mut client) = (Asker::connect(&site, "vm1"), daemon.client("vm1"));
    client.ask(Command::WriteZeroes, 0, SIZE as u32, false, &[]).unwrap().unwrap();
    assert_eq!(asker.holes(SIZE), [(0, SIZE)]);
    client.write(MIB, &[1; 4096]);
    let one = asker.extents(0, SIZE as u32, proto::CMD_FLAG_REQ_ONE);
    assert_eq!(one, [(MIB, true)]);
    daemon.stop();
}

/// A disk of 4 GiB with one MiB in it, which only the cache has.
#[test]
fn clients_do_not_read_what_is_empty() {
    if !has_tool("nbdcopy") || !has_tool("qemu-img") {
        return;
    }
    let site = Site::new();
    const SIZE: u64 = 4096 * MIB;
    File::options().write(true).open(site.path("vm1.img")).unwrap().set_len(SIZE).unwrap();
    let daemon = site.serve();
    daemon.client("vm1").write(1024 * MIB, &pattern(0, 1, MIB as usize));
    let map = run("/usr/bin/qemu-img", &["map", "--output=json", "-f", "raw", &site.uri("vm1")]);
    let map: serde_json::Value = serde_json::from_str(&map).unwrap();
    let data: Vec<_> = map.as_array().unwrap().iter().filter(|one| one["data"] == true).collect();
    assert!(data.len() == 1 && data[0]["start"] == 1024 * MIB && data[0]["length"] == MIB, "{map}");
    let copy = site.text("copy.img");
    File::create(&copy).unwrap().set_len(SIZE).unwrap();
    run("/usr/bin/nbdcopy", &[&site.uri("vm1"), &copy]);
    let read = daemon.status()["vms"][0]["counters"]["block_reads"].as_u64().unwrap();
    assert!(read <= 2 * MIB / 4096, "{read} blocks were read");
    let mut bytes = vec![0; MIB as usize];
    let file = File::open(&copy).unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 1024 * MIB).unwrap();
    assert!(bytes == pattern(0, 1, MIB as usize));
    daemon.stop();
}

#[test]
fn zeroes_that_are_read_need_not_be_sent() {
    let site = Site::new();
    let daemon = site.serve();
    let mut client = daemon.client("vm1");
    client.write(8192, &[5; 4096]);
    client.write(16_384, &[6; 512]);
    let mut expected = vec![0; 65_536];
    expected[8192..12_288].fill(5);
    expected[16_384..16_896].fill(6);
    for _ in 0..2 {
        assert!(client.read(0, 65_536) == expected);
        assert!(client.read(512, 16_384) == expected[512..16_896]);
    }
    let header = |flags| {
        let command = Command::Read.code();
        RequestHeader { flags, command, cookie: 9, offset_bytes: 0, length_bytes: 65_536 }.encode()
    };
    let kind_and_length = |stream: &mut UnixStream| {
        let mut chunk = [0; ChunkHeader::BYTES];
        stream.read_exact(&mut chunk).unwrap();
        let chunk = ChunkHeader::decode(&chunk).unwrap();
        stream.read_exact(&mut vec![0; chunk.length_bytes as usize]).unwrap();
        (chunk.kind, chunk.length_bytes)
    };
    client.stream.write_all(&header(0)).unwrap();
    let chunks: Vec<_> = (0..6).map(|_| kind_and_length(&mut client.stream)).collect();
    let (data, hole) = (proto::CHUNK_OFFSET_DATA, proto::CHUNK_OFFSET_HOLE);
    assert_eq!(
        chunks,
        [(hole, 12), (data, 4104), (hole, 12), (data, 4104), (hole, 12), (proto::CHUNK_NONE, 0)]
    );
    // Whoever wants one chunk gets one.
    client.stream.write_all(&header(proto::CMD_FLAG_DF)).unwrap();
    assert_eq!(kind_and_length(&mut client.stream), (data, 65_544));
    daemon.stop();
}
