//! Curves as a page and as a picture. It must not know how they were measured.

use lode_draw::{Axis, Cells, Column, Item, LineChart, Page, Section, States, Style, Table, Unit};

use super::{lead, shown_vms, size_axis, staircase, subtitle};
use crate::error::PlanError;
use crate::heading::{Made, PROGRAM};
use crate::report::{CurveReport, VmCurveReport};

/// A page with every VM's curve.
///
/// # Errors
/// [`PlanError::Draw`] for more than a page can show.
pub fn curve_page(report: &CurveReport, made: &Made) -> Result<String, PlanError> {
    let vms = shown(report);
    let page = Page {
        title: "Hits by cache size".to_owned(),
        lead: lead(report.in_short(), made),
        subtitle: subtitle(&report.inputs, &what(report)),
        sections: vec![
            Section { title: "Curves".to_owned(), items: vec![Item::Lines(vec![chart(report)])] },
            Section { title: "VMs".to_owned(), items: vec![Item::Table(table(report, &vms))] },
        ],
        footer: PROGRAM.to_owned(),
        ..Page::default()
    };
    Ok(page.html()?)
}

/// The curves as SVG, for a paper.
///
/// # Errors
/// [`PlanError::Draw`] for more than a page can show.
pub fn curve_picture(report: &CurveReport) -> Result<String, PlanError> {
    Ok(chart(report).svg(&Style::full_width().with_note(subtitle(&report.inputs, &what(report))))?)
}

fn shown(report: &CurveReport) -> Vec<&VmCurveReport> {
    shown_vms(report.vms.iter().map(|vm| vm.accesses)).into_iter().map(|vm| &report.vms[vm]).collect()
}

fn what(report: &CurveReport) -> String {
    let policy = report.policy.as_ref().map(|policy| format!(" of {policy}")).unwrap_or_default();
    let shown = if report.vms.len() > super::MAX_PAGE_VMS {
        format!("; the {} busiest of {} VMs", super::MAX_PAGE_VMS, report.vms.len())
    } else {
        String::new()
    };
    format!("{}{policy}, {}{shown}", report.metric, report.method)
}

/// What the metric's name stands for.
fn meaning(report: &CurveReport) -> String {
    let policy = report.policy.as_deref().unwrap_or_default();
    let words = match (report.metric, policy) {
        ("trd", _) => {
            "trd: total reuse distances; reads and writes of blocks accessed before hit, as in a write-back cache that keeps all"
        }
        ("urd", _) => "urd: useful reuse distances; reads of blocks accessed before hit, and writes never do",
        ("pod", "ro") => {
            "pod of ro: policy-optimised reuse distances of a read-only cache; reads hit that follow a read with no write in between"
        }
        ("pod", "wbwo") => {
            "pod of wbwo: policy-optimised reuse distances of a cache that writes alone enter; reads of blocks written before hit"
        }
        ("pod", _) => {
            "pod of wb: policy-optimised reuse distances of a write-back cache; reads of blocks accessed before hit"
        }
        _ => return format!("{policy}, simulated in miniature"),
    };
    words.to_owned()
}

fn chart(report: &CurveReport) -> LineChart {
    let mut chart = LineChart::new(
        "Hits by cache size",
        format!(
            "Share of block accesses that caches of every size serve, for each VM: {}. {}",
            what(report),
            meaning(report)
        ),
        size_axis("Cache size", report.block_bytes),
        Axis::linear("Hits of all accesses", Unit::Ratio).with_complement("Misses of all accesses"),
    );
    for vm in shown(report) {
        let mut series = staircase(&vm.name, &vm.curve, report.block_bytes);
        // An exact curve has no band.
        if let Some(errors) = vm.standard_error.as_ref().filter(|_| vm.rate < 1.0) {
            series = series.with_errors(errors.clone());
        }
        chart.series.push(series);
    }
    if chart.series.is_empty() {
        chart.y = chart.y.reaching(0.0, 1.0);
    }
    chart
}

fn table(report: &CurveReport, vms: &[&VmCurveReport]) -> Table {
    let numbers = |title: &str, unit: Unit, value: &dyn Fn(&VmCurveReport) -> Option<f64>| Column {
        title: title.to_owned(),
        cells: Cells::Numbers(unit, States::fixed(vms.iter().map(|vm| value(vm)).collect())),
    };
    let bytes = |blocks: Option<u64>| blocks.map(|blocks| blocks as f64 * report.block_bytes as f64);
    Table {
        title: "VMs".to_owned(),
        columns: vec![
            Column {
                title: "VM".to_owned(),
                cells: Cells::Text(vms.iter().map(|vm| vm.name.clone()).collect()),
            },
            numbers("Requests", Unit::Count, &|vm| Some(vm.requests as f64)),
            numbers("Block accesses", Unit::Count, &|vm| Some(vm.accesses as f64)),
            numbers("Reads", Unit::Ratio, &|vm| {
                (vm.accesses > 0).then(|| vm.reads as f64 / vm.accesses as f64)
            }),
            numbers("Distinct", Unit::Bytes, &|vm| bytes(vm.distinct_blocks)),
            numbers("Needed", Unit::Bytes, &|vm| bytes(vm.blocks)),
            numbers("Best hits", Unit::Ratio, &|vm| vm.curve.last().map(|point| point.1)),
            numbers("Followed", Unit::Ratio, &|vm| Some(vm.rate)),
        ],
    }
}
