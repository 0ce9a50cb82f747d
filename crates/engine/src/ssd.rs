//! What a volume has on the cache SSD: its store (`lode-store`), and which place each slot has.

use lode_store::VolumeStore;
use lode_types::BlockNo;

use crate::shelf::Shelf;

/// What a volume has on the cache SSD.
#[derive(Debug)]
pub(crate) struct Ssd {
    pub(crate) store: VolumeStore,
    pub(crate) shelf: Shelf,
}

impl Ssd {
    /// The block that a slot holds, when it is not in flight.
    pub(crate) fn block_in(&self, slot: u32) -> Option<BlockNo> {
        Some(self.store.places().held(self.shelf.get(slot)?).block)
    }
}
