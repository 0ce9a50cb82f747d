//! The server's handshake: what each option is answered with, and what hostile clients get.

use lode_nbd::proto::{self, Greeting};
use lode_nbd::{
    ErrorKind, ExportInfo, Handshake, HandshakeStep, MAX_NAME_BYTES, MAX_OPTION_BYTES, MAX_OPTION_SKIP_BYTES,
    MAX_OPTIONS, Negotiated,
};
use lode_nbd_client::{ClientHandshake, ClientProgress, ListedExport};

use crate::wire::{
    End, HandshakeRun, client_stream, context_data, info_data, option, option_replies, run_handshake,
};

const FIXED: u32 = proto::CLIENT_FIXED_NEWSTYLE;
const NO_ZEROES: u32 = proto::CLIENT_NO_ZEROES;

fn exports() -> Vec<ExportInfo> {
    let vm1 = ExportInfo::new("vm1", 1 << 30).unwrap().with_description("first").unwrap();
    let vm2 = ExportInfo::new("vm2", 4096).unwrap().with_read_only(true);
    vec![vm1, vm2.with_preferred_block_bytes(65536).unwrap()]
}

fn run(flags: u32, options: &[Vec<u8>]) -> HandshakeRun {
    run_handshake(&client_stream(flags, options), &[usize::MAX], &exports())
}

/// The kinds of the replies to options that are answered with one reply each.
fn kinds(run: &HandshakeRun) -> Vec<u32> {
    option_replies(&run.out).into_iter().map(|(_, kind, _)| kind).collect()
}

#[test]
fn the_server_greets_before_it_hears_anything() {
    let mut out = Vec::new();
    let _ = Handshake::start(&mut out);
    assert_eq!(Greeting::decode(&out.try_into().unwrap()), Some(Greeting { flags: 3 }));
}

#[test]
fn go_tells_what_was_asked_and_leaves_pipelined_requests_alone() {
    let wanted = [proto::INFO_NAME, proto::INFO_DESCRIPTION, proto::INFO_BLOCK_SIZE, 999];
    let go = option(proto::OPT_GO, &info_data(b"vm1", &wanted));
    let stream = client_stream(FIXED | NO_ZEROES, &[option(proto::OPT_STRUCTURED_REPLY, &[]), go]);
    let length = stream.len();
    let run = run_handshake(&[stream, b"pipelined".to_vec()].concat(), &[usize::MAX], &exports());
    assert_eq!(run.end, End::Done(Negotiated { structured: true, no_zeroes: true, ..Negotiated::default() }));
    assert_eq!(run.consumed, Some(length));
    let replies = option_replies(&run.out);
    let data: Vec<&[u8]> = replies.iter().map(|(_, _, data)| &data[..]).collect();
    // HAS_FLAGS, FLUSH, FUA, TRIM, WRITE_ZEROES, DF, MULTI_CONN, CACHE.
    let export = [0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0b0000_0101, 0b1110_1101];
    assert_eq!(data[1], [&[0][..], &export].concat());
    assert_eq!(data[2], [0, 3, 0, 0, 2, 0, 0, 0, 16, 0, 2, 0, 0, 0]);
    assert_eq!(data[3], b"\0\x01vm1");
    assert_eq!(data[4], b"\0\x02first");
    assert_eq!(kinds(&run), [1, 3, 3, 3, 3, 1]);
}

#[test]
fn info_answers_and_stays_in_the_handshake() {
    let info = |name: &[u8]| option(proto::OPT_INFO, &info_data(name, &[]));
    let run = run(FIXED, &[info(b"vm2"), info(b"nobody"), info(b"")]);
    assert_eq!(run.end, End::WantsMore);
    let replies = option_replies(&run.out);
    // HAS_FLAGS, READ_ONLY, FLUSH, FUA, MULTI_CONN, CACHE; no DF without structured replies.
    assert_eq!(replies[0].2[10..], [0b0000_0101, 0b0000_1111]);
    assert_eq!(replies[1].2[6..10], [0, 1, 0, 0], "preferred block size");
    let unknown = proto::REP_ERR_UNKNOWN;
    assert_eq!(kinds(&run), [3, 3, 1, unknown, unknown], "two exports leave no default");
}

#[test]
fn the_empty_name_opens_the_only_export() {
    let stream = client_stream(FIXED, &[option(proto::OPT_GO, &info_data(b"", &[]))]);
    let run = run_handshake(&stream, &[usize::MAX], &exports()[..1]);
    assert_eq!(run.end, End::Done(Negotiated { any_offset: true, ..Negotiated::default() }));
}

