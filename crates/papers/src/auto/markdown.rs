//! The figures as Markdown, for `docs/auto.md`. It must not compute anything.

use std::collections::BTreeSet;

use lode_policy::Decision;

use super::every::every_scheme;
use super::{AutoReport, CaseFigures};
use crate::markdown::cell;
use crate::workload::Length;

/// Decisions that are shown.
const MOST_DECISIONS: usize = 24;

/// The report as Markdown. `command` is what makes it again.
pub fn auto_markdown(report: &AutoReport, command: &str) -> String {
    let mut out = format!(
        "# auto beside every single scheme\n\nWith this page you can see what you lose, or gain, when you do not choose a scheme. It is \
         generated; do not edit it:\n\n```\n{command}\n```\n\n"
    );
    out.push_str(INTRODUCTION);
    out.push_str(&looked_at(report));
    out.push_str(&in_short(report));
    out.push_str(&without_budget(report));
    out.push_str(&with_budget(report));
    out.push_str(&liveliest(report));
    out.push_str(&every_scheme(report));
    if !report.passed_over.is_empty() {
        out.push_str("\n## Files passed over\n\n");
        report.passed_over.iter().for_each(|line| out.push_str(&format!("- {}\n", cell(line))));
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

const INTRODUCTION: &str = "\
[auto](schemes/auto.md) at its defaults, and every scheme of `lode schemes` at its defaults, without sets and sizing, as far as it can \
decide by what a trace tells, has no second SSD and does not know the future. All have equal space: 5 and 25 % of the blocks that are touched, \
all of it SSD for schemes of one level, a fifth of it DRAM for those of two. All volumes of a trace are one VM. Requests are timed alone on the default \
devices ([hardware](hardware.md)). Workloads marked *made* are synthetic, from the [profiles](profiles.md) that come with the program; the \
others are recordings. Blocks have 4 KiB; files of the ARC paper's authors (`.lis`) are taken to count units of 512 bytes, `arc-oltp` as well, which counts \
pages of a size that is not told.";

/// What their designers knew when they made the schemes.
fn looked_at(report: &AutoReport) -> String {
    let unseen: BTreeSet<String> =
        report.cases.iter().filter(|case| !case.seen).map(|case| cell(&case.workload)).collect();
    let but = match unseen.is_empty() {
        true => "none is left that was not".to_owned(),
        false => format!("but for {}", unseen.into_iter().collect::<Vec<_>>().join(", ")),
    };
    format!(
        " Every case was looked at while [benefit-density](schemes/benefit-density.md) and auto were made, at the latest when `order=recency` was \
         chosen as a candidate; {but}.\n\n"
    )
}

fn in_short(report: &AutoReport) -> String {
    let (count, mut out) = (report.cases.len(), "## In short\n\n".to_owned());
    let worst = report.cases.iter().filter_map(|case| Some((case.ratio?, case)));
    let worst = worst.max_by(|(one, _), (other, _)| one.total_cmp(other));
    let length = match report.length {
        Length::Full => "Whole traces, and 200,000 requests of each profile",
        Length::Reduced => "The first 30,000 requests of each trace, and as many of each profile",
        Length::Tiny => "The first 6,000 requests of each trace, and as many of each profile",
    };
    out.push_str(&format!("- {length}: {count} cases.\n- {}\n", report.in_short()));
    let looked_at = if report.cases.iter().all(|case| case.seen) { "" } else { " that were looked at" };
    for (seen, which) in [(true, looked_at), (false, " that were not looked at")] {
        for (synthetic, what) in [(false, "recordings"), (true, "profiles")] {
            let counts = |case: &CaseFigures| case.seen == seen && case.synthetic == synthetic;
            if report.cases.iter().any(counts) {
                out.push_str(&format!("  - Of {what}{which}: {}\n", report.in_short_of(&counts)));
            }
        }
    }
    if let Some((ratio, case)) = worst {
        out.push_str(&format!(
            "- At worst {ratio:.3} times the best, on {} at {} %.\n",
            case.workload, case.percent
        ));
    }
    let unbeaten = report.cases.iter().filter(|case| case.beaten_by.is_empty()).count();
    out.push_str(&format!(
        "- In {unbeaten} no single scheme has both no higher latency and no more SSD writes.\n"
    ));
    let means = geometric_means(report);
    if let Some((own, (name, best))) = means {
        out.push_str(&format!(
            "- In the geometric mean it takes {own:.3} times as long as the best scheme of each case; of single schemes, always the same one, \
             `{name}` is best, with {best:.3} times.\n"
        ));
    }
    let windows = report.cases.iter().filter_map(|case| Some((case.budget.as_ref()?.most_over, case)));
    if let Some((most, case)) = windows.max_by(|(one, _), (other, _)| one.total_cmp(other)) {
        let blocks = case.budget.as_ref().map_or(0.0, |budget| budget.most_over_blocks);
        out.push_str(&format!(
            "- Under a budget the tenth of a workload with most SSD writes exceeds its part by {:.1} % ({blocks:.0} blocks) at most, on {} at \
             {} %.\n",
            100.0 * most,
            case.workload,
            case.percent
        ));
    }
    out.push('\n');
    out
}

/// Of `auto`, and of the single scheme that has the least: times as long as the best of each case. Of schemes that are in every case.
fn geometric_means(report: &AutoReport) -> Option<(f64, (&'static str, f64))> {
    let mean = |ratios: Vec<Option<f64>>| -> Option<f64> {
        let ratios: Vec<f64> = ratios.into_iter().collect::<Option<_>>()?;
        (!ratios.is_empty())
            .then(|| (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp())
    };
    let own = mean(report.cases.iter().map(|case| case.ratio).collect())?;
    let of_scheme = |name: &'static str| {
        let ratio = |case: &CaseFigures| {
            let us = case.schemes.iter().find(|one| one.scheme == name)?.latency_us?;
            Some(us / case.best?.latency_us?)
        };
        Some((name, mean(report.cases.iter().map(ratio).collect())?))
    };
    let names = report.cases.first()?.schemes.iter().map(|one| one.scheme);
    let best = names.filter_map(of_scheme).min_by(|(_, one), (_, other)| one.total_cmp(other))?;
    Some((own, best))
}

fn us(latency_us: Option<f64>) -> String {
    latency_us.map_or("-".to_owned(), |us| format!("{us:.0}"))
}

pub(super) fn name(case: &CaseFigures) -> String {
    let made = if case.synthetic { " *made*" } else { "" };
    format!("{}{made}", case.workload)
}

fn without_budget(report: &AutoReport) -> String {
    let mut out = "## Without a budget\n\nMean latency of a request in microseconds. *ratio*: `auto` to the best; *writes*: SSD writes of `auto` to \
                   those of the best; *chose*: how often it chose anew; *beaten by*: single schemes with no higher latency and no more SSD writes.\n\n\
                   | workload | % | best single | `auto` | ratio | writes | chose | beaten by |\n|---|--:|---|--:|--:|--:|--:|---|\n"
        .to_owned();
    for case in &report.cases {
        let best =
            case.best.map_or("-".to_owned(), |best| format!("`{}` {}", best.scheme, us(best.latency_us)));
        let writes = case.best.filter(|best| best.ssd_writes > 0);
        let writes =
            writes.map(|best| format!("{:.2}", case.auto.ssd_writes as f64 / best.ssd_writes as f64));
        let beaten: Vec<String> = case.beaten_by.iter().map(|scheme| format!("`{scheme}`")).collect();
        out.push_str(&format!(
            "| {} | {} | {best} | {} | {} | {} | {} | {} |\n",
            cell(&name(case)),
            case.percent,
            us(case.auto.latency_us),
            case.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}")),
            writes.unwrap_or("-".to_owned()),
            case.decisions.len(),
            beaten.join(", ")
        ));
    }
    out.push('\n');
    out
}

fn with_budget(report: &AutoReport) -> String {
    let mut out = "## With a budget\n\nThe budget is half of what `lru` writes, for each day, or for each hundred accesses where a trace has no times. \
                   *best single*: the least latency of those single schemes that write no more; `benefit-density` has the budget as well. *used*: of \
                   what is allowed; *over*: by how much the tenth of the workload with most SSD writes exceeds its part.\n\n\
                   | workload | % | `write_budget` | best single | `benefit-density` | `auto` | used | over |\n|---|--:|--:|---|--:|--:|--:|--:|\n"
        .to_owned();
    for case in &report.cases {
        let Some(budget) = &case.budget else { continue };
        let best = budget
            .best
            .map_or("none".to_owned(), |best| format!("`{}` {}", best.scheme, us(best.latency_us)));
        out.push_str(&format!(
            "| {} | {} | {} | {best} | {} | {} | {:.1} % | {:.1} % ({:.0} blocks) |\n",
            cell(&name(case)),
            case.percent,
            shown_budget(&budget.write_budget),
            us(budget.benefit_density.latency_us),
            us(budget.auto.latency_us),
            100.0 * budget.auto.ssd_writes as f64 / budget.allowed_blocks.max(1) as f64,
            100.0 * budget.most_over,
            budget.most_over_blocks
        ));
    }
    out.push('\n');
    out
}

/// A size for each day, or a number, in few letters.
fn shown_budget(text: &str) -> String {
    match (lode_types::parse_daily_bytes(text), text.parse::<f64>()) {
        (Ok(bytes), _) => format!("{}/day", lode_types::show_size(bytes)),
        (_, Ok(number)) => format!("{number:.2}"),
        _ => text.to_owned(),
    }
}

/// What had been saved, and what is asked for.
fn saved(decision: &Decision) -> String {
    let both = decision.saved_turnovers.zip(decision.asked_turnovers);
    both.map_or("-".to_owned(), |(saved, asked)| format!("{:.1} of {:.0}", 100.0 * saved, 100.0 * asked))
}

fn liveliest(report: &AutoReport) -> String {
    let Some((case, decisions)) = report.liveliest() else { return String::new() };
    let mut out = format!(
        "## Where it chose most\n\n{} at {} %: what a request took by the shadows in microseconds, and the blocks that it wrote to the SSD, with \
         the one that decided and the one that decides, on average of the last looks; and what decided: what had been saved since the choice before, \
         and what is asked for, in per cent of what a turnover costs.\n\n\
         | after block accesses | from | to | saved, of % asked for | latency, us | SSD writes |\n|--:|---|---|---|---|---|\n",
        cell(&name(case)),
        case.percent
    );
    for decision in decisions.iter().take(MOST_DECISIONS) {
        let pair = |from: Option<f64>, to: Option<f64>, decimals: usize| match from.zip(to) {
            Some((from, to)) => format!("{from:.decimals$}, then {to:.decimals$}"),
            None => "-".to_owned(),
        };
        out.push_str(&format!(
            "| {} | `{}` | `{}` | {} | {} | {} |\n",
            decision.block_accesses,
            decision.from,
            decision.to,
            saved(decision),
            pair(decision.from_latency_us, decision.to_latency_us, 0),
            pair(decision.from_ssd_writes, decision.to_ssd_writes, 2)
        ));
    }
    out.push('\n');
    out
}
