//! What came in on a connection while it is understood. What a write brings of a part of a block is kept where it came in
//! until it is merged, and so copied once. It must not know what the bytes mean.

use std::ops::Range;

use lode_engine::{Buf, Bytes, PAGE_BYTES};

/// A buffer is kept for a part of so many times fewer bytes; or for one that is there as a whole, when it is a page, which a copy
/// would take as well.
const MOST_KEPT_FOR: usize = 8;

/// A buffer with bytes that came in.
#[derive(Debug)]
pub(crate) enum Input {
    /// Nobody else has any of it: it can be received into again.
    Own(Buf),
    /// Writes have parts of it.
    Shared(Bytes),
}

impl Input {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Input::Own(buf) => buf.as_slice(),
            Input::Shared(bytes) => bytes,
        }
    }

    /// Length of a buffer that would be kept for parts of so many bytes.
    pub(crate) fn len_to_share(part_bytes: usize) -> usize {
        (MOST_KEPT_FOR * part_bytes).max(PAGE_BYTES)
    }

    /// These bytes, with the buffer kept as long as they are; `None` where that would keep too much for them. `is_whole`: no
    /// other bytes belong to the same part of a block, which keeps no second buffer then.
    pub(crate) fn share(&mut self, range: Range<usize>, is_whole: bool) -> Option<Bytes> {
        let most = if is_whole { Input::len_to_share(range.len()) } else { MOST_KEPT_FOR * range.len() };
        if self.as_slice().len() > most {
            return None;
        }
        if let Input::Own(buf) = self {
            *self = Input::Shared(std::mem::replace(buf, Buf::for_overwrite(0)).freeze());
        }
        let Input::Shared(bytes) = self else { unreachable!("it is shared now") };
        Some(bytes.slice(range))
    }

    /// A buffer of this length to receive into: this one, if it is as long and nobody else has any of it.
    pub(crate) fn renew(self, len: usize) -> Buf {
        match self {
            Input::Own(buf) if buf.len() == len => buf,
            _ => Buf::for_overwrite(len),
        }
    }
}
