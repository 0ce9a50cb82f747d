//! A comparison as a page and as a picture. It must not know how schemes work.

use lode_draw::{
    Axis, Cells, Choice, Column, Item, LineChart, Page, Section, Select, Series, Shape, States, Style, Table,
    Unit,
};

use lode_replay::InputReport;

use super::{lead, subtitle};
use crate::error::PlanError;
use crate::heading::{Made, PROGRAM};
use crate::report::{CellReport, CompareReport};

/// A page: every measure over the size, and all numbers.
///
/// # Errors
/// [`PlanError::Draw`] for more than a page can show.
pub fn compare_page(report: &CompareReport, made: &Made) -> Result<String, PlanError> {
    let measures = ["Hits", "Latency of a request", "Writes to the SSD"];
    let charts = vec![
        chart(report, "Hits", "Hits of all accesses", Unit::Ratio, |cell| cell.hit_ratio),
        chart(report, "Latency of a request", "Mean latency", Unit::Microseconds, |cell| {
            cell.mean_latency_us
        }),
        chart(report, "Writes to the SSD", "Bytes written", Unit::Bytes, |cell| {
            Some(cell.ssd_written_bytes as f64)
        }),
    ];
    let notes = report.notes.iter().map(|note| Item::Text(format!("{note}.")));
    let numbers = std::iter::once(Item::Table(table(report))).chain(notes).collect();
    let mut sections = vec![Section { title: "All numbers".to_owned(), items: numbers }];
    // Without requests there is nothing to draw.
    if report.cells.iter().any(|cell| cell.mean_latency_us.is_some()) {
        let options = measures.map(str::to_owned).to_vec();
        let selects = vec![Select { label: "Measure".to_owned(), options }];
        let items = vec![Item::Choice(Choice { selects, charts })];
        sections.insert(0, Section { title: "Over the size".to_owned(), items });
    }
    let page = Page {
        title: "Schemes side by side".to_owned(),
        lead: lead(report.in_short(), made),
        subtitle: subtitle(&report.inputs, &what(report)),
        sections,
        footer: PROGRAM.to_owned(),
        ..Page::default()
    };
    Ok(page.html()?)
}

/// The hits as SVG, for a paper.
///
/// # Errors
/// [`PlanError::Draw`] for more than a page can show.
pub fn compare_picture(report: &CompareReport) -> Result<String, PlanError> {
    let chart = chart(report, "Hits", "Hits of all accesses", Unit::Ratio, |cell| cell.hit_ratio);
    Ok(chart.svg(&Style::full_width().with_note(subtitle(&report.inputs, &what(report))))?)
}

fn what(report: &CompareReport) -> String {
    format!("devices '{}', each request alone, {}", report.devices, report.mapping.in_words())
}

fn total_bytes(cell: &CellReport) -> f64 {
    cell.levels.dram_bytes as f64 + cell.levels.ssd_bytes as f64
}

fn chart(
    report: &CompareReport,
    title: &str,
    label: &str,
    unit: Unit,
    value: fn(&CellReport) -> Option<f64>,
) -> LineChart {
    let x = Axis::log("Size of all levels used", Unit::Bytes);
    let mut chart =
        LineChart::new(title, format!("{label} by size, for each scheme"), x, Axis::linear(label, unit));
    for (number, scheme) in report.schemes.iter().enumerate() {
        let cells = report.cells.iter().filter(|cell| cell.scheme == number);
        let mut points: Vec<(f64, f64)> =
            cells.filter_map(|cell| value(cell).map(|value| (total_bytes(cell), value))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        chart.series.push(Series::new(&scheme.label, Shape::Lines, points));
    }
    chart
}

fn table(report: &CompareReport) -> Table {
    let numbers = |title: &str, unit: Unit, value: fn(&CellReport) -> Option<f64>| Column {
        title: title.to_owned(),
        cells: Cells::Numbers(unit, States::fixed(report.cells.iter().map(value).collect())),
    };
    let label = |cell: &CellReport| report.schemes[cell.scheme].label.clone();
    let mut columns = vec![
        Column { title: "Scheme".to_owned(), cells: Cells::Text(report.cells.iter().map(label).collect()) },
        numbers("DRAM", Unit::Bytes, |cell| Some(cell.levels.dram_bytes as f64)),
        numbers("SSD", Unit::Bytes, |cell| Some(cell.levels.ssd_bytes as f64)),
        numbers("Hits of all accesses", Unit::Ratio, |cell| cell.hit_ratio),
        numbers("Hits of block reads", Unit::Ratio, |cell| cell.read_hit_ratio),
        numbers("Latency of a request", Unit::Microseconds, |cell| cell.mean_latency_us),
        numbers("SSD written", Unit::Bytes, |cell| Some(cell.ssd_written_bytes as f64)),
        numbers("Per write", Unit::Count, |cell| cell.cwf),
    ];
    if InputReport::all_have_times(&report.inputs) {
        columns.push(numbers("Life", Unit::Years, |cell| cell.ssd_life_years));
        columns.push(numbers("Energy", Unit::Named("J"), |cell| cell.energy_j));
    }
    if let Some(baseline) = &report.baseline {
        let fewer = format!("Fewer misses than {baseline}");
        let against = |cell: &CellReport| cell.against.as_ref().and_then(|one| one.miss_ratio_reduction);
        columns.push(numbers(&fewer, Unit::Ratio, against));
    }
    columns.push(numbers("Cost", Unit::Dollars, |cell| Some(cell.cost_usd)));
    Table { title: "Every scheme with every size".to_owned(), columns }
}
