//! Reading Lodestore's compact format; its bytes are described in [`crate::compact::layout`] and
//! [`crate::compact::shape`].
//!
//! Every byte is under a checksum. When faults are skipped, a block of requests with a bad checksum is
//! passed over as one fault; a bad header or a bad block of volume names cannot be, as what follows would
//! have no meaning.

use lode_types::TraceRequest;

use super::{Decoder, Format};
use crate::compact::layout::{self, BlockHeader, BlockKind, FILE_MAGIC, HEADER_BYTES, MAX_BLOCK_REQUESTS};
use crate::compact::unpack::unpack;
use crate::error::{ErrorKind, Fault, Position, TraceError};
use crate::feed::{Feed, More};
use crate::limits::BATCH_REQUESTS;

pub(crate) static FORMAT: Format = Format {
    name: "lode",
    about: "Lodestore's compact binary format, at most 16 bytes a request",
    endings: &["lode"],
    default_unit_bytes: None,
    units_told: true,
    recorded: layout::recorded,
    detect: |head| head.starts_with(&FILE_MAGIC),
    decoder: |_| Box::new(Lode { started: false, allows_origins: false, requests: 0, lost_blocks: false }),
};

const VERSION: Fault = Fault::new(ErrorKind::Version, "version 3 or 4 of the compact format");
const FILE_HEADER: Fault = Fault::new(ErrorKind::Checksum, "an intact file header");
const BLOCK_HEADER: Fault = Fault::new(ErrorKind::Checksum, "an intact block header");
const BLOCK: Fault = Fault::new(ErrorKind::Checksum, "an intact block");
const CUT: Fault = Fault::new(ErrorKind::Truncated, "more blocks up to an end block");
const NAMES: Fault = Fault::malformed("volume names as the block's header announces them");
const COUNT: Fault = Fault::malformed("as many requests as the headers announce, at most 4,096 a block");
const TRAILING: Fault = Fault::malformed("nothing after the end block");

struct Lode {
    started: bool,
    allows_origins: bool,
    requests: u64,
    lost_blocks: bool,
}

impl Decoder for Lode {
    fn decode(&mut self, feed: &mut Feed, out: &mut Vec<TraceRequest>) -> Result<More, TraceError> {
        if !self.started {
            let Some(header) = header_at(feed)? else { return cut_short(feed) };
            self.allows_origins =
                check_file_header(&header).map_err(|fault| feed.fatal(fault, here(feed)))?;
            feed.input.consume(HEADER_BYTES);
            self.started = true;
        }
        // Short blocks are joined, so that a batch is worth its trouble.
        while out.len() < BATCH_REQUESTS {
            let Some(bytes) = header_at(feed)? else { return cut_short(feed) };
            if !layout::is_sealed(&bytes) {
                return Err(feed.fatal(BLOCK_HEADER, here(feed)));
            }
            let header = BlockHeader::decode(&bytes).ok_or_else(|| feed.fatal(VERSION, here(feed)))?;
            if !out.is_empty() && out.len() + header.items as usize > BATCH_REQUESTS {
                break;
            }
            if self.block(feed, &header, out)? == More::No {
                return Ok(More::No);
            }
        }
        Ok(More::Yes)
    }
}

fn here(feed: &Feed) -> Position {
    Position::at_byte(feed.input.offset())
}

fn header_at(feed: &mut Feed) -> Result<Option<[u8; HEADER_BYTES]>, TraceError> {
    feed.need(HEADER_BYTES)?;
    Ok(feed.input.available().first_chunk().copied())
}

/// The file ends without an end block: a fault at the place where bytes are missing.
fn cut_short(feed: &mut Feed) -> Result<More, TraceError> {
    let rest = feed.input.available().len();
    feed.input.consume(rest);
    // A compressed stream that was cut is a fault already.
    if !feed.is_cut() {
        feed.fault(CUT, here(feed))?;
    }
    Ok(More::No)
}

/// Whether blocks may have origins.
fn check_file_header(header: &[u8; HEADER_BYTES]) -> Result<bool, Fault> {
    if !header.starts_with(&FILE_MAGIC) {
        return Err(Fault::malformed("the first bytes of the compact format"));
    }
    if !layout::is_sealed(header) {
        return Err(FILE_HEADER);
    }
    layout::allows_origins(header).ok_or(VERSION)
}

fn add_volumes(feed: &mut Feed, header: &BlockHeader) -> Result<(), Fault> {
    let Feed { input, volumes, .. } = feed;
    let mut payload = &input.available()[HEADER_BYTES..HEADER_BYTES + header.payload_bytes as usize];
    if header.base != volumes.names().len() as u64 {
        return Err(NAMES);
    }
    for _ in 0..header.items {
        let (len, rest) = payload.split_first_chunk::<2>().ok_or(NAMES)?;
        let (name, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len))).ok_or(NAMES)?;
        volumes.add(name)?;
        payload = rest;
    }
    if payload.is_empty() { Ok(()) } else { Err(NAMES) }
}

impl Lode {
    /// Reads the block with this header; [`More::No`] after the last.
    fn block(
        &mut self,
        feed: &mut Feed,
        header: &BlockHeader,
        out: &mut Vec<TraceRequest>,
    ) -> Result<More, TraceError> {
        let block_bytes = HEADER_BYTES + header.payload_bytes as usize;
        if !feed.need(block_bytes)? {
            return cut_short(feed);
        }
        let payload = &feed.input.available()[HEADER_BYTES..block_bytes];
        let intact = crc32c::crc32c(payload) == header.payload_crc;
        match header.kind {
            BlockKind::Requests if !intact => {
                self.lost_blocks = true;
                feed.fault(BLOCK, here(feed))?;
            }
            _ if !intact => return Err(feed.fatal(BLOCK, here(feed))),
            BlockKind::Volumes => {
                add_volumes(feed, header).map_err(|fault| feed.fatal(fault, here(feed)))?;
            }
            BlockKind::Requests => self.add_requests(feed, header, out)?,
            BlockKind::End => return self.end(feed, header, block_bytes),
        }
        feed.input.consume(block_bytes);
        Ok(More::Yes)
    }

    /// Adds the requests of an intact block. A bad one among them ends the block; it has no place of its own, so that
    /// the fault is at the block's columns.
    fn add_requests(
        &mut self,
        feed: &mut Feed,
        header: &BlockHeader,
        out: &mut Vec<TraceRequest>,
    ) -> Result<(), TraceError> {
        let payload = &feed.input.available()[HEADER_BYTES..HEADER_BYTES + header.payload_bytes as usize];
        let (count, volumes) = (header.items as usize, feed.volumes.names().len() as u32);
        let before = out.len();
        let unpacked = if count <= MAX_BLOCK_REQUESTS {
            unpack(payload, header.base, count, volumes, self.allows_origins, out)
        } else {
            Err(COUNT)
        };
        self.requests += (out.len() - before) as u64;
        if let Err(fault) = unpacked {
            self.lost_blocks = true;
            let byte = feed.input.offset() + HEADER_BYTES as u64;
            feed.fault(fault, Position::at_byte(byte))?;
        }
        Ok(())
    }

    fn end(&mut self, feed: &mut Feed, header: &BlockHeader, block_bytes: usize) -> Result<More, TraceError> {
        if header.base != self.requests && !self.lost_blocks {
            feed.fault(COUNT, here(feed))?;
        }
        feed.input.consume(block_bytes);
        if feed.need(1)? {
            feed.fault(TRAILING, here(feed))?;
        }
        Ok(More::No)
    }
}
