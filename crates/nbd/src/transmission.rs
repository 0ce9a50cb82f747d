//! The server's side of the transmission phase: a byte stream in, requests and pieces of payload out.
//!
//! Parsing allocates nothing and copies no payload. Must not know what requests are for; replies are written
//! by [`crate::ReplyEncoder`].

use crate::bytes::{Gather, split_payload};
use crate::error::{Error, ErrorKind};
use crate::export::{ExportInfo, MAX_PAYLOAD_BYTES};
use crate::handshake::Negotiated;
use crate::proto::{self, RequestHeader};
use crate::request::{Command, CommandFlags, Limits, Refusal, Request};

/// Longest payload of a refused write that is read and dropped; beyond it the connection is closed.
pub const MAX_DRAINED_BYTES: u32 = 64 << 20;

/// What a client sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'i> {
    /// A valid request without payload.
    Request(Request),
    /// A valid write; its payload follows in [`Received::WriteData`].
    WriteStart(Request),
    /// The next piece of the payload of the last [`Received::WriteStart`]; never empty.
    WriteData(&'i [u8]),
    /// A request that must be answered with [`crate::ReplyEncoder::refused`] and nothing else. The payload of
    /// a refused write is dropped before this event, so that the client has sent all of its request.
    Refused {
        /// The request's cookie.
        cookie: u64,
        /// Why.
        refusal: Refusal,
    },
    /// The client ends the session: answer what is in flight, then close. What follows is ignored.
    Disconnect,
}

/// The server's side of a session after its handshake.
#[derive(Debug)]
pub struct Transmission {
    limits: Limits,
    header: Gather<{ RequestHeader::BYTES }>,
    state: State,
}

#[derive(Debug)]
enum State {
    Header,
    Payload { remaining_bytes: u32 },
    Drain { remaining_bytes: u32, cookie: u64, refusal: Refusal },
    Ended,
    Failed(Error),
}

impl Transmission {
    /// A session on `export`, by what its handshake came to.
    pub fn new(export: &ExportInfo, negotiated: &Negotiated) -> Transmission {
        let limits = Limits {
            size_bytes: export.size_bytes(),
            transmission_flags: export.transmission_flags(negotiated.structured),
            min_block_bytes: if negotiated.any_offset { 1 } else { export.min_block_bytes() },
            max_payload_bytes: MAX_PAYLOAD_BYTES,
            allocation: negotiated.allocation,
        };
        Transmission { limits, header: Gather::new(), state: State::Header }
    }

    /// Consumes a prefix of `input` and returns its length with the event it completed. Without an event all
    /// of the input was consumed; with one, call again with the rest.
    ///
    /// To bound the pieces of a write's payload, bound the input. To receive payload elsewhere than in the
    /// input, see [`Transmission::payload_remaining_bytes`].
    ///
    /// # Errors
    /// [`ErrorKind::BadMagic`] or [`ErrorKind::PayloadTooLong`]: close the connection. Later calls return the
    /// same error.
    #[inline]
    pub fn advance<'i>(&mut self, input: &'i [u8]) -> Result<(usize, Option<Received<'i>>), Error> {
        let mut rest = input;
        let event = match &mut self.state {
            State::Header => match self.header.take(&mut rest) {
                Some(bytes) => self.begin(&bytes, &mut rest)?,
                None => None,
            },
            State::Payload { remaining_bytes } => {
                let piece = split_payload(&mut rest, remaining_bytes);
                if *remaining_bytes == 0 {
                    self.state = State::Header;
                }
                (!piece.is_empty()).then_some(Received::WriteData(piece))
            }
            State::Drain { .. } => self.drain(&mut rest),
            State::Ended => {
                rest = &[];
                None
            }
            State::Failed(error) => return Err(error.clone()),
        };
        Ok((input.len() - rest.len(), event))
    }

    /// Bytes of a valid write's payload that are still to come; zero when a request is due next.
    pub fn payload_remaining_bytes(&self) -> u32 {
        match self.state {
            State::Payload { remaining_bytes } => remaining_bytes,
            State::Header | State::Drain { .. } | State::Ended | State::Failed(_) => 0,
        }
    }

    /// Notes that the caller received the next `length_bytes` of payload straight into its own buffer.
    ///
    /// # Errors
    /// [`ErrorKind::Misuse`], and nothing noted, for more than [`Transmission::payload_remaining_bytes`].
    pub fn payload_received(&mut self, length_bytes: u32) -> Result<(), Error> {
        let remaining_bytes = self.payload_remaining_bytes();
        if length_bytes > remaining_bytes {
            let context = format!("{length_bytes} payload bytes received, {remaining_bytes} were due");
            return Err(Error::new(ErrorKind::Misuse, context));
        }
        if remaining_bytes > 0 {
            self.state = match remaining_bytes - length_bytes {
                0 => State::Header,
                remaining_bytes => State::Payload { remaining_bytes },
            };
        }
        Ok(())
    }

    #[inline]
    fn begin(
        &mut self,
        bytes: &[u8; RequestHeader::BYTES],
        rest: &mut &[u8],
    ) -> Result<Option<Received<'static>>, Error> {
        let Some(header) = RequestHeader::decode(bytes) else {
            return self.fail(ErrorKind::BadMagic, "where a request was due".to_string());
        };
        let command = match Command::from_code(header.command) {
            Some(command) => command,
            None if header.command == proto::CMD_DISC => {
                self.state = State::Ended;
                return Ok(Some(Received::Disconnect));
            }
            None => {
                let refusal = Refusal::UnknownCommand;
                return Ok(Some(Received::Refused { cookie: header.cookie, refusal }));
            }
        };
        let request = Request {
            cookie: header.cookie,
            offset_bytes: header.offset_bytes,
            length_bytes: header.length_bytes,
            command,
            flags: CommandFlags(header.flags),
        };
        match self.limits.check(&request) {
            Ok(()) if command == Command::Write => {
                self.state = State::Payload { remaining_bytes: request.length_bytes };
                Ok(Some(Received::WriteStart(request)))
            }
            Ok(()) => Ok(Some(Received::Request(request))),
            Err(refusal) => self.refuse(&request, refusal, rest),
        }
    }

    #[cold]
    fn refuse(
        &mut self,
        request: &Request,
        refusal: Refusal,
        rest: &mut &[u8],
    ) -> Result<Option<Received<'static>>, Error> {
        let cookie = request.cookie;
        if request.command != Command::Write {
            return Ok(Some(Received::Refused { cookie, refusal }));
        }
        let remaining_bytes = request.length_bytes;
        if remaining_bytes > MAX_DRAINED_BYTES {
            let context = format!("{remaining_bytes} bytes, limit {MAX_DRAINED_BYTES}");
            return self.fail(ErrorKind::PayloadTooLong, context);
        }
        self.state = State::Drain { remaining_bytes, cookie, refusal };
        Ok(self.drain(rest))
    }

    fn drain(&mut self, rest: &mut &[u8]) -> Option<Received<'static>> {
        let State::Drain { remaining_bytes, cookie, refusal } = &mut self.state else { return None };
        split_payload(rest, remaining_bytes);
        if *remaining_bytes > 0 {
            return None;
        }
        let event = Received::Refused { cookie: *cookie, refusal: *refusal };
        self.state = State::Header;
        Some(event)
    }

    #[cold]
    fn fail<T>(&mut self, kind: ErrorKind, context: String) -> Result<T, Error> {
        let error = Error::new(kind, context);
        self.state = State::Failed(error.clone());
        Err(error)
    }
}
