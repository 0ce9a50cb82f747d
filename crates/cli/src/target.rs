//! Files that appear only once they are complete, and never in the place of what was read. It must not know what is
//! written.

use std::fs::{File, Metadata};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use lode_trace::is_compact_name;

use crate::error::CliError;
use crate::interrupt::Unfinished;
use crate::output;

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
        "--output is '{}', but what is written is the compact format, plain in NAME.lode or compressed in NAME.lode.zst; \
         write to '{}'",
        wanted.display(),
        better.display()
    )
}

/// Where an output goes.
#[derive(Args)]
pub struct OutArgs {
    /// The file to write: NAME.lode, or NAME.lode.zst to be compressed; - is standard output. It appears, or is replaced,
    /// only once it is complete.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
}

/// Stands for standard input among what is read.
const STANDARD_INPUT: &str = "-";

/// Stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// Whether an output goes to standard output.
pub fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == STANDARD_OUTPUT
}

/// Where the output is written until it is complete, and where it goes then.
pub struct Target {
    /// The file to write.
    pub written: PathBuf,
    wanted: PathBuf,
    /// Removes what is written when the program is told to end; none of a device or pipe.
    unfinished: Option<Unfinished>,
}

impl Target {
    /// A file in the compact format, whose name must say so, and which is none of the `inputs`: what is read is never
    /// replaced.
    ///
    /// # Errors
    /// As [`Target::new`], for a file that is read, and for a name that would not be taken for what is in it.
    pub fn compact(wanted: &Path, inputs: &[impl AsRef<Path>]) -> Result<Target, CliError> {
        let wanted = if is_standard_output(wanted) { Path::new("/dev/stdout") } else { wanted };
        let target = Target::new(wanted)?;
        if target.would_spoil(wanted, inputs) {
            return Err(CliError::Usage(format!(
                "--output is '{}', whose writing would replace a file that is read; name another to write",
                wanted.display()
            )));
        }
        if target.is_file() && !is_compact_name(wanted) {
            return Err(CliError::Usage(misnamed(wanted)));
        }
        Ok(target)
    }

    /// Next to the output under another name; a device or pipe is written directly, whatever its name.
    ///
    /// # Errors
    /// For what is no file's name.
    pub fn new(wanted: &Path) -> Result<Target, CliError> {
        let name = wanted.file_name().filter(|name| *name != "-");
        if name.is_none() || wanted.is_dir() {
            return Err(CliError::Usage(format!(
                "The output is '{}', which is not a file; write a file name",
                wanted.display()
            )));
        }
        // What these folders have is no file even where it leads to one, as /dev/stdout does.
        let of_system = ["/dev", "/proc"].iter().any(|folder| wanted.starts_with(folder));
        let metadata = wanted.metadata();
        if of_system || metadata.as_ref().is_ok_and(|metadata| !metadata.is_file()) {
            return Ok(Target { written: wanted.to_owned(), wanted: wanted.to_owned(), unfinished: None });
        }
        // A link stays one; what it leads to is replaced.
        let wanted = wanted.canonicalize().unwrap_or_else(|_| wanted.to_owned());
        let mut partial = std::ffi::OsString::from(".partial-");
        partial.extend(wanted.file_name());
        let written = wanted.with_file_name(partial);
        let unfinished = Some(Unfinished::new(&written));
        Ok(Target { written, wanted, unfinished })
    }

    fn is_file(&self) -> bool {
        self.written != self.wanted
    }

    /// Whether one of the `inputs` is the output, or the file that it is written to until it is complete.
    fn would_spoil(&self, wanted: &Path, inputs: &[impl AsRef<Path>]) -> bool {
        let mut inputs = inputs.iter().map(AsRef::as_ref);
        inputs.any(|input| {
            // Where standard input comes from a file, it is that file that is read.
            let input = if input.as_os_str() == STANDARD_INPUT { Path::new("/dev/stdin") } else { input };
            is_same(input, wanted) || is_same(input, &self.written)
        })
    }

    /// Writes the whole output with `write`, which gets the path to write to, and makes it appear; or removes it.
    ///
    /// # Errors
    /// Those of `write`, and when the output cannot appear under its name.
    pub fn fill<T>(&self, write: impl FnOnce(&Path) -> Result<T, CliError>) -> Result<T, CliError> {
        let filled = write(&self.written).and_then(|result| {
            self.publish()?;
            Ok(result)
        });
        filled.inspect_err(|_| self.discard())
    }

