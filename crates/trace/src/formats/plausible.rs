//! Whether the requests that a format makes of a trace can be those of a disk. Formats of one shape count differently, and a
//! wrong one of them gives requests of hundreds of KiB each, at places beyond any disk or faster than any disk. It must not
//! know single formats.

use std::io::Cursor;
use std::path::PathBuf;

use lode_types::{RequestOp, TraceRequest};

use super::{DetectedFormat, Format};
use crate::feed::Feed;
use crate::input::Input;
use crate::reader::OnError;

/// From this size on requests are not plausible when half of them have it: block layers cut requests at it or below, and
/// a single sector whose bytes are taken for sectors has it.
const LARGE_BYTES: u32 = 256 << 10;
/// Disks end before this.
const MAX_DISK_BYTES: u64 = 1 << 50;
/// Requests from which on their rate says something.
const RATED_REQUESTS: usize = 64;
/// No trace has more requests in a second.
const MAX_REQUESTS_PER_S: f64 = 50e6;

/// The size that half of the reads and writes have at least, if that is implausibly large.
pub(crate) fn usual_size_if_large(requests: &[TraceRequest]) -> Option<u32> {
    let mut sizes: Vec<u32> = requests
        .iter()
        .filter(|request| matches!(request.op, RequestOp::Read | RequestOp::Write))
        .map(|request| request.length_bytes)
        .collect();
    let middle = sizes.len() / 2;
    if sizes.is_empty() {
        return None;
    }
    let usual = *sizes.select_nth_unstable(middle).1;
    (usual >= LARGE_BYTES).then_some(usual)
}

/// The only one of `claimed` that makes plausible requests of the trace that starts with `head`.
pub(super) fn only_one(claimed: &[&'static Format], head: &[u8]) -> Option<DetectedFormat> {
    let mut plausible = claimed.iter().copied().filter(|format| is_plausible(&first_requests(format, head)));
    let format = plausible.next().filter(|_| plausible.next().is_none())?;
    let others = claimed.iter().map(|other| other.name).filter(|name| *name != format.name);
    Some(DetectedFormat { format, also_fits: others.collect() })
}

fn is_plausible(requests: &[TraceRequest]) -> bool {
    let is_on_a_disk = |request: &TraceRequest| request.end_bytes().is_some_and(|end| end <= MAX_DISK_BYTES);
    !requests.is_empty()
        && usual_size_if_large(requests).is_none()
        && requests.iter().all(is_on_a_disk)
        && !is_too_fast(requests)
}

/// Whether there are more requests in the time between them than any host has. All at one time say nothing.
fn is_too_fast(requests: &[TraceRequest]) -> bool {
    let times = || requests.iter().map(|request| request.time_ns);
    let span_ns = times().max().unwrap_or(0) - times().min().unwrap_or(0);
    requests.len() >= RATED_REQUESTS
        && span_ns > 0
        && requests.len() as f64 / (span_ns as f64 / 1e9) > MAX_REQUESTS_PER_S
}

/// What a format makes of the whole lines of `head`, as far as its first batch goes.
fn first_requests(format: &Format, head: &[u8]) -> Vec<TraceRequest> {
    let whole = memchr::memrchr(b'\n', head).map_or(head, |end| &head[..=end]);
    let input = Input::new(Box::new(Cursor::new(whole.to_vec())));
    let mut feed = Feed::new(input, PathBuf::new(), String::new(), false, OnError::Skip);
    let mut requests = Vec::new();
    // A format that cannot even read it makes nothing of it.
    match (format.decoder)(whole).decode(&mut feed, &mut requests) {
        Ok(_) => requests,
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use lode_types::Origin;

    use super::*;

    fn requests(count: u64, apart_ns: u64, length_bytes: u32) -> Vec<TraceRequest> {
        let one = |at| TraceRequest {
            time_ns: at * apart_ns,
            offset_bytes: 0,
            length_bytes,
            volume: 0,
            op: RequestOp::Read,
            origin: Origin::UNKNOWN,
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn sizes_places_and_rates() {
        for (count, apart_ns, length_bytes, expected) in [
            (100, 1000, 4096, true),
            (100, 1000, (256 << 10) - 1, true),
            (100, 1000, 256 << 10, false),
            (64, 1, 4096, false),
            (63, 1, 4096, true),
            (100, 0, 4096, true),
            (0, 0, 0, false),
        ] {
            let made = requests(count, apart_ns, length_bytes);
            assert_eq!(is_plausible(&made), expected, "{count} {apart_ns} {length_bytes}");
        }
        let mut far = requests(1, 0, 512);
        far[0].offset_bytes = 1 << 50;
        assert!(!is_plausible(&far));
    }

    #[test]
    fn flushes_have_no_size() {
        let mut some = requests(9, 0, 512 << 10);
        assert_eq!(usual_size_if_large(&some), Some(512 << 10));
        some.iter_mut().for_each(|request| request.op = RequestOp::Flush);
        assert_eq!(usual_size_if_large(&some), None);
    }
}
