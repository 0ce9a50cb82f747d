//! The client against servers that are right, odd or hostile.

use lode_nbd::proto::{self, ChunkHeader, Greeting, OptionReplyHeader, SimpleReplyHeader};
use lode_nbd::{Command, CommandError, CommandFlags, MAX_PAYLOAD_BYTES, Request};
use lode_nbd_client::{
    ClientEvent, ClientHandshake, ClientProgress, ClientTransmission, ErrorKind, MAX_INFO_REPLIES,
    MAX_LISTED_EXPORTS, MAX_OPTION_REPLY_BYTES, RemoteExport,
};

fn remote(structured: bool) -> RemoteExport {
    RemoteExport {
        size_bytes: 1 << 20,
        transmission_flags: proto::FLAG_HAS_FLAGS | proto::FLAG_SEND_FUA | proto::FLAG_SEND_FLUSH,
        structured,
        min_block_bytes: 512,
        preferred_block_bytes: 4096,
        max_payload_bytes: MAX_PAYLOAD_BYTES,
        name: None,
        description: None,
    }
}

fn read(cookie: u64) -> Request {
    let flags = CommandFlags::NONE;
    Request { cookie, offset_bytes: 4096, length_bytes: 1024, command: Command::Read, flags }
}

/// A client with read 7 of 1024 bytes at 4096 in flight.
fn reading(structured: bool) -> ClientTransmission {
    let mut client = ClientTransmission::new(&remote(structured));
    client.submit(&read(7), &mut Vec::new()).unwrap();
    client
}

fn chunk(kind: u16, last: bool, payload: &[u8]) -> Vec<u8> {
    let header = ChunkHeader { flags: u16::from(last), kind, cookie: 7, length_bytes: payload.len() as u32 };
    [&header.encode()[..], payload].concat()
}

fn data(offset_bytes: u64, length: usize, last: bool) -> Vec<u8> {
    chunk(proto::CHUNK_OFFSET_DATA, last, &[&offset_bytes.to_be_bytes()[..], &vec![1; length]].concat())
}

fn hole(offset_bytes: u64, length_bytes: u32, last: bool) -> Vec<u8> {
    let payload = [&offset_bytes.to_be_bytes()[..], &length_bytes.to_be_bytes()].concat();
    chunk(proto::CHUNK_OFFSET_HOLE, last, &payload)
}

/// How the client takes a stream: its last event, or the error.
fn outcome(client: &mut ClientTransmission, mut stream: &[u8]) -> Result<Option<String>, ErrorKind> {
    let mut last = None;
    loop {
        let (used, event) = client.advance(stream).map_err(|error| error.kind())?;
        stream = &stream[used..];
        match event {
            Some(event) => last = Some(format!("{event:?}")),
            None => return Ok(last),
        }
    }
}

#[test]
fn reads_may_be_answered_in_pieces_of_any_order() {
    let mut client = reading(true);
    let stream =
        [data(4608, 512, false), hole(4096, 512, false), chunk(proto::CHUNK_NONE, true, &[])].concat();
    assert_eq!(outcome(&mut client, &stream), Ok(Some("Done { cookie: 7 }".to_string())));
    assert_eq!(client.in_flight(), 0);
}

#[test]
fn a_hostile_server_cannot_pass_off_a_read_as_whole() {
    let end = || chunk(proto::CHUNK_NONE, true, &[]);
    let cases = [
        ("nothing", end()),
        ("half", data(4096, 512, true)),
        ("overlap hides a gap", [data(4096, 512, false), data(4096, 512, true)].concat()),
        ("before the read", data(3584, 512, false)),
        ("after the read", data(5120, 512, false)),
        ("across the end", data(4608, 1024, false)),
        ("at the end of all offsets", data(u64::MAX - 511, 512, false)),
        ("empty data", data(4096, 0, false)),
        ("empty hole", hole(4096, 0, false)),
        ("end that is not the end", chunk(proto::CHUNK_NONE, false, &[])),
        ("unknown chunk", chunk(9, true, &[])),
        ("block status nobody asked for", chunk(5, true, &[0; 12])),
        ("error that is none", chunk(proto::CHUNK_ERROR, true, &[0; 6])),
        ("message longer than its chunk", chunk(proto::CHUNK_ERROR, true, &[0, 0, 0, 5, 0, 1])),
        ("error chunk cut short", chunk(proto::CHUNK_ERROR, true, &[0, 0, 0, 5])),
        ("endless error", chunk(proto::CHUNK_ERROR, true, &[1; 9000])),
        ("simple reply", SimpleReplyHeader { error: 0, cookie: 7 }.encode().to_vec()),
        ("another's cookie", SimpleReplyHeader { error: 0, cookie: 8 }.encode().to_vec()),
    ];
    for (case, stream) in cases {
        assert_eq!(outcome(&mut reading(true), &stream), Err(ErrorKind::BadReply), "{case}");
    }
    let chunked = outcome(&mut reading(false), &data(4096, 1024, true));
    assert_eq!(chunked, Err(ErrorKind::BadReply), "chunks without negotiation");
    assert_eq!(outcome(&mut reading(true), &[0; 16]), Err(ErrorKind::BadMagic));
}

