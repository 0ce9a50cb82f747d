//! The frame of the compact format, version 4: headers and blocks. All integers are little-endian. What is
//! inside a block of requests is described in [`super::shape`]. It must not do I/O.
//!
//! ```text
//! file   = file header, block*, end block
//! file header (32): magic (8), u16 version, u16 header bytes, u8 times, u8 origins, zero (14), u32 CRC32C of the 28 bytes before
//! block  = block header, payload
//! block header (32): "LBLK", u16 kind, u16 zero, u32 payload bytes, u32 items, u64 base,
//!                    u32 CRC32C of the payload, u32 CRC32C of the 28 bytes before
//! kind 1, volumes:  (u16 length, name)*; base = index of the first of them
//! kind 2, requests: columns; base = the first request's time, in ns
//! kind 3, end:      nothing; base = number of requests in the file
//! ```
//!
//! Times are 0 where they were recorded, and 1 where they only keep the order of the requests. Origins are what the trace
//! tells of who asks: 1 the process, 2 whether it waits, 4 whether it is critical, or their sum. Version 3, which is read as
//! well, has no origins: a zero, and no column of them.
//!
//! A block says how long it is, so that a reader can pass over it without looking inside, and base says at
//! which time its requests begin.

use lode_types::OriginFields;

use super::shape::{COLUMNS_BYTES, max_columns_bytes};

pub(crate) const FILE_MAGIC: [u8; 8] = *b"\x89LODE\r\n\x1a";
const VERSION: u16 = 4;
/// The version before origins.
const VERSION_WITHOUT_ORIGINS: u16 = 3;
pub(crate) const HEADER_BYTES: usize = 32;
const BLOCK_MAGIC: [u8; 4] = *b"LBLK";
/// Where in either header its own checksum is.
const HEADER_CRC_AT: usize = 28;

/// Most requests in a block, so that a block is at most one batch.
pub(crate) const MAX_BLOCK_REQUESTS: usize = crate::limits::BATCH_REQUESTS;
/// Most payload bytes in a block of either kind.
pub(crate) const MAX_PAYLOAD_BYTES: usize = COLUMNS_BYTES + max_columns_bytes(MAX_BLOCK_REQUESTS);

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

/// Where the file header has its version, whether times were recorded, and what is told of who asks.
const VERSION_AT: usize = 8;
const TIMES_AT: usize = 12;
const ORIGINS_AT: usize = 13;

/// What a trace records of its requests beside what and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Times; if not, they only keep the order.
    pub times: bool,
    /// Who asks. Single requests may still not tell.
    pub origins: OriginFields,
}

impl Recorded {
    /// Times and nothing of who asks, as in most traces.
    pub const TIMES: Recorded = Recorded { times: true, origins: OriginFields::NONE };

    /// What both record.
    #[must_use]
    pub fn and(self, other: Recorded) -> Recorded {
        Recorded { times: self.times && other.times, origins: self.origins.and(other.origins) }
    }
}

/// What a file that starts with these bytes records. Whether its header is intact is seen later.
pub(crate) fn recorded(head: &[u8]) -> Recorded {
    let origins = head.get(ORIGINS_AT).and_then(|&code| OriginFields::from_code(code)).unwrap_or_default();
    Recorded { times: head.get(TIMES_AT) != Some(&1), origins }
}

/// Whether blocks may have a column of origins in a file with this header; `None` when it is none that there is.
pub(crate) fn allows_origins(header: &[u8; HEADER_BYTES]) -> Option<bool> {
    let recorded = recorded(header);
    let old = Recorded { origins: OriginFields::NONE, ..recorded };
    if *header == file_header(recorded) {
        Some(true)
    } else {
        (*header == header_of(VERSION_WITHOUT_ORIGINS, old)).then_some(false)
    }
}

pub(crate) fn file_header(recorded: Recorded) -> [u8; HEADER_BYTES] {
    header_of(VERSION, recorded)
}

fn header_of(version: u16, recorded: Recorded) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..VERSION_AT].copy_from_slice(&FILE_MAGIC);
    bytes[VERSION_AT..10].copy_from_slice(&version.to_le_bytes());
    bytes[10..12].copy_from_slice(&(HEADER_BYTES as u16).to_le_bytes());
    bytes[TIMES_AT] = u8::from(!recorded.times);
    bytes[ORIGINS_AT] = recorded.origins.code();
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

/// The integer at `at`, which is within the header.
fn u32_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
