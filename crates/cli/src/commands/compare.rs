//! `lode compare`: schemes side by side over several sizes.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use lode_plan::{
    Against, CellReport, CompareOptions, CompareReport, ComparedSchemes, EachReport, LevelBytes, LevelSize,
    MAX_PLAN_BYTES, PlanError, PlannedShares, TraceComparison, compare, pair_sizes, parse_scheme,
};
use lode_replay::InputReport;

use super::compare_each;
use super::planning::{DeviceArgs, TraceArgs};
use crate::amounts::{show_life, show_size};
use crate::arguments::{inputs_text, warn_of};
use crate::error::CliError;
use crate::heading::heading;
use crate::level_size::footprint_bytes;
use crate::output::{self, dollars, number, percent};
use crate::progress::Meter;
use crate::results::{Columns, PictureArgs, Rows, TableArgs, cell, is_to_standard_output};

/// Replay several schemes over several sizes, and show them side by side
///
/// A scheme is given the levels that it uses. A size is one in bytes (64MiB), or in per cent (5%) of the different 4 KiB blocks
/// that the traces read or write. Several sizes of a level are separated by commas; where several levels have
/// several, the first of one goes with the first of the others.
///
/// All schemes map blocks alike: where one of them knows no sets, the others have none either (assoc=0), unless a
/// scheme's own assoc is given.
#[derive(Args)]
#[command(after_help = "\
Examples:
  lode compare web.lode --schemes etica,lru --dram 64MiB --ssd 1GiB
  lode compare *.lode --schemes lru,arc,s3-fifo --ssd 256MiB,1GiB,4GiB --html compare.html
  lode compare web.lode --schemes etica,etica:mode=full-hybrid --dram 64MiB,128MiB --ssd 1GiB,2GiB --json
  lode compare *.lode --schemes etica,lru --plan plan.json
  lode compare *.lode --schemes lru,arc,s3-fifo --ssd 1GiB --baseline lru
  lode compare web.lode --schemes lru,arc,sieve --ssd 1%,5%,10%
  lode compare *.lode --each --schemes lru,arc,sieve --ssd 5% --baseline lru
  lode compare web.lode --schemes lru,tica-ef --dram 64MiB --ssd 1GiB --read-ssd 1GiB --devices tica

A scheme's settings follow its name: NAME:KEY=VALUE:KEY=VALUE.")]
pub struct CompareCommand {
    #[command(flatten)]
    traces: TraceArgs,

    /// Schemes to compare; `lode schemes` lists them.
    #[arg(long, value_name = "NAME,...", required = true, value_delimiter = ',')]
    schemes: Vec<String>,

    /// Sizes of the DRAM level.
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    dram: Vec<LevelSize>,

    /// Sizes of the SSD level.
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    ssd: Vec<LevelSize>,

    /// Sizes of the read SSD level, for schemes that have one.
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    read_ssd: Vec<LevelSize>,

    /// Instead of sizes: a plan that `lode size --json` wrote, for the money of which schemes are compared. Those of both levels
    /// have its shares; those of one SSD level have what the shares cost, VM by VM.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dram", "ssd", "read_ssd"])]
    plan: Option<PathBuf>,

    /// Which of the schemes the others are measured against: how many of its misses and how much of its time they save.
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,

    /// Compare trace by trace, and not as VMs of one host; then what they have in common, each trace counting the same.
    #[arg(long, conflicts_with_all = ["plan", "html", "svg", "png"])]
    each: bool,

    #[command(flatten)]
    devices: DeviceArgs,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    pictures: PictureArgs,
}

