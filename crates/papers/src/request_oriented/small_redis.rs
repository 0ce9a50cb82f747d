//! Redis with less room than the paper gave it: which order the policies have, in how many seeds, and why.

use lode_draw::Unit;
use lode_processes::RequestsReport;

use super::motivation::primitives;
use super::redis::A;
use super::{all, plain, settled};
use crate::chart::{Bars, Chart};
use crate::experiment::{Experiment, Finding, mean};
use crate::job::{CacheDevice, Job, Model, Processes};
use crate::paper::Paper;
use crate::run::Results;

/// Not in the paper.
pub(super) const SMALL: Experiment = Experiment {
    paper: Paper::RequestOriented,
    figure: "small",
    title: "Redis with 32 to 128 MiB",
    ran: "no such experiment: of Redis it shows 512 MB of ramdisk and 16 GB of SSD only (section 7.3, Fig. 9)",
    here: &[
        "YCSB A, ramdisks of 32 to 128 MiB, nine seeds",
        "The logs take 256 MiB, written round and round; shown beside with 16 MiB, which is smaller than each of these caches",
    ],
    claims: &[],
    jobs,
    measure,
};

const SIZES: [u32; 3] = [32, 64, 128];
const SEEDS: std::ops::RangeInclusive<u64> = 1..=9;
const POLICIES: [&str; 5] = ["all", "sync", "cp", "cp-pi", "cp-pi-ioi"];
/// 16 MiB.
const SHORT_LOG: Option<u64> = Some(4096);

fn job(policy: &'static str, cache_mib: u32, log_blocks: Option<u64>, seed: u64) -> Processes {
    Processes { log_blocks, seed, ..plain(Model::Redis(A), policy, cache_mib, CacheDevice::Ram) }
}

/// Size and log, as rows of the tables.
fn cells() -> impl Iterator<Item = (String, u32, Option<u64>)> {
    let long = SIZES.map(|mib| (format!("{mib} MiB"), mib, None));
    long.into_iter().chain([(format!("{} MiB, logs of 16 MiB", SIZES[0]), SIZES[0], SHORT_LOG)])
}

/// What is looked at for longer as well: 64 MiB, a few seeds, and the policies that differ in how criticality is inherited.
const LONG_SEEDS: std::ops::RangeInclusive<u64> = 1..=3;
const LONG_POLICIES: [&str; 3] = ["cp", "cp-pi", "cp-pi-ioi"];

fn long_job(policy: &'static str, seed: u64) -> Processes {
    settled(job(policy, SIZES[1], None, seed))
}

fn jobs() -> Vec<Job> {
    let cells = cells().flat_map(|(_, mib, log)| {
        SEEDS.flat_map(move |seed| POLICIES.map(|policy| job(policy, mib, log, seed)))
    });
    all(cells.chain(LONG_SEEDS.flat_map(|seed| LONG_POLICIES.map(|policy| long_job(policy, seed)))))
}

/// Whether the order is another one in a longer run.
fn longer(results: &Results) -> String {
    let of = |policy, seed| results.processes(&long_job(policy, seed)).requests_per_s;
    let means =
        LONG_POLICIES.map(|policy| mean(LONG_SEEDS.map(|seed| Some(of(policy, seed)))).unwrap_or(0.0));
    let in_order = |seed: &u64| LONG_POLICIES.windows(2).all(|pair| of(pair[0], *seed) < of(pair[1], *seed));
    let [cp, inherited, issued_again] = means;
    format!(
        "In 300 simulated seconds at least, with 64 MiB, CP serves {cp:.0} requests a second, CP+PI {inherited:.0} and CP+PI+IOI \
         {issued_again:.0} (means of seeds 1 to 3); in {} of the three all are in the paper's order",
        LONG_SEEDS.filter(in_order).count(),
    )
}

