//! Chance that adds up: choices drawn without putting them back, so that the counts come out exactly. It must not know
//! what is chosen.

use lode_types::Rng;

/// How often each choice is to be drawn, and how often it is left.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    whole: Vec<u64>,
    left: Vec<u64>,
    sum: u64,
}

impl Quota {
    /// `count` draws divided by these shares, which add up to 1: rounded down, and the rest to the largest remainders.
    pub(crate) fn of(count: u64, shares: &[f64]) -> Quota {
        let exact: Vec<f64> = shares.iter().map(|share| share * count as f64).collect();
        let mut whole: Vec<u64> = exact.iter().map(|number| libm::floor(*number) as u64).collect();
        let remainder = |at: usize| exact[at] - libm::floor(exact[at]);
        let mut order: Vec<usize> = (0..shares.len()).filter(|&at| shares[at] > 0.0).collect();
        order.sort_by(|&a, &b| remainder(b).total_cmp(&remainder(a)).then(a.cmp(&b)));
        let mut missing = count.saturating_sub(whole.iter().sum());
        for &at in order.iter().cycle().take(2 * order.len()) {
            let add = missing.min(1);
            (whole[at], missing) = (whole[at] + add, missing - add);
        }
        let sum = whole.iter().sum();
        Quota { left: whole.clone(), whole, sum }
    }

    /// How often this choice is drawn in all.
    pub(crate) fn whole(&self, at: usize) -> u64 {
        self.whole[at]
    }

    /// Draws a choice; when all are used up they are all there again.
    #[inline]
    pub(crate) fn draw(&mut self, rng: &mut Rng) -> usize {
        if self.sum == 0 {
            self.refill();
        }
        if self.left.len() == 1 {
            return self.took(0);
        }
        let mut number = rng.below(self.sum.max(1));
        let last = self.left.len() - 1;
        for at in 0..last {
            if number < self.left[at] {
                return self.took(at);
            }
            number -= self.left[at];
        }
        self.took(last)
    }

    /// Takes one of this choice, if one is left.
    #[inline]
    pub(crate) fn take(&mut self, at: usize) -> bool {
        if self.sum == 0 {
            self.refill();
        }
        let is_left = self.left[at] > 0;
        if is_left {
            self.took(at);
        }
        is_left
    }

    #[inline]
    fn took(&mut self, at: usize) -> usize {
        self.left[at] = self.left[at].saturating_sub(1);
        self.sum = self.sum.saturating_sub(1);
        at
    }

    #[cold]
    fn refill(&mut self) {
        self.left.clone_from(&self.whole);
        self.sum = self.whole.iter().sum();
    }
}

#[cfg(test)]
mod tests {
    use super::{Rng, *};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_are_exact(weights in proptest::collection::vec(0.0f64..1.0, 1..6), count in 1u64..500) {
            let sum: f64 = weights.iter().sum::<f64>() + 1.0;
            let mut shares: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
            shares.push(1.0 / sum);
            let mut quota = Quota::of(count, &shares);
            prop_assert_eq!((0..shares.len()).map(|at| quota.whole(at)).sum::<u64>(), count);
            let mut rng = Rng::new(count);
            for round in 1..=2 {
                let mut drawn = vec![0; shares.len()];
                (0..count).for_each(|_| drawn[quota.draw(&mut rng)] += 1);
                for (at, share) in shares.iter().enumerate() {
                    prop_assert_eq!(drawn[at], quota.whole(at), "round {}", round);
                    prop_assert!((drawn[at] as f64 - share * count as f64).abs() < 1.0 + 1e-9);
                }
            }
        }
    }
}
