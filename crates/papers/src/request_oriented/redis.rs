//! Fig. 9 and table 4: Redis with YCSB.

use lode_draw::Unit;
use lode_processes::RequestsReport;

use super::{POLICIES, all, plain};
use crate::chart::{Bars, Chart};
use crate::claim::{Bound, Claim, Reported, Shown};
use crate::experiment::{Experiment, Finding, least, less, more, most, ratio};
use crate::job::{CacheDevice, Job, Model, Processes};
use crate::paper::Paper;
use crate::run::Results;

/// Section 7.3.
pub(super) const FIG_9: Experiment = Experiment {
    paper: Paper::RequestOriented,
    figure: "9",
    title: "Redis's throughput by policy",
    ran: "YCSB A and B on four instances, 512 MB ramdisk and 16 GB SSD (section 7.3)",
    here: &["Snapshots of 512 MiB every minute, as Redis makes them; log rewriting is not modelled"],
    claims: CLAIMS,
    jobs: || {
        all(CELLS
            .iter()
            .flat_map(|&(_, updates, device)| POLICIES.map(|policy| job(policy, updates, device))))
    },
    measure: fig_9,
};

const SOURCE: &str = "section 7.3, Fig. 9";

static CLAIMS: &[Claim] = &[
    Claim::new("req-9-pi", "throughput of CP+PI, of CP's, least", Shown::Times, Reported::Range(2.0, 30.0))
        .source(SOURCE)
        .same(Bound::Above(1.0)),
    Claim::new(
        "req-9-pi-most",
        "throughput of CP+PI, of CP's, most",
        Shown::Times,
        Reported::Range(2.0, 30.0),
    )
    .source(SOURCE)
    .same(Bound::Above(1.0)),
    Claim::new(
        "req-9-ioi",
        "more throughput of CP+PI+IOI than of CP+PI, least",
        Shown::Percent,
        Reported::Range(0.03, 0.49),
    )
    .source(SOURCE),
    Claim::new(
        "req-9-ioi-most",
        "more throughput of CP+PI+IOI than of CP+PI, most",
        Shown::Percent,
        Reported::Range(0.03, 0.49),
    )
    .source(SOURCE),
    Claim::new(
        "req-9-all-ram",
        "ramdisk: more throughput of CP+PI+IOI than of ALL",
        Shown::Percent,
        Reported::Range(0.17, 0.32),
    )
    .source(SOURCE),
    Claim::new(
        "req-9-all-ssd",
        "SSD: more throughput of CP+PI+IOI than of ALL",
        Shown::Percent,
        Reported::Range(0.47, 0.55),
    )
    .source(SOURCE),
    Claim::new(
        "req-9-sync",
        "more throughput of SYNC than of ALL, least",
        Shown::Percent,
        Reported::Words("improves over ALL"),
    )
    .source(SOURCE),
    Claim::new(
        "req-9-cached-ram",
        "ramdisk: fewer blocks cached for a request than with ALL",
        Shown::Percent,
        Reported::Range(0.20, 0.29),
    )
    .source(SOURCE),
    Claim::new(
        "req-9-cached-ssd",
        "SSD: fewer blocks cached for a request than with ALL",
        Shown::Percent,
        Reported::Range(0.84, 0.87),
    )
    .source(SOURCE),
];

/// YCSB's workloads, by the updates among a hundred requests.
pub(super) const A: u64 = 50;
pub(super) const B: u64 = 5;

const CELLS: [(&str, u64, CacheDevice); 4] = [
    ("A, ramdisk", A, CacheDevice::Ram),
    ("B, ramdisk", B, CacheDevice::Ram),
    ("A, SSD", A, CacheDevice::Ssd),
    ("B, SSD", B, CacheDevice::Ssd),
];

pub(super) const fn job(policy: &'static str, updates: u64, device: CacheDevice) -> Processes {
    let cache_mib = if matches!(device, CacheDevice::Ram) { 512 } else { 16_384 };
    plain(Model::Redis(updates), policy, cache_mib, device)
}