    /// A folder on the disk that the output is on; the system's for temporary files if the output is on none.
    pub fn folder(&self) -> PathBuf {
        match self.wanted.parent() {
            _ if !self.is_file() => std::env::temp_dir(),
            Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
            Some(folder) => folder.to_owned(),
            None => std::env::temp_dir(),
        }
    }

    /// Makes what was written appear under its name.
    pub fn publish(&self) -> Result<(), CliError> {
        let Some(unfinished) = &self.unfinished else { return Ok(()) };
        unfinished.settle(|| std::fs::rename(&self.written, &self.wanted)).map_err(|error| {
            CliError::Failure(format!(
                "Cannot create {}: {error}; check folder and rights",
                self.wanted.display()
            ))
        })
    }

    /// Removes what was written so far.
    pub fn discard(&self) {
        if self.is_file()
            && let Err(error) = std::fs::remove_file(&self.written)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            output::warn(&format!("{} is incomplete and cannot be removed: {error}", self.written.display()));
        }
    }
}

/// That standard input is no more than one of the traces, and that results can be written where they shall be, see
/// [`check_outputs`].
///
/// # Errors
/// When it is not so.
pub fn check_traces(inputs: &[&Path], outputs: &[(&str, &Path)]) -> Result<(), CliError> {
    if inputs.iter().filter(|input| input.as_os_str() == STANDARD_INPUT).count() > 1 {
        return Err(CliError::Usage("Standard input can be read once only; name - once".to_owned()));
    }
    check_outputs(inputs, outputs)
}

/// That results can be written where they shall be, before anything is read: to files that are neither among those read
/// nor each other. `outputs` are options with their paths.
///
/// # Errors
/// When they cannot.
pub fn check_outputs(inputs: &[&Path], outputs: &[(&str, &Path)]) -> Result<(), CliError> {
    let shown: Vec<&str> =
        outputs.iter().filter(|(_, path)| is_standard_output(path)).map(|(option, _)| *option).collect();
    if let [one, other, ..] = shown[..] {
        return Err(CliError::Usage(format!(
            "{one} and {other} both go to standard output; name a file for one of them"
        )));
    }
    let outputs: Vec<_> = outputs.iter().filter(|(_, path)| !is_standard_output(path)).collect();
    for (at, (option, path)) in outputs.iter().enumerate() {
        let target = Target::new(path)?;
        if target.would_spoil(path, inputs) {
            return Err(CliError::Usage(format!(
                "{option} {} is a file that is read; name another to write",
                path.display()
            )));
        }
        if let Some((other, _)) = outputs[..at].iter().find(|(_, other)| is_same(other, path)) {
            return Err(CliError::Usage(format!(
                "{other} and {option} are both {}; name two files",
                path.display()
            )));
        }
        if target.is_file() {
            let tried = File::create(&target.written);
            tried.map_err(|error| cannot_write(path, &error))?;
            target.discard();
        }
    }
    Ok(())
}

/// Writes a result to standard output or to a file.
///
/// # Errors
/// When it cannot be written.
pub fn write_result(path: &Path, text: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), CliError> {
    if is_standard_output(path) { output::write(text) } else { write_file(path, text.as_ref()) }
}

/// Writes a file that people asked for by name; it appears, or is replaced, only once it is complete.
///
/// # Errors
/// When it cannot be written.
fn write_file(path: &Path, text: &[u8]) -> Result<(), CliError> {
    Target::new(path)?.fill(|written| {
        let write = || File::create(written)?.write_all(text);
        write().map_err(|error| cannot_write(path, &error))
    })
}

fn cannot_write(path: &Path, error: &std::io::Error) -> CliError {
    CliError::Failure(format!("Cannot write {}: {error}; check folder and rights", path.display()))
}

/// Whether two paths lead to one file, by links too. Devices and pipes can be written more than once.
fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |facts: &Metadata| (facts.dev(), facts.ino());
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => one.is_file() && identity(&one) == identity(&other),
        (Err(_), Err(_)) => absolute(one) == absolute(other),
        _ => false,
    }
}

/// The path of a file that is not there yet, by the folder that it will be in.
fn absolute(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(folder.canonicalize().ok()?.join(path.file_name()?))
}
