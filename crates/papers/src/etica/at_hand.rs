//! What ETICA claims, on traces at hand.

use lode_draw::Unit;
use lode_replay::Report;

use super::host::{self, ECI, ECI_WB, FULL, KINDS, NPE, vms_faster, vms_sparing};
use super::sizes::{RO, URD, WBWO, both_smaller, mean_blocks};
use super::{DRAM_PERCENT, SIZING, TOTAL, why};
use crate::at_hand::{AtHand, GAIN, Ran, Setup, Stage, Task};
use crate::chart::{Bars, Chart};
use crate::claim::{Claim, Reported, Shown};
use crate::experiment::{Finding, mean, more, ratio};
use crate::measures::hit_ratio;
use crate::paper::Paper;

/// Sections 5.2 to 5.4.
pub static AT_HAND: AtHand = AtHand {
    paper: Paper::Etica,
    ran: "12 VMs replay MSR volumes under QEMU; ECI-Cache with as much SSD as ETICA has DRAM and SSD together; sizing every \
          10,000 requests, promotion every 1,000 (sections 5.2 to 5.4)",
    here: &[
        "Each trace is one VM, alone on its host; those that read and write also share one host, where their requests take turns as if \
         all had taken the same time",
        "Both levels together are 10 % of the blocks touched, a fifth of it DRAM; devices are those of Figs. 12 to 14; ECI-Cache is \
         eci-cache-like",
        "Intervals are the paper's own and not made shorter: a trace of fewer than 10,000 requests is never sized",
        "The first row is the host of VMs; of traces alone the median is that of those that both read and write",
    ],
    claims: CLAIMS,
    of_many_vms: true,
    tasks: |_| {
        let replays = SHOWN.iter().map(|&kind| Task::Replay(setup(kind)));
        replays.chain([Task::Demand { interval: SIZING }]).collect()
    },
    measure,
};

const fn percent(key: &'static str, about: &'static str, paper: f64, source: &'static str) -> Claim {
    Claim::new(key, about, Shown::Percent, Reported::Value(paper)).source(source).same(GAIN)
}

static CLAIMS: &[Claim] = &[
    percent(
        "etica-real-npe",
        "NPE: less latency than ECI-Cache, mean of the VMs",
        0.27,
        "section 5.3, observation 1",
    ),
    percent(
        "etica-real-full",
        "Full: less latency than ECI-Cache, mean of the VMs",
        0.45,
        "section 5.3, observation 1",
    ),
    percent(
        "etica-real-writes",
        "Full: fewer SSD writes than ECI-Cache, mean of the VMs",
        0.338,
        "section 5.4, observation 1",
    ),
    percent(
        "etica-real-hits",
        "Full: more hits of all accesses than ECI-Cache",
        0.30,
        "section 5.3, observation 2",
    ),
    percent(
        "etica-real-pod",
        "smaller size by POD than by URD, mean of RO and WBWO",
        0.517,
        "section 5.2, observation 2",
    ),
];

/// Kinds of [`KINDS`] that are run.
const SHOWN: [usize; 4] = [ECI, ECI_WB, NPE, FULL];

fn setup(kind: usize) -> Setup {
    host::job(KINDS[kind].1, TOTAL, DRAM_PERCENT).into()
}

pub(super) fn report<'a>(stage: &'a Stage<'_>, kind: usize) -> &'a Report {
    stage.report(&setup(kind))
}

/// By how much less latency, mean of the VMs.
fn faster(stage: &Stage<'_>, kind: usize, base: usize) -> Option<f64> {
    mean(vms_faster(report(stage, kind), report(stage, base)))
}

/// By how many fewer SSD writes, mean of the VMs.
fn sparing(stage: &Stage<'_>, kind: usize, base: usize) -> Option<f64> {
    mean(vms_sparing(report(stage, kind), report(stage, base)))
}

fn hits(stage: &Stage<'_>, kind: usize) -> Option<f64> {
    hit_ratio(&report(stage, kind).total)
}

