//! Figs. 1 and 2, tables 1 and 2: why not to cache all writes.

use lode_draw::Unit;
use lode_processes::{Primitive, ProcessWrites, RequestsReport};

use super::redis::{A, B, job as redis};
use super::{MODEL, all, on_ssd, postgres, settled};
use crate::chart::{Bars, Chart, Lines, Scale};
use crate::claim::{Bound, Claim, Reported, Shown};
use crate::experiment::{Experiment, Finding, less, ratio};
use crate::job::{CacheDevice, Processes};
use crate::paper::Paper;
use crate::run::Results;

/// Section 2.2.
pub(super) const FIG_1: Experiment = Experiment {
    paper: Paper::RequestOriented,
    figure: "1",
    title: "what caching all writes costs",
    ran: "TPC-C on PostgreSQL; (a) ramdisks of 32 MB to 4 GB, (b) an SSD with more and more clients, (c) the same with more \
          and more writebacks; normalised to no cache (section 2.2)",
    here: &[
        MODEL,
        "Without a cache: a cache of one block, which every write goes past",
        "More writebacks: less of the cache may be dirty before it is written back. The paper does not say how large the SSD is: a cache \
         of 16 GiB is (b)'s, and (c) has one of 2 GiB and 120 simulated seconds at least, as nothing is written back before there is \
         more dirty than may be",
    ],
    claims: &[
        Claim::new(
            "req-1-large",
            "4 GiB ramdisk: throughput, of that without a cache",
            Shown::Times,
            Reported::Value(1.99),
        )
        .source("section 2.2, Fig. 1a")
        .same(Bound::Above(1.0)),
        Claim::new(
            "req-1-small",
            "32 MiB ramdisk: throughput, of that without a cache",
            Shown::Times,
            Reported::Value(1.09),
        )
        .source("section 2.2, Fig. 1a")
        .same(Bound::Above(1.0)),
        Claim::new(
            "req-1-drop",
            "32 MiB: less throughput than with 4 GiB",
            Shown::Percent,
            Reported::Value(1.0 - 1.09 / 1.99),
        )
        .source("section 2.2, Fig. 1a"),
        Claim::new(
            "req-1-clients",
            "SSD: normalised throughput with 64 clients, of that with 4",
            Shown::Times,
            Reported::Words("gradually degrading"),
        )
        .source("section 2.2, Fig. 1b")
        .same(Bound::Below(1.0)),
        Claim::new(
            "req-1-ssd-loss",
            "SSD, 64 clients: less throughput than without a cache",
            Shown::Percent,
            Reported::UpTo(0.47),
        )
        .source("section 2.2, Figs. 1b and 1c"),
        Claim::new(
            "req-1-writebacks",
            "SSD, 24 clients: throughput when up to 5 % may be dirty, of that when up to 80 % may be",
            Shown::Times,
            Reported::Words("further decreases"),
        )
        .source("section 2.2, Fig. 1c")
        .same(Bound::Below(1.0)),
    ],
    jobs: fig_1_jobs,
    measure: fig_1,
};

const SIZES: [u32; 5] = [32, 64, 128, 512, 4096];
const CLIENTS: [u32; 4] = [4, 8, 24, 64];
const DIRTY: [u32; 3] = [80, 20, 5];
const SSD_MIB: u32 = 16_384;

fn with_clients(job: Processes, clients: u32) -> Processes {
    Processes { clients: Some(clients), ..job }
}

/// A cache of which more is dirty than 20 % within [`WRITING_BACK_S`].
const WRITTEN_BACK_MIB: u32 = 2_048;
/// Seconds, of which a sixth does not count, and the rest is written back in part.
const WRITING_BACK_S: u64 = 120;

fn dirty(percent: u32) -> Processes {
    Processes {
        dirty_percent: Some(percent),
        seconds: Some(WRITING_BACK_S),
        ..on_ssd(postgres("all", WRITTEN_BACK_MIB))
    }
}

/// No cache, for as long.
fn none_as_long() -> Processes {
    Processes { seconds: Some(WRITING_BACK_S), ..postgres("all", 0) }
}

fn fig_1_jobs() -> Vec<crate::job::Job> {
    let sizes = [0].iter().chain(&SIZES).map(|&mib| postgres("all", mib));
    let clients = CLIENTS.iter().flat_map(|&n| {
        [with_clients(on_ssd(postgres("all", SSD_MIB)), n), with_clients(postgres("all", 0), n)]
    });
    all(sizes.chain(clients).chain(DIRTY.map(dirty)).chain([none_as_long()]))
}

