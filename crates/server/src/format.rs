//! Making a device or file into a cache SSD, unless it holds something.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use lode_engine::store::Store;
use lode_format::{CacheId, Superblock};
use lode_media::{MediaFile, OpenOptions};
use lode_types::BlockSize;

use crate::bytes::DeviceBytes;
use crate::error::{ServerError, ServerErrorKind};

/// How to format.
#[derive(Clone, Copy, Debug)]
pub struct FormatOptions {
    /// Size of a cache block.
    pub block: BlockSize,
    /// Bytes of an extent; none for what suits the device.
    pub extent_bytes: Option<u64>,
    /// Overwrite whatever is there.
    pub force: bool,
    /// Create a file of this many bytes if the path does not exist.
    pub create_bytes: Option<u64>,
}

/// Formats a cache SSD.
///
/// # Errors
/// [`ServerErrorKind::InUse`] when the device holds a cache or something else that is known and `force` is
/// not set; it is left as it was then.
pub fn format(path: &Path, options: &FormatOptions) -> Result<Superblock, ServerError> {
    let open = OpenOptions { create_size: options.create_bytes, ..OpenOptions::default() };
    let file = MediaFile::open(path, &open)?;
    let mut device = DeviceBytes(&file);
    if !options.force {
        refuse_if_used(path, &file, &mut device)?;
    }
    let cache = random_id()?;
    Store::format(&mut device, cache, options.block, options.extent_bytes)
        .map_err(|error| ServerError::store(format!("Cannot format {}", path.display()), error))
}

fn refuse_if_used(path: &Path, file: &MediaFile, device: &mut DeviceBytes<'_>) -> Result<(), ServerError> {
    let found = match Store::probe(device) {
        Ok(superblock) => Some(format!("Lodestore cache {}", superblock.cache)),
        Err(_) => file.identify()?.map(str::to_owned),
    };
    let Some(found) = found else { return Ok(()) };
    let text =
        format!("{} holds a {found}; give another device, or --force to lose what it holds", path.display());
    Err(ServerError::new(ServerErrorKind::InUse, text))
}

fn random_id() -> Result<CacheId, ServerError> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| ServerError::because(ServerErrorKind::Media, "Cannot read /dev/urandom", error))?;
    // Version 4, variant 1: a random UUID.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(CacheId(bytes))
}
