//! A comparison as a page and as a picture. It must not know how schemes work.

use lode_draw::{
    Axis, Cells, Choice, Column, Item, LineChart, Page, Section, Select, Series, Shape, States, Style, Table,
    Unit,
};

use lode_replay::InputReport;
use lode_types::Level;

use super::{lead, subtitle};
use crate::error::PlanError;
use crate::heading::{Made, PROGRAM};
use crate::report::{CellReport, CellVm, CompareReport};

/// Most VMs that a reader can choose among.
const MAX_CHOSEN_VMS: usize = 64;

/// What a reader can choose to see over the size.
struct Measure {
    title: &'static str,
    label: &'static str,
    /// What one less it is, where that is worth a look.
    complement: Option<&'static str>,
    unit: Unit,
    of_all: fn(&CellReport) -> Option<f64>,
    of_vm: fn(&CellVm) -> Option<f64>,
}

const MEASURES: [Measure; 4] = [
    Measure {
        title: "Hits",
        label: "Hits of all accesses",
        complement: Some("Misses of all accesses"),
        unit: Unit::Ratio,
        of_all: |cell| cell.hit_ratio,
        of_vm: |vm| vm.hit_ratio,
    },
    Measure {
        title: "Hits of block reads",
        label: "Hits of block reads",
        complement: Some("Misses of block reads"),
        unit: Unit::Ratio,
        of_all: |cell| cell.read_hit_ratio,
        of_vm: |vm| vm.read_hit_ratio,
    },
    Measure {
        title: "Latency of a request",
        label: "Mean latency",
        complement: None,
        unit: Unit::Microseconds,
        of_all: |cell| cell.mean_latency_us,
        of_vm: |vm| vm.mean_latency_us,
    },
    Measure {
        title: "Writes to the SSDs",
        label: "Bytes written",
        complement: None,
        unit: Unit::Bytes,
        of_all: |cell| Some(cell.ssd_written_bytes as f64 + cell.read_ssd_written_bytes as f64),
        of_vm: |vm| Some(vm.ssd_written_bytes as f64 + vm.read_ssd_written_bytes as f64),
    },
];

/// A page: every measure over the size, and all numbers.
///
/// # Errors
/// [`PlanError::Draw`] for more than a page can show.
pub fn compare_page(report: &CompareReport, made: &Made) -> Result<String, PlanError> {
    let notes = report.notes.iter().map(|note| Item::Text(format!("{note}.")));
    let numbers = std::iter::once(Item::Table(table(report))).chain(notes).collect();
    let mut sections = vec![Section { title: "All numbers".to_owned(), items: numbers }];
    // Without requests there is nothing to draw.
    if report.cells.iter().any(|cell| cell.mean_latency_us.is_some()) {
        let items = vec![Item::Choice(choice(report))];
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

/// One large chart of a measure that the reader chooses, and where there are several VMs, of one of these or of all.
fn choice(report: &CompareReport) -> Choice {
    let vms = chosen_vms(report);
    let of_vms = std::iter::once(None).chain(vms.iter().map(|&vm| Some(vm)));
    let of_measure = |measure| of_vms.clone().map(move |vm| chart(report, measure, vm));
    let charts = MEASURES.iter().flat_map(of_measure).collect();
    let options = MEASURES.iter().map(|measure| measure.title.to_owned()).collect();
    let mut selects = vec![Select { label: "Measure".to_owned(), options }];
    if !vms.is_empty() {
        let name = |&vm: &usize| report.cells[0].vms[vm].name.clone();
        let options = std::iter::once("All VMs".to_owned()).chain(vms.iter().map(name)).collect();
        selects.push(Select { label: "VM".to_owned(), options });
    }
    Choice { selects, charts }
}

/// The VMs that can be looked at alone: the first ones that have requests, unless there is one VM alone.
fn chosen_vms(report: &CompareReport) -> Vec<usize> {
    let count = report.cells.first().map_or(0, |cell| cell.vms.len());
    let has_requests = |&vm: &usize| {
        report.cells.iter().any(|cell| cell.vms.get(vm).is_some_and(|vm| vm.mean_latency_us.is_some()))
    };
    if count < 2 { Vec::new() } else { (0..count).filter(has_requests).take(MAX_CHOSEN_VMS).collect() }
}

/// The hits as SVG, for a paper.
///
/// # Errors
/// [`PlanError::Draw`] for more than a page can show.
pub fn compare_picture(report: &CompareReport) -> Result<String, PlanError> {
    let chart = chart(report, &MEASURES[0], None);
    Ok(chart.svg(&Style::full_width().with_note(subtitle(&report.inputs, &what(report))))?)
}

fn what(report: &CompareReport) -> String {
    format!("devices '{}', each request alone, {}", report.devices, report.mapping.in_words())
}

fn total_bytes(cell: &CellReport) -> f64 {
    Level::ALL.iter().map(|&level| cell.levels.of(level) as f64).sum()
}

/// A measure over the size, of one VM or of all; the size is that of all VMs together.
fn chart(report: &CompareReport, measure: &Measure, vm: Option<usize>) -> LineChart {
    let Measure { title, label, complement, unit, of_all, of_vm } = *measure;
    let value = |cell: &CellReport| match vm {
        None => of_all(cell),
        Some(vm) => cell.vms.get(vm).and_then(of_vm),
    };
    let whose = vm.and_then(|vm| report.cells.first()?.vms.get(vm));
    let whose = whose.map_or_else(String::new, |vm| format!(" of {}", vm.name));
    let x = Axis::log("Size of all levels used", Unit::Bytes);
    let about = format!("{label}{whose} by size, for each scheme");
    let y = Axis { complement: complement.map(str::to_owned), ..Axis::linear(label, unit) };
    let mut chart = LineChart::new(title, about, x, y);
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
    ];
    let has_read_ssd = report.cells.iter().any(|cell| cell.levels.read_ssd_bytes > 0);
    if has_read_ssd {
        columns.push(numbers("Read SSD", Unit::Bytes, |cell| Some(cell.levels.read_ssd_bytes as f64)));
    }
    columns.extend([
        numbers("Hits of all accesses", Unit::Ratio, |cell| cell.hit_ratio),
        numbers("Hits of block reads", Unit::Ratio, |cell| cell.read_hit_ratio),
        numbers("Latency of a request", Unit::Microseconds, |cell| cell.mean_latency_us),
        numbers("SSD written", Unit::Bytes, |cell| Some(cell.ssd_written_bytes as f64)),
    ]);
    if has_read_ssd {
        let written = |cell: &CellReport| Some(cell.read_ssd_written_bytes as f64);
        columns.push(numbers("Read SSD written", Unit::Bytes, written));
    }
    columns.push(numbers("Per write", Unit::Count, |cell| cell.cwf));
    if InputReport::all_have_times(&report.inputs) {
        columns.push(numbers("SSD life", Unit::Years, |cell| cell.ssd_life_years));
        if has_read_ssd {
            columns.push(numbers("Read SSD life", Unit::Years, |cell| cell.read_ssd_life_years));
        }
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