fn throughput(report: &RequestsReport) -> Option<f64> {
    Some(report.requests_per_s)
}

fn fig_1(results: &Results) -> Finding {
    let rate = |job: &Processes| throughput(results.processes(job));
    let none = rate(&postgres("all", 0));
    let by_size = |mib: u32| ratio(rate(&postgres("all", mib)), none);
    let ssd = |n: u32| with_clients(on_ssd(postgres("all", SSD_MIB)), n);
    let by_clients = |n: u32| ratio(rate(&ssd(n)), rate(&with_clients(postgres("all", 0), n)));
    let mut found = Finding::default();
    found
        .say("req-1-large", by_size(4096))
        .say("req-1-small", by_size(32))
        .say("req-1-drop", less(by_size(32), by_size(4096)))
        .say("req-1-clients", ratio(by_clients(64), by_clients(4)))
        .say("req-1-ssd-loss", by_clients(64).map(|relative| 1.0 - relative))
        .say("req-1-writebacks", ratio(rate(&dirty(5)), rate(&dirty(80))))
        .otherwise("up to 20 %", ratio(rate(&dirty(20)), rate(&dirty(80))));
    found.note(
        "With the SSD the loss is the paper's because the SSD has no volatile cache and FlashCache writes its map with every \
         block. With a ramdisk a cache gains less than in the paper, because with room for everything the model's processors \
         are the limit (8 of them, 3 ms a transaction)",
    );
    found.note(writebacks_reason(results));
    let y = || Scale::linear("Throughput, of that without a cache", Unit::Count);
    let sizes = SIZES.map(|mib| (f64::from(mib) * 1_048_576.0, by_size(mib)));
    let x = Scale::log("Ramdisk", Unit::Bytes);
    found.draw(Chart::Lines(Lines::new("By size (Fig. 1a)", x, y()).curve("all", sizes)));
    let x = Scale::log("Clients", Unit::Count);
    let clients = CLIENTS.map(|n| (f64::from(n), by_clients(n)));
    found.draw(Chart::Lines(Lines::new("SSD, by clients (Fig. 1b)", x, y()).curve("all", clients)));
    let rows = DIRTY.map(|percent| format!("dirty up to {percent} %"));
    let values = DIRTY.map(|percent| ratio(rate(&dirty(percent)), rate(&none_as_long())));
    let bars =
        Bars::new("Throughput, of that without a cache, by what may be dirty (Fig. 1c)", Unit::Count, rows);
    found.draw(Chart::Bars(bars.part("all", values)));
    found
}

/// What writing back costs, and why less of the cache does not make it cost more.
fn writebacks_reason(results: &Results) -> String {
    let [few, some, many] = DIRTY.map(|percent| results.processes(&dirty(percent)));
    let written_back = |report: &RequestsReport| report.writes.destaged_blocks as f64 / report.counted_s;
    let map = |report: &RequestsReport| report.writes.map_writes as f64 / report.counted_s;
    format!(
        "Writing back costs throughput because the SSD reads each block that it writes back and writes its map anew, as the paper says: \
         {:.0}, {:.0} and {:.0} blocks a second with 80, 20 and 5 %, and {:.0}, {:.0} and {:.0} writes of the map. That 5 % costs no more \
         than 20 is FlashCache's limit: four blocks at a time to each disk (`destages`), each of which waits in the SSD's queue twice, however \
         much is dirty. Nobody waits for the disk itself: {}, {} and {} writes stalled, and none in the paper",
        written_back(few),
        written_back(some),
        written_back(many),
        map(few),
        map(some),
        map(many),
        few.writes.stalled,
        some.writes.stalled,
        many.writes.stalled,
    )
}

/// Section 3.2.
pub(super) const FIG_2: Experiment = Experiment {
    paper: Paper::RequestOriented,
    figure: "2",
    title: "what dependencies cost",
    ran: "CP against caching all writes without stalls (Optimal), 4 GB ramdisk (section 3.2)",
    here: &[
        MODEL,
        "Optimal is ALL with 4 GiB, as the paper says in section 7.2",
        "Without a cache: a cache of one block",
    ],
    claims: &[
        Claim::new(
            "req-2-half",
            "CP's gain over no cache, of Optimal's",
            Shown::Percent,
            Reported::Value(0.5),
        )
        .source("section 3.2, Fig. 2")
        .same(Bound::Within(0.0, 0.95)),
        Claim::new(
            "req-2-dependencies",
            "of CP's waits, those in locks and for others' writes",
            Shown::Percent,
            Reported::Words("mostly mutex_lock and sleep_on_shadow_bh"),
        )
        .source("section 3.2, Fig. 2")
        .same(Bound::AtLeast(0.5)),
    ],
    jobs: || all([postgres("cp", 4096), postgres("all", 4096), postgres("all", 0)]),
    measure: fig_2,
};

