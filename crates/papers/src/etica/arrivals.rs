//! Figs. 15 and 16: shares of VMs that come and go.

use lode_draw::Unit;

use super::HOST;
use crate::chart::{Chart, Lines, Scale};
use crate::claim::{Bound, Claim, Reported, Shown};
use crate::experiment::{Experiment, Finding, mean, ratio};
use crate::job::{Arrivals, Job, Scheme};
use crate::paper::Paper;
use crate::run::{ArrivalCell, ArrivalRows, COMING, GOING, Results};
use crate::workload::ARRIVING;

/// Section 5.5.
pub(super) const FIG_15_AND_16: Experiment = Experiment {
    paper: Paper::Etica,
    figure: "15-16",
    title: "shares of 1, 4, 16 and 32 VMs",
    ran: "50,000 blocks of cache; one VM, from interval 2 on four, from 6 on 16, from 10 on 32; intervals of ten minutes \
          (section 5.5)",
    here: &[
        "10,000 blocks are DRAM and 40,000 SSD: the paper does not divide them",
        "From interval 30 on all VMs but the first are gone, which is ours",
        "ETICA-Full (mode=full-hybrid)",
        "The text does not say when VM0's hits are 64 % again: taken for all the time with 32 VMs",
    ],
    claims: CLAIMS,
    jobs,
    measure,
};

const SOURCE: &str = "section 5.5, Figs. 15 and 16";

static CLAIMS: &[Claim] = &[
    Claim::new(
        "etica-16-vm0-alone",
        "VM0 alone: hits of all accesses",
        Shown::Percent,
        Reported::Value(0.96),
    )
    .source(SOURCE)
    .same(Bound::AtLeast(0.5)),
    Claim::new(
        "etica-16-vm0-among-16",
        "VM0 among 16: hits, of those alone",
        Shown::Times,
        Reported::Value(0.28 / 0.96),
    )
    .source(SOURCE)
    .same(Bound::Below(1.0)),
    hits("etica-16-vm0-among-4", "VM0 among 4: hits of all accesses", 0.77),
    hits("etica-16-vm1-among-4", "VM1 among 4: hits of all accesses", 0.44),
    hits("etica-16-vm2-among-4", "VM2 among 4: hits of all accesses", 0.29),
    hits("etica-16-vm3-among-4", "VM3 among 4: hits of all accesses", 0.37),
    hits("etica-16-vm0-16", "VM0 among 16: hits of all accesses", 0.28),
    hits("etica-16-vm0-again", "VM0 later, when others ask for little: hits of all accesses", 0.64),
    Claim::new(
        "etica-15-full",
        "32 VMs: part of the space that is given away, most of the intervals",
        Shown::Percent,
        Reported::Words("demand beyond the space"),
    )
    .source(SOURCE)
    .same(Bound::AtLeast(0.9)),
    Claim::new(
        "etica-15-vm0-shrinks",
        "VM0's share with 32 VMs, of that with 4",
        Shown::Times,
        Reported::Words("reduced"),
    )
    .source(SOURCE)
    .same(Bound::Below(1.0)),
    Claim::new(
        "etica-15-given-back",
        "part of the space that VMs have that are gone, at the end",
        Shown::Percent,
        Reported::Words("reclaimed (section 4.2.2)"),
    )
    .source("section 4; ours")
    .same(Bound::Below(0.01)),
];

/// A ratio of hits, which points the same way from half of the paper's to twice as much.
const fn hits(key: &'static str, about: &'static str, paper: f64) -> Claim {
    let claim = Claim::new(key, about, Shown::Percent, Reported::Value(paper)).source("section 5.5, Fig. 16");
    claim.same(Bound::Within(paper / 2.0, 2.0 * paper))
}

const DRAM_BLOCKS: u32 = 10_000;
const SSD_BLOCKS: u32 = 40_000;

fn job(by_time: bool) -> Arrivals {
    let scheme = Scheme::new("etica").set("mode", "full-hybrid").set("promotion_interval", "1000");
    Arrivals { scheme, dram_blocks: DRAM_BLOCKS, ssd_blocks: SSD_BLOCKS, by_time, host: HOST }
}

fn jobs() -> Vec<Job> {
    vec![Job::Arrivals(job(true)), Job::Arrivals(job(false))]
}

fn blocks(cell: &ArrivalCell) -> f64 {
    f64::from(cell.share.dram_blocks) + f64::from(cell.share.ssd_blocks)
}

