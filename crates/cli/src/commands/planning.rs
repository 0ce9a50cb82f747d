//! Arguments that the planning commands share: which traces, as which VMs, with how much of the machine.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use lode_hardware::Host;
use lode_plan::{Followed, Interval, PlanError, Sampling, StreamOptions, rate_text};
use lode_reuse::LEAST_BLOCKS;
use lode_trace::{Merge, MergeOptions, TraceError, open_trace};
use lode_types::BlockSize;

use crate::amounts::{parse_size, path_word, show_size, size_word};
use crate::arguments::{OnError, ReadArgs};
use crate::devices::{find_host, profile_file};
use crate::error::CliError;
use crate::output::note;
use crate::target::check_traces;

/// VMs shown in tables; the JSON forms have all of them.
pub const MAX_TABLE_VMS: usize = 40;

/// Most threads.
const MAX_THREADS: usize = 1024;

/// What is said when tables did not fit.
pub const SAMPLED: &str =
    "Not all blocks were followed, to keep within --memory; each VM's rate says which part was.\n";

/// Which traces, and how they are followed.
#[derive(Args, Clone)]
pub struct TraceArgs {
    /// Traces to look at together, compressed or not; - is standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Size of a cache block: a power of two from 4KiB to 64KiB.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_block)]
    pub block: BlockSize,

    /// Threads to work with; 0 is one for each processor.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=MAX_THREADS as i64))]
    pub threads: u16,

    /// Memory for tables. Where curves need more, a part of the blocks is followed; where replays may, fewer run at once, or
    /// none, which is said.
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = parse_size)]
    pub memory: u64,

    #[command(flatten)]
    pub read: ReadArgs,

    /// What becomes a VM.
    #[arg(long, value_name = "WHAT", default_value = "volume")]
    pub vm_by: VmBy,

    /// How the clocks of several traces are brought together.
    #[arg(long, value_name = "HOW", default_value = "absolute")]
    pub align: Align,
}

/// Which devices the model is of.
#[derive(Args)]
pub struct DeviceArgs {
    /// Devices of the host: a name that `lode devices` lists, or a profile file that ends in .toml.
    #[arg(long, value_name = "NAME|FILE", default_value = "default")]
    devices: String,

    #[command(flatten)]
    drive: DriveArgs,
}

/// Which drives the SSD is bought as.
#[derive(Args)]
pub struct DriveArgs {
    /// Drives that the SSD is bought as, so that whole ones cost and wear: a name that `lode devices` lists, or a profile
    /// file that ends in .toml. Without it an SSD has any size.
    #[arg(long, value_name = "NAME|FILE")]
    pub drive: Option<String>,
}

impl DriveArgs {
    /// Its name.
    pub fn name(&self) -> Option<&str> {
        self.drive.as_deref()
    }

    /// The file that describes it, where that is one.
    pub fn file(&self) -> Option<&Path> {
        self.name().and_then(profile_file)
    }
}

impl DeviceArgs {
    /// The host.
    ///
    /// # Errors
    /// When there is none of that name, or the file cannot be understood.
    pub fn host(&self) -> Result<Host, CliError> {
        find_host(&self.devices, self.drive.name())
    }

    /// What a command line needs for the same devices.
    pub fn words(&self) -> Vec<String> {
        let named = [("--devices", Some(self.devices.as_str())), ("--drive", self.drive.name())];
        let words = |(option, name): (&str, Option<&str>)| Some([option.to_owned(), path_word(name?)]);
        named.into_iter().filter_map(words).flatten().collect()
    }

    /// The files that describe them, where these are some.
    pub fn files(&self) -> Vec<&Path> {
        profile_file(&self.devices).into_iter().chain(self.drive.file()).collect()
    }
}

/// See [`lode_trace::VmBy`].
#[derive(Clone, Copy, ValueEnum)]
pub enum VmBy {
    /// Each volume of each trace.
    Volume,
    /// Each trace, with all of its volumes.
    File,
}

/// See [`lode_trace::Align`].
#[derive(Clone, Copy, ValueEnum)]
pub enum Align {
    /// Times stay as they are.
    Absolute,
    /// Every trace starts at the same time.
    Start,
}

/// How traces are merged.
pub fn merge_options(vm_by: VmBy, align: Align) -> MergeOptions {
    MergeOptions {
        align: match align {
            Align::Absolute => lode_trace::Align::Absolute,
            Align::Start => lode_trace::Align::Start,
        },
        vm_by: match vm_by {
            VmBy::Volume => lode_trace::VmBy::Volume,
            VmBy::File => lode_trace::VmBy::File,
        },
    }
}

/// A block size as users write it.
pub fn parse_block(text: &str) -> Result<BlockSize, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    BlockSize::new(bytes).map_err(|error| format!("{error}; write one such as 4KiB"))
}

