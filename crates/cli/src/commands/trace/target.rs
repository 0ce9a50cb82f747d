//! Files in the compact format that appear only once they are complete. It must not know what is written.

use std::path::{Path, PathBuf};

use clap::Args;
use lode_trace::is_compact_name;

use crate::error::CliError;
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
        "OUT is '{}', but what is written is the compact format, plain in NAME.lode or compressed in NAME.lode.zst; \
         write to '{}'",
        wanted.display(),
        better.display()
    )
}

/// Where an output goes.
#[derive(Args)]
pub struct OutArgs {
    /// The file to write: NAME.lode, or NAME.lode.zst to be compressed. It appears, or is replaced, only once it is
    /// complete.
    #[arg(long, short, value_name = "OUT")]
    pub out: PathBuf,
}

/// Where the output is written until it is complete, and where it goes then.
pub struct Target {
    /// The file to write.
    pub written: PathBuf,
    wanted: PathBuf,
}

impl Target {
    /// Next to the output under another name; a device or pipe is written directly, whatever its name.
    pub fn new(wanted: &Path) -> Result<Target, CliError> {
        let name = wanted.file_name().filter(|name| *name != "-");
        let Some(name) = name.filter(|_| !wanted.is_dir()) else {
            return Err(CliError::Usage(format!(
                "OUT is '{}', which is no file; write a file name",
                wanted.display()
            )));
        };
        let special = wanted.metadata().is_ok_and(|metadata| !metadata.is_file());
        if !special && !is_compact_name(wanted) {
            return Err(CliError::Usage(misnamed(wanted)));
        }
        let mut partial = std::ffi::OsString::from(".partial-");
        partial.push(name);
        let written = if special { wanted.to_owned() } else { wanted.with_file_name(partial) };
        Ok(Target { written, wanted: wanted.to_owned() })
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
            _ if self.written == self.wanted => std::env::temp_dir(),
            Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
            Some(folder) => folder.to_owned(),
            None => std::env::temp_dir(),
        }
    }

    /// Makes what was written appear under its name.
    pub fn publish(&self) -> Result<(), CliError> {
        if self.written == self.wanted {
            return Ok(());
        }
        std::fs::rename(&self.written, &self.wanted).map_err(|error| {
            CliError::Failure(format!(
                "Cannot create {}: {error}; check folder and rights",
                self.wanted.display()
            ))
        })
    }

    /// Removes what was written so far.
    pub fn discard(&self) {
        if self.written != self.wanted
            && let Err(error) = std::fs::remove_file(&self.written)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            output::warn(&format!("{} is incomplete and cannot be removed: {error}", self.written.display()));
        }
    }
}
