//! `lode serve`: run the daemon.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;
use lode_server::{Config, HostMemory, Memory, VmMemory};
use serde::Serialize;
use tracing_subscriber::EnvFilter;

use crate::amounts::{show_count, show_size};
use crate::error::CliError;
use crate::output::table;
use crate::results::JsonArgs;

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

    // Served VMs have `lode status`.
    #[command(flatten)]
    json: JsonArgs,
}

/// What a check says to programs.
#[derive(Serialize)]
struct CheckedConfig<'a> {
    config: &'a Path,
    vms: Vec<VmView<'a>>,
    together: MemoryView,
    together_blocks: u64,
    largest_tables_bytes: u64,
    records_bytes: u64,
    has_bytes: u64,
    is_enough: bool,
    danger_zone: Vec<String>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct VmView<'a> {
    name: &'a str,
    scheme: &'a str,
    blocks: u64,
    is_disk_assumed: bool,
    /// Where it is noted beside the disk who serves it.
    sidecar: Option<PathBuf>,
    memory: MemoryView,
}

#[derive(Serialize)]
struct MemoryView {
    frames_bytes: u64,
    tables_bytes: u64,
    /// By what they are of.
    tables: BTreeMap<String, u64>,
}

impl MemoryView {
    fn of(memory: &Memory) -> MemoryView {
        let tables = memory.tables().into_iter().filter(|(_, bytes)| *bytes > 0);
        MemoryView {
            frames_bytes: memory.frames_bytes,
            tables_bytes: memory.tables_bytes(),
            tables: tables.map(|(what, bytes)| (table_key(what), bytes)).collect(),
        }
    }
}

/// "frames' tables" as a key.
fn table_key(what: &str) -> String {
    what.to_lowercase().replace("'", "").replace(['-', ' '], "_") + "_bytes"
}

fn checked<'a>(path: &'a Path, config: &Config, host: &'a HostMemory) -> CheckedConfig<'a> {
    let sidecars = sidecars(config);
    let vm = |vm: &'a VmMemory| VmView {
        sidecar: sidecars.get(&vm.name).cloned().flatten(),
        name: &vm.name,
        scheme: vm.scheme,
        blocks: vm.blocks,
        is_disk_assumed: vm.is_disk_assumed,
        memory: MemoryView::of(&vm.memory),
    };
    CheckedConfig {
        config: path,
        danger_zone: config.dangers(),
        warnings: lode_server::warnings(config),
        vms: host.vms.iter().map(vm).collect(),
        together: MemoryView::of(&host.together),
        together_blocks: host.together_blocks,
        largest_tables_bytes: host.largest_tables_bytes,
        records_bytes: host.records_bytes,
        has_bytes: host.has_bytes,
        is_enough: host.is_enough(),
    }
}

/// Where each VM's sidecar is, or will be; none where there is none, or the disk is not there.
fn sidecars(config: &Config) -> BTreeMap<String, Option<PathBuf>> {
    let path = |vm| lode_server::sidecar_path(vm).ok().flatten();
    config.vms.iter().map(|vm| (vm.name.clone(), path(vm))).collect()
}

/// What is dangerous, and which disks have no sidecar.
fn danger_text(config: &Config) -> String {
    let mut text = String::new();
    for line in lode_server::warnings(config) {
        text += &format!("Warning: {line}.\n");
    }
    let dangers = config.dangers();
    if !dangers.is_empty() {
        text += &format!("In [danger_zone]: {}.\n", dangers.join(", "));
    }
    let without: Vec<String> =
        sidecars(config).into_iter().filter(|(_, path)| path.is_none()).map(|(name, _)| name).collect();
    if !without.is_empty() {
        text += &format!(
            "Disks without a sidecar, of which another host cannot tell who served them (`backing.sidecar`): {}.\n",
            without.join(", ")
        );
    }
    text
}

/// The most memory that caches take, for each VM and for all, in bytes and in bytes for each block.
fn memory_text(host: &HostMemory) -> String {
    let mut table = table(&["VM", "scheme", "what", "at most", "bytes a block"], 3);
    let mut rows = |name: &str, scheme: &str, blocks: u64, memory: &Memory| {
        let mut first = Some((name, scheme));
        let frames = ("DRAM frames", memory.frames_bytes);
        for (what, bytes) in [frames].into_iter().chain(memory.tables()).filter(|(_, bytes)| *bytes > 0) {
            let (name, scheme) = first.take().unwrap_or_default();
            // How many bytes a frame has is no news.
            let a_block = match what == frames.0 || blocks == 0 {
                true => String::new(),
                false => format!("{:.1}", bytes as f64 / blocks as f64),
            };
            table.add_row([name.to_owned(), scheme.to_owned(), what.to_owned(), show_size(bytes), a_block]);
        }
        let a_block = memory.tables_bytes() as f64 / blocks.max(1) as f64;
        let all = ["".to_owned(), "".to_owned(), "all tables".to_owned(), show_size(memory.tables_bytes())];
        table.add_row(all.into_iter().chain([format!("{a_block:.1}")]).collect::<Vec<_>>());
    };
    for vm in &host.vms {
        rows(&vm.name, vm.scheme, vm.blocks, &vm.memory);
    }
    rows("all VMs", "", host.together_blocks, &host.together);
    let (total, has) = (show_size(host.total_bytes()), show_size(host.has_bytes));
    let verdict = if host.is_enough() { "enough" } else { "a start will be refused" };
    let mut text = format!(
        "\nMost memory that caches take, with blocks of 4 KiB:\n{table}\n\nTogether {total}, journal records included; this \
         host has {has}: {verdict}.\n"
    );
    if host.largest_tables_bytes > host.together.tables_bytes() {
        text += &format!(
            "All together are with the shares that VMs begin with. As shares move between VMs, tables keep the size of the largest \
             share that each has had (with all of them {}), and no share grows when the host has no memory left for that.\n",
            show_size(host.largest_tables_bytes)
        );
    }
    let assumed: Vec<&str> =
        host.vms.iter().filter(|vm| vm.is_disk_assumed).map(|vm| vm.name.as_str()).collect();
    if !assumed.is_empty() {
        text += &format!("Disks that are not there are counted as 1 TiB: {}.\n", assumed.join(", "));
    }
    text
}

impl ServeCommand {
    pub fn run(&self) -> Result<(), CliError> {
        let config = Config::load(&self.config)?;
        if self.check {
            lode_server::check_disks(&config)?;
            let (path, vms) = (self.config.display(), show_count(config.vms.len() as u64, "VM"));
            let records = lode_server::describe_records(&config)?;
            let host = lode_server::host_memory(&config)?;
            let is_good = if host.is_enough() { "is good" } else { "asks for more memory than there is" };
            let text = || {
                format!("{path} {is_good}: {vms}. {records}\n{}{}", danger_text(&config), memory_text(&host))
            };
            self.json.write(&checked(&self.config, &config, &host), text)?;
            return match host.is_enough() {
                true => Ok(()),
                false => Err(CliError::Failure(
                    "A start will be refused: make DRAM levels or shares of the SSD smaller, or `distances=sampled`".to_owned(),
                )),
            };
        }
        if self.json.outputs().next().is_some() {
            let text = "--json goes with --check; a daemon that serves is asked by `lode status --json`";
            return Err(CliError::Usage(text.to_owned()));
        }
        let filter =
            EnvFilter::builder().with_default_directive(tracing::Level::INFO.into()).from_env_lossy();
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
        log.with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr).init();
        Ok(lode_server::serve(&config)?)
    }
}
