//! The numbers of the NBD protocol and its fixed-size headers, to and from big-endian bytes.
//!
//! Nothing here decides anything: no limits, no state, no opinion on which values are acceptable.
//! Names and values follow `doc/proto.md` of the NBD project.

/// First eight bytes a server sends.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second eight bytes of a newstyle server, and the start of every option a client sends.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Start of every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Start of every transmission request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Start of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Start of a structured reply chunk.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Handshake flag: the server speaks fixed newstyle.
pub const HANDSHAKE_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flag: the server can leave out the zeroes after an `EXPORT_NAME` reply.
pub const HANDSHAKE_NO_ZEROES: u16 = 1 << 1;
/// Client flag: the client speaks fixed newstyle.
pub const CLIENT_FIXED_NEWSTYLE: u32 = 1 << 0;
/// Client flag: the client wants no zeroes after an `EXPORT_NAME` reply.
pub const CLIENT_NO_ZEROES: u32 = 1 << 1;
/// Number of zero bytes that end an `EXPORT_NAME` reply unless both sides agreed to leave them out.
pub const EXPORT_NAME_ZEROES: usize = 124;
/// Longest string (export name, description, message) the protocol allows.
pub const MAX_STRING_BYTES: usize = 4096;

/// Option: choose an export and start transmission; cannot be refused politely.
pub const OPT_EXPORT_NAME: u32 = 1;
/// Option: end the session.
pub const OPT_ABORT: u32 = 2;
/// Option: name all exports.
pub const OPT_LIST: u32 = 3;
/// Option: switch to TLS.
pub const OPT_STARTTLS: u32 = 5;
/// Option: describe an export.
pub const OPT_INFO: u32 = 6;
/// Option: describe an export and start transmission.
pub const OPT_GO: u32 = 7;
/// Option: use structured replies.
pub const OPT_STRUCTURED_REPLY: u32 = 8;
/// Option: list metadata contexts.
pub const OPT_LIST_META_CONTEXT: u32 = 9;
/// Option: select metadata contexts.
pub const OPT_SET_META_CONTEXT: u32 = 10;
/// Option: use 64-bit request and reply headers.
pub const OPT_EXTENDED_HEADERS: u32 = 11;

/// Option reply: accepted, or the end of a list.
pub const REP_ACK: u32 = 1;
/// Option reply: one export of a list.
pub const REP_SERVER: u32 = 2;
/// Option reply: one piece of information about an export.
pub const REP_INFO: u32 = 3;
/// Option reply: one metadata context.
pub const REP_META_CONTEXT: u32 = 4;
/// The bit that all error replies to options have set.
pub const REP_ERROR_BIT: u32 = 1 << 31;
/// Option reply: the server does not know the option.
pub const REP_ERR_UNSUP: u32 = REP_ERROR_BIT + 1;
/// Option reply: forbidden by the server's policy.
pub const REP_ERR_POLICY: u32 = REP_ERROR_BIT + 2;
/// Option reply: malformed.
pub const REP_ERR_INVALID: u32 = REP_ERROR_BIT + 3;
/// Option reply: the server wants TLS first.
pub const REP_ERR_TLS_REQD: u32 = REP_ERROR_BIT + 5;
/// Option reply: there is no such export.
pub const REP_ERR_UNKNOWN: u32 = REP_ERROR_BIT + 6;
/// Option reply: the server is shutting down.
pub const REP_ERR_SHUTDOWN: u32 = REP_ERROR_BIT + 7;
/// Option reply: request or reply too large to process.
pub const REP_ERR_TOO_BIG: u32 = REP_ERROR_BIT + 9;

/// Information: size and transmission flags.
pub const INFO_EXPORT: u16 = 0;
/// Information: the export's canonical name.
pub const INFO_NAME: u16 = 1;
/// Information: a description for people.
pub const INFO_DESCRIPTION: u16 = 2;
/// Information: block size constraints.
pub const INFO_BLOCK_SIZE: u16 = 3;

