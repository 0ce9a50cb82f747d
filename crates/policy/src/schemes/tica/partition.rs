//! How DRAM is divided between reads and writes (TICA, Algorithm 1, lines 5 to 8 and 29 to 32). It must not know which
//! blocks are in the partitions.

/// The size of the write partition, which grows when it is full and shrinks when reads need room. The read partition has
/// the rest of DRAM, at least one block.
///
/// With `k` the number of units by which the write partition exceeds its default size, it grows by `unit * 2^-k` blocks,
/// rounded and at least one, and shrinks by `unit * 2^k` blocks, but not below the default. Printed is the same with a
/// unit of one block, by which a million full partitions in a row would add 19 blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    write_blocks: u32,
    default_blocks: u32,
    most_blocks: u32,
    unit_blocks: u32,
}

/// Units by which a full write partition grows that exceeds its default size by `units_above` units: the printed formula,
/// in which a unit is a page.
pub fn growth_units(units_above: f64) -> f64 {
    (-units_above).exp2()
}

/// Units by which it shrinks when reads need room: the printed formula, which ends at the default size.
pub fn shrinkage_units(units_above: f64) -> f64 {
    units_above.exp2().min(units_above)
}

impl Partition {
    /// The default size is `percent` of `dram_blocks`, rounded down and at least one; the unit is the `unit_parts`-th part
    /// of that. Less than two blocks of DRAM have no write partition.
    pub fn new(dram_blocks: u32, percent: u32, unit_parts: u32) -> Partition {
        let most_blocks = dram_blocks.saturating_sub(1);
        let wanted = u64::from(dram_blocks) * u64::from(percent) / 100;
        let default_blocks = wanted.clamp(1, u64::from(most_blocks).max(1)).min(most_blocks.into()) as u32;
        let unit_blocks = (default_blocks / unit_parts.max(1)).max(1);
        Partition { write_blocks: default_blocks, default_blocks, most_blocks, unit_blocks }
    }

    /// The same division of another DRAM, as far as it fits.
    pub fn kept_in(self, next: Partition) -> Partition {
        let write_blocks = self.write_blocks.clamp(next.default_blocks, next.most_blocks);
        Partition { write_blocks, ..next }
    }

    /// Blocks of the write partition.
    #[inline]
    pub fn write_blocks(&self) -> u32 {
        self.write_blocks
    }

    /// Whether it is larger than by default.
    #[inline]
    pub fn is_grown(&self) -> bool {
        self.write_blocks > self.default_blocks
    }

    /// Makes it larger, unless there is but one block left for reads.
    pub fn grow(&mut self) {
        let step = self.blocks_of(growth_units(self.units_above())).max(1);
        self.write_blocks = self.write_blocks.saturating_add(step).min(self.most_blocks);
    }

    /// Makes it smaller, but not smaller than `least_blocks` nor than by default.
    pub fn shrink(&mut self, least_blocks: u32) {
        let step = self.blocks_of(shrinkage_units(self.units_above()));
        self.write_blocks = (self.write_blocks - step).max(least_blocks.min(self.write_blocks));
    }

    fn units_above(&self) -> f64 {
        f64::from(self.write_blocks - self.default_blocks) / f64::from(self.unit_blocks)
    }

    fn blocks_of(&self, units: f64) -> u32 {
        // The cast ends at the type's limits.
        (f64::from(self.unit_blocks) * units).round() as u32
    }
}
