//! Settings of the three TICA schemes. It must not know what they do.

use super::choice::{Chooser, Identifier, Reading, StateMachine};
use crate::settings::{SettingInfo, Settings};

static SETTINGS: &[SettingInfo] = &[
    SettingInfo::integer("write_percent", "25", 1, 99)
        .about("share of DRAM that the write partition has by default, at least one block")
        .source("TICA: defwritecachesize, of which it gives no value; 25 is ours"),
    SettingInfo::integer("unit_parts", "8", 1, 1 << 20)
        .about("the write partition grows and shrinks in units of its default size divided by this")
        .source("ours: in units of one page, as TICA prints it, it could hardly grow"),
    SettingInfo::number("copy_rate", "1", 0.0, 1024.0)
        .about(
            "blocks of the write partition that are copied to the read SSD at the end of a request, on \
             average; 0: only when their room is needed",
        )
        .source("ours: in TICA a thread copies as fast as the SSD takes it"),
];

static CHOICE_SETTINGS: &[SettingInfo] = &[
    SettingInfo::choice("identifier", "text", &["text", "printed"])
        .about(
            "text: more hits in DRAM than t_max ask for EF; printed: more hits in DRAM and evicted queue \
             together than t_max ask for WED",
        )
        .source("TICA 4.4.1 (text), Algorithm 2 (printed)"),
    SettingInfo::number("t_min", "0.15", 0.0, 1.0)
        .about(
            "share of a window's requests that are read hits in the evicted queue, above which DRAM is too \
             small",
        )
        .source("TICA 5.1"),
    SettingInfo::number("t_max", "0.25", 0.0, 1.0)
        .about(
            "share of a window's requests that are read hits in DRAM, above which it is large enough (see \
             identifier)",
        )
        .source("TICA 5.1"),
    SettingInfo::number("window_requests_per_block", "2", 0.001, 1000.0)
        .about("requests of a window of the identifier, for each block of DRAM")
        .source("TICA, Algorithm 2"),
    SettingInfo::integer("evicted_percent", "100", 0, 1000)
        .about("blocks in the evicted queue, for each hundred blocks of the SSD")
        .source("ours: TICA gives none; as many as copying could keep"),
    SettingInfo::choice("state_machine", "text", &["text", "printed"])
        .about(
            "text: many reads of the disk and many hits in a sample begin copying; printed: many reads of \
             the disk alone",
        )
        .source("TICA 4.4.2, Fig. 9 (text), Algorithm 3 (printed)"),
    SettingInfo::number("t_hdd", "0.2", 0.0, 1.0)
        .about(
            "share of a sample's requests that read the disk, above which the state machine takes that for \
             much",
        )
        .source("TICA 5.1"),
    SettingInfo::number("t_read", "0.2", 0.0, 1.0)
        .about(
            "share of a sample's requests that are read hits, above which the state machine takes that for \
             many",
        )
        .source("TICA 5.1"),
    SettingInfo::scaled("sample_size", "10000", 1, 1_000_000_000)
        .about("requests of a sample of the state machine")
        .source("TICA, Algorithm 3, which gives no value; 10,000 is ours"),
    SettingInfo::integer("steps", "4", 1, 1_000_000)
        .about(
            "samples for which the state machine waits after copying did not help, with the one that began \
             it",
        )
        .source("TICA, Algorithm 3, which gives no value; 4 is ours"),
];

/// Of `tica-ef` and `tica-wed`.
pub(crate) static TABLES: &[&[SettingInfo]] = &[SETTINGS];

/// Of `tica-adaptive`.
pub(crate) static ADAPTIVE_TABLES: &[&[SettingInfo]] = &[SETTINGS, CHOICE_SETTINGS];

/// Parts of a block in which `copy_rate` is counted, so that the sums are exact.
pub(super) const COPY_PARTS: u64 = 1_000_000;

/// Settings of every TICA scheme, as numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) write_percent: u32,
    pub(super) unit_parts: u32,
    /// Copies after a request, in [`COPY_PARTS`].
    pub(super) copy_rate_parts: u64,
}

impl Config {
    pub(super) fn new(settings: &Settings) -> Config {
        Config {
            write_percent: settings.integer("write_percent") as u32,
            unit_parts: settings.integer("unit_parts") as u32,
            copy_rate_parts: (settings.number("copy_rate") * COPY_PARTS as f64).round() as u64,
        }
    }
}

/// Settings of the choice between EF and WED, with its state.
#[derive(Debug)]
pub(super) struct Adaptive {
    pub(super) chooser: Chooser,
    requests_per_block: f64,
    evicted_percent: u64,
}

impl Adaptive {
    pub(super) fn new(settings: &Settings) -> Adaptive {
        let reading = |key| if settings.text(key) == "printed" { Reading::Printed } else { Reading::Text };
        let identifier = Identifier {
            reading: reading("identifier"),
            t_min: settings.number("t_min"),
            t_max: settings.number("t_max"),
        };
        let steps = settings.integer("steps") as u32;
        let (t_hdd, t_read) = (settings.number("t_hdd"), settings.number("t_read"));
        let machine = StateMachine::new(reading("state_machine"), t_hdd, t_read, steps);
        Adaptive {
            chooser: Chooser::new(identifier, machine, settings.integer("sample_size")),
            requests_per_block: settings.number("window_requests_per_block"),
            evicted_percent: settings.integer("evicted_percent"),
        }
    }

    /// Says how large DRAM is.
    pub(super) fn set_dram(&mut self, blocks: u32) {
        self.chooser.set_window((f64::from(blocks) * self.requests_per_block).round() as u64);
    }

    /// Blocks that the evicted queue holds beside an SSD of so many blocks.
    pub(super) fn evicted_blocks(&self, ssd_blocks: u32) -> u64 {
        u64::from(ssd_blocks) * self.evicted_percent / 100
    }
}
