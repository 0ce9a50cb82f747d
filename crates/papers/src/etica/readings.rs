//! Readings of section 4.2: popularity, queues and eviction.

use lode_draw::Unit;

use super::{DRAM_PERCENT, TOTAL, etica, on_mix, two_levels};
use crate::chart::{Bars, Chart};
use crate::experiment::{Experiment, Finding};
use crate::job::{Job, Replay};
use crate::measures::{latency_us, read_hit_ratio, ssd_writes};
use crate::paper::Paper;
use crate::run::Results;

/// Section 4.2.
pub(super) const READINGS: Experiment = Experiment {
    paper: Paper::Etica,
    figure: "readings",
    title: "what else popularity, queues and eviction may mean",
    ran: "Nothing: where the print can be read in several ways, this shows what each would do",
    here: &["ETICA-Full as in Figs. 12 to 14, one setting changed at a time"],
    claims: &[],
    jobs,
    measure,
};

pub(super) const CHANGES: [(&str, Option<(&str, &str)>); 8] = [
    ("as in Figs. 12 to 14", None),
    ("popularity=wb", Some(("popularity", "wb"))),
    ("popularity=any", Some(("popularity", "any"))),
    ("queues=classes", Some(("queues", "classes"))),
    ("evict=literal", Some(("evict", "literal"))),
    ("ageing=1", Some(("ageing", "1"))),
    ("ageing=0", Some(("ageing", "0"))),
    ("window=reset", Some(("window", "reset"))),
];

pub(super) fn job(change: Option<(&'static str, &'static str)>) -> Replay {
    let scheme = etica("full-hybrid");
    let scheme = match change {
        Some((key, value)) => scheme.set(key, value),
        None => scheme,
    };
    on_mix(scheme, two_levels(TOTAL, DRAM_PERCENT))
}

pub(super) fn jobs() -> Vec<Job> {
    CHANGES.iter().map(|(_, change)| Job::Replay(job(*change))).collect()
}

fn measure(results: &Results) -> Finding {
    let reports = CHANGES.map(|(_, change)| results.replay(&job(change)));
    let rows = || CHANGES.iter().map(|(name, _)| *name);
    let mut found = Finding::default();
    let latency = Bars::new("Mean latency of all requests", Unit::Microseconds, rows());
    let hits = Bars::new("Hits of block reads", Unit::Ratio, rows());
    let writes = Bars::new("Blocks written to the SSD", Unit::Count, rows());
    found
        .draw(Chart::Bars(latency.part("latency", reports.map(latency_us))))
        .draw(Chart::Bars(hits.part("read hits", reports.map(|report| read_hit_ratio(&report.total)))))
        .draw(Chart::Bars(writes.part("SSD writes", reports.map(|report| ssd_writes(&report.total)))));
    found
}
