//! `lode status`: how a running daemon does.

use std::time::Duration;

use clap::Args;
use comfy_table::{ColumnConstraint, Width};
use lode_server::PairView;
use serde::Deserialize;

use super::behind::Behind;
use crate::amounts::show_count;
use crate::arguments::Daemon;
use crate::commands::device::lines;
use crate::error::CliError;
use crate::output::{number, table, warn, write};
use crate::results::{JsonArgs, is_to_standard_output};
use crate::shares::{ChangeNow, Host, Sharing};
use crate::watch::view::{cells, describe, titles};
use crate::watch::{Look, Watch};

/// Of the status table, the first column of numbers.
const FIRST_NUMBER: usize = 2;

/// Characters that names keep on a line of the status table, however narrow the terminal is.
const MIN_NAME_WIDTH: u16 = 9;

/// Show how a running daemon does.
#[derive(Args)]
pub struct StatusCommand {
    #[command(flatten)]
    daemon: Daemon,

    #[command(flatten)]
    json: JsonArgs,

    /// Show rates of each VM again and again, every SECONDS (1), until interrupted.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", conflicts_with = "json",
          value_parser = clap::value_parser!(u32).range(1..=3600))]
    watch: Option<u32>,

    /// With --watch: show this VM alone, with the latencies, waits and shares that `lode top` shows.
    #[arg(long, value_name = "NAME", requires = "watch")]
    vm: Option<String>,
}

/// Events that a watch tells after an interval.
const MOST_EVENTS: usize = 100;

impl StatusCommand {
    pub fn run(&self) -> Result<(), CliError> {
        if let Some(seconds) = self.watch {
            return self.watch(Duration::from_secs(seconds.into()));
        }
        let answer = lode_server::status(&self.daemon.control()?)?;
        let value: serde_json::Value = serde_json::from_str(&answer)
            .map_err(|error| CliError::Failure(format!("The daemon's answer is not JSON: {error}")))?;
        if self.json.outputs().any(is_to_standard_output) {
            return self.json.write(&value, String::new);
        }
        // A table needs more of an answer than JSON does.
        let text = Status::new(value.clone())?.text();
        self.json.write(&value, || text)
    }

    fn watch(&self, interval: Duration) -> Result<(), CliError> {
        let mut watch = Watch::new(self.daemon.control()?);
        let (mut has_answered, mut is_away) = (false, false);
        loop {
            let shown = watch.next().and_then(|look| Ok((look, watch.new_events(MOST_EVENTS)?)));
            let (Look { title, wear, mut rates }, events) = match shown {
                Ok(shown) => shown,
                // It may be started again.
                Err(error) if has_answered => {
                    if !is_away {
                        warn(&format!("{error}; waiting for it"));
                    }
                    is_away = true;
                    std::thread::sleep(interval);
                    continue;
                }
                Err(error) => return Err(error),
            };
            (has_answered, is_away) = (true, false);
            let wear = wear.map(|line| line + "\n").unwrap_or_default();
            if let Some(name) = &self.vm {
                rates.retain(|vm| vm.name == *name);
                if rates.is_empty() {
                    let text =
                        format!("There is no VM '{name}' here; `lode vm list` lists those that there are");
                    return Err(CliError::Failure(text));
                }
            }
            let mut table = table(&titles(), 1);
            table.add_rows(rates.iter().map(cells));
            for column in table.column_iter_mut() {
                column.set_padding((0, 1));
            }
            let details = rates.iter().filter(|_| self.vm.is_some()).flat_map(describe);
            let lines: String = details.chain(events).map(|line| line + "\n").collect();
            write(&format!("{title}\n{wear}{table}\n{lines}\n"))?;
            std::thread::sleep(interval);
        }
    }
}

/// What the table shows of a daemon's answer; `docs/control.md` describes the whole of it.
#[derive(Deserialize)]
struct Status {
    name: String,
    uptime_s: u64,
    last_end: LastEnd,
    cache: Option<Cache>,
    read_ssd: Option<ReadSsd>,
    host: Option<Host>,
    #[serde(default)]
    danger_zone: Vec<String>,
    #[serde(default)]
    change: Option<ChangeNow>,
    vms: Vec<Vm>,
}

/// How the run before this one ended.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LastEnd {
    None,
    Orderly,
    Killed,
    HostLost,
}

#[derive(Deserialize)]
struct Cache {
    uuid: String,
    epoch: u64,
    block_bytes: u64,
    #[serde(default)]
    pair: Option<PairView>,
}

