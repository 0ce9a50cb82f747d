//! RPAC's simulation experiments (section IV), and beside them its benchmarks of a prototype.

mod at_hand;
mod prototype;

pub use at_hand::AT_HAND;

use lode_draw::Unit;

use crate::chart::{Chart, Lines, Scale};
use crate::claim::{Bound, Claim, Reported, Shown};
use crate::experiment::{Experiment, Finding, less, more, most};
use crate::job::{Job, LevelSizes, Replay, Scheme, Size};
use crate::measures::{hit_ratio, replacements};
use crate::paper::Paper;
use crate::run::Results;
use crate::workload::{MAIL, MAIL_IN_RUNS, WEBVM, WEBVM_IN_RUNS, Workload};

/// In the order of the paper.
pub static EXPERIMENTS: &[Experiment] = &[
    Experiment {
        paper: Paper::Rpac,
        figure: "5-6",
        title: "hits and replacements by cache size",
        ran: "Mail and Webvm in the simulator cachesim, against FIFO, LRU, ARC, MQ and LARC (section IV)",
        here: &[
            WITHOUT_SETS,
            "Replacements are evictions; RPAC with regions of 8 blocks and T = 800,000 for Mail, 4 and 1,600,000 for Webvm",
            "Improvements are relative, the largest over the sizes",
        ],
        claims: BY_SIZE,
        jobs: by_size_jobs,
        measure: by_size,
    },
    Experiment {
        paper: Paper::Rpac,
        figure: "7",
        title: "size of the regions",
        ran: "Regions of 1 to 512 blocks (section IV.C)",
        here: &[
            WITHOUT_SETS,
            AT_ONE_SIZE,
            "In runs of 8: the same profiles, with popular places that are 8 blocks long on average",
        ],
        claims: BY_REGION,
        jobs: region_jobs,
        measure: by_region,
    },
    Experiment {
        paper: Paper::Rpac,
        figure: "8",
        title: "length of the statistic cycle",
        ran: "Cycles of 100,000 to 1,600,000 requests (section IV.C)",
        here: &[WITHOUT_SETS, AT_ONE_SIZE],
        claims: BY_CYCLE,
        jobs: || variants(&TRACES, &CYCLES, cycle),
        measure: by_cycle,
    },
    prototype::BY_SIZE,
    prototype::SENSITIVITY,
];

const WITHOUT_SETS: &str = "Every scheme without sets (assoc=0): ARC, MQ and LARC have none";
const AT_ONE_SIZE: &str =
    "The cache has 50,000 blocks of the whole workload: the paper does not say which size it was";

const RESULTS: &str = "section IV.B, Figs. 5 and 6";

const fn up_to(key: &'static str, about: &'static str, paper: f64) -> Claim {
    Claim::new(key, about, Shown::Percent, Reported::UpTo(paper)).source(RESULTS)
}

static BY_SIZE: &[Claim] = &[
    up_to("rpac-5-mail-fifo", "Mail: more hits than FIFO", 0.196),
    up_to("rpac-5-mail-lru", "Mail: more hits than LRU", 0.110),
    up_to("rpac-5-mail-mq", "Mail: more hits than MQ", 0.312),
    Claim::new(
        "rpac-5-mail-arc",
        "Mail: more hits than ARC",
        Shown::Percent,
        Reported::Words("almost equal"),
    )
    .source(RESULTS)
    .same(Bound::Within(-0.1, 0.1)),
    Claim::new(
        "rpac-5-mail-larc",
        "Mail: more hits than LARC",
        Shown::Percent,
        Reported::Words("almost equal"),
    )
    .source(RESULTS)
    .same(Bound::Within(-0.1, 0.1)),
    up_to("rpac-6-mail-fifo", "Mail: fewer replacements than FIFO", 0.666),
    up_to("rpac-6-mail-lru", "Mail: fewer replacements than LRU", 0.924).goal(Bound::AtLeast(0.5)),
    up_to("rpac-6-mail-arc", "Mail: fewer replacements than ARC", 0.921),
    up_to("rpac-6-mail-mq", "Mail: fewer replacements than MQ", 0.913),
    up_to("rpac-6-mail-larc", "Mail: fewer replacements than LARC", 0.928),
    Claim::new(
        "rpac-6-mail-large",
        "Mail, more than 200,000 blocks: more replacements than LARC",
        Shown::Percent,
        Reported::Words("more"),
    )
    .source(RESULTS),
    up_to("rpac-5-webvm-fifo", "Webvm: more hits than FIFO", 0.130),
    up_to("rpac-5-webvm-lru", "Webvm: more hits than LRU", 0.482),
    up_to("rpac-5-webvm-arc", "Webvm: more hits than ARC", 0.527),
    up_to("rpac-5-webvm-mq", "Webvm: more hits than MQ", 0.303),
    up_to("rpac-5-webvm-larc", "Webvm: more hits than LARC", 0.509),
    up_to("rpac-6-webvm-fifo", "Webvm: fewer replacements than FIFO", 0.841),
    up_to("rpac-6-webvm-lru", "Webvm: fewer replacements than LRU", 0.985),
    up_to("rpac-6-webvm-arc", "Webvm: fewer replacements than ARC", 0.985),
    up_to("rpac-6-webvm-mq", "Webvm: fewer replacements than MQ", 0.983),
    up_to("rpac-6-webvm-larc", "Webvm: fewer replacements than LARC", 0.985),
];

