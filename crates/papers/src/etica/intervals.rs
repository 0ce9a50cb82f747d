//! Fig. 17: how often to promote.

use lode_draw::Unit;

use super::{DRAM_PERCENT, TOTAL, on_mix, promoting, two_levels};
use crate::chart::{Chart, Lines, Scale};
use crate::claim::{Bound, Claim, Reported, Shown};
use crate::experiment::{Experiment, Finding, least, mean, more, most, ratio};
use crate::job::{Job, Replay};
use crate::measures::{ssd_writes, vm_latencies_us};
use crate::paper::Paper;
use crate::run::Results;
use crate::workload::ETICA_MIX;

/// Section 5.6.
pub(super) const FIG_17: Experiment = Experiment {
    paper: Paper::Etica,
    figure: "17",
    title: "promotion intervals",
    ran: "Promotion after every 100 to 10,000 requests of the system (section 5.6)",
    here: &["ETICA-Full as in Figs. 12 to 14; of its 12 VMs six are drawn, and all are measured"],
    claims: &[
        Claim::new(
            "etica-17-small-gain",
            "more performance with 100 than with 1,000 requests, mean of the VMs",
            Shown::Percent,
            Reported::Words("negligible"),
        )
        .source("section 5.6, observation 1")
        .same(Bound::Within(-0.05, 0.05)),
        Claim::new(
            "etica-17-spread",
            "best over worst performance of the intervals, the VM with the most",
            Shown::Percent,
            Reported::Value(0.20),
        )
        .source("section 5.6, observation 2")
        .same(Bound::Within(0.0, 0.5)),
        Claim::new(
            "etica-17-writes",
            "more SSD writes with 100 than with 10,000 requests",
            Shown::Percent,
            Reported::Words("more writes"),
        )
        .source("section 5.6"),
    ],
    jobs,
    measure,
};

const INTERVALS: [u64; 5] = [100, 300, 1_000, 3_000, 10_000];

fn job(interval: u64) -> Replay {
    on_mix(promoting("full-hybrid", interval), two_levels(TOTAL, DRAM_PERCENT))
}

fn jobs() -> Vec<Job> {
    INTERVALS.iter().map(|&interval| Job::Replay(job(interval))).collect()
}

fn measure(results: &Results) -> Finding {
    let reports = INTERVALS.map(|interval| results.replay(&job(interval)));
    let performances: Vec<Vec<Option<f64>>> = reports
        .iter()
        .map(|report| vm_latencies_us(report).into_iter().map(|us| us.map(|us| 1e6 / us)).collect())
        .collect();
    let [hundred, _, thousand, _, ten_thousand] = [0, 1, 2, 3, 4];
    let vms = 0..ETICA_MIX.vms.len();
    let gain = |vm: usize| more(performances[hundred][vm], performances[thousand][vm]);
    let spread = |vm: usize| {
        let of_vm = || performances.iter().map(move |of| of[vm]);
        more(most(of_vm()), least(of_vm()))
    };
    let writes = |at: usize| ssd_writes(&reports[at].total);
    let mut found = Finding::default();
    found
        .say("etica-17-small-gain", mean(vms.clone().map(gain)))
        .say("etica-17-spread", most(vms.map(spread)))
        .say("etica-17-writes", more(writes(hundred), writes(ten_thousand)));
    let x = || Scale::log("Requests between promotions", Unit::Count);
    let y = |label| Scale::linear(label, Unit::Ratio);
    let points = |value: &dyn Fn(usize) -> Option<f64>| {
        INTERVALS.iter().enumerate().map(|(at, &interval)| (interval as f64, value(at))).collect::<Vec<_>>()
    };
    let mut performance = Lines::new("Performance, of that with 1,000", x(), y("Performance"));
    let mut written = Lines::new("SSD writes, of those with 1,000", x(), y("SSD writes"));
    for name in ["hm_1", "stg_1", "ts_0", "wdev_0", "usr_0", "proj_0"] {
        let Some(vm) = ETICA_MIX.vms.iter().position(|vm| *vm == name) else { continue };
        let relative = |at: usize| ratio(performances[at][vm], performances[thousand][vm]);
        performance = performance.curve(name, points(&relative));
        let of = |at: usize| ssd_writes(&reports[at].vms[vm].counts);
        written = written.curve(name, points(&|at| ratio(of(at), of(thousand))));
    }
    found.draw(Chart::Lines(performance)).draw(Chart::Lines(written));
    found
}
