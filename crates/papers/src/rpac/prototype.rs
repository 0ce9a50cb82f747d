//! RPAC's benchmarks of a module of flashcache: section V.

use lode_draw::Unit;

use crate::chart::{Chart, Lines, Scale};
use crate::claim::{Bound, Claim, Reported, Shown};
use crate::experiment::{Experiment, Finding, least, less, mean, more, most, ratio};
use crate::job::{Job, LevelSizes, Replay, Scheme, Size};
use crate::measures::{latency_us, ssd_writes};
use crate::paper::Paper;
use crate::run::Results;
use crate::workload::{VARMAIL, VARMAIL_IN_TURNS, WEBPROXY, WEBPROXY_IN_TURNS, Workload};

const TIMED: &str = "An operation is a request for one file of 16 KiB, and not one of Filebench's own; operations a second are the \
                     inverse of the mean latency of requests that are timed alone, on one disk. The paper has 100 threads, and \
                     2 GB of memory that serve a part of the reads";
const MODULE: &str = "FIFO, LRU and RPAC in sets of 512 blocks as in flashcache, LARC without sets; write-back; RPAC with regions of \
                      160 MB (40,960 blocks), T = 600 accesses for Webproxy and 200 for Varmail";
const WHOLE: &str = "Sizes and regions are as much smaller as the files are fewer, cycles are not: as many accesses to as many regions";
const IN_TURNS: &str = "Areas in turn: the same files, but four of five requests go to one thirtieth of them, and after 1,250 requests \
                        (2,400 with --full) to the next. The paper says nothing of the kind; it is the property that regions live on";

pub(super) const BY_SIZE: Experiment = Experiment {
    paper: Paper::Rpac,
    figure: "9-10",
    title: "operations a second and SSD writes by cache size",
    ran: "Filebench's Webproxy and Varmail, 600,000 files of 16 KB on an SSD cache of 2 to 6 GB, in flashcache (section V)",
    here: &[TIMED, MODULE, WHOLE, IN_TURNS],
    claims: SIZE_CLAIMS,
    jobs: by_size_jobs,
    measure: by_size,
};

pub(super) const SENSITIVITY: Experiment = Experiment {
    paper: Paper::Rpac,
    figure: "11",
    title: "regions and cycles of the prototype",
    ran: "Regions of 5 to 640 MB and cycles of 200 to 1,000 accesses (section V.E)",
    here: &[TIMED, MODULE, WHOLE, "An SSD of 4 GB: the paper does not say which size it was", IN_TURNS],
    claims: SENSITIVITY_CLAIMS,
    jobs: sensitivity_jobs,
    measure: sensitivity,
};

const fn faster(key: &'static str, about: &'static str, low: f64, high: f64) -> Claim {
    Claim::new(key, about, Shown::Percent, Reported::Range(low, high)).source("section V.D, Fig. 9")
}

const fn fewer(key: &'static str, about: &'static str, reported: Reported) -> Claim {
    Claim::new(key, about, Shown::Percent, reported).source("section V.D, Fig. 10")
}

static SIZE_CLAIMS: &[Claim] = &[
    faster(
        "rpac-9-webproxy-fifo",
        "Webproxy: more operations a second than FIFO, mean of the sizes",
        0.11,
        0.31,
    ),
    faster(
        "rpac-9-webproxy-lru",
        "Webproxy: more operations a second than LRU, mean of the sizes",
        0.13,
        0.53,
    ),
    faster(
        "rpac-9-webproxy-larc",
        "Webproxy: more operations a second than LARC, mean of the sizes",
        0.07,
        0.20,
    ),
    faster(
        "rpac-9-varmail-fifo",
        "Varmail: more operations a second than FIFO, mean of the sizes",
        0.11,
        0.25,
    ),
    faster("rpac-9-varmail-lru", "Varmail: more operations a second than LRU, mean of the sizes", 0.12, 0.26),
    faster(
        "rpac-9-varmail-larc",
        "Varmail: more operations a second than LARC, mean of the sizes",
        0.17,
        0.31,
    ),
    fewer("rpac-10-webproxy-fifo", "Webproxy: fewer SSD writes than FIFO, the most", Reported::UpTo(0.17)),
    fewer("rpac-10-webproxy-lru", "Webproxy: fewer SSD writes than LRU, the most", Reported::UpTo(0.17)),
    fewer("rpac-10-webproxy-larc", "Webproxy: more SSD writes than LARC, the least", Reported::Words("more")),
    fewer("rpac-10-varmail-fifo", "Varmail: fewer SSD writes than FIFO, the most", Reported::UpTo(0.17)),
    fewer("rpac-10-varmail-lru", "Varmail: fewer SSD writes than LRU, the most", Reported::UpTo(0.17)),
    fewer("rpac-10-varmail-larc", "Varmail: more SSD writes than LARC, the least", Reported::Words("more")),
];