fn measure(ran: &Ran<'_>) -> Finding {
    let mut found = Finding::default();
    ran.say(&mut found, "etica-real-npe", &|stage| faster(stage, NPE, ECI));
    ran.say(&mut found, "etica-real-full", &|stage| faster(stage, FULL, ECI));
    ran.say(&mut found, "etica-real-writes", &|stage| sparing(stage, FULL, ECI));
    ran.say(&mut found, "etica-real-hits", &|stage| more(hits(stage, FULL), hits(stage, ECI)));
    ran.say(&mut found, "etica-real-pod", &|stage| both_smaller(stage.demand(SIZING)));
    found
        .draw(of_eci(ran, "Latency, of ECI-Cache-like's", [Some(0.73), Some(0.55)], vms_faster))
        .draw(of_eci(ran, "SSD writes, of ECI-Cache-like's", [None, Some(0.662)], vms_sparing))
        .draw(all_hits(ran))
        .draw(sizes(ran));
    why::explain(&mut found, ran);
    found
}

const PAPER: &str = "the paper's 12 VMs";

/// By how much less of something, for each VM.
type OfVms = fn(&Report, &Report) -> Vec<Option<f64>>;

/// What is left of ECI-Cache-like's, and of the same with every cache write-back.
fn of_eci(ran: &Ran<'_>, title: &str, paper: [Option<f64>; 2], of_vms: OfVms) -> Chart {
    let rows = std::iter::once(PAPER.to_owned()).chain(ran.stages().map(|stage| stage.row.clone()));
    let [npe, full] = paper;
    let left = |less: Option<f64>| less.map(|less| 1.0 - less);
    let values = |paper: Option<f64>, kind: usize, base: usize| {
        let of = |stage: &Stage<'_>| left(mean(of_vms(report(stage, kind), report(stage, base))));
        std::iter::once(paper).chain(ran.stages().map(of)).collect::<Vec<_>>()
    };
    let bars = Bars::new(title, Unit::Ratio, rows)
        .part("NPE", values(npe, NPE, ECI))
        .part("Full", values(full, FULL, ECI))
        .part("NPE, of the same with every cache write-back", values(None, NPE, ECI_WB))
        .part("Full, of that", values(None, FULL, ECI_WB));
    let Some(host) = &ran.host else { return Chart::Bars(bars) };
    let on_host = |kind: usize, base: usize| {
        let less = of_vms(report(host, kind), report(host, base));
        let of_trace = |stage: &Stage<'_>| {
            let vm = host.facts.iter().position(|facts| facts.name == stage.facts[0].name)?;
            left(less[vm])
        };
        std::iter::once(None).chain(ran.traces.iter().map(of_trace)).chain([None]).collect::<Vec<_>>()
    };
    let bars = bars.part("NPE, as a VM of the host", on_host(NPE, ECI));
    Chart::Bars(bars.part("NPE, as a VM, of write-back", on_host(NPE, ECI_WB)))
}

fn all_hits(ran: &Ran<'_>) -> Chart {
    let bars = Bars::new("Hits of all accesses", Unit::Ratio, ran.stages().map(|stage| stage.row.clone()));
    let bars = SHOWN
        .iter()
        .fold(bars, |bars, &kind| bars.part(KINDS[kind].0, ran.stages().map(move |stage| hits(stage, kind))));
    Chart::Bars(bars)
}

/// Mean size that each metric asks for, of the blocks touched.
fn sizes(ran: &Ran<'_>) -> Chart {
    let rows = ran.traces.iter().map(|stage| stage.row.clone());
    let of = |metric: usize| {
        ran.traces.iter().map(move |stage| {
            let blocks = mean(stage.demand(SIZING).iter().map(|demands| mean_blocks(demands, metric)));
            ratio(blocks, Some(stage.touched_blocks() as f64))
        })
    };
    let bars = Bars::new("Mean size asked for, of the blocks touched", Unit::Ratio, rows)
        .part("URD", of(URD))
        .part("POD(RO)", of(RO))
        .part("POD(WBWO)", of(WBWO));
    Chart::Bars(bars)
}
