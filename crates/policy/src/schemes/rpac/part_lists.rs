//! The blocks of each set that are in the same part of a region, in order of arrival: the first of them is found by set and
//! part, and whichever leaves is unlinked in constant time.
//!
//! Lists run in circles through links by slot, and an index has their first slots alone. It must not know what sets and
//! parts are: callers name a list by a hash, and say whether a slot is in the list that they mean
//! and what the hash of its list is.

use lode_reuse::index::BlockIndex;
use lode_types::prefetch::prefetch_slice;

use crate::effect::Slot;
use crate::parts::growth;

/// In `next` of the last slot of a list, beside the first one. Levels have fewer slots than that.
const LAST: u32 = 0x8000_0000;

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    /// Of the first slot, the last one.
    previous: Slot,
}

/// The lists.
#[derive(Debug, Default)]
pub(super) struct PartLists {
    /// By the hashes of lists that are not empty: their first slots.
    index: BlockIndex,
    /// By slot; those in no list have anything.
    links: Vec<Link>,
}

impl PartLists {
    /// The first slot of the list that has this hash and for whose slots `is_it` says yes.
    #[inline]
    pub(super) fn first(&self, hash: u32, is_it: impl FnMut(Slot) -> bool) -> Option<Slot> {
        self.index.find(hash, is_it)
    }

    /// Appends a slot that is in no list to the one named, of a level of at most `most` slots now. Says whether it is the
    /// first there.
    pub(super) fn push(
        &mut self,
        hash: u32,
        slot: Slot,
        most: u32,
        is_it: impl FnMut(Slot) -> bool,
        hash_of: impl Fn(Slot) -> u32,
    ) -> bool {
        let first = self.index.find(hash, is_it);
        let link = match first {
            None => {
                self.index.insert(hash, slot, hash_of);
                Link { next: slot | LAST, previous: slot }
            }
            Some(first) => {
                let last = std::mem::replace(&mut self.links[first as usize].previous, slot);
                self.links[last as usize].next = slot;
                Link { next: first | LAST, previous: last }
            }
        };
        while self.links.len() <= slot as usize {
            growth::push_up_to(&mut self.links, link, most as usize);
        }
        self.links[slot as usize] = link;
        first.is_none()
    }

    /// Takes a slot out of its list, which has this hash. Says which one is the first now, if it was the first and not the
    /// only one.
    pub(super) fn remove(&mut self, hash: u32, slot: Slot, hash_of: impl Fn(Slot) -> u32) -> Option<Slot> {
        let Link { next, previous } = self.links[slot as usize];
        let after = next & !LAST;
        if after == slot {
            self.index.remove(hash, slot, hash_of);
            return None;
        }
        // What goes round the end stays: the mark of the last slot, which this one has or the one before it.
        let before = &mut self.links[previous as usize].next;
        let was_first = *before & LAST != 0;
        *before = next | *before & LAST;
        self.links[after as usize].previous = previous;
        if was_first {
            self.index.replace(hash, slot, after, hash_of);
        }
        was_first.then_some(after)
    }

    /// Asks for what looking a list up takes.
    #[inline]
    pub(super) fn prefetch(&self, hash: u32) {
        self.index.prefetch(hash);
    }

    /// The first slot of a list with this hash, mostly, or none.
    #[inline]
    pub(super) fn candidate(&self, hash: u32) -> Slot {
        self.index.candidate(hash)
    }

    /// Asks for the links of the slots before and behind one, whose own links were asked for.
    #[inline]
    pub(super) fn prefetch_neighbours(&self, slot: Slot) {
        if let Some(link) = self.links.get(slot as usize) {
            self.prefetch_link(link.next & !LAST);
            self.prefetch_link(link.previous);
        }
    }

    /// Asks for the links of a slot.
    #[inline]
    pub(super) fn prefetch_link(&self, slot: Slot) {
        prefetch_slice(&self.links, slot as usize);
    }

    /// Bytes that everything takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.links.capacity() * size_of::<Link>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const SLOTS: u32 = 40;

    proptest! {
        /// Beside plain vectors, of which some have the same hash.
        #[test]
        fn equals_plain_vectors(steps in prop::collection::vec((0..SLOTS, 0u32..8), 0..400)) {
            let mut lists = PartLists::default();
            let mut plain: BTreeMap<u32, Vec<Slot>> = BTreeMap::new();
            let mut list_of: BTreeMap<Slot, u32> = BTreeMap::new();
            let hash_of = |list: u32| list / 2;
            for (slot, list) in steps {
                if let Some(list) = list_of.remove(&slot) {
                    let row = plain.get_mut(&list).unwrap();
                    let at = row.iter().position(|&held| held == slot).unwrap();
                    row.remove(at);
                    let first = row.first().copied().filter(|_| at == 0);
                    let next = lists.remove(hash_of(list), slot, |slot| hash_of(list_of[&slot]));
                    prop_assert_eq!(next, first);
                } else {
                    let row = plain.entry(list).or_default();
                    let is_in_list = |slot| list_of[&slot] == list;
                    let hashes = |slot| hash_of(list_of[&slot]);
                    let is_first = lists.push(hash_of(list), slot, SLOTS, is_in_list, hashes);
                    prop_assert_eq!(is_first, row.is_empty());
                    row.push(slot);
                    list_of.insert(slot, list);
                }
                for (&list, row) in &plain {
                    let first = lists.first(hash_of(list), |slot| list_of[&slot] == list);
                    prop_assert_eq!(first, row.first().copied());
                }
            }
            let slots: Vec<Slot> = list_of.keys().copied().collect();
            for slot in slots {
                let list = list_of[&slot];
                lists.remove(hash_of(list), slot, |slot| hash_of(list_of[&slot]));
                plain.get_mut(&list).unwrap().retain(|&held| held != slot);
                list_of.remove(&slot);
                let first = lists.first(hash_of(list), |slot| list_of[&slot] == list);
                prop_assert_eq!(first, plain[&list].first().copied());
            }
            prop_assert!(lists.index.is_empty());
        }
    }
}
