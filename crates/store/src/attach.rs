//! Giving a volume its space: recovery, growth and shrinkage by whole extents, and the new journal ring
//! that every run starts with.

use lode_format::{
    CacheId, DeviceLayout, EntryState, RecordBufferHeader, TableEntry, Volume, VolumeExtents, VolumeTag,
    data_checksum,
};
use lode_types::planted;

use crate::device::{SyncDevice, flush, read_with_tries, write};
use crate::dropped::DroppedPlaces;
use crate::empty_tables::empty_tables;
use crate::error::StoreError;
use crate::found_page::FoundPage;
use crate::journal::{Journal, first_ring_after};
use crate::order::FoundOrder;
use crate::place::Place;
use crate::places::Places;
use crate::record_buffer::{RecordBuffer, RecordStorage};
use crate::recover::Recovered;
use crate::refusals;
use crate::spec::VolumeSpec;
use crate::store::{Store, new_tag};
use crate::unreadable_copies::UnreadableCopies;
use crate::volume::{VolumeStore, place_offset};

/// Table pages, with two copies each, that are read or written at once.
const TABLES_AT_ONCE: usize = 512;

/// A volume's space on the SSD, recovered and ready for an engine.
#[derive(Debug)]
pub struct Attached {
    store: VolumeStore,
    found: FoundOrder,
    /// Records that were taken over from the last run's buffer, because the SSD did not have them.
    pub taken_over_records: u64,
    /// Blocks newer than the backing disk whose bytes could not be read, or are not what they were: guests get errors for
    /// them until they are overwritten or can be read again.
    pub unreadable_blocks: u64,
    /// Pages of tables and journal that could not be read, and of which something else said what was needed.
    pub unreadable_pages: u64,
    version: u64,
    epoch: u64,
}

impl Attached {
    /// A volume that has come while others are served, and holds nothing.
    pub(crate) fn new(store: VolumeStore, found: FoundOrder, epoch: u64) -> Attached {
        Attached {
            store,
            found,
            taken_over_records: 0,
            unreadable_blocks: 0,
            unreadable_pages: 0,
            version: 0,
            epoch,
        }
    }

    /// Keeps the volume's records where a death of the process does not lose them. Without it writes are acknowledged
    /// once the SSD was given their records.
    pub fn keep_records_in(&mut self, storage: RecordStorage) {
        let (cache, volume, ring) = self.store.identity();
        let (boot, cells) = (storage.boot, storage.records);
        let (epoch, after) = (self.epoch, self.version);
        let header = RecordBufferHeader { cache, boot, volume, ring, epoch, after, cells };
        let buffer = RecordBuffer::new(storage, &header);
        self.store.keep_records_in(buffer);
    }

    /// Blocks that came back, and how many of them are newer than the backing disk.
    pub fn recovered_blocks(&self) -> (usize, usize) {
        (self.found.len(), self.store.places().dirty() as usize)
    }

    /// Whether the volume's records are kept where a death of the process does not lose them.
    pub fn keeps_records(&self) -> bool {
        self.store.places().keeps_records()
    }

    /// The cache that the volume is on.
    pub fn cache(&self) -> CacheId {
        self.store.cache()
    }

    /// What stands for the volume in every checksum.
    pub fn tag(&self) -> VolumeTag {
        self.store.tag()
    }

    /// Journal and places, and those of them that hold something, which [`Places::put_in_order`] is to put in order before anything else is
    /// done with the places than to look at what they hold.
    pub fn into_store(self) -> (VolumeStore, FoundOrder) {
        (self.store, self.found)
    }

    /// The same with these places in order, from the least recent to the most recent.
    pub fn into_ordered_store(self) -> (VolumeStore, Vec<Place>) {
        let (mut store, mut found) = self.into_store();
        loop {
            if let Some(places) = store.places_mut().put_in_order(&mut found) {
                return (store, places);
            }
        }
    }
}

/// A volume's extents and what was found in them, while they change.
pub(crate) struct RecoveredSpace {
    pub(crate) extents: VolumeExtents,
    pub(crate) recovered: Recovered,
}

