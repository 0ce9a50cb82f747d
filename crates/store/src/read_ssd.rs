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
/// [`StoreErrorKind::NotACache`] when it is none, [`StoreErrorKind::OtherVersion`], [`StoreErrorKind::WrongSize`] when it is not as large
/// as it was, [`StoreErrorKind::Media`].
pub fn probe_read_ssd(device: &mut dyn SyncDevice) -> Result<ReadSsdLabel, StoreError> {
    let not_one = |context: String| StoreError::new(StoreErrorKind::NotACache, context);
    if device.size_bytes() <= ReadSsdLabel::DATA_START_BYTES {
        return Err(not_one("the device is too small to be a read SSD".to_owned()));
    }
    let mut copies = [vec![0; PAGE_BYTES], vec![0; PAGE_BYTES]];
    for (copy, page) in copies.iter_mut().enumerate() {
        read(device, DeviceLayout::superblock(copy as u8), page)?;
    }
    let label = ReadSsdLabel::newest([&copies[0], &copies[1]])
        .map_err(|error| StoreError::of_page(StoreErrorKind::NotACache, error))?;
    if device.size_bytes() != label.device_bytes {
        let context = format!(
            "the device has {} bytes and was made read SSD {} with {}; restore the size, or format it again with `lode format \
             --read-ssd --force`, because it holds nothing that is not elsewhere, and write the UUID that is shown to `read_ssd.uuid`",
            device.size_bytes(),
            label.id,
            label.device_bytes
        );
        return Err(StoreError::new(StoreErrorKind::WrongSize, context));
    }
    Ok(label)
}
