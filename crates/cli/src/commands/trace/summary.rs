//! What the commands that write a trace say of it. It must not know how it was made.

use std::path::Path;

use lode_replay::InputReport;
use serde::Serialize;

use crate::amounts::show_count;
use crate::arguments::inputs_text;
use crate::error::CliError;
use crate::output;
use crate::results::JsonArgs;
use crate::target::{check_outputs, is_standard_output};

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

/// That the summary can be written where it shall be, and not where the trace goes or over what is read.
///
/// # Errors
/// When it cannot.
pub fn check_summary(json: &JsonArgs, trace: &Path, inputs: &[impl AsRef<Path>]) -> Result<(), CliError> {
    let inputs: Vec<&Path> = inputs.iter().map(AsRef::as_ref).collect();
    let outputs: Vec<_> = std::iter::once(("--output", trace)).chain(json.outputs()).collect();
    check_outputs(&inputs, &outputs)
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
    pub fn write(&self, json: &JsonArgs, more: &str) -> Result<(), CliError> {
        // The trace has standard output for itself.
        let is_taken = is_standard_output(Path::new(&self.output));
        json.write(self, || match is_taken {
            true => String::new(),
            false => format!(
                "Wrote {} of {} to {}{more}\n{}",
                show_count(self.requests, "request"),
                show_count(self.volumes, "volume"),
                self.output,
                inputs_text(&self.inputs)
            ),
        })
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
