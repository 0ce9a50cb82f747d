//! Arguments that several commands share.

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use lode_replay::InputReport;
use lode_trace::ReadOptions;

use crate::output::warn;

/// How to read traces.
#[derive(Args)]
pub struct ReadArgs {
    /// Format of the traces, instead of finding it out.
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(lode_trace::formats().map(|f| f.name)))]
    pub format: Option<String>,

    /// What to do with a record that cannot be understood.
    #[arg(long, value_name = "WHAT", default_value = "stop")]
    pub on_error: OnError,
}

/// See [`lode_trace::OnError`].
#[derive(Clone, Copy, ValueEnum)]
pub enum OnError {
    /// Make it an error that names the file and the line.
    Stop,
    /// Count it, say how many there were and where the first ones are, and go on.
    Skip,
}

impl ReadArgs {
    /// The same for the library.
    pub fn options(&self) -> ReadOptions {
        ReadOptions {
            format: self.format.clone(),
            on_error: match self.on_error {
                OnError::Stop => lode_trace::OnError::Stop,
                OnError::Skip => lode_trace::OnError::Skip,
            },
        }
    }
}

/// Tells what did not become a request, or came out of order.
pub fn warn_of(input: &InputReport) {
    for records in &input.bad_records {
        let places: Vec<_> = records
            .first
            .iter()
            .map(|place| match place.line {
                Some(line) => format!("line {line}"),
                None => format!("byte {}", place.byte),
            })
            .collect();
        let more = if (places.len() as u64) < records.count { ", ..." } else { "" };
        let kind = records.kind.replace('_', " ");
        warn(&format!("{}: {} skipped: {kind}; {}{more}", input.path, records.count, places.join(", ")));
    }
    if input.other_commands > 0 {
        warn(&format!(
            "{}: {} commands that are no reads or writes passed over",
            input.path, input.other_commands
        ));
    }
    if input.backwards > 0 {
        warn(&format!("{}: {} requests are earlier than the one before them", input.path, input.backwards));
    }
}
