//! `lode trace split`: one file for each volume.

use std::path::{Path, PathBuf};

use clap::Args;
use lode_replay::InputReport;
use lode_trace::{SortBy, Sorted, file_names, write_each_volume};
use serde::Serialize;

use super::sort::{SpaceArgs, read_all};
use crate::amounts::show_count;
use crate::arguments::{ReadArgs, inputs_text, warn_of};
use crate::error::CliError;
use crate::interrupt::Unfinished;
use crate::progress::Steps;
use crate::results::JsonArgs;
use crate::target::{Target, check_outputs};

/// Write each volume of a trace to a file of its own
#[derive(Args)]
#[command(after_help = "\
Example: lode trace split host.csv.gz -o volumes/

Files are named after the volumes, with _ for characters that are not safe in file names, and a number where two would
be the same. They appear when all are complete; if one cannot be written, none of them does.")]
pub struct SplitCommand {
    /// The trace to read, compressed or not; - is standard input.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// The folder to write to, which is made if it is not there.
    #[arg(long, short, value_name = "FOLDER")]
    output: PathBuf,

    /// Replace files that are there.
    #[arg(long)]
    force: bool,

    /// Compress the files.
    #[arg(long)]
    zstd: bool,

    #[command(flatten)]
    space: SpaceArgs,

    #[command(flatten)]
    json: JsonArgs,

    #[command(flatten)]
    read: ReadArgs,
}

/// The JSON form, as `docs/reports.md` describes it.
#[derive(Serialize)]
struct SplitSummary<'a> {
    output: String,
    requests: u64,
    volumes: u64,
    inputs: Vec<InputReport>,
    files: Vec<FileEntry<'a>>,
}

#[derive(Serialize)]
struct FileEntry<'a> {
    path: String,
    volume: &'a str,
    requests: u64,
}

impl SplitCommand {
    /// Reads, puts the volumes apart and writes them.
    pub fn run(&self) -> Result<(), CliError> {
        check_outputs(&[&self.trace], &self.json.outputs().collect::<Vec<_>>())?;
        let made = !self.output.exists();
        let _unfinished = made.then(|| Unfinished::new(&self.output));
        std::fs::create_dir_all(&self.output).map_err(|error| {
            CliError::Failure(format!(
                "Cannot make the folder {}: {error}; check its path and rights",
                self.output.display()
            ))
        })?;
        let done = self.split();
        if made && done.is_err() {
            // Only an empty folder goes; one that something else was put into stays.
            std::fs::remove_dir(&self.output).ok();
        }
        done
    }

    fn split(&self) -> Result<(), CliError> {
        let mut sorter = self.space.sorter(SortBy::Volume, &self.output)?;
        let inputs = read_all(&mut sorter, std::slice::from_ref(&self.trace), &self.read)?;
        let mut bar = Steps::new("Splitting");
        let mut sorted = sorter.finish(|progress| bar.update(progress))?;
        let targets = self.targets(&sorted)?;
        write_all(&mut sorted, &targets, &mut bar)?;
        drop(bar);
        inputs.iter().for_each(warn_of);
        self.tell(&sorted, &targets, inputs)
    }

    /// A target for each volume that has requests.
    fn targets(&self, sorted: &Sorted) -> Result<Vec<Option<(PathBuf, Target)>>, CliError> {
        let ending = if self.zstd { "lode.zst" } else { "lode" };
        let names = file_names(sorted.volumes()).into_iter().zip(sorted.volume_requests());
        let target = |(name, &requests): (String, &u64)| {
            if requests == 0 {
                return Ok(None);
            }
            let path = self.output.join(format!("{name}.{ending}"));
            let target = Target::compact(&path, &[&self.trace])?;
            if !self.force && path.symlink_metadata().is_ok() {
                let message = format!("{} is there already; --force replaces it", path.display());
                return Err(CliError::Usage(message));
            }
            Ok(Some((path, target)))
        };
        names.map(target).collect()
    }

    fn tell(
        &self,
        sorted: &Sorted,
        targets: &[Option<(PathBuf, Target)>],
        inputs: Vec<InputReport>,
    ) -> Result<(), CliError> {
        let mut files = Vec::new();
        for (volume, target) in targets.iter().enumerate() {
            if let Some((path, _)) = target {
                let (name, requests) = (&sorted.volumes()[volume], sorted.volume_requests()[volume]);
                files.push(FileEntry { path: path.display().to_string(), volume: name, requests });
            }
        }
        let (output, requests, volumes) =
            (self.output.display().to_string(), sorted.requests(), files.len() as u64);
        let text = format!(
            "Wrote {} of {} to {} in {output}\n{}",
            show_count(requests, "request"),
            show_count(volumes, "volume"),
            show_count(volumes, "file"),
            inputs_text(&inputs)
        );
        self.json.write(&SplitSummary { output, requests, volumes, inputs, files }, || text)
    }
}

/// Writes all files, and makes them appear when all are complete.
fn write_all(
    sorted: &mut Sorted,
    targets: &[Option<(PathBuf, Target)>],
    bar: &mut Steps,
) -> Result<(), CliError> {
    let path_of = |volume: u32| {
        // Every volume with requests has a target.
        targets[volume as usize].as_ref().map_or(Path::new(""), |(_, target)| &target.written)
    };
    let targets = || targets.iter().flatten().map(|(_, target)| target);
    let written = write_each_volume(sorted, path_of, |progress| bar.update(progress))
        .map_err(CliError::from)
        .and_then(|()| targets().try_for_each(Target::publish));
    written.inspect_err(|_| targets().for_each(Target::discard))
}
