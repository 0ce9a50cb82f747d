//! The client's side of the transmission phase: requests to bytes, and a stream of replies to events.
//!
//! Replies are matched by cookie, in any order. Must not know what is read or written.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use lode_nbd::bytes::{Fields, Gather, fill, split_payload};
use lode_nbd::proto::{self, ChunkHeader, RequestHeader, SimpleReplyHeader};
use lode_nbd::{Command, CommandError, Limits, Request};

use crate::coverage::Coverage;
use crate::error::{Error, ErrorKind};
use crate::handshake::RemoteExport;

/// Most requests in flight on one connection.
pub const MAX_IN_FLIGHT: usize = 1 << 16;
/// Longest error chunk that is accepted.
pub const MAX_ERROR_CHUNK_BYTES: u32 = 8 << 10;

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent<'i> {
    /// Bytes of a read; never empty. They mean nothing until [`ClientEvent::Done`].
    ReadData {
        /// The read's cookie.
        cookie: u64,
        /// Where the bytes belong on the export; within the read.
        offset_bytes: u64,
        /// The bytes.
        bytes: &'i [u8],
    },
    /// A stretch of a read that is all zeroes. Means nothing until [`ClientEvent::Done`].
    ReadZeroes {
        /// The read's cookie.
        cookie: u64,
        /// Where the zeroes belong on the export; within the read.
        offset_bytes: u64,
        /// Number of zero bytes.
        length_bytes: u32,
    },
    /// The request succeeded; if it was a read, each of its bytes was delivered exactly once.
    Done {
        /// The request's cookie, free for another request from here on.
        cookie: u64,
    },
    /// The request failed.
    Failed {
        /// The request's cookie, free for another request from here on.
        cookie: u64,
        /// Why.
        error: CommandError,
        /// The server's words; may be empty.
        message: String,
    },
}

/// The client's side of a session after its handshake.
#[derive(Debug)]
pub struct ClientTransmission {
    limits: Limits,
    structured: bool,
    in_flight: HashMap<u64, Pending>,
    head: Gather<{ SimpleReplyHeader::BYTES }>,
    chunk_tail: Gather<4>,
    fields: Vec<u8>,
    state: State,
}

#[derive(Debug)]
struct Pending {
    request: Request,
    coverage: Coverage,
    error: Option<(CommandError, String)>,
}

#[derive(Debug)]
enum State {
    Head,
    /// The rest of a chunk's header, which is longer than that of a simple reply.
    ChunkTail([u8; SimpleReplyHeader::BYTES]),
    /// The first `wanted_bytes` of a chunk's payload, to be understood as a whole.
    Fields {
        chunk: ChunkHeader,
        wanted_bytes: u32,
    },
    Data {
        cookie: u64,
        offset_bytes: u64,
        remaining_bytes: u32,
        last: bool,
    },
    /// The reply to this request is complete but not yet reported.
    Complete {
        cookie: u64,
    },
    Failed(Error),
}

impl ClientTransmission {
    /// A session on the export that a [`crate::ClientHandshake`] has opened.
    pub fn new(export: &RemoteExport) -> ClientTransmission {
        ClientTransmission {
            limits: export.limits(),
            structured: export.structured,
            in_flight: HashMap::new(),
            head: Gather::new(),
            chunk_tail: Gather::new(),
            fields: Vec::new(),
            state: State::Head,
        }
    }

