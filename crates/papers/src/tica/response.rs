//! Figs. 11 to 14: response time, energy, SSD writes and hits against uCache and S-RAC.

use super::{
    COMPARED, Kind, Runs, Value, all_ssd_writes, energy_as_printed_j, energy_back_to_back_j, energy_j,
    jobs_of, place, ssd_energy_j,
};
use crate::claim::{Bound, Claim, Reported, Shown};
use crate::experiment::{Experiment, Finding, mean, most};
use crate::measures::{hit_ratio, latency_us, read_hit_ratio, ssd_writes};
use crate::paper::Paper;
use crate::run::Results;
use crate::workload::TICA;

/// Sections 5.2 to 5.5.
pub(super) const FIG_11_TO_14: Experiment = Experiment {
    paper: Paper::Tica,
    figure: "11-14",
    title: "response time, energy, SSD writes and hits",
    ran: "17 workloads replayed on devices; SSDs of 10 % and DRAM of 1 % of the working set; against uCache on a RAID-1 \
          and S-RAC with a DRAM level (section 5)",
    here: &[
        "uCache and S-RAC are -like; s-rac-like has no DRAM level, which the paper added to S-RAC, and only its energy counts a \
         module of memory",
        "Energy is Eq. 2: memory and SSDs without disks, over the workload's own time; the paper's player has no pauses \
         that it speaks of, so that the other reading is requests back to back",
        "uCache's RAID-1 writes every block twice; TICA's pair is counted alike",
    ],
    claims: CLAIMS,
    jobs: || {
        jobs_of(&[
            Kind::UCache,
            Kind::SRac,
            Kind::Ef,
            Kind::Wed,
            Kind::Adaptive,
            Kind::OneLevel,
            Kind::UCacheOpen,
        ])
    },
    measure,
};

const fn percent(key: &'static str, about: &'static str, paper: f64, source: &'static str) -> Claim {
    Claim::new(key, about, Shown::Percent, Reported::Value(paper)).source(source)
}

const fn times(key: &'static str, about: &'static str, paper: f64, source: &'static str) -> Claim {
    Claim::new(key, about, Shown::Times, Reported::Value(paper)).source(source).same(Bound::Above(1.0))
}

const TIME: &str = "section 5.2, Fig. 11";
const ENERGY: &str = "section 5.3, Fig. 12";
const WRITES: &str = "section 5.4, Fig. 13";
const HITS: &str = "section 5.5, Fig. 14";

static CLAIMS: &[Claim] = &[
    percent("tica-11-wed", "WED: less response time than uCache and S-RAC, mean", 0.12, TIME),
    percent("tica-11-a", "A: less response time than uCache and S-RAC, mean", 0.08, TIME),
    percent("tica-11-a-ucache", "A: less response time than uCache-like, mean", 0.08, TIME)
        .goal(Bound::AtLeast(0.05))
        .missed("the section Response has what it hangs on: settings, sizes and shares of reads"),
    Claim::new(
        "tica-11-a-most",
        "A: less response time, the workload with the most",
        Shown::Percent,
        Reported::UpTo(0.45),
    )
    .source(TIME),
    percent("tica-11-ts_0", "Ts_0: less response time of A than of S-RAC", 0.45, TIME),
    percent("tica-11-ts_0-wed", "Ts_0: less response time of WED than of EF", 0.42, TIME),
    Claim::new(
        "tica-11-webserver",
        "Webserver: less response time of EF than of WED",
        Shown::Percent,
        Reported::Words("EF is faster"),
    )
    .source(TIME),
    Claim::new(
        "tica-11-exchange",
        "Exchange: less response time of EF than of WED",
        Shown::Percent,
        Reported::Words("EF is faster"),
    )
    .source(TIME),
    Claim::new(
        "tica-11-tpcc",
        "TPCC: less response time of WED than of EF",
        Shown::Percent,
        Reported::Words("WED improves"),
    )
    .source(TIME),
    percent("tica-12-a", "A: less energy than uCache and S-RAC, mean", 0.28, ENERGY),
    percent("tica-12-a-ucache", "A: less energy than uCache-like, mean", 0.28, ENERGY)
        .goal(Bound::AtLeast(0.20))
        .missed(
            "waiting is nearly all of the energy, and what Table 1 says of idle devices is 18.6 % less whatever a scheme does",
        ),
    percent("tica-12-ts_0", "Ts_0: less energy of A than of S-RAC", 0.70, ENERGY),
    times("tica-12-usr_0", "Usr_0: energy of EF, of uCache's", 2.35, ENERGY),
    times("tica-12-hm_1", "Hm_1: energy of EF, of uCache's", 2.71, ENERGY),
    percent("tica-13-ef", "EF: fewer SSD writes than uCache and S-RAC, mean", 0.013, WRITES)
        .same(Bound::Above(-0.05)),
    percent("tica-13-a", "A: more SSD writes than uCache and S-RAC, mean", 0.047, WRITES)
        .same(Bound::Within(-0.10, 0.20)),
    Claim::new(
        "tica-13-stg_1",
        "Stg_1: SSD writes of WED, of uCache's",
        Shown::Times,
        Reported::MoreThan(7.0),
    )
    .source(WRITES)
    .same(Bound::Above(1.0)),
    percent(
        "tica-13-life",
        "A: longer life of the WO-SSD than with one SSD level, mean",
        0.38,
        "section 5.4",
    ),
    percent("tica-14-a", "A: more hits than uCache and S-RAC, mean", 0.064, HITS),
    percent("tica-14-devtoolrel-wed", "DevToolRel: more hits of WED than of uCache", 0.46, HITS),
    percent("tica-14-devtoolrel-a", "DevToolRel: more hits of A than of uCache", 0.39, HITS),
    Claim::new("tica-14-ef", "EF: more hits than uCache, mean", Shown::Percent, Reported::Words("lower"))
        .source(HITS)
        .same(Bound::Below(0.0)),
    Claim::new(
        "tica-14-wed",
        "WED: more hits than EF, mean",
        Shown::Percent,
        Reported::Words("highest average"),
    )
    .source(HITS),
];

