//! The text of a configuration file, and why a path has none. It must not know what the text says.

use std::fs::{File, FileType};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use super::MAX_CONFIG_BYTES;
use crate::error::{ServerError, ServerErrorKind};

/// Why there is no text.
pub(crate) enum NoText {
    /// The system refuses.
    CannotRead(io::Error),
    /// What is there is none.
    Other(String),
}

impl NoText {
    /// In words for whoever gave the path of a configuration.
    pub(crate) fn of(self, path: &Path) -> ServerError {
        let path = path.display();
        match self {
            NoText::CannotRead(source) => {
                let what = format!("Cannot read the configuration {path}; check path and permissions");
                ServerError::because(ServerErrorKind::Config, what, source)
            }
            NoText::Other(why) => {
                let text = format!(
                    "{path} is not a configuration: {why}. Give the TOML file that `lode serve` takes"
                );
                ServerError::new(ServerErrorKind::Config, text)
            }
        }
    }
}

/// What is at a path that is no regular file; none where it is one. Looked at before opening: opening a named pipe waits for its other
/// end, and a device may do something when it is opened.
pub(crate) fn other_than_file(found: FileType) -> Option<&'static str> {
    match () {
        () if found.is_file() => None,
        () if found.is_dir() => Some("it is a folder"),
        () if found.is_fifo() => Some("it is a named pipe"),
        () if found.is_socket() => Some("it is a socket"),
        () if found.is_block_device() => Some("it is a block device"),
        () => Some("it is a character device"),
    }
}

/// Reads a configuration file.
pub(crate) fn read(path: &Path) -> Result<String, NoText> {
    let refuse =
        |found: FileType| other_than_file(found).map_or(Ok(()), |what| Err(NoText::Other(what.to_owned())));
    refuse(std::fs::metadata(path).map_err(NoText::CannotRead)?.file_type())?;
    // Something else may have come in its place.
    let without_waiting = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file =
        File::options().read(true).custom_flags(without_waiting).open(path).map_err(NoText::CannotRead)?;
    refuse(file.metadata().map_err(NoText::CannotRead)?.file_type())?;
    let mut bytes = Vec::new();
    file.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut bytes).map_err(NoText::CannotRead)?;
    if bytes.len() as u64 > MAX_CONFIG_BYTES {
        return Err(NoText::Other(format!("it has more than {MAX_CONFIG_BYTES} bytes")));
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(NoText::Other("it is no text".to_owned())),
    }
}
