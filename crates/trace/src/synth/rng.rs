//! Chance from a seed: the same numbers on every machine. It must not know what they decide.
//!
//! SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). Only whole numbers,
//! the four operations of IEEE 754 and the `libm` crate are used, whose results do not depend on the machine.

/// What SplitMix64 adds at each step.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A seeded generator.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

/// Mixes all bits; no two numbers give the same result.
pub(super) fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

impl Rng {
    #[cfg(test)]
    pub(super) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Another generator for part number `part`, so that parts do not disturb each other.
    pub(super) fn part(seed: u64, part: u64) -> Rng {
        Rng(mix(seed ^ mix(part.wrapping_add(1).wrapping_mul(STEP))))
    }

    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `end`, which is not zero; each is as likely as another up to end / 2^64.
    #[inline]
    pub(super) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A number from 0 to below 1.
    #[inline]
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An exponentially distributed number with this mean.
    #[inline]
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_algorithm() {
        let mut rng = Rng::new(1_234_567);
        let first: Vec<_> = (0..5).map(|_| rng.next()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    #[test]
    fn means_and_ranges() {
        let mut rng = Rng::part(1, 2);
        let count = 100_000;
        let (mut units, mut gaps, mut below) = (0.0, 0.0, [0u32; 3]);
        for _ in 0..count {
            let unit = rng.unit();
            assert!((0.0..1.0).contains(&unit));
            units += unit;
            gaps += rng.exponential(5.0);
            below[rng.below(3) as usize] += 1;
        }
        assert!((units / f64::from(count) - 0.5).abs() < 0.01);
        assert!((gaps / f64::from(count) - 5.0).abs() < 0.1);
        assert!(below.iter().all(|&n| n.abs_diff(count / 3) < 1000), "{below:?}");
    }
}
