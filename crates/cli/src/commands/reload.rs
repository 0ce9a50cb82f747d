//! `lode reload`: have a running daemon read its configuration again.

use clap::Args;

use crate::arguments::Daemon;
use crate::error::CliError;
use crate::output::write;

/// Have a running daemon read its configuration again, while guests go on.
///
/// VMs come and go; of those that stay limits, shares, schemes and when they write back can change. Anything else needs a restart:
/// then it says so, and nothing is changed. SIGHUP does the same.
#[derive(Args)]
#[command(after_help = "Example: lode reload /etc/lodestore/host1.toml")]
pub struct ReloadCommand {
    #[command(flatten)]
    daemon: Daemon,
}

impl ReloadCommand {
    pub fn run(&self) -> Result<(), CliError> {
        let changed = lode_server::reload(&self.daemon.control()?)?;
        match changed.is_empty() {
            true => write("Reloaded; nothing has changed\n"),
            false => write(&format!("Reloaded; changed: {}\n", changed.join(", "))),
        }
    }
}
