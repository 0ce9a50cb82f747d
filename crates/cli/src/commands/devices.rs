//! `lode devices`: the hosts that results can be computed for, with every figure and its source.

use clap::Args;
use lode_hardware::time::HOURS_PER_YEAR;
use lode_hardware::{Catalogue, Host};
use lode_types::BlockSize;
use serde::Serialize;

use crate::devices::{find_host, profile_file};
use crate::error::CliError;
use crate::output;
use crate::results::JsonArgs;
use crate::target::check_outputs;

/// List the device profiles, or show one with all its figures and their sources
#[derive(Args)]
#[command(after_help = "\
Examples:
  lode devices
  lode devices sata-raid5
  lode devices mine.toml --json")]
pub struct DevicesCommand {
    /// A profile to show with all its figures: a name of the list, or a file whose name ends in .toml.
    #[arg(value_name = "NAME|FILE.toml")]
    host: Option<String>,

    #[command(flatten)]
    json: JsonArgs,
}

/// A host's profile and what follows from it, at blocks of 4 KiB.
#[derive(Serialize)]
struct HostEntry {
    #[serde(flatten)]
    host: Host,
    times_us: Times,
    ssd_reads_per_s: f64,
    ssd_writes_per_s: f64,
    ssd_writes_per_gb: f64,
    backing_data_disks: u32,
    backing_usd_per_data_gb: f64,
    dirty_loss_per_year: f64,
}

#[derive(Serialize)]
struct Times {
    dram: f64,
    ssd_read: f64,
    ssd_write: f64,
    disk_random_read: f64,
    disk_random_write: f64,
    disk_sequential_read: f64,
    disk_sequential_write: f64,
}

impl DevicesCommand {
    /// Lists the built-in hosts, or shows one.
    pub fn run(&self) -> Result<(), CliError> {
        let hosts = match &self.host {
            Some(name) => vec![find_host(name)?],
            None => {
                let catalogue = Catalogue::built_in()?;
                catalogue.host_names().map(|name| catalogue.host(name)).collect::<Result<_, _>>()?
            }
        };
        let entries: Vec<_> = hosts.into_iter().map(host_entry).collect();
        check_outputs(
            &self.host.as_deref().and_then(profile_file).into_iter().collect::<Vec<_>>(),
            &self.json.outputs().collect::<Vec<_>>(),
        )?;
        self.json.write(&entries, || match (&entries[..], &self.host) {
            ([entry], Some(_)) => host_text(entry),
            _ => list_text(&entries),
        })
    }
}

fn host_entry(host: Host) -> HostEntry {
    let block = BlockSize::KIB_4;
    let times = host.service_times(block);
    let us = |ns: u64| ns as f64 / 1000.0;
    let (ssd_reads_per_s, ssd_writes_per_s) = host.ssd.bounds_per_s(block.bytes());
    HostEntry {
        times_us: Times {
            dram: us(times.dram_ns),
            ssd_read: us(times.ssd_read_ns),
            ssd_write: us(times.ssd_write_ns),
            disk_random_read: us(times.backing.random_read.ns),
            disk_random_write: us(times.backing.random_write.ns),
            disk_sequential_read: us(times.backing.sequential_read.ns),
            disk_sequential_write: us(times.backing.sequential_write.ns),
        },
        ssd_reads_per_s,
        ssd_writes_per_s,
        ssd_writes_per_gb: host.ssd.rated_writes_per_gb(),
        backing_data_disks: host.backing.data_disks(),
        backing_usd_per_data_gb: host.backing.usd_per_data_gb(),
        dirty_loss_per_year: host.dirty_loss(HOURS_PER_YEAR),
        host,
    }
}

fn list_text(entries: &[HostEntry]) -> String {
    let titles = [
        "host",
        "about",
        "SSD rd us",
        "wr us",
        "disk rd us",
        "wr us",
        "seq us",
        "DRAM $/GB",
        "SSD $/GB",
        "writes/GB",
    ];
    let mut table = output::table(&titles, 2);
    for entry in entries {
        let (times, host) = (&entry.times_us, &entry.host);
        let whole = |value: f64| output::number(Some(value), 0);
        let ssd_usd = host.ssd.usd_per_gb * f64::from(host.ssd_copies);
        table.add_row([
            host.name.clone(),
            host.about.clone(),
            whole(times.ssd_read),
            whole(times.ssd_write),
            whole(times.disk_random_read),
            whole(times.disk_random_write),
            whole(times.disk_sequential_read),
            output::number(Some(host.dram.usd_per_gb), 2),
            output::number(Some(ssd_usd), 2),
            whole(entry.ssd_writes_per_gb),
        ]);
    }
    format!("{table}\nTimes of 4 KiB. Name one to see all its figures and where they come from.\n")
}

fn host_text(entry: &HostEntry) -> String {
    let host = &entry.host;
    let mut text = format!("{}: {}.\nSource: {}.\n", host.name, host.about, host.source);
    for sheet in host.sheets() {
        text += &format!("\n{}: {}.\nSource: {}.\n", sheet.kind, sheet.about, sheet.source);
        for figure in sheet.figures {
            text += &format!("  {:<22} {}\n", figure.key, figure.value);
        }
    }
    let times = &entry.times_us;
    let rows = [
        ("disk_random_read_us", times.disk_random_read),
        ("disk_random_write_us", times.disk_random_write),
        ("disk_sequential_us", times.disk_sequential_read),
        ("ssd_reads_per_s", entry.ssd_reads_per_s),
        ("ssd_writes_per_s", entry.ssd_writes_per_s),
        ("ssd_copies", host.ssd_copies.into()),
        ("ssd_writes_per_gb", entry.ssd_writes_per_gb),
        ("backing_data_disks", entry.backing_data_disks.into()),
        ("backing_usd_per_gb", entry.backing_usd_per_data_gb),
    ];
    text += "\nWhat follows, at blocks of 4 KiB:\n";
    for (key, value) in rows {
        text += &format!("  {key:<22} {}\n", output::number(Some(value), 2));
    }
    text + &format!("  {:<22} {:.3e}\n", "dirty_loss_per_year", entry.dirty_loss_per_year)
}
