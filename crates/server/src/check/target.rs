//! What a path is that is to be checked: a cache SSD, one of several that belong together, or the configuration that names them. It must not know
//! what is found there.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use lode_format::CacheId;
use lode_media::{Lock, MediaFile, OpenOptions};
use lode_store::pair::probe_pair;
use lode_store::{StoreErrorKind, signature_of};

use crate::config::Config;
use crate::config::text::{self, NoText};
use crate::error::{ServerError, ServerErrorKind};
use crate::sync_device::FileDevice;

/// What is to be checked at once.
#[derive(Debug)]
pub enum CheckTarget {
    /// The cache SSD of a configuration, or its pairs.
    Config(Box<Config>),
    /// Devices or files: a cache SSD, or SSDs of pairs that belong together.
    Devices(Vec<PathBuf>),
}

/// What these paths are: SSDs of pairs that hold one cache are checked together. Each with the path that it is known by.
pub fn check_targets(paths: &[PathBuf]) -> Vec<(PathBuf, Result<CheckTarget, ServerError>)> {
    let mut targets: Vec<(PathBuf, Result<CheckTarget, ServerError>)> = Vec::new();
    let mut together: Vec<(CacheId, usize)> = Vec::new();
    for path in paths {
        let cache = cache_of(path);
        let known = cache.and_then(|cache| together.iter().find(|(other, _)| *other == cache));
        if let Some(&(_, at)) = known
            && let Ok(CheckTarget::Devices(devices)) = &mut targets[at].1
        {
            devices.push(path.clone());
            continue;
        }
        together.extend(cache.map(|cache| (cache, targets.len())));
        targets.push((path.clone(), target_of(path)));
    }
    targets
}

fn open_to_look(path: &Path) -> Option<MediaFile> {
    let options = OpenOptions { write: false, lock: Lock::None, ..OpenOptions::default() };
    MediaFile::open(path, &options).ok()
}

/// The cache of which a path is one SSD of a pair, also where a program of another version wrote its label.
fn cache_of(path: &Path) -> Option<CacheId> {
    let mut device = FileDevice::new(open_to_look(path)?);
    match probe_pair(&mut device) {
        Ok(label) => Some(label.pair),
        Err(error) if error.kind() == StoreErrorKind::OtherVersion => {
            signature_of(&mut device).map(|signature| signature.cache)
        }
        Err(_) => None,
    }
}

/// Whether a file begins as something of Lodestore does: a cache SSD, one of a pair, a read SSD, a redo log or a part of them, be it in use or
/// not, of whatever version.
fn is_ours(path: &Path) -> bool {
    open_to_look(path).is_some_and(|file| signature_of(&mut FileDevice::new(file)).is_some())
}

fn target_of(path: &Path) -> Result<CheckTarget, ServerError> {
    let found = std::fs::metadata(path).map_err(|error| {
        let what = format!("Cannot look at {}; check path and permissions", path.display());
        ServerError::because(ServerErrorKind::Config, what, error)
    })?;
    // What can be read of a block device is said where it is read.
    if is_ours(path) || found.file_type().is_block_device() {
        return Ok(CheckTarget::Devices(vec![path.to_path_buf()]));
    }
    let text = match text::read(path) {
        Ok(text) => text,
        Err(NoText::Other(why)) => return Err(neither(path, why)),
        Err(error) => return Err(error.of(path)),
    };
    let config = Config::load(path).map_err(|error| match names_something(&text) {
        true => error,
        false => neither(path, error),
    })?;
    Ok(CheckTarget::Config(Box::new(config)))
}

/// Whether a text that is no configuration is meant to be one.
fn names_something(text: &str) -> bool {
    let sections = ["[ssd]", "[[vm]]"];
    text.lines().any(|line| sections.iter().any(|section| line.trim_start().starts_with(section)))
}

/// Why something is not checked.
pub(super) fn neither(path: &Path, why: impl std::fmt::Display) -> ServerError {
    let text = format!(
        "{} is neither a cache SSD nor a configuration: it does not begin with a page of Lodestore, and as a configuration: {why}. Give \
         `lode check` the TOML file that `lode serve` takes, which knows the cache whatever its SSD says of itself, or the device that `lode \
         format` made",
        path.display()
    );
    ServerError::new(ServerErrorKind::Config, text)
}
