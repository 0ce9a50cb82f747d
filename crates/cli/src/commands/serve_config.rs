//! A plan as a configuration file of `lode serve`. It must not know how shares are found.

use std::collections::HashSet;
use std::path::PathBuf;

use clap::Args;
use lode_plan::SizeReport;
use lode_types::show_size;
use serde::Serialize;

use super::planning::write_file;
use crate::error::CliError;

/// Shares in a configuration are whole multiples of this.
pub const SHARE_GRANULE_BYTES: u64 = 64 << 10;

/// Longest name of a VM in a configuration.
const MAX_NAME: usize = 64;

/// Tells whoever opens the file what is left to do.
const HEADER: &str = "\
# Shares from traces. Check the paths, format the SSD with `lode format`, and try this file with
# `lode serve --check`.
";

/// Stands for a VM's name in paths and addresses.
const VM: &str = "{vm}";

/// Writing a configuration file.
#[derive(Args)]
pub struct ConfigArgs {
    /// Also write a configuration file for `lode serve` with these shares.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The cache SSD in the configuration.
    #[arg(long, value_name = "PATH", default_value = "/dev/nvme0n1", requires = "config")]
    ssd_device: String,

    /// Backing disks in the configuration; {vm} stands for the VM's name.
    #[arg(long, value_name = "PATH", default_value = "/dev/vg0/{vm}", requires = "config")]
    backing: String,

    /// Addresses in the configuration; {vm} stands for the VM's name.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "unix:/run/lodestore/{vm}.sock",
        requires = "config"
    )]
    listen: String,
}

impl ConfigArgs {
    /// Writes the configuration, if one was asked for.
    ///
    /// # Errors
    /// When VMs cannot be told apart in it, or it cannot be written.
    pub fn write(&self, report: &SizeReport) -> Result<(), CliError> {
        let Some(path) = &self.config else { return Ok(()) };
        write_file(path, &self.text(report)?)
    }

    fn text(&self, report: &SizeReport) -> Result<String, CliError> {
        if report.vms.len() > 1 && !self.backing.contains(VM) {
            return Err(CliError::Usage(format!(
                "--backing must have {VM} in it, because every VM has a disk of its own"
            )));
        }
        let mut taken = HashSet::new();
        let vms = report.vms.iter().map(|vm| {
            let name = unique_name(&vm.name, &mut taken);
            VmSection {
                backing: Device { path: self.backing.replace(VM, &name) },
                dram: share(vm.share.dram_blocks, report.block_bytes),
                ssd: share(vm.share.ssd_blocks, report.block_bytes),
                scheme: "etica",
                listen: [self.listen.replace(VM, &name)],
                name,
            }
        });
        let file = ConfigFile {
            name: "planned",
            vm: vms.collect(),
            ssd: report
                .vms
                .iter()
                .any(|vm| vm.share.ssd_blocks > 0)
                .then(|| Device { path: self.ssd_device.clone() }),
        };
        let text = toml::to_string(&file).map_err(|error| {
            CliError::Failure(format!("Cannot write the configuration: {error}; please report this"))
        })?;
        Ok(format!("{HEADER}{text}"))
    }
}

#[derive(Serialize)]
struct ConfigFile {
    name: &'static str,
    ssd: Option<Device>,
    vm: Vec<VmSection>,
}

#[derive(Serialize)]
struct Device {
    path: String,
}

#[derive(Serialize)]
struct VmSection {
    name: String,
    dram: String,
    ssd: String,
    scheme: &'static str,
    listen: [String; 1],
    backing: Device,
}

/// A share as a configuration takes it: rounded up to whole granules.
fn share(blocks: u64, block_bytes: u64) -> String {
    let bytes = blocks.saturating_mul(block_bytes).next_multiple_of(SHARE_GRANULE_BYTES);
    let shown = show_size(bytes);
    if shown.contains('.') { bytes.to_string() } else { shown }
}

/// A VM's name of the characters that a configuration allows, unlike all others.
fn unique_name(name: &str, taken: &mut HashSet<String>) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let plain: String = name.chars().map(allowed).take(MAX_NAME).collect();
    let plain = if plain.is_empty() { "vm".to_owned() } else { plain };
    let numbered = (2_u64..).map(|number| {
        let number = format!("-{number}");
        format!("{}{number}", &plain[..plain.len().min(MAX_NAME - number.len())])
    });
    let mut names = std::iter::once(plain.clone()).chain(numbered);
    names.find(|name| taken.insert(name.clone())).unwrap_or(plain)
}
