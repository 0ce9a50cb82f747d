//! The record buffer: a volume's latest journal records, in memory that outlives the process that writes it.
//!
//! One header page, then one fixed-width cell a record; the record of version `v` is in cell `v mod cells`, so that a
//! writer needs no cursor and a reader no order. The header names the boot of the host, the cache, the epoch and the
//! volume's journal ring: after a reboot, a later start or an exchange of the device nothing of it is believed. Every
//! record carries a checksum that begins with the header's own, because the writer may die in the middle of one.
//!
//! A version for which the journal has no record (a copy that it is not to know yet) has an empty record here: every
//! version has its cell.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use lode_types::planted;

use crate::checksum::VolumeTag;
use crate::error::{FormatError, Wrong};
use crate::journal::{Record, RecordKind};
use crate::page::{self, CacheId, Head, PAGE_BYTES};

pub(crate) const MAGIC: &[u8; 8] = b"LODErbuf";
const WHAT: &str = "Record buffer";

/// Bytes of one record.
pub const BUFFERED_RECORD_BYTES: usize = size_of::<RawRecord>();

/// Most records of one buffer.
const MOST_CELLS: u32 = 1 << 24;

/// One run of the host's kernel, from its start to its end.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(transparent)]
pub struct BootId(pub [u8; 16]);

/// What a record buffer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordBufferHeader {
    /// The cache.
    pub cache: CacheId,
    /// The host's boot.
    pub boot: BootId,
    /// The volume.
    pub volume: VolumeTag,
    /// The volume's journal ring (see [`crate::Volume::ring`]): every start begins a new one.
    pub ring: u64,
    /// The cache's epoch when the buffer was made.
    pub epoch: u64,
    /// The buffer begins after this version: the SSD has everything up to it.
    pub after: u64,
    /// Room for so many records.
    pub cells: u32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    head: Head,
    boot: BootId,
    volume: U64,
    ring: U64,
    epoch: U64,
    after: U64,
    cells: U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRecord {
    kind: u8,
    reserved: [u8; 3],
    check: U32,
    crc: U32,
    place: U32,
    block: U64,
    version: U64,
}

/// What a buffer holds for one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffered {
    /// A record of the journal.
    Record(Record),
    /// The journal has no record of this version.
    Empty {
        /// The version.
        version: u64,
    },
}

impl Buffered {
    /// Its version.
    pub fn version(&self) -> u64 {
        match *self {
            Buffered::Record(Record { version, .. }) | Buffered::Empty { version } => version,
        }
    }
}

/// What was found in a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRecords {
    /// In ascending order of their versions, each of which is there once.
    pub records: Vec<Buffered>,
    /// Slots that do not hold the record that was put there, but for the one after the latest record: the writer may have
    /// died there.
    pub damaged: u32,
}

impl RecordBufferHeader {
    /// Bytes of the whole buffer.
    pub fn bytes(cells: u32) -> usize {
        PAGE_BYTES + cells as usize * BUFFERED_RECORD_BYTES
    }

    /// Where the record of a version is.
    pub fn offset(cells: u32, version: u64) -> usize {
        PAGE_BYTES + (version % u64::from(cells)) as usize * BUFFERED_RECORD_BYTES
    }

    /// The page at the front, and the seed of the records' checksums.
    pub fn encode(&self) -> (Box<[u8; PAGE_BYTES]>, u32) {
        let mut page = page::start_page(&Raw {
            head: Head::new(MAGIC, self.cache),
            boot: self.boot,
            volume: U64::new(self.volume.0),
            ring: U64::new(self.ring),
            epoch: U64::new(self.epoch),
            after: U64::new(self.after),
            cells: U32::new(self.cells),
        });
        page::seal(&mut page);
        let seed = crc32c::crc32c(&page[..]);
        (page, seed)
    }

    /// Reads the page at the front of a buffer.
    pub fn decode(bytes: &[u8]) -> Result<RecordBufferHeader, FormatError> {
        let raw: Raw = page::open(WHAT, MAGIC, None, bytes)?;
        let cells = raw.cells.get();
        if cells == 0 || cells > MOST_CELLS {
            return Err(FormatError { what: WHAT, wrong: Wrong::Field("cells") });
        }
        Ok(RecordBufferHeader {
            cache: raw.head.cache,
            boot: raw.boot,
            volume: VolumeTag(raw.volume.get()),
            ring: raw.ring.get(),
            epoch: raw.epoch.get(),
            after: raw.after.get(),
            cells,
        })
    }

