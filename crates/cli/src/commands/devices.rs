//! `lode devices`: the hosts that results can be computed for and the drives that they can have, with every figure and its source.

use clap::Args;
use lode_hardware::time::{DAYS_PER_YEAR, HOURS_PER_YEAR};
use lode_hardware::{Catalogue, Drive, HardwareError, Host};
use lode_types::BlockSize;
use serde::Serialize;

use crate::devices::{profile_file, read_profile};
use crate::error::CliError;
use crate::output;
use crate::results::JsonArgs;
use crate::target::check_outputs;

/// List the profiles of hosts and drives, or show one with all its figures and their sources
///
/// What is shown of one is a profile itself: it can be written to a file, edited and given back.
#[derive(Args)]
#[command(after_help = "\
Examples:
  lode devices
  lode devices sata-raid5
  lode devices sata-raid5 > mine.toml        # then edit it, and use it with --devices mine.toml
  lode devices nvme-960-1dwpd > drive.toml   # the same with --drive drive.toml
  lode devices mine.toml --json")]
pub struct DevicesCommand {
    /// A profile to show with all its figures: a name of the lists, or a file whose name ends in .toml.
    #[arg(value_name = "NAME|FILE.toml")]
    name: Option<String>,

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

/// What is listed or shown.
#[derive(Default, Serialize)]
struct Profiles {
    hosts: Vec<HostEntry>,
    drives: Vec<Drive>,
}

impl DevicesCommand {
    /// Lists what is built in, or shows one profile.
    pub fn run(&self) -> Result<(), CliError> {
        let catalogue = Catalogue::built_in()?;
        let found = match &self.name {
            Some(name) => one(name, &catalogue)?,
            None => Profiles {
                hosts: catalogue
                    .host_names()
                    .map(|name| catalogue.host(name).map(host_entry))
                    .collect::<Result<_, _>>()?,
                drives: catalogue
                    .drive_names()
                    .map(|name| catalogue.drive(name))
                    .collect::<Result<_, _>>()?,
            },
        };
        check_outputs(
            &self.name.as_deref().and_then(profile_file).into_iter().collect::<Vec<_>>(),
            &self.json.outputs().collect::<Vec<_>>(),
        )?;
        self.json.write(&found, || match (&self.name, &found.hosts[..], &found.drives[..]) {
            (Some(_), [entry], []) => host_text(entry, &catalogue),
            (Some(_), [], [drive]) => drive_text(drive, &catalogue),
            _ => list_text(&found.hosts) + &drives_text(&found.drives),
        })
    }
}

/// The host or drive of this name or file.
fn one(name: &str, catalogue: &Catalogue) -> Result<Profiles, CliError> {
    let host = |host: Host| Profiles { hosts: vec![host_entry(host)], ..Profiles::default() };
    let drive = |drive: Drive| Profiles { drives: vec![drive], ..Profiles::default() };
    if profile_file(name).is_none() {
        return match (catalogue.host(name), catalogue.drive(name)) {
            (Ok(found), _) => Ok(host(found)),
            (_, Ok(found)) => Ok(drive(found)),
            (Err(no_host), Err(no_drive)) => {
                Err(CliError::Usage(format!("{no_host}. {no_drive}; a profile file ends in .toml")))
            }
        };
    }
    let text = read_profile(name)?;
    match (Host::parse(&text), Drive::parse(&text)) {
        (Ok(found), _) => Ok(host(found)),
        (Err(HardwareError::Hosts { hosts: 0 }), Ok(found)) => Ok(drive(found)),
        (Err(error), _) => Err(CliError::Usage(format!("{name}: {error}"))),
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
    format!("Hosts (--devices):\n{table}\nTimes of 4 KiB.\n")
}

/// The drives; nothing where there are none.
fn drives_text(drives: &[Drive]) -> String {
    let titles = ["drive", "about", "DWPD", "TB written", "usd", "price of"];
    let mut table = output::table(&titles, 2);
    for drive in drives {
        let tb =
            drive.drive_writes_per_day() * drive.warranty_years * DAYS_PER_YEAR * drive.capacity_gb / 1000.0;
        table.add_row([
            drive.name.clone(),
            drive.about.clone(),
            output::number(Some(drive.drive_writes_per_day()), 2),
            output::number(Some(tb), 0),
            output::number(Some(drive.usd), 2),
            drive.price_date.clone(),
        ]);
    }
    format!(
        "\nDrives that the SSD can be bought as (--drive):\n{table}\n\
         Name a host or drive to see all its figures and where they come from; `lode devices NAME > my.toml` is a profile \
         to edit and give back.\n"
    )
}

/// A host's profile, with what follows from it in comments.
fn host_text(entry: &HostEntry, catalogue: &Catalogue) -> String {
    let host = &entry.host;
    let times = &entry.times_us;
    let rows = [
        ("disk_random_read_us", times.disk_random_read),
        ("disk_random_write_us", times.disk_random_write),
        ("disk_sequential_us", times.disk_sequential_read),
        ("ssd_reads_per_s", entry.ssd_reads_per_s),
        ("ssd_writes_per_s", entry.ssd_writes_per_s),
        ("ssd_writes_per_gb", entry.ssd_writes_per_gb),
        ("backing_data_disks", entry.backing_data_disks.into()),
        ("backing_usd_per_gb", entry.backing_usd_per_data_gb),
    ];
    let mut text = format!(
        "# Profile of the host '{}' with all its devices. Edit it and give it back: --devices FILE.toml\n\n{}\
         # What follows, at blocks of 4 KiB:\n",
        host.name,
        host.profile(catalogue)
    );
    for (key, value) in rows {
        text += &format!("#   {key:<22} {}\n", output::number(Some(value), 2));
    }
    text + &format!("#   {:<22} {:.3e}\n", "dirty_loss_per_year", entry.dirty_loss_per_year)
}

/// A drive's profile.
fn drive_text(drive: &Drive, catalogue: &Catalogue) -> String {
    format!(
        "# Profile of the drive '{}'. Edit it and give it back: --drive FILE.toml\n\n{}",
        drive.name,
        drive.profile(catalogue).trim_end().to_owned() + "\n"
    )
}
