//! ETICA's experiments: sections 3, 4 and 5.

mod arrivals;
mod at_hand;
mod examples;
mod host;
mod intervals;
mod policies;
mod property;
mod readings;
mod sizes;
mod sweeps;
mod why;

pub use at_hand::AT_HAND;

use crate::experiment::Experiment;
use crate::job::{LevelSizes, Replay, Scheme, Size};
use crate::workload::{ETICA_MIX, Workload};

/// In the order of the paper.
pub static EXPERIMENTS: &[Experiment] = &[
    policies::FIG_3,
    examples::FIG_5,
    examples::FIG_8_AND_9,
    sizes::FIG_10_AND_11,
    host::FIG_12_TO_14,
    host::SWEEP,
    readings::READINGS,
    property::PROPERTY,
    arrivals::FIG_15_AND_16,
    intervals::FIG_17,
];

/// The shape of ETICA's test host: SSDs in RAID-10 before six disks in RAID-5.
const HOST: &str = "sata-raid5";

/// Requests between two sizings (section 5.2).
const SIZING: u64 = 10_000;
/// Requests between two promotions (section 5.3).
const PROMOTION: u64 = 1_000;

/// Blocks of both levels together, in ten-thousandths of those that the VMs touch; the paper does not say. TICA's tenth.
const TOTAL: u32 = 1_000;
/// Of these, per cent that are DRAM; the paper does not say.
const DRAM_PERCENT: u32 = 20;

/// ETICA in one of its modes, with the intervals of sections 5.2 and 5.3.
fn etica(mode: &'static str) -> Scheme {
    promoting(mode, PROMOTION)
}

/// ETICA with another promotion interval.
fn promoting(mode: &'static str, promotion: u64) -> Scheme {
    Scheme::new("etica")
        .set("mode", mode)
        .set("promotion_clock", "host")
        .scaled("sizing_interval", SIZING)
        .scaled("promotion_interval", promotion)
}

/// ECI-Cache as it is known; from this part of overwrites on a VM's cache is read-only.
fn eci(write_threshold: &'static str) -> Scheme {
    Scheme::new("eci-cache-like")
        .set("write_threshold", write_threshold)
        .scaled("sizing_interval", SIZING)
        .scaled("policy_interval", SIZING)
}

/// What is taken for ECI-Cache's own threshold.
const ECI_DEFAULT: &str = "0.5";
/// Every VM's cache is write-back.
const ECI_WRITE_BACK: &str = "1";

/// DRAM and SSD of a total, in ten-thousandths of the blocks touched.
fn two_levels(total: u32, dram_percent: u32) -> LevelSizes {
    let dram = total * dram_percent / 100;
    LevelSizes { dram: Size::OfTouched(dram), ssd: Size::OfTouched(total - dram), ..LevelSizes::default() }
}

/// The same total as SSD alone.
fn one_level(total: u32) -> LevelSizes {
    LevelSizes { ssd: Size::OfTouched(total), ..LevelSizes::default() }
}

/// The 12 VMs through a scheme.
fn on_mix(scheme: Scheme, space: LevelSizes) -> Replay {
    Replay { workload: &ETICA_MIX, scheme, space, host: HOST }
}

/// One workload through a scheme.
fn on(workload: &'static Workload, scheme: Scheme, space: LevelSizes) -> Replay {
    Replay { workload, scheme, space, host: HOST }
}
