//! Fig. 6: which SSD is in the way of which operation.

use lode_draw::Unit;
use lode_hardware::Host;

use crate::chart::{Bars, Chart};
use crate::claim::{Bound, Claim, Reported, Shown};
use crate::experiment::{Experiment, Finding, ratio};
use crate::paper::Paper;
use crate::run::{BLOCK, Results};

/// Section 3: what a RO-SSD in a mirrored pair costs writes ("almost 5x performance degradation").
const RO_WRITE_FACTOR: f64 = 5.0;

/// Section 4.1.
pub(super) const FIG_6: Experiment = Experiment {
    paper: Paper::Tica,
    figure: "6",
    title: "operations of mirrored pairs and of TICA",
    ran: "Response times of cache operations on two WO-SSDs, two RO-SSDs, one of each mirrored, and TICA (section 4.1)",
    here: &[
        "A calculation: times of the device profiles, and five times as long a write to the RO-SSD, which is what the paper \
         reports in section 3; the profiles themselves have equal times, as the paper's Table 1 gives none",
    ],
    claims: &[
        Claim::new(
            "tica-6-near-best",
            "TICA's slowest operation, of the fastest of all pairs",
            Shown::Times,
            Reported::Words("near optimal"),
        )
        .source("section 4.1, Fig. 6")
        .same(Bound::Within(1.0, 1.1)),
        Claim::new(
            "tica-6-mixed-writes",
            "writes of one WO-SSD and one RO-SSD mirrored, of two WO-SSDs",
            Shown::Times,
            Reported::Value(5.0),
        )
        .source("section 3, Fig. 4")
        .same(Bound::Above(1.5)),
    ],
    jobs: Vec::new,
    measure,
};

fn measure(_: &Results) -> Finding {
    let mut found = Finding::default();
    let Ok(host) = Host::find("tica") else { return found };
    let times = host.service_times(BLOCK);
    let us = |ns: u64| ns as f64 / 1000.0;
    let (wo_read, wo_write, ro_read) =
        (us(times.ssd_read_ns), us(times.ssd_write_ns), us(times.read_ssd_read_ns));
    let ro_write = RO_WRITE_FACTOR * wo_write;
    // Reads go to the faster device of a pair, writes to both; TICA writes to DRAM and the WO-SSD.
    let pairs = [
        ("RAID-1 of WO-SSDs", wo_read, wo_write),
        ("RAID-1 of RO-SSDs", ro_read, ro_write),
        ("RAID-1 of both", wo_read.min(ro_read), wo_write.max(ro_write)),
        ("TICA", ro_read, wo_write.max(us(times.dram_ns))),
    ];
    let best_read = pairs.iter().map(|pair| pair.1).fold(f64::INFINITY, f64::min);
    let best_write = pairs.iter().map(|pair| pair.2).fold(f64::INFINITY, f64::min);
    let [.., tica] = pairs;
    found
        .say("tica-6-near-best", (tica.1 / best_read).max(tica.2 / best_write))
        .say("tica-6-mixed-writes", pairs[2].2 / pairs[0].2);
    let relative = |us: f64| ratio(Some(us), Some(ro_read));
    let bars =
        Bars::new("Time of an operation, of a read of the RO-SSD (Fig. 6)", Unit::Count, pairs.map(|p| p.0));
    let bars = bars.part("read", pairs.map(|pair| relative(pair.1)));
    found.draw(Chart::Bars(bars.part("write", pairs.map(|pair| relative(pair.2)))));
    found
}
