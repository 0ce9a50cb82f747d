//! `lode serve`: run the daemon.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use lode_server::{Config, HostMemory, Memory};
use tracing_subscriber::EnvFilter;

use crate::amounts::{show_count, show_size};
use crate::error::CliError;
use crate::output::{table, write};

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
    let total_bytes = host.together.total_bytes() + host.records_bytes;
    let (total, has) = (show_size(total_bytes), show_size(host.has_bytes));
    let verdict = if total_bytes > host.has_bytes { "a start will be refused" } else { "enough" };
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
            let memory = memory_text(&lode_server::host_memory(&config)?);
            return write(&format!("{path} is good: {vms}. {records}\n{memory}"));
        }
        let filter =
            EnvFilter::builder().with_default_directive(tracing::Level::INFO.into()).from_env_lossy();
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
        log.with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr).init();
        Ok(lode_server::serve(&config)?)
    }
}
