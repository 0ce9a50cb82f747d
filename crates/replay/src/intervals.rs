//! The VMs' shares at each sizing, within a limit. It must not know how shares come about.

use lode_policy::Quota;

/// Most shares (one a VM and sizing) that are kept; 12 bytes each. Sizings beyond are counted.
pub const MAX_INTERVAL_SHARES: usize = 1 << 20;

/// Shares by sizing, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Intervals {
    rows: Vec<Box<[Quota]>>,
    shares: usize,
    cut: u64,
}

impl Intervals {
    /// Notes the shares of all VMs after a sizing. There are never fewer VMs than the time before, so that what
    /// is kept has no gaps.
    pub(crate) fn record(&mut self, shares: impl ExactSizeIterator<Item = Quota>) {
        if self.shares + shares.len() > MAX_INTERVAL_SHARES {
            self.cut += 1;
            return;
        }
        self.shares += shares.len();
        self.rows.push(shares.collect());
    }

    /// Sizings that are not kept.
    pub(crate) fn cut(&self) -> u64 {
        self.cut
    }

    /// The first sizing that saw this VM, and its share at that one and every later one.
    pub(crate) fn of(&self, vm: usize) -> (usize, Vec<Quota>) {
        let first = self.rows.partition_point(|row| row.len() <= vm);
        (first, self.rows[first..].iter().map(|row| row[vm]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_up_to_the_limit_and_counts_the_rest() {
        let quota = |blocks| Quota::new(blocks, 2 * blocks);
        let mut intervals = Intervals::default();
        intervals.record([quota(1)].into_iter());
        intervals.record([quota(2), quota(3)].into_iter());
        assert_eq!(intervals.of(0), (0, vec![quota(1), quota(2)]));
        assert_eq!(intervals.of(1), (1, vec![quota(3)]));
        assert_eq!(intervals.of(2), (2, vec![]));
        for _ in 0..3 {
            intervals.record((0..MAX_INTERVAL_SHARES as u32 / 2 - 2).map(quota));
        }
        assert_eq!(intervals.cut(), 1);
        assert_eq!(intervals.of(0).1.len(), 4);
    }
}
