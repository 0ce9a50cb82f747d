//! What experiments found, in the shape that `docs/reports.md` describes. It must not know how anything is shown.

use std::path::Path;

use lode_draw::Unit;
use lode_plan::PROGRAM;
use serde::Serialize;

use crate::at_hand::{AtHandRun, AtHandTraces};
use crate::chart::Chart;
use crate::claim::{Claim, Shown};
use crate::error::PapersError;
use crate::experiment::{Experiment, Finding, Measured};
use crate::job::Job;
use crate::paper::Paper;
use crate::run::{Folder, LoadedWorkload, Results, RunOptions, Source, needed_profiles, run};
use crate::workload::Length;

/// What experiments found. Field names and meanings are stable; new ones may be added.
#[derive(Clone, Debug, Serialize)]
pub struct PaperReport {
    /// Program and version.
    pub program: &'static str,
    /// How much of every workload was run.
    pub length: Length,
    /// What was found of the user's traces; none where no folder was named.
    pub traces: Option<Folder>,
    /// Workloads as they were run.
    pub workloads: Vec<LoadedWorkload>,
    /// What was found of traces of other workloads than the papers'; none where they were not asked for.
    pub at_hand: Option<AtHandTraces>,
    /// Each experiment, paper by paper.
    pub experiments: Vec<ExperimentReport>,
}

/// One figure or table.
#[derive(Clone, Debug, Serialize)]
pub struct ExperimentReport {
    /// Of which paper.
    pub paper: Paper,
    /// The figure, as `--figure` takes it.
    pub figure: &'static str,
    /// The same in a heading.
    pub name: String,
    /// What it is about.
    pub title: &'static str,
    /// What the paper ran.
    pub ran: &'static str,
    /// What differs here: first where the requests are from, then what the experiment says, then the rest.
    pub conditions: Vec<String>,
    /// Where the requests are from.
    pub sources: Sources,
    /// What the paper says, and what was measured.
    pub claims: Vec<ClaimReport>,
    /// The question that the notes answer, where they answer one.
    pub question: Option<&'static str>,
    /// What a reader should know of the numbers.
    pub notes: Vec<String>,
    /// The figure.
    pub charts: Vec<Chart>,
}

/// Where requests are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sources {
    /// Profiles or models of processes: synthetic.
    Synthetic,
    /// The user's traces for some volumes, profiles for the others.
    Mixed,
    /// The user's traces.
    Traces,
    /// Nothing is replayed: an example of the paper, or a calculation.
    Example,
    /// Traces of other workloads than the paper's.
    OtherTraces,
}

/// One statement of the paper.
#[derive(Clone, Debug, Serialize)]
pub struct ClaimReport {
    /// Its key.
    pub key: &'static str,
    /// What is measured.
    pub about: &'static str,
    /// Where the paper says so.
    pub source: &'static str,
    /// How the numbers read.
    pub shown: Shown,
    /// What the paper says, as text.
    pub paper: String,
    /// The same as numbers: one, two of a range, or none of words.
    pub paper_numbers: Vec<f64>,
    /// What was measured.
    pub measured: Option<f64>,
    /// Whether it points the same way; none where nothing was measured.
    pub same_direction: Option<bool>,
    /// What Lodestore set out to reach on its profiles, as text.
    pub goal: Option<String>,
    /// Whether it did.
    pub goal_met: Option<bool>,
    /// Why it did not; of goals that were met, and where nothing is said, none.
    #[serde(skip)]
    pub missed: Option<&'static str>,
    /// The same under other readings of the paper, or other properties of the workload.
    pub otherwise: Vec<ReadingReport>,
}

/// A number under another reading.
#[derive(Clone, Debug, Serialize)]
pub struct ReadingReport {
    /// What differs.
    pub reading: String,
    /// What was measured then.
    pub measured: Option<f64>,
    /// Whether that points the same way.
    pub same_direction: Option<bool>,
}

impl PaperReport {
    /// With what came of traces at hand, each table behind the others of its paper.
    #[must_use]
    pub fn with_at_hand(mut self, run: AtHandRun) -> PaperReport {
        self.experiments.extend(run.experiments);
        self.experiments.sort_by_key(|one| Paper::ALL.iter().position(|paper| *paper == one.paper));
        self.at_hand = Some(run.traces);
        self
    }

