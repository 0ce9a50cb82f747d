//! The server's side of the fixed newstyle handshake: bytes in, replies out, and in the end a chosen export.
//!
//! Must not know sockets, timeouts or what an export stands for. The caller bounds the time a client may take.

use crate::bytes::{Gather, fill, split_payload};
use crate::error::{Error, ErrorKind};
use crate::export::{self, ExportInfo};
use crate::option::{self, ContextRequest, InfoRequest};
use crate::proto::{self, Greeting, OptionHeader};

/// Longest export name a client may ask for, in bytes.
pub const MAX_NAME_BYTES: usize = proto::MAX_STRING_BYTES;
/// Longest option data that is kept in memory: a name, and more information requests or queries for metadata contexts than are
/// defined.
pub const MAX_OPTION_BYTES: u32 = 8 << 10;
/// Longest option data that is skipped to refuse the option; beyond it the connection is closed.
pub const MAX_OPTION_SKIP_BYTES: u32 = 256 << 10;
/// Options a client may send before the connection is closed.
pub const MAX_OPTIONS: u32 = 256;

/// What the two sides agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Negotiated {
    /// Index into the exports given to the call of [`Handshake::advance`] that returned this.
    pub export: usize,
    /// Reads are answered in chunks.
    pub structured: bool,
    /// The client asked for no zeroes after an `EXPORT_NAME` reply.
    pub no_zeroes: bool,
    /// The client never asked for block sizes, so that its requests may begin and end at any byte.
    pub any_offset: bool,
    /// The client may ask which bytes of the export are allocated.
    pub allocation: bool,
}

/// What to do after a call of [`Handshake::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeStep {
    /// All input was consumed; call again with more.
    NeedMore,
    /// A reply was appended to the output. Send it, then call again with the rest of the input.
    Reply,
    /// Send the output; the rest of the input belongs to the transmission phase.
    Done(Negotiated),
    /// The client ended the session. Send the output and close.
    Aborted,
}

/// The server's side of a handshake.
///
/// Each call of [`Handshake::advance`] answers at most one option, so a caller that sends each reply before
/// it calls again holds the bytes of at most one reply, whatever the client pipelines.
#[derive(Debug)]
pub struct Handshake {
    state: State,
    client_flags: Gather<4>,
    header: Gather<{ OptionHeader::BYTES }>,
    data: Vec<u8>,
    options: u32,
    fixed: bool,
    no_zeroes: bool,
    structured: bool,
    /// Name of the export of which the client wants to ask which bytes are allocated.
    allocation_of: Option<String>,
}

#[derive(Debug)]
enum State {
    ClientFlags,
    Header,
    /// Option data goes to `data`.
    Collect {
        option: u32,
        length_bytes: u32,
    },
    /// Option data is dropped, then the option is refused.
    Skip {
        option: u32,
        remaining_bytes: u32,
        kind: u32,
        message: &'static str,
    },
    Ended,
    Failed(Error),
}

impl Handshake {
    /// Starts a handshake by appending the server's greeting to `out`.
    pub fn start(out: &mut Vec<u8>) -> Handshake {
        let flags = proto::HANDSHAKE_FIXED_NEWSTYLE | proto::HANDSHAKE_NO_ZEROES;
        out.extend_from_slice(&Greeting { flags }.encode());
        Handshake {
            state: State::ClientFlags,
            client_flags: Gather::new(),
            header: Gather::new(),
            data: Vec::new(),
            options: 0,
            fixed: false,
            no_zeroes: false,
            structured: false,
            allocation_of: None,
        }
    }

    /// Consumes a prefix of `input`, appends replies to `out`, and returns the number of bytes consumed.
    /// `exports` may change between calls. `admit` is asked when a client is about to begin a session on the export
    /// of this index; with false it is refused by policy, and may choose another one.
    ///
    /// # Errors
    /// The client broke the protocol or a limit: close the connection. Later calls return the same error.
    /// [`ErrorKind::Misuse`] after [`HandshakeStep::Done`] or [`HandshakeStep::Aborted`].
    pub fn advance(
        &mut self,
        input: &[u8],
        exports: &[ExportInfo],
        mut admit: impl FnMut(usize) -> bool,
        out: &mut Vec<u8>,
    ) -> Result<(usize, HandshakeStep), Error> {
        let mut rest = input;
        match self.run(&mut rest, exports, &mut admit, out) {
            Ok(progress) => {
                if matches!(progress, HandshakeStep::Done(_) | HandshakeStep::Aborted) {
                    self.state = State::Ended;
                }
                Ok((input.len() - rest.len(), progress))
            }
            Err(error) => {
                if error.kind() != ErrorKind::Misuse {
                    self.state = State::Failed(error.clone());
                }
                Err(error)
            }
        }
    }

