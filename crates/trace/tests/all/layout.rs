//! The compact format by the letter of its layout: files put together byte by byte, and columns read half byte by half byte.

use std::sync::LazyLock;

use lode_trace::{ErrorKind, OnError};
use lode_types::{Origin, RequestOp, TraceRequest};
use proptest::prelude::*;

use crate::samples::{drain, lode, open};

const HEADER_BYTES: usize = 32;
const COLUMNS_BYTES: usize = 40;

/// Kinds of blocks.
const NAMES: u16 = 1;
const REQUESTS: u16 = 2;
const END: u16 = 3;

const READ: TraceRequest = TraceRequest {
    time_ns: 5,
    offset_bytes: 4096,
    length_bytes: 512,
    volume: 0,
    op: RequestOp::Read,
    origin: Origin::UNKNOWN,
};

/// A header of these integers, from their places on, with its own checksum.
fn sealed(start: &[u8], fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut header = vec![0; HEADER_BYTES];
    for &(at, bytes) in [(0, start)].iter().chain(fields) {
        header[at..at + bytes.len()].copy_from_slice(bytes);
    }
    let crc = crc32c::crc32c(&header[..28]);
    header[28..].copy_from_slice(&crc.to_le_bytes());
    header
}

fn file_header(version: u16) -> Vec<u8> {
    sealed(b"\x89LODE\r\n\x1a", &[(8, &version.to_le_bytes()), (10, &[HEADER_BYTES as u8])])
}

fn block(kind: u16, items: u32, base: u64, payload: &[u8]) -> Vec<u8> {
    let bytes = payload.len() as u32;
    let mut block = sealed(
        b"LBLK",
        &[
            (4, &kind.to_le_bytes()),
            (8, &bytes.to_le_bytes()),
            (12, &items.to_le_bytes()),
            (16, &base.to_le_bytes()),
            (24, &crc32c::crc32c(payload).to_le_bytes()),
        ],
    );
    block.extend_from_slice(payload);
    block
}

fn file(blocks: &[Vec<u8>]) -> Vec<u8> {
    [file_header(4), blocks.concat()].concat()
}

/// Columns as wide as they can be, whose fields are the values themselves, without origins.
fn payload(requests: &[TraceRequest]) -> Vec<u8> {
    let mut bytes = vec![0; COLUMNS_BYTES];
    bytes[22] = 4;
    bytes[24..28].copy_from_slice(&[16, 16, 8, 4]);
    [28, 32, 36].into_iter().for_each(|at| bytes[at] = 1);
    let steps = requests.windows(2).map(|pair| pair[1].time_ns.wrapping_sub(pair[0].time_ns)).chain([0]);
    bytes.extend(steps.flat_map(u64::to_le_bytes));
    bytes.extend(requests.iter().flat_map(|request| request.offset_bytes.to_le_bytes()));
    bytes.extend(requests.iter().flat_map(|request| request.length_bytes.to_le_bytes()));
    bytes.extend(requests.iter().flat_map(|request| (request.volume as u16).to_le_bytes()));
    let ops = |four: &[TraceRequest]| four.iter().rev().fold(0, |byte, one| byte << 2 | one.op as u8);
    bytes.extend(requests.chunks(4).map(ops));
    bytes
}

/// A block of two requests, of which the second is the first but for its time.
fn requests(first: &TraceRequest) -> Vec<u8> {
    let second = TraceRequest { time_ns: first.time_ns + 1, ..*first };
    block(REQUESTS, 2, first.time_ns, &payload(&[*first, second]))
}

/// The same block of good requests with these bytes of its payload changed.
fn changed(changes: &[(usize, u8)]) -> Vec<u8> {
    let mut payload = payload(&[READ, TraceRequest { time_ns: 6, ..READ }]);
    changes.iter().for_each(|&(at, byte)| payload[at] = byte);
    block(REQUESTS, 2, 5, &payload)
}

