//! Figs. 10 and 11: what POD and URD ask for, interval by interval.

use lode_draw::Unit;

use crate::chart::{Bars, Chart, Lines, Scale};
use crate::claim::{Bound, Claim, Reported, Shown};
use crate::experiment::{Experiment, Finding, less, mean, ratio};
use crate::job::{Demand, Job};
use crate::paper::Paper;
use crate::run::{Demands, Results};
use crate::workload::ETICA_MIX;

/// Section 5.2.
pub(super) const FIG_10_AND_11: Experiment = Experiment {
    paper: Paper::Etica,
    figure: "10-11",
    title: "cache sizes by POD and by URD",
    ran: "12 VMs; sizes estimated after every 10,000 requests for RO, WBWO and WB caches, without a limit of space \
          (section 5.2)",
    here: &[
        "Distances begin anew with every interval, as PARDA is fed one interval after the other; with history is the other \
         reading",
        "10,000 requests of the VM itself",
    ],
    claims: CLAIMS,
    jobs,
    measure,
};

const SECOND: &str = "section 5.2, observation 2";

static CLAIMS: &[Claim] = &[
    Claim::new(
        "etica-11-pod-smaller",
        "smaller size by POD than by URD, mean of the VMs and of RO and WBWO",
        Shown::Percent,
        Reported::Value(0.517),
    )
    .source(SECOND)
    .goal(Bound::AtLeast(0.40)),
    Claim::new(
        "etica-11-ro-smaller",
        "smaller size by POD(RO) than by URD, mean of the VMs",
        Shown::Percent,
        Reported::Words("considerably"),
    )
    .source(SECOND),
    Claim::new(
        "etica-11-wbwo-smaller",
        "smaller size by POD(WBWO) than by URD, mean of the VMs",
        Shown::Percent,
        Reported::Words("considerably"),
    )
    .source(SECOND),
    Claim::new(
        "etica-11-never-larger",
        "intervals in which POD(RO) or POD(WBWO) asks for more than URD",
        Shown::Number,
        Reported::Words("none"),
    )
    .source("section 4.3.1")
    .same(Bound::Within(0.0, 0.0)),
    Claim::new("etica-11-wb-same", "size by POD(WB), of that by URD", Shown::Times, Reported::Value(1.0))
        .source("section 5.2, observation 4")
        .same(Bound::Within(1.0, 1.0)),
];

/// Places in `DEMAND_METRICS`.
pub(super) const URD: usize = 0;
pub(super) const RO: usize = 1;
pub(super) const WBWO: usize = 2;
const WB: usize = 3;

/// Intervals that Fig. 10 shows.
const SHOWN: usize = 20;

fn job(carry: bool) -> Demand {
    Demand { workload: &ETICA_MIX, interval: super::SIZING, carry }
}

fn jobs() -> Vec<Job> {
    vec![Job::Demand(job(false)), Job::Demand(job(true))]
}

/// Mean blocks of a VM over its intervals.
pub(super) fn mean_blocks(demands: &Demands, metric: usize) -> Option<f64> {
    mean(demands.iter().map(|needed| Some(needed[metric] as f64)))
}

/// By how much less a metric asks for than URD, mean of the VMs.
fn smaller(vms: &[Demands], metric: usize) -> Option<f64> {
    mean(vms.iter().map(|demands| less(mean_blocks(demands, metric), mean_blocks(demands, URD))))
}

pub(super) fn both_smaller(vms: &[Demands]) -> Option<f64> {
    mean([smaller(vms, RO), smaller(vms, WBWO)])
}

/// By how much less the two levels together are than URD's one.
fn together_smaller(vms: &[Demands]) -> Option<f64> {
    let sum = |metric| vms.iter().filter_map(|demands| mean_blocks(demands, metric)).sum::<f64>();
    less(Some(sum(RO) + sum(WBWO)), Some(sum(URD)))
}

fn measure(results: &Results) -> Finding {
    let (anew, carried) = (results.demand(&job(false)), results.demand(&job(true)));
    let larger = |needed: &[u64; 4]| needed[RO] > needed[URD] || needed[WBWO] > needed[URD];
    let never_larger = anew.iter().flatten().filter(|needed| larger(needed)).count();
    let sum = |metric: usize| anew.iter().flatten().map(|needed| needed[metric] as f64).sum::<f64>();
    let mut found = Finding::default();
    found
        .say("etica-11-pod-smaller", both_smaller(anew))
        .otherwise("with the history of earlier intervals", both_smaller(carried))
        .otherwise("sum of DRAM and SSD against URD's one level", together_smaller(anew))
        .say("etica-11-ro-smaller", smaller(anew, RO))
        .otherwise("with the history of earlier intervals", smaller(carried, RO))
        .say("etica-11-wbwo-smaller", smaller(anew, WBWO))
        .otherwise("with the history of earlier intervals", smaller(carried, WBWO))
        .say("etica-11-never-larger", never_larger as f64)
        .say("etica-11-wb-same", ratio(Some(sum(WB)), Some(sum(URD))));
    let bars =
        Bars::new("Mean size asked for, in blocks (Fig. 11)", Unit::Count, ETICA_MIX.vms.iter().copied());
    let of = |metric| anew.iter().map(move |demands| mean_blocks(demands, metric));
    let bars = bars.part("URD", of(URD)).part("POD(RO)", of(RO)).part("POD(WBWO)", of(WBWO));
    found.draw(Chart::Bars(bars));
    for (name, demands) in ETICA_MIX.vms.iter().zip(anew) {
        let curve = |metric: usize| {
            let shown = demands.iter().take(SHOWN).enumerate();
            shown.map(move |(at, needed)| (at as f64, Some(needed[metric] as f64))).collect::<Vec<_>>()
        };
        let x = Scale::linear("Interval", Unit::Count);
        let chart = Lines::new(&format!("{name} (Fig. 10)"), x, Scale::linear("Blocks", Unit::Count));
        let chart = chart.curve("URD", curve(URD)).curve("POD(RO)", curve(RO));
        found.draw(Chart::Lines(chart.curve("POD(WBWO)", curve(WBWO))));
    }
    found
}
