//! `lode trace`: facts about traces, and their conversion. A new action is its file and its line in each list.

mod convert;
mod fit;
mod info;
mod synth;
mod target;

use clap::{Args, Subcommand};

use crate::error::CliError;

/// Describe and convert block traces
#[derive(Args)]
pub struct TraceCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Info(info::InfoCommand),
    Convert(convert::ConvertCommand),
    Fit(fit::FitCommand),
    Synth(synth::SynthCommand),
}

impl TraceCommand {
    /// Does what was chosen.
    pub fn run(&self) -> Result<(), CliError> {
        match &self.action {
            Action::Info(command) => command.run(),
            Action::Convert(command) => command.run(),
            Action::Fit(command) => command.run(),
            Action::Synth(command) => command.run(),
        }
    }
}
