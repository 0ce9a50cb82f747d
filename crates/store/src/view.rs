//! What a cache SSD holds, read without a byte written: its volumes, what is in them, and whether a start with a
//! given configuration would be refused. Starts, looks from outside and removals all begin here.

use std::collections::HashMap;

use lode_format::{BootId, DeviceLayout, Directory, EntryState, Record, Superblock, Volume, VolumeTag};

use crate::buffered::{BufferIgnored, TakenOver, read_buffer};
use crate::device::SyncDevice;
use crate::dropped::DroppedPlaces;
use crate::error::{StoreError, StoreErrorKind};
use crate::heads::read_directory;
use crate::recover::{Recovered, RecoverySource, recover};
use crate::refusals;
use crate::spec::VolumeSpec;
use crate::store::Store;
use crate::volume::place_offset;

/// A cache SSD as it is. It need not be the only one who reads it, but nobody may write to it meanwhile.
#[derive(Clone, Debug)]
pub struct StoreView {
    pub(crate) superblock: Superblock,
    pub(crate) layout: DeviceLayout,
    pub(crate) directory: Directory,
    /// What the record buffers of volumes hold that the SSD may not have.
    buffered: HashMap<VolumeTag, Vec<Record>>,
    /// Pages of the directory that could not be read.
    unreadable_pages: u64,
    /// See [`StoreView::count_as_durable`].
    pub(crate) is_durable: bool,
}

/// A volume that has space on the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Its name in the configuration.
    pub name: String,
    /// What stands for it in every checksum, and is never given to another one.
    pub tag: VolumeTag,
    /// Bytes of its backing disk when it was last attached.
    pub backing_bytes: u64,
    /// Extents it owns.
    pub extents: u32,
    /// Bytes of the SSD that these take.
    pub space_bytes: u64,
}

/// Blocks that a volume has on the SSD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Those that equal the backing disk.
    pub clean: u64,
    /// Those that are newer than the backing disk.
    pub dirty: u64,
}

impl StoreView {
    /// Reads what a device holds, and checks that it is the one that was formatted.
    pub fn read(device: &mut dyn SyncDevice) -> Result<StoreView, StoreError> {
        let superblock = Store::probe(device)?;
        if device.size_bytes() != superblock.device_bytes {
            return Err(StoreError::new(
                StoreErrorKind::WrongSize,
                format!(
                    "the device has {} bytes and cache {} on it was made for {}; restore the size, or format it again with `lode format \
                     --force` and lose what it holds",
                    device.size_bytes(),
                    superblock.cache,
                    superblock.device_bytes
                ),
            ));
        }
        let layout = superblock.layout()?;
        let (directory, unreadable_pages) = read_directory(device, superblock.cache)?;
        let buffered = HashMap::new();
        Ok(StoreView { superblock, layout, directory, buffered, unreadable_pages, is_durable: false })
    }

    /// Takes over what a volume's record buffer holds, if it is the one of the volume's last run on this boot: from now
    /// on it is as good as what the journal holds. What comes of it is said; nothing is lost by asking twice.
    pub fn take_over(&mut self, name: &str, boot: BootId, bytes: &[u8]) -> Result<TakenOver, BufferIgnored> {
        let Some((number, volume)) = self.directory.find(name) else { return Err(BufferIgnored::NoVolume) };
        let (tag, ring) = (volume.tag, volume.ring);
        let extents = self.directory.extents_of(number).written;
        let (records, found) =
            read_buffer(bytes, boot, &self.superblock, (tag, ring), &self.layout, &extents)?;
        self.buffered.insert(tag, records);
        Ok(found)
    }

    /// Says that no flush of the SSD has failed since the host went down or the last run began: that run ended in order,
    /// or it was on another boot, and no start has come to nothing since. Without it a start takes nothing that it reads
    /// for durable, and writes metadata once more before it writes over their other copies.
    pub fn count_as_durable(&mut self) {
        self.is_durable = true;
    }

    /// Pages of the directory that could not be read, of which another copy said what was needed.
    pub fn unreadable_pages(&self) -> u64 {
        self.unreadable_pages
    }

    /// Identity, epoch and geometry.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The volumes that have space on this cache, in no order that means anything.
    pub fn volumes(&self) -> impl Iterator<Item = VolumeInfo> {
        let numbered = self.directory.volumes.iter().enumerate();
        numbered.filter_map(|(number, volume)| Some(self.info(number as u16, volume.as_ref()?)))
    }

    /// Extents that no volume owns.
    pub fn free_extents(&self) -> u32 {
        self.directory.owners.iter().filter(|owner| owner.is_none()).count() as u32
    }

