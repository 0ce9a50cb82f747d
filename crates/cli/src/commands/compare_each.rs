//! What `lode compare --each` shows. It must not know how traces are compared.

use lode_plan::{EachReport, OverTraces, Spread};

use super::compare::{CsvRow, csv_columns};
use crate::amounts::show_count;
use crate::heading::heading;
use crate::output::{self, number, percent};
use crate::results::{Columns, Rows};

/// What traces have in common, and the hit ratios of each.
pub fn text(report: &EachReport) -> String {
    let count = |number: usize, what: &str| show_count(number as u64, what);
    let (schemes, sizes) = (count(report.schemes.len(), "scheme"), count(report.sizes.len(), "size"));
    let in_short = format!("{schemes} with {sizes}, {}, each by itself", count(report.traces.len(), "trace"));
    let mut text = heading("Schemes side by side, trace by trace", Some(in_short)) + &over_traces(report);
    if let Some(baseline) = &report.baseline {
        text += &format!("\nFewer misses than with {baseline}, over the traces, each counting the same:\n");
        text += &spreads(report, |cell| cell.miss_ratio_reduction);
        text += &format!("\nLess time than with {baseline}:\n");
        text += &spreads(report, |cell| cell.latency_reduction);
    }
    text + "\nAccesses hit %:\n" + &hits(report)
}

fn label(report: &EachReport, cell: &OverTraces) -> String {
    report.schemes[cell.scheme].clone()
}

/// Size by size, so that schemes stand side by side.
fn by_size(report: &EachReport) -> impl Iterator<Item = &OverTraces> {
    (0..report.sizes.len()).flat_map(|size| report.over_traces.iter().filter(move |cell| cell.size == size))
}

fn over_traces(report: &EachReport) -> String {
    let titles = ["scheme", "size", "traces", "accesses hit %", "reads hit %", "us/request", "per write"];
    let mut table = output::table(&titles, 2);
    let mean = |spread: Option<Spread>| spread.map(|spread| spread.mean);
    for cell in by_size(report) {
        table.add_row([
            label(report, cell),
            report.sizes[cell.size].clone(),
            cell.hit_ratio.map_or(0, |spread| spread.count).to_string(),
            percent(mean(cell.hit_ratio)),
            percent(mean(cell.read_hit_ratio)),
            number(mean(cell.mean_latency_us), 1),
            number(mean(cell.cwf), 3),
        ]);
    }
    format!("Means over the traces, each counting the same:\n{table}\n")
}

/// How a saving is spread over the traces.
fn spreads(report: &EachReport, saving: fn(&OverTraces) -> Option<Spread>) -> String {
    let titles = ["scheme", "size", "traces", "mean %", "p10 %", "p50 %", "p90 %"];
    let mut table = output::table(&titles, 2);
    let others =
        by_size(report).filter(|cell| Some(&report.schemes[cell.scheme]) != report.baseline.as_ref());
    for (cell, spread) in others.filter_map(|cell| Some((cell, saving(cell)?))) {
        let mut row = vec![label(report, cell), report.sizes[cell.size].clone(), spread.count.to_string()];
        row.extend([spread.mean, spread.p10, spread.p50, spread.p90].map(|share| percent(Some(share))));
        table.add_row(row);
    }
    format!("{table}\n")
}

/// A row for each trace and size, a column for each scheme.
fn hits(report: &EachReport) -> String {
    let titles: Vec<&str> =
        ["trace", "size"].into_iter().chain(report.schemes.iter().map(String::as_str)).collect();
    let mut table = output::table(&titles, 2);
    for one in &report.traces {
        for (size, words) in report.sizes.iter().enumerate() {
            let of_size = one.comparison.cells.iter().filter(|cell| cell.size == size);
            let cells = of_size.map(|cell| percent(cell.hit_ratio));
            table.add_row([one.trace.clone(), words.clone()].into_iter().chain(cells));
        }
    }
    format!("{table}\n")
}

/// The rows of each comparison, with the trace before them.
pub fn rows(report: &EachReport) -> Rows {
    let of_trace: Columns<CsvRow<'_>, 1> = [("trace", |row| row.trace.to_owned())];
    let columns: Vec<_> = of_trace.into_iter().chain(csv_columns()).collect();
    let rows = report.traces.iter().flat_map(|one| {
        let report = &one.comparison;
        report.cells.iter().map(move |cell| CsvRow { trace: &one.trace, report, cell })
    });
    Rows::of(&columns, rows)
}
