//! Questions of a VM's clients for the backing file: which of these bytes are allocated. Each may take many system calls, on
//! threads that all VMs of a shard share, so that one VM has one under way at a time. It must not know who asks.

use std::collections::VecDeque;
use std::ops::Range;

/// A question for the backing file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lookup {
    /// Whoever asks.
    pub key: u64,
    pub bytes: Range<u64>,
}

/// A VM's questions, in order.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    waiting: VecDeque<Lookup>,
    is_one_under_way: bool,
}

impl Lookups {
    pub(crate) fn push(&mut self, lookup: Lookup) {
        self.waiting.push_back(lookup);
    }

    /// The next question, once the one before is answered.
    pub(crate) fn next(&mut self) -> Option<Lookup> {
        let lookup = if self.is_one_under_way { None } else { self.waiting.pop_front() };
        self.is_one_under_way |= lookup.is_some();
        lookup
    }

    /// The question under way is answered.
    pub(crate) fn ended(&mut self) {
        self.is_one_under_way = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_after_the_other_is_asked() {
        let mut lookups = Lookups::default();
        let lookup = |key| Lookup { key, bytes: 0..1 };
        (0..3).for_each(|key| lookups.push(lookup(key)));
        for key in 0..3 {
            assert_eq!(lookups.next(), Some(lookup(key)));
            assert_eq!(lookups.next(), None, "one is under way");
            lookups.ended();
        }
        assert_eq!(lookups.next(), None);
    }
}
