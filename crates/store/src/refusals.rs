//! Why a volume is refused, said once for the check before a start, the start itself and removals.

use lode_format::{DeviceLayout, Directory, Volume};

use lode_types::{BlockNo, MediaError};

use crate::error::{StoreError, StoreErrorKind};
use crate::spec::VolumeSpec;

/// How to be rid of dirty blocks while the guests' data stays whole.
const HOW_TO_DRAIN: &str = "write them back first: `lode drain CONFIG` while the volume is served as it was, or `lode \
                            stop --drain CONFIG`, which stops the daemon afterwards (blocks that are damaged cannot be \
                            written back: guests overwrite them, or `lode volume remove --force` gives the volume up)";

pub(crate) fn name(name: &str) -> Result<(), StoreError> {
    if !name.is_empty() && name.len() <= Volume::MAX_NAME_BYTES {
        return Ok(());
    }
    let advice = format!("a volume's name has 1 to {} bytes", Volume::MAX_NAME_BYTES);
    Err(StoreError::new(StoreErrorKind::Geometry, advice))
}

pub(crate) fn twice(name: &str) -> StoreError {
    let advice = format!("volume '{name}' is asked for twice; give one of the two another name");
    StoreError::new(StoreErrorKind::Geometry, advice)
}

pub(crate) fn taken(name: &str) -> StoreError {
    let advice = format!(
        "the cache holds a volume '{name}' already; give another name, or if nobody serves it any more, remove it with `lode \
         volume remove` while the daemon is stopped"
    );
    StoreError::new(StoreErrorKind::Geometry, advice)
}

pub(crate) fn unknown(name: &str, directory: &Directory) -> StoreError {
    let names: Vec<&str> = directory.volumes.iter().flatten().map(|volume| volume.name.as_str()).collect();
    let known = if names.is_empty() { "no volumes".to_owned() } else { names.join(", ") };
    StoreError::new(
        StoreErrorKind::NoSuchVolume,
        format!("there is no volume '{name}'; the cache holds {known}"),
    )
}

/// After a kill, of a block of the last moments before it.
pub(crate) fn unreadable(block: BlockNo, offset_bytes: u64, error: MediaError) -> StoreError {
    let advice = format!(
        "block {block}, which is newer than its backing disk and may not be durable yet, cannot be read at byte \
         {offset_bytes} ({error:?}); see the system log, and start again. If it stays so, restart the host: the volume is \
         served then, and guests get I/O errors for this block until they overwrite it"
    );
    StoreError::new(StoreErrorKind::Media, advice)
}

pub(crate) fn volumes() -> StoreError {
    let advice = format!(
        "a cache has at most {} volumes; remove one that is not needed any more",
        Directory::MAX_VOLUMES
    );
    StoreError::new(StoreErrorKind::NoSpace, advice)
}

pub(crate) fn backing(volume: &Volume, spec: &VolumeSpec) -> Result<(), StoreError> {
    if spec.backing_bytes >= volume.backing_bytes {
        return Ok(());
    }
    Err(StoreError::new(
        StoreErrorKind::WrongBacking,
        format!(
            "the backing disk of volume '{}' has {} bytes, and had {} when the cache was last used; if it is \
             another disk, give the volume another name",
            volume.name, spec.backing_bytes, volume.backing_bytes
        ),
    ))
}

/// `places` is what the volume will have for blocks that must be kept.
pub(crate) fn dirty(spec: &VolumeSpec, dirty: u64, places: u64) -> Result<(), StoreError> {
    let VolumeSpec { name, read_only, .. } = spec;
    if *read_only && dirty > 0 {
        return Err(StoreError::new(
            StoreErrorKind::HoldsDirty { blocks: dirty },
            format!(
                "volume '{name}' holds {dirty} blocks newer than the backing disk, so it cannot be read-only; \
                 {HOW_TO_DRAIN}"
            ),
        ));
    }
    if dirty > places {
        return Err(StoreError::new(
            StoreErrorKind::NoSpace,
            format!(
                "volume '{name}' holds {dirty} blocks newer than the backing disk, and its new SSD share has room \
                 for {places}; {HOW_TO_DRAIN}"
            ),
        ));
    }
    Ok(())
}

pub(crate) fn removal(name: &str, dirty: u64) -> StoreError {
    StoreError::new(
        StoreErrorKind::HoldsDirty { blocks: dirty },
        format!(
            "volume '{name}' holds {dirty} blocks newer than the backing disk, which would be lost with it; \
             {HOW_TO_DRAIN}"
        ),
    )
}

pub(crate) fn space(layout: &DeviceLayout, spec: &VolumeSpec, missing: u64, free: u64) -> StoreError {
    space_for(layout, &spec.name, missing, free)
}

/// `missing` and `free` are extents.
pub(crate) fn space_for(layout: &DeviceLayout, name: &str, missing: u64, free: u64) -> StoreError {
    let mib = |extents: u64| extents * (layout.extent.extent_bytes >> 10) / 1024;
    StoreError::new(
        StoreErrorKind::NoSpace,
        format!(
            "volume '{name}' needs {} MiB more SSD space and {} MiB are free for it; lower an `ssd` size in the \
             configuration, remove a volume that is not needed any more, or use a larger SSD",
            mib(missing),
            mib(free)
        ),
    )
}
