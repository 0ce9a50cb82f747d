//! Random streams: slicing changes nothing, a plain whole-stream parser agrees, and garbage ends.

use lode_nbd::proto::{self, RequestHeader};
use lode_nbd::{
    Command, CommandFlags, ErrorKind, ExportInfo, MAX_DRAINED_BYTES, MAX_PAYLOAD_BYTES, Refusal, Request,
};
use lode_nbd_client::{ClientHandshake, ClientProgress, ClientTransmission, RemoteExport};
use proptest::prelude::*;

use crate::wire::{Seen, client_stream, info_data, option, run_handshake, run_transmission, slices};

const SIZE_BYTES: u64 = 1 << 20;

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        Just(vec![1]),
        prop::collection::vec(1usize..40, 1..8),
        prop::collection::vec(1usize..5000, 1..4)
    ]
}

/// A request, mostly nearly right, with the payload it announces if that is not too long to have around.
fn any_request() -> impl Strategy<Value = Vec<u8>> {
    let offsets = prop_oneof![
        4 => (0..SIZE_BYTES / 512).prop_map(|sector| sector * 512),
        1 => (0..8u64).prop_map(|step| SIZE_BYTES - 2048 + step * 512),
        1 => any::<u64>(),
        1 => (0..4u64).prop_map(|step| u64::MAX - step * 256),
    ];
    let lengths = prop_oneof![
        6 => (0..9u32).prop_map(|sectors| sectors * 512),
        1 => 0..3000u32,
        1 => (0..4u32).prop_map(|step| MAX_PAYLOAD_BYTES - 512 + step * 512),
        1 => (0..3u32).prop_map(|step| MAX_DRAINED_BYTES - 1 + step),
        1 => any::<u32>(),
    ];
    let commands = prop_oneof![8 => 0u16..9, 1 => any::<u16>()];
    let flags = prop_oneof![6 => Just(0), 2 => 0u16..64, 1 => any::<u16>()];
    (commands, flags, any::<u64>(), offsets, lengths).prop_map(
        |(command, flags, cookie, offset_bytes, length_bytes)| {
            let header = RequestHeader { flags, command, cookie, offset_bytes, length_bytes };
            let mut bytes = header.encode().to_vec();
            if command == proto::CMD_WRITE && length_bytes < 5000 {
                bytes.extend((0..length_bytes).map(|at| (at ^ cookie as u32) as u8));
            }
            bytes
        },
    )
}

fn request_stream() -> impl Strategy<Value = Vec<u8>> {
    let requests = prop::collection::vec(any_request(), 0..12).prop_map(|requests| requests.concat());
    (requests, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(mut stream, tail)| {
        stream.extend(tail);
        stream
    })
}

/// The rules of the protocol once more, over a stream that is all there.
fn parse_all(mut stream: &[u8], read_only: bool, structured: bool) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let Some((header, rest)) = stream.split_first_chunk::<28>() {
        stream = rest;
        let Some(header) = RequestHeader::decode(header) else {
            seen.push(Seen::Closed(ErrorKind::BadMagic));
            return seen;
        };
        if header.command == proto::CMD_DISC {
            seen.push(Seen::Disconnect);
            return seen;
        }
        let length = header.length_bytes as usize;
        let refusal = refusal(&header, read_only, structured);
        if header.command != proto::CMD_WRITE {
            seen.push(match refusal {
                Some(refusal) => Seen::Refused(header.cookie, refusal),
                None => Seen::Request(plain(&header)),
            });
            continue;
        }
        if refusal.is_some() && header.length_bytes > MAX_DRAINED_BYTES {
            seen.push(Seen::Closed(ErrorKind::PayloadTooLong));
            return seen;
        }
        let (payload, rest) = stream.split_at(length.min(stream.len()));
        stream = rest;
        match refusal {
            Some(refusal) if payload.len() == length => seen.push(Seen::Refused(header.cookie, refusal)),
            Some(_) => {}
            None => {
                seen.push(Seen::WriteStart(plain(&header)));
                if !payload.is_empty() {
                    seen.push(Seen::Payload(payload.to_vec()));
                }
            }
        }
    }
    seen
}

fn plain(header: &RequestHeader) -> Request {
    Request {
        cookie: header.cookie,
        offset_bytes: header.offset_bytes,
        length_bytes: header.length_bytes,
        command: Command::from_code(header.command).unwrap(),
        flags: CommandFlags(header.flags),
    }
}