const OWN_WRITES: &str = "wait_on_page_writeback";

fn fig_2(results: &Results) -> Finding {
    let report = |policy, mib| results.processes(&postgres(policy, mib));
    let (cp, optimal, none) = (report("cp", 4096), report("all", 4096), report("all", 0));
    let gain = |one: &RequestsReport| Some(one.requests_per_s - none.requests_per_s);
    let waits: f64 = cp.waits.iter().map(|wait| wait.per_request_us).sum();
    let own: f64 =
        cp.waits.iter().filter(|wait| wait.primitive == OWN_WRITES).map(|w| w.per_request_us).sum();
    let mut found = Finding::default();
    found
        .say("req-2-half", ratio(gain(cp), gain(optimal)))
        .say("req-2-dependencies", ratio(Some(waits - own), Some(waits)));
    found.draw(waits_chart(
        "Waits of a request (Fig. 2)",
        &[("none", none), ("CP", cp), ("Optimal", optimal)],
    ));
    found
}

/// Names of the primitives that anybody waited in.
pub(super) fn primitives(reports: &[&RequestsReport]) -> Vec<&'static str> {
    let mut primitives: Vec<&'static str> = Vec::new();
    for wait in reports.iter().flat_map(|report| &report.waits) {
        if !primitives.contains(&wait.primitive) {
            primitives.push(wait.primitive);
        }
    }
    primitives
}

/// Waits by primitive, a bar for each report.
pub(super) fn waits_chart(title: &str, reports: &[(&str, &RequestsReport)]) -> Chart {
    let primitives = primitives(&reports.iter().map(|(_, report)| *report).collect::<Vec<_>>());
    let of = |report: &RequestsReport, primitive: &str| {
        report.waits.iter().find(|wait| wait.primitive == primitive).map(|wait| wait.per_request_us)
    };
    let bars = Bars::new(title, Unit::Microseconds, primitives.iter().copied());
    Chart::Bars(reports.iter().fold(bars, |bars, (name, report)| {
        bars.part(name, primitives.iter().map(|primitive| of(report, primitive)).collect::<Vec<_>>())
    }))
}

/// Section 3.1.
pub(super) const TABLE_1: Experiment = Experiment {
    paper: Paper::RequestOriented,
    figure: "T1",
    title: "writes by type",
    ran: "TPC-C, 24 clients, no cache (section 3.1, Table 1)",
    here: &[
        MODEL,
        "Blocks of 4 KiB are counted, as FlashCache splits writes into them. That the data is 1.25 times the log was chosen, \
         who writes it comes out",
        "300 simulated seconds at least here",
    ],
    claims: &[
        Claim::new("req-t1-sync", "synchronous writes, of all", Shown::Percent, Reported::Value(0.79445))
            .source("Table 1")
            .same(Bound::Within(0.65, 0.95)),
        written("req-t1-backends", "written synchronously by backends, of all", 0.44312),
        written("req-t1-checkpointer", "written synchronously by the checkpointer, of all", 0.34664),
        written("req-t1-log-writer", "written synchronously by the log writer, of all", 0.00368),
        written("req-t1-jbd2", "written synchronously by jbd2, of all", 0.00094),
        next_to_nothing("req-t1-sync-etc", "written synchronously by others, of all", 0.00007),
        written("req-t1-kworker", "written asynchronously by kworker, of all", 0.20554),
        next_to_nothing("req-t1-async-etc", "written asynchronously by others, of all", 0.00002),
    ],
    jobs: || all([0, 4096].map(all_writes)),
    measure: table_1,
};

/// A row of the table, which points the same way within a factor of three.
const fn written(key: &'static str, about: &'static str, paper: f64) -> Claim {
    let claim = Claim::new(key, about, Shown::Percent, Reported::Value(paper)).source("Table 1");
    claim.same(Bound::Within(paper / 3.0, paper * 3.0))
}

/// A row of those that have next to nothing.
const fn next_to_nothing(key: &'static str, about: &'static str, paper: f64) -> Claim {
    let claim = Claim::new(key, about, Shown::Percent, Reported::Value(paper)).source("Table 1");
    claim.same(Bound::Below(0.001))
}

/// The processes that have a row of their own, as the model calls them.
const SYNC_ROWS: [&str; 4] = ["backends", "checkpointer", "log writer", "jbd2"];
const KWORKER: &str = "kworker";

