//! What stands at the head of a report: when it was made, by what, and with which command. It must not know what follows.

use std::time::{SystemTime, UNIX_EPOCH};

use lode_plan::Made;

use crate::amounts::command_line;

/// Names a time, in seconds since 1970, at which a report shall have been made: that of the sources, so that the same work
/// gives the same bytes (reproducible-builds.org).
const FIXED_TIME: &str = "SOURCE_DATE_EPOCH";

const SECONDS_PER_DAY: u64 = 86_400;

/// How the report of this run is made.
pub fn made() -> Made {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let fixed_s = std::env::var(FIXED_TIME).ok().and_then(|text| text.parse().ok());
    let now_s = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let command = format!("lode {}", command_line(&words));
    Made { date: date_of(fixed_s.unwrap_or_else(now_s)), command }
}

/// The lines above a report's text: its title, how it was made, and the result in one sentence where that is known by then.
pub fn heading(title: &str, in_short: Option<String>) -> String {
    let short = in_short.map(|sentence| sentence + "\n").unwrap_or_default();
    format!("{title}\n{}\n{short}\n", made().line())
}

/// The day of a time since 1970, in UTC, by the Gregorian calendar.
fn date_of(seconds: u64) -> String {
    let mut days = seconds / SECONDS_PER_DAY;
    let mut year = 1970;
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    loop {
        let of_year = if is_leap(year) { 366 } else { 365 };
        // No clock goes farther; whatever it says ends.
        if days < of_year || year == 9999 {
            break;
        }
        days -= of_year;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for of_month in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < of_month {
            break;
        }
        days -= of_month;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", days.min(30) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01"),
            (86_399, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_735_603_200, "2024-12-31"),
            (1_735_689_600, "2025-01-01"),
            (4_107_542_400, "2100-03-01"),
            (u64::MAX, "9999-12-31"),
        ] {
            assert_eq!(date_of(seconds), expected, "{seconds}");
        }
    }
}
