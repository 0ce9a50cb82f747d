//! Runs what experiments ask for, each run once, on all cores. It must not know what becomes of the results.

mod arrivals;
mod folder;
mod load;
mod processes;
mod published;
pub(crate) mod readable;
mod replay;
pub(crate) mod shelf;
pub(crate) mod source;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use lode_plan::in_parallel;
use lode_processes::RequestsReport;
use lode_replay::Report;

pub use arrivals::{ARRIVAL_INTERVALS, ArrivalCell, ArrivalRows, COMING, GOING};
pub(crate) use folder::volume_of;
pub use folder::{Folder, FoundTrace};
pub use load::{BLOCK, LoadedVm, LoadedWorkload, Source};
pub use processes::simulated_s;
pub use published::{PUBLISHED, Published, Verdict, published, published_of_profile};
pub use replay::{DEMAND_METRICS, Demands, demand_of};

use crate::error::PapersError;
use crate::job::{Arrivals, Demand, Job, Processes, Replay};
use crate::workload::{ARRIVING, Length, Workload};
use load::Loaded;
pub(crate) use load::{Prepared, profile};
pub(crate) use replay::{run_demand, run_replay};
use shelf::Shelf;

/// How to run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// How much of every workload.
    pub length: Length,
    /// The user's traces, by the profile that they stand for.
    pub traces: BTreeMap<&'static str, PathBuf>,
    /// Runs at the same time, at least 1.
    pub threads: usize,
    /// Memory that the requests of one workload may take.
    pub memory_bytes: u64,
}

/// What came of a run.
#[derive(Clone, Debug)]
enum Outcome {
    Replay(Box<Report>),
    Demand(Vec<Demands>),
    Arrivals(ArrivalRows),
    Processes(Box<RequestsReport>),
}

/// What came of all runs.
#[derive(Debug)]
pub struct Results {
    /// How much of every workload was run.
    pub length: Length,
    outcomes: HashMap<Job, Outcome>,
    loaded: HashMap<&'static str, LoadedWorkload>,
    traces: BTreeMap<&'static str, PathBuf>,
}

impl Results {
    /// The report of a replay.
    ///
    /// # Panics
    /// When the replay was not asked for; as with the others below, an experiment reads what it asks for, which a test holds.
    pub fn replay(&self, job: &Replay) -> &Report {
        match self.outcomes.get(&Job::Replay(job.clone())) {
            Some(Outcome::Replay(report)) => report,
            _ => panic!("An experiment reads a replay that it did not ask for: {job:?}"),
        }
    }

    /// What each VM's intervals ask for.
    ///
    /// # Panics
    /// As [`Results::replay`].
    pub fn demand(&self, job: &Demand) -> &[Demands] {
        match self.outcomes.get(&Job::Demand(job.clone())) {
            Some(Outcome::Demand(demands)) => demands,
            _ => panic!("An experiment reads demands that it did not ask for: {job:?}"),
        }
    }

    /// What became of VMs that come and go.
    ///
    /// # Panics
    /// As [`Results::replay`].
    pub fn arrivals(&self, job: &Arrivals) -> &ArrivalRows {
        match self.outcomes.get(&Job::Arrivals(job.clone())) {
            Some(Outcome::Arrivals(rows)) => rows,
            _ => panic!("An experiment reads arrivals that it did not ask for: {job:?}"),
        }
    }

    /// The report of a simulation of processes.
    ///
    /// # Panics
    /// As [`Results::replay`].
    pub fn processes(&self, job: &Processes) -> &RequestsReport {
        match self.outcomes.get(&Job::Processes(job.clone())) {
            Some(Outcome::Processes(report)) => report,
            _ => panic!("An experiment reads a simulation that it did not ask for: {job:?}"),
        }
    }

    /// A workload as it was run; none where no run needed it.
    pub fn workload(&self, workload: &Workload) -> Option<&LoadedWorkload> {
        self.loaded.get(workload.name)
    }

    /// Where the requests of VMs that come and go are from.
    pub(crate) fn arriving_traces(&self) -> usize {
        ARRIVING.iter().filter(|name| self.traces.contains_key(*name)).count()
    }
}

/// The profiles that jobs need, of which a trace can stand for each.
pub fn needed_profiles(jobs: &[Job]) -> BTreeSet<&'static str> {
    let mut needed = BTreeSet::new();
    for job in jobs {
        match job {
            Job::Arrivals(_) => needed.extend(ARRIVING),
            _ => needed.extend(job.workload().into_iter().flat_map(|workload| workload.vms.iter().copied())),
        }
    }
    needed
}

/// Runs these jobs, each once. `progress` hears how many are done of how many, from all threads.
///
/// # Errors
/// What goes wrong with the first run that fails.
pub fn run(
    jobs: Vec<Job>,
    options: &RunOptions,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Results, PapersError> {
    let mut known = HashSet::new();
    let mut jobs: Vec<Job> = jobs.into_iter().filter(|job| known.insert(job.clone())).collect();
    // The runs of one workload come one after the other, so that few are in memory at a time, and long ones first.
    let mut order: Vec<&'static str> = Vec::new();
    for workload in jobs.iter().filter_map(Job::workload) {
        if !order.contains(&workload.name) {
            order.push(workload.name);
        }
    }
    jobs.sort_by_key(|job| {
        let place = job.workload().and_then(|w| order.iter().position(|name| *name == w.name));
        place.map_or(0, |at| at + 1)
    });
    let shelf = Shelf::of(jobs.iter().filter_map(|job| Some(job.workload()?.name)));
    let facts = Mutex::new(HashMap::new());
    let load = |workload: &'static Workload| {
        let RunOptions { length, traces, memory_bytes, .. } = options;
        let loaded = Loaded::new(workload, *length, traces, *memory_bytes)?;
        let mut facts = facts.lock().unwrap_or_else(PoisonError::into_inner);
        facts.insert(workload.name, loaded.facts);
        Ok(loaded.prepared)
    };
    let done = Mutex::new(0);
    let of = jobs.len();
    progress(0, of);
    let outcomes = in_parallel(&jobs, options.threads, |job| {
        let outcome = match job {
            Job::Replay(Replay { workload, scheme, space, host }) => shelf
                .with(&workload.name, || load(workload), |prepared| run_replay(scheme, space, host, prepared))
                .map(|report| Outcome::Replay(Box::new(report))),
            Job::Demand(Demand { workload, interval, carry }) => shelf
                .with(&workload.name, || load(workload), |prepared| run_demand(*interval, *carry, prepared))
                .map(Outcome::Demand),
            Job::Arrivals(job) => {
                arrivals::run_arrivals(job, options.length, &options.traces).map(Outcome::Arrivals)
            }
            Job::Processes(job) => processes::run_processes(job, options.length)
                .map(|report| Outcome::Processes(Box::new(report))),
        };
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        *done += 1;
        progress(*done, of);
        outcome
    })?;
    let loaded = facts.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Results {
        length: options.length,
        outcomes: jobs.into_iter().zip(outcomes).collect(),
        loaded,
        traces: options.traces.clone(),
    })
}
