//! `lode format`: make a device into a cache SSD or a read SSD.

use std::path::PathBuf;

use clap::Args;
use lode_server::{FormatOptions, format, format_read_ssd};
use lode_types::BlockSize;

use crate::amounts::{parse_size, show_size};
use crate::error::CliError;
use crate::output::write;

/// Make a device or file into an empty cache SSD, and print its identity.
#[derive(Args)]
#[command(
    after_help = "Example: lode format /dev/nvme1n1\n         lode format cache.img --create 8GiB\n         lode format --read-ssd /dev/nvme2n1"
)]
pub struct FormatCommand {
    /// The device or file.
    device: PathBuf,

    /// Size of a cache block.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_size)]
    block: u64,

    /// Size of the pieces in which space is given to VMs [default: what suits the device]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    extent: Option<u64>,

    /// Make it a read SSD: a second SSD for schemes that keep dirty blocks on two devices.
    #[arg(long, conflicts_with_all = ["block", "extent"])]
    read_ssd: bool,

    /// Lose whatever the device holds.
    #[arg(long)]
    force: bool,

    /// Create a file of this size if it does not exist.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    create: Option<u64>,
}

impl FormatCommand {
    pub fn run(&self) -> Result<(), CliError> {
        if self.read_ssd {
            let label = format_read_ssd(&self.device, self.create, self.force)?;
            let (device, size) = (self.device.display(), show_size(label.device_bytes));
            return write(&format!("Read SSD {} on {device}: {size}\n", label.id));
        }
        let options = FormatOptions {
            block: BlockSize::new(self.block).map_err(|error| CliError::Usage(error.to_string()))?,
            extent_bytes: self.extent,
            force: self.force,
            create_bytes: self.create,
        };
        let superblock = format(&self.device, &options)?;
        write(&format!(
            "Cache {} on {}: {}, extents of {}, blocks of {}\n",
            superblock.cache,
            self.device.display(),
            show_size(superblock.device_bytes),
            show_size(superblock.extent_bytes),
            show_size(superblock.block.bytes())
        ))
    }
}
