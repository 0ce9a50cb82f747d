//! Page-aligned memory that is used again and again: runs of pages in a few sizes, carved from large chunks, because the
//! allocator spends up to a page on the alignment of each page. Memory once taken from the system stays with the process.
//!
//! Every thread has lists of free runs of its own. What a thread has too many of, and all that it has at its end, goes to a
//! list that all share.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::PAGE_BYTES;

/// Sizes of runs: one page and its doubles up to 256 KiB. Longer runs come from the allocator and go back to it.
const CLASSES: usize = 7;
/// Bytes taken from the allocator at once, and moved between a thread and the shared lists at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Pages that belong to whoever holds this. Their bytes are whatever was there before; fresh ones are zero.
pub(crate) struct PageRun {
    first: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a run is the only owner of its memory, like a boxed slice.
unsafe impl Send for PageRun {}
// SAFETY: through a shared run its memory is only read.
unsafe impl Sync for PageRun {}

/// The first byte of a run that nobody uses.
struct Free(NonNull<u8>);

// SAFETY: nobody else has a pointer into a free run.
unsafe impl Send for Free {}

/// Free runs by class.
#[derive(Default)]
struct Lists([Vec<Free>; CLASSES]);

static SHARED: Mutex<Lists> = Mutex::new(Lists([const { Vec::new() }; CLASSES]));

/// Bytes in chunks.
static TAKEN_BYTES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LOCAL: RefCell<Lists> = RefCell::default();
}

/// Nothing panics while it is held, so that a poisoned lock is still good.
fn shared() -> MutexGuard<'static, Lists> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory that the process has taken from the system for buffers and frames of up to 256 KiB, used or not.
pub fn pool_bytes() -> usize {
    TAKEN_BYTES.load(Ordering::Relaxed)
}

/// The class of runs with room for so many bytes, if there is one.
fn class_of(bytes: usize) -> Option<usize> {
    let class = bytes.div_ceil(PAGE_BYTES).next_power_of_two().trailing_zeros() as usize;
    (class < CLASSES).then_some(class)
}

/// Whole pages of zeroes from the allocator.
fn allocate(bytes: usize) -> NonNull<u8> {
    let layout = Layout::from_size_align(bytes, PAGE_BYTES).expect("a length in memory");
    // SAFETY: the size is not zero: callers ask for at least a page.
    NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

impl Lists {
    /// Runs of a class in a chunk.
    const fn batch(class: usize) -> usize {
        CHUNK_BYTES / (PAGE_BYTES << class)
    }

    fn take(&mut self, class: usize) -> Free {
        if let Some(free) = self.0[class].pop() {
            return free;
        }
        let shared = &mut shared().0[class];
        let kept = shared.len().saturating_sub(Self::batch(class));
        self.0[class].extend(shared.drain(kept..));
        if self.0[class].is_empty() {
            let chunk = allocate(CHUNK_BYTES);
            TAKEN_BYTES.fetch_add(CHUNK_BYTES, Ordering::Relaxed);
            // SAFETY: each offset is inside the chunk, which is never given back.
            let run = |i| Free(unsafe { chunk.add(i * (PAGE_BYTES << class)) });
            self.0[class].extend((0..Self::batch(class)).rev().map(run));
        }
        self.0[class].pop().expect("there are some now")
    }

    fn give(&mut self, class: usize, free: Free) {
        let list = &mut self.0[class];
        list.push(free);
        if list.len() > 2 * Self::batch(class) {
            let kept = list.len() - Self::batch(class);
            shared().0[class].extend(list.drain(kept..));
        }
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        let mut shared = shared();
        for (list, shared) in self.0.iter_mut().zip(&mut shared.0) {
            shared.append(list);
        }
    }
}

impl PageRun {
    /// A run with room for at least so many bytes.
    pub(crate) fn new(bytes: usize) -> PageRun {
        let Some(class) = class_of(bytes) else {
            let bytes = bytes.next_multiple_of(PAGE_BYTES);
            return PageRun { first: allocate(bytes), bytes };
        };
        // At the end of a thread its lists are gone.
        let local = LOCAL.try_with(|local| local.borrow_mut().take(class));
        let Free(first) = local.unwrap_or_else(|_| Lists::default().take(class));
        PageRun { first, bytes: PAGE_BYTES << class }
    }

    /// All its bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: the run owns so many bytes, initialised when they were allocated.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.bytes) }
    }

    /// All its bytes, to write to.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has the run.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.bytes) }
    }
}

impl Drop for PageRun {
    fn drop(&mut self) {
        let Some(class) = class_of(self.bytes) else {
            let layout = Layout::from_size_align(self.bytes, PAGE_BYTES).expect("it was allocated with it");
            // SAFETY: it came from the allocator with this layout, and nobody else has it.
            unsafe { dealloc(self.first.as_ptr(), layout) };
            return;
        };
        let first = self.first;
        if LOCAL.try_with(|local| local.borrow_mut().give(class, Free(first))).is_err() {
            shared().0[class].push(Free(first));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_as_it_was() {
        let mut run = PageRun::new(8192);
        run.as_mut_slice().fill(7);
        let first = run.as_slice().as_ptr();
        drop(run);
        let again = PageRun::new(5000);
        assert_eq!(again.as_slice().as_ptr(), first);
        assert_eq!(again.as_slice(), [7; 8192]);
    }

    #[test]
    fn many_runs_given_back_at_once_are_shared() {
        let runs: Vec<PageRun> = (0..4 * Lists::batch(0)).map(|_| PageRun::new(1)).collect();
        let used: std::collections::HashSet<_> =
            runs.iter().map(|run| run.as_slice().as_ptr() as usize).collect();
        assert_eq!(used.len(), runs.len());
        let runs_bytes = runs.len() * PAGE_BYTES;
        drop(runs);
        assert!(pool_bytes() >= runs_bytes);
        assert!(LOCAL.with(|local| local.borrow().0[0].len()) <= 2 * Lists::batch(0));
    }
}