    /// How many statements point the same way, in sentences: of the papers' workloads, and of others.
    pub fn in_short(&self) -> Vec<String> {
        let of = |other: bool| {
            let experiments =
                self.experiments.iter().filter(move |one| (one.sources == Sources::OtherTraces) == other);
            experiments.flat_map(|experiment| &experiment.claims).filter(|claim| claim.measured.is_some())
        };
        let same = |other| of(other).filter(|claim| claim.same_direction == Some(true)).count();
        let mut sentences = Vec::new();
        if of(false).count() > 0 {
            sentences.push(format!(
                "{} of {} measured statements point the same way as in the papers.",
                same(false),
                of(false).count()
            ));
        }
        if of(true).count() > 0 {
            sentences.push(format!(
                "On traces at hand, which are other workloads, {} of {} do.",
                same(true),
                of(true).count()
            ));
        }
        sentences
    }
}

impl ReadingReport {
    /// The verdict in a word.
    pub fn verdict(&self) -> &'static str {
        verdict(self.same_direction)
    }
}

/// The verdict in a word.
fn verdict(same_direction: Option<bool>) -> &'static str {
    match same_direction {
        Some(true) => "yes",
        Some(false) => "no",
        None => "-",
    }
}

impl ClaimReport {
    /// Every claim with its number; those that nothing is said of without one.
    pub(crate) fn all(claims: &[Claim], finding: &Finding) -> Vec<ClaimReport> {
        let of = |claim: &Claim| {
            let missing = Measured { key: claim.key, value: None, otherwise: Vec::new() };
            let measured = finding.measured.iter().find(|one| one.key == claim.key).unwrap_or(&missing);
            ClaimReport::new(claim, measured)
        };
        claims.iter().map(of).collect()
    }

    fn new(claim: &Claim, measured: &Measured) -> ClaimReport {
        let Claim { key, about, shown, reported, source, same, goal, missed } = *claim;
        let value = measured.value.filter(|value| value.is_finite());
        let otherwise = measured.otherwise.iter().map(|(reading, value)| ReadingReport {
            reading: reading.clone(),
            measured: *value,
            same_direction: value.map(|value| same.holds(value)),
        });
        let goal_met = goal.zip(value).map(|(goal, value)| goal.holds(value));
        ClaimReport {
            key,
            about,
            source,
            shown,
            paper: reported.text(shown),
            paper_numbers: reported.numbers(),
            measured: value,
            same_direction: value.map(|value| same.holds(value)),
            goal: goal.map(|goal| goal.text(shown)),
            goal_met,
            missed: missed.filter(|_| goal_met == Some(false)),
            otherwise: otherwise.collect(),
        }
    }

    /// The verdict in a word.
    pub fn verdict(&self) -> &'static str {
        verdict(self.same_direction)
    }

    /// The goal and whether it was met, in a few words; empty without a goal.
    pub fn goal_text(&self) -> String {
        let met = |met| if met { "met" } else { "missed" };
        match (&self.goal, self.goal_met) {
            (Some(goal), Some(is_met)) => format!("{goal}: {}", met(is_met)),
            (Some(goal), None) => goal.clone(),
            (None, _) => String::new(),
        }
    }
}

impl ExperimentReport {
    /// What was done here, in sentences.
    pub(crate) fn here(&self) -> String {
        if self.sources == Sources::Example && self.conditions.is_empty() {
            return "The paper's own example, step by step.".to_owned();
        }
        self.conditions.iter().map(|text| format!("{text}.")).collect::<Vec<_>>().join(" ")
    }

    fn new(experiment: &Experiment, results: &Results) -> ExperimentReport {
        let jobs = (experiment.jobs)();
        let finding = (experiment.measure)(results);
        let claims = ClaimReport::all(experiment.claims, &finding);
        let (sources, mut conditions) = sources(&jobs, results);
        conditions.extend(experiment.here.iter().map(|&text| text.to_owned()));
        ExperimentReport {
            paper: experiment.paper,
            figure: experiment.figure,
            name: experiment.name(),
            title: experiment.title,
            ran: experiment.ran,
            conditions,
            sources,
            claims,
            question: finding.question,
            notes: finding.notes,
            charts: finding.charts,
        }
    }
}

