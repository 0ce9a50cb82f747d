//! Arguments that several commands share.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use lode_replay::InputReport;
use lode_server::Config;
use lode_trace::ReadOptions;

use crate::amounts::{parse_size, path_word, show_count, show_size};
use crate::error::CliError;
use crate::output::warn;

/// Which daemon.
#[derive(Args)]
pub struct Daemon {
    /// The daemon's configuration file.
    #[arg(value_name = "CONFIG.toml", required_unless_present = "socket")]
    config: Option<PathBuf>,

    /// The daemon's control socket, instead of the one that its configuration names.
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    socket: Option<PathBuf>,
}

impl Daemon {
    /// The daemon of a command whose first word is the configuration file, unless `socket` says where it is. Leaves the other
    /// words.
    pub fn of(words: &mut Vec<String>, socket: Option<PathBuf>) -> Daemon {
        let config = (socket.is_none() && !words.is_empty()).then(|| words.remove(0).into());
        Daemon { config, socket }
    }

    /// Its control socket.
    ///
    /// # Errors
    /// When the configuration cannot be read.
    pub fn control(&self) -> Result<PathBuf, CliError> {
        match (&self.socket, &self.config) {
            (Some(socket), _) => Ok(socket.clone()),
            (None, Some(config)) => Ok(Config::load(config)
                .map_err(|error| {
                    let socket =
                        "a daemon that runs is found without the file by --socket PATH, its `control` key";
                    CliError::Failure(format!("{error}; {socket}"))
                })?
                .control),
            (None, None) => {
                Err(CliError::Usage("Give the daemon's configuration file or --socket".to_owned()))
            }
        }
    }
}

/// How to read traces.
#[derive(Args, Clone)]
pub struct ReadArgs {
    /// Format of the traces, instead of finding it out.
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(lode_trace::formats().map(|f| f.name)))]
    pub format: Option<String>,

    /// What a block number counts, in traces of bare block numbers (`lis`, `u32le`, `oracle-general`).
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub unit: Option<u64>,

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
            unit_bytes: self.unit,
            on_error: match self.on_error {
                OnError::Stop => lode_trace::OnError::Stop,
                OnError::Skip => lode_trace::OnError::Skip,
            },
        }
    }
}

/// Names of traces that a line tells.
const MOST_NAMES: usize = 3;

/// Lines about what was taken for granted of the traces: what block numbers count, and that times are missing.
pub fn inputs_text(inputs: &[InputReport]) -> String {
    let named = |is_meant: &dyn Fn(&InputReport) -> bool| {
        let paths: Vec<_> =
            inputs.iter().filter(|input| is_meant(input)).map(|input| &input.path[..]).collect();
        match paths.len().saturating_sub(MOST_NAMES) {
            0 => paths.join(", "),
            more => format!("{} and {more} more", paths[..MOST_NAMES].join(", ")),
        }
    };
    let mut text = String::new();
    let mut units: Vec<(u64, bool)> =
        inputs.iter().filter_map(|input| input.unit_bytes.map(|bytes| (bytes, input.unit_assumed))).collect();
    units.sort_unstable();
    units.dedup();
    for (bytes, assumed) in units {
        let names = named(&|input| (input.unit_bytes, input.unit_assumed) == (Some(bytes), assumed));
        let unit = show_size(bytes);
        text += &if assumed {
            format!(
                "{names}: block numbers taken as {unit} each, which the format does not say; --unit to change.\n"
            )
        } else {
            format!("{names}: block numbers taken as {unit} each, as --unit says.\n")
        };
    }
    if inputs.iter().any(|input| !input.has_times) {
        let names = named(&|input| !input.has_times);
        text += &format!("No times in {names}: nothing that depends on time can be told.\n");
    }
    text
}

/// Tells what did not become a request, came out of order, or is not what a disk has.
pub fn warn_of(input: &InputReport) {
    warn_of_skips(input);
    if input.backwards > 0 {
        let requests = show_count(input.backwards, "request");
        // A path that a shell would take apart is the reader's to write.
        let plain = |char: char| char.is_ascii_alphanumeric() || "/._-+,:=@%".contains(char);
        let path = if input.path.chars().all(plain) { path_word(&input.path) } else { "TRACE".to_owned() };
        warn(&format!(
            "{}: {requests} earlier than the one before; to put them in order: lode trace sort {path} -o SORTED.lode",
            input.path
        ));
    }
}

/// Tells that the format, or what it counts in, is in doubt.
fn warn_of_doubts(input: &InputReport) {
    let InputReport { path, format, also_fits, .. } = input;
    if !also_fits.is_empty() {
        let others = also_fits.join(" and ");
        warn(&format!(
            "{path}: taken for {format}; {others} would fit, too, but with requests that no disk has; --format NAME \
             says otherwise"
        ));
    }
    if let Some(bytes) = input.implausible_bytes {
        let size = show_size(bytes.into());
        let change = if input.unit_assumed {
            "a smaller --unit may be right"
        } else {
            "another --format may be right, one that counts bytes or other sectors"
        };
        warn(&format!(
            "{path}: implausible: read as {format}, half of the first requests are of {size} or more; {change}"
        ));
    }
}

/// Tells what did not become a request, and that what did is in doubt.
pub fn warn_of_skips(input: &InputReport) {
    warn_of_doubts(input);
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
    if input.synthetic {
        warn(&format!("{} is synthetic: it was made from a profile", input.path));
    }
    if input.other_commands > 0 {
        let commands = show_count(input.other_commands, "command");
        warn(&format!("{}: {commands} that are no reads or writes passed over", input.path));
    }
}
