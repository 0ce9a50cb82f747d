//! Approximate counts of distinct hashes that can be united (Flajolet et al., "HyperLogLog", AofA 2007), with the
//! estimator of Ertl ("New cardinality estimation algorithms for HyperLogLog sketches", 2017; as recalled), which needs
//! no correction for small or large counts. It must not know what is hashed.

/// Fewest and most registers, as powers of two.
pub(crate) const PRECISION_BITS: std::ops::RangeInclusive<u8> = 4..=16;

/// A set of 64-bit hashes of which little is remembered.
#[derive(Clone, Debug)]
pub(crate) struct HyperLogLog {
    /// One more than the zeros in front of the hashes that fell here, at most.
    registers: Vec<u8>,
    bits: u32,
}

impl HyperLogLog {
    /// An empty set of `2^bits` registers, within [`PRECISION_BITS`].
    pub(crate) fn new(bits: u8) -> HyperLogLog {
        HyperLogLog { registers: vec![0; 1 << bits], bits: u32::from(bits) }
    }

    /// Adds a hash, all of whose bits must be as good as random.
    #[inline]
    pub(crate) fn add(&mut self, hash: u64) {
        let at = (hash >> (u64::BITS - self.bits)) as usize;
        let zeros = (hash << self.bits).leading_zeros().min(u64::BITS - self.bits);
        self.registers[at] = self.registers[at].max(zeros as u8 + 1);
    }

    /// Adds all of another set of the same number of registers; says whether that changed anything.
    pub(crate) fn unite(&mut self, other: &HyperLogLog) -> bool {
        let mut is_changed = false;
        for (register, &other) in self.registers.iter_mut().zip(&other.registers) {
            is_changed |= other > *register;
            *register = (*register).max(other);
        }
        is_changed
    }

    /// About how many distinct hashes were added.
    pub(crate) fn count(&self) -> f64 {
        let mut counts = [0u32; u64::BITS as usize + 2];
        self.registers.iter().for_each(|&register| counts[usize::from(register)] += 1);
        let registers = self.registers.len() as f64;
        let last = (u64::BITS - self.bits) as usize;
        let mut sum = registers * tau(1.0 - f64::from(counts[last + 1]) / registers);
        for &count in counts[1..=last].iter().rev() {
            sum = 0.5 * (sum + f64::from(count));
        }
        sum += registers * sigma(f64::from(counts[0]) / registers);
        registers * registers / (2.0 * std::f64::consts::LN_2 * sum)
    }

    /// Takes out everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.registers.fill(0);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.registers.capacity()
    }
}

/// The sum of `x^(2^k) 2^(k - 1)` over k from 1, and x.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut sum, mut factor) = (x, 1.0);
    loop {
        x *= x;
        let before = sum;
        sum += x * factor;
        factor += factor;
        if sum == before {
            return sum;
        }
    }
}

/// A third of `1 - x`, less the sum of `(1 - x^(2^-k))^2 2^-k` over k from 1.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut sum, mut factor) = (1.0 - x, 1.0);
    loop {
        x = x.sqrt();
        let before = sum;
        factor *= 0.5;
        sum -= (1.0 - x).powi(2) * factor;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HyperLogLog;
    use crate::ordered::mix;

    #[test]
    fn counts_few_and_many_alike() {
        for bits in [6u8, 12] {
            let error = 1.04 / f64::from(1u32 << bits).sqrt();
            let (mut set, mut added) = (HyperLogLog::new(bits), 0u64);
            assert_eq!(set.count(), 0.0);
            for wanted in [1u64, 10, 100, 1000, 10_000, 100_000, 1_000_000] {
                while added < wanted {
                    added += 1;
                    set.add(mix(added));
                    set.add(mix(added));
                }
                let off = set.count() / wanted as f64 - 1.0;
                assert!(off.abs() < 3.5 * error, "{bits} bits, {wanted}: off by {off}");
            }
        }
    }

    #[test]
    fn a_union_is_the_set_of_both() {
        let mut parts = [HyperLogLog::new(8), HyperLogLog::new(8), HyperLogLog::new(8)];
        for number in 0..5000 {
            let part = if number % 3 == 0 { 0 } else { 1 };
            parts[part].add(mix(number));
            parts[2].add(mix(number));
        }
        let [mut one, other, both] = parts;
        one.unite(&other);
        assert_eq!(one.count(), both.count());
        assert_eq!(one.registers, both.registers);
        one.clear();
        assert_eq!(one.count(), 0.0);
    }
}
