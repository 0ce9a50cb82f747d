//! What `lode compare` finds. It must not compute anything that is not there yet.

use std::collections::BTreeMap;

use lode_hardware::Drives;
use lode_policy::{SchemeInfo, Settings};
use lode_replay::{Counts, InputReport};
use lode_types::Level;
use serde::Serialize;

use super::baseline::Against;
use crate::compare::{Cell, CompareOptions};
use crate::levels::{LevelBytes, title};
use crate::mapping::Mapping;

/// What `lode compare` finds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompareReport {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Name of the device profile.
    pub devices: String,
    /// The schemes.
    pub schemes: Vec<SchemeEntry>,
    /// Which of them the others are measured against, if one was named.
    pub baseline: Option<String>,
    /// The sizes asked for, in their order.
    pub sizes: Vec<LevelBytes>,
    /// What the traces touch, where sizes were asked for in per cent of it.
    pub footprint_bytes: Option<u64>,
    /// Every scheme with every size, scheme by scheme.
    pub cells: Vec<CellReport>,
    /// The traces that were read.
    pub inputs: Vec<InputReport>,
    /// What the user should hear of the way the traces fit together.
    pub warnings: Vec<String>,
    /// How the schemes map blocks to places.
    pub mapping: Mapping,
    /// What makes the schemes differ beside their decisions, for people.
    pub notes: Vec<String>,
}

/// One scheme.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SchemeEntry {
    /// What it was called when asked for, settings included.
    pub label: String,
    /// Its name.
    pub scheme: String,
    /// Every setting with its value.
    pub settings: BTreeMap<String, String>,
}

/// One scheme with one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellReport {
    /// Index of the scheme.
    pub scheme: usize,
    /// Index of the size.
    pub size: usize,
    /// The levels that it had: those of the size that it uses.
    pub levels: LevelBytes,
    /// Price of these levels.
    pub cost_usd: f64,
    /// Share of the block reads that a level serves; none without reads.
    pub read_hit_ratio: Option<f64>,
    /// Share of the block accesses that a level serves, write hits included; none without accesses.
    pub hit_ratio: Option<f64>,
    /// Mean time of a request on the device model; none without requests.
    pub mean_latency_us: Option<f64>,
    /// Bytes written to the SSD.
    pub ssd_written_bytes: u64,
    /// Bytes written to the read SSD.
    pub read_ssd_written_bytes: u64,
    /// The drives that the SSD level takes, where it is bought as whole ones.
    pub drives: Option<Drives>,
    /// Energy of all devices over the traces' span; none without a span or times.
    pub energy_j: Option<f64>,
    /// Years of SSD life at the traces' rate of writing; none without a span or times, an SSD
    /// or writes.
    pub ssd_life_years: Option<f64>,
    /// Years of the read SSD's life, as of the SSD's.
    pub read_ssd_life_years: Option<f64>,
    /// Chance of losing dirty data within a year, with a scheme that keeps it on two devices; none with others, and when
    /// nothing was dirty.
    pub dirty_loss_per_year: Option<f64>,
    /// Blocks written to both SSDs for each block that guests wrote; none without those.
    pub cwf: Option<f64>,
    /// What it saves of the baseline's with the same size; none without a baseline.
    pub against: Option<Against>,
    /// Each VM, in order of appearance.
    pub vms: Vec<CellVm>,
}

/// One VM in one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellVm {
    /// Its name.
    pub name: String,
    /// Share of its block accesses that a level serves, write hits included; none without accesses.
    pub hit_ratio: Option<f64>,
    /// Share of its block reads that a level serves; none without reads.
    pub read_hit_ratio: Option<f64>,
    /// Mean time of its requests; none without requests.
    pub mean_latency_us: Option<f64>,
    /// Bytes written to the SSD for it.
    pub ssd_written_bytes: u64,
    /// Bytes written to the read SSD for it.
    pub read_ssd_written_bytes: u64,
}

impl CompareReport {
    /// The report of a comparison on a host's devices.
    pub fn new(cells: &[Cell], options: &CompareOptions) -> CompareReport {
        let first = cells.first().map(|cell| &cell.report);
        let schemes = options.schemes.as_slice().iter().map(|(label, settings)| SchemeEntry {
            label: label.clone(),
            scheme: settings.scheme().to_owned(),
            settings: settings.values().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        });
        CompareReport {
            block_bytes: options.block_size.bytes(),
            devices: options.host.name.clone(),
            schemes: schemes.collect(),
            baseline: None,
            footprint_bytes: None,
            sizes: options.sizes.clone(),
            cells: cells.iter().map(CellReport::new).collect(),
            inputs: first.map_or_else(Vec::new, |report| report.inputs.clone()),
            warnings: first.map_or_else(Vec::new, |report| report.warnings.clone()),
            mapping: options.schemes.mapping().clone(),
            notes: options.schemes.notes().into_iter().chain(levels_notes(cells, options)).collect(),
        }
    }
}

