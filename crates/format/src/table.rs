//! Place tables: the state of an extent's places as of a checkpoint. Each page has two copies, written in
//! turn; the valid one with the higher sequence counts.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::VolumeTag;
use crate::error::{FormatError, Wrong};
use crate::page::{self, CacheId, Head, PAGE_BYTES};

pub(crate) const MAGIC: &[u8; 8] = b"LODEslot";
const WHAT: &str = "Place table";

/// Places that one page describes.
pub const ENTRIES_PER_PAGE: usize = 166;

/// What a place holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EntryState {
    /// Nothing.
    #[default]
    Free,
    /// A copy that equals the backing disk.
    Clean,
    /// A copy newer than the backing disk.
    Dirty,
}

/// What a place table says of one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TableEntry {
    /// What it holds. The other fields mean nothing when it is free.
    pub state: EntryState,
    /// The block.
    pub block: u64,
    /// Version of the record that put it there.
    pub version: u64,
    /// Checksum of the block's bytes.
    pub crc: u32,
}

/// One page of an extent's place table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePage {
    /// The volume that owns the extent.
    pub volume: VolumeTag,
    /// The extent.
    pub extent: u32,
    /// Which page of the extent's table.
    pub page: u32,
    /// Grows with every write of this page.
    pub sequence: u64,
    /// Every record up to this version is reflected here.
    pub stamp: u64,
    /// The places, [`ENTRIES_PER_PAGE`] of them, the last page of an extent padded with free ones.
    pub entries: Vec<TableEntry>,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    head: Head,
    volume: U64,
    sequence: U64,
    stamp: U64,
    extent: U32,
    page: U32,
    reserved: [u8; 16],
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    block: U64,
    version: U64,
    crc: U32,
    state: U16,
    reserved: U16,
}

const BODY: usize = size_of::<Raw>();
/// The entries of a page that says nothing of any place.
static NOTHING: [u8; ENTRIES_PER_PAGE * size_of::<RawEntry>()] =
    [0; ENTRIES_PER_PAGE * size_of::<RawEntry>()];
const _: () = assert!(BODY + ENTRIES_PER_PAGE * size_of::<RawEntry>() <= PAGE_BYTES);

impl TablePage {
    /// A page of free places.
    pub fn empty(volume: VolumeTag, extent: u32, page: u32, sequence: u64) -> TablePage {
        TablePage {
            volume,
            extent,
            page,
            sequence,
            stamp: 0,
            entries: vec![TableEntry::default(); ENTRIES_PER_PAGE],
        }
    }

    /// The copy that this sequence is written to.
    pub fn copy(&self) -> u8 {
        (self.sequence & 1) as u8
    }

    /// The page to write.
    ///
    /// # Panics
    /// With more than [`ENTRIES_PER_PAGE`] entries.
    pub fn encode(&self, cache: CacheId) -> Box<[u8; PAGE_BYTES]> {
        assert!(self.entries.len() <= ENTRIES_PER_PAGE);
        let mut page = page::start_page(&Raw {
            head: Head::new(MAGIC, cache),
            volume: U64::new(self.volume.0),
            sequence: U64::new(self.sequence),
            stamp: U64::new(self.stamp),
            extent: U32::new(self.extent),
            page: U32::new(self.page),
            reserved: [0; 16],
        });
        let body = page[BODY..].chunks_exact_mut(size_of::<RawEntry>());
        for (entry, bytes) in self.entries.iter().zip(body) {
            let raw = RawEntry {
                block: U64::new(entry.block),
                version: U64::new(entry.version),
                crc: U32::new(entry.crc),
                state: U16::new(entry.state as u16),
                reserved: U16::new(0),
            };
            bytes.copy_from_slice(raw.as_bytes());
        }
        page::seal(&mut page);
        page
    }

    /// Reads a page and checks that it is the one expected at this place.
    pub fn decode(
        cache: CacheId,
        volume: VolumeTag,
        extent: u32,
        page: u32,
        bytes: &[u8],
    ) -> Result<TablePage, FormatError> {
        let view = TableView::open(cache, volume, extent, page, bytes)?;
        let TableView { sequence, stamp, .. } = view;
        let entries = (0..ENTRIES_PER_PAGE).map(|at| view.entry(at)).collect();
        Ok(TablePage { volume, extent, page, sequence, stamp, entries })
    }
}

/// A page of a place table that was read and checked, for whoever looks at many of them: nothing is copied.
#[derive(Clone, Copy, Debug)]
pub struct TableView<'a> {
    /// As in [`TablePage`].
    pub sequence: u64,
    /// As in [`TablePage`].
    pub stamp: u64,
    /// Of the whole page ([`page_checksum`](crate::page_checksum)).
    pub checksum: u32,
    entries: &'a [RawEntry],
    is_empty: bool,
}

impl<'a> TableView<'a> {
    /// Whether it is the copy that its sequence is written to.
    pub fn is_copy(&self, copy: u8) -> bool {
        (self.sequence & 1) as u8 == copy
    }

    /// Checks that these bytes are the page expected at this place.
    pub fn open(
        cache: CacheId,
        volume: VolumeTag,
        extent: u32,
        page: u32,
        bytes: &'a [u8],
    ) -> Result<TableView<'a>, FormatError> {
        let raw: Raw = page::open(WHAT, MAGIC, Some(cache), bytes)?;
        let wrong = |field| FormatError { what: WHAT, wrong: Wrong::Field(field) };
        if raw.volume.get() != volume.0 {
            return Err(wrong("volume"));
        }
        if raw.extent.get() != extent || raw.page.get() != page {
            return Err(wrong("place"));
        }
        let entries = &bytes[BODY..BODY + ENTRIES_PER_PAGE * size_of::<RawEntry>()];
        let is_empty = entries == &NOTHING[..];
        let entries = <[RawEntry]>::ref_from_bytes(entries).expect("the slice is as long as so many entries");
        if !is_empty && entries.iter().any(|entry| state(entry.state.get()).is_none()) {
            return Err(wrong("state"));
        }
        let (sequence, stamp, checksum) = (raw.sequence.get(), raw.stamp.get(), raw.head.checksum());
        Ok(TableView { sequence, stamp, checksum, entries, is_empty })
    }

    /// Whether all places are free, and nothing else is said of them.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Whether the bytes of a page, whole or not, say anything of any place.
    pub fn may_hold(bytes: &[u8]) -> bool {
        bytes.get(BODY..BODY + NOTHING.len()) != Some(&NOTHING[..])
    }

    /// Whether another page has the very same entries. Where it has not they may still mean the same.
    pub fn has_entries_of(&self, other: &TableView<'_>) -> bool {
        self.entries.as_bytes() == other.entries.as_bytes()
    }

    /// The latest version that it speaks of.
    pub fn latest_version(&self) -> u64 {
        self.entries.iter().fold(0, |latest, entry| latest.max(entry.version.get()))
    }

    /// One of the [`ENTRIES_PER_PAGE`] places.
    pub fn entry(&self, at: usize) -> TableEntry {
        let raw = &self.entries[at];
        let state = state(raw.state.get()).expect("states were looked at");
        TableEntry { state, block: raw.block.get(), version: raw.version.get(), crc: raw.crc.get() }
    }
}

fn state(raw: u16) -> Option<EntryState> {
    match raw {
        0 => Some(EntryState::Free),
        1 => Some(EntryState::Clean),
        2 => Some(EntryState::Dirty),
        _ => None,
    }
}
