//! What the papers claim, asked of traces at hand: every readable trace of a folder that is named after none of the paper's own
//! workloads, each alone and, where the paper is about many VMs, all of them as VMs of one host. They are other workloads than
//! the papers', so that the numbers say how far a claim carries, not whether it is true. It must not know how schemes decide.

mod facts;
mod mix;
mod rank;
mod stage;
mod traces;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use lode_plan::in_parallel;

pub use self::facts::TraceFacts;
pub(crate) use self::rank::rank_correlation;
pub(crate) use self::stage::{Ran, Stage};
pub use self::traces::AtHandTraces;

use self::mix::mixed;
use self::stage::Outcome;
use self::traces::Candidates;
use crate::claim::{Bound, Claim};
use crate::error::PapersError;
use crate::experiment::Finding;
use crate::job::{LevelSizes, Replay, Scheme};
use crate::paper::Paper;
use crate::report::{ClaimReport, ExperimentReport, Sources};
use crate::run::readable::first_requests;
use crate::run::shelf::Shelf;
use crate::run::{Prepared, RunOptions, run_demand, run_replay};
use crate::workload::Length;

/// What `--figure` calls the table of every paper that has one.
pub const REAL: &str = "real";

/// What counts as a gain: what is less than this is shown as 0.0 %.
pub(crate) const GAIN: Bound = Bound::AtLeast(0.0005);

/// Requests of each trace, its first ones; of a full run all of it.
const REDUCED_REQUESTS: u64 = 120_000;
const TINY_REQUESTS: u64 = 6_000;

/// The first so many requests of a trace are run; none: all.
fn most_requests(length: Length) -> Option<u64> {
    match length {
        Length::Tiny => Some(TINY_REQUESTS),
        Length::Reduced => Some(REDUCED_REQUESTS),
        Length::Full => None,
    }
}

/// What of a paper can be asked of any trace.
#[derive(Clone, Copy, Debug)]
pub struct AtHand {
    /// The paper.
    pub paper: Paper,
    /// What the paper ran.
    pub ran: &'static str,
    /// What is run here, and where that differs.
    pub here: &'static [&'static str],
    /// What the paper says.
    pub claims: &'static [Claim],
    /// It is about many VMs, so that the traces are also run as VMs of one host.
    pub(crate) of_many_vms: bool,
    /// What is run of a trace with so many block accesses.
    pub(crate) tasks: fn(u64) -> Vec<Task>,
    /// What came of it.
    pub(crate) measure: fn(&Ran<'_>) -> Finding,
}

/// One run on a trace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    /// Through a scheme.
    Replay(Setup),
    /// What metrics ask for in intervals of so many requests.
    Demand {
        /// Requests of an interval.
        interval: u64,
    },
}

/// A scheme with its levels and devices.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Setup {
    /// The scheme.
    pub scheme: Scheme,
    /// Its levels.
    pub space: LevelSizes,
    /// The devices, by the name of their profile.
    pub host: &'static str,
}

impl From<Replay> for Setup {
    /// The same on any requests.
    fn from(Replay { scheme, space, host, .. }: Replay) -> Setup {
        Setup { scheme, space, host }
    }
}

/// What runs together: one trace, or several as VMs of one host, by their numbers.
type Together = Vec<usize>;

/// What came of traces at hand.
#[derive(Clone, Debug)]
pub struct AtHandRun {
    /// What was found in the folder.
    pub traces: AtHandTraces,
    /// A table for each paper that was asked of and has traces.
    pub experiments: Vec<ExperimentReport>,
}

