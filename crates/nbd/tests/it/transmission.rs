//! The server's transmission phase: named requests, good and hostile.

use lode_nbd::proto;
use lode_nbd::{
    Command, CommandError, CommandFlags, ErrorKind, ExportInfo, MAX_DRAINED_BYTES, MAX_PAYLOAD_BYTES,
    Negotiated, Received, Refusal, ReplyEncoder, Request, Transmission,
};

use crate::wire::{Seen, request, run_negotiated, run_transmission};

const SIZE_BYTES: u64 = 1 << 30;

fn export() -> ExportInfo {
    ExportInfo::new("vm", SIZE_BYTES).unwrap()
}

fn seen(stream: &[u8]) -> Vec<Seen> {
    run_transmission(stream, &[usize::MAX], &export(), true)
}

fn refusal_of(stream: &[u8]) -> Refusal {
    match seen(stream)[..] {
        [Seen::Refused(7, refusal)] => refusal,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn requests_come_out_as_they_went_in() {
    let stream = [
        request(proto::CMD_READ, proto::CMD_FLAG_DF, 1, 4096, 8192),
        request(proto::CMD_WRITE, proto::CMD_FLAG_FUA, 2, 512, 1024),
        vec![9; 1024],
        request(proto::CMD_FLUSH, 0, 3, 0, 0),
        request(proto::CMD_TRIM, 0, 4, 0, 1 << 30),
        request(proto::CMD_CACHE, 0, 5, 0, 4096),
        request(proto::CMD_WRITE_ZEROES, proto::CMD_FLAG_NO_HOLE, 6, 0, 4096),
        request(proto::CMD_DISC, 0, 0, 0, 0),
        b"ignored".to_vec(),
    ]
    .concat();
    let new = |cookie, command, offset_bytes, length_bytes, flags| Request {
        cookie,
        offset_bytes,
        length_bytes,
        command,
        flags: CommandFlags(flags),
    };
    let expected = [
        Seen::Request(new(1, Command::Read, 4096, 8192, proto::CMD_FLAG_DF)),
        Seen::WriteStart(new(2, Command::Write, 512, 1024, proto::CMD_FLAG_FUA)),
        Seen::Payload(vec![9; 1024]),
        Seen::Request(new(3, Command::Flush, 0, 0, 0)),
        Seen::Request(new(4, Command::Trim, 0, 1 << 30, 0)),
        Seen::Request(new(5, Command::Cache, 0, 4096, 0)),
        Seen::Request(new(6, Command::WriteZeroes, 0, 4096, proto::CMD_FLAG_NO_HOLE)),
        Seen::Disconnect,
    ];
    assert_eq!(seen(&stream), expected);
}

#[test]
fn read_beyond_the_end() {
    assert_eq!(refusal_of(&request(proto::CMD_READ, 0, 7, SIZE_BYTES - 512, 1024)), Refusal::BeyondEnd);
}

#[test]
fn offset_plus_length_overflow() {
    let last = u64::MAX - 511;
    assert_eq!(refusal_of(&request(proto::CMD_READ, 0, 7, last, 1024)), Refusal::BeyondEnd);
    assert_eq!(refusal_of(&request(proto::CMD_TRIM, 0, 7, last, 0xffff_fe00)), Refusal::BeyondEnd);
    assert_eq!(refusal_of(&request(proto::CMD_WRITE_ZEROES, 0, 7, last, 1024)), Refusal::WriteBeyondEnd);
}

#[test]
fn unaligned() {
    for (offset_bytes, length_bytes) in [(1, 512), (0, 511), (513, 513)] {
        let stream = request(proto::CMD_READ, 0, 7, offset_bytes, length_bytes);
        assert_eq!(refusal_of(&stream), Refusal::Unaligned);
    }
}

#[test]
fn any_byte_of_a_client_that_never_asked_for_block_sizes() {
    let plain = Negotiated::default();
    let any_offset = Negotiated { any_offset: true, ..plain };
    let run = |stream: &[u8], export: &ExportInfo, negotiated| {
        run_negotiated(stream, &[usize::MAX], export, negotiated)
    };
    for (offset_bytes, length_bytes) in [(1, 512), (0, 511), (513, 513), (SIZE_BYTES - 1, 1)] {
        let stream = request(proto::CMD_READ, 0, 7, offset_bytes, length_bytes);
        assert!(matches!(run(&stream, &export(), &any_offset)[..], [Seen::Request(_)]), "{offset_bytes}");
    }
    let beyond = request(proto::CMD_READ, 0, 7, SIZE_BYTES - 1, 2);
    assert_eq!(run(&beyond, &export(), &any_offset), [Seen::Refused(7, Refusal::BeyondEnd)]);
    // The end of an export of any size is everybody's.
    let odd = ExportInfo::new("odd", 1000).unwrap();
    let last = request(proto::CMD_READ, 0, 7, 512, 488);
    assert!(matches!(run(&last, &odd, &plain)[..], [Seen::Request(_)]));
    let beyond = request(proto::CMD_READ, 0, 7, 512, 512);
    assert_eq!(run(&beyond, &odd, &plain), [Seen::Refused(7, Refusal::BeyondEnd)]);
}

#[test]
fn unknown_command_and_block_status() {
    for command in [7, 8, 0x100, u16::MAX] {
        assert_eq!(refusal_of(&request(command, 0, 7, 0, 512)), Refusal::UnknownCommand);
    }
}

#[test]
fn block_status_where_its_context_was_negotiated() {
    let negotiated = Negotiated { structured: true, allocation: true, ..Negotiated::default() };
    let run = |flags, offset_bytes, length_bytes| {
        let stream = request(proto::CMD_BLOCK_STATUS, flags, 7, offset_bytes, length_bytes);
        run_negotiated(&stream, &[usize::MAX], &export(), &negotiated)
    };
    for flags in [0, proto::CMD_FLAG_REQ_ONE, proto::CMD_FLAG_FUA] {
        let [Seen::Request(seen)] = run(flags, 0, SIZE_BYTES as u32)[..] else { panic!("flags {flags}") };
        assert_eq!(seen.command, Command::BlockStatus);
        assert_eq!(seen.flags.req_one(), flags == proto::CMD_FLAG_REQ_ONE);
    }
    assert_eq!(run(proto::CMD_FLAG_DF, 0, 512), [Seen::Refused(7, Refusal::UnknownFlags)]);
    assert_eq!(run(0, SIZE_BYTES, 512), [Seen::Refused(7, Refusal::BeyondEnd)]);
    assert_eq!(run(0, 0, 0), [Seen::Refused(7, Refusal::Empty)]);
}

#[test]
fn unknown_flags() {
    for flags in [1 << 3, proto::CMD_FLAG_FAST_ZERO, 1 << 5, 1 << 15] {
        assert_eq!(refusal_of(&request(proto::CMD_WRITE_ZEROES, flags, 7, 0, 512)), Refusal::UnknownFlags);
    }
    let df = request(proto::CMD_READ, proto::CMD_FLAG_DF, 7, 0, 512);
    let simple = run_transmission(&df, &[usize::MAX], &export(), false);
    assert_eq!(simple, [Seen::Refused(7, Refusal::UnknownFlags)]);
}

#[test]
fn zero_length() {
    for command in [proto::CMD_READ, proto::CMD_WRITE, proto::CMD_TRIM, proto::CMD_WRITE_ZEROES] {
        assert_eq!(refusal_of(&request(command, 0, 7, 0, 0)), Refusal::Empty);
    }
}

#[test]
fn every_refused_write_is_drained_before_it_is_answered() {
    let cases = [
        (0, SIZE_BYTES, 1024, Refusal::WriteBeyondEnd, CommandError::Enospc),
        (0, u64::MAX - 511, 1024, Refusal::WriteBeyondEnd, CommandError::Enospc),
        (0, 1, 512, Refusal::Unaligned, CommandError::Einval),
        (0, 0, 100, Refusal::Unaligned, CommandError::Einval),
        (1 << 9, 0, 512, Refusal::UnknownFlags, CommandError::Einval),
    ];
    for (flags, offset_bytes, length_bytes, refusal, error) in cases {
        assert_eq!(refusal.error(), error);
        let mut stream = request(proto::CMD_WRITE, flags, 7, offset_bytes, length_bytes);
        // The payload looks like requests, which must not be believed.
        let payload = request(proto::CMD_DISC, 0, 0, 0, 0).repeat(length_bytes as usize / 28 + 1);
        stream.extend_from_slice(&payload[..length_bytes as usize]);
        assert_eq!(seen(&stream[..stream.len() - 1]), [], "one byte of payload is missing");
        stream.extend(request(proto::CMD_FLUSH, 0, 8, 0, 0));
        assert!(matches!(seen(&stream)[..], [Seen::Refused(7, got), Seen::Request(_)] if got == refusal));
    }
}

#[test]
fn write_to_a_read_only_export() {
    let read_only = export().with_read_only(true);
    let stream = [
        request(proto::CMD_WRITE, 0, 1, 0, 512),
        vec![0; 512],
        request(proto::CMD_TRIM, 0, 2, 0, 512),
        request(proto::CMD_WRITE_ZEROES, 0, 3, 0, 512),
        request(proto::CMD_READ, 0, 4, 0, 512),
    ]
    .concat();
    let seen = run_transmission(&stream, &[100], &read_only, false);
    assert_eq!(seen[..3], [1, 2, 3].map(|cookie| Seen::Refused(cookie, Refusal::ReadOnly)));
    assert!(matches!(seen[3..], [Seen::Request(Request { cookie: 4, .. })]));
    assert_eq!(Refusal::ReadOnly.error(), CommandError::Eperm);
}

#[test]
fn oversized_write_is_drained() {
    let mut transmission = Transmission::new(&export(), &Negotiated::default());
    for length_bytes in [MAX_PAYLOAD_BYTES + 512, MAX_DRAINED_BYTES] {
        let header = request(proto::CMD_WRITE, 0, 7, 0, length_bytes);
        assert_eq!(transmission.advance(&header), Ok((28, None)));
        assert_eq!(transmission.payload_remaining_bytes(), 0, "nothing for the caller to take");
        let piece = vec![0; 1 << 20];
        let mut left = length_bytes as usize;
        while left > 0 {
            let length = left.min(piece.len());
            let (used, event) = transmission.advance(&piece[..length]).unwrap();
            assert_eq!(used, length);
            left -= length;
            let end = Received::Refused { cookie: 7, refusal: Refusal::TooLong };
            assert_eq!(event, (left == 0).then_some(end));
        }
    }
}

#[test]
fn write_too_large_to_drain_closes() {
    let stream = request(proto::CMD_WRITE, 0, 7, 0, MAX_DRAINED_BYTES + 1);
    assert_eq!(seen(&stream), [Seen::Closed(ErrorKind::PayloadTooLong)]);
}

#[test]
fn wrong_magic_closes() {
    let mut stream = request(proto::CMD_READ, 0, 1, 0, 512);
    stream.extend([0; 28]);
    assert!(matches!(seen(&stream)[..], [Seen::Request(_), Seen::Closed(ErrorKind::BadMagic)]));
}

#[test]
fn half_a_header_waits() {
    let stream = request(proto::CMD_READ, 0, 1, 0, 512);
    for cut in 0..stream.len() {
        assert_eq!(seen(&stream[..cut]), [], "cut at {cut}");
    }
}

#[test]
fn payload_may_be_received_elsewhere() {
    let mut transmission = Transmission::new(&export(), &Negotiated::default());
    let stream = [request(proto::CMD_WRITE, 0, 1, 0, 1024), vec![3; 24]].concat();
    let (used, event) = transmission.advance(&stream).unwrap();
    assert!(used == 28 && matches!(event, Some(Received::WriteStart(_))));
    assert_eq!(transmission.advance(&stream[28..]), Ok((24, Some(Received::WriteData(&[3; 24])))));
    assert_eq!(transmission.payload_remaining_bytes(), 1000);
    transmission.payload_received(400).unwrap();
    assert_eq!(transmission.payload_received(601).unwrap_err().kind(), ErrorKind::Misuse);
    transmission.payload_received(600).unwrap();
    assert_eq!(transmission.payload_remaining_bytes(), 0);
    let flush = request(proto::CMD_FLUSH, 0, 2, 0, 0);
    assert!(matches!(transmission.advance(&flush), Ok((28, Some(Received::Request(_))))));
}

#[test]
fn refusals_are_answered_in_the_negotiated_form() {
    let mut out = Vec::new();
    ReplyEncoder::new(false).refused(&mut out, 7, Refusal::Unaligned);
    assert_eq!(out, [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 22, 0, 0, 0, 0, 0, 0, 0, 7]);
    out.clear();
    ReplyEncoder::new(true).refused(&mut out, 7, Refusal::Unaligned);
    assert!(out.starts_with(&[0x66, 0x8e, 0x33, 0xef, 0, 1, 0x80, 1]));
    assert!(out.ends_with(Refusal::Unaligned.message().as_bytes()));
}
