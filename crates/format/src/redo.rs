//! The redo log beside the backing disk of a volume with ordered write-back: the blocks of one group, whole or not at all.
//!
//! ```text
//! label | state A | state B | table page 0 | table page 1 | … | block 0 | block 1 | …
//! ```
//!
//! The *label* is written when the log is made and says whose it is. A group's table pages and blocks are written and flushed
//! before both copies of the *state* say that it is complete; when the backing disk durably has all of its blocks, both say
//! that the log is empty. So of two copies that differ the one of the later group counts, and of one group the one that is
//! empty. A state that is torn is of a moment at which nothing had to be done.
//!
//! While the log is empty the first table page may name *ranges* instead: what of the disk trims and zeroings are about to change
//! past groups, and have not changed durably yet. This module must not know who writes the log, or when.

use std::ops::Range;

use lode_types::BlockSize;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::VolumeTag;
use crate::error::{FormatError, Wrong};
use crate::page::{self, CacheId, Head, PAGE_BYTES};

pub(crate) const LABEL_MAGIC: &[u8; 8] = b"LODErlab";
pub(crate) const STATE_MAGIC: &[u8; 8] = b"LODErsta";
pub(crate) const TABLE_MAGIC: &[u8; 8] = b"LODErtab";
pub(crate) const RANGES_MAGIC: &[u8; 8] = b"LODErrng";
const LABEL: &str = "Label of a redo log";
const STATE: &str = "State of a redo log";
const TABLE: &str = "Table page of a redo log";
const RANGES: &str = "Ranges of a redo log";

/// Pages before the tables: the label and two copies of the state.
const FIRST_PAGES: u64 = 3;

fn wrong<T>(what: &'static str, field: &'static str) -> Result<T, FormatError> {
    Err(FormatError { what, wrong: Wrong::Field(field) })
}

/// Where everything is in a redo log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedoLayout {
    /// Size of a block.
    pub block: BlockSize,
    /// Most blocks of a group.
    pub capacity_blocks: u32,
}

impl RedoLayout {
    /// Copies of the state.
    pub const STATES: u8 = 2;
    /// The most blocks that any log has room for.
    pub const MAX_BLOCKS: u32 = 1 << 24;

    /// Table pages of a group of so many blocks.
    pub fn table_pages(blocks: u32) -> u32 {
        blocks.div_ceil(REDO_ENTRIES_PER_PAGE as u32)
    }

    /// Where a copy of the state is.
    pub fn state(copy: u8) -> u64 {
        (1 + u64::from(copy % Self::STATES)) * PAGE_BYTES as u64
    }

    /// Where a table page is.
    pub fn table_page(page: u32) -> u64 {
        (FIRST_PAGES + u64::from(page)) * PAGE_BYTES as u64
    }

    /// Where the bytes of the group's block of this number are.
    pub fn block(&self, number: u32) -> u64 {
        let tables = Self::table_page(Self::table_pages(self.capacity_blocks));
        tables.next_multiple_of(self.block.bytes()) + u64::from(number) * self.block.bytes()
    }

    /// Bytes of the whole log.
    pub fn bytes(&self) -> u64 {
        self.block(self.capacity_blocks)
    }
}

/// Whose a redo log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedoLabel {
    /// The cache that writes it.
    pub cache: CacheId,
    /// The volume, whose tag is in the checksums of its blocks.
    pub volume: VolumeTag,
    /// Bytes of the backing disk.
    pub volume_bytes: u64,
    /// What has room where.
    pub layout: RedoLayout,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawLabel {
    head: Head,
    volume: U64,
    volume_bytes: U64,
    block_bytes: U32,
    capacity_blocks: U32,
}

impl RedoLabel {
    /// The page to write.
    pub fn encode(&self) -> Box<[u8; PAGE_BYTES]> {
        let mut page = page::start_page(&RawLabel {
            head: Head::new(LABEL_MAGIC, self.cache),
            volume: U64::new(self.volume.0),
            volume_bytes: U64::new(self.volume_bytes),
            block_bytes: U32::new(self.layout.block.bytes() as u32),
            capacity_blocks: U32::new(self.layout.capacity_blocks),
        });
        page::seal(&mut page);
        page
    }

