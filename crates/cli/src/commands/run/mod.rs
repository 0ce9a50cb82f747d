//! `lode run`: an experiment from one file, step by step, in a way that can be repeated.

mod experiment;
mod stamp;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use clap::{Args, Parser};
use serde_json::json;

use self::experiment::{Experiment, Step};
use self::stamp::{Stamp, Stamped};
use crate::Cli;
use crate::amounts::{command_line, show_count};
use crate::error::CliError;
use crate::output::{json_text, note};
use crate::results::JsonArgs;
use crate::target::write_result;

/// Run an experiment that a file describes: traces, schemes, settings, sizes and results
///
/// Each step is a command (compare, curve, replay or size) with its options. Its text goes to NAME.txt, its other results to NAME.json
/// and so on, and beside them NAME.stamp says what they were made of: the words, and the SHA-256 of the program and of each file that was read. A
/// step whose stamp still holds is not run again, so that a run that was interrupted goes on where it was.
#[derive(Args)]
#[command(after_help = "\
An experiment:
  traces = [\"traces/*.lode.zst\"]    # paths are relative to the file's folder
  results = \"results\"               # FILE.results unless set

  [[step]]
  name = \"policies\"
  command = \"compare\"
  outputs = [\"json\", \"csv\"]
  options = { schemes = [\"lru\", \"arc\", \"s3-fifo\"], ssd = [\"1%\", \"10%\"], each = true, baseline = \"lru\" }

Example: lode run policies.toml --jobs 2")]
pub struct RunCommand {
    /// The file that describes it.
    #[arg(value_name = "EXPERIMENT.toml")]
    file: PathBuf,

    /// Steps at once; each takes the threads and the memory of its own options.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: u8,

    /// Run every step, whatever there is.
    #[arg(long)]
    again: bool,

    #[command(flatten)]
    json: JsonArgs,
}

/// What became of a step.
#[derive(Clone, Debug)]
enum Outcome {
    /// It was run.
    Done,
    /// Its results were there.
    UpToDate,
    /// It ended with an error, in these words.
    Failed(String),
}

impl RunCommand {
    pub fn run(&self) -> Result<(), CliError> {
        let Experiment { title, results, steps } = Experiment::load(&self.file)?;
        title.iter().for_each(|title| note(title));
        for step in &steps {
            check(step, &results)?;
        }
        std::fs::create_dir_all(&results).map_err(|error| {
            CliError::Failure(format!("Cannot make the folder {}: {error}; check rights", results.display()))
        })?;
        let lode = std::env::current_exe()
            .map_err(|error| CliError::Failure(format!("Cannot find the lode program: {error}")))?;
        let program = Stamped::of(&lode)?;
        let inputs = stamped_inputs(&steps)?;
        let next = AtomicUsize::new(0);
        let outcomes = Mutex::new(vec![None; steps.len()]);
        std::thread::scope(|scope| {
            for _ in 0..usize::from(self.jobs).min(steps.len()) {
                scope.spawn(|| {
                    while let Some((at, step)) =
                        steps.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let of_step = inputs_of(step).map(|input| inputs[input].clone()).collect();
                        let outcome = self.run_step(step, &results, Stamp::of(step, &program, of_step));
                        outcomes.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[at] =
                            Some(outcome);
                    }
                });
            }
        });
        let outcomes = outcomes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let outcomes: Vec<(&Step, Outcome)> = steps.iter().zip(outcomes.into_iter().flatten()).collect();
        self.tell(&results, &outcomes)
    }

    /// Runs one step, unless its results are there.
    fn run_step(&self, step: &Step, results: &Path, stamp: Stamp) -> Outcome {
        if !self.again && stamp.holds(results, step) {
            note(&format!("{}: up to date", step.name));
            return Outcome::UpToDate;
        }
        note(&format!("{}: lode {}", step.name, command_line(&step.words(results))));
        let began = Instant::now();
        match carry_out(step, results, stamp) {
            Ok(()) => {
                note(&format!("{}: done in {:.1} s", step.name, began.elapsed().as_secs_f64()));
                Outcome::Done
            }
            Err(error) => {
                let text = error.to_string();
                note(&format!("{}: failed: {text}", step.name));
                Outcome::Failed(text)
            }
        }
    }

    fn tell(&self, results: &Path, outcomes: &[(&Step, Outcome)]) -> Result<(), CliError> {
        let entry = |(step, outcome): &(&Step, Outcome)| {
            let (word, error) = match outcome {
                Outcome::Done => ("done", None),
                Outcome::UpToDate => ("up-to-date", None),
                Outcome::Failed(error) => ("failed", Some(error)),
            };
            json!({ "step": step.name, "outcome": word, "error": error })
        };
        let entries: Vec<_> = outcomes.iter().map(entry).collect();
        let count = |word: &str| entries.iter().filter(|entry| entry["outcome"] == word).count() as u64;
        let (done, kept, failed) = (count("done"), count("up-to-date"), count("failed"));
        let text = || {
            format!(
                "{}, {kept} up to date, {failed} failed; results in {}\n",
                show_count(done, "step") + " run",
                results.display()
            )
        };
        self.json.write(&json!({ "results": results, "steps": entries }), text)?;
        match failed {
            0 => Ok(()),
            _ => Err(CliError::Failure(format!("{} failed; see above", show_count(failed, "step")))),
        }
    }
}

/// That the step's words are understood, before anything is run.
fn check(step: &Step, results: &Path) -> Result<(), CliError> {
    let words = std::iter::once("lode".to_owned()).chain(step.words(results));
    match Cli::try_parse_from(words) {
        Ok(_) => Ok(()),
        Err(error) => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            Err(CliError::Usage(format!("Step '{}': {first}; see `lode {} --help`", step.name, step.command)))
        }
    }
}

fn inputs_of(step: &Step) -> impl Iterator<Item = &PathBuf> {
    step.traces.iter().chain(&step.files)
}

/// What each file that the steps read is.
fn stamped_inputs(steps: &[Step]) -> Result<HashMap<PathBuf, Stamped>, CliError> {
    let mut inputs = HashMap::new();
    for input in steps.iter().flat_map(inputs_of) {
        if !inputs.contains_key(input) {
            inputs.insert(input.clone(), Stamped::of(input)?);
        }
    }
    Ok(inputs)
}

/// Runs a step, and puts its stamp beside its results when all of them are there.
fn carry_out(step: &Step, results: &Path, mut stamp: Stamp) -> Result<(), CliError> {
    let failed = |what: &str, error: std::io::Error| CliError::Failure(format!("Cannot {what}: {error}"));
    // Until the new results are there, nothing says what the old ones are.
    match std::fs::remove_file(Stamp::path(results, step)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(failed("remove the old stamp", error));
        }
        _ => {}
    }
    let lode = std::env::current_exe().map_err(|error| failed("find the lode program", error))?;
    let run = Command::new(lode).args(step.words(results)).stdin(Stdio::null()).output();
    let Output { status, stdout, stderr } = run.map_err(|error| failed("start lode", error))?;
    let said = String::from_utf8_lossy(&stderr);
    if !status.success() {
        let last = said.lines().last().unwrap_or("it says nothing").trim_start_matches("lode: ").to_owned();
        return Err(CliError::Failure(last));
    }
    said.lines().for_each(|line| note(&format!("{}: {}", step.name, line.trim_start_matches("lode: "))));
    let text = results.join(format!("{}.txt", step.name));
    write_result(&text, &stdout)?;
    let outputs = step.outputs.iter().map(|output| results.join(format!("{}.{output}", step.name)));
    stamp.outputs =
        std::iter::once(text).chain(outputs).map(|path| Stamped::of(&path)).collect::<Result<_, _>>()?;
    write_result(&Stamp::path(results, step), &json_text(&stamp)?)
}
