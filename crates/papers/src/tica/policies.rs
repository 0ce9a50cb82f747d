//! Figs. 3, 7 and 8: SSD writes of a cache that fills on misses, and what EF and WED gain and cost.

use lode_draw::Unit;

use super::{Kind, Runs, all_ssd_writes, job, jobs_of, place};
use crate::chart::{Bars, Chart};
use crate::claim::{Bound, Claim, Reported, Shown};
use crate::experiment::{Experiment, Finding};
use crate::measures::hit_ratio;
use crate::paper::Paper;
use crate::run::Results;
use crate::workload::TICA;

/// Section 3.
pub(super) const FIG_3: Experiment = Experiment {
    paper: Paper::Tica,
    figure: "3",
    title: "SSD writes for each write (CWF)",
    ran: "A write-back SSD cache that fills on read misses (section 3, Eq. 1)",
    here: &["lru with an SSD of 10 % of the blocks touched, counted in blocks"],
    claims: &[
        Claim::new("tica-3-stg_1", "Stg_1: CWF", Shown::Times, Reported::MoreThan(4.5))
            .source("section 3, Fig. 3")
            .same(Bound::Above(1.5)),
        Claim::new("tica-3-webserver", "Webserver: CWF", Shown::Times, Reported::MoreThan(4.5))
            .source("section 3, Fig. 3")
            .same(Bound::Above(1.5)),
    ],
    jobs: || jobs_of(&[Kind::OneLevel]),
    measure: |results| {
        let cwf = |workload: usize| results.replay(&job(workload, Kind::OneLevel)).total.counters.cwf;
        let mut found = Finding::default();
        found.say("tica-3-stg_1", cwf(place("Stg_1"))).say("tica-3-webserver", cwf(place("Webserver")));
        found.note(
            "CWF is at most one more than the reads for each write: 4.5 of Stg_1, with 1.76 read requests for each write, \
             takes reads longer than writes, or misses more than once for each block; the paper does not publish lengths of \
             reads and writes apart, and the profiles have the same for both",
        );
        let bars = Bars::new("SSD writes for each block written (Fig. 3)", Unit::Count, names());
        found.draw(Chart::Bars(bars.part("CWF", (0..TICA.len()).map(cwf))));
        found
    },
};

fn names() -> impl Iterator<Item = &'static str> {
    TICA.iter().map(|workload| workload.name)
}

/// Section 4.3.
pub(super) const FIG_7_AND_8: Experiment = Experiment {
    paper: Paper::Tica,
    figure: "7-8",
    title: "TICA-EF and TICA-WED: hits and SSD writes",
    ran: "TICA-EF against a RAID-1 of SSDs (Fig. 7), TICA-WED against TICA-EF (Fig. 8) (section 4.3)",
    here: &["The RAID-1 is lru with one SSD level, whose two copies count as two writes"],
    claims: &[
        hits("tica-7-usr_0", "Usr_0: hits of EF, of those of the RAID-1"),
        hits("tica-7-hm_1", "Hm_1: hits of EF, of those of the RAID-1"),
        hits("tica-7-wdev_0", "Wdev_0: hits of EF, of those of the RAID-1"),
        Claim::new(
            "tica-8-wed",
            "SSD writes of WED, of those of EF, mean of the workloads",
            Shown::Times,
            Reported::Words("decreases the endurance"),
        )
        .source("section 4.3, Fig. 8")
        .same(Bound::Above(1.0)),
    ],
    jobs: || jobs_of(&[Kind::Ef, Kind::Wed, Kind::OneLevel]),
    measure,
};

const fn hits(key: &'static str, about: &'static str) -> Claim {
    Claim::new(key, about, Shown::Times, Reported::Words("fails to provide high performance"))
        .source("section 4.3, Fig. 7")
        .same(Bound::Below(1.0))
}

fn measure(results: &Results) -> Finding {
    let runs = Runs { results };
    let hits = |workload: usize, kind| hit_ratio(&runs.report(workload, kind).total);
    let relative =
        |name: &str| runs.relative(|report| hit_ratio(&report.total), place(name), Kind::Ef, Kind::OneLevel);
    let mut found = Finding::default();
    found
        .say("tica-7-usr_0", relative("Usr_0"))
        .say("tica-7-hm_1", relative("Hm_1"))
        .say("tica-7-wdev_0", relative("Wdev_0"))
        .say("tica-8-wed", runs.mean_relative(all_ssd_writes, Kind::Wed, Kind::Ef));
    let bars = Bars::new("Hits of all accesses (Fig. 7)", Unit::Ratio, names());
    let of = |kind| (0..TICA.len()).map(|workload| hits(workload, kind)).collect::<Vec<_>>();
    found.draw(Chart::Bars(bars.part("TICA-EF", of(Kind::Ef)).part("RAID-1", of(Kind::OneLevel))));
    let bars = Bars::new("Blocks written to SSDs (Fig. 8)", Unit::Count, names());
    let writes = |workload: usize, kind| all_ssd_writes(runs.report(workload, kind));
    let of = |kind| (0..TICA.len()).map(|workload| writes(workload, kind)).collect::<Vec<_>>();
    found.draw(Chart::Bars(bars.part("TICA-EF", of(Kind::Ef)).part("TICA-WED", of(Kind::Wed))));
    found
}