/// Transmission flag: always set.
pub const FLAG_HAS_FLAGS: u16 = 1 << 0;
/// Transmission flag: writing commands fail.
pub const FLAG_READ_ONLY: u16 = 1 << 1;
/// Transmission flag: `FLUSH` is understood.
pub const FLAG_SEND_FLUSH: u16 = 1 << 2;
/// Transmission flag: [`CMD_FLAG_FUA`] is understood.
pub const FLAG_SEND_FUA: u16 = 1 << 3;
/// Transmission flag: `TRIM` is understood.
pub const FLAG_SEND_TRIM: u16 = 1 << 5;
/// Transmission flag: `WRITE_ZEROES` is understood.
pub const FLAG_SEND_WRITE_ZEROES: u16 = 1 << 6;
/// Transmission flag: [`CMD_FLAG_DF`] is understood.
pub const FLAG_SEND_DF: u16 = 1 << 7;
/// Transmission flag: `FLUSH` and FUA cover all connections to the export.
pub const FLAG_CAN_MULTI_CONN: u16 = 1 << 8;
/// Transmission flag: `CACHE` is understood.
pub const FLAG_SEND_CACHE: u16 = 1 << 10;
/// Transmission flag: [`CMD_FLAG_FAST_ZERO`] is understood.
pub const FLAG_SEND_FAST_ZERO: u16 = 1 << 11;

/// Command: read.
pub const CMD_READ: u16 = 0;
/// Command: write; the payload follows the header.
pub const CMD_WRITE: u16 = 1;
/// Command: end of the session; not answered.
pub const CMD_DISC: u16 = 2;
/// Command: make acknowledged writes durable.
pub const CMD_FLUSH: u16 = 3;
/// Command: discard a range.
pub const CMD_TRIM: u16 = 4;
/// Command: the range will be read soon.
pub const CMD_CACHE: u16 = 5;
/// Command: make a range read as zeroes.
pub const CMD_WRITE_ZEROES: u16 = 6;
/// Command: what is known of a range, in the negotiated metadata contexts.
pub const CMD_BLOCK_STATUS: u16 = 7;

/// Command flag: reply only once the effect is durable.
pub const CMD_FLAG_FUA: u16 = 1 << 0;
/// Command flag of `WRITE_ZEROES`: keep the range allocated.
pub const CMD_FLAG_NO_HOLE: u16 = 1 << 1;
/// Command flag of `READ`: answer with one content chunk.
pub const CMD_FLAG_DF: u16 = 1 << 2;
/// Command flag of `BLOCK_STATUS`: answer with one descriptor.
pub const CMD_FLAG_REQ_ONE: u16 = 1 << 3;
/// Command flag of `WRITE_ZEROES`: fail rather than be as slow as a write.
pub const CMD_FLAG_FAST_ZERO: u16 = 1 << 4;

/// Chunk flag: the last chunk of a reply.
pub const CHUNK_FLAG_DONE: u16 = 1 << 0;
/// Chunk type: nothing but the end.
pub const CHUNK_NONE: u16 = 0;
/// Chunk type: bytes at an offset.
pub const CHUNK_OFFSET_DATA: u16 = 1;
/// Chunk type: zeroes at an offset.
pub const CHUNK_OFFSET_HOLE: u16 = 2;
/// Chunk type: descriptors of a metadata context.
pub const CHUNK_BLOCK_STATUS: u16 = 5;
/// The bit that all error chunk types have set.
pub const CHUNK_ERROR_BIT: u16 = 1 << 15;
/// Chunk type: the command failed.
pub const CHUNK_ERROR: u16 = CHUNK_ERROR_BIT + 1;
/// Chunk type: the command failed at an offset.
pub const CHUNK_ERROR_OFFSET: u16 = CHUNK_ERROR_BIT + 2;

/// The metadata context that tells holes from data.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Flag of a descriptor of [`BASE_ALLOCATION`]: nothing is allocated for it.
pub const STATE_HOLE: u32 = 1 << 0;
/// Flag of a descriptor of [`BASE_ALLOCATION`]: it reads as zeroes.
pub const STATE_ZERO: u32 = 1 << 1;

fn u16_at<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(field)
}