/// Asks these papers of the traces of a folder. `progress` hears what is counted ("traces", then "runs"), and how many are done of
/// how many, from all threads.
///
/// # Errors
/// What goes wrong with the folder. A file that is no trace, or turns out to be damaged, is no error: it is passed over, and
/// [`AtHandTraces::passed_over`] says why.
pub fn run_at_hand(
    chosen: &[&AtHand],
    folder: &Path,
    options: &RunOptions,
    progress: &(dyn Fn(&'static str, usize, usize) + Sync),
) -> Result<AtHandRun, PapersError> {
    let most_requests = most_requests(options.length);
    let papers: Vec<Paper> = chosen.iter().map(|one| one.paper).collect();
    let candidates = Candidates::look(folder, &papers)?;
    let known = candidates.read(most_requests, options, &|done, of| progress("traces", done, of))?;
    let wanted: Vec<(&AtHand, Vec<Together>)> =
        chosen.iter().map(|one| (*one, known.together(one.paper, one.of_many_vms))).collect();
    let mut asked = HashSet::new();
    let mut cells: Vec<(Together, Task)> = Vec::new();
    for (at_hand, groups) in &wanted {
        for together in groups {
            let tasks = (at_hand.tasks)(known.block_accesses(together)).into_iter();
            let new = tasks.map(|task| (together.clone(), task)).filter(|cell| asked.insert(cell.clone()));
            cells.extend(new);
        }
    }
    // The longest first, and the runs of the same traces one after the other, so that few are in memory at a time.
    cells.sort_by_key(|(together, _)| (std::cmp::Reverse(known.block_accesses(together)), together.clone()));
    let shelf = Shelf::of(cells.iter().map(|(together, _)| together.clone()));
    let done = Mutex::new(0);
    progress("runs", 0, cells.len());
    let outcomes = in_parallel(&cells, options.threads, |(together, task)| {
        let prepare = || prepared(&known, together, most_requests, options.memory_bytes);
        let outcome = shelf.with(together, prepare, |prepared| run_task(task, prepared));
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        *done += 1;
        progress("runs", *done, cells.len());
        // Of one trace alone; the others go on.
        Ok::<_, PapersError>(outcome.map_err(|error| error.to_string()))
    })?;
    let outcomes: HashMap<(Together, Task), Result<Outcome, String>> =
        cells.into_iter().zip(outcomes).collect();
    let reports = wanted.iter().filter(|(_, groups)| !groups.is_empty());
    let experiments = reports
        .map(|(at_hand, groups)| report(at_hand, Ran::of(at_hand, groups, &known, &outcomes), most_requests))
        .collect();
    Ok(AtHandRun { traces: known, experiments })
}

/// The requests of these traces.
fn prepared(
    known: &AtHandTraces,
    together: &[usize],
    most_requests: Option<u64>,
    memory_bytes: u64,
) -> Result<Prepared, PapersError> {
    let read = |at: usize| {
        let TraceFacts { name, path, .. } = &known.traces[at];
        let recording = first_requests(path, most_requests, memory_bytes)?;
        Ok((name.clone(), recording.ok_or_else(|| no_room(name, memory_bytes))?))
    };
    let mut recordings = together.iter().map(|&at| read(at)).collect::<Result<Vec<_>, PapersError>>()?;
    let recording = match recordings.len() {
        1 => recordings.remove(0).1,
        vms => mixed(recordings, memory_bytes)?
            .ok_or_else(|| no_room(&format!("{vms} traces together"), memory_bytes))?,
    };
    Ok(Prepared::of_trace(recording))
}

fn no_room(name: &str, memory_bytes: u64) -> PapersError {
    PapersError::Request(format!(
        "The requests of {name} do not fit {} of memory; allow more with --memory, or leave --full out",
        lode_types::show_size(memory_bytes)
    ))
}

fn run_task(task: &Task, prepared: &Prepared) -> Result<Outcome, PapersError> {
    Ok(match task {
        Task::Replay(Setup { scheme, space, host }) => {
            Outcome::Replay(Box::new(run_replay(scheme, space, host, prepared)?))
        }
        Task::Demand { interval } => Outcome::Demand(run_demand(*interval, false, prepared)?),
    })
}

/// What holds of every one of these tables.
const OTHER_WORKLOADS: &str = "Traces at hand, which are other workloads than the paper's: whether a claim carries over, not whether it is true";

fn report(at_hand: &AtHand, ran: Ran<'_>, most_requests: Option<u64>) -> ExperimentReport {
    let mut finding = (at_hand.measure)(&ran);
    finding.notes.extend(ran.left_out.iter().map(|(name, why)| format!("Not in this table: {name}: {why}")));
    let first = match most_requests {
        Some(requests) => {
            format!("The first {requests} requests of each trace, of which all volumes are one VM")
        }
        None => "All requests of each trace, of which all volumes are one VM".to_owned(),
    };
    let mut conditions = vec![OTHER_WORKLOADS.to_owned(), first];
    conditions.extend(at_hand.here.iter().map(|&text| text.to_owned()));
    ExperimentReport {
        paper: at_hand.paper,
        figure: REAL,
        name: "Real".to_owned(),
        title: "what the paper claims, on traces at hand",
        ran: at_hand.ran,
        conditions,
        sources: Sources::OtherTraces,
        claims: ClaimReport::all(at_hand.claims, &finding),
        question: finding.question,
        notes: finding.notes,
        charts: finding.charts,
    }
}
