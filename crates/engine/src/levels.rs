//! The frames and places of the three levels: what a block that comes into flight takes along, and where it goes when its
//! flight is over. It must not know operations, guests or why copies move.

use std::ops::Range;

use lode_format::EntryState;
use lode_policy::{Quota, Slot};
use lode_store::{Era, Places, VolumeStore};
use lode_types::{BlockNo, Bytes, Level, planted};

use crate::command::{DeviceId, MediaError};
use crate::config::EngineConfig;
use crate::drain::Target;
use crate::dram::{Dram, Frame};
use crate::flight::{CopyAt, Damage, Flight, Gate, Place, Put, Reserved, SsdCopy};
use crate::flights::Kept;
use crate::memory::Memory;
use crate::read_ssd::ReadSsd;
use crate::shelf::{PlaceSource, Shelf};

/// All three levels of one volume.
#[derive(Debug)]
pub(crate) struct Levels {
    dram: Shelf<Dram>,
    ssd: Option<Shelf<VolumeStore>>,
    read_ssd: Shelf<ReadSsd>,
    /// Every write needs a place of the SSD, whatever the share.
    all_writes_need_places: bool,
}

impl Levels {
    /// The levels of a volume, with what is on the SSD where it has one. `is_ordered`: its backing disk is written in groups, for
    /// which every write has to be on the SSD.
    pub(crate) fn new(dram: Dram, store: Option<VolumeStore>, read_ssd: ReadSsd, is_ordered: bool) -> Levels {
        let all_writes_need_places = store.is_some() && is_ordered;
        Levels {
            dram: Shelf::new(dram),
            ssd: store.map(Shelf::new),
            read_ssd: Shelf::new(read_ssd),
            all_writes_need_places,
        }
    }

    /// What is on the SSD, of a volume that has one.
    pub(crate) fn store(&self) -> Option<&VolumeStore> {
        self.ssd.as_ref().map(Shelf::source)
    }

    /// The same, to be told what became of it.
    pub(crate) fn store_mut(&mut self) -> Option<&mut VolumeStore> {
        self.ssd.as_mut().map(Shelf::source_mut)
    }

    fn ssd_shelf(&mut self) -> &mut Shelf<VolumeStore> {
        self.ssd.as_mut().expect("a place is on an SSD")
    }

    /// Places of the SSD, of a volume that has copies there.
    pub(crate) fn places(&mut self) -> &mut Places {
        self.ssd_shelf().source_mut().places_mut()
    }

    /// What is on the read SSD.
    pub(crate) fn read_ssd(&self) -> &ReadSsd {
        self.read_ssd.source()
    }

    /// Frames that may be used at once.
    pub(crate) fn frames(&self) -> u32 {
        self.dram.source().limit()
    }

    /// So many more frames may be used.
    pub(crate) fn add_frames(&mut self, frames: u32) {
        self.dram.source_mut().add(frames);
    }

    /// Gives up the frames beyond so many, as far as nobody uses them or has reserved them. Says how many.
    pub(crate) fn give_frames_back(&mut self, kept: u32) -> u32 {
        let reserved = self.dram.reserved();
        self.dram.source_mut().give_back(kept, reserved)
    }

    /// Hands out the places of so many extents of the SSD, as far as what is in the others fits into these.
    pub(crate) fn circulate(&mut self, extents: u32) {
        if let Some(ssd) = &mut self.ssd {
            let reserved = ssd.reserved();
            ssd.source_mut().circulate(extents, reserved);
        }
    }

    /// Whether the copy on the SSD is newer than the backing disk.
    pub(crate) fn is_dirty(&self, copy: SsdCopy) -> bool {
        copy.place().is_some_and(|place| self.is_dirty_at(place))
    }

    /// The same of the copy at a place.
    pub(crate) fn is_dirty_at(&self, place: Place) -> bool {
        self.store().is_some_and(|store| store.places().is_dirty(place))
    }

    pub(crate) fn dirty_blocks(&self) -> u32 {
        self.store().map_or(0, |store| store.places().dirty())
    }

    /// Version of the journal's latest record.
    pub(crate) fn version(&self) -> u64 {
        self.store().map_or(0, |store| store.places().version())
    }

