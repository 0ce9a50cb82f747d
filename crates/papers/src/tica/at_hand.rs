//! What TICA claims, on traces at hand.

use lode_draw::Unit;
use lode_replay::Report;

use super::response::{all_hits, wo_writes};
use super::{COMPARED, Kind, Value, all_ssd_writes, energy_back_to_back_j, energy_j, job};
use crate::at_hand::{AtHand, GAIN, Ran, Setup, Stage, Task};
use crate::chart::{Bars, Chart};
use crate::claim::{Bound, Claim, Reported, Shown};
use crate::experiment::{Finding, least, most, ratio};
use crate::measures::latency_us;
use crate::paper::Paper;

/// Sections 5.2 to 5.5.
pub static AT_HAND: AtHand = AtHand {
    paper: Paper::Tica,
    ran: "17 workloads replayed on devices; SSDs of 10 % and DRAM of 1 % of the working set; against uCache on a RAID-1 \
          and S-RAC with a DRAM level (section 5)",
    here: &[
        "TICA-A (tica-adaptive) beside ucache-like; the paper's numbers are means against uCache and S-RAC",
        "Energy is Eq. 2: memory and SSDs without disks, over the trace's own time, of which a trace of block numbers has none; life is the \
         inverse of the blocks written to the WO-SSD",
        "TICA-A looks at windows of 10,000 requests, which are not made shorter: on a trace of fewer it stays as it begins",
        "The first row is the median of the traces that both read and write",
    ],
    claims: CLAIMS,
    of_many_vms: false,
    tasks: |_| KINDS.iter().map(|&kind| Task::Replay(setup(kind))).collect(),
    measure,
};

const fn percent(key: &'static str, about: &'static str, paper: f64, source: &'static str) -> Claim {
    Claim::new(key, about, Shown::Percent, Reported::Value(paper)).source(source).same(GAIN)
}

static CLAIMS: &[Claim] = &[
    percent("tica-real-latency", "A: less response time than uCache-like", 0.08, "section 5.2, Fig. 11"),
    percent("tica-real-energy", "A: less energy than uCache-like", 0.28, "section 5.3, Fig. 12"),
    percent("tica-real-back-to-back", "A: less energy, requests back to back", 0.28, "section 5.3, Fig. 12"),
    percent("tica-real-writes", "A: more SSD writes than uCache-like", 0.047, "section 5.4, Fig. 13")
        .same(Bound::Within(-0.10, 0.20)),
    percent("tica-real-life", "A: longer life of the WO-SSD than of one SSD level", 0.38, "section 5.4"),
    percent("tica-real-hits", "A: more hits than uCache-like", 0.064, "section 5.5, Fig. 14"),
];

const KINDS: [Kind; 5] = [Kind::UCache, Kind::Ef, Kind::Wed, Kind::Adaptive, Kind::OneLevel];

fn setup(kind: Kind) -> Setup {
    job(0, kind).into()
}

/// A number of one kind, of that of another.
fn relative(stage: &Stage<'_>, value: Value, kind: Kind, base: Kind) -> Option<f64> {
    ratio(value(stage.report(&setup(kind))), value(stage.report(&setup(base))))
}

/// By how much less A has of it than uCache-like.
fn less(stage: &Stage<'_>, value: Value) -> Option<f64> {
    relative(stage, value, Kind::Adaptive, Kind::UCache).map(|ratio| 1.0 - ratio)
}

fn measure(ran: &Ran<'_>) -> Finding {
    let mut found = Finding::default();
    let more = |stage: &Stage<'_>, value| less(stage, value).map(|less| -less);
    ran.say(&mut found, "tica-real-latency", &|stage| less(stage, latency_us));
    ran.say(&mut found, "tica-real-energy", &|stage| less(stage, energy_j));
    ran.say(&mut found, "tica-real-back-to-back", &|stage| less(stage, energy_back_to_back_j));
    ran.say(&mut found, "tica-real-writes", &|stage| more(stage, all_ssd_writes));
    ran.say(&mut found, "tica-real-life", &|stage| {
        relative(stage, wo_writes, Kind::OneLevel, Kind::Adaptive).map(|ratio| ratio - 1.0)
    });
    ran.say(&mut found, "tica-real-hits", &|stage| more(stage, all_hits));
    found.notes.extend(waiting(ran));
    let shown = COMPARED.iter().filter(|(_, kind)| KINDS.contains(kind) && *kind != Kind::UCache);
    let chart = |title: &str, value: fn(&Report) -> Option<f64>| {
        let bars = Bars::new(title, Unit::Ratio, ran.traces.iter().map(|stage| stage.row.clone()));
        let bars = shown.clone().fold(bars, |bars, &(name, kind)| {
            bars.part(name, ran.traces.iter().map(|stage| relative(stage, value, kind, Kind::UCache)))
        });
        Chart::Bars(bars)
    };
    found
        .draw(chart("Response time, of uCache-like's", latency_us))
        .draw(chart("Energy, of uCache-like's", energy_j))
        .draw(chart("SSD writes, of uCache-like's", all_ssd_writes))
        .draw(chart("Hits of all accesses, of uCache-like's", all_hits));
    found
}

/// A trace that takes no longer than this hardly waits.
const SHORT_S: f64 = 10.0;

/// What energy is made of.
fn waiting(ran: &Ran<'_>) -> Option<String> {
    let span_s = |stage: &Stage<'_>| stage.report(&setup(Kind::Adaptive)).devices.span_s;
    let (short, long): (Vec<&Stage<'_>>, Vec<&Stage<'_>>) = ran
        .traces
        .iter()
        .filter(|stage| span_s(stage).is_some())
        .partition(|stage| span_s(stage) <= Some(SHORT_S));
    let gains = |stages: &[&Stage<'_>]| {
        let all = stages.iter().map(|stage| less(stage, energy_j));
        let text = |value| Shown::Percent.text(value);
        format!("{} to {} less", text(least(all.clone())), text(most(all)))
    };
    if short.is_empty() || long.is_empty() {
        return None;
    }
    let names: Vec<&str> = short.iter().map(|stage| stage.row.as_str()).collect();
    Some(format!(
        "Of traces that take long waiting is nearly all of the energy, and the devices of Table 1 wait with 18.6 % less whatever the scheme \
         does: {}. Of those that take at most {SHORT_S:.0} s ({}) it is the operations: {}",
        gains(&long),
        names.join(", "),
        gains(&short)
    ))
}