#[derive(Deserialize)]
struct ReadSsd {
    uuid: String,
}

#[derive(Deserialize)]
struct Vm {
    name: String,
    scheme: String,
    connections: u64,
    draining_blocks: Option<u64>,
    #[serde(default)]
    migration: Option<String>,
    #[serde(default)]
    ordered: Option<Behind>,
    stopped: bool,
    #[serde(default)]
    stopped_by: Option<String>,
    quota: Blocks,
    sharing: Option<Sharing>,
    requests: Requests,
    counters: Counters,
    gauges: Gauges,
    alarms: Alarms,
    latency: Latencies,
    shm: Shm,
}

#[derive(Deserialize)]
struct Shm {
    records_taken_over: u64,
}

#[derive(Deserialize)]
struct Blocks {
    dram_blocks: u64,
    ssd_blocks: u64,
    read_ssd_blocks: u64,
}

#[derive(Deserialize)]
struct Requests {
    fua: u64,
    trim: u64,
    write_zeroes: u64,
}

#[derive(Deserialize)]
struct Counters {
    block_reads: u64,
    read_hits: Hits,
    read_misses: u64,
    cwf: Option<f64>,
}

#[derive(Deserialize)]
struct Hits {
    dram: u64,
    ssd: u64,
    read_ssd: u64,
}

#[derive(Deserialize)]
struct Gauges {
    #[serde(flatten)]
    held: Blocks,
    dirty_blocks: u64,
    unmirrored_blocks: u64,
}

#[derive(Deserialize)]
struct Alarms {
    unreadable_at_start: u64,
    damaged_clean: u64,
    damaged_mirrored: u64,
    damaged_dirty: u64,
    ssd_errors: u64,
    read_ssd_errors: u64,
    read_ssd_gone: bool,
    backing_errors: u64,
    failed: bool,
}

#[derive(Deserialize)]
struct Latencies {
    read: ReadLatencies,
    write: Latency,
}

#[derive(Deserialize)]
struct ReadLatencies {
    dram: Latency,
    read_ssd: Latency,
    ssd: Latency,
    backing: Latency,
}

#[derive(Deserialize)]
struct Latency {
    count: u64,
    p50_us: f64,
    p99_us: f64,
}

impl Status {
    fn new(answer: serde_json::Value) -> Result<Status, CliError> {
        serde_json::from_value(answer).map_err(|error| {
            CliError::Failure(format!(
                "Cannot make a table of the daemon's answer: {error}; is the daemon of another version? See it with --json"
            ))
        })
    }

    /// The cache's line, a row for each VM, and a line for each VM with a drain, with requests that the table does not show, or with an alarm.
    fn text(&self) -> String {
        let uptime = uptime(self.uptime_s);
        let cache = match &self.cache {
            Some(Cache { uuid, epoch, pair: None, .. }) => format!("SSD {uuid}, epoch {epoch}"),
            Some(Cache { uuid, epoch, pair: Some(pair), .. }) => {
                let pairs = pair.ssds.iter().filter_map(|ssd| ssd.pair).max();
                let pairs = pairs.map_or("pair of SSDs".to_owned(), |pairs| format!("{pairs} pairs of SSDs"));
                format!("{pairs} {uuid}, epoch {epoch}")
            }
            None => "without an SSD".to_owned(),
        };
        let read_ssd = self.read_ssd.as_ref();
        let cache = cache + &read_ssd.map(|ssd| format!(", read SSD {}", ssd.uuid)).unwrap_or_default();
        let last_end = self.last_end().map(|line| format!("{line}\n")).unwrap_or_default();
        let host =
            self.host.as_ref().and_then(Host::text).map(|text| format!("{text}\n")).unwrap_or_default();
        let change = self.change.as_ref().map(|change| format!("{}\n", change.line())).unwrap_or_default();
        let danger = match self.danger_zone.is_empty() {
            true => String::new(),
            false => format!("In danger_zone: {}\n", self.danger_zone.join(", ")),
        };
        let (name, pair) = (&self.name, self.cache.as_ref().and_then(|cache| cache.pair.as_ref()));
        let mut text = format!(
            "Cache {name}, {cache}, up {uptime}\n{}{last_end}{danger}{host}{change}\n{}\n",
            pair.map(lines).unwrap_or_default(),
            self.table()
        );
        let told = [
            Vm::drain,
            Vm::migration,
            Vm::unmirrored,
            Vm::behind,
            Vm::special_requests,
            Vm::expected,
            Vm::alarm,
        ];
        let lines: Vec<_> = told.iter().flat_map(|tell| self.vms.iter().filter_map(tell)).collect();
        if !lines.is_empty() {
            text += &format!("\n{}\n", lines.join("\n"));
        }
        text
    }