pub(super) fn all_hits(report: &lode_replay::Report) -> Option<f64> {
    hit_ratio(&report.total)
}

fn read_hits(report: &lode_replay::Report) -> Option<f64> {
    read_hit_ratio(&report.total)
}

pub(super) fn wo_writes(report: &lode_replay::Report) -> Option<f64> {
    ssd_writes(&report.total)
}

impl Runs<'_> {
    /// By how much less, mean of the workloads.
    fn mean_less(&self, value: Value, kind: Kind, base: Kind) -> Option<f64> {
        self.mean_relative(value, kind, base).map(|ratio| 1.0 - ratio)
    }

    /// The same against both of the paper's.
    fn less_than_both(&self, value: Value, kind: Kind) -> Option<f64> {
        mean([self.mean_less(value, kind, Kind::UCache), self.mean_less(value, kind, Kind::SRac)])
    }

    fn less(&self, value: Value, name: &str, kind: Kind, base: Kind) -> Option<f64> {
        self.relative(value, place(name), kind, base).map(|ratio| 1.0 - ratio)
    }
}

fn measure(results: &Results) -> Finding {
    let runs = Runs { results };
    let mut found = Finding::default();
    say_times(&mut found, &runs);
    say_energy(&mut found, &runs);
    say_writes_and_hits(&mut found, &runs);
    let others = &COMPARED[1..];
    found
        .draw(runs.normalised("Response time, of uCache-like's (Fig. 11)", latency_us, others))
        .draw(runs.normalised("Energy, of uCache-like's (Fig. 12)", energy_j, others))
        .draw(runs.normalised("SSD writes, of uCache-like's (Fig. 13)", all_ssd_writes, others))
        .draw(runs.normalised("Hits of all accesses, of uCache-like's (Fig. 14)", all_hits, others));
    found
}

fn say_times(found: &mut Finding, runs: &Runs<'_>) {
    let largest = |base| {
        most(
            (0..TICA.len())
                .map(|at| runs.relative(latency_us, at, Kind::Adaptive, base).map(|ratio| 1.0 - ratio)),
        )
    };
    found.note(
        "uCache-like keeps on the SSD what was hit in DRAM, and TICA-A copies what leaves DRAM only while its controllers ask \
         for it: on these profiles it lies between EF, which is slower than uCache-like, and WED, which is faster where DRAM is \
         small (see the sweep by DRAM). What uCache's filter is was not known; whatever it is, the SSD of uCache-like has the \
         reads' blocks at once, and A's only after a window has shown that DRAM is too small",
    );
    found
        .say("tica-11-wed", runs.less_than_both(latency_us, Kind::Wed))
        .otherwise("against uCache-like alone", runs.mean_less(latency_us, Kind::Wed, Kind::UCache))
        .otherwise("against S-RAC-like alone", runs.mean_less(latency_us, Kind::Wed, Kind::SRac))
        .say("tica-11-a", runs.less_than_both(latency_us, Kind::Adaptive))
        .otherwise("against S-RAC-like alone", runs.mean_less(latency_us, Kind::Adaptive, Kind::SRac))
        .say("tica-11-a-ucache", runs.mean_less(latency_us, Kind::Adaptive, Kind::UCache))
        .otherwise("against one SSD level", runs.mean_less(latency_us, Kind::Adaptive, Kind::OneLevel))
        .otherwise(
            "against uCache-like that copies whatever leaves DRAM (worth_hits=0)",
            runs.mean_less(latency_us, Kind::Adaptive, Kind::UCacheOpen),
        )
        .say("tica-11-a-most", most([largest(Kind::UCache), largest(Kind::SRac)]))
        .say("tica-11-ts_0", runs.less(latency_us, "Ts_0", Kind::Adaptive, Kind::SRac))
        .say("tica-11-ts_0-wed", runs.less(latency_us, "Ts_0", Kind::Wed, Kind::Ef))
        .say("tica-11-webserver", runs.less(latency_us, "Webserver", Kind::Ef, Kind::Wed))
        .say("tica-11-exchange", runs.less(latency_us, "Exchange", Kind::Ef, Kind::Wed))
        .say("tica-11-tpcc", runs.less(latency_us, "TPCC", Kind::Wed, Kind::Ef));
}

