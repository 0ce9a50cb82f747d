//! The tables of `lode requests`. It must not know how anything was simulated.

use lode_processes::{Primitive, RequestsReport, WaitReport};

use super::{Ended, Setting};
use crate::output;

/// What became of requests and writes under each policy.
pub fn results(reports: &[RequestsReport]) -> String {
    let ms = |us: u64| output::number(Some(us as f64 / 1000.0), 2);
    let titles =
        ["policy", "req/s", "p50 ms", "p99 ms", "p99.9 ms", "writes", "cached", "%", "stalled", "reissued"];
    let mut table = output::table(&titles, 1);
    for report in reports {
        let (latency, writes) = (&report.latency, &report.writes);
        table.add_row([
            report.policy.to_owned(),
            output::number(Some(report.requests_per_s), 1),
            ms(latency.p50_us),
            ms(latency.p99_us),
            ms(latency.p99_9_us),
            writes.submitted.to_string(),
            writes.cached.to_string(),
            output::percent((writes.submitted > 0).then(|| writes.cached as f64 / writes.submitted as f64)),
            writes.stalled.to_string(),
            writes.reissued.to_string(),
        ]);
    }
    format!("{table}\n")
}

/// When each process of a script ended.
pub fn ended(reports: &[RequestsReport], ended: &[Ended]) -> String {
    let titles = std::iter::once("process").chain(reports.iter().map(|report| report.policy));
    let mut table = output::table(&titles.collect::<Vec<_>>(), 1);
    for one in ended {
        let cells = one.ended_ms.iter().map(|ms| output::number(*ms, 2));
        table.add_row(std::iter::once(one.process.clone()).chain(cells));
    }
    format!("\nWhen each process ended, in milliseconds:\n{table}\n")
}

/// A row for each primitive that anybody waited in, with a cell for each policy.
fn by_primitive(
    reports: &[RequestsReport],
    more: &[&str],
    row: impl Fn(Primitive, &[Option<&WaitReport>]) -> Vec<String>,
) -> String {
    let policies = reports.iter().map(|report| report.policy);
    let titles: Vec<&str> =
        std::iter::once("primitive").chain(policies).chain(more.iter().copied()).collect();
    let mut table = output::table(&titles, 1);
    for primitive in Primitive::ALL {
        let of = |report: &'_ RequestsReport| {
            report.waits.iter().position(|wait| wait.primitive == primitive.name())
        };
        let waits: Vec<Option<&WaitReport>> =
            reports.iter().map(|report| of(report).map(|at| &report.waits[at])).collect();
        if waits.iter().any(Option::is_some) {
            table.add_row(std::iter::once(primitive.name().to_owned()).chain(row(primitive, &waits)));
        }
    }
    format!("{table}\n")
}

/// Where requests spend their waiting.
pub fn waits_a_request(reports: &[RequestsReport]) -> String {
    let table = by_primitive(reports, &[], |_, waits| {
        let cell =
            |wait: &Option<&WaitReport>| output::number(wait.map(|wait| wait.per_request_us / 1000.0), 3);
        waits.iter().map(cell).collect()
    });
    format!("\nWaits of critical processes, in milliseconds a request:\n{table}")
}

/// How long single waits are, beside the paper's table 2 where the model is its application.
pub fn long_waits(reports: &[RequestsReport], beside_paper: bool) -> String {
    let show = |mean_ms: f64, max_ms: f64| {
        format!("{} / {}", output::number(Some(mean_ms), 2), output::number(Some(max_ms), 1))
    };
    let more: &[&str] = if beside_paper { &["paper, cp"] } else { &[] };
    let table = by_primitive(reports, more, |primitive, waits| {
        let cell = |wait: &Option<&WaitReport>| {
            wait.map_or("-".to_owned(), |wait| show(wait.mean_us / 1000.0, wait.max_us / 1000.0))
        };
        let mut cells: Vec<String> = waits.iter().map(cell).collect();
        if beside_paper {
            cells.push(primitive.paper_ms().map_or("-".to_owned(), |(mean, max)| show(mean, max)));
        }
        cells
    });
    let paper = if beside_paper { "; the paper's table 2 has them under cp with 4 GiB" } else { "" };
    format!("\nMean and longest single wait in milliseconds{paper}:\n{table}")
}

/// How busy the devices were.
pub fn devices(reports: &[RequestsReport]) -> String {
    let titles = ["policy", "device", "commands", "mean queued ms", "mean service ms", "longest queue"];
    let mut table = output::table(&titles, 2);
    for report in reports {
        for device in &report.devices {
            table.add_row([
                report.policy.to_owned(),
                device.device.to_owned(),
                device.commands.to_string(),
                output::number(Some(device.queued_us_mean / 1000.0), 3),
                output::number(Some(device.service_us_mean / 1000.0), 3),
                device.longest_queue.to_string(),
            ]);
        }
    }
    format!("\n{table}\n")
}

/// What can be set.
pub fn settings(entries: &[Setting]) -> String {
    let mut table = output::table(&["setting", "default", "values", "what it does", "source"], 5);
    for entry in entries {
        table.add_row([entry.key, entry.default, &entry.values, entry.about, entry.source]);
    }
    format!("{table}\n")
}
