//! The bytes of the compact format, version 1. All integers are little-endian. It must not do I/O.
//!
//! ```text
//! file   = file header, block*, end block
//! file header (32): magic (8), u16 version, u16 header bytes, zero (16), u32 CRC32C of the 28 bytes before
//! block  = block header, payload
//! block header (32): "LBLK", u16 kind, u16 zero, u32 payload bytes, u32 items, u64 base,
//!                    u32 CRC32C of the payload, u32 CRC32C of the 28 bytes before
//! kind 1, volumes:  (u16 length, name)*; base = index of the first of them
//! kind 2, requests: slot*; base = time in ns that the first delta counts from
//! kind 3, end:      nothing; base = number of requests in the file
//! slot (16):  u64 first sector (48 bits) | sectors (16 bits) << 48
//!             u64 op (2 bits) | wide (1 bit) << 2 | volume (16 bits) << 3 | time delta in ns (45 bits) << 19
//! wide slot pair, for what does not fit (time going backwards or 9.7 h ahead, unaligned or very large ranges):
//!             u64 time in ns; u64 op | wide << 2 | volume << 3; u64 offset in bytes; u64 length in bytes
//! ```

use lode_types::{Op, SECTOR_BYTES, TraceRequest};

pub(crate) const FILE_MAGIC: [u8; 8] = *b"\x89LODE\r\n\x1a";
pub(crate) const VERSION: u16 = 1;
pub(crate) const HEADER_BYTES: usize = 32;
const BLOCK_MAGIC: [u8; 4] = *b"LBLK";
/// Where in either header its own checksum is.
const HEADER_CRC_AT: usize = 28;

pub(crate) const SLOT_BYTES: usize = 16;
/// Most slots in a block, so that a block is at most one batch.
pub(crate) const MAX_SLOTS: usize = crate::limits::BATCH_REQUESTS;
/// Most payload bytes in a block of either kind.
pub(crate) const MAX_PAYLOAD_BYTES: usize = MAX_SLOTS * SLOT_BYTES;

const SECTOR_SHIFT: u32 = SECTOR_BYTES.trailing_zeros();
const SECTOR_BITS: u32 = 48;
const COUNT_BITS: u32 = 16;
const WIDE: u64 = 1 << 2;
const VOLUME_SHIFT: u32 = 3;
const VOLUME_BITS: u32 = 16;
const DELTA_SHIFT: u32 = VOLUME_SHIFT + VOLUME_BITS;
const DELTA_BITS: u32 = 64 - DELTA_SHIFT;
const _: () = assert!(crate::limits::MAX_VOLUMES <= 1 << VOLUME_BITS);

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Volumes = 1,
    Requests = 2,
    End = 3,
}

/// A block header without its constant parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub kind: BlockKind,
    pub payload_bytes: u32,
    pub items: u32,
    pub base: u64,
    pub payload_crc: u32,
}

pub(crate) fn file_header() -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&FILE_MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes[10..12].copy_from_slice(&(HEADER_BYTES as u16).to_le_bytes());
    seal(&mut bytes);
    bytes
}

fn seal(header: &mut [u8; HEADER_BYTES]) {
    let crc = crc32c::crc32c(&header[..HEADER_CRC_AT]);
    header[HEADER_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
}

/// Whether a header's own checksum is right.
pub(crate) fn is_sealed(header: &[u8; HEADER_BYTES]) -> bool {
    crc32c::crc32c(&header[..HEADER_CRC_AT]).to_le_bytes() == header[HEADER_CRC_AT..]
}

impl BlockHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&BLOCK_MAGIC);
        bytes[4..6].copy_from_slice(&(self.kind as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.items.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.base.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.payload_crc.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// The header in sealed bytes; `None` when they are no block header of this version.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<BlockHeader> {
        let kind = match u16::from_le_bytes([bytes[4], bytes[5]]) {
            1 => BlockKind::Volumes,
            2 => BlockKind::Requests,
            3 => BlockKind::End,
            _ => return None,
        };
        let header = BlockHeader {
            kind,
            payload_bytes: u32_at(bytes, 8),
            items: u32_at(bytes, 12),
            base: u64::from(u32_at(bytes, 16)) | u64::from(u32_at(bytes, 20)) << 32,
            payload_crc: u32_at(bytes, 24),
        };
        // Encoding again checks everything that is constant.
        (header.payload_bytes as usize <= MAX_PAYLOAD_BYTES && header.encode() == *bytes).then_some(header)
    }
}

fn u32_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// One request as a slot, if it fits.
#[inline]
pub(crate) fn pack(request: &TraceRequest, previous_ns: u64) -> Option<[u64; 2]> {
    let delta = request.time_ns.checked_sub(previous_ns)?;
    let (first, count) =
        (request.offset_bytes >> SECTOR_SHIFT, u64::from(request.length_bytes) >> SECTOR_SHIFT);
    let unaligned = (request.offset_bytes | u64::from(request.length_bytes)) & (SECTOR_BYTES - 1);
    if delta >> DELTA_BITS != 0 || first >> SECTOR_BITS != 0 || count >> COUNT_BITS != 0 || unaligned != 0 {
        return None;
    }
    Some([first | count << SECTOR_BITS, low_bits(request) | delta << DELTA_SHIFT])
}

/// One request as a pair of slots, whatever its values.
pub(crate) fn pack_wide(request: &TraceRequest) -> [u64; 4] {
    let low = low_bits(request) | WIDE;
    [request.time_ns, low, request.offset_bytes, u64::from(request.length_bytes)]
}

fn low_bits(request: &TraceRequest) -> u64 {
    request.op as u64 | u64::from(request.volume) << VOLUME_SHIFT
}

#[inline]
pub(crate) fn is_wide(slot: [u64; 2]) -> bool {
    slot[1] & WIDE != 0
}

/// The request of a slot that is not wide; `None` when its time does not fit.
#[inline]
pub(crate) fn unpack(slot: [u64; 2], previous_ns: u64) -> Option<TraceRequest> {
    let (range, rest) = (slot[0], slot[1]);
    Some(TraceRequest {
        time_ns: previous_ns.checked_add(rest >> DELTA_SHIFT)?,
        offset_bytes: (range & ((1 << SECTOR_BITS) - 1)) << SECTOR_SHIFT,
        length_bytes: ((range >> SECTOR_BITS) << SECTOR_SHIFT) as u32,
        volume: volume_of(rest),
        op: Op::from_code((rest & 3) as u8)?,
    })
}

/// The request of a pair of wide slots; `None` when bits are set that must not be.
pub(crate) fn unpack_wide(pair: [u64; 4]) -> Option<TraceRequest> {
    if pair[1] >> DELTA_SHIFT != 0 {
        return None;
    }
    Some(TraceRequest {
        time_ns: pair[0],
        offset_bytes: pair[2],
        length_bytes: u32::try_from(pair[3]).ok()?,
        volume: volume_of(pair[1]),
        op: Op::from_code((pair[1] & 3) as u8)?,
    })
}

#[inline]
fn volume_of(rest: u64) -> u32 {
    (rest >> VOLUME_SHIFT) as u32 & ((1 << VOLUME_BITS) - 1)
}

/// The two words of a slot's bytes.
#[inline]
pub(crate) fn words(slot: &[u8; SLOT_BYTES]) -> [u64; 2] {
    let value = u128::from_le_bytes(*slot);
    [value as u64, (value >> 64) as u64]
}
