//! `lode trace info`: what a trace holds.

use std::path::{Path, PathBuf};

use clap::Args;
use lode_replay::InputReport;
use lode_trace::{InfoCollector, SpanInfo, TraceInfo, VolumeInfo, open_trace};
use serde::Serialize;

use crate::amounts::{show_count, show_size};
use crate::arguments::{ReadArgs, inputs_text, warn_of};
use crate::error::CliError;
use crate::output::{self, number, percent};
use crate::progress::Bar;
use crate::results::{Columns, Rows, TableArgs, cell, is_to_standard_output};
use crate::target::check_traces;

/// Volumes shown in the table; the JSON form has all of them.
const MAX_TABLE_VOLUMES: usize = 40;

/// Describe a trace: requests, sizes, footprint, re-references, time span
#[derive(Args)]
#[command(after_help = "\
Examples:
  lode trace info web.csv.gz
  lode trace info *.csv.gz --csv=traces.csv")]
pub struct InfoCommand {
    /// The traces, each by itself, compressed or not; - is standard input.
    #[arg(value_name = "TRACE", required = true)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    read: ReadArgs,
}

impl InfoCommand {
    /// Reads the traces and tells.
    pub fn run(&self) -> Result<(), CliError> {
        let inputs: Vec<&Path> = self.files.iter().map(PathBuf::as_path).collect();
        check_traces(&inputs, &self.table.outputs().collect::<Vec<_>>())?;
        let is_shown = !self.table.outputs().any(is_to_standard_output);
        let mut described = Vec::with_capacity(self.files.len());
        for file in &self.files {
            let (info, input) = self.describe(file)?;
            warn_of(&input);
            // A long trace does not hold back what is known of the others.
            if is_shown {
                output::write(&self.text(&info, &input, described.is_empty()))?;
            }
            described.push((info, input));
        }
        let entries: Vec<_> = described.iter().map(|(info, input)| InfoEntry::new(info, input)).collect();
        let rows = || csv_rows(&described);
        match &entries[..] {
            [entry] => self.table.write(entry, rows),
            entries => self.table.write(&entries, rows),
        }
    }

    fn describe(&self, file: &Path) -> Result<(TraceInfo, InputReport), CliError> {
        let mut reader = open_trace(file, &self.read.options())?;
        let mut collector = InfoCollector::default();
        let mut batch = Vec::new();
        let mut bar = Bar::new("Reading");
        while reader.next_batch(&mut batch)? > 0 {
            collector.add(&reader, &batch)?;
            bar.update([reader.progress()].into_iter());
        }
        drop(bar);
        Ok((collector.finish(&reader), InputReport::of(&reader)))
    }

    /// What is told of one trace; of several, each has its name above it.
    fn text(&self, info: &TraceInfo, input: &InputReport, is_first: bool) -> String {
        let gap = if is_first { "" } else { "\n" };
        let heading = if self.files.len() > 1 { format!("{gap}{}\n", input.path) } else { String::new() };
        heading + &info_text(info) + &inputs_text(std::slice::from_ref(input))
    }
}

/// The JSON form of `lode trace info`, as `docs/reports.md` describes it.
#[derive(Serialize)]
struct InfoEntry<'a> {
    input: &'a InputReport,
    /// What it tells of who asks.
    tells: Vec<&'static str>,
    first_ns: Option<u64>,
    last_ns: Option<u64>,
    usual_first_ns: Option<u64>,
    usual_last_ns: Option<u64>,
    stray_times: usize,
    sizes: Option<SizesEntry>,
    total: VolumeEntry<'a>,
    volumes: Vec<VolumeEntry<'a>>,
}

#[derive(Serialize)]
struct SizesEntry {
    min_bytes: u32,
    mean_bytes: f64,
    p50_bytes: u32,
    p90_bytes: u32,
    max_bytes: u32,
    top: Vec<SizeEntry>,
}

#[derive(Serialize)]
struct SizeEntry {
    bytes: u32,
    requests: u64,
}

#[derive(Serialize)]
struct VolumeEntry<'a> {
    name: &'a str,
    requests: u64,
    reads: u64,
    writes: u64,
    trims: u64,
    flushes: u64,
    read_bytes: u64,
    written_bytes: u64,
    trimmed_bytes: u64,
    block_touches: u64,
    distinct_blocks: u64,
    footprint_bytes: u64,
    re_reference_share: Option<f64>,
}

impl<'a> InfoEntry<'a> {
    fn new(info: &'a TraceInfo, input: &'a InputReport) -> InfoEntry<'a> {
        let sizes = info.sizes.as_ref().map(|sizes| SizesEntry {
            min_bytes: sizes.min_bytes,
            mean_bytes: sizes.mean_bytes,
            p50_bytes: sizes.p50_bytes,
            p90_bytes: sizes.p90_bytes,
            max_bytes: sizes.max_bytes,
            top: sizes.top.iter().map(|&(bytes, requests)| SizeEntry { bytes, requests }).collect(),
        });
        InfoEntry {
            input,
            tells: info.origins.names(),
            first_ns: info.span.map(|span| span.first_ns),
            last_ns: info.span.map(|span| span.last_ns),
            usual_first_ns: info.span.map(|span| span.usual_first_ns),
            usual_last_ns: info.span.map(|span| span.usual_last_ns),
            stray_times: info.span.map_or(0, |span| span.stray_requests),
            sizes,
            total: VolumeEntry::new(&info.total),
            volumes: info.volumes.iter().map(VolumeEntry::new).collect(),
        }
    }
}

