//! Numbers and fields out of raw bytes, without allocation or UTF-8 checks. It must not know formats.

use memchr::memchr;

/// A line that is consumed from the left.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    pub(crate) rest: &'a [u8],
}

pub(crate) const ASCII_ZEROS: u64 = 0x3030_3030_3030_3030;
const POWERS_OF_TEN: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

impl<'a> Fields<'a> {
    pub(crate) fn new(line: &'a [u8]) -> Fields<'a> {
        Fields { rest: line }
    }

    /// Consumes `byte` if it comes next.
    #[inline(always)]
    pub(crate) fn skip(&mut self, byte: u8) -> Option<()> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        (first == byte).then_some(())
    }

    /// Consumes a decimal number of at least one digit; `None` without digits or when it does not fit.
    #[inline(always)]
    pub(crate) fn number(&mut self) -> Option<u64> {
        let (value, rest) = number(self.rest)?;
        self.rest = rest;
        Some(value)
    }

    /// Consumes a run of at least one digit, whatever its value.
    #[inline(always)]
    pub(crate) fn digits(&mut self) -> Option<()> {
        let count = match self.rest.first_chunk::<8>().map(digit_prefix) {
            Some((_, count)) if count < 8 => count,
            _ => self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count(),
        };
        self.rest = &self.rest[count..];
        (count > 0).then_some(())
    }

    /// Consumes seconds with at most nine decimals ("12", "12.5") and gives nanoseconds.
    pub(crate) fn seconds_as_ns(&mut self) -> Option<u64> {
        let whole = self.number()?.checked_mul(1_000_000_000)?;
        if self.rest.first() != Some(&b'.') {
            return Some(whole);
        }
        self.rest = &self.rest[1..];
        let before = self.rest.len();
        let fraction = self.number()?;
        let decimals = before - self.rest.len();
        let scale = 10_u64.pow(u32::try_from(9_usize.checked_sub(decimals)?).ok()?);
        whole.checked_add(fraction * scale)
    }

    /// Consumes everything up to `byte`, and `byte` itself.
    #[inline]
    pub(crate) fn until(&mut self, byte: u8) -> Option<&'a [u8]> {
        let at = memchr(byte, self.rest)?;
        let field = &self.rest[..at];
        self.rest = &self.rest[at + 1..];
        Some(field)
    }

    /// Consumes blanks and then the longest run without blanks; `None` at the end.
    pub(crate) fn token(&mut self) -> Option<&'a [u8]> {
        let start = self.rest.iter().position(|&b| !is_blank(b))?;
        let rest = &self.rest[start..];
        let len = rest.iter().position(|&b| is_blank(b)).unwrap_or(rest.len());
        self.rest = &rest[len..];
        Some(&rest[..len])
    }
}

/// A decimal number at the start of `text` and what follows it.
///
/// Eight characters at a time: the digits among them are found with one mask and weighed with three
/// multiplications. The steps stand one after the other because a field's numbers nearly always end in the same
/// chunk, which a branch predictor learns. Everything goes by value, to stay in registers.
#[inline(always)]
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let Some(chunk) = text.first_chunk::<8>() else { return number_by_digit(text, None) };
    let (value, count) = weigh(chunk);
    if count < 8 {
        return (count > 0).then(|| (value, &text[count..]));
    }
    let text = &text[8..];
    let Some(chunk) = text.first_chunk::<8>() else { return number_by_digit(text, Some(value)) };
    let (low, count) = weigh(chunk);
    if count < 8 {
        return Some((value * POWERS_OF_TEN[count] + low, &text[count..]));
    }
    let (value, text) = (value * POWERS_OF_TEN[8] + low, &text[8..]);
    match text.first_chunk::<8>().map(weigh) {
        // At most 19 digits cannot overflow.
        Some((low, count)) if count < 4 => Some((value * POWERS_OF_TEN[count] + low, &text[count..])),
        _ => number_by_digit(text, Some(value)),
    }
}

/// Goes on, one digit at a time, with a number whose leading digits are known, if there were any.
#[cold]
fn number_by_digit(mut text: &[u8], mut value: Option<u64>) -> Option<(u64, &[u8])> {
    while let Some((digit @ b'0'..=b'9', rest)) = text.split_first() {
        value = Some(value.unwrap_or(0).checked_mul(10)?.checked_add(u64::from(digit - b'0'))?);
        text = rest;
    }
    Some((value?, text))
}

