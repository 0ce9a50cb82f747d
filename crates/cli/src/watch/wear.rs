//! What the cache SSD takes a day, beside what it may take. It must not know where either comes from.

use lode_hardware::RATED_TB_BYTES;
use lode_hardware::time::DAYS_PER_YEAR;

use crate::amounts::{show_life, show_size};

/// Longer lives are not told apart.
const MOST_YEARS: f64 = 100.0;

/// Writes to the cache SSD of one VM, or of all: data, journal and tables.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wear {
    /// At the rate of the interval.
    pub bytes_per_day: f64,
    /// What the host allows; none: any amount.
    pub budget_bytes_per_day: Option<u64>,
    /// What the SSD is rated for in all; none where that is not known.
    pub rated_bytes: Option<u64>,
}

impl Wear {
    /// Whether there is anything that it could exceed.
    pub fn has_limit(&self) -> bool {
        self.budget_bytes_per_day.is_some() || self.rated_bytes.is_some()
    }

    /// For people: "40 GiB/day of 500 GiB/day; 1200 TB rated last 76.5 years".
    pub fn text(&self) -> String {
        let mut text = format!("{}/day", show_size(self.bytes_per_day as u64));
        if let Some(budget) = self.budget_bytes_per_day {
            text += &format!(" of {}/day", show_size(budget));
        }
        if let Some(rated) = self.rated_bytes {
            let tb = (rated as f64 / RATED_TB_BYTES * 1e3).round() / 1e3;
            text += &format!("; {tb} TB rated last {}", life(rated as f64 / self.bytes_per_day));
        }
        text
    }
}

fn life(days: f64) -> String {
    match days / DAYS_PER_YEAR {
        years if years < MOST_YEARS => show_life(years),
        _ => format!("over {MOST_YEARS} years"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wear_is_told_beside_its_limits() {
        let wear = |bytes_per_day, budget_bytes_per_day, rated_bytes| Wear {
            bytes_per_day,
            budget_bytes_per_day,
            rated_bytes,
        };
        let gib = (1_u64 << 30) as f64;
        assert_eq!(wear(40.0 * gib, None, None).text(), "40 GiB/day");
        assert_eq!(wear(40.0 * gib, Some(500 << 30), None).text(), "40 GiB/day of 500 GiB/day");
        // 365 TB a year.
        let rated = |tb: u64| Some(tb * 1_000_000_000_000);
        assert_eq!(wear(1e12, None, rated(730)).text(), "931.32 GiB/day; 730 TB rated last 2.0 years");
        assert_eq!(
            wear(0.0, None, Some(500_000_000_000)).text(),
            "0 B/day; 0.5 TB rated last over 100 years"
        );
        let longest = wear(1023.99 * gib, Some((1 << 40) - (1 << 20)), rated(999_999)).text();
        assert!(format!("SSD wear {longest}").len() <= 80, "{longest}");
        assert!(!wear(1.0, None, None).has_limit() && wear(1.0, None, Some(1)).has_limit());
    }
}