impl VolumeEntry<'_> {
    fn new(info: &VolumeInfo) -> VolumeEntry<'_> {
        VolumeEntry {
            name: &info.name,
            requests: info.requests,
            reads: info.reads,
            writes: info.writes,
            trims: info.trims,
            flushes: info.flushes,
            read_bytes: info.read_bytes,
            written_bytes: info.written_bytes,
            trimmed_bytes: info.trimmed_bytes,
            block_touches: info.block_touches,
            distinct_blocks: info.distinct_blocks,
            footprint_bytes: info.footprint_bytes(),
            re_reference_share: info.re_reference_share(),
        }
    }
}

/// A volume of a trace.
struct CsvRow<'a> {
    path: &'a str,
    format: &'static str,
    volume: &'a VolumeInfo,
}

/// A row for each volume of each trace.
fn csv_rows(described: &[(TraceInfo, InputReport)]) -> Rows {
    let columns: Columns<CsvRow<'_>, 15> = [
        ("path", |row| row.path.to_owned()),
        ("format", |row| row.format.to_owned()),
        ("name", |row| row.volume.name.clone()),
        ("requests", |row| row.volume.requests.to_string()),
        ("reads", |row| row.volume.reads.to_string()),
        ("writes", |row| row.volume.writes.to_string()),
        ("trims", |row| row.volume.trims.to_string()),
        ("flushes", |row| row.volume.flushes.to_string()),
        ("read_bytes", |row| row.volume.read_bytes.to_string()),
        ("written_bytes", |row| row.volume.written_bytes.to_string()),
        ("trimmed_bytes", |row| row.volume.trimmed_bytes.to_string()),
        ("block_touches", |row| row.volume.block_touches.to_string()),
        ("distinct_blocks", |row| row.volume.distinct_blocks.to_string()),
        ("footprint_bytes", |row| row.volume.footprint_bytes().to_string()),
        ("re_reference_share", |row| cell(row.volume.re_reference_share())),
    ];
    let rows = described.iter().flat_map(|(info, input)| {
        info.volumes.iter().map(|volume| CsvRow { path: &input.path, format: info.format, volume })
    });
    Rows::of(&columns, rows)
}

fn info_text(info: &TraceInfo) -> String {
    let mut text = format!("Format {}", info.format);
    let told = info.origins.names();
    if !told.is_empty() {
        text += &format!(", tells {}", told.join(", "));
    }
    if let Some(span) = &info.span {
        text += &format!(", {}", span_text(span));
    }
    if let Some(sizes) = &info.sizes {
        text += &format!(
            ", requests of {} to {}, mean {}",
            show_size(sizes.min_bytes.into()),
            show_size(sizes.max_bytes.into()),
            show_size(sizes.mean_bytes.round() as u64)
        );
        let top: Vec<_> = sizes
            .top
            .iter()
            .map(|&(bytes, count)| format!("{} ({count})", show_size(bytes.into())))
            .collect();
        text += &format!("\nCommonest sizes: {}", top.join(", "));
    }
    let titles = [
        "volume",
        "requests",
        "reads %",
        "trims",
        "flushes",
        "read",
        "written",
        "footprint",
        "4 KiB re-used %",
    ];
    let mut table = output::table(&titles, 1);
    for volume in info.volumes.iter().take(MAX_TABLE_VOLUMES) {
        table.add_row(volume_row(&volume.name, volume));
    }
    if info.volumes.len() != 1 {
        table.add_row(volume_row("all", &info.total));
    }
    text += &format!("\n{table}\n");
    if info.volumes.len() > MAX_TABLE_VOLUMES {
        let more = show_count((info.volumes.len() - MAX_TABLE_VOLUMES) as u64, "more volume");
        text += &format!("{more}; --json shows them all.\n");
    }
    text
}

/// How long a trace is; with and without the times that look like slips.
fn span_text(span: &SpanInfo) -> String {
    let seconds = |first_ns: u64, last_ns: u64| format!("{:.3} s", (last_ns - first_ns) as f64 / 1e9);
    let usual = seconds(span.usual_first_ns, span.usual_last_ns);
    if span.stray_requests == 0 {
        return usual;
    }
    format!(
        "{usual} without {} far from the rest ({} with)",
        show_count(span.stray_requests as u64, "time"),
        seconds(span.first_ns, span.last_ns)
    )
}

fn volume_row(name: &str, info: &VolumeInfo) -> [String; 9] {
    [
        name.to_owned(),
        info.requests.to_string(),
        percent(info.read_share()),
        info.trims.to_string(),
        info.flushes.to_string(),
        show_size(info.read_bytes),
        show_size(info.written_bytes),
        show_size(info.footprint_bytes()),
        number(info.re_reference_share().map(|share| 100.0 * share), 2),
    ]
}
