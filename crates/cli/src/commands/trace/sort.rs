//! `lode trace sort`: requests in order of time, whatever their number.

use std::path::{Path, PathBuf};

use clap::Args;
use lode_replay::InputReport;
use lode_trace::{ReadProgress, SortBy, Sorted, Sorter, create_compact_with, open_trace};
use serde::Serialize;

use super::summary::{Summary, check_summary, warn_of_shared};
use crate::amounts::{parse_size, show_count, show_size};
use crate::arguments::{ReadArgs, warn_of_skips};
use crate::error::CliError;
use crate::progress::{Bar, Steps};
use crate::results::JsonArgs;
use crate::target::{OutArgs, Target};

/// Put the requests of one or more traces in order of time
#[derive(Args)]
#[command(after_help = "\
Example: lode trace sort day1.csv.gz day2.csv.gz -o days.lode

Requests of the same time keep the order in which they are read, one trace after the other. What does not fit the memory
goes to a temporary file of about 8 bytes a request. Volumes of the same name in several traces become one.")]
pub struct SortCommand {
    /// The traces to read, compressed or not; - is standard input.
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,

    #[command(flatten)]
    out: OutArgs,

    #[command(flatten)]
    space: SpaceArgs,

    #[command(flatten)]
    json: JsonArgs,

    #[command(flatten)]
    read: ReadArgs,
}

/// What sorting may take.
#[derive(Args)]
pub struct SpaceArgs {
    /// Memory for requests, at least 1MiB.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size)]
    memory: u64,

    /// Folder for temporary data, instead of that of the output.
    #[arg(long, value_name = "FOLDER")]
    temp: Option<PathBuf>,
}

impl SpaceArgs {
    /// A sorter that keeps to it; `folder` is the output's.
    pub fn sorter(&self, by: SortBy, folder: &Path) -> Result<Sorter, CliError> {
        if self.memory < lode_trace::limits::MIN_SORT_MEMORY_BYTES {
            return Err(CliError::Usage("--memory is less than 1MiB; give more".to_owned()));
        }
        Ok(Sorter::new(by, self.temp.as_deref().unwrap_or(folder), self.memory)?)
    }
}

/// What the summary adds.
#[derive(Serialize)]
struct Effort {
    runs: u64,
    temporary_bytes: u64,
}

impl SortCommand {
    /// Reads, sorts and writes.
    pub fn run(&self) -> Result<(), CliError> {
        let target = Target::compact(&self.out.output, &self.traces)?;
        check_summary(&self.json, &self.out.output, &self.traces)?;
        let mut sorter = self.space.sorter(SortBy::Time, &target.folder())?;
        let inputs = read_all(&mut sorter, &self.traces, &self.read)?;
        let mut bar = Steps::new("Merging");
        let mut sorted = sorter.finish(|progress| bar.update(progress))?;
        let volumes = sorted.volumes().len();
        target.fill(|path| write(&mut sorted, &mut bar, path))?;
        drop(bar);
        inputs.iter().for_each(warn_of_skips);
        warn_of_shared(sorted.shared_volumes());
        let backwards: u64 = inputs.iter().map(|input| input.backwards).sum();
        let mut more = format!("; {} came earlier than the one before", show_count(backwards, "request"));
        if sorted.runs() > 0 {
            let bytes = show_size(sorted.temporary_bytes());
            more += &format!("; {} in {bytes} of temporary data", show_count(sorted.runs(), "sorted run"));
        }
        let effort = Effort { runs: sorted.runs(), temporary_bytes: sorted.temporary_bytes() };
        Summary::new(&self.out.output, sorted.requests(), volumes, inputs, effort).write(&self.json, &more)
    }
}

/// Reads the traces one after the other.
pub fn read_all(
    sorter: &mut Sorter,
    traces: &[PathBuf],
    read: &ReadArgs,
) -> Result<Vec<InputReport>, CliError> {
    let mut bar = Bar::new("Reading");
    let options = read.options();
    // What is still to be read counts, too, so that the time left is that of all.
    let mut progress: Vec<_> = traces.iter().map(|trace| unread(trace)).collect();
    let mut inputs = Vec::new();
    for (index, trace) in traces.iter().enumerate() {
        let mut reader = open_trace(trace, &options)?;
        sorter.read(&mut reader, |reader| {
            progress[index] = reader.progress();
            bar.update(progress.iter().copied());
        })?;
        inputs.push(InputReport::of(&reader));
    }
    Ok(inputs)
}

fn unread(trace: &Path) -> ReadProgress {
    let facts = trace.metadata().ok().filter(|facts| facts.is_file());
    ReadProgress { read_bytes: 0, total_bytes: facts.map(|facts| facts.len()) }
}

fn write(sorted: &mut Sorted, bar: &mut Steps, path: &Path) -> Result<(), CliError> {
    let mut writer = create_compact_with(path, sorted.recorded())?;
    let mut batch = Vec::new();
    while sorted.next_batch(&mut batch)? > 0 {
        writer.write(sorted.volumes(), &batch)?;
        bar.update(sorted.progress());
    }
    // A trace without requests has volumes, too.
    writer.write(sorted.volumes(), &[])?;
    Ok(writer.close()?)
}
