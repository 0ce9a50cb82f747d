//! One VM of which one property is varied, through ECI-Cache-like and ETICA at equal space, and what is to be expected of both.

use lode_draw::Unit;
use lode_hardware::ServiceTimes;

use super::{ECI_DEFAULT, SIZING, eci, etica};
use crate::chart::{Chart, Lines, Scale};
use crate::claim::Shown;
use crate::experiment::{Finding, OF_LATENCY, less, percent_of};
use crate::job::{Job, LevelSizes, Replay, Scheme, Size};
use crate::measures::{latency_us, ssd_writes};
use crate::run::Results;
use crate::workload::{Mix, Workload};

/// Devices with the same times everywhere.
const HOST: &str = "default";

const DRAM_BLOCKS: u32 = 200;
const SSD_BLOCKS: u32 = 800;

/// One property, varied.
pub(super) struct Sweep {
    title: &'static str,
    label: &'static str,
    log: bool,
    at: fn(&Mix) -> f64,
    vms: &'static [Workload],
}

/// A VM with so many cold reads and hot writes in ten thousand requests, and so many hot blocks.
const fn vm(name: &'static [&'static str], cold_reads: u32, hot_writes: u32, hot_blocks: u32) -> Workload {
    Workload::mixed(name[0], name, Mix { cold_reads, hot_writes, hot_blocks })
}

static COLD: [Workload; 6] = [
    vm(&["cold-10"], 10, 200, 50),
    vm(&["cold-30"], 30, 200, 50),
    vm(&["cold-100"], 100, 200, 50),
    vm(&["cold-300"], 300, 200, 50),
    vm(&["cold-1000"], 1_000, 200, 50),
    vm(&["cold-2000"], 2_000, 200, 50),
];
static WRITES: [Workload; 7] = [
    vm(&["writes-500"], 1_000, 500, 50),
    vm(&["writes-2000"], 1_000, 2_000, 50),
    vm(&["writes-4000"], 1_000, 4_000, 50),
    vm(&["writes-4800"], 1_000, 4_800, 50),
    vm(&["writes-5200"], 1_000, 5_200, 50),
    vm(&["writes-6500"], 1_000, 6_500, 50),
    vm(&["writes-8000"], 1_000, 8_000, 50),
];
static HOT: [Workload; 5] = [
    vm(&["hot-100"], 10, 0, 100),
    vm(&["hot-180"], 10, 0, 180),
    vm(&["hot-220"], 10, 0, 220),
    vm(&["hot-250"], 10, 0, 250),
    vm(&["hot-500"], 10, 0, 500),
];

/// The three properties.
pub(super) static SWEEPS: [Sweep; 3] = [
    Sweep {
        title: "Less than with ECI-Cache-like, by reads that no cache can serve (50 hot blocks, 2 % writes)",
        label: "Cold reads, of all accesses",
        log: true,
        at: |mix| f64::from(mix.cold_reads) / 1e4,
        vms: &COLD,
    },
    Sweep {
        title: "Less than with ECI-Cache-like, by overwrites (50 hot blocks, 10 % cold reads)",
        label: "Overwrites, of all accesses",
        log: false,
        at: |mix| f64::from(mix.hot_writes) / 1e4,
        vms: &WRITES,
    },
    Sweep {
        title: "Less than with ECI-Cache-like, by the blocks that are only read (0.1 % cold reads)",
        label: "Hot blocks, of DRAM's",
        log: false,
        at: |mix| f64::from(mix.hot_blocks) / f64::from(DRAM_BLOCKS),
        vms: &HOT,
    },
];
const BY_COLD: usize = 0;
const BY_WRITES: usize = 1;
const BY_HOT: usize = 2;

/// Through ECI-Cache-like.
fn eci_job(vm: &'static Workload) -> Replay {
    let space = LevelSizes { ssd: Size::Blocks(DRAM_BLOCKS + SSD_BLOCKS), ..LevelSizes::default() };
    job(vm, eci(ECI_DEFAULT), space)
}

/// Through ETICA in one of its modes.
fn etica_job(vm: &'static Workload, mode: &'static str) -> Replay {
    let (dram, ssd) = (Size::Blocks(DRAM_BLOCKS), Size::Blocks(SSD_BLOCKS));
    job(vm, etica(mode), LevelSizes { dram, ssd, ..LevelSizes::default() })
}

fn job(workload: &'static Workload, scheme: Scheme, space: LevelSizes) -> Replay {
    Replay { workload, scheme, space, host: HOST }
}

/// Of all requests, those of ECI-Cache-like's first interval, in which it is write-back.
const FIRST: f64 = SIZING as f64 / Mix::REQUESTS as f64;

/// The paper's mean gain of latency.
const PAPER_GAIN: f64 = 0.45;

