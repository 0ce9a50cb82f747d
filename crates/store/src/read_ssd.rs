//! The read SSD as a device: making one, and making sure that a device is one. It must not know what volumes put there.

use lode_format::{CacheId, DeviceLayout, PAGE_BYTES, ReadSsdLabel};

use crate::device::{SyncDevice, flush, read, write};
use crate::error::{StoreError, StoreErrorKind};

/// Labels a device as a read SSD. Whatever it holds is lost.
///
/// # Errors
/// [`StoreErrorKind::Geometry`] when there is no space for blocks on it, [`StoreErrorKind::Media`].
pub fn format_read_ssd(device: &mut dyn SyncDevice, id: CacheId) -> Result<ReadSsdLabel, StoreError> {
    let device_bytes = device.size_bytes();
    if device_bytes <= ReadSsdLabel::DATA_START_BYTES {
        let least_mib = (ReadSsdLabel::DATA_START_BYTES >> 20) + 1;
        let context =
            format!("{device_bytes} bytes are too few for a read SSD; give it at least {least_mib} MiB");
        return Err(StoreError::new(StoreErrorKind::Geometry, context));
    }
    let label = ReadSsdLabel { id, device_bytes };
    // First nothing is believed: neither of these pages may be a cache's superblock any more.
    for copy in 0..2 {
        write(device, DeviceLayout::superblock(copy), &[0; PAGE_BYTES])?;
    }
    flush(device)?;
    for copy in 0..2 {
        write(device, DeviceLayout::superblock(copy), &label.encode()[..])?;
    }
    flush(device)?;
    Ok(label)
}

/// The label of a device, if it is a read SSD.
///
/// # Errors
/// [`StoreErrorKind::NotACache`] when it is none, [`StoreErrorKind::WrongSize`] when it is not as large as it was,
/// [`StoreErrorKind::Media`].
pub fn probe_read_ssd(device: &mut dyn SyncDevice) -> Result<ReadSsdLabel, StoreError> {
    let not_one = |context: String| StoreError::new(StoreErrorKind::NotACache, context);
    if device.size_bytes() <= ReadSsdLabel::DATA_START_BYTES {
        return Err(not_one("the device is too small to be a read SSD".to_owned()));
    }
    let mut wrong = None;
    for copy in 0..2 {
        let mut page = vec![0; PAGE_BYTES];
        read(device, DeviceLayout::superblock(copy), &mut page)?;
        match ReadSsdLabel::decode(&page) {
            Ok(label) if label.device_bytes == device.size_bytes() => return Ok(label),
            Ok(label) => {
                let context = format!(
                    "the device has {} bytes and was made a read SSD with {}; restore the size, or format it again: it \
                     holds nothing that is not elsewhere",
                    device.size_bytes(),
                    label.device_bytes
                );
                return Err(StoreError::new(StoreErrorKind::WrongSize, context));
            }
            Err(error) => wrong = wrong.or(Some(error)),
        }
    }
    Err(not_one(wrong.map(|error| error.to_string()).unwrap_or_default()))
}
