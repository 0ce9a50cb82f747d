//! Which slots of a level the blocks really have, when more than one scheme has given some since the cache began: each scheme
//! numbers its own from zero.
//!
//! It must not know which blocks they are.

use crate::effect::Slot;
use crate::parts::growth;

/// The slots of one level.
#[derive(Debug, Default)]
pub(super) struct SlotMap {
    /// By slots of the scheme that decides, and by those of the one before it, whose slots are real as long as nothing stands
    /// here.
    real: Vec<Slot>,
    before: Vec<Slot>,
    free: Vec<Slot>,
    /// All from here on were never used.
    next: Slot,
    /// Those that hold a block.
    used: u32,
}

impl SlotMap {
    /// A scheme begins; `in_use` are the slots that hold a block, as the one before it numbers them.
    pub(super) fn begin(&mut self, in_use: impl Iterator<Item = Slot>) {
        self.before = std::mem::take(&mut self.real);
        let mut holds = Vec::new();
        self.used = 0;
        for slot in in_use {
            let real = self.of_before(slot) as usize;
            if holds.len() <= real {
                holds.resize(real + 1, false);
            }
            holds[real] = true;
            self.used += 1;
        }
        self.next = holds.len() as Slot;
        // The lowest come first.
        self.free = (0..self.next).rev().filter(|&slot| !holds[slot as usize]).collect();
    }

    /// Nothing of the scheme before is left.
    pub(super) fn end(&mut self) {
        self.before = Vec::new();
    }

    /// Slots that hold a block, of both schemes.
    pub(super) fn used(&self) -> u32 {
        self.used
    }

    /// The real slot of one of the scheme that decides.
    #[inline]
    pub(super) fn of(&self, slot: Slot) -> Slot {
        self.real[slot as usize]
    }

    /// The real slot of one of the scheme before.
    pub(super) fn of_before(&self, slot: Slot) -> Slot {
        if self.before.is_empty() { slot } else { self.before[slot as usize] }
    }

    /// A slot of the scheme that decides is this real one, which held the block before.
    pub(super) fn keep(&mut self, slot: Slot, real: Slot) {
        growth::extend_to(&mut self.real, slot, 0);
        self.real[slot as usize] = real;
    }

    /// Gives a slot of the scheme that decides a real one that holds nothing.
    pub(super) fn take(&mut self, slot: Slot) -> Slot {
        let real = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.used += 1;
        self.keep(slot, real);
        real
    }

    /// A real slot holds nothing from now on.
    pub(super) fn free(&mut self, real: Slot) {
        self.used -= 1;
        growth::push(&mut self.free, real);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let slots = self.real.capacity() + self.before.capacity() + self.free.capacity();
        slots * size_of::<Slot>()
    }
}