/// What there is to say of the levels that schemes have.
fn levels_notes(cells: &[Cell], options: &CompareOptions) -> impl Iterator<Item = String> {
    let of_sizes = if options.planned.is_none() { size_notes(options) } else { Vec::new() };
    levels_note(cells, options).into_iter().chain(of_sizes)
}

/// Says so where a level is given to nobody, and where schemes run without a level that they could use.
fn size_notes(options: &CompareOptions) -> Vec<String> {
    let users = |level: Level| -> Vec<&str> {
        let uses = |settings: &Settings| {
            SchemeInfo::find(settings.scheme()).is_ok_and(|info| info.levels.contains(&level))
        };
        let schemes = options.schemes.as_slice().iter();
        schemes.filter(|(_, settings)| uses(settings)).map(|(label, _)| label.as_str()).collect()
    };
    let about = |level: Level| {
        let (users, sizes) = (users(level), &options.sizes);
        let (option, title) = (level.name(), title(level));
        if users.is_empty() {
            let is_given = sizes.iter().any(|size| size.of(level) > 0);
            return is_given.then(|| format!("No scheme here uses {title}: --{option} changes nothing"));
        }
        sizes.iter().any(|size| size.of(level) == 0).then(|| {
            let which = if sizes.iter().all(|size| size.of(level) == 0) { "" } else { ", with some sizes" };
            format!("Without {title}, which they can use{which}: {}; --{option} gives it", users.join(", "))
        })
    };
    Level::ALL.into_iter().filter_map(about).collect()
}

/// Says so when rows of one size have different levels, and so different prices; with a plan their money is the same.
fn levels_note(cells: &[Cell], options: &CompareOptions) -> Option<String> {
    let mut by_levels: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for (number, (label, _)) in options.schemes.as_slice().iter().enumerate() {
        let own = || cells.iter().filter(|cell| cell.scheme == number);
        let has = |level: &Level| own().any(|cell| cell.levels.of(*level) > 0);
        let levels: Vec<&str> = Level::ALL.into_iter().filter(has).map(title).collect();
        match by_levels.iter_mut().find(|(known, _)| *known == levels) {
            Some((_, labels)) => labels.push(label),
            None => by_levels.push((levels, vec![label])),
        }
    }
    (by_levels.len() > 1 && options.planned.is_none()).then(|| {
        let who: Vec<String> = by_levels
            .iter()
            .map(|(levels, labels)| format!("{} for {}", levels.join(" and "), labels.join(", ")))
            .collect();
        format!(
            "Levels, and so cost, differ within one size: {}; --plan gives all schemes the same money",
            who.join("; ")
        )
    })
}

impl CellReport {
    fn new(cell: &Cell) -> CellReport {
        let report = &cell.report;
        let devices = &report.devices;
        let vms = report.vms.iter().map(|vm| CellVm {
            name: vm.name.clone(),
            hit_ratio: hit_ratio(&vm.counts),
            read_hit_ratio: read_hit_ratio(&vm.counts),
            mean_latency_us: vm.counts.mean_latency_us,
            ssd_written_bytes: vm.devices.ssd_written_bytes,
            read_ssd_written_bytes: vm.devices.read_ssd_written_bytes,
        });
        CellReport {
            scheme: cell.scheme,
            size: cell.size,
            levels: cell.levels,
            cost_usd: devices.cost_usd.total,
            drives: devices.drives.clone(),
            read_hit_ratio: read_hit_ratio(&report.total),
            hit_ratio: hit_ratio(&report.total),
            mean_latency_us: report.total.mean_latency_us,
            ssd_written_bytes: devices.ssd_written_bytes,
            read_ssd_written_bytes: devices.read_ssd_written_bytes,
            energy_j: devices
                .energy_j
                .filter(|_| devices.span_s.is_some_and(|seconds| seconds > 0.0))
                .map(|energy_j| energy_j.total),
            ssd_life_years: devices.ssd_life_years,
            read_ssd_life_years: devices.read_ssd_life_years,
            dirty_loss_per_year: devices.mirrors.and_then(|mirrors| mirrors.loss_per_year),
            cwf: report.total.counters.cwf,
            against: None,
            vms: vms.collect(),
        }
    }
}

fn read_hit_ratio(counts: &Counts) -> Option<f64> {
    ratio(counts.counters.read_hits.total(), counts.counters.block_reads)
}

fn hit_ratio(counts: &Counts) -> Option<f64> {
    let counters = &counts.counters;
    ratio(counters.read_hits.total() + counters.write_hits.ssd, counters.block_accesses)
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
