//! The order in which the blocks of one set would leave: a heap of four children a node, so that a walk down waits for
//! memory half as often as in a binary one (d-heaps: Johnson, "Priority queues with update and finding minimum spanning
//! trees", Inf. Process. Lett. 4(3), 1975). It must not know what a score is made of.

use lode_types::prefetch::prefetch_slice;

use super::records::Standing;

const CHILDREN: usize = 4;

/// One block in a set's heap. Its standing is a lower bound: it only rises while a block is resident, so that an entry is
/// brought up to date when it reaches the top, and not at every access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The score of the standing.
    pub(super) score: f32,
    /// The last access of the standing.
    pub(super) seen: u32,
    /// Of the record.
    pub(super) id: u32,
}

impl Entry {
    #[inline(always)]
    pub(super) fn standing(&self) -> Standing {
        Standing::new(self.score, self.seen)
    }
}

/// Entries of one set, the least wanted first.
#[derive(Clone, Debug, Default)]
pub(super) struct Heap {
    entries: Vec<Entry>,
}

impl Heap {
    #[inline]
    pub(super) fn top(&self) -> Option<&Entry> {
        self.entries.first()
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
        self.rise(self.entries.len() - 1);
    }

    /// Takes out the entry of record `id`, if there is one.
    pub(super) fn remove(&mut self, id: u32) {
        let Some(at) = self.entries.iter().position(|entry| entry.id == id) else { return };
        self.entries.swap_remove(at);
        if at < self.entries.len() {
            self.sink(at);
            self.rise(at);
        }
    }

    /// Raises the standing of the entry at the top, which there is.
    #[inline]
    pub(super) fn raise_top(&mut self, score: f32, seen: u32) {
        let top = &mut self.entries[0];
        (top.score, top.seen) = (score, seen);
        self.sink(0);
    }

    /// The entries below the top, one of which comes next.
    #[inline]
    pub(super) fn below_top(&self) -> &[Entry] {
        self.entries.get(1..self.entries.len().min(1 + CHILDREN)).unwrap_or(&[])
    }

    /// Multiplies every score.
    pub(super) fn scale(&mut self, factor: f32) {
        let mut inexact = false;
        for entry in &mut self.entries {
            let score = entry.score * factor;
            inexact |= entry.score > 0.0 && score < f32::MIN_POSITIVE;
            entry.score = score;
        }
        // Scores that became too small to be told apart are in the order of the last access from now on.
        if inexact {
            (0..self.entries.len().div_ceil(CHILDREN)).rev().for_each(|at| self.sink(at));
        }
    }

    /// Brings the first entries nearer to the processor.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch_slice(&self.entries, 0);
        prefetch_slice(&self.entries, CHILDREN + 1);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    fn rise(&mut self, mut at: usize) {
        let entry = self.entries[at];
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.entries[parent].standing() <= entry.standing() {
                break;
            }
            self.entries[at] = self.entries[parent];
            at = parent;
        }
        self.entries[at] = entry;
    }

    fn sink(&mut self, mut at: usize) {
        let entry = self.entries[at];
        loop {
            let first = CHILDREN * at + 1;
            // Whichever child it will be, its own are on their way.
            let below = CHILDREN * first + 1;
            (0..CHILDREN).for_each(|child| prefetch_slice(&self.entries, below + CHILDREN * child));
            let end = (first + CHILDREN).min(self.entries.len());
            let Some(children) = self.entries.get(first..end) else { break };
            let Some((child, least)) = children.iter().enumerate().min_by_key(|(_, child)| child.standing())
            else {
                break;
            };
            if entry.standing() <= least.standing() {
                break;
            }
            self.entries[at] = *least;
            at = first + child;
        }
        self.entries[at] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_top_is_the_least_of_a_list(steps in prop::collection::vec((0u8..8, 0u32..50, 0u8..6), 0..300)) {
            let mut heap = Heap::default();
            let mut list: Vec<(u32, u32, u32)> = Vec::new();
            for (number, (action, id, score)) in (1u32..).zip(steps) {
                let known = list.iter().position(|entry| entry.2 == id);
                match (action, known) {
                    (0, _) => {
                        heap.remove(id);
                        list.retain(|entry| entry.2 != id);
                    }
                    (1, _) if !list.is_empty() => {
                        let least = list.iter_mut().min().expect("it is not empty");
                        let score = f32::from_bits(least.0) + f32::from(score);
                        (least.0, least.1) = (score.to_bits(), number);
                        heap.raise_top(score, number);
                    }
                    (2, _) => {
                        // To nothing, or to numbers too small to be exact.
                        let factor = if score < 1 { 0.0 } else { 1e-44 };
                        heap.scale(factor);
                        list.iter_mut().for_each(|entry| entry.0 = (f32::from_bits(entry.0) * factor).to_bits());
                    }
                    (_, None) => {
                        heap.push(Entry { score: f32::from(score), seen: number, id });
                        list.push((f32::from(score).to_bits(), number, id));
                    }
                    _ => {}
                }
                let top = heap.top().map(|entry| (entry.score.to_bits(), entry.seen, entry.id));
                prop_assert_eq!(top, list.iter().min().copied());
            }
        }
    }
}
