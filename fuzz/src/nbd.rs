//! What must hold when an NBD client sends any bytes to the server's side.
//!
//! A client's bytes arrive in slices of any size: each stream is fed whole and byte by byte, and both must come to the same.

use lode_nbd::proto::{self, Greeting, OptionReplyHeader, RequestHeader};
use lode_nbd::{
    Command, Error, ExportInfo, Handshake, HandshakeStep, MAX_OPTIONS, MAX_PAYLOAD_BYTES, MIN_BLOCK_BYTES,
    Negotiated, Received, Refusal, ReplyEncoder, Request, Transmission,
};

const SIZE_BYTES: u64 = 1 << 30;
/// Longest answer to one option with the exports of these tests.
const MOST_REPLY_BYTES: usize = 1 << 10;

fn exports() -> [ExportInfo; 2] {
    let one = ExportInfo::new("vm1", SIZE_BYTES).and_then(|export| export.with_description("a disk"));
    let other = ExportInfo::new("vm2", 512).expect("a good export").with_read_only(true);
    [one.expect("a good export"), other]
}

/// How a handshake ended: what the server sent, and the last progress or the error.
type Ended = (Vec<u8>, Result<HandshakeStep, Error>);

/// Feeds a handshake with slices of at most `most` bytes until it ends or the input does.
fn run_handshake(data: &[u8], most: usize) -> Ended {
    let exports = exports();
    let (mut out, mut rest) = (Vec::new(), data);
    let mut handshake = Handshake::start(&mut out);
    let mut replies = 0;
    loop {
        let (before, slice) = (out.len(), &rest[..rest.len().min(most)]);
        let (consumed, progress) = match handshake.advance(slice, &exports, |_| true, &mut out) {
            Ok(found) => found,
            Err(error) => {
                assert_eq!(
                    handshake.advance(&[], &exports, |_| true, &mut out),
                    Err(error.clone()),
                    "it goes on"
                );
                return (out, Err(error));
            }
        };
        assert!(out.len() - before <= MOST_REPLY_BYTES, "{} bytes for an option", out.len() - before);
        rest = &rest[consumed..];
        match progress {
            HandshakeStep::NeedMore => {
                assert_eq!(
                    (consumed, before),
                    (slice.len(), out.len()),
                    "input is left, or a reply is unsent"
                );
                if rest.is_empty() {
                    return (out, Ok(progress));
                }
            }
            HandshakeStep::Reply => {
                replies += 1;
                assert!(replies <= MAX_OPTIONS && out.len() > before);
            }
            HandshakeStep::Done(_) | HandshakeStep::Aborted => {
                assert!(
                    handshake.advance(rest, &exports, |_| true, &mut out).is_err(),
                    "it goes on after its end"
                );
                return (out, Ok(progress));
            }
        }
    }
}

/// What the server sent is its greeting and whole replies; the answer to `EXPORT_NAME` is none, and the last thing.
fn check_replies(sent: &[u8], progress: &Result<HandshakeStep, Error>) {
    let (greeting, mut rest) = sent.split_first_chunk().expect("a greeting");
    assert!(Greeting::decode(greeting).is_some());
    while let Some((header, tail)) = rest.split_first_chunk()
        && let Some(header) = OptionReplyHeader::decode(header)
    {
        assert!(header.length_bytes as usize <= tail.len(), "a reply is cut short");
        rest = &tail[header.length_bytes as usize..];
    }
    let is_export_name = matches!(progress, Ok(HandshakeStep::Done(_))) && [10, 134].contains(&rest.len());
    assert!(rest.is_empty() || is_export_name, "{} bytes that are no reply", rest.len());
}

/// A client's half of the handshake. Says whether it came to transmission.
pub fn check_handshake(data: &[u8]) -> bool {
    let (sent, progress) = run_handshake(data, usize::MAX);
    assert_eq!(run_handshake(data, 1), (sent.clone(), progress.clone()), "slicing changes what is answered");
    check_replies(&sent, &progress);
    match progress {
        Ok(HandshakeStep::Done(negotiated)) => {
            assert!(negotiated.export < exports().len());
            true
        }
        _ => false,
    }
}

/// What a client sent after its handshake.
#[derive(Debug, PartialEq)]
enum Seen {
    Request(Request),
    Payload(Vec<u8>),
    Refused(u64, Refusal),
    Disconnect,
    Closed(Error),
}