    /// What became of the run before, unless it was stopped in order.
    fn last_end(&self) -> Option<String> {
        let taken_over: u64 = self.vms.iter().map(|vm| vm.shm.records_taken_over).sum();
        match self.last_end {
            LastEnd::None | LastEnd::Orderly => None,
            LastEnd::Killed => Some(format!(
                "The run before was killed or crashed; {} taken over from memory",
                show_count(taken_over, "journal record")
            )),
            LastEnd::HostLost => Some(
                "The run before ended with the host; writes that guests did not flush may be missing"
                    .to_owned(),
            ),
        }
    }

    fn table(&self) -> comfy_table::Table {
        // Without an SSD the daemon does not say how large a block is.
        let block_bytes = self.cache.as_ref().map(|cache| cache.block_bytes);
        let unit = if block_bytes.is_some() { "MiB" } else { "blocks" };
        let held = format!("{unit},\nof quota");
        let titles = [
            "VM,\nscheme",
            "level",
            &held,
            "reads\n%",
            "read us\np50/p99",
            "write us\np50/p99",
            "dirty\nblocks",
            "SSD wr./\nwrite",
            "con-\nnect.",
        ];
        let mut table = table(&titles, FIRST_NUMBER);
        for vm in &self.vms {
            table.add_row(vm.row(block_bytes));
        }
        // The lines of a VM's cells belong together: only names may be broken.
        for (i, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 1)).set_constraint(match i {
                0 => ColumnConstraint::LowerBoundary(Width::Fixed(MIN_NAME_WIDTH + 1)),
                _ => ColumnConstraint::ContentWidth,
            });
        }
        table
    }
}

