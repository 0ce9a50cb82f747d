//! ETICA's settings.

use super::popularity::Share;
use crate::geometry::Geometry;
use crate::interval::Interval;
use crate::parts::{mapping, sampling};
use crate::quota::Quota;
use crate::settings::{SettingError, SettingInfo, Settings};
use crate::sizer;

/// The setting that says whose requests count.
pub(crate) const PROMOTION_CLOCK: &str = "promotion_clock";

/// Its value for those of all VMs.
pub(crate) const BY_HOST: &str = "host";

/// The mode that promotes nothing.
const NPE: &str = "npe";

const ON_OFF: &[&str] = &["on", "off"];

pub(crate) static SETTINGS: &[SettingInfo] = &[
    SettingInfo::choice("mode", NPE, &[NPE, "full-hybrid", "full-strict"])
        .about(
            "a write to a block the SSD lacks: npe allocates and evicts on demand; full-hybrid allocates \
             only in a free way; full-strict never. The full modes promote and evict by popularity",
        )
        .source("ETICA 4.1 and Fig. 5 (npe), Fig. 6b (full-strict); full-hybrid is our reading"),
    SettingInfo::scaled("promotion_interval", "1000", 1, 1_000_000_000)
        .about("requests between two promotions")
        .source("ETICA 5.6, Fig. 17"),
    SettingInfo::choice(PROMOTION_CLOCK, "vm", &[BY_HOST, "vm"])
        .about(
            "whose requests or time the promotion interval counts: vm: the VM's own; host: those of all \
             VMs, which all promote together, in a replay of all of them",
        )
        .source("ETICA 5.6: requests processed by the system (host); vm: ours"),
    SettingInfo::number("promotion_interval_s", "60", 0.001, 86_400.0)
        .about("seconds between two promotions, with trigger=time")
        .source("ours: a tenth of the sizing interval, as with requests"),
    SettingInfo::number("queue_percent", "5", 0.01, 100.0)
        .about(
            "share of the tracked blocks outside the SSD that may be promoted, and of the blocks inside \
             that may be evicted, in one interval",
        )
        .source("ETICA 4.2.2"),
    SettingInfo::choice("queues", "exact", &["exact", "classes"])
        .about(
            "exact: so many blocks, rounded up, of equal ones those with the oldest access; classes: with \
             them all blocks whose scores are as high to a sixteenth of an octave, such as all without one",
        )
        .source("ETICA 4.2.2 (exact); classes: ours"),
    SettingInfo::choice("evict", "swap", &["swap", "literal"])
        .about("swap: a block leaves only for a more popular one; literal: the eviction queue always leaves")
        .source("ETICA 4.2.2 (swap by its text, literal by its print)"),
    SettingInfo::choice("popularity", "wbwo", &["wbwo", "wb", "any"])
        .about(
            "which accesses make a block popular (Eq. 1): reads of written blocks; all re-reads; or reads \
             and writes of written blocks",
        )
        .source("ETICA Eq. 1; the choice of POD is our reading"),
    SettingInfo::number("ageing", "0.9", 0.0, 1.0)
        .about("factor on every score at the end of a promotion interval; 1: never forget; 0: start anew")
        .source("ours; Eq. 1 is cumulative (1), ETICA 5.6 speaks of a score per interval (0)"),
    SettingInfo::number("score_floor", "0.001", 0.0, 1.0)
        .about("a block outside the SSD whose score ages below this is no longer a candidate")
        .source("ours: bounds the candidates"),
    SettingInfo::choice("window", "carry", &["carry", "reset"])
        .about(
            "what reuse distances see at the start of a sizing interval: carry: the history before it; \
             reset: nothing",
        )
        .source("ETICA feeds PARDA interval by interval (reset); carry is better in production"),
    SettingInfo::choice("chained", "off", ON_OFF)
        .about("on: POD(WBWO) sees only what the DRAM level lets through")
        .source("ours; ETICA's text uses the VM's whole stream (off)"),
    SettingInfo::choice("ro_ignore_writes", "off", ON_OFF)
        .about("on: a read after a write still counts as a useful re-read for POD(RO)")
        .source("ours, for ablation: what merely filtering writes out would count"),
    SettingInfo::scaled("track_blocks", "0", 0, 1 << 30)
        .about(
            "blocks a VM's history may hold, at least twice what the host has of both levels; 0: four times \
             what the host has of both levels, plus 65536",
        )
        .source("ours: no distance beyond a level's size can change a share"),
    SettingInfo {
        about: "whose reuse distances are measured, with mode=npe: exact: those of all blocks; sampled: those of \
                sample_blocks of them. The full modes measure all, because popularity is made of them",
        ..sampling::DISTANCES
    },
    sampling::SAMPLE_BLOCKS,
];

static OBJECTIVES: &[SettingInfo] = &[sizer::objective_setting("sum_hit_ratio"), sizer::PPC_FLOOR];

pub(crate) static TABLES: &[&[SettingInfo]] =
    &[mapping::SETTINGS, OBJECTIVES, &[sizer::SIZED], sizer::SETTINGS, SETTINGS];

