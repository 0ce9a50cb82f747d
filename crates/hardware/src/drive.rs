//! A drive as it is sold: whole, at a price of some date. It must not know how fast it is; that is the SSD's profile.

use serde::{Deserialize, Serialize};

use crate::profile::Catalogue;
use crate::profile::figure::{self, Figure, Figures};
use crate::time::DAYS_PER_YEAR;
use crate::{GB_BYTES, HardwareError};

/// So many of a drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drives {
    /// The drive's name in its profile.
    pub drive: String,
    /// How many, of all copies.
    pub count: u64,
    /// When the price of one was asked.
    pub price_date: String,
    /// All of it for people: "two 960 GB drives at 1 DWPD".
    pub words: String,
}

/// A drive that one can buy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drive {
    /// Its name in the profile; empty in the profile itself.
    #[serde(default, skip_deserializing)]
    pub name: String,
    /// What it is.
    pub about: String,
    /// Where the figures come from.
    pub source: String,
    /// When the price was asked: `YYYY-MM` or `YYYY-MM-DD`.
    pub price_date: String,
    /// Price of one.
    pub usd: f64,
    /// What it holds, in 10^9 bytes.
    pub capacity_gb: f64,
    /// Endurance: times that the whole capacity may be written each day of the warranty. Either this or `written_tb`.
    pub dwpd: Option<f64>,
    /// Endurance: bytes that may be written in all, in 10^12 (TBW).
    pub written_tb: Option<f64>,
    /// Years of the warranty.
    pub warranty_years: f64,
}

impl Drive {
    /// A drive of the built-in catalogue.
    ///
    /// # Errors
    /// [`HardwareError::Unknown`] with the names that there are.
    pub fn find(name: &str) -> Result<Drive, HardwareError> {
        Catalogue::built_in()?.drive(name)
    }

    /// The one drive of a user's profile.
    ///
    /// # Errors
    /// [`HardwareError`]: whatever is wrong with the text.
    pub fn parse(text: &str) -> Result<Drive, HardwareError> {
        let mut catalogue = Catalogue::default();
        catalogue.add(text)?;
        let names: Vec<String> = catalogue.drive_names().map(str::to_owned).collect();
        match &names[..] {
            [name] => catalogue.drive(name),
            names => Err(HardwareError::Drives { drives: names.len() }),
        }
    }

    /// What it holds.
    pub fn capacity_bytes(&self) -> u64 {
        (self.capacity_gb * GB_BYTES) as u64
    }

    /// Whole drives that hold so many bytes.
    pub fn count(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.capacity_bytes().max(1))
    }

    /// Writes of the whole capacity a day, over the years of the warranty.
    pub fn drive_writes_per_day(&self) -> f64 {
        let of_written = |tb: f64| tb * 1000.0 / self.capacity_gb / (DAYS_PER_YEAR * self.warranty_years);
        self.dwpd.or(self.written_tb.map(of_written)).unwrap_or(0.0)
    }

    /// So many of them, for people: "two 960 GB drives at 1 DWPD".
    pub fn in_words(&self, count: u64) -> String {
        const WORDS: [&str; 5] = ["no", "one", "two", "three", "four"];
        let number = usize::try_from(count).ok().and_then(|at| WORDS.get(at)).map(|word| (*word).to_owned());
        let drives = if count == 1 { "drive" } else { "drives" };
        let rating = match self.written_tb {
            Some(tb) => format!("for {tb} TB written"),
            // A rating is printed with two digits at most.
            None => format!("at {} DWPD", (self.drive_writes_per_day() * 100.0).round() / 100.0),
        };
        let number = number.unwrap_or_else(|| count.to_string());
        format!("{number} {} GB {drives} {rating}", self.capacity_gb)
    }

    /// Checks that endurance is given in one way, and that the date is one.
    pub(crate) fn check(&self, path: &str) -> Result<(), HardwareError> {
        let wrong = |message: &str| HardwareError::Key { path: path.to_owned(), message: message.to_owned() };
        if self.dwpd.is_some() == self.written_tb.is_some() {
            return Err(wrong("write either dwpd or written_tb"));
        }
        if !is_date(&self.price_date) {
            return Err(wrong("price_date says when the price was asked; write it as 2025-06 or 2025-06-30"));
        }
        Ok(())
    }
}

/// `YYYY-MM` or `YYYY-MM-DD`.
fn is_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut number = |digits: usize, most: u32| {
        let part = parts.next()?;
        let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse().ok().filter(|number| is_number && (1..=most).contains(number))
    };
    let has_month = number(4, 9999).is_some() && number(2, 12).is_some();
    let rest: Vec<&str> = text.splitn(3, '-').skip(2).collect();
    has_month && (rest.is_empty() || number(2, 31).is_some() && text.matches('-').count() == 2)
}

impl Figures for Drive {
    fn figures(&self) -> Vec<Figure> {
        let mut figures = vec![
            Figure::new("usd", self.usd, figure::USD),
            Figure::new("capacity_gb", self.capacity_gb, figure::CAPACITY_GB),
        ];
        figures.extend(self.dwpd.map(|dwpd| Figure::new("dwpd", dwpd, figure::DWPD)));
        figures.extend(self.written_tb.map(|tb| Figure::new("written_tb", tb, figure::WRITTEN_TB)));
        figures.push(Figure::new("warranty_years", self.warranty_years, figure::YEARS));
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_a_month_or_a_day() {
        for good in ["2025-06", "2026-11-24"] {
            assert!(is_date(good), "{good}");
        }
        for bad in
            ["", "2025", "2025-13", "2025-6", "25-06", "2025-06-", "2025-06-32", "2025-06-01-1", "soon"]
        {
            assert!(!is_date(bad), "{bad}");
        }
    }
}
