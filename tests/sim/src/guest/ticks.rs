//! Which moments of a history the ticks of an engine are. It must not know what happened at them.

/// When the ticks of the engine that runs were.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    /// For each tick a moment before it.
    moments: Vec<u64>,
    /// When it was last looked how many there were.
    looked: u64,
}

impl Ticks {
    /// The engine that runs has had so many by now.
    pub(super) fn note(&mut self, ticks: u64, now: u64) {
        if ticks < self.moments.len() as u64 {
            self.moments.clear();
        }
        self.moments.resize(ticks as usize, self.looked);
        self.looked = now;
    }

    /// A moment no later than so many ticks ago.
    pub(super) fn moment_before(&self, ticks: u32) -> u64 {
        match (self.moments.len() as u64).checked_sub(ticks.into()) {
            // Less than a tick ago is later than that.
            Some(at) if at > 0 => self.moments[at as usize - 1],
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_no_earlier_than_it_is_taken_for() {
        let mut ticks = Ticks::default();
        ticks.note(0, 0);
        // Something happens at 1, then there is a tick, then something at 2.
        ticks.note(1, 1);
        ticks.note(3, 2);
        assert_eq!([0, 1, 2, 3].map(|before| ticks.moment_before(before)), [1, 1, 0, 0]);
        ticks.note(1, 2);
        assert_eq!(ticks.moment_before(0), 2);
    }
}
