//! Table pages of a volume that is full, for benches of starts. It must not know where they are.

use lode_format::{ENTRIES_PER_PAGE, EntryState, ExtentLayout, TableEntry, TablePage, VolumeTag};
use lode_types::mix;

/// Version up to which the pages speak of durable things.
pub const STAMP: u64 = 1 << 40;

/// One copy of a page of an extent whose places hold each another block, below `blocks`, of scattered versions, a quarter of them dirty.
pub fn full_page(
    tag: VolumeTag,
    layout: &ExtentLayout,
    (extent, page, copy): (u32, u32, u8),
    blocks: u64,
) -> TablePage {
    let mut table = TablePage::empty(tag, extent, page, 2 + u64::from(copy));
    table.stamp = STAMP;
    let first = page * ENTRIES_PER_PAGE as u32;
    for (entry, within) in table.entries.iter_mut().zip(first..layout.places) {
        let number = u64::from(extent) * u64::from(layout.places) + u64::from(within);
        let block = number.wrapping_mul(0x9e37_79b1) % blocks;
        let state = if number.is_multiple_of(4) { EntryState::Dirty } else { EntryState::Clean };
        *entry = TableEntry { state, block, version: mix(number) % STAMP, crc: number as u32 };
    }
    table
}
