//! The figures as a page. It must not compute anything.

use lode_draw::{
    Arrangement, BarChart, BarPart, Cells, Column, Item, Page, Panel, Section, States, Table, Unit,
};
use lode_plan::{Made, PROGRAM};

use super::{AutoReport, CaseFigures};
use crate::error::PapersError;

/// The page.
///
/// # Errors
/// [`PapersError::Draw`] for more than a page can show.
pub fn auto_page(report: &AutoReport, made: &Made) -> Result<String, PapersError> {
    let mut sections = vec![Section {
        title: "Without a budget".to_owned(),
        items: vec![ratios(report), latencies(report)],
    }];
    if let Some(budgets) = budgets(report) {
        sections.push(Section { title: "With a budget of SSD writes".to_owned(), items: vec![budgets] });
    }
    let page = Page {
        title: "auto beside every single scheme".to_owned(),
        lead: vec![report.in_short(), made.line()],
        subtitle: "equal space; requests timed alone on a model of the devices, blocks of 4 KiB".to_owned(),
        sections,
        footer: PROGRAM.to_owned(),
        ..Page::default()
    };
    Ok(page.html()?)
}

fn name(case: &CaseFigures) -> String {
    let made = if case.synthetic { ", made" } else { "" };
    format!("{} {} %{made}", case.workload, case.percent)
}

fn bars(title: &str, rows: Vec<String>, unit: Unit, parts: Vec<(&str, Vec<Option<f64>>)>) -> Item {
    let names: Vec<&str> = parts.iter().map(|(name, _)| *name).collect();
    let description = format!("{} in each row", names.join(", "));
    let part = |(name, values): (&str, Vec<Option<f64>>)| BarPart {
        name: name.to_owned(),
        values: States::fixed(values),
    };
    Item::Bars(BarChart {
        title: title.to_owned(),
        description,
        rows,
        panels: vec![Panel {
            title: title.to_owned(),
            unit,
            arrangement: Arrangement::Grouped,
            parts: parts.into_iter().map(part).collect(),
        }],
        row_series: None,
    })
}

/// Latency to that of the best.
fn ratios(report: &AutoReport) -> Item {
    let values = report.cases.iter().map(|case| case.ratio).collect();
    let rows = report.cases.iter().map(name).collect();
    bars("Latency of auto to that of the best single scheme", rows, Unit::Ratio, vec![("auto", values)])
}

fn latencies(report: &AutoReport) -> Item {
    let column =
        |title: &str, cells: Vec<String>| Column { title: title.to_owned(), cells: Cells::Text(cells) };
    let us = |us: Option<f64>| us.map_or("-".to_owned(), |us| format!("{us:.0}"));
    let of = |shown: &dyn Fn(&CaseFigures) -> String| report.cases.iter().map(shown).collect::<Vec<_>>();
    let best = |case: &CaseFigures| {
        case.best.map_or("-".to_owned(), |best| format!("{} {}", best.scheme, us(best.latency_us)))
    };
    Item::Table(Table {
        title: "Mean latency of a request, in microseconds".to_owned(),
        columns: vec![
            column("workload", of(&name)),
            column("best single", of(&best)),
            column("auto", of(&|case| us(case.auto.latency_us))),
            column("ratio", of(&|case| case.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}")))),
            column("chose", of(&|case| case.decisions.len().to_string())),
        ],
    })
}

/// None where no workload could be given a budget, because nothing was written.
fn budgets(report: &AutoReport) -> Option<Item> {
    let with: Vec<_> = report.cases.iter().filter_map(|case| Some((case, case.budget.as_ref()?))).collect();
    if with.is_empty() {
        return None;
    }
    let rows = with.iter().map(|(case, _)| name(case)).collect();
    let of = |shown: &dyn Fn(&super::BudgetFigures) -> Option<f64>| {
        with.iter().map(|(_, one)| shown(one)).collect()
    };
    let parts = vec![
        ("auto", of(&|one| one.auto.latency_us)),
        ("best single that writes no more", of(&|one| one.best.and_then(|best| best.latency_us))),
    ];
    Some(bars("Mean latency with half of the SSD writes of lru", rows, Unit::Microseconds, parts))
}
