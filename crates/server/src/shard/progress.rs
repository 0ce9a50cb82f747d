//! Something that may take as long as it makes progress. It must not know what it is.

use std::time::{Duration, Instant};

/// So much was left when it last went on, and until when it has to go on again.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgressTimer {
    least: u64,
    limit: Duration,
    deadline: Instant,
}

impl ProgressTimer {
    /// Of something that begins now, and may stand still for so long.
    pub(super) fn begin(now: Instant, limit: Duration) -> ProgressTimer {
        ProgressTimer { least: u64::MAX, limit, deadline: now + limit }
    }

    /// So much is left now. False: it has stood still for too long.
    pub(super) fn goes_on(&mut self, left: u64, now: Instant) -> bool {
        if left < self.least {
            (self.least, self.deadline) = (left, now + self.limit);
        }
        now < self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_may_take_as_long_as_it_goes_on() {
        let (begin, limit) = (Instant::now(), Duration::from_secs(10));
        let mut progress = ProgressTimer::begin(begin, limit);
        for s in 0..100 {
            assert!(progress.goes_on(1000 - s, begin + Duration::from_secs(9 * s)));
        }
        let last = begin + Duration::from_secs(9 * 99);
        assert!(
            progress.goes_on(2000, last + Duration::from_secs(9)),
            "what is more is no progress, and no end"
        );
        assert!(!progress.goes_on(901, last + limit));
        assert!(progress.goes_on(900, last + limit), "at the last moment");
    }
}
