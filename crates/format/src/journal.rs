//! Journal pages: what happened to the places of one volume, in order.
//!
//! A volume's journal is a ring of page *pairs*. Page number `n` runs in pair `n mod pairs`; when it is
//! written again with more records it goes to the other side of its pair, so that the records already
//! durable stay readable whatever happens to the write. Of the two sides the one with more records counts.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::VolumeTag;
use crate::error::{FormatError, Wrong};
use crate::layout::PlaceNo;
use crate::page::{self, CacheId, Head, PAGE_BYTES};

pub(crate) const MAGIC: &[u8; 8] = b"LODEjrnl";
const WHAT: &str = "Journal page";

/// Records of one page.
pub const RECORDS_PER_PAGE: usize = 125;

/// What happened to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// The place holds a copy of a block that equals the backing disk.
    Clean = 1,
    /// The place holds a copy of a block that is newer than the backing disk.
    Dirty = 2,
    /// The place holds nothing.
    Free = 3,
}

/// One journal record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// What happened.
    pub kind: RecordKind,
    /// To which place.
    pub place: PlaceNo,
    /// The block concerned.
    pub block: u64,
    /// Grows with every record of the volume.
    pub version: u64,
    /// Checksum of the block's bytes; 0 for [`RecordKind::Free`].
    pub crc: u32,
}

/// One journal page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalPage {
    /// The volume.
    pub volume: VolumeTag,
    /// The ring this page belongs to (see [`crate::Volume::ring`]).
    pub ring: u64,
    /// Page number, growing without bound.
    pub number: u64,
    /// Pages below this number are no longer needed: the place tables hold what they say.
    pub tail: u64,
    /// Every page up to and including this number was durable when this page was written.
    pub durable_page: u64,
    /// Every record up to and including this version, and the block it speaks of, was durable when this
    /// page was written.
    pub durable_version: u64,
    /// Table pages with a stamp below this version were durable when this page was written; 0 where that is not known.
    pub durable_tables: u64,
    /// The records, in order of version.
    pub records: Vec<Record>,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    head: Head,
    volume: U64,
    ring: U64,
    number: U64,
    tail: U64,
    durable_page: U64,
    durable_version: U64,
    count: U16,
    reserved: [u8; 6],
    /// Zeroes in a page from before it was told.
    durable_tables: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRecord {
    kind: u8,
    reserved: [u8; 3],
    crc: U32,
    place: U32,
    reserved2: [u8; 4],
    block: U64,
    version: U64,
}

const BODY: usize = size_of::<Raw>();
const _: () = assert!(BODY + RECORDS_PER_PAGE * size_of::<RawRecord>() <= PAGE_BYTES);

impl JournalPage {
    /// The page to write.
    ///
    /// # Panics
    /// With more than [`RECORDS_PER_PAGE`] records.
    pub fn encode(&self, cache: CacheId) -> Box<[u8; PAGE_BYTES]> {
        assert!(self.records.len() <= RECORDS_PER_PAGE);
        let mut page = page::start_page(&Raw {
            head: Head::new(MAGIC, cache),
            volume: U64::new(self.volume.0),
            ring: U64::new(self.ring),
            number: U64::new(self.number),
            tail: U64::new(self.tail),
            durable_page: U64::new(self.durable_page),
            durable_version: U64::new(self.durable_version),
            count: U16::new(self.records.len() as u16),
            reserved: [0; 6],
            durable_tables: U64::new(self.durable_tables),
        });
        let body = page[BODY..].chunks_exact_mut(size_of::<RawRecord>());
        for (record, bytes) in self.records.iter().zip(body) {
            let raw = RawRecord {
                kind: record.kind as u8,
                reserved: [0; 3],
                crc: U32::new(record.crc),
                place: U32::new(record.place),
                reserved2: [0; 4],
                block: U64::new(record.block),
                version: U64::new(record.version),
            };
            bytes.copy_from_slice(raw.as_bytes());
        }
        page::seal(&mut page);
        page
    }

    /// Reads a page of this cache, of any volume and ring.
    pub fn decode(cache: CacheId, bytes: &[u8]) -> Result<JournalPage, FormatError> {
        let raw: Raw = page::open(WHAT, MAGIC, Some(cache), bytes)?;
        let wrong = |field| FormatError { what: WHAT, wrong: Wrong::Field(field) };
        let count = raw.count.get() as usize;
        if count > RECORDS_PER_PAGE {
            return Err(wrong("count"));
        }
        let mut records = Vec::with_capacity(count);
        for bytes in bytes[BODY..PAGE_BYTES].chunks_exact(size_of::<RawRecord>()).take(count) {
            let raw = RawRecord::read_from_bytes(bytes).map_err(|_| wrong("record"))?;
            let kind = match raw.kind {
                1 => RecordKind::Clean,
                2 => RecordKind::Dirty,
                3 => RecordKind::Free,
                _ => return Err(wrong("kind")),
            };
            records.push(Record {
                kind,
                place: raw.place.get(),
                block: raw.block.get(),
                version: raw.version.get(),
                crc: raw.crc.get(),
            });
        }
        Ok(JournalPage {
            volume: VolumeTag(raw.volume.get()),
            ring: raw.ring.get(),
            number: raw.number.get(),
            tail: raw.tail.get(),
            durable_page: raw.durable_page.get(),
            durable_version: raw.durable_version.get(),
            durable_tables: raw.durable_tables.get(),
            records,
        })
    }
}
