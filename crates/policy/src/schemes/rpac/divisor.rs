//! Division by a number that stays the same, without a division.
//!
//! A multiplication by the number's reciprocal comes out right or one too low, which the remainder tells. It must not know
//! what is divided.

/// What others are divided by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Divisor {
    divisor: u64,
    /// The reciprocal, of which 2^64 is one; too low by less than one, and by one for a divisor of 1.
    reciprocal: u64,
}

impl Divisor {
    /// `divisor` is not 0.
    pub(super) fn new(divisor: u32) -> Divisor {
        let divisor = u64::from(divisor);
        Divisor { divisor, reciprocal: u64::MAX / divisor }
    }

    /// The number that was given.
    #[inline(always)]
    pub(super) fn get(self) -> u64 {
        self.divisor
    }

    /// Quotient and remainder.
    #[inline(always)]
    pub(super) fn divide(self, number: u64) -> (u64, u64) {
        let quotient = ((u128::from(number) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = number - quotient * self.divisor;
        let is_low = u64::from(rest >= self.divisor);
        (quotient + is_low, rest - is_low * self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn equals_a_division(
            divisor in prop_oneof![1u32..100, any::<u32>(), Just(u32::MAX), Just(40_960)],
            number in prop_oneof![any::<u64>(), 0u64..1000, Just(u64::MAX)],
            multiple in any::<u64>(),
        ) {
            prop_assume!(divisor > 0);
            let plain = u64::from(divisor);
            let near = multiple / plain * plain;
            for number in [number, near, near.wrapping_sub(1), near.saturating_add(1)] {
                prop_assert_eq!(Divisor::new(divisor).divide(number), (number / plain, number % plain));
            }
        }
    }
}
