//! `lode volume`: what a cache SSD holds for its VMs.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use lode_server::{Config, RemovedLog, VolumeView, Volumes};

use crate::amounts::{show_count, show_size};
use crate::error::CliError;
use crate::output::{table, write};
use crate::results::JsonArgs;

/// Look at the volumes of a cache SSD that no daemon serves, or remove one.
#[derive(Args)]
pub struct VolumeCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    List(List),
    Remove(Remove),
}

/// List the volumes: their space, the blocks they hold, and whether a VM is configured for them.
#[derive(Args)]
struct List {
    /// The configuration file that names the SSD.
    #[arg(value_name = "CONFIG.toml")]
    config: PathBuf,

    #[command(flatten)]
    json: JsonArgs,
}

/// Remove a volume and give its space back. A redo log beside its disk goes with it; without --force what it holds comes to the disk before.
#[derive(Args)]
#[command(after_help = "Example: lode volume remove /etc/lodestore/host1.toml old-vm")]
struct Remove {
    /// The configuration file that names the SSD.
    #[arg(value_name = "CONFIG.toml")]
    config: PathBuf,

    /// The volume.
    name: String,

    /// Lose blocks that are newer than the backing disk, those in its redo log included.
    #[arg(long)]
    force: bool,
}

impl VolumeCommand {
    pub fn run(&self) -> Result<(), CliError> {
        match &self.action {
            Action::List(list) => {
                let volumes = lode_server::volumes(&Config::load(&list.config)?)?;
                list.json.write(&volumes, || text(&volumes))
            }
            Action::Remove(Remove { config, name, force }) => {
                let removed = lode_server::remove_volume(&Config::load(config)?, name, *force)?;
                let log = removed.log.as_ref().map(of_log).unwrap_or_default();
                let free = show_size(removed.space_bytes);
                write(&format!("Volume {name} is gone; {free} are free again{log}\n"))
            }
        }
    }
}

/// What became of a redo log, behind what became of the volume.
fn of_log(log: &RemovedLog) -> String {
    let what = match (log.blocks, log.group) {
        (Some(0), _) => return String::new(),
        (Some(blocks), Some(group)) => format!("{} of group {group}", show_count(blocks, "block")),
        _ => "what cannot be read".to_owned(),
    };
    let became = if log.is_applied { "came to the disk" } else { "went with it" };
    format!("; of the redo log {} {what} {became}", log.path.display())
}

fn text(found: &Volumes) -> String {
    let mut table = table(&["volume", "configured", "backing disk", "space", "blocks", "dirty"], 2);
    for volume in &found.volumes {
        let count = |blocks: Option<u64>| blocks.map_or_else(|| "damaged".to_owned(), |n| n.to_string());
        table.add_row([
            volume.name.clone(),
            if volume.configured { "yes" } else { "no" }.to_owned(),
            show_size(volume.backing_bytes),
            show_size(volume.space_bytes),
            count(volume.blocks),
            count(volume.dirty_blocks),
        ]);
    }
    let Volumes { uuid, block_bytes, free_bytes, .. } = found;
    let (free, block) = (show_size(*free_bytes), show_size(*block_bytes));
    let mut text = format!("Cache {uuid}, blocks of {block}, {free} free\n\n{table}\n");
    let damaged = |volume: &VolumeView| Some(format!("{}: {}\n", volume.name, volume.damage.as_ref()?));
    text.extend(found.volumes.iter().filter_map(damaged));
    text
}
