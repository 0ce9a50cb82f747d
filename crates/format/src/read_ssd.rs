//! The label of a read SSD, which says that the device is one and nothing else: what it holds does not outlive a stop.
//! Two equal copies, where a cache SSD has its superblocks, so that a device is never taken for both.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::copies;
use crate::error::FormatError;
use crate::page::{self, CacheId, Head, PAGE_BYTES};

pub(crate) const MAGIC: &[u8; 8] = b"LODEread";
const WHAT: &str = "Label of a read SSD";

/// What the label says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSsdLabel {
    /// Which read SSD.
    pub id: CacheId,
    /// Bytes of the device when it was formatted.
    pub device_bytes: u64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    head: Head,
    device_bytes: U64,
}

impl ReadSsdLabel {
    /// Where the space for blocks begins.
    pub const DATA_START_BYTES: u64 = 1 << 20;

    /// The page to write.
    pub fn encode(&self) -> Box<[u8; PAGE_BYTES]> {
        let head = Head::new(MAGIC, self.id);
        let mut page = page::start_page(&Raw { head, device_bytes: U64::new(self.device_bytes) });
        page::seal(&mut page);
        page
    }

    /// Reads one copy.
    pub fn decode(bytes: &[u8]) -> Result<ReadSsdLabel, FormatError> {
        let raw: Raw = page::open(WHAT, MAGIC, None, bytes)?;
        Ok(ReadSsdLabel { id: raw.head.cache, device_bytes: raw.device_bytes.get() })
    }

    /// The first valid one of two copies. One of another version is an error, whatever the other one is.
    pub fn newest(copies: [&[u8]; 2]) -> Result<ReadSsdLabel, FormatError> {
        copies::newest(copies.map(ReadSsdLabel::decode), |_| 0)
    }
}
