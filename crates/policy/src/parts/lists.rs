//! Recency (or arrival) lists, one a set, over slots in one array with 32-bit links.

use std::fmt::Debug;

use lode_types::BlockNo;

use crate::effect::Slot;
use crate::geometry::Geometry;
use crate::parts::growth;
use crate::parts::kept::{self, Low, Rests};

const END: u32 = 0x7fff_ffff;
const FLAG: u32 = 0x8000_0000;
/// In `newer` of a slot that is not occupied.
const FREE: u32 = u32::MAX;

/// What a slot has of its caller, and in how many bytes it is kept.
pub(crate) trait Value: Copy {
    /// Of no alignment, so that nothing is left between two slots.
    type Kept: Copy + Debug;

    /// Whether `kept` ever leaves anything out.
    const IS_WIDE: bool = false;

    /// The value as it is kept, and the rest that this leaves out, 0 where that is nothing: see [`kept`].
    fn kept(self) -> (Self::Kept, u32);

    /// The value, from what [`Value::kept`] made of it.
    fn restored(kept: Self::Kept, rest: u32) -> Self;
}

impl Value for BlockNo {
    type Kept = Low;

    const IS_WIDE: bool = true;

    #[inline(always)]
    fn kept(self) -> (Low, u32) {
        kept::split(self)
    }

    #[inline(always)]
    fn restored(low: Low, rest: u32) -> BlockNo {
        kept::join(low, rest)
    }
}

impl Value for u32 {
    type Kept = u32;

    #[inline(always)]
    fn kept(self) -> (u32, u32) {
        (self, 0)
    }

    #[inline(always)]
    fn restored(kept: u32, _: u32) -> u32 {
        kept
    }
}

#[derive(Clone, Copy, Debug)]
#[repr(C, packed)]
struct Node<K: Copy> {
    /// Towards the front (newer).
    newer: u32,
    /// Towards the back (older); of a free slot, the one that was freed before it. The top bit is the caller's flag; it
    /// stands here because moving a block to the front changes this link in one other node, and `newer` in two.
    older: u32,
    value: K,
}

impl<K: Copy> Node<K> {
    /// Changes the link and keeps the flag.
    #[inline(always)]
    fn set_older(&mut self, older: u32) {
        self.older = (self.older & FLAG) | older;
    }
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    front: u32,
    back: u32,
    len: u32,
}

const EMPTY: Ends = Ends { front: END, back: END, len: 0 };

/// The lists of one level: every occupied slot is in the list of its block's set, newest at the front.
///
/// `T` is what the caller wants to find in a slot. Each slot also carries one flag bit (dirty). The
/// caller passes the set with every call, because it knows the block and this module does not.
#[derive(Debug)]
pub(crate) struct SetLists<T: Value> {
    nodes: Vec<Node<T::Kept>>,
    /// By slot, what the nodes leave out of values.
    rests: Rests,
    sets: Vec<Ends>,
    /// The slot that was freed last, or `END`.
    free: Slot,
    geometry: Geometry,
    len: u32,
}

impl<T: Value> SetLists<T> {
    /// Empty lists for these sets.
    pub(crate) fn new(geometry: Geometry) -> SetLists<T> {
        let sets = vec![EMPTY; geometry.sets() as usize];
        SetLists { nodes: Vec::new(), rests: Rests::default(), sets, free: END, geometry, len: 0 }
    }

    /// The sets in force.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Occupied slots.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Whether `set` holds as many blocks as it may, or more.
    #[inline]
    pub(crate) fn is_full(&self, set: u32) -> bool {
        self.sets[set as usize].len >= self.geometry.ways(set)
    }

    /// Occupied slots of `set`.
    pub(crate) fn len_of(&self, set: u32) -> u32 {
        self.sets[set as usize].len
    }

    /// The oldest slot of `set` if the set holds more than it may.
    #[inline]
    pub(crate) fn surplus(&self, set: u32) -> Option<Slot> {
        self.oldest(set).filter(|_| self.len_of(set) > self.geometry.ways(set))
    }

    /// Whether `set` may never hold a block.
    #[inline]
    pub(crate) fn is_closed(&self, set: u32) -> bool {
        self.geometry.ways(set) == 0
    }

    /// The caller's value in an occupied slot.
    #[inline]
    pub(crate) fn value(&self, slot: Slot) -> T {
        self.restored(slot, &self.nodes[slot as usize])
    }

    /// The caller's values in all occupied slots.
    pub(crate) fn values(&self) -> impl Iterator<Item = T> {
        let occupied = (0..).zip(&self.nodes).filter(|(_, node)| node.newer != FREE);
        occupied.map(|(slot, node)| self.restored(slot, node))
    }