impl TraceArgs {
    /// That standard input is no more than one of the traces, and that results can be written where they shall be:
    /// `outputs`, which are options with their paths, but never over `read`, which is what is read besides the traces.
    ///
    /// # Errors
    /// When standard input is named more than once; when an output cannot be written, or would replace what is read.
    pub fn check(&self, outputs: &[(&'static str, &Path)], read: &[&Path]) -> Result<(), CliError> {
        let inputs: Vec<&Path> =
            self.files.iter().map(PathBuf::as_path).chain(read.iter().copied()).collect();
        check_traces(&inputs, outputs)
    }

    /// The same for one of the traces.
    pub fn of_file(&self, file: &Path) -> TraceArgs {
        TraceArgs { files: vec![file.to_owned()], ..self.clone() }
    }

    /// Starts all traces as one.
    pub fn open(&self) -> Result<Merge, TraceError> {
        let read = self.read.options();
        let readers = self.files.iter().map(|file| open_trace(file, &read)).collect::<Result<_, _>>()?;
        Merge::new(readers, merge_options(self.vm_by, self.align))
    }

    /// What a command line needs to read the same traces in the same way.
    pub fn words(&self) -> Vec<String> {
        let TraceArgs { files, block, read, vm_by, align, .. } = self;
        let mut words: Vec<String> =
            files.iter().map(|file| path_word(&file.display().to_string())).collect();
        let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
        if *block != BlockSize::KIB_4 {
            add("--block", size_word(block.bytes()));
        }
        read.format.iter().for_each(|format| add("--format", format.clone()));
        read.unit.iter().for_each(|&bytes| add("--unit", size_word(bytes)));
        if matches!(read.on_error, OnError::Skip) {
            add("--on-error", "skip".to_owned());
        }
        if matches!(vm_by, VmBy::File) {
            add("--vm-by", "file".to_owned());
        }
        if matches!(align, Align::Start) {
            add("--align", "start".to_owned());
        }
        words
    }

    /// Whether the traces can be read more than once, or not at all.
    pub fn can_be_read_again(&self) -> bool {
        let flows_past = |file: &PathBuf| {
            // Nothing can be read as often as one likes.
            file.as_os_str() != "/dev/null"
                && (file.as_os_str() == "-"
                    || file.metadata().is_ok_and(|facts| !facts.is_file() && !facts.is_dir()))
        };
        !self.files.iter().any(flows_past)
    }

    /// Whether several threads are worth working on one VM: there is one trace of one VM, and it can be read again.
    pub fn can_use_threads_on_one_vm(&self) -> bool {
        let one_vm = || {
            let mut first = Vec::new();
            let mut merge = self.open().ok()?;
            merge.next_batch(&mut first).ok()?;
            Some(merge.vms().len() == 1)
        };
        self.files.len() == 1 && self.threads() > 1 && self.can_be_read_again() && one_vm() == Some(true)
    }

    /// Threads, as a number.
    pub fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS),
            threads => usize::from(threads),
        }
    }

    /// The same for the library.
    pub fn stream(&self, interval: Option<Interval>) -> StreamOptions {
        StreamOptions {
            block_size: self.block,
            threads: self.threads(),
            memory_bytes: self.memory,
            interval,
            on_sampling: say_sampling,
        }
    }
}

/// Tells whoever waits away from a terminal, where no bar moves, that tables did not fit.
fn say_sampling(sampling: Sampling) {
    if !std::io::stderr().is_terminal() {
        let memory = show_size(sampling.limit_bytes);
        note(&format!("sampling {} to stay within {memory}", one_in(sampling.rate)));
    }
}

/// A share of the blocks in words.
fn one_in(rate: f64) -> String {
    format!("1 block in {:.0}", 1.0 / rate)
}

/// A rate above 0 and up to 1, rounded to two digits after its zeros.
fn two_digits(rate: f64) -> String {
    let zeros = (-rate.log10()).floor().max(0.0) as usize;
    format!("{rate:.0$}", zeros + 2)
}

/// What is said when a rate was asked for that would have left too few blocks; empty when it was kept.
pub fn rate_note(asked: Option<Followed>, rates: impl Iterator<Item = f64>) -> String {
    let Some(Followed::Rate(asked)) = asked else { return String::new() };
    let used: Vec<f64> = rates.filter(|&rate| rate > asked).collect();
    let (least, most) =
        used.iter().fold((1.0, 0.0), |(least, most), &rate| (rate.min(least), rate.max(most)));
    let used = match used.len() {
        0 => return String::new(),
        _ if least == most => two_digits(least),
        _ => format!("{} to {}", two_digits(least), two_digits(most)),
    };
    format!(
        "Rate {} asked; {used} used: fewer than {LEAST_BLOCKS} blocks would be followed.\n",
        rate_text(asked)
    )
}

/// So much memory or a little more, as --memory takes it.
pub fn memory_word(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    let unit = if bytes > 8 * GIB { GIB } else { MIB };
    size_word(bytes.div_ceil(unit).saturating_mul(unit))
}

impl From<PlanError> for CliError {
    fn from(error: PlanError) -> CliError {
        match error {
            PlanError::Trace(error) => error.into(),
            PlanError::Replay(error) => error.into(),
            PlanError::Request(message) => CliError::Usage(message),
            PlanError::Reuse(error) => CliError::Usage(error.to_string()),
            PlanError::ReplayMemory { needed_bytes, .. } => CliError::Failure(format!(
                "{error}; allow more with --memory {}, or compare smaller levels or larger blocks",
                memory_word(needed_bytes)
            )),
            PlanError::Memory { .. } => CliError::Failure(format!(
                "{error}; allow more with --memory, or follow fewer blocks from the start with --sample"
            )),
            other => CliError::Failure(other.to_string()),
        }
    }
}
