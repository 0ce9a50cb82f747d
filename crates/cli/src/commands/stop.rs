//! `lode stop`: end a running daemon.

use clap::Args;

use crate::arguments::Daemon;
use crate::error::CliError;
use crate::output::write;
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
            // The bulk while guests are served, so that they wait for the rest only.
            lode_server::drain(&control, &[], |left| bar.update(left))?;
        }
        let stopped = lode_server::stop(&control, self.drain, |left| bar.update(left))?;
        drop(bar);
        match stopped.dirty_blocks {
            0 => write("Stopped; the backing disks are up to date\n"),
            blocks if self.drain => Err(CliError::Failure(format!(
                "Stopped, but {blocks} blocks could not be written back: they are safe on the SSD, and the backing \
                 disks are older. See the log; start the daemon again and drain it when the backing disks work"
            ))),
            blocks => write(&format!(
                "Stopped; {blocks} blocks are newer on the SSD than on the backing disks (`lode stop --drain` writes \
                 them back)\n"
            )),
        }
    }
}
