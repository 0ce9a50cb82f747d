//! `lode trace`: facts about traces, and their conversion. A new action is its file and its line in each list.

mod convert;
mod info;
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
}

impl TraceCommand {
    /// Does what was chosen.
    pub fn run(&self) -> Result<(), CliError> {
        match &self.action {
            Action::Info(command) => command.run(),
            Action::Convert(command) => command.run(),
        }
    }
}