    /// Number of requests without a complete reply.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Appends a request to `out`. After a write the caller appends exactly `length_bytes` of payload.
    ///
    /// # Errors
    /// [`ErrorKind::BadRequest`], and nothing written, when the export would refuse the request, the cookie is
    /// in flight, or [`MAX_IN_FLIGHT`] is reached.
    pub fn submit(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), Error> {
        if let Err(refusal) = self.limits.check(request) {
            return Err(Error::new(ErrorKind::BadRequest, format!("{} ({request:?})", refusal.message())));
        }
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            return Err(Error::new(ErrorKind::BadRequest, format!("{MAX_IN_FLIGHT} requests are in flight")));
        }
        let Entry::Vacant(place) = self.in_flight.entry(request.cookie) else {
            return Err(Error::new(ErrorKind::BadRequest, format!("cookie {} is in flight", request.cookie)));
        };
        place.insert(Pending { request: *request, coverage: Coverage::default(), error: None });
        out.extend_from_slice(&request.header().encode());
        Ok(())
    }

    /// Appends the request that ends the session. Nothing may be submitted after it.
    pub fn disconnect(&self, out: &mut Vec<u8>) {
        let header =
            RequestHeader { flags: 0, command: proto::CMD_DISC, cookie: 0, offset_bytes: 0, length_bytes: 0 };
        out.extend_from_slice(&header.encode());
    }

    /// Consumes a prefix of `input` and returns its length with the event it completed. Call again with the
    /// rest, even if it is empty, until there is no event; then all of the input was consumed.
    ///
    /// # Errors
    /// [`ErrorKind::BadMagic`] or [`ErrorKind::BadReply`]: close the connection; what is in flight has an
    /// unknown outcome. Later calls return the same error.
    pub fn advance<'i>(&mut self, input: &'i [u8]) -> Result<(usize, Option<ClientEvent<'i>>), Error> {
        let mut rest = input;
        match self.run(&mut rest) {
            Ok(event) => Ok((input.len() - rest.len(), event)),
            Err(error) => {
                self.state = State::Failed(error.clone());
                Err(error)
            }
        }
    }

    /// The read whose bytes are due next in the stream, where on the export they belong, and how many there
    /// are; `None` when a header is due.
    pub fn data_due(&self) -> Option<(u64, u64, u32)> {
        match self.state {
            State::Data { cookie, offset_bytes, remaining_bytes, .. } => {
                Some((cookie, offset_bytes, remaining_bytes))
            }
            _ => None,
        }
    }

    /// Notes that the caller received the next `length_bytes` of [`ClientTransmission::data_due`] straight into
    /// its own buffer. Call [`ClientTransmission::advance`] after it.
    ///
    /// # Errors
    /// [`ErrorKind::Misuse`], and nothing noted, for more bytes than are due.
    pub fn data_received(&mut self, length_bytes: u32) -> Result<(), Error> {
        match &mut self.state {
            State::Data { offset_bytes, remaining_bytes, .. } if length_bytes <= *remaining_bytes => {
                *remaining_bytes -= length_bytes;
                *offset_bytes += u64::from(length_bytes);
                Ok(())
            }
            _ => Err(Error::new(ErrorKind::Misuse, format!("{length_bytes} bytes received, fewer were due"))),
        }
    }

    fn run<'i>(&mut self, rest: &mut &'i [u8]) -> Result<Option<ClientEvent<'i>>, Error> {
        loop {
            match &mut self.state {
                State::Head => {
                    let Some(bytes) = self.head.take(rest) else { return Ok(None) };
                    self.state = match SimpleReplyHeader::decode(&bytes) {
                        Some(header) => self.take_simple(header)?,
                        None => State::ChunkTail(bytes),
                    };
                }
                State::ChunkTail(head) => {
                    let mut bytes = [0; ChunkHeader::BYTES];
                    bytes[..SimpleReplyHeader::BYTES].copy_from_slice(head);
                    if !bytes.starts_with(&proto::CHUNK_MAGIC.to_be_bytes()) {
                        return Err(Error::new(ErrorKind::BadMagic, "where a reply was due"));
                    }
                    let Some(tail) = self.chunk_tail.take(rest) else { return Ok(None) };
                    bytes[SimpleReplyHeader::BYTES..].copy_from_slice(&tail);
                    self.state = self.take_chunk(&bytes)?;
                }
                State::Fields { chunk, wanted_bytes } => {
                    let (chunk, wanted) = (*chunk, *wanted_bytes as usize);
                    if !fill(&mut self.fields, wanted, rest) {
                        return Ok(None);
                    }
                    let fields = std::mem::take(&mut self.fields);
                    let event = self.take_fields(&chunk, &fields)?;
                    self.fields = fields;
                    if event.is_some() {
                        return Ok(event);
                    }
                }
                State::Data { cookie, offset_bytes, remaining_bytes, last } => {
                    let (cookie, at) = (*cookie, *offset_bytes);
                    let bytes = split_payload(rest, remaining_bytes);
                    *offset_bytes += bytes.len() as u64;
                    if *remaining_bytes == 0 {
                        self.state = after_chunk(*last, cookie);
                    }
                    if !bytes.is_empty() {
                        return Ok(Some(ClientEvent::ReadData { cookie, offset_bytes: at, bytes }));
                    }
                    if matches!(self.state, State::Data { .. }) {
                        return Ok(None);
                    }
                }
                State::Complete { cookie } => {
                    let cookie = *cookie;
                    self.state = State::Head;
                    return self.complete(cookie).map(Some);
                }
                State::Failed(error) => return Err(error.clone()),
            }
        }
    }

    fn pending(&mut self, cookie: u64) -> Result<&mut Pending, Error> {
        let unknown = || bad(format!("reply to cookie {cookie}, which is not in flight"));
        self.in_flight.get_mut(&cookie).ok_or_else(unknown)
    }

    fn take_simple(&mut self, header: SimpleReplyHeader) -> Result<State, Error> {
        let SimpleReplyHeader { error, cookie } = header;
        let structured = self.structured;
        let pending = self.pending(cookie)?;
        let request = pending.request;
        if request.command == Command::Read && structured {
            return Err(bad(format!("simple reply to read {cookie} despite structured replies")));
        }
        if error != 0 {
            pending.error = Some((CommandError::from_code(error), String::new()));
        } else if request.command == Command::Read {
            pending.coverage.add(0, request.length_bytes);
            let (offset_bytes, remaining_bytes) = (request.offset_bytes, request.length_bytes);
            return Ok(State::Data { cookie, offset_bytes, remaining_bytes, last: true });
        }
        Ok(State::Complete { cookie })
    }

    /// Checks a chunk's header and says what part of its payload to collect.
    fn take_chunk(&mut self, bytes: &[u8; ChunkHeader::BYTES]) -> Result<State, Error> {
        let Some(chunk) = ChunkHeader::decode(bytes) else {
            return Err(Error::new(ErrorKind::BadMagic, "where a reply was due"));
        };
        if !self.structured {
            return Err(bad("structured reply without negotiation"));
        }
        let last = chunk.flags & proto::CHUNK_FLAG_DONE != 0;
        let command = self.pending(chunk.cookie)?.request.command;
        let wrong = || bad(format!("chunk type {:#x} of {} bytes", chunk.kind, chunk.length_bytes));
        let wanted_bytes = match (chunk.kind, command) {
            (proto::CHUNK_NONE, _) if last && chunk.length_bytes == 0 => 0,
            (proto::CHUNK_OFFSET_DATA, Command::Read) if chunk.length_bytes > 8 => 8,
            (proto::CHUNK_OFFSET_HOLE, Command::Read) if chunk.length_bytes == 12 => 12,
            (kind, _) if kind & proto::CHUNK_ERROR_BIT != 0 => {
                if chunk.length_bytes > MAX_ERROR_CHUNK_BYTES {
                    return Err(wrong());
                }
                chunk.length_bytes
            }
            _ => return Err(wrong()),
        };
        self.fields.clear();
        Ok(State::Fields { chunk, wanted_bytes })
    }

    /// Takes in the collected part of a chunk's payload and moves on.
    fn take_fields(
        &mut self,
        chunk: &ChunkHeader,
        data: &[u8],
    ) -> Result<Option<ClientEvent<'static>>, Error> {
        let cookie = chunk.cookie;
        let last = chunk.flags & proto::CHUNK_FLAG_DONE != 0;
        let malformed = || bad(format!("malformed chunk of type {:#x}", chunk.kind));
        let mut fields = Fields(data);
        self.state = after_chunk(last, cookie);
        match chunk.kind {
            proto::CHUNK_NONE => Ok(None),
            proto::CHUNK_OFFSET_DATA => {
                let offset_bytes = fields.u64().ok_or_else(malformed)?;
                let remaining_bytes = chunk.length_bytes - 8;
                self.cover(cookie, offset_bytes, remaining_bytes)?;
                self.state = State::Data { cookie, offset_bytes, remaining_bytes, last };
                Ok(None)
            }
            proto::CHUNK_OFFSET_HOLE => {
                let (offset_bytes, length_bytes) =
                    (|| Some((fields.u64()?, fields.u32()?)))().ok_or_else(malformed)?;
                self.cover(cookie, offset_bytes, length_bytes)?;
                Ok(Some(ClientEvent::ReadZeroes { cookie, offset_bytes, length_bytes }))
            }
            _ => {
                let (code, message_bytes) =
                    (|| Some((fields.u32()?, fields.u16()?)))().ok_or_else(malformed)?;
                let message = fields.take(usize::from(message_bytes)).ok_or_else(malformed)?;
                if code == 0 {
                    return Err(malformed());
                }
                let error = (CommandError::from_code(code), String::from_utf8_lossy(message).into_owned());
                self.pending(cookie)?.error.get_or_insert(error);
                Ok(None)
            }
        }
    }

    /// Notes that a stretch of a read has been answered.
    fn cover(&mut self, cookie: u64, offset_bytes: u64, length_bytes: u32) -> Result<(), Error> {
        let wrong = || bad(format!("{length_bytes} bytes at {offset_bytes} for read {cookie}"));
        let pending = self.pending(cookie)?;
        let start = offset_bytes.checked_sub(pending.request.offset_bytes).ok_or_else(wrong)?;
        let end = start.checked_add(u64::from(length_bytes)).ok_or_else(wrong)?;
        let within = length_bytes > 0 && end <= u64::from(pending.request.length_bytes);
        if within && pending.coverage.add(start as u32, end as u32) { Ok(()) } else { Err(wrong()) }
    }

    fn complete(&mut self, cookie: u64) -> Result<ClientEvent<'static>, Error> {
        let Some(Pending { request, coverage, error }) = self.in_flight.remove(&cookie) else {
            return Err(bad(format!("reply to cookie {cookie}, which is not in flight")));
        };
        if let Some((error, message)) = error {
            return Ok(ClientEvent::Failed { cookie, error, message });
        }
        if request.command == Command::Read && !coverage.is_whole(request.length_bytes) {
            return Err(bad(format!("read {cookie} ended without all of its bytes")));
        }
        Ok(ClientEvent::Done { cookie })
    }
}

fn bad(context: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadReply, context)
}

/// The state once a chunk has been taken in.
fn after_chunk(last: bool, cookie: u64) -> State {
    if last { State::Complete { cookie } } else { State::Head }
}
