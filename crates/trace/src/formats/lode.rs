//! Reading Lodestore's compact format; its bytes are described in [`crate::compact::layout`].
//!
//! Every byte is under a checksum. When faults are skipped, a block of requests with a bad checksum is
//! passed over as one fault; a bad header or a bad block of volume names cannot be, as what follows would
//! have no meaning.

use lode_types::TraceRequest;

use super::{Decoder, Format};
use crate::compact::layout::{self, BlockHeader, BlockKind, FILE_MAGIC, HEADER_BYTES, SLOT_BYTES};
use crate::error::{ErrorKind, Fault, Position, TraceError};
use crate::feed::{Feed, More, check_request};

pub(crate) static FORMAT: Format = Format {
    name: "lode",
    about: "Lodestore's compact binary format, 16 bytes a request",
    endings: &["lode"],
    detect: |head| head.starts_with(&FILE_MAGIC),
    decoder: |_| Box::new(Lode { started: false, requests: 0, lost_blocks: false }),
};

const VERSION: Fault = Fault::new(ErrorKind::Version, "version 1 of the compact format");
const FILE_HEADER: Fault = Fault::new(ErrorKind::Checksum, "an intact file header");
const BLOCK_HEADER: Fault = Fault::new(ErrorKind::Checksum, "an intact block header");
const BLOCK: Fault = Fault::new(ErrorKind::Checksum, "an intact block");
const CUT: Fault = Fault::new(ErrorKind::Truncated, "more blocks up to an end block");
const NAMES: Fault = Fault::malformed("volume names as the block's header announces them");
const COUNT: Fault = Fault::malformed("as many requests as the header announces");
const WIDE: Fault = Fault::malformed("a valid pair of wide slots");
const TIME: Fault = Fault::new(ErrorKind::OutOfRange, "a time below 2^64 ns");
const VOLUME: Fault = Fault::malformed("the number of a volume named before");
const TRAILING: Fault = Fault::malformed("nothing after the end block");

struct Lode {
    started: bool,
    requests: u64,
    lost_blocks: bool,
}

impl Decoder for Lode {
    fn decode(&mut self, feed: &mut Feed, out: &mut Vec<TraceRequest>) -> Result<More, TraceError> {
        if !self.started {
            let Some(header) = header_at(feed)? else { return cut_short(feed) };
            check_file_header(&header).map_err(|fault| feed.fatal(fault, here(feed)))?;
            feed.input.consume(HEADER_BYTES);
            self.started = true;
        }
        let Some(bytes) = header_at(feed)? else { return cut_short(feed) };
        if !layout::is_sealed(&bytes) {
            return Err(feed.fatal(BLOCK_HEADER, here(feed)));
        }
        let header = BlockHeader::decode(&bytes).ok_or_else(|| feed.fatal(VERSION, here(feed)))?;
        let block_bytes = HEADER_BYTES + header.payload_bytes as usize;
        if !feed.input.need(block_bytes).map_err(|error| feed.read_failed(error))? {
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
                add_volumes(feed, &header).map_err(|fault| feed.fatal(fault, here(feed)))?
            }
            BlockKind::Requests => self.add_requests(feed, &header, out)?,
            BlockKind::End => return self.end(feed, &header, block_bytes),
        }
        feed.input.consume(block_bytes);
        Ok(More::Yes)
    }
}

fn here(feed: &Feed) -> Position {
    Position { byte: feed.input.offset(), line: None }
}

fn header_at(feed: &mut Feed) -> Result<Option<[u8; HEADER_BYTES]>, TraceError> {
    feed.input.need(HEADER_BYTES).map_err(|error| feed.read_failed(error))?;
    Ok(feed.input.available().first_chunk().copied())
}

/// The file ends without an end block: a fault at the place where bytes are missing.
fn cut_short(feed: &mut Feed) -> Result<More, TraceError> {
    let rest = feed.input.available().len();
    feed.input.consume(rest);
    feed.fault(CUT, here(feed))?;
    Ok(More::No)
}

