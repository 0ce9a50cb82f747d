//! `lode trace`: facts about traces, and making traces out of traces. A new action is its file and its line in each list.

mod convert;
mod filter;
mod fit;
mod head;
mod info;
mod sort;
mod split;
mod summary;
mod synth;

use clap::{Args, Subcommand};

use crate::error::CliError;

/// Describe, convert, filter, split and sort block traces
#[derive(Args)]
pub struct TraceCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Info(info::InfoCommand),
    Convert(convert::ConvertCommand),
    Filter(filter::FilterCommand),
    Head(head::HeadCommand),
    Sort(sort::SortCommand),
    Split(split::SplitCommand),
    Fit(fit::FitCommand),
    Synth(synth::SynthCommand),
}

impl TraceCommand {
    /// Does what was chosen.
    pub fn run(&self) -> Result<(), CliError> {
        match &self.action {
            Action::Info(command) => command.run(),
            Action::Convert(command) => command.run(),
            Action::Filter(command) => command.run(),
            Action::Head(command) => command.run(),
            Action::Sort(command) => command.run(),
            Action::Split(command) => command.run(),
            Action::Fit(command) => command.run(),
            Action::Synth(command) => command.run(),
        }
    }
}
