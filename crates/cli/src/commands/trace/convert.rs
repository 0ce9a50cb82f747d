//! `lode trace convert`: any trace in, the compact format out.

use std::path::{Path, PathBuf};

use clap::Args;
use lode_replay::InputReport;
use lode_trace::{Reader, create_compact_with, open_trace};

use super::summary::{Nothing, Summary, check_summary};
use crate::arguments::{ReadArgs, warn_of};
use crate::error::CliError;
use crate::progress::Bar;
use crate::results::JsonArgs;
use crate::target::{OutArgs, Target};

/// Convert a trace to the compact format, which is read many times faster
#[derive(Args)]
#[command(after_help = "\
Example: lode trace convert web.csv.gz -o web.lode.zst")]
pub struct ConvertCommand {
    /// The trace to read, compressed or not; - is standard input.
    #[arg(value_name = "TRACE")]
    input: PathBuf,

    #[command(flatten)]
    out: OutArgs,

    #[command(flatten)]
    json: JsonArgs,

    #[command(flatten)]
    read: ReadArgs,
}

impl ConvertCommand {
    /// Reads one and writes the other.
    pub fn run(&self) -> Result<(), CliError> {
        let target = Target::compact(&self.out.output, &[&self.input])?;
        check_summary(&self.json, &self.out.output, &[&self.input])?;
        let mut reader = open_trace(&self.input, &self.read.options())?;
        let requests = target.fill(|path| convert(&mut reader, path))?;
        let input = InputReport::of(&reader);
        warn_of(&input);
        let volumes = reader.volumes().len();
        Summary::new(&self.out.output, requests, volumes, vec![input], Nothing {}).write(&self.json, "")
    }
}

fn convert(reader: &mut Reader, path: &Path) -> Result<u64, CliError> {
    let mut writer = create_compact_with(path, reader.recorded())?;
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