impl Store {
    /// Recovers a volume, or makes it, and gives it the space it should have. On an error nothing that
    /// was durable is lost.
    pub fn attach(&mut self, device: &mut dyn SyncDevice, spec: &VolumeSpec) -> Result<Attached, StoreError> {
        refusals::name(&spec.name)?;
        let view = &self.view;
        // Pages of the ring that is given up here must never pass for the new one's.
        let (number, tag, ring, mut space) = match view.directory.find(&spec.name) {
            Some((number, volume)) => {
                refusals::backing(volume, spec)?;
                let (tag, ring) = (volume.tag, volume.ring);
                let (_, recovered) = view.recover_for(device, number, volume, spec)?;
                let extents = view.directory.extents_of(number);
                (number, tag, first_ring_after(ring), RecoveredSpace { extents, recovered })
            }
            None => {
                let number = self.free_number()?;
                let recovered = Recovered::nothing(&view.layout, view.blocks_of(spec.backing_bytes));
                let space = RecoveredSpace { extents: VolumeExtents::default(), recovered };
                (number, new_tag(&view.superblock, number), first_ring_after(0), space)
            }
        };
        let identity = (spec.name.as_str(), spec.backing_bytes);
        let wanted = view.wanted(spec);
        let places = view.places(wanted.min(space.extents.count() as u64));
        refusals::dirty(spec, space.recovered.dirty(), places)?;
        self.write_again(device, tag, &mut space)?;
        let unreadable_blocks = space.recovered.unreadable.held(&space.recovered.found);
        // Those that hold nothing go first.
        space.extents.unwritten.truncate((wanted as usize).saturating_sub(space.extents.written.len()));
        if (space.extents.written.len() as u64) > wanted {
            // Before anything moves: what is free now may hold the only durable copy of a block whose newer one is only
            // believed.
            self.write_tables(device, tag, &mut space)?;
            flush(device)?;
            // A new ring as well: records of the old one speak of places that other blocks get now, and would be looked for there.
            if !planted("moved-before-the-ring-is-given-up") {
                self.commit_volume(device, number, (tag, ring), identity, &space)?;
            }
            space.recovered.durable = space.recovered.version;
            self.shrink(device, tag, &mut space, wanted)?;
        }
        self.grow(spec, &mut space, wanted)?;
        self.initialize(device, tag, &mut space, spec.ready_places)?;
        self.write_tables(device, tag, &mut space)?;
        flush(device)?;
        let dropped = self.view.dropped_places(device, &space.extents.written, &space.recovered);
        if dropped.is_empty() {
            space.recovered.dropped = Default::default();
        }
        self.commit_volume(device, number, (tag, ring), identity, &space)?;
        Ok(self.attached((tag, ring), space, (dropped, unreadable_blocks), spec.places))
    }

    fn free_number(&self) -> Result<u16, StoreError> {
        let volumes = &self.view.directory.volumes;
        let number = volumes.iter().position(Option::is_none).unwrap_or(volumes.len());
        if self.view.free_numbers() > 0 { Ok(number as u16) } else { Err(refusals::volumes()) }
    }

    /// Writes once more what may be volatile still.
    pub(crate) fn write_again(
        &mut self,
        device: &mut dyn SyncDevice,
        tag: VolumeTag,
        space: &mut RecoveredSpace,
    ) -> Result<(), StoreError> {
        self.write_blocks_again(device, tag, space)?;
        self.write_tables_again(device, tag, space)
    }

    /// Writes once more, to where they are, the dirty blocks that no flush is known to cover. The flush before the death of
    /// the last run may have failed, which the system says only once; without being written again they would stay as
    /// volatile as they are, whatever flush follows. A block that cannot be read cannot be written again, and what nobody
    /// can tell whether it is durable must not be called so: the start is refused.
    fn write_blocks_again(
        &self,
        device: &mut dyn SyncDevice,
        tag: VolumeTag,
        space: &mut RecoveredSpace,
    ) -> Result<(), StoreError> {
        if self.view.is_durable || planted("blocks-not-written-again") {
            return Ok(());
        }
        let mut buf = vec![0; self.view.layout.extent.block.bytes() as usize];
        let Recovered { found, durable, unreadable, .. } = &mut space.recovered;
        if planted("what-recovery-cannot-read-goes-uncounted") {
            *unreadable = UnreadableCopies::default();
        }
        for (place, entry) in found.dirty_later_than(*durable) {
            let offset = place_offset(&self.view.layout, &space.extents.written, place);
            let is_right = |bytes: &[u8]| data_checksum(tag, entry.block, bytes) == entry.crc;
            read_with_tries(device, offset, &mut buf, &is_right)
                .map_err(|error| refusals::unreadable(entry.block, offset, error))?;
            if is_right(&buf) {
                write(device, offset, &buf)?;
                unreadable.forget(place, entry.version);
            } else {
                unreadable.note(place, entry);
            }
        }
        Ok(())
    }

