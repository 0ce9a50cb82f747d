//! The bytes of a Lodestore cache on an SSD: bytes to records and back, and nothing else.
//!
//! All integers are little-endian and of fixed width; every structure is one 4 KiB page with a magic, a
//! CRC32C over the rest of the page and the identity of its cache, so that a page of another cache, an
//! older run of this one, or a torn write is recognised and never believed. Layout and version history
//! are in `docs/design.md`. This crate must not know who writes the bytes, or when.

#![forbid(unsafe_code)]

mod checksum;
mod copies;
mod directory;
mod error;
mod journal;
mod layout;
mod page;
mod pair;
mod read_ssd;
mod record_buffer;
mod redo;
mod signature;
mod superblock;
mod table;

pub use checksum::{VolumeTag, data_checksum};
pub use directory::{Directory, DirectoryCopy, DroppedCopies, Volume, VolumeExtents};
pub use error::{FormatError, Wrong, why_unreadable};
pub use journal::{JournalPage, RECORDS_PER_PAGE, Record, RecordKind};
pub use layout::{DeviceLayout, ExtentLayout, PlaceNo};
pub use page::{CacheId, PAGE_BYTES, is_sealed, page_checksum};
pub use pair::PairLabel;
pub use read_ssd::ReadSsdLabel;
pub use record_buffer::{
    BUFFERED_RECORD_BYTES, BootId, Buffered, FoundRecords, RecordBufferHeader, encode_buffered,
};
pub use redo::{
    REDO_ENTRIES_PER_PAGE, RedoEntry, RedoLabel, RedoLayout, RedoRanges, RedoState, RedoTablePage,
};
pub use signature::PageSignature;
pub use superblock::Superblock;
pub use table::{ENTRIES_PER_PAGE, EntryState, TableEntry, TablePage, TableView};

/// Version of the format that this code writes and reads.
pub const FORMAT_VERSION: u32 = 1;