/// Requests read, and the kind and position of the error.
fn outcome(bytes: Vec<u8>, on_error: OnError) -> (usize, Option<(ErrorKind, u64)>) {
    let mut reader = open(bytes, "x.lode", on_error).expect("it is in the format");
    let (read, error) = drain(&mut reader);
    let fault = match error {
        Some(error) => Some((error.kind(), error.position().map_or(0, |place| place.byte))),
        None => reader.skipped().faults.first().map(|fault| (fault.kind, fault.first[0].0.byte)),
    };
    (read.len(), fault)
}

#[test]
fn refuses_well_sealed_nonsense() {
    let names = block(NAMES, 1, 0, b"\x01\0a");
    let good = requests(&READ);
    let end = |count| block(END, 0, count, b"");
    let after_names = 32 + names.len() as u64;
    let after_good = after_names + good.len() as u64;
    for (blocks, requests_read, expected) in [
        (vec![names.clone(), good.clone(), end(2)], 2, None),
        (vec![end(0)], 0, None),
        (vec![names.clone(), good.clone()], 2, Some((ErrorKind::Truncated, after_good))),
        (vec![names.clone(), good.clone(), end(3)], 2, Some((ErrorKind::Malformed, after_good))),
        (vec![end(0), good.clone()], 0, Some((ErrorKind::Malformed, 64))),
        (vec![good.clone(), end(2)], 0, Some((ErrorKind::Malformed, 64))),
        (vec![names.clone(), names.clone(), end(0)], 0, Some((ErrorKind::Malformed, after_names))),
        (vec![block(NAMES, 2, 0, b"\x01\0a\x01\0a")], 0, Some((ErrorKind::VolumeName, 32))),
        (vec![block(NAMES, 1, 0, b"\x02\0a")], 0, Some((ErrorKind::Malformed, 32))),
        (vec![block(NAMES, 1, 0, b"\x01\0ab")], 0, Some((ErrorKind::Malformed, 32))),
        (vec![block(NAMES, 1, 0, b"\x01\0\n")], 0, Some((ErrorKind::VolumeName, 32))),
    ] {
        assert_eq!(outcome(file(&blocks), OnError::Stop), (requests_read, expected));
    }
}

#[test]
fn refuses_well_sealed_requests_that_cannot_be() {
    let names = block(NAMES, 1, 0, b"\x01\0a");
    let two = payload(&[READ, TraceRequest { time_ns: 6, ..READ }]);
    let sealed = |items, payload: &[u8]| block(REQUESTS, items, 5, payload);
    let far = TraceRequest { offset_bytes: u64::MAX - 512, ..READ };
    let mut cases = vec![
        (requests(&TraceRequest { length_bytes: 0, ..READ }), 0, ErrorKind::ZeroLength),
        (sealed(2, &payload(&[READ, TraceRequest { length_bytes: 0, ..READ }])), 1, ErrorKind::ZeroLength),
        (requests(&TraceRequest { offset_bytes: u64::MAX - 3, ..READ }), 0, ErrorKind::OutOfRange),
        (sealed(2, &payload(&[far, TraceRequest { length_bytes: 513, ..far }])), 1, ErrorKind::OutOfRange),
        (requests(&TraceRequest { volume: 1, ..READ }), 0, ErrorKind::Malformed),
        (sealed(2, &payload(&[READ, TraceRequest { volume: 1, ..READ }])), 1, ErrorKind::Malformed),
        (sealed(2, &[&two[..], &[0]].concat()), 0, ErrorKind::Malformed),
        (sealed(4097, &payload(&[READ; 4097])), 0, ErrorKind::Malformed),
        (sealed(u32::MAX, &two), 0, ErrorKind::Malformed),
    ];
    cases.extend((0..two.len()).map(|len| (sealed(2, &two[..len]), 0, ErrorKind::Malformed)));
    // The op; half bytes of origins; half bytes of steps, offsets, lengths, volumes; unit of steps, offsets, lengths.
    for (at, byte) in
        [(22, 5), (23, 1), (23, 9), (24, 1), (24, 17), (25, 17), (26, 9), (27, 5), (28, 0), (32, 0), (36, 0)]
    {
        cases.push((changed(&[(at, byte)]), 0, ErrorKind::Malformed));
    }
    for (bytes, requests_read, kind) in cases {
        let at = (32 + names.len() + 32) as u64;
        let alone = file(&[names.clone(), bytes.clone()]);
        assert_eq!(outcome(alone, OnError::Stop), (requests_read, Some((kind, at))));
        let followed = file(&[names.clone(), bytes, requests(&READ), block(END, 0, 9, b"")]);
        assert_eq!(outcome(followed, OnError::Skip), (requests_read + 2, Some((kind, at))));
    }
}

