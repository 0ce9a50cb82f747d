//! What comes out on traces at hand as Markdown, for `docs/experiments-traces.md`. It must not compute anything.

use super::{anchor, cell, is_other, line};
use crate::at_hand::{AtHandTraces, TraceFacts};
use crate::claim::Shown;
use crate::report::PaperReport;

/// Title, purpose and introduction of a page of nothing else.
pub(super) const HEAD: (&str, &str, &str) = (
    "The papers' claims on other traces",
    "With this page you can see how far what the papers claim carries: it is asked of real traces that are not the papers' own.",
    INTRODUCTION,
);

const INTRODUCTION: &str = "\
The same of your own traces: `lode paper NAME --figure real --traces DIR`, in any format that `lode trace info` reads; \
[these](traces.md#public-traces-in-tests) are public. `--html` draws it, `--json` is for programs \
([reports](reports.md#lode-paper---json)). [The papers' experiments](experiments.md) has their own figures, on profiles of their workloads.

**How to read the tables.** *paper* is what the paper says of its own workloads, with the place. *measured* is what comes out here, which are \
other workloads, mostly excerpts of some thousand requests: it says how far a claim carries, not whether it is true. *same direction* says \
whether the sign agrees; what is shown as 0.0 % is no gain. Indented rows are single traces. Requests are timed alone on a model of the devices \
([hardware](hardware.md)), without queues. Blocks are 4 KiB.

";

/// A row for each statement: its first number, and on how many single traces it points the same way.
pub(super) fn summary(report: &PaperReport) -> String {
    let mut rows = String::new();
    for experiment in report.experiments.iter().filter(|one| is_other(one)) {
        for claim in &experiment.claims {
            let of_traces = claim.otherwise.iter().filter_map(|reading| reading.same_direction);
            let same = of_traces.clone().filter(|same| *same).count();
            rows.push_str(&line(&[
                format!("[{}](#{})", experiment.paper.title(), anchor(experiment.paper.title())),
                claim.about.to_owned(),
                claim.paper.clone(),
                claim.shown.text(claim.measured),
                claim.verdict().to_owned(),
                format!("{same} of {}", of_traces.count()),
            ]));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "## On traces at hand, in short\n\n| paper | statement | paper | measured | same direction | in indented rows |\n|---|---|--:|--:|---|--:|\n{rows}\n"
    )
}

/// What was run, and what was passed over.
pub(super) fn traces(traces: &AtHandTraces) -> String {
    let mut out = String::from(
        "## Traces at hand\n\n| trace | requests | block accesses | different blocks | reads, of the accesses | times |\n|---|--:|--:|--:|--:|---|\n",
    );
    for facts in &traces.traces {
        let TraceFacts { requests, block_accesses, touched_blocks, read_share, has_times, .. } = facts;
        out.push_str(&line(&[
            facts.row(),
            requests.to_string(),
            block_accesses.to_string(),
            touched_blocks.to_string(),
            Shown::Percent.text(*read_share),
            if *has_times { "yes" } else { "none" }.to_owned(),
        ]));
    }
    out.push_str(&format!("\n{}.\n\n", cell(&traces.in_words())));
    if !traces.passed_over.is_empty() {
        out.push_str("Passed over:\n\n");
        traces.passed_over.iter().for_each(|line| out.push_str(&format!("- {}\n", cell(line))));
        out.push('\n');
    }
    out
}
