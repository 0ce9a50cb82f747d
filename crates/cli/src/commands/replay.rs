//! `lode replay`: traces through a scheme.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use lode_hardware::Host;
use lode_policy::{DEFAULT_SCHEME, Decision, Quota, SchemeInfo, SizeCost, SizeCosts};
use lode_replay::{
    Counts, DevicesReport, Future, MirrorReport, Options, Recording, ReplayError, Report, VmReport,
    count_vms, level_blocks, replay, replay_with_future,
};
use lode_trace::{Merge, MergeOptions, open_trace};
use lode_types::{BlockSize, Level};

use super::budget::budget_text;
use super::planning::{Align, DriveArgs, MAX_TABLE_VMS, VmBy, merge_options, parse_block};
use crate::amounts::{parse_daily_bytes, parse_size, show_count, show_life, show_size};
use crate::arguments::{ReadArgs, inputs_text, warn_of};
use crate::devices::{find_host, profile_file};
use crate::error::CliError;
use crate::heading::heading;
use crate::output;
use crate::progress::{Bar, future_text};
use crate::results::{Columns, Rows, TableArgs, cell, is_to_standard_output};
use crate::target::check_traces;

/// Replay block traces through a caching scheme and count what follows
///
/// Every volume of every trace is a VM with its own cache; the VMs divide the levels. Several traces are merged
/// by time. Latencies are computed from a model of the devices, each request alone.
#[derive(Args)]
#[command(after_help = "\
Examples:
  lode replay web.csv.gz mail.csv.gz --scheme etica --dram 64MiB --ssd 1GiB
  lode replay web.csv.gz --scheme lru --ssd 1GiB --set write_policy=wt --json=report.json
  lode replay web.csv.gz --scheme tica-adaptive --dram 64MiB --ssd 1GiB --read-ssd 1GiB --devices tica

Sizes take K, M, G, T or KiB, MiB, GiB, TiB, all powers of 1024.")]
pub struct ReplayCommand {
    /// Traces to replay together, compressed or not; - is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The caching scheme; `lode schemes` lists them.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_SCHEME)]
    scheme: String,

    /// Size of the DRAM level, for schemes that have one.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    dram: Option<u64>,

    /// Size of the SSD level.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    ssd: Option<u64>,

    /// Size of the read SSD level, for schemes that have one.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    read_ssd: Option<u64>,

    /// Size of a cache block: a power of two from 4KiB to 64KiB.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_block)]
    block: BlockSize,

    /// A setting of the scheme; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// The devices: a name that `lode devices` lists, or a profile file whose name ends in .toml.
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "default")]
    devices: String,

    /// What all VMs together may write to the SSD in a day, such as 500GiB/day, as `ssd_writes` of a host.
    #[arg(long, value_name = "SIZE/day", value_parser = parse_daily_bytes)]
    ssd_writes: Option<u64>,

    #[command(flatten)]
    drive: DriveArgs,

    /// Backing disks of the default devices.
    #[arg(long, value_name = "DISKS", conflicts_with = "devices")]
    backing: Option<Backing>,

    #[command(flatten)]
    table: TableArgs,

    /// Memory for the traces and their future, with a scheme that needs to know what comes next.
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = parse_size)]
    memory: u64,

    #[command(flatten)]
    read: ReadArgs,

    /// What becomes a VM.
    #[arg(long, value_name = "WHAT", default_value = "volume")]
    vm_by: VmBy,

    /// How the clocks of several traces are brought together.
    #[arg(long, value_name = "HOW", default_value = "absolute")]
    align: Align,
}

#[derive(Clone, Copy, ValueEnum)]
enum Backing {
    /// One 7200 rpm disk.
    Hdd,
    /// A RAID-5 of such disks: writes that are not sequential take twice as long.
    Raid5,
}

impl ReplayCommand {
    /// Replays and reports.
    pub fn run(&self) -> Result<(), CliError> {
        let options = self.options()?;
        self.check_outputs()?;
        let report = self.replay(&options)?;
        report.warnings.iter().for_each(|warning| output::warn(warning));
        report.inputs.iter().for_each(warn_of);
        let is_shown = !self.table.outputs().any(is_to_standard_output);
        let shown = if is_shown { output::write(&report_text(&report, &options)) } else { Ok(()) };
        shown.and(self.table.write(&report, || csv_rows(&report)))
    }

    /// That the report can be written where it shall be, and not over what is read.
    fn check_outputs(&self) -> Result<(), CliError> {
        let inputs: Vec<&Path> = self.files.iter().map(PathBuf::as_path).collect();
        let inputs: Vec<&Path> =
            inputs.into_iter().chain(profile_file(&self.devices)).chain(self.drive.file()).collect();
        check_traces(&inputs, &self.table.outputs().collect::<Vec<_>>())
    }