fn check_file_header(header: &[u8; HEADER_BYTES]) -> Result<(), Fault> {
    if !header.starts_with(&FILE_MAGIC) {
        return Err(Fault::malformed("the first bytes of the compact format"));
    }
    if !layout::is_sealed(header) {
        return Err(FILE_HEADER);
    }
    if *header == layout::file_header() { Ok(()) } else { Err(VERSION) }
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
    /// Adds the requests of an intact block. A bad one among them ends the block.
    fn add_requests(
        &mut self,
        feed: &mut Feed,
        header: &BlockHeader,
        out: &mut Vec<TraceRequest>,
    ) -> Result<(), TraceError> {
        let payload = &feed.input.available()[HEADER_BYTES..HEADER_BYTES + header.payload_bytes as usize];
        let volumes = feed.volumes.names().len() as u32;
        let before = out.len();
        let unpacked = unpack_slots(payload, header.base, volumes, out);
        let added = out.len() - before;
        self.requests += added as u64;
        let fault = match unpacked {
            Err((fault, at)) => Some((fault, HEADER_BYTES + at)),
            Ok(()) if added != header.items as usize => Some((COUNT, 0)),
            Ok(()) => None,
        };
        if let Some((fault, at)) = fault {
            self.lost_blocks = true;
            feed.fault(fault, Position { byte: feed.input.offset() + at as u64, line: None })?;
        }
        Ok(())
    }

    fn end(&mut self, feed: &mut Feed, header: &BlockHeader, block_bytes: usize) -> Result<More, TraceError> {
        if header.base != self.requests && !self.lost_blocks {
            feed.fault(COUNT, here(feed))?;
        }
        feed.input.consume(block_bytes);
        if feed.input.need(1).map_err(|error| feed.read_failed(error))? {
            feed.fault(TRAILING, here(feed))?;
        }
        Ok(More::No)
    }
}

