//! Where things are on the SSD: the device in extents, an extent in metadata pages and places of blocks.
//!
//! ```text
//! device:  superblock A | superblock B | directory A | directory B | extent 0 | extent 1 | …
//! extent:  table pages (two copies of each) | journal pages (in pairs) | places of blocks
//! ```
//!
//! An extent carries the table of its own places, so that a volume grows and shrinks by whole extents
//! without moving anything.

use lode_types::BlockSize;

use crate::directory::DIRECTORY_PAGES;
use crate::error::{FormatError, Wrong};
use crate::journal::RECORDS_PER_PAGE;
use crate::page::PAGE_BYTES;
use crate::table::ENTRIES_PER_PAGE;

const PAGE: u64 = PAGE_BYTES as u64;

/// Number of a place on the device: extent number times places per extent plus the place in the extent. A volume numbers the places
/// of its extents by itself.
pub type PlaceNo = u32;

/// How one extent is divided. The same for every extent of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentLayout {
    /// Bytes of an extent.
    pub extent_bytes: u64,
    /// Size of a block.
    pub block: BlockSize,
    /// Places of an extent.
    pub places: u32,
    /// Table pages of an extent (each has two copies).
    pub table_pages: u32,
    /// Pairs of journal pages that an extent adds to its volume's journal ring.
    pub journal_pairs: u32,
}

impl ExtentLayout {
    /// Smallest extent.
    pub const MIN_EXTENT_BYTES: u64 = 1 << 20;
    /// Largest extent.
    pub const MAX_EXTENT_BYTES: u64 = 1 << 32;
    const LEAST_JOURNAL_PAIRS: u32 = 4;
    /// A ring that holds half a record for each place is checkpointed often enough to replay fast and
    /// seldom enough that table pages cost less than 3 % of the data they describe.
    const SLOTS_PER_JOURNAL_RECORD: u32 = 2;

    /// Divides an extent.
    pub fn new(extent_bytes: u64, block: BlockSize) -> Result<ExtentLayout, FormatError> {
        let range = Self::MIN_EXTENT_BYTES..=Self::MAX_EXTENT_BYTES;
        if !extent_bytes.is_power_of_two() || !range.contains(&extent_bytes) {
            return Err(FormatError { what: "Extent layout", wrong: Wrong::Field("extent_bytes") });
        }
        let mut places = (extent_bytes / block.bytes()) as u32;
        loop {
            let layout = Self::with_places(extent_bytes, block, places);
            if layout.place_area() + u64::from(places) * block.bytes() <= extent_bytes {
                return Ok(layout);
            }
            places -= 1;
        }
    }

    fn with_places(extent_bytes: u64, block: BlockSize, places: u32) -> ExtentLayout {
        let records = RECORDS_PER_PAGE as u32 * Self::SLOTS_PER_JOURNAL_RECORD;
        ExtentLayout {
            extent_bytes,
            block,
            places,
            table_pages: places.div_ceil(ENTRIES_PER_PAGE as u32),
            journal_pairs: places.div_ceil(records).max(Self::LEAST_JOURNAL_PAIRS),
        }
    }

    /// Offset within the extent of copy 0 or 1 of a table page.
    pub fn table_page(&self, page: u32, copy: u8) -> u64 {
        (u64::from(page) * 2 + u64::from(copy & 1)) * PAGE
    }

    /// Offset within the extent of side 0 or 1 of a journal pair.
    pub fn journal_page(&self, pair: u32, side: u8) -> u64 {
        (u64::from(self.table_pages) * 2 + u64::from(pair) * 2 + u64::from(side & 1)) * PAGE
    }

    fn place_area(&self) -> u64 {
        let pages = u64::from(self.table_pages) * 2 + u64::from(self.journal_pairs) * 2;
        (pages * PAGE).next_multiple_of(self.block.bytes())
    }

    /// Offset within the extent of a place.
    pub fn place(&self, place: u32) -> u64 {
        self.place_area() + u64::from(place) * self.block.bytes()
    }
}

/// How a device is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLayout {
    /// How each extent is divided.
    pub extent: ExtentLayout,
    /// Number of extents.
    pub extents: u32,
}

