//! What must hold when an NBD server sends any bytes to the client's side.
//!
//! Streams are fed whole and byte by byte, as those of [`crate::nbd`], and both must come to the same.

use std::collections::HashMap;

use lode_nbd::{Command, CommandFlags, ExportInfo, MAX_PAYLOAD_BYTES, Request};
use lode_nbd_client::{
    ClientEvent, ClientHandshake, ClientProgress, ClientTransmission, Error, MAX_LISTED_EXPORTS, RemoteExport,
};

const SIZE_BYTES: u64 = 1 << 20;
const LENGTH_BYTES: u32 = 1024;
const OFFSET_BYTES: u64 = 512;

/// Feeds a handshake with slices of at most `most` bytes until it ends or the input does.
fn run_handshake(
    mut client: ClientHandshake,
    data: &[u8],
    most: usize,
) -> (Vec<u8>, Result<ClientProgress, Error>) {
    let (mut out, mut rest) = (Vec::new(), data);
    loop {
        let slice = &rest[..rest.len().min(most)];
        match client.advance(slice, &mut out) {
            Ok((consumed, ClientProgress::NeedMore)) => {
                assert_eq!(consumed, slice.len(), "input is left");
                rest = &rest[consumed..];
                if rest.is_empty() {
                    return (out, Ok(ClientProgress::NeedMore));
                }
            }
            Ok((_, end)) => return (out, Ok(end)),
            Err(error) => {
                assert_eq!(client.advance(slice, &mut out), Err(error.clone()), "it goes on");
                return (out, Err(error));
            }
        }
    }
}

/// A server's half of the handshake: of the start of a session, or if the first byte is odd, of a list of exports. Says
/// whether it came to its end.
pub fn check_handshake(data: &[u8]) -> bool {
    let Some((&first, data)) = data.split_first() else { return false };
    let client = || match first & 1 {
        0 => ClientHandshake::go("vm1", true).expect("a good name"),
        _ => ClientHandshake::list(),
    };
    let (sent, progress) = run_handshake(client(), data, usize::MAX);
    assert_eq!(run_handshake(client(), data, 1), (sent, progress.clone()), "slicing changes what is sent");
    match progress {
        Ok(ClientProgress::Done(remote)) => {
            assert!(
                remote.min_block_bytes.is_power_of_two() && remote.preferred_block_bytes.is_power_of_two()
            );
            assert!(remote.max_payload_bytes >= remote.min_block_bytes);
            true
        }
        Ok(ClientProgress::Listed(exports)) => {
            assert!(exports.len() <= MAX_LISTED_EXPORTS);
            true
        }
        Ok(ClientProgress::NeedMore) | Err(_) => false,
    }
}

/// What a server answered, data joined.
#[derive(Debug, PartialEq)]
enum Seen {
    Data { cookie: u64, offset_bytes: u64, bytes: Vec<u8> },
    Zeroes { cookie: u64, offset_bytes: u64, length_bytes: u32 },
    Ended { cookie: u64, is_done: bool },
    Closed(Error),
}

/// A session with four requests in flight: reads 0 and 1, trim 2 and write 3.
fn session(structured: bool) -> ClientTransmission {
    let export = ExportInfo::new("vm1", SIZE_BYTES).expect("a good export");
    let mut client = ClientTransmission::new(&RemoteExport {
        size_bytes: SIZE_BYTES,
        transmission_flags: export.transmission_flags(structured),
        structured,
        min_block_bytes: 512,
        preferred_block_bytes: 4096,
        max_payload_bytes: MAX_PAYLOAD_BYTES,
        name: None,
        description: None,
    });
    for (cookie, command) in (0..).zip([Command::Read, Command::Read, Command::Trim, Command::Write]) {
        let (offset_bytes, length_bytes, flags) = (OFFSET_BYTES, LENGTH_BYTES, CommandFlags::NONE);
        let request = Request { cookie, offset_bytes, length_bytes, command, flags };
        client.submit(&request, &mut Vec::new()).expect("a good request");
    }
    client
}