const BACK_TO_BACK: &str = "requests back to back";

fn say_energy(found: &mut Finding, runs: &Runs<'_>) {
    let ef = |value: Value, name: &str| runs.relative(value, place(name), Kind::Ef, Kind::UCache);
    let less = |value: Value| runs.mean_less(value, Kind::Adaptive, Kind::UCache);
    found
        .say("tica-12-a", runs.less_than_both(energy_j, Kind::Adaptive))
        .otherwise(BACK_TO_BACK, runs.less_than_both(energy_back_to_back_j, Kind::Adaptive))
        .otherwise(
            "Eq. 2 as printed: memory waits with the RO-SSD's power",
            runs.less_than_both(energy_as_printed_j, Kind::Adaptive),
        )
        .say("tica-12-a-ucache", runs.mean_less(energy_j, Kind::Adaptive, Kind::UCache))
        .otherwise(BACK_TO_BACK, less(energy_back_to_back_j))
        .otherwise("Eq. 2 as printed: memory waits with the RO-SSD's power", less(energy_as_printed_j))
        .otherwise("SSDs alone, without memory", less(ssd_energy_j))
        .say("tica-12-ts_0", runs.less(energy_j, "Ts_0", Kind::Adaptive, Kind::SRac))
        .otherwise(BACK_TO_BACK, runs.less(energy_back_to_back_j, "Ts_0", Kind::Adaptive, Kind::SRac))
        .say("tica-12-usr_0", ef(energy_j, "Usr_0"))
        .otherwise(BACK_TO_BACK, ef(energy_back_to_back_j, "Usr_0"))
        .say("tica-12-hm_1", ef(energy_j, "Hm_1"))
        .otherwise(BACK_TO_BACK, ef(energy_back_to_back_j, "Hm_1"));
    found.note(
        "Over the workloads' own time waiting is nearly all of the energy, so that Eq. 2 gives what Table 1 says of idle devices: \
         (4 + 1.3 + 0.07) W against (4 + 2 x 1.3) W, 18.6 % less whatever the scheme does. Eq. 2 as printed has memory wait with \
         the 0.07 W of the RO-SSD, and gives more than the paper's 28 %",
    );
}

fn say_writes_and_hits(found: &mut Finding, runs: &Runs<'_>) {
    let more = |value: Value, kind, base| runs.mean_relative(value, kind, base).map(|ratio| ratio - 1.0);
    let more_than_both = |value: Value, kind| runs.less_than_both(value, kind).map(|less| -less);
    let on = |value: Value, name: &str, kind| {
        runs.relative(value, place(name), kind, Kind::UCache).map(|ratio| ratio - 1.0)
    };
    found
        .say("tica-13-ef", runs.less_than_both(all_ssd_writes, Kind::Ef))
        .otherwise("against uCache-like alone", runs.mean_less(all_ssd_writes, Kind::Ef, Kind::UCache))
        .say("tica-13-a", more_than_both(all_ssd_writes, Kind::Adaptive))
        .otherwise("against uCache-like alone", more(all_ssd_writes, Kind::Adaptive, Kind::UCache))
        .say("tica-13-stg_1", runs.relative(all_ssd_writes, place("Stg_1"), Kind::Wed, Kind::UCache))
        .otherwise("of EF's", runs.relative(all_ssd_writes, place("Stg_1"), Kind::Wed, Kind::Ef))
        .say("tica-13-life", more(wo_writes, Kind::OneLevel, Kind::Adaptive))
        .say("tica-14-a", more_than_both(all_hits, Kind::Adaptive))
        .otherwise("reads alone", more_than_both(read_hits, Kind::Adaptive))
        .otherwise("against uCache-like alone", more(all_hits, Kind::Adaptive, Kind::UCache))
        .say("tica-14-devtoolrel-wed", on(all_hits, "DevToolRel", Kind::Wed))
        .otherwise("reads alone", on(read_hits, "DevToolRel", Kind::Wed))
        .say("tica-14-devtoolrel-a", on(all_hits, "DevToolRel", Kind::Adaptive))
        .otherwise("reads alone", on(read_hits, "DevToolRel", Kind::Adaptive))
        .say("tica-14-ef", more(all_hits, Kind::Ef, Kind::UCache))
        .say("tica-14-wed", more(all_hits, Kind::Wed, Kind::Ef));
}