/// The eight bytes with '0' taken off each, and how many of them are digits before the first that is not.
#[inline(always)]
fn digit_prefix(bytes: &[u8; 8]) -> (u64, usize) {
    let word = u64::from_le_bytes(*bytes);
    (word ^ ASCII_ZEROS, digit_mask(word).trailing_zeros() as usize / 8)
}

/// The high bit of each of eight characters that is no digit.
#[inline(always)]
pub(crate) fn digit_mask(word: u64) -> u64 {
    let bytes = word ^ ASCII_ZEROS;
    // Without their high bits the bytes cannot carry into each other.
    (((bytes & 0x7f7f_7f7f_7f7f_7f7f) + 0x7676_7676_7676_7676) | bytes) & 0x8080_8080_8080_8080
}

/// The value of the digits at the start of `bytes`, and their number.
#[inline(always)]
fn weigh(bytes: &[u8; 8]) -> (u64, usize) {
    let (digits, count) = digit_prefix(bytes);
    if count == 8 {
        return (eight_digits(digits), 8);
    }
    // The digits move to the high end and zeros come before them; two shifts, as one cannot be by 64.
    (eight_digits(digits << 1 << (63 - 8 * count)), count)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

/// The value of eight decimal digits (0 to 9 each), the first in the lowest byte.
#[inline(always)]
pub(crate) fn eight_digits(digits: u64) -> u64 {
    let pairs = (digits.wrapping_mul(10 * 256 + 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100 * 65_536 + 1) >> 16) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000 * 4_294_967_296 + 1) >> 32
}

/// The whole of `text` as a decimal number.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    let mut fields = Fields::new(text);
    let value = fields.number()?;
    fields.rest.is_empty().then_some(value)
}

/// The whole of `text` as a hexadecimal number, with or without `0x`.
pub(crate) fn hex(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0, |value, &digit| Some(value << 4 | u64::from((digit as char).to_digit(16)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The obvious way.
    fn number_oracle(text: &[u8]) -> (Option<u64>, usize) {
        let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
        (std::str::from_utf8(&text[..digits]).ok().and_then(|s| s.parse().ok()), digits)
    }

    proptest! {
        #[test]
        fn numbers_match_the_standard_library(text in "[0-9]{0,22}[,. a0-9\u{80}-\u{ff}]{0,12}") {
            let mut fields = Fields::new(text.as_bytes());
            let (expected, digits) = number_oracle(text.as_bytes());
            let got = fields.number();
            prop_assert_eq!(got, expected);
            if got.is_some() {
                prop_assert_eq!(fields.rest, &text.as_bytes()[digits..]);
            }
        }

        #[test]
        fn every_value_is_read_back(value: u64, tail in "[,x ]{0,9}") {
            let text = format!("{value}{tail}");
            let mut fields = Fields::new(text.as_bytes());
            prop_assert_eq!(fields.number(), Some(value));
            prop_assert_eq!(fields.rest, tail.as_bytes());
            prop_assert_eq!(decimal(text.as_bytes()), tail.is_empty().then_some(value));
            prop_assert_eq!(hex(format!("{value:x}").as_bytes()), Some(value));
        }

        #[test]
        fn raw_bytes_never_panic(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), b'0'..=b'9'], 0..40)) {
            let (expected, _) = number_oracle(&bytes);
            prop_assert_eq!(Fields::new(&bytes).number(), expected);
            let mut fields = Fields::new(&bytes);
            let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
            prop_assert_eq!(fields.digits().is_some(), digits > 0);
            prop_assert_eq!(fields.rest, &bytes[digits..]);
            let _ = (Fields::new(&bytes).seconds_as_ns(), hex(&bytes), decimal(&bytes));
        }
    }

    #[test]
    fn seconds() {
        for (text, ns) in [
            ("0.000011950", Some(11_950)),
            ("5633898", Some(5_633_898_000_000_000)),
            ("1.5", Some(1_500_000_000)),
            ("1266874889.708658509", Some(1_266_874_889_708_658_509)),
            ("1.", None),
            (".5", None),
            ("1.0000000001", None),
            ("18446744074", None),
            ("18446744073.999999999", None),
            ("-1", None),
        ] {
            assert_eq!(Fields::new(text.as_bytes()).seconds_as_ns(), ns, "{text}");
        }
    }

    #[test]
    fn tokens() {
        let mut fields = Fields::new(b"  8,16\t3 4 \r");
        let tokens: Vec<_> = std::iter::from_fn(|| fields.token()).collect();
        assert_eq!(tokens, [&b"8,16"[..], b"3", b"4"]);
    }
}
