//! Tables of every single scheme beside `auto`, as Markdown. They must not compute anything but ratios.

use super::markdown::name;
use super::{AutoReport, BudgetFigures, CaseFigures, SchemeFigures};
use crate::markdown::cell;

/// Every single scheme without a budget, and those that write no more with one.
pub(super) fn every_scheme(report: &AutoReport) -> String {
    let names = schemes(report);
    if names.is_empty() {
        return String::new();
    }
    let mut out = "## Every single scheme\n\nMean latency to that of `auto` in the same case: above 1 the scheme is slower. A dash: it does not run with so few blocks.\n\n"
        .to_owned();
    out.push_str(&table(report, &names, &|case, scheme| {
        ratio(case.schemes.iter().find(|one| one.scheme == scheme), &case.auto)
    }));
    if report.cases.iter().all(|case| case.budget.is_none()) {
        return out;
    }
    out.push_str(
        "\n## Every single scheme with a budget\n\nThe same to `auto` with the budget of [above](#with-a-budget). Only `benefit-density` can be told of a budget, \
         and has it; of the others those count that write no more than it without being told, and a dash is for one that writes more, and so would break it.\n\n",
    );
    out.push_str(&table(report, &names, &|case, scheme| {
        let budget = case.budget.as_ref()?;
        ratio(within(case, budget, scheme), &budget.auto)
    }));
    out
}

/// A scheme's figures under the budget; none where it writes more.
fn within<'a>(case: &'a CaseFigures, budget: &'a BudgetFigures, scheme: &str) -> Option<&'a SchemeFigures> {
    if scheme == budget.benefit_density.scheme {
        return Some(&budget.benefit_density);
    }
    let figures = case.schemes.iter().find(|one| one.scheme == scheme)?;
    (figures.ssd_writes <= budget.allowed_blocks).then_some(figures)
}

fn ratio(one: Option<&SchemeFigures>, auto: &SchemeFigures) -> Option<f64> {
    Some(one?.latency_us? / auto.latency_us.filter(|us| *us > 0.0)?)
}

/// All that are in any case, in the order in which they are registered.
fn schemes(report: &AutoReport) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for scheme in report.cases.iter().flat_map(|case| &case.schemes) {
        if !names.contains(&scheme.scheme) {
            names.push(scheme.scheme);
        }
    }
    names
}

/// A row for each case, a column for each scheme.
fn table(
    report: &AutoReport,
    names: &[&'static str],
    value: &dyn Fn(&CaseFigures, &str) -> Option<f64>,
) -> String {
    let titles: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let mut out =
        format!("| workload | % | {} |\n|---|--:|{}\n", titles.join(" | "), "--:|".repeat(names.len()));
    for case in &report.cases {
        let cells: Vec<String> = names
            .iter()
            .map(|name| value(case, name).map_or("-".to_owned(), |ratio| format!("{ratio:.2}")))
            .collect();
        out.push_str(&format!("| {} | {} | {} |\n", cell(&name(case)), case.percent, cells.join(" | ")));
    }
    out
}