/// Feeds requests with slices of at most `most` bytes.
fn run_requests(export: &ExportInfo, negotiated: &Negotiated, data: &[u8], most: usize) -> Vec<Seen> {
    let mut transmission = Transmission::new(export, negotiated);
    let (mut seen, mut rest) = (Vec::new(), data);
    loop {
        let slice = &rest[..rest.len().min(most)];
        let (consumed, event) = match transmission.advance(slice) {
            Ok(found) => found,
            Err(error) => {
                assert_eq!(transmission.advance(slice), Err(error.clone()), "it goes on");
                seen.push(Seen::Closed(error));
                return seen;
            }
        };
        rest = &rest[consumed..];
        match event {
            Some(Received::WriteData(piece)) => match seen.last_mut() {
                Some(Seen::Payload(payload)) => payload.extend_from_slice(piece),
                _ => seen.push(Seen::Payload(piece.to_vec())),
            },
            Some(Received::Request(request) | Received::WriteStart(request)) => {
                seen.push(Seen::Request(request))
            }
            Some(Received::Refused { cookie, refusal }) => seen.push(Seen::Refused(cookie, refusal)),
            Some(Received::Disconnect) => seen.push(Seen::Disconnect),
            None => assert_eq!(consumed, slice.len(), "input is left"),
        }
        if rest.is_empty() && event.is_none() {
            return seen;
        }
    }
}

/// A request that was not refused keeps every rule.
fn check_request(request: &Request, export: &ExportInfo, negotiated: &Negotiated) {
    let length_bytes = u64::from(request.length_bytes);
    let end = request.offset_bytes.checked_add(length_bytes).expect("a request beyond 2^64 bytes");
    let unit = if negotiated.any_offset { 1 } else { u64::from(MIN_BLOCK_BYTES) };
    assert!(end <= export.size_bytes(), "beyond the end");
    assert!(request.offset_bytes.is_multiple_of(unit) && length_bytes.is_multiple_of(unit));
    assert_eq!(length_bytes == 0, request.command == Command::Flush);
    assert!(!export.read_only() || !request.command.is_write());
    assert!(negotiated.allocation || request.command != Command::BlockStatus);
    if matches!(request.command, Command::Read | Command::Write) {
        assert!(request.length_bytes <= MAX_PAYLOAD_BYTES);
    }
}

fn check_refusal(refusal: Refusal, structured: bool) {
    const MOST_ANSWER_BYTES: usize = 1 << 10;
    let mut out = Vec::new();
    ReplyEncoder::new(structured).refused(&mut out, 1, refusal);
    assert!((16..=MOST_ANSWER_BYTES).contains(&out.len()));
}

/// Takes requests' headers as they are but for their magic, which is set, and gives the payloads that they announce
/// without their bytes, so that large ones cost nothing.
fn run_headers(export: &ExportInfo, negotiated: &Negotiated, data: &[u8]) {
    static ZEROES: [u8; 1 << 16] = [0; 1 << 16];
    let mut transmission = Transmission::new(export, negotiated);
    for chunk in data.chunks_exact(RequestHeader::BYTES) {
        let mut header = [0; RequestHeader::BYTES];
        header.copy_from_slice(chunk);
        header[..4].copy_from_slice(&proto::REQUEST_MAGIC.to_be_bytes());
        let mut event = match transmission.advance(&header) {
            Ok((consumed, event)) => {
                assert_eq!(consumed, header.len());
                event
            }
            Err(_) => return,
        };
        // The payload of a refused write has to come before the refusal.
        while event.is_none() {
            event = transmission.advance(&ZEROES).expect("a payload is no fault").1;
        }
        match event {
            Some(Received::WriteStart(request)) => {
                check_request(&request, export, negotiated);
                assert_eq!(transmission.payload_remaining_bytes(), request.length_bytes);
                assert!(transmission.payload_received(request.length_bytes + 1).is_err());
                transmission.payload_received(request.length_bytes).expect("so many are due");
            }
            Some(Received::Request(request)) => check_request(&request, export, negotiated),
            Some(Received::Refused { refusal, .. }) => check_refusal(refusal, negotiated.structured),
            Some(Received::Disconnect) | Some(Received::WriteData(_)) | None => return,
        }
    }
}

/// Requests. The lowest bits of the first byte say on which of two exports, whether replies are structured, whether the
/// client asked for block sizes, and whether it may ask what is allocated. Says whether no request was refused and the connection stayed in order.
pub fn check_requests(data: &[u8]) -> bool {
    let Some((&first, data)) = data.split_first() else { return false };
    let export = &exports()[usize::from(first & 1)];
    let [structured, any_offset, allocation] = [2, 4, 8].map(|bit| first & bit != 0);
    let negotiated = Negotiated { structured, any_offset, allocation, ..Negotiated::default() };
    let seen = run_requests(export, &negotiated, data, usize::MAX);
    assert_eq!(run_requests(export, &negotiated, data, 1), seen, "slicing changes what is seen");
    for one in &seen {
        match one {
            Seen::Request(request) => check_request(request, export, &negotiated),
            Seen::Refused(_, refusal) => check_refusal(*refusal, negotiated.structured),
            Seen::Payload(_) | Seen::Disconnect | Seen::Closed(_) => {}
        }
    }
    run_headers(export, &negotiated, data);
    let is_fault = |one: &Seen| matches!(one, Seen::Refused(..) | Seen::Closed(_));
    !seen.is_empty() && !seen.iter().any(is_fault)
}
