//! `docs/experiments.md`, beside a run of a tenth of its length.

use std::collections::HashMap;

use lode_papers::run::RunOptions;
use lode_papers::workload::Length;
use lode_papers::{ClaimReport, ExperimentReport, Shown, Sources, experiments, run_experiments};

const DOCUMENT: &str = include_str!("../../../../docs/experiments.md");

/// How many of a hundred numbers may be farther off than [`is_near`] says, as a tenth of the length leaves few requests to each
/// VM and interval.
const FAR_PERCENT: usize = 20;
/// How many of a hundred may point another way.
const TURNED_PERCENT: usize = 10;

/// The cells behind the first of every row, by the first, as the document has them.
fn rows() -> HashMap<&'static str, Vec<&'static str>> {
    let cells = |line: &'static str| line.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>();
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| ")).map(cells);
    rows.filter(|cells| cells.len() == 5).map(|cells| (cells[0], cells[1..].to_vec())).collect()
}

/// A number as the document shows it; none of a dash.
fn number(text: &str, shown: Shown) -> Option<f64> {
    let value: f64 = text.split(' ').next()?.parse().ok()?;
    Some(if shown == Shown::Percent { value / 100.0 } else { value })
}

/// Shares within 0.15, or half of the larger one; everything else within a factor of two.
fn is_near(one: f64, other: f64, shown: Shown) -> bool {
    let off = (one - other).abs();
    let larger = one.abs().max(other.abs());
    match shown {
        Shown::Percent => off <= 0.15 || off <= larger / 2.0,
        _ => off <= larger / 2.0 + 0.05,
    }
}

#[derive(Default)]
struct Counted {
    compared: usize,
    far: Vec<String>,
    turned: Vec<String>,
}

impl Counted {
    fn add(&mut self, experiment: &ExperimentReport, claim: &ClaimReport, cells: &[&str]) {
        assert_eq!(cells[0], claim.paper.replace('|', "\\|"), "{}", claim.key);
        let documented = number(cells[1], claim.shown);
        let Some(documented) = documented else {
            assert_eq!(claim.measured, None, "{} is documented as not measured", claim.key);
            return;
        };
        let Some(measured) = claim.measured else {
            // So short a run may have no request where a longer one has some.
            self.far.push(format!("{}: {} documented, nothing found", claim.key, cells[1]));
            return;
        };
        let found = format!("{}: {} documented, {measured:.4} found", claim.key, cells[1]);
        if experiment.sources == Sources::Example {
            assert_eq!(cells[1], claim.shown.text(Some(measured)), "{found}");
            return;
        }
        self.compared += 1;
        if !is_near(documented, measured, claim.shown) {
            self.far.push(found.clone());
        }
        if cells[2] != claim.verdict() {
            self.turned.push(found);
        }
    }
}

#[test]
fn a_tenth_of_its_length_is_near_what_is_documented() {
    let chosen: Vec<_> = experiments().collect();
    let options =
        RunOptions { length: Length::Tiny, traces: Default::default(), threads: 2, memory_bytes: 1 << 30 };
    let report = run_experiments(&chosen, None, options, &|_| {}, &|_, _| {}).expect("a run");
    let documented = rows();
    let mut tally = Counted::default();
    for experiment in &report.experiments {
        assert!(DOCUMENT.contains(&format!("### {}: {}\n", experiment.name, experiment.title)));
        for claim in &experiment.claims {
            let name = format!("{} ({})", claim.about, claim.source);
            let cells = documented.get(name.as_str()).unwrap_or_else(|| {
                panic!(
                    "docs/experiments.md does not have '{name}'; make it anew with the command at its head"
                )
            });
            tally.add(experiment, claim, cells);
        }
    }
    println!("{} compared, {} far: {:#?}", tally.compared, tally.far.len(), tally.far);
    println!("{} point another way: {:#?}", tally.turned.len(), tally.turned);
    assert!(tally.compared > 100);
    assert!(100 * tally.far.len() <= FAR_PERCENT * tally.compared, "{:#?}", tally.far);
    assert!(100 * tally.turned.len() <= TURNED_PERCENT * tally.compared, "{:#?}", tally.turned);
}

#[test]
fn numbers_are_read_as_they_are_shown() {
    for (shown, value) in
        [(Shown::Percent, -0.451), (Shown::Times, 1.25), (Shown::Blocks, 5000.0), (Shown::Ms, 302.8)]
    {
        let text = shown.text(Some(value));
        assert!(number(&text, shown).is_some_and(|read| (read - value).abs() < 1e-9), "{text}");
    }
    assert_eq!(number("-", Shown::Percent), None);
    assert!(is_near(0.5, 0.3, Shown::Percent) && !is_near(0.5, 0.1, Shown::Percent));
    assert!(is_near(4.0, 2.0, Shown::Times) && !is_near(4.0, 1.5, Shown::Times));
}
