//! Which property of a workload decides what ETICA gains over ECI-Cache-like: one property varied at a time, and the 12 VMs.

use lode_draw::Unit;
use lode_replay::{ModelReport, Report};

use super::host::{self, ECI, ECI_WB, FULL, KINDS, NPE, vms_faster, vms_sparing};
use super::sweeps::{self, SWEEPS};
use super::{DRAM_PERCENT, TOTAL, readings};
use crate::chart::{Bars, Chart};
use crate::claim::Shown;
use crate::experiment::{Experiment, Finding, OF_LATENCY, least, less, mean, most, percent_of, ratio};
use crate::job::Job;
use crate::measures::ssd_writes;
use crate::paper::Paper;
use crate::run::Results;
use crate::workload::ETICA_MIX;

/// What sections 5.3 and 5.4 leave open.
pub(super) const PROPERTY: Experiment = Experiment {
    paper: Paper::Etica,
    figure: "property",
    title: "which property of a workload decides",
    ran: "Nothing: the paper says what ETICA gains over ECI-Cache, not what of a workload decides it",
    here: &[
        "The 12 VMs are those of Figs. 12 to 14",
        "Beside them one VM that reads and writes hot blocks, each as likely as another, and reads cold ones, each as good as \
         once, of which one property is varied at a time: 200 blocks of DRAM and 800 of SSD, against 1,000 of SSD; devices with \
         the same times everywhere (host default)",
        "Expected is what follows from the properties alone: how many accesses each scheme sends to which device, times that \
         device's time; nothing in it is fitted",
        "docs/schemes/etica.md has the same for real traces",
    ],
    claims: &[],
    jobs,
    measure,
};

fn jobs() -> Vec<Job> {
    let of_figures = host::jobs().into_iter().chain(readings::jobs());
    of_figures.chain(sweeps::jobs()).collect()
}

fn measure(results: &Results) -> Finding {
    let reports = KINDS.map(|(_, kind)| results.replay(&host::job(kind, TOTAL, DRAM_PERCENT)));
    let mut found = Finding::default();
    let [eci, npe] = [reports[ECI], reports[NPE]];
    note_vms(&mut found, eci, npe);
    note_promotions(&mut found, reports[FULL]);
    note_hm_1(&mut found, npe);
    sweeps::notes(&mut found, results);
    let readings = all_readings(results);
    note_goals(&mut found, &readings, [eci, reports[ECI_WB]]);
    SWEEPS.iter().for_each(|sweep| {
        found.draw(sweep.chart(results));
    });
    found.draw(accesses_of_vms(eci, npe)).draw(gains_of_vms(eci, npe));
    found.draw(goals(&readings, [eci, reports[ECI_WB]]));
    found
}

/// Block writes that go to the backing disk at once, of all block accesses.
pub(super) fn writes_to_disk(report: &Report, vm: usize) -> Option<f64> {
    let counters = &report.vms[vm].counts.counters;
    let at_once = counters.backing_writes - counters.write_backs;
    ratio(Some(at_once as f64), Some(counters.block_accesses as f64))
}

/// The time of a VM's block accesses, each as long as that of a block away from the disk's head.
fn time_us(report: &Report, vm: usize) -> f64 {
    Times::of(report, vm).total_us()
}

/// What that time goes to.
pub(super) struct Times {
    /// Writes to the disk.
    pub writes_us: f64,
    /// Reads that miss.
    pub misses_us: f64,
    /// Reads that hit, and writes that the SSD takes.
    pub rest_us: f64,
}

impl Times {
    pub(super) fn of(report: &Report, vm: usize) -> Times {
        let counters = &report.vms[vm].counts.counters;
        let ModelReport { dram_us, ssd_read_us, ssd_write_us, disk_random_us, disk_random_write_us, .. } =
            report.model;
        let us = |blocks: u64, each_us: f64| blocks as f64 * each_us;
        Times {
            writes_us: us(counters.backing_writes - counters.write_backs, disk_random_write_us),
            misses_us: us(counters.read_misses, disk_random_us),
            rest_us: us(counters.read_hits.dram, dram_us)
                + us(counters.read_hits.ssd, ssd_read_us)
                + us(counters.ssd_writes.write, ssd_write_us),
        }
    }

