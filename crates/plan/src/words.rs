//! Amounts in sentences. It must not know what they are amounts of.

use lode_hardware::time::{DAYS_PER_YEAR, HOURS_PER_DAY};

/// Years, or days or hours where those would be none.
pub fn show_life(years: f64) -> String {
    let days = years * DAYS_PER_YEAR;
    match days {
        _ if years >= 1.0 => format!("{years:.1} years"),
        _ if days >= 1.0 => format!("{days:.0} days"),
        _ => format!("{:.2} hours", days * HOURS_PER_DAY),
    }
}

/// US dollars: cents, and below a dollar two digits, without an exponent.
pub(crate) fn show_usd(usd: f64) -> String {
    let zeros = if usd > 0.0 { (-usd.log10()).floor().max(0.0) as usize } else { 0 };
    format!("{usd:.0$}", zeros + 2)
}

/// A VM's name as the subject of a sentence: a number alone is none.
pub(crate) fn show_vm(name: &str) -> String {
    if name.contains(|c: char| c.is_alphabetic()) { name.to_owned() } else { format!("VM {name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_life_is_told_in_days_or_hours() {
        for (years, expected) in
            [(28.74, "28.7 years"), (1.0, "1.0 years"), (0.5, "182 days"), (0.000_018_02, "0.16 hours")]
        {
            assert_eq!(show_life(years), expected);
        }
    }

    #[test]
    fn a_number_is_no_subject() {
        assert_eq!(["1", "web_1", "a:1"].map(show_vm), ["VM 1", "web_1", "a:1"]);
    }

    #[test]
    fn small_amounts_of_money_keep_two_digits() {
        for (usd, expected) in [(0.0, "0.00"), (0.000_123_4, "0.00012"), (0.49, "0.49"), (1234.5, "1234.50")]
        {
            assert_eq!(show_usd(usd), expected);
        }
    }
}