    fn options(&self) -> Result<Options, CliError> {
        let info = SchemeInfo::find(&self.scheme)?;
        let mut settings = info.settings();
        for pair in &self.set {
            settings.set_pair(pair)?;
        }
        let mut physical = Quota::default();
        for level in Level::ALL {
            physical = physical.with(level, self.blocks_of(info, level)?);
        }
        info.check_levels(physical)?;
        info.check_needs(physical)?;
        let (block_size, host) = (self.block, self.host()?);
        Ok(Options { settings, physical, block_size, host, shares: None, daily_ssd_bytes: self.ssd_writes })
    }

    fn host(&self) -> Result<Host, CliError> {
        let name = match self.backing {
            None => &self.devices,
            Some(Backing::Hdd) => "default",
            Some(Backing::Raid5) => "default-raid5",
        };
        find_host(name, self.drive.name())
    }

    /// The blocks of a level; its size must be given if the scheme uses it, even if it is 0.
    fn blocks_of(&self, info: &SchemeInfo, level: Level) -> Result<u32, CliError> {
        let size = match level {
            Level::Dram => self.dram,
            Level::Ssd => self.ssd,
            Level::ReadSsd => self.read_ssd,
        };
        match size {
            Some(bytes) => Ok(level_blocks(level, bytes, self.block)?),
            None if !info.levels.contains(&level) || info.least_blocks(level) > 0 => Ok(0),
            None => Err(CliError::Usage(format!(
                "Scheme '{}' uses the {level} level; write --{level} SIZE, such as --{level} 64MiB, or --{level} 0",
                info.name,
                level = level.name()
            ))),
        }
    }

    fn replay(&self, options: &Options) -> Result<Report, CliError> {
        let read = self.read.options();
        let merge = merge_options(self.vm_by, self.align);
        let known_vms = self.count(&merge)?;
        let readers = self.files.iter().map(|file| open_trace(file, &read)).collect::<Result<_, _>>()?;
        let mut bar = Bar::new("Replaying");
        let merge = Merge::new(readers, merge)?;
        let progress = &mut |merge: &Merge, _| bar.update(merge.readers().map(|reader| reader.progress()));
        if SchemeInfo::find(options.settings.scheme())?.needs_future() {
            return self.replay_known(merge, options, progress);
        }
        Ok(replay(merge, options, known_vms, progress)?)
    }

    /// Reads all of the traces, so that the scheme can be told what comes next.
    fn replay_known(
        &self,
        merge: Merge,
        options: &Options,
        progress: &mut dyn FnMut(&Merge, usize),
    ) -> Result<Report, CliError> {
        let too_large =
            || ReplayError::FutureTooLarge { scheme: self.scheme.clone(), most_bytes: self.memory };
        let recording = Recording::of(merge, self.memory, progress)?.ok_or_else(too_large)?;
        let traces_bytes = recording.memory_bytes();
        let left_bytes = self.memory.saturating_sub(traces_bytes);
        let future = Future::of(&recording, options, left_bytes)?.ok_or_else(too_large)?;
        output::note(&future_text(traces_bytes, future.memory_bytes()));
        let known_vms = Some(recording.vm_names().len());
        Ok(replay_with_future(recording.play(), options, known_vms, Some(&future), &mut |_, _| {})?)
    }

    /// Counts the VMs in a pass of its own: their first shares depend on it.
    fn count(&self, merge: &MergeOptions) -> Result<Option<usize>, CliError> {
        let mut bar = Bar::new("Counting VMs");
        let progress = &mut |reader: &lode_trace::Reader| bar.update([reader.progress()].into_iter());
        Ok(count_vms(&self.files, &self.read.options(), merge.vm_by, progress)?)
    }
}

/// The replay in one sentence; none without requests.
fn in_short(report: &Report) -> Option<String> {
    let Counts { counters, mean_latency_us, .. } = &report.total;
    let mut text = format!("A request takes {:.0} us on average with {}", (*mean_latency_us)?, report.scheme);
    if counters.block_reads > 0 {
        let share = counters.read_hits.total() as f64 / counters.block_reads as f64;
        text += &format!(", {:.0} % of the blocks read come from the cache", 100.0 * share);
    }
    let life = report.devices.ssd_life_years.map(|years| format!(", and the SSD lasts {}", show_life(years)));
    Some(text + &life.unwrap_or_default() + ".")
}