    /// Reads it.
    pub fn decode(bytes: &[u8]) -> Result<RedoLabel, FormatError> {
        let raw: RawLabel = page::open(LABEL, LABEL_MAGIC, None, bytes)?;
        let Ok(block) = BlockSize::new(raw.block_bytes.get().into()) else {
            return wrong(LABEL, "block_bytes");
        };
        let capacity_blocks = raw.capacity_blocks.get();
        if capacity_blocks == 0 || capacity_blocks > RedoLayout::MAX_BLOCKS {
            return wrong(LABEL, "capacity_blocks");
        }
        Ok(RedoLabel {
            cache: raw.head.cache,
            volume: VolumeTag(raw.volume.get()),
            volume_bytes: raw.volume_bytes.get(),
            layout: RedoLayout { block, capacity_blocks },
        })
    }
}

/// What a redo log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedoState {
    /// The volume.
    pub volume: VolumeTag,
    /// Number of the latest group that was complete; grows with every one.
    pub group: u64,
    /// Blocks of that group, while the backing disk may lack some of them; 0: the log is empty.
    pub blocks: u32,
    /// Generation of the disk's sidecar in which that group was written; 0: not known, as in logs of before it was noted.
    pub generation: u64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawState {
    head: Head,
    volume: U64,
    group: U64,
    blocks: U32,
    zero: U32,
    generation: U64,
}

impl RedoState {
    /// The page to write, as each copy.
    pub fn encode(&self, cache: CacheId) -> Box<[u8; PAGE_BYTES]> {
        let mut page = page::start_page(&RawState {
            head: Head::new(STATE_MAGIC, cache),
            volume: U64::new(self.volume.0),
            group: U64::new(self.group),
            blocks: U32::new(self.blocks),
            zero: U32::new(0),
            generation: U64::new(self.generation),
        });
        page::seal(&mut page);
        page
    }

    /// Reads one copy of the log with this label.
    pub fn decode(label: &RedoLabel, bytes: &[u8]) -> Result<RedoState, FormatError> {
        let raw: RawState = page::open(STATE, STATE_MAGIC, Some(label.cache), bytes)?;
        let (volume, group, blocks) = (VolumeTag(raw.volume.get()), raw.group.get(), raw.blocks.get());
        if volume != label.volume {
            return wrong(STATE, "volume");
        }
        if blocks > label.layout.capacity_blocks {
            return wrong(STATE, "blocks");
        }
        Ok(RedoState { volume, group, blocks, generation: raw.generation.get() })
    }

    /// The one of two copies that counts, of those that can be read.
    pub fn newest(copies: [Option<RedoState>; RedoLayout::STATES as usize]) -> Option<RedoState> {
        copies.into_iter().flatten().max_by_key(|state| (state.group, state.blocks == 0))
    }
}

/// A block of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedoEntry {
    /// The block.
    pub block: u64,
    /// The checksum of its bytes ([`crate::data_checksum`]), which fill a whole block.
    pub crc: u32,
}

/// A page of the table of a group's blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedoTablePage {
    /// The volume.
    pub volume: VolumeTag,
    /// The group.
    pub group: u64,
    /// Which of its pages.
    pub page: u32,
    /// Blocks, ascending; up to [`REDO_ENTRIES_PER_PAGE`].
    pub entries: Vec<RedoEntry>,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawTable {
    head: Head,
    volume: U64,
    group: U64,
    page: U32,
    count: U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    block: U64,
    crc: U32,
    zero: U32,
}

/// Blocks of a table page.
pub const REDO_ENTRIES_PER_PAGE: usize = (PAGE_BYTES - size_of::<RawTable>()) / size_of::<RawEntry>();

impl RedoTablePage {
    /// The page to write.
    pub fn encode(&self, cache: CacheId) -> Box<[u8; PAGE_BYTES]> {
        let mut page = page::start_page(&RawTable {
            head: Head::new(TABLE_MAGIC, cache),
            volume: U64::new(self.volume.0),
            group: U64::new(self.group),
            page: U32::new(self.page),
            count: U32::new(self.entries.len() as u32),
        });
        let places = page[size_of::<RawTable>()..].chunks_exact_mut(size_of::<RawEntry>());
        for (place, entry) in places.zip(&self.entries) {
            let raw = RawEntry { block: U64::new(entry.block), crc: U32::new(entry.crc), zero: U32::new(0) };
            place.copy_from_slice(raw.as_bytes());
        }
        page::seal(&mut page);
        page
    }