/// Hits of a VM from one interval to another.
fn vm_hits(rows: &ArrivalRows, vm: usize, from: usize, to: usize) -> Option<f64> {
    let cells = || rows[from..to].iter().filter_map(|row| row.get(vm));
    let (hits, accesses) = cells().fold((0, 0), |(h, a), cell| (h + cell.hits, a + cell.accesses));
    ratio(Some(hits as f64), Some(accesses as f64))
}

/// Mean blocks of the first VM from one interval to another.
fn vm0_blocks(rows: &ArrivalRows, from: usize, to: usize) -> Option<f64> {
    mean(rows[from..to].iter().filter_map(|row| row.first()).map(|cell| Some(blocks(cell))))
}

/// Numbers of one run, in the order of the claims.
fn numbers(rows: &ArrivalRows) -> [Option<f64>; 11] {
    let [_, (four, _), (sixteen, _), (thirty_two, _)] = COMING;
    let space = f64::from(DRAM_BLOCKS) + f64::from(SSD_BLOCKS);
    let given = |row: &Vec<ArrivalCell>| row.iter().map(blocks).sum::<f64>() / space;
    let mut crowded: Vec<f64> = rows[thirty_two + 1..GOING].iter().map(given).collect();
    crowded.sort_by(f64::total_cmp);
    let alone = vm_hits(rows, 0, 0, four);
    let among_16 = vm_hits(rows, 0, sixteen + 1, thirty_two);
    let [vm0, vm1, vm2, vm3] = [0, 1, 2, 3].map(|vm| vm_hits(rows, vm, four, sixteen));
    [
        alone,
        ratio(among_16, alone),
        vm0,
        vm1,
        vm2,
        vm3,
        among_16,
        vm_hits(rows, 0, thirty_two + 1, GOING),
        crowded.get(crowded.len() / 2).copied(),
        ratio(vm0_blocks(rows, thirty_two + 1, GOING), vm0_blocks(rows, four + 1, sixteen)),
        rows.last().map(|row| row.iter().skip(1).map(blocks).sum::<f64>() / space),
    ]
}

fn measure(results: &Results) -> Finding {
    let (by_time, by_requests) = (results.arrivals(&job(true)), results.arrivals(&job(false)));
    let mut found = Finding::default();
    let both = numbers(by_time).into_iter().zip(numbers(by_requests));
    for (claim, (by_time, by_requests)) in CLAIMS.iter().zip(both) {
        found.say(claim.key, by_time).otherwise("intervals of 10,000 requests (section 5.2)", by_requests);
    }
    found.note(
        "In ten minutes hm_1 has some 600 requests at its mean rate, of blocks that nobody has read before: VM0 begins cold, \
         and is warm only when others have come for a while. The paper's first intervals have 96 % hits, so that its hm_1 was warm or busier",
    );
    found.note(
        "The paper's VM0 also loses locality of its own between intervals 1 and 6, which a profile of one phase does not have",
    );
    let x = || Scale::linear("Interval", Unit::Count);
    let shown = || (0..8).map(|vm| (vm, format!("VM{vm} ({})", ARRIVING[vm])));
    let of = |rows: &ArrivalRows, vm: usize, value: &dyn Fn(&ArrivalCell) -> Option<f64>| {
        let row = |(at, row): (usize, &Vec<ArrivalCell>)| (at as f64, row.get(vm).and_then(value));
        rows.iter().enumerate().map(row).collect::<Vec<_>>()
    };
    let hit = |cell: &ArrivalCell| ratio(Some(cell.hits as f64), Some(cell.accesses as f64));
    for (rows, what) in [(by_time, "ten minutes"), (by_requests, "10,000 requests")] {
        let title = format!("Blocks of the first VMs, intervals of {what} (Fig. 15)");
        let shares = Lines::new(&title, x(), Scale::linear("Blocks", Unit::Count));
        let size = |cell: &ArrivalCell| Some(blocks(cell));
        let shares = shown().fold(shares, |chart, (vm, name)| chart.curve(&name, of(rows, vm, &size)));
        let title = format!("Hits of the first VMs, intervals of {what} (Fig. 16)");
        let hits = Lines::new(&title, x(), Scale::linear("Hits", Unit::Ratio));
        let hits = shown().fold(hits, |chart, (vm, name)| chart.curve(&name, of(rows, vm, &hit)));
        found.draw(Chart::Lines(shares)).draw(Chart::Lines(hits));
    }
    found
}