/// Appends the requests in `payload`; a fault comes with its offset in the payload.
fn unpack_slots(
    payload: &[u8],
    base_ns: u64,
    volumes: u32,
    out: &mut Vec<TraceRequest>,
) -> Result<(), (Fault, usize)> {
    let (slots, rest) = payload.as_chunks::<SLOT_BYTES>();
    if !rest.is_empty() {
        return Err((COUNT, 0));
    }
    out.reserve(slots.len());
    let mut previous_ns = base_ns;
    let mut index = 0;
    while let Some(slot) = slots.get(index) {
        let at = index * SLOT_BYTES;
        let slot = layout::words(slot);
        let request = if layout::is_wide(slot) {
            index += 1;
            let second = slots.get(index).map(layout::words).ok_or((WIDE, at))?;
            layout::unpack_wide([slot[0], slot[1], second[0], second[1]]).ok_or((WIDE, at))?
        } else {
            layout::unpack(slot, previous_ns).ok_or((TIME, at))?
        };
        index += 1;
        if request.volume >= volumes {
            return Err((VOLUME, at));
        }
        check_request(&request).map_err(|fault| (fault, at))?;
        previous_ns = request.time_ns;
        out.push(request);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::{OnError, ReadOptions, read_trace};
    use lode_types::Op;

    const READ: TraceRequest =
        TraceRequest { time_ns: 5, offset_bytes: 4096, length_bytes: 512, volume: 0, op: Op::Read };

    fn block(kind: BlockKind, items: u32, base: u64, payload: &[u8]) -> Vec<u8> {
        let payload_bytes = payload.len() as u32;
        let header = BlockHeader { kind, payload_bytes, items, base, payload_crc: crc32c::crc32c(payload) };
        [&header.encode()[..], payload].concat()
    }

    fn slot(request: &TraceRequest) -> Vec<u8> {
        layout::pack(request, 5).into_iter().flatten().flat_map(u64::to_le_bytes).collect()
    }

    fn wide(words: [u64; 4]) -> Vec<u8> {
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    fn file(blocks: &[Vec<u8>]) -> Vec<u8> {
        [&layout::file_header()[..], &blocks.concat()].concat()
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
        let good = block(BlockKind::Requests, 1, 5, &slot(&READ));
        let end = |count| block(BlockKind::End, 0, count, b"");
        let requests = |payload: &[u8]| block(BlockKind::Requests, 1, 5, payload);
        let low = layout::pack_wide(&READ)[1];
        let after_names = 32 + names.len() as u64;
        let after_good = after_names + good.len() as u64;
        for (blocks, requests_read, expected) in [
            (vec![names.clone(), good.clone(), end(1)], 1, None),
            (vec![end(0)], 0, None),
            (vec![names.clone(), good.clone()], 1, Some((ErrorKind::Truncated, after_good))),
            (vec![names.clone(), good.clone(), end(2)], 1, Some((ErrorKind::Malformed, after_good))),
            (vec![end(0), good.clone()], 0, Some((ErrorKind::Malformed, 64))),
            (vec![good.clone(), end(1)], 0, Some((ErrorKind::Malformed, 64))),
            (vec![names.clone(), names.clone(), end(0)], 0, Some((ErrorKind::Malformed, after_names))),
            (vec![block(BlockKind::Volumes, 2, 0, b"\x01\0a\x01\0a")], 0, Some((ErrorKind::VolumeName, 32))),
            (vec![block(BlockKind::Volumes, 1, 0, b"\x02\0a")], 0, Some((ErrorKind::Malformed, 32))),
            (vec![block(BlockKind::Volumes, 1, 0, b"\x01\0ab")], 0, Some((ErrorKind::Malformed, 32))),
            (vec![block(BlockKind::Volumes, 1, 0, b"\x01\0\n")], 0, Some((ErrorKind::VolumeName, 32))),
            (
                vec![names.clone(), requests(&slot(&TraceRequest { length_bytes: 0, ..READ }))],
                0,
                Some((ErrorKind::ZeroLength, after_names + 32)),
            ),
            (
                vec![names.clone(), requests(&wide([0, low, u64::MAX - 3, 5]))],
                0,
                Some((ErrorKind::OutOfRange, after_names + 32)),
            ),
            (
                vec![names.clone(), requests(&wide([0, low, 0, 1 << 32]))],
                0,
                Some((ErrorKind::Malformed, after_names + 32)),
            ),
            (
                vec![names.clone(), requests(&wide([0, low, 0, 5])[..16])],
                0,
                Some((ErrorKind::Malformed, after_names + 32)),
            ),
            (
                vec![names.clone(), requests(&slot(&READ)[..15])],
                0,
                Some((ErrorKind::Malformed, after_names + 32)),
            ),
            (
                vec![
                    names.clone(),
                    block(BlockKind::Requests, 1, u64::MAX, &slot(&TraceRequest { time_ns: 6, ..READ })),
                ],
                0,
                Some((ErrorKind::OutOfRange, after_names + 32)),
            ),
        ] {
            assert_eq!(outcome(file(&blocks), OnError::Stop), (requests_read, expected));
        }
    }

    #[test]
    fn passes_over_a_damaged_block_when_asked() {
        let names = block(BlockKind::Volumes, 1, 0, b"\x01\0a");
        let good = block(BlockKind::Requests, 1, 5, &slot(&READ));
        let mut bad = good.clone();
        bad[40] ^= 1;
        let bytes =
            file(&[names.clone(), good.clone(), bad.clone(), good.clone(), block(BlockKind::End, 0, 3, b"")]);
        let at = (32 + names.len() + good.len()) as u64;
        assert_eq!(outcome(bytes.clone(), OnError::Skip), (2, Some((ErrorKind::Checksum, at))));
        assert_eq!(outcome(bytes, OnError::Stop), (1, Some((ErrorKind::Checksum, at))));
        let mut bad_names = names;
        bad_names[33] ^= 1;
        assert_eq!(outcome(file(&[bad_names, good]), OnError::Skip), (0, Some((ErrorKind::Checksum, 32))));
    }

    #[test]
    fn refuses_other_versions() {
        let mut header = layout::file_header();
        header[8] = 2;
        let crc = crc32c::crc32c(&header[..28]);
        header[28..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(outcome(header.to_vec(), OnError::Skip), (0, Some((ErrorKind::Version, 0))));
        header[28] ^= 1;
        assert_eq!(outcome(header.to_vec(), OnError::Stop), (0, Some((ErrorKind::Checksum, 0))));
    }
}
