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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::Recorded;
    use crate::compact::shape::{Ranges, Shape};
    use crate::reader::{OnError, ReadOptions, read_trace};
    use lode_types::{Origin, RequestOp};

    const READ: TraceRequest = TraceRequest {
        time_ns: 5,
        offset_bytes: 4096,
        length_bytes: 512,
        volume: 0,
        op: RequestOp::Read,
        origin: Origin::UNKNOWN,
    };

    fn block(kind: BlockKind, items: u32, base: u64, payload: &[u8]) -> Vec<u8> {
        let payload_bytes = payload.len() as u32;
        let header = BlockHeader { kind, payload_bytes, items, base, payload_crc: crc32c::crc32c(payload) };
        [&header.encode()[..], payload].concat()
    }

    fn payload(requests: &[TraceRequest]) -> Vec<u8> {
        let mut payload = Vec::new();
        let ranges = Ranges::of(requests).expect("requests");
        Shape::from(&ranges).pack(requests, &mut payload);
        payload
    }

    /// A block of two requests, of which the second is the first but for its time.
    fn requests(first: &TraceRequest) -> Vec<u8> {
        let second = TraceRequest { time_ns: first.time_ns + 1, ..*first };
        block(BlockKind::Requests, 2, first.time_ns, &payload(&[*first, second]))
    }

    /// The same block of good requests with these bytes of its payload changed.
    fn changed(changes: &[(usize, u8)]) -> Vec<u8> {
        let mut payload = payload(&[READ, TraceRequest { time_ns: 6, ..READ }]);
        changes.iter().for_each(|&(at, byte)| payload[at] = byte);
        block(BlockKind::Requests, 2, 5, &payload)
    }

    fn file(blocks: &[Vec<u8>]) -> Vec<u8> {
        [&layout::file_header(Recorded::TIMES)[..], &blocks.concat()].concat()
    }

    /// Requests read, and the kind and position of the error.
    fn outcome(bytes: Vec<u8>, on_error: OnError) -> (usize, Option<(ErrorKind, u64)>) {
        let options = ReadOptions { on_error, ..ReadOptions::default() };
        let mut reader =
            read_trace(std::io::Cursor::new(bytes), "x.lode", &options).expect("it is in the format");
        let (mut batch, mut total) = (Vec::new(), 0);
        loop {
            match reader.next_batch(&mut batch) {
                Ok(0) => {
                    let skipped = reader.skipped().faults.first();
                    return (total, skipped.map(|fault| (fault.kind, fault.first[0].0.byte)));
                }
                Ok(count) => total += count,
                Err(error) => return (total, Some((error.kind(), error.position().map_or(0, |p| p.byte)))),
            }
        }
    }

    #[test]
    fn refuses_well_sealed_nonsense() {
        let names = block(BlockKind::Volumes, 1, 0, b"\x01\0a");
        let good = requests(&READ);
        let end = |count| block(BlockKind::End, 0, count, b"");
        let after_names = 32 + names.len() as u64;
        let after_good = after_names + good.len() as u64;
        for (blocks, requests_read, expected) in [
            (vec![names.clone(), good.clone(), end(2)], 2, None),
            (vec![end(0)], 0, None),
            (vec![names.clone(), good.clone()], 2, Some((ErrorKind::Truncated, after_good))),
            (vec![names.clone(), good.clone(), end(3)], 2, Some((ErrorKind::Malformed, after_good))),
            (vec![end(0), good.clone()], 0, Some((ErrorKind::Malformed, 64))),
            (vec![good.clone(), end(2)], 0, Some((ErrorKind::Malformed, 64))),
            (vec![names.clone(), names.clone(), end(0)], 0, Some((ErrorKind::Malformed, after_names))),
            (vec![block(BlockKind::Volumes, 2, 0, b"\x01\0a\x01\0a")], 0, Some((ErrorKind::VolumeName, 32))),
            (vec![block(BlockKind::Volumes, 1, 0, b"\x02\0a")], 0, Some((ErrorKind::Malformed, 32))),
            (vec![block(BlockKind::Volumes, 1, 0, b"\x01\0ab")], 0, Some((ErrorKind::Malformed, 32))),
            (vec![block(BlockKind::Volumes, 1, 0, b"\x01\0\n")], 0, Some((ErrorKind::VolumeName, 32))),
        ] {
            assert_eq!(outcome(file(&blocks), OnError::Stop), (requests_read, expected));
        }
    }

    #[test]
    fn refuses_well_sealed_requests_that_cannot_be() {
        let names = block(BlockKind::Volumes, 1, 0, b"\x01\0a");
        let two = payload(&[READ, TraceRequest { time_ns: 6, ..READ }]);
        let sealed = |items, payload: &[u8]| block(BlockKind::Requests, items, 5, payload);
        let far = TraceRequest { offset_bytes: u64::MAX - 512, ..READ };
        let one_more = [&two[..], &[0]].concat();
        for (bytes, requests_read, kind) in [
            (requests(&TraceRequest { length_bytes: 0, ..READ }), 0, ErrorKind::ZeroLength),
            (
                sealed(2, &payload(&[READ, TraceRequest { length_bytes: 0, ..READ }])),
                1,
                ErrorKind::ZeroLength,
            ),
            (requests(&TraceRequest { offset_bytes: u64::MAX - 3, ..READ }), 0, ErrorKind::OutOfRange),
            (
                sealed(2, &payload(&[far, TraceRequest { length_bytes: 513, ..far }])),
                1,
                ErrorKind::OutOfRange,
            ),
            (requests(&TraceRequest { volume: 1, ..READ }), 0, ErrorKind::Malformed),
            (sealed(2, &payload(&[READ, TraceRequest { volume: 1, ..READ }])), 1, ErrorKind::Malformed),
            (sealed(2, &one_more), 0, ErrorKind::Malformed),
            (sealed(2, &two[..10]), 0, ErrorKind::Malformed),
            (sealed(4097, &payload(&[READ; 4097])), 0, ErrorKind::Malformed),
            (sealed(u32::MAX, &two), 0, ErrorKind::Malformed),
            // The op; half bytes of origins; half bytes of steps, offsets, lengths, volumes; unit of steps.
            (changed(&[(22, 5)]), 0, ErrorKind::Malformed),
            (changed(&[(23, 1)]), 0, ErrorKind::Malformed),
            (changed(&[(24, 17)]), 0, ErrorKind::Malformed),
            (changed(&[(24, 1)]), 0, ErrorKind::Malformed),
            (changed(&[(28, 0)]), 0, ErrorKind::Malformed),
        ] {
            let good = block(BlockKind::Requests, 2, 5, &two);
            let at = (32 + names.len() + 32) as u64;
            let alone = file(&[names.clone(), bytes.clone()]);
            assert_eq!(outcome(alone, OnError::Stop), (requests_read, Some((kind, at))));
            let followed = file(&[names.clone(), bytes, good, block(BlockKind::End, 0, 9, b"")]);
            assert_eq!(outcome(followed, OnError::Skip), (requests_read + 2, Some((kind, at))));
        }
    }

    #[test]
    fn passes_over_a_damaged_block_when_asked() {
        let names = block(BlockKind::Volumes, 1, 0, b"\x01\0a");
        let good = requests(&READ);
        let mut bad = good.clone();
        bad[40] ^= 1;
        let bytes =
            file(&[names.clone(), good.clone(), bad.clone(), good.clone(), block(BlockKind::End, 0, 6, b"")]);
        let at = (32 + names.len() + good.len()) as u64;
        assert_eq!(outcome(bytes.clone(), OnError::Skip), (4, Some((ErrorKind::Checksum, at))));
        assert_eq!(outcome(bytes, OnError::Stop), (2, Some((ErrorKind::Checksum, at))));
        let mut bad_names = names;
        bad_names[33] ^= 1;
        assert_eq!(outcome(file(&[bad_names, good]), OnError::Skip), (0, Some((ErrorKind::Checksum, 32))));
    }

    #[test]
    fn refuses_other_versions() {
        let mut header = layout::file_header(Recorded::TIMES);
        for version in [1, 2, 5] {
            header[8] = version;
            let crc = crc32c::crc32c(&header[..28]);
            header[28..].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(outcome(header.to_vec(), OnError::Skip), (0, Some((ErrorKind::Version, 0))));
        }
        assert!(VERSION.message(false).contains("lode trace convert"));
        header[28] ^= 1;
        assert_eq!(outcome(header.to_vec(), OnError::Stop), (0, Some((ErrorKind::Checksum, 0))));
    }
}