    /// Places of the SSD that nobody has or waits for.
    pub(crate) fn available_places(&self) -> u32 {
        self.ssd.as_ref().map_or(0, Shelf::available)
    }

    /// The same of the read SSD.
    pub(crate) fn available_mirrors(&self) -> u32 {
        self.read_ssd.available()
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
        let store = self.store();
        if config.largest_share.is_none() {
            let failed = store.map_or(0, |store| store.places().quarantined());
            return share.with(Level::Ssd, share.ssd_blocks.saturating_sub(failed));
        }
        let ssd_places = store.map_or(0, VolumeStore::usable_places);
        let within = |level, places| share.of(level).min(config.largest_share_within(level, places));
        share
            .with(Level::Dram, within(Level::Dram, self.dram.source().limit()))
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
            self.ssd_shelf().reserve();
        }
        Reserved { frame, place }
    }

    /// The next places of the SSD to be taken should be so many that lie together.
    pub(crate) fn prefer_run(&mut self, places: u32) {
        if let Some(store) = self.store_mut() {
            store.places_mut().prefer_run(places);
        }
    }

    /// A place of the SSD that was set aside.
    pub(crate) fn take_reserved_place(&mut self) -> Place {
        self.ssd_shelf().take_reserved()
    }

    /// A place of the SSD, of which some are available.
    pub(crate) fn take_place(&mut self) -> Place {
        self.ssd_shelf().take()
    }

    /// Gives back what was set aside and not used.
    pub(crate) fn unreserve(&mut self, reserved: Reserved) {
        if reserved.frame {
            self.dram.unreserve();
        }
        if reserved.place {
            self.ssd_shelf().unreserve();
        }
    }

    /// The block is at this place of the SSD now. `is_unstable`: the backing disk may still lose the bytes of a clean copy, so that
    /// the journal is not to know of it yet. Gives the copy's version, and whether the journal does not know of it.
    pub(crate) fn put(&mut self, block: BlockNo, put: Put, is_unstable: bool) -> (u64, bool) {
        let Put { place, crc, dirty, old } = put;
        let places = self.places();
        // A clean copy that is moved stays what it was.
        let clean = old.filter(|&old| !places.is_dirty(old));
        let volatile = !planted("unflushed-copy-recorded")
            && !dirty
            && clean.map_or(is_unstable, |old| places.is_volatile(old));
        places.put(place, block, crc, dirty, volatile, old);
        (places.version(), volatile)
    }

    /// The version of the journal that is to be durable before a block passes this gate; `place` is where its copy is.
    pub(crate) fn version_at(&self, gate: Gate, place: Option<Place>) -> u64 {
        let store = self.store().expect("what waits for the journal has one");
        match (gate, place) {
            (Gate::OwnRecord, Some(_)) if planted("gate-of-another-version") => store.durable_version(),
            (Gate::OwnRecord, Some(place)) => store.places().recorded_at(place),
            _ => store.places().version(),
        }
    }

    /// The backing disk durably has the block of this dirty copy, which `stays` as a clean one or goes. Gives the version at which
    /// that is durable.
    pub(crate) fn written_back(&mut self, place: Place, stays: bool) -> u64 {
        let places = self.places();
        if stays { places.clean(place) } else { places.give_up_dirty(place) }
    }

    /// A write to this place of the SSD failed, or a read of it: it is not used again, and the share shrinks by it.
    pub(crate) fn quarantine(&mut self, place: Place) {
        self.places().quarantine(place);
    }

    /// A copy was found damaged. `place_fails`: what was there is no reason to believe what is put there next.
    pub(crate) fn note_damage(&mut self, damage: Damage, place_fails: bool) {
        match damage {
            Damage::Clean(place) => {
                if place_fails {
                    self.quarantine(place);
                }
                self.places().give_up_clean(place);
            }
            Damage::Mirrored(place) | Damage::Lost(place) => self.quarantine(place),
            Damage::Mirror { .. } => self.read_ssd.source_mut().quarantine(),
        }
    }

    /// Device and first byte of a copy that a command reads.
    pub(crate) fn location(&self, copy: CopyAt, flight: &Flight) -> (DeviceId, u64) {
        match (copy, flight.mirror(), flight.copy().whole(), self.store()) {
            (CopyAt::ReadSsd, Some(place), ..) => (DeviceId::ReadSsd, self.read_ssd().offset(place)),
            (CopyAt::Ssd, _, Some(place), Some(store)) => (DeviceId::Ssd, store.offset(place)),
            (copy, ..) => unreachable!("{copy:?} is on no device of the cache"),
        }
    }

    /// Whether what was read of a copy is what it should be.
    pub(crate) fn is_intact(
        &mut self,
        copy: CopyAt,
        flight: &Flight,
        result: Result<(), MediaError>,
        data: &[u8],
    ) -> bool {
        match (copy, flight.copy().place(), flight.mirror(), self.store()) {
            (CopyAt::Ssd, Some(place), _, Some(store)) => {
                result.is_ok() && (store.places().is_intact(place, data) || planted("damaged-bytes-served"))
            }
            (CopyAt::ReadSsd, _, Some(place), _) => {
                let read_ssd = self.read_ssd.source_mut();
                read_ssd.note(result);
                result.is_ok() && read_ssd.is_intact(place, data)
            }
            _ => result.is_ok(),
        }
    }

    /// The bytes of a frame.
    pub(crate) fn frame_bytes(&self, frame: Frame) -> &Bytes {
        self.dram.source().bytes(frame)
    }

    /// The frame of a slot whose block is not in flight, without taking it.
    pub(crate) fn frame_in(&self, slot: Slot) -> Option<Frame> {
        self.dram.get(slot)
    }

    /// Takes the frame that was set aside for the bytes of a whole block.
    pub(crate) fn fill_frame(&mut self, block: BlockNo, bytes: Bytes) -> Frame {
        let frame = self.dram.take_reserved();
        self.dram.source_mut().store(frame, block, bytes);
        frame
    }

    /// Nobody needs this frame any more.
    pub(crate) fn release_frame(&mut self, frame: Frame) {
        self.dram.source_mut().release(frame);
    }

    /// A place of the read SSD for these bytes of a block: what it is, their checksum, and where it is on the device.
    pub(crate) fn take_mirror(&mut self, block: BlockNo, bytes: &[u8]) -> (Place, u32, u64) {
        let place = self.read_ssd.take();
        (place, self.read_ssd().checksum(block, bytes), self.read_ssd().offset(place))
    }

    /// A write of the block to a place of the read SSD has ended. One that failed is not used again.
    pub(crate) fn mirror_written(
        &mut self,
        block: BlockNo,
        (place, crc): (Place, u32),
        result: Result<(), MediaError>,
    ) {
        let read_ssd = self.read_ssd.source_mut();
        read_ssd.note(result);
        match result {
            Ok(()) => read_ssd.put(place, block, crc),
            Err(_) => read_ssd.quarantine(),
        }
    }

    /// Nobody needs this place of the read SSD any more.
    pub(crate) fn release_mirror(&mut self, place: Place) {
        self.read_ssd.source_mut().release(place);
    }

    /// Bound of the SSD's slots that ever had a place.
    pub(crate) fn ssd_slots(&self) -> u32 {
        self.ssd.as_ref().map_or(0, Shelf::slots)
    }

    /// The place of an SSD's slot whose block is not in flight.
    pub(crate) fn place_in(&self, slot: Slot) -> Option<Place> {
        self.ssd.as_ref()?.get(slot)
    }

    /// Dirty copies in these slots of the SSD that are not in flight and have versions up to this one, and how old they are.
    pub(crate) fn dirty_in(&self, slots: Range<Slot>, version: u64) -> Vec<(Era, Target)> {
        let Some(store) = self.store() else { return Vec::new() };
        let places = store.places();
        let era = places.era_of(version);
        let copy = |slot| {
            let place = self.place_in(slot)?;
            let held = places.held(place);
            let is_due = held.state == EntryState::Dirty && places.is_up_to(place, era);
            is_due.then(|| (places.era(place), Target { block: held.block, slot: Some(slot) }))
        };
        slots.filter_map(copy).collect()
    }

    /// All dirty copies up to this version, in ascending order of their blocks: those in slots, and of those of blocks `elsewhere`
    /// the ones that are.
    pub(crate) fn take_stock(
        &self,
        version: u64,
        elsewhere: impl Iterator<Item = (BlockNo, Place)>,
    ) -> Vec<Target> {
        let Some(ssd) = &self.ssd else { return Vec::new() };
        let places = ssd.source().places();
        let era = places.era_of(version);
        let is_due = |place| places.is_dirty(place) && places.is_up_to(place, era);
        let settled = ssd.iter().filter(|&(_, place)| is_due(place));
        let settled =
            settled.map(|(slot, place)| Target { block: places.held(place).block, slot: Some(slot) });
        let elsewhere = elsewhere.filter(|&(_, place)| is_due(place));
        let elsewhere = elsewhere.map(|(block, _)| Target { block, slot: None });
        let settled_count = settled.clone().count();
        let elsewhere: Vec<Target> = elsewhere.collect();
        let mut stock = Vec::with_capacity(settled_count + elsewhere.len());
        stock.extend(settled);
        stock.extend(elsewhere);
        stock.sort_unstable_by_key(|target| target.block);
        stock
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
            Level::Ssd => self.ssd.as_mut().and_then(|ssd| ssd.claim(slot)),
            Level::ReadSsd => self.read_ssd.claim(slot),
        };
        flight.take_copy(level, copy);
    }

    /// Empties the slot of a clean copy whose block is not in flight.
    pub(crate) fn empty_slot(&mut self, level: Level, slot: Slot) {
        match level {
            Level::Dram => self.dram.empty(slot),
            Level::ReadSsd => self.read_ssd.empty(slot),
            Level::Ssd => unreachable!("what leaves the SSD goes by way of its block's queue"),
        }
    }

    /// A slot of the SSD has the place of a block that is not in flight.
    pub(crate) fn settle_place(&mut self, slot: Slot, place: Place) {
        self.ssd_shelf().settle(slot, place);
    }

    /// No slot of DRAM and of the read SSD has a copy any more.
    pub(crate) fn empty_fast_slots(&mut self) {
        self.dram.empty_all();
        self.read_ssd.empty_all();
    }

    /// No slot of the SSD has a place any more. Gives the places that slots had, least recent first.
    pub(crate) fn take_places(&mut self) -> Vec<Place> {
        let Some(ssd) = &mut self.ssd else { return Vec::new() };
        let (mut taken, places) = (ssd.take_all(), ssd.source().places());
        taken.sort_unstable_by_key(|&place| (places.era(place), place));
        taken
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
            (Some(slot), SsdCopy::Whole(place), Some(ssd)) => ssd.settle(slot, place),
            (Some(_), SsdCopy::None, _) => missing(Level::Ssd),
            (None, SsdCopy::Whole(place), Some(ssd)) if !ssd.source().places().is_dirty(place) => {
                ssd.source_mut().release(place);
            }
            (None, SsdCopy::Whole(_), _) => kept.copy = flight.copy(),
            _ => {}
        }
        match (flight.slot(Level::Dram), flight.frame()) {
            (Some(slot), Some(frame)) => self.dram.settle(slot, frame),
            (Some(_), None) => missing(Level::Dram),
            (None, frame) if keep_spares => kept.frame = frame,
            (None, Some(frame)) => self.dram.source_mut().release(frame),
            (None, None) => {}
        }
        match (flight.slot(Level::ReadSsd), flight.mirror()) {
            (Some(slot), Some(place)) => self.read_ssd.settle(slot, place),
            (Some(_), None) => missing(Level::ReadSsd),
            (None, place) if keep_spares => kept.mirror = place,
            (None, Some(place)) => self.read_ssd.source_mut().release(place),
            (None, None) => {}
        }
        kept
    }

    /// Bytes of memory by table.
    pub(crate) fn memory(&self) -> Memory {
        let (dram, read_ssd) = (self.dram.source(), self.read_ssd.source());
        let of_ssd = self.ssd.as_ref().map_or(0, Shelf::memory_bytes);
        let slots = self.dram.memory_bytes() + self.read_ssd.memory_bytes() + of_ssd;
        Memory {
            frames_bytes: dram.frames_bytes() as u64,
            frame_tables_bytes: dram.table_bytes() as u64,
            ssd_places_bytes: self.store().map_or(0, VolumeStore::memory_bytes) as u64,
            read_ssd_places_bytes: read_ssd.places_bytes() as u64,
            slots_bytes: slots as u64,
            ..Memory::default()
        }
    }
}
