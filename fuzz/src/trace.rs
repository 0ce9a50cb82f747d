//! What must hold when the trace readers are given any bytes. The fuzz targets run it on inputs that the fuzzer
//! finds, and the crate's tests on every file of the corpus. It must not know single formats.

use std::io::Cursor;

use lode_trace::{ErrorKind, OnError, ReadOptions, Reader, TraceError, read_trace};
use lode_types::{RequestOp, TraceRequest};

/// Requests that a byte of a trace may become at most: a block of the compact format holds up to 4,096.
const MAX_REQUESTS_PER_BYTE: usize = 128;

/// What reading gave with [`OnError::Stop`].
pub struct Outcome {
    /// The requests before the first error.
    pub requests: Vec<TraceRequest>,
    /// The error, if there was one.
    pub error: Option<ErrorKind>,
}

/// Reads `data` as a trace of `format`, stopping at bad records and passing over them, and as a trace of the format that
/// it looks like.
///
/// # Panics
/// When something does not hold.
pub fn check(format: &str, data: &[u8]) -> Outcome {
    let named = |on_error| ReadOptions { format: Some(format.to_owned()), on_error, unit_bytes: None };
    let (stopped, error) = read(data, &named(OnError::Stop));
    let (skipped, _) = read(data, &named(OnError::Skip));
    assert!(skipped.starts_with(&stopped), "passing over bad records changed the requests before them");
    read(data, &ReadOptions::default());
    Outcome { requests: stopped, error: error.map(|error| error.kind()) }
}

fn read(data: &[u8], options: &ReadOptions) -> (Vec<TraceRequest>, Option<TraceError>) {
    // Decompression has tests of its own, and a small input may be a large trace.
    if is_compressed(data) {
        return (Vec::new(), None);
    }
    let mut reader = match read_trace(Cursor::new(data.to_vec()), "fuzz", options) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    let error = loop {
        match reader.next_batch(&mut batch) {
            Ok(0) => break None,
            Ok(_) => {
                batch.iter().for_each(|request| check_request(request, &reader));
                all.append(&mut batch);
                assert!(all.len() <= data.len() * MAX_REQUESTS_PER_BYTE, "too many requests");
            }
            Err(error) => break Some(error),
        }
    };
    assert!(matches!(reader.next_batch(&mut batch), Ok(0)), "it goes on after its end");
    let places =
        reader.skipped().faults.iter().flat_map(|fault| fault.first.iter().map(|(place, _)| place.byte));
    let place = error.as_ref().and_then(|error| error.position()).map(|place| place.byte);
    assert!(places.chain(place).all(|byte| byte <= data.len() as u64), "a place beyond the end");
    (all, error)
}

fn check_request(request: &TraceRequest, reader: &Reader) {
    assert!((request.volume as usize) < reader.volumes().len(), "a volume without a name");
    assert!(request.end_bytes().is_some(), "a request beyond 2^64 bytes");
    assert!(request.length_bytes > 0 || request.op == RequestOp::Flush, "a request of no bytes");
}

/// Gzip, xz or zstd, by their magic bytes.
fn is_compressed(data: &[u8]) -> bool {
    data.starts_with(&[0x1f, 0x8b])
        || data.starts_with(&[0xfd, b'7', b'z'])
        || data.get(1..4).is_some_and(|magic| magic == [0xb5, 0x2f, 0xfd] || magic == [0x2a, 0x4d, 0x18])
}