    fn run(
        &mut self,
        rest: &mut &[u8],
        exports: &[ExportInfo],
        admit: &mut dyn FnMut(usize) -> bool,
        out: &mut Vec<u8>,
    ) -> Result<HandshakeStep, Error> {
        loop {
            match &mut self.state {
                State::ClientFlags => {
                    let Some(bytes) = self.client_flags.take(rest) else {
                        return Ok(HandshakeStep::NeedMore);
                    };
                    self.accept_client_flags(u32::from_be_bytes(bytes))?;
                    self.state = State::Header;
                }
                State::Header => {
                    let Some(bytes) = self.header.take(rest) else { return Ok(HandshakeStep::NeedMore) };
                    self.state = self.plan(&bytes)?;
                }
                State::Collect { option, length_bytes } => {
                    let (option, wanted) = (*option, *length_bytes as usize);
                    if !fill(&mut self.data, wanted, rest) {
                        return Ok(HandshakeStep::NeedMore);
                    }
                    self.state = State::Header;
                    return self.answer(option, exports, admit, out);
                }
                State::Skip { option, remaining_bytes, kind, message } => {
                    split_payload(rest, remaining_bytes);
                    if *remaining_bytes > 0 {
                        return Ok(HandshakeStep::NeedMore);
                    }
                    option::write_reply(out, *option, *kind, &[message.as_bytes()]);
                    self.state = State::Header;
                    return Ok(HandshakeStep::Reply);
                }
                State::Ended => return Err(Error::new(ErrorKind::Misuse, "the handshake has ended")),
                State::Failed(error) => return Err(error.clone()),
            }
        }
    }

    fn accept_client_flags(&mut self, flags: u32) -> Result<(), Error> {
        if flags & !(proto::CLIENT_FIXED_NEWSTYLE | proto::CLIENT_NO_ZEROES) != 0 {
            return Err(Error::new(ErrorKind::UnknownClientFlags, format!("flags {flags:#x}")));
        }
        self.fixed = flags & proto::CLIENT_FIXED_NEWSTYLE != 0;
        self.no_zeroes = flags & proto::CLIENT_NO_ZEROES != 0;
        Ok(())
    }

    /// Decides from the header alone whether an option's data is worth keeping.
    fn plan(&mut self, bytes: &[u8; OptionHeader::BYTES]) -> Result<State, Error> {
        let Some(OptionHeader { option, length_bytes }) = OptionHeader::decode(bytes) else {
            return Err(Error::new(ErrorKind::BadMagic, "where an option was due"));
        };
        if option != proto::OPT_EXPORT_NAME && !self.fixed {
            return Err(Error::new(ErrorKind::NotFixedNewstyle, format!("option {option}")));
        }
        self.options += 1;
        if self.options > MAX_OPTIONS {
            return Err(Error::new(ErrorKind::TooManyOptions, format!("limit {MAX_OPTIONS}")));
        }
        if length_bytes > MAX_OPTION_SKIP_BYTES {
            let context = format!("{length_bytes} bytes for option {option}, limit {MAX_OPTION_SKIP_BYTES}");
            return Err(Error::new(ErrorKind::OptionTooLong, context));
        }
        let refusal = match option {
            proto::OPT_EXPORT_NAME if length_bytes as usize > MAX_NAME_BYTES => {
                // This option has no error reply.
                let context = format!("name of {length_bytes} bytes, limit {MAX_NAME_BYTES}");
                return Err(Error::new(ErrorKind::UnknownExport, context));
            }
            proto::OPT_INFO | proto::OPT_GO | proto::OPT_LIST_META_CONTEXT | proto::OPT_SET_META_CONTEXT
                if length_bytes > MAX_OPTION_BYTES =>
            {
                Some((proto::REP_ERR_TOO_BIG, "Option data is too long; shorten the export name"))
            }
            proto::OPT_LIST | proto::OPT_STRUCTURED_REPLY if length_bytes > 0 => {
                Some((proto::REP_ERR_INVALID, "Option takes no data; leave it out"))
            }
            proto::OPT_EXPORT_NAME
            | proto::OPT_INFO
            | proto::OPT_GO
            | proto::OPT_LIST
            | proto::OPT_LIST_META_CONTEXT
            | proto::OPT_SET_META_CONTEXT
            | proto::OPT_STRUCTURED_REPLY => None,
            // The protocol wants an acknowledgement even if data, which it forbids, came along.
            proto::OPT_ABORT if length_bytes <= MAX_OPTION_BYTES => None,
            _ => Some((proto::REP_ERR_UNSUP, "Option is not supported; go on without it")),
        };
        Ok(match refusal {
            Some((kind, message)) => State::Skip { option, remaining_bytes: length_bytes, kind, message },
            None => {
                self.data.clear();
                State::Collect { option, length_bytes }
            }
        })
    }