const MODES: [(&str, &str); 2] = [("NPE", "npe"), ("Full", "full-hybrid")];

pub(super) fn jobs() -> Vec<Job> {
    let vms = SWEEPS.iter().flat_map(|sweep| sweep.vms);
    vms.flat_map(|vm| {
        let etica = MODES.iter().map(move |(_, mode)| etica_job(vm, mode));
        std::iter::once(eci_job(vm)).chain(etica).map(Job::Replay)
    })
    .collect()
}

/// What is less with ETICA than with ECI-Cache-like.
#[derive(Clone, Copy)]
struct Less {
    latency: Option<f64>,
    ssd_writes: Option<f64>,
}

fn measured(results: &Results, vm: &'static Workload, mode: &'static str) -> Less {
    let (eci, etica) = (results.replay(&eci_job(vm)), results.replay(&etica_job(vm, mode)));
    Less {
        latency: less(latency_us(etica), latency_us(eci)),
        ssd_writes: less(ssd_writes(&etica.total), ssd_writes(&eci.total)),
    }
}

/// What follows for NPE from how the two schemes work, A cold read takes the disk's time with both, and
/// so does the first access to each hot block, as a read.
///
/// ECI-Cache-like serves hot reads from the SSD and fills it with cold ones. Below half of overwrites it takes the writes, too; from
/// there on, and from the second interval on, they go to the disk and drop the block, so that the next read of it misses and fills.
///
/// ETICA takes the writes into the SSD and fills nothing. The first read of a hot block after a write comes from the SSD and the next
/// ones from DRAM, if they are within its size. If they are not, they miss, unless the block was ever written.
fn expected(mix: &Mix) -> Less {
    let times = ServiceTimes::default();
    let us = |ns: u64| ns as f64 / 1_000.0;
    let (dram, ssd, into_ssd) = (us(times.dram_ns), us(times.ssd_read_ns), us(times.ssd_write_ns));
    let (disk, to_disk) = (us(times.backing.random_read.ns), us(times.backing.random_write.ns));
    let known_after = f64::from(mix.hot_blocks) / Mix::REQUESTS as f64;
    let (cold, writes) = (f64::from(mix.cold_reads) / 1e4 + known_after, f64::from(mix.hot_writes) / 1e4);
    let reads = 1.0 - cold - writes;
    let first = reads * writes / (writes + reads);
    let write_back = (cold * disk + reads * ssd + writes * into_ssd, cold + writes);
    let read_only = ((cold + first) * disk + (reads - first) * ssd + writes * to_disk, cold + first);
    let from_second = if writes < 0.5 { write_back } else { read_only };
    let eci_us = FIRST * write_back.0 + (1.0 - FIRST) * from_second.0;
    let eci_writes = FIRST * write_back.1 + (1.0 - FIRST) * from_second.1;
    let near = (f64::from(DRAM_BLOCKS) / f64::from(mix.hot_blocks)).min(1.0);
    let far_us = if mix.hot_writes > 0 { ssd } else { disk };
    let again_us = near * dram + (1.0 - near) * far_us;
    let etica_us = cold * disk + writes * into_ssd + first * ssd + (reads - first) * again_us;
    Less { latency: less(Some(etica_us), Some(eci_us)), ssd_writes: less(Some(writes), Some(eci_writes)) }
}

impl Sweep {
    fn mixes(&self) -> impl Iterator<Item = (&'static Workload, Mix)> {
        self.vms.iter().filter_map(|vm| Some((vm, vm.mix?)))
    }

    /// Latency and SSD writes by the property.
    pub(super) fn chart(&self, results: &Results) -> Chart {
        let x = match self.log {
            true => Scale::log(self.label, Unit::Ratio),
            false => Scale::linear(self.label, Unit::Ratio),
        };
        let points = |of: &dyn Fn(&'static Workload, &Mix) -> Option<f64>| {
            self.mixes().map(|(vm, mix)| ((self.at)(&mix), of(vm, &mix))).collect::<Vec<_>>()
        };
        let chart = Lines::new(self.title, x, Scale::linear("Less than ECI-Cache-like", Unit::Ratio));
        let chart = MODES.iter().fold(chart, |chart, &(name, mode)| {
            chart.curve(&format!("latency, {name}"), points(&|vm, _| measured(results, vm, mode).latency))
        });
        let chart = chart.curve("latency, NPE expected", points(&|_, mix| expected(mix).latency));
        let chart = MODES.iter().fold(chart, |chart, &(name, mode)| {
            let of = |vm: &'static Workload, _: &Mix| measured(results, vm, mode).ssd_writes;
            chart.curve(&format!("SSD writes, {name}"), points(&of))
        });
        Chart::Lines(chart.curve("SSD writes, NPE expected", points(&|_, mix| expected(mix).ssd_writes)))
    }

