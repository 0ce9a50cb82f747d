//! The synthetic trace of the benches.

use lode_types::Direction;

pub const ZIPF_EXPONENT: f64 = 0.9;
pub const WRITES_PERCENT: u64 = 30;
const SEED: u64 = 0x10de;

struct Generator(u64);

impl Generator {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Zipf-distributed requests, each block number its rank scattered over 64 bits.
pub fn zipf_trace(requests: usize, blocks: usize) -> Vec<(Direction, u64)> {
    let mut sum = 0.0;
    let cumulative: Vec<f64> = (1..=blocks)
        .map(|rank| {
            sum += (rank as f64).powf(-ZIPF_EXPONENT);
            sum
        })
        .collect();
    let mut generator = Generator(SEED);
    (0..requests)
        .map(|_| {
            let at = generator.unit() * sum;
            let rank = cumulative.partition_point(|&c| c < at) as u64;
            let is_write = generator.next() % 100 < WRITES_PERCENT;
            let op = if is_write { Direction::Write } else { Direction::Read };
            (op, (rank + 1).wrapping_mul(0xd134_2543_de82_ef95))
        })
        .collect()
}
