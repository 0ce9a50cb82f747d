//! A plan as a configuration file of `lode serve`. It must not know how shares are found.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use clap::Args;
use lode_plan::{SHARE_GRANULE_BYTES, SizeReport, SplitReport};
use lode_types::{Level, show_size};
use serde::Serialize;

use crate::amounts::{exact_size, show_count};
use crate::error::CliError;
use crate::output;
use crate::target::write_result;

/// Most VMs in a configuration.
const MAX_VMS: usize = 1024;

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
    /// Also write a configuration file for `lode serve` with these shares; - is standard output, in place of the text.
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
    /// What was asked for, by option.
    pub fn outputs(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.config.iter().map(|path| ("--config", path.as_path()))
    }

    /// Writes the configuration, if one was asked for.
    ///
    /// # Errors
    /// When VMs cannot be told apart in it, or it cannot be written.
    pub fn write(&self, report: &SizeReport) -> Result<(), CliError> {
        let Some(path) = &self.config else { return Ok(()) };
        let text = self.text(report)?;
        differences(report).iter().for_each(|difference| output::warn(difference));
        write_result(path, &text)
    }

    /// That so many VMs fit a configuration, if one was asked for.
    ///
    /// # Errors
    /// When they do not.
    pub fn check_vms(&self, vms: usize) -> Result<(), CliError> {
        if self.config.is_some() && vms > 1 && !self.backing.contains(VM) {
            return Err(CliError::Usage(format!(
                "--backing must have {VM} in it, because every VM has a disk of its own"
            )));
        }
        if self.config.is_some() && vms > MAX_VMS {
            return Err(CliError::Usage(format!(
                "No configuration: there are more than {MAX_VMS} VMs, and one daemon serves no more; \
                 plan for fewer traces or volumes at once"
            )));
        }
        Ok(())
    }

    fn text(&self, report: &SizeReport) -> Result<String, CliError> {
        self.check_vms(report.vms.len())?;
        let recommended = &report.recommended;
        let [drams, ssds] = Level::SIZED.map(|level| shares_bytes(report, level));
        let mut taken = HashSet::new();
        let has_dram = drams.iter().any(|&bytes| bytes > 0);
        let vms = recommended.vms.iter().zip(drams.iter().zip(&ssds)).map(|(vm, (&dram, &ssd))| {
            let name = unique_name(&vm.name, &mut taken);
            VmSection {
                backing: Device { path: self.backing.replace(VM, &name) },
                dram: has_dram.then(|| exact_size(dram)),
                ssd: exact_size(ssd),
                scheme: recommended.scheme.clone(),
                settings: recommended.settings.clone(),
                listen: [self.listen.replace(VM, &name)],
                name,
            }
        });
        let file = ConfigFile {
            name: "planned",
            vm: vms.collect(),
            ssd: ssds.iter().any(|&bytes| bytes > 0).then(|| Device { path: self.ssd_device.clone() }),
        };
        let text = toml::to_string(&file).map_err(|error| {
            CliError::Failure(format!("Cannot write the configuration: {error}; please report this"))
        })?;
        Ok(format!("{HEADER}# {}\n{text}", recommended.sentence))
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
    /// None where no VM has any.
    dram: Option<String>,
    ssd: String,
    scheme: String,
    listen: [String; 1],
    backing: Device,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    settings: BTreeMap<String, String>,
}

/// Each VM's share of a level as the configuration has it.
fn shares_bytes(report: &SizeReport, level: Level) -> Vec<u64> {
    let recommended = &report.recommended;
    let blocks: Vec<u64> = recommended.vms.iter().map(|vm| vm.share.of(level)).collect();
    in_granules(&blocks, report.block_bytes, recommended.levels.of(level))
}

/// In what a daemon with the configuration is not the plan.
fn differences(report: &SizeReport) -> Vec<String> {
    let mut found = Vec::new();
    for level in Level::SIZED {
        for (vm, bytes) in report.recommended.vms.iter().zip(shares_bytes(report, level)) {
            let planned = vm.share.of(level).saturating_mul(report.block_bytes);
            if planned != bytes {
                let (name, granule) = (level.name(), show_size(SHARE_GRANULE_BYTES));
                let [planned, bytes] = [planned, bytes].map(show_size);
                found.push(format!(
                    "{}: the plan gives it {planned} of {name}, the configuration {bytes}: shares in it are whole \
                     multiples of {granule}",
                    vm.name
                ));
            }
        }
    }
    let is_cut = |split: &SplitReport| split.smaller_share > 0.0 && split.smaller_share < 1.0;
    let cut = report.vms.iter().filter_map(|vm| vm.split.as_ref());
    let cut = cut.filter(|split| is_cut(&split.dram) || is_cut(&split.ssd)).count();
    if cut > 0 && report.recommended.is_of_two_levels() {
        found.push(format!(
            "the plan cuts the caches of {} in two, and a daemon does not: it will serve what the replay says, not what \
             the plan promises; leave --solver talus out for shares that need no cut",
            show_count(cut as u64, "VM")
        ));
    }
    if report.recommended.mean_latency_us.is_none() && report.replayed.is_empty() {
        found.push(format!(
            "the plan was not replayed, so that no scheme is known to be the best; the configuration has {}",
            report.recommended.label
        ));
    }
    found
}

/// Shares in bytes as a configuration takes them: in whole granules, together no more than the level has. Each is
/// rounded down; what that leaves goes to those that lost most.
fn in_granules(shares_blocks: &[u64], block_bytes: u64, level_bytes: u64) -> Vec<u64> {
    let bytes = |blocks: u64| blocks.saturating_mul(block_bytes);
    let mut granules: Vec<u64> =
        shares_blocks.iter().map(|&blocks| bytes(blocks) / SHARE_GRANULE_BYTES).collect();
    let mut left = (level_bytes / SHARE_GRANULE_BYTES).saturating_sub(granules.iter().sum());
    let mut by_loss: Vec<usize> = (0..granules.len()).collect();
    by_loss.sort_by_key(|&vm| std::cmp::Reverse(bytes(shares_blocks[vm]) % SHARE_GRANULE_BYTES));
    for vm in by_loss {
        if left > 0 && !bytes(shares_blocks[vm]).is_multiple_of(SHARE_GRANULE_BYTES) {
            granules[vm] += 1;
            left -= 1;
        }
    }
    granules.into_iter().map(|granules| granules * SHARE_GRANULE_BYTES).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_in_granules_never_exceed_their_level() {
        let granule = SHARE_GRANULE_BYTES;
        for (blocks, level_bytes, expected) in [
            (vec![16, 32], 3 * granule, vec![1, 2]),
            (vec![18, 18, 18], 3 * granule + 5, vec![1, 1, 1]),
            (vec![20, 24, 4], 3 * granule, vec![1, 2, 0]),
            (vec![1, 2, 3], granule, vec![0, 0, 1]),
            (vec![0, 15], 0, vec![0, 0]),
        ] {
            let expected: Vec<u64> = expected.into_iter().map(|count| count * granule).collect();
            assert_eq!(in_granules(&blocks, 4096, level_bytes), expected, "{blocks:?}");
        }
    }

    #[test]
    fn names_are_allowed_and_differ() {
        let mut taken = HashSet::new();
        let long = "x".repeat(80);
        for (name, expected) in
            [("a/b c", "a-b-c"), ("a b/c", "a-b-c-2"), ("", "vm"), (&long, &long[..64]), ("\u{e9}", "-")]
        {
            assert_eq!(unique_name(name, &mut taken), expected);
        }
        assert_eq!(unique_name(&long, &mut taken).len(), 64);
    }
}
