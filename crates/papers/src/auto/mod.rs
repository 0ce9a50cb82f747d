//! `auto` beside every single scheme: on every profile, and on every trace of a folder, without a budget of SSD writes and with one.
//!
//! No paper's experiment but our own: the claim is that nobody has to choose. This module must not know how schemes decide.

mod budget;
mod every;
mod figures;
mod markdown;
mod page;
mod workloads;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use lode_plan::{PROGRAM, in_parallel};
use lode_policy::Decision;
use serde::Serialize;

pub use self::budget::BudgetFigures;
pub use self::figures::{CaseFigures, SchemeFigures};
pub use self::markdown::auto_markdown;
pub use self::page::auto_page;

use self::workloads::Chosen;
use crate::error::PapersError;
use crate::workload::Length;

/// The scheme that chooses.
const AUTO: &str = "auto";
/// Sizes of the cache, in per cent of the blocks that are touched.
const PERCENTS: [u64; 2] = [5, 25];
/// Of both levels, the part that is DRAM where a scheme has two: one in so many.
const DRAM_PART: u64 = 5;
/// What the aim is: at most this part above the best single scheme.
pub(crate) const AIM: f64 = 0.03;

/// What of it is run, and how.
#[derive(Clone, Debug)]
pub struct AutoOptions<'a> {
    /// How much of every workload.
    pub length: Length,
    /// A folder with traces; none: profiles alone.
    pub traces: Option<&'a Path>,
    /// These workloads alone, by name; none: all.
    pub only: Option<BTreeSet<String>>,
    /// Runs at the same time, at least 1.
    pub threads: usize,
    /// Memory that the requests of one workload may take.
    pub memory_bytes: u64,
}

/// What came of it. Field names and meanings are stable; new ones may be added.
#[derive(Clone, Debug, Serialize)]
pub struct AutoReport {
    /// Program and version.
    pub program: &'static str,
    /// How much of every workload was run.
    pub length: Length,
    /// The folder with traces.
    pub traces: Option<String>,
    /// What was found there; none where no folder was named.
    pub folder: Option<LookedIn>,
    /// Files that are not traces, or hold one that is there already, with the reason.
    pub passed_over: Vec<String>,
    /// Each workload at each size.
    pub cases: Vec<CaseFigures>,
}

/// What a folder of traces had.
#[derive(Clone, Debug, Serialize)]
pub struct LookedIn {
    /// The folder.
    pub path: PathBuf,
    /// Files in it.
    pub files: usize,
    /// Traces among them, each counted once.
    pub traces: usize,
}

impl LookedIn {
    /// What was looked for and found, in a sentence.
    pub fn in_words(&self) -> String {
        let rest = match self.traces {
            0 => "; only profiles are run",
            _ => "",
        };
        format!(
            "Looked in {} for traces of any name and format: {} files, {} traces{rest}",
            self.path.display(),
            self.files,
            self.traces
        )
    }
}

impl AutoReport {
    /// How often the aim is met, in a sentence.
    pub fn in_short(&self) -> String {
        self.in_short_of(&|_| true)
    }

    /// The same of some of the cases.
    fn in_short_of(&self, counts: &dyn Fn(&CaseFigures) -> bool) -> String {
        let cases: Vec<_> = self.cases.iter().filter(|case| counts(case)).collect();
        let count = |is_counted: &dyn Fn(f64) -> bool| {
            cases.iter().filter(|case| case.ratio.is_some_and(is_counted)).count()
        };
        format!(
            "At most {:.0} % above the best single scheme in {} of {} cases, below it in {}.",
            100.0 * AIM,
            count(&|ratio| ratio <= 1.0 + AIM),
            cases.len(),
            count(&|ratio| ratio < 1.0)
        )
    }

    /// The case in which it chose anew most often, with its decisions.
    fn liveliest(&self) -> Option<(&CaseFigures, &[Decision])> {
        let most = self.cases.iter().max_by_key(|case| case.decisions.len())?;
        (!most.decisions.is_empty()).then_some((most, &most.decisions[..]))
    }
}

/// Runs every single scheme and `auto` on every workload. `progress` hears how many workloads are done of how many, from all threads.
///
/// # Errors
/// What goes wrong with a run or the folder. A file that is not a trace is no error.
pub fn run_auto(
    options: &AutoOptions,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<AutoReport, PapersError> {
    let Chosen { workloads, folder, passed_over } = workloads::choose(options)?;
    let done = Mutex::new(0);
    let of = workloads.len();
    progress(0, of);
    let cases = in_parallel(&workloads, options.threads, |workload| {
        let recording = workload.record(options)?;
        let cases = figures::measure(workload, &recording);
        let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *done += 1;
        progress(*done, of);
        cases
    })?;
    Ok(AutoReport {
        program: PROGRAM,
        length: options.length,
        traces: options.traces.map(|path| path.display().to_string()),
        folder,
        passed_over,
        cases: cases.into_iter().flatten().collect(),
    })
}
