//! A report as Markdown, for `docs/experiments.md`. It must not compute anything.

mod at_hand;

use crate::chart::Chart;
use crate::claim::Shown;
use crate::paper::Paper;
use crate::report::{ClaimReport, ExperimentReport, PaperReport, Sources};

/// Rows of a chart's table; longer ones are in the page and in JSON.
const MAX_ROWS: usize = 24;

/// Of a hundred numbers, how many may be farther from those of the shorter run than [`is_near`] says, as a tenth of the length
/// leaves few requests to each VM and interval.
pub const FAR_PERCENT: usize = 15;
/// How many of a hundred may point another way than those of the shorter run.
pub const TURNED_PERCENT: usize = 4;

/// Whether a number and that of the shorter run are near each other: shares within 0.15, or half of the larger one; everything
/// else within a factor of two.
pub fn is_near(one: f64, other: f64, shown: Shown) -> bool {
    let off = (one - other).abs();
    let larger = one.abs().max(other.abs());
    match shown {
        Shown::Percent => off <= 0.15 || off <= larger / 2.0,
        _ => off <= larger / 2.0 + 0.05,
    }
}

/// The report as Markdown. `shorter` is the same in a tenth of the length, which a test repeats, and `command` what makes the
/// page again.
pub fn markdown(report: &PaperReport, shorter: Option<&PaperReport>, command: &str) -> String {
    let (title, purpose, introduction) = match report.experiments.iter().all(is_other) {
        true => at_hand::HEAD,
        false => HEAD,
    };
    let mut out =
        format!("# {title}\n\n{purpose} It is generated; do not edit it:\n\n```\n{command}\n```\n\n");
    out.push_str(introduction);
    if shorter.is_some() {
        out.push_str(&held());
    }
    out.push_str(&summary(report));
    out.push_str(&at_hand::summary(report));
    out.push_str(&report.at_hand.as_ref().map(at_hand::traces).unwrap_or_default());
    if let Some(folder) = &report.traces {
        out.push_str("## Traces\n\n");
        folder.in_words().iter().for_each(|sentence| out.push_str(&format!("- {}.\n", cell(sentence))));
        out.push('\n');
    }
    for paper in Paper::ALL {
        let of_paper: Vec<_> = report.experiments.iter().filter(|one| one.paper == paper).collect();
        if !of_paper.is_empty() {
            out.push_str(&format!("## {}\n\n{}.\n\n", paper.title(), paper.citation()));
            of_paper.iter().for_each(|experiment| out.push_str(&section(experiment)));
        }
    }
    if let Some(shorter) = shorter {
        out.push_str(&format!("## {SHORTER}\n\n{SHORTER_HEAD}"));
        shorter_rows(shorter).iter().for_each(|row| out.push_str(row));
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// Title, purpose and introduction of the page.
const HEAD: (&str, &str, &str) = (
    "The papers' experiments",
    "With this page you can see how near Lodestore comes to the papers that it follows, and where it parts.",
    INTRODUCTION,
);

/// Whether it is of other workloads than the paper's.
fn is_other(experiment: &ExperimentReport) -> bool {
    experiment.sources == Sources::OtherTraces
}

const INTRODUCTION: &str = "\
`lode paper NAME` repeats the experiments of one paper, `--figure N` one figure of it; `--html` draws them, `--json` is for \
programs ([reports](reports.md#lode-paper---json)), `--full` runs the whole workloads, and `--traces DIR` takes your own copies \
of the original traces. What the papers claim of any workload, `--figure real` asks of all other traces in that folder; \
[experiments-traces](experiments-traces.md) has it for public ones.

**How to read the tables.** *paper* is what the paper says, with the place; of figures the text alone was at hand. \
*measured* is what comes out here. *same direction* says whether the sign agrees, not whether the number does. *goal* is what \
Lodestore set out to reach on these profiles before anything was measured. Indented rows are the same number under another \
reading of the paper or with another property of the workload.

**What all of them share.** The profiles ([profiles](profiles.md)) have every figure that was published of the workloads; all else \
in them is assumed, was fixed before the first run, and is not adjusted to make a number come out. Requests are timed alone on \
a model of the devices ([hardware](hardware.md)), without queues: the papers measured loaded systems. Blocks are 4 KiB.

";

/// Title of the section of the shorter run.
const SHORTER: &str = "In a tenth of the length";

const SHORTER_HEAD: &str = "\
What a test repeats, digit by digit. Seldom a reason to look here: numbers of so short a run hang on few requests.

| what | measured | indented rows, in their order |
|---|--:|--:|
";

/// How a test holds the page to the code.
fn held() -> String {
    format!(
        "**How the page is held to the code.** The command at its head also runs a tenth of every workload, and half of the \
         simulated seconds of the last paper; what comes out stands in [the last section](#{}). \
         `cargo test -p lode-papers` runs this again and allows no difference, in no digit of a number and no letter of a \
         figure's text, of which there is a checksum. The longer run is not repeated: of its numbers at most {FAR_PERCENT} in a \
         hundred may be far from those of the shorter one (shares by more than 15 points and half of the larger, others by more than \
         a factor of two), and at most {TURNED_PERCENT} in a hundred may point another way.\n\n",
        anchor(SHORTER)
    )
}

/// Rows of the section of the shorter run, each with its line feed: the numbers of all statements, and of each figure the
/// checksum of all that is said and shown of it.
pub fn shorter_rows(report: &PaperReport) -> Vec<String> {
    let mut rows = Vec::new();
    for experiment in &report.experiments {
        let place = format!("{}, {}", experiment.paper.title(), experiment.name);
        for claim in &experiment.claims {
            let text = |value| claim.shown.text(value);
            let others: Vec<_> = claim.otherwise.iter().map(|reading| text(reading.measured)).collect();
            let what = format!("{place}: {}", claim.about);
            rows.push(line(&[what, text(claim.measured), others.join("; ")]));
        }
        let checksum = format!("{:016x}", fnv(&section(experiment)));
        rows.push(line(&[format!("{place}: checksum of the whole figure"), checksum, String::new()]));
    }
    rows
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo).
fn fnv(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn summary(report: &PaperReport) -> String {
    let own: Vec<&ExperimentReport> = report.experiments.iter().filter(|one| !is_other(one)).collect();
    if own.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "## In short\n\n| paper | statements | measured | same direction | goals met |\n|---|--:|--:|--:|--:|\n",
    );
    for paper in Paper::ALL {
        let claims: Vec<&ClaimReport> =
            own.iter().filter(|one| one.paper == paper).flat_map(|experiment| &experiment.claims).collect();
        if claims.is_empty() {
            continue;
        }
        let count = |is: &dyn Fn(&ClaimReport) -> bool| claims.iter().filter(|claim| is(claim)).count();
        let goals = count(&|claim| claim.goal.is_some());
        let met = count(&|claim| claim.goal_met == Some(true));
        out.push_str(&format!(
            "| [{}](#{}) | {} | {} | {} | {} |\n",
            paper.title(),
            anchor(paper.title()),
            claims.len(),
            count(&|claim| claim.measured.is_some()),
            count(&|claim| claim.same_direction == Some(true)),
            if goals > 0 { format!("{met} of {goals}") } else { "-".to_owned() },
        ));
    }
    out.push('\n');
    let missed: Vec<String> = own
        .iter()
        .flat_map(|experiment| experiment.claims.iter().map(move |claim| (experiment, claim)))
        .filter(|(_, claim)| claim.goal_met == Some(false))
        .map(|(experiment, claim)| {
            let measured = claim.shown.text(claim.measured);
            let (title, name) = (experiment.paper.title(), &experiment.name);
            // Why is known of the profiles; the user's traces may be otherwise.
            let known = claim.missed.filter(|_| experiment.sources == Sources::Synthetic);
            let why = known.map(|why| format!("; {why}")).unwrap_or_default();
            format!("- {title}, {name}: {}: {measured} ({}){why}.\n", claim.about, claim.goal_text())
        })
        .collect();
    if !missed.is_empty() {
        out.push_str("Goals that were missed, and why, are explained below each figure:\n\n");
        missed.iter().for_each(|line| out.push_str(line));
        out.push('\n');
    }
    out
}

/// How a heading is linked to.
fn anchor(title: &str) -> String {
    title.to_lowercase().chars().map(|char| if char.is_alphanumeric() { char } else { '-' }).collect()
}

fn section(experiment: &ExperimentReport) -> String {
    let mut out = format!("### {}: {}\n\n", experiment.name, experiment.title);
    out.push_str(&format!("**Paper**: {}.\n\n**Here**: {}\n\n", experiment.ran, experiment.here()));
    out.push_str(&claims(experiment));
    if !experiment.notes.is_empty() {
        experiment.question.iter().for_each(|question| out.push_str(&format!("#### {question}\n\n")));
        experiment.notes.iter().for_each(|note| out.push_str(&format!("- {note}.\n")));
        out.push('\n');
    }
    experiment.charts.iter().for_each(|chart| out.push_str(&table(chart)));
    out
}

/// What the paper says and what was measured; nothing where it says nothing.
fn claims(experiment: &ExperimentReport) -> String {
    if experiment.claims.is_empty() {
        return String::new();
    }
    let mut out = "| what | paper | measured | same direction | goal |\n|---|--:|--:|---|---|\n".to_owned();
    for claim in &experiment.claims {
        let row = [
            format!("{} ({})", claim.about, claim.source),
            claim.paper.clone(),
            claim.shown.text(claim.measured),
            claim.verdict().to_owned(),
            claim.goal_text(),
        ];
        out.push_str(&line(&row));
        for reading in &claim.otherwise {
            let row = [
                format!("\u{2003}{}", reading.reading),
                String::new(),
                claim.shown.text(reading.measured),
                reading.verdict().to_owned(),
                String::new(),
            ];
            out.push_str(&line(&row));
        }
    }
    out.push('\n');
    out
}

fn table(chart: &Chart) -> String {
    let (titles, rows) = chart.table();
    let mut out = format!("{}:\n\n", chart.title());
    out.push_str(&line(&titles));
    out.push_str(&format!("|---|{}\n", "--:|".repeat(titles.len().saturating_sub(1))));
    rows.iter().take(MAX_ROWS).for_each(|row| out.push_str(&line(row)));
    out.push('\n');
    if rows.len() > MAX_ROWS {
        out.push_str(&format!("The first {MAX_ROWS} of {} rows; `--json` has all.\n\n", rows.len()));
    }
    out
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.iter().map(|text| cell(text)).collect::<Vec<_>>().join(" | "))
}

/// Text that stays in its cell.
pub(crate) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}
