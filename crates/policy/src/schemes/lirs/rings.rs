//! A second linkage over the records of [`Queues`](crate::parts::queues::Queues), for algorithms where a block stands in two
//! orders at once. It must not know what the records are, nor which of them are linked: its user does.

use lode_types::prefetch::prefetch_slice;

use crate::parts::growth;
use crate::parts::ssd_level::Id;

/// Towards the newer and the older end.
#[derive(Clone, Copy, Debug)]
struct Links {
    newer: Id,
    older: Id,
}

/// `N` rings of ids. The ids below `N` stand for the rings themselves, so that there must be as many queues.
#[derive(Debug)]
pub struct Rings<const N: usize> {
    links: Vec<Links>,
}

impl<const N: usize> Rings<N> {
    /// Empty rings.
    pub(crate) fn new() -> Rings<N> {
        Rings { links: (0..N as Id).map(|ring| Links { newer: ring, older: ring }).collect() }
    }

    #[inline]
    pub(crate) fn oldest(&self, ring: usize) -> Option<Id> {
        let oldest = self.links[ring].newer;
        (oldest as usize >= N).then_some(oldest)
    }

    /// The id after this one towards the newer end.
    #[inline]
    pub(crate) fn newer(&self, id: Id) -> Option<Id> {
        let newer = self.links[id as usize].newer;
        (newer as usize >= N).then_some(newer)
    }

    /// Makes an id that is in no ring the newest of one.
    #[inline]
    pub(crate) fn push(&mut self, ring: usize, id: Id) {
        growth::extend_to(&mut self.links, id, Links { newer: 0, older: 0 });
        let newest = std::mem::replace(&mut self.links[ring].older, id);
        self.links[newest as usize].newer = id;
        self.links[id as usize] = Links { newer: ring as Id, older: newest };
    }

    /// Takes an id out of the ring that it is in.
    #[inline]
    pub(crate) fn remove(&mut self, id: Id) {
        let Links { newer, older } = self.links[id as usize];
        self.links[newer as usize].older = older;
        self.links[older as usize].newer = newer;
    }

    /// Fetches where an id stands, which need not be anywhere.
    #[inline]
    pub(crate) fn prefetch(&self, id: Id) {
        prefetch_slice(&self.links, id as usize);
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.links.capacity() * size_of::<Links>()
    }
}