#[test]
fn export_name_with_and_without_no_zeroes() {
    for (flags, no_zeroes, length) in [(FIXED, false, 134), (FIXED | NO_ZEROES, true, 10), (0, false, 134)] {
        let run = run(flags, &[option(proto::OPT_EXPORT_NAME, b"vm2")]);
        assert_eq!(
            run.end,
            End::Done(Negotiated { export: 1, no_zeroes, any_offset: true, ..Negotiated::default() })
        );
        let reply = &run.out[Greeting::BYTES..];
        assert_eq!(reply.len(), length);
        assert_eq!(reply[..8], 4096u64.to_be_bytes());
        assert!(reply[10..].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn list_names_all_exports() {
    let run = run(FIXED, &[option(proto::OPT_LIST, &[]), option(proto::OPT_ABORT, &[])]);
    assert_eq!(run.end, End::Aborted);
    assert_eq!(kinds(&run), [2, 2, 1, 1]);
    assert_eq!(option_replies(&run.out)[0].2, b"\0\0\0\x03vm1first");
    assert_eq!(option_replies(&run.out)[1].2, b"\0\0\0\x03vm2");
}

#[test]
fn what_is_not_supported_is_refused_and_the_session_goes_on() {
    let options = [proto::OPT_STARTTLS, proto::OPT_EXTENDED_HEADERS, 4, 0, u32::MAX];
    let mut stream: Vec<_> = options.iter().map(|&code| option(code, b"whatever")).collect();
    stream.push(option(proto::OPT_GO, &info_data(b"vm1", &[])));
    let run = run(FIXED, &stream);
    assert!(matches!(run.end, End::Done(_)));
    assert!(kinds(&run)[..options.len()].iter().all(|&kind| kind == proto::REP_ERR_UNSUP));
}

#[test]
fn an_export_that_admits_nobody_is_refused_and_another_one_may_be_chosen() {
    let go = |name: &[u8]| option(proto::OPT_GO, &info_data(name, &[]));
    let info = option(proto::OPT_INFO, &info_data(b"vm1", &[]));
    let stream = client_stream(FIXED, &[info, go(b"vm1"), go(b"nobody"), go(b"vm2")]);
    let (mut out, mut rest, mut asked) = (Vec::new(), &stream[..], Vec::new());
    let mut handshake = Handshake::start(&mut out);
    let end = loop {
        let admit = |export| {
            asked.push(export);
            export == 1
        };
        match handshake.advance(rest, &exports(), admit, &mut out).unwrap() {
            (used, HandshakeStep::Reply) => rest = &rest[used..],
            (_, end) => break end,
        }
    };
    assert!(matches!(end, HandshakeStep::Done(Negotiated { export: 1, .. })), "{end:?}");
    assert_eq!(asked, [0, 1], "only who begins a session is asked for");
    let kinds: Vec<u32> = option_replies(&out).into_iter().map(|(_, kind, _)| kind).collect();
    assert_eq!(kinds, [3, 3, 1, proto::REP_ERR_POLICY, proto::REP_ERR_UNKNOWN, 3, 3, 1]);
    let by_name = client_stream(FIXED, &[option(proto::OPT_EXPORT_NAME, b"vm1")]);
    let mut out = Vec::new();
    let error = Handshake::start(&mut out).advance(&by_name, &exports(), |_| false, &mut out).unwrap_err();
    assert_eq!((error.kind(), out.len()), (ErrorKind::NotAdmitted, Greeting::BYTES));
}

#[test]
fn the_context_of_allocation_is_listed_and_selected() {
    let contexts = |code, name: &[u8], queries: &[&[u8]]| option(code, &context_data(name, queries));
    let (list, set) = (proto::OPT_LIST_META_CONTEXT, proto::OPT_SET_META_CONTEXT);
    let structured = option(proto::OPT_STRUCTURED_REPLY, &[]);
    let options = [
        // Not before structured replies.
        contexts(set, b"vm1", &[b"base:allocation"]),
        structured,
        contexts(list, b"vm1", &[]),
        contexts(list, b"vm1", &[b"base:"]),
        contexts(list, b"vm1", &[b"qemu:", b"base:allocation"]),
        contexts(list, b"vm1", &[b"qemu:"]),
        contexts(list, b"nobody", &[]),
        contexts(set, b"vm1", &[]),
        contexts(set, b"vm1", &[b"base:"]),
        contexts(set, b"vm1", &[b"x", b"base:allocation"]),
        option(set, &context_data(b"vm1", &[b"base:allocation"])[..20]),
        option(list, &[0; 4]),
    ];
    let found = run(FIXED, &options);
    let (context, ack, invalid) = (proto::REP_META_CONTEXT, proto::REP_ACK, proto::REP_ERR_INVALID);
    let listed = [context, ack].repeat(3);
    let rest = [ack, proto::REP_ERR_UNKNOWN, ack, ack, context, ack, invalid, invalid];
    assert_eq!(kinds(&found), [&[invalid, ack][..], &listed, &rest].concat());
    assert_eq!(option_replies(&found.out)[2].2, b"\0\0\0\x01base:allocation");
}

/// Whether a session whose options end like this may ask what is allocated.
fn selects(options: &[Vec<u8>]) -> bool {
    let structured = option(proto::OPT_STRUCTURED_REPLY, &[]);
    match run(FIXED, &[&[structured], options].concat()).end {
        End::Done(negotiated) => negotiated.allocation,
        end => panic!("{end:?}"),
    }
}

#[test]
fn a_selection_is_of_one_export_and_the_last_one_counts() {
    let go = |name: &[u8]| option(proto::OPT_GO, &info_data(name, &[]));
    let set =
        |name: &[u8], queries: &[&[u8]]| option(proto::OPT_SET_META_CONTEXT, &context_data(name, queries));
    let allocation: &[&[u8]] = &[b"base:allocation"];
    assert!(selects(&[set(b"vm1", allocation), go(b"vm1")]));
    assert!(selects(&[set(b"vm1", allocation), option(proto::OPT_EXPORT_NAME, b"vm1")]));
    assert!(!selects(&[go(b"vm1")]));
    assert!(!selects(&[set(b"vm1", allocation), go(b"vm2")]));
    assert!(!selects(&[set(b"vm1", allocation), set(b"vm1", &[]), go(b"vm1")]));
    assert!(!selects(&[set(b"vm1", allocation), set(b"nobody", allocation), go(b"vm1")]));
}

#[test]
fn malformed_options_are_invalid_and_the_session_goes_on() {
    let mut torn = info_data(b"vm1", &[1]);
    torn.pop();
    let mut lying = info_data(b"vm1", &[]);
    lying[0] = 0xff;
    let options = [
        option(proto::OPT_LIST, b"x"),
        option(proto::OPT_STRUCTURED_REPLY, b"x"),
        option(proto::OPT_GO, &torn),
        option(proto::OPT_INFO, &lying),
        option(proto::OPT_GO, &[]),
    ];
    let run = run(FIXED, &options);
    assert_eq!(run.end, End::WantsMore);
    assert_eq!(kinds(&run), [proto::REP_ERR_INVALID; 5]);
    let after = client_stream(FIXED, &[options[1].clone(), option(proto::OPT_GO, &info_data(b"vm1", &[]))]);
    let after = run_handshake(&after, &[usize::MAX], &exports());
    assert!(matches!(after.end, End::Done(Negotiated { structured: false, .. })));
}

#[test]
fn oversized_option_is_skipped_and_refused() {
    let long = vec![0; MAX_OPTION_BYTES as usize + 1];
    let options = [option(proto::OPT_GO, &long), option(77, &vec![1; MAX_OPTION_SKIP_BYTES as usize])];
    let run = run(FIXED, &options);
    assert_eq!(run.end, End::WantsMore);
    assert_eq!(kinds(&run), [proto::REP_ERR_TOO_BIG, proto::REP_ERR_UNSUP]);
}

#[test]
fn option_beyond_all_bounds_closes_at_its_header() {
    for code in [proto::OPT_GO, 77] {
        let header = proto::OptionHeader { option: code, length_bytes: MAX_OPTION_SKIP_BYTES + 1 };
        let run = run(FIXED, &[header.encode().to_vec()]);
        assert_eq!(run.end, End::Closed(ErrorKind::OptionTooLong));
    }
}

#[test]
fn option_flood_is_ended() {
    let list = option(proto::OPT_LIST, &[]);
    let most = run(FIXED, &vec![list.clone(); MAX_OPTIONS as usize]);
    assert_eq!(most.end, End::WantsMore);
    let flood = run(FIXED, &vec![list; MAX_OPTIONS as usize + 1]);
    assert_eq!(flood.end, End::Closed(ErrorKind::TooManyOptions));
}

#[test]
fn a_pipelining_client_gets_one_reply_a_call() {
    let stream = client_stream(FIXED, &vec![option(proto::OPT_LIST, &[]); 5]);
    let mut out = Vec::new();
    let mut handshake = Handshake::start(&mut out);
    let (used, progress) = handshake.advance(&stream, &exports(), |_| true, &mut out).unwrap();
    assert_eq!((used, progress), (4 + 16, HandshakeStep::Reply));
    assert_eq!(option_replies(&out).len(), 3);
}

#[test]
fn name_of_5000_bytes_is_refused() {
    let name = vec![b'n'; 5000];
    let info = run(FIXED, &[option(proto::OPT_INFO, &info_data(&name, &[]))]);
    assert_eq!((info.end.clone(), kinds(&info)), (End::WantsMore, vec![proto::REP_ERR_TOO_BIG]));
    let by_name = run(FIXED, &[option(proto::OPT_EXPORT_NAME, &name)]);
    assert_eq!(by_name.end, End::Closed(ErrorKind::UnknownExport));
}

#[test]
fn the_longest_name_and_the_longest_option_are_taken() {
    let name = "n".repeat(MAX_NAME_BYTES);
    let exports = [ExportInfo::new(name.clone(), 512).unwrap()];
    for code in [proto::OPT_GO, proto::OPT_EXPORT_NAME] {
        let data = match code {
            proto::OPT_GO => info_data(name.as_bytes(), &[proto::INFO_NAME]),
            _ => name.clone().into_bytes(),
        };
        let run = run_handshake(&client_stream(FIXED, &[option(code, &data)]), &[1000], &exports);
        assert!(matches!(run.end, End::Done(Negotiated { export: 0, .. })), "option {code}");
    }
    let longest = run(FIXED, &[option(proto::OPT_GO, &vec![0; MAX_OPTION_BYTES as usize])]);
    assert_eq!(kinds(&longest), [proto::REP_ERR_INVALID], "read, not skipped");
}

#[test]
fn unknown_export_by_name_closes() {
    let run = run(FIXED, &[option(proto::OPT_EXPORT_NAME, b"nobody")]);
    assert_eq!(run.end, End::Closed(ErrorKind::UnknownExport));
    assert_eq!(run.out.len(), Greeting::BYTES, "not a byte of another export");
}

#[test]
fn clients_that_speak_something_else_are_closed() {
    let list = option(proto::OPT_LIST, &[]);
    assert_eq!(run(1 << 5, &[]).end, End::Closed(ErrorKind::UnknownClientFlags));
    assert_eq!(run(0, std::slice::from_ref(&list)).end, End::Closed(ErrorKind::NotFixedNewstyle));
    let http = run_handshake(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", &[usize::MAX], &exports());
    assert_eq!(http.end, End::Closed(ErrorKind::UnknownClientFlags));
    let mut wrong = list;
    wrong[0] ^= 1;
    assert_eq!(run(FIXED, &[wrong]).end, End::Closed(ErrorKind::BadMagic));
}

#[test]
fn half_a_header_waits() {
    let go = option(proto::OPT_GO, &info_data(b"vm1", &[]));
    let stream = client_stream(FIXED, &[go]);
    for cut in 0..stream.len() {
        assert_eq!(
            run_handshake(&stream[..cut], &[usize::MAX], &exports()).end,
            End::WantsMore,
            "cut at {cut}"
        );
    }
}

#[test]
fn the_client_lists_what_the_server_has() {
    let mut to_client = Vec::new();
    let mut server = Handshake::start(&mut to_client);
    let mut client = ClientHandshake::list();
    let mut to_server = Vec::new();
    let mut listed = None;
    loop {
        let (used, progress) = client.advance(&to_client, &mut to_server).unwrap();
        to_client.drain(..used);
        if let ClientProgress::Listed(exports) = progress {
            listed = Some(exports);
        }
        let (used, progress) = server.advance(&to_server, &exports(), |_| true, &mut to_client).unwrap();
        to_server.drain(..used);
        if progress == HandshakeStep::Aborted {
            break;
        }
    }
    let entry =
        |name: &str, description: &str| ListedExport { name: name.into(), description: description.into() };
    assert_eq!(listed, Some(vec![entry("vm1", "first"), entry("vm2", "")]));
    let misuse = server.advance(&[], &exports(), |_| true, &mut to_client).unwrap_err();
    assert_eq!(misuse.kind(), ErrorKind::Misuse);
}
