//! Table 3: which writes are critical, by why they are and what they write.

use lode_draw::Unit;

use super::{MODEL, all, postgres, settled};
use crate::chart::{Bars, Chart};
use crate::claim::{Bound, Claim, Reported, Shown};
use crate::experiment::{Experiment, Finding, ratio};
use crate::paper::Paper;
use crate::run::Results;

/// Section 7.2.
pub(super) const TABLE_3: Experiment = Experiment {
    paper: Paper::RequestOriented,
    figure: "T3",
    title: "critical writes by kind",
    ran: "CP+PI+IOI with a 4 GB ramdisk: critical writes by why they are, and what they write (section 7.2, Table 3)",
    here: &[MODEL, "300 simulated seconds at least here"],
    claims: &[
        Claim::new("req-t3-cp", "critical writes by CP alone", Shown::Percent, Reported::Value(0.987409))
            .source("Table 3")
            .same(Bound::AtLeast(0.5)),
        Claim::new("req-t3-log", "critical writes to the log", Shown::Percent, Reported::Value(0.993123))
            .source("Table 3")
            .same(Bound::AtLeast(0.5)),
        Claim::new("req-t3-sync", "synchronous ones among them", Shown::Percent, Reported::Value(0.998078))
            .source("Table 3")
            .same(Bound::AtLeast(0.5)),
        critical("req-t3-cp-sync", "critical by CP and synchronous", 0.987409),
        critical("req-t3-pi-sync", "critical by PI and synchronous", 0.010312),
        critical("req-t3-ioi-sync", "critical by IOI and synchronous", 0.000357),
        critical("req-t3-pi-async", "critical by PI and asynchronous", 0.001387),
        critical("req-t3-ioi-async", "critical by IOI and asynchronous", 0.000535),
    ],
    jobs: || all([settled(postgres("cp-pi-ioi", 4096))]),
    measure: table_3,
};

/// A share of the critical writes.
const fn critical(key: &'static str, about: &'static str, paper: f64) -> Claim {
    Claim::new(key, about, Shown::Percent, Reported::Value(paper)).source("Table 3")
}

fn table_3(results: &Results) -> Finding {
    let critical = &results.processes(&settled(postgres("cp-pi-ioi", 4096))).critical;
    let kinds = critical.map(|reasons| [reasons.db, reasons.log, reasons.metadata, reasons.journal]);
    let sum = |counts: &[u64]| counts.iter().sum::<u64>() as f64;
    let total: f64 = kinds.iter().map(|kinds| sum(kinds)).sum();
    let part = |count: f64| ratio(Some(count), Some(total));
    let log: u64 = critical.iter().map(|reasons| reasons.log).sum();
    let asynchronous: u64 = critical.iter().map(|reasons| reasons.asynchronous).sum();
    let mut found = Finding::default();
    found
        .say("req-t3-cp", part(sum(&kinds[0])))
        .say("req-t3-log", part(log as f64))
        .say("req-t3-sync", part(total - asynchronous as f64));
    let parts = [0, 1, 2].map(|cause: usize| {
        let asynchronous = critical[cause].asynchronous as f64;
        [part(sum(&kinds[cause]) - asynchronous), part(asynchronous)]
    });
    found
        .say("req-t3-cp-sync", parts[0][0])
        .say("req-t3-pi-sync", parts[1][0])
        .say("req-t3-ioi-sync", parts[2][0])
        .say("req-t3-pi-async", parts[1][1])
        .say("req-t3-ioi-async", parts[2][1]);
    found.note(
        "Of what the kernel writes asynchronously (Table 1) hardly anything holds up a transaction in the model; in the paper 0.2 % of the \
         critical writes are such. CP takes no asynchronous write whatever happens",
    );
    let bars = Bars::new("Critical writes (Table 3)", Unit::Ratio, ["data", "log", "metadata", "journal"]);
    let bars = ["CP", "PI", "IOI"]
        .into_iter()
        .zip(kinds)
        .fold(bars, |bars, (name, kinds)| bars.part(name, kinds.map(|count| part(count as f64))));
    found.draw(Chart::Bars(bars));
    let bars = Bars::new(
        "Critical writes, synchronous or not (Table 3)",
        Unit::Ratio,
        ["synchronous", "asynchronous"],
    );
    let bars =
        ["CP", "PI", "IOI"].into_iter().zip(parts).fold(bars, |bars, (name, parts)| bars.part(name, parts));
    found.draw(Chart::Bars(bars));
    found
}
