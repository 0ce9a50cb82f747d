//! What a device says that it is, for whoever is about to write over it or has found no cache there. It must not know what that means.

use lode_format::{DeviceLayout, PAGE_BYTES, PageSignature};

use crate::device::SyncDevice;

/// What a device says that it is in the pages where superblocks and labels are: of this version of the format, of another one, or
/// damaged. `None`: nothing of ours, as far as it can be read.
pub fn signature_of(device: &mut dyn SyncDevice) -> Option<PageSignature> {
    let mut page = vec![0; PAGE_BYTES];
    let mut signatures = Vec::new();
    for offset_bytes in [0, 1].map(DeviceLayout::superblock) {
        let is_there = device.size_bytes() >= offset_bytes + PAGE_BYTES as u64;
        if is_there && device.read(offset_bytes, &mut page).is_ok() {
            signatures.extend(PageSignature::of(&page));
        }
    }
    // A damaged one says least, and one of another version may be the only one of its kind.
    signatures.into_iter().max_by_key(|signature| (signature.is_of_other_version(), signature.is_whole))
}