fn u64_at<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(field)
}

/// What a newstyle server says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// `HANDSHAKE_*` bits.
    pub flags: u16,
}

impl Greeting {
    /// Size on the wire.
    pub const BYTES: usize = 18;

    /// To bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&INIT_MAGIC.to_be_bytes());
        bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
        bytes[16..].copy_from_slice(&self.flags.to_be_bytes());
        bytes
    }

    /// From bytes; `None` when the magic is not that of a newstyle server.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<Greeting> {
        let newstyle = u64_at(bytes, 0) == INIT_MAGIC && u64_at(bytes, 8) == OPTION_MAGIC;
        newstyle.then(|| Greeting { flags: u16_at(bytes, 16) })
    }
}

/// The header of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// One of `OPT_*`, or something unknown.
    pub option: u32,
    /// Bytes of data that follow.
    pub length_bytes: u32,
}

impl OptionHeader {
    /// Size on the wire.
    pub const BYTES: usize = 16;

    /// To bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.option.to_be_bytes());
        bytes[12..].copy_from_slice(&self.length_bytes.to_be_bytes());
        bytes
    }

    /// From bytes; `None` when the magic is wrong.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<OptionHeader> {
        (u64_at(bytes, 0) == OPTION_MAGIC)
            .then(|| OptionHeader { option: u32_at(bytes, 8), length_bytes: u32_at(bytes, 12) })
    }
}

/// The header of a reply to an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionReplyHeader {
    /// The option this answers.
    pub option: u32,
    /// One of `REP_*`, or something unknown.
    pub kind: u32,
    /// Bytes of data that follow.
    pub length_bytes: u32,
}

impl OptionReplyHeader {
    /// Size on the wire.
    pub const BYTES: usize = 20;

    /// To bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.option.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.kind.to_be_bytes());
        bytes[16..].copy_from_slice(&self.length_bytes.to_be_bytes());
        bytes
    }

    /// From bytes; `None` when the magic is wrong.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<OptionReplyHeader> {
        (u64_at(bytes, 0) == OPTION_REPLY_MAGIC).then(|| OptionReplyHeader {
            option: u32_at(bytes, 8),
            kind: u32_at(bytes, 12),
            length_bytes: u32_at(bytes, 16),
        })
    }
}

/// The header of a transmission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// `CMD_FLAG_*` bits.
    pub flags: u16,
    /// One of `CMD_*`, or something unknown.
    pub command: u16,
    /// Comes back in the reply.
    pub cookie: u64,
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes.
    pub length_bytes: u32,
}

impl RequestHeader {
    /// Size on the wire.
    pub const BYTES: usize = 28;

    /// To bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset_bytes.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length_bytes.to_be_bytes());
        bytes
    }

    /// From bytes; `None` when the magic is wrong.
    #[inline]
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<RequestHeader> {
        (u32_at(bytes, 0) == REQUEST_MAGIC).then(|| RequestHeader {
            flags: u16_at(bytes, 4),
            command: u16_at(bytes, 6),
            cookie: u64_at(bytes, 8),
            offset_bytes: u64_at(bytes, 16),
            length_bytes: u32_at(bytes, 24),
        })
    }
}

/// The header of a simple reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimpleReplyHeader {
    /// Zero or an error number of the protocol.
    pub error: u32,
    /// The request's cookie.
    pub cookie: u64,
}

impl SimpleReplyHeader {
    /// Size on the wire.
    pub const BYTES: usize = 16;

    /// To bytes.
    #[inline]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.error.to_be_bytes());
        bytes[8..].copy_from_slice(&self.cookie.to_be_bytes());
        bytes
    }

    /// From bytes; `None` when the magic is wrong.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<SimpleReplyHeader> {
        (u32_at(bytes, 0) == SIMPLE_REPLY_MAGIC)
            .then(|| SimpleReplyHeader { error: u32_at(bytes, 4), cookie: u64_at(bytes, 8) })
    }
}

