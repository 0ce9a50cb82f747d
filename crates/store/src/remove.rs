//! Taking a volume off the cache: its extents become free, and nothing of it is ever found again.

use crate::device::SyncDevice;
use crate::error::StoreError;
use crate::refusals;
use crate::store::Store;
use crate::view::{StoreView, VolumeInfo};

impl Store {
    /// Gives a volume's space back, and with it everything that it has there. A volume with blocks newer than its
    /// backing disk is refused with [`HoldsDirty`](crate::StoreErrorKind::HoldsDirty), unless `force` discards them; a
    /// refusal writes nothing. `view` is what was found there, with the record buffers that it took over. Cut short
    /// anywhere, the volume is still there as a whole or is gone.
    ///
    /// Its bytes stay where they are until a later owner overwrites them. They are never believed, because
    /// whoever gets an extent writes tables of its own there before its places are used, and because no later volume has the same tag.
    pub fn remove(
        device: &mut dyn SyncDevice,
        view: StoreView,
        name: &str,
        force: bool,
    ) -> Result<VolumeInfo, StoreError> {
        let (number, volume) = view.find(name)?;
        let removed = view.info(number, volume);
        if !force {
            let counts = view.count_blocks(device, name)?;
            if counts.dirty > 0 {
                return Err(refusals::removal(name, counts.dirty));
            }
        }
        // Tags come from the epoch, and the number is free again from now on: both superblocks rise above the epoch
        // in which the volume got its tag, so that losing one of them cannot bring that epoch back.
        let mut store = Store::begin(device, view)?;
        let mut next = store.view.directory.clone();
        next.volumes[number as usize] = None;
        next.free_extents_of(number);
        store.write_directory(device, next)?;
        Ok(removed)
    }
}
