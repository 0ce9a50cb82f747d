//! `lode recover`: what the redo log of a disk holds brought to the disk, while no daemon serves it.

use std::path::PathBuf;

use clap::Args;

use crate::amounts::show_count;
use crate::error::CliError;
use crate::results::JsonArgs;

/// Make a disk with ordered write-back a crash-consistent earlier state without its cache SSDs, of a FLUSH where one came in time.
///
/// Its redo log may hold a group of blocks that the disk has in part. They are written to the disk, and the log is empty after that.
/// A start of the daemon does the same. A log that the disk's sidecar does not know, or that is of another time, is refused.
#[derive(Args)]
#[command(after_help = "Example: lode recover /var/lib/vms/web.img")]
pub struct RecoverCommand {
    /// The disk, as `backing.path` names it.
    #[arg(value_name = "DISK")]
    disk: PathBuf,

    /// Its redo log, where `backing.redo` names it. Otherwise it is beside the image, with `.redo` behind its name.
    #[arg(long, value_name = "FILE")]
    redo: Option<PathBuf>,

    /// Its sidecar, where `backing.sidecar` names it. Otherwise it is beside the image, with `.sidecar` behind its name. Without one
    /// nothing says that the log is the disk's but you.
    #[arg(long, value_name = "FILE")]
    sidecar: Option<PathBuf>,

    #[command(flatten)]
    json: JsonArgs,
}

impl RecoverCommand {
    pub fn run(&self) -> Result<(), CliError> {
        let recovered = lode_server::recover_disk(&self.disk, self.redo.as_deref(), self.sidecar.as_deref())?;
        let disk = self.disk.display();
        let Some(recovered) = recovered else {
            let text = format!(
                "{disk} has no redo log: its write-back was not ordered, or the log lies elsewhere (--redo)"
            );
            return Err(CliError::Failure(text));
        };
        self.json.write(&recovered, || {
            let blocks = show_count(recovered.applied_blocks, "block");
            let said = match recovered.sidecar {
                Some(_) => "",
                None => {
                    " No sidecar says that the log is this disk's: look at the file systems before you go on."
                }
            };
            format!(
                "{disk} is the state of group {} of cache {}; {blocks} came from its redo log.{said}\n",
                recovered.group, recovered.cache
            )
        })
    }
}