    /// Changes the caller's value in an occupied slot.
    #[inline]
    pub(crate) fn set_value(&mut self, slot: Slot, value: T) {
        let (kept, rest) = value.kept();
        self.nodes[slot as usize].value = kept;
        self.set_rest(slot, rest);
    }

    /// Changes the caller's values in all occupied slots.
    pub(crate) fn update_all(&mut self, mut update: impl FnMut(T) -> T) {
        for slot in 0..self.nodes.len() as Slot {
            if let Some(value) = self.value_if_occupied(slot) {
                self.set_value(slot, update(value));
            }
        }
    }

    /// The caller's value in a slot that need not be occupied, nor exist.
    #[inline]
    pub(crate) fn value_if_occupied(&self, slot: Slot) -> Option<T> {
        let node = self.nodes.get(slot as usize).filter(|node| node.newer != FREE)?;
        Some(self.restored(slot, node))
    }

    #[inline(always)]
    fn restored(&self, slot: Slot, node: &Node<T::Kept>) -> T {
        T::restored(node.value, if T::IS_WIDE { self.rests.get(slot) } else { 0 })
    }

    /// Keeps what the node of a slot leaves out.
    #[inline(always)]
    fn set_rest(&mut self, slot: Slot, rest: u32) {
        if T::IS_WIDE {
            self.rests.set(slot, rest);
        }
    }

    /// The slot's flag.
    #[inline]
    pub(crate) fn flag(&self, slot: Slot) -> bool {
        self.nodes[slot as usize].older & FLAG != 0
    }

    /// Sets or clears the slot's flag.
    #[inline]
    pub(crate) fn set_flag(&mut self, slot: Slot, on: bool) {
        let node = &mut self.nodes[slot as usize];
        node.older = (node.older & !FLAG) | (u32::from(on) * FLAG);
    }

    /// The oldest slot of `set`.
    #[inline]
    pub(crate) fn oldest(&self, set: u32) -> Option<Slot> {
        let back = self.sets[set as usize].back;
        (back != END).then_some(back)
    }

    /// The slot after an occupied one in its set, towards the newest.
    #[inline]
    pub(crate) fn newer(&self, slot: Slot) -> Option<Slot> {
        let newer = self.nodes[slot as usize].newer;
        (newer != END).then_some(newer)
    }

    /// The slot before an occupied one in its set, towards the oldest.
    #[inline]
    pub(crate) fn older(&self, slot: Slot) -> Option<Slot> {
        let older = self.nodes[slot as usize].older & !FLAG;
        (older != END).then_some(older)
    }

    /// Makes an occupied slot the oldest of `set`: those before it become the newest, in the order that they have.
    pub(crate) fn rotate(&mut self, set: u32, slot: Slot) {
        let Some(last) = self.older(slot) else { return };
        let ends = &mut self.sets[set as usize];
        let (front, back) =
            (std::mem::replace(&mut ends.front, last), std::mem::replace(&mut ends.back, slot));
        self.nodes[front as usize].newer = back;
        self.nodes[back as usize].set_older(front);
        self.nodes[last as usize].newer = END;
        self.nodes[slot as usize].set_older(END);
    }

