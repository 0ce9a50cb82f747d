//! Records of one size, as binary formats have them. It must not know formats.

use lode_types::TraceRequest;

use crate::error::{Fault, Position, TraceError};
use crate::feed::{Feed, More, Parsed, check_request};
use crate::limits::BATCH_REQUESTS;
use crate::volumes::VolumeTable;

impl Feed {
    /// Cuts the input into records of `N` bytes and gives each to `parse`, until a batch is full or the input ends.
    /// `cut` is the fault of a last record that is not whole.
    pub(crate) fn records<const N: usize, P>(
        &mut self,
        out: &mut Vec<TraceRequest>,
        cut: Fault,
        mut parse: P,
    ) -> Result<More, TraceError>
    where
        P: FnMut(&[u8; N], &mut VolumeTable) -> Result<Parsed, Fault>,
    {
        while out.len() < BATCH_REQUESTS {
            if !self.need(N)? {
                return self.end_of_records(cut);
            }
            let mut used = 0;
            let mut fault = None;
            let (records, _) = self.input.available().as_chunks::<N>();
            for record in &records[..records.len().min(BATCH_REQUESTS - out.len())] {
                used += N;
                match parse(record, &mut self.volumes).and_then(checked) {
                    Ok(Parsed::Request(request)) => out.push(request),
                    Ok(Parsed::Nothing) => {}
                    Ok(Parsed::OtherCommand) => self.skips.other_commands += 1,
                    Err(found) => {
                        fault = Some((found, self.input.offset() + (used - N) as u64));
                        break;
                    }
                }
            }
            self.input.consume(used);
            if let Some((fault, byte)) = fault {
                self.fault(fault, Position::at_byte(byte))?;
            }
        }
        Ok(More::Yes)
    }

    /// The input has ended: what is left of it is less than a record.
    pub(crate) fn end_of_records(&mut self, cut: Fault) -> Result<More, TraceError> {
        let rest = self.input.available().len();
        if rest > 0 {
            let position = Position::at_byte(self.input.offset());
            self.fault(cut, position)?;
            self.input.consume(rest);
        }
        Ok(More::No)
    }
}

#[inline]
fn checked(parsed: Parsed) -> Result<Parsed, Fault> {
    if let Parsed::Request(request) = &parsed {
        check_request(request)?;
    }
    Ok(parsed)
}

/// The four bytes at `at`, lowest first.
#[inline]
pub(crate) fn u32_le<const N: usize>(record: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
}

/// The eight bytes at `at`, lowest first.
#[inline]
pub(crate) fn u64_le<const N: usize>(record: &[u8; N], at: usize) -> u64 {
    u64::from(u32_le(record, at)) | u64::from(u32_le(record, at + 4)) << 32
}