fn refusal(header: &RequestHeader, read_only: bool, structured: bool) -> Option<Refusal> {
    let RequestHeader { command, flags, offset_bytes, length_bytes, .. } = *header;
    let end = u128::from(offset_bytes) + u128::from(length_bytes);
    let flags_of = match command {
        0 if structured => 0b101,
        0 | 1 | 3 | 4 | 5 => 0b001,
        6 => 0b011,
        _ => return Some(Refusal::UnknownCommand),
    };
    if read_only && [1, 4, 6].contains(&command) {
        return Some(Refusal::ReadOnly);
    }
    if flags | flags_of != flags_of {
        return Some(Refusal::UnknownFlags);
    }
    if command == 3 {
        return (end > 0).then_some(Refusal::FlushWithRange);
    }
    if length_bytes == 0 {
        return Some(Refusal::Empty);
    }
    if !offset_bytes.is_multiple_of(512) || length_bytes % 512 != 0 {
        return Some(Refusal::Unaligned);
    }
    if command < 2 && length_bytes > 32 << 20 {
        return Some(if flags & 4 != 0 { Refusal::TooLongUnfragmented } else { Refusal::TooLong });
    }
    if end <= u128::from(SIZE_BYTES) {
        return None;
    }
    Some(if command == 1 || command == 6 { Refusal::WriteBeyondEnd } else { Refusal::BeyondEnd })
}

fn any_option() -> impl Strategy<Value = Vec<u8>> {
    let names = prop_oneof![Just(b"vm1".to_vec()), Just(Vec::new()), Just(vec![b'n'; 5000])];
    let infos = (6u32..8, names, prop::collection::vec(0u16..5, 0..5))
        .prop_map(|(code, name, wanted)| option(code, &info_data(&name, &wanted)));
    let lengths = prop_oneof![0usize..64, 8000..9000usize, Just(300_000usize)];
    let others = (0u32..14, lengths).prop_map(|(code, length)| option(code, &vec![0xa5; length]));
    let plain = (2u32..12).prop_map(|code| option(code, &[]));
    prop_oneof![3 => infos, 1 => others, 3 => plain]
}

fn handshake_stream() -> impl Strategy<Value = Vec<u8>> {
    let flags = prop_oneof![8 => 0u32..4, 1 => any::<u32>()];
    let options = prop::collection::vec(any_option(), 0..8);
    (flags, options, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(flags, options, tail)| {
        let mut stream = client_stream(flags, &options);
        stream.extend(tail);
        stream
    })
}

fn exports() -> [ExportInfo; 2] {
    ["vm1", "vm2"].map(|name| ExportInfo::new(name, SIZE_BYTES).unwrap().with_description("d").unwrap())
}

/// Feeds a client's handshake; what matters is that it neither panics nor fails to move.
fn run_client_handshake(
    stream: &[u8],
    sizes: &[usize],
) -> (Vec<u8>, Option<Result<ClientProgress, lode_nbd_client::ErrorKind>>) {
    let mut client = ClientHandshake::go("vm1", true).unwrap();
    let mut out = Vec::new();
    for piece in slices(stream, sizes) {
        match client.advance(piece, &mut out) {
            Ok((used, ClientProgress::NeedMore)) => assert_eq!(used, piece.len()),
            Ok((_, end)) => return (out, Some(Ok(end))),
            Err(error) => return (out, Some(Err(error.kind()))),
        }
    }
    (out, None)
}

/// Feeds a client's transmission with four requests in flight; returns its events as text, data joined.
fn run_client_transmission(stream: &[u8], sizes: &[usize], structured: bool) -> Vec<String> {
    let remote = RemoteExport {
        size_bytes: SIZE_BYTES,
        transmission_flags: exports()[0].transmission_flags(structured),
        structured,
        min_block_bytes: 512,
        preferred_block_bytes: 4096,
        max_payload_bytes: MAX_PAYLOAD_BYTES,
        name: None,
        description: None,
    };
    let mut client = ClientTransmission::new(&remote);
    for (cookie, command) in [(0, Command::Read), (1, Command::Read), (2, Command::Trim), (3, Command::Write)]
    {
        let request =
            Request { cookie, offset_bytes: 512, length_bytes: 1024, command, flags: CommandFlags::NONE };
        client.submit(&request, &mut Vec::new()).unwrap();
    }
    let mut seen: Vec<String> = Vec::new();
    let mut bytes_seen = Vec::new();
    for mut piece in slices(stream, sizes) {
        loop {
            match client.advance(piece) {
                Ok((used, None)) => {
                    assert_eq!(used, piece.len());
                    break;
                }
                Ok((used, Some(lode_nbd_client::ClientEvent::ReadData { cookie, offset_bytes, bytes }))) => {
                    bytes_seen.extend(
                        bytes.iter().enumerate().map(|(at, &byte)| (cookie, offset_bytes + at as u64, byte)),
                    );
                    piece = &piece[used..];
                }
                Ok((used, Some(event))) => {
                    seen.push(format!("{:?} {event:?}", std::mem::take(&mut bytes_seen)));
                    piece = &piece[used..];
                }
                Err(error) => {
                    seen.push(format!("{bytes_seen:?} {error}"));
                    return seen;
                }
            }
        }
    }
    seen.push(format!("{bytes_seen:?}"));
    seen
}

