//! Words compared at once. It must not know what the words mean.

/// Words that are compared at once.
pub(crate) const LANES: usize = 16;

/// Bit `i` says that word `i` is `wanted` in the bits of `mask`: found without a branch, for where it is may be anyone's guess.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn matches(words: &[u32; LANES], mask: u32, wanted: u32) -> u32 {
    use core::arch::x86_64::{
        _mm_and_si128, _mm_cmpeq_epi32, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set_epi32,
        _mm_set1_epi32,
    };
    let four = |first: usize| {
        let [a, b, c, d] = std::array::from_fn(|place| words[first + place] as i32);
        // SAFETY: the instructions belong to SSE2, which every x86_64 processor has, and work on values only. (The
        // compiler does not find this way by itself: it takes five times as many instructions.)
        unsafe {
            let masked = _mm_and_si128(_mm_set_epi32(d, c, b, a), _mm_set1_epi32(mask as i32));
            _mm_cmpeq_epi32(masked, _mm_set1_epi32(wanted as i32))
        }
    };
    // SAFETY: as above.
    unsafe {
        let low = _mm_packs_epi32(four(0), four(4));
        let high = _mm_packs_epi32(four(8), four(12));
        _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn matches(words: &[u32; LANES], mask: u32, wanted: u32) -> u32 {
    words
        .iter()
        .enumerate()
        .fold(0, |found, (place, &word)| found | u32::from(word & mask == wanted) << place)
}

/// Bit `i` says that number `i` is below `bound`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn below(numbers: &[i32; LANES], bound: i32) -> u32 {
    use core::arch::x86_64::{
        _mm_cmplt_epi32, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set_epi32, _mm_set1_epi32,
    };
    let four = |first: usize| {
        let [a, b, c, d] = std::array::from_fn(|place| numbers[first + place]);
        // SAFETY: the instructions belong to SSE2, which every x86_64 processor has, and work on values only.
        unsafe { _mm_cmplt_epi32(_mm_set_epi32(d, c, b, a), _mm_set1_epi32(bound)) }
    };
    // SAFETY: as above.
    unsafe {
        let low = _mm_packs_epi32(four(0), four(4));
        let high = _mm_packs_epi32(four(8), four(12));
        _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn below(numbers: &[i32; LANES], bound: i32) -> u32 {
    numbers.iter().enumerate().fold(0, |mask, (place, &number)| mask | u32::from(number < bound) << place)
}

/// The least of some numbers.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn least(numbers: &[i32; LANES]) -> i32 {
    use core::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_andnot_si128, _mm_cmplt_epi32, _mm_cvtsi128_si32, _mm_or_si128,
        _mm_set_epi32, _mm_shuffle_epi32,
    };
    let four = |first: usize| {
        let [a, b, c, d] = std::array::from_fn(|place| numbers[first + place]);
        // SAFETY: the instruction belongs to SSE2, which every x86_64 processor has, and works on values only.
        unsafe { _mm_set_epi32(d, c, b, a) }
    };
    let lesser = |one: __m128i, other: __m128i| {
        // SAFETY: as above.
        unsafe {
            let is_one = _mm_cmplt_epi32(one, other);
            _mm_or_si128(_mm_and_si128(is_one, one), _mm_andnot_si128(is_one, other))
        }
    };
    let mut least = lesser(lesser(four(0), four(4)), lesser(four(8), four(12)));
    // SAFETY: as above.
    unsafe {
        least = lesser(least, _mm_shuffle_epi32::<0b01_00_11_10>(least));
        least = lesser(least, _mm_shuffle_epi32::<0b10_11_00_01>(least));
        _mm_cvtsi128_si32(least)
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn least(numbers: &[i32; LANES]) -> i32 {
    numbers.iter().copied().fold(i32::MAX, i32::min)
}

#[cfg(test)]
mod tests {
    use super::{below, least, matches};

    #[test]
    fn every_place_has_its_bit() {
        for (mask, wanted) in [(u32::MAX, 0), (u32::MAX, u32::MAX), (0xffff_0000, 0x8000_0000), (0, 0)] {
            for set in 0..=0xffffu32 {
                let other = if mask == 0 { 7 } else { wanted ^ (mask & mask.wrapping_neg()) };
                let words = std::array::from_fn(|place| match set >> place & 1 {
                    1 => wanted | (!mask & place as u32),
                    _ => other,
                });
                let expected = if mask == 0 { 0xffff } else { set };
                assert_eq!(matches(&words, mask, wanted), expected);
            }
        }
    }

    #[test]
    fn every_number_below_has_its_bit() {
        for bound in [i32::MIN + 1, -3, 0, 1, i32::MAX] {
            for set in 0..=0xffffu32 {
                let numbers = std::array::from_fn(|place| bound - (set >> place & 1) as i32);
                assert_eq!(below(&numbers, bound), set);
            }
        }
    }

    #[test]
    fn the_least_is_found_in_every_place() {
        for place in 0..16 {
            for [low, high] in [[i32::MIN, -1], [-5, 7], [3, i32::MAX], [9, 9]] {
                let numbers =
                    std::array::from_fn(|at| if at == place { low } else { high - (at % 2) as i32 });
                assert_eq!(least(&numbers), low.min(high - 1));
            }
        }
    }
}
