//! Writing the server's replies of the transmission phase.
//!
//! Only headers and error chunks are written; the bytes of a read are appended by whoever holds them.

use crate::error::CommandError;
use crate::option::ALLOCATION_CONTEXT;
use crate::proto::{self, ChunkHeader, SimpleReplyHeader};
use crate::request::Refusal;

/// Longest error message put into a chunk, in bytes; longer ones are cut.
pub const MAX_MESSAGE_BYTES: usize = 512;

/// A stretch of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusDescriptor {
    /// Its length, not zero.
    pub length_bytes: u32,
    /// Nothing is allocated for it, and it reads as zeroes. Otherwise nothing is known of what it holds.
    pub is_hole: bool,
}

/// Writes replies in the form that was negotiated. Replies may be written in any order; the chunks of several
/// structured replies may be interleaved.
#[derive(Clone, Copy, Debug)]
pub struct ReplyEncoder {
    structured: bool,
}

impl ReplyEncoder {
    /// An encoder for a session with or without structured replies.
    pub fn new(structured: bool) -> ReplyEncoder {
        ReplyEncoder { structured }
    }

    /// Success of a command other than a read.
    #[inline]
    pub fn success(&self, out: &mut Vec<u8>, cookie: u64) {
        // Allowed beside structured replies for everything but reads, and 4 bytes shorter.
        out.extend_from_slice(&SimpleReplyHeader { error: 0, cookie }.encode());
    }

    /// Success of a whole read. The caller appends exactly `length_bytes` (at least one) bytes of data.
    ///
    /// Call it only when all of the data is there: no error can be reported after the header.
    #[inline]
    pub fn read_data(&self, out: &mut Vec<u8>, cookie: u64, offset_bytes: u64, length_bytes: u32) {
        if self.structured {
            write_data_chunk(out, proto::CHUNK_FLAG_DONE, cookie, offset_bytes, length_bytes);
        } else {
            self.success(out, cookie);
        }
    }

    /// A chunk of a read that is answered in pieces; `None`, and nothing written, when structured replies were
    /// not negotiated. The caller appends exactly `length_bytes` (at least one) bytes of data, and ends the
    /// reply with [`ReplyEncoder::read_end`] or [`ReplyEncoder::error`].
    /// A read with [`crate::CommandFlags::df`] takes one piece only.
    #[must_use]
    pub fn read_piece(
        &self,
        out: &mut Vec<u8>,
        cookie: u64,
        offset_bytes: u64,
        length_bytes: u32,
    ) -> Option<()> {
        self.structured.then(|| write_data_chunk(out, 0, cookie, offset_bytes, length_bytes))
    }

    /// A stretch of zeroes in a read that is answered in pieces, as [`ReplyEncoder::read_piece`] without data to append.
    #[must_use]
    pub fn read_zeroes(
        &self,
        out: &mut Vec<u8>,
        cookie: u64,
        offset_bytes: u64,
        length_bytes: u32,
    ) -> Option<()> {
        self.structured.then(|| {
            let kind = proto::CHUNK_OFFSET_HOLE;
            out.extend_from_slice(&ChunkHeader { flags: 0, kind, cookie, length_bytes: 12 }.encode());
            out.extend_from_slice(&offset_bytes.to_be_bytes());
            out.extend_from_slice(&length_bytes.to_be_bytes());
        })
    }

    /// The answer to a [`crate::Command::BlockStatus`]: at least one descriptor, from the first byte asked for on.
    pub fn block_status(&self, out: &mut Vec<u8>, cookie: u64, descriptors: &[StatusDescriptor]) {
        let length_bytes = (4 + 8 * descriptors.len()) as u32;
        let (flags, kind) = (proto::CHUNK_FLAG_DONE, proto::CHUNK_BLOCK_STATUS);
        out.extend_from_slice(&ChunkHeader { flags, kind, cookie, length_bytes }.encode());
        out.extend_from_slice(&ALLOCATION_CONTEXT.to_be_bytes());
        for descriptor in descriptors {
            let state = if descriptor.is_hole { proto::STATE_HOLE | proto::STATE_ZERO } else { 0 };
            out.extend_from_slice(&descriptor.length_bytes.to_be_bytes());
            out.extend_from_slice(&state.to_be_bytes());
        }
    }

    /// Whether reads are answered in chunks.
    pub fn is_structured(&self) -> bool {
        self.structured
    }

