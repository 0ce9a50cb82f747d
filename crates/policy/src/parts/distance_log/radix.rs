//! Sorting of numbers by their digits, from the lowest up: many small numbers in a few passes, without comparisons that
//! the processor would have to guess. It must not know what the numbers mean.

const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;

/// Fewer numbers than this are sorted by comparison.
const WORTH_IT: usize = 512;

/// Sorts `numbers`; `spare` lends its memory.
pub(crate) fn sort(numbers: &mut Vec<u32>, spare: &mut Vec<u32>) {
    if numbers.len() < WORTH_IT {
        return numbers.sort_unstable();
    }
    let all_bits = numbers.iter().fold(0, |bits, number| bits | number);
    spare.reserve_exact(numbers.len().saturating_sub(spare.len()));
    spare.resize(numbers.len(), 0);
    for shift in (0..u32::BITS - all_bits.leading_zeros()).step_by(DIGIT_BITS as usize) {
        let digit = |number: u32| (number >> shift) as usize % DIGITS;
        let mut places = [0u32; DIGITS];
        numbers.iter().for_each(|&number| places[digit(number)] += 1);
        let mut before = 0;
        for place in &mut places {
            before += std::mem::replace(place, before);
        }
        for &number in &*numbers {
            let place = &mut places[digit(number)];
            spare[*place as usize] = number;
            *place += 1;
        }
        std::mem::swap(numbers, spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sorts_as_comparison_does(
            mut numbers in prop::collection::vec(any::<u32>(), 0..4 * WORTH_IT), shift in 0u32..32)
        {
            numbers.iter_mut().for_each(|number| *number >>= shift);
            let mut expected = numbers.clone();
            expected.sort_unstable();
            sort(&mut numbers, &mut vec![7; 3]);
            prop_assert_eq!(numbers, expected);
        }
    }
}