    /// Reads this page of the group that the state of the log with this label speaks of.
    pub fn decode(
        label: &RedoLabel,
        state: &RedoState,
        number: u32,
        bytes: &[u8],
    ) -> Result<RedoTablePage, FormatError> {
        let raw: RawTable = page::open(TABLE, TABLE_MAGIC, Some(label.cache), bytes)?;
        if raw.volume.get() != state.volume.0 {
            return wrong(TABLE, "volume");
        }
        if raw.group.get() != state.group {
            return wrong(TABLE, "group");
        }
        if raw.page.get() != number {
            return wrong(TABLE, "page");
        }
        let before = u64::from(number) * REDO_ENTRIES_PER_PAGE as u64;
        let expected = u64::from(state.blocks).saturating_sub(before).min(REDO_ENTRIES_PER_PAGE as u64);
        if u64::from(raw.count.get()) != expected {
            return wrong(TABLE, "count");
        }
        let blocks = label.volume_bytes.div_ceil(label.layout.block.bytes());
        let mut entries: Vec<RedoEntry> = Vec::with_capacity(expected as usize);
        let places = bytes[size_of::<RawTable>()..PAGE_BYTES].chunks_exact(size_of::<RawEntry>());
        for place in places.take(expected as usize) {
            let Ok(raw) = RawEntry::read_from_bytes(place) else { return wrong(TABLE, "entry") };
            let entry = RedoEntry { block: raw.block.get(), crc: raw.crc.get() };
            if entry.block >= blocks || entries.last().is_some_and(|last| last.block >= entry.block) {
                return wrong(TABLE, "block");
            }
            entries.push(entry);
        }
        Ok(RedoTablePage { volume: label.volume, group: state.group, page: number, entries })
    }
}

/// Ranges of blocks that trims and zeroings change on the backing disk past groups, and that no flush covers yet. They are in the place
/// of the first table page, while the log is empty. After a power cut they may be torn, and are not needed: what can be read of the
/// disk is durable then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedoRanges {
    /// The volume.
    pub volume: VolumeTag,
    /// The latest group before them.
    pub group: u64,
    /// At most [`RedoRanges::MOST`] of them, none of which is empty.
    pub ranges: Vec<Range<u64>>,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRanges {
    head: Head,
    volume: U64,
    group: U64,
    count: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRange {
    start: U64,
    end: U64,
}

impl RedoRanges {
    /// What is written at once, so that a write that fails leaves the ranges of before or the new ones.
    const SECTOR_BYTES: usize = 512;
    /// The most that there is room for.
    pub const MOST: usize = (Self::SECTOR_BYTES - size_of::<RawRanges>()) / size_of::<RawRange>();
    /// Where they are.
    pub const AT: u64 = FIRST_PAGES * PAGE_BYTES as u64;

    /// The page to write.
    pub fn encode(&self, cache: CacheId) -> Box<[u8; PAGE_BYTES]> {
        let mut page = page::start_page(&RawRanges {
            head: Head::new(RANGES_MAGIC, cache),
            volume: U64::new(self.volume.0),
            group: U64::new(self.group),
            count: U64::new(self.ranges.len() as u64),
        });
        let places = page[size_of::<RawRanges>()..].chunks_exact_mut(size_of::<RawRange>());
        for (place, range) in places.zip(&self.ranges) {
            let raw = RawRange { start: U64::new(range.start), end: U64::new(range.end) };
            place.copy_from_slice(raw.as_bytes());
        }
        page::seal(&mut page);
        page
    }

    /// Reads those that belong to the log with this label and state.
    pub fn decode(label: &RedoLabel, state: &RedoState, bytes: &[u8]) -> Result<RedoRanges, FormatError> {
        let raw: RawRanges = page::open(RANGES, RANGES_MAGIC, Some(label.cache), bytes)?;
        if raw.volume.get() != state.volume.0 {
            return wrong(RANGES, "volume");
        }
        // A later group wrote no state where none of its blocks could be had.
        if raw.group.get() < state.group || state.blocks > 0 {
            return wrong(RANGES, "group");
        }
        let count = raw.count.get();
        if count > Self::MOST as u64 {
            return wrong(RANGES, "count");
        }
        let blocks = label.volume_bytes.div_ceil(label.layout.block.bytes());
        let mut ranges = Vec::with_capacity(count as usize);
        let places = bytes[size_of::<RawRanges>()..PAGE_BYTES].chunks_exact(size_of::<RawRange>());
        for place in places.take(count as usize) {
            let Ok(raw) = RawRange::read_from_bytes(place) else { return wrong(RANGES, "range") };
            let range = raw.start.get()..raw.end.get();
            if range.is_empty() || range.end > blocks {
                return wrong(RANGES, "range");
            }
            ranges.push(range);
        }
        Ok(RedoRanges { volume: state.volume, group: raw.group.get(), ranges })
    }
}
