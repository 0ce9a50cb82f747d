//! Sixteen characters at once: which are digits, and what the digits are worth. On x86_64 by SSE2, elsewhere by words of
//! eight. It must not know formats.

/// Bit `i` says that character `i` is no decimal digit.
#[inline(always)]
pub(crate) fn no_digits(text: &[u8; 32]) -> u32 {
    let (low, high) = text.split_at(16);
    match (low.first_chunk(), high.first_chunk()) {
        (Some(low), Some(high)) => imp::no_digits(low) | imp::no_digits(high) << 16,
        _ => u32::MAX,
    }
}

/// Whether all characters are decimal digits.
#[inline(always)]
pub(crate) fn all_digits(text: &[u8; 16]) -> bool {
    imp::no_digits(text) == 0
}

/// The number in the last `count` of these characters, which are at most 16 digits.
#[inline(always)]
pub(crate) fn last_digits(text: &[u8; 16], count: usize) -> u64 {
    let [high, low] = imp::last_digits(text, KEEP.get(count).unwrap_or(&KEEP[0]));
    u64::from(high) * 100_000_000 + u64::from(low)
}

/// The numbers of two words of eight digits each (0 to 9, the first in the lowest byte).
#[inline(always)]
pub(crate) fn two_numbers(first: u64, second: u64) -> [u32; 2] {
    imp::two_numbers(first, second)
}

/// For each count, a mask of that many of the last bytes.
const KEEP: [[u8; 16]; 17] = {
    let mut masks = [[0; 16]; 17];
    let mut count = 0;
    while count <= 16 {
        let mut at = 16 - count;
        while at < 16 {
            masks[count][at] = 0xff;
            at += 1;
        }
        count += 1;
    }
    masks
};