impl Vm {
    /// One row, in which each level has a line.
    fn row(&self, block_bytes: Option<u64>) -> Vec<String> {
        let (held, quota, read) = (&self.gauges.held, &self.quota, &self.latency.read);
        let Counters { block_reads, read_hits, read_misses, cwf } = &self.counters;
        let share = |held, quota| match quota {
            0 if held == 0 => "-".to_owned(),
            _ => format!("{}/{}", amount(held, block_bytes), amount(quota, block_bytes)),
        };
        let percent =
            |blocks: u64| number((*block_reads > 0).then(|| 100.0 * blocks as f64 / *block_reads as f64), 1);
        // A line for each level, the read SSD's only where there is one.
        let mut lines = vec![
            ("DRAM", share(held.dram_blocks, quota.dram_blocks), read_hits.dram, &read.dram),
            ("SSD", share(held.ssd_blocks, quota.ssd_blocks), read_hits.ssd, &read.ssd),
            ("disk", String::new(), *read_misses, &read.backing),
        ];
        if quota.read_ssd_blocks > 0 {
            let held = share(held.read_ssd_blocks, quota.read_ssd_blocks);
            lines.insert(1, ("rd. SSD", held, read_hits.read_ssd, &read.read_ssd));
        }
        let column = |cell: fn(&Line<'_>) -> String| lines.iter().map(cell).collect::<Vec<_>>().join("\n");
        let percents: Vec<String> = lines.iter().map(|line| percent(line.2)).collect();
        vec![
            format!("{}\n{}", self.name, self.scheme),
            column(|line| line.0.to_owned()),
            column(|line| line.1.clone()),
            percents.join("\n"),
            column(|line| line.3.text()),
            self.latency.write.text(),
            self.gauges.dirty_blocks.to_string(),
            number(*cwf, 2),
            self.connections.to_string(),
        ]
    }

    /// What the division of the host expects, beside what there was since.
    fn expected(&self) -> Option<String> {
        let Sharing { expected_hit_ratio, measured_hit_ratio, .. } = self.sharing.as_ref()?;
        let measured = measured_hit_ratio.map(|ratio| format!(", {:.1} % since", 100.0 * ratio));
        let measured = measured.unwrap_or_else(|| ", nothing read since".to_owned());
        let expected = 100.0 * (*expected_hit_ratio)?;
        Some(format!("{}: {expected:.1} % read hits expected at the last division{measured}", self.name))
    }

    /// How many blocks are on one device only that should be on two.
    fn unmirrored(&self) -> Option<String> {
        let count = self.gauges.unmirrored_blocks;
        let blocks = show_count(count, "dirty block");
        (count > 0)
            .then(|| format!("{}: {blocks} on one device only, until copied to the read SSD", self.name))
    }

    /// Requests beside reads, writes and flushes, if there were any.
    fn special_requests(&self) -> Option<String> {
        let Requests { fua, trim, write_zeroes } = self.requests;
        (fua + trim + write_zeroes > 0).then(|| {
            let counts = [(fua, "request"), (trim, "trim"), (write_zeroes, "zeroing")];
            let [fua, trims, zeroings] = counts.map(|(count, what)| show_count(count, what));
            format!("{}: {fua} with FUA, {trims}, {zeroings}", self.name)
        })
    }

    /// How far its disk is behind, where that is written in the order of its flushes.
    fn behind(&self) -> Option<String> {
        Some(self.ordered.as_ref()?.text(&self.name))
    }

    /// How far a drain is, when there is one.
    fn drain(&self) -> Option<String> {
        let left = show_count(self.draining_blocks?, "block");
        Some(format!("{}: draining, {left} left to write back", self.name))
    }

    /// How far it is when its disk is to be opened elsewhere.
    fn migration(&self) -> Option<String> {
        let what = match self.migration.as_deref()? {
            "released" => "its disk may be opened elsewhere, and nothing is taken any more",
            _ => "writes go to the backing disk, so that it may be opened elsewhere soon",
        };
        Some(format!("{}: {what} (`lode vm drain --cancel` serves it as before)", self.name))
    }

    /// What is wrong and what to do, the worst first; nothing when all is well.
    fn alarm(&self) -> Option<String> {
        let mut alarms = Vec::new();
        if self.stopped {
            let words = self.stopped_by.as_ref().map(|words| format!(" ({words})")).unwrap_or_default();
            alarms.push(format!(
                "stopped by a defect of the program{words}: report what the daemon's log says, and restart the daemon; what was \
                 acknowledged is there"
            ));
        }
        if self.alarms.failed {
            alarms.push(
                "nothing is acknowledged as durable any more: look at the SSD and the backing disk in the kernel's \
                 log, then restart the daemon"
                    .to_owned(),
            );
        }
        if self.alarms.read_ssd_gone {
            alarms.push(
                "the read SSD is not used any more: look at it in the kernel's log, then restart the daemon"
                    .to_owned(),
            );
        }
        let counted = [
            (
                self.alarms.unreadable_at_start,
                "unreadable on the SSD during the start: guests get I/O errors for these blocks until they overwrite them \
                 or the SSD can read them again; look at it in the kernel's log",
            ),
            (
                self.alarms.damaged_dirty,
                "damaged on the SSD where no other copy is: guests get I/O errors for these blocks until they \
                 overwrite them; restore the files from a backup and replace the SSD",
            ),
            (
                self.alarms.backing_errors,
                "failed commands on the backing disk: look at that disk in the kernel's log",
            ),
            (
                self.alarms.read_ssd_errors,
                "failed commands on the read SSD: look at it in the kernel's log and with smartctl",
            ),
            (
                self.alarms.damaged_mirrored,
                "damaged on the SSD and read from a second device instead, so nothing is lost: look at the SSD with \
                 smartctl; replace it if they go on",
            ),
            (
                self.alarms.ssd_errors,
                "failed commands on the SSD: look at it in the kernel's log and with smartctl; replace it if they go on",
            ),
            (
                self.alarms.damaged_clean,
                "damaged on an SSD and read from elsewhere instead, so nothing is lost: look at the SSDs with \
                 smartctl; replace one if they go on",
            ),
        ];
        alarms.extend(
            counted
                .iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, text)| format!("{count} times {text}")),
        );
        (!alarms.is_empty()).then(|| format!("{}: alarm: {}", self.name, alarms.join("; also ")))
    }
}

impl Latency {
    /// Median and 99th percentile; a dash when there was no such request.
    fn text(&self) -> String {
        if self.count == 0 {
            "-".to_owned()
        } else {
            format!("{}/{}", short(self.p50_us), short(self.p99_us))
        }
    }
}

/// A level of a row: its name, what it holds, the blocks read from it, and how long that took.
type Line<'l> = (&'static str, String, u64, &'l Latency);

/// Blocks as MiB where the size of a block is known.
fn amount(blocks: u64, block_bytes: Option<u64>) -> String {
    block_bytes
        .map_or_else(|| blocks.to_string(), |bytes| short(blocks as f64 * bytes as f64 / f64::from(1 << 20)))
}

/// A number with a decimal only where it matters.
fn short(value: f64) -> String {
    if value < 10.0 && value.fract() != 0.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn uptime(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests;