    /// Reads the records behind the page.
    pub fn records(&self, bytes: &[u8]) -> Result<FoundRecords, FormatError> {
        if bytes.len() != RecordBufferHeader::bytes(self.cells) {
            return Err(FormatError { what: WHAT, wrong: Wrong::Length });
        }
        let seed = crc32c::crc32c(&bytes[..PAGE_BYTES]);
        let (mut records, mut damaged, mut empty) = (Vec::new(), Vec::new(), Vec::new());
        for (cell, bytes) in (0..).zip(bytes[PAGE_BYTES..].chunks_exact(BUFFERED_RECORD_BYTES)) {
            match decode_record(seed, bytes) {
                Some(record) if record.version() % u64::from(self.cells) == cell => records.push(record),
                _ if bytes.iter().any(|&byte| byte != 0) => damaged.push(cell),
                _ => empty.push(cell),
            }
        }
        records.sort_unstable_by_key(Buffered::version);
        let last = records.last().map(Buffered::version);
        let next_cell = last.map(|last| last.wrapping_add(1) % u64::from(self.cells));
        damaged.extend(empty.into_iter().filter(|&cell| last.is_some_and(|last| self.was_put(cell, last))));
        let torn = damaged.iter().copied().find(|&cell| next_cell.is_none_or(|next| next == cell));
        damaged.retain(|&cell| Some(cell) != torn);
        Ok(FoundRecords { records, damaged: damaged.len() as u32 })
    }
}

impl RecordBufferHeader {
    /// Whether a record was put into a cell before that of version `last` was: versions come one after the other, and those
    /// that were left out for want of room came after all cells had been written to.
    fn was_put(&self, cell: u64, last: u64) -> bool {
        let cells = u64::from(self.cells);
        let back = (last % cells + cells - cell) % cells;
        last.checked_sub(back).is_some_and(|version| version > self.after)
    }
}

/// The bytes of a record in a buffer whose header gave this seed.
pub fn encode_buffered(seed: u32, buffered: &Buffered) -> [u8; BUFFERED_RECORD_BYTES] {
    let (kind, record) = match *buffered {
        Buffered::Record(record) => (record.kind as u8, record),
        Buffered::Empty { version } => {
            (0, Record { kind: RecordKind::Free, place: 0, block: 0, version, crc: 0 })
        }
    };
    let mut raw = RawRecord {
        kind,
        reserved: [0; 3],
        check: U32::new(0),
        crc: U32::new(record.crc),
        place: U32::new(record.place),
        block: U64::new(record.block),
        version: U64::new(record.version),
    };
    raw.check = U32::new(crc32c::crc32c_append(seed, raw.as_bytes()));
    let mut bytes = [0; BUFFERED_RECORD_BYTES];
    bytes.copy_from_slice(raw.as_bytes());
    bytes
}

