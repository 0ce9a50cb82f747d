//! TICA's experiments: sections 3 to 5.

mod at_hand;
mod devices;
mod dram;
mod overall;
mod policies;
mod response;
mod sweep;
mod tables;

pub use at_hand::AT_HAND;

use lode_draw::Unit;
use lode_hardware::Host;
use lode_replay::Report;

use crate::chart::{Bars, Chart};
use crate::experiment::{Experiment, mean, ratio};
use crate::job::{Job, LevelSizes, Replay, Scheme, Size};
use crate::run::Results;
use crate::workload::{TICA, Workload};

/// In the order of the paper.
pub static EXPERIMENTS: &[Experiment] = &[
    policies::FIG_3,
    devices::FIG_6,
    policies::FIG_7_AND_8,
    response::FIG_11_TO_14,
    dram::SWEEP,
    sweep::SWEEP,
    overall::FIG_15_AND_16,
    tables::TABLE_1,
    tables::TABLE_2,
];

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    UCache,
    SRac,
    Ef,
    Wed,
    Adaptive,
    /// One SSD under LRU, write-back.
    OneLevel,
    /// uCache-like that copies to the SSD whatever leaves DRAM, hit or not.
    UCacheOpen,
}

/// The five of Figs. 11 to 16.
const COMPARED: [(&str, Kind); 5] = [
    ("uCache-like", Kind::UCache),
    ("S-RAC-like", Kind::SRac),
    ("TICA-EF", Kind::Ef),
    ("TICA-WED", Kind::Wed),
    ("TICA-A", Kind::Adaptive),
];

/// Section 5.1: SSDs of 10 % of the working set, DRAM of 1 %.
const DRAM: Size = Size::OfTouched(100);
const SSD: Size = Size::OfTouched(1_000);

fn job(workload: usize, kind: Kind) -> Replay {
    job_with(workload, kind, DRAM)
}

/// The same with another size of DRAM.
fn job_with(workload: usize, kind: Kind, dram: Size) -> Replay {
    job_of(&TICA[workload], kind, dram, SSD)
}

/// Any workload with levels of these sizes.
fn job_of(workload: &'static Workload, kind: Kind, dram: Size, ssd: Size) -> Replay {
    let three = LevelSizes { dram, ssd, read_ssd: ssd };
    let two = LevelSizes { read_ssd: Size::None, ..three };
    let one = LevelSizes { dram: Size::None, ..two };
    let (scheme, space, host) = match kind {
        Kind::UCache => (Scheme::new("ucache-like"), two, "ucache"),
        Kind::SRac => (Scheme::new("s-rac-like"), one, "ucache"),
        Kind::Ef => (Scheme::new("tica-ef"), three, "tica"),
        Kind::Wed => (Scheme::new("tica-wed"), three, "tica"),
        Kind::Adaptive => (Scheme::new("tica-adaptive").scaled("sample_size", 10_000), three, "tica"),
        Kind::OneLevel => (Scheme::new("lru"), one, "ucache"),
        Kind::UCacheOpen => (Scheme::new("ucache-like").set("worth_hits", "0"), two, "ucache"),
    };
    Replay { workload, scheme, space, host }
}

fn jobs_of(kinds: &[Kind]) -> Vec<Job> {
    let pairs = (0..TICA.len()).flat_map(|workload| kinds.iter().map(move |&kind| (workload, kind)));
    pairs.map(|(workload, kind)| Job::Replay(job(workload, kind))).collect()
}

/// The place of a workload in table 2.
fn place(name: &str) -> usize {
    TICA.iter().position(|workload| workload.name == name).unwrap_or_default()
}

/// Every workload under every kind that was asked for.
struct Runs<'a> {
    results: &'a Results,
}

impl<'a> Runs<'a> {
    fn report(&self, workload: usize, kind: Kind) -> &'a Report {
        self.results.replay(&job(workload, kind))
    }

    /// A number of one kind, of that of another one on the same workload.
    fn relative(&self, value: Value, workload: usize, kind: Kind, base: Kind) -> Option<f64> {
        ratio(value(self.report(workload, kind)), value(self.report(workload, base)))
    }

    /// The mean over the workloads of that.
    fn mean_relative(&self, value: Value, kind: Kind, base: Kind) -> Option<f64> {
        mean((0..TICA.len()).map(|workload| self.relative(value, workload, kind, base)))
    }

    /// Bars of several kinds, each workload a row, normalised to uCache-like.
    fn normalised(&self, title: &str, value: Value, kinds: &[(&str, Kind)]) -> Chart {
        let bars = Bars::new(title, Unit::Count, TICA.iter().map(|workload| workload.name));
        let bars = kinds.iter().fold(bars, |bars, &(name, kind)| {
            bars.part(name, (0..TICA.len()).map(|at| self.relative(value, at, kind, Kind::UCache)))
        });
        Chart::Bars(bars)
    }
}

/// A number of a run.
type Value = fn(&Report) -> Option<f64>;

/// Blocks written to all SSDs, every copy counted.
fn all_ssd_writes(report: &Report) -> Option<f64> {
    let copies = Host::find(&report.devices.host).ok()?.ssd_copies;
    let counters = &report.total.counters;
    Some((u64::from(copies) * counters.ssd_writes.total + counters.read_ssd_writes) as f64)
}

/// Energy of memory and SSDs over the span, as Eq. 2 has it: without the disks. Where a scheme has no DRAM level the module waits:
/// in the paper all three have one.
fn energy_j(report: &Report) -> Option<f64> {
    let energy = report.devices.energy_j?;
    Some(memory_j(report)? + energy.ssd + energy.read_ssd)
}

/// Of memory alone.
fn memory_j(report: &Report) -> Option<f64> {
    let host = Host::find(&report.devices.host).ok()?;
    match report.physical.dram_blocks {
        0 => Some(host.dram.power_w.idle * report.devices.span_s?),
        _ => Some(report.devices.energy_j?.dram),
    }
}

/// Of the SSDs alone.
fn ssd_energy_j(report: &Report) -> Option<f64> {
    report.devices.energy_j.map(|energy| energy.ssd + energy.read_ssd)
}

/// The same as Eq. 2 is printed, where memory waits with the idle power of the RO-SSD.
fn energy_as_printed_j(report: &Report) -> Option<f64> {
    let (memory, ro) = (Host::find(&report.devices.host).ok()?.dram, Host::find("tica").ok()?);
    let active = report.devices.active_energy_j.dram;
    let waiting = (memory_j(report)? - active) / memory.power_w.idle * ro.read_ssd().power_w.idle;
    Some(ssd_energy_j(report)? + active + waiting)
}

/// The same when every request comes as soon as the one before was served: the operations, and idle power for the time
/// that all requests take.
fn energy_back_to_back_j(report: &Report) -> Option<f64> {
    let host = Host::find(&report.devices.host).ok()?;
    let served_s = report.total.mean_latency_us? * report.total.counters.requests as f64 / 1e6;
    let has = |blocks: u32| f64::from(u8::from(blocks > 0));
    let idle_w = host.dram.power_w.idle
        + has(report.physical.ssd_blocks) * f64::from(host.ssd_copies) * host.ssd.power_w.idle
        + has(report.physical.read_ssd_blocks) * host.read_ssd().power_w.idle;
    let active = report.devices.active_energy_j;
    Some(active.dram + active.ssd + active.read_ssd + idle_w * served_s)
}
