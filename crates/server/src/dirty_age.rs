//! Since when a VM's oldest dirty block is dirty: its cache says about which version that one came, and here is when versions came.
//! It must not know what versions are of.

use std::collections::VecDeque;

/// Most moments that are remembered. They are the further apart the longer ago they are.
const MOST_MOMENTS: usize = 128;

/// When a volume came to which version.
#[derive(Debug, Default)]
pub(crate) struct DirtyAge {
    /// Versions and when they were the latest, both ascending.
    moments: VecDeque<(u64, u64)>,
    /// When it was first seen with dirty blocks after it had none.
    since_ns: Option<u64>,
    /// No later than when the oldest dirty block was first written or last overwritten.
    oldest_ns: Option<u64>,
}

impl DirtyAge {
    /// To be told now and then: the latest version, and that of the oldest dirty block, if there is one.
    pub(crate) fn tick(&mut self, version: u64, oldest: Option<u64>, now_ns: u64) {
        self.since_ns = oldest.map(|_| self.since_ns.unwrap_or(now_ns));
        self.oldest_ns = oldest.map(|oldest| {
            let came = self.moments.partition_point(|&(version, _)| version < oldest);
            let before_ns = came.checked_sub(1).map_or(0, |at| self.moments[at].1);
            before_ns.max(self.since_ns.unwrap_or(0))
        });
        if self.moments.back().is_none_or(|&(last, _)| last < version) {
            self.moments.push_back((version, now_ns));
        } else if let Some(last) = self.moments.back_mut() {
            // Nothing has come since.
            last.1 = now_ns;
        }
        if self.moments.len() > MOST_MOMENTS {
            // The one without which the gap is smallest beside how long ago it is.
            let gap = |at: &usize| {
                let ago_ns = now_ns - self.moments[at - 1].1;
                (self.moments[at + 1].1 - self.moments[at - 1].1) as f64 / ago_ns as f64
            };
            let least = (1..MOST_MOMENTS).min_by(|one, other| gap(one).total_cmp(&gap(other)));
            self.moments.remove(least.expect("there are several"));
        }
    }

    /// How long it has had dirty blocks without a break.
    pub(crate) fn dirty_ns(&self, now_ns: u64) -> Option<u64> {
        Some(now_ns.saturating_sub(self.since_ns?))
    }

    /// How old its oldest dirty block is at most.
    pub(crate) fn oldest_ns(&self, now_ns: u64) -> Option<u64> {
        Some(now_ns.saturating_sub(self.oldest_ns?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn the_oldest_is_no_older_than_when_its_version_came() {
        let mut age = DirtyAge::default();
        age.tick(0, None, S);
        assert_eq!((age.dirty_ns(S), age.oldest_ns(S)), (None, None));
        // One block after the other becomes dirty, of which the latest five stay so.
        for second in 2..100_000 {
            age.tick(second, Some(second.saturating_sub(5).max(1)), second * S);
        }
        let now = 100_000 * S;
        assert_eq!(age.dirty_ns(now), Some((100_000 - 2) * S), "there was no break");
        let oldest = age.oldest_ns(now).unwrap();
        assert!((5 * S..=10 * S).contains(&oldest), "{oldest}");
        assert!(age.moments.len() <= MOST_MOMENTS);
        // One of them stays for long: what is remembered of then is coarse, and never too late.
        for second in 100_000..200_000 {
            age.tick(second, Some(99_994), second * S);
        }
        let oldest = age.oldest_ns(200_000 * S).unwrap();
        assert!((100_006 * S..125_000 * S).contains(&oldest), "{oldest}");
        age.tick(200_000, None, 200_000 * S);
        assert_eq!((age.dirty_ns(200_000 * S), age.oldest_ns(200_000 * S)), (None, None));
    }

    #[test]
    fn what_came_after_a_quiet_time_is_young() {
        let mut age = DirtyAge::default();
        (1..1000).for_each(|second| age.tick(7, Some(3), second * S));
        age.tick(9, Some(9), 1000 * S);
        assert_eq!(age.oldest_ns(1000 * S), Some(S));
    }
}
