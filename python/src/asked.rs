//! What every question has in common: which traces, as which VMs, with how much of the machine. It must not know the question.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lode_hardware::{Drive, HardwareError, Host, MAX_PROFILE_BYTES};
use lode_plan::{Interval, StreamOptions};
use lode_trace::{Align, Merge, MergeOptions, TraceError, VmBy};
use lode_types::{BlockSize, parse_size};
use pyo3::prelude::*;

use crate::error::Failure;
use crate::source::Source;

/// Most threads, as of the command line.
const MAX_THREADS: usize = 1024;

/// The common part of a question, a dictionary in Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Common {
    block: String,
    threads: usize,
    memory: String,
    vm_by: String,
    align: String,
}

/// The same, understood.
pub struct Asked {
    sources: Vec<Source>,
    merge: MergeOptions,
    /// Size of a block.
    pub block: BlockSize,
    /// Threads, at least 1.
    pub threads: usize,
    /// Memory for tables, in bytes.
    pub memory_bytes: u64,
}

/// A size as users write it.
///
/// # Errors
/// What to write instead, with the name of what it is for.
pub fn size_of(name: &str, text: &str) -> Result<u64, Failure> {
    parse_size(text).map_err(|error| Failure::Usage(format!("{name}: {error}")))
}

impl Asked {
    /// # Errors
    /// What cannot be, and what to write instead.
    pub fn new(sources: Vec<Source>, common: &Common) -> Result<Asked, Failure> {
        let block = BlockSize::new(size_of("block", &common.block)?)
            .map_err(|error| format!("block: {error}; write one such as 4KiB"))?;
        let threads = match common.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS),
            threads if threads <= MAX_THREADS => threads,
            threads => {
                return Err(format!(
                    "threads is {threads}; up to {MAX_THREADS}, or 0 for one each processor"
                )
                .into());
            }
        };
        let vm_by = match common.vm_by.as_str() {
            "volume" => VmBy::Volume,
            "file" => VmBy::File,
            other => return Err(format!("vm_by is '{other}'; it is 'volume' or 'file'").into()),
        };
        let align = match common.align.as_str() {
            "absolute" => Align::Absolute,
            "start" => Align::Start,
            other => return Err(format!("align is '{other}'; it is 'absolute' or 'start'").into()),
        };
        let memory_bytes = size_of("memory", &common.memory)?;
        Ok(Asked { sources, merge: MergeOptions { align, vm_by }, block, threads, memory_bytes })
    }

    /// Starts all traces as one, which ends when `stop` is true.
    ///
    /// # Errors
    /// Those of opening and reading.
    pub fn open(&self, stop: &Arc<AtomicBool>) -> Result<Merge, TraceError> {
        let readers = self.sources.iter().map(Source::open).collect::<Result<_, _>>()?;
        Ok(Merge::new(readers, self.merge)?.stopped_by(Arc::clone(stop)))
    }

    /// The traces.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// What becomes a VM.
    pub fn vm_by(&self) -> VmBy {
        self.merge.vm_by
    }

    /// Whether the traces can be read more than once.
    pub fn can_be_read_again(&self) -> bool {
        self.sources.iter().all(Source::can_be_read_again)
    }

    /// Whether several threads are worth working on one VM: there is one trace of one VM, and it can be read again.
    pub fn can_use_threads_on_one_vm(&self) -> bool {
        let one_vm = || {
            let mut first = Vec::new();
            let mut merge = self.open(&Arc::default()).ok()?;
            merge.next_batch(&mut first).ok()?;
            Some(merge.vms().len() == 1)
        };
        self.sources.len() == 1 && self.threads > 1 && self.can_be_read_again() && one_vm() == Some(true)
    }

    /// How traces are followed.
    pub fn stream(&self, interval: Option<Interval>) -> StreamOptions {
        StreamOptions {
            block_size: self.block,
            threads: self.threads,
            memory_bytes: self.memory_bytes,
            interval,
            // The report says it, and Python warns of it.
            on_sampling: |_| {},
        }
    }
}

/// Devices of the host, and the drives that its SSD is bought as: names, and the texts of the profile files where they are some; a
/// dictionary in Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Devices {
    /// What the host is called.
    pub name: String,
    profile: Option<String>,
    drive: Option<String>,
    drive_profile: Option<String>,
}

impl Devices {
    /// The host.
    ///
    /// # Errors
    /// When there is none of that name, or a text is not understood.
    pub fn host(&self) -> Result<Host, Failure> {
        let host = found(&self.name, self.profile.as_deref(), Host::find, Host::parse)?;
        let drive = |name| found(name, self.drive_profile.as_deref(), Drive::find, Drive::parse);
        Ok(self.drive.as_deref().map(drive).transpose()?.into_iter().fold(host, Host::with_drive))
    }
}

/// What comes with the program by that name, or is in the text.
fn found<T>(
    name: &str,
    text: Option<&str>,
    built_in: fn(&str) -> Result<T, HardwareError>,
    parse: fn(&str) -> Result<T, HardwareError>,
) -> Result<T, Failure> {
    match text {
        None => built_in(name).map_err(|error| format!("{error}; a profile file ends in .toml").into()),
        Some(text) if text.len() > MAX_PROFILE_BYTES => {
            Err(format!("{name} has more than {MAX_PROFILE_BYTES} bytes; write a shorter profile").into())
        }
        Some(text) => parse(text).map_err(|error| format!("{name}: {error}").into()),
    }
}