    pub(super) fn total_us(&self) -> f64 {
        self.writes_us + self.misses_us + self.rest_us
    }
}

/// Whether a VM's writes make up more of the time under ECI-Cache-like than its reads that miss.
fn waits_for_writes(eci: &Report, vm: usize) -> bool {
    let counters = &eci.vms[vm].counts.counters;
    let written = (counters.backing_writes - counters.write_backs) as f64 * eci.model.disk_random_write_us;
    written > counters.read_misses as f64 * eci.model.disk_random_us
}

/// From the smallest to the largest.
fn range(shown: Shown, values: impl Iterator<Item = Option<f64>> + Clone) -> String {
    format!("{} to {}", shown.text(least(values.clone())), shown.text(most(values)))
}

fn note_vms(found: &mut Finding, eci: &Report, npe: &Report) {
    let (faster, sparing) = (vms_faster(npe, eci), vms_sparing(npe, eci));
    let (waiting, others): (Vec<usize>, Vec<usize>) =
        (0..eci.vms.len()).partition(|&vm| waits_for_writes(eci, vm));
    let names = |vms: &[usize]| vms.iter().map(|&vm| ETICA_MIX.vms[vm]).collect::<Vec<_>>().join(", ");
    let gains = |vms: &[usize]| {
        let gains = vms.iter().map(|&vm| faster[vm]);
        let (worst, best) = (least(gains.clone()), most(gains));
        let writes = range(Shown::Times, vms.iter().map(|&vm| sparing[vm].map(|less| 1.0 - less)));
        let latency = format!("from {} to {}", percent_of(worst, OF_LATENCY), percent_of(best, OF_LATENCY));
        format!("NPE has {latency}, and {writes} the SSD writes")
    };
    if !waiting.is_empty() {
        found.note(format!(
            "Of the 12 VMs it is the writes that decide. Where ECI-Cache-like spends more time on writes to the disk than on reads that \
             miss ({}), {}",
            names(&waiting),
            gains(&waiting)
        ));
    }
    if !others.is_empty() {
        found.note(format!(
            "Of the others ({}), most of whose writes both buffer, {}: it is spared the fills of reads that miss, and its latency \
             is that of the misses, which both share, and of the writes for which a share is too small",
            names(&others),
            gains(&others)
        ));
    }
}

/// What Full's SSD writes are.
fn note_promotions(found: &mut Finding, full: &Report) {
    let writes = &full.total.counters.ssd_writes;
    let promotions = ratio(Some(writes.promotion as f64), Some(writes.total as f64));
    found.note(format!(
        "SSD writes of ETICA are decided by the writes that it buffers, not by promotions: these are {} of Full's, and NPE has none",
        Shown::Percent.text(promotions)
    ));
}

/// The VM of which the paper says how many reads hit DRAM.
fn note_hm_1(found: &mut Finding, npe: &Report) {
    let Some(vm) = ETICA_MIX.vms.iter().position(|name| *name == "hm_1") else { return };
    let counters = &npe.vms[vm].counts.counters;
    let missing = ratio(Some(counters.read_misses as f64), Some(counters.block_accesses as f64));
    found.note(format!(
        "The paper's hm_1, which gains 42 % and of whose reads 91.6 % hit DRAM, may be a workload that hardly misses; of the profile's \
         accesses {} miss with NPE. How far apart its accesses to a block are is not published",
        Shown::Percent.text(missing)
    ));
}

/// A reading of ETICA with its replay.
type Reading<'a> = (&'static str, &'a Report);

/// Every reading of ETICA that Figs. 12 to 14 and Readings have.
fn all_readings(results: &Results) -> Vec<Reading<'_>> {
    let kinds = KINDS
        .iter()
        .skip(NPE)
        .map(|(name, kind)| (*name, results.replay(&host::job(*kind, TOTAL, DRAM_PERCENT))));
    // The first change is none.
    let changes = readings::CHANGES
        .iter()
        .skip(1)
        .map(|(name, change)| (*name, results.replay(&readings::job(*change))));
    kinds.chain(changes).collect()
}

/// The goals of Figs. 12 and 14.
const LATENCY_GOAL: f64 = 0.30;
const WRITES_GOAL: f64 = 0.25;

