//! The seeded generator of everything that takes chances: models, simulations, made workloads. It must not know what
//! its numbers decide.
//!
//! SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). Only whole numbers and
//! the four operations of IEEE 754 are used, so that a seed gives the same numbers on every machine.

/// What SplitMix64 adds at each step.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Random numbers that a seed determines.
#[derive(Clone, Debug)]
pub struct Rng(u64);

/// Mixes all bits; no two numbers give the same result.
#[inline]
pub fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// The number below `limit`, which is not zero, that 64 random bits stand for; see [`Rng::below`].
#[inline(always)]
pub fn scaled(bits: u64, limit: u64) -> u64 {
    ((u128::from(bits) * u128::from(limit)) >> 64) as u64
}

impl Rng {
    /// A generator for this seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed ^ 0x6c6f_6465_7374_6f72)
    }

    /// Another generator for part number `part` of what a seed determines, so that parts do not disturb each other.
    pub fn part(seed: u64, part: u64) -> Rng {
        Rng(mix(seed ^ mix(part.wrapping_add(1).wrapping_mul(STEP))))
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `limit`, which is not zero; each is as likely as another up to limit / 2^64.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        scaled(self.bits(), limit)
    }

    /// A number from 0 to below 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_algorithm() {
        let mut rng = Rng(1_234_567);
        let first: Vec<_> = (0..5).map(|_| rng.bits()).collect();
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
        let (mut units, mut below) = (0.0, [0u32; 3]);
        for _ in 0..count {
            let unit = rng.unit();
            assert!((0.0..1.0).contains(&unit));
            units += unit;
            below[rng.below(3) as usize] += 1;
        }
        assert!((units / f64::from(count) - 0.5).abs() < 0.01);
        assert!(below.iter().all(|&n| n.abs_diff(count / 3) < 1000), "{below:?}");
    }
}
