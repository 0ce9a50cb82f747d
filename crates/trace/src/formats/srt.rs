//! HP's disk traces in SRT format 1.3, as Ruemmler and Wilkes's (hplajw, cello) come with DiskSim: a text header up to
//! byte 0x0C, then records of 56 bytes.
//!
//! A record is 14 big-endian `u32`: its own size, id, enqueue time (s, then us), start and stop (us after it), size
//! (bytes), sector, device, driver, cylinder, flags, info, queue length. The time is that of the enqueueing, from the
//! trace's start. The size of a sector is what the header says of every disk. Bits 8 to 15 of the device are the disk:
//! each is a volume, under its number. Bit 0 of the flags is a read, else it is a write.

use lode_types::{RequestOp, TraceRequest};
use memchr::memmem;

use super::fields::units;
use super::{Decoder, Format};
use crate::compact::Recorded;
use crate::error::{ErrorKind, Fault, Position, TraceError};
use crate::feed::{Feed, More, Parsed};
use crate::limits::MAX_SRT_HEADER_BYTES;
use crate::scan::Fields;
use crate::volumes::VolumeTable;

pub(crate) static FORMAT: Format = Format {
    name: "srt",
    about: "HP SRT 1.3 binary: text header, then 56-byte big-endian records",
    endings: &["srt"],
    default_unit_bytes: None,
    units_told: true,
    recorded: |_| Recorded::TIMES,
    detect: |head| head.starts_with(MAGIC),
    decoder: |_| Box::new(Srt { sector_bytes: None }),
};

const MAGIC: &[u8] = b"$$TR_IOREC-";
const VERSION: &[u8] = b"1.3 ";
const HEADER_END: u8 = 0x0c;
const RECORD_BYTES: usize = 56;
const SECTOR_SIZE: &[u8] = b"sectorsize";
/// Sectors are a power of two from here to [`MAX_SECTOR_BYTES`].
const MIN_SECTOR_BYTES: u64 = 128;
const MAX_SECTOR_BYTES: u64 = 65_536;

const NO_MAGIC: Fault = Fault::malformed("a header that starts with $$TR_IOREC-");
const BAD_VERSION: Fault = Fault::new(ErrorKind::Version, "version 1.3 of the SRT format");
const LONG_HEADER: Fault =
    Fault::new(ErrorKind::Limit, "a header of at most 64 KiB that ends with byte 0x0C");
const SECTORS: Fault = Fault::malformed(
    "\"sectorsize = N\" in the header, the same power of two from 128 to 65,536 for all disks",
);
const CUT: Fault = Fault::new(ErrorKind::Truncated, "whole records of 56 bytes up to the end");
const SIZE: Fault = Fault::malformed("56 as the size of the record in its first four bytes");
const MICROSECONDS: Fault = Fault::malformed("less than 1,000,000 microseconds at byte 12 of the record");

struct Srt {
    sector_bytes: Option<u64>,
}

impl Decoder for Srt {
    fn decode(&mut self, feed: &mut Feed, out: &mut Vec<TraceRequest>) -> Result<More, TraceError> {
        let sector_bytes = match self.sector_bytes {
            Some(bytes) => bytes,
            None => {
                let start = Position::at_byte(feed.input.offset());
                let bytes = read_header(feed)?.map_err(|fault| feed.fatal(fault, start))?;
                *self.sector_bytes.insert(bytes)
            }
        };
        feed.records(out, CUT, |record, volumes| parse(record, sector_bytes, volumes))
    }
}

/// Passes over the header, and gives the size of a sector that it states.
fn read_header(feed: &mut Feed) -> Result<Result<u64, Fault>, TraceError> {
    feed.need(MAX_SRT_HEADER_BYTES)?;
    let head = feed.input.available();
    let head = &head[..head.len().min(MAX_SRT_HEADER_BYTES)];
    let Some(version) = head.strip_prefix(MAGIC) else { return Ok(Err(NO_MAGIC)) };
    if !version.starts_with(VERSION) {
        return Ok(Err(BAD_VERSION));
    }
    let Some(end) = memchr::memchr(HEADER_END, head) else { return Ok(Err(LONG_HEADER)) };
    let sector_bytes = sector_size(&head[..end]);
    feed.input.consume(end + 1);
    Ok(sector_bytes)
}

fn sector_size(header: &[u8]) -> Result<u64, Fault> {
    let mut sizes = memmem::find_iter(header, SECTOR_SIZE).map(|at| {
        let mut fields = Fields::new(header[at + SECTOR_SIZE.len()..].trim_ascii_start());
        fields.skip(b'=')?;
        fields.rest = fields.rest.trim_ascii_start();
        fields.number()
    });
    let first = sizes.next().flatten().ok_or(SECTORS)?;
    let fits = first.is_power_of_two() && (MIN_SECTOR_BYTES..=MAX_SECTOR_BYTES).contains(&first);
    if fits && sizes.all(|size| size == Some(first)) { Ok(first) } else { Err(SECTORS) }
}

fn parse(record: &[u8; RECORD_BYTES], sector_bytes: u64, volumes: &mut VolumeTable) -> Result<Parsed, Fault> {
    let word = |index: usize| {
        let at = 4 * index;
        u32::from_be_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
    };
    if word(0) as usize != RECORD_BYTES {
        return Err(SIZE);
    }
    let (seconds, microseconds) = (u64::from(word(2)), u64::from(word(3)));
    if microseconds >= 1_000_000 {
        return Err(MICROSECONDS);
    }
    let (offset_bytes, _) = units(word(7).into(), 0, sector_bytes)?;
    let disk = (word(8) >> 8) as u8;
    let volume = volumes.lookup(&[disk], |disk| disk[0].to_string().into_bytes())?;
    let op = if word(11) & 1 == 1 { RequestOp::Read } else { RequestOp::Write };
    // Both parts together are less than 2^32 seconds.
    let time_ns = (seconds * 1_000_000 + microseconds) * 1000;
    Ok(Parsed::request(time_ns, op, (offset_bytes, word(6)), volume))
}