/// The header of a structured reply chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// `CHUNK_FLAG_*` bits.
    pub flags: u16,
    /// One of `CHUNK_*`, or something unknown.
    pub kind: u16,
    /// The request's cookie.
    pub cookie: u64,
    /// Bytes of payload that follow.
    pub length_bytes: u32,
}

impl ChunkHeader {
    /// Size on the wire.
    pub const BYTES: usize = 20;

    /// To bytes.
    #[inline]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..].copy_from_slice(&self.length_bytes.to_be_bytes());
        bytes
    }

    /// From bytes; `None` when the magic is wrong.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<ChunkHeader> {
        (u32_at(bytes, 0) == CHUNK_MAGIC).then(|| ChunkHeader {
            flags: u16_at(bytes, 4),
            kind: u16_at(bytes, 6),
            cookie: u64_at(bytes, 8),
            length_bytes: u32_at(bytes, 16),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_header_has_the_documented_layout() {
        let header = RequestHeader {
            flags: 0x0102,
            command: 0x0304,
            cookie: 0x1112_1314_1516_1718,
            offset_bytes: 0x2122_2324_2526_2728,
            length_bytes: 0x3132_3334,
        };
        let bytes = [
            0x25, 0x60, 0x95, 0x13, 1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22,
            0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x31, 0x32, 0x33, 0x34,
        ];
        assert_eq!(header.encode(), bytes);
        assert_eq!(RequestHeader::decode(&bytes), Some(header));
    }

    #[test]
    fn the_greeting_spells_its_magic() {
        let bytes = Greeting { flags: 3 }.encode();
        assert_eq!(&bytes[..16], b"NBDMAGICIHAVEOPT");
        assert_eq!(Greeting::decode(&bytes), Some(Greeting { flags: 3 }));
    }

    #[test]
    fn reply_headers_have_the_documented_layout() {
        let simple = SimpleReplyHeader { error: 5, cookie: 0x0102_0304_0506_0708 };
        assert_eq!(simple.encode(), [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(SimpleReplyHeader::decode(&simple.encode()), Some(simple));

        let chunk = ChunkHeader { flags: 1, kind: 0x8001, cookie: 9, length_bytes: 6 };
        let bytes = [0x66, 0x8e, 0x33, 0xef, 0, 1, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 6];
        assert_eq!(chunk.encode(), bytes);
        assert_eq!(ChunkHeader::decode(&bytes), Some(chunk));

        let option = OptionReplyHeader { option: 7, kind: REP_ERR_UNKNOWN, length_bytes: 2 };
        let bytes = [0, 3, 0xe8, 0x89, 4, 0x55, 0x65, 0xa9, 0, 0, 0, 7, 0x80, 0, 0, 6, 0, 0, 0, 2];
        assert_eq!(option.encode(), bytes);
        assert_eq!(OptionReplyHeader::decode(&bytes), Some(option));
    }

    #[test]
    fn a_flipped_bit_in_any_magic_is_noticed() {
        let mut request =
            RequestHeader { flags: 0, command: 0, cookie: 0, offset_bytes: 0, length_bytes: 0 }.encode();
        request[3] ^= 1;
        assert_eq!(RequestHeader::decode(&request), None);
        let mut greeting = Greeting { flags: 0 }.encode();
        greeting[15] ^= 1;
        assert_eq!(Greeting::decode(&greeting), None);
        let mut option = OptionHeader { option: 1, length_bytes: 0 }.encode();
        option[0] ^= 1;
        assert_eq!(OptionHeader::decode(&option), None);
        let mut reply = OptionReplyHeader { option: 1, kind: 1, length_bytes: 0 }.encode();
        reply[7] ^= 1;
        assert_eq!(OptionReplyHeader::decode(&reply), None);
        let mut simple = SimpleReplyHeader { error: 0, cookie: 0 }.encode();
        simple[0] ^= 1;
        assert_eq!(SimpleReplyHeader::decode(&simple), None);
        let mut chunk = ChunkHeader { flags: 0, kind: 0, cookie: 0, length_bytes: 0 }.encode();
        chunk[0] ^= 1;
        assert_eq!(ChunkHeader::decode(&chunk), None);
    }
}