#[test]
fn passes_over_a_damaged_block_when_asked() {
    let names = block(NAMES, 1, 0, b"\x01\0a");
    let good = requests(&READ);
    let mut bad = good.clone();
    bad[40] ^= 1;
    let bytes = file(&[names.clone(), good.clone(), bad.clone(), good.clone(), block(END, 0, 6, b"")]);
    let at = (32 + names.len() + good.len()) as u64;
    assert_eq!(outcome(bytes.clone(), OnError::Skip), (4, Some((ErrorKind::Checksum, at))));
    assert_eq!(outcome(bytes, OnError::Stop), (2, Some((ErrorKind::Checksum, at))));
    let mut bad_names = names;
    bad_names[33] ^= 1;
    assert_eq!(outcome(file(&[bad_names, good]), OnError::Skip), (0, Some((ErrorKind::Checksum, 32))));
}

#[test]
fn refuses_other_versions() {
    for version in [1, 2, 5] {
        let header = file_header(version);
        assert_eq!(outcome(header.clone(), OnError::Skip), (0, Some((ErrorKind::Version, 0))));
        let (_, error) = drain(&mut open(header, "x.lode", OnError::Stop).expect("it is in the format"));
        assert!(error.is_some_and(|error| error.to_string().contains("lode trace convert")));
    }
    let mut header = file_header(4);
    header[28] ^= 1;
    assert_eq!(outcome(header, OnError::Stop), (0, Some((ErrorKind::Checksum, 0))));
}

/// A whole number of `half_bytes` half bytes from the one at `at` on, the low half of a byte first.
fn number(bytes: &[u8], at: usize, half_bytes: usize) -> u128 {
    let half = |at: usize| u128::from(bytes[at / 2] >> (4 * (at % 2)) & 0xf);
    (at..at + half_bytes).rev().fold(0, |value, at| value << 4 | half(at))
}

/// The planes of a column of so many half bytes.
fn planes(half_bytes: usize) -> impl Iterator<Item = usize> {
    [16, 8, 4, 2, 1].into_iter().filter(move |plane| half_bytes & plane != 0)
}

