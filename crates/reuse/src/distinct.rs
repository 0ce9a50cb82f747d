//! About how many different blocks a stream has, in a few kilobytes. It must not know what for.

use lode_types::BlockNo;

use crate::hyper_log_log::HyperLogLog;
use crate::ordered::mix;

/// Registers, as a power of two: 4 KiB of memory, and a standard error of 1.6 %.
const PRECISION_BITS: u8 = 12;

/// By how much more than is estimated there may be: three standard errors, 1.04 over the root of the registers each.
const MARGIN: f64 = 3.0 * 1.04 / 64.0;

/// Counts different blocks.
#[derive(Clone, Debug)]
pub struct DistinctBlocks(HyperLogLog);

impl Default for DistinctBlocks {
    fn default() -> DistinctBlocks {
        DistinctBlocks::new()
    }
}

impl DistinctBlocks {
    /// None so far.
    pub fn new() -> DistinctBlocks {
        DistinctBlocks(HyperLogLog::new(PRECISION_BITS))
    }

    /// Adds a block.
    #[inline]
    pub fn add(&mut self, block: BlockNo) {
        self.0.add(mix(block));
    }

    /// A number that is hardly ever less than the different blocks so far, and at most 10 % more.
    pub fn at_most(&self) -> u64 {
        (self.0.count() * (1.0 + MARGIN)).ceil() as u64
    }
}