fn decode_record(seed: u32, bytes: &[u8]) -> Option<Buffered> {
    let mut raw = RawRecord::read_from_bytes(bytes).ok()?;
    let check = std::mem::replace(&mut raw.check, U32::new(0));
    if crc32c::crc32c_append(seed, raw.as_bytes()) != check.get() && !planted("torn-record-believed") {
        return None;
    }
    let version = raw.version.get();
    let kind = match raw.kind {
        0 => return Some(Buffered::Empty { version }),
        1 => RecordKind::Clean,
        2 => RecordKind::Dirty,
        3 => RecordKind::Free,
        _ => return None,
    };
    let (place, block, crc) = (raw.place.get(), raw.block.get(), raw.crc.get());
    Some(Buffered::Record(Record { kind, place, block, version, crc }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> RecordBufferHeader {
        let (cache, boot) = (CacheId([1; 16]), BootId([2; 16]));
        RecordBufferHeader { cache, boot, volume: VolumeTag(3), ring: 4, epoch: 5, after: 0, cells: 8 }
    }

    fn record(version: u64) -> Buffered {
        Buffered::Record(Record { kind: RecordKind::Dirty, place: 9, block: 7 + version, version, crc: 11 })
    }

    fn buffer(header: &RecordBufferHeader, records: &[Buffered]) -> Vec<u8> {
        let (page, seed) = header.encode();
        let mut bytes = vec![0; RecordBufferHeader::bytes(header.cells)];
        bytes[..PAGE_BYTES].copy_from_slice(&page[..]);
        for record in records {
            let at = RecordBufferHeader::offset(header.cells, record.version());
            bytes[at..at + BUFFERED_RECORD_BYTES].copy_from_slice(&encode_buffered(seed, record));
        }
        bytes
    }

    #[test]
    fn records_come_back_in_the_order_of_their_versions() {
        let header = header();
        let written: Vec<Buffered> = (0..12)
            .map(|version| if version % 5 == 0 { Buffered::Empty { version } } else { record(version) })
            .collect();
        let bytes = buffer(&header, &written);
        assert_eq!(RecordBufferHeader::decode(&bytes), Ok(header));
        assert_eq!(header.records(&bytes), Ok(FoundRecords { records: written[4..].to_vec(), damaged: 0 }));
        assert!(header.records(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn a_record_of_another_buffer_or_slot_and_a_torn_one_are_damaged() {
        let header = header();
        let mut bytes = buffer(&header, &[record(1), record(2)]);
        let at = RecordBufferHeader::offset(header.cells, 2);
        bytes[at + 20] ^= 1;
        // The writer may have died there; it cannot have died in the middle of an older one.
        let found = header.records(&bytes).unwrap();
        assert_eq!(found, FoundRecords { records: vec![record(1)], damaged: 0 });
        let mut bytes = buffer(&header, &[record(1), record(2)]);
        bytes[RecordBufferHeader::offset(header.cells, 1) + 20] ^= 1;
        let found = header.records(&bytes).unwrap();
        assert_eq!(found, FoundRecords { records: vec![record(2)], damaged: 1 });
        let later = RecordBufferHeader { epoch: 6, ..header };
        let other = buffer(&later, &[record(1), record(2)]);
        bytes[PAGE_BYTES..].copy_from_slice(&other[PAGE_BYTES..]);
        assert_eq!(header.records(&bytes).unwrap(), FoundRecords { records: vec![], damaged: 1 });
        let mut moved = buffer(&header, &[record(1)]);
        moved.copy_within(PAGE_BYTES + 32..PAGE_BYTES + 64, PAGE_BYTES + 96);
        assert_eq!(header.records(&moved).unwrap().damaged, 1);
    }

    #[test]
    fn a_stretch_of_zeroes_before_the_latest_record_is_damaged() {
        let header = RecordBufferHeader { after: 5, ..header() };
        let versions = 6..=11;
        let whole: Vec<Buffered> = versions.map(record).collect();
        assert_eq!(header.records(&buffer(&header, &whole)).unwrap().damaged, 0, "two were never put");
        let found = header.records(&buffer(&header, &[record(6), record(10), record(11)])).unwrap();
        assert_eq!((found.records.len(), found.damaged), (3, 3));
        // What is missing at the end cannot be told from what never came.
        assert_eq!(header.records(&buffer(&header, &whole[..3])).unwrap().damaged, 0);
        let wrapped: Vec<Buffered> = (7..=19).filter(|version| *version != 15).map(record).collect();
        assert_eq!(
            header.records(&buffer(&header, &wrapped)).unwrap().damaged,
            0,
            "the one before it is there"
        );
        let wrapped: Vec<Buffered> = (12..=19).filter(|version| *version != 15).map(record).collect();
        assert_eq!(header.records(&buffer(&header, &wrapped)).unwrap().damaged, 1);
    }

    #[test]
    fn a_buffer_of_another_version_is_refused_by_its_name() {
        let mut bytes = buffer(&header(), &[record(1)]);
        let page: &mut [u8; PAGE_BYTES] = (&mut bytes[..PAGE_BYTES]).try_into().unwrap();
        // Behind the magic number and the checksum.
        let at = 12;
        page[at..at + 4].copy_from_slice(&(crate::FORMAT_VERSION + 1).to_le_bytes());
        page::seal(page);
        let refusal = RecordBufferHeader::decode(&bytes).unwrap_err();
        assert_eq!(
            refusal.wrong,
            Wrong::Version { version: crate::FORMAT_VERSION + 1, cache: header().cache }
        );
    }
}
