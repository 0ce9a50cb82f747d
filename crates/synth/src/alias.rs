//! Draws from a finite distribution in constant time (Vose, "A linear algorithm for generating random numbers with a
//! given distribution", IEEE TSE 17(9), 1991). It must not know what is drawn.

use lode_types::Rng;

/// One column: what it gives below the threshold, in 2^32nds, is itself, and above it the other.
#[derive(Clone, Copy, Debug)]
struct Column {
    threshold: u64,
    other: u32,
}

/// A table to draw from.
#[derive(Clone, Debug)]
pub(crate) struct Alias {
    columns: Vec<Column>,
}

impl Alias {
    /// Item `i` is drawn in proportion to weight `i`; weights are finite and not negative, and one is positive.
    pub(crate) fn new(weights: &[f64]) -> Alias {
        let sum: f64 = weights.iter().sum();
        let mut left: Vec<f64> = weights.iter().map(|weight| weight / sum * weights.len() as f64).collect();
        let mut columns: Vec<_> =
            (0..weights.len()).map(|at| Column { threshold: 1 << 32, other: at as u32 }).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..weights.len()).partition(|&at| left[at] < 1.0);
        while let (Some(poor), Some(rich)) = (small.pop(), large.pop()) {
            columns[poor] =
                Column { threshold: (left[poor] * (1u64 << 32) as f64) as u64, other: rich as u32 };
            left[rich] -= 1.0 - left[poor];
            if left[rich] < 1.0 { small.push(rich) } else { large.push(rich) }
        }
        // Rounding may leave a column over that should be full; but one without weight must never be drawn.
        let heaviest = (0..weights.len()).max_by(|&a, &b| weights[a].total_cmp(&weights[b])).unwrap_or(0);
        for at in small.into_iter().filter(|&at| weights[at] == 0.0) {
            columns[at] = Column { threshold: 0, other: heaviest as u32 };
        }
        Alias { columns }
    }

    #[inline]
    pub(crate) fn draw(&self, rng: &mut Rng) -> usize {
        let number = rng.bits();
        let at = (((number >> 32) * self.columns.len() as u64) >> 32) as usize;
        let column = self.columns[at];
        if number & 0xffff_ffff < column.threshold { at } else { column.other as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::{Rng, *};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]

        /// The table's exact probabilities, added up column by column, are the weights.
        #[test]
        fn columns_add_up_to_the_weights(
            weights in proptest::collection::vec(prop_oneof![Just(0.0), 0.0..10.0], 1..40), one in 0usize..40,
        ) {
            let mut weights = weights;
            let one = one % weights.len();
            weights[one] += 0.5;
            let alias = Alias::new(&weights);
            let mut found = vec![0.0; weights.len()];
            for (at, column) in alias.columns.iter().enumerate() {
                let own = column.threshold as f64 / (1u64 << 32) as f64;
                found[at] += own;
                found[column.other as usize] += 1.0 - own;
            }
            let sum: f64 = weights.iter().sum();
            for (found, weight) in found.iter().zip(&weights) {
                let found = found / weights.len() as f64;
                prop_assert!((found - weight / sum).abs() < 1e-6, "{} {}", found, weight / sum);
                prop_assert!(*weight > 0.0 || found == 0.0);
            }
            let mut rng = Rng::new(7);
            prop_assert!((0..1000).all(|_| weights[alias.draw(&mut rng)] > 0.0));
        }
    }
}