#[cfg(target_arch = "x86_64")]
use sse2 as imp;
#[cfg(not(target_arch = "x86_64"))]
use words as imp;

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod sse2 {
    use core::arch::x86_64::{
        __m128i, _mm_add_epi8, _mm_and_si128, _mm_cmpgt_epi8, _mm_cvtsi128_si64, _mm_madd_epi16,
        _mm_movemask_epi8, _mm_packs_epi32, _mm_set_epi16, _mm_set_epi64x, _mm_set1_epi8, _mm_setzero_si128,
        _mm_sub_epi8, _mm_unpackhi_epi8, _mm_unpacklo_epi8,
    };

    #[inline(always)]
    fn load(bytes: &[u8; 16]) -> __m128i {
        let bits = u128::from_le_bytes(*bytes);
        // SAFETY: SSE2 is part of x86_64, and the instruction works on values only.
        unsafe { _mm_set_epi64x((bits >> 64) as i64, bits as i64) }
    }

    #[inline(always)]
    pub(super) fn no_digits(text: &[u8; 16]) -> u32 {
        // SAFETY: as above. The digits become the ten least numbers of those with a sign.
        unsafe {
            let moved = _mm_add_epi8(load(text), _mm_set1_epi8((0x80 - b'0') as i8));
            _mm_movemask_epi8(_mm_cmpgt_epi8(moved, _mm_set1_epi8(i8::MIN + 9))) as u32
        }
    }

    #[inline(always)]
    pub(super) fn last_digits(text: &[u8; 16], keep: &[u8; 16]) -> [u32; 2] {
        // SAFETY: as above.
        let digits =
            unsafe { _mm_and_si128(_mm_sub_epi8(load(text), _mm_set1_epi8(b'0' as i8)), load(keep)) };
        numbers(digits)
    }

    #[inline(always)]
    pub(super) fn two_numbers(first: u64, second: u64) -> [u32; 2] {
        // SAFETY: as above.
        numbers(unsafe { _mm_set_epi64x(second as i64, first as i64) })
    }

    /// Neighbours are joined to numbers of two, four and eight digits; those of four (at most 9,999) still fit the
    /// 16 bits with a sign that they are packed to.
    #[inline(always)]
    fn numbers(digits: __m128i) -> [u32; 2] {
        // SAFETY: as above.
        let both = unsafe {
            let zero = _mm_setzero_si128();
            let tens = _mm_set_epi16(1, 10, 1, 10, 1, 10, 1, 10);
            let hundreds = _mm_set_epi16(1, 100, 1, 100, 1, 100, 1, 100);
            let thousands = _mm_set_epi16(1, 10_000, 1, 10_000, 1, 10_000, 1, 10_000);
            let low = _mm_madd_epi16(_mm_unpacklo_epi8(digits, zero), tens);
            let high = _mm_madd_epi16(_mm_unpackhi_epi8(digits, zero), tens);
            let fours = _mm_madd_epi16(_mm_packs_epi32(low, high), hundreds);
            let eights = _mm_madd_epi16(_mm_packs_epi32(fours, fours), thousands);
            _mm_cvtsi128_si64(eights) as u64
        };
        [both as u32, (both >> 32) as u32]
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod words {
    use crate::scan::{digit_mask, eight_digits};

    const ZEROS: u128 = 0x3030_3030_3030_3030_3030_3030_3030_3030;

    /// Bits 7, 15 and so on, gathered to one byte.
    fn gather(mask: u64) -> u32 {
        ((mask >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
    }

    pub(super) fn no_digits(text: &[u8; 16]) -> u32 {
        let bits = u128::from_le_bytes(*text);
        gather(digit_mask(bits as u64)) | gather(digit_mask((bits >> 64) as u64)) << 8
    }

    pub(super) fn last_digits(text: &[u8; 16], keep: &[u8; 16]) -> [u32; 2] {
        let digits = (u128::from_le_bytes(*text) ^ ZEROS) & u128::from_le_bytes(*keep);
        two_numbers(digits as u64, (digits >> 64) as u64)
    }

    pub(super) fn two_numbers(first: u64, second: u64) -> [u32; 2] {
        [eight_digits(first) as u32, eight_digits(second) as u32]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_text() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(
            prop_oneof![b'0'..=b'9', any::<u8>(), prop::sample::select(b"/:,\n".to_vec())],
            32,
        )
    }

    proptest! {
        #[test]
        fn digits_are_told_from_all_else(text in any_text()) {
            let text: [u8; 32] = text.try_into().expect("32 characters");
            let expected = text.iter().rev().fold(0, |mask, byte| mask << 1 | u32::from(!byte.is_ascii_digit()));
            prop_assert_eq!(no_digits(&text), expected);
            for (half, shift) in text.chunks_exact(16).zip([0, 16]) {
                let half = half.first_chunk().expect("16 characters");
                prop_assert_eq!(words::no_digits(half), expected >> shift & 0xffff);
                prop_assert_eq!(all_digits(half), expected >> shift & 0xffff == 0);
            }
        }

        #[test]
        fn the_last_digits_are_a_number(junk in any_text(), digits in "[0-9]{0,16}") {
            let mut text: [u8; 16] = junk[..16].try_into().expect("16 characters");
            text[16 - digits.len()..].copy_from_slice(digits.as_bytes());
            let expected = digits.parse().unwrap_or(0);
            prop_assert_eq!(last_digits(&text, digits.len()), expected);
            let [high, low] = words::last_digits(&text, &KEEP[digits.len()]);
            prop_assert_eq!(u64::from(high) * 100_000_000 + u64::from(low), expected);
        }

        #[test]
        fn two_numbers_at_once(first in 0u32..100_000_000, second in 0u32..100_000_000) {
            let word = |number: u32| u64::from_le_bytes(format!("{number:08}").into_bytes().try_into().expect("8"));
            let [one, two] = [first, second].map(|number| word(number) ^ 0x3030_3030_3030_3030);
            prop_assert_eq!(two_numbers(one, two), [first, second]);
            prop_assert_eq!(words::two_numbers(one, two), [first, second]);
        }
    }
}
