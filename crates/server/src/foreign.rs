//! What is at the path of a cache SSD and is no cache that this program can serve: in words that name it, the cache that this host knows
//! there, and what helps.

use std::path::Path;

use lode_media::MediaFile;
use lode_store::pair::probe_pair;
use lode_store::{StoreError, StoreErrorKind, SyncDevice, probe_read_ssd, signature_of};

use crate::config::Config;
use crate::error::{ServerError, ServerErrorKind};
use crate::identity::StateFile;
use crate::sync_device::FileDevice;

/// Why what a device holds is not read: a program of another version of the format wrote it. `None`: none did.
pub(crate) fn other_version(path: &Path, device: &mut dyn SyncDevice) -> Option<ServerError> {
    let signature = signature_of(device).filter(|signature| signature.is_of_other_version())?;
    let text = format!(
        "{} holds: {signature}; {}. Nothing was changed: use the lode that made it",
        path.display(),
        lode_format::why_unreadable(signature.version)
    );
    Some(ServerError::new(ServerErrorKind::Store, text))
}

/// Why the device at the path of a configuration's cache SSD, of which no superblock can be read, is none.
pub(crate) fn no_cache(config: &Config, file: &MediaFile, error: StoreError) -> ServerError {
    let path = file.path().display();
    let device = &mut FileDevice::new(file);
    if error.kind() != StoreErrorKind::NotACache {
        return ServerError::store(&path, error);
    }
    if let Ok(label) = probe_pair(device) {
        let text = match label.pairs {
            1 => format!(
                "{path} is one SSD of pair {}, and the configuration names no other one: add `mirror` to [ssd], with the path of \
                 the other SSD",
                label.pair
            ),
            pairs => format!(
                "{path} is an SSD of pair {} of {pairs} of cache {}, and the configuration names no other one: name the SSDs of all \
                 pairs in `pairs` of [ssd]",
                label.number + 1,
                label.pair
            ),
        };
        return ServerError::new(ServerErrorKind::Identity, text);
    }
    if probe_read_ssd(device).is_ok() {
        let what = format!("{path} is a read SSD; are `ssd.path` and `read_ssd.path` exchanged?");
        return ServerError::because(ServerErrorKind::Store, what, error);
    }
    if let Some(other) = other_version(file.path(), device) {
        return other;
    }
    let found = signature_of(device).map_or_else(String::new, |signature| format!(", but {signature}"));
    // A state file that cannot be read is told by the start that gets so far.
    let what = match StateFile::of(config).last_served().ok().flatten() {
        Some((cache, ssd)) => format!(
            "{path} holds no cache that can be read{found}, and this host last served cache {cache} from {}: correct `ssd.path`, or restore \
             the SSD from a copy. If what that cache held is lost, `lode format --force {path}` makes a new one",
            ssd.display()
        ),
        None if found.is_empty() => format!(
            "{path} holds no cache that can be read; correct `ssd.path`, or if the device is new run `lode format {path}` first"
        ),
        None => format!(
            "{path} holds no cache that can be read{found}: correct `ssd.path`, or restore the SSD from a copy; `lode format --force \
             {path}` makes a new cache and loses what it holds"
        ),
    };
    ServerError::because(ServerErrorKind::Store, what, error)
}
