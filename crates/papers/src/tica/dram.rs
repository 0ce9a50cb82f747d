//! Figs. 11 and 14 with other sizes of DRAM.

use lode_draw::Unit;
use lode_replay::Report;

use super::{COMPARED, Kind, Value, job_with, place};
use crate::chart::{Chart, Lines, Scale};
use crate::experiment::{Experiment, Finding, mean, ratio};
use crate::job::{Job, Size};
use crate::measures::{hit_ratio, latency_us};
use crate::paper::Paper;
use crate::run::Results;

/// A sweep.
pub(super) const SWEEP: Experiment = Experiment {
    paper: Paper::Tica,
    figure: "dram",
    title: "Figs. 11 and 14 with other sizes of DRAM",
    ran: "Nothing: the paper has DRAM of 1 % of the working set",
    here: &["DRAM of 0.5 to 10 % and SSDs of 10 % of the blocks touched; means of six workloads"],
    claims: &[],
    jobs,
    measure,
};

/// Those that the paper speaks of by name.
const WORKLOADS: [&str; 6] = ["TPCC", "Webserver", "DevToolRel", "Ts_0", "Usr_0", "Hm_1"];

/// Ten-thousandths of the blocks touched.
const PARTS: [u32; 4] = [50, 100, 300, 1_000];

fn swept() -> impl Iterator<Item = (&'static str, Kind)> {
    COMPARED.into_iter().filter(|(_, kind)| *kind != Kind::SRac)
}

fn jobs() -> Vec<Job> {
    let cells = WORKLOADS.iter().flat_map(|name| PARTS.iter().map(move |&part| (place(name), part)));
    let cells = cells.flat_map(|(at, part)| swept().map(move |(_, kind)| (at, kind, part)));
    cells.map(|(at, kind, part)| Job::Replay(job_with(at, kind, Size::OfTouched(part)))).collect()
}

fn measure(results: &Results) -> Finding {
    let report = |name: &str, kind, part| results.replay(&job_with(place(name), kind, Size::OfTouched(part)));
    let hits: Value = |report: &Report| hit_ratio(&report.total);
    let of = |value: Value, kind: Kind, part: u32| {
        mean(
            WORKLOADS
                .map(|name| ratio(value(report(name, kind, part)), value(report(name, Kind::UCache, part)))),
        )
    };
    let x = || Scale::log("DRAM, of the blocks touched", Unit::Ratio);
    let y = || Scale::linear("Of uCache-like's", Unit::Count);
    let chart = |title: &str, value: Value| {
        let chart = swept().fold(Lines::new(title, x(), y()), |chart, (name, kind)| {
            chart.curve(name, PARTS.map(|part| (f64::from(part) / 1e4, of(value, kind, part))))
        });
        Chart::Lines(chart)
    };
    let mut found = Finding::default();
    found
        .draw(chart("Response time, of uCache-like's", latency_us))
        .draw(chart("Hits, of uCache-like's", hits));
    found
}