static BY_REGION: &[Claim] = &[
    Claim::new(
        "rpac-7-mail-best",
        "Mail: size of the regions with most hits",
        Shown::Blocks,
        Reported::Value(8.0),
    )
    .source("section IV.C, Fig. 7")
    .same(Bound::Above(1.0)),
    Claim::new(
        "rpac-7-webvm-best",
        "Webvm: size of the regions with most hits",
        Shown::Blocks,
        Reported::Value(2.0),
    )
    .source("section IV.C, Fig. 7")
    .same(Bound::Above(1.0)),
    Claim::new(
        "rpac-7-mail-stable",
        "Mail: most over least hits from 2 to 128 blocks",
        Shown::Percent,
        Reported::Words("relatively stable"),
    )
    .source("section IV.C, Fig. 7")
    .same(Bound::Below(0.25)),
];

static BY_CYCLE: &[Claim] = &[
    Claim::new(
        "rpac-8-mail-replacements",
        "Mail: replacements with the shortest cycle, of those with the longest",
        Shown::Times,
        Reported::Words("increased exponentially with the cycle decreased"),
    )
    .source("section IV.C, Fig. 8")
    .same(Bound::Above(1.0)),
    Claim::new(
        "rpac-8-mail-insensitive",
        "Mail: most over least hits from 200,000 to 800,000",
        Shown::Percent,
        Reported::Words("insensitive"),
    )
    .source("section IV.C, Fig. 8")
    .same(Bound::Below(0.1)),
    Claim::new(
        "rpac-8-webvm-hits",
        "Webvm: more hits with the longest cycle than with the shortest",
        Shown::Percent,
        Reported::Words("increased with the cycle size"),
    )
    .source("section IV.C, Fig. 8"),
];

/// One of the two traces, with the parameters that the paper gives it.
struct Trace {
    workload: &'static Workload,
    name: &'static str,
    region: &'static str,
    cycle: u64,
}

/// The same with neighbours that are popular together.
static IN_RUNS: [Trace; 2] = [
    Trace { workload: &MAIL_IN_RUNS, name: "Mail in runs of 8", region: "8", cycle: 800_000 },
    Trace { workload: &WEBVM_IN_RUNS, name: "Webvm in runs of 8", region: "4", cycle: 1_600_000 },
];

static TRACES: [Trace; 2] = [
    Trace { workload: &MAIL, name: "Mail", region: "8", cycle: 800_000 },
    Trace { workload: &WEBVM, name: "Webvm", region: "4", cycle: 1_600_000 },
];

const SIZES: [u32; 7] = [5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 400_000];
/// The size of the sensitivity studies.
const ONE_SIZE: u32 = 50_000;
/// Beyond it the paper has RPAC replace more than LARC on Mail.
const LARGE: u32 = 200_000;

const SCHEMES: [&str; 6] = ["fifo", "lru", "arc", "mq", "larc", "rpac"];
const RPAC: &str = "rpac";

fn rpac(region: &'static str, cycle: u64) -> Scheme {
    Scheme::new(RPAC)
        .set("assoc", "0")
        .set("factor", "1.4")
        .set("region_blocks", region)
        .scaled("decay_interval", cycle)
}

fn on(trace: &Trace, scheme: Scheme, blocks: u32) -> Replay {
    let space = LevelSizes { ssd: Size::Blocks(blocks), ..LevelSizes::default() };
    Replay { workload: trace.workload, scheme, space, host: "default" }
}

fn job(trace: &Trace, scheme: &'static str, blocks: u32) -> Replay {
    let scheme = match scheme {
        RPAC => rpac(trace.region, trace.cycle),
        other => without_sets(other),
    };
    on(trace, scheme, blocks)
}

