//! Plain block numbers, one little-endian `u32` a request, in order.
//!
//! A request is one block of [`crate::ReadOptions::unit_bytes`], by default 4 KiB. As in [`super::lis`], all requests
//! count as reads, request i as at i microseconds, and the only volume is named after the file. Four bytes could be
//! anything, so that only the file's ending or its name tells the format.

use lode_types::{RequestOp, TraceRequest};

use super::fields::units;
use super::lis::STEP_NS;
use super::{Decoder, Format};
use crate::compact::Recorded;
use crate::error::{ErrorKind, Fault, TraceError};
use crate::feed::{Feed, More, Parsed};

pub(crate) static FORMAT: Format = Format {
    name: "u32le",
    about: "Block numbers, 4 bytes little-endian each; blocks of --unit (4 KiB); all reads, no times",
    endings: &["u32le"],
    default_unit_bytes: Some(4096),
    units_told: false,
    recorded: |_| Recorded { times: false, ..Recorded::TIMES },
    detect: |_| false,
    decoder: |_| Box::new(U32le { requests: 0 }),
};

const CUT: Fault = Fault::new(ErrorKind::Truncated, "whole block numbers of 4 bytes up to the end");

struct U32le {
    requests: u64,
}

impl Decoder for U32le {
    fn decode(&mut self, feed: &mut Feed, out: &mut Vec<TraceRequest>) -> Result<More, TraceError> {
        let (volume, unit_bytes) = (feed.only_volume()?, feed.unit_bytes);
        feed.records(out, CUT, |record: &[u8; 4], _| {
            let bytes = units(u32::from_le_bytes(*record).into(), 1, unit_bytes)?;
            let time_ns = self.requests.saturating_mul(STEP_NS);
            self.requests += 1;
            Ok(Parsed::request(time_ns, RequestOp::Read, bytes, volume))
        })
    }
}
