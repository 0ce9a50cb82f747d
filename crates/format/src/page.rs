//! What all pages share: magic, checksum, cache identity.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use lode_types::planted;

use crate::error::{FormatError, Wrong};

/// Bytes of every metadata page.
pub const PAGE_BYTES: usize = 4096;

/// Identity of one formatted cache: random at format time.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(transparent)]
pub struct CacheId(pub [u8; 16]);

impl std::fmt::Display for CacheId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for CacheId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CacheId({self})")
    }
}

impl std::str::FromStr for CacheId {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<CacheId, FormatError> {
        let wrong = FormatError { what: "Cache identity", wrong: Wrong::Field("uuid") };
        let digits: Vec<u8> = text.bytes().filter(|&b| b != b'-').collect();
        if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(wrong);
        }
        let mut id = [0; 16];
        for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong)?;
        }
        Ok(CacheId(id))
    }
}

/// The first bytes of every page.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Head {
    pub(crate) magic: [u8; 8],
    crc: U32,
    pub(crate) version: U32,
    pub(crate) cache: CacheId,
}

impl Head {
    pub(crate) fn new(magic: &[u8; 8], cache: CacheId) -> Head {
        Head { magic: *magic, crc: U32::new(0), version: U32::new(crate::FORMAT_VERSION), cache }
    }

    /// The page's checksum, as it says.
    pub(crate) fn checksum(&self) -> u32 {
        self.crc.get()
    }
}

const CRC_OFFSET: usize = 8;

/// A page with a header struct at its front.
pub(crate) fn start_page<T: IntoBytes + Immutable>(header: &T) -> Box<[u8; PAGE_BYTES]> {
    let mut page = Box::new([0; PAGE_BYTES]);
    begin(&mut page, header);
    page
}

/// Puts a header struct at the front of a zeroed page.
pub(crate) fn begin<T: IntoBytes + Immutable>(page: &mut [u8; PAGE_BYTES], header: &T) {
    page[..size_of::<T>()].copy_from_slice(header.as_bytes());
}

/// Writes the page's checksum, as the last step of making it.
pub(crate) fn seal(page: &mut [u8; PAGE_BYTES]) {
    page[CRC_OFFSET..CRC_OFFSET + 4].fill(0);
    let crc = crc32c::crc32c(&page[..]);
    page[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&crc.to_le_bytes());
}

/// The checksum of a page, its own field taken for zero.
fn checksum(page: &[u8; PAGE_BYTES]) -> u32 {
    let crc = crc32c::crc32c(&page[..CRC_OFFSET]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc32c::crc32c_append(crc, &page[CRC_OFFSET + 4..])
}

/// Whether a page is as it was made, whatever it says: of two copies that differ, one that is not was damaged or torn.
pub fn is_sealed(page: &[u8]) -> bool {
    <&[u8; PAGE_BYTES]>::try_from(page).is_ok_and(|page| page_checksum(page) == checksum(page))
}

/// The checksum that a page bears. Two whole pages with the same one are taken for the same, with as much certainty as a page that it fits is
/// taken for whole.
pub fn page_checksum(page: &[u8; PAGE_BYTES]) -> u32 {
    u32::from_le_bytes(page[CRC_OFFSET..CRC_OFFSET + 4].try_into().expect("four bytes"))
}

/// Checks magic, version, checksum and, when given, the cache, and returns the header struct.
pub(crate) fn open<T>(
    what: &'static str,
    magic: &[u8; 8],
    cache: Option<CacheId>,
    bytes: &[u8],
) -> Result<T, FormatError>
where
    T: FromBytes + KnownLayout + Immutable,
{
    let error = |wrong| FormatError { what, wrong };
    let page: &[u8; PAGE_BYTES] =
        bytes.get(..PAGE_BYTES).and_then(|b| b.try_into().ok()).ok_or(error(Wrong::Length))?;
    let (head, _) = Head::read_from_prefix(&page[..]).map_err(|_| error(Wrong::Length))?;
    if head.magic != *magic {
        return Err(error(Wrong::Magic));
    }
    if head.crc.get() != checksum(page) && !planted("torn-page-believed") {
        return Err(error(Wrong::Checksum));
    }
    if head.version.get() != crate::FORMAT_VERSION {
        return Err(error(Wrong::Version { version: head.version.get(), cache: head.cache }));
    }
    if cache.is_some_and(|cache| cache != head.cache) {
        return Err(error(Wrong::Cache));
    }
    let (header, _) = T::read_from_prefix(&page[..]).map_err(|_| error(Wrong::Length))?;
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_reads_back_as_it_is_shown() {
        let id = CacheId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(id.to_string(), "00010203-0405-0607-0809-0a0b0c0d0eff");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("00010203".parse::<CacheId>().is_err());
    }
}