impl CompareCommand {
    /// Compares and shows.
    pub fn run(&self) -> Result<(), CliError> {
        let outputs: Vec<_> = self.table.outputs().chain(self.pictures.outputs()).collect();
        self.traces.check(&outputs, &self.devices.files())?;
        self.pictures.check()?;
        if !self.traces.can_be_read_again() {
            return Err(CliError::Usage(
                "The traces are read more than once, which standard input and pipes cannot be; write them to a file"
                    .to_owned(),
            ));
        }
        let twice = self.schemes.iter().enumerate().find(|(at, scheme)| self.schemes[..*at].contains(scheme));
        if let Some(baseline) = self.baseline.as_ref().filter(|name| !self.schemes.contains(name)) {
            return Err(CliError::Usage(format!(
                "--baseline {baseline} is none of the schemes that are compared; add it to --schemes as it is written here"
            )));
        }
        if let Some((_, scheme)) = twice {
            return Err(CliError::Usage(format!("--schemes has '{scheme}' twice; name each scheme once")));
        }
        if self.each {
            return self.run_each();
        }
        let report = self.report(&self.traces)?;
        report.inputs.iter().for_each(warn_of);
        report.warnings.iter().for_each(|warning| output::warn(warning));
        // What can be shown is shown even where the pictures fail, and the other way round.
        let is_shown = !outputs.into_iter().any(is_to_standard_output);
        let head = || heading("Schemes side by side", report.in_short());
        let text = || {
            head()
                + &text_of(&report)
                + &spread_text(&report)
                + &notes_text(&report.notes)
                + &inputs_text(&report.inputs)
        };
        let shown = if is_shown { output::write(&text()) } else { Ok(()) };
        let tables = self.table.write(&report, || csv_rows(&report));
        self.pictures.write(&report, lode_plan::compare_page, lode_plan::compare_picture)?;
        shown.and(tables)
    }

    /// Compares trace by trace.
    fn run_each(&self) -> Result<(), CliError> {
        let compared = |file: &PathBuf| {
            let comparison = self.report(&self.traces.of_file(file))?;
            comparison.inputs.iter().for_each(warn_of);
            let warn = |warning| output::warn(&format!("{}: {warning}", file.display()));
            comparison.warnings.iter().for_each(warn);
            Ok(TraceComparison { trace: file.display().to_string(), comparison })
        };
        let traces = self.traces.files.iter().map(compared).collect::<Result<_, CliError>>()?;
        let report = EachReport::new(self.size_words(), traces);
        let is_shown = !self.table.outputs().any(is_to_standard_output);
        let shown = if is_shown { output::write(&compare_each::text(&report)) } else { Ok(()) };
        shown.and(self.table.write(&report, || compare_each::rows(&report)))
    }

    /// The comparison of these traces together.
    fn report(&self, traces: &TraceArgs) -> Result<CompareReport, CliError> {
        let planned = self.plan.as_deref().map(|path| self.planned(path)).transpose()?;
        let schemes = self.schemes.iter().map(|text| parse_scheme(text)).collect::<Result<_, _>>()?;
        let footprint_bytes = self.footprint_bytes(traces)?;
        let sizes = || self.sizes(footprint_bytes.unwrap_or(0));
        let options = CompareOptions {
            schemes: ComparedSchemes::new(schemes),
            sizes: planned.as_ref().map_or_else(sizes, |planned| Ok(vec![planned.levels()]))?,
            planned,
            block_size: traces.block,
            host: self.devices.host()?,
            threads: traces.threads(),
            memory_bytes: traces.memory,
        };
        let meter = Meter::new();
        let cells = compare(&|| traces.open(), &options, &|progress| meter.update(progress))?;
        drop(meter);
        let mut report = CompareReport::new(&cells, &options);
        report.footprint_bytes = footprint_bytes;
        if let Some(bytes) = footprint_bytes {
            let footprint = show_size(bytes);
            report.notes.push(format!("Per cent are of the {footprint} that the traces read or write"));
        }
        if let Some(baseline) = &self.baseline {
            report.set_baseline(baseline)?;
        }
        Ok(report)
    }

