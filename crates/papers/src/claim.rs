//! What a paper reports, and whether a measured number points the same way. It must not know how numbers are measured.

use serde::Serialize;

/// How a number reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shown {
    /// A share: 0.5 reads "50.0 %". Of a change: by how much less, or more, as the claim says.
    Percent,
    /// A factor: "1.80 x".
    Times,
    /// Cache blocks.
    Blocks,
    /// A plain number.
    Number,
    /// Milliseconds.
    Ms,
    /// A small chance: "1.27e-5".
    Chance,
}

impl Shown {
    /// The number as text; a dash where there is none.
    pub fn text(self, value: Option<f64>) -> String {
        let Some(value) = value.filter(|value| value.is_finite()) else { return "-".to_owned() };
        match self {
            Shown::Percent => format!("{:.1} %", 100.0 * value),
            Shown::Times => format!("{value:.2} x"),
            Shown::Blocks => format!("{value:.0}"),
            Shown::Number if value == value.round() => format!("{value:.0}"),
            Shown::Number => format!("{value:.2}"),
            Shown::Ms => format!("{value:.1} ms"),
            Shown::Chance => format!("{value:.2e}"),
        }
    }
}

/// What the paper says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reported {
    /// A number.
    Value(f64),
    /// From the first to the second.
    Range(f64, f64),
    /// At most this, in the best case.
    UpTo(f64),
    /// More than this.
    MoreThan(f64),
    /// Words without a number.
    Words(&'static str),
}

impl Reported {
    /// As text.
    pub fn text(self, shown: Shown) -> String {
        let one = |value| shown.text(Some(value));
        match self {
            Reported::Value(value) => one(value),
            Reported::Range(low, high) => format!("{} to {}", one(low), one(high)),
            Reported::UpTo(value) => format!("up to {}", one(value)),
            Reported::MoreThan(value) => format!("more than {}", one(value)),
            Reported::Words(words) => words.to_owned(),
        }
    }

    /// Its number, or both of them; none of words.
    pub fn numbers(self) -> Vec<f64> {
        match self {
            Reported::Value(value) | Reported::UpTo(value) | Reported::MoreThan(value) => vec![value],
            Reported::Range(low, high) => vec![low, high],
            Reported::Words(_) => Vec::new(),
        }
    }
}

/// A bound on a measured number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// More than this.
    Above(f64),
    /// This or more.
    AtLeast(f64),
    /// Less than this.
    Below(f64),
    /// From the first to the second.
    Within(f64, f64),
}

impl Bound {
    /// Whether a number is within the bound.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Bound::Above(bound) => value > bound,
            Bound::AtLeast(bound) => value >= bound,
            Bound::Below(bound) => value < bound,
            Bound::Within(low, high) => (low..=high).contains(&value),
        }
    }

    /// As text.
    pub fn text(self, shown: Shown) -> String {
        let one = |value| shown.text(Some(value));
        match self {
            Bound::Above(bound) => format!("> {}", one(bound)),
            Bound::AtLeast(bound) => format!(">= {}", one(bound)),
            Bound::Below(bound) => format!("< {}", one(bound)),
            Bound::Within(low, high) => format!("{} to {}", one(low), one(high)),
        }
    }
}

/// One statement of a paper that can be measured.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Names it in JSON, for good.
    pub key: &'static str,
    /// What is measured, in words: "less mean latency than ECI-Cache, mean of the VMs".
    pub about: &'static str,
    /// How the number reads.
    pub shown: Shown,
    /// What the paper says.
    pub reported: Reported,
    /// Where it says so.
    pub source: &'static str,
    /// Which numbers point the same way.
    pub same: Bound,
    /// What Lodestore set out to reach on the committed profiles, where it set anything, before anything was measured.
    pub goal: Option<Bound>,
    /// Why it does not, in a few words, for the list of goals that were missed.
    pub missed: Option<&'static str>,
}

impl Claim {
    /// A claim without a goal of our own.
    pub const fn new(key: &'static str, about: &'static str, shown: Shown, reported: Reported) -> Claim {
        Claim { key, about, shown, reported, source: "", same: Bound::Above(0.0), goal: None, missed: None }
    }

    /// The claim with the place where the paper says so.
    pub const fn source(mut self, source: &'static str) -> Claim {
        self.source = source;
        self
    }

    /// The claim with what points the same way, where that is not everything above zero.
    pub const fn same(mut self, same: Bound) -> Claim {
        self.same = same;
        self
    }

    /// The claim with a goal.
    pub const fn goal(mut self, goal: Bound) -> Claim {
        self.goal = Some(goal);
        self
    }

    /// The claim with why its goal is missed, which is said only where it is.
    pub const fn missed(mut self, why: &'static str) -> Claim {
        self.missed = Some(why);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_met_at_their_ends_as_they_say() {
        let at = |bound: Bound| [0.9, 1.0, 1.1].map(|value| bound.holds(value));
        assert_eq!(at(Bound::Above(1.0)), [false, false, true]);
        assert_eq!(at(Bound::AtLeast(1.0)), [false, true, true]);
        assert_eq!(at(Bound::Below(1.0)), [true, false, false]);
        assert_eq!(at(Bound::Within(1.0, 1.1)), [false, true, true]);
        assert!(!Bound::Within(f64::NEG_INFINITY, f64::INFINITY).holds(f64::NAN));
    }

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(Shown::Percent.text(Some(-0.0451)), "-4.5 %");
        assert_eq!(Shown::Times.text(Some(1.8)), "1.80 x");
        assert_eq!(Shown::Chance.text(Some(1.2738e-5)), "1.27e-5");
        assert_eq!(Shown::Ms.text(None), "-");
        assert_eq!(Shown::Number.text(Some(f64::NAN)), "-");
        assert_eq!(Reported::Range(0.1, 0.2).text(Shown::Percent), "10.0 % to 20.0 %");
        assert_eq!(Reported::Words("same").numbers(), Vec::<f64>::new());
    }
}
