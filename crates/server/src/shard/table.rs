//! The volumes of a shard, by their numbers in it, which they keep while others come and go. It must not know what they do.

use std::ops::{Index, IndexMut};

use crate::volume::Volume;

/// See the module's documentation. Indexing is for volumes that are there.
pub(super) struct VolumeTable(Vec<Option<Volume>>);

impl VolumeTable {
    pub(super) fn new(volumes: Vec<Volume>) -> VolumeTable {
        VolumeTable(volumes.into_iter().map(Some).collect())
    }

    pub(super) fn has(&self, at: usize) -> bool {
        self.0.get(at).is_some_and(Option::is_some)
    }

    /// A volume comes, under a number that no other has.
    pub(super) fn insert(&mut self, at: usize, volume: Volume) {
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        assert!(self.0[at].is_none(), "volume {at} is there");
        self.0[at] = Some(volume);
    }

    pub(super) fn remove(&mut self, at: usize) -> Option<Volume> {
        self.0.get_mut(at)?.take()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Volume> {
        self.0.iter().flatten()
    }

    /// Those of the volumes that are there, which may change while they are gone through.
    pub(super) fn numbers(&self) -> Vec<usize> {
        (0..self.0.len()).filter(|&at| self.has(at)).collect()
    }
}

impl Index<usize> for VolumeTable {
    type Output = Volume;

    fn index(&self, at: usize) -> &Volume {
        self.0[at].as_ref().expect("the volume is there")
    }
}

impl IndexMut<usize> for VolumeTable {
    fn index_mut(&mut self, at: usize) -> &mut Volume {
        self.0[at].as_mut().expect("the volume is there")
    }
}
