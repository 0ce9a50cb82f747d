//! `lode trace`: facts about traces, and their conversion.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use lode_replay::InputReport;
use lode_trace::{
    CompactOutput, CompactWriter, InfoCollector, Reader, SpanInfo, TraceInfo, VolumeInfo, create_compact,
    is_compact_name, open_trace,
};
use serde::Serialize;

use crate::arguments::{ReadArgs, warn_of};
use crate::error::CliError;
use crate::output::{self, number, percent};
use crate::progress::Bar;
use crate::size::{show_count, show_size};

/// Volumes shown in the table; the JSON form has all of them.
const MAX_TABLE_VOLUMES: usize = 40;

/// Describe and convert block traces
#[derive(Args)]
pub struct TraceCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Info(InfoCommand),
    Convert(ConvertCommand),
}

/// Describe a trace: requests, sizes, footprint, re-references, time span
#[derive(Args)]
#[command(after_help = "Example: lode trace info web.csv.gz")]
struct InfoCommand {
    /// The trace, compressed or not; - is standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Write JSON instead of text.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    read: ReadArgs,
}

/// Convert a trace to the compact format, which is read many times faster
#[derive(Args)]
#[command(after_help = "\
Example: lode trace convert web.csv.gz web.lode.zst

OUT is named NAME.lode, or NAME.lode.zst to be compressed. It appears, or is replaced, only once it is complete.")]
struct ConvertCommand {
    /// The trace to read, compressed or not; - is standard input.
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// The file to write: NAME.lode or NAME.lode.zst.
    #[arg(value_name = "OUT")]
    output: PathBuf,

    #[command(flatten)]
    read: ReadArgs,
}

impl TraceCommand {
    /// Does what was chosen.
    pub fn run(&self) -> Result<(), CliError> {
        match &self.action {
            Action::Info(command) => command.run(),
            Action::Convert(command) => command.run(),
        }
    }
}

impl InfoCommand {
    fn run(&self) -> Result<(), CliError> {
        let mut reader = open_trace(&self.file, &self.read.options())?;
        let mut collector = InfoCollector::default();
        let mut batch = Vec::new();
        let mut bar = Bar::new("Reading");
        while reader.next_batch(&mut batch)? > 0 {
            collector.add(&reader, &batch)?;
            bar.update([reader.progress()].into_iter());
        }
        drop(bar);
        let info = collector.finish(&reader);
        let input = InputReport::of(&reader);
        warn_of(&input);
        if self.json {
            output::write_json(&InfoEntry::new(&info, input))
        } else {
            output::write(&info_text(&info))
        }
    }
}

/// The JSON form of `lode trace info`, as `docs/reports.md` describes it.
#[derive(Serialize)]
struct InfoEntry<'a> {
    input: InputReport,
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

impl InfoEntry<'_> {
    fn new(info: &TraceInfo, input: InputReport) -> InfoEntry<'_> {
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

fn info_text(info: &TraceInfo) -> String {
    let mut text = format!("Format {}", info.format);
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

impl ConvertCommand {
    fn run(&self) -> Result<(), CliError> {
        let target = Target::new(&self.output)?;
        let mut reader = open_trace(&self.input, &self.read.options())?;
        let requests = convert(&mut reader, &target.written).and_then(|requests| {
            target.publish()?;
            Ok(requests)
        });
        let requests = requests.inspect_err(|_| target.discard())?;
        warn_of(&InputReport::of(&reader));
        output::write(&format!(
            "Wrote {} of {} to {}\n",
            show_count(requests, "request"),
            show_count(reader.volumes().len() as u64, "volume"),
            self.output.display()
        ))
    }
}

fn convert(reader: &mut Reader, path: &Path) -> Result<u64, CliError> {
    let mut writer: CompactWriter<CompactOutput> = create_compact(path)?;
    let mut batch = Vec::new();
    let mut bar = Bar::new("Converting");
    while reader.next_batch(&mut batch)? > 0 {
        writer.write(reader.volumes(), &batch)?;
        bar.update([reader.progress()].into_iter());
    }
    let requests = writer.requests();
    writer.close()?;
    Ok(requests)
}

/// What to say of an output that would not be taken for what is in it.
fn misnamed(wanted: &Path) -> String {
    let has_ending = |endings: &[&str]| {
        wanted
            .extension()
            .is_some_and(|ending| endings.iter().any(|known| ending.eq_ignore_ascii_case(known)))
    };
    let plain = if has_ending(&["gz", "xz", "zst"]) { wanted.with_extension("") } else { wanted.to_owned() };
    let better = plain.with_extension(if has_ending(&["zst"]) { "lode.zst" } else { "lode" });
    format!(
        "OUT is '{}', but what is written is the compact format, plain in NAME.lode or compressed in NAME.lode.zst; \
         write to '{}'",
        wanted.display(),
        better.display()
    )
}

/// Where the output is written until it is complete, and where it goes then.
struct Target {
    written: PathBuf,
    wanted: PathBuf,
}

impl Target {
    /// Next to the output under another name; a device or pipe is written directly, whatever its name.
    fn new(wanted: &Path) -> Result<Target, CliError> {
        let name = wanted.file_name().filter(|name| *name != "-");
        let Some(name) = name.filter(|_| !wanted.is_dir()) else {
            return Err(CliError::Usage(format!(
                "OUT is '{}', which is no file; write a file name",
                wanted.display()
            )));
        };
        let special = wanted.metadata().is_ok_and(|metadata| !metadata.is_file());
        if !special && !is_compact_name(wanted) {
            return Err(CliError::Usage(misnamed(wanted)));
        }
        let mut partial = std::ffi::OsString::from(".partial-");
        partial.push(name);
        let written = if special { wanted.to_owned() } else { wanted.with_file_name(partial) };
        Ok(Target { written, wanted: wanted.to_owned() })
    }

    fn publish(&self) -> Result<(), CliError> {
        if self.written == self.wanted {
            return Ok(());
        }
        std::fs::rename(&self.written, &self.wanted).map_err(|error| {
            CliError::Failure(format!(
                "Cannot create {}: {error}; check folder and rights",
                self.wanted.display()
            ))
        })
    }

    /// Removes what was written so far.
    fn discard(&self) {
        if self.written != self.wanted
            && let Err(error) = std::fs::remove_file(&self.written)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            output::warn(&format!("{} is incomplete and cannot be removed: {error}", self.written.display()));
        }
    }
}