    /// Gives up extents beyond `wanted`, those with the fewest dirty blocks first; their dirty blocks
    /// move to places of the others, which have room for them.
    fn shrink(
        &self,
        device: &mut dyn SyncDevice,
        tag: VolumeTag,
        space: &mut RecoveredSpace,
        wanted: u64,
    ) -> Result<(), StoreError> {
        // Places whose blocks were superseded are free now and are written over here: what superseded them is durable, and
        // so are the tables that say so.
        let dirty_in = |space: &RecoveredSpace, ordinal: usize| {
            let found = &space.recovered.found;
            let places = found.places_of_extent(ordinal);
            places.filter(|&place| found.entry(place).state == EntryState::Dirty).count()
        };
        let mut dirty: Vec<usize> =
            (0..space.extents.written.len()).map(|ordinal| dirty_in(space, ordinal)).collect();
        while space.extents.written.len() as u64 > wanted {
            let ordinals = (0..space.extents.written.len()).rev();
            let leaving = ordinals.min_by_key(|&ordinal| dirty[ordinal]).expect("there are extents");
            if dirty[leaving] > 0 {
                self.move_dirty_out(device, tag, space, leaving)?;
                dirty = (0..space.extents.written.len()).map(|ordinal| dirty_in(space, ordinal)).collect();
            }
            space.extents.written.remove(leaving);
            space.recovered.found.remove_extent(leaving);
            dirty.remove(leaving);
        }
        Ok(())
    }

    fn move_dirty_out(
        &self,
        device: &mut dyn SyncDevice,
        tag: VolumeTag,
        space: &mut RecoveredSpace,
        leaving: usize,
    ) -> Result<(), StoreError> {
        let layout = &self.view.layout;
        let found = &mut space.recovered.found;
        let inside = found.places_of_extent(leaving);
        let is_dirty = |place: &Place| found.entry(*place).state == EntryState::Dirty;
        let dirty: Vec<Place> = inside.clone().filter(is_dirty).collect();
        // Free places first, then the clean ones that are oldest.
        let outside = (0..found.places()).filter(|place| !inside.contains(place));
        let is_free = |place: &Place| found.entry(*place).state == EntryState::Free;
        let mut to: Vec<Place> = outside.clone().filter(is_free).take(dirty.len()).collect();
        if to.len() < dirty.len() {
            let is_clean = |place: &Place| found.entry(*place).state == EntryState::Clean;
            let mut clean: Vec<Place> = outside.filter(is_clean).collect();
            clean.sort_by_key(|&place| found.entry(place).version);
            to.extend(clean);
        }
        let mut buf = vec![0; self.view.layout.extent.block.bytes() as usize];
        for (from, to) in dirty.into_iter().zip(to) {
            let entry = found.entry(from);
            let from_bytes = place_offset(layout, &space.extents.written, from);
            let is_right = |bytes: &[u8]| data_checksum(tag, entry.block, bytes) == entry.crc;
            device
                .read_right(from_bytes, &mut buf, &is_right)
                .map_err(|error| StoreError::media("read", from_bytes, error))?;
            if !planted("moved-block-not-written") {
                write(device, place_offset(layout, &space.extents.written, to), &buf)?;
            }
            found.set(to, entry);
            found.set(from, TableEntry::default());
        }
        Ok(())
    }