fn measure(results: &Results) -> Finding {
    let over_seeds = |policy, mib, log, value: Value<'_>| {
        mean(SEEDS.map(|seed| value(results.processes(&job(policy, mib, log, seed)))))
    };
    let rows: Vec<(String, u32, Option<u64>)> = cells().collect();
    let names = || rows.iter().map(|(name, ..)| name.clone());
    let rate = |report: &RequestsReport| Some(report.requests_per_s);
    let mut found = Finding::default();
    let bars = Bars::new("Requests a second, mean of nine seeds", Unit::Count, names());
    found.draw(Chart::Bars(POLICIES.iter().fold(bars, |bars, &policy| {
        bars.part(policy, rows.iter().map(|&(_, mib, log)| over_seeds(policy, mib, log, &rate)))
    })));
    let count = |mib, log, faster: &[&'static str]| {
        let of = |policy, seed| results.processes(&job(policy, mib, log, seed)).requests_per_s;
        let ascends = |seed: &u64| faster.windows(2).all(|pair| of(pair[0], *seed) < of(pair[1], *seed));
        Some(SEEDS.filter(ascends).count() as f64)
    };
    let orders: [(&str, &[&'static str]); 4] = [
        ("cp < cp-pi", &["cp", "cp-pi"]),
        ("cp-pi < cp-pi-ioi", &["cp-pi", "cp-pi-ioi"]),
        ("both, as in the paper", &["cp", "cp-pi", "cp-pi-ioi"]),
        ("all < sync", &["all", "sync"]),
    ];
    let bars = Bars::new("Of nine seeds, those in which", Unit::Count, names());
    found.draw(Chart::Bars(orders.iter().fold(bars, |bars, (name, order)| {
        bars.part(name, rows.iter().map(|&(_, mib, log)| count(mib, log, order)))
    })));
    found.note(reason(
        &|policy, value| over_seeds(policy, SIZES[0], None, value),
        SIZES.map(|mib| count(mib, None, orders[2].1).unwrap_or(0.0)),
    ));
    found.note(
        "Where the logs fit, fewer writes stall, all but CP are several times as fast and SYNC is ahead of ALL; that issuing again \
         gains nothing stays, as most of what it asks for still finds no room",
    );
    found.note(longer(results));
    for (name, mib, log) in [&rows[0], &rows[rows.len() - 1]] {
        let reports: Vec<&RequestsReport> =
            POLICIES.iter().map(|policy| results.processes(&job(policy, *mib, *log, 1))).collect();
        let waits = primitives(&reports);
        let title = format!("Waits of a request, {name}, mean of nine seeds");
        let bars = Bars::new(&title, Unit::Microseconds, waits.iter().copied());
        found.draw(Chart::Bars(POLICIES.iter().fold(bars, |bars, &policy| {
            bars.part(
                policy,
                waits.iter().map(|wait| over_seeds(policy, *mib, *log, &|report| waited(report, wait))),
            )
        })));
        let title = format!("For a thousand requests, {name}, mean of nine seeds");
        let bars = Bars::new(&title, Unit::Count, COUNTS.map(|(name, _)| name));
        found.draw(Chart::Bars(POLICIES.iter().fold(bars, |bars, &policy| {
            bars.part(
                policy,
                COUNTS
                    .map(|(_, count)| over_seeds(policy, *mib, *log, &|report| per_thousand(report, count))),
            )
        })));
    }
    found
}

/// A number of a report.
type Value<'v> = &'v dyn Fn(&RequestsReport) -> Option<f64>;

/// Why the order is what it is, from the waits and what became of the writes.
fn reason(of: &dyn Fn(&'static str, Value<'_>) -> Option<f64>, seeds_in_order: [f64; 3]) -> String {
    let waits_ms = |policy, wait| of(policy, &|report| waited(report, wait)).unwrap_or(0.0) / 1000.0;
    let counts = |policy, at: usize| of(policy, &|report| per_thousand(report, COUNTS[at].1)).unwrap_or(0.0);
    let [small, middle, large] = seeds_in_order;
    format!(
        "CP < CP+PI < CP+PI+IOI in {small:.0}, {middle:.0} and {large:.0} of the nine seeds: inheritance gains, issuing again does \
         not. With 32 MiB a request waits {:.2} ms for the journal's commits with CP, {:.2} ms with CP+PI and {:.2} ms with CP+PI+IOI, \
         and {:.2}, {:.2} and {:.2} ms for its own writes. What CP+PI+IOI would issue again finds no free block: of a thousand \
         requests it issues {:.1} writes again and gives up {:.1}. The cache is full and takes only what is destaged, block by block, by \
         a disk that is never idle: {:.0} writes of a thousand requests stall with CP+PI+IOI, {:.0} with CP+PI and {:.0} with CP, and \
         the wait for its own writes is what that costs a request. Few can inherit: the journal's process and the kernel's writer",
        waits_ms("cp", "jbd2_log_wait_commit"),
        waits_ms("cp-pi", "jbd2_log_wait_commit"),
        waits_ms("cp-pi-ioi", "jbd2_log_wait_commit"),
        waits_ms("cp", "wait_on_page_writeback"),
        waits_ms("cp-pi", "wait_on_page_writeback"),
        waits_ms("cp-pi-ioi", "wait_on_page_writeback"),
        counts("cp-pi-ioi", 3),
        counts("cp-pi-ioi", 4),
        counts("cp-pi-ioi", 2),
        counts("cp-pi", 2),
        counts("cp", 2),
    )
}

type Count = fn(&RequestsReport) -> u64;

/// What becomes of writes.
const COUNTS: [(&str, Count); 5] = [
    ("blocks cached", |report| report.writes.cached_blocks),
    ("blocks destaged", |report| report.writes.destaged_blocks),
    ("writes that stall", |report| report.writes.stalled),
    ("writes issued again", |report| report.writes.reissued),
    ("not issued again for want of room", |report| report.writes.reissues_refused),
];

fn per_thousand(report: &RequestsReport, count: Count) -> Option<f64> {
    (report.requests > 0).then(|| 1000.0 * count(report) as f64 / report.requests as f64)
}

/// Of a request; nothing where nobody ever waited there.
fn waited(report: &RequestsReport, primitive: &str) -> Option<f64> {
    Some(report.waits.iter().find(|wait| wait.primitive == primitive).map_or(0.0, |wait| wait.per_request_us))
}
