//! Text of which each line is a request, or none, whatever stands around it: a decoder and a detection out of what reads a
//! line. It must not know single formats.

use lode_types::TraceRequest;

use super::{Decoder, head_lines};
use crate::error::{Fault, TraceError};
use crate::feed::{Feed, More, Parsed};
use crate::volumes::VolumeTable;

struct Lines<P> {
    parse: P,
}

impl<P> Decoder for Lines<P>
where
    P: FnMut(&[u8], &mut VolumeTable) -> Result<Parsed, Fault> + Send,
{
    fn decode(&mut self, feed: &mut Feed, out: &mut Vec<TraceRequest>) -> Result<More, TraceError> {
        feed.lines(out, &mut self.parse)
    }
}

/// A decoder that gives each line, without its end, to `parse`.
pub(super) fn decoder<P>(parse: P) -> Box<dyn Decoder>
where
    P: FnMut(&[u8], &mut VolumeTable) -> Result<Parsed, Fault> + Send + 'static,
{
    Box::new(Lines { parse })
}

struct LinesOfOne<P> {
    parse: P,
}

impl<P> Decoder for LinesOfOne<P>
where
    P: FnMut(&[u8], u64, u32) -> Result<Parsed, Fault> + Send,
{
    fn decode(&mut self, feed: &mut Feed, out: &mut Vec<TraceRequest>) -> Result<More, TraceError> {
        let (volume, unit_bytes) = (feed.only_volume()?, feed.unit_bytes);
        feed.lines(out, |line, _| (self.parse)(line, unit_bytes, volume))
    }
}

/// A decoder that gives each line to `parse` with the bytes of the trace's unit and its only volume.
pub(super) fn decoder_of_one<P>(parse: P) -> Box<dyn Decoder>
where
    P: FnMut(&[u8], u64, u32) -> Result<Parsed, Fault> + Send + 'static,
{
    Box::new(LinesOfOne { parse })
}

/// Whether `parse` takes this line alone for a request.
pub(super) fn is_request<P>(line: &[u8], parse: P) -> bool
where
    P: FnOnce(&[u8], &mut VolumeTable) -> Result<Parsed, Fault>,
{
    matches!(parse(line, &mut VolumeTable::default()), Ok(Parsed::Request(_)))
}

/// Up to one line in so many may be bad without a text being something else.
const SINGLE: usize = 64;

/// Whether so few of the `lines` are bad that it is for the decoder to name them.
pub(super) fn are_single(bad: usize, lines: usize) -> bool {
    bad.saturating_mul(SINGLE) <= lines
}

/// Whether any of the first lines is a request to `parse`.
pub(super) fn have_requests<P>(head: &[u8], parse: P) -> bool
where
    P: Fn(&[u8], &mut VolumeTable) -> Result<Parsed, Fault>,
{
    head_lines(head).any(|line| is_request(line, &parse))
}
