//! What the commands that write a trace say of it. It must not know how it was made.

use std::path::Path;

use lode_replay::InputReport;
use serde::Serialize;

use crate::amounts::show_count;
use crate::arguments::inputs_text;
use crate::error::CliError;
use crate::output;

/// A trace that was written, as `docs/reports.md` describes it; what the command adds stands beside it.
#[derive(Serialize)]
pub struct Summary<T> {
    output: String,
    requests: u64,
    volumes: u64,
    inputs: Vec<InputReport>,
    #[serde(flatten)]
    more: T,
}

/// What a command that has nothing to add adds.
#[derive(Serialize)]
pub struct Nothing {}

impl<T: Serialize> Summary<T> {
    /// Of the trace at `output`.
    pub fn new(
        output: &Path,
        requests: u64,
        volumes: usize,
        inputs: Vec<InputReport>,
        more: T,
    ) -> Summary<T> {
        Summary { output: output.display().to_string(), requests, volumes: volumes as u64, inputs, more }
    }

    /// As JSON, or as a sentence with `more` behind it.
    ///
    /// # Errors
    /// When standard output takes no more.
    pub fn write(&self, json: bool, more: &str) -> Result<(), CliError> {
        if json {
            return output::write_json(self);
        }
        output::write(&format!(
            "Wrote {} of {} to {}{more}\n{}",
            show_count(self.requests, "request"),
            show_count(self.volumes, "volume"),
            self.output,
            inputs_text(&self.inputs)
        ))
    }
}

/// Warns of volumes that have the same name in several traces.
pub fn warn_of_shared<'a>(names: impl Iterator<Item = &'a str>) {
    let names: Vec<_> = names.collect();
    if let Some(first) = names.first() {
        output::warn(&format!(
            "{} in several of the traces, such as {first}, and each is one volume of the output; where they are \
             different disks, work on one trace at a time",
            show_count(names.len() as u64, "volume name")
        ));
    }
}