fn fig_9(results: &Results) -> Finding {
    let report = |policy, cell: usize| results.processes(&job(policy, CELLS[cell].1, CELLS[cell].2));
    let rate = |policy, cell| Some(report(policy, cell).requests_per_s);
    let per_request = |policy, cell| {
        let one: &RequestsReport = report(policy, cell);
        ratio(Some(one.writes.cached_blocks as f64), Some(one.requests as f64))
    };
    let every = [0, 1, 2, 3];
    let (ram, ssd) = ([0, 1], [2, 3]);
    let pi = every.map(|cell| ratio(rate("cp-pi", cell), rate("cp", cell)));
    let ioi = every.map(|cell| more(rate("cp-pi-ioi", cell), rate("cp-pi", cell)));
    let over_all = |cell| more(rate("cp-pi-ioi", cell), rate("all", cell));
    let spared = |cell| less(per_request("cp-pi-ioi", cell), per_request("all", cell));
    let sync = every.map(|cell| more(rate("sync", cell), rate("all", cell)));
    let mut found = Finding::default();
    found
        .say("req-9-pi", least(pi))
        .say("req-9-pi-most", most(pi))
        .say("req-9-ioi", least(ioi))
        .say("req-9-ioi-most", most(ioi))
        .say("req-9-all-ram", least(ram.map(over_all)))
        .otherwise("the workload with the most", most(ram.map(over_all)))
        .say("req-9-all-ssd", least(ssd.map(over_all)))
        .otherwise("the workload with the most", most(ssd.map(over_all)))
        .say("req-9-sync", least(sync))
        .otherwise("the cell with the most", most(sync))
        .say("req-9-cached-ram", least(ram.map(spared)))
        .say("req-9-cached-ssd", least(ssd.map(spared)));
    found.note(
        "With the SSD ALL is slower here than in the paper, because four snapshots of 512 MiB a minute are more than the model's \
         SSD can write (5,900 blocks a second), so that every commit stands behind them; SYNC gains from the same. Issuing again \
         gains more than in the paper, because every commit of the journal waits for the snapshot's data that is under way",
    );
    let bars = Bars::new("Throughput, of ALL's (Fig. 9)", Unit::Count, CELLS.map(|(name, ..)| name));
    let bars = POLICIES.iter().fold(bars, |bars, &policy| {
        bars.part(policy, every.map(|cell| ratio(rate(policy, cell), rate("all", cell))))
    });
    found.draw(Chart::Bars(bars));
    found
}

/// Section 7.3.
pub(super) const TABLE_4: Experiment = Experiment {
    paper: Paper::RequestOriented,
    figure: "T4",
    title: "Redis's tail latency",
    ran: "16 GB SSD: 99th, 99.9th and 99.99th percentiles (section 7.3, Table 4)",
    here: &[
        "SSD and journal are as in Fig. 9",
        "Same direction: on the same side of the 100 ms that users feel as responsive (section 7.3)",
    ],
    claims: &[
        responsive("req-t4-a-all-99", "A, ALL: 99th percentile", Reported::Value(80.0)),
        slow("req-t4-a-all", "A, ALL: 99.9th percentile", Reported::Value(649.0)),
        slow("req-t4-a-all-99-99", "A, ALL: 99.99th percentile", Reported::MoreThan(1_000.0)),
        responsive("req-t4-a-sync-99", "A, SYNC: 99th percentile", Reported::Value(72.0)),
        slow("req-t4-a-sync", "A, SYNC: 99.9th percentile", Reported::Value(678.0)),
        slow("req-t4-a-sync-99-99", "A, SYNC: 99.99th percentile", Reported::MoreThan(1_000.0)),
        responsive("req-t4-a-ioi-99", "A, CP+PI+IOI: 99th percentile", Reported::Value(32.0)),
        responsive("req-t4-a-ioi", "A, CP+PI+IOI: 99.9th percentile", Reported::Value(50.0)),
        responsive("req-t4-a-ioi-99-99", "A, CP+PI+IOI: 99.99th percentile", Reported::Value(79.0)),
        responsive("req-t4-b-all-99", "B, ALL: 99th percentile", Reported::Value(70.0)),
        slow("req-t4-b-all", "B, ALL: 99.9th percentile", Reported::Value(572.0)),
        slow("req-t4-b-all-99-99", "B, ALL: 99.99th percentile", Reported::MoreThan(1_000.0)),
        responsive("req-t4-b-sync-99", "B, SYNC: 99th percentile", Reported::Value(59.0)),
        slow("req-t4-b-sync", "B, SYNC: 99.9th percentile", Reported::Value(438.0)),
        slow("req-t4-b-sync-99-99", "B, SYNC: 99.99th percentile", Reported::MoreThan(1_000.0)),
        responsive("req-t4-b-ioi-99", "B, CP+PI+IOI: 99th percentile", Reported::Value(23.0)),
        responsive("req-t4-b-ioi", "B, CP+PI+IOI: 99.9th percentile", Reported::Value(32.0)),
        responsive("req-t4-b-ioi-99-99", "B, CP+PI+IOI: 99.99th percentile", Reported::Value(83.0)),
        Claim::new(
            "req-t4-a",
            "A: 99.9th percentile of ALL, of that of CP+PI+IOI",
            Shown::Times,
            Reported::Value(649.0 / 50.0),
        )
        .source("Table 4")
        .same(Bound::Above(5.0)),
        Claim::new(
            "req-t4-b",
            "B: 99.9th percentile of ALL, of that of CP+PI+IOI",
            Shown::Times,
            Reported::Value(572.0 / 32.0),
        )
        .source("Table 4")
        .same(Bound::Above(5.0)),
    ],
    jobs: table_4_jobs,
    measure: table_4,
};

