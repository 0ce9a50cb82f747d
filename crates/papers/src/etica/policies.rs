//! Fig. 3: what the write policy of a cache does to benchmarks.

use lode_draw::Unit;

use super::on;
use crate::chart::{Bars, Chart};
use crate::claim::{Bound, Claim, Reported, Shown};
use crate::experiment::{Experiment, Finding, less, more, ratio};
use crate::job::{Job, LevelSizes, Replay, Scheme, Size};
use crate::measures::{hit_ratio, latency_us, ssd_writes};
use crate::paper::Paper;
use crate::run::Results;
use crate::workload::BENCHMARKS;

/// Section 3.
pub(super) const FIG_3: Experiment = Experiment {
    paper: Paper::Etica,
    figure: "3",
    title: "write policies of an SSD cache",
    ran: "FIO and Filebench on an SSD cache of 50 GB with EnhanceIO, write-back (WB), read-only (RO) and write-back, \
          write-only (WBWO) (section 3, table 2)",
    here: &[
        "Performance is the inverse of the mean latency of requests that are timed alone, where the paper measures IOPS at a \
         depth of 16 and more",
        "Nothing is warmed up",
        "The cache is the same part of the space as in the paper; that of the web server is assumed, as the size of its \
         space is cut off in the text at hand",
    ],
    claims: CLAIMS,
    jobs,
    measure,
};

const SOURCE_FIO: &str = "section 3, observation 1";
const SOURCE_WEB: &str = "section 3, observation 2";
const SOURCE_VIDEO: &str = "section 3, observation 3";
const SOURCE_MAIL: &str = "section 3, observation 4";

const fn percent(key: &'static str, about: &'static str, paper: f64, source: &'static str) -> Claim {
    Claim::new(key, about, Shown::Percent, Reported::Value(paper)).source(source)
}

static CLAIMS: &[Claim] = &[
    percent("etica-3-fio-wbwo-slower", "FIO: less performance with WBWO than with WB", 0.107, SOURCE_FIO),
    percent("etica-3-fio-wbwo-writes", "FIO: fewer SSD writes with WBWO than with WB", 0.32, SOURCE_FIO),
    percent("etica-3-fio-ro-slower", "FIO: less performance with RO than with WB", 0.78, SOURCE_FIO),
    percent("etica-3-fio-ro-writes", "FIO: fewer SSD writes with RO than with WB", 0.82, SOURCE_FIO),
    percent("etica-3-web-wb-faster", "Web Server: more performance with WB than with WBWO", 0.15, SOURCE_WEB),
    percent(
        "etica-3-web-wbwo-writes",
        "Web Server: fewer SSD writes with WBWO than with WB",
        0.98,
        SOURCE_WEB,
    ),
    percent("etica-3-web-wb-over-ro", "Web Server: more performance with WB than with RO", 0.027, SOURCE_WEB),
    percent("etica-3-web-ro-writes", "Web Server: more SSD writes with WB than with RO", 0.113, SOURCE_WEB),
    Claim::new(
        "etica-3-video-same",
        "Video Server: performance with WBWO, of that with WB",
        Shown::Times,
        Reported::Value(1.0),
    )
    .source(SOURCE_VIDEO)
    .same(Bound::Within(0.99, 1.01)),
    Claim::new(
        "etica-3-video-writes",
        "Video Server: SSD writes with WBWO",
        Shown::Number,
        Reported::Value(0.0),
    )
    .source(SOURCE_VIDEO)
    .same(Bound::Within(0.0, 0.0)),
    Claim::new("etica-3-video-hits", "Video Server: hit ratio with WB", Shown::Percent, Reported::Value(0.0))
        .source(SOURCE_VIDEO)
        .same(Bound::Below(0.01)),
    percent("etica-3-mail-wb-faster", "Varmail: more performance with WB than with WBWO", 0.41, SOURCE_MAIL),
    percent(
        "etica-3-mail-wbwo-writes",
        "Varmail: fewer SSD writes with WBWO than with WB",
        0.40,
        SOURCE_MAIL,
    ),
    percent("etica-3-mail-wb-over-ro", "Varmail: more performance with WB than with RO", 0.61, SOURCE_MAIL),
    percent("etica-3-mail-ro-writes", "Varmail: more SSD writes with WB than with RO", 0.73, SOURCE_MAIL),
];