const fn sensitive(
    key: &'static str,
    about: &'static str,
    shown: Shown,
    reported: Reported,
    same: Bound,
) -> Claim {
    Claim::new(key, about, shown, reported).source("section V.E, Fig. 11").same(same)
}

static SENSITIVITY_CLAIMS: &[Claim] = &[
    sensitive(
        "rpac-11-webproxy-best-region",
        "Webproxy: MB of the regions with most operations a second",
        Shown::Number,
        Reported::Range(80.0, 320.0),
        Bound::Within(80.0, 320.0),
    ),
    sensitive(
        "rpac-11-webproxy-small",
        "Webproxy: fewer operations a second with regions of 10 MB than of 160 MB",
        Shown::Percent,
        Reported::Words("relatively poorly"),
        Bound::Above(0.01),
    ),
    sensitive(
        "rpac-11-varmail-regions",
        "Varmail: most over least operations a second from 20 to 640 MB",
        Shown::Percent,
        Reported::Words("similar high performance"),
        Bound::Below(0.05),
    ),
    sensitive(
        "rpac-11-webproxy-best-cycle",
        "Webproxy: accesses of the cycle with most operations a second",
        Shown::Number,
        Reported::Value(600.0),
        Bound::Within(600.0, 600.0),
    ),
    sensitive(
        "rpac-11-varmail-best-cycle",
        "Varmail: accesses of the cycle with most operations a second",
        Shown::Number,
        Reported::Range(200.0, 400.0),
        Bound::Within(200.0, 400.0),
    ),
    sensitive(
        "rpac-11-cycles",
        "Webproxy: most over least operations a second from 200 to 1,000 accesses",
        Shown::Percent,
        Reported::Words("weakly sensitive"),
        Bound::Below(0.1),
    ),
];

/// One of the two benchmarks, with the cycle that the paper gives it.
#[derive(Clone, Copy)]
struct Benchmark {
    workload: &'static Workload,
    cycle: &'static str,
}

/// By their names in claims, as they are and with areas that take turns.
static BENCHMARKS: [(&str, [Benchmark; 2]); 2] = [
    (
        "webproxy",
        [
            Benchmark { workload: &WEBPROXY, cycle: "600" },
            Benchmark { workload: &WEBPROXY_IN_TURNS, cycle: "600" },
        ],
    ),
    (
        "varmail",
        [
            Benchmark { workload: &VARMAIL, cycle: "200" },
            Benchmark { workload: &VARMAIL_IN_TURNS, cycle: "200" },
        ],
    ),
];

const BLOCKS_PER_MIB: u32 = 256;
const SIZES_GIB: [u32; 3] = [2, 4, 6];
const ONE_SIZE_GIB: u32 = 4;
const OTHERS: [&str; 3] = ["fifo", "lru", "larc"];
const RPAC: &str = "rpac-prototype";
const REGIONS_MIB: [u32; 8] = [5, 10, 20, 40, 80, 160, 320, 640];
/// Where those of 20 MB begin.
const FROM_20_MIB: usize = 2;
const REGION_MIB: u32 = 160;
const CYCLES: [&str; 5] = ["200", "400", "600", "800", "1000"];

fn on(benchmark: Benchmark, scheme: Scheme, gib: u32) -> Replay {
    let space = LevelSizes { ssd: Size::Blocks(gib * 1024 * BLOCKS_PER_MIB), ..LevelSizes::default() };
    Replay { workload: benchmark.workload, scheme, space, host: "default" }
}

fn rpac(benchmark: Benchmark, region_mib: u32, cycle: &'static str, gib: u32) -> Replay {
    let region_blocks = u64::from(region_mib * BLOCKS_PER_MIB);
    let scheme = Scheme::new(RPAC).scaled("region_blocks", region_blocks).set("decay_interval", cycle);
    on(benchmark, scheme, gib)
}

