//! Figs. 15 and 16: all of it in one number.

use lode_draw::Unit;
use lode_replay::Report;

use super::{COMPARED, Kind, Runs, Value, all_ssd_writes, energy_back_to_back_j, energy_j, jobs_of};
use crate::chart::{Bars, Chart};
use crate::claim::{Bound, Claim, Reported, Shown};
use crate::experiment::{Experiment, Finding, most, ratio};
use crate::measures::{hit_ratio, latency_us};
use crate::paper::Paper;
use crate::run::Results;

/// Section 5.7.
pub(super) const FIG_15_AND_16: Experiment = Experiment {
    paper: Paper::Tica,
    figure: "15-16",
    title: "overall comparison and benefit",
    ran: "Performance, endurance, cost and power of all workloads, normalised to the best, and their product (section 5.7)",
    here: &[
        "Each as in Figs. 11 to 14; cost is that of the levels' capacity at the prices of Table 1; s-rac-like has no DRAM \
         and pays for none",
    ],
    claims: &[
        Claim::new(
            "tica-16-a",
            "benefit of A, of the highest of the others",
            Shown::Times,
            Reported::Words("the highest"),
        )
        .source("section 5.7, Fig. 16")
        .same(Bound::Above(1.0)),
        Claim::new("tica-16-a-ucache", "benefit of A, of uCache's", Shown::Times, Reported::Words("higher"))
            .source("section 5.7, Fig. 16")
            .same(Bound::Above(1.0)),
        Claim::new(
            "tica-16-variants",
            "benefit of A, of the better of EF and WED",
            Shown::Times,
            Reported::Words("the highest"),
        )
        .source("section 5.7, Fig. 16")
        .same(Bound::Above(1.0)),
    ],
    jobs: || jobs_of(&[Kind::UCache, Kind::SRac, Kind::Ef, Kind::Wed, Kind::Adaptive]),
    measure,
};

fn cost_usd(report: &Report) -> Option<f64> {
    Some(report.devices.cost_usd.total)
}

/// Means over the workloads, of uCache-like's: time, energy, SSD writes, cost. Less is better.
const LESS_IS_BETTER: [(&str, Value); 4] =
    [("performance", latency_us), ("endurance", all_ssd_writes), ("cost", cost_usd), ("power", energy_j)];

fn measure(results: &Results) -> Finding {
    let runs = Runs { results };
    // What is better is higher: the inverse.
    let score = |value: Value, kind: Kind| {
        runs.mean_relative(value, kind, Kind::UCache).map(|relative| 1.0 / relative)
    };
    let benefit = |kind: Kind, values: &[Value]| {
        values.iter().map(|&value| score(value, kind)).reduce(|one, other| Some(one? * other?)).flatten()
    };
    let printed = LESS_IS_BETTER.map(|(_, value)| value);
    let back_to_back: [Value; 4] = [latency_us, all_ssd_writes, cost_usd, energy_back_to_back_j];
    let against = |others: &[Kind], values: &[Value]| {
        let best = most(others.iter().map(|&kind| benefit(kind, values)));
        ratio(benefit(Kind::Adaptive, values), best)
    };
    let all = [Kind::UCache, Kind::SRac, Kind::Ef, Kind::Wed];
    let mut found = Finding::default();
    found
        .say("tica-16-a", against(&all, &printed))
        .otherwise("energy of requests back to back", against(&all, &back_to_back))
        .say("tica-16-a-ucache", against(&[Kind::UCache], &printed))
        .otherwise("energy of requests back to back", against(&[Kind::UCache], &back_to_back))
        .say("tica-16-variants", against(&[Kind::Ef, Kind::Wed], &printed));
    let bars = Bars::new("Normalised to the best (Fig. 15)", Unit::Ratio, COMPARED.map(|(name, _)| name));
    let bars = LESS_IS_BETTER.iter().fold(bars, |bars, &(name, value)| {
        let best = most(COMPARED.iter().map(|&(_, kind)| score(value, kind)));
        bars.part(name, COMPARED.map(|(_, kind)| ratio(score(value, kind), best)))
    });
    let hits: Value = |report| hit_ratio(&report.total);
    let of_hits = |kind| runs.mean_relative(hits, kind, Kind::UCache);
    let best = most(COMPARED.iter().map(|&(_, kind)| of_hits(kind)));
    found.draw(Chart::Bars(bars.part("hits", COMPARED.map(|(_, kind)| ratio(of_hits(kind), best)))));
    let best = most(COMPARED.iter().map(|&(_, kind)| benefit(kind, &printed)));
    let bars = Bars::new("Benefit, of the highest (Fig. 16)", Unit::Ratio, COMPARED.map(|(name, _)| name));
    found.draw(Chart::Bars(
        bars.part("benefit", COMPARED.map(|(_, kind)| ratio(benefit(kind, &printed), best))),
    ));
    found
}