    /// The shares of the plan in `path`.
    fn planned(&self, path: &Path) -> Result<PlannedShares, CliError> {
        let failed = |error: std::io::Error| {
            CliError::Failure(format!("Cannot read {}: {error}; check path and rights", path.display()))
        };
        let mut text = String::new();
        // One more than allowed, so that a larger file is refused and not cut.
        let file = File::open(path).map_err(failed)?;
        file.take(MAX_PLAN_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > MAX_PLAN_BYTES {
            let most = show_size(MAX_PLAN_BYTES);
            let path = path.display();
            return Err(CliError::Usage(format!("{path} is larger than {most}; plan for fewer VMs at once")));
        }
        let in_file = |error| match error {
            PlanError::Request(message) => CliError::Usage(format!("{}: {message}", path.display())),
            other => other.into(),
        };
        PlannedShares::parse(&text, self.traces.block.bytes()).map_err(in_file)
    }

    /// Sizes that go together, as they were asked for.
    fn size_words(&self) -> Vec<String> {
        let lists = [("DRAM", &self.dram), ("SSD", &self.ssd), ("read SSD", &self.read_ssd)];
        let count = lists.iter().map(|(_, sizes)| sizes.len()).max().unwrap_or(0);
        let words = |index: usize| {
            let of_level = |(level, sizes): &(&str, &Vec<LevelSize>)| {
                let size = sizes.get(index).or(sizes.first())?;
                Some(format!("{level} {size}"))
            };
            lists.iter().filter_map(of_level).collect::<Vec<_>>().join(", ")
        };
        (0..count).map(words).collect()
    }

    /// Bytes that the traces touch, where a size is in per cent of them.
    fn footprint_bytes(&self, traces: &TraceArgs) -> Result<Option<u64>, CliError> {
        let mut sizes = self.dram.iter().chain(&self.ssd).chain(&self.read_ssd);
        let is_needed = sizes.any(|size| matches!(size, LevelSize::Percent(_)));
        is_needed.then(|| footprint_bytes(&traces.files, &traces.read.options())).transpose()
    }

    /// Sizes that go together.
    fn sizes(&self, footprint_bytes: u64) -> Result<Vec<LevelBytes>, CliError> {
        let lists =
            [("--dram", &self.dram[..]), ("--ssd", &self.ssd[..]), ("--read-ssd", &self.read_ssd[..])];
        pair_sizes(lists, footprint_bytes, self.traces.block).map_err(CliError::Usage)
    }
}

/// A scheme at a size, of a comparison and perhaps of one of its traces.
pub(super) struct CsvRow<'a> {
    pub trace: &'a str,
    pub report: &'a CompareReport,
    pub cell: &'a CellReport,
}

impl CsvRow<'_> {
    fn against(&self, value: fn(&Against) -> Option<f64>) -> String {
        cell(self.cell.against.as_ref().and_then(value))
    }
}

/// The columns of a comparison.
pub(super) fn csv_columns<'a>() -> Columns<CsvRow<'a>, 17> {
    [
        ("scheme", |row| row.report.schemes[row.cell.scheme].label.clone()),
        ("dram_bytes", |row| row.cell.levels.dram_bytes.to_string()),
        ("ssd_bytes", |row| row.cell.levels.ssd_bytes.to_string()),
        ("read_ssd_bytes", |row| row.cell.levels.read_ssd_bytes.to_string()),
        ("cost_usd", |row| row.cell.cost_usd.to_string()),
        ("hit_ratio", |row| cell(row.cell.hit_ratio)),
        ("read_hit_ratio", |row| cell(row.cell.read_hit_ratio)),
        ("mean_latency_us", |row| cell(row.cell.mean_latency_us)),
        ("ssd_written_bytes", |row| row.cell.ssd_written_bytes.to_string()),
        ("read_ssd_written_bytes", |row| row.cell.read_ssd_written_bytes.to_string()),
        ("ssd_life_years", |row| cell(row.cell.ssd_life_years)),
        ("read_ssd_life_years", |row| cell(row.cell.read_ssd_life_years)),
        ("energy_j", |row| cell(row.cell.energy_j)),
        ("dirty_loss_per_year", |row| cell(row.cell.dirty_loss_per_year)),
        ("cwf", |row| cell(row.cell.cwf)),
        ("miss_ratio_reduction", |row| row.against(|one| one.miss_ratio_reduction)),
        ("latency_reduction", |row| row.against(|one| one.latency_reduction)),
    ]
}

/// A row for each scheme at each size.
fn csv_rows(report: &CompareReport) -> Rows {
    Rows::of(&csv_columns(), report.cells.iter().map(|cell| CsvRow { trace: "", report, cell }))
}

