//! The directory while volumes are served: which extents are nobody's, and one change of hands at a time.
//!
//! An extent that is nobody's is *lent* first, so that nobody else gets it. It is the volume's when the directory says so
//! durably. Both copies are replaced, one after the other, because an older directory must never stand in for this one. It must
//! not know threads, nor who waits for space.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use lode_format::{DeviceLayout, Directory, Superblock, VolumeExtents, VolumeTag};
use lode_types::Buf;

use crate::change::DirectoryChange;
use crate::store::Store;
use crate::view::StoreView;

/// The directory of a cache SSD, and the change of it under way.
#[derive(Debug)]
pub struct SpaceDirectory {
    pub(crate) superblock: Superblock,
    /// That of the run, above which superblocks may rise.
    pub(crate) epoch: u64,
    pub(crate) layout: DeviceLayout,
    pub(crate) directory: Directory,
    /// For each extent the volume that it is lent to.
    lent: Vec<Option<VolumeTag>>,
    pub(crate) change: Option<ChangeUnderWay>,
}

/// A change of the directory under way, and what is to be written for it.
#[derive(Debug)]
pub(crate) struct ChangeUnderWay {
    volume: VolumeTag,
    next: Directory,
    superblock: Superblock,
    /// What is left to be done on the SSD, in order.
    steps: VecDeque<ChangeStep>,
    /// The first of it is under way.
    is_taken: bool,
}

/// A step of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeStep {
    /// Empty tables of an extent, from this page on.
    Tables { tag: VolumeTag, extent: u32, next: u32 },
    /// A copy of the superblock.
    Superblock,
    /// A copy of the directory.
    Directory,
    /// A flush of the device.
    Flush,
}

impl ChangeUnderWay {
    /// What comes before both copies of the directory are replaced, one after the other.
    pub(crate) fn new(
        volume: VolumeTag,
        next: Directory,
        superblock: Superblock,
        before: Vec<ChangeStep>,
    ) -> ChangeUnderWay {
        let copies = [ChangeStep::Directory, ChangeStep::Flush, ChangeStep::Directory, ChangeStep::Flush];
        ChangeUnderWay {
            volume,
            next,
            superblock,
            steps: before.into_iter().chain(copies).collect(),
            is_taken: false,
        }
    }
}

/// What is to be done on the SSD, one after the other.
#[derive(Debug)]
pub enum DirectoryOutput {
    /// To write a copy.
    Write {
        /// Offset on the device.
        offset_bytes: u64,
        /// The copy.
        buf: Buf,
    },
    /// To flush the device.
    Flush,
}

impl Store {
    /// The directory, once all volumes are attached that are to be served.
    pub fn into_directory(self) -> SpaceDirectory {
        let lent = vec![None; self.view.directory.owners.len()];
        let StoreView { superblock, layout, directory, .. } = self.view;
        SpaceDirectory { superblock, epoch: superblock.epoch, layout, directory, lent, change: None }
    }
}

impl SpaceDirectory {
    /// Extents that are nobody's and not lent.
    pub fn free_extents(&self) -> u32 {
        self.free().count() as u32
    }

    fn free(&self) -> impl Iterator<Item = u32> {
        let owned = self.directory.owners.iter().zip(&self.lent);
        (0..)
            .zip(owned)
            .filter(|(_, (owner, lent))| owner.is_none() && lent.is_none())
            .map(|(extent, _)| extent)
    }

    /// Which bytes of the SSD mean anything, or may be written by whoever has them: those that describe the cache, and the extents
    /// that are somebody's, lent, or about to be somebody's.
    pub fn used_bytes(&self) -> Vec<Range<u64>> {
        let next = self.change.as_ref().map(|change| &change.next.owners);
        let is_coming = |extent: u32| next.is_some_and(|owners| owners[extent as usize].is_some());
        let free: BTreeSet<u32> = self.free().filter(|&extent| !is_coming(extent)).collect();
        let used = (0..self.lent.len() as u32).filter(|extent| !free.contains(extent));
        let extents = used.map(|extent| {
            let start = self.layout.extent_start(extent);
            start..start + self.layout.extent.extent_bytes
        });
        std::iter::once(0..DeviceLayout::HEADS_BYTES).chain(extents).collect()
    }

    /// Lends a volume up to so many extents.
    pub fn lend(&mut self, volume: VolumeTag, most: u32) -> Vec<u32> {
        let extents: Vec<u32> = self.free().take(most as usize).collect();
        extents.iter().for_each(|&extent| self.lent[extent as usize] = Some(volume));
        extents
    }

    /// Takes back what was lent to a volume. No change under way gives it.
    pub fn take_back(&mut self, volume: VolumeTag, extents: &[u32]) {
        for &extent in extents {
            let lent = &mut self.lent[extent as usize];
            assert_eq!(*lent, Some(volume), "extent {extent} was lent to it");
            *lent = None;
        }
    }