/// The host's interval from promotion to promotion, for whoever sees the requests of all VMs; `None` where each VM counts its
/// own, or nothing is promoted.
pub(crate) fn host_interval(settings: &Settings) -> Option<Interval> {
    (is_by_host(settings) && settings.text("mode") != NPE).then(|| promotion_interval(settings))
}

/// Refuses the host's clock where only one VM's requests are seen.
pub(crate) fn check_alone(settings: &Settings) -> Result<(), SettingError> {
    if !is_by_host(settings) {
        return Ok(());
    }
    let message = format!(
        "Setting {PROMOTION_CLOCK}={BY_HOST} counts the requests of all VMs, and here each VM is by itself; set \
         {PROMOTION_CLOCK}=vm, or replay all of them together"
    );
    Err(SettingError::Origins { key: PROMOTION_CLOCK, message })
}

fn is_by_host(settings: &Settings) -> bool {
    settings.text(PROMOTION_CLOCK) == BY_HOST
}

fn promotion_interval(settings: &Settings) -> Interval {
    sizer::interval(settings, "promotion_interval", "promotion_interval_s")
}

/// What the SSD does with a write to a block it does not hold, and whether popularity rules it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Npe,
    FullHybrid,
    FullStrict,
}

/// Which accesses make a block popular.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PopularityOf {
    /// Reads of blocks written before.
    Wbwo,
    /// Every re-read.
    Wb,
    /// Reads and writes of blocks written before.
    Any,
}

/// The settings, read once.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) mode: Mode,
    pub(super) queue_share: Share,
    pub(super) whole_classes: bool,
    pub(super) evict_literally: bool,
    pub(super) popularity: PopularityOf,
    pub(super) ageing: f32,
    pub(super) score_floor: f32,
    pub(super) reset_window: bool,
    pub(super) chained: bool,
    pub(super) ro_ignore_writes: bool,
    pub(super) measures_demand: bool,
    /// The demand is measured on a sample of the blocks.
    samples_demand: bool,
    settings: Settings,
}

impl Config {
    pub(super) fn new(settings: &Settings) -> Config {
        Config {
            mode: match settings.text("mode") {
                NPE => Mode::Npe,
                "full-strict" => Mode::FullStrict,
                _ => Mode::FullHybrid,
            },
            queue_share: Share::of_percent(settings.number("queue_percent")),
            whole_classes: settings.text("queues") == "classes",
            evict_literally: settings.text("evict") == "literal",
            popularity: match settings.text("popularity") {
                "wb" => PopularityOf::Wb,
                "any" => PopularityOf::Any,
                _ => PopularityOf::Wbwo,
            },
            ageing: settings.number("ageing") as f32,
            score_floor: settings.number("score_floor") as f32,
            reset_window: settings.text("window") == "reset",
            chained: settings.is_on("chained"),
            ro_ignore_writes: settings.is_on("ro_ignore_writes"),
            measures_demand: settings.measures_demand(),
            samples_demand: sampling::is_on(settings),
            settings: settings.clone(),
        }
    }

    pub(super) fn geometry(&self, blocks: u32) -> Geometry {
        mapping::geometry(&self.settings, blocks)
    }

    /// From promotion to promotion, unless the host says when.
    pub(super) fn promotion_interval(&self) -> Interval {
        if self.is_by_host() { Interval::never() } else { promotion_interval(&self.settings) }
    }

    /// Whether the host says when promotions are.
    pub(super) fn is_by_host(&self) -> bool {
        is_by_host(&self.settings)
    }

    /// Whether something has to be known of every block, in a level or not.
    pub(super) fn needs_history(&self) -> bool {
        self.promotes() || (self.measures_demand && !self.samples_demand)
    }

    /// Whether popularity decides what the SSD holds.
    pub(super) fn promotes(&self) -> bool {
        self.mode != Mode::Npe
    }
}

/// Most blocks that are remembered besides those that the levels hold.
pub(super) fn remembered_blocks(settings: &Settings, physical: Quota) -> u64 {
    let config = Config::new(settings);
    let limit = track_limit(settings, physical);
    match (config.needs_history(), config.measures_demand) {
        (true, _) => limit.into(),
        (false, true) => sampling::tracked_blocks(settings, limit).into(),
        (false, false) => 0,
    }
}

/// Blocks whose history is kept, exactly.
pub(super) fn track_limit(settings: &Settings, physical: Quota) -> u32 {
    const SMALLEST: u64 = 65_536;
    const TIMES_PHYSICAL: u64 = 4;
    const LEAST_TIMES_PHYSICAL: u64 = 2;
    const LARGEST: u64 = 1 << 30;
    let physical = u64::from(physical.dram_blocks) + u64::from(physical.ssd_blocks);
    let blocks = match settings.integer("track_blocks") {
        0 => SMALLEST + TIMES_PHYSICAL * physical,
        // With half of the records outside both levels, one that may go is soon found.
        blocks => blocks.max(LEAST_TIMES_PHYSICAL * physical),
    };
    blocks.min(LARGEST) as u32
}
