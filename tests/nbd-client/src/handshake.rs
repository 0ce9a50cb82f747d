//! The client's side of the fixed newstyle handshake: list a server's exports, or start a session on one.
//!
//! Must not know sockets or timeouts, nor what the export is wanted for.

use lode_nbd::bytes::{Fields, Gather, fill};
use lode_nbd::proto::{self, Greeting, OptionHeader, OptionReplyHeader};
use lode_nbd::{DEFAULT_PREFERRED_BLOCK_BYTES, Limits, MAX_PAYLOAD_BYTES, MIN_BLOCK_BYTES};

use crate::error::{Error, ErrorKind};

/// Longest data of one option reply that is accepted: name and description of an export, with some to spare.
pub const MAX_OPTION_REPLY_BYTES: u32 = 16 << 10;
/// Most exports a server may list.
pub const MAX_LISTED_EXPORTS: usize = 16 << 10;
/// Most pieces of information a server may send about an export.
pub const MAX_INFO_REPLIES: u32 = 64;

/// One entry of a server's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedExport {
    /// Name to ask for.
    pub name: String,
    /// Description for people; may be empty.
    pub description: String,
}

/// What a server said about the export a session was started on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteExport {
    /// Size in bytes.
    pub size_bytes: u64,
    /// `FLAG_*` bits.
    pub transmission_flags: u16,
    /// Reads are answered in chunks.
    pub structured: bool,
    /// Unit and alignment of every request; a power of two.
    pub min_block_bytes: u32,
    /// Alignment at which requests are cheapest; a power of two.
    pub preferred_block_bytes: u32,
    /// Longest read or write.
    pub max_payload_bytes: u32,
    /// Canonical name, if told.
    pub name: Option<String>,
    /// Description for people, if told.
    pub description: Option<String>,
}

impl RemoteExport {
    /// Whether writing commands would fail.
    pub fn read_only(&self) -> bool {
        self.transmission_flags & proto::FLAG_READ_ONLY != 0
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            size_bytes: self.size_bytes,
            transmission_flags: self.transmission_flags,
            min_block_bytes: self.min_block_bytes,
            max_payload_bytes: self.max_payload_bytes,
            allocation: false,
        }
    }
}

/// What to do after a call of [`ClientHandshake::advance`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientProgress {
    /// All input was consumed and bytes may have been appended to the output: send them, then wait for more.
    NeedMore,
    /// The session has begun; the rest of the input belongs to the transmission phase.
    Done(RemoteExport),
    /// The list asked for. Send the output, which says goodbye, and close.
    Listed(Vec<ListedExport>),
}

#[derive(Debug)]
enum Goal {
    List(Vec<ListedExport>),
    Go { export: String, wants_structured: bool },
}

#[derive(Debug)]
enum State {
    Greeting,
    ReplyHeader,
    ReplyData(OptionReplyHeader),
    Ended,
    Failed(Error),
}

/// The client's side of a handshake.
#[derive(Debug)]
pub struct ClientHandshake {
    goal: Goal,
    state: State,
    greeting: Gather<{ Greeting::BYTES }>,
    header: Gather<{ OptionReplyHeader::BYTES }>,
    data: Vec<u8>,
    /// The option whose replies are awaited.
    pending_option: u32,
    info_replies: u32,
    size_and_flags: Option<(u64, u16)>,
    remote: RemoteExport,
}

impl ClientHandshake {
    /// A handshake that lists the server's exports and says goodbye.
    pub fn list() -> ClientHandshake {
        ClientHandshake::new(Goal::List(Vec::new()))
    }

    /// A handshake that starts a session on `export`, with structured replies if wanted and offered.
    ///
    /// # Errors
    /// [`ErrorKind::BadExport`] for a name beyond [`proto::MAX_STRING_BYTES`].
    pub fn go(export: impl Into<String>, wants_structured: bool) -> Result<ClientHandshake, Error> {
        let export = export.into();
        if export.len() > proto::MAX_STRING_BYTES {
            let context = format!("name of {} bytes, limit {}", export.len(), proto::MAX_STRING_BYTES);
            return Err(Error::new(ErrorKind::BadExport, context));
        }
        Ok(ClientHandshake::new(Goal::Go { export, wants_structured }))
    }

    fn new(goal: Goal) -> ClientHandshake {
        let remote = RemoteExport {
            size_bytes: 0,
            transmission_flags: 0,
            structured: false,
            min_block_bytes: MIN_BLOCK_BYTES,
            preferred_block_bytes: DEFAULT_PREFERRED_BLOCK_BYTES,
            max_payload_bytes: MAX_PAYLOAD_BYTES,
            name: None,
            description: None,
        };
        ClientHandshake {
            goal,
            state: State::Greeting,
            greeting: Gather::new(),
            header: Gather::new(),
            data: Vec::new(),
            pending_option: 0,
            info_replies: 0,
            size_and_flags: None,
            remote,
        }
    }