fn job(benchmark: Benchmark, scheme: &'static str, gib: u32) -> Replay {
    match scheme {
        RPAC => rpac(benchmark, REGION_MIB, benchmark.cycle, gib),
        _ => on(benchmark, Scheme::new(scheme), gib),
    }
}

fn benchmarks() -> impl Iterator<Item = Benchmark> {
    BENCHMARKS.iter().flat_map(|(_, readings)| *readings)
}

fn by_size_jobs() -> Vec<Job> {
    let cells = |benchmark| {
        let schemes = OTHERS.into_iter().chain([RPAC]);
        schemes.flat_map(move |scheme| SIZES_GIB.map(|gib| Job::Replay(job(benchmark, scheme, gib))))
    };
    benchmarks().flat_map(cells).collect()
}

/// Operations a second.
fn rate(results: &Results, replay: &Replay) -> Option<f64> {
    latency_us(results.replay(replay)).filter(|us| *us > 0.0).map(|us| 1e6 / us)
}

/// Blocks written to the SSD for each operation.
fn writes(results: &Results, replay: &Replay) -> Option<f64> {
    let total = &results.replay(replay).total;
    ratio(ssd_writes(total), Some(total.counters.requests as f64))
}

fn by_size(results: &Results) -> Finding {
    let mut found = Finding::default();
    for claim in SIZE_CLAIMS {
        // "rpac-FIGURE-BENCHMARK-SCHEME"
        let words: Vec<&str> = claim.key.split('-').collect();
        let [_, figure, name, other] = words[..] else { continue };
        let Some((_, readings)) = BENCHMARKS.iter().find(|(known, _)| *known == name) else { continue };
        let Some(&other) = OTHERS.iter().find(|scheme| **scheme == other) else { continue };
        let is_rate = figure == "9";
        let of = if is_rate { rate } else { writes };
        let value = |benchmark: Benchmark| {
            let gains = SIZES_GIB.map(|gib| {
                let (own, others) =
                    (of(results, &job(benchmark, RPAC, gib)), of(results, &job(benchmark, other, gib)));
                if is_rate || other == "larc" { more(own, others) } else { less(own, others) }
            });
            match other {
                _ if is_rate => mean(gains),
                "larc" => least(gains),
                _ => most(gains),
            }
        };
        found.say(claim.key, value(readings[0])).otherwise("areas in turn", value(readings[1]));
    }
    found.note(
        "Where every file is as likely as another, nothing says which block to keep, and a write that RPAC keeps out of the SSD goes to the \
         disk, which takes many times as long: it spares SSD writes and loses operations. Where the work keeps to an area and goes on to \
         the next, regions say what has gone by. The paper's gains need more of that than files picked at random have, or the queue of \
         100 threads, which is not modelled here",
    );
    for benchmark in benchmarks() {
        let name = benchmark.workload.name;
        let title = format!("{name}: operations a second (Fig. 9)");
        found.draw(by_size_chart(results, benchmark, (&title, "Operations a second"), rate));
        let title = format!("{name}: blocks written to the SSD for each operation (Fig. 10)");
        found.draw(by_size_chart(results, benchmark, (&title, "Blocks"), writes));
    }
    found
}

fn by_size_chart(
    results: &Results,
    benchmark: Benchmark,
    (title, label): (&str, &str),
    of: fn(&Results, &Replay) -> Option<f64>,
) -> Chart {
    let x = Scale::linear("SSD in GiB of the whole workload", Unit::Count);
    let mut lines = Lines::new(title, x, Scale::linear(label, Unit::Count));
    for scheme in OTHERS.into_iter().chain([RPAC]) {
        let point = |gib| (f64::from(gib), of(results, &job(benchmark, scheme, gib)));
        lines = lines.curve(scheme, SIZES_GIB.map(point));
    }
    Chart::Lines(lines)
}

fn region(benchmark: Benchmark, region_mib: u32) -> Replay {
    rpac(benchmark, region_mib, benchmark.cycle, ONE_SIZE_GIB)
}

fn cycle(benchmark: Benchmark, cycle: &'static str) -> Replay {
    rpac(benchmark, REGION_MIB, cycle, ONE_SIZE_GIB)
}