    /// Answers an option whose data is complete.
    fn answer(
        &mut self,
        option: u32,
        exports: &[ExportInfo],
        admit: &mut dyn FnMut(usize) -> bool,
        out: &mut Vec<u8>,
    ) -> Result<HandshakeStep, Error> {
        match option {
            proto::OPT_EXPORT_NAME => {
                let Some(index) = export::find(exports, &self.data) else {
                    let context = format!("name \"{}\"", String::from_utf8_lossy(&self.data));
                    return Err(Error::new(ErrorKind::UnknownExport, context));
                };
                if !admit(index) {
                    // This option has no error reply.
                    let context = format!("name \"{}\"", exports[index].name());
                    return Err(Error::new(ErrorKind::NotAdmitted, context));
                }
                option::write_export_name(out, &exports[index], self.structured, self.no_zeroes);
                Ok(HandshakeStep::Done(self.negotiated(&exports[index], index, true)))
            }
            proto::OPT_INFO | proto::OPT_GO => Ok(self.answer_info(option, exports, admit, out)),
            proto::OPT_LIST => {
                option::write_list(out, exports);
                Ok(HandshakeStep::Reply)
            }
            proto::OPT_ABORT => {
                option::write_reply(out, option, proto::REP_ACK, &[]);
                Ok(HandshakeStep::Aborted)
            }
            proto::OPT_LIST_META_CONTEXT | proto::OPT_SET_META_CONTEXT => {
                self.answer_contexts(option, exports, out);
                Ok(HandshakeStep::Reply)
            }
            // What is left of the options that `plan` collects: OPT_STRUCTURED_REPLY.
            _ => {
                self.structured = true;
                option::write_reply(out, option, proto::REP_ACK, &[]);
                Ok(HandshakeStep::Reply)
            }
        }
    }

    fn answer_info(
        &self,
        option: u32,
        exports: &[ExportInfo],
        admit: &mut dyn FnMut(usize) -> bool,
        out: &mut Vec<u8>,
    ) -> HandshakeStep {
        let refuse = |out: &mut Vec<u8>, kind: u32, message: &str| {
            option::write_reply(out, option, kind, &[message.as_bytes()]);
            HandshakeStep::Reply
        };
        let Some(wanted) = InfoRequest::parse(&self.data) else {
            return refuse(
                out,
                proto::REP_ERR_INVALID,
                "Option data is malformed; report this to the client",
            );
        };
        if wanted.name.len() > MAX_NAME_BYTES {
            return refuse(out, proto::REP_ERR_TOO_BIG, "Export name is too long; shorten it");
        }
        let Some(index) = export::find(exports, wanted.name) else {
            return refuse(
                out,
                proto::REP_ERR_UNKNOWN,
                "Export does not exist; list the exports to see names",
            );
        };
        if option == proto::OPT_GO && !admit(index) {
            return refuse(
                out,
                proto::REP_ERR_POLICY,
                "Export takes no more connections: it has as many as it may have, or it is stopped; see the server's log",
            );
        }
        option::write_info(out, option, &exports[index], &wanted, self.structured);
        if option == proto::OPT_GO {
            HandshakeStep::Done(self.negotiated(&exports[index], index, !wanted.wants_block_size))
        } else {
            HandshakeStep::Reply
        }
    }

    /// Lists or selects metadata contexts. There is one.
    fn answer_contexts(&mut self, option: u32, exports: &[ExportInfo], out: &mut Vec<u8>) {
        let selects = option == proto::OPT_SET_META_CONTEXT;
        if selects {
            // A selection takes the place of the one before, also when it fails.
            self.allocation_of = None;
        }
        let wanted = ContextRequest::parse(&self.data).filter(|_| self.structured);
        let Some(wanted) = wanted else {
            let message = "Option data is malformed, or structured replies were not negotiated before";
            return option::write_reply(out, option, proto::REP_ERR_INVALID, &[message.as_bytes()]);
        };
        let Some(index) = export::find(exports, wanted.name) else {
            let message = "Export does not exist; list the exports to see names";
            return option::write_reply(out, option, proto::REP_ERR_UNKNOWN, &[message.as_bytes()]);
        };
        if wanted.has_allocation(selects) {
            if selects {
                self.allocation_of = Some(exports[index].name().to_owned());
            }
            option::write_context(out, option);
        }
        option::write_reply(out, option, proto::REP_ACK, &[]);
    }

    fn negotiated(&self, export: &ExportInfo, index: usize, any_offset: bool) -> Negotiated {
        Negotiated {
            export: index,
            structured: self.structured,
            no_zeroes: self.no_zeroes,
            any_offset,
            allocation: self.allocation_of.as_deref() == Some(export.name()),
        }
    }
}
