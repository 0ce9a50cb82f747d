//! The frames and places of the three levels: what a block that comes into flight takes along, and where it goes when its
//! flight is over. It must not know operations, guests or why copies move.

use lode_policy::{Quota, Slot};
use lode_store::{Places, VolumeStore};
use lode_types::{BlockNo, Level};

use crate::command::DeviceId;
use crate::config::EngineConfig;
use crate::dram::Dram;
use crate::flight::{CopyAt, Damage, Flight, Place, Reserved, SsdCopy};
use crate::flights::Kept;
use crate::memory::Memory;
use crate::read_ssd::ReadSsd;
use crate::ssd::Ssd;

/// All three levels of one volume.
#[derive(Debug)]
pub(crate) struct Levels {
    pub(crate) dram: Dram,
    pub(crate) ssd: Option<Ssd>,
    pub(crate) read_ssd: ReadSsd,
    /// Every write needs a place of the SSD, whatever the share.
    pub(crate) all_writes_need_places: bool,
}

impl Levels {
    pub(crate) fn new(dram: Dram, read_ssd: ReadSsd) -> Levels {
        Levels { dram, ssd: None, read_ssd, all_writes_need_places: false }
    }

    /// Places of the SSD, of a volume that has copies there.
    pub(crate) fn places(&mut self) -> &mut Places {
        self.ssd.as_mut().expect("a place is on an SSD").store.places_mut()
    }

    /// Whether the copy on the SSD is newer than the backing disk.
    pub(crate) fn is_dirty(&self, copy: SsdCopy) -> bool {
        let ssd = self.ssd.as_ref();
        copy.place().is_some_and(|place| ssd.is_some_and(|ssd| ssd.store.places().is_dirty(place)))
    }

    pub(crate) fn dirty_blocks(&self) -> u32 {
        self.ssd.as_ref().map_or(0, |ssd| ssd.store.places().dirty())
    }

    /// Places of the SSD that nobody has or waits for.
    pub(crate) fn available_places(&self) -> u32 {
        self.ssd.as_ref().map_or(0, |ssd| ssd.store.places().available())
    }

    /// Whether frames and places suffice for whatever a scheme with this share may decide about so many blocks.
    pub(crate) fn have_space_for(&self, blocks: u32, quota: Quota) -> bool {
        let frames = quota.dram_blocks == 0 || self.dram.available() >= blocks;
        let needs_places = quota.ssd_blocks > 0 || self.all_writes_need_places;
        let places = self.ssd.is_none() || !needs_places || self.available_places() >= blocks;
        frames && places
    }

    /// The share, as far as there are frames and places for it and its reserve: some may have failed, and some may still be
    /// to come.
    pub(crate) fn share_in_force(&self, config: &EngineConfig) -> Quota {
        let share = config.share;
        let store = self.ssd.as_ref().map(|ssd| &ssd.store);
        if config.largest_share.is_none() {
            let failed = store.map_or(0, |store| store.places().quarantined());
            return share.with(Level::Ssd, share.ssd_blocks.saturating_sub(failed));
        }
        let ssd_places = store.map_or(0, VolumeStore::usable_places);
        let within = |level, places| share.of(level).min(config.largest_share_within(level, places));
        share
            .with(Level::Dram, within(Level::Dram, self.dram.limit()))
            .with(Level::Ssd, within(Level::Ssd, ssd_places))
    }

    /// Sets aside what an access may need, as far as it is there.
    pub(crate) fn reserve(&mut self, wanted: Reserved) -> Reserved {
        let frame = wanted.frame && self.dram.available() > 0;
        let place = wanted.place && self.available_places() > 0;
        if frame {
            self.dram.reserve();
        }
        if place {
            self.places().reserve();
        }
        Reserved { frame, place }
    }

    /// The next places of the SSD to be taken should be so many that lie together.
    pub(crate) fn prefer_run(&mut self, places: u32) {
        if let Some(ssd) = &mut self.ssd {
            ssd.store.places_mut().prefer_run(places);
        }
    }

    /// Gives back what was set aside and not used.
    pub(crate) fn unreserve(&mut self, reserved: Reserved) {
        if reserved.frame {
            self.dram.unreserve();
        }
        if reserved.place {
            self.places().unreserve();
        }
    }

    /// A write to this place of the SSD failed, or a read of it: it is not used again, and the share shrinks by it.
    pub(crate) fn quarantine(&mut self, place: Place) {
        self.places().quarantine(place);
    }

    /// A copy was found damaged.
    pub(crate) fn note_damage(&mut self, damage: Damage) {
        match damage {
            Damage::Clean(place) => {
                self.quarantine(place);
                self.places().give_up_clean(place);
            }
            Damage::Mirrored(place) | Damage::Lost(place) => self.quarantine(place),
            Damage::Mirror { .. } => self.read_ssd.quarantine(),
        }
    }