fn text_of(report: &CompareReport) -> String {
    let drives = report.cells.iter().find_map(|cell| cell.drives.as_ref());
    let shape = Shape {
        has_times: InputReport::all_have_times(&report.inputs),
        has_read_ssd: report.cells.iter().any(|cell| cell.levels.read_ssd_bytes > 0),
        has_drives: drives.is_some(),
    };
    let rows: Vec<_> = (0..report.sizes.len())
        .flat_map(|size| report.cells.iter().filter(move |cell| cell.size == size))
        .map(|cell| columns(cell, &report.schemes[cell.scheme].label, shape))
        .collect();
    let titles: Vec<_> = rows.iter().take(1).flatten().map(|(title, _)| *title).collect();
    let mut table = output::table(&titles, 1);
    for row in rows {
        table.add_row(row.into_iter().map(|(_, cell)| cell));
    }
    format!(
        "Devices '{}'{}, each request alone, blocks of {}, {}\n{table}\n",
        report.devices,
        drives
            .map(|drives| format!(", drives '{}' at their price of {}", drives.drive, drives.price_date))
            .unwrap_or_default(),
        show_size(report.block_bytes),
        report.mapping.in_words()
    )
}

/// How the reduction of misses is spread over the VMs, where there are several.
fn spread_text(report: &CompareReport) -> String {
    let Some(baseline) = &report.baseline else { return String::new() };
    let titles = ["scheme", "DRAM", "SSD", "VMs", "mean %", "p10 %", "p50 %", "p90 %"];
    let mut table = output::table(&titles, 1);
    let mut has_rows = false;
    for one in report.cells.iter().filter(|one| report.schemes[one.scheme].label != *baseline) {
        let spread = one.against.as_ref().and_then(|against| against.over_vms);
        let Some(spread) = spread.filter(|spread| spread.count > 1) else { continue };
        has_rows = true;
        let size = |bytes: u64| if bytes == 0 { "-".to_owned() } else { show_size(bytes) };
        let shares = [spread.mean, spread.p10, spread.p50, spread.p90].map(|share| percent(Some(share)));
        let mut row = vec![report.schemes[one.scheme].label.clone()];
        row.extend([size(one.levels.dram_bytes), size(one.levels.ssd_bytes), spread.count.to_string()]);
        row.extend(shares);
        table.add_row(row);
    }
    if !has_rows {
        return String::new();
    }
    format!("Fewer misses than with {baseline}, over the VMs, each counting the same:\n{table}\n")
}

fn notes_text(notes: &[String]) -> String {
    notes.iter().map(|note| format!("{note}.\n")).collect()
}

/// Which columns there are.
#[derive(Clone, Copy)]
struct Shape {
    has_times: bool,
    has_read_ssd: bool,
    has_drives: bool,
}

/// One row, with the titles of its columns.
fn columns(cell: &CellReport, label: &str, shape: Shape) -> Vec<(&'static str, String)> {
    let level = |bytes: u64| if bytes == 0 { "-".to_owned() } else { show_size(bytes) };
    let life = |years: Option<f64>| years.map_or("-".to_owned(), show_life);
    let mut row = vec![
        ("scheme", label.to_owned()),
        ("DRAM", level(cell.levels.dram_bytes)),
        ("SSD", level(cell.levels.ssd_bytes)),
    ];
    if shape.has_drives {
        row.push(("drives", cell.drives.as_ref().map_or(0, |drives| drives.count).to_string()));
    }
    if shape.has_read_ssd {
        row.push(("read SSD", level(cell.levels.read_ssd_bytes)));
    }
    row.extend([
        ("accesses hit %", percent(cell.hit_ratio)),
        ("reads hit %", percent(cell.read_hit_ratio)),
        ("us/request", number(cell.mean_latency_us, 1)),
        ("SSD written", show_size(cell.ssd_written_bytes)),
    ]);
    if shape.has_read_ssd {
        row.push(("read SSD written", level(cell.read_ssd_written_bytes)));
    }
    row.push(("per write", number(cell.cwf, 3)));
    if shape.has_times {
        row.push(("SSD life", life(cell.ssd_life_years)));
        if shape.has_read_ssd {
            row.push(("read SSD life", life(cell.read_ssd_life_years)));
        }
        row.push(("energy J", number(cell.energy_j, 0)));
    }
    if let Some(against) = &cell.against {
        row.push(("fewer misses %", percent(against.miss_ratio_reduction)));
        row.push(("less time %", percent(against.latency_reduction)));
    }
    row.push(("cost usd", dollars(cell.cost_usd)));
    row
}