    /// Takes free extents up to `wanted`, unwritten.
    fn grow(&self, spec: &VolumeSpec, space: &mut RecoveredSpace, wanted: u64) -> Result<(), StoreError> {
        let missing = wanted.saturating_sub(space.extents.count() as u64) as usize;
        let owners = self.view.directory.owners.iter().enumerate();
        let free: Vec<u32> =
            owners.filter(|(_, o)| o.is_none()).map(|(e, _)| e as u32).take(missing).collect();
        if free.len() < missing {
            return Err(refusals::space(&self.view.layout, spec, missing as u64, free.len() as u64));
        }
        space.extents.unwritten.extend(free);
        space.extents.unwritten.sort_unstable();
        Ok(())
    }

    /// Writes empty tables to extents that are unwritten, both copies, so that nothing of an earlier owner or an earlier run is ever read
    /// there: to one at least, and until so many places are free.
    fn initialize(
        &self,
        device: &mut dyn SyncDevice,
        tag: VolumeTag,
        space: &mut RecoveredSpace,
        ready_places: u64,
    ) -> Result<(), StoreError> {
        let lacks = |space: &RecoveredSpace| {
            space.extents.written.is_empty() || space.recovered.found.count(EntryState::Free) < ready_places
        };
        while !space.extents.unwritten.is_empty() && lacks(space) {
            let extent = space.extents.unwritten.remove(0);
            self.write_empty_tables(device, tag, extent)?;
            let ordinal = space.extents.written.partition_point(|&other| other < extent);
            space.extents.written.insert(ordinal, extent);
            let page = FoundPage::EMPTY;
            space.recovered.found.insert_extent(ordinal, page);
        }
        Ok(())
    }

    /// Writes both copies of all of an extent's table pages, many at a time.
    fn write_empty_tables(
        &self,
        device: &mut dyn SyncDevice,
        tag: VolumeTag,
        extent: u32,
    ) -> Result<(), StoreError> {
        let layout = &self.view.layout;
        let first = u32::from(planted("table-page-of-extent-left"));
        for first in (first..layout.extent.table_pages).step_by(TABLES_AT_ONCE) {
            let pages = first..layout.extent.table_pages.min(first + TABLES_AT_ONCE as u32);
            let (offset_bytes, bytes) =
                empty_tables((self.view.superblock.cache, tag), layout, extent, pages, 0);
            write(device, offset_bytes, &bytes)?;
        }
        Ok(())
    }

    /// Makes the volume's extents and its new ring official, once all that was written is durable.
    pub(crate) fn commit_volume(
        &mut self,
        device: &mut dyn SyncDevice,
        number: u16,
        (tag, ring): (VolumeTag, u64),
        (name, backing_bytes): (&str, u64),
        RecoveredSpace { extents, recovered }: &RecoveredSpace,
    ) -> Result<(), StoreError> {
        let mut next = self.view.directory.clone();
        let volumes = &mut next.volumes;
        if volumes.len() <= number as usize {
            volumes.resize(number as usize + 1, None);
        }
        volumes[number as usize] = Some(Volume {
            name: name.to_owned(),
            tag,
            backing_bytes,
            ring,
            is_ring_longer: false,
            attached_in: self.view.superblock.epoch,
            run_version: recovered.run_version(),
            dropped: recovered.dropped,
        });
        next.set_extents_of(number, extents);
        self.write_directory(device, next)
    }

    fn attached(
        &self,
        (tag, ring): (VolumeTag, u64),
        space: RecoveredSpace,
        (dropped, unreadable_blocks): (DroppedPlaces, u64),
        places: u64,
    ) -> Attached {
        let version = space.recovered.run_version();
        let RecoveredSpace { extents, recovered } = space;
        let Recovered { found, buffered, unreadable_pages, .. } = recovered;
        let layout: DeviceLayout = self.view.layout;
        let (per_extent, pages) = (layout.extent.places, layout.extent.table_pages);
        let (contents, found, sequences) = found.into_contents(version);
        let mut places =
            Places::new(tag, contents, version, (per_extent, pages), extents.written.clone(), places);
        places.note_dropped(dropped);
        let cache = self.view.superblock.cache;
        let journal = Journal::new(cache, tag, ring, layout, extents.written.clone(), version);
        let store = VolumeStore::new(cache, tag, layout, extents, sequences, places, journal);
        Attached {
            store,
            found,
            taken_over_records: buffered,
            unreadable_blocks,
            unreadable_pages,
            version,
            epoch: self.view.superblock.epoch,
        }
    }
}
