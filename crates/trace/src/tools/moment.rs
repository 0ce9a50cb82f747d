//! Points in a trace's time as people write them. It must not know traces.
//!
//! A trace's clock starts anywhere (1601, 1970, the boot of a machine, zero), so that there is no date to be given:
//! `2h` is two hours after the trace's first request, and `@1266874889.5s` is what the trace's own clock shows.

use std::fmt;
use std::str::FromStr;

/// Units and their nanoseconds.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];
/// Decimals that can matter: a day has 14 digits of nanoseconds.
const MAX_DECIMALS: usize = 14;

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Nanoseconds after the first request of the trace.
    SinceStart(u64),
    /// Nanoseconds on the trace's own clock.
    OnClock(u64),
}

/// A text that is no point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MomentError {
    /// No number with a unit.
    Malformed,
    /// 2^64 nanoseconds or more.
    TooLarge,
}

impl fmt::Display for MomentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MomentError::Malformed => {
                "write a number with ns, us, ms, s, min, h or d, such as 10s or 1.5h after the first request, or with @ \
                 before it for the trace's own clock, such as @1266874889s"
            }
            MomentError::TooLarge => "that is 2^64 ns (584 years) or more; write an earlier time",
        })
    }
}

impl std::error::Error for MomentError {}

impl Moment {
    /// On the clock of a trace whose first request came at `start_ns`. It may lie beyond what 64 bits hold.
    pub fn on_clock_ns(self, start_ns: u64) -> u128 {
        match self {
            Moment::SinceStart(ns) => u128::from(start_ns) + u128::from(ns),
            Moment::OnClock(ns) => u128::from(ns),
        }
    }
}

impl FromStr for Moment {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Moment, MomentError> {
        let text = text.trim();
        match text.strip_prefix('@') {
            Some(text) => Ok(Moment::OnClock(duration_ns(text)?)),
            None => Ok(Moment::SinceStart(duration_ns(text)?)),
        }
    }
}

/// Nanoseconds of a number with a unit; what is below a nanosecond is dropped.
fn duration_ns(text: &str) -> Result<u64, MomentError> {
    use MomentError::{Malformed, TooLarge};
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at(digits(text));
    let (decimals, unit) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("0", rest),
    };
    if whole.is_empty() || decimals.is_empty() {
        return Err(Malformed);
    }
    // Digits alone fail to be a number only by being too many.
    let whole: u64 = whole.parse().map_err(|_| TooLarge)?;
    let decimals = &decimals[..decimals.len().min(MAX_DECIMALS)];
    let parts: u128 = decimals.parse().map_err(|_| Malformed)?;
    let unit = unit.trim_start();
    if unit.is_empty() && whole == 0 && parts == 0 {
        return Ok(0);
    }
    let &(_, unit_ns) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(Malformed)?;
    let fraction_ns = parts * u128::from(unit_ns) / 10_u128.pow(decimals.len() as u32);
    let ns = u128::from(whole) * u128::from(unit_ns) + fraction_ns;
    u64::try_from(ns).map_err(|_| TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_spelling_of_a_time() {
        use MomentError::{Malformed, TooLarge};
        for (text, expected) in [
            ("10s", Ok(Moment::SinceStart(10_000_000_000))),
            ("2h", Ok(Moment::SinceStart(7_200_000_000_000))),
            (" 1.5 h ", Ok(Moment::SinceStart(5_400_000_000_000))),
            ("90m", Ok(Moment::SinceStart(5_400_000_000_000))),
            ("90min", Ok(Moment::SinceStart(5_400_000_000_000))),
            ("7d", Ok(Moment::SinceStart(604_800_000_000_000))),
            ("250ms", Ok(Moment::SinceStart(250_000_000))),
            ("3us", Ok(Moment::SinceStart(3000))),
            ("1.9ns", Ok(Moment::SinceStart(1))),
            ("0", Ok(Moment::SinceStart(0))),
            ("@0", Ok(Moment::OnClock(0))),
            ("@1266874889.708658509s", Ok(Moment::OnClock(1_266_874_889_708_658_509))),
            ("@18446744073709551615ns", Ok(Moment::OnClock(u64::MAX))),
            ("18446744073709551616ns", Err(TooLarge)),
            ("213504d", Err(TooLarge)),
            ("99999999999999999999999s", Err(TooLarge)),
            ("", Err(Malformed)),
            ("@", Err(Malformed)),
            ("10", Err(Malformed)),
            ("-1s", Err(Malformed)),
            ("1.s", Err(Malformed)),
            (".5s", Err(Malformed)),
            ("1 week", Err(Malformed)),
            ("1e3s", Err(Malformed)),
            ("2026-01-01", Err(Malformed)),
            ("1\u{e9}s", Err(Malformed)),
        ] {
            assert_eq!(text.parse(), expected, "{text}");
        }
        assert_eq!(Moment::SinceStart(5).on_clock_ns(u64::MAX), u128::from(u64::MAX) + 5);
        assert_eq!(Moment::OnClock(5).on_clock_ns(7), 5);
    }

    proptest! {
        #[test]
        fn any_text_is_a_time_or_an_error(text in "@?[0-9.]{0,30}[a-z \u{80}-\u{ff}]{0,4}") {
            let _ = text.parse::<Moment>();
        }

        #[test]
        fn decimals_are_exact(seconds in 0u64..18_000_000_000, ns in 0u64..1_000_000_000) {
            let text = format!("@{seconds}.{ns:09}s");
            prop_assert_eq!(text.parse(), Ok(Moment::OnClock(seconds * 1_000_000_000 + ns)));
        }
    }
}