fn note_goals(found: &mut Finding, readings: &[Reading<'_>], bases: [&Report; 2]) {
    let [mut faster, mut sparing, mut both] = [0, 0, 0];
    for (_, report) in readings {
        for base in bases {
            let less_latency = mean(vms_faster(report, base)).is_some_and(|less| less >= LATENCY_GOAL);
            let fewer_writes = mean(vms_sparing(report, base)).is_some_and(|less| less >= WRITES_GOAL);
            faster += u32::from(less_latency);
            sparing += u32::from(fewer_writes);
            both += u32::from(less_latency && fewer_writes);
        }
    }
    found.note(format!(
        "{} readings of ETICA against two of ECI-Cache are {} pairs: {faster} meet the goal of latency (>= {}), {sparing} that of SSD \
         writes (>= {}), {both} both",
        readings.len(),
        readings.len() * bases.len(),
        Shown::Percent.text(Some(LATENCY_GOAL)),
        Shown::Percent.text(Some(WRITES_GOAL)),
    ));
}

fn vms(title: &str) -> Bars {
    Bars::new(title, Unit::Ratio, ETICA_MIX.vms.iter().copied())
}

/// What of a VM's accesses goes where.
fn accesses_of_vms(eci: &Report, npe: &Report) -> Chart {
    let of = |report: &Report, blocks: fn(&lode_policy::CounterReport) -> u64| {
        let counters = report.vms.iter().map(|vm| &vm.counts.counters);
        counters.map(|c| ratio(Some(blocks(c) as f64), Some(c.block_accesses as f64))).collect::<Vec<_>>()
    };
    let every = 0..ETICA_MIX.vms.len();
    let bars = vms("Where block accesses go")
        .part("writes to the disk, ECI-Cache-like", every.clone().map(|vm| writes_to_disk(eci, vm)))
        .part("the same, NPE", every.map(|vm| writes_to_disk(npe, vm)))
        .part("reads that miss, ECI-Cache-like", of(eci, |c| c.read_misses))
        .part("the same, NPE", of(npe, |c| c.read_misses))
        .part("reads that hit DRAM, NPE", of(npe, |c| c.read_hits.dram));
    Chart::Bars(bars)
}

/// What is left of ECI-Cache-like's latency and SSD writes.
fn gains_of_vms(eci: &Report, npe: &Report) -> Chart {
    let of_eci = |less: Vec<Option<f64>>| less.into_iter().map(|less| less.map(|less| 1.0 - less));
    let expected = |vm: usize| ratio(Some(time_us(npe, vm)), Some(time_us(eci, vm)));
    let fills = |vm: usize| {
        let counts = &eci.vms[vm].counts;
        ratio(Some(counts.counters.ssd_writes.fill as f64), ssd_writes(counts))
    };
    let every = 0..ETICA_MIX.vms.len();
    let bars = vms("NPE, of ECI-Cache-like")
        .part("latency", of_eci(vms_faster(npe, eci)))
        .part("latency, by these accesses", every.clone().map(expected))
        .part("SSD writes", of_eci(vms_sparing(npe, eci)))
        .part("fills, of ECI-Cache-like's SSD writes", every.map(fills));
    Chart::Bars(bars)
}

/// What every reading leaves, mean of the VMs.
fn goals(readings: &[Reading<'_>], bases: [&Report; 2]) -> Chart {
    let left = |of_vms: fn(&Report, &Report) -> Vec<Option<f64>>, base: &Report| {
        let mean_of = |(_, report): &Reading<'_>| less(mean(of_vms(report, base)), Some(1.0));
        readings.iter().map(mean_of).collect::<Vec<_>>()
    };
    let [default, write_back] = bases;
    let rows = readings.iter().map(|(name, _)| *name);
    let bars = Bars::new("Readings, of ECI-Cache-like, mean of the VMs", Unit::Ratio, rows)
        .part("latency", left(vms_faster, default))
        .part("SSD writes", left(vms_sparing, default))
        .part("latency, all write-back", left(vms_faster, write_back))
        .part("SSD writes, all write-back", left(vms_sparing, write_back));
    Chart::Bars(bars)
}