#[test]
fn errors_end_a_read_with_the_servers_words() {
    let payload = [&[0, 0, 0, 5, 0, 4][..], b"dead", &4096u64.to_be_bytes()].concat();
    let late = [data(4096, 512, false), chunk(proto::CHUNK_ERROR_OFFSET, false, &payload)].concat();
    let late = [late, chunk(proto::CHUNK_NONE, true, &[])].concat();
    let mut client = reading(true);
    let failed = ClientEvent::Failed { cookie: 7, error: CommandError::Eio, message: "dead".into() };
    assert_eq!(outcome(&mut client, &late), Ok(Some(format!("{failed:?}"))));

    let simple = SimpleReplyHeader { error: 108, cookie: 7 }.encode();
    let failed = ClientEvent::Failed { cookie: 7, error: CommandError::Eshutdown, message: String::new() };
    assert_eq!(outcome(&mut reading(false), &simple), Ok(Some(format!("{failed:?}"))));
}

#[test]
fn a_second_reply_to_one_request_is_an_error() {
    let reply = [&SimpleReplyHeader { error: 0, cookie: 7 }.encode()[..], &[1; 1024]].concat();
    let mut client = reading(false);
    assert!(outcome(&mut client, &reply).is_ok());
    assert_eq!(outcome(&mut client, &reply), Err(ErrorKind::BadReply));
}

#[test]
fn read_data_may_be_received_elsewhere() {
    let mut client = reading(false);
    let header = SimpleReplyHeader { error: 0, cookie: 7 }.encode();
    assert_eq!(client.advance(&header), Ok((16, None)));
    assert_eq!(client.data_due(), Some((7, 4096, 1024)));
    client.data_received(1000).unwrap();
    assert_eq!(client.data_due(), Some((7, 5096, 24)));
    assert_eq!(client.data_received(25).unwrap_err().kind(), ErrorKind::Misuse);
    client.data_received(24).unwrap();
    assert_eq!(client.advance(&[]), Ok((0, Some(ClientEvent::Done { cookie: 7 }))));
    assert_eq!(client.data_due(), None);
}

#[test]
fn requests_the_server_would_refuse_are_not_sent() {
    let mut client = reading(true);
    let bad = [
        read(7),
        Request { length_bytes: 0, ..read(8) },
        Request { offset_bytes: 1 << 20, ..read(8) },
        Request { offset_bytes: 100, ..read(8) },
        Request { command: Command::Trim, ..read(8) },
        Request { flags: CommandFlags(proto::CMD_FLAG_DF), ..read(8) },
    ];
    let mut out = Vec::new();
    for request in bad {
        assert_eq!(
            client.submit(&request, &mut out).unwrap_err().kind(),
            ErrorKind::BadRequest,
            "{request:?}"
        );
    }
    assert!(out.is_empty());
    assert_eq!(client.in_flight(), 1);
}

fn option_reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let header = OptionReplyHeader { option, kind, length_bytes: data.len() as u32 };
    [&header.encode()[..], data].concat()
}

fn info(kind: u16, data: &[u8]) -> Vec<u8> {
    option_reply(proto::OPT_GO, proto::REP_INFO, &[&kind.to_be_bytes()[..], data].concat())
}

/// A client without structured replies, greeted and told `replies`.
fn told(replies: &[Vec<u8>]) -> Result<ClientProgress, ErrorKind> {
    let stream = [Greeting { flags: 3 }.encode().to_vec(), replies.concat()].concat();
    let mut client = ClientHandshake::go("vm", false).unwrap();
    client.advance(&stream, &mut Vec::new()).map(|(_, progress)| progress).map_err(|error| error.kind())
}

