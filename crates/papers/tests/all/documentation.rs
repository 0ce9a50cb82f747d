//! `docs/experiments.md`, beside a run of a tenth of its length, whose numbers it has to have to the last digit.

use std::collections::HashMap;

use lode_papers::run::RunOptions;
use lode_papers::workload::Length;
use lode_papers::{
    ClaimReport, ExperimentReport, FAR_PERCENT, PaperReport, Shown, Sources, TURNED_PERCENT, experiments,
    is_near, run_experiments, shorter_rows,
};

const DOCUMENT: &str = include_str!("../../../../docs/experiments.md");

/// Where the numbers of the shorter run are.
const SHORTER: &str = "\n## In a tenth of the length\n";

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

/// What a document has of the shorter run and a run has not, and the other way round.
fn differences(document: &str, rows: &[String]) -> Vec<String> {
    let (_, section) = document.split_once(SHORTER).unwrap_or_default();
    let documented: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let found: Vec<&str> = rows.iter().map(|row| row.trim_end()).collect();
    let lacks = |lines: &[&str], line: &&str| !lines.contains(line);
    let stale = documented.iter().filter(|line| lacks(&found, line)).map(|line| format!("documented {line}"));
    let new = found.iter().filter(|line| lacks(&documented, line)).map(|line| format!("found      {line}"));
    stale.chain(new).collect()
}

fn run(chosen: impl Fn(&lode_papers::Experiment) -> bool) -> PaperReport {
    let chosen: Vec<_> = experiments().filter(|experiment| chosen(experiment)).collect();
    let options =
        RunOptions { length: Length::Tiny, traces: Default::default(), threads: 2, memory_bytes: 1 << 30 };
    run_experiments(&chosen, None, options, &|_| {}, &|_, _| {}).expect("a run")
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
fn a_tenth_of_its_length_is_what_is_documented_and_near_the_rest() {
    let report = run(|_| true);
    let differences = differences(DOCUMENT, &shorter_rows(&report));
    assert!(
        differences.is_empty(),
        "docs/experiments.md is stale; make it anew with the command at its head: {differences:#?}"
    );
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
fn a_stale_number_or_text_is_noticed() {
    let report = run(|experiment| experiment.figure == "8-9");
    let rows = shorter_rows(&report);
    let document = format!("{SHORTER}\n| what | measured | rows |\n|---|--:|--:|\n{}", rows.concat());
    assert_eq!(differences(&document, &rows), Vec::<String>::new());
    let digit = document.rfind(|char: char| char.is_ascii_digit()).expect("a checksum has digits");
    let other = if document[digit..].starts_with('1') { "2" } else { "1" };
    let changed = format!("{}{other}{}", &document[..digit], &document[digit + 1..]);
    assert_eq!(differences(&changed, &rows).len(), 2, "the old one and the new one");
    let mut retold = report;
    retold.experiments[0].notes.push("Something else".to_owned());
    assert_eq!(differences(&document, &shorter_rows(&retold)).len(), 2);
    assert_eq!(differences("", &rows).len(), rows.len(), "a page without the section");
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
