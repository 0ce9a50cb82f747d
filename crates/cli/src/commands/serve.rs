//! `lode serve`: run the daemon.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use lode_server::Config;
use tracing_subscriber::EnvFilter;

use crate::amounts::show_count;
use crate::error::CliError;
use crate::output::write;

/// Serve the disks of virtual machines, cached, until stopped.
#[derive(Args)]
#[command(after_help = "Example: lode serve /etc/lodestore/host1.toml")]
pub struct ServeCommand {
    /// The configuration file.
    #[arg(value_name = "CONFIG.toml")]
    config: PathBuf,

    /// Only check the configuration file.
    #[arg(long)]
    check: bool,
}

impl ServeCommand {
    pub fn run(&self) -> Result<(), CliError> {
        let config = Config::load(&self.config)?;
        if self.check {
            lode_server::check_disks(&config)?;
            let (path, vms) = (self.config.display(), show_count(config.vms.len() as u64, "VM"));
            return write(&format!("{path} is good: {vms}. {}\n", lode_server::describe_records(&config)?));
        }
        let filter =
            EnvFilter::builder().with_default_directive(tracing::Level::INFO.into()).from_env_lossy();
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
        log.with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr).init();
        Ok(lode_server::serve(&config)?)
    }
}