fn run_replies(structured: bool, data: &[u8], most: usize) -> Vec<Seen> {
    let mut client = session(structured);
    let (mut seen, mut rest) = (Vec::new(), data);
    loop {
        let slice = &rest[..rest.len().min(most)];
        let (consumed, event) = match client.advance(slice) {
            Ok(found) => found,
            Err(error) => {
                assert_eq!(client.advance(slice), Err(error.clone()), "it goes on");
                seen.push(Seen::Closed(error));
                return seen;
            }
        };
        rest = &rest[consumed..];
        match event {
            Some(ClientEvent::ReadData { cookie, offset_bytes, bytes }) => {
                add_data(&mut seen, cookie, offset_bytes, bytes);
            }
            Some(ClientEvent::ReadZeroes { cookie, offset_bytes, length_bytes }) => {
                seen.push(Seen::Zeroes { cookie, offset_bytes, length_bytes });
            }
            Some(ClientEvent::Done { cookie }) => seen.push(Seen::Ended { cookie, is_done: true }),
            Some(ClientEvent::Failed { cookie, .. }) => seen.push(Seen::Ended { cookie, is_done: false }),
            None if rest.is_empty() => return seen,
            None => assert_eq!(consumed, slice.len(), "input is left"),
        }
    }
}

fn add_data(seen: &mut Vec<Seen>, cookie: u64, offset_bytes: u64, new: &[u8]) {
    assert!(!new.is_empty());
    match seen.last_mut() {
        Some(Seen::Data { cookie: last, offset_bytes: at, bytes })
            if *last == cookie && *at + bytes.len() as u64 == offset_bytes =>
        {
            bytes.extend_from_slice(new);
        }
        _ => seen.push(Seen::Data { cookie, offset_bytes, bytes: new.to_vec() }),
    }
}

/// Every byte of a read that is done was there once, and no byte was beyond a read.
fn check_reads(seen: &[Seen]) {
    let mut given: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
    let mut give = |cookie: u64, offset_bytes: u64, length_bytes: u64| {
        let end = offset_bytes + length_bytes;
        assert!(cookie < 2 && offset_bytes >= OFFSET_BYTES && end <= OFFSET_BYTES + u64::from(LENGTH_BYTES));
        given.entry(cookie).or_default().push((offset_bytes, length_bytes));
    };
    for one in seen {
        match one {
            Seen::Data { cookie, offset_bytes, bytes } => give(*cookie, *offset_bytes, bytes.len() as u64),
            Seen::Zeroes { cookie, offset_bytes, length_bytes } => {
                give(*cookie, *offset_bytes, u64::from(*length_bytes));
            }
            Seen::Ended { .. } | Seen::Closed(_) => {}
        }
    }
    let mut ended = Vec::new();
    for one in seen {
        let Seen::Ended { cookie, is_done } = one else { continue };
        assert!(*cookie < 4 && !ended.contains(cookie), "an answer to nothing");
        ended.push(*cookie);
        if *cookie < 2 && *is_done {
            let mut pieces = given.remove(cookie).unwrap_or_default();
            pieces.sort_unstable();
            let mut next = OFFSET_BYTES;
            for (offset_bytes, length_bytes) in pieces {
                assert_eq!(offset_bytes, next, "bytes that came twice or not at all");
                next += length_bytes;
            }
            assert_eq!(next, OFFSET_BYTES + u64::from(LENGTH_BYTES));
        }
    }
}

/// Replies to four requests; the lowest bit of the first byte says whether they are structured. Says whether all four
/// were done and the connection stayed in order.
pub fn check_replies(data: &[u8]) -> bool {
    let Some((&first, data)) = data.split_first() else { return false };
    let structured = first & 1 != 0;
    let seen = run_replies(structured, data, usize::MAX);
    assert_eq!(run_replies(structured, data, 1), seen, "slicing changes what is seen");
    check_reads(&seen);
    seen.iter().filter(|one| matches!(one, Seen::Ended { is_done: true, .. })).count() == 4
        && !matches!(seen.last(), Some(Seen::Closed(_)))
}
