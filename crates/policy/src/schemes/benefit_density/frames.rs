//! The blocks of one level, in any order, so that chance can choose among them, each with what tells how much it is worth: a sample
//! is looked at here, in a quarter of a cache line for each block.
//!
//! It must not know what blocks are worth.

use lode_types::prefetch::{prefetch_slice, prefetch_within};

use crate::effect::Slot;
use crate::parts::growth;
use crate::parts::ssd_level::Id;

/// In [`Aged::form`]: the class of the run in which the block came last.
const RUN: u8 = 15;
/// Both levels have the block.
const DOUBLE: u8 = 16;
/// A neighbour may have been accessed at about the same turn.
const COMPANY: u8 = 32;
/// Numbers that [`Aged::form`] has without the last of these.
pub(super) const FORMS: usize = 32;

/// What tells how much a block is worth.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Aged {
    /// When it was accessed last: the low bits of the clock.
    pub(super) last: u32,
    pub(super) class: u8,
    form: u8,
}

impl Aged {
    /// A block that one level has at most.
    pub(super) fn new(last: u32) -> Aged {
        Aged { last, class: 0, form: 0 }
    }

    #[inline(always)]
    pub(super) fn run(self) -> u8 {
        self.form & RUN
    }

    #[inline(always)]
    pub(super) fn is_double(self) -> bool {
        self.form & DOUBLE != 0
    }

    #[inline(always)]
    pub(super) fn has_company(self) -> bool {
        self.form & COMPANY != 0
    }

    /// Its run, and whether both levels have it: a place in a table of [`FORMS`].
    #[inline(always)]
    pub(super) fn form(self) -> usize {
        usize::from(self.form) % FORMS
    }

    #[inline(always)]
    pub(super) fn accessed(self, clock: u32) -> Aged {
        Aged { last: clock, ..self }
    }

    /// With the class that it has in this run.
    #[inline(always)]
    pub(super) fn with_run(self, run: u8, class: u8) -> Aged {
        Aged { form: self.form & !RUN | run, class, ..self }
    }

    #[inline(always)]
    pub(super) fn with_double(self, is_double: bool) -> Aged {
        Aged { form: self.form & !DOUBLE | (u8::from(is_double) * DOUBLE), ..self }
    }

    #[inline(always)]
    pub(super) fn with_company(self, has_company: bool) -> Aged {
        Aged { form: self.form & !COMPANY | (u8::from(has_company) * COMPANY), ..self }
    }
}

/// By [`Aged::form`]: by the class of the run, and whether both levels have the block.
pub(super) fn by_form(value: impl Fn(u8, bool) -> f64) -> [f64; FORMS] {
    std::array::from_fn(|form| value(form as u8 & RUN, form as u8 & DOUBLE != 0))
}

/// A block in a slot.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub(super) struct Frame {
    pub(super) id: Id,
    pub(super) slot: Slot,
    pub(super) aged: Aged,
}

/// The blocks of a level.
#[derive(Debug, Default)]
pub(super) struct Frames {
    used: Vec<Frame>,
    free: Vec<Slot>,
    next: Slot,
    pub(super) capacity: u32,
}

impl Frames {
    /// Blocks that there are.
    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        self.used.len() as u32
    }

    /// All of them, by their numbers.
    #[inline(always)]
    pub(super) fn used(&self) -> &[Frame] {
        &self.used
    }

    /// Says so of the block of that number, if there is one.
    #[inline(always)]
    pub(super) fn set_aged(&mut self, at: u32, aged: Aged) {
        if let Some(frame) = self.used.get_mut(at as usize) {
            frame.aged = aged;
        }
    }

    /// Fetches a block, by its number.
    #[inline(always)]
    pub(super) fn prefetch(&self, at: u32) {
        prefetch_within(&self.used, at as usize);
    }

    /// The same where there may be none of that number.
    #[inline(always)]
    pub(super) fn prefetch_any(&self, at: u32) {
        prefetch_slice(&self.used, at as usize);
    }

    /// Puts a block into a slot that is free: says its number and the slot.
    pub(super) fn put(&mut self, id: Id, aged: Aged) -> (u32, Slot) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        let at = self.len();
        growth::push(&mut self.used, Frame { id, slot, aged });
        (at, slot)
    }

    /// Takes a block out by its number: says the slot, and which block has that number now, if any has.
    pub(super) fn take(&mut self, at: u32) -> (Slot, Option<Id>) {
        let Frame { slot, .. } = self.used.swap_remove(at as usize);
        growth::push(&mut self.free, slot);
        (slot, self.used.get(at as usize).map(|frame| frame.id))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.used.capacity() * size_of::<Frame>() + self.free.capacity() * size_of::<Slot>()
    }
}
