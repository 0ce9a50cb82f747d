//! How long to look for completions before sleeping: falling asleep and being woken takes longer than many devices
//! and guests need to answer. It must not know where completions come from.
//!
//! The window follows what waiting was like: it grows while sleeps turn out to be shorter than the limit, and goes
//! away with the first that is longer, so that an idle thread costs nothing. (Kernels do the same for a guest's idle
//! processor under the name of halt polling.)

use std::time::{Duration, Instant};

/// The first window, when a short sleep has shown that looking would have paid.
const FIRST: Duration = Duration::from_micros(10);

/// A thread's window.
#[derive(Debug)]
pub(crate) struct Spin {
    limit: Duration,
    window: Duration,
}

impl Spin {
    /// Never looks for longer than `limit`; zero: never looks.
    pub fn new(limit: Duration) -> Spin {
        Spin { limit, window: Duration::ZERO }
    }

    /// Looks with `look` until it finds something or the window, or `pause`, is over. Returns whether it did.
    pub fn look(&self, pause: Option<Duration>, mut look: impl FnMut() -> bool) -> bool {
        let window = pause.map_or(self.window, |pause| pause.min(self.window));
        if window.is_zero() {
            return false;
        }
        let began = Instant::now();
        loop {
            // The clock costs more than a look.
            for _ in 0..16 {
                if look() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if began.elapsed() >= window {
                return false;
            }
        }
    }

    /// Whether there is a window now.
    pub fn is_open(&self) -> bool {
        !self.window.is_zero()
    }

    /// Whether [`Spin::waited`] should be told how long waits are.
    pub fn is_on(&self) -> bool {
        !self.limit.is_zero()
    }

    /// Learns from a wait that ended by itself: how long it was, looking included.
    pub fn waited(&mut self, whole: Duration) {
        self.window = match whole <= self.limit {
            true => whole.max(self.window).saturating_mul(2).max(FIRST).min(self.limit),
            false => Duration::ZERO,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(50);

    #[test]
    fn short_waits_open_the_window_and_a_long_one_closes_it() {
        let mut spin = Spin::new(LIMIT);
        assert!(!spin.look(None, || panic!("nothing is looked for at first")));
        spin.waited(Duration::from_micros(3));
        assert_eq!(spin.window, FIRST);
        for _ in 0..10 {
            spin.waited(Duration::from_micros(30));
            assert!(spin.window > FIRST && spin.window <= LIMIT);
        }
        let mut looks = 0;
        assert!(!spin.look(None, || {
            looks += 1;
            false
        }));
        assert!(looks >= 16);
        assert!(spin.look(None, || true));
        assert!(!spin.look(Some(Duration::ZERO), || panic!("there is no time for it")));
        spin.waited(LIMIT + Duration::from_micros(1));
        assert!(spin.window.is_zero());
    }

    #[test]
    fn a_limit_of_zero_never_looks() {
        let mut spin = Spin::new(Duration::ZERO);
        spin.waited(Duration::ZERO);
        assert!(!spin.is_on() && !spin.look(None, || panic!("it is off")));
    }
}
