//! How failures end the program: one line on standard error and an exit code.

use std::io;
use std::process::ExitCode;

use lode_hardware::HardwareError;
use lode_policy::SettingError;
use lode_processes::RequestsError;
use lode_replay::ReplayError;
use lode_server::{ServerError, ServerErrorKind};
use lode_synth::SynthError;
use lode_trace::TraceError;

use crate::output::{note, say};

const FAILURE: u8 = 1;
const USAGE: u8 = 2;

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// What was asked for cannot be.
    #[error("{0}")]
    Usage(String),
    /// It was attempted and failed.
    #[error("{0}")]
    Failure(String),
    /// What was found is said already; the exit code says it to scripts.
    #[error("Exit code {0}")]
    Found(u8),
    /// Whoever read standard output has stopped reading, as `head` does. Nothing is to be said about it.
    #[error("Standard output is closed")]
    OutputClosed,
}

impl CliError {
    /// Tells the user, and gives the exit code.
    pub fn report(&self) -> ExitCode {
        match self {
            CliError::Usage(message) => {
                note(message);
                ExitCode::from(USAGE)
            }
            CliError::Failure(message) => {
                note(message);
                ExitCode::from(FAILURE)
            }
            CliError::Found(code) => ExitCode::from(*code),
            // They have what they wanted.
            CliError::OutputClosed => ExitCode::SUCCESS,
        }
    }

    /// A failure to write results to standard output.
    pub fn output(error: &io::Error) -> CliError {
        match error.kind() {
            io::ErrorKind::BrokenPipe => CliError::OutputClosed,
            _ => CliError::Failure(format!("Cannot write to standard output: {error}; check where it goes")),
        }
    }
}

impl From<SettingError> for CliError {
    fn from(error: SettingError) -> CliError {
        CliError::Usage(error.to_string())
    }
}

impl From<HardwareError> for CliError {
    fn from(error: HardwareError) -> CliError {
        CliError::Usage(error.to_string())
    }
}

impl From<RequestsError> for CliError {
    fn from(error: RequestsError) -> CliError {
        match error {
            RequestsError::BadSetting { .. } | RequestsError::TooMany { .. } => {
                CliError::Usage(error.to_string())
            }
            _ => CliError::Failure(error.to_string()),
        }
    }
}

impl From<ServerError> for CliError {
    fn from(error: ServerError) -> CliError {
        match error.kind() {
            ServerErrorKind::Config | ServerErrorKind::InUse => CliError::Usage(error.to_string()),
            _ => CliError::Failure(error.to_string()),
        }
    }
}

impl From<TraceError> for CliError {
    fn from(error: TraceError) -> CliError {
        CliError::Failure(error.to_string())
    }
}

impl From<SynthError> for CliError {
    fn from(error: SynthError) -> CliError {
        CliError::Failure(error.to_string())
    }
}

impl From<ReplayError> for CliError {
    fn from(error: ReplayError) -> CliError {
        match error {
            ReplayError::Trace(error) => error.into(),
            ReplayError::Setting(_)
            | ReplayError::LevelTooSmall { .. }
            | ReplayError::LevelTooLarge { .. }
            | ReplayError::HoldsToNoBudget { .. }
            | ReplayError::BudgetNeedsTimes => CliError::Usage(error.to_string()),
            ReplayError::TooManyVolumes { .. } | ReplayError::FutureTooLarge { .. } => {
                CliError::Failure(error.to_string())
            }
        }
    }
}

/// Shows help, version or what is wrong with the command line.
pub fn report_usage(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    if error.use_stderr() {
        say(&format!("lode: {}", text.strip_prefix("error: ").unwrap_or(&text)));
        return ExitCode::from(USAGE);
    }
    match crate::output::write(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}