    /// Moves an occupied slot to the front of its set.
    #[inline(always)]
    pub(crate) fn touch(&mut self, set: u32, slot: Slot) {
        let ends = &mut self.sets[set as usize];
        let front = ends.front;
        if front == slot {
            return;
        }
        // There is a newer one, and so a front.
        let node = &mut self.nodes[slot as usize];
        let (newer, older) = (node.newer, node.older & !FLAG);
        node.newer = END;
        node.set_older(front);
        ends.front = slot;
        // The link to `slot` becomes one to `older`, and its flag stays.
        self.nodes[newer as usize].older ^= slot ^ older;
        // There is no node at `END`.
        match self.nodes.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => ends.back = newer,
        }
        self.nodes[front as usize].newer = slot;
    }

    /// Occupies a free slot at the front of `set`, with the flag clear. The caller has made room.
    #[inline]
    pub(crate) fn insert(&mut self, set: u32, value: T) -> Slot {
        let (kept, rest) = value.kept();
        let node = Node { newer: END, older: END, value: kept };
        let slot = match self.nodes.get_mut(self.free as usize) {
            Some(free) => {
                let slot = std::mem::replace(&mut self.free, free.older);
                *free = node;
                slot
            }
            None => {
                let slot = self.nodes.len() as u32;
                assert!(slot < END, "links are 31 bits wide");
                let most = self.geometry.blocks() as usize;
                growth::push_up_to(&mut self.nodes, node, most);
                slot
            }
        };
        self.set_rest(slot, rest);
        self.link_front(set, slot);
        self.len += 1;
        slot
    }

    /// The oldest slot of `set` is given to another block, at the front, with the flag clear. Says the slot, its
    /// value and its flag before; `None` when the set is empty.
    #[inline]
    pub(crate) fn replace_oldest(&mut self, set: u32, value: T) -> Option<(Slot, T, bool)> {
        let slot = self.oldest(set)?;
        self.touch(set, slot);
        let old = self.value(slot);
        let node = &mut self.nodes[slot as usize];
        let old_flag = node.older & FLAG != 0;
        node.older &= !FLAG;
        self.set_value(slot, value);
        Some((slot, old, old_flag))
    }

    /// Frees an occupied slot.
    #[inline]
    pub(crate) fn remove(&mut self, set: u32, slot: Slot) {
        self.unlink(set, slot);
        let node = &mut self.nodes[slot as usize];
        node.newer = FREE;
        node.older = std::mem::replace(&mut self.free, slot);
        self.len -= 1;
    }

    /// Brings a slot's links nearer to the processor.
    #[inline]
    pub(crate) fn prefetch(&self, slot: Slot) {
        lode_types::prefetch::prefetch_slice(&self.nodes, slot as usize);
    }

    /// The slot that gives way when a block enters `set`: the oldest, or some number that is no slot.
    #[inline]
    pub(crate) fn next_to_leave(&self, set: u32) -> Slot {
        self.sets[set as usize].back
    }

    /// Brings the slots on both sides of `slot` nearer and says the caller's value in it; `slot` itself should have
    /// been prefetched. It need not be occupied.
    #[inline]
    pub(crate) fn prefetch_neighbours(&self, slot: Slot) -> Option<T> {
        let node = self.nodes.get(slot as usize)?;
        self.prefetch(node.newer);
        self.prefetch(node.older & !FLAG);
        Some(self.restored(slot, node))
    }

    /// The slots of `set` from oldest to newest.
    pub(crate) fn oldest_first(&self, set: u32) -> impl Iterator<Item = Slot> + '_ {
        self.towards_newest(self.sets[set as usize].back)
    }

    /// A slot, if it is one, and those after it in its set.
    fn towards_newest(&self, mut at: Slot) -> impl Iterator<Item = Slot> + '_ {
        std::iter::from_fn(move || {
            let slot = (at != END).then_some(at)?;
            at = self.nodes[slot as usize].newer;
            Some(slot)
        })
    }

    /// Changes the sets. Blocks stay, even where a set now holds more than it may; the caller evicts.
    ///
    /// Where sets merge, the position within the old set, as a fraction of its length, stands for the
    /// age: the sets of one VM see like traffic, and no time stamps need to be kept for this rare event.
    pub(crate) fn regroup(&mut self, geometry: Geometry, set_of: impl Fn(T) -> u32) {
        let same_sets = geometry.sets() == self.geometry.sets();
        self.geometry = geometry;
        if same_sets {
            return;
        }
        let sets = geometry.sets() as usize;
        let before = std::mem::replace(&mut self.sets, vec![EMPTY; sets]);
        // Sets are numbered by the low bits of a hash: the blocks of one set come from sets, or go to sets, whose numbers
        // have equal low bits. Those are a small part of all, and so is what sorting them takes.
        let groups = before.len().min(sets);
        let mut by_age = Vec::new();
        for group in 0..groups {
            for set in (group..before.len()).step_by(groups) {
                let Ends { back, len, .. } = before[set];
                let age = |place: usize| place as f64 / f64::from(len);
                by_age.extend(self.towards_newest(back).enumerate().map(|(at, slot)| (age(at), set, slot)));
            }
            by_age.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            for (_, _, slot) in by_age.drain(..) {
                self.link_front(set_of(self.value(slot)), slot);
            }
        }
    }

    /// Bytes that the lists take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<T::Kept>>()
            + self.rests.memory_bytes()
            + self.sets.capacity() * size_of::<Ends>()
    }

    fn unlink(&mut self, set: u32, slot: Slot) {
        let node = self.nodes[slot as usize];
        let (newer, older) = (node.newer, node.older & !FLAG);
        let ends = &mut self.sets[set as usize];
        ends.len -= 1;
        if newer == END {
            ends.front = older;
        } else {
            self.nodes[newer as usize].set_older(older);
        }
        if older == END {
            ends.back = newer;
        } else {
            self.nodes[older as usize].newer = newer;
        }
    }

    fn link_front(&mut self, set: u32, slot: Slot) {
        let ends = &mut self.sets[set as usize];
        let front = std::mem::replace(&mut ends.front, slot);
        ends.len += 1;
        let node = &mut self.nodes[slot as usize];
        node.newer = END;
        node.set_older(front);
        if front == END {
            ends.back = slot;
        } else {
            self.nodes[front as usize].newer = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::MapKind;
    use proptest::prelude::*;

    /// Few different ones, some of more than five bytes.
    fn any_block() -> impl Strategy<Value = u64> {
        (0u64..64, prop_oneof![8 => Just(0u64), 1 => Just(1 << 40), 1 => Just(u64::MAX << 24)])
            .prop_map(|(low, high)| if low % 7 == 0 { low | high } else { low })
    }

    /// The same lists as plain vectors, newest first.
    struct Plain {
        sets: Vec<Vec<(u64, bool)>>,
    }

    /// Blocks of 32 sets of eight, oldest first, as all of them in order of age fill new sets.
    fn regrouped(before: &[u64], geometry: &Geometry) -> Vec<u64> {
        let old = Geometry::new(8, MapKind::Modulo, 256);
        let members = |of: u32| before.iter().filter(move |&&block| old.set_of(block) == of);
        let mut by_age: Vec<(f64, u32, u64)> = (0..old.sets())
            .flat_map(|set| {
                let len = members(set).count() as f64;
                members(set)
                    .enumerate()
                    .map(move |(at, &block)| (at as f64 / len, set, block))
                    .collect::<Vec<_>>()
            })
            .collect();
        by_age.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let blocks_of =
            |set| by_age.iter().map(|aged| aged.2).filter(move |&block| geometry.set_of(block) == set);
        (0..geometry.sets()).flat_map(blocks_of).collect()
    }

    proptest! {
        #[test]
        fn lists_equal_plain_vectors(steps in proptest::collection::vec((any_block(), 0u8..5), 0..400)) {
            let geometry = Geometry::new(4, MapKind::Modulo, 32);
            let mut lists = SetLists::new(geometry);
            let mut plain = Plain { sets: vec![Vec::new(); geometry.sets() as usize] };
            let mut slots = std::collections::HashMap::new();
            for (block, action) in steps {
                let set = geometry.set_of(block);
                let row = &mut plain.sets[set as usize];
                match (action, slots.get(&block).copied()) {
                    (0, Some(slot)) => {
                        lists.remove(set, slot);
                        row.retain(|e| e.0 != block);
                        slots.remove(&block);
                    }
                    (1, Some(slot)) => {
                        lists.set_flag(slot, true);
                        row.iter_mut().filter(|e| e.0 == block).for_each(|e| e.1 = true);
                    }
                    (2, Some(slot)) => {
                        lists.rotate(set, slot);
                        // Newest first.
                        let at = row.iter().position(|e| e.0 == block).unwrap();
                        row.rotate_left(at + 1);
                    }
                    (_, Some(slot)) => {
                        lists.touch(set, slot);
                        let at = row.iter().position(|e| e.0 == block).unwrap();
                        let entry = row.remove(at);
                        row.insert(0, entry);
                    }
                    (_, None) => {
                        slots.insert(block, lists.insert(set, block));
                        row.insert(0, (block, false));
                    }
                }
                let got: Vec<_> =
                    lists.oldest_first(set).map(|s| (lists.value(s), lists.flag(s))).collect();
                let want: Vec<_> = plain.sets[set as usize].iter().rev().copied().collect();
                prop_assert_eq!(got, want);
                prop_assert_eq!(lists.len() as usize, slots.len());
            }
        }

        #[test]
        fn regrouping_keeps_blocks_and_order_within_a_set(
            blocks in proptest::collection::btree_set(0u64..4096, 0..200), next in 1u32..2000)
        {
            let mut lists = SetLists::new(Geometry::new(8, MapKind::Modulo, 256));
            for &block in &blocks {
                lists.insert(lists.geometry().set_of(block), block);
            }
            let before: Vec<u64> = (0..lists.geometry().sets())
                .flat_map(|s| lists.oldest_first(s).map(|x| lists.value(x)).collect::<Vec<_>>())
                .collect();
            let geometry = lists.geometry().resized(next);
            lists.regroup(geometry, |block| geometry.set_of(block));
            let after: Vec<u64> = (0..geometry.sets())
                .flat_map(|s| lists.oldest_first(s).map(|x| lists.value(x)).collect::<Vec<_>>())
                .collect();
            prop_assert_eq!(blocks.len(), after.len());
            prop_assert_eq!(blocks, after.iter().copied().collect());
            prop_assert_eq!(after, regrouped(&before, &geometry));
            if geometry.sets() >= 32 {
                // A split never changes the order of two blocks that shared a set.
                let old = Geometry::new(8, MapKind::Modulo, 256);
                for set in 0..geometry.sets() {
                    let kept: Vec<u64> = lists.oldest_first(set).map(|x| lists.value(x)).collect();
                    let was: Vec<u64> = before
                        .iter()
                        .copied()
                        .filter(|&b| old.set_of(b) == set & (old.sets() - 1) && kept.contains(&b))
                        .collect();
                    prop_assert_eq!(kept, was);
                }
            }
        }
    }
}
