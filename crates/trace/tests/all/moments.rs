//! How moments of a trace are written.

use lode_trace::{Moment, MomentError};
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