fn report_text(report: &Report, options: &Options) -> String {
    let block = report.block_bytes;
    let mut text = heading("Replay", in_short(report));
    text += &format!("{}, blocks of {}", report.scheme, show_size(block));
    let has_read_ssd = report.physical.read_ssd_blocks > 0;
    for (level, blocks) in [("DRAM", report.physical.dram_blocks), ("SSD", report.physical.ssd_blocks)] {
        text += &format!(", {level} {}", show_size(u64::from(blocks) * block));
    }
    if has_read_ssd {
        text += &format!(", read SSD {}", show_size(u64::from(report.physical.read_ssd_blocks) * block));
    }
    let all = columns("all", &report.total, has_read_ssd);
    let mut table = output::table(&all.iter().map(|(title, _)| *title).collect::<Vec<_>>(), 1);
    for vm in report.vms.iter().take(MAX_TABLE_VMS) {
        let row = columns(&vm.name, &vm.counts, has_read_ssd);
        table.add_row(row.into_iter().map(|(_, cell)| cell));
    }
    if report.vms.len() != 1 {
        table.add_row(all.into_iter().map(|(_, cell)| cell));
    }
    text += &format!("\n{table}\n");
    if report.vms.len() > MAX_TABLE_VMS {
        let more = show_count((report.vms.len() - MAX_TABLE_VMS) as u64, "more VM");
        text += &format!("{more}; --json=FILE has them all.\n");
    }
    let model = &report.model;
    text += &format!(
        "Model, in us: DRAM {}, SSD read {} and write {}, disk {} or sequential {}, random disk writes x{}.\n",
        model.dram_us,
        model.ssd_read_us,
        model.ssd_write_us,
        number(model.disk_random_us),
        number(model.disk_sequential_us),
        number(model.disk_small_write_factor)
    );
    text += &budget_text(report, &options.settings.clone().for_blocks(options.block_size));
    text + &devices_text(&report.devices) + &decisions_text(report) + &inputs_text(&report.inputs)
}

/// Decisions of a VM that are shown.
const MOST_DECISIONS: usize = 20;

/// What a scheme chose that chooses among others, and why.
fn decisions_text(report: &Report) -> String {
    let mut text = String::new();
    for vm in report.vms.iter().take(MAX_TABLE_VMS) {
        let Some(decisions) = &vm.decisions else { continue };
        text += &match decisions.count {
            0 => format!(
                "{} stays with what {} begins with: nothing was better for long.\n",
                vm.name, report.scheme
            ),
            count => format!("{}: {} chose anew {}.\n", vm.name, report.scheme, show_times(count)),
        };
        let passed_over = decisions.latest.len().saturating_sub(MOST_DECISIONS);
        if decisions.count > MOST_DECISIONS as u64 {
            text += &format!("  the last {MOST_DECISIONS} times; --json=FILE has more\n");
        }
        text.extend(decisions.latest.iter().skip(passed_over).map(decision_text));
        text.extend(decisions.sizes.as_ref().map(|sizes| sizes_text(sizes, report.block_bytes)));
    }
    text
}

fn sizes_text(sizes: &SizeCosts, block_bytes: u64) -> String {
    let shown = |cost: &SizeCost| {
        format!("{:.0} us a request with {}", cost.latency_us, show_size(cost.ssd_blocks * block_bytes))
    };
    let SizeCosts { half, own, twice } = sizes;
    format!("  lately by shadows {} of the SSD, {}, {}\n", shown(half), shown(own), shown(twice))
}

fn show_times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn decision_text(decision: &Decision) -> String {
    let Decision { block_accesses, from, to, .. } = decision;
    let mut text = format!("  after {block_accesses} block accesses {to} instead of {from}: ");
    if let Some((saved, asked)) = decision.saved_turnovers.zip(decision.asked_turnovers) {
        text += &format!(
            "had saved {} % of a turnover, {} % are asked for; ",
            number(100.0 * saved),
            number(100.0 * asked)
        );
    }
    let latency = decision.from_latency_us.zip(decision.to_latency_us);
    let disk = decision.from_disk_us.zip(decision.to_disk_us);
    match (latency, disk, decision.from_ssd_writes.zip(decision.to_ssd_writes)) {
        (Some((from_us, to_us)), Some((from_disk_us, to_disk_us)), Some((from_writes, to_writes))) => {
            let peak = decision.from_disk_peak_cost_us.zip(decision.to_disk_peak_cost_us);
            let peak = peak.map(|(from_us, to_us)| {
                format!(" ({to_us:.0} instead of {from_us:.0} as the peak counts it)")
            });
            text += &format!(
                "{to_us:.0} us a request instead of {from_us:.0}, {to_disk_us:.0} us of the disk's time instead of \
                 {from_disk_us:.0}{}, SSD writes {to_writes:.2} instead of {from_writes:.2}, by their shadows\n",
                peak.unwrap_or_default()
            );
        }
        _ => text += "it can hold to the budget of SSD writes\n",
    }
    text
}

