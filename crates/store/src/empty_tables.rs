//! Place tables of extents that hold nothing yet. It must not know who writes them, or when.

use std::ops::Range;

use lode_format::{CacheId, DeviceLayout, PAGE_BYTES, TablePage, VolumeTag};

/// Pages that are written at once while volumes are served, each with both copies: long writes, and none that others wait for long.
pub(crate) const PAGES_AT_ONCE: u32 = 64;

/// Both copies of these pages of an extent's table, saying that nothing is there, and their offset on the device. They speak of all
/// versions up to `stamp`.
pub(crate) fn empty_tables(
    (cache, tag): (CacheId, VolumeTag),
    layout: &DeviceLayout,
    extent: u32,
    pages: Range<u32>,
    stamp: u64,
) -> (u64, Vec<u8>) {
    let offset_bytes = layout.extent_start(extent) + layout.extent.table_page(pages.start, 0);
    let mut bytes = Vec::with_capacity(pages.len() * 2 * PAGE_BYTES);
    for page in pages {
        // The copies lie side by side: the first one has an even sequence.
        for sequence in [2, 1] {
            let table = TablePage { stamp, ..TablePage::empty(tag, extent, page, sequence) };
            bytes.extend_from_slice(&table.encode(cache)[..]);
        }
    }
    (offset_bytes, bytes)
}
