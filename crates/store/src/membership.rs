//! Volumes that are added, removed and renamed while others are served: what the directory says of them, and what has to be durable
//! before it does. A power cut between any two writes finds the directory of before or of after.
//!
//! - A volume that comes gets empty tables in both copies on some of the extents that are to be its own, which are nobody's, then its
//!   entry in the directory, where the others are unwritten. Its tag is made as at a start.
//! - Before a volume goes both superblocks rise above the epoch from which its tag was made, because its number is free from then
//!   on ([`Store::remove`](crate::Store::remove)). Its bytes stay, and without its tag they are nobody's.
//! - A name is the directory's alone: nothing else on the SSD knows it.

use std::collections::HashSet;

use lode_format::{Directory, Volume, VolumeExtents, VolumeTag};
use lode_types::{Buf, planted};

use crate::attach::Attached;
use crate::directory::{ChangeStep, ChangeUnderWay, SpaceDirectory};
use crate::empty_tables::{PAGES_AT_ONCE, empty_tables};
use crate::error::StoreError;
use crate::found::FoundPlaces;
use crate::found_page::FoundPage;
use crate::journal::{Journal, first_ring_after};
use crate::places::Places;
use crate::refusals;
use crate::store::new_tag;
use crate::volume::VolumeStore;

/// What is to become of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipChange {
    /// A volume that is new comes, with so many extents.
    Create {
        /// Its name, which no other volume has.
        name: String,
        /// Bytes of its backing disk.
        backing_bytes: u64,
        /// Extents to begin with, one at least.
        extents: u32,
        /// How many of them are initialized at once, one at least; the others are when they are needed
        /// ([`VolumeStore::initialize`](crate::VolumeStore::initialize)).
        ready_extents: u32,
    },
    /// A volume goes, with all that it has. Nobody serves it, and nothing is lent to it.
    Remove(VolumeTag),
    /// A volume gets another name, which no other one has.
    Rename(VolumeTag, String),
}

impl MembershipChange {
    /// Extents that are nobody's and that it takes.
    pub fn extents(&self) -> u32 {
        match self {
            MembershipChange::Create { extents, .. } => (*extents).max(1),
            MembershipChange::Remove(_) | MembershipChange::Rename(..) => 0,
        }
    }
}

impl SpaceDirectory {
    /// Begins a change of what volumes there are. No other change is under way. Gives the volume that it is about.
    ///
    /// # Errors
    /// A name that is taken or cannot be, a volume that is not there, too little space. Nothing changes then.
    pub fn begin_membership(&mut self, change: &MembershipChange) -> Result<VolumeTag, StoreError> {
        assert!(self.change.is_none(), "one change at a time");
        let mut next = self.directory.clone();
        let mut superblock = self.superblock;
        let mut steps = Vec::new();
        let tag = match change {
            MembershipChange::Create { name, backing_bytes, extents, ready_extents } => {
                self.check_name(name)?;
                let number = free_number(&next)?;
                let tag = new_tag(&superblock, number);
                let extents = self.lend_all(tag, name, (*extents).max(1))?;
                let volume = Volume {
                    name: name.clone(),
                    tag,
                    backing_bytes: *backing_bytes,
                    ring: first_ring_after(0),
                    is_ring_longer: false,
                    attached_in: match planted("volume-is-of-the-epoch-that-superblocks-rise-to") {
                        true => superblock.epoch,
                        false => self.epoch,
                    },
                    run_version: 0,
                    dropped: Default::default(),
                };
                put(&mut next, number, Some(volume));
                let ready = extents.len().min((*ready_extents).max(1) as usize);
                let (written, unwritten) = extents.split_at(ready);
                let extents = VolumeExtents { written: written.to_vec(), unwritten: unwritten.to_vec() };
                next.set_extents_of(number, &extents);
                let tables = written.iter().map(|&extent| ChangeStep::Tables { tag, extent, next: 0 });
                steps.extend(tables.chain([ChangeStep::Flush]));
                tag
            }
            MembershipChange::Remove(tag) => {
                assert!(self.lent_to(*tag).is_empty(), "nothing is lent to a volume that goes");
                let number = self.number_of(*tag)?;
                put(&mut next, number, None);
                next.free_extents_of(number);
                superblock.epoch += 1;
                steps.extend([
                    ChangeStep::Superblock,
                    ChangeStep::Flush,
                    ChangeStep::Superblock,
                    ChangeStep::Flush,
                ]);
                *tag
            }
            MembershipChange::Rename(tag, name) => {
                self.check_name(name)?;
                let number = self.number_of(*tag)?;
                let volume = next.volumes[number as usize].as_mut().expect("it has this number");
                volume.name.clone_from(name);
                *tag
            }
        };
        self.change = Some(ChangeUnderWay::new(tag, next, superblock, steps));
        Ok(tag)
    }

    /// Extents that a change needs and that others have, which may give them up: so many are missing for it now. 0: it can begin,
    /// or has to be refused whatever others give up.
    pub fn missing_extents(&self, change: &MembershipChange) -> u32 {
        let MembershipChange::Create { name, .. } = change else { return 0 };
        let wanted = change.extents();
        // Each volume has one at least.
        let volumes = self.directory.volumes.iter().flatten().count() as u32;
        let most = (self.directory.owners.len() as u32).saturating_sub(volumes);
        let is_possible = self.check_name(name).is_ok() && wanted <= most;
        if is_possible { wanted.saturating_sub(self.free_extents()) } else { 0 }
    }