    /// NPE's at both ends.
    fn ends(&self, results: &Results) -> [(f64, Less); 2] {
        let of = |vm: &'static Workload| {
            let at = vm.mix.map_or(f64::NAN, |mix| (self.at)(&mix));
            (at, measured(results, vm, "npe"))
        };
        [of(&self.vms[0]), of(&self.vms[self.vms.len() - 1])]
    }
}

fn percent(value: impl Into<Option<f64>>) -> String {
    Shown::Percent.text(value.into())
}

/// What the sweeps say.
pub(super) fn notes(found: &mut Finding, results: &Results) {
    let times = ServiceTimes::default();
    let hit_us = (times.ssd_read_ns - times.dram_ns) as f64 / 1e3;
    let disk_us = (times.backing.random_read.ns - times.ssd_read_ns) as f64 / 1e3;
    found.note(format!(
        "A read that hits DRAM and not the SSD saves {hit_us:.0} µs on these devices; one that misses and would have hit costs {disk_us:.0} \
         µs, and so does a write that goes to the disk: {:.0} times as much. So what decides is the accesses that only one of the two \
         sends to the disk; DRAM counts only where next to nothing goes there",
        disk_us / hit_us
    ));
    found.note(by_cold(results));
    found.note(by_writes(results));
    let [(_, near), (at, far)] = SWEEPS[BY_HOT].ends(results);
    found.note(format!(
        "Hits have to be within DRAM's size: a block that is only read is never in ETICA's SSD. NPE has {} where they are, and \
         {} where the hot blocks are {at:.1} times DRAM, all of which ECI-Cache-like holds in its SSD",
        percent_of(near.latency, OF_LATENCY),
        percent_of(far.latency, ["less", "more"])
    ));
}

fn by_cold(results: &Results) -> String {
    let [(fewest, most_gain), (most, least_gain)] = SWEEPS[BY_COLD].ends(results);
    // Gains fall with cold reads, of which the first VM has the fewest.
    let reaches = |cold_reads: u32| {
        let mix = COLD[0].mix.map(|mix| Mix { cold_reads, ..mix });
        mix.and_then(|mix| expected(&mix).latency).is_some_and(|less| less >= PAPER_GAIN)
    };
    let enough = (0..5_000).take_while(|&cold_reads| reaches(cold_reads)).last();
    let both = SWEEPS[BY_COLD].mixes().filter(|(vm, _)| {
        let Less { latency, ssd_writes } = measured(results, vm, "npe");
        latency.is_some_and(|less| less >= 0.30) && ssd_writes.is_some_and(|less| less >= 0.25)
    });
    let both = both.map(|(_, mix)| percent((SWEEPS[BY_COLD].at)(&mix))).collect::<Vec<_>>();
    format!(
        "Where both take the writes, what both read from the disk bounds the gain: with {} of cold reads NPE has {} less latency, with {} {}. \
         The paper's 45 % takes {} or fewer by what is expected, with nearly all other accesses reads within DRAM. Both goals, of latency \
         and of SSD writes, are met at {}",
        percent(most),
        percent(least_gain.latency),
        percent(fewest),
        percent(most_gain.latency),
        percent(enough.map(|cold_reads| f64::from(cold_reads) / 1e4)),
        if both.is_empty() { "none of these".to_owned() } else { both.join(", ") }
    )
}

fn by_writes(results: &Results) -> String {
    let mut below = (0.0, None);
    let mut above = None;
    for (vm, mix) in SWEEPS[BY_WRITES].mixes() {
        let (at, less) = ((SWEEPS[BY_WRITES].at)(&mix), measured(results, vm, "npe"));
        if at < 0.5 {
            below = (at, Some(less));
        } else if above.is_none() {
            above = Some((at, less));
        }
    }
    let (Some(last), Some((at, first))) = (below.1, above) else { return String::new() };
    format!(
        "At half of overwrites ECI-Cache-like becomes read-only and sends the writes to the disk: from {} to {} of overwrites NPE's gain of \
         latency goes from {} to {}, and its SSD writes from {} to {}. It writes more there whatever the \
         space: ECI-Cache-like writes the reads that miss, which are at most half of the accesses, and NPE every write, at least half. So a \
         cache that stays read-only cannot give both gains; one that stays write-back gives both only with few misses and at most three \
         writes to each, because fewer SSD writes are the fills of reads that miss, of fills and writes together",
        percent(below.0),
        percent(at),
        percent(last.latency),
        percent(first.latency),
        percent_of(last.ssd_writes, ["fewer", "more"]),
        percent_of(first.ssd_writes, ["fewer", "more"])
    )
}
