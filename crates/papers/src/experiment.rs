//! What an experiment is: a description, and what it makes of the runs that it asks for. It must not know how they are run.

use crate::chart::Chart;
use crate::claim::{Claim, Shown};
use crate::job::Job;
use crate::paper::Paper;
use crate::run::Results;

/// A figure or table of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Of which paper.
    pub paper: Paper,
    /// How users name it: the numbers of its figures or tables, or a word where the paper has no number for it.
    pub figure: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// What the paper ran.
    pub ran: &'static str,
    /// What is run here, and where that differs; what differs for every experiment of a kind is said elsewhere.
    pub here: &'static [&'static str],
    /// What the paper says.
    pub claims: &'static [Claim],
    /// What has to be run.
    pub jobs: fn() -> Vec<Job>,
    /// What came of it.
    pub measure: fn(&Results) -> Finding,
}

impl Experiment {
    /// How it is called in headings: "Figs. 12 to 14".
    pub fn name(&self) -> String {
        if let Some((first, last)) = self.figure.split_once('-') {
            return format!("Figs. {first} to {last}");
        }
        let mut letters = self.figure.chars();
        match letters.next() {
            Some(first) if first.is_ascii_digit() => format!("Fig. {}", self.figure),
            Some('T') => format!("Table {}", letters.as_str()),
            Some(first) => first.to_uppercase().chain(letters).collect(),
            None => String::new(),
        }
    }

    /// Whether `--figure` with this word means it: its name, or a figure of its range.
    pub fn is_called(&self, word: &str) -> bool {
        let word = word.trim_start_matches("Fig.").trim();
        let number = |text: &str| text.parse::<u32>().ok();
        let in_range = || {
            let (first, last) = self.figure.split_once('-')?;
            Some((number(first)?..=number(last)?).contains(&number(word)?))
        };
        self.figure.eq_ignore_ascii_case(word) || in_range().unwrap_or(false)
    }
}

/// What an experiment found.
#[derive(Clone, Debug, Default)]
pub struct Finding {
    /// Numbers, each by the key of its claim.
    pub measured: Vec<Measured>,
    /// What is drawn, and shown as tables.
    pub charts: Vec<Chart>,
    /// The question that the notes answer, where they answer one.
    pub question: Option<&'static str>,
    /// What a reader should know of these numbers.
    pub notes: Vec<String>,
}

/// One measured number.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The claim's key.
    pub key: &'static str,
    /// The number; none where nothing could be measured.
    pub value: Option<f64>,
    /// The same under other readings of the paper or other properties of the workload, each with what differs.
    pub otherwise: Vec<(String, Option<f64>)>,
}

impl Finding {
    /// Adds the number of a claim.
    pub fn say(&mut self, key: &'static str, value: impl Into<Option<f64>>) -> &mut Finding {
        self.measured.push(Measured { key, value: value.into(), otherwise: Vec::new() });
        self
    }

    /// Adds what the last number is under another reading.
    pub fn otherwise(&mut self, reading: impl Into<String>, value: impl Into<Option<f64>>) -> &mut Finding {
        if let Some(last) = self.measured.last_mut() {
            last.otherwise.push((reading.into(), value.into()));
        }
        self
    }

    /// Adds a chart.
    pub fn draw(&mut self, chart: Chart) -> &mut Finding {
        self.charts.push(chart);
        self
    }

    /// Adds a sentence.
    pub fn note(&mut self, note: impl Into<String>) -> &mut Finding {
        self.notes.push(note.into());
        self
    }
}

/// Less latency, and more.
pub(crate) const OF_LATENCY: [&str; 2] = ["less latency", "more latency"];

/// "5.0 % less" or "5.0 % more", as there is less of something by this share, in the words for both.
pub(crate) fn percent_of(less: Option<f64>, [fewer, more]: [&str; 2]) -> String {
    let word = if less.is_some_and(|less| less < 0.0) { more } else { fewer };
    match less {
        Some(less) => format!("{} {word}", Shown::Percent.text(Some(less.abs()))),
        None => format!("an unknown share {fewer}"),
    }
}

/// By how much less `one` is than `other`, as a share of it; none where one of them is not there.
pub(crate) fn less(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    ratio(one, other).map(|ratio| 1.0 - ratio)
}

/// By how much more.
pub(crate) fn more(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    ratio(one, other).map(|ratio| ratio - 1.0)
}

/// How many times.
pub(crate) fn ratio(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    let (one, other) = (one?, other?);
    (other != 0.0).then(|| one / other)
}

/// The mean of those that are there; none without any.
pub(crate) fn mean(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().flatten().collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The middle one of those that are there, or the mean of the two in the middle; none without any.
pub(crate) fn median(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().flatten().collect();
    values.sort_by(f64::total_cmp);
    let (below, above) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some((values[below] + values[above]) / 2.0)
}

/// The largest of those that are there.
pub(crate) fn most(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    values.into_iter().flatten().reduce(f64::max)
}

/// The smallest of those that are there.
pub(crate) fn least(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    values.into_iter().flatten().reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(figure: &'static str) -> Experiment {
        Experiment {
            paper: Paper::Etica,
            figure,
            title: "",
            ran: "",
            here: &[],
            claims: &[],
            jobs: Vec::new,
            measure: |_| Finding::default(),
        }
    }

    #[test]
    fn figures_are_found_by_their_numbers() {
        let range = called("12-14");
        assert!(["12", "13", "14", "12-14", "Fig. 13"].iter().all(|word| range.is_called(word)));
        assert!(!["1", "11", "15", "", "x", "1-2"].iter().any(|word| range.is_called(word)));
        assert_eq!(range.name(), "Figs. 12 to 14");
        assert!(called("T4").is_called("t4") && !called("T4").is_called("4"));
        assert_eq!((called("T4").name(), called("readings").name()), ("Table 4".into(), "Readings".into()));
    }

    #[test]
    fn changes_are_shares_of_the_other() {
        assert_eq!(less(Some(3.0), Some(4.0)), Some(0.25));
        assert_eq!(more(Some(5.0), Some(4.0)), Some(0.25));
        assert_eq!((less(None, Some(1.0)), ratio(Some(1.0), Some(0.0))), (None, None));
        assert_eq!((mean([Some(1.0), None, Some(3.0)]), mean([None])), (Some(2.0), None));
        assert_eq!((median([Some(9.0), None, Some(1.0), Some(2.0)]), median([None])), (Some(2.0), None));
        assert_eq!(median([Some(9.0), Some(1.0), Some(2.0), Some(4.0)]), Some(3.0));
        assert_eq!((most([Some(1.0), Some(3.0)]), least([None, Some(2.0)])), (Some(3.0), Some(2.0)));
    }
}