/// The table's rows of a run, in its order: shares of all blocks.
fn rows_of_table_1(report: &RequestsReport) -> [Option<f64>; 7] {
    let all = Some(report.writes.submitted_blocks as f64);
    let of = |counts: &dyn Fn(&ProcessWrites) -> u64| {
        ratio(Some(report.by_process.iter().map(counts).sum::<u64>() as f64), all)
    };
    let is_row = |one: &ProcessWrites| SYNC_ROWS.iter().any(|process| *process == one.process);
    let [backends, checkpointer, log_writer, jbd2] = SYNC_ROWS
        .map(|process| of(&|one: &ProcessWrites| if one.process == process { one.sync_blocks } else { 0 }));
    [
        backends,
        checkpointer,
        log_writer,
        jbd2,
        of(&|one: &ProcessWrites| if is_row(one) { 0 } else { one.sync_blocks }),
        of(&|one: &ProcessWrites| if one.process == KWORKER { one.async_blocks } else { 0 }),
        of(&|one: &ProcessWrites| if one.process == KWORKER { 0 } else { one.async_blocks }),
    ]
}

/// All writes are cached, if there is a cache.
fn all_writes(mib: u32) -> Processes {
    settled(postgres("all", mib))
}

fn table_1(results: &Results) -> Finding {
    let sync = |mib| {
        let writes = &results.processes(&all_writes(mib)).writes;
        ratio(Some(writes.sync_blocks as f64), Some(writes.submitted_blocks as f64))
    };
    let mut found = Finding::default();
    found.say("req-t1-sync", sync(0)).otherwise("with a cache that takes every write", sync(4096));
    let rows = [0, 4096].map(|mib| rows_of_table_1(results.processes(&all_writes(mib))));
    let own = TABLE_1.claims[1..].iter().zip(rows[0]).zip(rows[1]);
    for ((claim, without), with) in own {
        found.say(claim.key, without).otherwise("with a cache that takes every write", with);
    }
    let names = [
        "backends",
        "checkpointer",
        "log writer",
        "jbd2",
        "others",
        "kworker, asynchronous",
        "others, asynchronous",
    ];
    let paper = TABLE_1.claims[1..].iter().map(|claim| claim.reported.numbers().first().copied());
    let bars = Bars::new("Blocks written, of all (Table 1)", Unit::Ratio, names).part("paper", paper);
    let bars = bars.part("no cache", rows[0]).part("a cache that takes every write", rows[1]);
    found.draw(Chart::Bars(bars));
    found.note(
            "The kernel writes what has been dirty for 30 s; the faster the application, the sooner comes the next checkpoint, \
             which writes it synchronously before. In a run of 40 s next to nothing is old enough",
        );
    found
}

/// Section 3.2.
pub(super) const TABLE_2: Experiment = Experiment {
    paper: Paper::RequestOriented,
    figure: "T2",
    title: "sources of long waits under CP",
    ran: "CP with a 4 GB ramdisk: average and worst waits by primitive (section 3.2, Table 2)",
    here: &[
        MODEL,
        "Mean of the waits that there were, in 300 simulated seconds of PostgreSQL. Same direction: within a factor of ten",
        "The paper has no such table of Redis; the model's is shown beside",
    ],
    claims: &TABLE_2_CLAIMS,
    jobs: || all(APPLICATIONS.map(|(_, job)| job)),
    measure: table_2,
};

/// The applications, under CP.
const APPLICATIONS: [(&str, Processes); 3] = [
    ("PostgreSQL", settled(postgres("cp", 4096))),
    ("Redis, A", redis("cp", A, CacheDevice::Ram)),
    ("Redis, B", redis("cp", B, CacheDevice::Ram)),
];

const TABLE_2_KEYS: [(Primitive, &str, &str, &str, &str); 8] = [
    (
        Primitive::DownRead,
        "req-t2-down-read",
        "down_read, mean wait",
        "req-t2-down-read-max",
        "down_read, longest wait",
    ),
    (
        Primitive::TransactionLocked,
        "req-t2-transaction",
        "wait_transaction_locked, mean wait",
        "req-t2-transaction-max",
        "wait_transaction_locked, longest wait",
    ),
    (
        Primitive::Mutex,
        "req-t2-mutex",
        "mutex_lock, mean wait",
        "req-t2-mutex-max",
        "mutex_lock, longest wait",
    ),
    (
        Primitive::LogWaitCommit,
        "req-t2-commit",
        "jbd2_log_wait_commit, mean wait",
        "req-t2-commit-max",
        "jbd2_log_wait_commit, longest wait",
    ),
    (
        Primitive::LockBuffer,
        "req-t2-buffer",
        "lock_buffer, mean wait",
        "req-t2-buffer-max",
        "lock_buffer, longest wait",
    ),
    (
        Primitive::ShadowBuffer,
        "req-t2-shadow",
        "sleep_on_shadow_bh, mean wait",
        "req-t2-shadow-max",
        "sleep_on_shadow_bh, longest wait",
    ),
    (
        Primitive::LockPage,
        "req-t2-page",
        "lock_page, mean wait",
        "req-t2-page-max",
        "lock_page, longest wait",
    ),
    (
        Primitive::SyncWrite,
        "req-t2-write",
        "wait_on_page_writeback, mean wait",
        "req-t2-write-max",
        "wait_on_page_writeback, longest wait",
    ),
];

