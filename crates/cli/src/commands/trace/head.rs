//! `lode trace head`: the first requests of a trace.

use std::path::{Path, PathBuf};

use clap::Args;
use lode_replay::InputReport;
use lode_trace::{Head, Reader, create_compact_with, open_trace};
use serde::Serialize;

use super::summary::{Summary, check_summary};
use crate::arguments::{ReadArgs, warn_of};
use crate::error::CliError;
use crate::progress::Bar;
use crate::results::JsonArgs;
use crate::target::{OutArgs, Target};

/// Write the first requests of a trace
#[derive(Args)]
#[command(after_help = "Example: lode trace head web.csv.gz -n 100000 -o start.lode")]
pub struct HeadCommand {
    /// The trace to read, compressed or not; - is standard input.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// How many requests to write.
    #[arg(long, short = 'n', value_name = "N")]
    requests: u64,

    #[command(flatten)]
    out: OutArgs,

    #[command(flatten)]
    json: JsonArgs,

    #[command(flatten)]
    read: ReadArgs,
}

/// What the summary adds.
#[derive(Serialize)]
struct Shortage {
    /// How many requests the trace has fewer than were asked for.
    missing: u64,
}

impl HeadCommand {
    /// Reads as far as needed, and writes.
    pub fn run(&self) -> Result<(), CliError> {
        let target = Target::compact(&self.out.output, &[&self.trace])?;
        check_summary(&self.json, &self.out.output, &[&self.trace])?;
        let mut reader = open_trace(&self.trace, &self.read.options())?;
        let mut head = Head::new(self.requests);
        target.fill(|path| copy(&mut reader, &mut head, path))?;
        let input = InputReport::of(&reader);
        warn_of(&input);
        let missing = head.left();
        let more = if missing > 0 { ", which is all there are" } else { "" };
        let volumes = head.volumes().len();
        let requests = self.requests - missing;
        Summary::new(&self.out.output, requests, volumes, vec![input], Shortage { missing })
            .write(&self.json, more)
    }
}

fn copy(reader: &mut Reader, head: &mut Head, path: &Path) -> Result<(), CliError> {
    let mut writer = create_compact_with(path, reader.recorded())?;
    let mut batch = Vec::new();
    let mut bar = Bar::new("Reading");
    while head.left() > 0 && reader.next_batch(&mut batch)? > 0 {
        head.pass(reader, &mut batch)?;
        writer.write(head.volumes(), &batch)?;
        bar.update([reader.progress()].into_iter());
    }
    Ok(writer.close()?)
}