/// At most two decimals, and none that are zero.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn devices_text(devices: &DevicesReport) -> String {
    // Without times, what the operations take is all that there is to say.
    let (energy_j, what) = match devices.energy_j {
        Some(energy_j) => (energy_j, ""),
        None => (devices.active_energy_j, " for the operations alone"),
    };
    let energy = output::number(Some(energy_j.total), 1);
    let mut text = format!("Devices {}: {energy} J{what}", devices.host);
    if let (Some(mean_w), Some(span_s)) = (devices.mean_w, devices.span_s) {
        text += &format!(", {mean_w:.1} W over {} s", number(span_s));
    }
    if let Some(used) = devices.utilisation {
        let percent = |share| output::percent(Some(share));
        text += &format!(", busy SSD {} % and disks {} %", percent(used.ssd), percent(used.backing));
        if let Some(peak) = devices.backing_utilisation_peak {
            text += &format!(" (in the busiest minute {} %)", percent(peak));
        }
    }
    text += &format!("; SSD takes {}", show_size(devices.ssd_written_bytes));
    if let Some(years) = devices.ssd_life_years {
        text += &format!(", lasts {} years at that rate", number(years));
    }
    text += &devices.drives.as_ref().map(|drives| format!(" as {}", drives.words)).unwrap_or_default();
    if let Some(mirrors) = devices.mirrors {
        text += &mirrors_text(&mirrors, devices);
    }
    text + &format!("; levels cost {:.2} usd.\n", devices.cost_usd.total)
}

/// What a scheme adds that keeps dirty blocks on two devices.
fn mirrors_text(mirrors: &MirrorReport, devices: &DevicesReport) -> String {
    let mut text = format!("; read SSD takes {}", show_size(devices.read_ssd_written_bytes));
    if let Some(years) = devices.read_ssd_life_years {
        text += &format!(", lasts {} years at that rate", number(years));
    }
    if let (Some(in_dram), Some(loss)) = (mirrors.in_dram, mirrors.loss_per_year) {
        let in_dram = output::percent(Some(in_dram));
        text += &format!(
            "; second copies of dirty blocks are in DRAM {in_dram} % of the time: {loss:.2e} lost a year"
        );
    }
    text
}

/// A row for each VM.
fn csv_rows(report: &Report) -> Rows {
    let columns: Columns<&VmReport, 17> = [
        ("name", |vm| vm.name.clone()),
        ("requests", |vm| vm.counts.counters.requests.to_string()),
        ("read_requests", |vm| vm.counts.read_requests.to_string()),
        ("read_request_hits", |vm| vm.counts.read_request_hits.to_string()),
        ("block_reads", |vm| vm.counts.counters.block_reads.to_string()),
        ("block_writes", |vm| vm.counts.counters.block_writes.to_string()),
        ("dram_read_hits", |vm| vm.counts.counters.read_hits.dram.to_string()),
        ("ssd_read_hits", |vm| vm.counts.counters.read_hits.ssd.to_string()),
        ("read_ssd_read_hits", |vm| vm.counts.counters.read_hits.read_ssd.to_string()),
        ("read_misses", |vm| vm.counts.counters.read_misses.to_string()),
        ("ssd_write_hits", |vm| vm.counts.counters.write_hits.ssd.to_string()),
        ("ssd_writes", |vm| vm.counts.counters.ssd_writes.total.to_string()),
        ("read_ssd_writes", |vm| vm.counts.counters.read_ssd_writes.to_string()),
        ("backing_reads", |vm| vm.counts.counters.backing_reads.to_string()),
        ("backing_writes", |vm| vm.counts.counters.backing_writes.to_string()),
        ("mean_latency_us", |vm| cell(vm.counts.mean_latency_us)),
        ("cwf", |vm| cell(vm.counts.counters.cwf)),
    ];
    Rows::of(&columns, &report.vms)
}

/// One row, with the titles of its columns.
fn columns(name: &str, counts: &Counts, has_read_ssd: bool) -> Vec<(&'static str, String)> {
    let Counts { counters, read_requests, mean_latency_us, .. } = counts;
    let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    let of_reads = |part| output::percent(share(part, counters.block_reads));
    let hits = counters.read_hits;
    let mut row = vec![
        ("VM", name.to_owned()),
        ("requests", counters.requests.to_string()),
        ("reads % of requests", output::percent(share(*read_requests, counters.requests))),
        ("hits % of block reads", of_reads(hits.total())),
        ("of DRAM %", of_reads(hits.dram)),
        ("of SSD %", of_reads(hits.ssd)),
    ];
    if has_read_ssd {
        row.push(("of read SSD %", of_reads(hits.read_ssd)));
    }
    row.push(("SSD writes", counters.ssd_writes.total.to_string()));
    if has_read_ssd {
        row.push(("read SSD writes", counters.read_ssd_writes.to_string()));
    }
    row.push(("per write", output::number(counters.cwf, 3)));
    row.push(("us a request", output::number(*mean_latency_us, 1)));
    row
}
