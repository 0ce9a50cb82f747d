//! The cache SSD as a whole: formatting, looking, opening, handing out extents, recovering and removing volumes.
//!
//! All of this happens before guests are served, one step after the other, through [`SyncDevice`]; the caller
//! says what is behind it.

use lode_format::{CacheId, DeviceLayout, Directory, PAGE_BYTES, Superblock, VolumeTag};
use lode_types::{BlockSize, planted};

use crate::device::{SyncDevice, flush, write};
use crate::error::{StoreError, StoreErrorKind};
use crate::heads::read_superblock;
use crate::view::StoreView;

/// An open cache SSD.
#[derive(Debug)]
pub struct Store {
    pub(crate) view: StoreView,
}

impl Store {
    /// Writes an empty cache over whatever the device holds.
    pub fn format(
        device: &mut dyn SyncDevice,
        cache: CacheId,
        block: BlockSize,
        extent_bytes: Option<u64>,
    ) -> Result<Superblock, StoreError> {
        let device_bytes = device.size_bytes();
        let extent_bytes = extent_bytes.unwrap_or(DeviceLayout::suitable_extent_bytes(device_bytes));
        let superblock = Superblock { cache, generation: 1, epoch: 0, device_bytes, extent_bytes, block };
        let layout = superblock.layout().map_err(StoreError::geometry)?;
        let directory = Directory::empty(layout.extents).encode(cache)?;
        // First nothing is believed, then the parts, then the superblock that vouches for them.
        for copy in 0..2 {
            write(device, DeviceLayout::superblock(copy), &[0; PAGE_BYTES])?;
        }
        flush(device)?;
        for copy in 0..2 {
            write(device, DeviceLayout::directory(copy), &directory)?;
        }
        flush(device)?;
        write(device, DeviceLayout::superblock(superblock.copy()), &superblock.encode()[..])?;
        flush(device)?;
        Ok(superblock)
    }

    /// The superblock of a device, if it holds a cache.
    pub fn probe(device: &mut dyn SyncDevice) -> Result<Superblock, StoreError> {
        if device.size_bytes() < DeviceLayout::directory(0) {
            return Err(StoreError::new(
                StoreErrorKind::NotACache,
                "the device is smaller than a superblock",
            ));
        }
        read_superblock(device)
    }

    /// Opens a cache for a new run: checks that the device is the one that was formatted, and raises
    /// the epoch.
    pub fn open(device: &mut dyn SyncDevice) -> Result<Store, StoreError> {
        let view = StoreView::read(device)?;
        Store::begin(device, view)
    }

    /// As [`Store::open`], for whoever has looked at the device already, and perhaps taken over record buffers.
    pub fn begin(device: &mut dyn SyncDevice, view: StoreView) -> Result<Store, StoreError> {
        let mut store = Store { view };
        store.write_heads_again(device)?;
        store.raise_epoch(device)?;
        Ok(store)
    }

    /// Writes superblock and directory once more to where they are. The copies that were read may be volatile still, and if
    /// the flush after they were written failed no later one covers them: with the other copies written over, a power cut
    /// could take both.
    fn write_heads_again(&self, device: &mut dyn SyncDevice) -> Result<(), StoreError> {
        let StoreView { superblock, directory, is_durable, .. } = &self.view;
        if !is_durable && !planted("heads-not-written-again") {
            let bytes = directory.encode(superblock.cache)?;
            write(device, DeviceLayout::directory(directory.copy()), &bytes)?;
            write(device, DeviceLayout::superblock(superblock.copy()), &superblock.encode()[..])?;
        }
        flush(device)
    }

    /// In both copies, one after the other: with either of them lost, the other one still says how old the cache is.
    fn raise_epoch(&mut self, device: &mut dyn SyncDevice) -> Result<(), StoreError> {
        let superblock = &mut self.view.superblock;
        superblock.epoch += 1;
        for _ in 0..2 - u8::from(planted("epoch-in-one-copy")) {
            superblock.generation += 1;
            write(device, DeviceLayout::superblock(superblock.copy()), &superblock.encode()[..])?;
            flush(device)?;
        }
        Ok(())
    }

    /// Writes the directory, with names that volumes got in the view ([`StoreView::rename`]).
    pub fn write_names(&mut self, device: &mut dyn SyncDevice) -> Result<(), StoreError> {
        self.write_directory(device, self.view.directory.clone())
    }

    /// What the cache holds now.
    pub fn view(&self) -> &StoreView {
        &self.view
    }

    /// Identity, epoch and geometry.
    pub fn superblock(&self) -> &Superblock {
        &self.view.superblock
    }

    /// Replaces both copies, one after the other: an older directory must never stand in for this one,
    /// because extents may have changed hands. On an error the old one still counts.
    pub(crate) fn write_directory(
        &mut self,
        device: &mut dyn SyncDevice,
        mut next: Directory,
    ) -> Result<(), StoreError> {
        for _ in 0..2 - u8::from(planted("directory-in-one-copy")) {
            next.generation = next.next_generation(self.view.superblock.epoch);
            let bytes = next.encode(self.view.superblock.cache)?;
            write(device, DeviceLayout::directory(next.copy()), &bytes)?;
            flush(device)?;
        }
        self.view.directory = next;
        Ok(())
    }
}

/// Identity of a volume that is new to the cache: from the cache, the epoch and the volume's number, so
/// that no two volumes of a cache ever share one.
pub(crate) fn new_tag(superblock: &Superblock, number: u16) -> VolumeTag {
    let low = u64::from_le_bytes(superblock.cache.0[..8].try_into().expect("eight of sixteen bytes"));
    let epoch = if planted("tag-given-twice") { 0 } else { superblock.epoch };
    let unique = (epoch << 16) | u64::from(number);
    VolumeTag(low.rotate_left(17) ^ unique.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