impl DeviceLayout {
    /// Most extents of a device, so that the directory has a fixed size.
    pub const MAX_EXTENTS: u32 = 16_384;
    /// Offset of superblock copy 0; copy 1 follows.
    pub const SUPERBLOCKS: u64 = 0;
    const DIRECTORIES: u64 = 2 * PAGE;
    /// Bytes of the superblocks and directories, which come before everything else.
    pub const HEADS_BYTES: u64 = Self::DIRECTORIES + 2 * DIRECTORY_PAGES as u64 * PAGE;

    /// Divides `device_bytes` with extents of `extent_bytes`.
    pub fn new(device_bytes: u64, extent_bytes: u64, block: BlockSize) -> Result<DeviceLayout, FormatError> {
        let extent = ExtentLayout::new(extent_bytes, block)?;
        let extents = device_bytes.saturating_sub(Self::first_extent(&extent)) / extent_bytes;
        let error = |field| FormatError { what: "Device layout", wrong: Wrong::Field(field) };
        if extents == 0 {
            return Err(error("device_bytes"));
        }
        if extents > u64::from(Self::MAX_EXTENTS)
            || extents * u64::from(extent.places) > u64::from(u32::MAX / 2)
        {
            return Err(error("extents"));
        }
        Ok(DeviceLayout { extent, extents: extents as u32 })
    }

    /// The extent size that suits a device: the smallest power of two that keeps the number of extents
    /// at a quarter of the limit, at least 1 MiB.
    pub fn suitable_extent_bytes(device_bytes: u64) -> u64 {
        (device_bytes / u64::from(Self::MAX_EXTENTS / 4))
            .next_power_of_two()
            .clamp(ExtentLayout::MIN_EXTENT_BYTES, ExtentLayout::MAX_EXTENT_BYTES)
    }

    /// Offset of copy 0 or 1 of a superblock.
    pub fn superblock(copy: u8) -> u64 {
        Self::SUPERBLOCKS + u64::from(copy & 1) * PAGE
    }

    /// Offset of copy 0 or 1 of the directory.
    pub fn directory(copy: u8) -> u64 {
        Self::DIRECTORIES + u64::from(copy & 1) * DIRECTORY_PAGES as u64 * PAGE
    }

    fn first_extent(extent: &ExtentLayout) -> u64 {
        Self::HEADS_BYTES.next_multiple_of(extent.block.bytes())
    }

    /// Offset of the first byte of an extent.
    pub fn extent_start(&self, extent: u32) -> u64 {
        Self::first_extent(&self.extent) + u64::from(extent) * self.extent.extent_bytes
    }

    /// Extents needed for this many places.
    pub fn extents_for(&self, places: u64) -> u64 {
        places.div_ceil(u64::from(self.extent.places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_overlaps_and_all_fits(shift in 20u32..29, block_shift in 12u32..17) {
            let block = BlockSize::new(1 << block_shift).unwrap();
            let layout = ExtentLayout::new(1 << shift, block).unwrap();
            prop_assert!(u64::from(layout.table_pages) * ENTRIES_PER_PAGE as u64 >= u64::from(layout.places));
            prop_assert!(layout.table_page(layout.table_pages - 1, 1) + PAGE <= layout.journal_page(0, 0));
            prop_assert!(layout.journal_page(layout.journal_pairs - 1, 1) + PAGE <= layout.place(0));
            prop_assert_eq!(layout.place(0) % block.bytes(), 0);
            prop_assert!(layout.place(layout.places - 1) + block.bytes() <= layout.extent_bytes);
            let metadata = layout.place(0) as f64 / layout.extent_bytes as f64;
            prop_assert!(metadata < 0.08, "{metadata}");
        }

        #[test]
        fn devices_of_any_size_are_divided(bytes in (4u64 << 20)..(8 << 40)) {
            let extent = DeviceLayout::suitable_extent_bytes(bytes);
            if let Ok(layout) = DeviceLayout::new(bytes, extent, BlockSize::KIB_4) {
                prop_assert!(layout.extent_start(layout.extents) <= bytes);
                prop_assert!(DeviceLayout::directory(1) + (DIRECTORY_PAGES * PAGE_BYTES) as u64
                    <= layout.extent_start(0));
            } else {
                prop_assert!(bytes > 7 << 40, "{bytes}");
            }
        }
    }
}