/// What users feel as responsive (section 7.3), in milliseconds.
const RESPONSIVE_MS: f64 = 100.0;

/// A percentile that is beyond that.
const fn slow(key: &'static str, about: &'static str, paper: Reported) -> Claim {
    Claim::new(key, about, Shown::Ms, paper).source("Table 4").same(Bound::Above(RESPONSIVE_MS))
}

/// A percentile that is within it.
const fn responsive(key: &'static str, about: &'static str, paper: Reported) -> Claim {
    Claim::new(key, about, Shown::Ms, paper).source("Table 4").same(Bound::Below(RESPONSIVE_MS))
}

const SHOWN: [(&str, &str); 3] = [("all", "ALL"), ("sync", "SYNC"), ("cp-pi-ioi", "CP+PI+IOI")];

fn table_4_jobs() -> Vec<Job> {
    all([A, B]
        .into_iter()
        .flat_map(|updates| SHOWN.map(|(policy, _)| job(policy, updates, CacheDevice::Ssd))))
}

fn table_4(results: &Results) -> Finding {
    let latency = |policy, updates| results.processes(&job(policy, updates, CacheDevice::Ssd)).latency;
    let tail = |policy, updates| Some(latency(policy, updates).p99_9_us as f64 / 1000.0);
    let mut found = Finding::default();
    for (keys, policy, updates) in [
        (["req-t4-a-all-99", "req-t4-a-all", "req-t4-a-all-99-99"], "all", A),
        (["req-t4-a-sync-99", "req-t4-a-sync", "req-t4-a-sync-99-99"], "sync", A),
        (["req-t4-a-ioi-99", "req-t4-a-ioi", "req-t4-a-ioi-99-99"], "cp-pi-ioi", A),
        (["req-t4-b-all-99", "req-t4-b-all", "req-t4-b-all-99-99"], "all", B),
        (["req-t4-b-sync-99", "req-t4-b-sync", "req-t4-b-sync-99-99"], "sync", B),
        (["req-t4-b-ioi-99", "req-t4-b-ioi", "req-t4-b-ioi-99-99"], "cp-pi-ioi", B),
    ] {
        let latency = latency(policy, updates);
        let percentiles = [latency.p99_us, latency.p99_9_us, latency.p99_99_us];
        for (key, us) in keys.into_iter().zip(percentiles) {
            found.say(key, us as f64 / 1000.0);
        }
    }
    found
        .say("req-t4-a", ratio(tail("all", A), tail("cp-pi-ioi", A)))
        .say("req-t4-b", ratio(tail("all", B), tail("cp-pi-ioi", B)));
    let rows = ["A", "B"].iter().flat_map(|workload| SHOWN.map(|(_, name)| format!("{workload}, {name}")));
    let cells = || [A, B].into_iter().flat_map(|updates| SHOWN.map(|(policy, _)| latency(policy, updates)));
    let bars = Bars::new("Latency (Table 4)", Unit::Microseconds, rows);
    let bars = bars.part("99th", cells().map(|latency| Some(latency.p99_us as f64)));
    let bars = bars.part("99.9th", cells().map(|latency| Some(latency.p99_9_us as f64)));
    found.draw(Chart::Bars(bars.part("99.99th", cells().map(|latency| Some(latency.p99_99_us as f64)))));
    found
}