#[test]
fn the_client_accepts_only_sane_exports() {
    let ack = || option_reply(proto::OPT_GO, proto::REP_ACK, &[]);
    let export = || info(proto::INFO_EXPORT, &[0, 0, 0, 0, 0, 16, 0, 0, 0, 1]);
    let sizes = |min: u32, preferred: u32, max: u32| {
        info(proto::INFO_BLOCK_SIZE, &[min, preferred, max].map(u32::to_be_bytes).concat())
    };
    let Ok(ClientProgress::Done(remote)) =
        told(&[sizes(1, 4096, u32::MAX), info(77, b"new"), export(), ack()])
    else {
        panic!("a sane export")
    };
    assert_eq!((remote.size_bytes, remote.min_block_bytes), (1 << 20, 1));
    assert_eq!(remote.max_payload_bytes, MAX_PAYLOAD_BYTES);

    let bad = Err(ErrorKind::BadReply);
    assert_eq!(told(&[ack()]), bad, "no size");
    assert_eq!(told(&[info(proto::INFO_EXPORT, &[0; 10]), ack()]), bad, "no flags");
    assert_eq!(told(&[info(proto::INFO_EXPORT, &[0; 9])]), bad, "cut short");
    assert_eq!(told(&[sizes(0, 4096, 4096)]), bad);
    assert_eq!(told(&[sizes(3, 4096, 4096)]), bad);
    assert_eq!(told(&[sizes(512, 5000, 8192)]), bad);
    assert_eq!(told(&[sizes(4096, 4096, 512)]), bad);
    assert_eq!(told(&[export(), option_reply(proto::OPT_LIST, proto::REP_ACK, &[])]), bad, "another option");
    assert_eq!(told(&[option_reply(proto::OPT_GO, proto::REP_SERVER, &[])]), bad, "another reply");
    assert_eq!(told(&vec![info(77, b""); MAX_INFO_REPLIES as usize + 1]), bad, "endless information");
    assert_eq!(told(&[vec![0; 20]]), Err(ErrorKind::BadMagic));
    let long = OptionReplyHeader {
        option: proto::OPT_GO,
        kind: proto::REP_INFO,
        length_bytes: MAX_OPTION_REPLY_BYTES + 1,
    };
    assert_eq!(told(&[long.encode().to_vec()]), bad, "refused at the header");
}

#[test]
fn refusals_carry_the_servers_words() {
    let stream =
        [Greeting { flags: 1 }.encode().to_vec(), option_reply(7, proto::REP_ERR_UNKNOWN, b"no vm here")]
            .concat();
    let mut client = ClientHandshake::go("vm", false).unwrap();
    let error = client.advance(&stream, &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(
        error.to_string().contains("no such export") && error.to_string().contains("no vm here"),
        "{error}"
    );
}

#[test]
fn a_server_without_structured_replies_is_served_without_them() {
    let stream = [
        Greeting { flags: 3 }.encode().to_vec(),
        option_reply(proto::OPT_STRUCTURED_REPLY, proto::REP_ERR_UNSUP, b""),
        info(proto::INFO_EXPORT, &[0, 0, 0, 0, 0, 16, 0, 0, 0, 0x81]),
        option_reply(proto::OPT_GO, proto::REP_ACK, &[]),
        b"rest".to_vec(),
    ]
    .concat();
    let mut client = ClientHandshake::go("vm", true).unwrap();
    let (used, progress) = client.advance(&stream, &mut Vec::new()).unwrap();
    assert_eq!(used, stream.len() - 4);
    let ClientProgress::Done(remote) = progress else { panic!("{progress:?}") };
    assert!(!remote.structured);
    assert_eq!(remote.transmission_flags & proto::FLAG_SEND_DF, 0);
}

#[test]
fn old_servers_and_endless_lists_are_left() {
    let greet = |bytes: &[u8]| {
        ClientHandshake::list().advance(bytes, &mut Vec::new()).map_err(|error| error.kind()).unwrap_err()
    };
    let mut old = Greeting { flags: 3 }.encode();
    old[8..16].copy_from_slice(&0x0000_4202_8186_1253u64.to_be_bytes());
    assert_eq!(greet(&old), ErrorKind::BadMagic);
    assert_eq!(greet(&Greeting { flags: 2 }.encode()), ErrorKind::NotFixedNewstyle);
    let entry = option_reply(proto::OPT_LIST, proto::REP_SERVER, &[0, 0, 0, 1, b'v']);
    let endless = [Greeting { flags: 3 }.encode().to_vec(), entry.repeat(MAX_LISTED_EXPORTS + 1)].concat();
    assert_eq!(greet(&endless), ErrorKind::BadReply);
    let lying = option_reply(proto::OPT_LIST, proto::REP_SERVER, &[0, 0, 0, 2, b'v']);
    assert_eq!(greet(&[Greeting { flags: 3 }.encode().to_vec(), lying].concat()), ErrorKind::BadReply);
}
