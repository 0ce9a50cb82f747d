//! From when to when a trace goes, and whether a few bogus times make that look longer than it is. It must not
//! know formats.

use crate::limits::MAX_STRAY_TIMES;

/// A time is stray when this many times the span of the others lies between them.
const STRAY_FACTOR: u64 = 10;
/// How many of the earliest, and of the latest, times are kept: the strays and the first that is none.
const KEPT: usize = MAX_STRAY_TIMES + 1;

/// The times of a trace's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanInfo {
    /// Earliest time, in nanoseconds.
    pub first_ns: u64,
    /// Latest time, in nanoseconds.
    pub last_ns: u64,
    /// Earliest time without the stray ones, in nanoseconds.
    pub usual_first_ns: u64,
    /// Latest time without the stray ones, in nanoseconds.
    pub usual_last_ns: u64,
    /// Requests whose time is far from all others': at most [`MAX_STRAY_TIMES`] before and as many after them.
    pub stray_requests: usize,
}

/// Collects times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    requests: u64,
    /// Ascending.
    earliest: Vec<u64>,
    /// Descending.
    latest: Vec<u64>,
}

impl Span {
    pub(crate) fn add(&mut self, time_ns: u64) {
        self.requests += 1;
        keep(&mut self.earliest, time_ns, |kept| kept <= time_ns);
        keep(&mut self.latest, time_ns, |kept| kept >= time_ns);
    }

    /// `None` without requests.
    pub(crate) fn finish(&self) -> Option<SpanInfo> {
        let (&first_ns, &last_ns) = (self.earliest.first()?, self.latest.first()?);
        let (early, late) = self.strays();
        Some(SpanInfo {
            first_ns,
            last_ns,
            usual_first_ns: self.earliest[early],
            usual_last_ns: self.latest[late],
            stray_requests: early + late,
        })
    }

    /// How many times at either end are stray: those whose removal shortens the span most.
    fn strays(&self) -> (usize, usize) {
        // With fewer, the two ends would share times, and there would be no telling which of them is odd.
        if self.requests < 2 * KEPT as u64 {
            return (0, 0);
        }
        let ends = (0..KEPT).flat_map(|early| (0..KEPT).map(move |late| (early, late)));
        let possible = ends.filter(|&(early, late)| {
            let rest = self.latest[late] - self.earliest[early];
            let far = |times: &[u64], strays: usize| {
                strays == 0 || times[strays].abs_diff(times[strays - 1]) / STRAY_FACTOR > rest
            };
            rest > 0 && far(&self.earliest, early) && far(&self.latest, late)
        });
        possible.min_by_key(|&(early, late)| self.latest[late] - self.earliest[early]).unwrap_or((0, 0))
    }
}

impl SpanInfo {
    /// Of these times, in any order; `None` without any.
    pub fn of_times(times_ns: impl IntoIterator<Item = u64>) -> Option<SpanInfo> {
        let mut span = Span::default();
        times_ns.into_iter().for_each(|time_ns| span.add(time_ns));
        span.finish()
    }
}

/// Requests of a [`QuickSpan`] that are looked at one by one, and how many are taken together after them.
const ONE_BY_ONE: u64 = 1 << 17;
const TOGETHER: u32 = 4096;

/// The usual span of a trace, at next to no cost a request: after the first 131,072 requests only the earliest and the
/// latest of every 4,096 are looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuickSpan {
    span: Span,
    /// Earliest and latest time of the requests that are taken together.
    together: Option<(u64, u64)>,
    count: u32,
}

impl QuickSpan {
    /// Takes the time of one request.
    #[inline]
    pub fn add(&mut self, time_ns: u64) {
        if self.span.requests < ONE_BY_ONE {
            return self.span.add(time_ns);
        }
        let (first, last) = self.together.unwrap_or((time_ns, time_ns));
        self.together = Some((first.min(time_ns), last.max(time_ns)));
        self.count += 1;
        if self.count == TOGETHER {
            self.count = 0;
            if let Some((first, last)) = self.together.take() {
                self.span.add(first);
                self.span.add(last);
            }
        }
    }

    /// Earliest and latest time, without a few that are far from all others; `None` without requests.
    pub fn usual_ns(&self) -> Option<(u64, u64)> {
        let mut span = self.span.clone();
        if let Some((first, last)) = self.together {
            span.add(first);
            span.add(last);
        }
        span.finish().map(|info| (info.usual_first_ns, info.usual_last_ns))
    }
}

/// Puts a time at its place in an ordered list of at most [`KEPT`]; `goes_before` says what stays before it.
#[inline]
fn keep(list: &mut Vec<u64>, time_ns: u64, goes_before: impl Fn(u64) -> bool) {
    if list.len() == KEPT {
        if goes_before(list[KEPT - 1]) {
            return;
        }
        list.pop();
    }
    list.insert(list.partition_point(|&kept| goes_before(kept)), time_ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_quick_span_is_that_of_the_usual_times() {
        for requests in [0, 1, 2, 100, ONE_BY_ONE, ONE_BY_ONE + 1, ONE_BY_ONE + 3 * u64::from(TOGETHER) + 7] {
            for bogus in [None, Some(1 << 60)] {
                let mut quick = QuickSpan::default();
                for time_ns in 1000..1000 + requests {
                    let is_bogus = time_ns == 1000 + requests / 2 || time_ns + 3 == 1000 + requests;
                    quick.add(bogus.filter(|_| is_bogus && requests > 50).unwrap_or(time_ns));
                }
                let Some((first, last)) = quick.usual_ns() else {
                    assert_eq!(requests, 0);
                    continue;
                };
                // A bogus time takes the latest of those looked at together with it.
                let loss = (999 + requests).checked_sub(last).expect("no bogus time");
                let most = if bogus.is_some() && requests > ONE_BY_ONE { 2 * u64::from(TOGETHER) } else { 0 };
                assert!(first == 1000 && loss <= most, "{requests} requests, {bogus:?}: {loss}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_ends_match_sorting(times in proptest::collection::vec(0u64..100, 1..60)) {
            let mut span = Span::default();
            times.iter().for_each(|&time_ns| span.add(time_ns));
            let mut sorted = times;
            sorted.sort_unstable();
            let ends: Vec<_> = sorted.iter().copied().take(KEPT).collect();
            prop_assert_eq!(&span.earliest, &ends);
            let ends: Vec<_> = sorted.iter().rev().copied().take(KEPT).collect();
            prop_assert_eq!(&span.latest, &ends);
        }
    }
}
