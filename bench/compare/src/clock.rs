//! A clock of the time that this process had a processor, so that other programs do not count; the wall clock where the
//! system does not say. It must not know what is measured.

use std::time::{Duration, Instant};

/// A measurement under way.
pub struct Clock {
    start: Instant,
    start_ran: Option<Duration>,
}

impl Clock {
    /// Begins.
    pub fn start() -> Clock {
        Clock { start: Instant::now(), start_ran: ran() }
    }

    /// Seconds since the beginning.
    pub fn seconds(&self) -> f64 {
        let ran = ran().zip(self.start_ran).map(|(now, start)| now.saturating_sub(start));
        ran.unwrap_or_else(|| self.start.elapsed()).as_secs_f64()
    }
}

fn ran() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    Some(Duration::from_nanos(stat.split_whitespace().next()?.parse().ok()?))
}