const POLICIES: [&str; 3] = ["wb", "ro", "wbwo"];
const WB: usize = 0;
const RO: usize = 1;
const WBWO: usize = 2;

/// 50 GB of 200, of 62 (assumed), of 120 and of 62 GB, in ten-thousandths.
const PARTS: [u32; 4] = [2_500, 8_065, 4_167, 8_065];

fn job(benchmark: usize, policy: usize) -> Replay {
    let space = LevelSizes { ssd: Size::OfFootprint(PARTS[benchmark]), ..LevelSizes::default() };
    on(&BENCHMARKS[benchmark], Scheme::new("lru").set("write_policy", POLICIES[policy]), space)
}

fn jobs() -> Vec<Job> {
    let pairs = (0..BENCHMARKS.len()).flat_map(|b| (0..POLICIES.len()).map(move |p| (b, p)));
    pairs.map(|(benchmark, policy)| Job::Replay(job(benchmark, policy))).collect()
}

fn measure(results: &Results) -> Finding {
    let report = |benchmark, policy| results.replay(&job(benchmark, policy));
    let performance = |benchmark, policy| latency_us(report(benchmark, policy)).map(|us| 1e6 / us);
    let writes = |benchmark, policy| ssd_writes(&report(benchmark, policy).total);
    let mut found = Finding::default();
    let slower = |b, policy| less(performance(b, policy), performance(b, WB));
    let faster = |b, policy| more(performance(b, WB), performance(b, policy));
    let fewer = |b, policy| less(writes(b, policy), writes(b, WB));
    let [fio, web, video, mail] = [0, 1, 2, 3];
    found
        .say("etica-3-fio-wbwo-slower", slower(fio, WBWO))
        .say("etica-3-fio-wbwo-writes", fewer(fio, WBWO))
        .say("etica-3-fio-ro-slower", slower(fio, RO))
        .say("etica-3-fio-ro-writes", fewer(fio, RO))
        .say("etica-3-web-wb-faster", faster(web, WBWO))
        .say("etica-3-web-wbwo-writes", fewer(web, WBWO))
        .say("etica-3-web-wb-over-ro", faster(web, RO))
        .say("etica-3-web-ro-writes", more(writes(web, WB), writes(web, RO)))
        .say("etica-3-video-same", ratio(performance(video, WBWO), performance(video, WB)))
        .say("etica-3-video-writes", writes(video, WBWO))
        .say("etica-3-video-hits", hit_ratio(&report(video, WB).total))
        .say("etica-3-mail-wb-faster", faster(mail, WBWO))
        .say("etica-3-mail-wbwo-writes", fewer(mail, WBWO))
        .say("etica-3-mail-wb-over-ro", faster(mail, RO))
        .say("etica-3-mail-ro-writes", more(writes(mail, WB), writes(mail, RO)));
    let names = || BENCHMARKS.iter().map(|benchmark| benchmark.name);
    let of = |value: &dyn Fn(usize, usize) -> Option<f64>, title: &str, unit| {
        let bars = Bars::new(title, unit, names());
        (0..POLICIES.len()).fold(bars, |bars, policy| {
            let name = POLICIES[policy].to_uppercase();
            bars.part(&name, (0..BENCHMARKS.len()).map(|benchmark| value(benchmark, policy)))
        })
    };
    let relative = |b, policy| ratio(performance(b, policy), performance(b, WB));
    found.draw(Chart::Bars(of(&relative, "Performance, of that with WB", Unit::Ratio)));
    let relative = |b, policy| ratio(writes(b, policy), writes(b, WB));
    found.draw(Chart::Bars(of(&relative, "Blocks written to the SSD, of those with WB", Unit::Ratio)));
    found
}