/// The requests before the first bad one, and whether there is one.
fn unpack_slowly(payload: &[u8], base_ns: u64, count: usize, volumes: u32) -> (Vec<TraceRequest>, bool) {
    // Half bytes of each column, least value and unit.
    let columns = [
        (number(payload, 48, 2), number(payload, 0, 16), number(payload, 56, 8)),
        (number(payload, 50, 2), number(payload, 16, 16), number(payload, 64, 8)),
        (number(payload, 52, 2), number(payload, 32, 8), number(payload, 72, 8)),
        (number(payload, 54, 2), number(payload, 40, 4), 1),
        (number(payload, 46, 2), 0, 1),
    ];
    let mut rest = &payload[COLUMNS_BYTES..];
    let values = columns.map(|(half_bytes, least, unit)| {
        let mut fields = vec![0; count];
        let mut below = 0;
        for plane in planes(half_bytes as usize) {
            let part = |index: usize| number(rest, index * plane, plane) << below;
            fields.iter_mut().enumerate().for_each(|(index, field)| *field += part(index));
            below += 4 * plane;
            rest = &rest[(count * plane).div_ceil(2)..];
        }
        fields.into_iter().map(|field| least + field * unit).collect::<Vec<_>>()
    });
    let mut time_ns = base_ns;
    let mut requests = Vec::new();
    for index in 0..count {
        let [step, offset, length, volume, origin] = values.each_ref().map(|values| values[index]);
        let code = if payload[22] < 4 { payload[22] } else { rest[index / 4] >> (2 * (index % 4)) & 3 };
        let op = [RequestOp::Read, RequestOp::Write, RequestOp::Trim, RequestOp::Flush][usize::from(code)];
        let good = length < 1 << 32
            && volume < u128::from(volumes)
            && offset + length < 1 << 64
            && (length > 0 || op == RequestOp::Flush)
            && origin & 3 != 3
            && origin >> 2 & 3 != 3;
        if !good {
            return (requests, true);
        }
        let (offset_bytes, length_bytes, volume) = (offset as u64, length as u32, volume as u32);
        let origin = Origin::from_code(origin as u32).expect("good flags");
        requests.push(TraceRequest { time_ns, offset_bytes, length_bytes, volume, op, origin });
        time_ns = time_ns.wrapping_add(step as u64);
    }
    (requests, false)
}

/// The columns' description, in which none need be as narrow as it could be.
fn any_columns() -> impl Strategy<Value = [u8; COLUMNS_BYTES]> {
    let least = || prop_oneof![Just(0), any::<u64>()];
    let unit = || prop_oneof![Just(1), Just(512), 1..=u32::MAX];
    // Most traces have no origins, and most origins at random are bad.
    let origin = prop_oneof![3 => Just(0), 1 => 0u8..=8];
    let op = prop_oneof![Just(4), 0u8..4];
    let widths = (0u8..=16, 0u8..=16, 0u8..=8, 0u8..=4);
    (op, origin, widths, [least(), least(), least(), least()], [unit(), unit(), unit()]).prop_map(
        |(op, origin, (step, offset, length, volume), least, unit)| {
            let bytes = [
                &least[0].to_le_bytes()[..],
                &least[1].to_le_bytes(),
                &(least[2] as u32).to_le_bytes(),
                &(least[3] as u16).to_le_bytes(),
                &[op, origin, step, offset, length, volume],
                &unit.map(u32::to_le_bytes).concat(),
            ];
            bytes.concat().try_into().expect("40 bytes")
        },
    )
}

/// As many names as there can be.
static VOLUMES: LazyLock<Vec<String>> = LazyLock::new(|| (0..1 << 16).map(|i| i.to_string()).collect());

/// A file of the first `volumes` names and one block of requests, with these bytes as its payload.
fn file_of(payload: &[u8], base_ns: u64, count: usize, volumes: usize) -> Vec<u8> {
    let mut blocks = Vec::new();
    for (names, first) in VOLUMES[..volumes].chunks(4096).zip((0..).step_by(4096)) {
        let bytes = names.iter().flat_map(|name| [&[name.len() as u8, 0][..], name.as_bytes()].concat());
        blocks.push(block(NAMES, names.len() as u32, first, &bytes.collect::<Vec<u8>>()));
    }
    blocks.push(block(REQUESTS, count as u32, base_ns, payload));
    blocks.push(block(END, 0, count as u64, b""));
    file(&blocks)
}

/// Count, base and payload of the blocks of requests in a file.
fn blocks_of_requests(bytes: &[u8]) -> Vec<(usize, u64, &[u8])> {
    let mut rest = &bytes[HEADER_BYTES..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let payload_bytes = number(rest, 16, 8) as usize;
        if number(rest, 8, 4) == REQUESTS.into() {
            let payload = &rest[HEADER_BYTES..HEADER_BYTES + payload_bytes];
            found.push((number(rest, 24, 8) as usize, number(rest, 32, 16) as u64, payload));
        }
        rest = &rest[HEADER_BYTES + payload_bytes..];
    }
    found
}