/// One of the others.
fn without_sets(scheme: &'static str) -> Scheme {
    match scheme {
        "fifo" | "lru" => Scheme::new(scheme).set("assoc", "0"),
        _ => Scheme::new(scheme),
    }
}

fn by_size_jobs() -> Vec<Job> {
    let traces = TRACES.iter();
    let pairs = traces.flat_map(|trace| SIZES.iter().map(move |&size| (trace, size)));
    let cells = pairs.flat_map(|(trace, size)| SCHEMES.iter().map(move |&name| job(trace, name, size)));
    cells.map(Job::Replay).collect()
}

fn by_size(results: &Results) -> Finding {
    let hits = |trace: &Trace, scheme, size| hit_ratio(&results.replay(&job(trace, scheme, size)).total);
    let replaced =
        |trace: &Trace, scheme, size| replacements(&results.replay(&job(trace, scheme, size)).total);
    let mut found = Finding::default();
    for claim in BY_SIZE.iter().filter(|claim| claim.key != "rpac-6-mail-large") {
        // "rpac-FIGURE-TRACE-SCHEME"
        let words: Vec<&str> = claim.key.split('-').collect();
        let [_, figure, name, other] = words[..] else { continue };
        let Some(trace) = TRACES.iter().find(|trace| trace.name.eq_ignore_ascii_case(name)) else { continue };
        let Some(&other) = SCHEMES.iter().find(|scheme| **scheme == other) else { continue };
        let gain = |size| match figure {
            "5" => more(hits(trace, RPAC, size), hits(trace, other, size)),
            _ => less(replaced(trace, RPAC, size), replaced(trace, other, size)),
        };
        found.say(claim.key, most(SIZES.map(gain)));
        let at_one = format!("with {ONE_SIZE} blocks");
        found.otherwise(at_one, gain(ONE_SIZE));
        if figure == "5" {
            let points = |size| Some(hits(trace, RPAC, size)? - hits(trace, other, size)?);
            found.otherwise("in points of the hit ratio, the most", most(SIZES.map(points)));
        }
    }
    let larger = SIZES.iter().copied().filter(|&size| size > LARGE);
    let above = larger.map(|size| more(replaced(&TRACES[0], RPAC, size), replaced(&TRACES[0], "larc", size)));
    found.say("rpac-6-mail-large", most(above));
    for trace in &TRACES {
        let x = || Scale::log("Blocks of the cache", Unit::Count);
        let points = |value: &dyn Fn(u32) -> Option<f64>| {
            SIZES.iter().map(|&size| (f64::from(size), value(size))).collect::<Vec<_>>()
        };
        let mut by_hits =
            Lines::new(&format!("{}: hits (Fig. 5)", trace.name), x(), Scale::linear("Hits", Unit::Ratio));
        let mut by_replaced = Lines::new(
            &format!("{}: replacements (Fig. 6)", trace.name),
            x(),
            Scale::linear("Replacements", Unit::Count),
        );
        for scheme in SCHEMES {
            by_hits = by_hits.curve(scheme, points(&|size| hits(trace, scheme, size)));
            by_replaced = by_replaced.curve(scheme, points(&|size| replaced(trace, scheme, size)));
        }
        found.draw(Chart::Lines(by_hits)).draw(Chart::Lines(by_replaced));
    }
    found
}

const REGIONS: [&str; 10] = ["1", "2", "4", "8", "16", "32", "64", "128", "256", "512"];
const CYCLES: [u64; 5] = [100_000, 200_000, 400_000, 800_000, 1_600_000];

fn region(trace: &Trace, region: &'static str) -> Replay {
    on(trace, rpac(region, trace.cycle), ONE_SIZE)
}

fn cycle(trace: &Trace, cycle: u64) -> Replay {
    on(trace, rpac(trace.region, cycle), ONE_SIZE)
}

fn region_jobs() -> Vec<Job> {
    let own = variants(&TRACES, &REGIONS, region);
    own.into_iter().chain(variants(&IN_RUNS, &REGIONS, region)).collect()
}

/// Both traces under every variant.
fn variants<T: Copy>(traces: &'static [Trace; 2], of: &[T], job: fn(&Trace, T) -> Replay) -> Vec<Job> {
    let pairs = traces.iter().flat_map(|trace| of.iter().map(move |&variant| (trace, variant)));
    pairs.map(|(trace, variant)| Job::Replay(job(trace, variant))).collect()
}

