//! `lode stop`: end a running daemon.

use clap::Args;
use lode_server::{ServerErrorKind, Stopped};

use crate::amounts::show_count;
use crate::arguments::Daemon;
use crate::error::CliError;
use crate::output::{warn, write};
use crate::progress::Countdown;

/// End a running daemon cleanly.
#[derive(Args)]
#[command(after_help = "Example: lode stop --drain /etc/lodestore/host1.toml")]
pub struct StopCommand {
    #[command(flatten)]
    daemon: Daemon,

    /// Before the end, write everything back that only the SSD has.
    #[arg(long)]
    drain: bool,
}

impl StopCommand {
    pub fn run(&self) -> Result<(), CliError> {
        let control = self.daemon.control()?;
        let mut bar = Countdown::new("writing back");
        if self.drain {
            // The bulk while guests are served, so that they wait for the rest only. What keeps it from its end, as a
            // failed disk does, does not keep the daemon from stopping.
            if let Err(error) = lode_server::drain(&control, &[], |left| bar.update(left)) {
                match error.kind() {
                    ServerErrorKind::Media => warn(&error.to_string()),
                    _ => return Err(error.into()),
                }
            }
        }
        let stopped = lode_server::stop(&control, self.drain, |left| bar.update(left))?;
        drop(bar);
        let Stopped { dirty_blocks, lost_blocks } = stopped;
        let kept = show_count(dirty_blocks - lost_blocks.min(dirty_blocks), "block");
        if lost_blocks > 0 {
            return Err(CliError::Failure(format!(
                "Stopped; {} damaged on the SSD and the backing disks older: restore what they held from a backup. {kept} \
                 more stay on the SSD",
                show_count(lost_blocks, "block")
            )));
        }
        match dirty_blocks {
            0 => write("Stopped; the backing disks are up to date\n"),
            _ if self.drain => Err(CliError::Failure(format!(
                "Stopped, but {kept} could not be written back: safe on the SSD, and the backing disks are older. See \
                 the log; start the daemon again and drain it when the backing disks work"
            ))),
            _ => write(&format!(
                "Stopped; {kept} newer on the SSD than on the backing disks (`lode stop --drain` writes back)\n"
            )),
        }
    }
}
