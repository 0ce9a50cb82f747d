//! The superblock: which cache this is and how the device is divided. Two copies, written in turn; the
//! valid one with the higher generation counts.

use lode_types::BlockSize;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::copies;
use crate::error::{FormatError, Wrong};
use crate::layout::DeviceLayout;
use crate::page::{self, CacheId, Head, PAGE_BYTES};

pub(crate) const MAGIC: &[u8; 8] = b"LODEsupr";
const WHAT: &str = "Superblock";

/// What the superblock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Which cache.
    pub cache: CacheId,
    /// Grows with every write of a superblock.
    pub generation: u64,
    /// Grows with every start of a daemon on this cache; stamps what that daemon writes.
    pub epoch: u64,
    /// Bytes of the device when it was formatted.
    pub device_bytes: u64,
    /// Bytes of an extent.
    pub extent_bytes: u64,
    /// Size of a block.
    pub block: BlockSize,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    head: Head,
    generation: U64,
    epoch: U64,
    device_bytes: U64,
    extent_bytes: U64,
    block_bytes: U32,
}

impl Superblock {
    /// The page to write.
    pub fn encode(&self) -> Box<[u8; PAGE_BYTES]> {
        let mut page = page::start_page(&Raw {
            head: Head::new(MAGIC, self.cache),
            generation: U64::new(self.generation),
            epoch: U64::new(self.epoch),
            device_bytes: U64::new(self.device_bytes),
            extent_bytes: U64::new(self.extent_bytes),
            block_bytes: U32::new(self.block.bytes() as u32),
        });
        page::seal(&mut page);
        page
    }

    /// Reads one copy.
    pub fn decode(bytes: &[u8]) -> Result<Superblock, FormatError> {
        let raw: Raw = page::open(WHAT, MAGIC, None, bytes)?;
        let block = BlockSize::new(u64::from(raw.block_bytes.get()))
            .map_err(|_| FormatError { what: WHAT, wrong: Wrong::Field("block_bytes") })?;
        let superblock = Superblock {
            cache: raw.head.cache,
            generation: raw.generation.get(),
            epoch: raw.epoch.get(),
            device_bytes: raw.device_bytes.get(),
            extent_bytes: raw.extent_bytes.get(),
            block,
        };
        superblock.layout()?;
        Ok(superblock)
    }

    /// The newer valid one of two copies. One of another version is an error, whatever the other one is.
    pub fn newest(copies: [&[u8]; 2]) -> Result<Superblock, FormatError> {
        copies::newest(copies.map(Superblock::decode), |copy| copy.generation)
    }

    /// The copy that this generation is written to.
    pub fn copy(&self) -> u8 {
        (self.generation & 1) as u8
    }

    /// How the device is divided.
    pub fn layout(&self) -> Result<DeviceLayout, FormatError> {
        DeviceLayout::new(self.device_bytes, self.extent_bytes, self.block)
    }
}