    /// Consumes a prefix of `input`, appends what is to be sent to `out`, and returns the number of bytes
    /// consumed.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when the server refuses, other kinds when it breaks the protocol: close the
    /// connection. Later calls return the same error. [`ErrorKind::Misuse`] after the end.
    pub fn advance(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(usize, ClientProgress), Error> {
        let mut rest = input;
        match self.run(&mut rest, out) {
            Ok(progress) => {
                if progress != ClientProgress::NeedMore {
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

    fn run(&mut self, rest: &mut &[u8], out: &mut Vec<u8>) -> Result<ClientProgress, Error> {
        loop {
            match &self.state {
                State::Greeting => {
                    let Some(bytes) = self.greeting.take(rest) else { return Ok(ClientProgress::NeedMore) };
                    self.accept_greeting(&bytes, out)?;
                    self.state = State::ReplyHeader;
                }
                State::ReplyHeader => {
                    let Some(bytes) = self.header.take(rest) else { return Ok(ClientProgress::NeedMore) };
                    let header = self.check_header(&bytes)?;
                    self.data.clear();
                    self.state = State::ReplyData(header);
                }
                State::ReplyData(header) => {
                    let header = *header;
                    if !fill(&mut self.data, header.length_bytes as usize, rest) {
                        return Ok(ClientProgress::NeedMore);
                    }
                    self.state = State::ReplyHeader;
                    if let Some(end) = self.take_reply(header.kind, out)? {
                        return Ok(end);
                    }
                }
                State::Ended => return Err(Error::new(ErrorKind::Misuse, "the handshake has ended")),
                State::Failed(error) => return Err(error.clone()),
            }
        }
    }

    fn accept_greeting(&mut self, bytes: &[u8; Greeting::BYTES], out: &mut Vec<u8>) -> Result<(), Error> {
        let Some(Greeting { flags }) = Greeting::decode(bytes) else {
            return Err(Error::new(ErrorKind::BadMagic, "where a newstyle greeting was due"));
        };
        if flags & proto::HANDSHAKE_FIXED_NEWSTYLE == 0 {
            return Err(Error::new(ErrorKind::NotFixedNewstyle, format!("handshake flags {flags:#x}")));
        }
        let mut reply = proto::CLIENT_FIXED_NEWSTYLE;
        if flags & proto::HANDSHAKE_NO_ZEROES != 0 {
            reply |= proto::CLIENT_NO_ZEROES;
        }
        out.extend_from_slice(&reply.to_be_bytes());
        match self.goal {
            Goal::List(_) => self.send(proto::OPT_LIST, &[], out),
            Goal::Go { wants_structured: true, .. } => self.send(proto::OPT_STRUCTURED_REPLY, &[], out),
            Goal::Go { wants_structured: false, .. } => self.send_go(out),
        }
        Ok(())
    }

    fn send(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) {
        self.pending_option = option;
        out.extend_from_slice(&OptionHeader { option, length_bytes: data.len() as u32 }.encode());
        out.extend_from_slice(data);
    }

    fn send_go(&mut self, out: &mut Vec<u8>) {
        let Goal::Go { export, .. } = &self.goal else { return };
        let wanted = [proto::INFO_NAME, proto::INFO_DESCRIPTION, proto::INFO_BLOCK_SIZE];
        let mut data = (export.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(export.as_bytes());
        data.extend_from_slice(&(wanted.len() as u16).to_be_bytes());
        for info in wanted {
            data.extend_from_slice(&info.to_be_bytes());
        }
        self.send(proto::OPT_GO, &data, out);
    }

    fn check_header(&self, bytes: &[u8; OptionReplyHeader::BYTES]) -> Result<OptionReplyHeader, Error> {
        let Some(header) = OptionReplyHeader::decode(bytes) else {
            return Err(Error::new(ErrorKind::BadMagic, "where an option reply was due"));
        };
        if header.option != self.pending_option {
            return Err(bad(format!("reply to option {}, not {}", header.option, self.pending_option)));
        }
        if header.length_bytes > MAX_OPTION_REPLY_BYTES {
            return Err(bad(format!(
                "option reply of {} bytes, limit {MAX_OPTION_REPLY_BYTES}",
                header.length_bytes
            )));
        }
        Ok(header)
    }

    /// Takes in one complete reply to the pending option.
    fn take_reply(&mut self, kind: u32, out: &mut Vec<u8>) -> Result<Option<ClientProgress>, Error> {
        if self.pending_option == proto::OPT_STRUCTURED_REPLY {
            // Servers without structured replies say so with an error; the session goes on without them.
            if kind != proto::REP_ACK && kind & proto::REP_ERROR_BIT == 0 {
                return Err(bad(format!("reply type {kind:#x} to structured replies")));
            }
            self.remote.structured = kind == proto::REP_ACK;
            self.send_go(out);
            return Ok(None);
        }
        match (kind, &mut self.goal) {
            (proto::REP_SERVER, Goal::List(exports)) => {
                if exports.len() == MAX_LISTED_EXPORTS {
                    return Err(bad(format!("more than {MAX_LISTED_EXPORTS} exports listed")));
                }
                let entry = parse_listed(&self.data).ok_or_else(|| bad("malformed list entry"))?;
                exports.push(entry);
                Ok(None)
            }
            (proto::REP_ACK, Goal::List(exports)) => {
                let exports = std::mem::take(exports);
                self.send(proto::OPT_ABORT, &[], out);
                Ok(Some(ClientProgress::Listed(exports)))
            }
            (proto::REP_INFO, Goal::Go { .. }) => {
                self.take_info()?;
                Ok(None)
            }
            (proto::REP_ACK, Goal::Go { .. }) => self.finish().map(Some),
            _ if kind & proto::REP_ERROR_BIT != 0 => Err(self.refusal(kind)),
            _ => Err(bad(format!("reply type {kind:#x} to option {}", self.pending_option))),
        }
    }

    fn refusal(&self, kind: u32) -> Error {
        let reason = match kind {
            proto::REP_ERR_UNSUP => "option not supported",
            proto::REP_ERR_POLICY => "forbidden by policy",
            proto::REP_ERR_INVALID => "request held to be malformed",
            proto::REP_ERR_TLS_REQD => "TLS required",
            proto::REP_ERR_UNKNOWN => "no such export",
            proto::REP_ERR_SHUTDOWN => "shutting down",
            proto::REP_ERR_TOO_BIG => "request held to be too large",
            _ => "unknown reason",
        };
        let message = String::from_utf8_lossy(&self.data);
        Error::new(ErrorKind::Refused, format!("{reason}, error {kind:#x}, message {message:?}"))
    }

    fn take_info(&mut self) -> Result<(), Error> {
        self.info_replies += 1;
        if self.info_replies > MAX_INFO_REPLIES {
            return Err(bad(format!("more than {MAX_INFO_REPLIES} pieces of information")));
        }
        let mut fields = Fields(&self.data);
        let malformed = || bad("malformed information about the export");
        match fields.u16().ok_or_else(malformed)? {
            proto::INFO_EXPORT => {
                let size_and_flags = (|| Some((fields.u64()?, fields.u16()?)))().ok_or_else(malformed)?;
                self.size_and_flags = Some(size_and_flags);
            }
            proto::INFO_BLOCK_SIZE => {
                let sizes =
                    (|| Some((fields.u32()?, fields.u32()?, fields.u32()?)))().ok_or_else(malformed)?;
                let (min, preferred, max) = sizes;
                if !min.is_power_of_two() || min > 65536 || !preferred.is_power_of_two() || max < min {
                    return Err(bad(format!("block sizes {min}, {preferred}, {max}")));
                }
                self.remote.min_block_bytes = min;
                self.remote.preferred_block_bytes = preferred.max(min);
                // Servers may say "no limit"; this side keeps its own.
                self.remote.max_payload_bytes = max.min(MAX_PAYLOAD_BYTES);
            }
            proto::INFO_NAME => self.remote.name = Some(String::from_utf8_lossy(fields.0).into_owned()),
            proto::INFO_DESCRIPTION => {
                self.remote.description = Some(String::from_utf8_lossy(fields.0).into_owned());
            }
            // The protocol asks clients to ignore what they do not know.
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<ClientProgress, Error> {
        let Some((size_bytes, transmission_flags)) = self.size_and_flags else {
            return Err(bad("no size was told"));
        };
        if transmission_flags & proto::FLAG_HAS_FLAGS == 0 {
            return Err(bad(format!("transmission flags {transmission_flags:#x}")));
        }
        self.remote.size_bytes = size_bytes;
        self.remote.transmission_flags = transmission_flags;
        if !self.remote.structured {
            self.remote.transmission_flags &= !proto::FLAG_SEND_DF;
        }
        Ok(ClientProgress::Done(self.remote.clone()))
    }
}

fn bad(context: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadReply, context)
}

fn parse_listed(data: &[u8]) -> Option<ListedExport> {
    let mut fields = Fields(data);
    let name_bytes = fields.u32()?;
    let name = fields.take(usize::try_from(name_bytes).ok()?)?;
    Some(ListedExport {
        name: String::from_utf8_lossy(name).into_owned(),
        description: String::from_utf8_lossy(fields.0).into_owned(),
    })
}