/// Where the requests of these jobs are from, and the sentences that say so.
fn sources(jobs: &[Job], results: &Results) -> (Sources, Vec<String>) {
    let (mut made, mut read, mut sentences) = (0, 0, Vec::new());
    let mut names: Vec<&'static str> = Vec::new();
    let mut loaded: Vec<&LoadedWorkload> = Vec::new();
    for workload in jobs.iter().filter_map(Job::workload) {
        if let Some(facts) = results.workload(workload).filter(|facts| !names.contains(&facts.name)) {
            names.push(facts.name);
            loaded.push(facts);
        }
    }
    for vm in loaded.iter().flat_map(|workload| &workload.vms) {
        match vm.source {
            Source::Profile { .. } => made += 1,
            Source::Trace { .. } => read += 1,
        }
    }
    if jobs.iter().any(|job| matches!(job, Job::Arrivals(_))) {
        let (traces, all) = (results.arriving_traces(), crate::workload::ARRIVING.len());
        (read, made) = (read + traces, made + all - traces);
        let of_which = match traces {
            0 => "Synthetic: the VMs run profiles of their volumes",
            some if some == all => "The VMs run traces of their volumes",
            _ => "Partly synthetic: the VMs run traces of some of their volumes, profiles of the others",
        };
        sentences.push(format!("{of_which} from the beginning, at the volumes' own rates, not made shorter"));
    }
    if jobs.iter().any(|job| matches!(job, Job::Processes(_))) {
        made += 1;
        sentences.push(format!(
            "Synthetic: applications, kernel and devices are models (lode requests), {} simulated seconds of which the \
             first sixth does not count",
            crate::run::simulated_s(results.length)
        ));
    }
    let sources = match (made, read) {
        (0, 0) => Sources::Example,
        (_, 0) => Sources::Synthetic,
        (0, _) => Sources::Traces,
        _ => Sources::Mixed,
    };
    sentences.extend(workload_words(&loaded, sources));
    (sources, sentences)
}

/// What was run of these workloads, in sentences.
fn workload_words(loaded: &[&LoadedWorkload], sources: Sources) -> Vec<String> {
    if loaded.is_empty() {
        return Vec::new();
    }
    let from = match sources {
        Sources::Synthetic => "Synthetic: all requests are made from profiles",
        Sources::Mixed => "Partly synthetic: traces of some volumes, profiles for the others",
        Sources::Traces | Sources::Example | Sources::OtherTraces => "Traces of the original volumes",
    };
    let requests = |workload: &LoadedWorkload| workload.vms.iter().map(|vm| vm.requests).sum::<u64>();
    let factors: Vec<f64> = loaded.iter().map(|workload| workload.factor).collect();
    let (low, high) = factors.iter().fold((1.0_f64, 0.0_f64), |(low, high), &f| (low.min(f), high.max(f)));
    let total: u64 = loaded.iter().map(|workload| requests(workload)).sum();
    let total = Unit::Count.show(total as f64);
    let size = if low >= 1.0 {
        format!("{total} requests, the whole workloads")
    } else {
        let part = if (high - low) < 1e-9 {
            format!("{:.2} %", 100.0 * low)
        } else {
            format!("{:.2} to {:.2} %", 100.0 * low, 100.0 * high)
        };
        format!(
            "{total} requests, {part} of the workloads; footprints of profiles, distances and every interval that counts \
             requests are as much shorter"
        )
    };
    let mut words = vec![format!("{from}; {size}")];
    let read: Vec<&str> = loaded
        .iter()
        .flat_map(|workload| &workload.vms)
        .filter(|vm| matches!(vm.source, Source::Trace { .. }))
        .map(|vm| vm.name)
        .collect();
    if sources == Sources::Mixed {
        words.push(format!("From traces, their first requests: {}", read.join(", ")));
    }
    words
}

/// Runs these experiments. `traces` is a folder with the user's copies of the original traces; `looking` hears of each of them
/// before it is read, and `progress` how many runs are done of how many.
///
/// # Errors
/// What goes wrong with a run or the folder. A trace that is not what it is named after is no error.
pub fn run_experiments(
    chosen: &[&Experiment],
    traces: Option<&Path>,
    mut options: RunOptions,
    looking: &dyn Fn(&Path),
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<PaperReport, PapersError> {
    let jobs: Vec<Job> = chosen.iter().flat_map(|experiment| (experiment.jobs)()).collect();
    let folder = traces.map(|path| Folder::look(path, &needed_profiles(&jobs), looking)).transpose()?;
    if let Some(folder) = &folder {
        options.traces = folder.by_profile();
    }
    let workloads: Vec<_> = jobs.iter().filter_map(Job::workload).collect();
    let results = run(jobs, &options, progress)?;
    let experiments = chosen.iter().map(|experiment| ExperimentReport::new(experiment, &results)).collect();
    let mut loaded: Vec<LoadedWorkload> = Vec::new();
    for workload in workloads {
        if let Some(facts) = results.workload(workload).filter(|f| loaded.iter().all(|l| l.name != f.name)) {
            loaded.push(facts.clone());
        }
    }
    Ok(PaperReport {
        program: PROGRAM,
        length: options.length,
        traces: folder,
        workloads: loaded,
        at_hand: None,
        experiments,
    })
}