    /// Places in the extents that a volume has, none of one that is new. With these its start changes no extents.
    pub fn places_of(&self, name: &str) -> u64 {
        self.places(self.directory_extents(name))
    }

    /// What a volume's blocks are, which takes a recovery: reading all of its tables and its journal.
    pub fn count_blocks(&self, device: &mut dyn SyncDevice, name: &str) -> Result<BlockCounts, StoreError> {
        let (number, volume) = self.find(name)?;
        let (_, recovered) = self.recover_what_is_there(device, number, volume)?;
        Ok(BlockCounts { clean: recovered.found.count(EntryState::Clean), dirty: recovered.dirty() })
    }

    /// Knows a volume by another name, which no other one has, until [`Store::write_names`](crate::Store::write_names) has the SSD
    /// say so. Whether there is such a volume.
    pub fn rename(&mut self, from: &str, to: &str) -> bool {
        if self.directory.find(to).is_some() {
            return false;
        }
        let volume = self.directory.volumes.iter_mut().flatten().find(|volume| volume.name == from);
        volume.map(|volume| to.clone_into(&mut volume.name)).is_some()
    }

    /// Places in so many extents.
    pub fn places_in(&self, extents: u32) -> u64 {
        self.places(extents.into())
    }

    /// The order in which these volumes are to be attached: those that give space back before those that need it.
    pub fn attach_order(&self, specs: &[VolumeSpec]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..specs.len()).collect();
        let grows = |spec: &VolumeSpec| self.wanted(spec) > self.directory_extents(&spec.name);
        order.sort_by_key(|&at| grows(&specs[at]));
        order
    }

    /// Refuses what [`Store::attach`] would refuse if all of these volumes were attached, in the order of
    /// [`StoreView::attach_order`]. Volumes that shrink or are read-only are recovered for it; damage in others is
    /// not looked for.
    pub fn check(&self, device: &mut dyn SyncDevice, specs: &[VolumeSpec]) -> Result<(), StoreError> {
        let (mut free, mut free_numbers) = (u64::from(self.free_extents()), self.free_numbers());
        for (at, spec) in self.attach_order(specs).into_iter().map(|at| (at, &specs[at])) {
            refusals::name(&spec.name)?;
            if specs[..at].iter().any(|other| other.name == spec.name) {
                return Err(refusals::twice(&spec.name));
            }
            let (wanted, has) = (self.wanted(spec), self.directory_extents(&spec.name));
            match self.directory.find(&spec.name) {
                Some((number, volume)) => {
                    refusals::backing(volume, spec)?;
                    if wanted < has || spec.read_only {
                        let (_, found) = self.recover_for(device, number, volume, spec)?;
                        refusals::dirty(spec, found.dirty(), self.places(wanted.min(has)))?;
                    }
                }
                None => free_numbers = free_numbers.checked_sub(1).ok_or_else(refusals::volumes)?,
            }
            free = match (free + has).checked_sub(wanted) {
                Some(left) => left,
                None => return Err(refusals::space(&self.layout, spec, wanted - has, free)),
            };
        }
        Ok(())
    }

    /// Gives volumes the spare places they ask for, as far as extents are left when all of them have the places they need:
    /// `spare_places` of a spec become `places`. For volumes that [`StoreView::check`] did not refuse.
    pub fn grant_spares(&self, specs: &mut [VolumeSpec]) {
        // A volume without a share may be on no SSD.
        let mut specs: Vec<_> = specs.iter_mut().filter(|spec| spec.places > 0).collect();
        let have: u64 = specs.iter().map(|spec| self.directory_extents(&spec.name)).sum();
        let need: u64 = specs.iter().map(|spec| self.wanted(spec)).sum();
        let mut left = (u64::from(self.free_extents()) + have).saturating_sub(need);
        for spec in &mut specs {
            let (wanted, asked) = (self.wanted(spec), spec.places + std::mem::take(&mut spec.spare_places));
            let more = (self.layout.extents_for(asked).saturating_sub(wanted)).min(left);
            left -= more;
            spec.places = asked.min(self.places(wanted + more));
        }
    }

    /// How many volumes of one extent each there is room for when these have the places they need, and keep what they have
    /// beyond that.
    pub fn volumes_left(&self, specs: &[VolumeSpec]) -> usize {
        let lacks = |spec: &VolumeSpec| self.wanted(spec).saturating_sub(self.directory_extents(&spec.name));
        let extents = u64::from(self.free_extents()).saturating_sub(specs.iter().map(lacks).sum());
        let new = specs.iter().filter(|spec| self.directory.find(&spec.name).is_none()).count();
        usize::try_from(extents).unwrap_or(usize::MAX).min(self.free_numbers().saturating_sub(new))
    }

    /// Extents that a volume should have.
    pub(crate) fn wanted(&self, spec: &VolumeSpec) -> u64 {
        self.layout.extents_for(spec.places.max(1))
    }

    /// Blocks of a disk, the last one perhaps shorter than the others.
    pub(crate) fn blocks_of(&self, backing_bytes: u64) -> u64 {
        backing_bytes.div_ceil(self.layout.extent.block.bytes())
    }

    /// Places in so many extents.
    pub(crate) fn places(&self, extents: u64) -> u64 {
        extents * u64::from(self.layout.extent.places)
    }

    pub(crate) fn free_numbers(&self) -> usize {
        Directory::MAX_VOLUMES - self.directory.volumes.iter().flatten().count()
    }

    fn directory_extents(&self, name: &str) -> u64 {
        let found = self.directory.find(name);
        found.map_or(0, |(number, _)| self.directory.extents_of(number).count() as u64)
    }

    pub(crate) fn find(&self, name: &str) -> Result<(u16, &Volume), StoreError> {
        self.directory.find(name).ok_or_else(|| refusals::unknown(name, &self.directory))
    }

    pub(crate) fn info(&self, number: u16, volume: &Volume) -> VolumeInfo {
        let extents = self.directory.extents_of(number).count() as u32;
        VolumeInfo {
            name: volume.name.clone(),
            tag: volume.tag,
            backing_bytes: volume.backing_bytes,
            extents,
            space_bytes: u64::from(extents) * self.layout.extent.extent_bytes,
        }
    }

    /// A volume's extents that are written, and of what they hold what a start may believe.
    pub(crate) fn recover_for(
        &self,
        device: &mut dyn SyncDevice,
        number: u16,
        volume: &Volume,
        spec: &VolumeSpec,
    ) -> Result<(Vec<u32>, Recovered), StoreError> {
        let (extents, mut found) = self.recover(device, number, volume, spec.backing_bytes)?;
        if let Some(distrust) = spec.distrusts {
            found.drop_distrusted(distrust);
        }
        Ok((extents, found))
    }

    /// A volume's extents that are written, and what they hold.
    pub(crate) fn recover(
        &self,
        device: &mut dyn SyncDevice,
        number: u16,
        volume: &Volume,
        backing_bytes: u64,
    ) -> Result<(Vec<u32>, Recovered), StoreError> {
        let extents = self.directory.extents_of(number).written;
        let source = RecoverySource {
            cache: self.superblock.cache,
            tag: volume.tag,
            ring: volume.ring,
            run_version: volume.run_version,
            layout: self.layout,
            extents: &extents,
            blocks: self.blocks_of(backing_bytes),
            buffered: self.buffered.get(&volume.tag).map_or(&[], Vec::as_slice),
        };
        let mut found = recover(device, source)?;
        found.dropped = volume.dropped;
        for home in device.dropped_since(volume.attached_in) {
            found.note_dropped(home);
        }
        Ok((extents, found))
    }

    /// The same without the clean copies that went with devices.
    pub(crate) fn recover_what_is_there(
        &self,
        device: &mut dyn SyncDevice,
        number: u16,
        volume: &Volume,
    ) -> Result<(Vec<u32>, Recovered), StoreError> {
        let (extents, mut recovered) = self.recover(device, number, volume, volume.backing_bytes)?;
        let dropped = self.dropped_places(device, &extents, &recovered);
        if !dropped.is_empty() {
            recovered.found.forget(|place, _| dropped.has(place));
        }
        recovered.dropped = Default::default();
        Ok((extents, recovered))
    }

    /// Places of clean copies that went with the devices that were home to them.
    pub(crate) fn dropped_places(
        &self,
        device: &dyn SyncDevice,
        extents: &[u32],
        Recovered { found, dropped, .. }: &Recovered,
    ) -> DroppedPlaces {
        let mut places = DroppedPlaces::default();
        if dropped.iter().any(|dropped| dropped.before > 0) {
            let clean = found.occupied().filter(|(_, entry)| entry.state == EntryState::Clean);
            let gone = clean.filter(|(place, entry)| {
                let home = device.home(place_offset(&self.layout, extents, *place));
                dropped.iter().any(|dropped| dropped.has(home, entry.version))
            });
            places.extend(found.places(), gone.map(|(place, _)| place));
        }
        places
    }
}
