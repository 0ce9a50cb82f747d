//! `lode trace convert`: any trace in, the compact format out.

use std::path::{Path, PathBuf};

use clap::Args;
use lode_replay::InputReport;
use lode_trace::{CompactOutput, CompactWriter, Reader, create_compact, open_trace};

use super::target::Target;
use crate::arguments::{ReadArgs, warn_of};
use crate::error::CliError;
use crate::output;
use crate::progress::Bar;
use crate::size::show_count;

/// Convert a trace to the compact format, which is read many times faster
#[derive(Args)]
#[command(after_help = "\
Example: lode trace convert web.csv.gz web.lode.zst

OUT is named NAME.lode, or NAME.lode.zst to be compressed. It appears, or is replaced, only once it is complete.")]
pub struct ConvertCommand {
    /// The trace to read, compressed or not; - is standard input.
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// The file to write: NAME.lode or NAME.lode.zst.
    #[arg(value_name = "OUT")]
    output: PathBuf,

    #[command(flatten)]
    read: ReadArgs,
}

impl ConvertCommand {
    /// Reads one and writes the other.
    pub fn run(&self) -> Result<(), CliError> {
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
