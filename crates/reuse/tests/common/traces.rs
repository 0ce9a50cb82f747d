//! Real traces as accesses to blocks of 4 KiB (or of what unit the trace is in).

use lode_types::Direction::{self, Read, Write};
use std::io::{BufReader, Read as _};
use std::path::Path;

pub type Trace = Vec<(Direction, u64)>;

const SECTORS_A_BLOCK: u64 = 8;

/// One of the traces with more than 100,000 requests, or `None` (and one line) where the real traces are not there.
pub fn trace(name: &str) -> Option<Trace> {
    let folder = lode_testdata::traces()?;
    Some(match name {
        "cloudphysics-2h" => vscsi(&unpacked(&folder, "cloudphysics-2h.vscsi.zst")),
        "cloudphysics-w106" => {
            let bytes = unpacked(&folder, "cloudphysics-w106-lbn.u32le.xz");
            bytes.chunks_exact(4).map(|b| (Read, u64::from(number(b) as u32))).collect()
        }
        "arc-oltp" => lis(&unpacked(&folder, "arc-oltp.lis.zst"), 1),
        "arc-p3" => lis(&unpacked(&folder, "arc-p3.lis.zst"), SECTORS_A_BLOCK),
        "arc-p6" => lis(&unpacked(&folder, "arc-p6.lis.zst"), SECTORS_A_BLOCK),
        _ => panic!("{name} is not among the traces"),
    })
}

fn unpacked(folder: &Path, name: &str) -> Vec<u8> {
    let file = BufReader::new(std::fs::File::open(folder.join(name)).expect("the trace is readable"));
    let mut bytes = Vec::new();
    if name.ends_with(".xz") {
        liblzma::read::XzDecoder::new(file).read_to_end(&mut bytes).expect("the trace is whole");
    } else {
        zstd::stream::read::Decoder::with_buffer(file)
            .and_then(|mut reader| reader.read_to_end(&mut bytes))
            .expect("the trace is whole");
    }
    bytes
}

/// A little-endian number of up to 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// 32-byte records: serial number, bytes, scatter-gather entries, command, version, first sector, time.
fn vscsi(bytes: &[u8]) -> Trace {
    let mut trace = Trace::new();
    for record in bytes.chunks_exact(32) {
        let (len, command, first) = (number(&record[4..8]), number(&record[12..14]), number(&record[16..24]));
        let op = if command == 0x2a { Write } else { Read };
        let end = (first + len.div_ceil(512)).div_ceil(SECTORS_A_BLOCK);
        trace.extend((first / SECTORS_A_BLOCK..end).map(|block| (op, block)));
    }
    trace
}

/// Lines of first unit, number of units and two numbers that say nothing here; no operations.
fn lis(bytes: &[u8], units_a_block: u64) -> Trace {
    let text = std::str::from_utf8(bytes).expect("the trace is text");
    let mut trace = Trace::new();
    for line in text.lines() {
        let mut numbers = line.split_ascii_whitespace().map(|word| word.parse::<u64>().expect("a number"));
        let (Some(first), Some(count)) = (numbers.next(), numbers.next()) else { continue };
        let end = (first + count).div_ceil(units_a_block);
        trace.extend((first / units_a_block..end).map(|block| (Read, block)));
    }
    trace
}
