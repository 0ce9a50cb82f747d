//! Page-aligned memory that is used again and again: runs of pages in a few sizes, carved from large chunks, because the
//! allocator spends up to a page on the alignment of each page. Chunks are huge pages once there are many runs of a size: a
//! copy to or from a frame then misses the processor's table of pages less often. Memory once taken from the system stays with
//! the process.
//!
//! Every thread has lists of free runs of its own. What a thread has too many of, and all that it has at its end, goes to a
//! list that all share.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::PAGE_BYTES;

/// Sizes of runs: one page and its doubles up to 256 KiB. Longer runs come from the allocator and go back to it.
const CLASSES: usize = 7;
/// Bytes that are moved between a thread and the shared lists at once.
const CHUNK_BYTES: usize = 1 << 20;
/// What is taken from the system for a class once it has many runs: a huge page of x86-64 and, usually, of ARM.
const HUGE_BYTES: usize = 2 << 20;
/// So much of a class comes in small pages, of which only those are in memory that were used. A huge page is there as a whole.
const SMALL_PAGES_BYTES: usize = 8 << 20;

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

/// What all threads share.
struct Shared {
    free: Lists,
    /// Bytes taken from the system, by class.
    taken_bytes: [usize; CLASSES],
}

static SHARED: Mutex<Shared> =
    Mutex::new(Shared { free: Lists([const { Vec::new() }; CLASSES]), taken_bytes: [0; CLASSES] });

/// Bytes in chunks.
static TAKEN_BYTES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LOCAL: RefCell<Lists> = RefCell::default();
}

/// Nothing panics while it is held, so that a poisoned lock is still good.
fn shared() -> MutexGuard<'static, Shared> {
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

/// Fresh memory of the system's, which is zero; its pages are in memory once they are used.
fn map(bytes: usize) -> NonNull<u8> {
    // SAFETY: the system chooses an address where nothing is.
    let first =
        unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
    let first = first.ok().and_then(|first| NonNull::new(first.cast()));
    first.unwrap_or_else(|| {
        handle_alloc_error(Layout::from_size_align(bytes, PAGE_BYTES).expect("a length in memory"))
    })
}

/// A huge page where the system has them (`transparent_hugepage`: `always` or `madvise`), else small ones.
fn map_huge() -> NonNull<u8> {
    let all = map(2 * HUGE_BYTES);
    let before = all.as_ptr().align_offset(HUGE_BYTES);
    // SAFETY: both are inside what was mapped, or at its end.
    let (first, end) = unsafe { (all.add(before), all.add(before + HUGE_BYTES)) };
    for (rest, bytes) in [(all, before), (end, HUGE_BYTES - before)] {
        if bytes > 0 {
            // SAFETY: nobody has a pointer into it. What cannot be given back is lost.
            let _ = unsafe { munmap(rest.as_ptr().cast(), bytes) };
        }
    }
    // SAFETY: advice about memory that is ours changes none of its bytes. Where it is refused, pages stay small.
    let _ = unsafe { madvise(first.as_ptr().cast(), HUGE_BYTES, Advice::LinuxHugepage) };
    first
}

impl Shared {
    /// A batch of runs, or fewer where some are free.
    fn take(&mut self, class: usize, to: &mut Vec<Free>) {
        let free = &mut self.free.0[class];
        if free.is_empty() {
            let taken_bytes = &mut self.taken_bytes[class];
            let (first, bytes) = if *taken_bytes < SMALL_PAGES_BYTES {
                (map(CHUNK_BYTES), CHUNK_BYTES)
            } else {
                (map_huge(), HUGE_BYTES)
            };
            *taken_bytes += bytes;
            TAKEN_BYTES.fetch_add(bytes, Ordering::Relaxed);
            // SAFETY: each offset is inside what was taken, which is never given back.
            let run = |i| Free(unsafe { first.add(i * (PAGE_BYTES << class)) });
            free.extend((0..bytes / (PAGE_BYTES << class)).rev().map(run));
        }
        let kept = free.len().saturating_sub(Lists::batch(class));
        to.extend(free.drain(kept..));
    }
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
        shared().take(class, &mut self.0[class]);
        self.0[class].pop().expect("there are some now")
    }

    fn give(&mut self, class: usize, free: Free) {
        let list = &mut self.0[class];
        list.push(free);
        if list.len() > 2 * Self::batch(class) {
            let kept = list.len() - Self::batch(class);
            shared().free.0[class].extend(list.drain(kept..));
        }
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        let mut shared = shared();
        for (list, shared) in self.0.iter_mut().zip(&mut shared.free.0) {
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
            shared().free.0[class].push(Free(first));
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
    fn a_class_with_many_runs_has_huge_pages_cut_without_a_rest() {
        let class = CLASSES - 1;
        let run_bytes = PAGE_BYTES << class;
        let runs: Vec<PageRun> =
            (0..(SMALL_PAGES_BYTES + 2 * HUGE_BYTES) / run_bytes).map(|_| PageRun::new(run_bytes)).collect();
        let mut firsts: Vec<usize> = runs.iter().map(|run| run.as_slice().as_ptr() as usize).collect();
        firsts.sort_unstable();
        assert!(firsts.windows(2).all(|pair| pair[1] - pair[0] >= run_bytes));
        let in_a_page =
            |first: &usize| firsts.iter().filter(|other| *other / HUGE_BYTES == first / HUGE_BYTES).count();
        let whole = firsts.iter().filter(|first| in_a_page(first) == HUGE_BYTES / run_bytes);
        assert!(whole.count() >= HUGE_BYTES / run_bytes, "a huge page is full");
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
