//! `lode trace fit`: a trace in, a profile out.

use std::path::PathBuf;

use clap::Args;
use lode_replay::InputReport;
use lode_synth::Fitter;
use lode_trace::open_trace;

use crate::amounts::show_count;
use crate::arguments::{ReadArgs, warn_of};
use crate::error::CliError;
use crate::output;
use crate::progress::Bar;
use crate::target::{check_outputs, is_standard_output, write_result};

/// Derive a profile from a trace, for synthetic traces like it
#[derive(Args)]
#[command(after_help = "\
Example: lode trace fit web.csv.gz -o web.toml, and then lode trace synth web.toml -o like-web.lode

All volumes of the trace become one. docs/profiles.md says what a profile keeps of a trace and what not.")]
pub struct FitCommand {
    /// The trace, compressed or not; - is standard input.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// The profile to write; - is standard output.
    #[arg(short, long, value_name = "PROFILE.toml")]
    output: PathBuf,

    #[command(flatten)]
    read: ReadArgs,
}

impl FitCommand {
    /// Reads the trace and writes the profile.
    pub fn run(&self) -> Result<(), CliError> {
        check_outputs(&[&self.trace], &[("--output", &self.output)])?;
        let mut reader = open_trace(&self.trace, &self.read.options())?;
        let name = reader.stem().to_owned();
        let (mut fitter, mut batch) = (Fitter::default(), Vec::new());
        let mut bar = Bar::new("Fitting");
        while reader.next_batch(&mut batch)? > 0 {
            fitter.add(&name, &batch)?;
            bar.update([reader.progress()].into_iter());
        }
        drop(bar);
        warn_of(&InputReport::of(&reader));
        let mut profile = fitter.finish(&name)?;
        if !reader.has_times() {
            profile.assumed.push("The trace has no times: one request a microsecond".to_owned());
        }
        let text = profile.to_toml()?;
        write_result(&self.output, &text)?;
        if is_standard_output(&self.output) {
            return Ok(());
        }
        output::write(&format!(
            "Wrote the profile of {} to {}\n",
            show_count(profile.requests, "request"),
            self.output.display()
        ))
    }
}
