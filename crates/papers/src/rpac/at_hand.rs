//! What RPAC claims, on traces at hand.

use lode_draw::Unit;

use super::{RESULTS, RPAC, SCHEMES, rpac, without_sets};
use crate::at_hand::{AtHand, GAIN, Ran, Setup, Stage, Task};
use crate::chart::{Bars, Chart};
use crate::claim::{Claim, Reported, Shown};
use crate::experiment::{Finding, less, more, most};
use crate::job::{LevelSizes, Size};
use crate::measures::{hit_ratio, replacements};
use crate::paper::Paper;

/// Section IV.
pub static AT_HAND: AtHand = AtHand {
    paper: Paper::Rpac,
    ran: "Mail and Webvm in the simulator cachesim, against FIFO, LRU, ARC, MQ and LARC (section IV)",
    here: &[
        "Every scheme without sets (assoc=0); sizes are 2.5, 10 and 40 % of the blocks touched, where the paper has fixed numbers of \
         blocks; improvements are relative, the largest over the sizes; the paper's are for Mail and for Webvm",
        "RPAC has regions of 8 blocks and a statistic cycle of 3.4 % of the accesses, which is what 800,000 are of Mail's",
        "Replacements are evictions",
        "The first row is the median of all traces",
    ],
    claims: CLAIMS,
    of_many_vms: false,
    tasks: |accesses| {
        let cells = SIZES.iter().flat_map(|&size| SCHEMES.iter().map(move |&scheme| (scheme, size)));
        cells.map(|(scheme, size)| Task::Replay(setup(scheme, size, accesses))).collect()
    },
    measure,
};

const fn range(key: &'static str, about: &'static str, mail: f64, webvm: f64) -> Claim {
    Claim::new(key, about, Shown::Percent, Reported::Range(mail, webvm)).source(RESULTS).same(GAIN)
}

static CLAIMS: &[Claim] = &[
    range("rpac-real-hits-lru", "more hits than LRU", 0.110, 0.482),
    range("rpac-real-replacements-lru", "fewer replacements than LRU", 0.924, 0.985),
    range("rpac-real-replacements-larc", "fewer replacements than LARC", 0.928, 0.985),
];

/// Ten-thousandths of the blocks touched.
const SIZES: [u32; 3] = [250, 1_000, 4_000];
/// The one that is drawn.
const SHOWN: u32 = 1_000;

/// Mail's region, and its cycle as a part of its requests, each of which is for one block (table II).
const REGION: &str = "8";
const CYCLE: f64 = 800_000.0 / 23_622_000.0;

fn setup(scheme: &'static str, size: u32, accesses: u64) -> Setup {
    let scheme = match scheme {
        RPAC => rpac(REGION, ((accesses as f64 * CYCLE) as u64).max(1)),
        other => without_sets(other),
    };
    let space = LevelSizes { ssd: Size::OfTouched(size), ..LevelSizes::default() };
    Setup { scheme, space, host: "default" }
}

fn hits(stage: &Stage<'_>, scheme: &'static str, size: u32) -> Option<f64> {
    hit_ratio(&stage.report(&setup(scheme, size, stage.block_accesses())).total)
}

fn replaced(stage: &Stage<'_>, scheme: &'static str, size: u32) -> Option<f64> {
    replacements(&stage.report(&setup(scheme, size, stage.block_accesses())).total)
}

fn measure(ran: &Ran<'_>) -> Finding {
    let fewer = |stage: &Stage<'_>, other| {
        most(SIZES.map(|size| less(replaced(stage, RPAC, size), replaced(stage, other, size))))
    };
    let mut found = Finding::default();
    ran.say_all(&mut found, "rpac-real-hits-lru", &|stage| {
        most(SIZES.map(|size| more(hits(stage, RPAC, size), hits(stage, "lru", size))))
    });
    ran.say_all(&mut found, "rpac-real-replacements-lru", &|stage| fewer(stage, "lru"));
    ran.say_all(&mut found, "rpac-real-replacements-larc", &|stage| fewer(stage, "larc"));
    let chart = |title: &str, unit, value: &dyn Fn(&Stage<'_>, &'static str) -> Option<f64>| {
        let bars = Bars::new(title, unit, ran.traces.iter().map(|stage| stage.row.clone()));
        let bars = SCHEMES.iter().fold(bars, |bars, &scheme| {
            bars.part(scheme, ran.traces.iter().map(|stage| value(stage, scheme)))
        });
        Chart::Bars(bars)
    };
    found
        .draw(chart("Hits with 10 % of the blocks touched", Unit::Ratio, &|stage, scheme| {
            hits(stage, scheme, SHOWN)
        }))
        .draw(chart("Replacements with 10 % of the blocks touched", Unit::Count, &|stage, scheme| {
            replaced(stage, scheme, SHOWN)
        }));
    found
}
