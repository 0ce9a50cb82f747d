//! The exact versions of what places hold, as far as the journal does not durably know it yet. How many that are is bounded
//! by what is written between two commits. It must not know what places hold.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::place::Place;

/// Versions that are not durable yet.
#[derive(Debug, Default)]
pub(crate) struct Young {
    versions: HashMap<Place, u64>,
    /// The same in ascending order, with those that no longer count.
    order: VecDeque<(u64, Place)>,
}

impl Young {
    /// What a place holds has this version, the latest of all.
    pub(crate) fn put(&mut self, place: Place, version: u64) {
        self.versions.insert(place, version);
        self.order.push_back((version, place));
    }

    /// The version of what a place holds, if it is not durable. It is not asked of places that hold nothing.
    pub(crate) fn get(&self, place: Place) -> Option<u64> {
        if self.versions.is_empty() { None } else { self.versions.get(&place).copied() }
    }

    /// Everything up to this version is durable.
    pub(crate) fn durable(&mut self, version: u64) {
        while let Some((at, place)) = self.order.pop_front_if(|&mut (at, _)| at <= version) {
            if self.get(place) == Some(at) {
                self.versions.remove(&place);
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.versions.capacity() * (size_of::<(Place, u64)>() + 1)
            + self.order.capacity() * size_of::<(u64, Place)>()
    }
}