    /// Why a change waits for which so many extents are missing.
    pub fn shortage(&self, change: &MembershipChange) -> Option<StoreError> {
        let MembershipChange::Create { name, .. } = change else { return None };
        let (wanted, free) = (change.extents(), self.free_extents());
        (wanted > free).then(|| refusals::space_for(&self.layout, name, wanted.into(), free.into()))
    }

    /// Identity of the cache, and the epoch, which grows when a volume goes.
    pub fn superblock(&self) -> &lode_format::Superblock {
        &self.superblock
    }

    /// The volume of this name.
    pub fn find(&self, name: &str) -> Option<VolumeTag> {
        self.directory.find(name).map(|(_, volume)| volume.tag)
    }

    /// Extents that are nobody's, lent or not, or these volumes'.
    pub fn extents_for(&self, volumes: &[VolumeTag]) -> u32 {
        let ours: HashSet<VolumeTag> = volumes.iter().copied().collect();
        let is_ours = |volume: &Option<Volume>| volume.as_ref().is_some_and(|one| ours.contains(&one.tag));
        let ours: Vec<bool> = self.directory.volumes.iter().map(is_ours).collect();
        let owners = self.directory.owners.iter();
        owners.filter(|owner| owner.is_none_or(|number| ours[number as usize])).count() as u32
    }

    /// The names of all volumes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.directory.volumes.iter().flatten().map(|volume| volume.name.as_str())
    }

    /// Places in so many extents.
    pub fn places_in(&self, extents: u32) -> u64 {
        u64::from(extents) * u64::from(self.layout.extent.places)
    }

    /// Bytes of an extent.
    pub fn extent_bytes(&self) -> u64 {
        self.layout.extent.extent_bytes
    }

    /// What a volume has that has just come: nothing yet. Of its places no more are used than `places`.
    pub fn attach_new(&self, volume: VolumeTag, places: u64) -> Result<Attached, StoreError> {
        let number = self.number_of(volume)?;
        let extents = self.directory.extents_of(number);
        let (layout, cache) = (self.layout, self.superblock.cache);
        let (places_per_extent, pages) = (layout.extent.places, layout.extent.table_pages);
        let backing_bytes =
            self.directory.volumes[number as usize].as_ref().map_or(0, |one| one.backing_bytes);
        let mut found =
            FoundPlaces::new(places_per_extent, pages, backing_bytes.div_ceil(layout.extent.block.bytes()));
        let page = FoundPage::EMPTY;
        let written = &extents.written;
        (0..written.len()).for_each(|ordinal| found.insert_extent(ordinal, page));
        let (contents, order, sequences) = found.into_contents(0);
        let places = Places::new(volume, contents, 0, (places_per_extent, pages), written.clone(), places);
        let journal = Journal::new(cache, volume, first_ring_after(0), layout, written.clone(), 0);
        let store = VolumeStore::new(cache, volume, layout, extents, sequences, places, journal);
        Ok(Attached::new(store, order, self.superblock.epoch))
    }

    fn check_name(&self, name: &str) -> Result<(), StoreError> {
        refusals::name(name)?;
        match self.directory.find(name) {
            Some(_) => Err(refusals::taken(name)),
            None => Ok(()),
        }
    }

    fn number_of(&self, tag: VolumeTag) -> Result<u16, StoreError> {
        let is_it = |volume: &Option<Volume>| volume.as_ref().is_some_and(|volume| volume.tag == tag);
        let found = self.directory.volumes.iter().position(is_it);
        found.map(|number| number as u16).ok_or_else(|| refusals::unknown("", &self.directory))
    }

    fn lend_all(&mut self, tag: VolumeTag, name: &str, wanted: u32) -> Result<Vec<u32>, StoreError> {
        let free = self.free_extents();
        if free < wanted {
            return Err(refusals::space_for(&self.layout, name, wanted.into(), free.into()));
        }
        Ok(self.lend(tag, wanted))
    }

    /// Empty tables from this page on, both copies of each, and where they belong. Gives the page behind them as well.
    pub(crate) fn new_tables(&self, tag: VolumeTag, extent: u32, first: u32) -> (u64, Buf, u32) {
        let end = (first + PAGES_AT_ONCE).min(self.table_pages());
        let cache = self.superblock.cache;
        let (offset_bytes, bytes) = empty_tables((cache, tag), &self.layout, extent, first..end, 0);
        (offset_bytes, Buf::copy_of(&bytes), end)
    }

    pub(crate) fn table_pages(&self) -> u32 {
        self.layout.extent.table_pages
    }
}

fn free_number(directory: &Directory) -> Result<u16, StoreError> {
    let volumes = &directory.volumes;
    let number = volumes.iter().position(Option::is_none).unwrap_or(volumes.len());
    if number < Directory::MAX_VOLUMES { Ok(number as u16) } else { Err(refusals::volumes()) }
}

fn put(directory: &mut Directory, number: u16, volume: Option<Volume>) {
    let volumes = &mut directory.volumes;
    if volumes.len() <= number as usize {
        volumes.resize(number as usize + 1, None);
    }
    volumes[number as usize] = volume;
}
