//! Eight words compared at once. It must not know what the words mean.

/// Words that are compared at once.
pub(crate) const LANES: usize = 8;

/// Bit `i` says that word `i` is `wanted`: found without a branch, for where it is may be anyone's guess.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn matches(words: &[u32; LANES], wanted: u32) -> u32 {
    use core::arch::x86_64::{
        _mm_cmpeq_epi32, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set_epi32, _mm_set1_epi32,
    };
    let [a, b, c, d, e, f, g, h] = words.map(|word| word as i32);
    // SAFETY: the instructions belong to SSE2, which every x86_64 processor has, and work on values only. (The
    // compiler does not find this way by itself: it takes five times as many instructions.)
    unsafe {
        let wanted = _mm_set1_epi32(wanted as i32);
        let low = _mm_cmpeq_epi32(_mm_set_epi32(d, c, b, a), wanted);
        let high = _mm_cmpeq_epi32(_mm_set_epi32(h, g, f, e), wanted);
        let both = _mm_packs_epi32(low, high);
        _mm_movemask_epi8(_mm_packs_epi16(both, both)) as u32 & 0xff
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn matches(words: &[u32; LANES], wanted: u32) -> u32 {
    words.iter().enumerate().fold(0, |mask, (place, &word)| mask | u32::from(word == wanted) << place)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn every_place_has_its_bit() {
        for wanted in [0, 1, 0x8000_0000, u32::MAX] {
            for set in 0..=0xffu32 {
                let words = std::array::from_fn(|place| if set >> place & 1 == 1 { wanted } else { !wanted });
                assert_eq!(matches(&words, wanted), set);
            }
        }
    }
}