/// Hits and replacements of a trace under every variant.
struct Sensitivity {
    hits: Vec<Option<f64>>,
    replaced: Vec<Option<f64>>,
}

impl Sensitivity {
    fn of<T: Copy>(results: &Results, trace: &Trace, of: &[T], job: fn(&Trace, T) -> Replay) -> Sensitivity {
        let totals = || of.iter().map(|&variant| &results.replay(&job(trace, variant)).total);
        Sensitivity {
            hits: totals().map(hit_ratio).collect(),
            replaced: totals().map(replacements).collect(),
        }
    }

    /// Most over least hits of these variants.
    fn spread(&self, of: std::ops::RangeInclusive<usize>) -> Option<f64> {
        let hits = &self.hits[of];
        more(most(hits.iter().copied()), crate::experiment::least(hits.iter().copied()))
    }

    /// The variant with most hits.
    fn best(&self) -> Option<usize> {
        let most = most(self.hits.iter().copied())?;
        self.hits.iter().position(|hits| *hits == Some(most))
    }
}

/// Curves of both traces over a variable.
fn draw(found: &mut Finding, label: &str, x: &[f64], all: &[(&str, &Sensitivity)], figure: &str) {
    let axis = || Scale::log(label, Unit::Count);
    let mut hits = Lines::new(&format!("Hits (Fig. {figure})"), axis(), Scale::linear("Hits", Unit::Ratio));
    let mut replaced = Lines::new(
        &format!("Replacements (Fig. {figure})"),
        axis(),
        Scale::linear("Replacements", Unit::Count),
    );
    for (name, one) in all {
        hits = hits.curve(name, x.iter().copied().zip(one.hits.iter().copied()));
        replaced = replaced.curve(name, x.iter().copied().zip(one.replaced.iter().copied()));
    }
    found.draw(Chart::Lines(hits)).draw(Chart::Lines(replaced));
}

fn by_region(results: &Results) -> Finding {
    let of = |trace: &Trace| Sensitivity::of(results, trace, &REGIONS, region);
    let [mail, webvm] = [0, 1].map(|at| of(&TRACES[at]));
    let [mail_in_runs, webvm_in_runs] = [0, 1].map(|at| of(&IN_RUNS[at]));
    let blocks: Vec<f64> = REGIONS.iter().filter_map(|text| text.parse().ok()).collect();
    let best = |one: &Sensitivity| one.best().and_then(|at| blocks.get(at).copied());
    // From 2 to 128 blocks.
    let stable = 1..=7;
    let mut found = Finding::default();
    found
        .say("rpac-7-mail-best", best(&mail))
        .otherwise(IN_RUNS[0].name, best(&mail_in_runs))
        .say("rpac-7-webvm-best", best(&webvm))
        .otherwise(IN_RUNS[1].name, best(&webvm_in_runs))
        .say("rpac-7-mail-stable", mail.spread(stable.clone()))
        .otherwise(IN_RUNS[0].name, mail_in_runs.spread(stable));
    found.note(
        "Regions pay where a block's own past says less than its neighbours'. The paper's Table I has neighbours take turns: a \
         block is popular in one cycle, the next block in another, and their region in all. The profiles have popular blocks \
         that stay the same, of which each block's own count tells most; longer popular places alone (in runs of 8) do not \
         change that",
    );
    let all = [
        ("Mail", &mail),
        ("Webvm", &webvm),
        (IN_RUNS[0].name, &mail_in_runs),
        (IN_RUNS[1].name, &webvm_in_runs),
    ];
    draw(&mut found, "Blocks of a region", &blocks, &all, "7");
    found
}

fn by_cycle(results: &Results) -> Finding {
    let [mail, webvm] = [0, 1].map(|at| Sensitivity::of(results, &TRACES[at], &CYCLES, cycle));
    let (shortest, longest) = (0, CYCLES.len() - 1);
    let mut found = Finding::default();
    let replaced =
        |one: &Sensitivity| crate::experiment::ratio(one.replaced[shortest], one.replaced[longest]);
    found
        .say("rpac-8-mail-replacements", replaced(&mail))
        .otherwise("Webvm", replaced(&webvm))
        // From 200,000 to 800,000.
        .say("rpac-8-mail-insensitive", mail.spread(1..=3))
        .say("rpac-8-webvm-hits", more(webvm.hits[longest], webvm.hits[shortest]));
    let x: Vec<f64> = CYCLES.iter().map(|&cycle| cycle as f64).collect();
    draw(&mut found, "Requests of a cycle", &x, &[("Mail", &mail), ("Webvm", &webvm)], "8");
    found
}
