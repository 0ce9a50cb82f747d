//! ECI-Cache's experiments: the three headlines of its abstract.

use lode_draw::Unit;
use lode_replay::Report;

use crate::at_hand::{AtHand, GAIN, Ran, Setup, Stage, Task};
use crate::chart::{Bars, Chart};
use crate::claim::{Bound, Claim, Reported, Shown};
use crate::experiment::{Experiment, Finding, less, more, ratio};
use crate::job::{Job, LevelSizes, Replay, Scheme, Size};
use crate::measures::{latency_us, mean_shares, ssd_writes};
use crate::paper::Paper;
use crate::run::Results;
use crate::workload::ECI_MIX;

/// All of them.
pub static EXPERIMENTS: &[Experiment] = &[Experiment {
    paper: Paper::EciCache,
    figure: "headlines",
    title: "the abstract's three numbers",
    ran: "16 VMs with more than fifteen MSR volumes under QEMU, a SATA SSD before a RAID-5 of SAS disks, against the \
          state-of-the-art dynamic partitioning scheme, which ETICA names as Centaur (abstract)",
    here: &[
        "14 VMs: the volumes of which there are profiles, without src1_0, which would be half of all requests",
        "The SSD has 10 % of the blocks touched; the abstract gives no size",
        "Both schemes are -like: what the abstracts leave open is recalled",
        "Cost is the space that VMs have on average",
    ],
    claims: &[
        Claim::new(
            "eci-performance",
            "more performance (inverse of the mean latency) than centaur-like",
            Shown::Percent,
            Reported::Value(0.17),
        )
        .source("abstract"),
        Claim::new(
            "eci-performance-per-cost",
            "more performance for the space",
            Shown::Percent,
            Reported::Value(0.30),
        )
        .source("abstract"),
        Claim::new("eci-writes", "fewer SSD writes", Shown::Percent, Reported::Value(0.65))
            .source("abstract")
            .same(Bound::Above(0.0)),
    ],
    jobs,
    measure,
}];

const SIZING: u64 = 10_000;
const THRESHOLDS: [&str; 6] = ["0.3", "0.5", "0.7", "0.8", "0.9", "1"];
/// Place of the default.
const DEFAULT: usize = 1;

fn space() -> LevelSizes {
    LevelSizes { ssd: Size::OfTouched(1_000), ..LevelSizes::default() }
}

fn on_mix(scheme: Scheme) -> Replay {
    Replay { workload: &ECI_MIX, scheme, space: space(), host: "sata-raid5" }
}

fn eci(threshold: usize) -> Replay {
    let scheme = Scheme::new("eci-cache-like").set("write_threshold", THRESHOLDS[threshold]);
    on_mix(scheme.scaled("sizing_interval", SIZING).scaled("policy_interval", SIZING))
}

fn centaur() -> Replay {
    on_mix(Scheme::new("centaur-like").scaled("sizing_interval", SIZING))
}

fn jobs() -> Vec<Job> {
    let own = (0..THRESHOLDS.len()).map(eci);
    own.chain([centaur()]).map(Job::Replay).collect()
}

fn performance(report: &Report) -> Option<f64> {
    latency_us(report).map(|us| 1e6 / us)
}

fn per_cost(report: &Report) -> Option<f64> {
    let blocks = mean_shares(report)?.1;
    Some(performance(report)? / blocks)
}

fn measure(results: &Results) -> Finding {
    let reports: Vec<&Report> = (0..THRESHOLDS.len()).map(|at| results.replay(&eci(at))).collect();
    let base = results.replay(&centaur());
    let mut found = Finding::default();
    let mut say = |key, value: &dyn Fn(&Report) -> Option<f64>| {
        found.say(key, value(reports[DEFAULT]));
        for (threshold, report) in THRESHOLDS.iter().zip(&reports) {
            if *threshold != THRESHOLDS[DEFAULT] {
                found.otherwise(format!("read-only from {threshold} overwrites on"), value(report));
            }
        }
    };
    say("eci-performance", &|report| more(performance(report), performance(base)));
    say("eci-performance-per-cost", &|report| more(per_cost(report), per_cost(base)));
    say("eci-writes", &|report| less(ssd_writes(&report.total), ssd_writes(&base.total)));
    found.note(
        "A VM whose cache is read-only writes its writes to the disk, each of which then takes milliseconds: that spares the \
         SSD and cannot be faster than write-back where requests are timed alone. The paper has both at once, so that its rule \
         must choose read-only where writes matter little, or its disks must absorb writes in a cache of their own, which \
         the model's do not",
    );
    found.note(
        "With every cache write-back it is slower, too: URD gives no space to a VM whose interval has no useful read, and \
         its writes then go to the disk, while the distances of centaur-like (TRD) give space to overwriting. prxy_0, a third of \
         all requests with 3 % reads, is such a VM, most of all in a reduced run, whose intervals have few of its reads",
    );
    let rows = || {
        let own = THRESHOLDS.iter().map(|threshold| format!("eci-cache-like, threshold {threshold}"));
        own.chain(["centaur-like".to_owned()])
    };
    let values = |value: &dyn Fn(&Report) -> Option<f64>| {
        reports.iter().copied().chain([base]).map(value).collect::<Vec<_>>()
    };
    found
        .draw(Chart::Bars(
            Bars::new("Mean latency", Unit::Microseconds, rows()).part("latency", values(&latency_us)),
        ))
        .draw(Chart::Bars(
            Bars::new("Blocks written to the SSD", Unit::Count, rows())
                .part("SSD writes", values(&|report| ssd_writes(&report.total))),
        ))
        .draw(Chart::Bars(
            Bars::new("Space that VMs have, in blocks", Unit::Count, rows())
                .part("space", values(&|report| mean_shares(report).map(|shares| shares.1))),
        ));
    found
}