    /// What is lent to a volume.
    pub fn lent_to(&self, volume: VolumeTag) -> Vec<u32> {
        let lent = (0..).zip(&self.lent).filter(|(_, lent)| **lent == Some(volume));
        lent.map(|(extent, _)| extent).collect()
    }

    /// Whether the extent that this byte of the device is in is a volume's, or lent to it.
    pub fn may_write(&self, volume: VolumeTag, offset_bytes: u64) -> bool {
        let Some(within) = offset_bytes.checked_sub(self.layout.extent_start(0)) else { return false };
        let extent = (within / self.layout.extent.extent_bytes) as usize;
        let owner = self.directory.owners.get(extent).copied().flatten();
        let owner = owner.and_then(|number| self.directory.volumes[number as usize].as_ref());
        let is_lent = self.lent.get(extent) == Some(&Some(volume));
        is_lent || owner.is_some_and(|owner| owner.tag == volume)
    }

    /// Whether a change is under way.
    pub fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// Replaces what the directory says of a volume. No other change is under way.
    ///
    /// # Panics
    /// When an extent is neither the volume's nor lent to it, or one that is written is given up and the ring no later one: somebody
    /// else's data would be lost.
    pub fn begin(&mut self, change: &DirectoryChange) {
        assert!(self.change.is_none(), "one change at a time");
        let mut next = self.directory.clone();
        let mut numbered = next.volumes.iter_mut().enumerate();
        let found = numbered.find_map(|(number, volume)| {
            let volume = volume.as_mut().filter(|volume| volume.tag == change.volume)?;
            Some((number as u16, volume))
        });
        let (number, volume) = found.expect("a volume that is served is in the directory");
        let VolumeExtents { written, unwritten } = &change.extents;
        assert!(change.ring >= volume.ring && !written.is_empty());
        let (is_new_ring, before) = (change.ring > volume.ring, self.directory.extents_of(number).written);
        let stays = |extent: &u32| written.binary_search(extent).is_ok();
        assert!(is_new_ring || before.iter().all(stays), "records may speak of an extent that is given up");
        // Before the journal is written there.
        volume.is_ring_longer = !is_new_ring && (volume.is_ring_longer || written.len() > before.len());
        volume.ring = change.ring;
        for &extent in written.iter().chain(unwritten) {
            let owner = next.owners[extent as usize];
            let is_lent = owner.is_none() && self.lent[extent as usize] == Some(change.volume);
            assert!(owner == Some(number) || is_lent, "extent {extent} is not for this volume");
        }
        next.set_extents_of(number, &change.extents);
        self.change = Some(ChangeUnderWay::new(change.volume, next, self.superblock, Vec::new()));
    }

    /// What is to be done next.
    pub fn next_output(&mut self) -> Option<DirectoryOutput> {
        let change = self.change.as_mut().filter(|change| !change.is_taken)?;
        change.is_taken = true;
        let step = *change.steps.front()?;
        Some(match step {
            ChangeStep::Flush => DirectoryOutput::Flush,
            ChangeStep::Directory => {
                change.next.generation = change.next.next_generation(change.superblock.epoch);
                let bytes =
                    change.next.encode(change.superblock.cache).expect("names and numbers were checked");
                let offset_bytes = DeviceLayout::directory(change.next.copy());
                DirectoryOutput::Write { offset_bytes, buf: Buf::copy_of(&bytes) }
            }
            ChangeStep::Superblock => {
                change.superblock.generation += 1;
                let offset_bytes = DeviceLayout::superblock(change.superblock.copy());
                DirectoryOutput::Write { offset_bytes, buf: Buf::copy_of(&change.superblock.encode()[..]) }
            }
            ChangeStep::Tables { tag, extent, next } => {
                let (offset_bytes, buf, next) = self.new_tables(tag, extent, next);
                let is_last = next == self.table_pages();
                let change = self.change.as_mut()?;
                // What is left of them comes next; the front goes when this is done.
                if !is_last {
                    change.steps.insert(1, ChangeStep::Tables { tag, extent, next });
                }
                DirectoryOutput::Write { offset_bytes, buf }
            }
        })
    }

    /// What was to be done is, without an error. Gives the volume whose change is durable in both copies now. After an error
    /// nothing more is to be told: which of two directories counts is not known before the next start, so that nothing may be
    /// written that only one of them knows. The SSD has failed, for all who use it.
    pub fn done(&mut self) -> Option<VolumeTag> {
        let change = self.change.as_mut()?;
        assert!(std::mem::take(&mut change.is_taken), "what is done was taken");
        change.steps.pop_front();
        if !change.steps.is_empty() {
            return None;
        }
        let ChangeUnderWay { volume, next, superblock, .. } = self.change.take()?;
        (self.directory, self.superblock) = (next, superblock);
        let owners = self.directory.owners.iter();
        let lent = self.lent.iter_mut().zip(owners).filter(|(_, owner)| owner.is_some());
        lent.for_each(|(lent, _)| *lent = None);
        Some(volume)
    }
}