fn sensitivity_jobs() -> Vec<Job> {
    let variants = |benchmark| {
        let regions = REGIONS_MIB.map(|mib| region(benchmark, mib));
        regions.into_iter().chain(CYCLES.map(|accesses| cycle(benchmark, accesses)))
    };
    benchmarks().flat_map(variants).map(Job::Replay).collect()
}

/// Operations a second over the regions and over the cycles.
struct Sensitivity {
    regions: [Option<f64>; REGIONS_MIB.len()],
    cycles: [Option<f64>; CYCLES.len()],
}

impl Sensitivity {
    fn of(results: &Results, benchmark: Benchmark) -> Sensitivity {
        Sensitivity {
            regions: REGIONS_MIB.map(|mib| rate(results, &region(benchmark, mib))),
            cycles: CYCLES.map(|accesses| rate(results, &cycle(benchmark, accesses))),
        }
    }

    fn with(&self, region_mib: u32) -> Option<f64> {
        REGIONS_MIB.iter().position(|&mib| mib == region_mib).and_then(|at| self.regions[at])
    }

    fn best_region(&self) -> Option<f64> {
        best(&self.regions).map(|at| f64::from(REGIONS_MIB[at]))
    }

    fn best_cycle(&self) -> Option<f64> {
        best(&self.cycles).and_then(|at| CYCLES[at].parse().ok())
    }

    /// Most over least from 20 MB on.
    fn spread_of_regions(&self) -> Option<f64> {
        spread(&self.regions[FROM_20_MIB..])
    }
}

fn best(rates: &[Option<f64>]) -> Option<usize> {
    let most = most(rates.iter().copied())?;
    rates.iter().position(|rate| *rate == Some(most))
}

fn spread(rates: &[Option<f64>]) -> Option<f64> {
    more(most(rates.iter().copied()), least(rates.iter().copied()))
}

fn sensitivity(results: &Results) -> Finding {
    let [webproxy, varmail] =
        [0, 1].map(|at| BENCHMARKS[at].1.map(|benchmark| Sensitivity::of(results, benchmark)));
    let mut found = Finding::default();
    let mut say = |key, of: &[Sensitivity; 2], value: &dyn Fn(&Sensitivity) -> Option<f64>| {
        found.say(key, value(&of[0])).otherwise("areas in turn", value(&of[1]));
    };
    say("rpac-11-webproxy-best-region", &webproxy, &Sensitivity::best_region);
    let small = |one: &Sensitivity| less(one.with(10), one.with(REGION_MIB));
    say("rpac-11-webproxy-small", &webproxy, &small);
    say("rpac-11-varmail-regions", &varmail, &Sensitivity::spread_of_regions);
    say("rpac-11-webproxy-best-cycle", &webproxy, &Sensitivity::best_cycle);
    say("rpac-11-varmail-best-cycle", &varmail, &Sensitivity::best_cycle);
    say("rpac-11-cycles", &webproxy, &|one| spread(&one.cycles));
    found.otherwise("Varmail", spread(&varmail[0].cycles));
    found.note(
        "Where every file is as likely as another, small regions are best because they keep least out. Where areas of a thirtieth (312 MB) \
         take turns, Varmail is fastest with a fraction of such an area, as regions are halved and quartered, and Webproxy hardly depends \
         on it. The poor results that the paper has below 20 MB do not show",
    );
    let axis = || Scale::linear("Operations a second", Unit::Count);
    let mut regions = Lines::new("By region (Fig. 11 a)", Scale::log("MB of a region", Unit::Count), axis());
    let mut cycles =
        Lines::new("By cycle (Fig. 11 b)", Scale::linear("Accesses of a cycle", Unit::Count), axis());
    for ((_, readings), found) in BENCHMARKS.iter().zip([&webproxy, &varmail]) {
        for (benchmark, one) in readings.iter().zip(found) {
            let name = benchmark.workload.name;
            regions = regions.curve(name, REGIONS_MIB.map(f64::from).into_iter().zip(one.regions));
            let x = CYCLES.iter().filter_map(|text| text.parse().ok());
            cycles = cycles.curve(name, x.zip(one.cycles));
        }
    }
    found.draw(Chart::Lines(regions)).draw(Chart::Lines(cycles));
    found
}