/// The three numbers, on traces at hand.
pub static AT_HAND: AtHand = AtHand {
    paper: Paper::EciCache,
    ran: "16 VMs with more than fifteen MSR volumes under QEMU, a SATA SSD before a RAID-5 of SAS disks, against the \
          state-of-the-art dynamic partitioning scheme, which ETICA names as Centaur (abstract)",
    here: &[
        "Each trace is one VM, alone on its host, where a scheme that divides space can only leave some of it; those that read and write \
         also share one host, where their requests take turns as if all had taken the same time",
        "The SSD has 10 % of the blocks touched; both schemes are -like; cost is the space that VMs have on average; intervals of 10,000 \
         requests are not made shorter",
        "The first row is the host of VMs; of traces alone the median is that of those that both read and write",
    ],
    claims: &[
        Claim::new(
            "eci-real-performance",
            "more performance (inverse of the mean latency) than centaur-like",
            Shown::Percent,
            Reported::Value(0.17),
        )
        .source("abstract")
        .same(GAIN),
        Claim::new(
            "eci-real-performance-per-cost",
            "more performance for the space",
            Shown::Percent,
            Reported::Value(0.30),
        )
        .source("abstract")
        .same(GAIN),
        Claim::new("eci-real-writes", "fewer SSD writes", Shown::Percent, Reported::Value(0.65))
            .source("abstract")
            .same(GAIN),
    ],
    of_many_vms: true,
    tasks: |_| at_hand().map(Task::Replay).into(),
    measure: measure_at_hand,
};

/// What is run on traces at hand: it, the same with every cache write-back, and centaur-like.
fn at_hand() -> [Setup; 3] {
    [eci(DEFAULT), eci(THRESHOLDS.len() - 1), centaur()].map(Setup::from)
}

fn measure_at_hand(ran: &Ran<'_>) -> Finding {
    let [own, write_back, base] = &at_hand();
    let more_than = |stage: &Stage<'_>, of: fn(&Report) -> Option<f64>| {
        more(of(stage.report(own)), of(stage.report(base)))
    };
    let writes = |stage: &Stage<'_>, setup| ssd_writes(&stage.report(setup).total);
    let mut found = Finding::default();
    ran.say(&mut found, "eci-real-performance", &|stage| more_than(stage, performance));
    ran.say(&mut found, "eci-real-performance-per-cost", &|stage| more_than(stage, per_cost));
    ran.say(&mut found, "eci-real-writes", &|stage| less(writes(stage, own), writes(stage, base)));
    let rows = || ran.stages().map(|stage| stage.row.clone());
    let of_centaur = |title: &str, value: fn(&Report) -> Option<f64>| {
        let left = |setup: &Setup| {
            let of = |stage: &Stage<'_>| ratio(value(stage.report(setup)), value(stage.report(base)));
            ran.stages().map(of).collect::<Vec<_>>()
        };
        let bars = Bars::new(title, Unit::Ratio, rows());
        Chart::Bars(
            bars.part("eci-cache-like", left(own)).part("the same, every cache write-back", left(write_back)),
        )
    };
    found
        .draw(of_centaur("Latency, of centaur-like's", latency_us))
        .draw(of_centaur("SSD writes, of centaur-like's", |report| ssd_writes(&report.total)))
        .draw(of_centaur("Space that VMs have, of centaur-like's", |report| {
            mean_shares(report).map(|shares| shares.1)
        }));
    found
}
