//! Processors, shared in slices of time: who comes from a wait goes first, as sleepers do in Linux; who used up a slice
//! goes behind. It must not know what processes do.

use std::collections::VecDeque;

use lode_policy::criticality::ProcessId;

/// Processors and who wants one.
#[derive(Debug)]
pub(crate) struct Processors {
    /// `u32::MAX`: never short.
    free: u32,
    slice_ns: u64,
    woken: VecDeque<(ProcessId, u64)>,
    preempted: VecDeque<(ProcessId, u64)>,
}

/// A process uses a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub process: ProcessId,
    pub ns: u64,
    /// What it wants afterwards.
    pub left_ns: u64,
}

impl Processors {
    /// `count` 0: as many as are wanted.
    pub fn new(count: u32, slice_ns: u64) -> Processors {
        let (free, slice_ns) = if count == 0 { (u32::MAX, u64::MAX) } else { (count, slice_ns.max(1)) };
        Processors { free, slice_ns, woken: VecDeque::new(), preempted: VecDeque::new() }
    }

    /// The process wants a processor for so long.
    pub fn want(&mut self, process: ProcessId, ns: u64) {
        self.woken.push_back((process, ns));
    }

    /// The next one to run, if a processor is free.
    pub fn start(&mut self) -> Option<Slice> {
        if self.free == 0 {
            return None;
        }
        let (process, wanted_ns) = self.woken.pop_front().or_else(|| self.preempted.pop_front())?;
        self.free -= 1;
        let ns = wanted_ns.min(self.slice_ns);
        Some(Slice { process, ns, left_ns: wanted_ns - ns })
    }

    /// A slice is over. True: the process has all that it wanted.
    pub fn end(&mut self, process: ProcessId, left_ns: u64) -> bool {
        self.free += 1;
        if left_ns > 0 {
            self.preempted.push_back((process, left_ns));
        }
        left_ns == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_go_round_and_who_was_woken_goes_first() {
        let mut processors = Processors::new(1, 10);
        processors.want(0, 25);
        processors.want(1, 15);
        let slice = |process, ns, left_ns| Some(Slice { process, ns, left_ns });
        assert_eq!(processors.start(), slice(0, 10, 15));
        assert_eq!(processors.start(), None, "there is one");
        assert!(!processors.end(0, 15));
        assert_eq!(processors.start(), slice(1, 10, 5));
        processors.want(2, 5);
        assert!(!processors.end(1, 5));
        assert_eq!(processors.start(), slice(2, 5, 0));
        assert!(processors.end(2, 0));
        assert_eq!(processors.start(), slice(0, 10, 5));
    }

    #[test]
    fn without_a_number_nobody_waits() {
        let mut processors = Processors::new(0, 10);
        (0..100).for_each(|process| processors.want(process, 1000));
        assert_eq!(std::iter::from_fn(|| processors.start()).filter(|slice| slice.left_ns == 0).count(), 100);
    }
}
