//! A report as a page with a figure for each of the paper's. It must not compute anything.

use lode_draw::{
    Arrangement, Axis, BarChart, BarPart, Cells, Column, Item, LineChart, Page, Panel, Section, Series,
    Shape, States, Table,
};
use lode_plan::{Made, PROGRAM};

use crate::chart::{Bars, Chart, Lines, Scale};
use crate::error::PapersError;
use crate::report::{ExperimentReport, PaperReport, Sources};

/// What the columns of claims say.
const HOW_TO_READ: &str = "“Same direction” says whether what was measured points the same way as the paper or, where that gives a value to meet, comes near it. \
                           “Goal” is what Lodestore set out to reach before anything was measured. A dash: nothing was measured.";

/// The page.
///
/// # Errors
/// [`PapersError::Draw`] for more than a page can show.
pub fn page(report: &PaperReport, made: &Made) -> Result<String, PapersError> {
    let synthetic = match report.experiments.iter().any(|one| one.sources == Sources::Synthetic) {
        true => "synthetic where no trace is named; ",
        false => "",
    };
    let page = Page {
        title: "The papers' experiments".to_owned(),
        lead: report.in_short().into_iter().chain([HOW_TO_READ.to_owned(), made.line()]).collect(),
        subtitle: format!("{synthetic}requests timed alone on a model of the devices, blocks of 4 KiB"),
        sections: report.experiments.iter().map(section).collect(),
        footer: PROGRAM.to_owned(),
        ..Page::default()
    };
    Ok(page.html()?)
}

fn section(experiment: &ExperimentReport) -> Section {
    let mut items = vec![
        Item::Text(format!("Paper: {}.", experiment.ran)),
        Item::Text(format!("Here: {}", without_marks(&experiment.here()))),
    ];
    if !experiment.claims.is_empty() {
        items.push(Item::Table(claims(experiment)));
    }
    if !experiment.notes.is_empty() {
        items.extend(experiment.question.map(|question| Item::Text(question.to_owned())));
        let notes = experiment.notes.iter().map(|note| format!("{}.", without_marks(note))).collect();
        items.push(Item::Sentences(States::fixed(notes)));
    }
    let mut lines = Vec::new();
    for chart in &experiment.charts {
        match chart {
            Chart::Lines(curves) => lines.push(line_chart(curves)),
            Chart::Bars(bars) => {
                if !lines.is_empty() {
                    items.push(Item::Lines(std::mem::take(&mut lines)));
                }
                items.push(Item::Bars(bar_chart(bars)));
            }
        }
    }
    if !lines.is_empty() {
        items.push(Item::Lines(lines));
    }
    let ExperimentReport { paper, name, title, .. } = experiment;
    Section { title: format!("{}, {name}: {title}", paper.title()), items }
}

/// Text without the marks around code that Markdown has.
fn without_marks(text: &str) -> String {
    text.replace('`', "")
}

fn claims(experiment: &ExperimentReport) -> Table {
    let mut rows: Vec<[String; 5]> = Vec::new();
    for claim in &experiment.claims {
        rows.push([
            format!("{} ({})", claim.about, claim.source),
            claim.paper.clone(),
            claim.shown.text(claim.measured),
            claim.verdict().to_owned(),
            claim.goal_text(),
        ]);
        rows.extend(claim.otherwise.iter().map(|reading| {
            let measured = claim.shown.text(reading.measured);
            let verdict = reading.verdict().to_owned();
            // With the statement, from which sorting parts it.
            let what = format!("{}, {}", claim.about, reading.reading);
            [what, String::new(), measured, verdict, String::new()]
        }));
    }
    let titles = ["what", "paper", "measured", "same direction", "goal"];
    let column = |(at, title): (usize, &str)| Column {
        title: title.to_owned(),
        cells: Cells::Text(rows.iter().map(|row| row[at].clone()).collect()),
    };
    Table {
        title: "What the paper says, and what comes out".to_owned(),
        columns: titles.into_iter().enumerate().map(column).collect(),
    }
}

/// What a chart shows, for those who cannot see it.
fn in_each(names: &[&str], what: &str) -> String {
    format!("{} in each {what}", names.join(", "))
}

fn bar_chart(bars: &Bars) -> BarChart {
    let names: Vec<&str> = bars.parts.iter().map(|part| part.name.as_str()).collect();
    let parts = bars
        .parts
        .iter()
        .map(|part| BarPart { name: part.name.clone(), values: States::fixed(part.values.clone()) });
    BarChart {
        title: bars.title.clone(),
        description: in_each(&names, "row"),
        rows: bars.rows.clone(),
        panels: vec![Panel {
            title: bars.title.clone(),
            unit: bars.unit,
            arrangement: Arrangement::Grouped,
            parts: parts.collect(),
        }],
        row_series: None,
    }
}

fn line_chart(lines: &Lines) -> LineChart {
    let axis = |scale: &Scale| match scale.log {
        true => Axis::log(&scale.label, scale.unit),
        false => Axis::linear(&scale.label, scale.unit),
    };
    let names: Vec<&str> = lines.series.iter().map(|curve| curve.name.as_str()).collect();
    let mut chart = LineChart::new(&lines.title, in_each(&names, "place"), axis(&lines.x), axis(&lines.y));
    let series = lines.series.iter().filter(|curve| !curve.points.is_empty());
    chart.series = series.map(|curve| Series::new(&curve.name, Shape::Lines, curve.points.clone())).collect();
    chart
}
