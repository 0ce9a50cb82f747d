//! VMs that come and go on one host (ETICA, section 5.5). It must not know which experiment asks.

use std::collections::BTreeMap;
use std::path::PathBuf;

use lode_hardware::Host;
use lode_policy::{AnyScheme, Quota, Scheme as _, build};
use lode_replay::Driver;
use lode_synth::Generator;

use super::load::{BLOCK, profile};
use super::replay::settings;
use super::source::{Lane, Together};
use crate::error::PapersError;
use crate::job::Arrivals;
use crate::workload::{ARRIVING, Length};

/// Sizing intervals of a run.
pub const ARRIVAL_INTERVALS: usize = 36;
/// Intervals at which VMs come, and how many there are from then on (ETICA, section 5.5).
pub const COMING: [(usize, usize); 4] = [(0, 1), (2, 4), (6, 16), (10, 32)];
/// The interval at which all but the first VM have gone; ours.
pub const GOING: usize = 30;

const NS_PER_S: u64 = 1_000_000_000;

/// Seconds of an interval: ETICA's ten minutes (Fig. 15), less in tests.
fn interval_s(length: Length) -> u64 {
    if length == Length::Tiny { 60 } else { 600 }
}

/// Requests of an interval: ETICA's 10,000 (section 5.2), less in tests.
fn interval_requests(length: Length) -> u64 {
    if length == Length::Tiny { 1_000 } else { 10_000 }
}

/// One VM in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ArrivalCell {
    /// Its share of the levels at the end.
    pub share: Quota,
    /// Blocks that it accessed.
    pub accesses: u64,
    /// Of these, those that a level served.
    pub hits: u64,
}

/// For each interval, each VM that had come by then.
pub type ArrivalRows = Vec<Vec<ArrivalCell>>;

/// The VM of this number.
fn lane(vm: usize, traces: &BTreeMap<&'static str, PathBuf>) -> Result<Lane, PapersError> {
    let name = ARRIVING[vm];
    if let Some(path) = traces.get(name) {
        return Ok(Lane::read(path, u64::MAX)?);
    }
    let mut own = profile(name)?;
    // VMs of one profile are not copies of each other.
    own.seed += vm as u64;
    Ok(Lane::made(Generator::new(&own)?, u64::MAX))
}

/// VMs that are there in an interval.
fn present(interval: usize) -> usize {
    let come = COMING.iter().rev().find(|(from, _)| *from <= interval).map_or(0, |(_, vms)| *vms);
    if interval >= GOING { 1 } else { come }
}

/// When an interval ends.
enum Clock {
    Time { interval_ns: u64 },
    Requests { interval: u64 },
}

impl Clock {
    fn interval_of(&self, time_ns: u64, requests: u64) -> usize {
        match self {
            Clock::Time { interval_ns } => (time_ns / interval_ns) as usize,
            Clock::Requests { interval } => (requests / interval) as usize,
        }
    }
}

/// Runs them.
pub(super) fn run_arrivals(
    job: &Arrivals,
    length: Length,
    traces: &BTreeMap<&'static str, PathBuf>,
) -> Result<ArrivalRows, PapersError> {
    let mut options = settings(&job.scheme, 1.0)?;
    let clock = if job.by_time {
        options.set("trigger", "time")?;
        options.set("sizing_interval_s", &interval_s(length).to_string())?;
        Clock::Time { interval_ns: interval_s(length) * NS_PER_S }
    } else {
        options.set("sizing_interval", &interval_requests(length).to_string())?;
        Clock::Requests { interval: interval_requests(length) }
    };
    let physical = Quota::new(job.dram_blocks, job.ssd_blocks);
    let times = Host::find(job.host)?.service_times(BLOCK);
    let made = options.clone();
    let build = move |share| build(&made, physical, share);
    let mut driver: Driver<AnyScheme> = Driver::new(&options, physical, BLOCK, times, 1, build);
    let mut together = Together::new(Vec::new())?;
    let (mut rows, mut seen, mut requests, mut now_ns) = (ArrivalRows::new(), Vec::new(), 0, 0);
    // The VM that the driver gives each number, as VMs appear there in the order of their first request.
    let mut numbers: Vec<usize> = Vec::new();
    loop {
        while together.len() < present(rows.len()) {
            together.add(lane(together.len(), traces)?.from(now_ns))?;
        }
        together.keep(present(rows.len()));
        let Some(next_ns) = together.next_ns() else { break };
        if clock.interval_of(next_ns, requests) > rows.len() {
            driver.finish();
            rows.push(row(&driver, &numbers, &mut seen));
            if rows.len() == ARRIVAL_INTERVALS {
                break;
            }
            continue;
        }
        let Some((vm, request)) = together.next()? else { break };
        now_ns = request.time_ns;
        requests += 1;
        let number = numbers.iter().position(|known| *known == vm).unwrap_or_else(|| {
            numbers.push(vm);
            numbers.len() - 1
        });
        driver.push(number as u32, &request)?;
    }
    rows.resize(ARRIVAL_INTERVALS, Vec::new());
    Ok(rows)
}

/// What happened since the last row, by VM. `seen` are accesses and hits up to then, by VM.
fn row(driver: &Driver<AnyScheme>, numbers: &[usize], seen: &mut Vec<(u64, u64)>) -> Vec<ArrivalCell> {
    let vms = numbers.iter().max().map_or(0, |last| last + 1);
    let mut cells = vec![ArrivalCell::default(); vms];
    seen.resize(seen.len().max(vms), (0, 0));
    for ((vm, outcome), scheme) in numbers.iter().zip(driver.outcomes()).zip(driver.schemes()) {
        let counters = outcome.tally.counters();
        let accesses = counters.block_accesses();
        let hits = counters.read_hits.iter().sum::<u64>() + counters.write_hits_ssd;
        let before = std::mem::replace(&mut seen[*vm], (accesses, hits));
        cells[*vm] =
            ArrivalCell { share: scheme.quota(), accesses: accesses - before.0, hits: hits - before.1 };
    }
    cells
}
