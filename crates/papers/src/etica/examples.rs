//! Figs. 5, 8 and 9: worked examples, which have to come out exactly.

use lode_draw::Unit;
use lode_hardware::ServiceTimes;
use lode_policy::{AnyScheme, Quota, SchemeInfo, build};
use lode_replay::Driver;
use lode_types::Direction::{self, Read, Write};
use lode_types::{Origin, RequestOp, TraceRequest};

use crate::chart::{Bars, Chart};
use crate::claim::{Bound, Claim, Reported, Shown};
use crate::experiment::{Experiment, Finding};
use crate::paper::Paper;
use crate::run::{BLOCK, Results, demand_of};

const fn exact(
    key: &'static str,
    about: &'static str,
    shown: Shown,
    value: f64,
    source: &'static str,
) -> Claim {
    Claim::new(key, about, shown, Reported::Value(value)).source(source).same(Bound::Within(value, value))
}

/// Section 4.1.
pub(super) const FIG_5: Experiment = Experiment {
    paper: Paper::Etica,
    figure: "5",
    title: "seven requests through one level and through two",
    ran: "Seven requests by hand, levels of three pages, no sizing (section 4.1)",
    here: &[],
    claims: &[
        exact("etica-5-one-writes", "SSD writes of one WB level", Shown::Number, 5.0, "section 4.1, Fig. 5a"),
        exact("etica-5-one-hits", "read hits of one WB level", Shown::Number, 2.0, "section 4.1, Fig. 5a"),
        exact("etica-5-two-writes", "SSD writes of DRAM and SSD", Shown::Number, 2.0, "section 4.1, Fig. 5b"),
        exact("etica-5-two-hits", "read hits of DRAM and SSD", Shown::Number, 2.0, "section 4.1, Fig. 5b"),
    ],
    jobs: Vec::new,
    measure: fig_5,
};

/// Section 4.3.1.
pub(super) const FIG_8_AND_9: Experiment = Experiment {
    paper: Paper::Etica,
    figure: "8-9",
    title: "blocks that POD and URD ask for",
    ran: "Seven requests by hand for a WBWO cache (Fig. 8) and seven for a read-only one (Fig. 9) (section 4.3.1)",
    here: &[],
    claims: &[
        exact("etica-8-urd", "WBWO: blocks by URD", Shown::Blocks, 5.0, "section 4.3.1, Fig. 8a"),
        exact("etica-8-pod", "WBWO: blocks by POD", Shown::Blocks, 2.0, "section 4.3.1, Fig. 8b"),
        exact("etica-9-urd", "RO: blocks by URD", Shown::Blocks, 5.0, "section 4.3.1, Fig. 9a"),
        exact("etica-9-pod", "RO: blocks by POD", Shown::Blocks, 1.0, "section 4.3.1, Fig. 9b"),
    ],
    jobs: Vec::new,
    measure: figs_8_and_9,
};

type Accesses = [(Direction, u64); 7];

/// Fig. 5.
const FIVE: Accesses = [(Read, 1), (Read, 2), (Read, 3), (Write, 1), (Write, 4), (Read, 1), (Read, 4)];
/// Fig. 8.
const EIGHT: Accesses = [(Read, 1), (Read, 2), (Read, 3), (Write, 4), (Write, 5), (Read, 1), (Read, 4)];
/// Fig. 9.
const NINE: Accesses = [(Write, 1), (Read, 2), (Read, 3), (Write, 4), (Write, 5), (Read, 3), (Read, 1)];

/// SSD writes and read hits of Fig. 5; none where the scheme cannot be built.
fn by_hand(scheme: &str, pairs: &[(&str, &str)], physical: Quota) -> Option<(f64, f64)> {
    let mut settings = SchemeInfo::find(scheme).ok()?.settings();
    pairs.iter().try_for_each(|(key, value)| settings.set(key, value)).ok()?;
    let made = settings.clone();
    let times = ServiceTimes::default();
    let mut driver: Driver<AnyScheme> =
        Driver::new(&settings, physical, BLOCK, times, 1, move |share| build(&made, physical, share));
    for (at, (op, block)) in FIVE.into_iter().enumerate() {
        let request = TraceRequest {
            time_ns: at as u64,
            offset_bytes: BLOCK.start_of(block),
            length_bytes: BLOCK.bytes() as u32,
            volume: 0,
            op: if op == Read { RequestOp::Read } else { RequestOp::Write },
            origin: Origin::UNKNOWN,
        };
        driver.push(0, &request).ok()?;
    }
    driver.finish();
    let counters = driver.outcomes().next()?.tally.counters();
    Some((counters.ssd_writes.total() as f64, counters.read_hits.iter().sum::<u64>() as f64))
}

fn fig_5(_: &Results) -> Finding {
    let one = by_hand("lru", &[("assoc", "0")], Quota::new(0, 3));
    let two = by_hand("etica", &[("assoc", "0"), ("sizing", "off"), ("mode", "npe")], Quota::new(3, 3));
    let mut found = Finding::default();
    found
        .say("etica-5-one-writes", one.map(|one| one.0))
        .say("etica-5-one-hits", one.map(|one| one.1))
        .say("etica-5-two-writes", two.map(|two| two.0))
        .say("etica-5-two-hits", two.map(|two| two.1));
    let bars = Bars::new("Seven requests (Fig. 5)", Unit::Count, ["SSD writes", "read hits"]);
    let both = |levels: Option<(f64, f64)>| [levels.map(|one| one.0), levels.map(|one| one.1)];
    found.draw(Chart::Bars(bars.part("one WB level", both(one)).part("DRAM and SSD", both(two))));
    found
}

fn figs_8_and_9(_: &Results) -> Finding {
    let blocks =
        |accesses: &Accesses, metric: usize| demand_of(accesses).ok().map(|needed| needed[metric] as f64);
    // Places in `DEMAND_METRICS`.
    let [urd, pod_ro, pod_wbwo] = [0, 1, 2];
    let mut found = Finding::default();
    found
        .say("etica-8-urd", blocks(&EIGHT, urd))
        .say("etica-8-pod", blocks(&EIGHT, pod_wbwo))
        .say("etica-9-urd", blocks(&NINE, urd))
        .say("etica-9-pod", blocks(&NINE, pod_ro));
    let rows = ["WBWO cache (Fig. 8)", "RO cache (Fig. 9)"];
    let bars = Bars::new("Blocks asked for (Figs. 8 and 9)", Unit::Count, rows);
    let bars = bars.part("URD", [blocks(&EIGHT, urd), blocks(&NINE, urd)]);
    found.draw(Chart::Bars(bars.part("POD", [blocks(&EIGHT, pod_wbwo), blocks(&NINE, pod_ro)])));
    found
}
