//! Block numbers in tables of many small records: five bytes each, which is enough for disks of 4 PiB with blocks of 4 KiB. A
//! table that meets a larger number keeps the rest of it apart, beside its records.

use lode_types::BlockNo;

use crate::parts::growth;

/// The low bytes of a block number. Of no alignment, so that nothing is left between two records.
pub(crate) type Low = [u8; 5];

const LOW_BITS: u32 = 8 * size_of::<Low>() as u32;

/// The low bytes of a block number, and the rest.
#[inline(always)]
pub(crate) fn split(block: BlockNo) -> (Low, u32) {
    let [a, b, c, d, e, ..] = block.to_le_bytes();
    ([a, b, c, d, e], (block >> LOW_BITS) as u32)
}

/// The block number of which these are the parts.
#[inline(always)]
pub(crate) fn join([a, b, c, d, e]: Low, rest: u32) -> BlockNo {
    u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]) | u64::from(rest) << LOW_BITS
}

/// By record, what five bytes leave out of block numbers; nothing is kept while that is nothing.
#[derive(Debug, Default)]
pub(crate) struct Rests(Vec<u32>);

impl Rests {
    #[inline(always)]
    pub(crate) fn get(&self, at: u32) -> u32 {
        self.0.get(at as usize).copied().unwrap_or(0)
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, at: u32, rest: u32) {
        if rest != 0 || !self.0.is_empty() {
            self.keep(at, rest);
        }
    }

    #[cold]
    fn keep(&mut self, at: u32, rest: u32) {
        growth::extend_to(&mut self.0, at, 0);
        self.0[at as usize] = rest;
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<u32>()
    }
}