    /// Device and first byte of a copy that a command reads.
    pub(crate) fn location(&self, copy: CopyAt, flight: &Flight) -> (DeviceId, u64) {
        match (copy, flight.mirror(), flight.copy().whole(), &self.ssd) {
            (CopyAt::ReadSsd, Some(place), ..) => (DeviceId::ReadSsd, self.read_ssd.offset(place)),
            (CopyAt::Ssd, _, Some(place), Some(ssd)) => (DeviceId::Ssd, ssd.store.offset(place)),
            (copy, ..) => unreachable!("{copy:?} is on no device of the cache"),
        }
    }

    /// The block that a slot holds, when it is not in flight.
    pub(crate) fn block_in(&self, level: Level, slot: Slot) -> Option<BlockNo> {
        match level {
            Level::Dram => self.dram.block_in(slot),
            Level::Ssd => self.ssd.as_ref()?.block_in(slot),
            Level::ReadSsd => self.read_ssd.block_in(slot),
        }
    }

    /// Brings a copy that the scheme speaks of from its slot to its block's flight.
    pub(crate) fn claim(&mut self, flight: &mut Flight, level: Level, slot: Slot) {
        flight.set_slot(level, Some(slot));
        let copy = match level {
            Level::Dram => self.dram.claim(slot),
            Level::Ssd => self.ssd.as_mut().and_then(|ssd| ssd.shelf.claim(slot)),
            Level::ReadSsd => self.read_ssd.claim(slot),
        };
        flight.take_copy(level, copy);
    }

    /// Empties the slot of a clean copy whose block is not in flight.
    pub(crate) fn empty_slot(&mut self, level: Level, slot: Slot) {
        match level {
            Level::Dram => {
                if let Some(frame) = self.dram.claim(slot) {
                    self.dram.release(frame);
                }
            }
            Level::ReadSsd => {
                if let Some(place) = self.read_ssd.claim(slot) {
                    self.read_ssd.release(place);
                }
            }
            Level::Ssd => unreachable!("what leaves the SSD goes by way of its block's queue"),
        }
    }

    /// A flight is over: its copies go to their slots. Where a slot's copy did not come about, `missing` is told its level.
    /// Gives what is to be kept beside: a dirty copy without a slot, which could not be written back, or a lost one; and
    /// those that stand in for it, where `keep_spares` says so.
    pub(crate) fn settle(
        &mut self,
        flight: Flight,
        keep_spares: bool,
        mut missing: impl FnMut(Level),
    ) -> Kept {
        let mut kept = Kept::default();
        match (flight.slot(Level::Ssd), flight.copy(), &mut self.ssd) {
            (_, SsdCopy::Lost(_), _) => kept.copy = flight.copy(),
            (Some(slot), SsdCopy::Whole(place), Some(ssd)) => ssd.shelf.settle(slot, place),
            (Some(_), SsdCopy::None, _) => missing(Level::Ssd),
            (None, SsdCopy::Whole(place), Some(ssd)) if !ssd.store.places().is_dirty(place) => {
                ssd.store.places_mut().give_up_clean(place);
            }
            (None, SsdCopy::Whole(_), _) => kept.copy = flight.copy(),
            _ => {}
        }
        match (flight.slot(Level::Dram), flight.frame()) {
            (Some(slot), Some(frame)) => self.dram.settle(slot, frame),
            (Some(_), None) => missing(Level::Dram),
            (None, frame) if keep_spares => kept.frame = frame,
            (None, Some(frame)) => self.dram.release(frame),
            (None, None) => {}
        }
        match (flight.slot(Level::ReadSsd), flight.mirror()) {
            (Some(slot), Some(place)) => self.read_ssd.settle(slot, place),
            (Some(_), None) => missing(Level::ReadSsd),
            (None, place) if keep_spares => kept.mirror = place,
            (None, Some(place)) => self.read_ssd.release(place),
            (None, None) => {}
        }
        kept
    }

    /// Bytes of memory by table.
    pub(crate) fn memory(&self) -> Memory {
        let (dram, read_ssd, ssd) = (&self.dram, &self.read_ssd, self.ssd.as_ref());
        let shelves =
            dram.shelf_bytes() + read_ssd.shelf_bytes() + ssd.map_or(0, |ssd| ssd.shelf.memory_bytes());
        Memory {
            frames_bytes: dram.frames_bytes() as u64,
            frame_tables_bytes: dram.table_bytes() as u64,
            ssd_places_bytes: ssd.map_or(0, |ssd| ssd.store.memory_bytes()) as u64,
            read_ssd_places_bytes: read_ssd.places_bytes() as u64,
            slots_bytes: shelves as u64,
            ..Memory::default()
        }
    }
}
