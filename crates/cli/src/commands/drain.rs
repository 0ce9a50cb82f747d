//! `lode drain`: have a running daemon write back what only its SSD has.

use clap::Args;

use crate::amounts::show_count;
use crate::arguments::Daemon;
use crate::error::CliError;
use crate::output::write;
use crate::progress::Countdown;

/// Write back what is newer on the SSD than on the backing disks, while guests go on.
///
/// The blocks stay cached. What guests write meanwhile may become dirty again: `lode stop --drain` ends with
/// backing disks that are up to date.
#[derive(Args)]
#[command(after_help = "Example: lode drain /etc/lodestore/host1.toml --vm web1")]
pub struct DrainCommand {
    #[command(flatten)]
    daemon: Daemon,

    /// Only this VM; may be given several times.
    #[arg(long, value_name = "NAME")]
    vm: Vec<String>,

    /// Stop a drain that is under way.
    #[arg(long)]
    cancel: bool,
}

impl DrainCommand {
    pub fn run(&self) -> Result<(), CliError> {
        let control = self.daemon.control()?;
        if self.cancel {
            lode_server::cancel_drain(&control, &self.vm)?;
            return write("No drain is under way any more\n");
        }
        let mut bar = Countdown::new("writing back");
        let blocks = lode_server::drain(&control, &self.vm, |left| bar.update(left))?;
        drop(bar);
        let blocks = show_count(blocks, "block");
        write(&format!(
            "Drained; {blocks} written back, and the backing disks have what was written before\n"
        ))
    }
}
