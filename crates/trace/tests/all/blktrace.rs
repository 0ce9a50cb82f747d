//! Records of blktrace: byte orders, events, who waits, and what is passed over.

use lode_trace::{ErrorKind, OnError, ReadOptions, read_trace};
use lode_types::{RequestOp, TraceRequest};
use proptest::prelude::*;

const RECORD_BYTES: usize = 48;
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
const QUEUED: u32 = 1;
const ISSUED: u32 = 7;
const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const SYNC: u32 = 1 << 19;
const PASSTHROUGH: u32 = 1 << 25;
const NOTIFY: u32 = 1 << 26;
const AHEAD: u32 = 1 << 27;
const DISCARD: u32 = 1 << 29;
const FUA: u32 = 1 << 31;
const MINOR_BITS: u32 = 20;

#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

const QUEUE: u32 = 1 << 20 | QUEUED;
const ISSUE: u32 = 1 << 22 | ISSUED;
const COMPLETE: u32 = 1 << 23 | 8;

/// A record at sector 8, with a payload.
fn record(order: Order, action: u32, bytes: u32, payload: &[u8]) -> Vec<u8> {
    let four = |value: u32| match order {
        Order::Little => value.to_le_bytes().to_vec(),
        Order::Big => value.to_be_bytes().to_vec(),
    };
    let eight = |value: u64| match order {
        Order::Little => value.to_le_bytes().to_vec(),
        Order::Big => value.to_be_bytes().to_vec(),
    };
    let last = match order {
        Order::Little => (payload.len() as u32) << 16 | 5,
        Order::Big => 5 << 16 | payload.len() as u32,
    };
    let device = 8 << MINOR_BITS | 16;
    [four(MAGIC | VERSION), four(1), eight(5_000_000_007), eight(8), four(bytes), four(action)]
        .into_iter()
        .chain([four(77), four(device), four(3), four(last), payload.to_vec()])
        .flatten()
        .collect()
}

fn read(bytes: Vec<u8>, on_error: OnError) -> (Vec<TraceRequest>, Vec<ErrorKind>, Vec<String>, u64) {
    let options = ReadOptions { format: Some("blktrace".to_owned()), on_error, ..ReadOptions::default() };
    let mut reader = read_trace(std::io::Cursor::new(bytes), "t", &options).expect("a start");
    let (mut all, mut batch, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        match reader.next_batch(&mut batch) {
            Ok(0) => break,
            Ok(_) => all.append(&mut batch),
            Err(error) => errors.push(error.kind()),
        }
    }
    errors.extend(reader.skipped().faults.iter().map(|fault| fault.kind));
    (all, errors, reader.volumes().to_vec(), reader.skipped().other_commands)
}

#[test]
fn reads_records_in_either_byte_order() {
    for order in [Order::Little, Order::Big] {
        let records = [
            record(order, NOTIFY | 1, 0, b"process 77"),
            record(order, QUEUE | READ, 8192, b"abc"),
            record(order, ISSUE | READ, 8192, b""),
            record(order, QUEUE | WRITE | FLUSH, 4096, b""),
            record(order, QUEUE | WRITE | DISCARD, 65_536, b""),
            record(order, QUEUE | WRITE | FLUSH, 0, b""),
            record(order, QUEUE | 0x100 | WRITE, 512, &[0; 8]),
            record(order, QUEUE | READ | PASSTHROUGH, 36, b""),
            record(order, COMPLETE | READ, 8192, b""),
        ];
        assert!({
            let first = std::io::Cursor::new(records[0].clone());
            read_trace(first, "t", &ReadOptions::default()).is_ok()
        });
        let (requests, errors, volumes, others) = read(records.concat(), OnError::Stop);
        let expected = [
            (RequestOp::Read, 8192),
            (RequestOp::Write, 4096),
            (RequestOp::Trim, 65_536),
            (RequestOp::Flush, 0),
            (RequestOp::Write, 512),
        ];
        assert_eq!(requests.iter().map(|r| (r.op, r.length_bytes)).collect::<Vec<_>>(), expected);
        assert_eq!((requests[0].time_ns, requests[0].offset_bytes), (5_000_000_007, 4096));
        let waits: Vec<_> = requests.iter().map(|r| (r.origin.process(), r.origin.sync())).collect();
        let expected = [true, true, false, true, false].map(|waits| (Some(77), Some(waits)));
        assert_eq!(waits, expected);
        assert_eq!((errors, volumes, others), (vec![], vec!["8,16".to_owned()], 1));
    }
}

#[test]
fn whether_the_issuer_waits() {
    for (categories, waits) in [
        (READ, true),
        (READ | AHEAD, false),
        (READ | AHEAD | SYNC, true),
        (WRITE, false),
        (WRITE | 1 << 28, false),
        (WRITE | SYNC, true),
        (WRITE | FUA, true),
        (WRITE | DISCARD, false),
    ] {
        let (requests, ..) = read(record(Order::Big, QUEUE | categories, 4096, b""), OnError::Stop);
        assert_eq!(requests[0].origin.sync(), Some(waits), "{categories:x}");
    }
}

#[test]
fn counts_issued_requests_when_none_is_queued() {
    let issued = record(Order::Little, ISSUE | READ, 4096, b"");
    let complete = record(Order::Little, COMPLETE | READ, 4096, b"");
    let (requests, ..) = read([&issued[..], &complete, &issued].concat(), OnError::Stop);
    assert_eq!(requests.len(), 2);
}

#[test]
fn faults_and_the_next_good_record() {
    let good = record(Order::Little, QUEUE | READ, 4096, b"xy");
    let cut = &good[..RECORD_BYTES + 1];
    let mut version = good.clone();
    version[0] = 8;
    let mut no_magic = good.clone();
    no_magic[3] = 0;
    for (bad, kind, skipped) in [
        (record(Order::Little, QUEUE | READ, 0, b""), ErrorKind::ZeroLength, 2),
        (record(Order::Little, QUEUE, 512, b""), ErrorKind::Malformed, 2),
        (no_magic, ErrorKind::Malformed, 2),
        (version.clone(), ErrorKind::Malformed, 2),
    ] {
        let bytes = [&good[..], &bad, &good].concat();
        let (requests, errors, ..) = read(bytes.clone(), OnError::Stop);
        assert_eq!((requests.len(), errors), (1, vec![kind]));
        let (requests, errors, ..) = read(bytes, OnError::Skip);
        assert_eq!((requests.len(), errors), (skipped, vec![kind]));
    }
    let (requests, errors, ..) = read([version, good.clone()].concat(), OnError::Skip);
    assert_eq!((requests.len(), errors), (0, vec![ErrorKind::Version]));
    let (requests, errors, ..) = read([&good[..], cut].concat(), OnError::Skip);
    assert_eq!((requests.len(), errors), (1, vec![ErrorKind::Truncated]));
}

proptest! {
    #[test]
    fn a_gap_of_any_bytes_is_passed_over(gap in proptest::collection::vec(any::<u8>(), 1..300)) {
        let good = record(Order::Big, QUEUE | READ, 4096, b"");
        prop_assume!(memchr::memmem::find(&gap, &(MAGIC | VERSION).to_be_bytes()[..3]).is_none());
        let (requests, errors, ..) = read([&good[..], &gap, &good].concat(), OnError::Skip);
        prop_assert_eq!((requests.len(), errors), (2, vec![ErrorKind::Malformed]));
    }
}
