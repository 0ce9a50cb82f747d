//! vCacheShare, as far as it is known (Meng et al., "vCacheShare: Automated Server Flash Cache Space Management in a
//! Virtualization Environment", USENIX ATC 2014, recalled): the utility of a share of c blocks is
//! `latency * read ratio * (hit ratio(c) + alpha * reuse intensity)`, and shares make the sum of all utilities largest;
//! write-around.
//!
//! It must not know how distances are found.

use lode_reuse::CurvePoint;
use lode_reuse::working_set::reuse_intensity;

use crate::parts::sized::reuse::{Counts, Reading, Reuse, Stream};
use crate::parts::sized::{FOOTPRINT, HISTORY, Measured};
use crate::parts::{mapping, ssd_level};
use crate::registry::{AnyScheme, SchemeInfo};
use crate::scheme::LevelDemand;
use crate::settings::{SettingInfo, Settings};
use crate::sizer;

static SETTINGS: &[SettingInfo] = &[
    ssd_level::write_policy("wa"),
    SettingInfo::number("alpha", "0.1", 0.0, 1000.0)
        .about(
            "what a VM's reuse intensity (its reads a distinct block of the window) counts beside its hit \
             ratio",
        )
        .source("ours; the paper's is not known to us"),
    SettingInfo::choice("intensity", "flat", &["flat", "by_share"])
        .about(
            "flat: the intensity counts in full for any share but none; by_share: as the share's part of \
             the blocks read",
        )
        .source("vCacheShare's formula (flat, recalled); by_share is ours"),
];

/// What is registered of the scheme.
pub(crate) const INFO: SchemeInfo = SchemeInfo {
    name: "vcacheshare-like",
    about: "one SSD level whose share follows hit ratio and reuse intensity of the reads; write-around",
    source: "vCacheShare, recalled",
    tables: &[mapping::SETTINGS, SETTINGS, &[sizer::SIZED], sizer::SETTINGS, HISTORY],
    build: |settings, physical, quota| {
        AnyScheme::VCacheShareLike(Box::new(VCacheShareLike::new(settings, physical, quota)))
    },
    footprint: FOOTPRINT,
    variants: &["window", "intensity"],
    ..SchemeInfo::PLAIN
};

/// One VM's cache sized by its utility.
pub type VCacheShareLike = Measured<Reuse<Utility>>;

/// Hits of a share of the largest utility: utilities are told as hit curves, in so many parts of the largest one.
const PARTS: u64 = 1 << 40;

/// One window: the sizer divides windows of equal length, so that its length is a matter of `alpha`.
const WINDOW: f64 = 1.0;

/// Utility from distances.
#[derive(Debug)]
pub struct Utility {
    alpha: f64,
    by_share: bool,
}

impl Utility {
    /// The part of the intensity that a share of so many blocks brings.
    fn part(&self, size_blocks: u64, distinct: u64) -> f64 {
        if self.by_share { (size_blocks as f64 / distinct.max(1) as f64).min(1.0) } else { 1.0 }
    }
}

impl Reading for Utility {
    const STREAM: Stream = Stream::Reads;
    const ALWAYS: bool = false;

    fn new(settings: &Settings) -> Utility {
        Utility { alpha: settings.number("alpha"), by_share: settings.text("intensity") == "by_share" }
    }

    /// The curve of `hit ratio + alpha * intensity` in parts of its largest possible value, and that value times the read
    /// ratio as the VM's weight. All VMs are on the same storage, so that its latency is no part of it.
    fn demand(&self, of_distances: LevelDemand, counts: Counts) -> LevelDemand {
        let Counts { accesses, reads, distinct, .. } = counts;
        if reads == 0 {
            return LevelDemand { accesses, ..LevelDemand::default() };
        }
        // A sample may have met none of the blocks that were read.
        let distinct = (distinct.round() as u64).clamp(1, reads);
        let intensity = reuse_intensity(reads, distinct, WINDOW).expect("a window has a length");
        let most = 1.0 + self.alpha * intensity;
        let mut curve = of_distances.curve;
        if !self.by_share && self.alpha > 0.0 && curve.first().is_none_or(|point| point.size_blocks > 1) {
            curve.insert(0, CurvePoint { size_blocks: 1, hits: 0 });
        }
        for point in &mut curve {
            let hit_ratio = point.hits as f64 / reads as f64;
            let utility = hit_ratio + self.alpha * intensity * self.part(point.size_blocks, distinct);
            point.hits = ((utility / most * PARTS as f64) as u64).min(PARTS);
        }
        let blocks = curve.last().map_or(0, |point| point.size_blocks as u32);
        let weight = reads as f64 / accesses as f64 * most;
        LevelDemand { blocks, curve, accesses: PARTS, weight, ..LevelDemand::default() }
    }
}
