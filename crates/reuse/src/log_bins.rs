//! Bins that grow with what they count: exact for small values, of a fixed relative width beyond.
//!
//! (Log-linear bins, as in Gil Tene's HdrHistogram.) It must not know what is counted.

/// Bins of which `2^SUB_BITS` make an octave; values below `2^(SUB_BITS + 1)` have a bin each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogBins<const SUB_BITS: u32>;

impl<const SUB_BITS: u32> LogBins<SUB_BITS> {
    /// The bin that holds `value`.
    #[inline(always)]
    pub(crate) fn bin(value: u64) -> usize {
        let shift = (u64::BITS - 1 - (value | 1 << SUB_BITS).leading_zeros()) - SUB_BITS;
        ((shift as usize) << SUB_BITS) + (value >> shift) as usize
    }

    /// The smallest value of a bin; of the bin after the last one, and beyond, the largest there is.
    #[inline]
    pub(crate) fn first(bin: usize) -> u64 {
        let shift = (bin >> SUB_BITS).saturating_sub(1);
        let mantissa = (bin - (shift << SUB_BITS)) as u128;
        if shift >= u64::BITS as usize {
            u64::MAX
        } else {
            u64::try_from(mantissa << shift).unwrap_or(u64::MAX)
        }
    }

    /// The value in the middle of a bin.
    pub(crate) fn middle(bin: usize) -> u64 {
        let first = Self::first(bin);
        first + (Self::first(bin + 1) - first) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::LogBins;

    #[test]
    fn bins_follow_each_other_without_gaps() {
        for bin in 0..LogBins::<3>::bin(u64::MAX) {
            let (first, next) = (LogBins::<3>::first(bin), LogBins::<3>::first(bin + 1));
            assert_eq!((LogBins::<3>::bin(first), LogBins::<3>::bin(next - 1)), (bin, bin));
            assert!(bin < 16 && next - first == 1 || (next - first) * 8 <= first, "bin {bin}");
            assert!((first..next).contains(&LogBins::<3>::middle(bin)));
        }
        assert_eq!(LogBins::<3>::bin(u64::MAX), 495);
        assert_eq!(LogBins::<3>::first(496), u64::MAX);
    }
}
