//! `lode status` and `lode stop`: talk to a running daemon.

use std::path::PathBuf;

use clap::Args;
use lode_server::Config;

use crate::error::CliError;
use crate::output::write;

/// Which daemon.
#[derive(Args)]
struct Daemon {
    /// The daemon's configuration file.
    #[arg(value_name = "CONFIG.toml", required_unless_present = "socket")]
    config: Option<PathBuf>,

    /// The daemon's control socket, instead of the one that its configuration names.
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    socket: Option<PathBuf>,
}

impl Daemon {
    fn control(&self) -> Result<PathBuf, CliError> {
        match (&self.socket, &self.config) {
            (Some(socket), _) => Ok(socket.clone()),
            (None, Some(config)) => Ok(Config::load(config)?.control),
            (None, None) => {
                Err(CliError::Usage("Give the daemon's configuration file or --socket".to_owned()))
            }
        }
    }
}

/// Show how a running daemon does, as JSON.
#[derive(Args)]
pub struct StatusCommand {
    #[command(flatten)]
    daemon: Daemon,
}

impl StatusCommand {
    pub fn run(&self) -> Result<(), CliError> {
        let answer = lode_server::status(&self.daemon.control()?)?;
        let value: serde_json::Value = serde_json::from_str(&answer)
            .map_err(|error| CliError::Failure(format!("The daemon's answer is not JSON: {error}")))?;
        write(&format!("{value:#}\n"))
    }
}

/// End a running daemon cleanly.
#[derive(Args)]
pub struct StopCommand {
    #[command(flatten)]
    daemon: Daemon,
}

impl StopCommand {
    pub fn run(&self) -> Result<(), CliError> {
        Ok(lode_server::stop(&self.daemon.control()?)?)
    }
}