/// The first block of requests in a file of these.
fn written(requests: &[TraceRequest]) -> Vec<u8> {
    blocks_of_requests(&lode(&VOLUMES, requests))[0].2.to_vec()
}

#[test]
fn columns_are_as_wide_as_their_values() {
    let low = TraceRequest { time_ns: 0, offset_bytes: 0, op: RequestOp::Flush, length_bytes: 0, ..READ };
    let high = TraceRequest {
        time_ns: u64::MAX / 2,
        offset_bytes: u64::MAX - u64::from(u32::MAX),
        length_bytes: u32::MAX,
        volume: u16::MAX.into(),
        origin: Origin::UNKNOWN.with_process(Origin::MAX_PROCESS).expect("the largest"),
        ..READ
    };
    let one = TraceRequest { time_ns: 1, offset_bytes: 1, length_bytes: 1, volume: 1, ..READ };
    assert_eq!(written(&[low, high, low, one]).len(), COLUMNS_BYTES + 4 * (8 + 8 + 4 + 2 + 4) + 1);
    // A constant rate takes nothing, and neither does standing still.
    assert_eq!(written(&[READ; 3]).len(), COLUMNS_BYTES);
    let steady: Vec<_> = (0..100).map(|i| TraceRequest { time_ns: 7 + 1000 * i, ..READ }).collect();
    assert_eq!(written(&steady).len(), COLUMNS_BYTES);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn reading_matches_the_layout_half_byte_by_half_byte(
        columns in any_columns(),
        count in prop_oneof![4 => 1usize..40, 1 => 255usize..520],
        base_ns: u64,
        volumes in prop_oneof![5 => 1usize..5, 1 => Just(1usize << 16)],
        noise in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 1..500),
    ) {
        let widths = [23, 24, 25, 26, 27].map(|at| usize::from(columns[at]));
        let of_planes: usize = widths.into_iter().flat_map(planes).map(|plane| (count * plane).div_ceil(2)).sum();
        let of_ops = if columns[22] == 4 { count.div_ceil(4) } else { 0 };
        let mut payload = columns.to_vec();
        payload.extend(noise.iter().cycle().take(of_planes + of_ops));
        let mut reader = open(file_of(&payload, base_ns, count, volumes), "x.lode", OnError::Stop).expect("the format");
        let (read, error) = drain(&mut reader);
        let (expected, bad) = unpack_slowly(&payload, base_ns, count, volumes as u32);
        prop_assert_eq!(error.is_some(), bad);
        prop_assert_eq!(&read, &expected);
        // What is written of them is read in the same way.
        let mut again = Vec::new();
        for (count, base_ns, payload) in blocks_of_requests(&lode(&VOLUMES[..volumes], &read)) {
            let (requests, bad) = unpack_slowly(payload, base_ns, count, volumes as u32);
            prop_assert!(!bad);
            again.extend(requests);
        }
        prop_assert_eq!(again, read);
    }

    #[test]
    fn any_columns_are_survived(
        payload in proptest::collection::vec(any::<u8>(), 0..200),
        widths in proptest::array::uniform4(0u8..18),
        base_ns: u64,
        count in 0usize..5000,
    ) {
        let mut payload = payload;
        // Else hardly any are columns that there are.
        if let Some(bytes) = payload.get_mut(22..28) {
            bytes[..2].copy_from_slice(&[4, 0]);
            bytes[2..].copy_from_slice(&widths);
        }
        let (read, _) = outcome(file_of(&payload, base_ns, count, 3), OnError::Skip);
        prop_assert!(read <= count);
    }
}