    /// The end of a read whose pieces were all written with [`ReplyEncoder::read_piece`].
    pub fn read_end(&self, out: &mut Vec<u8>, cookie: u64) {
        let header =
            ChunkHeader { flags: proto::CHUNK_FLAG_DONE, kind: proto::CHUNK_NONE, cookie, length_bytes: 0 };
        out.extend_from_slice(&header.encode());
    }

    /// Failure of any command. The message reaches the client's user only with structured replies.
    pub fn error(&self, out: &mut Vec<u8>, cookie: u64, error: CommandError, message: &str) {
        if self.structured {
            write_error_chunk(out, cookie, error, message);
        } else {
            out.extend_from_slice(&SimpleReplyHeader { error: error.code(), cookie }.encode());
        }
    }

    /// The answer to [`crate::Received::Refused`].
    pub fn refused(&self, out: &mut Vec<u8>, cookie: u64, refusal: Refusal) {
        self.error(out, cookie, refusal.error(), refusal.message());
    }
}

fn write_data_chunk(out: &mut Vec<u8>, flags: u16, cookie: u64, offset_bytes: u64, length_bytes: u32) {
    // Payloads are at most `MAX_PAYLOAD_BYTES`, so that adding the offset field cannot wrap.
    let header =
        ChunkHeader { flags, kind: proto::CHUNK_OFFSET_DATA, cookie, length_bytes: length_bytes + 8 };
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(&offset_bytes.to_be_bytes());
}

fn write_error_chunk(out: &mut Vec<u8>, cookie: u64, error: CommandError, message: &str) {
    let message = &message[..message.floor_char_boundary(MAX_MESSAGE_BYTES)];
    let length_bytes = (4 + 2 + message.len()) as u32;
    let (flags, kind) = (proto::CHUNK_FLAG_DONE, proto::CHUNK_ERROR);
    let header = ChunkHeader { flags, kind, cookie, length_bytes };
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(&error.code().to_be_bytes());
    out.extend_from_slice(&(message.len() as u16).to_be_bytes());
    out.extend_from_slice(message.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_replies_are_sixteen_bytes() {
        let encoder = ReplyEncoder::new(false);
        let mut out = Vec::new();
        encoder.read_data(&mut out, 7, 4096, 512);
        encoder.error(&mut out, 8, CommandError::Eio, "unheard");
        assert_eq!(out.len(), 32);
        assert_eq!(out[20..24], [0, 0, 0, 5]);
        assert_eq!(encoder.read_piece(&mut out, 7, 0, 512), None);
        assert_eq!(encoder.read_zeroes(&mut out, 7, 0, 512), None);
        assert_eq!(out.len(), 32);
    }

    #[test]
    fn structured_replies_have_the_documented_layout() {
        let encoder = ReplyEncoder::new(true);
        let mut out = Vec::new();
        encoder.read_data(&mut out, 7, 4096, 512);
        assert_eq!(out[4..8], [0, 1, 0, 1]);
        assert_eq!(out[16..28], [0, 0, 2, 8, 0, 0, 0, 0, 0, 0, 16, 0]);
        out.clear();
        encoder.error(&mut out, 7, CommandError::Eio, "bad");
        assert_eq!(out[4..8], [0, 1, 0x80, 1]);
        assert_eq!(out[16..20], [0, 0, 0, 9]);
        assert_eq!(out[20..], [0, 0, 0, 5, 0, 3, b'b', b'a', b'd']);
    }

    #[test]
    fn holes_and_extents_have_the_documented_layout() {
        let encoder = ReplyEncoder::new(true);
        let mut out = Vec::new();
        encoder.read_zeroes(&mut out, 7, 4096, 512).unwrap();
        assert_eq!(out[4..8], [0, 0, 0, 2]);
        assert_eq!(out[16..], [0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 2, 0]);
        out.clear();
        let descriptors = [(512, false), (1 << 16, true)];
        let descriptors =
            descriptors.map(|(length_bytes, is_hole)| StatusDescriptor { length_bytes, is_hole });
        encoder.block_status(&mut out, 7, &descriptors);
        assert_eq!(out[4..8], [0, 1, 0, 5]);
        assert_eq!(out[16..24], [0, 0, 0, 20, 0, 0, 0, 1]);
        assert_eq!(out[24..], [0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 3]);
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let mut out = Vec::new();
        ReplyEncoder::new(true).error(&mut out, 7, CommandError::Eio, &"é".repeat(300).replacen('é', "x", 1));
        assert_eq!(out[24..26], 511u16.to_be_bytes());
        assert_eq!(out.len(), 20 + 6 + 511);
    }
}
