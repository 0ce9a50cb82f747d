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
