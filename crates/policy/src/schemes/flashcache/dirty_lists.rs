//! Dirty slots in lists by their last access, so that the ones idle for longest are found at once. It must not know what a
//! slot holds.

use crate::effect::Slot;
use crate::parts::growth;

const END: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    newer: u32,
    older: u32,
    /// When it was accessed last, in the caller's unit.
    used_at: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
    len: u32,
}

const EMPTY: Ends = Ends { newest: END, oldest: END, len: 0 };

/// Lists of slots; the caller passes the list of a slot with every call.
#[derive(Debug)]
pub(super) struct DirtyLists {
    /// By slot.
    links: Vec<Link>,
    lists: Vec<Ends>,
}

impl DirtyLists {
    pub(super) fn new(lists: u32) -> DirtyLists {
        DirtyLists { links: Vec::new(), lists: vec![EMPTY; lists as usize] }
    }

    pub(super) fn len(&self, list: u32) -> u32 {
        self.lists[list as usize].len
    }

    /// The slot that was not accessed for longest, and when it was.
    pub(super) fn oldest(&self, list: u32) -> Option<(Slot, u32)> {
        let oldest = self.lists[list as usize].oldest;
        self.links.get(oldest as usize).map(|link| (oldest, link.used_at))
    }

    /// A slot that is in no list becomes the newest of one.
    #[inline]
    pub(super) fn push(&mut self, list: u32, slot: Slot, used_at: u32) {
        growth::extend_to(&mut self.links, slot, Link { newer: END, older: END, used_at: 0 });
        let ends = &mut self.lists[list as usize];
        let before = std::mem::replace(&mut ends.newest, slot);
        ends.len += 1;
        match self.links.get_mut(before as usize) {
            Some(link) => link.newer = slot,
            None => ends.oldest = slot,
        }
        self.links[slot as usize] = Link { newer: END, older: before, used_at };
    }

    /// Takes a slot out of its list.
    #[inline]
    pub(super) fn remove(&mut self, list: u32, slot: Slot) {
        let Link { newer, older, .. } = self.links[slot as usize];
        let ends = &mut self.lists[list as usize];
        ends.len -= 1;
        match self.links.get_mut(newer as usize) {
            Some(link) => link.older = older,
            None => ends.newest = older,
        }
        match self.links.get_mut(older as usize) {
            Some(link) => link.newer = newer,
            None => ends.oldest = newer,
        }
    }

    /// Deals all slots to `lists` lists anew: in the order of their last accesses, and where that is the same, in the order
    /// of the lists they were in.
    pub(super) fn regroup(&mut self, lists: u32, list_of: impl Fn(Slot) -> u32) {
        let mut all = Vec::new();
        for list in 0..self.lists.len() as u32 {
            let mut at = self.lists[list as usize].oldest;
            while let Some(link) = self.links.get(at as usize) {
                all.push((link.used_at, at));
                at = link.newer;
            }
        }
        all.sort_by_key(|&(used_at, _)| used_at);
        self.lists.clear();
        self.lists.resize(lists as usize, EMPTY);
        for (used_at, slot) in all {
            self.push(list_of(slot), slot, used_at);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.links.capacity() * size_of::<Link>() + self.lists.capacity() * size_of::<Ends>()
    }
}
