//! Driving the state machines over byte streams that arrive in slices of given sizes, and writing streams.

use lode_nbd::proto::{self, OptionHeader, OptionReplyHeader, RequestHeader};
use lode_nbd::{
    ErrorKind, ExportInfo, Handshake, HandshakeStep, Negotiated, Received, Refusal, Request, Transmission,
};

/// The stream in slices whose lengths repeat `sizes` (each at least one).
pub fn slices<'s>(stream: &'s [u8], sizes: &'s [usize]) -> impl Iterator<Item = &'s [u8]> {
    let mut rest = stream;
    sizes.iter().cycle().map_while(move |&size| {
        let (piece, after) = rest.split_at(size.min(rest.len()));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    WantsMore,
    Done(Negotiated),
    Aborted,
    Closed(ErrorKind),
}

/// What came of a handshake: the server's bytes, how it ended, and how much of the client's stream it took
/// (unless it was closed, when that does not matter).
#[derive(Debug, PartialEq, Eq)]
pub struct HandshakeRun {
    pub out: Vec<u8>,
    pub end: End,
    pub consumed: Option<usize>,
}

pub fn run_handshake(stream: &[u8], sizes: &[usize], exports: &[ExportInfo]) -> HandshakeRun {
    let mut out = Vec::new();
    let mut handshake = Handshake::start(&mut out);
    let mut consumed = 0;
    for mut piece in slices(stream, sizes) {
        loop {
            match handshake.advance(piece, exports, |_| true, &mut out) {
                Ok((used, progress)) => {
                    consumed += used;
                    piece = &piece[used..];
                    let end = match progress {
                        HandshakeStep::NeedMore => break,
                        HandshakeStep::Reply => continue,
                        HandshakeStep::Done(negotiated) => End::Done(negotiated),
                        HandshakeStep::Aborted => End::Aborted,
                    };
                    return HandshakeRun { out, end, consumed: Some(consumed) };
                }
                Err(error) => {
                    let again = handshake.advance(piece, exports, |_| true, &mut out).unwrap_err();
                    assert_eq!(again, error, "an error stays");
                    return HandshakeRun { out, end: End::Closed(error.kind()), consumed: None };
                }
            }
        }
        assert!(piece.is_empty(), "nothing is left when more is wanted");
    }
    HandshakeRun { out, end: End::WantsMore, consumed: Some(consumed) }
}

/// An event that owns its bytes; consecutive pieces of a payload are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Request(Request),
    WriteStart(Request),
    Payload(Vec<u8>),
    Refused(u64, Refusal),
    Disconnect,
    Closed(ErrorKind),
}

/// What came of the requests of a client that asked for block sizes.
pub fn run_transmission(stream: &[u8], sizes: &[usize], export: &ExportInfo, structured: bool) -> Vec<Seen> {
    run_negotiated(stream, sizes, export, &Negotiated { structured, ..Negotiated::default() })
}

pub fn run_negotiated(
    stream: &[u8],
    sizes: &[usize],
    export: &ExportInfo,
    negotiated: &Negotiated,
) -> Vec<Seen> {
    let mut transmission = Transmission::new(export, negotiated);
    let mut seen = Vec::new();
    for mut piece in slices(stream, sizes) {
        loop {
            let event = match transmission.advance(piece) {
                Ok((used, event)) => {
                    piece = &piece[used..];
                    event
                }
                Err(error) => {
                    assert_eq!(transmission.advance(piece).unwrap_err(), error, "an error stays");
                    seen.push(Seen::Closed(error.kind()));
                    return seen;
                }
            };
            match event {
                None => break,
                Some(Received::WriteData(bytes)) => match seen.last_mut() {
                    Some(Seen::Payload(payload)) => payload.extend_from_slice(bytes),
                    _ => seen.push(Seen::Payload(bytes.to_vec())),
                },
                Some(Received::Request(request)) => seen.push(Seen::Request(request)),
                Some(Received::WriteStart(request)) => seen.push(Seen::WriteStart(request)),
                Some(Received::Refused { cookie, refusal }) => seen.push(Seen::Refused(cookie, refusal)),
                Some(Received::Disconnect) => seen.push(Seen::Disconnect),
            }
        }
        assert!(piece.is_empty(), "nothing is left when there is no event");
    }
    seen
}

pub fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let header = OptionHeader { option, length_bytes: data.len() as u32 };
    [&header.encode()[..], data].concat()
}

/// The data of `INFO` and `GO`.
pub fn info_data(name: &[u8], wanted: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name);
    data.extend_from_slice(&(wanted.len() as u16).to_be_bytes());
    data.extend(wanted.iter().flat_map(|info| info.to_be_bytes()));
    data
}

/// The data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
pub fn context_data(name: &[u8], queries: &[&[u8]]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name);
    data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend_from_slice(&(query.len() as u32).to_be_bytes());
        data.extend_from_slice(query);
    }
    data
}

/// A client's stream: its flags, then options.
pub fn client_stream(flags: u32, options: &[Vec<u8>]) -> Vec<u8> {
    [&flags.to_be_bytes()[..], &options.concat()].concat()
}

/// The option replies in a server's output, after its greeting.
pub fn option_replies(out: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut rest = &out[proto::Greeting::BYTES..];
    let mut replies = Vec::new();
    while let Some((header, after)) = rest.split_first_chunk() {
        let header = OptionReplyHeader::decode(header).expect("an option reply");
        let (data, after) = after.split_at(header.length_bytes as usize);
        replies.push((header.option, header.kind, data.to_vec()));
        rest = after;
    }
    assert!(rest.is_empty());
    replies
}

pub fn request(command: u16, flags: u16, cookie: u64, offset_bytes: u64, length_bytes: u32) -> Vec<u8> {
    RequestHeader { flags, command, cookie, offset_bytes, length_bytes }.encode().to_vec()
}