/// A server's chunk or simple reply, mostly nearly right for the requests above.
fn any_reply() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop_oneof![
        4 => Just(1u16), 2 => Just(0u16), 2 => Just(2u16), 2 => Just(0x8001), 2 => Just(0x8002), 1 => any::<u16>()
    ];
    let lengths = prop_oneof![6 => Just(520u32), 2 => Just(1032), 1 => Just(0), 3 => Just(12), 1 => 0u32..40];
    let chunk = (kinds, 0u16..2, 0u64..4, lengths, 0u64..4, 0u32..3).prop_map(
        |(kind, flags, cookie, length_bytes, place, word)| {
            let header = proto::ChunkHeader { flags, kind, cookie, length_bytes };
            let mut payload = vec![0u8; length_bytes as usize];
            let fields = match kind {
                1 | 2 => [(place * 512).to_be_bytes().to_vec(), (word * 512).to_be_bytes().to_vec()].concat(),
                _ => [word.to_be_bytes().to_vec(), (place as u16).to_be_bytes().to_vec()].concat(),
            };
            let length = fields.len().min(payload.len());
            payload[..length].copy_from_slice(&fields[..length]);
            [header.encode().to_vec(), payload].concat()
        },
    );
    let simple = (0u32..3, 0u64..4).prop_map(|(error, cookie)| {
        let mut reply = proto::SimpleReplyHeader { error, cookie }.encode().to_vec();
        reply.extend(vec![7; if error == 0 && cookie < 2 { 1024 } else { 0 }]);
        reply
    });
    prop_oneof![3 => chunk, 2 => simple]
}

proptest! {
    #[test]
    fn requests_parse_alike_in_any_slices(
        stream in request_stream(), sizes in sizes(), read_only: bool, structured: bool
    ) {
        let export = exports()[0].clone().with_read_only(read_only);
        let expected = parse_all(&stream, read_only, structured);
        prop_assert_eq!(run_transmission(&stream, &[usize::MAX], &export, structured), expected.clone());
        prop_assert_eq!(run_transmission(&stream, &sizes, &export, structured), expected);
    }

    #[test]
    fn handshakes_go_alike_in_any_slices(stream in handshake_stream(), sizes in sizes(), count in 0usize..3) {
        let exports = &exports()[..count];
        let whole = run_handshake(&stream, &[usize::MAX], exports);
        prop_assert_eq!(run_handshake(&stream, &sizes, exports), whole);
    }

    #[test]
    fn replies_parse_alike_in_any_slices(
        replies in prop::collection::vec(any_reply(), 0..8), sizes in sizes(), structured: bool
    ) {
        let stream = replies.concat();
        let whole = run_client_transmission(&stream, &[usize::MAX], structured);
        prop_assert_eq!(run_client_transmission(&stream, &sizes, structured), whole);
    }

    #[test]
    fn random_bytes_never_panic_and_terminate(
        bytes in prop::collection::vec(any::<u8>(), 0..400), sizes in sizes(), structured: bool
    ) {
        let export = &exports()[0];
        run_handshake(&bytes, &sizes, &exports());
        run_transmission(&bytes, &sizes, export, structured);
        run_client_handshake(&bytes, &sizes);
        run_client_transmission(&bytes, &sizes, structured);
    }

    #[test]
    fn damaged_server_handshakes_never_panic_and_slice_alike(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 0..4), sizes in sizes()
    ) {
        let options = [option(proto::OPT_STRUCTURED_REPLY, &[]), option(proto::OPT_GO, &info_data(b"vm1", &[1, 2, 3]))];
        let mut stream = run_handshake(&client_stream(1, &options), &[usize::MAX], &exports()).out;
        let undamaged = run_client_handshake(&stream, &[usize::MAX]);
        prop_assert!(matches!(undamaged.1, Some(Ok(ClientProgress::Done(_)))));
        for (at, mask) in flips {
            let at = at.index(stream.len());
            stream[at] ^= mask;
        }
        prop_assert_eq!(run_client_handshake(&stream, &sizes), run_client_handshake(&stream, &[usize::MAX]));
    }
}
