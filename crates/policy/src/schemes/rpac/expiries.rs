//! How many popularities that decay are above nothing, and until when, without a look at any of them.
//!
//! One that is not added to any more is gone after a number of decays that it alone determines; those that are gone by the
//! same decay are counted together. It must not know whose popularity it is.

use super::regions::{MOST_POPULAR, Now};

/// Popularities below 64 times this are looked up without a search.
const SMALL_WORDS: usize = 32;

/// The counts.
#[derive(Debug)]
pub(super) struct Expiries {
    /// The largest popularity that is gone after so many decays; the last one is the largest of all.
    lives: Vec<u32>,
    /// A bit for each small popularity: whether `lives` has it.
    longest: [u64; SMALL_WORDS],
    /// Popularities that are gone with an epoch, round and round, and where this epoch is.
    due: Vec<u32>,
    this: usize,
    above_nothing: u32,
}

impl Expiries {
    /// Nothing has a popularity yet.
    pub(super) fn new(now: Now) -> Expiries {
        let mut lives = vec![0];
        let mut last = 0;
        while last < MOST_POPULAR {
            // The quotient is rounded, so that it may be off.
            let mut most = MOST_POPULAR.min((f64::from(last + 1) / now.alpha) as u32);
            while most < MOST_POPULAR && now.decayed_once(most + 1) <= last {
                most += 1;
            }
            while now.decayed_once(most) > last {
                most -= 1;
            }
            lives.push(most);
            last = most;
        }
        let due = vec![0; lives.len() + 1];
        let mut longest = [0; SMALL_WORDS];
        for &most in &lives {
            if let Some(word) = longest.get_mut(most as usize / 64) {
                *word |= 1 << (most % 64);
            }
        }
        Expiries { lives, longest, due, this: 0, above_nothing: 0 }
    }

    /// Popularities above nothing.
    #[inline]
    pub(super) fn above_nothing(&self) -> u32 {
        self.above_nothing
    }

    /// A popularity, which has decayed to this by now, becomes one more.
    #[inline]
    pub(super) fn gain(&mut self, popularity: u32) {
        // It lives on for as long as others that were as popular, unless it is the most popular of these.
        let word = self.longest.get(popularity as usize / 64);
        if word.is_none_or(|word| word >> (popularity % 64) & 1 > 0) {
            self.gain_life(popularity);
        }
    }

    fn gain_life(&mut self, popularity: u32) {
        if popularity == 0 {
            self.above_nothing += 1;
            *self.due_after(1) += 1;
        } else if popularity < MOST_POPULAR
            && let Ok(life) = self.lives.binary_search(&popularity)
        {
            *self.due_after(life) -= 1;
            *self.due_after(life + 1) += 1;
        }
    }

    /// All have decayed once more.
    pub(super) fn decay(&mut self) {
        self.this = if self.this + 1 == self.due.len() { 0 } else { self.this + 1 };
        self.above_nothing -= std::mem::take(&mut self.due[self.this]);
    }

    /// Bytes that everything takes.
    pub(super) fn memory_bytes(&self) -> usize {
        (self.lives.capacity() + self.due.capacity()) * size_of::<u32>()
    }

    /// Those that are gone after so many decays from now on, at most as many as there are lives.
    #[inline]
    fn due_after(&mut self, decays: usize) -> &mut u32 {
        let at = self.this + decays;
        let at = if at < self.due.len() { at } else { at - self.due.len() };
        &mut self.due[at]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Beside all popularities, each of which is looked at.
        #[test]
        fn equals_a_count(
            alpha in prop_oneof![Just(0.5), Just(0.0), Just(0.99), 0.0..0.99],
            steps in prop::collection::vec((0usize..12, 0usize..40), 0..400),
        ) {
            let mut now = Now { alpha, epoch: 0 };
            let mut expiries = Expiries::new(now);
            let mut plain = [0u32; 8];
            for (which, times) in steps {
                if let Some(popularity) = plain.get_mut(which) {
                    for _ in 0..times * times {
                        expiries.gain(*popularity);
                        *popularity += 1;
                    }
                } else {
                    now.epoch += 1;
                    plain.iter_mut().for_each(|popularity| *popularity = now.decayed_once(*popularity));
                    expiries.decay();
                }
                let above_nothing = plain.iter().filter(|&&popularity| popularity > 0).count();
                prop_assert_eq!(expiries.above_nothing() as usize, above_nothing);
            }
        }

        #[test]
        fn lives_are_the_longest(alpha in prop_oneof![Just(0.5), 0.0..0.99]) {
            let now = Now { alpha, epoch: 0 };
            let lives = Expiries::new(now).lives;
            prop_assert_eq!(lives.last(), Some(&MOST_POPULAR));
            for (life, &most) in lives.iter().enumerate() {
                let decays = |popularity| {
                    (0..).scan(popularity, |left, _| { let now_left = *left; *left = now.decayed_once(now_left); Some(now_left) })
                        .position(|left| left == 0)
                };
                prop_assert_eq!(decays(most), Some(life));
                if most < MOST_POPULAR {
                    prop_assert_eq!(decays(most + 1), Some(life + 1));
                }
            }
        }
    }
}
