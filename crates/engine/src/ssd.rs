//! The store of the cache SSD as where that level's places come from. It must not know slots ([`crate::shelf`]).

use lode_store::{Place, VolumeStore};
use lode_types::BlockNo;

use crate::shelf::PlaceSource;

impl PlaceSource for VolumeStore {
    fn free(&self) -> u32 {
        self.places().free()
    }

    fn take(&mut self) -> Place {
        self.places_mut().take()
    }

    fn release(&mut self, place: Place) {
        self.places_mut().give_up_clean(place);
    }

    fn block_at(&self, place: Place) -> BlockNo {
        self.places().held(place).block
    }
}