static TABLE_2_CLAIMS: [Claim; 16] = {
    let blank = Claim::new("", "", Shown::Ms, Reported::Value(0.0));
    let mut claims = [blank; 16];
    let mut at = 0;
    while at < TABLE_2_KEYS.len() {
        let (primitive, mean_key, mean_about, max_key, max_about) = TABLE_2_KEYS[at];
        let (mean, max) = match primitive.paper_ms() {
            Some(both) => both,
            None => (0.0, 0.0),
        };
        claims[2 * at] = wait_claim(mean_key, mean_about, mean);
        claims[2 * at + 1] = wait_claim(max_key, max_about, max);
        at += 1;
    }
    claims
};

const fn wait_claim(key: &'static str, about: &'static str, paper_ms: f64) -> Claim {
    Claim::new(key, about, Shown::Ms, Reported::Value(paper_ms))
        .source("section 3.2, Table 2")
        .same(Bound::Within(paper_ms / 10.0, paper_ms * 10.0))
}

/// What the model of waiting does not have, most important first.
const LACKS: [&str; 5] = [
    "queues of the kernel that are full: in Linux whoever writes waits behind 128 requests of a disk, here nobody does \
     (`fsync_depth` and `flush_depth` hold back a checkpoint and the kernel's writer only)",
    "files that grow: blocks are looked up and given in a moment, so that down_read is waited for no longer than that",
    "a journal that is full: its blocks are written to their places by the kernel's writer only, and no commit waits for that",
    "waits inside the database but for the log's lock (pages, rows, tables), and reads of the disk",
    "what is done about logs that grow: Redis's are not rewritten, and PostgreSQL's old files cost nothing",
];

fn wait_ms(report: &RequestsReport, primitive: &str) -> Option<(f64, f64)> {
    let wait = report.waits.iter().find(|wait| wait.primitive == primitive)?;
    Some((wait.mean_us / 1000.0, wait.max_us / 1000.0))
}

fn table_2(results: &Results) -> Finding {
    let postgres = results.processes(&APPLICATIONS[0].1);
    let mut found = Finding::default();
    for (primitive, mean_key, _, max_key, _) in &TABLE_2_KEYS {
        let wait = wait_ms(postgres, primitive.name());
        found.say(mean_key, wait.map(|(mean, _)| mean)).say(max_key, wait.map(|(_, max)| max));
    }
    found.note(
        "Where the model's waits are shorter, its disk is faster: the pages of a checkpoint lie dense in 1 GiB, and 128 of them are \
         served nearest first, 0.1 ms each; the paper's means are of hundreds of milliseconds, which such a disk reaches only \
         behind thousands of pages. down_read is held for a moment only, and waited for as long, as the model's files never grow; a longer \
         wait needs extents to be read or split",
    );
    LACKS.iter().for_each(|lack| {
        found.note(format!("Known to lack: {lack}"));
    });
    let names: Vec<&'static str> = Primitive::ALL.into_iter().map(Primitive::name).collect();
    let charts = [("Mean wait by primitive (Table 2)", 0), ("Longest wait by primitive (Table 2)", 1)].map(
        |(title, which)| {
            let pick = |both: (f64, f64)| 1000.0 * if which == 0 { both.0 } else { both.1 };
            let bars = Bars::new(title, Unit::Microseconds, names.clone());
            let paper = Primitive::ALL.map(|primitive| primitive.paper_ms().map(pick));
            let bars = bars.part("paper", paper);
            APPLICATIONS.iter().fold(bars, |bars, (name, job)| {
                let report = results.processes(job);
                bars.part(name, names.iter().map(|&name| wait_ms(report, name).map(pick)).collect::<Vec<_>>())
            })
        },
    );
    charts.into_iter().for_each(|bars| {
        found.draw(Chart::Bars(bars));
    });
    found
}
